"""What a node or a device costs per hour: the caller's own price before the catalogue's, or a clear word that there is none.

For a node the order is: the caller's price of that node type; the caller's price of one of its devices, times the devices; the
catalogue's price of that node type; the catalogue's price of one of its devices, where the same provider asks it. The first
of these that holds for the term asked for, in the region asked for, is taken, and of several the newest. A price in another
region or for another term is no substitute: it is told as what is known instead.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from service.catalogue import entries
from service.catalogue.lookup import UnknownName, nearest_names
from service.catalogue.lookup import accelerator as find_accelerator
from service.catalogue.lookup import node_type as find_node_type
from service.formulas.cost import converted_amount, price_per_device_hour, price_per_node_hour
from service.planning.errors import InvalidRequest, NotFound, Violation
from service.planning.explain import Apply, plainly
from service.planning.money import Exchange, Price, PriceBasis, PriceList, PriceTerm, UnreadPrice
from service.planning.price_choice import (
    NoPrice,
    Offer,
    Quote,
    Wanted,
    no_price,
    own_offer,
    published_offer,
    refuse_several_currencies,
)
from service.planning.price_documents import read_price_list
from service.planning.price_listing import published_prices

_MAX_HINTS: Final = 20


class PriceBook:
    """The prices of the catalogue and those of one caller. ``unread`` are the rows of the caller's list that gave none."""

    def __init__(self, catalogue: entries.Catalogue, own: PriceList | None = None, field: str = "price_list") -> None:
        """Reads the caller's list, which stands in ``field`` of the request. Raises InvalidRequest where it is malformed."""
        own = own or PriceList()
        self.catalogue = catalogue
        self.exchange = Exchange(own.exchange_rates, f"{field}.exchange_rates")
        self._field = field
        self._published = tuple(published_prices(catalogue).values())
        self._devices = {**catalogue.accelerators_by_label, **catalogue.accelerator_names}
        self._hints: dict[str, str] = {}
        rows = read_price_list(own, field)
        self._own: list[Price] = []
        self._unknown_on_top: list[str] = []  # labels of devices that are priced on top of their nodes, and lead nowhere
        unread = list(rows.unread)
        for row in rows.prices:
            known = self._known(row.price)
            if isinstance(known, Price):
                self._own.append(known)
                continue
            name = row.price.node_type or row.price.accelerator
            unread.append(UnreadPrice(row.place, name, known))
            if row.price.basis is PriceBasis.PER_DEVICE_ON_TOP:
                self._unknown_on_top.append(name)
        self.unread: tuple[UnreadPrice, ...] = tuple(unread)

    def node_price(
        self,
        node_type: str,
        *,
        term: PriceTerm = PriceTerm.ON_DEMAND,
        region: str = "",
        currency: str = "",
        apply: Apply = plainly,
    ) -> Quote | NoPrice:
        """What a node of the type costs per hour; ``region`` and ``currency`` may be left open.

        Raises NotFound for a node type that the catalogue does not know, InvalidRequest where a rate of exchange is missing or
        the caller's own prices of the same thing are in several currencies.
        """
        try:
            node = find_node_type(self.catalogue, node_type)
        except UnknownName as unknown:
            raise NotFound("node_type", "node type", node_type, unknown.nearest) from None
        wanted = Wanted(term, region, currency)
        found = (
            self._own_node(node, wanted, apply)
            or self._own_device(node.accelerator, wanted)
            or self._published_node(node, wanted)
            or self._published_device(node.accelerator, node.provider, wanted)
            or self._no_price_of_node(node, wanted)
        )
        return found if isinstance(found, NoPrice) else self._quote(found, wanted, node.num_devices, apply)

    def device_price(
        self,
        accelerator: str,
        *,
        term: PriceTerm = PriceTerm.ON_DEMAND,
        region: str = "",
        currency: str = "",
        apply: Apply = plainly,
    ) -> Quote | NoPrice:
        """What a device costs per hour, with its part of the host; ``region`` and ``currency`` may be left open.

        It is the caller's price of the device, or else the lowest per device among the caller's prices of nodes that hold it,
        or else the lowest that anybody publishes, the newest price of each counted; the notes then tell the highest as well.
        Raises as ``node_price`` does, and InvalidRequest where several currencies would have to be compared without a rate.
        """
        try:
            name = find_accelerator(self.catalogue, accelerator).name
        except UnknownName as unknown:
            raise NotFound("accelerator", "accelerator", accelerator, unknown.nearest) from None
        wanted = Wanted(term, region, currency)
        own = self._own_device(name, wanted)
        if own is not None:
            return self._quote(own, wanted, None, apply)
        nodes = [node for node in self.catalogue.node_types.values() if node.accelerator == name]
        mine = [self._own_node(node, wanted, plainly) for node in nodes]
        offers = [each for each in mine if isinstance(each, Offer)]
        refusals = [each for each in mine if isinstance(each, NoPrice)]
        if not offers and not refusals:
            providers = sorted({each.provider for each in self._published})
            public = [self._published_node(node, wanted) for node in nodes]
            public += [self._published_device(name, provider, wanted) for provider in providers]
            offers = [each for each in public if each is not None]
        if offers:
            return self._lowest(offers, wanted, apply)
        known = [each for each in (*self._own, *self._published) if each.accelerator == name]
        return refusals[0] if refusals else no_price(name, wanted, known)

    # -- the caller's own ---------------------------------------------------------------------------------------------

    def _known(self, price: Price) -> Price | str:
        """The price under the catalogue's names, or why it is of nothing known."""
        catalogue, devices = self.catalogue, self._devices
        if not price.node_type:
            name = devices.get(price.accelerator.casefold())
            return replace(price, accelerator=name) if name else self._unknown("accelerator", price.accelerator, devices)
        name = catalogue.node_type_names.get(price.node_type.casefold())
        if name is None:
            return self._unknown("node type", price.node_type, catalogue.node_type_names)
        held = catalogue.node_types[name].accelerator
        if price.accelerator and devices.get(price.accelerator.casefold()) != held:
            return f"it is said to hold {price.accelerator}, and {name} holds {held}"
        return replace(price, node_type=name, accelerator=held)

    def _unknown(self, kind: str, name: str, names: Mapping[str, str]) -> str:
        """That a name is unknown, with the nearest for the first few: comparing takes milliseconds, and a file may be long."""
        if name not in self._hints and len(self._hints) < _MAX_HINTS:
            nearest = nearest_names(name, names)
            self._hints[name] = f"; the nearest are {', '.join(nearest)}" if nearest else ""
        return f"the catalogue has no {kind} of that name{self._hints.get(name, '')}"

    def _own_node(self, node: entries.NodeType, wanted: Wanted, apply: Apply) -> Offer | NoPrice | None:
        offer = own_offer((each for each in self._own if each.node_type == node.name), wanted, self._field)
        if offer is None:
            return None
        on_top = own_offer(self._own_of(node.accelerator, PriceBasis.PER_DEVICE_ON_TOP), wanted, self._field)
        if on_top is not None:
            offer = self._with_devices(offer, on_top, node, apply)
        elif self._unknown_on_top:
            labels = ", ".join(self._unknown_on_top[:3])
            reason = f"devices are priced on top of their nodes, by labels that lead to no accelerator ({labels})"
            remedy = f"price {node.accelerator} there by its name or product label, or leave other devices out"
            return NoPrice(node.name, reason, remedy, (offer.price,))
        if offer.price.amount_per_hour <= 0:
            return NoPrice(node.name, "its price in the list is zero", "give what it costs", (offer.price,))
        return offer

    def _with_devices(self, offer: Offer, on_top: Offer, node: entries.NodeType, apply: Apply) -> Offer:
        refuse_several_currencies((offer.price, on_top.price), self._field)
        each = on_top.price.amount_per_hour
        devices = apply(price_per_node_hour, price_per_device_hour=each, num_devices=node.num_devices)
        note = f"the node alone at {offer.price.amount_per_hour:g}, and {node.num_devices} devices at {each:g} on top"
        price = replace(offer.price, amount_per_hour=offer.price.amount_per_hour + devices)
        return Offer(price, is_own=True, notes=(*offer.notes, *on_top.notes, note))

    def _own_device(self, accelerator: str, wanted: Wanted) -> Offer | None:
        return own_offer(self._own_of(accelerator, PriceBasis.PER_DEVICE), wanted, self._field)

    def _own_of(self, accelerator: str, basis: PriceBasis) -> Iterable[Price]:
        return (each for each in self._own if each.basis is basis and each.accelerator == accelerator)

    # -- the catalogue's ----------------------------------------------------------------------------------------------

    def _published_node(self, node: entries.NodeType, wanted: Wanted) -> Offer | None:
        return published_offer((each for each in self._published if each.node_type == node.name), wanted)

    def _published_device(self, accelerator: str, provider: str, wanted: Wanted) -> Offer | None:
        of_device = (each for each in self._published if each.basis is PriceBasis.PER_DEVICE and each.provider == provider)
        return published_offer((each for each in of_device if each.accelerator == accelerator), wanted)

    def _no_price_of_node(self, node: entries.NodeType, wanted: Wanted) -> NoPrice:
        known = [each for each in (*self._own, *self._published) if each.node_type == node.name]
        told = no_price(node.name, wanted, known)
        unpriced = (each for many in self.catalogue.prices.values() for each in many.unpriced)
        reason = next((each.reason for each in unpriced if each.node_type == node.name), None)
        return told if known or reason is None else replace(told, reason=reason)

    # -- quoting ------------------------------------------------------------------------------------------------------

    def _quote(self, offer: Offer, wanted: Wanted, num_devices: int | None, apply: Apply) -> Quote:
        """The offer in the wanted currency, per node and per device; without ``num_devices`` per device alone."""
        price, amount = replace(offer.price, is_own=offer.is_own), offer.price.amount_per_hour
        rate = self.exchange.rate(price.currency, wanted.currency) if wanted.currency else None
        if rate is not None:
            amount = apply(converted_amount, amount=amount, exchange_rate=rate.rate)
        per_node, per_device = None, amount
        if price.basis is PriceBasis.PER_NODE:
            count = self.catalogue.node_types[price.node_type].num_devices
            price = replace(price, num_devices=count)
            per_node, per_device = amount, apply(price_per_device_hour, price_per_node_hour=amount, num_devices=count)
        elif num_devices is not None:
            per_node = apply(price_per_node_hour, price_per_device_hour=amount, num_devices=num_devices)
        currency = wanted.currency or price.currency
        return Quote(per_node, per_device, currency, offer.is_own, price, rate, offer.notes)

    def _lowest(self, offers: list[Offer], wanted: Wanted, apply: Apply) -> Quote:
        quotes = [self._quote(each, wanted, None, plainly) for each in offers]
        if len({each.currency for each in quotes}) > 1:
            reason = "its prices are in several currencies, so that the lowest cannot be told"
            raise InvalidRequest(Violation(self._field, reason, "ask for one currency, and give the exchange rates"))
        lowest = min(range(len(quotes)), key=lambda index: quotes[index].amount_per_device_hour)
        quote = self._quote(offers[lowest], wanted, None, apply)
        if len(quotes) == 1:
            return quote
        highest = max(each.amount_per_device_hour for each in quotes)
        reach = f"which reach to {highest:g} {quote.currency} per device-hour"
        note = f"the lowest of {len(quotes)} prices, {'all alike' if highest == quote.amount_per_device_hour else reach}"
        return replace(quote, notes=(*quote.notes, note))
