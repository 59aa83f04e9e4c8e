"""The log of TensorRT-LLM, of built engines and of its PyTorch back end.

Wordings follow trtGptModelInflightBatching.cpp and kvCacheManager.cpp for the former, tensorrt_llm/__init__.py (which
writes "TensorRT LLM" from 1.0 on), pyexecutor/_util.py and resource_manager.py for the latter. The PyTorch back end
allots a small pool first, to try the model with, and the one that stays after it has estimated how large that may be.
"""

import re

from tonnage.logs.startup_log import SIZE, Dialect, Outcome, Settings, ways


def _split(settings: Settings) -> dict[str, int]:
    tensor = ways(settings, "tensor")
    # Attention data parallelism makes every rank a group of its own.
    grouped = settings.get("grouped_attention", "").lower() == "true"
    return {
        "tensor": 1 if grouped else tensor,
        "pipeline": ways(settings, "pipeline"),
        "expert": ways(settings, "expert"),
        "attention_data": tensor if grouped else 1,
    }


TENSORRT_LLM = Dialect(
    engine="tensorrt-llm",
    signs=re.compile(r"TensorRT-LLM|TRT-LLM|tensorrt_llm|TRTGptModel|\[MemUsageChange\]|KV cache primary pool"),
    start=re.compile(r"(?!)"),  # every rank writes its own beginning, in no order
    tried_before=re.compile(r"Estimated max memory in KV cache"),
    settings_lines=re.compile(r"LLM [Aa]rgs|LlmArgs|KvCacheConfig|kv_cache_config|BuildConfig"),
    keys={
        "model": "model",
        "dtype": "dtype",
        "tensor_parallel_size": "tensor",
        "tp_size": "tensor",
        "pipeline_parallel_size": "pipeline",
        "pp_size": "pipeline",
        "moe_expert_parallel_size": "expert",
        "enable_attention_dp": "grouped_attention",
        "max_seq_len": "max_model_len",
        "max_batch_size": "max_num_seqs",
        "max_num_tokens": "max_num_batched_tokens",
        "free_gpu_memory_fraction": "free_gpu_memory_fraction",
        "tokens_per_block": "block_size",
        "enable_block_reuse": "enable_prefix_caching",
    },
    patterns=tuple(
        re.compile(pattern)
        for pattern in (
            r"TensorRT[- ]LLM version: (?P<version>\d\S*)",
            r"Engine version (?P<version>\d\S*) found",
            r"TRTGptModel maxBatchSize: (?P<max_num_seqs>\d+)",
            r"TRTGptModel maxNumTokens: (?P<max_num_batched_tokens>\d+)",
            r"TRTGptModel maxSequenceLen: (?P<max_model_len>\d+)",
            r"Tensor[- ]parallel(?:ism)?:? (?P<tensor>\d+)",
            rf"Loaded engine size: (?P<weights_bytes>{SIZE})",
            rf"Memory used after loading model weights \(inside torch\).*?: (?P<weights_bytes>{SIZE})",
            rf"Allocated (?P<activation_peak_bytes>{SIZE}) for execution context memory",
            rf"total: (?P<physical_memory_bytes>{SIZE}), available: (?P<free_after_load_bytes>{SIZE})",
            rf"Allocated (?P<kv_pool_bytes>{SIZE}) for max tokens in paged KV cache \((?P<kv_cache_tokens>\d+)\)",
            r"Number of blocks in KV cache primary pool: (?P<num_blocks>\d+)",
            r"[Tt]okens per block(?:: ?|=| )(?P<block_size>\d+)(?:, primary blocks=(?P<num_blocks>\d+))?",
            rf"Estimated max memory in KV cache ?: (?P<kv_pool_bytes>{SIZE})",
            rf"fraction is set (?P<free_gpu_memory_fraction>[\d.]+).*?device total memory (?P<physical_memory_bytes>{SIZE})",
            r"too large for at least one sequence to fit in kvCache\. [Tt]hey are reduced to (?P<longest_context_tokens>\d+)",
            r"Attention window size \d+ exceeds upper bound (?P<longest_context_tokens>\d+) for available blocks",
        )
    ),
    refusals=(
        (re.compile(r"[Nn]o (?:free )?memory (?:is )?(?:left|available) for (?:the )?KV cache"), Outcome.REFUSED_NO_KV),
        (re.compile(r"OutOfMemoryError|out of memory"), Outcome.OUT_OF_MEMORY_LATER),
    ),
    split=_split,
)
