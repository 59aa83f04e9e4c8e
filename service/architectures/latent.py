"""DeepSeek's line: latent attention, experts after some dense layers, and in the later ones a sparse indexer."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from service.architectures.attention import Indexer, latent_attention, read_latent
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

# Class defaults of transformers 5.24 DeepseekV2Config, DeepseekV3Config, GlmMoeDsaConfig, Glm4MoeLiteConfig and so on,
# as far as published checkpoints leave them out.
_V3: Final = Dialect(
    reader="deepseek_v3", mixing=latent_mixing, experts=_EXPERTS,
    defaults={"n_shared_experts": 1, "first_k_dense_replace": 3},
)  # fmt: skip
_FIRST_DENSE: Final = {"n_shared_experts": 1, "first_k_dense_replace": 1}

LATENT_DIALECTS: Final[Mapping[str, Dialect]] = {
    "deepseek_v2": Dialect(
        reader="deepseek_v2", mixing=latent_mixing, experts=ExpertTraits(shared="count"),
        defaults={"n_shared_experts": 2},
    ),
    "deepseek_v3": _V3,
    "deepseek_v32": replace(_V3, mixing=sparse_latent_mixing),
    "glm_moe_dsa": replace(_V3, reader="glm_moe_dsa", mixing=sparse_latent_mixing),
    "glm4_moe_lite": replace(_V3, reader="glm4_moe_lite", defaults=_FIRST_DENSE),
    "axk1": replace(_V3, reader="axk1", norms=3, defaults=_FIRST_DENSE),
    "mistral4": replace(_V3, reader="mistral4", defaults={"n_shared_experts": 1}),
    "sarvam_mla": replace(_V3, reader="sarvam_mla", defaults=_FIRST_DENSE),
    "minicpm3": Dialect(reader="minicpm3", mixing=minicpm3_mixing, defaults={"tie_word_embeddings": True}),
    "youtu": Dialect(reader="youtu", mixing=latent_mixing, defaults={"tie_word_embeddings": True}),
}  # fmt: skip
