"""``tonnage prices``: what providers ask for nodes and devices per hour."""

import click
from rich.console import Console
from rich.table import Table

from tonnage.cli import catalogue, layout, names, options
from tonnage.cli.quantities import significant
from tonnage.cli.session import Session
from tonnage.client import Client
from tonnage.v1.catalogue_service_pb2 import ListPricesRequest, ListPricesResponse
from tonnage.v1.price_pb2 import Price

_TERMS = {number: name.lower().replace("_", "-") for name, number in Price.Term.items() if number}


@click.command(
    epilog=options.examples("tonnage prices", "tonnage prices --accelerator h100-sxm --term spot", "tonnage prices p5.48xlarge")
)
@click.argument("node_type", required=False, metavar="[NODE]", shell_complete=names.of(names.NODE_TYPES))
@names.option(names.ACCELERATORS, "--accelerator", help="Only prices of this accelerator and of nodes that hold it.")
@click.option("--term", type=click.Choice(sorted(_TERMS.values())), help="Only prices for this term.")
@click.option("--region", metavar="NAME", help="Only prices in this region.")
@options.with_tabular_session
def prices(node_type: str | None, accelerator: str | None, term: str | None, region: str | None, session: Session) -> None:
    """List published prices per hour, with their date and source."""

    def question(client: Client) -> tuple[ListPricesRequest, ListPricesResponse]:
        pager = client.list_prices(node_type=node_type, accelerator=accelerator, term=term, region=region)
        return pager.request, catalogue.whole(pager)

    request, answer = session.ask(question)
    session.show(answer, _list, request)


def _list(console: Console, answer: ListPricesResponse) -> None:
    heads = ("node or device", "devices", "per node-hour", "per device-hour", "term", "region", "date", "source")
    drawn = layout.table(*heads, right=[1, 2, 3])
    sources: dict[str, int] = {}
    for price in answer.prices:
        number = sources.setdefault(f"{price.source}{f': {price.note}' if price.note else ''}", len(sources) + 1)
        drawn.add_row(
            price.node_type or price.accelerator,
            str(price.num_devices) if price.HasField("num_devices") else "",
            _amount(price.amount_per_hour, price.currency) if price.basis == Price.PER_NODE else "",
            _amount(price.amount_per_hour / max(price.num_devices, 1), price.currency),
            _TERMS.get(price.term, ""),
            price.region,
            price.date or "not known",
            f"[{number}]",
        )
    console.print(drawn)
    console.print()
    listed = Table.grid(padding=(0, 1))
    for text, number in sources.items():
        listed.add_row(f"[{number}]", text)
    if sources:
        layout.section(console, "Sources", listed)
    layout.footing(console, (), answer.catalogue_revision)


def _amount(value: float, currency: str) -> str:
    """An amount of money to the cent, or finer where it is small."""
    return f"{value:,.2f} {currency}" if value >= 1 else f"{significant(value)} {currency}"
