"""What can be asked about kernels. Field for field the messages of kernel_service.proto, fusion.proto and roofline.proto.

As in ``service.planning.requests``: ``None`` means "not given", and planning states the default that it takes.
"""

from msgspec import Struct

from service.planning.requests import AcceleratorSpec, EstimateDecodeRequest


class ComputeOccupancyRequest(Struct, frozen=True):
    """A kernel, or all those that a compiler listed, and how it is launched."""

    threads_per_block: int
    compute_capability: str = ""
    registers_per_thread: int | None = None
    shared_memory_bytes_per_block: int | None = None
    resource_usage_text: str = ""
    shared_memory_carveout_bytes_per_sm: int | None = None
    barriers_per_block: int | None = None
    blocks_per_cluster: int | None = None
    num_sms: int | None = None
    explain: bool = False


class StructureLayout(Struct, frozen=True):
    """Where a field lies in an array of structures."""

    struct_bytes: int
    field_offset_bytes: int | None = None


class AnalyzeMemoryAccessRequest(Struct, frozen=True):
    """One load or store of one warp."""

    element_bytes: int | None = None
    stride_elements: int | None = None
    offset_elements: int | None = None
    base_alignment_bytes: int | None = None
    structure: StructureLayout | None = None
    active_mask: str = ""
    addresses_bytes: tuple[float, ...] = ()
    explain: bool = False


class Gemm(Struct, frozen=True):
    """A batch of matrix products."""

    m: int
    n: int
    k: int
    num_matrices: int | None = None


class Elementwise(Struct, frozen=True):
    """Element by element."""

    shape: tuple[int, ...] = ()
    extra_operand_elements: float = 0.0
    flops_per_element: float | None = None


class Reduction(Struct, frozen=True):
    """A reduction over one axis, which stays with length 1."""

    shape: tuple[int, ...] = ()
    axis: int | None = None


class Normalization(Struct, frozen=True):
    """A normalisation over one axis."""

    shape: tuple[int, ...] = ()
    axis: int | None = None
    extra_operand_elements: float = 0.0


class Softmax(Struct, frozen=True):
    """A softmax over one axis."""

    shape: tuple[int, ...] = ()
    axis: int | None = None


class Attention(Struct, frozen=True):
    """Scaled dot-product attention."""

    num_query_heads: int
    head_dim: int
    query_tokens: int
    num_sequences: int | None = None
    num_kv_heads: int | None = None
    context_tokens: int | None = None
    is_causal: bool = False
    is_composed: bool = False


class Operator(Struct, frozen=True):
    """One operator of the graph: exactly one of its kinds."""

    name: str = ""
    inputs: tuple[str, ...] = ()
    reads_memory_only: bool = False
    gemm: Gemm | None = None
    elementwise: Elementwise | None = None
    reduction: Reduction | None = None
    normalization: Normalization | None = None
    softmax: Softmax | None = None
    attention: Attention | None = None


class AnalyzeFusionRequest(Struct, frozen=True):
    """A chain or small graph of operators on one accelerator."""

    accelerator: AcceleratorSpec
    operators: tuple[Operator, ...] = ()
    precision: str | None = None
    launch_seconds: float | None = None
    explain: bool = False


class OwnPoint(Struct, frozen=True):
    """One point that the caller measured or computed."""

    arithmetic_intensity_flops_per_byte: float
    label: str = ""
    attained_flops_per_second: float | None = None


class OwnPoints(Struct, frozen=True):
    """What the caller measured or computed, to be drawn."""

    accelerator: AcceleratorSpec
    points: tuple[OwnPoint, ...] = ()


class DrawRooflineRequest(Struct, frozen=True):
    """What to draw: exactly one of ``decode``, ``fusion`` and ``own``."""

    decode: EstimateDecodeRequest | None = None
    fusion: AnalyzeFusionRequest | None = None
    own: OwnPoints | None = None
    precisions: str = ""
    title: str = ""
