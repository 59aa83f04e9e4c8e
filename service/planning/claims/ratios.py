"""The verdict on one accelerator's figure as a multiple of another's: "120x", "45 % more bandwidth than"."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.catalogue.entries import Accelerator, Figure, Sparsity
from service.planning.claims.candidates import leads, subjects
from service.planning.claims.claim import Amount, Claim
from service.planning.claims.evidence import Evidence, deviation, equals
from service.planning.claims.requests import Quantity
from service.planning.claims.results import AuditedClaim, ClaimMatch, LikeForLike, Verdict
from service.planning.claims.shown import shown

_BANDWIDTH: Final = "Decode reads weights and cache for every token, so its gain follows the bandwidth, not the peak."
_PER_DEVICE: Final = "One device is held against one device."
_SIXTEEN_BITS: Final = ("bf16", "fp16")
_NARROWEST_FIRST: Final = ("fp4", "fp6", "fp8", "bf16", "fp16", "fp32")


class _Ratio(Struct, frozen=True):
    value: float
    description: str
    quantity: Quantity
    own: Figure
    other: Figure
    difference: str = ""


def judge_ratio(evidence: Evidence, claim: Claim) -> AuditedClaim:
    """Holds a multiple against the quotient of two figures."""
    others = subjects(evidence.catalogue, replace(claim, names=claim.baselines))
    own = leads(subjects(evidence.catalogue, claim))
    if not own or not others:
        reasons = ["A multiple or percentage says nothing without the two products that it compares."]
        to_add = ("which accelerator is held against which", "of which quantity")
        return evidence.audited(claim, Verdict.UNKNOWN, reasons, to_add=to_add)
    ratios = list(_ratios(own[0], leads(others)[0], claim))
    factor = _factor(claim)
    found = [each for each in ratios if equals(factor, each.value)[0]]
    if not ratios:
        reasons = ["The catalogue holds no such figure of both."]
        return evidence.audited(
            claim, Verdict.UNKNOWN, reasons, to_add=("the quantity: peak with its number format, bandwidth, memory",)
        )
    if claim.ratio_of is None and len({each.quantity for each in found}) != 1:
        listed = [f"{each.description} is {shown(each.value, 'x')}." for each in ratios if not each.difference]
        reasons = ["The claim does not say of what.", *listed]
        return evidence.audited(
            claim, Verdict.UNKNOWN, reasons, to_add=("the quantity: peak with its number format, bandwidth, memory",)
        )
    best = found[0] if found else ratios[0]
    plain = next((each for each in ratios if not each.difference and each.quantity is best.quantity), None)
    return _judged(evidence, claim, best, plain, ratios, is_found=bool(found))


def _judged(
    evidence: Evidence, claim: Claim, best: _Ratio, plain: _Ratio | None, ratios: list[_Ratio], *, is_found: bool
) -> AuditedClaim:
    assert claim.amount is not None
    sources = [source for each in ratios[:3] for figure in (each.own, each.other) for source in figure.sources]
    like = _like(evidence, plain) if plain else None
    reasons = [f"{best.description} is {shown(best.value, 'x')}."]
    if not is_found:
        reasons.append(f"The claim is {deviation(_factor(claim).values[0].value, best.value)}, beyond its rounding.")
        return evidence.audited(claim, Verdict.CONTRADICTED, [*reasons, _PER_DEVICE], like=like, sources=sources)
    if best.difference:
        reasons.append(best.difference)
        if plain is not None and plain is not best:
            reasons.append(f"{plain.description} is {shown(plain.value, 'x')}.")
    bandwidth = next((each for each in ratios if each.quantity is Quantity.MEMORY_BANDWIDTH), None)
    if bandwidth is not None and best.quantity is Quantity.PEAK:
        reasons.append(f"{bandwidth.description} is {shown(bandwidth.value, 'x')}.")
    reasons += [_BANDWIDTH, _PER_DEVICE]
    verdict = Verdict.MATCHES_ANOTHER_BASIS if best.difference else Verdict.MATCHES
    return evidence.audited(claim, verdict, reasons, matches=[_match(evidence, best, claim)], like=like, sources=sources)


def _factor(claim: Claim) -> Amount:
    """The claim as a factor: 45 % more is 1.45 times."""
    amount = claim.amount
    assert amount is not None
    if amount.unit == "x":
        return amount
    sign = -1 if amount.sign == "-" else 1
    values = tuple(replace(each, value=1 + sign * each.value / 100, half_step=each.half_step / 100) for each in amount.values)
    return replace(amount, unit="x", values=values)


def _ratios(own: Accelerator, other: Accelerator, claim: Claim) -> Iterator[_Ratio]:
    """Every quotient that the claim could mean, like for like first among those of one quantity."""
    between = f"{own.title} over {other.title}"
    wanted = claim.ratio_of
    if wanted in {None, Quantity.PEAK}:
        yield from _peak_ratios(own, other, claim, between)
    yield from _plain(
        own.memory_bandwidth, other.memory_bandwidth, Quantity.MEMORY_BANDWIDTH, f"Memory bandwidth of {between}", claim
    )
    if wanted in {None, Quantity.MEMORY}:
        yield from _plain(own.marketed_memory, other.marketed_memory, Quantity.MEMORY, f"Marketed memory of {between}", claim)
    if wanted is Quantity.POWER:
        yield from _plain(own.max_power, other.max_power, Quantity.POWER, f"Power of {between}", claim)


def _plain(own: Figure | None, other: Figure | None, quantity: Quantity, description: str, claim: Claim) -> Iterator[_Ratio]:
    """The quotient of two plain figures; one that the claim is not about is only told beside."""
    if own is not None and other is not None:
        aside = claim.ratio_of not in {None, quantity}
        difference = f"It is the {quantity.value.lower().replace('_', ' ')}, which the claim is not about." if aside else ""
        yield _Ratio(own.value / other.value, description, quantity, own, other, difference)


def _peak_ratios(own: Accelerator, other: Accelerator, claim: Claim, between: str) -> Iterator[_Ratio]:
    pairs = [(mine, theirs) for mine in claim.precisions for theirs in claim.baseline_precisions]
    shared = [name for name in _SIXTEEN_BITS if own.peak_dense(name) and other.peak_dense(name)][:1]
    same = [pair for pair in pairs if pair[0] == pair[1]] or [(name, name) for name in shared]
    if not pairs:  # what brochures compare where they name no format: the narrowest of each
        pairs = [(_narrowest(own), _narrowest(other))]
    for mine, theirs in dict.fromkeys([*same, *pairs]):
        for sparsity in Sparsity:
            first, second = own.peak(mine, sparsity), other.peak_dense(theirs)
            if first is None or second is None:
                continue
            told = []
            if mine != theirs:
                told.append(f"It holds {mine.upper()} against {theirs.upper()}: two number formats.")
            if sparsity is not Sparsity.DENSE:
                told.append("It holds a peak with 2:4 sparsity against a dense one.")
            kinds = f"{'dense' if sparsity is Sparsity.DENSE else 'sparse'} {mine.upper()} against dense {theirs.upper()}"
            description = f"Peak ({kinds}) of {between}"
            yield _Ratio(
                first.figure.value / second.figure.value,
                description,
                Quantity.PEAK,
                first.figure,
                second.figure,
                " ".join(told),
            )


def _narrowest(accelerator: Accelerator) -> str:
    return next((name for name in _NARROWEST_FIRST if accelerator.peak_dense(name)), "")


def _match(evidence: Evidence, ratio: _Ratio, claim: Claim) -> ClaimMatch:
    entry = subjects(evidence.catalogue, claim)[0]
    return ClaimMatch(
        name=entry.name,
        title=entry.title,
        figure=ratio.quantity.value.lower(),
        value=ratio.value,
        unit="1",
        printed=shown(ratio.value, "x"),
        basis="derived",
        sparsity="",
        precision="",
        counted_unit="one device against one device",
        num_devices=1,
        baseline=claim.baseline,
        status=entry.status.value,
        differences=(ratio.difference,) if ratio.difference else (),
        sources=evidence.sources((*ratio.own.sources, *ratio.other.sources)),
    )


def _like(evidence: Evidence, ratio: _Ratio) -> LikeForLike:
    sources = evidence.sources((*ratio.own.sources, *ratio.other.sources))
    return LikeForLike(ratio.value, "1", shown(ratio.value, "x"), ratio.description, "derived", sources)
