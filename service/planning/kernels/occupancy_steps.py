"""What would raise occupancy: the next register count, the next shared-memory size, other block sizes."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from service.catalogue.compute_capabilities import ComputeCapability
from service.formulas.occupancy import WARP_THREADS
from service.planning.explain import plainly
from service.planning.kernels.occupancy import Launch, Residence, obstacles, residence
from service.planning.kernels.results import OccupancyStep

#: Fewer registers than this no kernel of use has.
_FEWEST_REGISTERS: Final = 16


def next_steps(limits: ComputeCapability, launch: Launch, found: Residence, carveout: int) -> tuple[OccupancyStep, ...]:
    """Changes after which an SM holds more warps, the gentlest of each kind; none where it is full."""
    if found.active_warps == int(limits.max_warps_per_sm.value):
        return ()
    fewer = _fewer_registers(limits, launch, found, carveout)
    less = _less_shared_memory(limits, launch, found, carveout)
    singles = [each for each in (fewer, less) if each is not None]
    if not singles and launch.shared_memory:
        singles = list(_both(limits, launch, found, carveout))
    return (*singles, *_other_sizes(limits, launch, found, carveout))


def _attempt(limits: ComputeCapability, launch: Launch, carveout: int) -> Residence | None:
    """What an SM holds then; None where the launch would be refused."""
    found = residence(limits, launch, carveout, plainly)
    return None if any(obstacles(limits, launch, found)) else found


def _fewer_registers(limits: ComputeCapability, launch: Launch, found: Residence, carveout: int) -> OccupancyStep | None:
    """The most registers with which an SM holds more warps, all else equal."""
    unit, most = int(limits.register_allocation_unit.value) // WARP_THREADS, int(limits.max_registers_per_thread.value)
    beyond = [most] if launch.registers > most else []
    for registers in (*beyond, *range((min(launch.registers, most) - 1) // unit * unit, _FEWEST_REGISTERS - 1, -unit)):
        then = _attempt(limits, replace(launch, registers=registers), carveout)
        if then is not None and then.active_warps > found.active_warps:
            text = f"{registers} registers per thread instead of {launch.registers}: {_then(then)}"
            return _step(then, text, registers=registers)
    return None


def _sizes(limits: ComputeCapability, found: Residence, carveout: int) -> Iterator[int]:
    """The most shared memory of a block, in bytes, with which an SM holds one block more than now, two more, and so on."""
    unit = int(limits.shared_memory_allocation_unit.value)
    for blocks in range(found.active_blocks + 1, int(limits.max_blocks_per_sm.value) + 1):
        size = carveout // blocks // unit * unit - limits.reserved_bytes
        if size < 0:
            return
        yield min(size, int(limits.max_shared_memory_per_block.value))


def _less_shared_memory(limits: ComputeCapability, launch: Launch, found: Residence, carveout: int) -> OccupancyStep | None:
    """The most shared memory with which an SM holds more warps, all else equal."""
    for size in _sizes(limits, found, carveout):
        then = _attempt(limits, replace(launch, shared_memory=size), carveout) if size <= launch.shared_memory else None
        if then is not None and then.active_warps > found.active_warps:
            text = f"{size} bytes of shared memory per block instead of {launch.shared_memory}: {_then(then)}"
            return _step(then, text, shared_memory=size)
    return None


def _both(limits: ComputeCapability, launch: Launch, found: Residence, carveout: int) -> Iterator[OccupancyStep]:
    """Where registers and shared memory run out together: the first of both changes that helps."""
    for size in _sizes(limits, found, carveout):
        smaller = replace(launch, shared_memory=min(size, launch.shared_memory))
        step = _fewer_registers(limits, smaller, found, carveout)
        if step is not None and step.registers_per_thread is not None:
            registers = step.registers_per_thread
            then = residence(limits, replace(smaller, registers=registers), carveout, plainly)
            text = f"{registers} registers per thread and {smaller.shared_memory} bytes of shared memory: {_then(then)}"
            yield _step(then, text, registers=registers, shared_memory=smaller.shared_memory)
            return


def _other_sizes(limits: ComputeCapability, launch: Launch, found: Residence, carveout: int) -> Iterator[OccupancyStep]:
    """The nearest smaller and the nearest larger block, in whole warps, with which an SM holds more warps."""
    most = int(limits.max_threads_per_block.value)
    smaller = range(min((launch.threads - 1) // WARP_THREADS * WARP_THREADS, most), 0, -WARP_THREADS)
    larger = range((launch.threads // WARP_THREADS + 1) * WARP_THREADS, most + 1, WARP_THREADS)
    for sizes in (smaller, larger):
        for threads in sizes:
            then = _attempt(limits, replace(launch, threads=threads), carveout)
            if then is not None and then.active_warps > found.active_warps:
                text = f"{threads} threads per block instead of {launch.threads}, all else of a block equal: {_then(then)}"
                yield _step(then, text, threads=threads)
                break


def _then(found: Residence) -> str:
    blocks = "1 block" if found.active_blocks == 1 else f"{found.active_blocks} blocks"
    return f"{blocks}, {found.active_warps} warps, {100 * found.occupancy_ratio:.4g} %"


def _step(
    found: Residence,
    description: str,
    *,
    threads: int | None = None,
    registers: int | None = None,
    shared_memory: int | None = None,
) -> OccupancyStep:
    return OccupancyStep(
        threads_per_block=threads,
        registers_per_thread=registers,
        shared_memory_bytes_per_block=shared_memory,
        active_blocks_per_sm=found.active_blocks,
        active_warps_per_sm=found.active_warps,
        occupancy_ratio=found.occupancy_ratio,
        description=description,
    )
