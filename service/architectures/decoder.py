"""The standard decoder: attention and an MLP or experts in every layer, one table entry a family.

Most families differ only in which matrices have biases, what is normalised, where windows are, and how their keys are
called. ``Dialect`` holds those differences; ``read_decoder`` turns a configuration into an Architecture with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

from msgspec import Struct, field

from service.architectures.architecture import Architecture, Experts, FeedForward, Role, Split
from service.architectures.assembly import Model, Source, assemble
from service.architectures.attention import AttentionTraits, grouped_query_attention, read_heads
from service.architectures.feed_forward import ExpertBlock, Mlp, dense, expert_weights, mlp_weights, read_experts
from service.architectures.fields import MAX_LAYERS, Fields
from service.architectures.patterns import expert_layers, no_windows
from service.architectures.weights import Layer, Part, Weight, layer, matrix, norm, vector

#: A boolean of the family, or the name of the key that decides it.
Switch: TypeAlias = bool | str


class ExpertTraits(Struct, frozen=True, kw_only=True):
    """How a family lays out its routed experts and what stands beside them."""

    module: str = "mlp"
    router: str = "gate"
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    width_key: str = "moe_intermediate_size"
    gated: bool = True
    bias: bool = False
    router_bias: Switch = False
    shared: Literal["", "count", "width", "width_gated", "one"] = ""
    shared_module: str = "shared_experts"
    shared_width_key: str = "shared_expert_intermediate_size"
    latent_key: str = ""  # the width that experts read and write, where it is not hidden_size
    latent_names: tuple[str, str] = ("", "")  # the projections to and from it
    beside: Callable[[Fields, int], tuple[Weight, ...]] | None = None  # what else runs beside the experts


class Dialect(Struct, frozen=True, kw_only=True):
    """What a family's standard decoder adds to the plain one.

    ``adapt`` turns what the family says in its own way into the usual keys ("multi_query": true into one KV head).
    """

    reader: str
    adapt: Callable[[Fields], Mapping[str, object]] | None = None
    defaults: Mapping[str, object] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    attention: str = "self_attn"
    mlp: str = "mlp"
    mlp_names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    gated: bool = True
    qkv_bias: Switch = False
    o_bias: Switch = False
    mlp_bias: Switch = False
    qk_norm: Literal["", "head", "all"] = ""
    qk_norm_switch: Switch = True
    qk_norm_bias: bool = False
    norm_bias: Switch = False
    norms: int | Callable[[Fields], int] = 2  # in a layer
    norm_weights: bool = True  # False: norms without parameters (OLMo)
    final_norm: Switch = True
    embedding_norm: bool = False
    embedding_key: str = ""  # the key of an embedding width other than hidden_size
    positions: int | None = None  # learned position table: this many rows beyond max_position_embeddings
    lm_head_bias: Switch = False
    output_gate: bool = False  # attention output gated by a projection as wide as the queries
    sinks: bool = False
    windows: Callable[[Fields, int], list[int | None]] = no_windows
    mixing: "Callable[[Fields, Dialect, int], list[Part]] | None" = None  # None: softmax attention with windows
    experts: ExpertTraits | None = None
    intermediate: Callable[[Fields], int] | None = None
    layer_additions: Callable[[Fields], tuple[Weight, ...]] | None = None  # besides mixing, feeding and norms
    outer_additions: Callable[[Fields], tuple[Weight, ...]] | None = None  # besides embeddings and final norm

    def fields(self, text: Fields) -> Fields:
        """The text section seen through this family's defaults and names."""
        seen = text.with_defaults(self.defaults, self.aliases)
        return seen if self.adapt is None else seen.with_values(self.adapt(seen))


def on(fields: Fields, switch: Switch) -> bool:
    """A family's constant, or the key that it names (false when absent and without class default)."""
    return fields.flag(switch) if isinstance(switch, str) else switch


