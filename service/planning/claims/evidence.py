"""From figures and sentences to an audited claim, with the sources of all that it rests on."""

from collections.abc import Iterable

from service.catalogue.entries import Catalogue, Figure
from service.planning.claims.claim import Amount, Claim
from service.planning.claims.results import AuditedClaim, ClaimMatch, ClaimReading, LikeForLike, Verdict
from service.planning.listing import Source


class Evidence:
    """Writes down what was found, with sources of one catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def sources(self, ids: Iterable[str]) -> tuple[Source, ...]:
        """The documents by their ids, each once."""
        found = (self.catalogue.sources[source] for source in dict.fromkeys(ids))
        return tuple(Source(each.id, each.title, each.publisher, each.url or "", each.date or "") for each in found)

    def titles(self, figure: Figure) -> str:
        """The titles of a figure's sources."""
        return ", ".join(self.catalogue.sources[source].title for source in figure.sources)

    def like(self, figure: Figure, value: float, unit: str, printed: str, description: str) -> LikeForLike:
        """A figure to compare with."""
        return LikeForLike(value, unit, printed, description, figure.basis.value, self.sources(figure.sources))

    def audited(
        self,
        claim: Claim,
        verdict: Verdict,
        reasons: Iterable[str],
        *,
        matches: Iterable[ClaimMatch] = (),
        like: LikeForLike | None = None,
        to_add: Iterable[str] = (),
        nearest: tuple[str, ...] = (),
        sources: Iterable[str] = (),
    ) -> AuditedClaim:
        """The claim with its verdict; ``sources`` are ids beside those of the matches and of what to compare with."""
        matched = tuple(matches)
        ids = [source.id for each in matched for source in each.sources]
        ids += [source.id for source in like.sources] if like else []
        return AuditedClaim(
            text=claim.text,
            verdict=verdict,
            reading=reading_of(claim),
            reasons=tuple(dict.fromkeys(reasons)),
            matches=matched,
            like_for_like=like,
            to_add=tuple(to_add),
            nearest=nearest or claim.nearest,
            sources=self.sources([*ids, *sources]),
        )


def reading_of(claim: Claim) -> ClaimReading:
    """How the claim was read."""
    amount = claim.amount
    return ClaimReading(
        subject=claim.subject,
        names=tuple(name.name for name in claim.names),
        quantity=claim.quantity,
        value=_signed(amount) if amount else None,
        unit={"%": "1", "x": "1", "units": "1", "devices": "1", "transistors": "1"}.get(amount.unit, amount.unit)
        if amount
        else "",
        printed=f"{amount.sign}{amount.printed}" if amount else "",
        precisions=claim.precisions,
        sparsity=claim.sparsity,
        num_devices=claim.num_devices,
        baseline=claim.baseline,
        direction=claim.direction,
    )


def _signed(amount: Amount) -> float:
    value = amount.values[0].value * (-1.0 if amount.sign == "-" else 1.0)
    return value / 100 if amount.unit == "%" else value


def equals(amount: Amount, value: float) -> tuple[bool, str]:
    """Whether a figure is what was printed, within its rounding, and what had to be assumed for it to be."""
    for each in amount.values:
        if abs(each.value - value) <= each.half_step:
            return True, each.remark
        if amount.is_lower_bound and each.value <= value <= 1.15 * each.value:
            return True, each.remark
    return False, ""


def deviation(claimed: float, value: float) -> str:
    """How far a claimed figure is from the catalogue's."""
    ratio = claimed / value
    if ratio <= 0:
        return "nothing at all"
    if ratio >= 1.995:
        return f"{ratio:.4g} times as much"
    if ratio <= 0.5:
        return f"{1 / ratio:.4g} times less"
    return f"{abs(ratio - 1) * 100:.2g} % {'more' if ratio > 1 else 'less'}"
