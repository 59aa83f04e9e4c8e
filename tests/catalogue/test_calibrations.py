"""The calibrations that ship: all of them load, and what they name is in the catalogue."""

import datetime
from pathlib import Path

import pytest
import yaml

from service.catalogue.calibrations import PARAMETER_NAMES, Calibration, CalibrationBasis
from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName, calibration
from service.units import BYTES_PER_ELEMENT

FILES = sorted((Path(__file__).parents[2] / "specs" / "calibrations").glob("*.yaml"))
YEAR = 365.25


def test_all_of_them_load(catalogue: Catalogue) -> None:
    assert {file.stem for file in FILES} == set(catalogue.calibrations)
    assert {"vllm", "sglang", "tensorrt-llm", "llama.cpp", "gpt-fast"} <= set(catalogue.calibrations)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_loaded_is_what_is_written(catalogue: Catalogue, file: Path) -> None:
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    loaded = catalogue.calibrations[file.stem]
    assert [each["generation"] for each in written["generations"]] == [each.generation for each in loaded.generations]
    for text, read in zip(written["generations"], loaded.generations, strict=True):
        assert text["parameters"] == {name: getattr(read.parameters, name) for name in PARAMETER_NAMES}
        assert text["statistics"] == pytest.approx(read.statistics)
        assert text["familiar"]["inter_token_p90"] == read.familiar.inter_token.p90
        assert text["unfamiliar"]["first_token_p10"] == read.unfamiliar.first_token.p10
        assert tuple(text["seen"]) == read.seen


def every(catalogue: Catalogue) -> list[Calibration]:
    return list(catalogue.calibrations.values())


def test_what_they_name_is_in_the_catalogue(catalogue: Catalogue) -> None:
    architectures = {accelerator.architecture for accelerator in catalogue.accelerators.values()}
    for each in every(catalogue):
        for generation in each.generations:
            assert set(generation.architectures) <= architectures
            assert generation.kv_cache_precision in BYTES_PER_ELEMENT
            for subject in generation.seen:
                model, _, accelerator = subject.partition(" on ")
                assert model in catalogue.models
                assert catalogue.accelerators[accelerator].architecture in generation.architectures


def test_a_prior_is_never_surer_than_a_measurement_nor_familiar(catalogue: Catalogue) -> None:
    for each in every(catalogue):
        for generation in each.generations:
            assert generation.familiar.inter_token.p10 < 1 < generation.familiar.inter_token.p90
            assert generation.unfamiliar.inter_token.p90 >= generation.familiar.inter_token.p90
            if generation.basis is CalibrationBasis.PRIOR:
                assert () == generation.seen


def test_every_engine_with_a_memory_model_is_calibrated_under_the_same_names(catalogue: Catalogue) -> None:
    for name in catalogue.engine_names:
        assert catalogue.engine_names[name] == calibration(catalogue, name).name


def test_an_unknown_engine_names_the_nearest(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownName) as caught:
        calibration(catalogue, "vlm")
    assert caught.value.nearest[0] == "vllm"


def test_an_architecture_that_is_not_there_has_no_generation(catalogue: Catalogue) -> None:
    assert catalogue.calibrations["vllm"].generation_of("Volta GV100") is None
    found = catalogue.calibrations["vllm"].generation_of("Hopper GH100")
    assert found is not None
    assert "hopper" == found.generation


def test_the_age_of_a_release_is_counted_from_the_reference_within_what_was_measured(catalogue: Catalogue) -> None:
    vllm = catalogue.calibrations["vllm"]
    days = {release.text: release.day for release in vllm.releases}
    assert 0.0 == vllm.age_years(None) == vllm.age_years("nightly")
    assert (days["0.12"] - vllm.reference).days / YEAR == vllm.age_years("0.12")
    assert vllm.age_years("0.12") == vllm.age_years("0.12.1") == vllm.age_years("v0.13")  # not listed: as the last before it
    first, last = ((day - vllm.reference).days / YEAR for day in (vllm.first, vllm.last))
    assert first == vllm.age_years("0.1") == vllm.age_years("0.6.3")
    assert last == vllm.age_years("9.9")
    built = (datetime.date(2026, 2, 16) - vllm.reference).days / YEAR  # a build's own day, whatever its number
    assert built == vllm.age_years("nightly-dev-20260216-d3bae71e") == vllm.age_years("0.12.1.dev20260216")
    assert last == vllm.age_years("nightly-20991231")
    assert 0.0 == vllm.age_years("nightly-20261399") == vllm.age_years("nightly-120260216")
    assert isinstance(vllm.reference, datetime.date)
