"""What is answered. Field for field the response messages of protos/tonnage/v1, whose comments are the glossary.

Every term of an answer is a field of its own; the doors copy them by name. ``None`` is left out of the message.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from service.planning.requests import Parallelism


class Limit(StrEnum):
    """A limit on decode."""

    MEMORY_BANDWIDTH = "MEMORY_BANDWIDTH"
    KV_BANDWIDTH = "KV_BANDWIDTH"
    KV_CAPACITY = "KV_CAPACITY"
    COMPUTE = "COMPUTE"
    INTERCONNECT = "INTERCONNECT"


class Cure(Struct, frozen=True):
    """One way to make something fit."""

    field: str
    value: str
    description: str


class Shortfall(Struct, frozen=True):
    """What is short on each device, by how much, and what would cure it."""

    resource: str
    required_bytes_per_device: float
    available_bytes_per_device: float
    short_bytes_per_device: float
    description: str
    cures: tuple[Cure, ...] = ()


class Step(Struct, frozen=True):
    """One formula applied: ``registry[name]`` of the inputs gives the value."""

    name: str
    expression: str
    inputs: Mapping[str, float]
    value: float
    source: str
    meaning: str


class UsedFigure(Struct, frozen=True):
    """A figure that an answer rests on, with where it comes from."""

    name: str
    value: float
    unit: str
    basis: str
    sources: tuple[str, ...] = ()
    note: str = ""


class Explanation(Struct, frozen=True):
    """Every formula that led to an answer, and the figures that went in."""

    steps: tuple[Step, ...]
    figures: tuple[UsedFigure, ...]


class DecodeBound(Struct, frozen=True):
    """The bound on a decode step."""

    step_seconds: float
    tokens_per_second: float
    tokens_per_second_per_user: float
    tokens_per_second_per_device: float
    weight_bytes: float
    kv_cache_bytes: float
    bytes_per_device: float
    flops: float
    interconnect_bytes_per_device: float
    memory_seconds: float
    compute_seconds: float
    interconnect_seconds: float
    arithmetic_intensity_flops_per_byte: float
    attention_intensity_flops_per_byte: float | None
    ridge_point_flops_per_byte: float
    binding_limit: Limit


class DecodeExpectation(Struct, frozen=True):
    """The step to expect on average, still by arithmetic."""

    expected_step_seconds: float
    expected_tokens_per_second: float
    expected_tokens_per_second_per_user: float
    expected_weight_bytes: float
    expected_memory_seconds: float
    expected_compute_seconds: float
    expected_interconnect_seconds: float


class LimitOnset(Struct, frozen=True):
    """From which batch a limit binds."""

    limit: Limit
    binds_from_batch_size: float | None
    binds_only_below_context_tokens: float | None
    description: str


class EstimateDecodeResponse(Struct, frozen=True):
    """The bound on a decode step and what surrounds it."""

    bound: DecodeBound
    expected: DecodeExpectation
    limits: tuple[LimitOnset, ...]
    fits: bool | None
    shortfall: Shortfall | None
    num_devices: int
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None


class EngineBudgetItem(StrEnum):
    """What takes the memory of a device."""

    PHYSICAL_MEMORY = "PHYSICAL_MEMORY"
    BEFORE_LOAD = "BEFORE_LOAD"
    WEIGHTS = "WEIGHTS"
    WEIGHTS_BESIDE_CHECKPOINT = "WEIGHTS_BESIDE_CHECKPOINT"
    ACTIVATION_PEAK = "ACTIVATION_PEAK"
    NON_TORCH = "NON_TORCH"
    CUDA_GRAPHS = "CUDA_GRAPHS"
    REQUEST_TABLE = "REQUEST_TABLE"
    RESERVE = "RESERVE"
    KV_POOL = "KV_POOL"
    STATE_POOL = "STATE_POOL"


class EngineBudgetBasis(StrEnum):
    """How sure a line is."""

    EXACT = "EXACT"
    ESTIMATED = "ESTIMATED"
    SETTING = "SETTING"
    OBSERVED = "OBSERVED"


class EngineBudgetLine(Struct, frozen=True):
    """One line: bytes on a device with their range. ``within_reserve`` lines come out of what the fraction leaves."""

    item: EngineBudgetItem
    bytes_per_device: float
    low_bytes_per_device: float
    high_bytes_per_device: float
    basis: EngineBudgetBasis
    within_reserve: bool = False


class EngineOutcome(StrEnum):
    """What the engine does when it is started so."""

    STARTS = "STARTS"
    REFUSED_NO_KV = "REFUSED_NO_KV"
    REFUSED_MAX_LEN = "REFUSED_MAX_LEN"
    OUT_OF_MEMORY_LOADING_WEIGHTS = "OUT_OF_MEMORY_LOADING_WEIGHTS"


class Holding(Struct, frozen=True):
    """What a pool of a given size holds, over all stages: the stage with the fewest blocks decides."""

    num_blocks: float
    kv_cache_tokens: float  # as the engine prints them
    max_concurrency: float  # at max_model_len
    longest_context_tokens: float
    outcome: EngineOutcome


class StageBudget(Struct, frozen=True):
    """The memory of one pipeline stage's device, line by line."""

    lines: tuple[EngineBudgetLine, ...]


