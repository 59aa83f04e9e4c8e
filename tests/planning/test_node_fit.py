"""Which shapes fit a node, how many sequences they hold, and what the others lack."""

import pytest
from msgspec.structs import replace

from service.planning import shape_search
from service.planning.errors import InvalidRequest, NotFound, TooLarge
from service.planning.planner import Planner
from service.planning.requests import (
    AcceleratorSpec,
    DenseModel,
    EngineSpec,
    FitNodeRequest,
    InlineAccelerator,
    ModelSpec,
    NodeSpec,
    Parallelism,
    Precision,
)
from service.planning.results import FitCandidate, FitLimit
from tests.planning.questions import decode, fit


@pytest.mark.parametrize(
    ("model", "devices", "sequences"),
    [("llama-3.1-70b", 2, 9), ("mixtral-8x7b", 2, 112), ("deepseek-v3", 16, 117), ("gpt-oss-120b", 1, 75)],
)
def test_smallest_shape_on_8_gpu_h100_nodes(planner: Planner, model: str, devices: int, sequences: int) -> None:
    answer = planner.fit_node(fit(model))
    assert answer.smallest is not None
    assert answer.smallest.num_devices == devices
    assert answer.smallest.max_sequences == sequences
    assert f"holds {sequences} sequences" in answer.summary
    assert not answer.smallest.uneven_pipeline
    assert not answer.smallest.partial_node


def test_marked_shapes_come_after_plain_ones(planner: Planner) -> None:
    candidates = planner.fit_node(fit("deepseek-v3")).candidates
    marked = [candidate.uneven_pipeline or candidate.partial_node for candidate in candidates]
    assert any(marked)
    assert marked == sorted(marked)
    for plain in (True, False):
        sizes = [c.num_devices for c, is_marked in zip(candidates, marked, strict=True) if is_marked is not plain]
        assert sizes == sorted(sizes)


def test_deepseek_v3_fits_fewer_gpus_only_with_part_of_a_second_node(planner: Planner) -> None:
    smaller = [c for c in planner.fit_node(fit("deepseek-v3")).candidates if c.fits and c.num_devices < 16]
    assert smaller
    assert all(candidate.partial_node or candidate.uneven_pipeline for candidate in smaller)


def test_every_candidate_is_a_shape_that_the_other_questions_accept(planner: Planner) -> None:
    for candidate in planner.fit_node(fit("llama-3.1-70b", max_num_nodes=2)).candidates:
        answer = planner.estimate_decode(
            decode("llama-3.1-70b", shape=candidate.parallelism, context=4096, batch=max(1, int(candidate.max_sequences)))
        )
        assert answer.fits is candidate.fits
        assert candidate.parallelism.tensor not in {3, 5, 6, 7, 9}


def test_a_shape_that_does_not_fit_says_what_would(planner: Planner) -> None:
    candidates = planner.fit_node(fit("llama-3.1-70b")).candidates
    one = next(candidate for candidate in candidates if candidate.num_devices == 1)
    assert one.shortfall is not None
    assert one.headroom_bytes_per_device < 0
    assert one.shortfall.cures[-1].value == "tensor 2"
    assert "holds 9 sequences" in one.shortfall.cures[-1].description


def test_concurrency_decides_the_smallest(planner: Planner) -> None:
    nine, ten = (planner.fit_node(fit("llama-3.1-70b", concurrency=n)).smallest for n in (9, 10))
    assert nine is not None
    assert ten is not None
    assert nine.num_devices == 2
    assert ten.num_devices == 4
    assert ten.max_sequences >= 10


def test_what_fits_no_node_count_allowed_is_said(planner: Planner) -> None:
    answer = planner.fit_node(fit("deepseek-v3", max_num_nodes=1))
    assert answer.fits is False
    assert answer.smallest is None
    assert all(candidate.shortfall is not None for candidate in answer.candidates)
    assert answer.summary == "no shape on up to 1 node of h100-sxm fits"


