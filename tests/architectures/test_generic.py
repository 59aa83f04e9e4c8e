"""Families that no reader knows: read from their keys when those are complete, refused with what is missing otherwise."""

from typing import Any

import pytest

from service.architectures import Mixer, UnreadableConfig, read
from tests.architectures.published import architecture, cache_bytes, configurations


def unknown(model: str, **changes: Any) -> dict[str, Any]:
    return {**configurations()[model], "model_type": "brand_new", "architectures": ["BrandNewForCausalLM"], **changes}


@pytest.mark.parametrize(
    "model",
    [
        "meta-llama/Llama-3.1-8B-Instruct",
        "Qwen/Qwen3-32B",
        "Qwen/Qwen3-30B-A3B",
        "deepseek-ai/DeepSeek-V3",
        "zai-org/GLM-5.2",
        "google/gemma-2-27b-it",
        "Qwen/Qwen2.5-72B-Instruct",
    ],
)
def test_a_decoder_of_the_usual_kind_is_read_from_its_keys(model: str) -> None:
    tied = configurations()[model].get("tie_word_embeddings", architecture(model).embeddings_tied)
    generic, known = read(unknown(model, tie_word_embeddings=tied)), architecture(model)
    assert ("generic", "brand_new") == (generic.reader, generic.family)
    assert "read generically" in generic.notes[0]
    assert known.num_parameters == pytest.approx(generic.num_parameters, rel=0.001)
    assert known.num_bytes == pytest.approx(generic.num_bytes, rel=0.002)
    if model != "google/gemma-2-27b-it":  # nothing in its keys says that every other layer is windowed
        assert cache_bytes(known, 100_000) == cache_bytes(generic, 100_000)


def test_layer_types_are_followed() -> None:
    types = ["sliding_attention", "full_attention"] * 16
    model = read(unknown("meta-llama/Llama-3.1-8B-Instruct", layer_types=types, sliding_window=512))
    assert [Mixer.SLIDING, Mixer.FULL] * 16 == [model.layer_kinds[index].mixer for index in model.layer_order]


def test_an_absent_tie_is_said() -> None:
    config = unknown("meta-llama/Llama-3.1-8B-Instruct")
    config.pop("tie_word_embeddings", None)
    assert any("tie_word_embeddings" in note for note in read(config).notes)


@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"])
def test_what_is_missing_is_named(key: str) -> None:
    with pytest.raises(UnreadableConfig) as refusal:
        read(unknown("meta-llama/Llama-3.1-8B-Instruct", **{key: None}))
    assert "model_type" == refusal.value.field
    assert key in refusal.value.reason
    assert key in refusal.value.remedy


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "ssm_state_size"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "linear_num_value_heads"),
        ("LiquidAI/LFM2-1.2B", "conv_L_cache"),
        ("MiniMaxAI/MiniMax-M1-80k", "attn_type_list"),
        ("deepseek-ai/DeepSeek-V4-Flash", "compress_ratios"),
    ],
)
def test_structures_that_a_plain_decoder_lacks_are_refused(model: str, key: str) -> None:
    with pytest.raises(UnreadableConfig) as refusal:
        read(unknown(model))
    assert key == refusal.value.field


def test_unknown_layer_types_are_refused() -> None:
    with pytest.raises(UnreadableConfig, match="'hyena'") as refusal:
        read(unknown("meta-llama/Llama-3.1-8B-Instruct", layer_types=["hyena"] * 32))
    assert "layer_types" == refusal.value.field


def test_no_model_type_at_all() -> None:
    config = {
        key: value for key, value in configurations()["Qwen/Qwen3-8B"].items() if key not in ("model_type", "architectures")
    }
    assert "generic" == read(config).reader
    with pytest.raises(UnreadableConfig):
        read({})


def test_mamba_checkpoints_without_model_type() -> None:
    config = {"d_model": 2560, "n_layer": 64, "vocab_size": 50280, "ssm_cfg": {}, "rms_norm": True}
    assert ("mamba", 2_768_345_600) == (read(config).reader, read(config).num_parameters)


@pytest.mark.parametrize("foreign", [{"is_encoder_decoder": True}, {"type_vocab_size": 2}])
def test_encoders_are_refused(foreign: dict[str, Any]) -> None:
    with pytest.raises(UnreadableConfig) as refusal:
        read(unknown("meta-llama/Llama-3.1-8B-Instruct", **foreign))
    assert [refusal.value.field] == list(foreign)
