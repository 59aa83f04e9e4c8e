"""Which sectors does one load or store of a warp touch, how much of them does it use, and what would use more?"""

from collections.abc import Iterable
from typing import Final

from service.formulas import memory_access as formulas
from service.formulas.memory_access import LINE_BYTES, SECTOR_BYTES
from service.planning.explain import Apply, Recorder, plainly
from service.planning.kernels.access_advice import notes_on, remedies_for
from service.planning.kernels.access_pattern import WARP_LANES, AccessPattern, read_pattern
from service.planning.kernels.requests import AnalyzeMemoryAccessRequest
from service.planning.kernels.results import AnalyzeMemoryAccessResponse, LaneGroup

#: Bytes that lanes are served for together: 32 lanes of 4, 16 of 8, 8 of 16.
_GROUP_BYTES: Final = 128
#: Warps over which reuse is counted: enough for the ends not to matter.
_NEIGHBOURS: Final = 64


def analyze_memory_access(request: AnalyzeMemoryAccessRequest, catalogue_revision: str) -> AnalyzeMemoryAccessResponse:
    """What one request of a warp moves. InvalidRequest where the pattern is none, or the hardware refuses it."""
    pattern = read_pattern(request)
    recorder = Recorder() if request.explain else None
    apply: Apply = recorder or plainly
    bases = {base: _groups(pattern, base) for base in pattern.bases()}
    totals = {base: sum(group.sectors for group in groups) for base, groups in bases.items()}
    worst = max(totals, key=lambda base: totals[base])
    groups, sectors = bases[worst], totals[worst]
    if recorder:
        _show_sectors(pattern, worst, groups, recorder)
    used = _used_bytes(pattern, worst, pattern.lanes)
    moved = apply(formulas.moved_bytes, sectors_per_request=sectors)
    efficiency = apply(formulas.efficiency_ratio, used_bytes=used, moved_bytes=moved)
    reused = _with_reuse(pattern, worst, apply)
    return AnalyzeMemoryAccessResponse(
        sectors_per_request=sectors,
        ideal_sectors_per_request=-(-used // SECTOR_BYTES),
        lines_per_request=sum(group.lines for group in groups),
        used_bytes=float(used),
        moved_bytes=float(moved),
        efficiency_ratio=efficiency,
        efficiency_with_reuse_ratio=reused,
        groups=groups,
        num_active_lanes=len(pattern.lanes),
        best_sectors_per_request=min(totals.values()) if len(totals) > 1 else None,
        remedies=remedies_for(request, pattern, sectors, min(totals.values()), used),
        notes=notes_on(pattern, efficiency, reused),
        assumptions=_assumptions(request, pattern),
        catalogue_revision=catalogue_revision,
        explanation=recorder.explanation(()) if recorder else None,
    )


def _groups(pattern: AccessPattern, base: int) -> tuple[LaneGroup, ...]:
    """The lanes that are served together; groups without an active lane move nothing and are left out."""
    size = lanes_per_group(pattern)
    found = []
    for first in range(0, WARP_LANES, size):
        lanes = [lane for lane in pattern.lanes if first <= lane < first + size]
        if lanes:
            found.append(
                LaneGroup(first, size, _touched(pattern, base, lanes, SECTOR_BYTES), _touched(pattern, base, lanes, LINE_BYTES))
            )
    return tuple(found)


def lanes_per_group(pattern: AccessPattern) -> int:
    """Lanes that the hardware serves together."""
    return min(WARP_LANES, _GROUP_BYTES // pattern.element_bytes)


def _touched(pattern: AccessPattern, base: int, lanes: Iterable[int], unit_bytes: int) -> int:
    """Aligned units that the lanes touch. An element lies within one, since it is aligned to its own size."""
    return len({pattern.address_of(lane, base) // unit_bytes for lane in lanes})


def _used_bytes(pattern: AccessPattern, base: int, lanes: Iterable[int]) -> int:
    return len({pattern.address_of(lane, base) for lane in lanes}) * pattern.element_bytes


def _with_reuse(pattern: AccessPattern, base: int, apply: Apply) -> float | None:
    """The share used where the pattern goes on over neighbouring warps that share a cache; None for explicit addresses."""
    if pattern.addresses is not None:
        return None
    steps = range(0, _NEIGHBOURS * WARP_LANES * pattern.distance, WARP_LANES * pattern.distance) if pattern.distance else (0,)
    own = [pattern.address_of(lane, base) for lane in pattern.lanes]
    addresses = {address + step for step in steps for address in own}
    return apply(
        formulas.efficiency_with_reuse_ratio,
        used_bytes_by_neighbours=len(addresses) * pattern.element_bytes,
        distinct_sectors=len({address // SECTOR_BYTES for address in addresses}),
    )


def _show_sectors(pattern: AccessPattern, base: int, groups: tuple[LaneGroup, ...], apply: Apply) -> None:
    """The formula behind each group's sectors, where the lanes are at equal distances and all take part."""
    if pattern.addresses is not None or len(pattern.lanes) < WARP_LANES:
        return
    for group in groups:
        apply(
            formulas.sectors_per_group,
            first_address_bytes=pattern.address_of(group.first_lane, base),
            distance_bytes=pattern.distance,
            lanes_per_group=group.num_lanes,
        )


def _assumptions(request: AnalyzeMemoryAccessRequest, pattern: AccessPattern) -> tuple[str, ...]:
    notes = []
    if request.element_bytes is None:
        notes.append("elements of 4 bytes (default)")
    if pattern.addresses is None:
        if request.stride_elements is None:
            notes.append("neighbouring lanes touch neighbouring elements: stride_elements 1 (default)")
        if request.base_alignment_bytes is None:
            notes.append("the array starts at a multiple of 256 bytes, as cudaMalloc has it (default)")
        elif request.base_alignment_bytes < LINE_BYTES:
            notes.append(
                f"of the starts that a {request.base_alignment_bytes}-byte alignment allows, the worst is answered for"
            )
    elif len(pattern.addresses) < WARP_LANES and not request.active_mask:
        notes.append(f"lanes from {len(pattern.addresses)} on take no part: no address is given for them")
    return tuple(notes)
