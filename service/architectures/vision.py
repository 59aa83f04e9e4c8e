"""Vision towers, as far as their size goes: they take memory beside the decoder and no part in decoding a token.

One function a kind of tower gives its matrices and its other parameters; ``tower_weights`` reads the tower that belongs
to a model_type. Formulas follow the modelling code of transformers 5.24 unless said otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from service.architectures.architecture import Role, Split
from service.architectures.fields import MAX_LAYERS, Fields
from service.architectures.weights import Weight


@dataclass(frozen=True, slots=True)
class Tower:
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
    return vision.count(name, default)


def _image_side(vision: Fields, default: int) -> int:
    given = vision.given("image_size")
    if isinstance(given, list | tuple):
        sides = vision.counts("image_size", length=2, at_least=1)
        return sides[0] if sides else default
    return vision.count("image_size", default)


def siglip(vision: Fields, text_hidden: int) -> Tower:
    """SigLIP with Gemma 3's projector (one matrix and a norm)."""
    hidden, patch = _size(vision, "hidden_size", 1152), _size(vision, "patch_size", 14)
    layers = vision.count("num_hidden_layers", 27, at_most=MAX_LAYERS)
    positions = (_image_side(vision, 896) // patch) ** 2
    tower = blocks(layers=layers, hidden=hidden, width=_size(vision, "intermediate_size", 4304))
    stem = table(3 * patch * patch * hidden + hidden + positions * hidden + 2 * hidden)
    return tower + stem + linear(hidden, text_hidden, bias=False) + table(hidden)


def moonvit(vision: Fields, text_hidden: int) -> Tower:
    """MoonViT of Kimi-K2.5 (its own modelling code): learned positions, patches merged 2 x 2 before the projector."""
    hidden, patch = _size(vision, "vt_hidden_size", 1152), _size(vision, "patch_size", 14)
    layers = vision.count("vt_num_hidden_layers", 27, at_most=MAX_LAYERS)
    tower = blocks(layers=layers, hidden=hidden, width=_size(vision, "vt_intermediate_size", 4304))
    positions = _size(vision, "init_pos_emb_height", 64) * _size(vision, "init_pos_emb_width", 64)
    stem = table(3 * patch * patch * hidden + hidden + positions * hidden + 2 * hidden)
    merge = vision.counts("merge_kernel_size", length=2, at_least=1, at_most=64) or [2, 2]
    merged = hidden * merge[0] * merge[1]
    return tower + stem + table(2 * hidden) + linear(merged, merged) + linear(merged, text_hidden)


def llama4_vision(vision: Fields, text_hidden: int) -> Tower:
    """Llama 4's ViT, pixel-shuffle adapter and projector."""
    hidden, patch = _size(vision, "hidden_size", 768), _size(vision, "patch_size", 14)
    width = _size(vision, "intermediate_size", 5632)
    layers = vision.count("num_hidden_layers", 34, at_most=MAX_LAYERS)
    positions = (_image_side(vision, 448) // patch) ** 2 + 1
    tower = blocks(layers=layers, hidden=hidden, width=width)
    stem = table(3 * patch * patch * hidden + hidden + positions * hidden + 4 * hidden)
    inner, outer = _size(vision, "projector_input_dim", 4096), _size(vision, "projector_output_dim", 4096)
    adapter = linear(width, inner, bias=False) + linear(inner, outer, bias=False)
    return tower + stem + adapter + linear(_size(vision, "vision_output_dim", 7680), text_hidden, bias=False)


def pixtral(vision: Fields, text_hidden: int, merge: int = 2) -> Tower:
    """Pixtral's ViT (gated MLP, no biases) and Mistral 3's patch merger and projector."""
    hidden, patch = _size(vision, "hidden_size", 1024), _size(vision, "patch_size", 16)
    layers = vision.count("num_hidden_layers", 24, at_most=MAX_LAYERS)
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
    tower = blocks(layers=vision.count("depth", 32, at_most=MAX_LAYERS), hidden=hidden, width=width)
    out = _size(vision, "hidden_size", text_hidden)
    return tower + _qwen_stem(vision, hidden) + _qwen_merger(vision, hidden, out, 2 * hidden)


def qwen2_5_vl(vision: Fields, text_hidden: int) -> Tower:
    """Qwen2.5-VL: gated MLPs with biases, RMS norms."""
    hidden, width = _size(vision, "hidden_size", 1280), _size(vision, "intermediate_size", 3420)
    layers = vision.count("depth", 32, at_most=MAX_LAYERS)
    tower = blocks(layers=layers, hidden=hidden, width=width, gated=True, norm_bias=False)
    out = _size(vision, "out_hidden_size", text_hidden)
    return tower + _qwen_stem(vision, hidden) + _qwen_merger(vision, hidden, out, hidden)


def exaone4_5(vision: Fields, text_hidden: int) -> Tower:
    """EXAONE 4.5: Qwen2.5-VL's tower with grouped keys and values."""
    hidden, width = _size(vision, "hidden_size", 3584), _size(vision, "intermediate_size", 3420)
    heads, kv_heads = _size(vision, "num_heads", 16), _size(vision, "num_key_value_heads", 8)
    tower = blocks(
        layers=vision.count("depth", 32, at_most=MAX_LAYERS), hidden=hidden, width=width, gated=True, norm_bias=False,
        kv_size=hidden // heads * kv_heads,
    )  # fmt: skip
    out = _size(vision, "out_hidden_size", text_hidden)
    return tower + _qwen_stem(vision, hidden) + _qwen_merger(vision, hidden, out, hidden)


def qwen3_vl(vision: Fields, text_hidden: int) -> Tower:
    """Qwen3-VL and Qwen3.5: learned positions, a merger, and one more merger a deepstack layer."""
    hidden, width = _size(vision, "hidden_size", 1152), _size(vision, "intermediate_size", 4304)
    patch, frames = _size(vision, "patch_size", 16), _size(vision, "temporal_patch_size", 2)
    tower = blocks(layers=vision.count("depth", 27, at_most=MAX_LAYERS), hidden=hidden, width=width)
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
    layers = vision.count("num_hidden_layers", 12, at_most=MAX_LAYERS)
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
    layers = vision.count("num_hidden_layers", 32, at_most=MAX_LAYERS)
    gated = vision.count("num_global_layers", 8, at_most=MAX_LAYERS)
    tower = blocks(layers=layers + gated, hidden=hidden, width=width, bias=False, mlp_bias=True)
    tiles = _size(vision, "max_num_tiles", 4)
    ratios = len(vision.items("supported_aspect_ratios") or [None] * 8) + 1
    patches = (_image_side(vision, 448) // patch) ** 2 + 1
    by_tile = ratios * tiles * hidden
    stem = table(3 * patch * patch * hidden + hidden + patches * hidden + by_tile * (patches + 2) + 4 * hidden)
    return tower + stem + linear(_size(vision, "vision_output_dim", 7680), text_hidden) + table(2 * gated + 3)


def gemma4_vision(vision: Fields, text_hidden: int) -> Tower:
    """Gemma 4's ViT: gated MLPs, four norms and two head norms a layer, a table of positions by row and by column."""
    hidden, width = _size(vision, "hidden_size", 768), _size(vision, "intermediate_size", 3072)
    layers, head = vision.count("num_hidden_layers", 16, at_most=MAX_LAYERS), _size(vision, "head_dim", 64)
    tower = blocks(layers=layers, hidden=hidden, width=width, gated=True, bias=False, norm_bias=False)
    norms = layers * (2 * hidden + 2 * head)
    positions = 2 * _size(vision, "position_embedding_size", 10_240) * hidden
    patch = linear(3 * _size(vision, "patch_size", 16) ** 2, hidden, bias=False)
    return tower + table(norms + positions) + patch + linear(hidden, text_hidden, bias=False)


#: model_type of the whole configuration → its tower.
TOWERS: Final[Mapping[str, Callable[[Fields, int], Tower]]] = {
    "gemma3": siglip,
    "mistral3": pixtral,
    "ministral3": pixtral,
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl,
    "qwen3_5": qwen3_vl,
    "qwen3_5_moe": qwen3_vl,
    "exaone4_5": exaone4_5,
    "phi3_v": phi3_vision,
    "lfm2_vl": lfm2_vl,
    "mllama": mllama_vision,
    "gemma4": gemma4_vision,
    "kimi_k25": moonvit,
    "llama4": llama4_vision,
}  # fmt: skip


#: Families whose tower is described outside vision_config.
_WITHOUT_SECTION: Final = frozenset({"phi3_v"})
_PROJECTOR_KEYS: Final = ("projector_hidden_size", "downsample_factor", "projector_use_layernorm")


def _with_projector_keys(top: Fields, section: Fields) -> Fields:
    """The vision section with the projector's keys that stand beside it."""
    beside = {key: top.values[key] for key in _PROJECTOR_KEYS if key in top.values}
    return Fields({**section.values, **beside}, path=section.path) if beside else section


def tower_weights(top: Fields, text_hidden: int) -> tuple[tuple[Weight, ...], tuple[str, ...]]:
    """The vision tower of a configuration as two weights, and what there is to say about it."""
    family = top.text("model_type", "")
    build = TOWERS.get(family)
    section = top.section("vision_config")
    if build is None:
        if section is None:
            return (), ()
        return (), (f"The vision tower of {family} is not counted: its layout is not known here.",)
    notes: tuple[str, ...] = ()
    if section is None and top.section("text_config") is None and family not in _WITHOUT_SECTION:
        return (), ()  # a text-only model of a family that also has multimodal ones
    if section is None:
        section = Fields({}, path="vision_config.")
        notes = ("The configuration has no vision_config: the vision tower is the class default's.",)
    tower = build(_with_projector_keys(top, section), text_hidden)
    width = tower.width
    weights = (
        Weight("vision_tower", Role.VISION, Split.EVEN, width, -(-tower.matrices // width), linear=False),
        Weight(
            "vision_tower.others", Role.VISION, Split.REPLICATED, tower.others, 1, linear=False, quantizable=False
        ),
    )
    return weights, notes
