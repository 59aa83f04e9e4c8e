"""Families beyond the published set: dimensions from model cards, totals as their publishers give them."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.architectures import FeedForward, Mixer, Role, read
from tests.architectures.published import cache_bytes, matmul_flops

MODELS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "further_models.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_total_parameters_as_published(name: str) -> None:
    model = read(MODELS[name]["config"])
    assert MODELS[name]["published_billions"] == pytest.approx(model.num_parameters / 1e9, rel=0.003)
    assert "generic" != model.reader


@pytest.mark.parametrize(
    ("name", "per_token", "per_windowed_token", "state_mib"),
    [
        ("GLM-4.5", 376_832, 0, 0),
        ("GLM-4.5-Air", 188_416, 0, 0),
        ("Command-A", 65_536, 48 * 4096, 0),
        ("falcon-7b", 8_192, 0, 0),
        ("falcon-40b", 122_880, 0, 0),
        ("starcoder", 20_480, 0, 0),
        ("dbrx", 163_840, 0, 0),
        ("Seed-OSS", 262_144, 0, 0),
        ("DS-V2-Lite", 31_104, 0, 0),
        ("LongCat", 64_512, 0, 0),
        ("MiMo-V2-Flash", 23_040, 39 * 5120, 0),
        ("MiniMax-M3", 122_880 + 14_592, 0, 0),
        ("Jamba-large", 36_864, 0, 70.9),
        ("Falcon-H1-7B", 45_056, 0, 133.2),
        ("granite-4.0-h-small", 16_384, 0, 146.3),
        ("Kimi-K3", 27_648, 0, 433.4),
    ],
)
def test_what_a_sequence_holds(name: str, per_token: int, per_windowed_token: int, state_mib: float) -> None:
    model = read(MODELS[name]["config"])
    first, second = cache_bytes(model, 1), cache_bytes(model, 2)
    assert per_token + per_windowed_token == second - first
    assert state_mib == pytest.approx((2 * first - second) / 2**20, abs=0.05)
    # Far beyond every window only the full layers grow.
    assert per_token == cache_bytes(model, 200_001) - cache_bytes(model, 200_000)


def test_shared_blocks_are_stored_once_and_run_often() -> None:
    config = {
        "model_type": "zamba",
        "hidden_size": 3712,
        "num_hidden_layers": 76,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "intermediate_size": 14848,
        "n_mamba_heads": 2,
        "vocab_size": 32000,
        "attn_layer_period": 6,
        "attn_layer_offset": 4,
    }
    model = read(config)
    hybrid = [model.layer_kinds[index] for index in model.layer_order if model.layer_kinds[index].mixer is Mixer.FULL]
    assert 13 == len(hybrid)
    assert all(len(kind.cache) == 3 for kind in hybrid)
    assert 1.6 == pytest.approx(matmul_flops(model) / 2 / model.num_parameters, abs=0.01)


def test_zero_experts_take_no_memory() -> None:
    model = read(MODELS["LongCat"]["config"])
    assert model.experts is not None
    assert (512, 8) == (model.experts.num_experts, model.experts.num_experts_per_token)
    assert 56 == model.num_layers
    assert any("256 of the 768 experts" in note for note in model.notes)


def test_vision_experts_are_no_text_tokens() -> None:
    text = {**MODELS["ERNIE-21B"]["config"]}
    both = {**text, "moe_num_experts": [64, 64], "moe_intermediate_size": [1536, 512]}
    assert read(text).num_active_parameters == read(both).num_active_parameters
    vision = 27 * 64 * 3 * 2560 * 512
    assert vision == sum(tensor.num_parameters * n for tensor, n in read(both).tensors() if tensor.role is Role.VISION)


def test_pruned_nemotron_layer_by_layer() -> None:
    """ffn_mult 2.625 of 8192: 2/3 of it is 14,336, a multiple of 256; n_heads_in_group is the size of a group."""
    whole = {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 2.625, "no_op": False}}
    without = {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 2.625, "no_op": False}}
    linear = {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}}
    config = {
        "model_type": "nemotron-nas",
        "architectures": ["DeciLMForCausalLM"],
        "hidden_size": 8192,
        "num_hidden_layers": 3,
        "num_attention_heads": 64,
        "num_key_value_heads": None,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
        "block_configs": [whole, without, linear],
    }
    model = read(config)
    attention, mlp = 2 * 8192 * 8192 + 2 * 8192 * 1024, 3 * 8192 * 14336
    layers = attention + 2 * mlp + 8192 * 8192 + 4 * 8192
    assert 2 * 128256 * 8192 + layers + 8192 == model.num_parameters
    assert 4096 == cache_bytes(model, 1)
    assert [FeedForward.DENSE, FeedForward.DENSE, FeedForward.NONE] == [
        model.layer_kinds[index].feed_forward for index in model.layer_order
    ]


def test_cross_layer_attention_halves_the_cache() -> None:
    shared = MODELS["Hunyuan-Large"]["config"]
    assert cache_bytes(read({**shared, "use_cla": False}), 1) == 2 * cache_bytes(read(shared), 1)
