"""From keyword arguments to the request of a sweep."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tonnage.errors import InvalidRequest, Violation
from tonnage.requests import Accelerator, Engine, Model, _accelerator, _either, _engine, _message, _model
from tonnage.v1.model_pb2 import Parallelism, Precision
from tonnage.v1.sweep_service_pb2 import RequestLength, RunSweepRequest

Shape: TypeAlias = int | Mapping[str, int] | Parallelism
"""Tensor-parallel ranks, {"tensor": 4, "pipeline": 2}, or the message."""

Formats: TypeAlias = str | Mapping[str, str] | Precision
"""The weights' format, {"weights": "fp8", "kv_cache": "fp8"}, or the message."""

Length: TypeAlias = tuple[int, int] | RequestLength
"""Tokens of a prompt and of its answer, or the message."""


def run_sweep(
    request: RunSweepRequest | None = None,
    /,
    *,
    models: Sequence[Model] = (),
    accelerators: Sequence[Accelerator] = (),
    shapes: Sequence[Shape] = (),
    precisions: Sequence[Formats] = (),
    batch_sizes: Iterable[int] = (),
    context_tokens: Iterable[int] = (),
    engines: Sequence[Engine] = (),
    concurrencies: Iterable[float] = (),
    lengths: Iterable[Length] = (),
    memory_utilization_ratio: float | None = None,
    time_limit_seconds: float | None = None,
) -> RunSweepRequest:
    """Asks for every point of a grid: bounds on decode or, with engines, estimates of serving in a closed loop.

    The answer comes in parts while one iterates. The client's timeout ends the sweep with what is done so far, which its last
    part then says; ``with_options(timeout=…)`` gives it longer.

    Args:
        request: A ready request, in place of all that follows.
        models: Names, config.json dicts, DenseModels or ModelSpecs.
        accelerators: Names, InlineAccelerators or AcceleratorSpecs.
        shapes: Tensor-parallel ranks, or {"tensor": 4, "pipeline": 2}. Default: one device.
        precisions: Formats of the weights, or {"weights": "fp8", "kv_cache": "fp8"}. Default: the checkpoint's own.
        batch_sizes: Sequences that decode together. Default: 1.
        context_tokens: Tokens that each sequence holds.
        engines: Names, also with their releases ("vllm==0.19"), or EngineSpecs: asks for estimates.
        concurrencies: Requests kept in flight on one replica, for estimates.
        lengths: Tokens of prompts and answers, for estimates: (1024, 256).
        memory_utilization_ratio: Share of the usable memory that may be taken, 0 to 1.
        time_limit_seconds: After so long the sweep ends with what is done so far.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model, accelerator or engine.
        Overloaded: The grid is larger than the service takes; the message names the limit.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        RunSweepRequest,
        models=[_model(each) for each in models],
        accelerators=[_accelerator(each) for each in accelerators],
        shapes=[_shape(each) for each in shapes],
        precisions=[_formats(each) for each in precisions],
        batch_sizes=list(batch_sizes),
        context_tokens=list(context_tokens),
        engines=[_engine(each) for each in engines],
        concurrencies=list(concurrencies),
        lengths=[_length(each) for each in lengths],
        memory_utilization_ratio=memory_utilization_ratio,
        time_limit_seconds=time_limit_seconds,
    )
    if request is None:
        is_serving = asked.engines or asked.concurrencies or asked.lengths
        asked.kind = RunSweepRequest.SERVING if is_serving else RunSweepRequest.DECODE
    return _either(request, asked)


def _shape(shape: Shape) -> Parallelism:
    if isinstance(shape, Parallelism):
        return shape
    return _message(Parallelism, "shapes", **({"tensor": shape} if isinstance(shape, int) else dict(shape)))


def _formats(formats: Formats) -> Precision:
    if isinstance(formats, Precision):
        return formats
    return _message(Precision, "precisions", **({"weights": formats} if isinstance(formats, str) else dict(formats)))


def _length(length: Length) -> RequestLength:
    if isinstance(length, RequestLength):
        return length
    try:
        input_tokens, output_tokens = length
    except (TypeError, ValueError):
        raise InvalidRequest.of(Violation("lengths", f"{length!r} is no pair of input and output tokens")) from None
    return _message(RequestLength, "lengths", input_tokens=input_tokens, output_tokens=output_tokens)
