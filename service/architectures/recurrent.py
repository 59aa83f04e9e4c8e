"""Layers whose memory of the past is a state of fixed size: Mamba, delta rules, lightning attention, convolutions.

A convolution keeps as many columns as its kernel has, as transformers does (engines may keep one less). Recurrent
states are float32 unless the configuration says otherwise, whatever the precision of the KV cache.

What of them tensor parallelism must divide is what engines assert when they build the layers (vLLM 0.1x to 0.2x:
mamba_mixer2.py for heads and groups, of which only a single one is copied; the gated delta net's key and value heads).
"""

from typing import Final

from msgspec import Struct

from service.architectures.architecture import CacheEntry, Divided, Mixer, Role, Split
from service.architectures.fields import MAX_HEADS, Fields
from service.architectures.weights import Part, Weight, matrix, vector

_LINEAR: Final = Role.LINEAR_ATTENTION


def state(name: str, num_elements: int, precision: str) -> CacheEntry:
    """A state that a sequence keeps once, however long it is."""
    return CacheEntry(name, float(num_elements), Split.EVEN, precision=precision, fixed_entries=1)


def conv_state(num_elements: int) -> CacheEntry:
    """The last columns that a causal convolution needs, at 16 bits."""
    return state("conv_state", num_elements, "bf16")


def recurrent_part(weights: tuple[Weight, ...], cache: tuple[CacheEntry, ...], *divided: Divided) -> Part:
    """A layer half that attends to no growing context."""
    return Part(weights=weights, mixer=Mixer.LINEAR, cache=cache, divided=divided)


def other(name: str, size: int) -> Weight:
    """Small parameters of a recurrent layer, divided over ranks with its heads."""
    return vector(name, _LINEAR, size, Split.EVEN)


class Mamba2(Struct, frozen=True):
    """The dimensions of a Mamba-2 mixer."""

    hidden_size: int
    num_heads: int
    head_dim: int
    state_size: int
    num_groups: int
    kernel: int
    conv_bias: bool = True
    projection_bias: bool = False
    gated_norm: bool = True
    module: str = "mixer"
    state_precision: str = "fp32"

    @property
    def inner_size(self) -> int:
        """Width of the values of all heads."""
        return self.num_heads * self.head_dim

    @property
    def conv_size(self) -> int:
        """Channels that the convolution sees: values, and the input and output projections of the state."""
        return self.inner_size + 2 * self.num_groups * self.state_size


def mamba2(dims: Mamba2) -> Part:
    """A Mamba-2 mixer (Dao and Gu 2024) as transformers lays it out: one joint input projection."""
    at, hidden, inner = dims.module, dims.hidden_size, dims.inner_size
    joint = inner + dims.conv_size + dims.num_heads
    small = 3 * dims.num_heads + (inner if dims.gated_norm else 0)
    small += dims.conv_size * (dims.kernel + (1 if dims.conv_bias else 0))
    small += joint + hidden if dims.projection_bias else 0
    weights = (
        matrix(f"{at}.in_proj", _LINEAR, hidden, joint),
        matrix(f"{at}.out_proj", _LINEAR, inner, hidden),
        other(f"{at}.conv1d", small),
    )
    recurrent = state("recurrent_state", inner * dims.state_size, dims.state_precision)
    groups = (Divided("Mamba groups", dims.num_groups),) if dims.num_groups > 1 else ()
    divided = (Divided("Mamba heads", dims.num_heads), *groups)
    return recurrent_part(weights, (conv_state(dims.conv_size * dims.kernel), recurrent), *divided)


class DeltaNet(Struct, frozen=True):
    """The dimensions of a gated delta net (Qwen3-Next, Qwen3.5)."""

    hidden_size: int
    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    kernel: int
    module: str = "linear_attn"
    state_precision: str = "fp32"


def read_delta_net(fields: Fields) -> DeltaNet:
    """A gated delta net from its linear_* keys."""
    return DeltaNet(
        hidden_size=fields.count("hidden_size"),
        num_key_heads=fields.count("linear_num_key_heads", at_most=MAX_HEADS),
        num_value_heads=fields.count("linear_num_value_heads", at_most=MAX_HEADS),
        key_head_dim=fields.count("linear_key_head_dim", at_most=65_536),
        value_head_dim=fields.count("linear_value_head_dim", at_most=65_536),
        kernel=fields.count("linear_conv_kernel_dim", at_most=1_000),
        state_precision=state_precision(fields, "mamba_ssm_dtype"),
    )


def gated_delta_net(dims: DeltaNet) -> Part:
    """A gated delta net: projections of keys, queries, values and an output gate, a convolution, a matrix state a head."""
    at, hidden = dims.module, dims.hidden_size
    keys, values = dims.num_key_heads * dims.key_head_dim, dims.num_value_heads * dims.value_head_dim
    channels = 2 * keys + values
    weights = (
        matrix(f"{at}.in_proj_qkv", _LINEAR, hidden, channels),
        matrix(f"{at}.in_proj_z", _LINEAR, hidden, values),
        matrix(f"{at}.in_proj_b", _LINEAR, hidden, dims.num_value_heads),
        matrix(f"{at}.in_proj_a", _LINEAR, hidden, dims.num_value_heads),
        matrix(f"{at}.out_proj", _LINEAR, values, hidden),
        other(f"{at}.conv1d", channels * dims.kernel + 2 * dims.num_value_heads + dims.value_head_dim),
    )
    size = dims.num_value_heads * dims.key_head_dim * dims.value_head_dim
    cache = (conv_state(channels * dims.kernel), state("recurrent_state", size, dims.state_precision))
    key_heads = Divided("linear-attention key heads", dims.num_key_heads)
    return recurrent_part(weights, cache, key_heads, Divided("linear-attention value heads", dims.num_value_heads))


