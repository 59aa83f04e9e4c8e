"""Which byte address each lane of a warp touches: from a pattern or from addresses, checked as the hardware would."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from service.formulas.memory_access import LINE_BYTES
from service.planning.errors import InvalidRequest, Violation
from service.planning.kernels.requests import AnalyzeMemoryAccessRequest

WARP_LANES: Final = 32
ELEMENT_SIZES: Final = (1, 2, 4, 8, 16)
_ALIGNMENT_OF_CUDA_MALLOC: Final = 256
_LARGEST_ADDRESS: Final = 2**52
_PATTERN_FIELDS: Final = ("stride_elements", "offset_elements", "base_alignment_bytes", "structure")


class AccessPattern(Struct, frozen=True):
    """What each active lane touches: ``first_byte`` + lane × ``distance`` from the array's start, or ``addresses``."""

    element_bytes: int
    lanes: tuple[int, ...]  # those that take part
    first_byte: int
    distance: int
    base_alignment: int
    addresses: Mapping[int, int] | None  # by lane, where they are given one by one

    def address_of(self, lane: int, base: int) -> int:
        """The byte address of a lane, where the array starts at ``base``; lanes from 32 on are those of the next warps."""
        return base + self.first_byte + lane * self.distance if self.addresses is None else self.addresses[lane]

    def bases(self) -> range:
        """Where the array may start within a line of 128 bytes."""
        return range(0, 1 if self.addresses is not None else LINE_BYTES, min(self.base_alignment, LINE_BYTES))


def read_pattern(request: AnalyzeMemoryAccessRequest) -> AccessPattern:
    """The pattern that a request means. InvalidRequest, with every fault, where it means none or the hardware refuses it."""
    element = 4 if request.element_bytes is None else request.element_bytes
    violations: list[Violation] = []
    if element not in ELEMENT_SIZES:
        reason = f"a lane reads or writes {', '.join(map(str, ELEMENT_SIZES))} bytes at a time, not {element}"
        raise InvalidRequest(Violation("element_bytes", reason, "split it, or name the part of it with structure"))
    lanes = _active_lanes(request, violations)
    if request.addresses_bytes:
        pattern = _by_addresses(request, element, lanes, violations)
    else:
        pattern = _by_stride(request, element, lanes, violations)
    if violations:
        raise InvalidRequest(*violations)
    return pattern


def _active_lanes(request: AnalyzeMemoryAccessRequest, violations: list[Violation]) -> tuple[int, ...]:
    if not request.active_mask:
        return tuple(range(WARP_LANES))
    try:
        mask = int(request.active_mask, 16)
    except ValueError:
        mask = -1
    if not 0 < mask < 2**WARP_LANES or "_" in request.active_mask or request.active_mask.strip() != request.active_mask:
        reason = f"{request.active_mask!r} is no mask of 32 lanes with at least one of them set"
        violations.append(Violation("active_mask", reason, 'write it like "0xffffffff", lane 0 lowest'))
        return ()
    return tuple(lane for lane in range(WARP_LANES) if mask >> lane & 1)


def _by_addresses(
    request: AnalyzeMemoryAccessRequest, element: int, lanes: tuple[int, ...], violations: list[Violation]
) -> AccessPattern:
    reason, remedy = "addresses_bytes says already where each lane goes", "give one of the two"
    violations += (Violation(name, reason, remedy) for name in _PATTERN_FIELDS if getattr(request, name) is not None)
    given = request.addresses_bytes
    if request.active_mask and lanes and lanes[-1] >= len(given):
        reason = f"lane {lanes[-1]} takes part, and only {len(given)} addresses are given"
        violations.append(Violation("active_mask", reason, "give an address for each lane, also for idle ones"))
    addresses = {}
    for lane, address in enumerate(given):
        if not (0 <= address <= _LARGEST_ADDRESS and float(address).is_integer()):
            reason = f"{address:g} is no byte address: a whole number from 0 to 2^52"
            violations.append(Violation(f"addresses_bytes[{lane}]", reason))
        else:
            addresses[lane] = int(address)
    active = tuple(lane for lane in lanes if lane in addresses)
    off = [lane for lane in active if addresses[lane] % element]
    violations += (_misaligned(f"addresses_bytes[{lane}]", lane, addresses[lane], element) for lane in off)
    return AccessPattern(element, active, 0, 0, LINE_BYTES, addresses)


def _by_stride(
    request: AnalyzeMemoryAccessRequest, element: int, lanes: tuple[int, ...], violations: list[Violation]
) -> AccessPattern:
    alignment = _alignment(request, element, violations)
    stride = 1 if request.stride_elements is None else request.stride_elements
    unit, field_offset = element, 0
    if request.structure is not None:
        unit, field_offset = request.structure.struct_bytes, request.structure.field_offset_bytes or 0
        if field_offset + element > unit:
            reason = f"a field of {element} bytes at {field_offset} ends beyond the structure's {unit} bytes"
            violations.append(Violation("structure.field_offset_bytes", reason))
    first = (request.offset_elements or 0) * unit + field_offset
    pattern = AccessPattern(element, lanes, first, stride * unit, alignment, None)
    for lane in lanes:
        if not violations and pattern.address_of(lane, 0) % element:
            name = "structure.field_offset_bytes" if field_offset % element else "structure.struct_bytes"
            violations.append(_misaligned(name, lane, pattern.address_of(lane, 0), element))
    return pattern


def _alignment(request: AnalyzeMemoryAccessRequest, element: int, violations: list[Violation]) -> int:
    alignment = _ALIGNMENT_OF_CUDA_MALLOC if request.base_alignment_bytes is None else request.base_alignment_bytes
    if alignment & (alignment - 1):
        violations.append(Violation("base_alignment_bytes", f"{alignment} is no power of two"))
        return _ALIGNMENT_OF_CUDA_MALLOC
    if alignment < element:
        reason = f"an array that starts at a multiple of {alignment} bytes need not start at one of {element}"
        remedy = f"elements of {element} bytes must lie at multiples of {element}: the hardware refuses others"
        violations.append(Violation("base_alignment_bytes", reason, remedy))
    return alignment


def _misaligned(name: str, lane: int, address: int, element: int) -> Violation:
    reason = f"lane {lane} would touch {element} bytes at {address}, which is no multiple of {element}"
    remedy = "the hardware stops with a misaligned address: align the data (__align__), or use narrower accesses"
    return Violation(name, reason, remedy)
