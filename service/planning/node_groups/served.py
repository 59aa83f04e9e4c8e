"""Which model a pod serves, and how: by its annotations, else by how its containers start vLLM, SGLang or TensorRT-LLM.

Annotations, all but the first optional, each before what the arguments say:

    tonnage.dev/model                     a model of the catalogue, by name, alias or Hugging Face repository
    tonnage.dev/tensor-parallel           devices that share each layer; default: the pod's devices
    tonnage.dev/pipeline-parallel         stages; default 1
    tonnage.dev/context-tokens            tokens of one sequence that must fit beside the weights
    tonnage.dev/weights-precision         number format of the weights ("fp8"); default: as the checkpoint stores them
    tonnage.dev/kv-cache-precision        number format of the cache
    tonnage.dev/memory-utilization-ratio  the part of a device's memory that the engine may take

Sources: the options of vLLM's ``vllm serve``, SGLang's ``launch_server`` and TensorRT-LLM's ``trtllm-serve``, as their
documentation lists them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from service.planning.engine_settings import cache_format
from service.planning.errors import InvalidRequest
from service.planning.node_groups.command_lines import CommandLine
from service.units import BYTES_PER_ELEMENT

_PREFIX: Final = "tonnage.dev/"
MODEL: Final = f"{_PREFIX}model"
TENSOR: Final = f"{_PREFIX}tensor-parallel"
PIPELINE: Final = f"{_PREFIX}pipeline-parallel"
CONTEXT: Final = f"{_PREFIX}context-tokens"
WEIGHTS: Final = f"{_PREFIX}weights-precision"
KV_CACHE: Final = f"{_PREFIX}kv-cache-precision"
MEMORY_RATIO: Final = f"{_PREFIX}memory-utilization-ratio"
#: All annotations that are read.
ANNOTATIONS: Final = (MODEL, TENSOR, PIPELINE, CONTEXT, WEIGHTS, KV_CACHE, MEMORY_RATIO)

VLLM: Final = "vllm"
SGLANG: Final = "sglang"
TENSORRT_LLM: Final = "tensorrt-llm"
#: Words of a command, or of an image's name, that give an engine away.
_ENGINE_WORDS: Final = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "trtllm": TENSORRT_LLM,
    "tensorrt_llm": TENSORRT_LLM,
    "tensorrt-llm": TENSORRT_LLM,
}

#: Flags by what they set. Names are as ``CommandLine.flags`` has them.
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("model", "model-path"),
    "tensor": ("tensor-parallel-size", "tp", "tp-size"),
    "pipeline": ("pipeline-parallel-size", "pp", "pp-size"),
    "data": ("data-parallel-size", "dp", "dp-size"),
    "expert": ("expert-parallel-size", "ep-size", "ep"),
    "context": ("max-model-len", "context-length", "max-seq-len"),
    "ratio": ("gpu-memory-utilization", "mem-fraction-static"),
    "quantization": ("quantization", "q"),
    "dtype": ("dtype",),
    "kv_cache": ("kv-cache-dtype",),
}
#: Variables that images turn into those flags.
_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("MODEL_ID", "MODEL_NAME", "MODEL_PATH", "HF_MODEL_ID", "VLLM_MODEL", "MODEL"),
    "tensor": ("TENSOR_PARALLEL_SIZE", "VLLM_TENSOR_PARALLEL_SIZE", "TP_SIZE"),
    "pipeline": ("PIPELINE_PARALLEL_SIZE", "VLLM_PIPELINE_PARALLEL_SIZE", "PP_SIZE"),
    "data": ("DATA_PARALLEL_SIZE", "DP_SIZE"),
    "expert": (),
    "context": ("MAX_MODEL_LEN", "VLLM_MAX_MODEL_LEN", "CONTEXT_LENGTH"),
    "ratio": ("GPU_MEMORY_UTILIZATION", "VLLM_GPU_MEMORY_UTILIZATION"),
    "quantization": ("QUANTIZATION", "VLLM_QUANTIZATION"),
    "dtype": ("DTYPE", "VLLM_DTYPE"),
    "kv_cache": ("KV_CACHE_DTYPE", "VLLM_KV_CACHE_DTYPE"),
}
#: Flags that move weights off the device, change the model, or stand for settings that are not seen here.
_UNJUDGED: Final = (
    "cpu-offload-gb",
    "hf-overrides",
    "json-model-override-args",
    "config",
    "extra-llm-api-options",
    "load-format",
    "quantization-param-path",
)
_FP8: Final = frozenset({"fp8", "w8a8_fp8", "fbgemm_fp8"})
_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
_SUFFIXES: Final = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
_AUTOMATIC: Final = frozenset({"auto", "-1"})
#: No replica and no context is larger.
_LARGEST: Final = 10**9

_T = TypeVar("_T")


class Served(Struct, frozen=True):
    """What a pod serves. None is not said. ``doubt``: why its memory cannot be judged; empty where it can."""

    model: str
    engine: str = ""
    tensor: int | None = None
    pipeline: int = 1
    data: int = 1
    shares_experts: bool = False  # experts are spread over all devices (expert parallel)
    splits_attention: bool = False  # SGLang: ``data`` groups within the tensor-parallel devices
    context_tokens: int | None = None
    chooses_context: bool = False  # the engine takes as long a context as fits
    memory_utilization_ratio: float | None = None
    weights: str | None = None
    dtype: str | None = None
    is_quantized_checkpoint: bool = False  # the arguments say that the checkpoint is one
    kv_cache: str | None = None
    doubt: str = ""


class _Doubt(Exception):
    """Something that is said cannot be made sense of."""


def served_by(annotations: Mapping[str, str], containers: Sequence[CommandLine]) -> Served | None:
    """What the pod serves; None where nothing says that it serves a model.

    Args:
        annotations: the pod's.
        containers: those that hold devices, or all where none does.
    """
    named = annotations.get(MODEL, "").strip()
    by_arguments = [served for served in map(_by_arguments, containers) if served is not None]
    if named:
        base = replace(by_arguments[0], model=named) if len(by_arguments) == 1 else Served(named)
        return _annotated(base, annotations)
    if len({served.model for served in by_arguments}) > 1:
        return replace(by_arguments[0], doubt="several models in one pod")
    return _annotated(by_arguments[0], annotations) if by_arguments else None


def _annotated(served: Served, annotations: Mapping[str, str]) -> Served:
    def given(name: str, read: Callable[[str], _T], otherwise: _T) -> _T:
        return read(annotations[name].strip()) if annotations.get(name, "").strip() else otherwise

    try:
        return replace(
            served,
            tensor=given(TENSOR, _count, served.tensor),
            pipeline=given(PIPELINE, _count, served.pipeline),
            context_tokens=given(CONTEXT, _count, served.context_tokens),
            weights=given(WEIGHTS, _number_format, served.weights),
            kv_cache=given(KV_CACHE, _number_format, served.kv_cache),
            memory_utilization_ratio=given(MEMORY_RATIO, _ratio, served.memory_utilization_ratio),
        )
    except _Doubt as doubt:
        return replace(served, doubt=str(doubt))


def _by_arguments(container: CommandLine) -> Served | None:
    engine = _engine(container)
    said = dict(_said(container, with_variables=bool(engine)))
    model = said.get("model") or _positional(container, engine)
    if not model:
        return None
    served = Served(model, engine)
    unjudged = [name for name in _UNJUDGED if name in container.flags]
    if unjudged:
        return replace(served, doubt=f"--{unjudged[0]} is set")
    try:
        return _with_arguments(served, said, container.flags)
    except _Doubt as doubt:
        return replace(served, doubt=str(doubt))


def _engine(container: CommandLine) -> str:
    commands = (word.casefold() for word in container.filled if not word.startswith("-"))
    for text in (*commands, container.image.casefold()):
        for word, engine in _ENGINE_WORDS.items():
            if word in text:
                return engine
    return ""


def _said(container: CommandLine, *, with_variables: bool) -> Iterator[tuple[str, str]]:
    for name, flags in _FLAGS.items():
        found = next((container.flags[flag] for flag in flags if container.flags.get(flag)), "")
        if not found and with_variables:
            found = next((value for each in _VARIABLES[name] if (value := container.environment.get(each, ""))), "")
        if found:
            yield name, found.strip()


def _positional(container: CommandLine, engine: str) -> str:
    """The model as a plain word: behind ``vllm serve`` or ``trtllm-serve``, or first where the image is that command itself."""
    if engine == VLLM:
        first = container.filled[0] if container.filled else ""
        return container.after("serve") or (first if "/" in first and not first.startswith(("-", "/")) else "")
    if engine == TENSORRT_LLM:
        behind = container.after("trtllm-serve")
        return container.after("serve") if behind == "serve" else behind
    return ""


def _with_arguments(served: Served, said: Mapping[str, str], flags: Mapping[str, str]) -> Served:
    def given(name: str, read: Callable[[str], _T], otherwise: _T) -> _T:
        return read(said[name]) if name in said else otherwise

    weights, is_quantized = _quantization(said.get("quantization", ""))
    expert = given("expert", _count, 1)
    return replace(
        served,
        tensor=given("tensor", _count, None),
        pipeline=given("pipeline", _count, 1),
        data=given("data", _count, 1),
        shares_experts=expert > 1 or bool({"enable-expert-parallel", "ep"} & flags.keys()),
        splits_attention="enable-dp-attention" in flags,
        context_tokens=given("context", _length, None),
        chooses_context=said.get("context", "").casefold() in _AUTOMATIC,
        memory_utilization_ratio=given("ratio", _ratio, None),
        weights=weights,
        dtype=given("dtype", _dtype, None),
        is_quantized_checkpoint=is_quantized,
        kv_cache=given("kv_cache", _cache_dtype, None),
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) <= _LARGEST):
        raise _Doubt("a number of devices or tokens is none")
    return int(text)


def _length(text: str) -> int | None:
    """Tokens as engines read them: "32768", "32k", "1M"; None for "auto" and −1, where the engine chooses."""
    if text.casefold() in _AUTOMATIC:
        return None
    factor = _SUFFIXES.get(text[-1:], 1)
    return _count(text[:-1] if factor > 1 else text) * factor


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 0 < ratio <= 1:
        raise _Doubt("a memory ratio is not above 0 and at most 1")
    return ratio


def _number_format(text: str) -> str:
    if text not in BYTES_PER_ELEMENT:
        raise _Doubt("a number format is not known")
    return text


def _quantization(text: str) -> tuple[str | None, bool]:
    """The format that weights are brought into while loading, and whether the checkpoint is said to be quantised already."""
    word = text.casefold()
    if word in {"", "none", "null", "auto"}:
        return None, False
    return ("fp8", False) if word in _FP8 else (None, True)


def _dtype(text: str) -> str | None:
    word = text.casefold()
    if word == "auto":
        return None
    if word not in _DTYPES:
        raise _Doubt("a dtype is not known")
    return _DTYPES[word]


def _cache_dtype(text: str) -> str | None:
    try:
        return cache_format(text.casefold())
    except InvalidRequest:
        raise _Doubt("a cache format is not known") from None
