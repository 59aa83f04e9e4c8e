"""LongCat-Flash: every layer is two of latent attention and a dense MLP, with experts that bridge both.

Counted here as twice the layers, since each half has a cache of its own; layouts follow transformers 5.24, except that
experts without parameters ("zero experts") take no memory here.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import Architecture, Experts, FeedForward
from service.architectures.assembly import Model, Source, assemble
from service.architectures.attention import Latent, latent_attention, read_latent
from service.architectures.feed_forward import ExpertBlock, Mlp, expert_weights, mlp_weights
from service.architectures.fields import MAX_EXPERTS, MAX_LAYERS
from service.architectures.weights import Layer, Part, layer, norm

_DEFAULTS: Final[Mapping[str, object]] = {
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128
}  # fmt: skip


def read_longcat(source: Source) -> Architecture:
    """The architecture of a LongCat-Flash model."""
    fields = source.text.with_defaults(_DEFAULTS, {"num_hidden_layers": ("num_layers", "num_hidden_layers")})
    hidden = fields.count("hidden_size")
    number = fields.count("num_hidden_layers", at_most=MAX_LAYERS // 2)
    real, zero = fields.count("num_experts", at_most=MAX_EXPERTS), fields.count("zero_expert_num", 0, at_least=0)
    per_token = fields.count("num_experts_per_tok", at_most=MAX_EXPERTS)
    average = max(1, round(per_token * real / (real + zero)))
    experts = Experts(real, average, fields.count("moe_intermediate_size"))
    dims, width = read_latent(fields), fields.count("intermediate_size")
    block = ExpertBlock(
        hidden_size=hidden, experts=experts, router="router.classifier", router_outputs=real + zero,
        router_bias=fields.flag("router_bias"),
    )  # fmt: skip
    halves = [_half(dims, hidden, width, half, block if half == 0 else None) for half in (0, 1)]
    notes = [f"{number} layers of two attentions each are counted as {2 * number}."]
    if zero:
        notes.append(f"{zero} of the {real + zero} experts do nothing: of {per_token} a token about {average} are real.")
    return assemble(
        source,
        Model(
            reader="longcat_flash",
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=halves * number,
            layer_numbers=[index // 2 for index in range(2 * number)],
            tied=fields.flag("tie_word_embeddings"),
            outer=(norm("norm", hidden),),
            experts=experts,
            intermediate_size=width,
            notes=tuple(notes),
        ),
    )


def _half(dims: Latent, hidden: int, width: int, half: int, block: ExpertBlock | None) -> Layer:
    mixing = latent_attention(replace(dims, module=f"self_attn.{half}"))
    weights = mlp_weights(Mlp(hidden, width, module=f"mlps.{half}"))
    if block is None:
        return layer(mixing, Part(weights=weights, feed_forward=FeedForward.DENSE), (norm("norms", 2 * hidden),))
    both = Part(weights=weights + expert_weights(block), feed_forward=FeedForward.EXPERTS)
    return layer(mixing, both, (norm("norms", 2 * hidden),))
