"""From keyword arguments to request messages, for questions about kernels and for rooflines."""

from collections.abc import Iterable

from tonnage.requests import Accelerator, _accelerator, _either, _message
from tonnage.v1.capacity_service_pb2 import EstimateDecodeRequest
from tonnage.v1.fusion_pb2 import AnalyzeFusionRequest, Operator
from tonnage.v1.kernel_service_pb2 import AnalyzeMemoryAccessRequest, ComputeOccupancyRequest, StructureLayout
from tonnage.v1.roofline_pb2 import DrawRooflineRequest, OwnPoints


def compute_occupancy(
    request: ComputeOccupancyRequest | None = None,
    /,
    *,
    compute_capability: str | None = None,
    threads_per_block: int | None = None,
    registers_per_thread: int | None = None,
    shared_memory_bytes_per_block: int | None = None,
    resource_usage_text: str | None = None,
    shared_memory_carveout_bytes_per_sm: int | None = None,
    barriers_per_block: int | None = None,
    blocks_per_cluster: int | None = None,
    num_sms: int | None = None,
    explain: bool = False,
) -> ComputeOccupancyRequest:
    """Asks how many blocks and warps of a kernel an SM holds at once, what limits them, and what would raise them.

    Args:
        request: A ready request, in place of all that follows.
        compute_capability: "9.0" or "sm_90". Needed unless ``resource_usage_text`` names it.
        threads_per_block: Threads of a block. Needed.
        registers_per_thread: Registers of a thread. Needed unless ``resource_usage_text`` holds them.
        shared_memory_bytes_per_block: Shared memory of a block; with ``resource_usage_text``, its dynamic part. Default 0.
        resource_usage_text: What ``nvcc --resource-usage`` or ``ptxas -v`` printed, for one kernel or many.
        shared_memory_carveout_bytes_per_sm: Memory of an SM that is configured as shared memory. Default: the most there is.
        barriers_per_block: Barriers of a block. Default: as the text says, else not counted.
        blocks_per_cluster: Blocks of a thread-block cluster. Default: no clusters.
        num_sms: SMs of the device, to bound the clusters that are active at once.
        explain: Whether the answer carries every formula applied.

    Raises:
        InvalidRequest: Something is missing, malformed or contradictory. A kernel that cannot be launched is an answer.
        NotFound: The catalogue knows no such compute capability.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        ComputeOccupancyRequest,
        compute_capability=compute_capability,
        threads_per_block=threads_per_block,
        registers_per_thread=registers_per_thread,
        shared_memory_bytes_per_block=shared_memory_bytes_per_block,
        resource_usage_text=resource_usage_text,
        shared_memory_carveout_bytes_per_sm=shared_memory_carveout_bytes_per_sm,
        barriers_per_block=barriers_per_block,
        blocks_per_cluster=blocks_per_cluster,
        num_sms=num_sms,
        explain=explain,
    )
    return _either(request, asked)


def analyze_memory_access(
    request: AnalyzeMemoryAccessRequest | None = None,
    /,
    *,
    element_bytes: int | None = None,
    stride_elements: int | None = None,
    offset_elements: int | None = None,
    base_alignment_bytes: int | None = None,
    structure: StructureLayout | None = None,
    active_mask: str | None = None,
    addresses_bytes: Iterable[float] | None = None,
    explain: bool = False,
) -> AnalyzeMemoryAccessRequest:
    """Asks which 32-byte sectors one load or store of a warp touches, how much of them it uses, and what would use more.

    Args:
        request: A ready request, in place of all that follows.
        element_bytes: Bytes that a lane touches: 1, 2, 4, 8 or 16. Default 4.
        stride_elements: Elements from one lane to the next. Default 1.
        offset_elements: Elements from the array's start to lane 0. Default 0.
        base_alignment_bytes: What the array's start is a multiple of. Default 256.
        structure: Where the field lies, for an array of structures; stride and offset then count structures.
        active_mask: Which lanes take part, "0xffffffff", lane 0 lowest. Default: all.
        addresses_bytes: The byte address of each lane, instead of a pattern.
        explain: Whether the answer carries every formula applied.

    Raises:
        InvalidRequest: The pattern is none, or the hardware refuses it (misaligned accesses).
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        AnalyzeMemoryAccessRequest,
        element_bytes=element_bytes,
        stride_elements=stride_elements,
        offset_elements=offset_elements,
        base_alignment_bytes=base_alignment_bytes,
        structure=structure,
        active_mask=active_mask,
        addresses_bytes=None if addresses_bytes is None else list(addresses_bytes),
        explain=explain,
    )
    return _either(request, asked)


def analyze_fusion(
    request: AnalyzeFusionRequest | None = None,
    /,
    *,
    operators: Iterable[Operator] | None = None,
    accelerator: Accelerator | None = None,
    precision: str | None = None,
    launch_seconds: float | None = None,
    explain: bool = False,
) -> AnalyzeFusionRequest:
    """Asks for bytes, operations, launches and roofline time of operators: eager, fused, and fused into GEMMs.

    Args:
        request: A ready request, in place of all that follows.
        operators: The operators in order; each reads the one before it unless it says otherwise.
        accelerator: A name ("h100-sxm"), an InlineAccelerator or an AcceleratorSpec.
        precision: Number format of tensors and arithmetic. Default "bf16".
        launch_seconds: Seconds to submit one kernel. Default: the service's, stated in the answer.
        explain: Whether the answer carries every formula applied.

    Raises:
        InvalidRequest: Shapes or names do not match.
        NotFound: The catalogue knows no such accelerator.
        Unanswerable: The accelerator has no such peak.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        AnalyzeFusionRequest,
        operators=None if operators is None else list(operators),
        accelerator=_accelerator(accelerator),
        precision=precision,
        launch_seconds=launch_seconds,
        explain=explain,
    )
    return _either(request, asked)


def draw_roofline(
    request: DrawRooflineRequest | None = None,
    /,
    *,
    decode: EstimateDecodeRequest | None = None,
    fusion: AnalyzeFusionRequest | None = None,
    own: OwnPoints | None = None,
    precisions: Iterable[str] = (),
    title: str | None = None,
) -> DrawRooflineRequest:
    """Asks for a roofline as data and as an SVG picture: of a decode step, of operators, or of one's own points.

    Args:
        request: A ready request, in place of all that follows.
        decode: A question to ``estimate_decode``; its step is drawn at several batches.
        fusion: A question to ``analyze_fusion``; its operators and fused kernels are drawn.
        own: Points measured or computed elsewhere, with their accelerator.
        precisions: Number formats whose roofs are drawn. Default: what the points use, else all.
        title: A heading.

    Raises:
        InvalidRequest: Something in the question is malformed or contradictory.
        NotFound: The catalogue knows no such model or accelerator.
        Unanswerable: The accelerator has no such peak, or its bandwidth is not known.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        DrawRooflineRequest,
        decode=decode,
        fusion=fusion,
        own=own,
        precisions=",".join(precisions) or None,
        title=title,
    )
    return _either(request, asked)
