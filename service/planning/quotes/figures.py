"""The figures of an offer's line, each held against the catalogue as a claim."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from service.catalogue.entries import Catalogue
from service.planning.claims import words
from service.planning.claims.audit import judged
from service.planning.claims.candidates import Difference
from service.planning.claims.claim import Claim, Kind
from service.planning.claims.evidence import Evidence
from service.planning.claims.names import Names, names_of
from service.planning.claims.reading import read_claims
from service.planning.claims.requests import ClaimFields, Quantity
from service.planning.claims.results import AuditedClaim, Verdict
from service.planning.claims.structured import read_fields
from service.planning.errors import TooLarge
from service.planning.quotes.headings import Heading, unit_in
from service.planning.quotes.numbers import number_in, value_of
from service.planning.quotes.products import Product
from service.planning.quotes.results import Meaning, QuoteFinding, Severity

MAX_CLAIMS: Final = 600
_MAX_TEXT: Final = 500
_QUANTITIES: Final = {
    Meaning.MEMORY: Quantity.MEMORY,
    Meaning.MEMORY_BANDWIDTH: Quantity.MEMORY_BANDWIDTH,
    Meaning.LINK_BANDWIDTH: Quantity.LINK_BANDWIDTH,
    Meaning.PEAK: Quantity.PEAK,
    Meaning.POWER: Quantity.POWER,
}
_SEVERITIES: Final = {
    Verdict.MATCHES_ANOTHER_BASIS: Severity.CHECK,
    Verdict.CONFLICTING_SOURCES: Severity.NOTE,
    Verdict.CONTRADICTED: Severity.WRONG,
    Verdict.UNKNOWN: Severity.CHECK,
}
_NEAREST: Final = (
    Verdict.MATCHES,
    Verdict.CONFLICTING_SOURCES,
    Verdict.MATCHES_ANOTHER_BASIS,
    Verdict.UNKNOWN,
    Verdict.CONTRADICTED,
)
#: What the figure of another SKU may still differ in and be its figure.
_SAME_FIGURE: Final = frozenset({"other SKU", "sparse", "dense", "binary unit"})
_MAX_REASONS: Final = 3


class Judge(Struct, dict=True):
    """Judges the claims of one offer; equal ones once, and no more than a request may take."""

    catalogue: Catalogue
    _known: dict[Claim, AuditedClaim] = field(default_factory=dict)

    @cached_property
    def names(self) -> Names:
        """What people call the things of the catalogue."""
        return names_of(self.catalogue)

    @cached_property
    def evidence(self) -> Evidence:
        """Writes down what is found."""
        return Evidence(self.catalogue)

    def verdict(self, claim: Claim) -> AuditedClaim:
        """The claim, judged. Raises TooLarge where the offer holds too many."""
        found = self._known.get(claim)
        if found is None:
            if len(self._known) >= MAX_CLAIMS:
                raise TooLarge("document", "it holds more figures", MAX_CLAIMS, "split the offer over several requests")
            found = self._known[claim] = judged(self.evidence, claim)
        return found


class JudgedFigure(Struct, frozen=True):
    """A figure of a line with its verdict, and what to know about it."""

    audited: AuditedClaim
    header: str
    findings: tuple[QuoteFinding, ...]


def figures_of(
    judge: Judge, product: Product, cells: Iterator[tuple[Heading, str]], sparsity: str, mark: str
) -> Iterator[JudgedFigure | QuoteFinding]:
    """Every figure of a line, judged, or what is wrong with it; cells of headings that are no figures are passed over."""
    for heading, cell in cells:
        if heading.meaning not in _QUANTITIES or not cell:
            continue
        found = number_in(cell)
        if found is None:
            yield from _of_text(judge, product, f"{product.subject}: {heading.column.header} {cell}", heading.column.header)
            continue
        value = value_of(found.group(), mark)
        beside = f"{cell[: found.start()]} {cell[found.end() :]}".strip()
        unit = unit_in(beside, heading.meaning) or heading.column.unit
        if value is None or value <= 0:
            yield QuoteFinding(Severity.CHECK, heading.column.header, f"{cell[:60]!r} is no figure that can be read.")
        elif not unit and heading.meaning is not Meaning.MEMORY:
            yield QuoteFinding(Severity.CHECK, heading.column.header, f"{cell[:60]!r} has no unit: it is not judged.")
        else:
            if not unit:
                unit = "GB"
                yield QuoteFinding(Severity.NOTE, heading.column.header, f"{cell[:60]!r} has no unit: it is taken for GB.")
            yield _of_cell(judge, product, heading, value, unit, beside, sparsity)


def described_figures(judge: Judge, product: Product, text: str, header: str) -> Iterator[JudgedFigure]:
    """The figures in a line's own words, judged, such as "H100 SXM5, 3.35 TB/s"."""
    yield from _of_text(judge, product, text, header)


