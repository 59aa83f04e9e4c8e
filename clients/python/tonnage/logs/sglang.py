"""The log of SGLang, whose "GB" are GiB.

Wordings follow sglang/srt: server_args.py, model_executor/model_runner.py, mem_cache/memory_pool.py and
swa_memory_pool.py. Models with windows have a pool for windowed layers and one for the others: each writes that it is
allocated, then both together write what they take; a sequence fits as long as the pool of the others has room.
"""

import re

from tonnage.logs.startup_log import SIZE, Dialect, Outcome, Settings, ways


def _split(settings: Settings) -> dict[str, int]:
    tensor, data = ways(settings, "tensor"), ways(settings, "data")
    # Data-parallel attention takes its groups out of the tensor-parallel ranks; otherwise data parallelism only copies.
    grouped = settings.get("grouped_attention", "").lower() == "true" and tensor % data == 0
    return {
        "tensor": tensor // data if grouped else tensor,
        "pipeline": ways(settings, "pipeline"),
        "expert": ways(settings, "expert"),
        "attention_data": data if grouped else 1,
    }


SGLANG = Dialect(
    engine="sglang",
    signs=re.compile(
        r"\b(?i:sglang)\b|server_args=|Load weight (?:begin|end)\.|KV Cache is allocated\.|Memory pool end\."
        r"|max_total_num_tokens=|mem-fraction-static"
    ),
    start=re.compile(r"server_args="),
    settings_lines=re.compile(r"server_args=|max_total_num_tokens="),
    keys={
        "model_path": "model",
        "dtype": "dtype",
        "quantization": "quantization",
        "context_length": "max_model_len",
        "context_len": "max_model_len",
        "mem_fraction_static": "mem_fraction_static",
        "max_running_requests": "max_running_requests",
        "chunked_prefill_size": "max_num_batched_tokens",
        "kv_cache_dtype": "kv_cache_dtype",
        "page_size": "block_size",
        "disable_cuda_graph": "enforce_eager",
        "speculative_num_draft_tokens": "num_speculative_tokens",
        "mamba_ssm_dtype": "mamba_ssm_cache_dtype",
        "tp_size": "tensor",
        "pp_size": "pipeline",
        "dp_size": "data",
        "ep_size": "expert",
        "enable_dp_attention": "grouped_attention",
    },
    negated={"disable_radix_cache": "enable_prefix_caching"},
    patterns=tuple(
        re.compile(pattern)
        for pattern in (
            r"(?i:sglang)(?:==|[ _-]version[:=]? ?['\"]?| v)(?P<version>\d[\w.+]*)",
            rf"Load weight begin\. avail mem=(?P<free_before_load_bytes>{SIZE})",
            rf"Load weight end\..*?avail mem=(?P<free_after_load_bytes>{SIZE})",
            rf"Load weight end\..*?mem usage=(?P<weights_bytes>{SIZE})",
            r"Load weight end\..*?\bquant=(?P<quantization>(?!None\b)[\w-]+)",
            r"KV Cache is allocated\..*?#tokens: (?P<kv_cache_tokens>\d[\d,]*)",
            rf"KV Cache is allocated\..*?K size: (?P<kv_pool_bytes__k>{SIZE}), V size: (?P<kv_pool_bytes__v>{SIZE})",
            rf"KV Cache is allocated\..*?KV size: (?P<kv_pool_bytes>{SIZE})",
            rf"SWAKVPool mem usage: (?P<all_pools_bytes>{SIZE})",
            r"full_layer_tokens=(?P<tokens_of_unwindowed_layers>\d+)",
            rf"conv_state size: (?P<state_pool_bytes__conv>{SIZE}),? ssm_state size: (?P<state_pool_bytes__ssm>{SIZE})"
            rf"(?:,? intermediate_ssm_state_cache size: (?P<state_pool_bytes__drafts>{SIZE})"
            rf",? intermediate_conv_window_cache size: (?P<state_pool_bytes__windows>{SIZE}))?",
            rf"Memory pool end\. avail mem=(?P<free_after_pool_bytes>{SIZE})",
            rf"Capture cuda graph end\..*?mem usage=(?P<cuda_graphs_bytes>{SIZE})",
            r"max_total_num_tokens=(?P<kv_cache_tokens>\d+)",
            rf"GPU \d+ has a total capacity of (?P<physical_memory_bytes>{SIZE})",
        )
    ),
    refusals=(
        (re.compile(r"Not enough memory\. Please try to increase --mem-fraction-static"), Outcome.REFUSED_NO_KV),
        (re.compile(r"OutOfMemoryError|(?:CUDA|HIP) out of memory"), Outcome.OUT_OF_MEMORY_LATER),
    ),
    split=_split,
)
