"""Softmax attention: multi-head, grouped-query, and DeepSeek's latent form, with their caches."""

from typing import Final, Literal

from msgspec import Struct

from service.architectures.architecture import AttentionShape, CacheEntry, Mixer, Role, Split
from service.architectures.fields import MAX_HEADS, Fields
from service.architectures.weights import Part, Weight, matrix, norm, vector

_ATTENTION: Final = Role.ATTENTION


class Heads(Struct, frozen=True):
    """The dimensions of grouped-query attention; ``num_kv_heads`` equals ``num_query_heads`` without grouping."""

    hidden_size: int
    num_query_heads: int
    num_kv_heads: int
    query_key_head_dim: int
    value_head_dim: int
    output_hidden_size: int | None = None  # what o_proj writes, where it is not what the projections read (Zamba)

    @property
    def query_size(self) -> int:
        """Width of all queries together."""
        return self.num_query_heads * self.query_key_head_dim

    @property
    def output_size(self) -> int:
        """Width of what o_proj reads."""
        return self.num_query_heads * self.value_head_dim


class AttentionTraits(Struct, frozen=True, kw_only=True):
    """What a family adds to plain grouped-query attention."""

    module: str = "self_attn"
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["", "head", "all"] = ""  # one weight for every head, or a weight as wide as all heads
    qk_norm_bias: bool = False
    sinks: bool = False  # one learned logit a query head (gpt-oss)
    gate: bool = False  # q_proj is twice as wide: half of it gates the output (Qwen3-Next)
    head_gate: bool = False  # one gate a head from a projection of its own (Step-3.5, Laguna)
    query_rank: int | None = None  # queries come through a narrow projection, a norm and a wide one (Step-3)
    value_is_key: bool = False  # no v_proj: values are the keys (Gemma 4, attention_k_eq_v)
    shares_cache: bool = False  # keys and values of an earlier layer: no k_proj, no v_proj, no cache of its own


PLAIN: Final = AttentionTraits()


def read_heads(fields: Fields, *, hidden_size: int | None = None) -> Heads:
    """Head counts and dimensions from the usual keys.

    head_dim is read where it is given (it need not be hidden_size / num_attention_heads), else derived.
    """
    hidden = hidden_size if hidden_size is not None else fields.count("hidden_size")
    heads = fields.count("num_attention_heads", at_most=MAX_HEADS)
    kv_heads = fields.maybe_count("num_key_value_heads", at_most=MAX_HEADS)
    if kv_heads is None:
        kv_heads = heads
        fields.defaulted["num_key_value_heads"] = f"{heads} (one a query head)"
    return heads_of(fields, hidden, heads, kv_heads)


def heads_of(fields: Fields, hidden: int, heads: int, kv_heads: int) -> Heads:
    """Heads whose dimension is ``head_dim`` or hidden_size / num_attention_heads; refuses what does not divide."""
    if heads % kv_heads:
        raise fields.refuse(
            "num_key_value_heads" if fields.has("num_key_value_heads") else "num_attention_heads",
            f"{heads} query heads do not divide over {kv_heads} key-value heads.",
            "Give a number of key-value heads that divides the query heads.",
        )
    head_dim = fields.maybe_count("head_dim", at_most=65_536)
    if head_dim is None:
        if hidden % heads:
            raise fields.refuse(
                "num_attention_heads", f"{hidden} does not divide over {heads} heads.", "Give head_dim as well."
            )
        head_dim = hidden // heads
    value_dim = fields.maybe_count("v_head_dim", at_least=0, at_most=65_536) or head_dim
    return Heads(hidden, heads, kv_heads, head_dim, value_dim)


