"""From keyword arguments to request messages: one function a question, for the blocking and the asyncio client.

The four questions also take a ready request in place of the keywords. Arguments that are not given are left out of the
message, so that the service applies its default and states it in the answer. Names and units are those of the schema,
whose comments are the glossary. Nothing is checked here that the service checks; only what does not fit into a message
is refused at once.
"""

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from google.protobuf.message import Message

from tonnage.errors import InvalidRequest, Violation
from tonnage.structs import struct
from tonnage.v1.accelerator_pb2 import AcceleratorSpec, InlineAccelerator, NodeSpec
from tonnage.v1.capacity_service_pb2 import (
    ComputeUtilizationRequest,
    EstimateDecodeRequest,
    EstimateKvMemoryRequest,
    FitNodeRequest,
)
from tonnage.v1.catalogue_service_pb2 import (
    GetAcceleratorRequest,
    GetModelRequest,
    GetNodeTypeRequest,
    ListAcceleratorsRequest,
    ListModelsRequest,
    ListNodeTypesRequest,
)
from tonnage.v1.engine_pb2 import EngineSpec
from tonnage.v1.model_pb2 import DenseModel, ModelSpec, Parallelism, Precision

Model: TypeAlias = str | Mapping[str, object] | DenseModel | ModelSpec
"""A name of the catalogue, the content of a Hugging Face config.json, bare figures, or the message itself."""

Accelerator: TypeAlias = str | InlineAccelerator | AcceleratorSpec
"""A name of the catalogue, the caller's own figures, or the message itself."""

Node: TypeAlias = str | NodeSpec
"""A name of the catalogue, or the message itself."""

Engine: TypeAlias = str | EngineSpec
"""A serving engine's name, "vllm", also with its release, "vllm==0.19", or the message, which carries its flags too."""

_MODEL_KINDS = "name, config.json as a dict, DenseModel and ModelSpec"
_ACCELERATOR_KINDS = "name, InlineAccelerator and AcceleratorSpec"
_MessageT = TypeVar("_MessageT", bound=Message)


def estimate_decode(
    request: EstimateDecodeRequest | None = None,
    /,
    *,
    model: Model | None = None,
    accelerator: Accelerator | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    expert: int | None = None,
    attention_data: int | None = None,
    weights: str | None = None,
    kv_cache: str | None = None,
    compute: str | None = None,
    batch_size: int | None = None,
    context_tokens: int | None = None,
    memory_utilization_ratio: float | None = None,
    explain: bool = False,
) -> EstimateDecodeRequest:
    """Asks for the bound on one decode step, the step to expect on average, which limit binds, and whether it fits.

    Args:
        request: A ready request, in place of all that follows.
        model: A name ("llama-3.1-70b"), a config.json as a dict, a DenseModel or a ModelSpec.
        accelerator: A name ("h100-sxm"), an InlineAccelerator or an AcceleratorSpec.
        tensor: Tensor-parallel ranks. Default 1.
        pipeline: Pipeline stages. Default 1.
        expert: Expert-parallel groups. Default 1.
        attention_data: Data-parallel attention groups. Default 1.
        weights: Number format of the weights ("bf16", "fp8", …). Default: the checkpoint's own.
        kv_cache: Number format of the KV cache. Default: bf16, or what the checkpoint declares.
        compute: Number format that the matrix units multiply in. Default: by the weights' format.
        batch_size: Sequences that decode together, over the whole replica. Default 1.
        context_tokens: Tokens that each sequence holds in the cache.
        memory_utilization_ratio: Share of the usable memory that weights and cache may take, 0 to 1. Default 0.9.
        explain: Whether the answer carries every formula applied.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model or accelerator.
        Unanswerable: A figure that the answer needs does not exist, such as an FP4 peak of an A100.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        EstimateDecodeRequest,
        model=_model(model),
        accelerator=_accelerator(accelerator),
        parallelism=_parallelism(tensor, pipeline, expert, attention_data),
        precision=_precision(weights, kv_cache, compute),
        batch_size=batch_size,
        context_tokens=context_tokens,
        memory_utilization_ratio=memory_utilization_ratio,
        explain=explain,
    )
    return _either(request, asked)


def estimate_kv_memory(
    request: EstimateKvMemoryRequest | None = None,
    /,
    *,
    model: Model | None = None,
    accelerator: Accelerator | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    expert: int | None = None,
    attention_data: int | None = None,
    weights: str | None = None,
    kv_cache: str | None = None,
    compute: str | None = None,
    batch_size: int | None = None,
    context_tokens: int | None = None,
    memory_utilization_ratio: float | None = None,
    engine: Engine | None = None,
    explain: bool = False,
) -> EstimateKvMemoryRequest:
    """Asks what weights and KV cache take on each device, line by line, and how many tokens and sequences fit.

    The arguments are those of ``estimate_decode``; ``context_tokens`` is always needed, and ``batch_size`` counts the
    sequences held at once. All sizes in the answer are bytes. With ``engine`` ("vllm", "vllm==0.19" or an EngineSpec with
    its flags) ``fits`` and ``max_sequences`` are the engine's word, and ``engine_memory`` is its budget, line by line.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model or accelerator.
        Unanswerable: A figure that the answer needs does not exist.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        EstimateKvMemoryRequest,
        model=_model(model),
        accelerator=_accelerator(accelerator),
        parallelism=_parallelism(tensor, pipeline, expert, attention_data),
        precision=_precision(weights, kv_cache, compute),
        batch_size=batch_size,
        context_tokens=context_tokens,
        memory_utilization_ratio=memory_utilization_ratio,
        engine=_engine(engine),
        explain=explain,
    )
    return _either(request, asked)


