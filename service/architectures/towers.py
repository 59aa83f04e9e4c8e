"""Sizes of vision towers: one function a kind of tower, its projector to the language model included.

Formulas follow the modelling code of transformers 5.24 unless said otherwise; each takes the vision section and the
hidden size of the text decoder.
"""

from msgspec import Struct

from service.architectures.fields import MAX_LAYERS, Fields


class Tower(Struct, frozen=True):
    """Parameters of a tower: in matrices (quantised with the rest, if at all) and besides."""

    matrices: int
    others: int
    width: int = 1024

    def __add__(self, other: "Tower") -> "Tower":
        return Tower(self.matrices + other.matrices, self.others + other.others, self.width)


def blocks(
    *, layers: int, hidden: int, width: int, gated: bool = False, bias: bool = True, norm_bias: bool = True,
    mlp_bias: bool | None = None, kv_size: int | None = None,
) -> Tower:  # fmt: skip
    """Transformer blocks: attention (four square matrices, or narrower keys and values), an MLP and two norms."""
    up = 2 if gated else 1
    keys = hidden if kv_size is None else kv_size
    matrices = 2 * hidden * (hidden + keys) + (up + 1) * hidden * width
    others = 2 * hidden * (2 if norm_bias else 1) + (2 * (hidden + keys) if bias else 0)
    if bias if mlp_bias is None else mlp_bias:
        others += up * width + hidden
    return Tower(layers * matrices, layers * others, hidden)


def linear(num_inputs: int, num_outputs: int, *, bias: bool = True) -> Tower:
    """One projection."""
    return Tower(num_inputs * num_outputs, num_outputs if bias else 0, num_inputs)


def table(size: int) -> Tower:
    """Norms, positions, class tokens, patch convolutions: never quantised."""
    return Tower(0, size)


def _size(vision: Fields, name: str, default: int) -> int:
    """A size, which some configurations give as a list of equal sides."""
    if isinstance(vision.given(name), list | tuple):
        sides = vision.counts(name, at_least=1)
        return sides[0] if sides else default
    return vision.count(name, default)


def _num_layers(vision: Fields, default: int, name: str = "num_hidden_layers") -> int:
    return vision.count(name, default, at_least=0, at_most=MAX_LAYERS)


