"""DeepSeek's line: latent attention, experts after some dense layers, and in the later ones a sparse indexer."""

from collections.abc import Mapping
from typing import Final

from service.architectures.attention import Indexer, Latent, latent_attention, read_latent
from service.architectures.decoder import Dialect, ExpertTraits, softmax_mixing
from service.architectures.fields import MAX_HEADS, MAX_TOKENS, Fields
from service.architectures.weights import Part


def latent_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """The same latent attention in every layer, or multi-head attention where the configuration switches it off."""
    if not has_latent_keys(fields):  # DeepSeek-VL2-Tiny is a deepseek_v2 with use_mla false
        return softmax_mixing(fields, dialect, num_layers)
    return [latent_attention(read_latent(fields, module=dialect.attention))] * num_layers


def sparse_latent_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Latent attention over the tokens that an indexer picks.

    ``indexer_types`` (GLM-5.2) marks layers that have an indexer ("full") and layers that reuse the choice of the last
    one before them ("shared"); without it every layer has one.
    """
    dims = read_latent(fields, module=dialect.attention)
    indexer = _read_indexer(fields)
    full = latent_attention(dims, indexer)
    types = fields.texts("indexer_types", length=num_layers)
    if types is None:
        return [full] * num_layers
    shared = latent_attention(dims, sparse_top_k=indexer.top_k_tokens)
    return [full if name == "full" else shared for name in types]


def minicpm3_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """MiniCPM3: value heads are hidden_size / num_attention_heads wide, a width that no key gives."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads", at_most=MAX_HEADS)
    if hidden % heads:
        raise fields.refuse("num_attention_heads", f"{hidden} does not divide over {heads} heads.", "Give v_head_dim.")
    width = fields.maybe_count("v_head_dim") or hidden // heads
    dims = read_latent(fields.with_defaults({"v_head_dim": width}), module=dialect.attention)
    return [latent_attention(dims)] * num_layers


def _read_indexer(fields: Fields) -> Indexer:
    return Indexer(
        num_heads=fields.count("index_n_heads", at_most=MAX_HEADS),
        head_dim=fields.count("index_head_dim", at_most=65_536),
        top_k_tokens=fields.count("index_topk", at_most=MAX_TOKENS),
    )


def has_latent_keys(fields: Fields) -> bool:
    """Whether the attention is latent: some configurations of these families switch it off."""
    return fields.has("kv_lora_rank") and fields.flag("use_mla", True)


_EXPERTS: Final = ExpertTraits(router_bias=True, shared="count")
_V2_EXPERTS: Final = ExpertTraits(shared="count")

# transformers 5.24 DeepseekV3Config, DeepseekV32Config, GlmMoeDsaConfig.
_V3_DEFAULTS: Final[Mapping[str, object]] = {
    "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "tie_word_embeddings": False
}  # fmt: skip

LATENT_DIALECTS: Final[Mapping[str, Dialect]] = {
    "deepseek_v2": Dialect(
        reader="deepseek_v2", mixing=latent_mixing, experts=_V2_EXPERTS, defaults={"first_k_dense_replace": 0}
    ),
    "deepseek_v3": Dialect(
        reader="deepseek_v3", mixing=latent_mixing, experts=_EXPERTS, defaults=_V3_DEFAULTS
    ),
    "deepseek_v32": Dialect(
        reader="deepseek_v3", mixing=sparse_latent_mixing, experts=_EXPERTS, defaults=_V3_DEFAULTS
    ),
    "minicpm3": Dialect(
        reader="minicpm3", mixing=minicpm3_mixing, defaults={"tie_word_embeddings": True}
    ),
    "glm_moe_dsa": Dialect(
        reader="glm_moe_dsa", mixing=sparse_latent_mixing, experts=_EXPERTS, defaults=_V3_DEFAULTS
    ),
}  # fmt: skip

__all__ = ["LATENT_DIALECTS", "Latent", "has_latent_keys", "latent_mixing", "sparse_latent_mixing"]
