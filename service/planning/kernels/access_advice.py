"""What to do about a warp's access to memory, and what counting sectors does not say."""

from collections.abc import Iterator

from service.formulas.memory_access import SECTOR_BYTES
from service.planning.kernels.access_pattern import WARP_LANES, AccessPattern
from service.planning.kernels.requests import AnalyzeMemoryAccessRequest

_SECTORS_ARE_NOT_TIME = (
    "sectors are not time: NVIDIA's Best Practices Guide measured a copy that starts one element off on a V100 at about 9/10 "
    "of the aligned bandwidth, not the 4/5 that its 5 sectors suggest, because neighbouring warps use what the cache holds"
)
_LOWEST_DIMENSION = (
    "let threadIdx.x run along the lowest dimension of the address, so that neighbouring lanes touch neighbouring elements"
)
_TRANSPOSE = (
    "where both orders are needed, load a tile in the order of memory into shared memory and turn it there, with each row one "
    "element longer against bank conflicts"
)
_ARRAYS = "keep each field in an array of its own (structure of arrays): neighbouring lanes then touch neighbouring elements"
_WHOLE = (
    "where all fields are used, let each lane read its structure at once with 8- or 16-byte loads, or let the warp copy the "
    "structures into shared memory in the order of memory"
)
_ALIGN = (
    "start each row at a multiple of 32 bytes (cudaMallocPitch, or a padded leading dimension); it gains less than the sectors "
    "say where neighbouring warps read on"
)
_SORT = "put the elements that lanes use together next to each other: sort the indices, or gather once into a dense array"


def remedies_for(
    request: AnalyzeMemoryAccessRequest, pattern: AccessPattern, sectors: int, best_sectors: int, used_bytes: int
) -> tuple[str, ...]:
    """What would move fewer sectors, most effective first; none where nothing would."""
    if sectors <= -(-used_bytes // SECTOR_BYTES) and len(pattern.lanes) == WARP_LANES:
        return ()
    return tuple(_remedies(request, pattern, sectors, best_sectors))


def _remedies(request: AnalyzeMemoryAccessRequest, pattern: AccessPattern, sectors: int, best: int) -> Iterator[str]:
    if pattern.addresses is not None:
        yield _SORT
        return
    if request.structure is not None and request.structure.struct_bytes > pattern.element_bytes:
        yield _ARRAYS
        yield _WHOLE
    if abs(request.stride_elements if request.stride_elements is not None else 1) > 1:
        yield _LOWEST_DIMENSION
        yield _TRANSPOSE
    elif min(pattern.address_of(lane, 0) for lane in pattern.lanes) % SECTOR_BYTES or sectors > best:
        yield _ALIGN
    if len(pattern.lanes) < WARP_LANES:
        yield f"{WARP_LANES - len(pattern.lanes)} lanes are idle: gather the work of several warps into full ones"


def notes_on(pattern: AccessPattern, efficiency: float, reused: float | None) -> tuple[str, ...]:
    """What the counts do not say."""
    return tuple(_notes(pattern, efficiency, reused))


def _notes(pattern: AccessPattern, efficiency: float, reused: float | None) -> Iterator[str]:
    if efficiency < 1:
        yield _SECTORS_ARE_NOT_TIME
    if reused is not None and reused > efficiency:
        yield (
            f"between {100 * efficiency:.4g} % (each warp fetches alone) and {100 * reused:.4g} % (neighbouring warps find "
            "each other's sectors in the cache) of the bytes moved are used; where in between depends on the cache"
        )
    if pattern.element_bytes > 4:
        part = "half-warp" if pattern.element_bytes == 8 else "quarter-warp"
        yield (
            f"{pattern.element_bytes}-byte accesses are served {part} by {part}, {128 // pattern.element_bytes} lanes at a "
            "time; sectors that two parts share count twice. One instruction then moves more, so that fewer are needed"
        )
    elif pattern.element_bytes < 4 and pattern.distance == pattern.element_bytes:
        yield "a lane could load 4 to 16 bytes at once: the same sectors with fewer instructions"
    if pattern.addresses is None and pattern.distance == 0:
        yield "all lanes touch one element: it is fetched once and handed to all; constant memory serves such reads too"
