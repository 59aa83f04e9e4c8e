"""``tonnage nodes``: the node types of the catalogue, or one of them."""

import click
from rich.console import Console
from rich.text import Text

from tonnage.cli import catalogue, figures, layout, names, options
from tonnage.cli.session import Session
from tonnage.v1.catalogue_service_pb2 import GetNodeTypeResponse, ListNodeTypesRequest, ListNodeTypesResponse, NodeType


@click.command(epilog=options.examples("tonnage nodes", "tonnage nodes show dgx-h100"))
@catalogue.with_name(names.NODE_TYPES)
@options.with_tabular_session
def nodes(name: str | None, session: Session) -> None:
    """List node types, or show one."""
    if name is None:
        session.show(session.ask(lambda client: catalogue.whole(client.list_node_types())), _list, ListNodeTypesRequest())
    else:
        session.show(session.ask(lambda client: client.get_node_type(name)), _sheet)


def _list(console: Console, answer: ListNodeTypesResponse) -> None:
    drawn = layout.table("name", "provider", "devices", "accelerator", "vCPUs", "memory", "network", right=[2, 4, 5, 6])
    for entry in answer.node_types:
        drawn.add_row(
            entry.name,
            entry.provider,
            str(entry.num_devices),
            entry.accelerator,
            str(entry.num_vcpus) if entry.HasField("num_vcpus") else "",
            figures.brief(entry.memory) if entry.HasField("memory") else "",
            figures.brief(entry.network_bandwidth_one_way) if entry.HasField("network_bandwidth_one_way") else "",
        )
    console.print(drawn)
    console.print()
    layout.footing(console, (), answer.catalogue_revision)


def _sheet(console: Console, answer: GetNodeTypeResponse) -> None:
    entry = answer.node_type
    layout.title(console, entry.title, entry.name)
    vcpus = f"{entry.num_vcpus} vCPUs" if entry.HasField("num_vcpus") else ""
    told = (entry.provider, f"{entry.num_devices} × {entry.accelerator}", vcpus)
    console.print(" · ".join(part for part in told if part))
    if entry.aliases:
        console.print(Text(f"also: {', '.join(entry.aliases)}", style=layout.QUIET))
    console.print()
    figures.sheet(console, _figures(entry))
    layout.sentences(console, "Notes", entry.notes)
    layout.footing(console, (), answer.catalogue_revision)


def _figures(entry: NodeType) -> list[figures.NamedFigure]:
    told = []
    if entry.HasField("memory"):
        told.append(("host memory", entry.memory))
    if entry.HasField("network_bandwidth_one_way"):
        told.append(("network, one way", entry.network_bandwidth_one_way))
    return told