def fit_node(
    request: FitNodeRequest | None = None,
    /,
    *,
    model: Model | None = None,
    node: Node | None = None,
    accelerator: Accelerator | None = None,
    devices_per_node: int | None = None,
    weights: str | None = None,
    kv_cache: str | None = None,
    compute: str | None = None,
    context_tokens: int | None = None,
    concurrency: int | None = None,
    memory_utilization_ratio: float | None = None,
    max_num_nodes: int | None = None,
    engine: Engine | None = None,
    explain: bool = False,
) -> FitNodeRequest:
    """Asks for every legal way to split a model over one node or several: what fits and holds how much, what is short.

    Args:
        request: A ready request, in place of all that follows.
        model: A name, a config.json as a dict, a DenseModel or a ModelSpec.
        node: A node type ("dgx-h100"). Either this, or accelerator with devices_per_node.
        accelerator: A name, an InlineAccelerator or an AcceleratorSpec.
        devices_per_node: Accelerators per node.
        weights: Number format of the weights. Default: the checkpoint's own.
        kv_cache: Number format of the KV cache. Default: bf16, or what the checkpoint declares.
        compute: Number format that the matrix units multiply in. Default: by the weights' format.
        context_tokens: Tokens that each sequence holds. Needed.
        concurrency: Sequences to hold at once. Default 1.
        memory_utilization_ratio: Share of the usable memory that weights and cache may take, 0 to 1. Default 0.9.
        max_num_nodes: Nodes to consider at most. Default: as many as the smallest fitting shape needs, up to 16.
        engine: The engine whose word on memory goes: "vllm", "vllm==0.19", or an EngineSpec with its flags.
        explain: Whether the answer carries the formulas behind the smallest shape.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model, node type or accelerator.
        Unanswerable: A figure that the answer needs does not exist.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        FitNodeRequest,
        model=_model(model),
        node=_message(NodeSpec, "node", name=node) if isinstance(node, str) else node,
        accelerator=_accelerator(accelerator),
        devices_per_node=devices_per_node,
        precision=_precision(weights, kv_cache, compute),
        context_tokens=context_tokens,
        concurrency=concurrency,
        memory_utilization_ratio=memory_utilization_ratio,
        max_num_nodes=max_num_nodes,
        engine=_engine(engine),
        explain=explain,
    )
    return _either(request, asked)


def compute_utilization(
    request: ComputeUtilizationRequest | None = None,
    /,
    *,
    model: Model | None = None,
    accelerator: Accelerator | None = None,
    num_devices: int | None = None,
    peak_precision: str | None = None,
    phase: str | ComputeUtilizationRequest.Phase.ValueType | None = None,
    tokens_per_second: float | None = None,
    sequence_tokens: int | None = None,
    batch_size: int | None = None,
    tokens_include_padding: bool | None = None,
    weights: str | None = None,
    kv_cache: str | None = None,
    compute: str | None = None,
    explain: bool = False,
) -> ComputeUtilizationRequest:
    """Asks for MFU on every basis, HFU, MBU for inference, the figure to quote and the sentence to go with it.

    Args:
        request: A ready request, in place of all that follows.
        model: A name, a config.json as a dict, a DenseModel or a ModelSpec.
        accelerator: A name, an InlineAccelerator or an AcceleratorSpec.
        num_devices: Devices that the run used.
        peak_precision: The number format whose dense peak is the denominator ("bf16").
        phase: "training", "inference", "prefill" or "decode".
        tokens_per_second: Tokens per second over all devices, as observed.
        sequence_tokens: Tokens per sequence. Without it, attention is left out.
        batch_size: Sequences that decode together, for MBU.
        tokens_include_padding: Whether tokens_per_second counts padding. Default: not known, and said so.
        weights: Number format of the weights, for MBU. Default: the checkpoint's own.
        kv_cache: Number format of the KV cache, for MBU. Default: bf16, or what the checkpoint declares.
        compute: Number format that the matrix units multiply in. Default: by the weights' format.
        explain: Whether the answer carries every formula applied.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model or accelerator.
        Unanswerable: The accelerator has no such peak.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        ComputeUtilizationRequest,
        model=_model(model),
        accelerator=_accelerator(accelerator),
        num_devices=num_devices,
        peak_precision=peak_precision,
        phase=_phase(phase) if isinstance(phase, str) else phase,
        tokens_per_second=tokens_per_second,
        sequence_tokens=sequence_tokens,
        batch_size=batch_size,
        tokens_include_padding=tokens_include_padding,
        precision=_precision(weights, kv_cache, compute),
        explain=explain,
    )
    return _either(request, asked)


