"""The parts of a sweep. Field for field the messages of protos/tonnage/v1/sweep_service.proto."""

from enum import StrEnum

from msgspec import Struct

from service.planning.columns import Choices, Flags, Floats, Places
from service.planning.listing import Source
from service.planning.results import Limit
from service.planning.sweep.requests import Kind, RequestLength


class SkipReason(StrEnum):
    """Why a plan has no answer."""

    ILLEGAL = "ILLEGAL"
    FIGURE_MISSING = "FIGURE_MISSING"
    NOT_CALIBRATED = "NOT_CALIBRATED"
    DOES_NOT_FIT = "DOES_NOT_FIT"


class EndReason(StrEnum):
    """Why a sweep ended."""

    COMPLETED = "COMPLETED"
    TIME_LIMIT = "TIME_LIMIT"


class SweepStart(Struct, frozen=True):
    """The axes in words, and how many points they span."""

    kind: Kind
    models: tuple[str, ...]
    accelerators: tuple[str, ...]
    shapes: tuple[str, ...]
    precisions: tuple[str, ...]
    engines: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    context_tokens: tuple[int, ...]
    concurrencies: tuple[float, ...]
    lengths: tuple[RequestLength, ...]
    num_plans: int
    num_points: float
    assumptions: tuple[str, ...]
    catalogue_revision: str
    sources: tuple[Source, ...]


class SkippedPoints(Struct, frozen=True):
    """Points of one plan that have no answer."""

    model_index: int
    accelerator_index: int
    shape_index: int
    precision_index: int
    engine_index: int
    num_points: float
    reason: SkipReason
    description: str


class DecodeColumns(Struct, frozen=True, eq=False):
    """Points of a decode sweep; all columns of one length."""

    model_index: Places
    accelerator_index: Places
    shape_index: Places
    precision_index: Places
    batch_size_index: Places
    context_tokens_index: Places
    num_devices: Places
    step_seconds: Floats
    tokens_per_second: Floats
    tokens_per_second_per_user: Floats
    tokens_per_second_per_device: Floats
    memory_seconds: Floats
    compute_seconds: Floats
    interconnect_seconds: Floats
    weight_bytes: Floats
    kv_cache_bytes: Floats
    binding_limit: Choices[Limit]
    fits: Flags


class ServingColumns(Struct, frozen=True, eq=False):
    """Points of a serving sweep; all columns of one length."""

    model_index: Places
    accelerator_index: Places
    shape_index: Places
    precision_index: Places
    engine_index: Places
    concurrency_index: Places
    length_index: Places
    num_devices: Places
    tpot_seconds: Floats
    tpot_p10_seconds: Floats
    tpot_p90_seconds: Floats
    ttft_seconds: Floats
    ttft_p10_seconds: Floats
    ttft_p90_seconds: Floats
    end_to_end_seconds: Floats
    output_tokens_per_second: Floats
    output_tokens_per_second_p10: Floats
    output_tokens_per_second_p90: Floats
    output_tokens_per_second_per_user: Floats
    output_tokens_per_second_per_device: Floats
    requests_per_second: Floats
    effective_batch_size: Floats
    running_requests: Floats
    queue_seconds: Floats
    max_running_requests: Floats
    saturated: Flags


class SweepChunk(Struct, frozen=True):
    """Some points in the grid's order, and what was skipped."""

    offset: float
    progress_ratio: float
    skipped: tuple[SkippedPoints, ...]
    decode: DecodeColumns | None = None
    serving: ServingColumns | None = None


class SweepEnd(Struct, frozen=True):
    """What became of the grid."""

    is_complete: bool
    reason: EndReason
    num_answered: float
    num_skipped: float
    num_points: float
    num_skipped_plans: int
    elapsed_seconds: float


class RunSweepResponse(Struct, frozen=True):
    """A part of a sweep; one of the three."""

    start: SweepStart | None = None
    chunk: SweepChunk | None = None
    end: SweepEnd | None = None
