"""What quantisation blocks do to bytes: the methods, their scales, their lists of exceptions."""

from typing import Any

import pytest

from service.architectures import Architecture, Role, UnreadableConfig, read
from service.architectures.modules import Modules, globs_of_expression
from tests.architectures.published import architecture, configurations

PLAIN = "Qwen/Qwen3-8B"


def quantized(block: dict[str, Any] | None, model: str = PLAIN, **arguments: Any) -> Architecture:
    config = {**configurations()[model]}
    if block is not None:
        config["quantization_config"] = block
    return read(config, **arguments)


def bytes_per_parameter(model: Architecture, name: str) -> set[float]:
    return {
        tensor.num_bytes / tensor.num_parameters for kind in model.layer_kinds for tensor in kind.tensors if tensor.name == name
    }


def precision(model: Architecture, name: str) -> set[str]:
    return {tensor.precision for tensor, _ in model.tensors() if tensor.name == name}


@pytest.mark.parametrize(
    ("block", "expected_precision", "expected_bytes"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 1 + 4 / 128**2),
        ({"quant_method": "fp8"}, "fp8", 1 + 8 / 4096**2),
        ({"quant_method": "fbgemm_fp8"}, "bf16", 2.0),  # the attention is left out
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4", 0.5 + 2.5 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4", 0.5 + 2.5 / 128 + 4 / 4096),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", 1 + (3 + 4) / 4096),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", 0.5 + 4 / 64),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 1 + 4 / 4096),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, "nvfp4", 0.5 + 1 / 16 + 4 / 4096**2),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", 1 + 8 / 4096**2),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128}, "int4", 0.5 + 2 / 128),
        (
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}},
            "mxfp4",
            0.5 + 1 / 32,
        ),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}, "int4", 0.5 + 2.5 / 128 + 4 / 4096),
    ],
)
def test_methods(block: dict[str, Any], expected_precision: str, expected_bytes: float) -> None:
    model = quantized(block)
    assert {expected_precision} == precision(model, "self_attn.q_proj")
    assert [expected_bytes] == pytest.approx(list(bytes_per_parameter(model, "self_attn.q_proj")), rel=1e-12)
    assert {"bf16"} == precision(model, "lm_head") == precision(model, "embed_tokens") == precision(model, "norms")


def group(**weights: Any) -> dict[str, Any]:
    return {"targets": ["Linear"], "weights": weights}


@pytest.mark.parametrize(
    ("weights", "expected_precision", "expected_bytes"),
    [
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, "fp8", 1 + 2 / 4096),
        ({"num_bits": 8, "type": "float", "strategy": "tensor"}, "fp8", 1 + 4 / 4096**2),
        ({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}, "fp8", 1 + 4 / 128**2),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, "int8", 1 + 2 / 4096),
        ({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}, "int4", 0.5 + 2 / 32),
        (
            {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": False},
            "int4",
            0.5 + 2.5 / 128,
        ),
        ({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, "nvfp4", 0.5 + 1 / 16 + 4 / 4096**2),
        ({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}, "mxfp4", 0.5 + 1 / 32),
    ],
)
def test_compressed_tensors(weights: dict[str, Any], expected_precision: str, expected_bytes: float) -> None:
    block = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group(**weights)}, "ignore": ["lm_head"]}
    model = quantized(block)
    assert {expected_precision} == precision(model, "self_attn.q_proj")
    assert [expected_bytes] == pytest.approx(list(bytes_per_parameter(model, "self_attn.q_proj")), rel=1e-12)
    assert {"bf16"} == precision(model, "lm_head")
    # Only this method quantises the lm_head when nobody says otherwise.
    assert {expected_precision} == precision(quantized({**block, "ignore": []}), "lm_head")


