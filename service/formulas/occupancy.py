"""Occupancy: how many blocks and warps one multiprocessor (SM) holds at once, by each resource that they share."""

from collections.abc import Callable

from service.formulas.registry import formula

#: Threads of a warp on every compute capability that there is.
WARP_THREADS = 32

_CALCULATOR = "NVIDIA CUDA Toolkit 13.0, cuda_occupancy.h"


@formula("⌈T / 32⌉", source=_CALCULATOR)
def warps_per_block(*, threads_per_block: float) -> float:
    """Warps of a block; the last may be partly empty and takes as much room as a full one.

    >>> warps_per_block(threads_per_block=256), warps_per_block(threads_per_block=257)
    (8, 9)
    """
    return -(-threads_per_block // WARP_THREADS)


@formula("⌈32 · R / u⌉ · u", source=_CALCULATOR)
def allocated_registers_per_warp(*, registers_per_thread: float, register_allocation_unit: float) -> float:
    """Registers that a warp takes: those of its 32 threads, rounded up to the unit in which they are handed out.

    >>> allocated_registers_per_warp(registers_per_thread=80, register_allocation_unit=256)
    2560
    >>> allocated_registers_per_warp(registers_per_thread=81, register_allocation_unit=256)
    2816
    """
    return -(-registers_per_thread * WARP_THREADS // register_allocation_unit) * register_allocation_unit


@formula("⌈(S + S_reserved) / u⌉ · u", source=_CALCULATOR)
def allocated_shared_memory_bytes_per_block(
    *,
    shared_memory_bytes_per_block: float,
    reserved_shared_memory_bytes_per_block: float,
    shared_memory_allocation_unit_bytes: float,
) -> float:
    """Shared memory that a block takes: its own and what the system reserves in it, rounded up to the unit.

    >>> allocated_shared_memory_bytes_per_block(shared_memory_bytes_per_block=49152,
    ...     reserved_shared_memory_bytes_per_block=1024, shared_memory_allocation_unit_bytes=128)
    50176
    """
    unit = shared_memory_allocation_unit_bytes
    return -(-(shared_memory_bytes_per_block + reserved_shared_memory_bytes_per_block) // unit) * unit


@formula("⌊W_SM / W⌋", source=_CALCULATOR)
def max_blocks_by_warps(*, max_warps_per_sm: float, warps_per_block: float) -> float:
    """Blocks that the warp slots of an SM hold.

    >>> max_blocks_by_warps(max_warps_per_sm=64, warps_per_block=8)
    8
    """
    return max_warps_per_sm // warps_per_block


@formula("⌊⌊(F / P) / r⌋ · P / W⌋", source=_CALCULATOR)
def max_blocks_by_registers(
    *,
    registers_per_sm: float,
    num_sub_partitions: float,
    allocated_registers_per_warp: float,
    warps_per_block: float,
) -> float:
    """Blocks that the register file of an SM holds.

    A warp lives in one of the P sub-partitions, and each has its own F / P registers: what is left over in one is of no use
    to a warp of another.

    >>> max_blocks_by_registers(registers_per_sm=65536, num_sub_partitions=4, allocated_registers_per_warp=2560,
    ...     warps_per_block=8)
    3
    """
    warps = registers_per_sm // num_sub_partitions // allocated_registers_per_warp * num_sub_partitions
    return warps // warps_per_block


@formula("⌊C / s⌋", source=_CALCULATOR)
def max_blocks_by_shared_memory(
    *, shared_memory_carveout_bytes_per_sm: float, allocated_shared_memory_bytes_per_block: float
) -> float:
    """Blocks that the part of an SM's memory that is configured as shared memory holds.

    >>> max_blocks_by_shared_memory(shared_memory_carveout_bytes_per_sm=233472,
    ...     allocated_shared_memory_bytes_per_block=50176)
    4
    """
    return shared_memory_carveout_bytes_per_sm // allocated_shared_memory_bytes_per_block


@formula("⌊b_SM / b⌋", source=_CALCULATOR)
def max_blocks_by_barriers(*, max_barriers_per_sm: float, barriers_per_block: float) -> float:
    """Blocks whose barriers an SM can keep.

    >>> max_blocks_by_barriers(max_barriers_per_sm=64, barriers_per_block=16)
    4
    """
    return max_barriers_per_sm // barriers_per_block


@formula("min(B_warps, B_registers, B_shared_memory, B_barriers, B_SM)", source=_CALCULATOR)
def active_blocks_per_sm(
    *,
    max_blocks_by_warps: float,
    max_blocks_by_registers: float,
    max_blocks_by_shared_memory: float,
    max_blocks_by_barriers: float,
    max_blocks_per_sm: float,
    minimum: Callable[[float, float], float] = min,
) -> float:
    """Blocks that an SM holds at once: whichever resource runs out first decides; one not used counts as the block slots.

    A sweep passes ``minimum=np.minimum``.

    >>> active_blocks_per_sm(max_blocks_by_warps=8, max_blocks_by_registers=3, max_blocks_by_shared_memory=228,
    ...     max_blocks_by_barriers=64, max_blocks_per_sm=32)
    3
    """
    by_memory = minimum(max_blocks_by_shared_memory, max_blocks_by_barriers)
    return minimum(minimum(max_blocks_by_warps, max_blocks_by_registers), minimum(by_memory, max_blocks_per_sm))


@formula("B · W", source="definition")
def active_warps_per_sm(*, active_blocks_per_sm: float, warps_per_block: float) -> float:
    """Warps that an SM holds at once.

    >>> active_warps_per_sm(active_blocks_per_sm=3, warps_per_block=8)
    24
    """
    return active_blocks_per_sm * warps_per_block


@formula("B · W / W_SM", source="NVIDIA, CUDA C++ Best Practices Guide, section Occupancy")
def occupancy_ratio(*, active_warps_per_sm: float, max_warps_per_sm: float) -> float:
    """Warps that an SM holds, as a share of those that it could hold.

    >>> occupancy_ratio(active_warps_per_sm=24, max_warps_per_sm=64)
    0.375
    """
    return active_warps_per_sm / max_warps_per_sm


@formula("⌊N_SM · B / c⌋", source="each block of a cluster needs a place, and an SM has B")
def max_active_clusters(*, num_sms: float, active_blocks_per_sm: float, blocks_per_cluster: float) -> float:
    """Thread-block clusters that can be active at most on the whole device.

    A cluster lives within one GPC, and the SMs of a GPC need not divide into clusters, so there may be fewer.

    >>> max_active_clusters(num_sms=132, active_blocks_per_sm=1, blocks_per_cluster=16)
    8
    """
    return num_sms * active_blocks_per_sm // blocks_per_cluster
