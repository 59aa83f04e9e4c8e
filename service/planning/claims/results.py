"""What is answered about claims. Field for field the response messages of protos/tonnage/v1/claim_service.proto."""

from enum import StrEnum

from msgspec import Struct

from service.planning.claims.requests import Quantity
from service.planning.listing import Source


class Verdict(StrEnum):
    """Whether a claim holds."""

    MATCHES = "MATCHES"
    MATCHES_ANOTHER_BASIS = "MATCHES_ANOTHER_BASIS"
    CONFLICTING_SOURCES = "CONFLICTING_SOURCES"
    CONTRADICTED = "CONTRADICTED"
    UNKNOWN = "UNKNOWN"


class ClaimReading(Struct, frozen=True):
    """How a claim was read."""

    subject: str
    names: tuple[str, ...]
    quantity: Quantity | None
    value: float | None
    unit: str
    printed: str
    precisions: tuple[str, ...]
    sparsity: str
    num_devices: int | None
    baseline: str
    direction: str


class ClaimMatch(Struct, frozen=True):
    """A figure of the catalogue that a claim equals."""

    name: str
    title: str
    figure: str
    value: float
    unit: str
    printed: str
    basis: str
    sparsity: str
    precision: str
    counted_unit: str
    num_devices: int
    baseline: str
    status: str
    differences: tuple[str, ...]
    sources: tuple[Source, ...]


class LikeForLike(Struct, frozen=True):
    """The figure to compare with."""

    value: float
    unit: str
    printed: str
    description: str
    basis: str
    sources: tuple[Source, ...]


class AuditedClaim(Struct, frozen=True):
    """A claim with its verdict."""

    text: str
    verdict: Verdict
    reading: ClaimReading
    reasons: tuple[str, ...]
    matches: tuple[ClaimMatch, ...]
    like_for_like: LikeForLike | None
    to_add: tuple[str, ...]
    nearest: tuple[str, ...]
    sources: tuple[Source, ...]


class AuditClaimResponse(Struct, frozen=True):
    """The claims, audited."""

    claims: tuple[AuditedClaim, ...]
    catalogue_revision: str