def test_layers_that_are_left_out_become_a_kind_of_their_own() -> None:
    names = [f"model.layers.{index}.{name}" for index in (0, 35) for name in ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")]
    model = quantized({"quant_method": "fp8", "modules_to_not_convert": names})
    plain, fp8 = model.layer_kinds
    assert (0, *[1] * 34, 0) == model.layer_order
    assert {"bf16"} == {tensor.precision for tensor in plain.tensors if tensor.role is Role.MLP}
    assert {"fp8"} == {tensor.precision for tensor in fp8.tensors if tensor.role is Role.MLP}
    assert {"fp8"} == precision(model, "self_attn.q_proj")


def test_a_separate_file_decides_where_the_configuration_is_silent() -> None:
    separate = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    model = quantized(None, quantization=separate)
    assert ("fp8", "fp8") == (model.checkpoint_precision, model.kv_cache_precision)
    assert "bf16" == quantized(None).checkpoint_precision
    unquantized = quantized(None, quantization={"quantization": {"quant_algo": None, "kv_cache_quant_algo": "FP8"}})
    assert ("bf16", "fp8") == (unquantized.checkpoint_precision, unquantized.kv_cache_precision)


def test_a_block_inside_the_text_section() -> None:
    model = architecture("moonshotai/Kimi-K2.5")
    assert "int4" == model.checkpoint_precision
    assert {"bf16"} == precision(model, "self_attn.q_b_proj") == precision(model, "mlp.shared_experts.up_proj")


def test_deepseek_v4_experts_are_fp4_though_the_block_says_fp8() -> None:
    model = architecture("deepseek-ai/DeepSeek-V4-Flash")
    assert {"mxfp4"} == precision(model, "ffn.experts.w1")
    assert {"fp8"} == precision(model, "attn.wq_b") == precision(model, "ffn.shared_experts.w1")


def test_mixed_precision_by_layer() -> None:
    model = architecture("nvidia/Qwen3.6-35B-A3B-NVFP4")
    assert {"nvfp4"} == precision(model, "mlp.experts.up_proj") == precision(model, "lm_head")
    assert {"fp8"} == precision(model, "linear_attn.in_proj_qkv")
    assert {"bf16"} == precision(model, "linear_attn.in_proj_a")


def test_the_block_of_the_disputed_checkpoint_says_four_bits() -> None:
    model = architecture("amd/Llama-3.1-405B-pruned84-quark-MLPerf")
    block = configurations()["amd/Llama-3.1-405B-pruned84-quark-MLPerf"]["quantization_config"]
    assert ("fp4", 32) == (
        block["global_quant_config"]["weight"]["dtype"],
        block["global_quant_config"]["weight"]["group_size"],
    )
    assert {0.53125} == bytes_per_parameter(model, "mlp.up_proj") == bytes_per_parameter(model, "self_attn.k_proj")


def test_every_list_of_the_vision_tower_spares_it() -> None:
    model = architecture("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic")
    assert {"bf16"} == {tensor.precision for tensor, _ in model.tensors() if tensor.role is Role.VISION}


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"quant_method": "smoke"}, "quantization_config.quant_method"),
        ({"bits": 4}, "quantization_config.quant_method"),
        ({"quant_method": 8}, "quantization_config.quant_method"),
        ({"quant_method": "gptq", "bits": 3}, "quantization_config.bits"),
        ({"quant_method": "gptq"}, "quantization_config.bits"),
        ({"quant_method": "awq", "w_bit": 3}, "quantization_config.w_bit"),
        ({"quant_method": "awq", "bits": 3}, "quantization_config.bits"),
        ({"quant_method": "auto-round", "bits": 3}, "quantization_config.bits"),
        (
            {"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*mlp.*": {"bits": 3}}},
            "quantization_config.dynamic.+:.*mlp.*.bits",
        ),
        # Blocks that name no weight of a dense model.
        ({"quant_method": "mxfp4"}, "quantization_config"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "quantization_config"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"]}}}, "quantization_config"),
        ({"quant_method": "quark"}, "quantization_config"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantization_config"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["self_attn", "mlp"]}, "quantization_config"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "quantization_config.weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": "128"}, "quantization_config.weight_block_size"),
        ({"quant_method": "modelopt", "quant_algo": "FP3"}, "quantization_config.quant_algo"),
        ({"quant_method": "modelopt"}, "quantization_config.quant_algo"),
        ({"quant_method": "fp8", "modules_to_not_convert": [1]}, "quantization_config.modules_to_not_convert"),
        ("fp8", "quantization_config"),
    ],
)
def test_refusals(block: Any, field: str) -> None:
    with pytest.raises(UnreadableConfig) as refusal:
        quantized(block)
    assert field == refusal.value.field


