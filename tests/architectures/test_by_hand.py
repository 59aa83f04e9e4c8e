"""Figures worked out by hand, and the semantics that memory per device depends on."""

from typing import Any

import pytest

from service.architectures import CacheEntry, FeedForward, LayerKind, Mixer, Role, Split, Tensor, UnreadableConfig, read
from tests.architectures.published import architecture, cache_bytes, configurations, matmul_flops


def tensors(kind: LayerKind) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in kind.tensors}


def only_kind(model: str) -> LayerKind:
    (kind,) = architecture(model).layer_kinds
    return kind


def test_llama_70b() -> None:
    model = architecture("meta-llama/Meta-Llama-3.1-70B")
    attention = 2 * 8192 * 8192 + 2 * 8192 * 1024
    mlp = 3 * 8192 * 28672
    assert 70_553_706_496 == 2 * 128256 * 8192 + 80 * (attention + mlp + 2 * 8192) + 8192 == model.num_parameters
    assert 2 * 70_553_706_496 == model.num_bytes
    assert 2 * (70_553_706_496 - 128256 * 8192 - 161 * 8192) == matmul_flops(model)
    assert ("llama", "llama", 80, "bf16", None, 131072) == (
        model.family,
        model.reader,
        model.num_layers,
        model.checkpoint_precision,
        model.kv_cache_precision,
        model.context_limit_tokens,
    )
    assert () == model.notes
    kind = only_kind("meta-llama/Meta-Llama-3.1-70B")
    assert (CacheEntry("kv", 2 * 8 * 128, Split.KV_HEADS),) == kind.cache
    assert 327_680 == cache_bytes(model, 1)
    assert kind.attention is not None
    assert (64, 8, 128, 128) == (
        kind.attention.num_query_heads,
        kind.attention.num_kv_heads,
        kind.attention.query_key_head_dim,
        kind.attention.value_head_dim,
    )
    splits = {name: tensor.split for name, tensor in tensors(kind).items()}
    assert {
        "self_attn.q_proj": Split.EVEN,
        "self_attn.k_proj": Split.KV_HEADS,
        "self_attn.v_proj": Split.KV_HEADS,
        "self_attn.o_proj": Split.EVEN,
        "mlp.gate_proj": Split.EVEN,
        "mlp.up_proj": Split.EVEN,
        "mlp.down_proj": Split.EVEN,
        "norms": Split.REPLICATED,
    } == splits
    assert {"embed_tokens": Split.EVEN, "lm_head": Split.EVEN, "norm": Split.REPLICATED} == {
        tensor.name: tensor.split for tensor in model.outer
    }


def test_deepseek_v3_keeps_one_latent() -> None:
    model = architecture("deepseek-ai/DeepSeek-V3")
    assert 70_272 == 61 * (512 + 64) * 2 == cache_bytes(model, 1)
    dense, sparse = model.layer_kinds
    assert (3, 58) == model.layer_counts
    assert (0,) * 3 + (1,) * 58 == model.layer_order
    assert (FeedForward.DENSE, FeedForward.EXPERTS) == (dense.feed_forward, sparse.feed_forward)
    assert (CacheEntry("latent", 576, Split.REPLICATED),) == sparse.cache
    splits = {name.removeprefix("self_attn."): tensor.split for name, tensor in tensors(sparse).items()}
    assert Split.REPLICATED == splits["q_a_proj"] == splits["kv_a_proj_with_mqa"] == splits["q_a_layernorm"]
    assert Split.REPLICATED == splits["mlp.gate"] == splits["norms"]
    assert Split.EVEN == splits["q_b_proj"] == splits["kv_b_proj"] == splits["o_proj"]
    assert Split.EVEN == splits["mlp.shared_experts.up_proj"]
    assert Split.EXPERTS == splits["mlp.experts.up_proj"]
    shape = sparse.attention
    assert shape is not None
    assert (128, 192, 128, 512, 64) == (
        shape.num_query_heads,
        shape.query_key_head_dim,
        shape.value_head_dim,
        shape.kv_lora_rank,
        shape.rope_head_dim,
    )
    # Widths that ranks divide, all in blocks of 128: 128 heads of 192, of 128 + 128 and of 128; MLPs, the last of experts.
    assert {(24_576, False), (32_768, False), (16_384, False), (18_432, False), (2048, False), (2048, True)} == {
        (cut.width, cut.of_experts) for cut in model.quantized_cuts
    }
    assert {128} == {cut.multiple for cut in model.quantized_cuts}
    # fp8, one float32 scale a block of 128 x 128; router, norms, embedding and lm_head stay at 16 bits.
    up = tensors(sparse)["mlp.experts.up_proj"]
    assert ("fp8", 256 * 7168 * 2048 * (1 + 4 / 128**2)) == (up.precision, up.num_bytes)
    assert "bf16" == tensors(sparse)["mlp.gate"].precision


