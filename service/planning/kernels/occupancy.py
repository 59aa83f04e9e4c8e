"""How many blocks and warps of a kernel does an SM hold, what limits them, and can the kernel be launched at all?"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from service.catalogue.compute_capabilities import ComputeCapability
from service.formulas import occupancy as formulas
from service.planning.explain import Apply
from service.planning.kernels.results import LaunchObstacle, LimitingFactor

#: Nothing allocates more than this many bytes or registers; it keeps what follows from them within 32 bits.
MAX_SHARED_MEMORY_BYTES: Final = 1_000_000_000
MAX_REGISTERS: Final = 1_000_000


class Launch(Struct, frozen=True):
    """What a kernel takes; memory in bytes. ``barriers`` is None where they are not counted."""

    threads: int
    registers: int
    shared_memory: int
    barriers: int | None


class Residence(Struct, frozen=True):
    """What an SM holds of a kernel, term by term."""

    warps_per_block: int
    registers_per_warp: int
    shared_memory_per_block: int
    by_warps: int
    by_registers: int
    by_shared_memory: int | None
    by_barriers: int | None
    active_blocks: int
    active_warps: int
    occupancy_ratio: float


def carveout_for(limits: ComputeCapability, asked: int | None, needed: int) -> int:
    """The carve-out in bytes: the smallest that holds what was asked for and one block; the largest where nothing was."""
    sizes = [int(each.value) for each in limits.shared_memory_carveouts]
    least = sizes[-1] if asked is None else max(asked, needed)
    return next((size for size in sizes if size >= least), sizes[-1])


def allocated_shared_memory(limits: ComputeCapability, shared_memory: int, apply: Apply) -> int:
    """Shared memory that a block takes, in bytes, with reserve and rounding."""
    return int(
        apply(
            formulas.allocated_shared_memory_bytes_per_block,
            shared_memory_bytes_per_block=shared_memory,
            reserved_shared_memory_bytes_per_block=limits.reserved_bytes,
            shared_memory_allocation_unit_bytes=limits.shared_memory_allocation_unit.value,
        )
    )


def residence(limits: ComputeCapability, launch: Launch, carveout: int, apply: Apply) -> Residence:
    """What an SM holds, the limits on a single block (threads, registers, shared memory of one) left aside."""
    warps = int(apply(formulas.warps_per_block, threads_per_block=launch.threads))
    registers = int(
        apply(
            formulas.allocated_registers_per_warp,
            registers_per_thread=launch.registers,
            register_allocation_unit=limits.register_allocation_unit.value,
        )
    )
    shared_memory = allocated_shared_memory(limits, launch.shared_memory, apply)
    by_warps = apply(formulas.max_blocks_by_warps, max_warps_per_sm=limits.max_warps_per_sm.value, warps_per_block=warps)
    by_registers = apply(
        formulas.max_blocks_by_registers,
        registers_per_sm=limits.registers_per_sm.value,
        num_sub_partitions=limits.num_sub_partitions.value,
        allocated_registers_per_warp=registers,
        warps_per_block=warps,
    )
    by_shared_memory, by_barriers = _by_memory_and_barriers(limits, launch, carveout, shared_memory, apply)
    slots = limits.max_blocks_per_sm.value
    blocks = apply(
        formulas.active_blocks_per_sm,
        max_blocks_by_warps=by_warps,
        max_blocks_by_registers=by_registers,
        max_blocks_by_shared_memory=slots if by_shared_memory is None else by_shared_memory,
        max_blocks_by_barriers=slots if by_barriers is None else by_barriers,
        max_blocks_per_sm=slots,
    )
    active_warps = apply(formulas.active_warps_per_sm, active_blocks_per_sm=blocks, warps_per_block=warps)
    ratio = apply(formulas.occupancy_ratio, active_warps_per_sm=active_warps, max_warps_per_sm=limits.max_warps_per_sm.value)
    return Residence(
        warps_per_block=warps,
        registers_per_warp=registers,
        shared_memory_per_block=shared_memory,
        by_warps=int(by_warps),
        by_registers=int(by_registers),
        by_shared_memory=by_shared_memory,
        by_barriers=by_barriers,
        active_blocks=int(blocks),
        active_warps=int(active_warps),
        occupancy_ratio=ratio,
    )


def _by_memory_and_barriers(
    limits: ComputeCapability, launch: Launch, carveout: int, shared_memory: int, apply: Apply
) -> tuple[int | None, int | None]:
    by_memory = by_barriers = None
    if shared_memory:
        by_memory = apply(
            formulas.max_blocks_by_shared_memory,
            shared_memory_carveout_bytes_per_sm=carveout,
            allocated_shared_memory_bytes_per_block=shared_memory,
        )
    if launch.barriers:
        by_barriers = apply(
            formulas.max_blocks_by_barriers,
            max_barriers_per_sm=limits.max_barriers_per_sm.value,
            barriers_per_block=launch.barriers,
        )
    return None if by_memory is None else int(by_memory), None if by_barriers is None else int(by_barriers)


def limiting_factors(limits: ComputeCapability, found: Residence) -> tuple[LimitingFactor, ...]:
    """The resources that run out at the number of active blocks."""
    candidates = (
        (LimitingFactor.WARPS, found.by_warps),
        (LimitingFactor.REGISTERS, found.by_registers),
        (LimitingFactor.SHARED_MEMORY, found.by_shared_memory),
        (LimitingFactor.BLOCKS, int(limits.max_blocks_per_sm.value)),
        (LimitingFactor.BARRIERS, found.by_barriers),
    )
    return tuple(factor for factor, blocks in candidates if blocks == found.active_blocks)


def obstacles(limits: ComputeCapability, launch: Launch, found: Residence) -> Iterator[LaunchObstacle]:
    """Why the hardware refuses to launch the kernel at all."""
    name = f"compute capability {limits.name}"
    threads, registers = int(limits.max_threads_per_block.value), int(limits.max_registers_per_thread.value)
    if launch.threads > threads:
        reason = f"a block of {name} has at most {threads} threads; launch more blocks of fewer threads"
        yield LaunchObstacle("threads_per_block", launch.threads, threads, reason)
    if launch.registers > registers:
        reason = f"a thread has at most {registers} registers; the compiler spills what is beyond"
        yield LaunchObstacle("registers_per_thread", launch.registers, registers, reason)
    elif found.by_registers == 0:
        needed, held = found.warps_per_block * found.registers_per_warp, int(limits.max_registers_per_block.value)
        reason = (
            f"a block takes {needed} registers, {found.registers_per_warp} for each of its {found.warps_per_block} warps, and "
            f"the {held} of an SM are split over {limits.num_sub_partitions.value:g} sub-partitions: use fewer threads or "
            "registers (__launch_bounds__, -maxrregcount)"
        )
        yield LaunchObstacle("registers_per_thread", needed, held, reason)
    most = int(limits.max_shared_memory_per_block.value)
    if launch.shared_memory > most:
        reserve = f" (an SM's {limits.shared_memory_per_sm.value:g} less {limits.reserved_bytes} reserved in each block)"
        reason = (
            f"a block has at most {most} bytes of shared memory{reserve if limits.reserved_bytes else ''}; use smaller tiles"
        )
        yield LaunchObstacle("shared_memory_bytes_per_block", launch.shared_memory, most, reason)
    barriers = int(limits.max_barriers_per_block.value)
    if launch.barriers is not None and launch.barriers > barriers:
        reason = f"a block has at most {barriers} barriers"
        yield LaunchObstacle("barriers_per_block", launch.barriers, barriers, reason)
