"""Audits an offer: each line's figures, its price per device beside a list price, and the sums."""

from typing import Final

from msgspec import Struct, field

from service.catalogue.entries import Accelerator, Catalogue
from service.planning.claims import words
from service.planning.errors import InvalidRequest, Violation
from service.planning.money import PriceTerm, is_currency
from service.planning.prices import PriceBook
from service.planning.purchase import DEFAULT_DEPRECIATION_YEARS
from service.planning.quotes.cells import Line, Unreadable, devices_of, price_of, quantity_of, term_of
from service.planning.quotes.document import Offer, Row, read_offer, shown
from service.planning.quotes.figures import Judge, JudgedFigure, described_figures, figures_of, meant_by
from service.planning.quotes.pricing import (
    LinePrice,
    ListPrice,
    comparison,
    computed_total,
    list_price_of,
    total_finding,
)
from service.planning.quotes.products import Product, narrowed, product_of
from service.planning.quotes.requests import AuditQuoteRequest, PriceUnit
from service.planning.quotes.results import (
    AuditQuoteResponse,
    LineVerdict,
    Meaning,
    QuoteFinding,
    QuoteLine,
    Severity,
    UnreadQuoteLine,
)
from service.planning.quotes.summary import PeakBases, summary_of
from service.planning.quotes.sums import Sums

DEFAULT_PRECISION: Final = "bf16"
_MAX_NEAREST_LOOKUPS: Final = 10  # each compares with some five hundred names
_ASSUMPTIONS: Final = (
    "a GB is 10^9 bytes and a peak is dense, of one device, unless a finding says otherwise",
    "a price per device leaves out what else the unit holds",
    "list prices are what providers publish, each with its date; they move",
)


