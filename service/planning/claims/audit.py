"""Audits claims: reads each, finds who judges it, and says what to add where nobody can."""

from typing import Final

from service.catalogue.entries import Catalogue
from service.planning.claims.bare import judge_name
from service.planning.claims.claim import Claim, Kind
from service.planning.claims.devices import judge_device
from service.planning.claims.evidence import Evidence
from service.planning.claims.facts import facts_of, judge_fact, judge_made_in, judge_node_name
from service.planning.claims.names import Names, names_of
from service.planning.claims.processes import judge_process
from service.planning.claims.ratios import judge_ratio
from service.planning.claims.reading import read_claims
from service.planning.claims.requests import AuditClaimRequest, Quantity
from service.planning.claims.results import AuditClaimResponse, AuditedClaim, Verdict
from service.planning.claims.structured import read_fields
from service.planning.errors import InvalidRequest, Violation

_OF_DEVICES: Final = frozenset(
    (
        *(Quantity.PEAK, Quantity.MEMORY_BANDWIDTH, Quantity.LINK_BANDWIDTH, Quantity.MEMORY, Quantity.POWER, Quantity.CLOCK),
        *(Quantity.L2_CACHE, Quantity.COMPUTE_UNITS),
    )
)
_MAX_NEAREST_LOOKUPS: Final = 10  # each compares with some five hundred names


def audit_claim(catalogue: Catalogue, request: AuditClaimRequest) -> AuditClaimResponse:
    """Every claim of the request with its verdict.

    Raises InvalidRequest where a field means nothing or there is no claim at all, TooLarge where a text holds too many.
    """
    names = names_of(catalogue)
    claims, violations = [], []
    if not request.text.strip() and not request.claims:
        reason = "there is no claim: both text and claims are empty"
        raise InvalidRequest(Violation("text", reason, "give one such as 'H100: 1,979 TFLOPS BF16'"))
    if request.text.strip():
        claims += list(read_claims(request.text, names)) or [Claim(text=" ".join(request.text.split())[:200])]
    for number, fields in enumerate(request.claims):
        claim, wrong = read_fields(fields, f"claims[{number}]", names)
        violations += wrong
        claims += [claim] if claim else []
    if violations:
        raise InvalidRequest(*violations)
    evidence, looked_up = Evidence(catalogue), 0
    audited = []
    for claim in claims:
        looked_up += not claim.names
        audited.append(judged(evidence, claim, names if looked_up <= _MAX_NEAREST_LOOKUPS else None))
    return AuditClaimResponse(tuple(audited), catalogue.revision)


def judged(evidence: Evidence, claim: Claim, names: Names | None = None) -> AuditedClaim:
    """A claim with its verdict; ``names`` are where to look up what is nearest to an unknown subject."""
    if not claim.names:
        return _unknown_subject(evidence, claim, names)
    if claim.quantity is Quantity.MADE_IN:
        return judge_made_in(evidence, claim)
    if claim.amount is None:
        return judge_name(evidence, claim)
    if claim.quantity is Quantity.RATIO:
        return judge_ratio(evidence, claim)
    if claim.of(Kind.PROCESS):
        if claim.quantity is Quantity.LENGTH:
            return judge_node_name(evidence, claim)
        if claim.amount.unit in {"%", "x"}:
            return judge_process(evidence, claim)
        return _not_of_it(evidence, claim)
    facts = list(facts_of(evidence.catalogue, claim))
    if facts:
        return judge_fact(evidence, claim, facts)
    if claim.quantity in _OF_DEVICES and (claim.of(Kind.ACCELERATOR) or claim.of(Kind.NODE_TYPE)):
        return judge_device(evidence, claim)
    return _not_of_it(evidence, claim)


def _unknown_subject(evidence: Evidence, claim: Claim, names: Names | None) -> AuditedClaim:
    nearest = names.nearest(claim.subject) if names and claim.subject else ()
    if not claim.subject:
        reasons = ["It does not say of what: no accelerator, system, process or die of the catalogue is named."]
        to_add = ("what it is about, such as H100 SXM or GB200 NVL72", *(() if claim.amount else ("a figure with its unit",)))
        return evidence.audited(claim, Verdict.UNKNOWN, reasons, to_add=to_add)
    hint = f"; the nearest names are {', '.join(nearest)}" if nearest else ""
    reasons = [f"The catalogue knows nothing called {claim.subject!r}{hint}."]
    return evidence.audited(claim, Verdict.UNKNOWN, reasons, to_add=("the exact name of the product",), nearest=nearest)


def _not_of_it(evidence: Evidence, claim: Claim) -> AuditedClaim:
    kinds = ", ".join(dict.fromkeys(name.kind for name in claim.names))
    what = (claim.quantity.value if claim.quantity else "figure").lower().replace("_", " ")
    reasons = [f"The catalogue holds no {what} of the {kinds} {claim.subject}, and nothing is extrapolated."]
    return evidence.audited(claim, Verdict.UNKNOWN, reasons, to_add=("another quantity, or the product that the figure is of",))