class Mamba1(Struct, frozen=True):
    """The dimensions of a Mamba mixer (Gu and Dao 2023)."""

    hidden_size: int
    inner_size: int
    state_size: int
    kernel: int
    rank: int  # of the time step's projection
    conv_bias: bool = True
    projection_bias: bool = False
    inner_norms: bool = False  # Jamba normalises time step, input and output projections
    module: str = "mixer"


def mamba1(dims: Mamba1) -> Part:
    """A Mamba mixer: projections to values and gate, to time step and state, and back."""
    at, hidden, inner, rank = dims.module, dims.hidden_size, dims.inner_size, dims.rank
    small = inner * dims.state_size + 2 * inner + inner * (dims.kernel + (1 if dims.conv_bias else 0))
    small += rank + 2 * dims.state_size if dims.inner_norms else 0
    small += 2 * inner + hidden if dims.projection_bias else 0
    weights = (
        matrix(f"{at}.in_proj", _LINEAR, hidden, 2 * inner),
        matrix(f"{at}.x_proj", _LINEAR, inner, rank + 2 * dims.state_size),
        matrix(f"{at}.dt_proj", _LINEAR, rank, inner),
        matrix(f"{at}.out_proj", _LINEAR, inner, hidden),
        other(f"{at}.conv1d", small),
    )
    cache = (conv_state(inner * dims.kernel), state("recurrent_state", inner * dims.state_size, "fp32"))
    return recurrent_part(weights, cache, Divided("Mamba channels", inner))


class DeltaAttention(Struct, frozen=True):
    """The dimensions of Kimi delta attention: as many keys as values, a gate for every channel."""

    hidden_size: int
    num_heads: int
    head_dim: int
    kernel: int
    full_rank_gate: bool = False  # the output gate has one projection instead of two narrow ones (Kimi-K3)


def kimi_delta_attention(dims: DeltaAttention) -> Part:
    """Kimi delta attention (Kimi Linear technical report; transformers 5.24 KimiLinearDeltaAttention)."""
    at, hidden, inner = "self_attn", dims.hidden_size, dims.num_heads * dims.head_dim
    narrow = dims.head_dim
    weights = [matrix(f"{at}.{name}_proj", _LINEAR, hidden, inner) for name in ("q", "k", "v")]
    weights += [
        matrix(f"{at}.f_a_proj", _LINEAR, hidden, narrow, Split.REPLICATED),
        matrix(f"{at}.f_b_proj", _LINEAR, narrow, inner),
        matrix(f"{at}.b_proj", _LINEAR, hidden, dims.num_heads),
        matrix(f"{at}.o_proj", _LINEAR, inner, hidden),
    ]
    if dims.full_rank_gate:
        weights.append(matrix(f"{at}.g_proj", _LINEAR, hidden, inner))
    else:
        weights.append(matrix(f"{at}.g_a_proj", _LINEAR, hidden, narrow, Split.REPLICATED))
        weights.append(matrix(f"{at}.g_b_proj", _LINEAR, narrow, inner))
    small = 3 * inner * dims.kernel + inner + dims.num_heads + dims.head_dim
    weights.append(other(f"{at}.conv1d", small))
    recurrent = state("recurrent_state", inner * dims.head_dim, "fp32")
    cache = (conv_state(3 * inner * dims.kernel), recurrent)
    return recurrent_part(tuple(weights), cache, Divided("linear-attention heads", dims.num_heads))


def lightning_attention(hidden: int, num_heads: int, head_dim: int, *, module: str = "self_attn") -> Part:
    """Lightning attention (MiniMax-Text-01): joint query, key and value, an output gate, one matrix state a head."""
    inner = num_heads * head_dim
    weights = (
        matrix(f"{module}.qkv_proj", Role.LINEAR_ATTENTION, hidden, 3 * inner),
        matrix(f"{module}.output_gate", Role.LINEAR_ATTENTION, hidden, inner),
        matrix(f"{module}.out_proj", Role.LINEAR_ATTENTION, inner, hidden),
        other(f"{module}.norm", inner),
    )
    recurrent = state("recurrent_state", num_heads * head_dim * head_dim, "fp32")
    return recurrent_part(weights, (recurrent,), Divided("linear-attention heads", num_heads))


def short_convolution(hidden: int, kernel: int, *, bias: bool) -> Part:
    """LFM2's gated short convolution: a convolution's columns are all that it keeps."""
    small = hidden * kernel + (5 * hidden if bias else 0)
    weights = (
        matrix("conv.in_proj", _LINEAR, hidden, 3 * hidden),
        matrix("conv.out_proj", _LINEAR, hidden, hidden),
        other("conv.conv", small),
    )
    return recurrent_part(weights, (conv_state(hidden * kernel),), Divided("convolution channels", hidden))


def state_precision(fields: Fields, name: str) -> str:
    """The number format of the recurrent state; float32 where the configuration does not say."""
    given = fields.text(name, "float32").removeprefix("torch.")
    known = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8", "auto": "fp32"}
    if given not in known:
        raise fields.refuse(name, "This number format is not known.", "Give float32, bfloat16 or float16.")
    return known[given]
