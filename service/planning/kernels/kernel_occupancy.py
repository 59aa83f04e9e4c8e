"""The answer to ComputeOccupancy: one kernel by its figures, or each of those that a compiler listed."""

from typing import Final

from msgspec.structs import replace

from service.catalogue.compute_capabilities import ComputeCapability
from service.catalogue.entries import Catalogue, Figure
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import compute_capability as look_up
from service.formulas.occupancy import max_active_clusters
from service.planning.errors import InvalidRequest, NotFound, TooLarge, Violation
from service.planning.explain import Apply, Recorder, plainly
from service.planning.kernels.occupancy import (
    MAX_REGISTERS,
    MAX_SHARED_MEMORY_BYTES,
    Launch,
    Residence,
    allocated_shared_memory,
    carveout_for,
    limiting_factors,
    obstacles,
    residence,
)
from service.planning.kernels.occupancy_steps import next_steps
from service.planning.kernels.requests import ComputeOccupancyRequest
from service.planning.kernels.resource_usage import ResourceUsage, read_resource_usage
from service.planning.kernels.results import (
    ClusterOccupancy,
    ComputeOccupancyResponse,
    KernelOccupancy,
    LaunchObstacle,
    LimitingFactor,
)
from service.planning.results import UsedFigure

#: Kernels of one text: each takes some 0.2 ms.
MAX_KERNELS: Final = 100

_NOTES: Final = (
    "occupancy says how many warps an SM has to switch between while others wait; it is not speed. Once latency is hidden, "
    "more warps gain nothing, and kernels of few warps with many registers hide it by independent instructions and "
    "asynchronous copies. No occupancy lifts the ceiling of memory bandwidth",
    "this is the most that fits; a profiler shows what was achieved, which a small grid or an uneven end of it lowers",
)
_FACTOR_OF: Final = {
    "threads_per_block": LimitingFactor.WARPS,
    "registers_per_thread": LimitingFactor.REGISTERS,
    "shared_memory_bytes_per_block": LimitingFactor.SHARED_MEMORY,
    "barriers_per_block": LimitingFactor.BARRIERS,
}


def compute_occupancy(catalogue: Catalogue, request: ComputeOccupancyRequest) -> ComputeOccupancyResponse:
    """The occupancy of each kernel. InvalidRequest, NotFound or TooLarge where there is no answer."""
    usages, notes = _usages(request)
    recorder = Recorder() if request.explain else None
    kernels = tuple(_kernel(catalogue, request, usage, recorder or plainly) for usage in usages)
    lowest = min(kernels, key=lambda each: each.occupancy_ratio)
    names = dict.fromkeys(each.compute_capability for each in kernels)
    figures = tuple(figure for name in names for figure in _figures(catalogue, catalogue.compute_capabilities[name]))
    return ComputeOccupancyResponse(
        active_blocks_per_sm=lowest.active_blocks_per_sm,
        active_warps_per_sm=lowest.active_warps_per_sm,
        occupancy_ratio=lowest.occupancy_ratio,
        limiting_factors=lowest.limiting_factors,
        can_launch=not any(each.obstacles for each in kernels),
        kernels=kernels,
        notes=_NOTES,
        assumptions=(*notes, *_assumptions(request, kernels)),
        catalogue_revision=catalogue.revision,
        explanation=recorder.explanation(figures) if recorder else None,
    )


# -- which kernels ----------------------------------------------------------------------------------------------------


def _usages(request: ComputeOccupancyRequest) -> tuple[list[ResourceUsage], tuple[str, ...]]:
    """What each kernel uses by itself, and what is to be said about the choice."""
    if not request.resource_usage_text.strip():
        return [_asked_for(request)], ()
    found = list(read_resource_usage(request.resource_usage_text))
    if not found:
        reason = "no line of it reads like 'Used 32 registers'"
        raise InvalidRequest(Violation("resource_usage_text", reason, "send what nvcc --resource-usage or ptxas -v prints"))
    if request.registers_per_thread is not None:
        reason = "the text holds the registers already"
        raise InvalidRequest(Violation("registers_per_thread", reason, "give one of the two"))
    if any(each.registers_per_thread > MAX_REGISTERS or each.registers_per_thread == 0 for each in found):
        raise InvalidRequest(Violation("resource_usage_text", f"a kernel uses no registers, or more than {MAX_REGISTERS}"))
    if len(found) > MAX_KERNELS:
        raise TooLarge("resource_usage_text", f"it lists {len(found)} kernels", MAX_KERNELS, "send them in several requests")
    return _of_capability(request.compute_capability, found)


