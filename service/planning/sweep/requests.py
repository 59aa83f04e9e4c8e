"""What can be swept. Field for field the messages of protos/tonnage/v1/sweep_service.proto."""

from enum import StrEnum

from msgspec import Struct

from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision


class Kind(StrEnum):
    """What is asked of each point."""

    DECODE = "DECODE"
    SERVING = "SERVING"


class RequestLength(Struct, frozen=True):
    """Tokens of a prompt and of its answer."""

    input_tokens: int
    output_tokens: int


class RunSweepRequest(Struct, frozen=True):
    """The product of these axes."""

    kind: Kind
    models: tuple[ModelSpec, ...] = ()
    accelerators: tuple[AcceleratorSpec, ...] = ()
    shapes: tuple[Parallelism, ...] = ()
    precisions: tuple[Precision, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    context_tokens: tuple[int, ...] = ()
    engines: tuple[EngineSpec, ...] = ()
    concurrencies: tuple[float, ...] = ()
    lengths: tuple[RequestLength, ...] = ()
    memory_utilization_ratio: float | None = None
    time_limit_seconds: float | None = None
