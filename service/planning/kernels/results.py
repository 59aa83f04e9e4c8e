"""What is answered about kernels. Field for field the messages of kernel_service.proto, fusion.proto and roofline.proto."""

from enum import StrEnum

from msgspec import Struct

from service.planning.results import Explanation, UsedFigure


class LimitingFactor(StrEnum):
    """What can limit the blocks on an SM."""

    WARPS = "WARPS"
    REGISTERS = "REGISTERS"
    SHARED_MEMORY = "SHARED_MEMORY"
    BLOCKS = "BLOCKS"
    BARRIERS = "BARRIERS"


class LaunchObstacle(Struct, frozen=True):
    """One reason why a kernel cannot be launched at all."""

    field: str
    required: float
    limit: float
    description: str


class OccupancyStep(Struct, frozen=True):
    """A change that raises occupancy; what stays is ``None``."""

    threads_per_block: int | None
    registers_per_thread: int | None
    shared_memory_bytes_per_block: int | None
    active_blocks_per_sm: int
    active_warps_per_sm: int
    occupancy_ratio: float
    description: str


class ClusterOccupancy(Struct, frozen=True):
    """How many thread-block clusters can be active at once."""

    blocks_per_cluster: int
    max_active_clusters: float | None
    description: str


class KernelOccupancy(Struct, frozen=True):
    """The occupancy of one kernel, with every term."""

    name: str
    compute_capability: str
    threads_per_block: int
    registers_per_thread: int
    shared_memory_bytes_per_block: int
    barriers_per_block: int | None
    warps_per_block: int
    allocated_registers_per_warp: int
    allocated_shared_memory_bytes_per_block: int
    active_blocks_per_sm: int
    active_warps_per_sm: int
    max_warps_per_sm: int
    occupancy_ratio: float
    limiting_factors: tuple[LimitingFactor, ...]
    max_blocks_by_warps: int
    max_blocks_by_registers: int
    max_blocks_by_shared_memory: int | None
    max_blocks_by_barriers: int | None
    max_blocks_per_sm: int
    shared_memory_carveout_bytes_per_sm: int
    obstacles: tuple[LaunchObstacle, ...]
    next_steps: tuple[OccupancyStep, ...]
    cluster: ClusterOccupancy | None
    notes: tuple[str, ...]


class ComputeOccupancyResponse(Struct, frozen=True):
    """The occupancy of the kernel, and of each where there are several."""

    active_blocks_per_sm: int
    active_warps_per_sm: int
    occupancy_ratio: float
    limiting_factors: tuple[LimitingFactor, ...]
    can_launch: bool
    kernels: tuple[KernelOccupancy, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None


class LaneGroup(Struct, frozen=True):
    """Lanes that the hardware serves together."""

    first_lane: int
    num_lanes: int
    sectors: int
    lines: int


class AnalyzeMemoryAccessResponse(Struct, frozen=True):
    """What one request of a warp moves."""

    sectors_per_request: int
    ideal_sectors_per_request: int
    lines_per_request: int
    used_bytes: float
    moved_bytes: float
    efficiency_ratio: float
    efficiency_with_reuse_ratio: float | None
    groups: tuple[LaneGroup, ...]
    num_active_lanes: int
    best_sectors_per_request: int | None
    remedies: tuple[str, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None


class KernelLimit(StrEnum):
    """What sets the time of a kernel."""

    MEMORY = "MEMORY"
    ARITHMETIC = "ARITHMETIC"


class FusionPlace(StrEnum):
    """Where an operator goes when it is fused."""

    OWN_KERNEL = "OWN_KERNEL"
    WITH_NEIGHBOURS = "WITH_NEIGHBOURS"
    GEMM_EPILOGUE = "GEMM_EPILOGUE"
    GEMM_PROLOGUE = "GEMM_PROLOGUE"
    GEMM_HOST = "GEMM_HOST"


class OperatorAnalysis(Struct, frozen=True):
    """One operator by itself."""

    name: str
    shape: tuple[int, ...]
    num_launches: int
    flops: float
    num_bytes: float
    arithmetic_intensity_flops_per_byte: float
    memory_seconds: float
    compute_seconds: float
    kernel_seconds: float
    limit: KernelLimit
    place: FusionPlace
    reason: str
    weight_bytes: float | None
    weight_seconds: float | None


class FusedKernel(Struct, frozen=True):
    """One kernel of a form."""

    operators: tuple[str, ...]
    flops: float
    num_bytes: float
    memory_seconds: float
    compute_seconds: float
    kernel_seconds: float
    limit: KernelLimit
    has_gemm: bool


class Form(StrEnum):
    """How operators become kernels."""

    EAGER = "EAGER"
    FUSED = "FUSED"
    EPILOGUE_FUSED = "EPILOGUE_FUSED"


class FusionForm(Struct, frozen=True):
    """The whole graph in one form."""

    form: Form
    kernels: tuple[FusedKernel, ...]
    num_launches: int
    num_bytes: float
    flops: float
    other_bytes: float
    other_seconds: float
    gemm_seconds: float
    other_to_gemm_ratio: float | None
    device_seconds: float
    submission_seconds: float
    paced_seconds: float
    graph_paced_seconds: float
    launches_dominate: bool
    kernels_dominate_from_rows: float | None


class SourcedNote(Struct, frozen=True):
    """Something to know, and where it is said."""

    text: str
    source: str


class AnalyzeFusionResponse(Struct, frozen=True):
    """The operators, and the graph in each form."""

    operators: tuple[OperatorAnalysis, ...]
    forms: tuple[FusionForm, ...]
    num_rows: float
    launch_seconds: float
    ridge_point_flops_per_byte: float
    summary: str
    notes: tuple[SourcedNote, ...]
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None


class Roof(Struct, frozen=True):
    """The roof of one number format."""

    precision: str
    peak_dense_flops_per_second: float
    memory_level: str
    memory_bandwidth_bytes_per_second: float
    ridge_point_flops_per_byte: float


class RooflinePoint(Struct, frozen=True):
    """A point under a roof, per device."""

    label: str
    series: str
    arithmetic_intensity_flops_per_byte: float
    bound_flops_per_second: float
    attained_flops_per_second: float | None
    precision: str


class DrawRooflineResponse(Struct, frozen=True):
    """The roofline as data and as a picture."""

    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]
    svg: str
    assumptions: tuple[str, ...]
    catalogue_revision: str
    figures: tuple[UsedFigure, ...]