def _asked_for(request: ComputeOccupancyRequest) -> ResourceUsage:
    missing = []
    if not request.compute_capability:
        missing.append(Violation("compute_capability", "it is not given", 'give it as "9.0" or "sm_90"'))
    if request.registers_per_thread is None:
        missing.append(
            Violation("registers_per_thread", "it is not given", "nvcc --resource-usage prints it; or send resource_usage_text")
        )
    if missing or request.registers_per_thread is None:
        raise InvalidRequest(*missing)
    return ResourceUsage("", "", request.registers_per_thread, 0, None, 0, 0, 0)


def _of_capability(asked: str, found: list[ResourceUsage]) -> tuple[list[ResourceUsage], tuple[str, ...]]:
    """Where one capability is asked for and the text holds several: those compiled for it."""
    if not asked:
        if any(not each.architecture for each in found):
            reason = "it is not given, and no line before a kernel says what it was compiled for"
            raise InvalidRequest(Violation("compute_capability", reason, 'give it as "9.0" or "sm_90"'))
        return found, ()
    own = [each for each in found if _plain(each.architecture) in {"", _plain(asked)}]
    if not own:
        compiled = ", ".join(sorted({each.architecture for each in found}))
        return found, (f"registers and shared memory as compiled for {compiled}; another target may need others",)
    left_out = len(found) - len(own)
    return own, ((f"{left_out} kernels compiled for other targets left out",) if left_out else ())


def _plain(name: str) -> str:
    """The digits of a capability: of "sm_90a" and of "9.0" they are "90"."""
    return "".join(character for character in name if character.isdigit())


def _limits(catalogue: Catalogue, request: ComputeOccupancyRequest, usage: ResourceUsage) -> ComputeCapability:
    name = request.compute_capability or usage.architecture
    field = "compute_capability" if request.compute_capability else "resource_usage_text"
    try:
        return look_up(catalogue, name.strip())
    except UnknownName as unknown:
        raise NotFound(field, "compute capability", name, unknown.nearest) from None


# -- one kernel -------------------------------------------------------------------------------------------------------


def _kernel(catalogue: Catalogue, request: ComputeOccupancyRequest, usage: ResourceUsage, apply: Apply) -> KernelOccupancy:
    limits = _limits(catalogue, request, usage)
    launch = _launch(request, usage)
    needed = allocated_shared_memory(limits, launch.shared_memory, plainly)
    carveout = carveout_for(limits, request.shared_memory_carveout_bytes_per_sm, needed)
    found = residence(limits, launch, carveout, apply)
    factors = limiting_factors(limits, found)
    in_the_way = _cluster_obstacles(limits, request.blocks_per_cluster)
    refused = (*obstacles(limits, launch, found), *in_the_way)
    if refused:
        factors = tuple(dict.fromkeys(_FACTOR_OF[each.field] for each in refused if each.field in _FACTOR_OF))
        found = replace(found, active_blocks=0, active_warps=0, occupancy_ratio=0.0)
    return KernelOccupancy(
        name=usage.name,
        compute_capability=limits.name,
        threads_per_block=launch.threads,
        registers_per_thread=launch.registers,
        shared_memory_bytes_per_block=launch.shared_memory,
        barriers_per_block=launch.barriers,
        warps_per_block=found.warps_per_block,
        allocated_registers_per_warp=found.registers_per_warp,
        allocated_shared_memory_bytes_per_block=found.shared_memory_per_block,
        active_blocks_per_sm=found.active_blocks,
        active_warps_per_sm=found.active_warps,
        max_warps_per_sm=int(limits.max_warps_per_sm.value),
        occupancy_ratio=found.occupancy_ratio,
        limiting_factors=factors,
        max_blocks_by_warps=found.by_warps,
        max_blocks_by_registers=found.by_registers,
        max_blocks_by_shared_memory=found.by_shared_memory,
        max_blocks_by_barriers=found.by_barriers,
        max_blocks_per_sm=int(limits.max_blocks_per_sm.value),
        shared_memory_carveout_bytes_per_sm=carveout,
        obstacles=refused,
        next_steps=() if in_the_way else next_steps(limits, launch, found, carveout),
        cluster=None if in_the_way else _cluster(limits, request, found, apply),
        notes=_usage_notes(limits, launch, usage),
    )


def _launch(request: ComputeOccupancyRequest, usage: ResourceUsage) -> Launch:
    shared_memory = usage.static_shared_memory_bytes + (request.shared_memory_bytes_per_block or 0)
    if shared_memory > MAX_SHARED_MEMORY_BYTES:
        reason = f"with the static part it is {shared_memory} bytes, more than any device has"
        raise InvalidRequest(Violation("shared_memory_bytes_per_block", reason))
    barriers = usage.barriers_per_block if request.barriers_per_block is None else request.barriers_per_block
    return Launch(request.threads_per_block, usage.registers_per_thread, shared_memory, barriers)