def test_deepseek_v3_prediction_layer_is_apart() -> None:
    model = architecture("deepseek-ai/DeepSeek-V3")
    parameters = sum(tensor.num_parameters for tensor in model.multi_token_prediction)
    # 11.6 B: one more expert layer, and a projection of two hidden states to one (embedding and lm_head are shared).
    assert 11.61e9 == pytest.approx(parameters, rel=0.01)
    assert 671_026_404_352 == pytest.approx(model.num_parameters, rel=1e-6)


def test_gpt_oss_windows_alternate() -> None:
    model = architecture("openai/gpt-oss-120b")
    sliding, full = model.layer_kinds
    assert (Mixer.SLIDING, Mixer.FULL) == (sliding.mixer, full.mixer)
    assert (0, 1) * 18 == model.layer_order
    assert (128, None) == (sliding.cache[0].window_tokens, full.cache[0].window_tokens)
    assert 18 * 2048 * (128 + 8192) == cache_bytes(model, 8192)
    # MXFP4 in the experts alone: 4 bits and an 8-bit scale every 32 elements.
    experts = [tensor for tensor in full.tensors if tensor.role is Role.ROUTED_EXPERTS and tensor.num_matmul_parameters]
    assert {("mxfp4", 0.53125)} == {(tensor.precision, tensor.num_bytes / tensor.num_parameters) for tensor in experts}
    assert "bf16" == tensors(full)["self_attn.q_proj"].precision
    assert "mxfp4" == model.checkpoint_precision


def test_mixtral_active_parameters() -> None:
    model = architecture("mistralai/Mixtral-8x7B-v0.1")
    idle = 32 * 6 * 3 * 4096 * 14336
    assert model.num_parameters - idle == model.num_active_parameters
    assert (8, 2, 14336) == (
        (model.experts.num_experts, model.experts.num_experts_per_token, model.experts.intermediate_size)
        if model.experts
        else ()
    )