def siglip(vision: Fields, text_hidden: int) -> Tower:
    """SigLIP with Gemma 3's projector (one matrix and a norm)."""
    hidden, patch = _size(vision, "hidden_size", 1152), _size(vision, "patch_size", 14)
    layers = _num_layers(vision, 27)
    positions = (_size(vision, "image_size", 896) // patch) ** 2
    tower = blocks(layers=layers, hidden=hidden, width=_size(vision, "intermediate_size", 4304))
    stem = table(3 * patch * patch * hidden + hidden + positions * hidden + 2 * hidden)
    return tower + stem + linear(hidden, text_hidden, bias=False) + table(hidden)


def moonvit(vision: Fields, text_hidden: int) -> Tower:
    """MoonViT of Kimi-VL and Kimi-K2.5 (their own code): learned positions, patches merged 2 x 2 before the projector."""
    at = "vt_" if vision.has("vt_hidden_size") else ""
    hidden, patch = _size(vision, f"{at}hidden_size", 1152), _size(vision, "patch_size", 14)
    layers = _num_layers(vision, 27, f"{at}num_hidden_layers")
    tower = blocks(layers=layers, hidden=hidden, width=_size(vision, f"{at}intermediate_size", 4304))
    positions = _size(vision, "init_pos_emb_height", 64) * _size(vision, "init_pos_emb_width", 64)
    stem = table(3 * patch * patch * hidden + hidden + positions * hidden + 2 * hidden)
    merge = vision.counts("merge_kernel_size", length=2, at_least=1, at_most=64) or [2, 2]
    merged = hidden * merge[0] * merge[1]
    return tower + stem + table(2 * hidden) + linear(merged, merged) + linear(merged, text_hidden)


def llama4_vision(vision: Fields, text_hidden: int) -> Tower:
    """Llama 4's ViT, pixel-shuffle adapter and projector."""
    hidden, patch = _size(vision, "hidden_size", 768), _size(vision, "patch_size", 14)
    width = _size(vision, "intermediate_size", 5632)
    layers = _num_layers(vision, 34)
    positions = (_size(vision, "image_size", 448) // patch) ** 2 + 1
    tower = blocks(layers=layers, hidden=hidden, width=width)
    stem = table(3 * patch * patch * hidden + hidden + positions * hidden + 4 * hidden)
    inner, outer = _size(vision, "projector_input_dim", 4096), _size(vision, "projector_output_dim", 4096)
    adapter = linear(width, inner, bias=False) + linear(inner, outer, bias=False)
    return tower + stem + adapter + linear(_size(vision, "vision_output_dim", 7680), text_hidden, bias=False)


def pixtral(vision: Fields, text_hidden: int, merge: int = 2) -> Tower:
    """Pixtral's ViT (gated MLP, no biases) and Mistral 3's patch merger and projector."""
    hidden, patch = _size(vision, "hidden_size", 1024), _size(vision, "patch_size", 16)
    layers = _num_layers(vision, 24)
    width = _size(vision, "intermediate_size", 4096)
    tower = blocks(layers=layers, hidden=hidden, width=width, gated=True, bias=False, norm_bias=False)
    stem = table(3 * patch * patch * hidden + hidden + hidden)
    merger = linear(hidden * merge * merge, hidden, bias=False)
    return tower + stem + merger + linear(hidden, text_hidden, bias=False) + linear(text_hidden, text_hidden, bias=False)


def _qwen_stem(vision: Fields, hidden: int) -> Tower:
    patch, frames = _size(vision, "patch_size", 14), _size(vision, "temporal_patch_size", 2)
    return table(3 * frames * patch * patch * hidden)


def _qwen_merger(vision: Fields, hidden: int, out: int, norm: int) -> Tower:
    merged = hidden * _size(vision, "spatial_merge_size", 2) ** 2
    return linear(merged, merged) + linear(merged, out) + table(norm)


def qwen2_vl(vision: Fields, text_hidden: int) -> Tower:
    """Qwen2-VL: hidden_size is the width of the language model, embed_dim the tower's own."""
    hidden = _size(vision, "embed_dim", 1280)
    width = int(hidden * vision.number("mlp_ratio", 4.0))
    tower = blocks(layers=_num_layers(vision, 32, "depth"), hidden=hidden, width=width)
    out = _size(vision, "hidden_size", text_hidden)
    return tower + _qwen_stem(vision, hidden) + _qwen_merger(vision, hidden, out, 2 * hidden)


def qwen2_5_vl(vision: Fields, text_hidden: int) -> Tower:
    """Qwen2.5-VL: gated MLPs with biases, RMS norms."""
    hidden, width = _size(vision, "hidden_size", 1280), _size(vision, "intermediate_size", 3420)
    layers = _num_layers(vision, 32, "depth")
    tower = blocks(layers=layers, hidden=hidden, width=width, gated=True, norm_bias=False)
    out = _size(vision, "out_hidden_size", text_hidden)
    return tower + _qwen_stem(vision, hidden) + _qwen_merger(vision, hidden, out, hidden)


def exaone4_5(vision: Fields, text_hidden: int) -> Tower:
    """EXAONE 4.5: Qwen2.5-VL's tower with grouped keys and values."""
    hidden, width = _size(vision, "hidden_size", 3584), _size(vision, "intermediate_size", 3420)
    heads, kv_heads = _size(vision, "num_heads", 16), _size(vision, "num_key_value_heads", 8)
    tower = blocks(
        layers=_num_layers(vision, 32, "depth"), hidden=hidden, width=width, gated=True, norm_bias=False,
        kv_size=hidden // heads * kv_heads,
    )  # fmt: skip
    out = _size(vision, "out_hidden_size", text_hidden)
    return tower + _qwen_stem(vision, hidden) + _qwen_merger(vision, hidden, out, hidden)


def qwen3_vl(vision: Fields, text_hidden: int) -> Tower:
    """Qwen3-VL and Qwen3.5: learned positions, a merger, and one more merger a deepstack layer."""
    hidden, width = _size(vision, "hidden_size", 1152), _size(vision, "intermediate_size", 4304)
    patch, frames = _size(vision, "patch_size", 16), _size(vision, "temporal_patch_size", 2)
    tower = blocks(layers=_num_layers(vision, 27, "depth"), hidden=hidden, width=width)
    stem = table(3 * frames * patch * patch * hidden + hidden + _size(vision, "num_position_embeddings", 2304) * hidden)
    out, merge = _size(vision, "out_hidden_size", text_hidden), _size(vision, "spatial_merge_size", 2) ** 2
    tower = tower + stem + _qwen_merger(vision, hidden, out, 2 * hidden)
    for _ in vision.items("deepstack_visual_indexes") or ():
        tower = tower + _qwen_merger(vision, hidden, out, 2 * hidden * merge)
    return tower


def phi3_vision(vision: Fields, text_hidden: int) -> Tower:
    """Phi-3-Vision: CLIP ViT-L/14 at 336 pixels, whose sizes no key gives, and a projector of four patches."""
    del vision
    clip = blocks(layers=24, hidden=1024, width=4096)
    stem = table(1024 + 3 * 14 * 14 * 1024 + (24 * 24 + 1) * 1024 + 4 * 1024)
    return clip + stem + linear(4096, text_hidden) + linear(text_hidden, text_hidden) + table(2 * 4096)


def lfm2_vl(vision: Fields, text_hidden: int) -> Tower:
    """LFM2-VL: SigLIP 2 with linear patches; the projector's width stands outside vision_config (class default 2560)."""
    hidden, patch = _size(vision, "hidden_size", 768), _size(vision, "patch_size", 16)
    layers = _num_layers(vision, 12)
    tower = blocks(layers=layers, hidden=hidden, width=_size(vision, "intermediate_size", 3072))
    stem = table(3 * patch * patch * hidden + hidden + _size(vision, "num_patches", 256) * hidden + 2 * hidden)
    inner = _size(vision, "projector_hidden_size", 2560)
    merged = hidden * _size(vision, "downsample_factor", 2) ** 2
    normed = table(2 * merged) if vision.flag("projector_use_layernorm", True) else table(0)
    return tower + stem + normed + linear(merged, inner) + linear(inner, text_hidden)


def mllama_vision(vision: Fields, text_hidden: int) -> Tower:
    """Llama 3.2 Vision: local and gated global layers, position tables by tile and aspect ratio."""
    hidden, patch = _size(vision, "hidden_size", 1280), _size(vision, "patch_size", 14)
    width = _size(vision, "intermediate_size", 5120)
    layers = _num_layers(vision, 32)
    gated = _num_layers(vision, 8, "num_global_layers")
    tower = blocks(layers=layers + gated, hidden=hidden, width=width, bias=False, mlp_bias=True)
    tiles = _size(vision, "max_num_tiles", 4)
    ratios = len(vision.items("supported_aspect_ratios") or [None] * 8) + 1
    patches = (_size(vision, "image_size", 448) // patch) ** 2 + 1
    by_tile = ratios * tiles * hidden
    stem = table(3 * patch * patch * hidden + hidden + patches * hidden + by_tile * (patches + 2) + 4 * hidden)
    return tower + stem + linear(_size(vision, "vision_output_dim", 7680), text_hidden) + table(2 * gated + 3)


def gemma4_vision(vision: Fields, text_hidden: int) -> Tower:
    """Gemma 4's ViT: gated MLPs, four norms and two head norms a layer, a table of positions by row and by column."""
    hidden, width = _size(vision, "hidden_size", 768), _size(vision, "intermediate_size", 3072)
    layers, head = _num_layers(vision, 16), _size(vision, "head_dim", 64)
    tower = blocks(layers=layers, hidden=hidden, width=width, gated=True, bias=False, norm_bias=False)
    norms = layers * (2 * hidden + 2 * head)
    positions = 2 * _size(vision, "position_embedding_size", 10_240) * hidden
    patch = linear(3 * _size(vision, "patch_size", 16) ** 2, hidden, bias=False)
    return tower + table(norms + positions) + patch + linear(hidden, text_hidden, bias=False)


def clip(vision: Fields, text_hidden: int) -> Tower:
    """CLIP's ViT behind LLaVA's projector of two matrices."""
    return _clip_tower(vision) + linear(_size(vision, "hidden_size", 1024), text_hidden) + linear(text_hidden, text_hidden)


def _clip_tower(vision: Fields) -> Tower:
    hidden, patch = _size(vision, "hidden_size", 1024), _size(vision, "patch_size", 14)
    tower = blocks(layers=_num_layers(vision, 24), hidden=hidden, width=_size(vision, "intermediate_size", 4096))
    positions = (_size(vision, "image_size", 336) // patch) ** 2 + 1
    return tower + table(hidden + 3 * patch * patch * hidden + positions * hidden + 4 * hidden)


def siglip_tower(vision: Fields) -> Tower:
    """SigLIP alone, without a pooling head."""
    hidden, patch = _size(vision, "hidden_size", 1152), _size(vision, "patch_size", 14)
    tower = blocks(layers=_num_layers(vision, 27), hidden=hidden, width=_size(vision, "intermediate_size", 4304))
    positions = (_size(vision, "image_size", 384) // patch) ** 2
    return tower + table(3 * patch * patch * hidden + hidden + positions * hidden + 2 * hidden)


def siglip_llava(vision: Fields, text_hidden: int) -> Tower:
    """SigLIP behind LLaVA's projector of two matrices."""
    hidden = _size(vision, "hidden_size", 1152)
    return siglip_tower(vision) + linear(hidden, text_hidden) + linear(text_hidden, text_hidden)


def paligemma(vision: Fields, text_hidden: int) -> Tower:
    """SigLIP and one matrix."""
    return siglip_tower(vision) + linear(_size(vision, "hidden_size", 1152), text_hidden)


def idefics3(vision: Fields, text_hidden: int) -> Tower:
    """SigLIP and one matrix over patches merged scale_factor x scale_factor."""
    merged = _size(vision, "hidden_size", 1152) * _size(vision, "scale_factor", 2) ** 2
    return siglip_tower(vision) + linear(merged, text_hidden, bias=False)


def cohere2_vision(vision: Fields, text_hidden: int) -> Tower:
    """SigLIP and a gated projector over merged patches (transformers 5.24 Cohere2Vision)."""
    merged = _size(vision, "hidden_size", 1152) * _size(vision, "downsample_factor", 2) ** 2
    inner = _size(vision, "alignment_intermediate_size", 36_864)
    return siglip_tower(vision) + linear(merged, inner) + linear(inner // 2, text_hidden)


def pixtral_llava(vision: Fields, text_hidden: int) -> Tower:
    """Pixtral's ViT behind LLaVA's projector of two matrices."""
    hidden, patch = _size(vision, "hidden_size", 1024), _size(vision, "patch_size", 16)
    width = _size(vision, "intermediate_size", 4096)
    tower = blocks(
        layers=_num_layers(vision, 24), hidden=hidden, width=width, gated=True, bias=False, norm_bias=False
    )  # fmt: skip
    stem = table(3 * patch * patch * hidden + hidden)
    return tower + stem + linear(hidden, text_hidden) + linear(text_hidden, text_hidden)


def internvl(vision: Fields, text_hidden: int) -> Tower:
    """InternViT with layer scales, patches merged 2 x 2, a norm and two matrices (InternVL 1.5 to 3.5)."""
    hidden, patch = _size(vision, "hidden_size", 1024), _size(vision, "patch_size", 14)
    layers = _num_layers(vision, 24)
    bias = vision.flag("attention_bias") or vision.flag("qkv_bias")
    rms = vision.text("norm_type", "layer_norm") == "rms_norm"
    width = _size(vision, "intermediate_size", 4096)
    tower = blocks(layers=layers, hidden=hidden, width=width, bias=bias, mlp_bias=True, norm_bias=not rms)
    normed = vision.flag("use_qk_norm") or vision.flag("qk_normalization")
    per_layer = 2 * hidden + (2 * hidden if normed else 0) + (0 if bias else hidden)
    positions = (_size(vision, "image_size", 448) // patch) ** 2 + 1
    stem = table(hidden + 3 * patch * patch * hidden + hidden + positions * hidden + layers * per_layer)
    merged = 4 * hidden
    return tower + stem + table(2 * merged) + linear(merged, text_hidden) + linear(text_hidden, text_hidden)


def glm4v(vision: Fields, text_hidden: int) -> Tower:
    """GLM-4.1V: gated MLPs as wide as the output, a convolution that merges patches, a gated merger."""
    hidden, patch = _size(vision, "hidden_size", 1536), _size(vision, "patch_size", 14)
    out, inner = _size(vision, "out_hidden_size", text_hidden), _size(vision, "intermediate_size", 13_696)
    tower = blocks(
        layers=_num_layers(vision, 24, "depth"), hidden=hidden, width=out, gated=True,
        bias=vision.flag("attention_bias"), norm_bias=False, mlp_bias=False,
    )  # fmt: skip
    positions = (_size(vision, "image_size", 336) // patch) ** 2
    frames, merge = _size(vision, "temporal_patch_size", 2), _size(vision, "spatial_merge_size", 2)
    stem = table(3 * frames * patch * patch * hidden + hidden + positions * hidden + 2 * hidden)
    merger = linear(out, out, bias=False) + table(2 * out) + Tower(3 * out * inner, 0)
    return tower + stem + table(hidden * out * merge * merge + out) + merger


def minimax_m3_vision(vision: Fields, text_hidden: int) -> Tower:
    """MiniMax-M3: a CLIP-like ViT, a projector of every patch and one of merged patches."""
    hidden, patch = _size(vision, "hidden_size", 1280), _size(vision, "patch_size", 14)
    tower = blocks(layers=_num_layers(vision, 32), hidden=hidden, width=_size(vision, "intermediate_size", 5120))
    stem = table(3 * _size(vision, "temporal_patch_size", 2) * patch * patch * hidden + 2 * hidden)
    inner = _size(vision, "projector_hidden_size", 6144)
    merged = text_hidden * _size(vision, "spatial_merge_size", 2) ** 2
    each = linear(hidden, inner) + linear(inner, text_hidden)
    return tower + stem + each + linear(merged, inner) + linear(inner, text_hidden)


def gemma4_audio(audio: Fields, text_hidden: int) -> Tower:
    """Gemma 4's conformer: two half feed-forward blocks, attention with relative keys and a light convolution a layer."""
    hidden, heads = _size(audio, "hidden_size", 1024), _size(audio, "num_attention_heads", 8)
    layers, out = _num_layers(audio, 12), _size(audio, "output_proj_dims", 1536)
    others = hidden * (9 + _size(audio, "conv_kernel_size", 5)) + hidden // heads
    channels = audio.counts("subsampling_conv_channels", length=2, at_least=4) or [128, 32]
    convolutions = 9 * channels[0] * (1 + channels[1]) + sum(channels)
    tower = Tower(layers * 24 * hidden * hidden, layers * others, hidden) + table(convolutions)
    joined = linear(channels[0] // 4 * channels[1], hidden, bias=False)
    return tower + joined + linear(hidden, out) + linear(out, text_hidden, bias=False)
