"""The catalogue as it is listed."""

import pytest

from service.architectures.architecture import Role
from service.planning.errors import InvalidRequest, NotFound
from service.planning.planner import Planner
from service.planning.requests import Page


def test_pages_cover_the_list_once_and_in_order(planner: Planner) -> None:
    names, token = [], ""
    while True:
        page = planner.list_accelerators(Page(page_size=7, page_token=token))
        names += [accelerator.name for accelerator in page.accelerators]
        token = page.next_page_token
        if not token:
            break
    assert names == sorted(planner.catalogue.accelerators)


@pytest.mark.parametrize("token", ["!", "a", "äö", "////"])
def test_a_token_that_nobody_gave_out_is_refused(planner: Planner, token: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.list_models(Page(page_token=token))
    assert refusal.value.violations[0].field == "page_token"


def test_an_accelerator_shows_figure_basis_source_and_conflict(planner: Planner) -> None:
    h100 = planner.get_accelerator("H100-SXM").accelerator
    assert h100.memory_bandwidth is not None
    assert h100.memory_bandwidth.value == pytest.approx(3352e9)
    assert h100.memory_bandwidth.printed_unit == "GB/s"
    assert h100.memory_bandwidth.sources[0].title
    assert h100.usable_memory is not None
    assert h100.usable_memory.printed_value == 81_559
    assert {(p.precision, p.sparsity) for p in h100.peaks} >= {("bf16", "dense"), ("bf16", "structured_2_4")}
    assert h100.conflicts


def test_a_model_shows_what_its_config_says_beside_what_is_declared(planner: Planner) -> None:
    model = planner.get_model("deepseek-ai/DeepSeek-V3").model
    assert model.name == "deepseek-v3"
    assert model.declared_parameters.value == pytest.approx(model.total_parameters, rel=0.01)
    assert model.kv_bytes_per_token == 70_272


def test_a_node_type(planner: Planner) -> None:
    node = planner.get_node_type("dgx-h100").node_type
    assert (node.accelerator, node.num_devices) == ("h100-sxm", 8)


#: model → the audio encoder that its publisher counts and its config.json leaves null, as the card rounds it.
UNDESCRIBED_AUDIO = {"gemma-4-e2b": 0.3e9, "gemma-4-e4b": 0.3e9}


def test_every_declared_total_agrees_with_its_reading(planner: Planner) -> None:
    page = planner.list_models(Page(page_size=500))
    assert len(page.models) == len(planner.catalogue.models) >= 118
    for model in page.models:
        described = model.declared_parameters.value - UNDESCRIBED_AUDIO.get(model.name, 0.0)
        # Publishers round and cut: 405 billion for 405.85, 400 for 401.2, one trillion for 1.027 at the worst.
        assert model.total_parameters == pytest.approx(described, rel=0.03), model.name


def test_every_declared_active_count_agrees_with_its_reading(planner: Planner) -> None:
    declared = [model for model in planner.list_models(Page(page_size=500)).models if model.declared_active_parameters]
    assert len(declared) >= 40
    for model in declared:
        assert model.declared_active_parameters is not None
        architecture = planner.resolver.named_architecture(model.name)
        embedding = sum(t.num_parameters for t in architecture.outer if t.role is Role.EMBEDDING)
        head = sum(t.num_parameters for t in architecture.outer if t.role is Role.LM_HEAD)
        # Publishers count the input embedding, leave it out, or leave the lm_head out as well.
        conventions = (0.0, embedding, embedding + head)
        value, printed = model.declared_active_parameters.value, model.declared_active_parameters.printed_value
        # One digit says no more than its half: "3 billion" is 2.5 to 3.5.
        half_digit = value / printed / 2 if printed in range(1, 10) else 0.0
        agrees = pytest.approx(value, rel=0.035, abs=half_digit)
        assert any(model.active_parameters - left_out == agrees for left_out in conventions), model.name


@pytest.mark.parametrize("get", ["get_accelerator", "get_model", "get_node_type"])
def test_unknown_names(planner: Planner, get: str) -> None:
    with pytest.raises(NotFound):
        getattr(planner, get)("nothing-of-the-kind")
