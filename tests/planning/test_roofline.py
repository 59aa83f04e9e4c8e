"""The roofline as data, and as a picture that is valid XML, described in words, with nothing outside its axes."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalogue.loader import load
from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.kernels.requests import (
    AnalyzeFusionRequest,
    DrawRooflineRequest,
    Elementwise,
    Gemm,
    Operator,
    OwnPoint,
    OwnPoints,
)
from service.planning.kernels.results import DrawRooflineResponse
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, EstimateDecodeRequest, InlineAccelerator, ModelSpec, Parallelism
from service.settings import specs_dir

PLANNER = Planner(load(specs_dir()))
H100 = AcceleratorSpec(name="h100-sxm")
SVG = "{http://www.w3.org/2000/svg}"


def own(*points: OwnPoint, accelerator: AcceleratorSpec = H100, precisions: str = "", title: str = "") -> DrawRooflineResponse:
    return PLANNER.draw_roofline(DrawRooflineRequest(own=OwnPoints(accelerator, points), precisions=precisions, title=title))


def parsed(answer: DrawRooflineResponse) -> ElementTree.Element:
    root = ElementTree.fromstring(answer.svg)
    assert root.tag == f"{SVG}svg"
    return root


def texts(answer: DrawRooflineResponse) -> list[str]:
    return [each.text or "" for each in parsed(answer).iter(f"{SVG}text")]


def test_a_decode_step_moves_along_the_roof_with_its_batch() -> None:
    asked = EstimateDecodeRequest(ModelSpec(name="llama-3.1-8b"), H100, batch_size=64, context_tokens=4096)
    answer = PLANNER.draw_roofline(DrawRooflineRequest(decode=asked))
    (roof,) = answer.roofs
    assert roof.precision == "bf16"
    assert roof.ridge_point_flops_per_byte == pytest.approx(295.17, rel=1e-4)
    bound = PLANNER.estimate_decode(asked).bound
    (point,) = (each for each in answer.points if "as asked" in each.label)
    assert point.arithmetic_intensity_flops_per_byte == bound.arithmetic_intensity_flops_per_byte
    assert point.bound_flops_per_second == bound.flops / bound.step_seconds
    intensities = [each.arithmetic_intensity_flops_per_byte for each in answer.points]
    assert intensities == sorted(intensities)
    assert any("does not fit" in each.label for each in answer.points)
    assert {figure.name for figure in answer.figures} == {"memory_bandwidth", "peak_dense.bf16"}


def test_no_point_of_a_split_model_lies_above_the_roof() -> None:
    asked = EstimateDecodeRequest(
        ModelSpec(name="llama-3.1-70b"), H100, Parallelism(tensor=8), batch_size=8, context_tokens=999
    )
    for point in PLANNER.draw_roofline(DrawRooflineRequest(decode=asked)).points:
        assert point.bound_flops_per_second <= min(989.4e12, point.arithmetic_intensity_flops_per_byte * 3352e9) * (1 + 1e-9)


def test_operators_and_the_kernel_that_they_fuse_to() -> None:
    operators = (Operator("matmul", gemm=Gemm(4096, 4096, 4096)), Operator("relu", elementwise=Elementwise()))
    idle = Operator("copy", elementwise=Elementwise(flops_per_element=0.0))
    answer = PLANNER.draw_roofline(DrawRooflineRequest(fusion=AnalyzeFusionRequest(H100, (*operators, idle))))
    assert [each.label for each in answer.points] == ["matmul", "relu", "fused: matmul + relu + copy"]
    assert answer.points[1].arithmetic_intensity_flops_per_byte == 0.25
    assert answer.points[1].bound_flops_per_second == pytest.approx(0.25 * 3352e9)
    assert "left out" in answer.assumptions[0]


def test_own_points_are_held_against_the_roof_asked_for() -> None:
    measured = OwnPoint(2000.0, "mine", 600e12)
    answer = own(measured, OwnPoint(1.0), precisions="fp16, fp8")
    assert [roof.precision for roof in answer.roofs] == ["fp8", "fp16"]
    assert [each.bound_flops_per_second for each in answer.points] == pytest.approx([989.4e12, 3352e9])
    assert answer.points[0].attained_flops_per_second == 600e12
    assert answer.points[1].label == "point 2"
    above = own(OwnPoint(1.0, "too good", 1e15))
    assert any("too good lies above the bf16 roof" in each for each in above.assumptions)


def test_formats_of_one_peak_share_a_line() -> None:
    assert "bf16, fp16" in texts(own(OwnPoint(10.0)))


# -- the picture ------------------------------------------------------------------------------------------------------


def test_the_picture_is_told_in_words() -> None:
    answer = own(OwnPoint(10.0, "mine"))
    root = parsed(answer)
    assert root.get("role") == "img"
    names = (root.get("aria-labelledby") or "").split()
    told = {each.get("id"): each.text or "" for each in root if each.tag in {f"{SVG}title", f"{SVG}desc"}}
    assert list(told) == names
    assert told[names[0]] == "Roofline on h100-sxm"
    assert "1 mine: 10 FLOP per byte, 33.5 TFLOP/s" in told[names[1]]


def test_text_from_outside_is_escaped() -> None:
    answer = own(OwnPoint(10.0, "</text><script>alert(1)</script> & \x00\x1f\ud800"), title='"><b>&amp;\x07')
    assert "<script" not in answer.svg
    assert "</text><script>alert(1)</script> & " in texts(answer)
    assert '"><b>&amp;' in texts(answer)


@given(
    points=st.lists(
        st.builds(
            OwnPoint,
            st.floats(1e-6, 1e12),
            st.text(max_size=60),
            st.one_of(st.none(), st.floats(1, 1e21)),
        ),
        min_size=1,
        max_size=12,
    ),
    peak=st.floats(1, 1e21),
    bandwidth=st.floats(1, 1e18),
)
def test_whatever_is_drawn_is_valid_and_inside_its_axes(points: list[OwnPoint], peak: float, bandwidth: float) -> None:
    inline = InlineAccelerator(peak_dense_flops_per_second={"bf16": peak}, memory_bandwidth_bytes_per_second=bandwidth)
    answer = own(*points, accelerator=AcceleratorSpec(inline=inline))
    root = parsed(answer)
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    for circle in root.iter(f"{SVG}circle"):
        assert 90 < float(circle.get("cx") or 0) < width
        assert 60 < float(circle.get("cy") or 0) < height
    assert len(list(root.iter(f"{SVG}circle"))) == len(points)
    numbers = re.findall(r' (?:points|x|y|cx|cy|x1|y1|x2|y2)="([^"]*)"', answer.svg)
    assert not any(word in number for number in numbers for word in ("nan", "inf", "e"))
    assert len([each for each in texts(answer) if each.endswith("FLOP/s")]) >= 1


# -- what cannot be answered ------------------------------------------------------------------------------------------


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"own\.points"):
        own()
    with pytest.raises(Unanswerable, match="no dense fp4 peak"):
        own(OwnPoint(1.0), precisions="fp4")
    with pytest.raises(Unanswerable):
        own(OwnPoint(1.0), accelerator=AcceleratorSpec(inline=InlineAccelerator()))
    with pytest.raises(NotFound):
        own(OwnPoint(1.0), accelerator=AcceleratorSpec(name="h100"))
