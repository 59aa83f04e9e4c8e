"""What the catalogue says of serving engines."""

import pytest

from service.catalogue.engines import BEHAVIOUR_WORDS, FIGURE_UNITS, Engine
from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName, engine


def figure(found: Engine, name: str, *version: int, devices: int = 1, memory_gib: float = 0, on: str = "") -> float | None:
    held = found.figure(name, version, devices=devices, memory_gib=memory_gib, accelerator=on)
    return None if held is None else held.value


def test_three_engines_are_known(catalogue: Catalogue) -> None:
    assert ["sglang", "tensorrt-llm", "vllm"] == list(catalogue.engines)
    assert engine(catalogue, "TensorRT_LLM").name == "tensorrt-llm"
    with pytest.raises(UnknownName):
        engine(catalogue, "llama.cpp")


def test_a_constant_holds_for_its_releases_alone(catalogue: Catalogue) -> None:
    vllm = catalogue.engines["vllm"]
    assert (36, 12) == (figure(vllm, "sampler_bytes_per_logit", 0, 16, 2), figure(vllm, "sampler_bytes_per_logit", 0, 17))
    assert figure(vllm, "expanded_latent_head_dim", 0, 7) == 256
    assert figure(vllm, "expanded_latent_head_dim", 0, 7, 1) is None


def test_the_narrowest_condition_wins(catalogue: Catalogue) -> None:
    vllm = catalogue.engines["vllm"]
    sizes = [
        figure(vllm, "default_max_num_batched_tokens", 0, 28, memory_gib=gib, on=name)
        for gib, name in ((24, "l4"), (79.6, "h100-sxm"), (80, "a100-sxm-80"), (179, "b200"))
    ]
    assert [2048, 8192, 2048, 16384] == sizes
    outside = [figure(vllm, "non_torch", 0, 19, devices=devices) for devices in (1, 2, 4, 8, 16)]
    assert outside[1] == outside[2]
    assert outside[3] == outside[4]
    assert figure(vllm, "non_torch", 0, 25, devices=8, on="gb10") == 3 * 2**30


def test_fitted_constants_carry_a_range_and_a_date(catalogue: Catalogue) -> None:
    for entry in catalogue.engines.values():
        for each in entry.figures:
            assert each.low <= each.value <= each.high
            assert each.date[:4].isdigit()
        assert all(each.date[:4].isdigit() for each in entry.behaviours)


def test_no_name_is_allowed_that_nothing_uses(catalogue: Catalogue) -> None:
    used = {each.name for entry in catalogue.engines.values() for each in entry.figures}
    assert set(FIGURE_UNITS) == used
    assert set(BEHAVIOUR_WORDS) == {each.name for entry in catalogue.engines.values() for each in entry.behaviours}
