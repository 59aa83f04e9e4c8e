"""Sectors of a warp's access: the document's figures, patterns against addresses, what the hardware refuses, remedies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.formulas import REGISTRY
from service.planning.errors import InvalidRequest
from service.planning.kernels.memory_access import analyze_memory_access
from service.planning.kernels.requests import AnalyzeMemoryAccessRequest, StructureLayout
from service.planning.kernels.results import AnalyzeMemoryAccessResponse


def ask(**asked: object) -> AnalyzeMemoryAccessResponse:
    return analyze_memory_access(AnalyzeMemoryAccessRequest(**asked), "revision")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "sectors", "efficiency"),
    [
        ({}, 4, 1.0),
        ({"offset_elements": 1}, 5, 0.8),
        ({"stride_elements": 2}, 8, 0.5),
        ({"stride_elements": 32}, 32, 0.125),
        ({"stride_elements": 0}, 1, 0.125),
        ({"stride_elements": -1, "offset_elements": 31}, 4, 1.0),
        ({"element_bytes": 1}, 1, 1.0),
        ({"element_bytes": 2, "stride_elements": 16}, 32, 1 / 16),
        ({"element_bytes": 8}, 8, 1.0),
        ({"element_bytes": 16}, 16, 1.0),
        ({"structure": StructureLayout(12, 4)}, 12, 1 / 3),
        ({"structure": StructureLayout(16)}, 16, 0.25),
        ({"active_mask": "0x0000ffff"}, 2, 1.0),
        ({"active_mask": "1"}, 1, 0.125),
        ({"addresses_bytes": tuple(float(4 * lane) for lane in reversed(range(32)))}, 4, 1.0),
        ({"addresses_bytes": (0.0, 4096.0, 4100.0)}, 2, 12 / 64),
    ],
)
def test_sectors_and_efficiency(asked: dict[str, object], sectors: int, efficiency: float) -> None:
    answer = ask(**asked)
    assert answer.sectors_per_request == sectors
    assert answer.moved_bytes == sectors * 32
    assert answer.efficiency_ratio == pytest.approx(efficiency)


def test_eight_bytes_are_served_by_half_warps_and_sixteen_by_quarters() -> None:
    halves = ask(element_bytes=8, offset_elements=1)
    assert [(group.first_lane, group.num_lanes, group.sectors) for group in halves.groups] == [(0, 16, 5), (16, 16, 5)]
    assert "half-warp by half-warp" in " ".join(halves.notes)
    quarters = ask(element_bytes=16)
    assert [group.num_lanes for group in quarters.groups] == [8, 8, 8, 8]
    assert "quarter-warp" in quarters.notes[0]


def test_a_group_without_active_lanes_moves_nothing() -> None:
    assert [group.first_lane for group in ask(element_bytes=16, active_mask="0xff0000ff").groups] == [0, 24]


def test_neighbouring_warps_use_the_rest_of_an_offset_but_not_of_a_stride() -> None:
    offset, strided = ask(offset_elements=1), ask(stride_elements=32)
    assert offset.efficiency_ratio == 0.8
    assert offset.efficiency_with_reuse_ratio == pytest.approx(1.0, abs=0.01)
    assert strided.efficiency_with_reuse_ratio == strided.efficiency_ratio == 0.125
    assert ask(addresses_bytes=(0.0,)).efficiency_with_reuse_ratio is None


def test_of_the_starts_that_an_alignment_allows_the_worst_is_answered_for() -> None:
    answer = ask(base_alignment_bytes=4)
    assert (answer.sectors_per_request, answer.best_sectors_per_request) == (5, 4)
    assert any("the worst is answered for" in each for each in answer.assumptions)
    assert ask(base_alignment_bytes=32).sectors_per_request == 4
    assert ask().best_sectors_per_request is None


# A pattern and the addresses that it stands for are the same question.


@given(
    element=st.sampled_from([1, 2, 4, 8, 16]),
    stride=st.integers(-40, 40),
    offset=st.integers(1300, 1400),
    mask=st.integers(1, 2**32 - 1),
)
def test_a_pattern_is_the_addresses_that_it_stands_for(element: int, stride: int, offset: int, mask: int) -> None:
    pattern = ask(element_bytes=element, stride_elements=stride, offset_elements=offset, active_mask=hex(mask))
    addresses = tuple(float((offset + lane * stride) * element) for lane in range(32))
    listed = ask(element_bytes=element, addresses_bytes=addresses, active_mask=hex(mask))
    assert pattern.groups == listed.groups
    assert pattern.efficiency_ratio == listed.efficiency_ratio
    assert pattern.num_active_lanes == mask.bit_count()


@given(
    element=st.sampled_from([1, 2, 4, 8, 16]),
    stride=st.integers(0, 64),
    offset=st.integers(0, 64),
    struct=st.integers(1, 16),
    alignment=st.sampled_from([16, 32, 64, 128, 256]),
)
def test_what_is_counted_adds_up(element: int, stride: int, offset: int, struct: int, alignment: int) -> None:
    answer = ask(
        element_bytes=element,
        stride_elements=stride,
        offset_elements=offset,
        base_alignment_bytes=alignment,
        structure=StructureLayout(struct * element, (struct - 1) * element),
    )
    assert answer.sectors_per_request >= answer.ideal_sectors_per_request
    assert answer.lines_per_request <= answer.sectors_per_request <= 4 * answer.lines_per_request
    assert answer.sectors_per_request == sum(group.sectors for group in answer.groups)
    assert 0 < answer.efficiency_ratio <= 1
    assert answer.efficiency_with_reuse_ratio is not None
    assert 0 < answer.efficiency_with_reuse_ratio <= 1
    if answer.sectors_per_request == answer.ideal_sectors_per_request:
        assert answer.remedies == ()
    elif stride:
        assert answer.remedies


# -- what the hardware refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "field", "reason"),
    [
        ({"element_bytes": 12}, "element_bytes", "not 12"),
        ({"structure": StructureLayout(6)}, "structure.struct_bytes", "no multiple of 4"),
        ({"structure": StructureLayout(8, 2)}, "structure.field_offset_bytes", "no multiple of 4"),
        ({"structure": StructureLayout(8, 6)}, "structure.field_offset_bytes", "ends beyond"),
        ({"base_alignment_bytes": 48}, "base_alignment_bytes", "no power of two"),
        ({"base_alignment_bytes": 2}, "base_alignment_bytes", "need not start"),
        ({"addresses_bytes": (0.0, 2.0)}, "addresses_bytes[1]", "no multiple of 4"),
        ({"addresses_bytes": (-4.0,)}, "addresses_bytes[0]", "no byte address"),
        ({"addresses_bytes": (0.5,)}, "addresses_bytes[0]", "no byte address"),
        ({"addresses_bytes": (float("nan"),)}, "addresses_bytes[0]", "no byte address"),
        ({"addresses_bytes": (0.0,), "stride_elements": 2}, "stride_elements", "says already"),
        ({"addresses_bytes": (0.0,), "active_mask": "0x3"}, "active_mask", "only 1 addresses"),
        ({"active_mask": "0"}, "active_mask", "no mask"),
        ({"active_mask": "0x1ffffffff"}, "active_mask", "no mask"),
        ({"active_mask": "lanes"}, "active_mask", "no mask"),
        ({"active_mask": "-1"}, "active_mask", "no mask"),
        ({"active_mask": "f_f"}, "active_mask", "no mask"),
    ],
)
def test_what_cannot_be_is_refused_by_field_and_reason(asked: dict[str, object], field: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        ask(**asked)
    assert {each.field: reason in each.reason for each in refusal.value.violations}[field]


# -- remedies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ({"stride_elements": 32}, "lowest dimension"),
        ({"structure": StructureLayout(12, 4)}, "structure of arrays"),
        ({"offset_elements": 1}, "multiple of 32 bytes"),
        ({"addresses_bytes": (0.0, 4096.0)}, "sort the indices"),
        ({"active_mask": "0xf"}, "28 lanes are idle"),
    ],
)
def test_each_waste_has_its_remedy(asked: dict[str, object], remedy: str) -> None:
    assert remedy in ask(**asked).remedies[0]


def test_every_step_of_the_explanation_replays_and_is_the_answer() -> None:
    answer = ask(element_bytes=8, stride_elements=3, offset_elements=1, explain=True)
    assert answer.explanation is not None
    counted = []
    for step in answer.explanation.steps:
        assert REGISTRY[step.name].body(**step.inputs) == step.value
        if step.name == "sectors_per_group":
            counted.append(step.value)
    assert counted == [group.sectors for group in answer.groups]
    assert answer.explanation.steps[-2].value == answer.efficiency_ratio
