"""Which ways of splitting a model engines refuse: quantisation groups, recurrent heads. Widths worked by hand."""

from typing import Any

import pytest

from service.planning.errors import InvalidRequest
from service.planning.planner import Planner
from service.planning.requests import (
    AcceleratorSpec,
    EstimateKvMemoryRequest,
    FitNodeRequest,
    ModelSpec,
    Parallelism,
    Precision,
)
from tests.architectures.published import configurations

#: The sizes of Qwen2.5-14B: 13,824 = 108 × 128, so that 8 ranks get 13.5 groups of 128 each.
QWEN2_5_14B: dict[str, Any] = {
    "model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 13_824, "num_hidden_layers": 48,
    "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152_064, "max_position_embeddings": 32_768,
    "tie_word_embeddings": False, "torch_dtype": "float16",
}  # fmt: skip
#: Experts 1,536 wide, as those of Qwen3-235B-A22B: 8 ranks get 192 = 1.5 × 128 = 3 × 64, 64 ranks 24.
EXPERTS: dict[str, Any] = {
    "model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12_288, "moe_intermediate_size": 1536,
    "num_hidden_layers": 2, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
    "num_experts_per_tok": 8, "vocab_size": 151_936, "max_position_embeddings": 40_960, "torch_dtype": "bfloat16",
}  # fmt: skip

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
AUTO_ROUND = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}
FP8_BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def packed(group: int) -> dict[str, Any]:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": group, "symmetric": True}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def refused(planner: Planner, config: dict[str, Any], shape: Parallelism, precision: Precision = Precision()) -> str:
    """Why the shape is refused; empty where it is answered."""
    try:
        planner.estimate_kv_memory(
            EstimateKvMemoryRequest(
                model=ModelSpec(hf_config=config),
                accelerator=AcceleratorSpec(name="h100-sxm"),
                parallelism=shape,
                precision=precision,
                context_tokens=8,
            )
        )
    except InvalidRequest as refusal:
        return "\n".join(f"{each.field}: {each.reason}; {each.remedy}" for each in refusal.violations)
    return ""


@pytest.mark.parametrize("block", [AWQ, GPTQ, AUTO_ROUND, packed(128), FP8_BLOCKS], ids=str)
def test_ranks_hold_whole_quantisation_groups(planner: Planner, block: dict[str, Any]) -> None:
    config = QWEN2_5_14B | {"quantization_config": block}
    why = refused(planner, config, Parallelism(tensor=8))
    assert why.startswith("parallelism.tensor: 8 ranks cut the 13824 of mlp.")
    assert "into shares of 1728, inside a quantisation block of 128" in why
    assert why.endswith("each rank's share must be a multiple of 128; this model allows tensor 1, 2, 4; the nearest is 4")
    assert "" == refused(planner, config, Parallelism(tensor=4))  # 3,456 = 27 × 128


@pytest.mark.parametrize(
    "block",
    [
        None,
        AWQ | {"group_size": -1},
        GPTQ | {"group_size": -1},
        AWQ | {"group_size": 64},  # 1,728 = 27 × 64
        packed(32),
        {"quant_method": "fp8"},
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
    ],
    ids=str,
)
def test_scales_of_whole_channels_and_smaller_groups_are_not_cut(planner: Planner, block: dict[str, Any] | None) -> None:
    assert "" == refused(planner, QWEN2_5_14B | {"quantization_config": block}, Parallelism(tensor=8))


def test_weights_asked_for_in_another_format_have_no_groups(planner: Planner) -> None:
    config = QWEN2_5_14B | {"quantization_config": AWQ}
    assert "" == refused(planner, config, Parallelism(tensor=8), Precision(weights="bf16"))


def test_nvfp4_groups_of_sixteen_are_not_cut(planner: Planner) -> None:
    # 1,856 over 8 ranks is 232 = 14.5 × 16 (a public report of vLLM failing on it: vllm-project/vllm#49949).
    config = configurations()["nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"]
    block = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}
    why = refused(planner, config | {"quantization_config": block}, Parallelism(tensor=8))
    assert "8 ranks cut the 1856 of" in why
    assert "into shares of 232, inside a quantisation block of 16" in why
    assert "" == refused(planner, config | {"quantization_config": block}, Parallelism(tensor=4))


