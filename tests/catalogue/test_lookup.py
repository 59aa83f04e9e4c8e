"""Names lead to one entry or to the nearest names, never to a guess."""

import pytest

from service.catalogue.entries import Catalogue
from service.catalogue.lookup import (
    UnknownName,
    accelerator,
    accelerator_by_any_name,
    accelerator_by_product_label,
    model,
    nearest_names,
    node_type,
)


def unknown(name: str, catalogue: Catalogue) -> tuple[str, ...]:
    with pytest.raises(UnknownName) as caught:
        accelerator(catalogue, name)
    assert ("accelerator", name) == (caught.value.kind, caught.value.name)
    return caught.value.nearest


@pytest.mark.parametrize("name", ["h100-sxm", "H100-SXM", "h100_sxm", "H100-SXM5-80GB", "nvidia-h100-80gb"])
def test_an_accelerator_by_name_or_alias_in_any_case(name: str, catalogue: Catalogue) -> None:
    assert "h100-sxm" == accelerator(catalogue, name).name


@pytest.mark.parametrize("name", ["llama-3.1-70b", "meta-llama/Llama-3.1-70B", "META-LLAMA/llama-3.1-70b-instruct"])
def test_a_model_by_name_or_repository(name: str, catalogue: Catalogue) -> None:
    assert "llama-3.1-70b" == model(catalogue, name).name


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("llama2-7b", "llama-2-7b"),
        ("llama2-70b", "llama-2-70b"),
        ("llama3-8b", "llama-3-8b"),
        ("llama3-70b", "llama-3-70b"),
        ("llama3-405b", "llama-3.1-405b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax-m2.5"),
        ("nvidia/MiniMax-M2.5-NVFP4", "minimax-m2.5-nvfp4"),
        ("Qwen/Qwen3.5-397B-A17B", "qwen3.5-397b-a17b"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
        ("zai-org/GLM-5.2", "glm-5.2"),
    ],
)
def test_models_by_what_callers_write(asked: str, found: str, catalogue: Catalogue) -> None:
    assert found == model(catalogue, asked).name


@pytest.mark.parametrize("name", ["H100-SXM", "H200-SXM", "B200", "GB200", "B300", "MI300X", "MI355X", "A100-SXM-80"])
def test_accelerators_by_what_callers_write(name: str, catalogue: Catalogue) -> None:
    assert name.lower() == accelerator(catalogue, name).name


def test_a100_sxm_alone_is_the_one_of_80_gb(catalogue: Catalogue) -> None:
    assert "a100-sxm-80" == accelerator(catalogue, "A100-SXM").name


@pytest.mark.parametrize("name", ["aws-p5.48xlarge", "p5.48xlarge", "P5.48XLARGE"])
def test_a_node_type_by_name_or_the_providers_own(name: str, catalogue: Catalogue) -> None:
    assert "aws-p5.48xlarge" == node_type(catalogue, name).name


def test_every_name_and_alias_finds_its_entry(catalogue: Catalogue) -> None:
    for each in catalogue.accelerators.values():
        assert all(accelerator(catalogue, name) is each for name in (each.name, *each.aliases))
        assert all(accelerator_by_product_label(catalogue, label) is each for label in each.gpu_product_labels)
    for chip in catalogue.node_types.values():
        assert all(node_type(catalogue, name) is chip for name in (chip.name, *chip.aliases))
    for text in catalogue.models.values():
        assert all(model(catalogue, name) is text for name in (text.name, *text.aliases))


def test_a_name_of_three_products_is_none_of_them(catalogue: Catalogue) -> None:
    assert {"h100-sxm", "h100-pcie", "h100-nvl"} == set(unknown("h100", catalogue))
    assert {"a100-sxm-40", "a100-sxm-80", "a100-pcie-40", "a100-pcie-80"} == set(unknown("A100", catalogue))
    assert {"v100-sxm2-16", "v100-sxm2-32"} <= set(unknown("v100", catalogue))
    assert {"h200-sxm", "h200-nvl"} <= set(unknown("h200", catalogue))


def test_a_misspelt_name_is_offered_the_nearest(catalogue: Catalogue) -> None:
    assert "mi300x" == unknown("mi300-x ", catalogue)[0]
    assert "h100-sxm" == unknown("h100 sxm", catalogue)[0]
    with pytest.raises(UnknownName, match=r"no model is named 'llama31-70b'; the nearest are llama-3\.1-70b") as caught:
        model(catalogue, "llama31-70b")
    assert "llama-3.1-70b" == caught.value.nearest[0]


def test_a_nonsense_name_is_offered_nothing(catalogue: Catalogue) -> None:
    assert () == unknown("zzzzzz", catalogue)
    assert () == unknown("", catalogue)
    assert () == unknown("—", catalogue)
    assert "no accelerator is named 'zzzzzz'" == str(UnknownName("accelerator", "zzzzzz", ()))


def test_at_most_five_are_offered_however_long_the_name(catalogue: Catalogue) -> None:
    assert 5 == len(unknown("rtx", catalogue))
    assert len(unknown("h100" * 100_000, catalogue)) <= 5


def test_nearest_names_are_names_and_not_aliases() -> None:
    names = {"alpha": "alpha", "alpha-80gb": "alpha", "owner/alpha-instruct": "alpha", "beta": "beta"}
    assert ("alpha",) == nearest_names("alpha-instruct-v2", names)


def test_a_product_label(catalogue: Catalogue) -> None:
    assert "h100-sxm" == accelerator_by_product_label(catalogue, "NVIDIA-H100-80GB-HBM3").name
    assert "b200" == accelerator_by_product_label(catalogue, "nvidia-b200").name


@pytest.mark.parametrize("label", ["NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA-A100-SXM4-80GB-SHARED"])
def test_a_slice_or_a_shared_gpu_is_no_gpu(label: str, catalogue: Catalogue) -> None:
    with pytest.raises(UnknownName) as caught:
        accelerator_by_product_label(catalogue, label)
    assert ("a100-sxm-80",) == caught.value.nearest


def test_an_unknown_label_is_offered_accelerators(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownName) as caught:
        accelerator_by_product_label(catalogue, "NVIDIA-H100")
    assert "h100-pcie" in caught.value.nearest


@pytest.mark.parametrize("name", ["h100-sxm", "h100-sxm5", "NVIDIA-H100-80GB-HBM3", "nvidia-h100-80gb-hbm3"])
def test_an_accelerator_by_name_alias_or_label(name: str, catalogue: Catalogue) -> None:
    assert "h100-sxm" == accelerator_by_any_name(catalogue, name).name


@pytest.mark.parametrize(
    ("name", "kind", "nearest"),
    [("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "GPU product label", ("h100-sxm",)), ("h100-sxn", "accelerator", ("h100-sxm",))],
)
def test_neither_name_nor_label(name: str, kind: str, nearest: tuple[str, ...], catalogue: Catalogue) -> None:
    with pytest.raises(UnknownName) as caught:
        accelerator_by_any_name(catalogue, name)
    assert kind == caught.value.kind
    assert nearest == caught.value.nearest[:1]
