"""Every published configuration is read within the limits that the plans need."""

import math
from collections import Counter

import pytest

from service.architectures import Role, Split
from service.units import BYTES_PER_ELEMENT
from tests.architectures.published import (
    DISPUTED,
    architecture,
    attention_flops_per_context_token,
    cache_bytes,
    configurations,
    expected,
    matmul_flops,
    quantization,
)

MODELS = sorted(configurations())


def test_there_are_enough_of_them() -> None:
    assert 127 == len(MODELS)
    assert 15 == sum(quantization(model) is not None for model in MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_total_and_active_parameters(model: str) -> None:
    read_model, counted = architecture(model), expected(model)
    assert counted["total_params"] == pytest.approx(read_model.num_parameters, rel=0.001)
    assert counted["active_params"] == pytest.approx(read_model.num_active_parameters, rel=0.01)
    vision = sum(tensor.num_parameters for tensor, _ in read_model.tensors() if tensor.role is Role.VISION)
    assert counted["vision_params"] == pytest.approx(vision, rel=0.001)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("num_tokens", [1024, 8192, 131072])
def test_cache_bytes_are_exact(model: str, num_tokens: int) -> None:
    assert expected(model)[f"cache_bytes_{num_tokens}"] == cache_bytes(architecture(model), num_tokens)


@pytest.mark.parametrize("model", [model for model in MODELS if model not in DISPUTED])
def test_weight_bytes_as_stored(model: str) -> None:
    assert expected(model)["weight_bytes"] == pytest.approx(architecture(model).num_bytes, rel=0.01)


@pytest.mark.parametrize("model", MODELS)
def test_matmul_flops_per_token(model: str) -> None:
    assert expected(model)["flops_per_token_matmul"] == pytest.approx(matmul_flops(architecture(model)), rel=0.01)


#: The count has no attention for DeepSeek-V4, none for Gemma 4's layers that read the keys of an earlier layer, and takes
#: two of Phi's windows (as long as the context) for none.
_ATTENTION_COUNTED_OTHERWISE = {
    "google/gemma-4-E2B-it",
    "google/gemma-4-E4B-it",
    "microsoft/Phi-3.5-MoE-instruct",
    "microsoft/Phi-3.5-vision-instruct",
    "deepseek-ai/DeepSeek-V4-Flash",
    "nvidia/DeepSeek-V4-Flash-NVFP4",
    "nvidia/DeepSeek-V4-Pro-NVFP4",
}


@pytest.mark.parametrize("model", [model for model in MODELS if model not in _ATTENTION_COUNTED_OTHERWISE])
@pytest.mark.parametrize("windowed", [False, True])
def test_attention_flops_per_context_token(model: str, windowed: bool) -> None:
    key = f"attn_flops_per_token_per_ctx_{'windowed' if windowed else 'full'}"
    assert expected(model)[key] == attention_flops_per_context_token(architecture(model), windowed=windowed)


@pytest.mark.parametrize("model", MODELS)
def test_tied_embeddings_are_stored_once(model: str) -> None:
    read_model = architecture(model)
    assert bool(expected(model)["lm_head_tied"]) == read_model.embeddings_tied
    roles = Counter(tensor.role for tensor in read_model.outer if tensor.num_matmul_parameters or tensor.name == "embed_tokens")
    assert (0 if read_model.embeddings_tied else 1) == roles[Role.EMBEDDING]
    (head,) = [tensor for tensor in read_model.outer if tensor.name.startswith("lm_head") and "bias" not in tensor.name]
    assert head.num_parameters == head.num_matmul_parameters
    assert ("lm_head (tied with embed_tokens)" if read_model.embeddings_tied else "lm_head") == head.name


@pytest.mark.parametrize("model", MODELS)
def test_experts(model: str) -> None:
    experts = architecture(model).experts
    if expected(model)["n_experts"] is None or model == "nvidia/Nemotron-H-56B-Base-8K":  # dense: the count has defaults
        assert experts is None
    else:
        assert experts is not None
        assert (expected(model)["n_experts"], expected(model)["top_k"]) == (
            experts.num_experts,
            experts.num_experts_per_token,
        )


@pytest.mark.parametrize("model", MODELS)
def test_every_tensor_is_sound(model: str) -> None:
    read_model = architecture(model)
    assert read_model.num_layers == len(read_model.layer_order)
    assert set(read_model.layer_order) == set(range(len(read_model.layer_kinds)))
    for tensor in [tensor for tensor, _ in read_model.tensors()] + list(read_model.multi_token_prediction):
        assert tensor.precision in BYTES_PER_ELEMENT
        assert 0 < tensor.num_parameters < math.inf
        # Nothing takes less than 4 bits an element, nor more than its number format and its scales.
        assert 0.5 <= tensor.num_bytes / tensor.num_parameters <= max(1.2 * BYTES_PER_ELEMENT[tensor.precision], 1.2), tensor
        if tensor.role in (Role.NORMS, Role.VISION, Role.PER_LAYER_EMBEDDING):
            assert tensor.num_matmul_parameters == 0
        if tensor.role is Role.ROUTED_EXPERTS:
            assert tensor.split is Split.EXPERTS
        if tensor.role in (Role.NORMS, Role.ROUTER):
            assert tensor.split is Split.REPLICATED
