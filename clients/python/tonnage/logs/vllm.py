"""The log of vLLM, in the wordings of V0 and V1."""

import re

from tonnage.logs.startup_log import SIZE, Dialect, Outcome, Settings, ways


def _split(settings: Settings) -> dict[str, int]:
    tensor, data = ways(settings, "tensor"), ways(settings, "data")
    # With expert parallelism whole experts go to every rank; without it experts are cut like everything else.
    whole = settings.get("whole_experts", "").lower() == "true"
    return {
        "tensor": tensor,
        "pipeline": ways(settings, "pipeline"),
        "expert": tensor * data if whole else 1,
        "attention_data": data,
    }


VLLM = Dialect(
    engine="vllm",
    signs=re.compile(
        r"\bvLLM API server|\bvllm\b|GPU KV cache size|Available KV cache memory|# (?:GPU|cuda) blocks:|non-default args"
        r"|model weights take|KV cache is needed|No available memory for the cache blocks"
    ),
    start=re.compile(r"non-default args|args: Namespace\("),
    settings_lines=re.compile(r"non-default args|args: Namespace\(|Initializing an? .*LLM engine"),
    keys={
        "model": "model",
        "dtype": "dtype",
        "quantization": "quantization",
        "max_model_len": "max_model_len",
        "max_seq_len": "max_model_len",
        "gpu_memory_utilization": "gpu_memory_utilization",
        "max_num_seqs": "max_num_seqs",
        "max_num_batched_tokens": "max_num_batched_tokens",
        "kv_cache_dtype": "kv_cache_dtype",
        "block_size": "block_size",
        "enforce_eager": "enforce_eager",
        "enable_prefix_caching": "enable_prefix_caching",
        "disable_hybrid_kv_cache_manager": "disable_hybrid_kv_cache_manager",
        "mamba_ssm_cache_dtype": "mamba_ssm_cache_dtype",
        "num_speculative_tokens": "num_speculative_tokens",
        "num_spec_tokens": "num_speculative_tokens",
        "tensor_parallel_size": "tensor",
        "pipeline_parallel_size": "pipeline",
        "data_parallel_size": "data",
        "enable_expert_parallel": "whole_experts",
    },
    patterns=tuple(
        re.compile(pattern)
        for pattern in (
            r"vLLM API server version (?P<version>\S+)",
            r"LLM engine \(v(?P<version>[^)\s]+)\)",
            r"Using max model len (?P<max_model_len>\d+)",
            r"Chunked prefill is enabled with max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)",
            rf"(?:Model loading|Loading model weights) took (?P<weights_bytes>{SIZE})",
            rf"Available KV cache memory: (?P<kv_pool_bytes>{SIZE})",
            r"GPU KV cache size: (?P<kv_cache_tokens>\d[\d,]*) tokens",
            r"Maximum concurrency for (?P<max_model_len>\d[\d,]*) tokens per request: (?P<max_concurrency>\d[\d,]*(?:\.\d+)?)x",
            r"# (?:GPU|cuda) blocks: (?P<num_blocks>\d+)",
            rf"Graph capturing finished in .*?took (?P<cuda_graphs_bytes>{SIZE})",
            rf"total_gpu_memory \((?P<physical_memory_bytes>{SIZE})\) x gpu_memory_utilization "
            r"\((?P<gpu_memory_utilization>[\d.]+)\)",
            rf"model weights take (?P<weights_bytes>{SIZE}); non_torch_memory takes (?P<non_torch_bytes>{SIZE}); "
            rf"PyTorch activation peak memory takes (?P<activation_peak_bytes>{SIZE})",
            rf"reserved for KV Cache is (?P<kv_pool_bytes>{SIZE})",
            rf"torch peak memory increase: (?P<activation_peak_bytes>{SIZE})",
            rf"non-torch forward increase memory: (?P<non_torch_bytes>{SIZE})",
            rf"Free memory on device \S*\s*\((?P<free_before_load_bytes>\d+(?:\.\d+)?)/(?P<physical_memory_bytes>{SIZE})\)",
            rf"Actual usage is (?P<weights_bytes>{SIZE}) for weight, (?P<activation_peak_bytes>{SIZE}) for peak activation, "
            rf"(?P<non_torch_bytes>{SIZE}) for non-torch memory, and (?P<cuda_graphs_bytes>{SIZE})",
            rf"GPU \d+ has a total capacity of (?P<physical_memory_bytes>{SIZE})",
        )
    ),
    refusals=(
        (
            re.compile(
                rf"max seq len \((?P<max_model_len>\d+)\),? \(?(?P<needed_bytes>{SIZE}) KV cache is needed, which is larger "
                rf"than the available KV cache memory \((?P<kv_pool_bytes>{SIZE})\)"
                r"(?:.*?estimated maximum model length is (?P<longest_context_tokens>\d+))?"
            ),
            Outcome.REFUSED_MAX_LEN,
        ),
        (
            re.compile(
                r"max seq len \((?P<max_model_len>\d+)\) is larger than the maximum number of tokens that can be stored in "
                r"KV cache \((?P<longest_context_tokens>\d+)\)"
            ),
            Outcome.REFUSED_MAX_LEN,
        ),
        (re.compile(r"No available memory for the cache blocks"), Outcome.REFUSED_NO_KV),
        (re.compile(r"on startup is less than desired GPU memory utilization"), Outcome.MEMORY_TAKEN_BY_OTHERS),
        (re.compile(r"OutOfMemoryError|(?:CUDA|HIP) out of memory"), Outcome.OUT_OF_MEMORY_LATER),
    ),
    split=_split,
)
