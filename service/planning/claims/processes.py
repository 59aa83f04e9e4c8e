"""The verdict on what is claimed of a process: against which baseline, and under which condition."""

from collections.abc import Iterator
from typing import Final

from service.catalogue.entries import Conflict, ConflictStatus, Figure
from service.catalogue.processes import ImprovedQuantity, Improvement, Process
from service.planning.claims.claim import Amount, Claim, Kind
from service.planning.claims.evidence import Evidence, equals
from service.planning.claims.requests import Quantity
from service.planning.claims.results import AuditedClaim, ClaimMatch, LikeForLike, Verdict
from service.planning.claims.shown import shown

_QUANTITIES: Final = {
    ImprovedQuantity.SPEED: Quantity.PROCESS_SPEED,
    ImprovedQuantity.POWER: Quantity.PROCESS_POWER,
    ImprovedQuantity.POWER_EFFICIENCY: Quantity.PROCESS_EFFICIENCY,
    ImprovedQuantity.LOGIC_DENSITY: Quantity.PROCESS_DENSITY,
    ImprovedQuantity.MIXED_DENSITY: Quantity.PROCESS_DENSITY,
    ImprovedQuantity.DENSITY: Quantity.PROCESS_DENSITY,
}
_WORDS: Final = {
    ImprovedQuantity.SPEED: "faster at the same power",
    ImprovedQuantity.POWER: "less power at the same speed",
    ImprovedQuantity.POWER_EFFICIENCY: "more work per joule",
    ImprovedQuantity.LOGIC_DENSITY: "the density of logic",
    ImprovedQuantity.MIXED_DENSITY: "the density of a mixed chip (half logic, 30 % SRAM, 20 % analogue)",
    ImprovedQuantity.DENSITY: "the density, of what is not said",
}
_EITHER: Final = (
    "It is either faster at the same power or takes less power at the same speed: usually not both at once, and the two "
    "percentages cannot be added."
)
_GPU: Final = "Such figures are of a test circuit or an Arm core at one voltage, not of a GPU."


def judge_process(evidence: Evidence, claim: Claim) -> AuditedClaim:
    """Holds a claim about a process against what its foundry says of it."""
    process = evidence.catalogue.processes[claim.of(Kind.PROCESS)[0]]
    amount = claim.amount
    assert amount is not None
    stated = [each for each in process.improvements if claim.quantity in {None, _QUANTITIES[each.quantity]}]
    baselines = {name.name for name in claim.baselines if name.kind is Kind.PROCESS}
    if not stated:
        return _nothing_published(evidence, claim, process)
    found = [each for each in stated if _is(amount, each)]
    if not found:
        return _contradicted(evidence, claim, process, stated, baselines)
    held = [each for each in found if each.baseline in baselines] or found
    best = held[0]
    reasons = [_sentence(evidence, process, best, amount)]
    verdict = Verdict.MATCHES
    if best.baseline not in baselines:
        verdict = Verdict.MATCHES_ANOTHER_BASIS
        reasons.append(_baseline_sentence(evidence, claim, best))
    reasons += _against_others(evidence, process, best)
    if claim.is_joined:
        verdict = Verdict.MATCHES_ANOTHER_BASIS
        reasons.append(_EITHER)
    conflict = _conflict(process, best)
    if conflict and conflict.status is not ConflictStatus.RESOLVED:
        verdict = Verdict.CONFLICTING_SOURCES if verdict is Verdict.MATCHES else verdict
    reasons += _disagreement(evidence, conflict)
    reasons += [f"Note: {best.figure.note}."] if best.figure.note else []
    reasons += [*process.notes, _GPU]
    to_add = () if baselines else ("the baseline: against which process",)
    matches = [_match(evidence, process, each, claim) for each in found]
    like = _like(evidence, process, best)
    return evidence.audited(claim, verdict, reasons, matches=matches, like=like, to_add=to_add, sources=process.sources)


def _is(amount: Amount, each: Improvement) -> bool:
    """Whether a printed figure is a published one, or lies in its range."""
    low, high = _in_claim_units(each, each.figure.value, amount), _in_claim_units(each, each.upper or each.figure.value, amount)
    if low is None or high is None:
        return False
    return equals(amount, low)[0] or equals(amount, high)[0] or any(low <= value.value <= high for value in amount.values)


def _in_claim_units(each: Improvement, value: float, amount: Amount) -> float | None:
    """A published figure as the claim counts it: a gain of 11 % is also a factor of 1.11."""
    is_factor = each.quantity in {ImprovedQuantity.LOGIC_DENSITY, ImprovedQuantity.MIXED_DENSITY, ImprovedQuantity.DENSITY}
    if amount.unit == "x":
        return value if is_factor else (1 + value if each.quantity is not ImprovedQuantity.POWER else None)
    return (value - 1) * 100 if is_factor else value * 100


