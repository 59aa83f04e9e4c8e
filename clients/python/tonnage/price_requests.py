"""From keyword arguments to request messages, for questions about prices."""

from tonnage.errors import InvalidRequest, Violation
from tonnage.requests import _message
from tonnage.v1.catalogue_service_pb2 import ListPricesRequest
from tonnage.v1.price_pb2 import Price


def list_prices(
    *,
    node_type: str | None = None,
    accelerator: str | None = None,
    term: str | None = None,
    region: str | None = None,
    page_size: int | None = None,
) -> ListPricesRequest:
    """Asks for published prices per hour, in the order of what they are of.

    Args:
        node_type: Only prices of this node type, by name or alias.
        accelerator: Only prices of this accelerator and of nodes that hold it, by name or alias.
        term: "on_demand", "spot", "one_year" or "three_years": only prices for it.
        region: Only prices in this region, by the provider's name for it.
        page_size: Entries per call. Default 50, at most 500.
    """
    return _message(
        ListPricesRequest,
        node_type=node_type,
        accelerator=accelerator,
        term=None if term is None else _term(term),
        region=region,
        page_size=page_size,
    )


def _term(name: str) -> Price.Term.ValueType:
    try:
        return Price.Term.Value(name.upper().replace("-", "_"))
    except ValueError:
        known = ", ".join(value.lower() for value in Price.Term.keys()[1:])
        raise InvalidRequest.of(Violation("term", f"{name!r} is none of {known}")) from None
