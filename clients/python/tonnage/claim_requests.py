"""From keyword arguments to request messages, for questions about claims."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tonnage.errors import InvalidRequest, Violation
from tonnage.requests import _either, _message
from tonnage.v1.claim_service_pb2 import AuditClaimRequest, ClaimFields, ClaimReading

Claim: TypeAlias = ClaimFields | Mapping[str, object]
"""A claim by its fields: the message, or its fields as a mapping, with the quantity by name ("memory_bandwidth")."""


def audit_claim(
    request: AuditClaimRequest | None = None, /, *, text: str | None = None, claims: Iterable[Claim] = ()
) -> AuditClaimRequest:
    """Asks whether vendor figures hold: what each is of in the catalogue, on which basis, and what it is like for like.

    Args:
        request: A ready request, in place of all that follows.
        text: One claim or several in the vendor's own words: "H100: 1,979 TFLOPS BF16".
        claims: Claims by their fields: {"subject": "h100-sxm", "value": 3.35, "unit": "TB/s"}.

    Raises:
        InvalidRequest: There is no claim, or a field of one means nothing.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(AuditClaimRequest, text=text, claims=[_claim(each, number) for number, each in enumerate(claims)])
    return _either(request, asked)


def _claim(claim: Claim, number: int) -> ClaimFields:
    if isinstance(claim, ClaimFields):
        return claim
    path = f"claims[{number}]"
    fields = dict(claim)
    if isinstance(fields.get("quantity"), str):
        fields["quantity"] = _quantity(str(fields["quantity"]), f"{path}.quantity")
    return _message(ClaimFields, path, **fields)


def _quantity(name: str, path: str) -> ClaimReading.Quantity.ValueType:
    try:
        return ClaimReading.Quantity.Value(name.upper().replace("-", "_"))
    except ValueError:
        known = ", ".join(value.lower() for value in ClaimReading.Quantity.keys()[1:])
        raise InvalidRequest.of(Violation(path, f"{name!r} is none of {known}")) from None
