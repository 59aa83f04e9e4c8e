"""Where calculators and people went wrong about a model's memory, each claim with the figure that is right."""

import pytest

from service.architectures import read
from service.planning.footprint import FootprintBuilder
from service.planning.formats import StoredFormats
from service.planning.requests import Parallelism
from tests.architectures.published import architecture, configurations

GIB = 2**30


@pytest.mark.parametrize(
    ("model", "context", "gib", "claimed"),
    [
        ("google/gemma-3-27b-it", 131_072, 10.4, 81.4),  # 52 of 62 layers keep 1,024 tokens
        ("Qwen/Qwen3.5-27B", 262_144, 16.0, 53.3),  # 16 of 64 layers attend to the whole context
        ("deepseek-ai/DeepSeek-V3", 163_840, 10.7, 2.1),  # one latent per layer and token
        ("moonshotai/Kimi-K2.5", 262_144, 17.2, 6.7),
        ("Qwen/Qwen3-0.6B", 40_960, 4.4, 2.2),  # head_dim is 128, not hidden / heads
    ],
)
def test_cache_is_not_a_matter_of_hidden_size_and_heads(model: str, context: int, gib: float, claimed: float) -> None:
    found = FootprintBuilder(architecture(model), StoredFormats(None, "bf16")).build(Parallelism())
    size = found.cache_bytes.at(context) / GIB
    # Given to a tenth of a GiB; hybrids keep a state besides, 0.15 GiB here.
    assert size == pytest.approx(gib, abs=0.2)
    assert abs(size - claimed) > 2


def test_weight_quantisation_does_not_widen_or_narrow_the_cache() -> None:
    config = dict(configurations()["Qwen/Qwen2.5-7B-Instruct"])
    gptq = config | {"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 128, "desc_act": False}}
    for each in (config, gptq):
        found = FootprintBuilder(read(each), StoredFormats(None, "bf16")).build(Parallelism())
        assert found.cache_bytes.per_token == 57_344


def test_a_gptq_checkpoint_is_a_quarter_of_what_its_dtype_says() -> None:
    config = dict(configurations()["Qwen/Qwen2.5-72B-Instruct"])
    block = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
    quantised = read(config | {"quantization_config": block})
    # 42 GB of files; claimed were 162 GB.
    assert quantised.num_bytes / 1e9 == pytest.approx(42, abs=1)
    assert read(config).num_bytes / 1e9 == pytest.approx(145.4, abs=0.2)


def test_a_checkpoint_called_nvfp4_is_not_half_a_byte_a_parameter() -> None:
    # Attention is not quantised in it: 30.4 GiB by its tensors, where 15 to 16 were expected.
    assert architecture("nvidia/Gemma-4-31B-IT-NVFP4").num_bytes / GIB == pytest.approx(30.4, rel=0.01)


@pytest.mark.parametrize(("model", "attending"), [("nvidia/Nemotron-H-56B-Base-8K", 10), ("Qwen/Qwen3.5-27B", 16)])
def test_hybrids_grow_in_few_layers_and_hold_a_state_besides(model: str, attending: int) -> None:
    found = architecture(model)
    cost = FootprintBuilder(found, StoredFormats(None, "bf16")).build(Parallelism()).cache_bytes
    shape = next(kind.attention for kind in found.layer_kinds if kind.attention)
    assert cost.per_token == attending * 2 * shape.num_kv_heads * shape.value_head_dim * 2
    assert cost.fixed > 0