class EngineMemory(Struct, frozen=True):
    """An engine's own view of the memory. Per device; of the stage that decides, where there are several.

    ``kv_bytes_per_token_per_device`` is what one token costs in every layer, padding layers included. ``low`` and ``high`` are
    what the pool would hold at the ends of its range; ``outcome_is_certain`` says whether they agree with ``likely``.
    ``replica_max_concurrency`` counts every attention-data rank, each of which is an engine with a pool of its own.
    """

    engine: str
    version: str
    outcome: EngineOutcome  # what it most likely does
    outcome_is_certain: bool  # whether it does the same over the whole range
    likely: Holding
    low: Holding
    high: Holding
    statement: str
    budget: tuple[EngineBudgetLine, ...]
    stage_budgets: tuple[StageBudget, ...]  # of every pipeline stage, first to last
    tightest_stage: int  # whose pool holds fewest sequences: all figures per device are of it
    kv_pool_bytes_per_device: float
    kv_pool_low_bytes_per_device: float
    kv_pool_high_bytes_per_device: float
    kv_bytes_per_token_per_device: float
    needed_bytes_per_device: float  # for one sequence of max_model_len
    replica_max_concurrency: float
    block_tokens: int
    num_padding_layers: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    memory_fraction: float
    remedies: tuple[Cure, ...]
    assumptions: tuple[str, ...]


class BudgetItem(StrEnum):
    """What takes the memory."""

    USABLE_MEMORY = "USABLE_MEMORY"
    RESERVE = "RESERVE"
    WEIGHTS = "WEIGHTS"
    KV_CACHE = "KV_CACHE"
    HEADROOM = "HEADROOM"


class BudgetBasis(StrEnum):
    """How sure a line of the budget is."""

    EXACT = "EXACT"
    MEASURED = "MEASURED"
    SETTING = "SETTING"
    CALLER = "CALLER"
    MARKETED = "MARKETED"


class BudgetLine(Struct, frozen=True):
    """One line of the memory budget of a device."""

    item: BudgetItem
    bytes_per_device: float
    basis: BudgetBasis


class EstimateKvMemoryResponse(Struct, frozen=True):
    """What weights and cache take and what fits."""

    kv_bytes_per_token: float
    kv_bytes_per_token_per_device: float
    windowed_kv_bytes_per_token: float
    state_bytes_per_sequence: float
    cache_bytes_per_sequence: float
    cache_bytes_per_sequence_per_device: float
    kv_cache_bytes: float
    weight_bytes: float
    weight_bytes_per_device: float
    tightest_stage: int  # all figures per device are of it
    total_parameters: float
    active_parameters: float
    max_tokens: float | None
    max_sequences: float | None
    budget: tuple[BudgetLine, ...]
    fits: bool | None
    shortfall: Shortfall | None
    num_devices: int
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None
    engine_memory: EngineMemory | None = None


class FitLimit(StrEnum):
    """What keeps a shape from holding more."""

    WEIGHTS = "WEIGHTS"
    KV_CACHE = "KV_CACHE"


class FitCandidate(Struct, frozen=True):
    """One way to split the model."""

    parallelism: Parallelism
    num_devices: int
    num_nodes: int
    fits: bool
    max_sequences: float
    headroom_bytes_per_device: float
    weight_bytes_per_device: float
    cache_bytes_per_sequence_per_device: float
    tightest_stage: int  # all figures per device are of it
    uneven_pipeline: bool
    partial_node: bool
    crosses_link_domain: bool
    replicas_per_node: int
    longest_context_tokens: float
    max_sequences_at_model_limit: float | None
    binding_limit: FitLimit
    shortfall: Shortfall | None = None
    engine_memory: EngineMemory | None = None


class FitNodeResponse(Struct, frozen=True):
    """All shapes, and the smallest that fits."""

    fits: bool
    smallest: FitCandidate | None
    candidates: tuple[FitCandidate, ...]
    accelerator: str
    devices_per_node: int
    summary: str
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None


class UtilizationBasis(StrEnum):
    """Which operations are counted against which peak."""

    MFU_6N = "MFU_6N"
    MFU_6N_ATTENTION_FULL = "MFU_6N_ATTENTION_FULL"
    MFU_6N_ATTENTION_CAUSAL = "MFU_6N_ATTENTION_CAUSAL"
    HFU_6N_FULL_RECOMPUTATION = "HFU_6N_FULL_RECOMPUTATION"
    HFU_6N_ATTENTION_FULL_FULL_RECOMPUTATION = "HFU_6N_ATTENTION_FULL_FULL_RECOMPUTATION"
    HFU_6N_ATTENTION_FULL_SELECTIVE_RECOMPUTATION = "HFU_6N_ATTENTION_FULL_SELECTIVE_RECOMPUTATION"
    MFU_6N_SPARSE_PEAK = "MFU_6N_SPARSE_PEAK"
    MFU_6N_TOTAL_PARAMETERS = "MFU_6N_TOTAL_PARAMETERS"
    MFU_6N_WITHOUT_EMBEDDING = "MFU_6N_WITHOUT_EMBEDDING"
    MFU_2N = "MFU_2N"
    MFU_2N_ATTENTION_FULL = "MFU_2N_ATTENTION_FULL"
    MFU_2N_ATTENTION_CAUSAL = "MFU_2N_ATTENTION_CAUSAL"
    MFU_2N_SPARSE_PEAK = "MFU_2N_SPARSE_PEAK"
    MFU_2N_TOTAL_PARAMETERS = "MFU_2N_TOTAL_PARAMETERS"
    MFU_2N_WITHOUT_EMBEDDING = "MFU_2N_WITHOUT_EMBEDDING"
    MBU = "MBU"


class Utilization(Struct, frozen=True):
    """One utilisation on one basis."""

    basis: UtilizationBasis
    ratio: float
    valid: bool
    achieved_per_second: float
    peak_per_second: float
    description: str
    warning: str = ""


class ComputeUtilizationResponse(Struct, frozen=True):
    """Every utilisation, and the one to quote."""

    utilizations: tuple[Utilization, ...]
    recommended_basis: UtilizationBasis
    statement: str
    num_active_parameters: float
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None
