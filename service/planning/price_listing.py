"""The catalogue's prices as they are listed, and the request that asks for them."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct

from service.catalogue import entries
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import accelerator as find_accelerator
from service.catalogue.lookup import node_type as find_node_type
from service.catalogue.prices import PublishedPrice, PublishedPrices
from service.planning.errors import NotFound
from service.planning.listing import page_of
from service.planning.money import Price, PriceBasis, PriceTerm
from service.planning.requests import Page


class ListPricesRequest(Struct, frozen=True):
    """Which prices, and which part of them. What is empty or None restricts nothing."""

    page_size: int | None = None
    page_token: str = ""
    node_type: str = ""
    accelerator: str = ""
    term: PriceTerm | None = None
    region: str = ""


class ListPricesResponse(Struct, frozen=True):
    """A page of prices."""

    prices: tuple[Price, ...]
    next_page_token: str
    catalogue_revision: str


def list_prices(catalogue: entries.Catalogue, request: ListPricesRequest) -> ListPricesResponse:
    """A page of the catalogue's prices in the order of what they are of. Raises NotFound for a name that nothing has."""
    node_type = _name("node type", request.node_type, catalogue)
    accelerator = _name("accelerator", request.accelerator, catalogue)

    def is_asked(price: Price) -> bool:
        return (
            (not node_type or price.node_type == node_type)
            and (not accelerator or price.accelerator == accelerator)
            and (request.term is None or price.term is request.term)
            and (not request.region or price.region.casefold() == request.region.casefold())
        )

    asked = {key: price for key, price in published_prices(catalogue).items() if is_asked(price)}
    prices, token = page_of(asked, Page(request.page_size, request.page_token))
    return ListPricesResponse(prices, token, catalogue.revision)


def _name(kind: str, name: str, catalogue: entries.Catalogue) -> str:
    if not name:
        return ""
    find = find_node_type if kind == "node type" else find_accelerator
    try:
        return find(catalogue, name).name
    except UnknownName as unknown:
        raise NotFound(kind.replace(" ", "_"), kind, name, unknown.nearest) from None


@lru_cache(maxsize=4)
def published_prices(catalogue: entries.Catalogue) -> Mapping[str, Price]:
    """Every price of the catalogue, under a key that sorts by what it is of; a node's names its accelerator as well."""
    found: dict[str, Price] = {}
    for many in catalogue.prices.values():
        for each in many.prices:
            key = "/".join((each.node_type or each.accelerator or "", each.term, each.region or "", many.name))
            found[key] = _price(each, many, catalogue)
    return MappingProxyType(dict(sorted(found.items())))


def _price(each: PublishedPrice, many: PublishedPrices, catalogue: entries.Catalogue) -> Price:
    figure = each.amount_per_hour
    node = catalogue.node_types[each.node_type] if each.node_type else None
    return Price(
        amount_per_hour=figure.value,
        currency=many.currency,
        node_type=each.node_type or "",
        accelerator=node.accelerator if node else each.accelerator or "",
        basis=PriceBasis.PER_NODE if node else PriceBasis.PER_DEVICE,
        term=PriceTerm[each.term.name],
        region=each.region or "",
        date=each.date or "",
        provider=many.provider,
        source=", ".join(catalogue.sources[source].title for source in figure.sources),
        source_url=next((url for source in figure.sources if (url := catalogue.sources[source].url)), ""),
        note=_note(many.notes, figure.note, many.undated),
        num_devices=node.num_devices if node else None,
    )


def _note(*parts: str | Iterable[str] | None) -> str:
    texts = [text for part in parts if part for text in ([part] if isinstance(part, str) else part)]
    return "; ".join(text.rstrip(".") for text in texts)
