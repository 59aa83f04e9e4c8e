"""What a sequence keeps in the cache."""

from collections.abc import Callable

from service.formulas.registry import formula


@formula("2 · L · H_kv · d_head · b", source="Pope et al., Efficiently Scaling Transformer Inference, 2022, section 2")
def kv_cache_bytes_per_token(*, num_layers: float, num_kv_heads: float, head_dim: float, kv_bytes_per_element: float) -> float:
    """Memory that one token holds in the KV cache, over all layers and all devices.

    The 2 counts one key and one value vector per KV head per layer.

    Holds for full attention (MHA, GQA, MQA). Latent and windowed attention have their own formulas.

    >>> kv_cache_bytes_per_token(num_layers=80, num_kv_heads=8, head_dim=128, kv_bytes_per_element=2)
    327680
    """
    return 2 * num_layers * num_kv_heads * head_dim * kv_bytes_per_element


@formula("L · (r + d_rope) · b", source="DeepSeek-V2 report, 2024, section 2.1.3")
def latent_cache_bytes_per_token(
    *, num_layers: float, kv_lora_rank: float, rope_head_dim: float, kv_bytes_per_element: float
) -> float:
    """Memory that one token holds in the latent cache, over all layers, on every tensor-parallel rank.

    One latent vector and one rotary key serve all heads, as keys and as values: there is no 2 and nothing to divide by heads.

    >>> latent_cache_bytes_per_token(num_layers=61, kv_lora_rank=512, rope_head_dim=64, kv_bytes_per_element=2)
    70272
    """
    return num_layers * (kv_lora_rank + rope_head_dim) * kv_bytes_per_element


@formula("max(1, H_kv / n)", source="vLLM and SGLang: beyond H_kv ranks, KV heads are replicated")
def num_kv_heads_per_device(
    *, num_kv_heads: float, tensor_parallel_size: float, maximum: Callable[[float, float], float] = max
) -> float:
    """KV heads whose cache each tensor-parallel rank holds.

    >>> num_kv_heads_per_device(num_kv_heads=8, tensor_parallel_size=16)
    1
    """
    return maximum(1, num_kv_heads / tensor_parallel_size)


@formula("min(T, w)", source="a windowed layer attends to, and keeps, the last w tokens")
def windowed_tokens(*, context_tokens: float, window_tokens: float, minimum: Callable[[float, float], float] = min) -> float:
    """Tokens of a context that a windowed layer keeps.

    >>> windowed_tokens(context_tokens=4096, window_tokens=128)
    128
    """
    return minimum(context_tokens, window_tokens)


@formula("B · c", source="definition")
def kv_cache_bytes(*, batch_size: float, cache_bytes_per_sequence: float) -> float:
    """Memory of the cache of a whole batch, copies counted once.

    >>> kv_cache_bytes(batch_size=64, cache_bytes_per_sequence=536870912)
    34359738368
    """
    return batch_size * cache_bytes_per_sequence