def _published(each: Improvement) -> str:
    """The figure as people say it: "11 %", "10 to 15 %", "1.15 ×"."""
    unit = "ratio" if each.figure.printed_unit == "percent" else "x"
    low = shown(each.figure.value, unit)
    return low if each.upper is None else f"{low.split()[0]} to {shown(each.upper, unit)}"


def _title(evidence: Evidence, name: str) -> str:
    return evidence.catalogue.processes[name].title


def _sentence(evidence: Evidence, process: Process, each: Improvement, amount: Amount) -> str:
    against = f"against {_title(evidence, each.baseline)}"
    return f"{amount.printed} is what is said of {process.title} {against}: {_published(each)} {_WORDS[each.quantity]}."


def _baseline_sentence(evidence: Evidence, claim: Claim, best: Improvement) -> str:
    if claim.baseline:
        return f"The claim holds it against {claim.baseline}; it is against {_title(evidence, best.baseline)}."
    return f"The claim names no baseline, without which it says little: it is against {_title(evidence, best.baseline)}."


def _against_others(evidence: Evidence, process: Process, best: Improvement) -> Iterator[str]:
    for each in process.improvements:
        if each.quantity is best.quantity and each.baseline != best.baseline:
            yield f"Against {_title(evidence, each.baseline)} it is {_published(each)}."


def _conflict(process: Process, each: Improvement) -> Conflict | None:
    field = f"improvements.{each.quantity.value}.{each.baseline}"
    return next((conflict for conflict in process.conflicts if conflict.field == field), None)


def _disagreement(evidence: Evidence, conflict: Conflict | None) -> Iterator[str]:
    if conflict is not None:
        figures = "; ".join(f"{_as_printed(each)} ({evidence.titles(each)})" for each in conflict.figures)
        yield f"Sources disagree ({conflict.status}): {figures}. {conflict.reason}"


def _as_printed(figure: Figure) -> str:
    unit = {"percent": " %", "1": ""}.get(figure.printed_unit, f" {figure.printed_unit}")
    return f"{figure.printed_value:g}{unit}{f', {figure.note}' if figure.note else ''}"


def _match(evidence: Evidence, process: Process, each: Improvement, claim: Claim) -> ClaimMatch:
    baselines = {name.name for name in claim.baselines}
    return ClaimMatch(
        name=process.name,
        title=process.title,
        figure=f"improvements.{each.quantity.value}.{each.baseline}",
        value=each.figure.value,
        unit="1",
        printed=_published(each),
        basis=each.figure.basis.value,
        sparsity="",
        precision="",
        counted_unit=_WORDS[each.quantity],
        num_devices=1,
        baseline=each.baseline,
        status=process.status.value,
        differences=() if each.baseline in baselines else ("baseline",),
        sources=evidence.sources(each.figure.sources),
    )


def _like(evidence: Evidence, process: Process, each: Improvement) -> LikeForLike:
    description = f"{process.title} against {_title(evidence, each.baseline)}: {_WORDS[each.quantity]}"
    return evidence.like(each.figure, each.figure.value, "1", _published(each), description)


def _contradicted(
    evidence: Evidence, claim: Claim, process: Process, stated: list[Improvement], baselines: set[str]
) -> AuditedClaim:
    held = [each for each in stated if each.baseline in baselines] or stated
    amount = claim.amount
    assert amount is not None
    for each in held:
        conflict = _conflict(process, each)
        for figure in conflict.figures if conflict else ():
            value = _in_claim_units(each, figure.value, amount)
            if value is not None and equals(amount, value)[0]:
                open_ = conflict is not None and conflict.status is not ConflictStatus.RESOLVED
                verdict = Verdict.CONFLICTING_SOURCES if open_ else Verdict.MATCHES_ANOTHER_BASIS
                sources = [source for other in (conflict.figures if conflict else ()) for source in other.sources]
                reasons = [*_disagreement(evidence, conflict), f"It is against {_title(evidence, each.baseline)}."]
                return evidence.audited(claim, verdict, reasons, like=_like(evidence, process, each), sources=sources)
    reasons = [
        f"{process.title} against {_title(evidence, each.baseline)}: {_published(each)} {_WORDS[each.quantity]}."
        for each in held
    ]
    reasons += [*process.notes, _GPU]
    sources = [source for each in held for source in each.figure.sources]
    return evidence.audited(claim, Verdict.CONTRADICTED, reasons, like=_like(evidence, process, held[0]), sources=sources)


def _nothing_published(evidence: Evidence, claim: Claim, process: Process) -> AuditedClaim:
    reasons = [f"The catalogue holds no such figure of {process.title}, and none is carried over from another process."]
    known = sorted({each.quantity.value.replace("_", " ") for each in process.improvements})
    if known:
        reasons.append(f"What it holds is of: {', '.join(known)}.")
    to_add = ("a source of its foundry with the baseline",)
    return evidence.audited(claim, Verdict.UNKNOWN, [*reasons, *process.notes], to_add=to_add, sources=process.sources)