def test_a_block_of_the_kv_cache_alone_leaves_the_weights_as_they_are() -> None:
    scheme = {"num_bits": 8, "type": "float", "strategy": "tensor"}
    model = quantized({"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": scheme})
    assert ("bf16", "fp8") == (model.checkpoint_precision, model.kv_cache_precision)
    assert "The quantisation block is of the KV cache alone: weights are bf16." in model.notes


def test_gptq_quantises_some_modules_otherwise() -> None:
    dynamic = {"+:.*mlp.*": {"bits": 8, "group_size": 64}, "-:.*k_proj.*": {}}
    model = quantized({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": dynamic})
    assert ({"int8"}, {"int4"}, {"bf16"}) == tuple(
        precision(model, name) for name in ("mlp.down_proj", "self_attn.q_proj", "self_attn.k_proj")
    )
    # 12,288 inputs in groups of 64, each a 16-bit scale and an 8-bit zero; 4 bytes of order an input, for 4,096 outputs.
    assert [1 + 3 / 64 + 4 / 4096] == pytest.approx(list(bytes_per_parameter(model, "mlp.down_proj")), rel=1e-12)


MODULE_CASES = [
    # a list, a module below a layer, the layer, whether the list means it
    (["lm_head"], "mlp.gate", 0, False),
    (["gate"], "mlp.gate", 7, True),
    (["gate"], "mlp.gate_proj", 7, False),
    (["model.layers.3.mlp.gate"], "mlp.gate", 3, True),
    (["model.layers.3.mlp.gate"], "mlp.gate", 33, False),
    (["model.layers.3.self_attn*"], "self_attn.q_proj", 3, True),
    (["model.layers.3.self_attn"], "self_attn.q_proj", 3, True),
    (["model.layers.1*"], "mlp.up_proj", 1, True),
    (["model.layers.1*"], "mlp.up_proj", 12, True),
    (["model.layers.1.*"], "mlp.up_proj", 12, False),
    (["model.layers.1.*"], "mlp.up_proj", 1, True),
    (["backbone.layers.4.mixer.in_proj"], "mixer.in_proj", 4, True),
    (["language_model.model.layers.4.self_attn*"], "self_attn.k_proj", 4, True),
    (["vision_tower.layers.4.self_attn*"], "self_attn.k_proj", 4, False),
    (["mtp.layers.0*"], "self_attn.k_proj", 0, False),
    (["model.layers.*.self_attn"], "self_attn.k_proj", 9, True),
    (["*.attn.*"], "attn.wq_b", 9, True),
    (["*.attn.*"], "self_attn.q_proj", 9, False),
    (["re:.*self_attn.*"], "self_attn.q_proj", 9, True),
    (["re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], "mlp.up_proj", 0, True),
    (["re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], "mlp.experts.up_proj", 0, False),
    (["re:.*\\.mlp\\.gate$"], "mlp.gate", 2, True),
    (["re:.*\\.mlp\\.gate$"], "mlp.gate_proj", 2, False),
    (["re:model\\.layers\\.2\\..*"], "mlp.up_proj", 2, True),
    (["re:model\\.layers\\.2\\..*"], "mlp.up_proj", 3, False),
    (["model.layers.5.mlp.experts.17.up_proj"], "mlp.experts.up_proj", 5, True),
    (["model.layers.5.self_attn.qkv_proj"], "self_attn.k_proj", 5, True),
]


@pytest.mark.parametrize(("patterns", "module", "layer", "meant"), MODULE_CASES)
def test_which_modules_a_list_means(patterns: list[str], module: str, layer: int, meant: bool) -> None:
    modules = Modules(patterns)
    assert meant == modules.contains(module, modules.of_layer(layer))


@pytest.mark.parametrize("expression", ["(a+)+", "(?!x).*", "[a-z]*", "a{3}", "*", "(a|b|c|d)" * 9, "("])
def test_expressions_that_are_not_understood_are_refused_not_run(expression: str) -> None:
    with pytest.raises(UnreadableConfig):
        globs_of_expression(expression, "ignore")


def test_too_many_formats_are_refused() -> None:
    layers = {f"model.layers.0.x{index}": {"quant_algo": "NVFP4", "group_size": index + 1} for index in range(40)}
    with pytest.raises(UnreadableConfig, match="number formats"):
        quantized({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
