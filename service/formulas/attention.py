"""Operations of attention over a cached context, and how they compare with the bytes of that cache."""

from service.formulas.registry import formula


@formula("2 · L · H · (d_qk + d_v) · T", source="Chowdhery et al., PaLM, 2022, appendix B, forward pass")
def attention_flops_per_token(
    *, num_layers: float, num_query_heads: float, query_key_head_dim: float, value_head_dim: float, attended_tokens: float
) -> float:
    """Operations of one new token's attention over T cached tokens, all layers and heads.

    Scores take 2 · d_qk per head and cached token (multiply and add), the weighted sum of values 2 · d_v.

    >>> attention_flops_per_token(num_layers=32, num_query_heads=32, query_key_head_dim=128, value_head_dim=128,
    ...     attended_tokens=4096)
    2147483648
    """
    return 2 * num_layers * num_query_heads * (query_key_head_dim + value_head_dim) * attended_tokens


@formula("2 · L · H · (2 · r + d_rope) · T", source="DeepSeek-V2 report, 2024, section 2.1.2: up-projections absorbed")
def latent_attention_flops_per_token(
    *, num_layers: float, num_query_heads: float, kv_lora_rank: float, rope_head_dim: float, attended_tokens: float
) -> float:
    """Operations of one new token's latent attention over T cached tokens, with the up-projections absorbed.

    Every head scores against the latent and its rotary part (r + d_rope) and sums latents (r). Expanding keys and values
    instead costs fewer operations per head but an up-projection of the whole context in every step.

    >>> latent_attention_flops_per_token(num_layers=61, num_query_heads=128, kv_lora_rank=512, rope_head_dim=64,
    ...     attended_tokens=1)
    16990208
    """
    return 2 * num_layers * num_query_heads * (2 * kv_lora_rank + rope_head_dim) * attended_tokens


@formula("FLOP_attention / bytes_cache", source="definition")
def attention_intensity_flops_per_byte(*, attention_flops_per_sequence: float, cache_bytes_per_sequence: float) -> float:
    """Operations per byte of cache. Both grow with the context and the batch, so neither changes it.

    For grouped queries it is H_q / H_kv · 2 / b: 4 for 32 query heads over 8 KV heads at 16 bits.

    >>> attention_intensity_flops_per_byte(attention_flops_per_sequence=2147483648, cache_bytes_per_sequence=536870912)
    4.0
    """
    return attention_flops_per_sequence / cache_bytes_per_sequence
