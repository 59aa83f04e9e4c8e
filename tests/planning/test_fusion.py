"""Fusion: the document's linear layer, which operators share a kernel, what keeps them apart, launches, graphs of any shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalogue.loader import load
from service.formulas import REGISTRY
from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.kernels.requests import (
    AnalyzeFusionRequest,
    Attention,
    Elementwise,
    Gemm,
    Normalization,
    Operator,
    Reduction,
    Softmax,
)
from service.planning.kernels.results import AnalyzeFusionResponse, Form, FusionForm, FusionPlace, KernelLimit
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, InlineAccelerator
from service.settings import specs_dir

PLANNER = Planner(load(specs_dir()))
TEACHING = AcceleratorSpec(
    inline=InlineAccelerator(peak_dense_flops_per_second={"bf16": 500e12}, memory_bandwidth_bytes_per_second=2e12)
)
MIB = 2.0**20


def ask(*operators: Operator, accelerator: AcceleratorSpec = TEACHING, **asked: object) -> AnalyzeFusionResponse:
    return PLANNER.analyze_fusion(AnalyzeFusionRequest(accelerator, operators, **asked))  # type: ignore[arg-type]


def gemm(name: str, m: int, n: int, k: int, *inputs: str, alone: bool = False) -> Operator:
    return Operator(name, inputs, alone, gemm=Gemm(m, n, k))


def pointwise(name: str, *inputs: str, shape: tuple[int, ...] = (), extra: float = 0.0) -> Operator:
    return Operator(name, inputs, elementwise=Elementwise(shape, extra))


def form(answer: AnalyzeFusionResponse, wanted: Form) -> FusionForm:
    return next(each for each in answer.forms if each.form is wanted)


def kernels(answer: AnalyzeFusionResponse, wanted: Form) -> list[tuple[str, ...]]:
    return [each.operators for each in form(answer, wanted).kernels]


def linear(rows: int) -> AnalyzeFusionResponse:
    return ask(gemm("matmul", rows, 4096, 4096), pointwise("add"), pointwise("relu"))


def test_the_linear_layer_of_4096_rows() -> None:
    answer = linear(4096)
    eager, fused, epilogue = (form(answer, each) for each in Form)
    assert (eager.other_bytes, fused.other_bytes, epilogue.other_bytes) == (128 * MIB, 64 * MIB, 0)
    assert eager.other_seconds == pytest.approx(67.1e-6, rel=1e-3)
    assert fused.other_seconds == pytest.approx(33.55e-6, rel=1e-3)
    assert eager.gemm_seconds == pytest.approx(274.9e-6, rel=1e-3)
    assert eager.other_to_gemm_ratio == pytest.approx(0.244, rel=1e-3)
    assert (eager.num_launches, fused.num_launches, epilogue.num_launches) == (3, 2, 1)
    assert answer.summary.startswith("fusing saves mostly memory traffic")


def test_the_linear_layer_of_8_rows() -> None:
    answer = linear(8)
    matmul = answer.operators[0]
    assert matmul.limit is KernelLimit.MEMORY
    assert matmul.weight_bytes == 32 * MIB
    assert form(answer, Form.EAGER).other_bytes == 256 * 1024
    assert answer.summary.startswith("fusing saves mostly launches: 2 of 3 launches")


def test_a_bias_is_counted_where_it_is_given() -> None:
    answer = ask(gemm("matmul", 8, 4096, 4096), pointwise("add", extra=4096.0))
    assert answer.operators[1].num_bytes == (2 * 8 * 4096 + 4096) * 2


# -- which operators share a kernel -----------------------------------------------------------------------------------


def test_a_gated_mlp() -> None:
    answer = ask(
        Operator("norm", normalization=Normalization((512, 4096))),
        gemm("gate", 512, 14336, 4096, "norm"),
        gemm("up", 512, 14336, 4096, "norm"),
        pointwise("silu", "gate"),
        pointwise("mul", "silu", "up"),
        gemm("down", 512, 4096, 14336),
        pointwise("residual", "down", "norm"),
    )
    assert kernels(answer, Form.FUSED) == [("norm",), ("gate",), ("up",), ("silu", "mul"), ("down",), ("residual",)]
    last = kernels(answer, Form.EPILOGUE_FUSED)
    assert ("down", "residual") in last
    assert {name for group in last for name in group if "gate" in group or "up" in group} == {"gate", "up", "silu", "mul"}
    places = {each.name: each.place for each in answer.operators}
    assert places["silu"] is places["mul"] is places["residual"] is FusionPlace.GEMM_EPILOGUE
    assert places["down"] is FusionPlace.GEMM_HOST
    assert places["norm"] is FusionPlace.OWN_KERNEL


def test_a_reduction_over_another_axis_breaks_the_fusion() -> None:
    answer = ask(
        pointwise("scale", shape=(512, 4096)),
        Operator("softmax", softmax=Softmax()),
        pointwise("shift"),
        Operator("sum", reduction=Reduction(axis=0)),
    )
    assert kernels(answer, Form.FUSED) == [("scale", "softmax", "shift"), ("sum",)]
    assert answer.operators[3].shape == (1, 4096)
    assert "reduces over axis 0, and softmax over axis 1" in answer.operators[3].reason


def test_rows_are_not_reduced_in_an_epilogue() -> None:
    answer = ask(gemm("scores", 512, 512, 64), Operator("softmax", softmax=Softmax()))
    assert kernels(answer, Form.EPILOGUE_FUSED) == [("scores",), ("softmax",)]
    assert "holds only a part of each" in answer.operators[1].reason


def test_a_row_statistic_and_what_uses_it_share_a_kernel() -> None:
    answer = ask(
        pointwise("square", shape=(512, 4096)),
        Operator("mean", reduction=Reduction()),
        pointwise("divide", "square", "mean"),
    )
    assert answer.operators[1].shape == (512, 1)
    (kernel,) = form(answer, Form.FUSED).kernels
    assert kernel.num_bytes == 2 * 512 * 4096 * 2  # in once, out once


def test_what_only_a_gemm_reads_goes_into_its_prologue() -> None:
    answer = ask(pointwise("cast", shape=(512, 4096)), pointwise("scale"), gemm("matmul", 512, 1024, 4096))
    assert kernels(answer, Form.FUSED) == [("cast", "scale"), ("matmul",)]
    assert kernels(answer, Form.EPILOGUE_FUSED) == [("cast", "scale", "matmul")]
    assert [each.place for each in answer.operators] == [
        FusionPlace.GEMM_PROLOGUE,
        FusionPlace.GEMM_PROLOGUE,
        FusionPlace.GEMM_HOST,
    ]


def test_a_kernel_never_waits_for_its_own_result() -> None:
    answer = ask(
        pointwise("first", shape=(64, 64)),
        gemm("matmul", 64, 64, 64, "first"),
        Operator("softmax", softmax=Softmax()),
        pointwise("last", "first", "softmax"),
    )
    # first and last go over the same elements, but the product lies between them.
    assert not any({"first", "last"} <= set(group) for group in kernels(answer, Form.FUSED))


def test_composed_attention_writes_its_scores_and_one_call_does_not() -> None:
    shape = {"num_query_heads": 32, "head_dim": 128, "query_tokens": 4096, "is_causal": True}
    composed = ask(Operator("attention", attention=Attention(**shape, is_composed=True)))  # type: ignore[arg-type]
    called = ask(Operator("attention", attention=Attention(**shape)))  # type: ignore[arg-type]
    scores, heads = 32 * 4096.0**2, 32 * 4096.0 * 128
    assert form(composed, Form.EAGER).num_launches == 3
    assert form(composed, Form.EAGER).num_bytes == (4 * scores + 4 * heads) * 2
    assert form(composed, Form.FUSED).num_bytes == form(called, Form.EAGER).num_bytes == 4 * heads * 2
    assert called.operators[0].flops == pytest.approx(2 * scores * 128, rel=1e-3)


def test_grouped_heads_read_fewer_keys() -> None:
    answer = ask(Operator("decode", attention=Attention(32, 128, 1, num_kv_heads=8, context_tokens=4096)))
    assert answer.operators[0].num_bytes == (2 * 32 * 128 + 2 * 8 * 4096 * 128) * 2


# -- launches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("launch", [3.8e-6, 20e-6])
def test_where_launches_dominate_is_where_the_rows_say(launch: float) -> None:
    small = ask(gemm("matmul", 1, 64, 64), pointwise("add"), pointwise("relu"), launch_seconds=launch)
    eager = form(small, Form.EAGER)
    assert eager.launches_dominate
    assert eager.paced_seconds == eager.submission_seconds == pytest.approx(3 * launch)
    assert eager.graph_paced_seconds == launch
    rows = eager.kernels_dominate_from_rows
    assert rows is not None
    for at, dominates in ((rows, False), (rows - 1, True)):
        again = ask(gemm("matmul", int(at), 64, 64), pointwise("add"), pointwise("relu"), launch_seconds=launch)
        assert form(again, Form.EAGER).launches_dominate is dominates


def test_large_kernels_dominate_from_the_first_row() -> None:
    assert form(linear(8), Form.EAGER).kernels_dominate_from_rows is None
    assert not form(linear(8), Form.EAGER).launches_dominate


# -- graphs of any shape ----------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Operator, ...]:
    """Operators over 16 × 16 elements that read any of those before them."""
    made: list[Operator] = []
    for index in range(draw(st.integers(1, 9))):
        names = tuple(draw(st.lists(st.sampled_from([each.name for each in made]), max_size=2, unique=True))) if made else ()
        axis = draw(st.integers(0, 1))
        kinds: list[Operator] = [
            Operator(f"op{index}", names, not names, elementwise=Elementwise((16, 16))),
            Operator(f"op{index}", names[:1], not names, normalization=Normalization((16, 16), axis)),
            Operator(f"op{index}", names[:1], not names, softmax=Softmax((16, 16), axis)),
            Operator(f"op{index}", names, not names, gemm=Gemm(16, 16, 16)),
        ]
        made.append(draw(st.sampled_from(kinds)))
    return tuple(made)


@given(graphs())
def test_fusing_never_moves_more_and_runs_everything_once(operators: tuple[Operator, ...]) -> None:
    answer = ask(*operators)
    names = sorted(each.name for each in operators)
    eager, fused, epilogue = (form(answer, each) for each in Form)
    for each in (eager, fused, epilogue):
        assert sorted(name for kernel in each.kernels for name in kernel.operators) == names
        assert each.num_launches == len(each.kernels)
        assert each.device_seconds == pytest.approx(each.gemm_seconds + each.other_seconds)
        assert each.flops == pytest.approx(eager.flops)
    assert fused.num_bytes <= eager.num_bytes
    assert epilogue.num_bytes <= eager.num_bytes
    assert fused.num_launches <= eager.num_launches
    assert fused.device_seconds <= eager.device_seconds * (1 + 1e-12)
    inputs = {each.name: set(each.inputs) for each in operators}
    for each in (fused, epilogue):  # in an order in which they can run: no kernel reads what a later one makes
        done: set[str] = set()
        for kernel in each.kernels:
            own = set(kernel.operators)
            assert set().union(*(inputs[name] for name in own)) <= done | own
            done |= own


# -- what cannot be answered ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operators", "field"),
    [
        ((), "operators"),
        ((pointwise("add"),), "operators[0].elementwise.shape"),
        ((gemm("a", 8, 8, 8), gemm("a", 8, 8, 8)), "operators[1].name"),
        ((gemm("a", 8, 8, 8), pointwise("b", "c")), "operators[1].inputs"),
        ((gemm("a", 8, 8, 8), gemm("b", 8, 8, 16)), "operators[1].gemm"),
        ((gemm("a", 8, 8, 8), pointwise("b", shape=(3, 5))), "operators[1].elementwise.shape"),
        ((pointwise("a", shape=(0, 5)),), "operators[0].elementwise.shape"),
        ((gemm("a", 8, 8, 8), Operator("b", softmax=Softmax(axis=2))), "operators[1].softmax.axis"),
        ((gemm("a", 8, 8, 8), Operator("b", softmax=Softmax((9, 9)))), "operators[1].softmax.shape"),
        ((gemm("a", 8, 8, 8), Operator("b", ("a",), True, softmax=Softmax((8, 8)))), "operators[1].inputs"),
        ((Operator("a", attention=Attention(8, 64, 16, num_kv_heads=3)),), "operators[0].attention.num_kv_heads"),
        (
            (Operator("a", attention=Attention(8, 64, 16, context_tokens=8, is_causal=True)),),
            "operators[0].attention.context_tokens",
        ),
        ((gemm("a", 999, 999, 8), Operator("b", attention=Attention(1, 1, 1))), "operators[1].attention"),
    ],
)
def test_a_graph_that_is_none_is_refused_by_field(operators: tuple[Operator, ...], field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        ask(*operators)
    assert field in [each.field for each in refusal.value.violations]


def test_what_the_accelerator_lacks_is_said() -> None:
    with pytest.raises(Unanswerable, match="no dense fp8 peak"):
        ask(gemm("a", 8, 8, 8), precision="fp8")
    with pytest.raises(NotFound):
        ask(gemm("a", 8, 8, 8), accelerator=AcceleratorSpec(name="h100"))


def test_compile_costs_are_notes_with_sources() -> None:
    notes = linear(8).notes
    text = " ".join(each.text for each in notes)
    for word in ("guards", "compiled again", "breaks the graph", "CUDA Graph"):
        assert word in text
    assert all(each.source for each in notes)


def test_every_step_of_the_explanation_replays() -> None:
    attention = Operator("attention", (), True, attention=Attention(4, 64, 128))
    answer = ask(gemm("matmul", 8, 64, 64), pointwise("add"), attention, explain=True)
    assert answer.explanation is not None
    names = {step.name for step in answer.explanation.steps}
    assert {"gemm_flops", "fused_attention_flops", "tensor_bytes", "kernel_seconds", "submission_seconds"} <= names
    for step in answer.explanation.steps:
        assert REGISTRY[step.name].body(**step.inputs) == step.value
    figures = {figure.name: figure for figure in answer.explanation.figures}
    assert figures["launch_seconds"].sources
    assert figures["memory_bandwidth"].basis == "caller"