def test_a_node_by_accelerator_and_count(planner: Planner) -> None:
    request = FitNodeRequest(
        model=ModelSpec(name="llama-3.1-70b"),
        context_tokens=4096,
        accelerator=AcceleratorSpec(name="h100-sxm"),
        devices_per_node=8,
    )

    def without_cures(request: FitNodeRequest) -> list[FitCandidate]:  # which name what the request names
        return [
            replace(each, shortfall=each.shortfall and replace(each.shortfall, cures=()))
            for each in planner.fit_node(request).candidates
        ]

    assert without_cures(request) == without_cures(fit("llama-3.1-70b"))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "node"),
        ({"node": NodeSpec("dgx-h100"), "accelerator": AcceleratorSpec(name="h100-sxm")}, "node"),
        ({"accelerator": AcceleratorSpec(name="h100-sxm")}, "devices_per_node"),
        ({"node": NodeSpec("dgx-h100"), "devices_per_node": 4}, "devices_per_node"),
    ],
)
def test_a_node_is_one_thing_or_the_other(planner: Planner, given: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.fit_node(FitNodeRequest(model=ModelSpec(name="llama-3.1-8b"), context_tokens=1, **given))  # type: ignore[arg-type]
    assert [violation.field for violation in refusal.value.violations] == [field]


def test_unknown_node_types_get_the_nearest(planner: Planner) -> None:
    with pytest.raises(NotFound) as refusal:
        planner.fit_node(fit("llama-3.1-8b", node="p5.48xlarg"))
    assert "aws-p5.48xlarge" in refusal.value.nearest


def test_a_fit_without_sequences_is_refused(planner: Planner) -> None:
    with pytest.raises(InvalidRequest, match="no fit means anything"):
        planner.fit_node(fit(DenseModel(7e9)))


def test_no_candidate_at_all_is_said(planner: Planner) -> None:
    # 7 query heads over nodes of one tiny device: nothing but one device and pipelines of a single layer.
    request = FitNodeRequest(
        model=ModelSpec(dense=DenseModel(1e12, 1, 7, 7, 64)),
        context_tokens=1,
        accelerator=AcceleratorSpec(inline=InlineAccelerator(usable_memory_bytes=1e9)),
        devices_per_node=1,
        max_num_nodes=1,
    )
    answer = planner.fit_node(request)
    assert [candidate.parallelism for candidate in answer.candidates] == [Parallelism()]
    assert answer.fits is False


def test_each_shape_says_how_far_it_goes(planner: Planner) -> None:
    two = next(c for c in planner.fit_node(fit("llama-3.1-70b")).candidates if c.parallelism == Parallelism(tensor=2))
    assert two.replicas_per_node == 4
    assert two.binding_limit is FitLimit.KV_CACHE
    assert not two.crosses_link_domain
    # 6.41 GB beside the weights at 163,840 bytes per token on each of the two.
    assert two.longest_context_tokens == (0.9 * 81_559 * 2**20 - two.weight_bytes_per_device) // 163_840
    assert two.max_sequences_at_model_limit == 0


def test_the_longest_context_fits_and_one_more_token_does_not(planner: Planner) -> None:
    for model in ("llama-3.1-70b", "gpt-oss-120b", "gemma-3-27b"):
        best = planner.fit_node(fit(model)).smallest
        assert best is not None
        longest = int(best.longest_context_tokens)
        for context, fits in ((longest, True), (longest + 1, False)):
            answer = planner.estimate_decode(decode(model, shape=best.parallelism, context=context))
            assert answer.fits is (fits or longest == 131_072)  # the model itself goes no further


def test_a_group_over_nodes_crosses_the_link_domain_and_comes_later(planner: Planner) -> None:
    candidates = planner.fit_node(fit("llama-3.1-405b-fp8", max_num_nodes=2)).candidates
    sixteen = [c for c in candidates if c.num_devices == 16 and not c.uneven_pipeline]
    crossing = [c.crosses_link_domain for c in sixteen]
    assert True in crossing
    assert False in crossing
    assert crossing == sorted(crossing)


def test_cures_are_true(planner: Planner) -> None:
    request = fit("llama-3.1-70b", concurrency=12)
    two = next(c for c in planner.fit_node(request).candidates if c.parallelism == Parallelism(tensor=2))
    assert two.shortfall is not None
    cures = {cure.field: cure.value for cure in two.shortfall.cures}
    assert cures["concurrency"] == "9"
    nine = next(c for c in planner.fit_node(fit("llama-3.1-70b", concurrency=9)).candidates if c.parallelism == two.parallelism)
    assert nine.fits is True
    fp8 = planner.fit_node(fit("llama-3.1-70b", concurrency=12, precision=Precision(kv_cache=cures["precision.kv_cache"])))
    assert fp8.smallest is not None
    assert fp8.smallest.num_devices == 2
    larger = planner.fit_node(fit("llama-3.1-70b", cures["node.name"], concurrency=12)).candidates
    assert next(c for c in larger if c.parallelism == two.parallelism).fits is True


def test_weights_that_do_not_fit_are_what_binds(planner: Planner) -> None:
    one = planner.fit_node(fit("llama-3.1-70b")).candidates[0]
    assert one.binding_limit is FitLimit.WEIGHTS
    assert one.longest_context_tokens == 0


def test_the_cure_of_a_named_node_is_another_node(planner: Planner) -> None:
    def cures(request: FitNodeRequest) -> dict[str, str]:
        (one,) = (each for each in planner.fit_node(request).candidates if each.parallelism == Parallelism(tensor=8))
        assert one.shortfall is not None
        return {cure.field: cure.value for cure in one.shortfall.cures}

    # DeepSeek-V3 takes some 82 GiB on each of eight devices. Of AWS's nodes of eight the next larger have 96 GB a device
    # (RTX PRO 6000), of NVIDIA's own 141 GB (H200).
    for node, larger in (("aws-p5.48xlarge", "aws-g7e.48xlarge"), ("dgx-h100", "dgx-h200")):
        by_node = cures(
            FitNodeRequest(model=ModelSpec(name="deepseek-v3"), node=NodeSpec(name=node), context_tokens=4096, max_num_nodes=1)
        )
        assert "accelerator.name" not in by_node
        assert larger == by_node["node.name"]
        cured = FitNodeRequest(model=ModelSpec(name="deepseek-v3"), node=NodeSpec(name=larger), context_tokens=4096)
        assert planner.fit_node(cured).fits
    by_device = cures(
        FitNodeRequest(
            model=ModelSpec(name="deepseek-v3"),
            accelerator=AcceleratorSpec(name="h100-sxm"),
            devices_per_node=8,
            context_tokens=4096,
            max_num_nodes=1,
        )
    )
    assert "node.name" not in by_device
    assert "rtx-pro-6000-server" == by_device["accelerator.name"]  # 96 GB; no node has eight H100 NVL (94 GB)
    assert "int4" == by_device["precision.weights"]  # an H100 multiplies nothing of 4 bits: widened to 16
    assert "memory_utilization_ratio" not in by_device  # 0.999 would do by arithmetic, and leave an engine nothing


def test_a_fit_over_several_nodes_says_that_one_is_too_small(planner: Planner) -> None:
    found = planner.fit_node(
        FitNodeRequest(model=ModelSpec(name="deepseek-v3"), node=NodeSpec(name="dgx-h100"), context_tokens=4096)
    )
    assert found.summary.startswith("No shape on one node fits; 16 × h100-sxm (tensor 16) on 2 nodes is the smallest")
    assert "with even stages on whole nodes" in found.summary  # ten devices hold it too, their stages uneven
    assert planner.fit_node(fit("llama-3.1-70b")).summary.startswith("2 × h100-sxm (tensor 2) is the smallest that fits; it")


def test_the_longest_context_ends_at_the_models_own(planner: Planner) -> None:
    # Gemma 3's text_config says nothing of it: the class default of transformers, 131,072.
    request = FitNodeRequest(model=ModelSpec(name="gemma-3-27b-it"), node=NodeSpec(name="dgx-h100"), context_tokens=8)
    answer = planner.fit_node(request)
    assert {131_072} == {each.longest_context_tokens for each in answer.candidates if each.fits and each.num_devices == 8}
    assert all(each.max_sequences_at_model_limit is not None for each in answer.candidates)
    assert any("class default of gemma3" in note and "max_position_embeddings 131072" in note for note in answer.assumptions)
    llama = planner.fit_node(replace(request, model=ModelSpec(name="llama-2-13b")))
    assert 4096 == max(each.longest_context_tokens for each in llama.candidates)


def test_what_takes_too_long_is_refused_and_not_left_out(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_search, "TIME_BUDGET_SECONDS", 0.0)
    with pytest.raises(TooLarge, match="allow fewer with max_num_nodes, or leave the engine out") as refused:
        planner.fit_node(replace(fit("deepseek-v3", max_num_nodes=64), engine=EngineSpec("vllm")))
    assert "max_num_nodes" == refused.value.field
