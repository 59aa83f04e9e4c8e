"""What a unit of hardware costs and draws: its purchase, the caller's price or the catalogue's, and its power."""

from msgspec import Struct, field

from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import node_type as find_node_type
from service.formulas.cost import converted_amount, cost_per_year, facility_watts_per_node
from service.formulas.fleet import fleet_cost_per_hour
from service.planning.errors import InvalidRequest, NotFound, Unanswerable, Violation
from service.planning.explain import Apply, plainly
from service.planning.fleet.candidates import Hardware
from service.planning.fleet.figures import device_power_figures, node_power_figures, price_figure, purchase_figure
from service.planning.fleet.requests import PlanFleetRequest
from service.planning.fleet.results import FleetCost
from service.planning.money import CostSplit, Price, PriceBasis, PriceTerm, is_currency
from service.planning.price_choice import NoPrice, Quote
from service.planning.prices import PriceBook
from service.planning.purchase import DEFAULT_POWER_USAGE_EFFECTIVENESS, Power, PurchaseModel, node_power, owned_cost
from service.planning.results import UsedFigure
from service.planning.token_costs import TokenRates, token_costs

DEFAULT_CURRENCY = "USD"


class UnitCost(Struct, frozen=True):
    """A node, or a device where devices are paid for, per hour."""

    per_hour: float
    price: Price | None
    purchase_date: str
    exchange_rate_date: str
    notes: tuple[str, ...]
    devices_per_machine: int = 1  # of a device whose price is a machine's, the devices of that


class UnitPower(Struct, frozen=True):
    """Watts of the same unit: at most, and of the building on average."""

    watts: float
    facility_watts: float


