"""Published configurations and what an independent count of each gives, as the tests of the readers need them.

``expected.json`` was counted by building each model without weights in transformers 5.24 and its cache with it; where
that count is not followed, ``DISPUTED`` says why.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from service.architectures import Architecture, Mixer, read
from service.units import BYTES_PER_ELEMENT

_DATA: Final = Path(__file__).parent / "data"

#: model → what the count gets wrong for it.
DISPUTED: Final = {
    "amd/Llama-3.1-405B-pruned84-quark-MLPerf": "counted at 8 bits; its block says dtype fp4, group_size 32, e8m0 scales",
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": "its quantisation file is not published with the configuration",
}


@cache
def _load(name: str) -> dict[str, dict[str, Any]]:
    content: dict[str, dict[str, Any]] = json.loads((_DATA / name).read_text(encoding="utf-8"))
    return content


def configurations() -> dict[str, dict[str, Any]]:
    """model → its config.json, to be left unchanged."""
    return _load("configurations.json")


def quantization(model: str) -> dict[str, Any] | None:
    """The model's hf_quant_config.json, where its checkpoint has one."""
    return _load("quantizations.json").get(model)


def expected(model: str) -> dict[str, Any]:
    """The independent count for a model."""
    return _load("expected.json")[model]


@cache
def architecture(model: str) -> Architecture:
    """The model as the readers read it."""
    return read(configurations()[model], quantization=quantization(model))


def cache_bytes(read_model: Architecture, num_tokens: int) -> float:
    """Bytes that one sequence of ``num_tokens`` holds with a 16-bit KV cache."""
    total = 0.0
    for kind, count in zip(read_model.layer_kinds, read_model.layer_counts, strict=True):
        for entry in kind.cache:
            kept = min(num_tokens, entry.window_tokens or num_tokens) // entry.tokens_per_entry
            number = entry.fixed_entries if entry.fixed_entries is not None else kept
            total += count * number * entry.num_elements * BYTES_PER_ELEMENT[entry.precision or "bf16"]
    return total


def matmul_flops(read_model: Architecture) -> float:
    """FLOPs of matrix products that one token costs, attention to earlier tokens aside."""
    return sum(
        2 * tensor.num_matmul_parameters * count * read_model.active_ratio(tensor) for tensor, count in read_model.tensors()
    )


def attention_flops_per_context_token(read_model: Architecture, *, windowed: bool) -> float:
    """FLOPs that attending to one more earlier token costs over all full, or all windowed layers."""
    total = 0
    for kind, count in zip(read_model.layer_kinds, read_model.layer_counts, strict=True):
        shape = kind.attention
        if shape is None or kind.mixer is Mixer.CROSS or shape.tokens_per_compressed_entry is not None:
            continue
        is_windowed = shape.window_tokens is not None and kind.mixer is not Mixer.SPARSE_LATENT
        if is_windowed == windowed:
            total += count * 2 * shape.num_query_heads * (shape.query_key_head_dim + shape.value_head_dim)
    return total
