"""Which vision and audio towers belong to a configuration, and what they add to the weights (all under one role).

Towers take memory beside the decoder and no part in decoding a token.
"""

from collections.abc import Callable, Mapping
from typing import Final

from service.architectures import towers
from service.architectures.architecture import Role, Split
from service.architectures.fields import Fields
from service.architectures.towers import Tower
from service.architectures.weights import Weight

#: model_type of the whole configuration → its tower.
TOWERS: Final[Mapping[str, Callable[[Fields, int], Tower]]] = {
    "cohere2_vision": towers.cohere2_vision,
    "exaone4_5": towers.exaone4_5,
    "gemma3": towers.siglip,
    "gemma4": towers.gemma4_vision,
    "glm4v": towers.glm4v,
    "glm4v_moe": towers.glm4v,
    "idefics3": towers.idefics3,
    "internvl": towers.internvl,
    "internvl_chat": towers.internvl,
    "kimi_k25": towers.moonvit,
    "kimi_k3": towers.moonvit,
    "kimi_vl": towers.moonvit,
    "lfm2_vl": towers.lfm2_vl,
    "llama4": towers.llama4_vision,
    "minimax_m3_vl": towers.minimax_m3_vision,
    "ministral3": towers.pixtral,
    "mistral3": towers.pixtral,
    "mllama": towers.mllama_vision,
    "paligemma": towers.paligemma,
    "phi3_v": towers.phi3_vision,
    "qwen2_5_vl": towers.qwen2_5_vl,
    "qwen2_vl": towers.qwen2_vl,
    "qwen3_5": towers.qwen3_vl,
    "qwen3_5_moe": towers.qwen3_vl,
    "qwen3_vl": towers.qwen3_vl,
    "qwen3_vl_moe": towers.qwen3_vl,
    "smolvlm": towers.idefics3,
}

#: model_type of the vision section → its tower, where the whole's is a shell for any (LLaVA and its kin).
_BY_SECTION: Final[Mapping[str, Callable[[Fields, int], Tower]]] = {
    "clip_vision_model": towers.clip,
    "pixtral": towers.pixtral_llava,
    "siglip_vision_model": towers.siglip_llava,
}

#: Families whose tower is described outside vision_config, and the keys of projectors that stand there.
_WITHOUT_SECTION: Final = frozenset({"phi3_v"})
_PROJECTOR_KEYS: Final = (
    "projector_hidden_size", "downsample_factor", "projector_use_layernorm", "alignment_intermediate_size",
    "scale_factor",
)  # fmt: skip


#: model_type of the whole configuration → its audio tower.
_AUDIO: Final[Mapping[str, Callable[[Fields, int], Tower]]] = {"gemma4": towers.gemma4_audio}


def tower_weights(top: Fields, text_hidden: int) -> tuple[tuple[Weight, ...], tuple[str, ...]]:
    """The vision and audio towers of a configuration as weights, and what there is to say about them."""
    family = top.text("model_type", "")
    seen, seen_notes = _vision_weights(top, family, text_hidden)
    heard, heard_notes = _audio_weights(top, family, text_hidden)
    return seen + heard, seen_notes + heard_notes


def _vision_weights(top: Fields, family: str, text_hidden: int) -> tuple[tuple[Weight, ...], tuple[str, ...]]:
    section = top.section("vision_config")
    kind = section.text("model_type", "") if section is not None else ""
    build = TOWERS.get(family) or _BY_SECTION.get(kind)
    if build is None:
        return (), _uncounted("vision", family) if section is not None else ()
    notes: tuple[str, ...] = ()
    if section is None and top.section("text_config") is None and family not in _WITHOUT_SECTION:
        return (), ()  # a text-only model of a family that also has multimodal ones
    if section is None:
        section = Fields({}, path="vision_config.")
        notes = ("The configuration has no vision_config: the vision tower is the class default's.",)
    return _weights("vision_tower", build(_with_projector_keys(top, section), text_hidden)), notes


def _audio_weights(top: Fields, family: str, text_hidden: int) -> tuple[tuple[Weight, ...], tuple[str, ...]]:
    section = top.section("audio_config")
    if section is None:
        return (), ()
    build = _AUDIO.get(family)
    if build is None:
        return (), _uncounted("audio", family)
    return _weights("audio_tower", build(section, text_hidden)), ()


def _uncounted(kind: str, family: str) -> tuple[str, ...]:
    named = family[:60] or "this model"
    return (f"The {kind} tower of {named} is not counted: its layout is not known here.",)


def _with_projector_keys(top: Fields, section: Fields) -> Fields:
    """The vision section with the projector's keys that stand beside it."""
    return section.with_values({key: top.values[key] for key in _PROJECTOR_KEYS if key in top.values})


def _weights(name: str, tower: Tower) -> tuple[Weight, ...]:
    rows = -(-tower.matrices // tower.width)
    return (
        Weight(name, Role.VISION, Split.EVEN, tower.width, rows, linear=False),
        Weight(f"{name}.others", Role.VISION, Split.REPLICATED, tower.others, 1, linear=False, quantizable=False),
    )
