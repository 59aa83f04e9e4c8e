"""The verdict on a claim about an accelerator's or a system's figure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from service.catalogue.entries import Accelerator, ConflictStatus, Figure, Sparsity
from service.planning.claims.candidates import Candidate, Difference, candidates, leads, subjects
from service.planning.claims.claim import Amount, Claim, Kind
from service.planning.claims.differences import counted, named, remarks, sentences, unit_of
from service.planning.claims.evidence import Evidence, deviation, equals
from service.planning.claims.requests import Quantity
from service.planning.claims.results import AuditedClaim, ClaimMatch, LikeForLike, Verdict
from service.planning.claims.shown import shown, shown_memory

#: A figure of something quite different is a coincidence where it has to be counted or halved to be one.
_FAR: Final = frozenset({Difference.OTHER_PRODUCT, Difference.OTHER_PRECISION, Difference.OTHER_QUANTITY})
_COUNTED: Final = frozenset(
    {Difference.SEVERAL_DEVICES, Difference.SUPERCHIP, Difference.FEWER_DEVICES, Difference.REJECTED, Difference.PRELIMINARY}
)
_BORROWED: Final = ({Difference.OTHER_PRODUCT, Difference.SPARSE}, {Difference.OTHER_PRODUCT, Difference.DENSE})
_MAX_MATCHES: Final = 8
_UNSETTLED: Final = (ConflictStatus.OPEN, ConflictStatus.UNVERIFIED)
_CLASSES: Final = {"fp16": "bf16", "fp6": "fp8"}


def judge_device(evidence: Evidence, claim: Claim) -> AuditedClaim:
    """Holds a claim with a figure against every figure of the catalogue that it could mean."""
    amount = claim.amount
    assert amount is not None
    possible = list(candidates(evidence.catalogue, claim))
    every = [each for each in possible if not _is_coincidence(each)]
    families = {_family(each) for each in subjects(evidence.catalogue, claim)}
    found, remark = _equal(every, amount, families)
    like = _like_for_like(evidence, claim, found)
    if not found:
        return _none_equal(evidence, claim, every, like, _origin(possible, claim, families))
    best = found[0]
    assumed = (f"{remark[0].upper()}{remark[1:]}.",) if remark else ()
    matches = [_match(evidence, each) for each in _likely(found)]
    meanings = _meanings(found, claim)
    if len(meanings) > 1:
        listed = "; ".join(f"the {named(each)} of the {each.accelerator.title}" for each in meanings)
        reason = f"{amount.printed} is {listed}: the claim does not say which."
        to_add = ("the number format", "whether with 2:4 sparsity or dense")
        return evidence.audited(claim, Verdict.UNKNOWN, (*assumed, reason), matches=matches, like=None, to_add=to_add)
    told = [*assumed, *_told(evidence, best, claim, amount)]
    return evidence.audited(claim, _verdict(best), told, matches=matches, like=like, sources=_all_sources(best))


def _is_coincidence(candidate: Candidate) -> bool:
    kinds = set(candidate.differences)
    far = kinds & _FAR
    if Difference.OTHER_PRODUCT in far and (len(far) > 1 or kinds & {Difference.SPARSE, Difference.DENSE}):
        return True
    return len(far) > 1 or bool(far and kinds & _COUNTED)


def _family(accelerator: Accelerator) -> str:
    return accelerator.name.partition("-")[0]


def _equal(every: Sequence[Candidate], amount: Amount, families: set[str]) -> tuple[list[Candidate], str]:
    """The candidates that the plain reading of the number equals, likeliest first; where none does, another reading."""
    for value in amount.values:
        alone = replace(amount, values=(value,))
        found = [each for each in every if equals(alone, each.value)[0]]
        if found:
            # Of equally likely ones those of the named family, of these the nearest; where that is a draw, as candidates came:
            # the named SKU first.
            return sorted(
                found,
                key=lambda each: (
                    round(each.weight, 6),
                    _family(each.accelerator) not in families,
                    round(abs(each.value / value.value - 1), 4),
                ),
            ), value.remark
    return [], ""


def _origin(possible: Sequence[Candidate], claim: Claim, families: set[str]) -> Candidate | None:
    """The peak of another product of that generation that a figure is, on another basis of sparsity than the claim's.

    Two differences at once may be chance, so that it settles nothing: it tells where a contradicted figure may come from.
    """
    if claim.amount is None or not claim.precisions:
        return None
    of_another = [each for each in possible if set(each.differences) in _BORROWED]
    found, _ = _equal(of_another, replace(claim.amount, is_lower_bound=False), families)
    return found[0] if found else None


def _likely(found: Sequence[Candidate]) -> list[Candidate]:
    """Those that are about as likely as the first: what is far from the words is told only where nothing is near."""
    best = found[0]
    is_far = bool(set(best.differences) & _FAR)
    near = [each for each in found if each.weight <= best.weight + 1 and bool(set(each.differences) & _FAR) == is_far]
    return near[:_MAX_MATCHES]


def _meanings(found: Sequence[Candidate], claim: Claim) -> list[Candidate]:
    """One candidate per thing that a peak without a number format can mean; one alone where there is nothing to choose."""
    best = found[0]
    if claim.quantity is not Quantity.PEAK or claim.precisions or set(best.differences) & _FAR:
        return [best]
    is_integer = claim.amount is not None and _counts_integers(claim.amount)
    likely = [each for each in found if each.weight <= best.weight + 1 and not set(each.differences) & _FAR]
    typed = [each for each in likely if each.precision.startswith("int") == is_integer] or likely
    meanings: dict[tuple[str, str], Candidate] = {}
    for each in typed:
        meanings.setdefault((_CLASSES.get(each.precision, each.precision), each.sparsity), each)
    return list(meanings.values())


def _counts_integers(amount: Amount) -> bool:
    """Whether the unit is TOPS and the like, which vendors print for integers."""
    return "ops" in amount.printed.casefold() and "flop" not in amount.printed.casefold()


def _verdict(best: Candidate) -> Verdict:
    if Difference.REJECTED in best.differences:
        return Verdict.CONTRADICTED
    differences = set(best.differences) - {Difference.USABLE}
    if differences:
        return Verdict.MATCHES_ANOTHER_BASIS
    return Verdict.CONFLICTING_SOURCES if best.conflict in _UNSETTLED else Verdict.MATCHES


def _told(evidence: Evidence, best: Candidate, claim: Claim, amount: Amount) -> Iterator[str]:
    entry = best.accelerator
    value = shown(best.value, unit_of(best.quantity))
    exact = "" if value == amount.printed or best.quantity is Quantity.MEMORY else f" ({value})"
    yield f"{amount.printed} is the {named(best)} of the {entry.title} for {counted(best.num_devices, best)}{exact}."
    for sentence in sentences(best, claim):
        yield sentence[0].upper() + sentence[1:]
    yield from remarks(best, claim)
    yield from _conflict(evidence, best)
    yield from _others(evidence, best, claim)
    if best.quantity is Quantity.MEMORY and entry.usable_memory and Difference.BINARY_UNIT not in best.differences:
        yield f"The driver reports {shown_memory(entry.usable_memory)} of it: what fits is judged against that."


def _conflict(evidence: Evidence, candidate: Candidate) -> Iterator[str]:
    if candidate.conflict not in _UNSETTLED:
        return
    for conflict in candidate.accelerator.conflicts:
        if conflict.field == candidate.path:
            figures = "; ".join(
                f"{each.printed_value:,g} {each.printed_unit} ({evidence.titles(each)})" for each in conflict.figures
            )
            yield f"Sources disagree ({conflict.status}): {figures}. {conflict.reason}"


def _others(evidence: Evidence, best: Candidate, claim: Claim) -> Iterator[str]:
    """What the other products of a family name have, where that differs."""
    for accelerator in subjects(evidence.catalogue, claim):
        if accelerator is best.accelerator:
            continue
        figure = _plain_figure(accelerator, claim, best)
        if figure is None or abs(figure.value - best.figure.value) <= 1e-3 * best.figure.value:
            continue
        memory = f"{accelerator.marketed_memory.printed_value:g} {accelerator.marketed_memory.printed_unit}"
        dense = " (dense)" if claim.quantity is Quantity.PEAK else ""
        printed = shown(figure.value, unit_of(best.quantity))
        yield f"The {accelerator.title} ({memory}) has {printed}{dense}."


def _all_sources(best: Candidate) -> Iterable[str]:
    for conflict in best.accelerator.conflicts:
        if conflict.field == best.path:
            for figure in conflict.figures:
                yield from figure.sources


def _match(evidence: Evidence, each: Candidate) -> ClaimMatch:
    unit = unit_of(each.quantity)
    return ClaimMatch(
        name=each.accelerator.name,
        title=each.accelerator.title,
        figure=each.path,
        value=each.value,
        unit="1" if unit == "units" else unit,
        printed=shown(each.value, unit),
        basis=each.figure.basis.value,
        sparsity=each.sparsity if each.quantity is Quantity.PEAK else "",
        precision=each.precision if each.quantity is Quantity.PEAK else "",
        counted_unit=counted(each.num_devices, each),
        num_devices=each.num_devices,
        baseline="",
        status=each.accelerator.status.value,
        differences=tuple(each.value for each in each.differences),
        sources=evidence.sources(each.figure.sources),
    )


# -- what to compare with ---------------------------------------------------------------------------------------------


def _plain_figure(accelerator: Accelerator, claim: Claim, best: Candidate | None) -> Figure | None:
    """The figure of one device, dense and final, of what the claim is about."""
    match claim.quantity:
        case Quantity.PEAK:
            wanted = claim.precisions or ((best.precision,) if best and best.precision else ())
            peaks = (accelerator.peak_dense(precision) for precision in wanted)
            return next((peak.figure for peak in peaks if peak), None)
        case Quantity.LINK_BANDWIDTH:
            kind = claim.link if claim.link not in {"", "any"} else ""
            links = [each for each in accelerator.links if kind in each.name.casefold()]
            return links[0].bandwidth_one_way if links else None
        case Quantity.MEMORY:
            return accelerator.marketed_memory
        case Quantity.MEMORY_BANDWIDTH:
            return accelerator.memory_bandwidth
        case Quantity.POWER:
            return accelerator.max_power
        case Quantity.CLOCK:
            return accelerator.boost_clock
        case Quantity.L2_CACHE:
            return accelerator.l2_cache
        case Quantity.COMPUTE_UNITS:
            return accelerator.num_compute_units
    return None


def like_for_like_of(evidence: Evidence, claim: Claim, accelerator: Accelerator) -> LikeForLike | None:
    """What to compare with, of that accelerator."""
    return _described(evidence, claim, accelerator, None)


def _like_for_like(evidence: Evidence, claim: Claim, found: Sequence[Candidate]) -> LikeForLike | None:
    named_ones = subjects(evidence.catalogue, claim)
    best = found[0] if found else None
    if best is not None and best.accelerator in named_ones and Difference.OTHER_SKU not in best.differences:
        return _described(evidence, claim, best.accelerator, best)
    return _described(evidence, claim, named_ones[0], best) if named_ones else None


def _described(evidence: Evidence, claim: Claim, accelerator: Accelerator, best: Candidate | None) -> LikeForLike | None:
    figure = _plain_figure(accelerator, claim, best)
    if figure is None or claim.quantity is None:
        return None
    unit = unit_of(claim.quantity)
    kind = Sparsity.DENSE.value + " peak" if claim.quantity is Quantity.PEAK else claim.quantity.value.lower().replace("_", " ")
    if claim.quantity is Quantity.PEAK:
        kind = f"{(claim.precisions or ((best.precision,) if best else ('',)))[0].upper()} {kind}"
    one_way = ", one way" if claim.quantity is Quantity.LINK_BANDWIDTH else ""
    description = f"{kind} of one {accelerator.title}{one_way}, {accelerator.status}"
    memory = f"{figure.printed_value:g} {figure.printed_unit}"
    printed = memory if claim.quantity is Quantity.MEMORY else shown(figure.value, unit)
    return evidence.like(figure, figure.value, "1" if unit == "units" else unit, printed, description)


# -- where nothing is equal -------------------------------------------------------------------------------------------


def _none_equal(
    evidence: Evidence, claim: Claim, every: Sequence[Candidate], like: LikeForLike | None, origin: Candidate | None
) -> AuditedClaim:
    near = [each for each in every if not set(each.differences) & (_FAR | _COUNTED) and each.is_chosen]
    disputed = [each for each in every if not set(each.differences) & _FAR and not each.is_chosen]
    stated = [each for each in near if not set(each.differences) - {Difference.OTHER_SKU}] or near
    if not stated and not disputed:
        return _nothing_known(evidence, claim)
    if not stated:
        return _only_disputed(evidence, claim, disputed)
    assert claim.amount is not None
    claimed = claim.amount.values[0].value
    reasons = [_beside(each, claimed) for each in _one_per_product(stated, claimed)]
    if origin is not None:
        of = f"{origin.accelerator.title} for {counted(origin.num_devices, origin)}"
        reasons.insert(0, f"{claim.amount.printed} is the {named(origin)} of the {of}, which is another product.")
    reasons += [text for each in stated[:1] for text in (*_conflict(evidence, each), *remarks(each, claim))]
    matches = [_match(evidence, origin)] if origin is not None else []
    sources = [source for each in stated[:3] for source in each.figure.sources]
    return evidence.audited(claim, Verdict.CONTRADICTED, reasons, matches=matches, like=like, sources=sources)


def _beside(candidate: Candidate, claimed: float) -> str:
    """The figure, and how far the claim is from it."""
    value, off = shown(candidate.value, unit_of(candidate.quantity)), deviation(claimed, candidate.value)
    of = f"{candidate.accelerator.title} is {value} for {counted(candidate.num_devices, candidate)}"
    return f"The {named(candidate)} of the {of}: the claim is {off}, beyond its rounding."


def _one_per_product(stated: Sequence[Candidate], claimed: float) -> list[Candidate]:
    """Of each product the figure nearest to the claim; without a number format all of them would say little."""
    nearest: dict[str, Candidate] = {}
    for each in sorted(stated, key=lambda each: abs(each.value - claimed)):
        nearest.setdefault(each.accelerator.name, each)
    return list(nearest.values())[:4]


def _only_disputed(evidence: Evidence, claim: Claim, disputed: Sequence[Candidate]) -> AuditedClaim:
    first = disputed[0]
    reasons = [f"Sources print figures for the {named(first)} of the {first.accelerator.title}, but none is established."]
    reasons += _conflict(evidence, first)
    return evidence.audited(claim, Verdict.UNKNOWN, reasons, sources=first.figure.sources)


def _nothing_known(evidence: Evidence, claim: Claim) -> AuditedClaim:
    titles = ", ".join(each.title for each in leads(subjects(evidence.catalogue, claim))) or claim.subject
    what = (claim.quantity or Quantity.PEAK).value.lower().replace("_", " ")
    if claim.precisions:
        what = f"{'/'.join(each.upper() for each in claim.precisions)} {what}"
    reasons = [f"The catalogue holds no {what} of the {titles}, and nothing is extrapolated."]
    known = sorted({peak.precision for each in subjects(evidence.catalogue, claim) for peak in each.peaks})
    if claim.quantity is Quantity.PEAK and known:
        reasons.append(f"Its peaks are of {', '.join(known)}.")
    notes = [note for each in subjects(evidence.catalogue, claim)[:1] for note in each.notes]
    sources = [source for name in claim.of(Kind.NODE_TYPE) for source in evidence.catalogue.node_types[name].sources]
    to_add = ("a quantity or number format that the catalogue holds, or a source for this one",)
    return evidence.audited(claim, Verdict.UNKNOWN, [*reasons, *notes], to_add=to_add, sources=sources)
