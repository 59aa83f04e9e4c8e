"""From the fields of a claim to the claim that text would have been read as."""

from collections.abc import Iterator
from typing import Final

from service.planning.claims import words
from service.planning.claims.amounts import amount_of
from service.planning.claims.claim import Amount, Claim, Kind, Name
from service.planning.claims.names import Names
from service.planning.claims.requests import ClaimFields, Quantity
from service.planning.errors import Violation

_SPARSITIES: Final = {
    "": "",
    "dense": "dense",
    "sparse": "structured_2_4",
    "structured_2_4": "structured_2_4",
    "2:4": "structured_2_4",
}
_DIRECTIONS: Final = ("", "one_way", "both_ways")
_BY_UNIT: Final = {
    "FLOP/s": (Quantity.PEAK,),
    "B/s": (Quantity.MEMORY_BANDWIDTH, Quantity.LINK_BANDWIDTH, Quantity.NETWORK_BANDWIDTH),
    "B": (Quantity.MEMORY, Quantity.L2_CACHE),
    "W": (Quantity.POWER,),
    "Hz": (Quantity.CLOCK,),
    "units": (Quantity.COMPUTE_UNITS,),
    "devices": (Quantity.DEVICES,),
    "mm2": (Quantity.AREA,),
    "nm": (Quantity.LENGTH,),
    "transistors": (Quantity.TRANSISTORS,),
}
_PROCESS: Final = (Quantity.PROCESS_SPEED, Quantity.PROCESS_POWER, Quantity.PROCESS_EFFICIENCY, Quantity.PROCESS_DENSITY)
_OF_RATIO: Final = (Quantity.PEAK, Quantity.MEMORY_BANDWIDTH, Quantity.MEMORY, Quantity.POWER)
_UNITS_TAKEN: Final = "TFLOPS, PFLOPS, TOPS, TB/s, GB/s, GB, GiB, MiB, W, kW, MHz, mm2, nm, %, x, GPUs, SMs"


def read_fields(fields: ClaimFields, path: str, names: Names) -> tuple[Claim | None, list[Violation]]:
    """The claim, or everything that is wrong with its fields; ``path`` is where they stand in the request."""
    violations: list[Violation] = []
    amount = _amount(fields, path, violations)
    precisions = words.precisions(fields.precision)
    if fields.precision and not precisions:
        reason = f"{fields.precision!r} is no number format"
        violations.append(Violation(f"{path}.precision", reason, "give one such as bf16, fp8, nvfp4 or int8"))
    if fields.sparsity.casefold() not in _SPARSITIES:
        reason = f"{fields.sparsity!r} says neither with nor without"
        violations.append(Violation(f"{path}.sparsity", reason, "give dense, sparse or structured_2_4"))
    if fields.direction not in _DIRECTIONS:
        violations.append(Violation(f"{path}.direction", f"{fields.direction!r} is no direction", "give one_way or both_ways"))
    subject = names.subject(fields.subject)
    if fields.quantity is Quantity.MADE_IN and (fields.value is not None or not fields.baseline):
        remedy = "give the process as baseline, and no value"
        violations.append(Violation(f"{path}.quantity", "MADE_IN is about a process, not a figure", remedy))
    quantity, ratio_of = _quantity(fields, amount, subject, path, violations)
    if violations:
        return None, violations
    claim = Claim(
        text=" ".join(_said(fields, amount)),
        subject=fields.subject,
        names=subject,
        quantity=quantity,
        amount=amount,
        precisions=precisions,
        sparsity=_SPARSITIES[fields.sparsity.casefold()],
        num_devices=fields.num_devices,
        direction=fields.direction,
        baseline=fields.baseline,
        baselines=names.subject(fields.baseline) if fields.baseline else (),
        baseline_precisions=precisions,
        ratio_of=ratio_of,
    )
    return claim, []


def _amount(fields: ClaimFields, path: str, violations: list[Violation]) -> Amount | None:
    if fields.value is None:
        return None
    amount = amount_of(fields.value, fields.unit)
    if amount is None:
        reason = f"{fields.unit!r} is no unit that is understood" if fields.unit else "a figure needs its unit"
        violations.append(Violation(f"{path}.unit", reason, f"give one of {_UNITS_TAKEN}"))
    elif fields.value == 0 or (fields.value < 0 and amount.unit != "%"):
        violations.append(Violation(f"{path}.value", "it must be above zero; only a percentage may be below"))
    return amount


def _quantity(
    fields: ClaimFields, amount: Amount | None, subject: tuple[Name, ...], path: str, violations: list[Violation]
) -> tuple[Quantity | None, Quantity | None]:
    """The quantity, and for a ratio of what it is."""
    if amount is None:
        return fields.quantity, None
    if amount.unit in {"%", "x"}:
        return _relative(fields, subject, path, violations)
    allowed = _BY_UNIT[amount.unit]
    if fields.quantity is not None and fields.quantity not in allowed:
        reason = f"{fields.quantity} is not counted in {fields.unit}"
        violations.append(Violation(f"{path}.quantity", reason, f"with that unit: {', '.join(allowed)}"))
    return fields.quantity or allowed[0], None


def _relative(
    fields: ClaimFields, subject: tuple[Name, ...], path: str, violations: list[Violation]
) -> tuple[Quantity | None, Quantity | None]:
    kinds = {name.kind for name in subject}
    if Kind.PROCESS in kinds:
        if fields.quantity not in {None, *_PROCESS}:
            remedy = f"give one of {', '.join(_PROCESS)}"
            violations.append(Violation(f"{path}.quantity", f"{fields.quantity} is not claimed of a process", remedy))
        return fields.quantity, None
    if fields.quantity is Quantity.SHARE_OF_EXPOSURE_FIELD:
        return fields.quantity, None
    if fields.quantity not in {None, Quantity.RATIO, *_OF_RATIO}:
        remedy = f"give what it is a ratio of: {', '.join(_OF_RATIO)}"
        violations.append(Violation(f"{path}.quantity", f"{fields.quantity} is not counted in {fields.unit}", remedy))
    return Quantity.RATIO, None if fields.quantity is Quantity.RATIO else fields.quantity


def _said(fields: ClaimFields, amount: Amount | None) -> Iterator[str]:
    yield fields.subject + ":"
    if amount is not None:
        yield amount.printed
    yield from (part for part in (fields.precision, fields.sparsity) if part)
    if fields.num_devices is not None:
        yield f"for {fields.num_devices} devices"
    if fields.baseline:
        yield f"against {fields.baseline}"