def test_groups_of_experts_are_halved_down_to_thirty_two(planner: Planner) -> None:
    config = EXPERTS | {"quantization_config": GPTQ}
    assert "" == refused(planner, config, Parallelism(tensor=8))  # groups of 64
    assert "" == refused(planner, config, Parallelism(tensor=16))  # groups of 32: 96 = 3 × 32
    assert "into shares of 24, inside a quantisation block of 32" in refused(planner, config, Parallelism(tensor=64))
    # compressed-tensors, and blocks of fp8, are not.
    for block in (packed(128), FP8_BLOCKS):
        why = refused(planner, EXPERTS | {"quantization_config": block}, Parallelism(tensor=8))
        assert "8 ranks cut the 1536 of mlp.experts." in why
        assert "into shares of 192, inside a quantisation block of 128" in why
        assert "" == refused(planner, EXPERTS | {"quantization_config": block}, Parallelism(tensor=8, expert=8))


@pytest.mark.parametrize("tensor", [2, 4, 8, 16])
def test_mxfp4_experts_are_padded_and_so_cut_anywhere(planner: Planner, tensor: int) -> None:
    assert "" == refused(planner, configurations()["openai/gpt-oss-20b"], Parallelism(tensor=tensor))  # 2,880 / 16 = 180


def test_shared_experts_are_cut_by_all_ranks_also_where_experts_are_whole(planner: Planner) -> None:
    # 3,072 / 16 = 192 = 1.5 × 128: what vLLM refuses of DeepSeek-V4-Pro over 16 ranks, whole experts or not.
    config = configurations()["nvidia/DeepSeek-V4-Pro-NVFP4"]
    why = refused(planner, config, Parallelism(tensor=16, expert=16))
    assert "into shares of 192, inside a quantisation block of 128" in why


def test_a_kv_head_narrower_than_a_block_is_cut_by_copying_it(planner: Planner) -> None:
    # Heads of 64: with one KV head a rank k_proj has 64 outputs there, half a block; with two it has 128.
    config = QWEN2_5_14B | {
        "hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16_384, "quantization_config": FP8_BLOCKS
    }  # fmt: skip
    assert "" == refused(planner, config, Parallelism(tensor=4))
    why = refused(planner, config, Parallelism(tensor=8))
    assert "8 ranks cut the 512 of self_attn.k_proj into shares of 64" in why
    assert "16 ranks cut the 512 of self_attn.k_proj into shares of 64" in refused(planner, config, Parallelism(tensor=16))


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("nvidia/Qwen3.5-122B-A10B-NVFP4", 32, "32 ranks do not divide 16 linear-attention key heads"),
        ("nvidia/Nemotron-H-56B-Base-8K", 16, "16 ranks do not divide 8 Mamba groups"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 16, "16 ranks do not divide 8 Mamba groups"),
    ],
)
def test_recurrent_heads_divide_over_the_ranks(planner: Planner, name: str, tensor: int, words: str) -> None:
    assert words in refused(planner, configurations()[name], Parallelism(tensor=tensor))
    assert "" == refused(planner, configurations()[name], Parallelism(tensor=8))


def test_a_single_mamba_group_is_copied(planner: Planner) -> None:
    granite: dict[str, Any] = {
        "model_type": "granitemoehybrid", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 32,
        "num_key_value_heads": 8, "num_local_experts": 0, "shared_intermediate_size": 12_288, "vocab_size": 100_352,
        "layer_types": ["mamba", "mamba", "mamba", "attention"], "mamba_n_heads": 128, "mamba_d_head": 64,
        "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_expand": 2, "torch_dtype": "bfloat16",
    }  # fmt: skip
    assert "" == refused(planner, granite, Parallelism(tensor=16))
    assert "16 ranks do not divide 2 Mamba groups" in refused(planner, granite | {"mamba_n_groups": 2}, Parallelism(tensor=16))


def test_a_node_is_never_offered_what_engines_refuse(planner: Planner) -> None:
    def tensor_sizes(config: dict[str, Any], devices_per_node: int) -> set[int]:
        request = FitNodeRequest(
            model=ModelSpec(hf_config=config),
            accelerator=AcceleratorSpec(name="h100-sxm"),
            devices_per_node=devices_per_node,
            context_tokens=8,
            max_num_nodes=1,
        )
        return {candidate.parallelism.tensor for candidate in planner.fit_node(request).candidates}

    assert {1, 2, 4} == tensor_sizes(QWEN2_5_14B | {"quantization_config": AWQ}, 8)
    assert {1, 2, 4, 8, 16} == tensor_sizes(configurations()["nvidia/Qwen3.5-122B-A10B-NVFP4"], 32)
