"""How an engine is started for a layout: image, command and flags, of the leader and of the workers of a group."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from service.planning.cluster_fit.layouts import Layout
from service.planning.requests import EngineSpec, Precision

VLLM: Final = "vllm"
SGLANG: Final = "sglang"
TENSORRT_LLM: Final = "tensorrt-llm"
#: Images by engine, for devices of NVIDIA.
_IMAGES: Final = {
    VLLM: "vllm/vllm-openai:v{}",
    SGLANG: "lmsysorg/sglang:v{}",
    TENSORRT_LLM: "nvcr.io/nvidia/tensorrt-llm/release:{}",
}
#: Ports by engine: what each takes by itself.
PORTS: Final = {VLLM: 8000, SGLANG: 30000, TENSORRT_LLM: 8000}
#: What LeaderWorkerSet puts into the environment of every container; the kubelet fills it in.
_LEADER: Final = "$(LWS_LEADER_ADDRESS)"
_GROUP_SIZE: Final = "$(LWS_GROUP_SIZE)"
_RANK: Final = "$(LWS_WORKER_INDEX)"
_RENDEZVOUS_PORT: Final = 29501
_DATA_PARALLEL_PORT: Final = 13345
_PARTS_OF_VERSION: Final = 3


class Start(Struct, frozen=True):
    """The words that start an engine, in one pod or in the leader of a group; ``worker`` those of the other pods."""

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    worker_command: tuple[str, ...] = ()
    worker_arguments: tuple[str, ...] = ()


class NotStarted(ValueError):
    """Why an engine cannot be started this way by a manifest."""


class Serving(Struct, frozen=True):
    """What is served, and how."""

    engine: str
    model_path: str
    settings: EngineSpec
    precision: Precision
    context_tokens: int
    memory_ratio: float | None  # of the whole memory, where no engine is asked for
    quantizes: bool  # whether the engine brings the weights into precision.weights itself
    layout: Layout


def image_of(engine: str, version: str) -> str:
    """The engine's own image of a release.

    >>> image_of("vllm", "0.19")
    'vllm/vllm-openai:v0.19.0'
    """
    parts = version.lstrip("v").split(".")
    parts += ["0"] * (_PARTS_OF_VERSION - len(parts))
    return _IMAGES[engine].format(".".join(parts))


def literal(text: str) -> str:
    """Text as the kubelet leaves it alone: it takes $(NAME) for a variable, and $$ for one dollar.

    >>> literal("a$(SECRET)")
    'a$$(SECRET)'
    """
    return text.replace("$", "$$")


def start_of(serving: Serving) -> Start:
    """The words that start it. NotStarted where there are none that a manifest could hold."""
    if serving.settings.num_speculative_tokens:
        raise NotStarted("num_speculative_tokens needs a drafter, which a manifest cannot choose")
    return {VLLM: _vllm, SGLANG: _sglang, TENSORRT_LLM: _tensorrt_llm}[serving.engine](serving)


def _flags(*pairs: tuple[str, object]) -> Iterator[str]:
    """Flags with their values: none where the value is None or False, the flag alone where it is True."""
    for flag, value in pairs:
        if value is None or value is False:
            continue
        yield flag
        if value is not True:
            yield literal(f"{value:.12g}" if isinstance(value, float) else str(value))


def _above(value: int, least: int = 1) -> int | None:
    return value if value > least else None


# -------------------------------------------------------------------------------------------------------------- vLLM


def _vllm(serving: Serving) -> Start:
    shape, settings, layout = serving.layout.parallelism, serving.settings, serving.layout
    ranks = shape.tensor * shape.attention_data
    if shape.expert not in (1, ranks):
        raise NotStarted(f"vLLM spreads experts over all {ranks} ranks or over none, not over {shape.expert}")
    caching = settings.enable_prefix_caching
    flags = _flags(
        ("--tensor-parallel-size", shape.tensor),
        ("--pipeline-parallel-size", _above(shape.pipeline)),
        ("--data-parallel-size", _above(shape.attention_data)),
        ("--enable-expert-parallel", shape.expert > 1),
        ("--max-model-len", settings.max_model_len or serving.context_tokens),
        ("--gpu-memory-utilization", settings.gpu_memory_utilization or serving.memory_ratio),
        ("--quantization", serving.precision.weights if serving.quantizes else None),
        ("--kv-cache-dtype", _cache_dtype(serving)),
        ("--max-num-seqs", settings.max_num_seqs),
        ("--max-num-batched-tokens", settings.max_num_batched_tokens),
        ("--block-size", settings.block_size),
        ("--mamba-ssm-cache-dtype", settings.mamba_ssm_cache_dtype),
        ("--enforce-eager", settings.enforce_eager),
        ("--enable-prefix-caching", caching is True),
        ("--no-enable-prefix-caching", caching is False),
        ("--disable-hybrid-kv-cache-manager", settings.disable_hybrid_kv_cache_manager),
    )
    command, arguments = ("vllm", "serve", literal(serving.model_path)), tuple(flags)
    if layout.num_pods == 1:
        return Start(command, arguments)
    return _vllm_ranks(command, arguments, layout) if shape.attention_data > 1 else _vllm_group(command, arguments)


def _vllm_group(command: tuple[str, ...], arguments: tuple[str, ...]) -> Start:
    group = (
        *("--distributed-executor-backend", "mp", "--nnodes", _GROUP_SIZE, "--node-rank", _RANK),
        *("--master-addr", _LEADER, "--master-port", str(_RENDEZVOUS_PORT)),
    )
    return Start(command, (*arguments, *group), command, (*arguments, *group, "--headless"))


def _vllm_ranks(command: tuple[str, ...], arguments: tuple[str, ...], layout: Layout) -> Start:
    """Data-parallel ranks over pods: each pod holds whole ones, and a worker says which is its first."""
    shape = layout.parallelism
    if shape.pipeline > 1 or layout.devices_per_pod % shape.tensor:
        raise NotStarted("vLLM keeps a data-parallel rank within one node, without a pipeline")
    local = layout.devices_per_pod // shape.tensor
    group = (
        *("--data-parallel-size-local", str(local), "--data-parallel-address", _LEADER),
        *("--data-parallel-rpc-port", str(_DATA_PARALLEL_PORT)),
    )
    # The words go through the shell as its own arguments, so that nothing in them is read as shell.
    first = f'exec "$0" "$@" --data-parallel-start-rank "$$((LWS_WORKER_INDEX * {local}))"'
    script = ("/bin/sh", "-c", first)
    return Start(command, (*arguments, *group), script, (*command, *arguments, *group, "--headless"))


def _cache_dtype(serving: Serving) -> str | None:
    asked = serving.precision.kv_cache
    return serving.settings.kv_cache_dtype or ("fp8" if asked == "fp8" else None)


# ----------------------------------------------------------------------------------------------------- the other two


def _sglang(serving: Serving) -> Start:
    shape, settings = serving.layout.parallelism, serving.settings
    cache = _cache_dtype(serving)
    flags = _flags(
        ("--model-path", serving.model_path),
        ("--host", "0.0.0.0"),
        ("--port", PORTS[SGLANG]),
        ("--tp-size", shape.tensor * shape.attention_data),
        ("--pp-size", _above(shape.pipeline)),
        ("--dp-size", _above(shape.attention_data)),
        ("--enable-dp-attention", shape.attention_data > 1),
        ("--ep-size", _above(shape.expert)),
        ("--context-length", settings.max_model_len or serving.context_tokens),
        ("--mem-fraction-static", settings.mem_fraction_static),
        ("--quantization", serving.precision.weights if serving.quantizes else None),
        ("--kv-cache-dtype", "fp8_e4m3" if cache == "fp8" else cache),
        ("--max-running-requests", settings.max_running_requests),
        ("--chunked-prefill-size", settings.max_num_batched_tokens),
        ("--page-size", settings.block_size),
        ("--mamba-ssm-dtype", settings.mamba_ssm_cache_dtype),
        ("--disable-cuda-graph", settings.enforce_eager),
        ("--disable-radix-cache", settings.enable_prefix_caching is False),
    )
    command, arguments = ("python3", "-m", "sglang.launch_server"), tuple(flags)
    if serving.layout.num_pods == 1:
        return Start(command, arguments)
    group = ("--dist-init-addr", f"{_LEADER}:{_RENDEZVOUS_PORT}", "--nnodes", _GROUP_SIZE, "--node-rank", _RANK)
    return Start(command, (*arguments, *group), command, (*arguments, *group))


def _tensorrt_llm(serving: Serving) -> Start:
    shape, settings = serving.layout.parallelism, serving.settings
    if serving.layout.num_pods > 1:
        raise NotStarted("TensorRT-LLM is started over several nodes by MPI, which a manifest alone cannot do")
    if shape.attention_data > 1:
        raise NotStarted("TensorRT-LLM takes data-parallel attention from a file of options, not from flags")
    if serving.quantizes or _cache_dtype(serving) is not None:
        raise NotStarted("TensorRT-LLM takes number formats from the checkpoint or a file of options, not from flags")
    flags = _flags(
        ("--host", "0.0.0.0"),
        ("--port", PORTS[TENSORRT_LLM]),
        ("--tp_size", shape.tensor),
        ("--pp_size", _above(shape.pipeline)),
        ("--ep_size", _above(shape.expert)),
        ("--max_seq_len", settings.max_model_len or serving.context_tokens),
        ("--max_batch_size", settings.max_num_seqs),
        ("--max_num_tokens", settings.max_num_batched_tokens),
        ("--kv_cache_free_gpu_memory_fraction", settings.free_gpu_memory_fraction),
    )
    return Start(("trtllm-serve", "serve", literal(serving.model_path)), tuple(flags))
