"""Prices of one's own on the command line: ``--price h100-sxm=2.45``."""

import math
from functools import partial
from typing import TypeVar

import click
import grpc
from click.shell_completion import CompletionItem

from tonnage.cli import names
from tonnage.cli.session import Session
from tonnage.client import Client
from tonnage.errors import NotFound
from tonnage.v1.fleet_service_pb2 import CompareAcceleratorsRequest, PlanFleetRequest
from tonnage.v1.price_pb2 import Price

_PricedT = TypeVar("_PricedT", PlanFleetRequest, CompareAcceleratorsRequest)
#: What the service takes where a request names no currency.
_CURRENCY = "USD"
_SOURCE = "given with --price"


def _proposed(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    return [name for kind in (names.ACCELERATORS, names.NODE_TYPES) for name in names.of(kind)(context, parameter, typed)]


option = click.option(
    "--price",
    "priced",
    multiple=True,
    metavar="NAME=AMOUNT",
    shell_complete=_proposed,
    help="Your price per hour, before the catalogue's: of an accelerator per device, of a node type per node.",
)


def lay_in(request: _PricedT, given: tuple[str, ...], session: Session) -> _PricedT:
    """The request with these prices, in its currency and for its term, in place of those that it lists of the same names.

    Asks the service what each name is. A UsageError for what is no NAME=AMOUNT; ends the program for a name that is unknown.
    """
    if not given:
        return request
    amounts = [_parted(each) for each in given]
    currency, term = request.currency or _CURRENCY, request.term or Price.ON_DEMAND
    prices: dict[str, Price] = {}
    for name, amount in amounts:
        price = session.ask(partial(_of, name=name))
        price.MergeFrom(Price(amount_per_hour=amount, currency=currency, term=term, source=_SOURCE))
        if prices.setdefault(price.node_type or price.accelerator, price) is not price:
            raise click.UsageError(f"--price gives {price.node_type or price.accelerator} twice: give it once")
    others: list[Price] = [each for each in request.price_list.prices if (each.node_type or each.accelerator) not in prices]
    del request.price_list.prices[:]
    request.price_list.prices.extend([*others, *prices.values()])
    return request


def _parted(given: str) -> tuple[str, float]:
    name, _, figure = given.rpartition("=")
    try:
        amount = float(figure)
    except ValueError:
        amount = math.nan
    if not name.strip() or not 0 < amount < math.inf:
        raise click.UsageError(
            f"--price {given}: give NAME=AMOUNT, the amount above zero, without a currency and with a decimal point, such as "
            "h100-sxm=2.45"
        )
    return name.strip(), amount


def _of(client: Client, name: str) -> Price:
    """A price of the accelerator or node type of that name, under its first name."""
    try:
        return Price(accelerator=client.get_accelerator(name).accelerator.name)
    except NotFound as of_accelerators:
        nearest = of_accelerators.nearest
    try:
        return Price(node_type=client.get_node_type(name).node_type.name)
    except NotFound as of_nodes:
        near = ", ".join((*nearest, *of_nodes.nearest))
        hint = f"; the nearest are {near}" if near else ""
        raise NotFound(
            f"--price {name}: the catalogue has no accelerator and no node type of that name{hint}\n"
            "  → `tonnage accelerators` and `tonnage nodes` list the names",
            grpc.StatusCode.NOT_FOUND,
        ) from None