class Costing(Struct, dict=True):
    """Costs and power of one request's hardware; what is looked up once is kept for the request."""

    catalogue: Catalogue
    request: PlanFleetRequest
    currency: str = DEFAULT_CURRENCY
    _costs: dict[str, UnitCost | NoPrice] = field(default_factory=dict)
    _powers: dict[str, UnitPower | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reads the caller's prices and purchases. InvalidRequest or NotFound where they are malformed."""
        self.currency = self.request.currency or DEFAULT_CURRENCY
        if not is_currency(self.currency):
            reason = f"{self.currency!r} is no ISO 4217 code"
            raise InvalidRequest(Violation("currency", reason, "give one, such as USD"))
        self.book = PriceBook(self.catalogue, self.request.price_list)
        self._bought: dict[str, tuple[int, PurchaseModel]] = {}
        for at, purchase in enumerate(self.request.purchases):
            name = self._node_name(purchase.node_type, at)
            if name in self._bought:
                raise InvalidRequest(Violation(f"purchases[{at}].node_type", f"{name} is bought twice", "give it once"))
            self._bought[name] = (at, purchase)

    def _node_name(self, name: str, at: int) -> str:
        try:
            return find_node_type(self.catalogue, name).name
        except UnknownName as unknown:
            raise NotFound(f"purchases[{at}].node_type", "node type", name, unknown.nearest) from None

    def unit_cost(self, hardware: Hardware) -> UnitCost | NoPrice:
        """What a unit costs, or why that is not known."""
        if hardware.name not in self._costs:
            self._costs[hardware.name] = self._bought_cost(hardware) or self._rented_cost(hardware)
        return self._costs[hardware.name]

    def explain_unit(self, hardware: Hardware, apply: Apply) -> list[UsedFigure]:
        """Applies the formulas of a unit's cost and power once more, noted, and gives the figures that they rest on."""
        cost = self._bought_cost(hardware, apply) or self._rented_cost(hardware, apply)
        figures = [price_figure(cost.price)] if isinstance(cost, UnitCost) and cost.price else []
        if hardware.by_device:
            self._device_power(hardware, apply)
            return [*figures, *device_power_figures(self.catalogue, hardware.accelerator, self.request.power or Power())]
        bought = self._bought.get(hardware.node_type)
        if bought is None:
            self._node_power(hardware, apply)
        else:  # its cost has noted the power
            figures.append(purchase_figure(bought[1]))
        power = bought[1].power if bought else self.request.power or Power()
        return [*figures, *node_power_figures(self.catalogue, hardware.node_type, power)]

    def _bought_cost(self, hardware: Hardware, apply: Apply = plainly) -> UnitCost | None:
        if hardware.node_type not in self._bought:
            return None
        at, purchase = self._bought[hardware.node_type]
        owned = owned_cost(self.catalogue, purchase, apply, field=f"purchases[{at}]")
        rate = self.book.exchange.rate(owned.currency, self.currency)
        amount = owned.cost_per_node_hour
        if rate is not None:
            amount = apply(converted_amount, amount=amount, exchange_rate=rate.rate)
        notes = (f"bought, at {purchase.purchase_price:g} {purchase.currency} a node", *owned.notes)
        return UnitCost(amount, None, owned.date, rate.date if rate else "", notes)

    def _rented_cost(self, hardware: Hardware, apply: Apply = plainly) -> UnitCost | NoPrice:
        term, region = self.request.term or PriceTerm.ON_DEMAND, self.request.region
        try:
            if hardware.by_device:
                name = hardware.accelerator
                quote = self.book.device_price(name, term=term, region=region, currency=self.currency, apply=apply)
            else:
                name = hardware.node_type
                quote = self.book.node_price(name, term=term, region=region, currency=self.currency, apply=apply)
        except InvalidRequest as refusal:
            if self.request.price_list is not None:
                raise
            return NoPrice(hardware.name, refusal.violations[0].reason, "give the exchange rate in price_list")
        return quote if isinstance(quote, NoPrice) else self._of_quote(quote, hardware)

    def _of_quote(self, quote: Quote, hardware: Hardware) -> UnitCost:
        amount = quote.amount_per_device_hour if hardware.by_device else quote.amount_per_node_hour
        assert amount is not None  # a node was asked for where it is needed
        day = quote.exchange_rate.date if quote.exchange_rate else ""
        by_machine = hardware.by_device and quote.price.basis is PriceBasis.PER_NODE
        return UnitCost(amount, quote.price, "", day, quote.notes, quote.price.num_devices or 1 if by_machine else 1)

    def unit_power(self, hardware: Hardware) -> UnitPower | None:
        """What a unit draws; None where that is not known."""
        if hardware.name not in self._powers:
            self._powers[hardware.name] = self._device_power(hardware) if hardware.by_device else self._node_power(hardware)
        return self._powers[hardware.name]

    def _node_power(self, hardware: Hardware, apply: Apply = plainly) -> UnitPower | None:
        bought = self._bought.get(hardware.node_type)
        power = bought[1].power if bought else self.request.power or Power()
        where = f"purchases[{bought[0]}].power" if bought else "power"
        try:
            drawn = node_power(self.catalogue, hardware.node_type, power, apply, field=where)
        except Unanswerable:
            return None
        return UnitPower(drawn.watts_per_node, drawn.facility_watts_per_node)

    def _device_power(self, hardware: Hardware, apply: Apply = plainly) -> UnitPower | None:
        most = self.catalogue.accelerators[hardware.accelerator].max_power
        power = self.request.power or Power()
        if power.watts_per_node is not None:
            watts = power.watts_per_node / hardware.devices_per_node
        elif most is not None:
            watts = most.value
        else:
            return None
        facility = apply(
            facility_watts_per_node,
            watts_per_node=watts,
            power_utilization_ratio=power.power_utilization_ratio or 1.0,
            power_usage_effectiveness=power.power_usage_effectiveness or DEFAULT_POWER_USAGE_EFFECTIVENESS,
        )
        return UnitPower(watts, facility)

    def fleet_cost(self, unit: UnitCost, num_units: int, rates: TokenRates, apply: Apply = plainly) -> FleetCost:
        """What so many units cost, and a token of what they carry."""
        per_hour = apply(fleet_cost_per_hour, cost_per_unit_hour=unit.per_hour, num_units=float(num_units))
        yearly = apply(cost_per_year, cost_per_hour=per_hour)
        tokens = token_costs(per_hour, rates, self.request.cost_split or CostSplit.BY_TIME, apply)
        return FleetCost(
            cost_per_hour=per_hour,
            cost_per_year=yearly,
            input_cost_per_million_tokens=tokens.input_cost_per_million_tokens,
            output_cost_per_million_tokens=tokens.output_cost_per_million_tokens,
            currency=self.currency,
            cost_per_unit_hour=unit.per_hour,
            price=unit.price,
            purchase_date=unit.purchase_date,
            exchange_rate_date=unit.exchange_rate_date,
            notes=(*unit.notes, *self._by_machine(unit, num_units)),
        )

    def _by_machine(self, unit: UnitCost, num_devices: int) -> tuple[str, ...]:
        """What whole machines would cost, where devices are counted that are let by the machine and some would be left over."""
        num_machines = -(-num_devices // unit.devices_per_machine)
        if num_machines * unit.devices_per_machine == num_devices:
            return ()
        whole = f"{num_machines * unit.devices_per_machine * unit.per_hour:,.2f} {self.currency} an hour"
        return (f"let in machines of {unit.devices_per_machine}: {num_machines} whole ones cost {whole}",)