class _Auditor(Struct, dict=True):
    """What the lines of one offer have in common."""

    catalogue: Catalogue
    request: AuditQuoteRequest
    offer: Offer
    book: PriceBook
    precision: str
    depreciation_years: float
    judge: Judge
    bases: PeakBases
    _num_looked_up: int = 0
    _list_prices: dict[tuple[str, ...], ListPrice] = field(default_factory=dict)

    def line(self, row: Row) -> QuoteLine:
        """A line, audited. Unreadable where it is none."""
        line = Line(self.offer, row)
        product, figures, findings = self._product(line)
        self.bases.take(figures)
        quantity, stated_devices = quantity_of(line), devices_of(line)
        price = price_of(line, quantity, self.request)
        devices, more = _devices(line, product, stated_devices)
        findings += more
        term, assumed = term_of(line, self.request)
        findings += [assumed] if assumed else []
        computed = computed_total(price, devices, line.header(Meaning.TOTAL_PRICE))
        wrong_total = total_finding(price, computed, devices, line.header(Meaning.TOTAL_PRICE))
        findings += [wrong_total] if wrong_total else []
        per_device = price.per_device(devices)
        per_hour = price.per_device_hour(per_device, self.depreciation_years)
        listed = self._listed(line, product, price, term)
        findings += _of_price(line, price, per_hour, listed)
        entry = self.catalogue.accelerators.get(product.accelerator)
        peak, bandwidth, memory = self._specification(entry)
        known = tuple(findings)
        return QuoteLine(
            line=row.line,
            product=shown(product.text),
            accelerator=product.accelerator,
            node_type=product.node_type,
            candidates=product.candidates if product.is_known else self._nearest(product),
            quantity=quantity,
            num_devices_per_unit=devices,
            num_devices=quantity * devices if quantity is not None and devices is not None else None,
            unit_price=price.unit_price,
            currency=price.currency,
            price_unit=price.price_unit,
            term=term if price.price_unit not in {None, PriceUnit.ONCE} else None,
            discount_ratio=price.discount_ratio,
            stated_total=price.stated_total,
            computed_total=computed.amount if computed else None,
            price_per_device=per_device,
            price_per_device_hour=per_hour,
            list_price=listed.price,
            list_price_per_device_hour=listed.per_device_hour,
            list_price_ratio=_ratio(price, per_hour, listed),
            peak_precision=self.precision if peak is not None else "",
            peak_dense_flops_per_second=peak,
            memory_bandwidth_bytes_per_second=bandwidth,
            memory_bytes=memory,
            price_per_dense_petaflops=_per(per_device, peak, 1e15),
            price_per_gigabyte_per_second=_per(per_device, bandwidth, 1e9),
            price_per_gigabyte=_per(per_device, memory, 1e9),
            claims=tuple(each.audited for each in figures),
            findings=known,
            verdict=_verdict(product, known),
        )

    def _product(self, line: Line) -> tuple[Product, list[JudgedFigure], list[QuoteFinding]]:
        """What the line is of, with its figures: they decide where its name leaves several."""
        texts = line.texts(Meaning.PRODUCT, Meaning.DESCRIPTION)
        if not texts:
            raise Unreadable("no product is named")
        product = product_of(texts, self.judge.names, self.catalogue)
        if not product.is_known:
            told = "The cell begins as a formula does; tables show it as text."
            is_formula = product.text.startswith(("=", "+", "-", "@"))
            return product, [], [QuoteFinding(Severity.CHECK, line.header(Meaning.PRODUCT), told)] if is_formula else []
        figures, findings = self._figures(line, product, texts)
        if not product.accelerator and (meant := meant_by(figures, product)):
            text = f"{shown(product.text)!r} can be {', '.join(product.candidates)}; its figures are those of {meant}."
            product = narrowed(product, self.catalogue.accelerators[meant])
            figures, findings = self._figures(line, product, texts)
            findings.append(QuoteFinding(Severity.NOTE, line.header(Meaning.PRODUCT), text))
        elif not product.accelerator:
            text = f"{shown(product.text)!r} can be {', '.join(product.candidates)}: ask which."
            findings.append(QuoteFinding(Severity.CHECK, line.header(Meaning.PRODUCT), text))
        return product, figures, findings

    def _figures(self, line: Line, product: Product, texts: list[str]) -> tuple[list[JudgedFigure], list[QuoteFinding]]:
        found = [*figures_of(self.judge, product, line.cells(), line.sparsity(), self.offer.decimal_mark)]
        for text in texts:
            found += described_figures(self.judge, product, text, line.header(Meaning.PRODUCT))
        figures = [each for each in found if isinstance(each, JudgedFigure)]
        findings = [each for each in found if isinstance(each, QuoteFinding)]
        return figures, [*(finding for each in figures for finding in each.findings), *findings]

    def _listed(self, line: Line, product: Product, price: LinePrice, term: PriceTerm) -> ListPrice:
        """The list price; nothing where the product or its currency is not known."""
        if not product.accelerator or not price.currency:
            return ListPrice(None, None, ())
        region = next(iter(line.texts(Meaning.REGION)), self.request.region)
        key = (product.accelerator, product.node_type, price.currency, term, region)
        if key not in self._list_prices:
            header = line.header(Meaning.UNIT_PRICE)
            self._list_prices[key] = list_price_of(self.book, product, price.currency, term, region, header)
        return self._list_prices[key]

    def _specification(self, entry: Accelerator | None) -> tuple[float | None, float | None, float | None]:
        """Dense peak, memory bandwidth and marketed memory of one device."""
        if entry is None:
            return None, None, None
        peak, bandwidth = entry.peak_dense(self.precision), entry.memory_bandwidth
        return (peak.figure.value if peak else None, bandwidth.value if bandwidth else None, entry.marketed_memory.value)

    def _nearest(self, product: Product) -> tuple[str, ...]:
        self._num_looked_up += 1
        return self.judge.names.nearest(product.text[:100]) if self._num_looked_up <= _MAX_NEAREST_LOOKUPS else ()