def test_llama4_chunks_three_layers_of_four() -> None:
    model = architecture("meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    mixers = [model.layer_kinds[index].mixer for index in model.layer_order]
    assert [Mixer.CHUNKED, Mixer.CHUNKED, Mixer.CHUNKED, Mixer.FULL] * 12 == mixers
    feeding = [model.layer_kinds[index].feed_forward for index in model.layer_order]
    assert [FeedForward.DENSE, FeedForward.EXPERTS] * 24 == feeding


def test_gemma3_leaves_its_defaults_out() -> None:
    model = architecture("google/gemma-3-27b-it")
    assert 262_208 == model.vocab_size
    assert any("vocab_size 262208" in note for note in model.notes)
    assert 10 * 8192 * 100_000 + 52 * 8192 * 1024 == cache_bytes(model, 100_000)


def test_shared_key_layers_keep_nothing_but_attend() -> None:
    model = architecture("google/gemma-4-E2B-it")
    without = sum(not model.layer_kinds[index].cache for index in model.layer_order)
    assert 20 == without
    assert all(kind.attention is not None for kind in model.layer_kinds)
    assert (False,) * 15 + (True,) * 20 == tuple(not model.layer_kinds[index].cache for index in model.layer_order)


def test_sparse_attention_keeps_index_keys_where_a_layer_has_an_indexer() -> None:
    model = architecture("zai-org/GLM-5.2")
    with_indexer = sum(len(model.layer_kinds[index].cache) == 2 for index in model.layer_order)
    assert 21 == with_indexer
    assert {2048} == {kind.attention.window_tokens for kind in model.layer_kinds if kind.attention}
    assert 78 * 576 * 2 + 21 * 128 * 2 == cache_bytes(model, 1)


def test_recurrent_states_are_of_fixed_size_and_float32() -> None:
    model = architecture("Qwen/Qwen3-Next-80B-A3B-Instruct")
    linear = next(kind for kind in model.layer_kinds if kind.mixer is Mixer.LINEAR)
    assert linear.attention is None
    conv, recurrent = linear.cache
    assert (8192 * 4, 1, "bf16") == (conv.num_elements, conv.fixed_entries, conv.precision)
    assert (32 * 128 * 128, 1, "fp32") == (recurrent.num_elements, recurrent.fixed_entries, recurrent.precision)
    assert Split.EVEN == conv.split == recurrent.split


def test_a_rope_scaled_head_dim_is_read_where_given() -> None:
    model = architecture("Qwen/Qwen3-32B")
    assert model.layer_kinds[0].attention is not None
    assert 128 == model.layer_kinds[0].attention.query_key_head_dim != 5120 // 64


def changed(model: str, **changes: Any) -> dict[str, Any]:
    return {**configurations()[model], **changes}


def test_qwen2_window_counts_only_when_switched_on() -> None:
    off = read(changed("Qwen/Qwen2.5-7B-Instruct"))
    on = read(changed("Qwen/Qwen2.5-7B-Instruct", use_sliding_window=True, sliding_window=4096, max_window_layers=20))
    assert [Mixer.FULL] == [kind.mixer for kind in off.layer_kinds]
    assert [Mixer.FULL] * 20 + [Mixer.SLIDING] * 8 == [on.layer_kinds[index].mixer for index in on.layer_order]


def test_a_null_is_not_a_missing_key() -> None:
    windowed, unwindowed = (
        configurations()["mistralai/Mistral-7B-v0.1"],
        changed("mistralai/Mistral-7B-v0.1", sliding_window=None),
    )
    missing = {key: value for key, value in windowed.items() if key != "sliding_window"}
    assert Mixer.SLIDING == read(windowed).layer_kinds[0].mixer == read(missing).layer_kinds[0].mixer
    assert Mixer.FULL == read(unwindowed).layer_kinds[0].mixer
    assert any("sliding_window 4096" in note for note in read(missing).notes)


def test_whole_numbers_may_come_as_doubles() -> None:
    doubled = {key: float(value) if type(value) is int else value for key, value in changed("Qwen/Qwen3-8B").items()}
    assert read(changed("Qwen/Qwen3-8B")) == read(doubled)


def test_layer_types_may_go_on_over_prediction_layers() -> None:
    types = ["full_attention"] * 36 + ["sliding_attention"] * 2
    longer = changed("Qwen/Qwen3-8B", layer_types=types, num_nextn_predict_layers=2)
    assert 36 == read(longer).num_layers
    with pytest.raises(UnreadableConfig) as refusal:
        read(changed("Qwen/Qwen3-8B", layer_types=types))
    assert "layer_types" == refusal.value.field


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("google/gemma-3-27b-it", 131_072),  # transformers, Gemma3TextConfig: its text_config says nothing of it
        ("google/gemma-4-E2B-it", 131_072),  # says it itself
    ],
)
def test_context_limits_of_nested_configurations(model: str, limit: int) -> None:
    assert limit == architecture(model).context_limit_tokens


def test_a_context_limit_that_falls_to_the_class_default_is_said_to_do_so() -> None:
    notes = " ".join(architecture("google/gemma-3-27b-it").notes)
    assert "taken from the class default of gemma3: vocab_size 262208, max_position_embeddings 131072." in notes
    assert "max_position_embeddings" not in " ".join(architecture("google/gemma-4-E2B-it").notes)


def test_as_many_kv_heads_as_query_heads_where_the_key_is_missing_is_said() -> None:
    llama = configurations()["meta-llama/Meta-Llama-3.1-8B"]
    config = {key: value for key, value in llama.items() if key != "num_key_value_heads"}
    model = read(config)
    (kind,) = model.layer_kinds
    assert kind.attention is not None
    assert (32, 32) == (kind.attention.num_query_heads, kind.attention.num_kv_heads)
    assert any("num_key_value_heads 32 (one a query head)" in note for note in model.notes)
    assert not any("num_key_value_heads" in note for note in read(llama).notes)