def read_decoder(source: Source, dialect: Dialect, *, towers: tuple[Weight, ...] = ()) -> Architecture:
    """The architecture of a decoder whose every layer is one mixing part, one feed-forward part and their norms."""
    fields = dialect.fields(source.text)
    hidden = fields.count("hidden_size")
    num_layers = fields.count("num_hidden_layers", at_most=MAX_LAYERS)
    mixing = (dialect.mixing or softmax_mixing)(fields, dialect, num_layers)
    sparse = expert_layers(fields, num_layers) if dialect.experts else [False] * num_layers
    experts = read_traits_experts(fields, dialect.experts) if dialect.experts and any(sparse) else None
    mlp = None if all(sparse) and experts is not None else read_mlp(fields, dialect, hidden)
    layers = _layers(fields, dialect, mixing, sparse, mlp, experts)
    return assemble(
        source,
        Model(
            reader=dialect.reader,
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=layers,
            tied=tied(source, fields),
            outer=(*outer_weights(fields, dialect, hidden), *towers),
            embedding_size=fields.maybe_count(dialect.embedding_key) if dialect.embedding_key else None,
            lm_head_bias=on(fields, dialect.lm_head_bias),
            experts=experts,
            intermediate_size=mlp.intermediate_size if mlp is not None else None,
            **prediction(fields, hidden, layers),
        ),
    )


def tied(source: Source, fields: Fields) -> bool:
    """Whether the lm_head is the embedding table: the text section decides, then the top, then the class default."""
    if not fields.has("tie_word_embeddings") and source.top.has("tie_word_embeddings"):
        return source.top.flag("tie_word_embeddings")
    return fields.flag("tie_word_embeddings")


class Prediction(TypedDict):
    """The multi-token-prediction part of a ``Model``."""

    prediction: list[Layer]
    prediction_weights: tuple[Weight, ...]


def prediction(fields: Fields, hidden: int, layers: Sequence[Layer]) -> Prediction:
    """Multi-token-prediction layers: each is one more layer like the last, two norms and a projection of two inputs.

    Source: DeepSeek-V3 technical report, section 2.2; embedding and lm_head are shared with the model.
    """
    number = fields.count("num_nextn_predict_layers", 0, at_least=0, at_most=MAX_LAYERS)
    joined = matrix("eh_proj", Role.MLP, 2 * hidden, hidden)
    weights = (joined, norm("enorm", hidden), norm("hnorm", hidden), norm("shared_head.norm", hidden))
    return {"prediction": [layers[-1]] * number, "prediction_weights": weights * number}


def read_mlp(fields: Fields, dialect: Dialect, hidden: int) -> Mlp:
    """The dense MLP of a dialect."""
    width = dialect.intermediate(fields) if dialect.intermediate else fields.count("intermediate_size")
    return Mlp(hidden, width, dialect.gated, on(fields, dialect.mlp_bias), dialect.mlp, dialect.mlp_names)


def attention_traits(fields: Fields, dialect: Dialect) -> AttentionTraits:
    """The attention of a dialect under this configuration."""
    return AttentionTraits(
        module=dialect.attention,
        qkv_bias=on(fields, dialect.qkv_bias),
        o_bias=on(fields, dialect.o_bias),
        qk_norm=dialect.qk_norm if on(fields, dialect.qk_norm_switch) else "",
        qk_norm_bias=dialect.qk_norm_bias,
        gate=dialect.output_gate,
        sinks=dialect.sinks,
    )


def layer_norms(fields: Fields, dialect: Dialect, hidden: int) -> tuple[Weight, ...]:
    """The norms around attention and MLP, and whatever else every layer has."""
    additions = dialect.layer_additions(fields) if dialect.layer_additions else ()
    if not dialect.norm_weights:
        return additions
    number = dialect.norms if isinstance(dialect.norms, int) else dialect.norms(fields)
    return (norm("norms", hidden * number, bias=on(fields, dialect.norm_bias)), *additions)


def outer_weights(fields: Fields, dialect: Dialect, hidden: int) -> tuple[Weight, ...]:
    """What stands around the layers besides embedding and lm_head."""
    bias = on(fields, dialect.norm_bias)
    weights = []
    if dialect.positions is not None:
        rows = fields.count("max_position_embeddings") + dialect.positions
        weights.append(vector("embed_positions", Role.EMBEDDING, rows * hidden))
    if dialect.embedding_norm:
        weights.append(norm("embedding_norm", hidden, bias=bias))
    if on(fields, dialect.final_norm) and dialect.norm_weights:
        weights.append(norm("norm", hidden, bias=bias))
    if dialect.outer_additions is not None:
        weights += dialect.outer_additions(fields)
    return tuple(weights)