def _usage_notes(limits: ComputeCapability, launch: Launch, usage: ResourceUsage) -> tuple[str, ...]:
    notes = []
    if usage.spill_store_bytes or usage.spill_load_bytes:
        notes.append(
            f"it spills registers to local memory ({usage.spill_store_bytes} bytes stored, {usage.spill_load_bytes} loaded by "
            "a thread): fewer registers would spill more, and may cost more than the occupancy gains"
        )
    most_static = int(limits.default_shared_memory_per_block.value)
    if launch.shared_memory > most_static:
        notes.append(
            f"beyond {most_static} bytes, shared memory must be dynamic and opted in to "
            "(cudaFuncAttributeMaxDynamicSharedMemorySize)"
        )
    return tuple(notes)


# -- clusters ---------------------------------------------------------------------------------------------------------


def _cluster_obstacles(limits: ComputeCapability, blocks: int | None) -> tuple[LaunchObstacle, ...]:
    if blocks is None or blocks == 1:
        return ()
    if limits.portable_blocks_per_cluster is None:
        reason = f"compute capability {limits.name} has no thread-block clusters; they begin with 9.0"
        return (LaunchObstacle("blocks_per_cluster", blocks, 1, reason),)
    if limits.max_blocks_per_cluster is not None and blocks > limits.max_blocks_per_cluster.value:
        most = int(limits.max_blocks_per_cluster.value)
        reason = f"a cluster of compute capability {limits.name} has at most {most} blocks"
        return (LaunchObstacle("blocks_per_cluster", blocks, most, reason),)
    return ()


def _cluster(
    limits: ComputeCapability, request: ComputeOccupancyRequest, found: Residence, apply: Apply
) -> ClusterOccupancy | None:
    blocks = request.blocks_per_cluster
    if blocks is None:
        return None
    most = None
    if request.num_sms is not None:
        most = apply(
            max_active_clusters,
            num_sms=request.num_sms,
            active_blocks_per_sm=found.active_blocks,
            blocks_per_cluster=blocks,
        )
    sentences = [
        "blocks and warps of an SM are those without clusters, and so the most there can be: a cluster must find all its "
        "blocks a place within one GPC, and how many SMs each GPC has differs from device to device and is not published. "
        "cudaOccupancyMaxActiveClusters says it for the device at hand"
    ]
    if most is None:
        sentences.append("to bound the clusters of the whole device, give num_sms")
    portable = limits.portable_blocks_per_cluster
    if portable is not None and blocks > portable.value:
        known = "" if limits.max_blocks_per_cluster else f"; whether {limits.name} allows {blocks} is not known here"
        sentences.append(
            f"more than {portable.value:g} blocks need cudaFuncAttributeNonPortableClusterSizeAllowed and may not be had on "
            f"every device{known}"
        )
    return ClusterOccupancy(blocks, None if most is None else float(most), "; ".join(sentences))


# -- what was assumed, and what it rests on ---------------------------------------------------------------------------


def _assumptions(request: ComputeOccupancyRequest, kernels: tuple[KernelOccupancy, ...]) -> tuple[str, ...]:
    notes = []
    asked = request.shared_memory_carveout_bytes_per_sm
    carveouts = sorted({each.shared_memory_carveout_bytes_per_sm for each in kernels})
    if asked is None:
        notes.append("shared memory of an SM at its largest carve-out (default)")
    elif carveouts != [asked]:
        sizes = ", ".join(map(str, carveouts))
        notes.append(
            f"a carve-out of {asked} bytes does not exist, or holds no block: {sizes} bytes are taken, as the driver would"
        )
    if any(each.barriers_per_block is None for each in kernels):
        notes.append("barriers are not counted: barriers_per_block is not given")
    if request.resource_usage_text.strip() and request.shared_memory_bytes_per_block is None:
        notes.append("no dynamic shared memory: shared_memory_bytes_per_block is not given")
    elif request.shared_memory_bytes_per_block is None:
        notes.append("no shared memory: shared_memory_bytes_per_block is not given")
    if request.blocks_per_cluster is None:
        notes.append("launched without thread-block clusters: blocks_per_cluster is not given")
    elif request.blocks_per_cluster == 1:
        notes.append("a cluster of one block is no cluster")
    return tuple(notes)


def _figures(catalogue: Catalogue, limits: ComputeCapability) -> list[UsedFigure]:
    """The limits that occupancy rests on, named with the capability."""
    named = {name: getattr(limits, name) for name in limits.__struct_fields__}
    return [
        UsedFigure(
            f"{limits.name}.{name}",
            figure.value,
            figure.unit,
            figure.basis.value,
            tuple(catalogue.sources[source].title for source in figure.sources),
            figure.note or "",
        )
        for name, figure in named.items()
        if isinstance(figure, Figure)
    ]
