"""What an engine's settings are where the caller is silent, and which are refused."""

import pytest

from service.catalogue.engines import EngineVersionRange, parse_version
from service.catalogue.entries import Catalogue
from service.planning.engine_memory import engine_memory
from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.requests import EngineSpec, Parallelism
from service.planning.results import EngineMemory
from tests.planning.engine_logs import builder, device


def ask(
    catalogue: Catalogue, name: str, version: str | None = None, on: str = "h100-sxm", tensor: int = 1, **flags: object
) -> EngineMemory:
    settings = EngineSpec(name, version, **flags)  # type: ignore[arg-type]
    return engine_memory(catalogue, builder(catalogue, "llama-3.1-8b"), Parallelism(tensor), device(catalogue, on), settings)


def test_an_unknown_engine_is_not_found(catalogue: Catalogue) -> None:
    with pytest.raises(NotFound) as caught:
        ask(catalogue, "vlm")
    assert ("vllm",) == caught.value.nearest[:1]


def test_an_alias_names_the_engine(catalogue: Catalogue) -> None:
    assert "tensorrt-llm" == ask(catalogue, "TRTLLM").engine


def test_flags_of_other_engines_are_refused_all_at_once(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ask(catalogue, "sglang", gpu_memory_utilization=0.9, max_model_len=0, kv_cache_dtype="fp7", mem_fraction_static=1.5)
    found = {each.field: each for each in caught.value.violations}
    assert {
        "engine.gpu_memory_utilization",
        "engine.mem_fraction_static",
        "engine.max_model_len",
        "engine.kv_cache_dtype",
    } == found.keys()
    assert "its own is mem_fraction_static" == found["engine.gpu_memory_utilization"].remedy


@pytest.mark.parametrize("version", ["nightly", "main 2026-08"])
def test_what_is_no_release_is_refused(catalogue: Catalogue, version: str) -> None:
    with pytest.raises(InvalidRequest, match="is no release"):
        ask(catalogue, "vllm", version)


@pytest.mark.parametrize("version", ["0.4.2", "0.31", "1.0"])
def test_a_release_of_which_nothing_is_known_is_not_estimated(catalogue: Catalogue, version: str) -> None:
    with pytest.raises(Unanswerable, match="is not known"):
        ask(catalogue, "vllm", version)


def test_without_a_release_the_newest_known_is_taken_and_said(catalogue: Catalogue) -> None:
    answer = ask(catalogue, "vllm")
    assert "0.30" == answer.version
    assert "vLLM 0.30 (no version given: the newest known)" in answer.assumptions


@pytest.mark.parametrize(("version", "fraction"), [("0.20", 0.9), ("0.25", 0.92)])
def test_vllm_s_default_fraction_rose(catalogue: Catalogue, version: str, fraction: float) -> None:
    answer = ask(catalogue, "vllm", version)
    assert fraction == answer.memory_fraction
    assert any(note.startswith(f"gpu_memory_utilization {fraction}") for note in answer.assumptions)


@pytest.mark.parametrize(
    ("version", "tensor", "fraction"), [("0.4.3", 1, 0.88), ("0.4.3", 2, 0.87), ("0.4.3", 4, 0.85), ("0.4.3", 8, 0.81)]
)
def test_sglang_s_default_fraction_falls_with_tensor_parallelism(
    catalogue: Catalogue, version: str, tensor: int, fraction: float
) -> None:
    assert fraction == ask(catalogue, "sglang", version, tensor=tensor).memory_fraction


def test_newer_sglang_reserves_by_what_it_will_run(catalogue: Catalogue) -> None:
    # 512 + 8,192 × 1.5 + 256 × 2 + 128 = 13,440 of 81,559 MiB.
    assert round(1 - 13_440 / 81_559, 3) == ask(catalogue, "sglang", "0.5.5").memory_fraction


def test_versions_are_compared_as_numbers() -> None:
    versions = EngineVersionRange(">=0.9,<0.21", (0, 9), (0, 21))
    assert (0, 19, 1) in versions
    assert (0, 21) not in versions
    assert (0, 8, 5) not in versions
    assert (0, 11) == parse_version("v0.11.x")
    assert versions.overlaps(EngineVersionRange(">=0.20", (0, 20), None))
    assert not versions.overlaps(EngineVersionRange("<0.9", None, (0, 9)))