def softmax_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Grouped-query attention in every layer, with the family's windows."""
    heads = read_heads(fields)
    traits = attention_traits(fields, dialect)
    windows = dialect.windows(fields, num_layers)
    made = {w: grouped_query_attention(heads, traits, window_tokens=w) for w in dict.fromkeys(windows)}
    return [made[window] for window in windows]


def _layers(
    fields: Fields,
    dialect: Dialect,
    mixing: Sequence[Part],
    sparse: Sequence[bool],
    mlp: Mlp | None,
    experts: Experts | None,
) -> list[Layer]:
    norms = layer_norms(fields, dialect, fields.count("hidden_size"))
    feeding = {has: feeding_part(fields, dialect, mlp, experts if has else None) for has in set(sparse)}
    made: dict[tuple[int, bool], Layer] = {}
    order = []
    for part, has_experts in zip(mixing, sparse, strict=True):
        key = (id(part), has_experts)
        if key not in made:
            made[key] = layer(part, feeding[has_experts], norms)
        order.append(made[key])
    return order


def feeding_part(fields: Fields, dialect: Dialect, mlp: Mlp | None, experts: Experts | None) -> Part:
    """The feed-forward half of a layer: experts where they are given, else the dense MLP."""
    if experts is None or dialect.experts is None:
        return dense(mlp) if mlp is not None else Part(weights=())
    return expert_part(fields, dialect.experts, fields.count("hidden_size"), experts)


def read_traits_experts(fields: Fields, traits: ExpertTraits) -> Experts:
    """The routed experts of a family, whose width stands under its own key."""
    return read_experts(fields, width=fields.count(traits.width_key))


def expert_part(fields: Fields, traits: ExpertTraits, hidden: int, experts: Experts) -> Part:
    """Routed experts, their router and what shares the work with them."""
    block = ExpertBlock(
        hidden_size=hidden,
        experts=experts,
        module=traits.module,
        router=traits.router,
        names=traits.names,
        gated=traits.gated,
        bias=traits.bias,
        router_bias=on(fields, traits.router_bias),
        expert_hidden_size=fields.maybe_count(traits.latent_key) if traits.latent_key else None,
    )
    weights = expert_weights(block) + _shared(fields, traits, hidden, experts)
    if block.expert_hidden_size is not None:
        weights += _latent_projections(traits, hidden, block.expert_hidden_size)
    if traits.beside is not None:
        weights += traits.beside(fields, hidden)
    return Part(weights=weights, feed_forward=FeedForward.EXPERTS)


def _latent_projections(traits: ExpertTraits, hidden: int, latent: int) -> tuple[Weight, ...]:
    down, up = (f"{traits.module}.{name}" for name in traits.latent_names)
    return (
        matrix(down, Role.MLP, hidden, latent, Split.REPLICATED),
        matrix(up, Role.MLP, latent, hidden, Split.REPLICATED),
    )


def _shared(fields: Fields, traits: ExpertTraits, hidden: int, experts: Experts) -> tuple[Weight, ...]:
    module = f"{traits.module}.{traits.shared_module}"
    if traits.shared == "":
        return ()
    if traits.shared == "count":
        width = experts.intermediate_size * fields.count("n_shared_experts", 0, at_least=0, at_most=1_000)
    elif traits.shared == "one":
        width = experts.intermediate_size
    else:
        width = fields.count(traits.shared_width_key, 0, at_least=0)
    if width == 0 or fields.given("n_shared_experts") == 0:
        return ()
    weights = mlp_weights(Mlp(hidden, width, traits.gated, False, module, traits.names), Role.SHARED_EXPERTS)
    if traits.shared != "width_gated":
        return weights
    gate = Weight(f"{module}_gate", Role.SHARED_EXPERTS, Split.REPLICATED, hidden, 1, quantizable=False)
    return (*weights, gate)
