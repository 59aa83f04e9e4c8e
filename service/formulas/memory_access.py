"""Global memory as a warp sees it: which 32-byte sectors its lanes touch, and how much of them they use."""

from service.formulas.registry import formula

#: The unit in which global memory is moved, since compute capability 6.0.
SECTOR_BYTES = 32
#: A cache line: four sectors.
LINE_BYTES = 128

_GUIDE = "NVIDIA, CUDA C++ Best Practices Guide, section Coalesced Access to Global Memory"


@formula("1 + Σ_i [⌊a_i / 32⌋ ≠ ⌊a_(i−1) / 32⌋],  a_i = a_0 + i · d", source=_GUIDE)
def sectors_per_group(*, first_address_bytes: float, distance_bytes: float, lanes_per_group: float) -> float:
    """Sectors that lanes at equal distances touch, each reading an element that lies within one sector.

    Holds for up to 32 lanes, at addresses that only rise or only fall.

    >>> sectors_per_group(first_address_bytes=0, distance_bytes=4, lanes_per_group=32)
    4
    >>> sectors_per_group(first_address_bytes=4, distance_bytes=4, lanes_per_group=32)
    5
    >>> sectors_per_group(first_address_bytes=0, distance_bytes=128, lanes_per_group=32)
    32
    """
    sectors = 1 + 0 * (first_address_bytes + distance_bytes + lanes_per_group)
    before = first_address_bytes // SECTOR_BYTES
    for lane in range(1, 32):
        here = (first_address_bytes + lane * distance_bytes) // SECTOR_BYTES
        sectors = sectors + (here != before) * (lane < lanes_per_group)
        before = here
    return sectors


@formula("32 · sectors", source=_GUIDE)
def moved_bytes(*, sectors_per_request: float) -> float:
    """Bytes that are moved for a request: whole sectors, whatever is used of them.

    >>> moved_bytes(sectors_per_request=5)
    160
    """
    return sectors_per_request * SECTOR_BYTES


@formula("used / moved", source=_GUIDE)
def efficiency_ratio(*, used_bytes: float, moved_bytes: float) -> float:
    """The share of the moved bytes that some lane asked for.

    >>> efficiency_ratio(used_bytes=128, moved_bytes=160)
    0.8
    """
    return used_bytes / moved_bytes


@formula("used / (32 · sectors)", source="definition: a sector that neighbouring warps share is moved once")
def efficiency_with_reuse_ratio(*, used_bytes_by_neighbours: float, distinct_sectors: float) -> float:
    """The share used of what moves when neighbouring warps find each other's sectors in the cache.

    64 warps of 128 bytes each, one element off the start of a sector:

    >>> round(efficiency_with_reuse_ratio(used_bytes_by_neighbours=64 * 128, distinct_sectors=64 * 4 + 1), 3)
    0.996
    """
    return used_bytes_by_neighbours / (distinct_sectors * SECTOR_BYTES)