def _of_text(judge: Judge, product: Product, text: str, header: str) -> Iterator[JudgedFigure]:
    try:
        claims = read_claims(text[:_MAX_TEXT], judge.names)
    except TooLarge:
        return
    for claim in claims:
        if claim.amount is not None and claim.amount.unit not in {"devices", "x", "%"}:
            of_product = replace(claim, subject=product.subject, names=judge.names.subject(product.subject))
            meant = [claim if claim.names else of_product]
            if claim.amount.unit == "B" and product.accelerator:
                # "8-GPU server (H100 SXM5 80GB)": a memory beside a product's name is mostly that of one device.
                meant.append(replace(of_product, names=judge.names.subject(product.accelerator), num_devices=None))
            yield _judged_figure(min(map(judge.verdict, meant), key=_distance), header)


def _of_cell(
    judge: Judge, product: Product, heading: Heading, value: float, unit: str, beside: str, sparsity: str
) -> JudgedFigure:
    precisions = words.precisions(beside) if heading.meaning is Meaning.PEAK else ()
    fields = ClaimFields(
        subject=product.subject,
        value=value,
        unit=unit,
        quantity=_QUANTITIES[heading.meaning],
        precision=precisions[0] if precisions else heading.column.precision,
        sparsity=(words.sparsity(beside) or heading.column.sparsity or sparsity) if heading.meaning is Meaning.PEAK else "",
        direction=words.direction(f"{heading.column.header} {beside}") if heading.meaning is Meaning.LINK_BANDWIDTH else "",
    )
    verdicts = [judge.verdict(claim) for claim in _counted(judge, fields, product)]
    found = min(verdicts, key=_distance)
    return _judged_figure(found, heading.column.header, is_basis_said=bool(fields.sparsity))


def _distance(audited: AuditedClaim) -> tuple[int, float]:
    """How far a verdict is from the claim: by its kind, by how much a figure contradicts it, by how its basis differs."""
    like, value = audited.like_for_like, audited.reading.value
    if audited.verdict is not Verdict.CONTRADICTED or like is None or not value:
        return _NEAREST.index(audited.verdict), float(len(audited.matches[0].differences) if audited.matches else 0)
    return _NEAREST.index(audited.verdict), abs(math.log(value / (like.value * (audited.reading.num_devices or 1))))


def _counted(judge: Judge, fields: ClaimFields, product: Product) -> Iterator[Claim]:
    """The claim about one device, and about a unit where that is several; then about the node type itself."""
    whole, device = product.num_devices_per_unit or 1, product.accelerator or product.subject
    yield from _read(judge, replace(fields, subject=device))
    if whole > 1:
        yield from _read(judge, replace(fields, subject=device, num_devices=whole))
    if product.node_types:
        yield from _read(judge, fields)


def _read(judge: Judge, fields: ClaimFields) -> Iterator[Claim]:
    claim, violations = read_fields(fields, "document", judge.names)
    if claim is not None and not violations and (claim.of(Kind.ACCELERATOR) or claim.of(Kind.NODE_TYPE)):
        # The words are those of the line; a number of devices that was tried is none of them.
        yield claim


def _judged_figure(audited: AuditedClaim, header: str, *, is_basis_said: bool = False) -> JudgedFigure:
    severity = _SEVERITIES.get(audited.verdict)
    if severity is Severity.CHECK and is_basis_said and _is_on_another_basis(audited):
        severity = Severity.WRONG
    if severity is None:
        preliminary = [match for match in audited.matches[:1] if match.status == "preliminary"]
        told = [f"{each.title} is preliminary: its vendor may still change {each.printed}." for each in preliminary]
        return JudgedFigure(audited, header, tuple(QuoteFinding(Severity.NOTE, header, text) for text in told))
    if _understates_the_unit(audited):
        severity = Severity.NOTE
    reasons = " ".join(audited.reasons[:_MAX_REASONS])
    added = f" To ask: {', '.join(audited.to_add)}." if audited.verdict is Verdict.UNKNOWN and audited.to_add else ""
    return JudgedFigure(audited, header, (QuoteFinding(severity, header, f"{reasons}{added}"),))


def _is_on_another_basis(audited: AuditedClaim) -> bool:
    """Whether a figure is a peak on the other basis of sparsity."""
    return any({Difference.SPARSE.value, Difference.DENSE.value} & set(match.differences) for match in audited.matches[:1])


def _understates_the_unit(audited: AuditedClaim) -> bool:
    """Whether only GB stands where the product's name counts GiB: vendors print that too, and what is delivered is more."""
    match, like, value = next(iter(audited.matches), None), audited.like_for_like, audited.reading.value
    if match is None or like is None or value is None or set(match.differences) != {Difference.BINARY_UNIT.value}:
        return False
    return value < like.value * match.num_devices


def meant_by(figures: list[JudgedFigure], product: Product) -> str:
    """Which of the accelerators that a product can mean has all its figures; empty where that is none or several."""
    left = set(product.accelerators)
    is_told = False
    for each in figures:
        plain = {match.name for match in each.audited.matches if set(match.differences) <= _SAME_FIGURE}
        if plain & left and each.audited.verdict in {Verdict.MATCHES, Verdict.MATCHES_ANOTHER_BASIS}:
            left &= plain
            is_told = True
    return left.pop() if is_told and len(left) == 1 else ""