def list_accelerators(*, page_size: int | None = None) -> ListAcceleratorsRequest:
    """Asks for all accelerators in the order of their names, ``page_size`` (default 50, at most 500) per call."""
    return _message(ListAcceleratorsRequest, page_size=page_size)


def get_accelerator(name: str) -> GetAcceleratorRequest:
    """Asks for one accelerator, by name or alias. Raises NotFound where the catalogue has none."""
    return _message(GetAcceleratorRequest, name=name)


def list_node_types(*, page_size: int | None = None) -> ListNodeTypesRequest:
    """Asks for all node types in the order of their names, ``page_size`` (default 50, at most 500) per call."""
    return _message(ListNodeTypesRequest, page_size=page_size)


def get_node_type(name: str) -> GetNodeTypeRequest:
    """Asks for one node type, by name or alias. Raises NotFound where the catalogue has none."""
    return _message(GetNodeTypeRequest, name=name)


def list_models(*, page_size: int | None = None) -> ListModelsRequest:
    """Asks for all models in the order of their names, ``page_size`` (default 50, at most 500) per call."""
    return _message(ListModelsRequest, page_size=page_size)


def get_model(name: str) -> GetModelRequest:
    """Asks for one model, by name or alias (a Hugging Face id). Raises NotFound where the catalogue has none."""
    return _message(GetModelRequest, name=name)


def _model(model: Model | None) -> ModelSpec | None:
    match model:
        case None | ModelSpec():
            return model
        case str():
            return _message(ModelSpec, "model", name=model)
        case DenseModel():
            return ModelSpec(dense=model)
        case Mapping():
            return ModelSpec(hf_config=struct(model, "model.hf_config"))
    raise InvalidRequest.of(Violation("model", f"a {type(model).__name__} is none of {_MODEL_KINDS}"))


def _accelerator(accelerator: Accelerator | None) -> AcceleratorSpec | None:
    match accelerator:
        case None | AcceleratorSpec():
            return accelerator
        case str():
            return _message(AcceleratorSpec, "accelerator", name=accelerator)
        case InlineAccelerator():
            return AcceleratorSpec(inline=accelerator)
    raise InvalidRequest.of(Violation("accelerator", f"a {type(accelerator).__name__} is none of {_ACCELERATOR_KINDS}"))


def _engine(engine: Engine | None) -> EngineSpec | None:
    match engine:
        case None | EngineSpec():
            return engine
        case str():
            name, _, version = engine.partition("==")
            return _message(EngineSpec, "engine", name=name.strip(), version=version.strip() or None)
    raise InvalidRequest.of(Violation("engine", f"a {type(engine).__name__} is neither a name nor an EngineSpec"))


def _parallelism(tensor: int | None, pipeline: int | None, expert: int | None, data: int | None) -> Parallelism | None:
    ways = {"tensor": tensor, "pipeline": pipeline, "expert": expert, "attention_data": data}
    return None if set(ways.values()) == {None} else _message(Parallelism, "parallelism", **ways)


def _precision(weights: str | None, kv_cache: str | None, compute: str | None) -> Precision | None:
    formats = {"weights": weights, "kv_cache": kv_cache, "compute": compute}
    return None if set(formats.values()) == {None} else _message(Precision, "precision", **formats)


def _phase(name: str) -> ComputeUtilizationRequest.Phase.ValueType:
    try:
        return ComputeUtilizationRequest.Phase.Value(name.upper())
    except ValueError:
        known = ", ".join(value.lower() for value in ComputeUtilizationRequest.Phase.keys()[1:])
        raise InvalidRequest.of(Violation("phase", f"{name!r} is none of {known}")) from None


def _either(request: _MessageT | None, asked: _MessageT) -> _MessageT:
    if request is None:
        return asked
    if not isinstance(request, type(asked)):
        given, wanted = type(request).__name__, type(asked).__name__
        raise TypeError(f"what is given first is a ready {wanted}, not a {given}: all else is given by keyword")
    if asked != type(asked)():
        raise TypeError("give a ready request or keyword arguments, not both")
    return request


def _message(kind: type[_MessageT], path: str = "", /, **fields: object) -> _MessageT:
    """The message with the fields that are not None. What does not fit into a field is refused by its path."""
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        faults = [fault for name, value in fields.items() if (fault := _fault(kind, name, value))]
        raise InvalidRequest.of(*(Violation(f"{path}.{name}".lstrip("."), reason) for name, reason in faults)) from None


def _fault(kind: type[Message], name: str, value: object) -> tuple[str, str] | None:
    try:
        kind(**{name: value})
    except (TypeError, ValueError) as error:
        return name, f"{value!r} does not fit: {error}"
    return None