def grouped_query_attention(
    heads: Heads,
    traits: AttentionTraits = PLAIN,
    *,
    window_tokens: int | None = None,
    mixer: Mixer | None = None,
) -> Part:
    """Attention with a cache of one key and one value a KV head and token, all tokens or the last window of them."""
    kv_size = heads.num_kv_heads * heads.query_key_head_dim
    value_size = heads.num_kv_heads * heads.value_head_dim
    cache = CacheEntry("kv", float(kv_size + value_size), Split.KV_HEADS, window_tokens=window_tokens)
    return Part(
        weights=_projections(heads, traits) + _additions(heads, traits),
        mixer=mixer or (Mixer.FULL if window_tokens is None else Mixer.SLIDING),
        cache=() if traits.shares_cache else (cache,),
        attention=AttentionShape(
            num_query_heads=heads.num_query_heads,
            num_kv_heads=heads.num_kv_heads,
            query_key_head_dim=heads.query_key_head_dim,
            value_head_dim=heads.value_head_dim,
            window_tokens=window_tokens,
        ),
    )


def _projections(heads: Heads, traits: AttentionTraits) -> tuple[Weight, ...]:
    at, hidden = traits.module, heads.hidden_size
    kv_size = heads.num_kv_heads * heads.query_key_head_dim
    value_size = heads.num_kv_heads * heads.value_head_dim
    query_size = heads.query_size * (2 if traits.gate else 1)
    weights: list[Weight] = []
    if traits.query_rank is None:
        weights.append(matrix(f"{at}.q_proj", _ATTENTION, hidden, query_size))
    else:
        weights.append(matrix(f"{at}.q_proj", _ATTENTION, hidden, traits.query_rank, Split.REPLICATED))
        weights.append(norm(f"{at}.inter_norm", traits.query_rank))
        weights.append(matrix(f"{at}.wq", _ATTENTION, traits.query_rank, query_size))
    if traits.qkv_bias:
        weights.append(vector(f"{at}.q_proj.bias", _ATTENTION, query_size, Split.EVEN))
    if not traits.shares_cache:
        weights.append(matrix(f"{at}.k_proj", _ATTENTION, hidden, kv_size, Split.KV_HEADS))
        if not traits.value_is_key:
            weights.append(matrix(f"{at}.v_proj", _ATTENTION, hidden, value_size, Split.KV_HEADS))
        if traits.qkv_bias:
            weights.append(vector(f"{at}.kv_proj.bias", _ATTENTION, kv_size + value_size, Split.KV_HEADS))
    written = heads.output_hidden_size or hidden
    weights.append(matrix(f"{at}.o_proj", _ATTENTION, heads.output_size, written))
    if traits.o_bias:
        weights.append(vector(f"{at}.o_proj.bias", _ATTENTION, written))
    return tuple(weights)


def _additions(heads: Heads, traits: AttentionTraits) -> tuple[Weight, ...]:
    weights: list[Weight] = []
    if traits.qk_norm:
        dim = heads.query_key_head_dim
        query, key = (dim, dim) if traits.qk_norm == "head" else (heads.query_size, heads.num_kv_heads * dim)
        weights.append(norm(f"{traits.module}.q_norm", query, bias=traits.qk_norm_bias))
        if not traits.shares_cache:
            weights.append(norm(f"{traits.module}.k_norm", key, bias=traits.qk_norm_bias))
    if traits.head_gate:
        weights.append(matrix(f"{traits.module}.g_proj", _ATTENTION, heads.hidden_size, heads.num_query_heads))
    if traits.sinks:
        weights.append(vector(f"{traits.module}.sinks", _ATTENTION, heads.num_query_heads, Split.EVEN))
    return tuple(weights)


class Indexer(Struct, frozen=True):
    """The lightning indexer of DeepSeek sparse attention: scores every cached token, the top k of them are attended."""

    num_heads: int
    head_dim: int
    top_k_tokens: int


class Latent(Struct, frozen=True):
    """The dimensions of multi-head latent attention."""

    hidden_size: int
    num_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int
    bias: bool = False
    module: str = "self_attn"
    output_gate: bool = False  # the heads' outputs are gated by a projection of the input (Kimi-K3)


def read_latent(fields: Fields, *, module: str = "self_attn") -> Latent:
    """Latent attention from DeepSeek's keys. head_dim is not usable there: some configurations give it another sense."""
    return Latent(
        hidden_size=fields.count("hidden_size"),
        num_heads=fields.count("num_attention_heads", at_most=MAX_HEADS),
        q_lora_rank=fields.maybe_count("q_lora_rank"),
        kv_lora_rank=fields.count("kv_lora_rank"),
        nope_head_dim=fields.count("qk_nope_head_dim", at_most=65_536),
        rope_head_dim=fields.count("qk_rope_head_dim", at_least=0, at_most=65_536),
        value_head_dim=fields.count("v_head_dim", at_most=65_536),
        bias=fields.flag("attention_bias"),
        module=module,
        output_gate=fields.flag("mla_use_output_gate"),
    )


