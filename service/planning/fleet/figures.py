"""The figures that a fleet or a comparison rests on besides those of the device: prices, purchases, power, the demand."""

from collections.abc import Iterator

from service.catalogue.entries import Catalogue
from service.planning.device import used_figure
from service.planning.money import Price
from service.planning.purchase import Power, PurchaseModel
from service.planning.results import UsedFigure

_CALLER = "caller"


def price_figure(price: Price) -> UsedFigure:
    """A price as it is printed, with whose it is, its date and where it can be read."""
    of = price.node_type or price.accelerator
    basis = _CALLER if price.is_own else "list price"
    sources = tuple(text for text in (price.source, price.source_url) if text)
    day = f"of {price.date}" if price.date else "without a date"
    note = "; ".join(text for text in (f"{price.provider} {of}".strip(), day, price.note) if text)
    return UsedFigure("price_per_hour", price.amount_per_hour, f"{price.currency}/h", basis, sources, note)


def purchase_figure(bought: PurchaseModel) -> UsedFigure:
    """What a node was bought at."""
    sources = (bought.source,) if bought.source else ()
    return UsedFigure("purchase_price", bought.purchase_price, bought.currency, _CALLER, sources, bought.date)


def device_power_figures(catalogue: Catalogue, accelerator: str, power: Power) -> Iterator[UsedFigure]:
    """The most that an accelerator of the catalogue draws, where that is known; or what the caller's nodes draw."""
    most = catalogue.accelerators[accelerator].max_power
    if power.watts_per_node is not None:
        yield UsedFigure("watts_per_node", power.watts_per_node, "W", _CALLER)
    elif most is not None:
        yield used_figure("max_watts_per_device", most, catalogue)


def node_power_figures(catalogue: Catalogue, node_type: str, power: Power) -> Iterator[UsedFigure]:
    """What a node draws at most: the caller's figure, the catalogue's, or that of its accelerators."""
    node = catalogue.node_types[node_type]
    if power.watts_per_node is None and node.max_power is not None:
        yield used_figure("watts_per_node", node.max_power, catalogue)
    else:
        yield from device_power_figures(catalogue, node.accelerator, power)