def audit_quote(catalogue: Catalogue, request: AuditQuoteRequest) -> AuditQuoteResponse:
    """The offer, line by line.

    Raises InvalidRequest where it is no table with headings that are understood or an option means nothing, TooLarge where it
    has more lines or figures than a request may hold.
    """
    precisions = words.precisions(request.precision or DEFAULT_PRECISION)
    if not precisions:
        reason = f"{request.precision!r} is no number format"
        raise InvalidRequest(Violation("precision", reason, "give one such as bf16, fp8, nvfp4 or int8"))
    if request.currency and not is_currency(request.currency):
        reason = f"{request.currency!r} is no ISO 4217 code"
        raise InvalidRequest(Violation("currency", reason, "give one, such as USD"))
    years = request.depreciation_years or DEFAULT_DEPRECIATION_YEARS
    offer = read_offer(request.document)
    book = PriceBook(catalogue, request.price_list)
    auditor = _Auditor(catalogue, request, offer, book, precisions[0], years, Judge(catalogue), PeakBases())
    lines, unread, sums = [], list(offer.unread), Sums()
    for row in offer.rows:
        try:
            line = Line(offer, row)
            if not sums.take_sum(line, auditor.judge.names):
                lines.append(auditor.line(row))
                sums.take_line(lines[-1], is_total_wrong=_is_total_wrong(lines[-1], line.header(Meaning.TOTAL_PRICE)))
        except Unreadable as unreadable:
            unread.append(UnreadQuoteLine(row.line, shown(" ".join(cell for cell in row.cells if cell)), str(unreadable)))
            sums.miss()
    return AuditQuoteResponse(
        reading=offer.reading,
        lines=tuple(lines),
        totals=sums.totals,
        unread_lines=tuple(sorted(unread, key=lambda each: each.line)),
        unread_prices=book.unread,
        assumptions=(*_ASSUMPTIONS, *_assumed(lines, years, precisions[0])),
        catalogue_revision=catalogue.revision,
        summary=summary_of(lines, len(unread), sums.totals, auditor.bases),
    )


def _is_total_wrong(line: QuoteLine, header: str) -> bool:
    """Whether the line's total, in the column of that heading, was found to be wrong."""
    return any(each.severity is Severity.WRONG and each.field == header for each in line.findings)


def _devices(line: Line, product: Product, stated: int | None) -> tuple[int | None, list[QuoteFinding]]:
    """Devices of a unit: as a column says, or else as the product does."""
    counted = product.num_devices_per_unit
    if stated is None or not product.is_known or counted in {None, 1, stated}:
        return (stated if stated is not None else counted), []
    header = line.header(Meaning.DEVICES_PER_UNIT)
    return stated, [QuoteFinding(Severity.WRONG, header, f"{stated} stands there, and {shown(product.text)!r} has {counted}.")]


def _of_price(line: Line, price: LinePrice, per_hour: float | None, listed: ListPrice) -> list[QuoteFinding]:
    """What is to be said of the price."""
    header = line.header(Meaning.UNIT_PRICE)
    if price.unit_price is None:
        return [QuoteFinding(Severity.CHECK, header, "There is no unit price: ask for it.")]
    findings = list(listed.findings)
    if not price.currency:
        findings.append(QuoteFinding(Severity.CHECK, header, "The currency is not said: give it as currency, or ask."))
    if price.price_unit is None:
        text = "Whether the price is paid once, by the hour, month or year is not said: give it as price_unit, or ask."
        findings.append(QuoteFinding(Severity.CHECK, header, text))
    ratio = _ratio(price, per_hour, listed)
    if ratio is not None and listed.price is not None:
        findings.append(comparison(ratio, listed.price, header))
    return findings


def _ratio(price: LinePrice, per_hour: float | None, listed: ListPrice) -> float | None:
    """The price per device-hour over the list price; None for a price paid once, which holds no power, hosting or interest."""
    if per_hour is None or listed.per_device_hour is None or price.price_unit is PriceUnit.ONCE:
        return None
    return per_hour / listed.per_device_hour


def _per(price: float | None, figure: float | None, size: float) -> float | None:
    return None if price is None or not figure else price / (figure / size)


def _verdict(product: Product, findings: tuple[QuoteFinding, ...]) -> LineVerdict:
    severities = {each.severity for each in findings}
    if Severity.WRONG in severities:
        return LineVerdict.WRONG_FIGURES
    if not product.is_known:
        return LineVerdict.NOT_JUDGED
    return LineVerdict.TO_CHECK if Severity.CHECK in severities else LineVerdict.HOLDS


def _assumed(lines: list[QuoteLine], years: float, precision: str) -> list[str]:
    told = [
        f"prices are divided by the dense {precision.upper()} peak, the memory bandwidth and the marketed memory of a device"
    ]
    if any(each.price_unit is PriceUnit.ONCE for each in lines):
        told.append(
            f"a price paid once is spread over {years:g} years of 8,760 hours, without power, hosting, interest and "
            "maintenance, and is not compared with prices of renting"
        )
    if any(each.price_unit is PriceUnit.PER_MONTH for each in lines):
        told.append("a month has 730 hours")
    return told