def latent_attention(dims: Latent, indexer: Indexer | None = None, *, sparse_top_k: int | None = None) -> Part:
    """Attention over one latent and one rotary key a token, shared by all heads and not divided over ranks.

    With ``indexer`` the layer keeps index keys too; ``sparse_top_k`` without one is a layer that reuses the choice of
    an earlier layer's indexer.
    """
    top_k = indexer.top_k_tokens if indexer is not None else sparse_top_k
    cache = [CacheEntry("latent", float(dims.kv_lora_rank + dims.rope_head_dim), Split.REPLICATED)]
    weights = _latent_projections(dims)
    if indexer is not None:
        cache.append(CacheEntry("indexer", float(indexer.head_dim), Split.REPLICATED))
        weights += _indexer_weights(dims, indexer)
    return Part(
        weights=weights,
        mixer=Mixer.LATENT if top_k is None else Mixer.SPARSE_LATENT,
        cache=tuple(cache),
        attention=AttentionShape(
            num_query_heads=dims.num_heads,
            num_kv_heads=dims.num_heads,
            query_key_head_dim=dims.nope_head_dim + dims.rope_head_dim,
            value_head_dim=dims.value_head_dim,
            window_tokens=top_k,
            kv_lora_rank=dims.kv_lora_rank,
            rope_head_dim=dims.rope_head_dim,
        ),
    )


def _latent_projections(dims: Latent) -> tuple[Weight, ...]:
    at, hidden, latent = dims.module, dims.hidden_size, dims.kv_lora_rank
    query_size = dims.num_heads * (dims.nope_head_dim + dims.rope_head_dim)
    down = Split.REPLICATED
    weights: list[Weight] = []
    if dims.q_lora_rank is None:
        weights.append(matrix(f"{at}.q_proj", _ATTENTION, hidden, query_size))
    else:
        weights.append(matrix(f"{at}.q_a_proj", _ATTENTION, hidden, dims.q_lora_rank, down))
        weights.append(norm(f"{at}.q_a_layernorm", dims.q_lora_rank))
        weights.append(matrix(f"{at}.q_b_proj", _ATTENTION, dims.q_lora_rank, query_size))
    weights += [
        matrix(f"{at}.kv_a_proj_with_mqa", _ATTENTION, hidden, latent + dims.rope_head_dim, down),
        norm(f"{at}.kv_a_layernorm", latent),
        matrix(f"{at}.kv_b_proj", _ATTENTION, latent, dims.num_heads * (dims.nope_head_dim + dims.value_head_dim)),
        matrix(f"{at}.o_proj", _ATTENTION, dims.num_heads * dims.value_head_dim, hidden),
    ]
    if dims.output_gate:
        weights.append(matrix(f"{at}.g_proj", _ATTENTION, hidden, dims.num_heads * dims.value_head_dim))
    if dims.bias:
        size = (dims.q_lora_rank or 0) + latent + dims.rope_head_dim + hidden
        weights.append(vector(f"{at}.biases", _ATTENTION, size))
    return tuple(weights)


def _indexer_weights(dims: Latent, indexer: Indexer) -> tuple[Weight, ...]:
    # Engines keep the indexer whole on every rank: its heads are few and its score is a sum over them.
    at, whole = f"{dims.module}.indexer", Split.REPLICATED
    source = dims.q_lora_rank or dims.hidden_size
    return (
        matrix(f"{at}.wq_b", _ATTENTION, source, indexer.num_heads * indexer.head_dim, whole),
        matrix(f"{at}.wk", _ATTENTION, dims.hidden_size, indexer.head_dim, whole),
        norm(f"{at}.k_norm", indexer.head_dim, bias=True),
        Weight(f"{at}.weights_proj", _ATTENTION, whole, dims.hidden_size, indexer.num_heads, quantizable=False),
    )
