"""MFU on every basis, against the figures that the same run is quoted with."""

import csv
from pathlib import Path

import pytest

from service.planning.errors import InvalidRequest, Unanswerable
from service.planning.planner import Planner
from service.planning.requests import (
    AcceleratorSpec,
    ComputeUtilizationRequest,
    DenseModel,
    InlineAccelerator,
    ModelSpec,
    Phase,
)
from service.planning.results import ComputeUtilizationResponse, Utilization, UtilizationBasis

SEVEN_B = ModelSpec(dense=DenseModel(7e9, num_layers=32, num_query_heads=32, num_kv_heads=32, head_dim=128))
H100 = AcceleratorSpec(name="h100-sxm")


def training_run(**changed: object) -> ComputeUtilizationRequest:
    given: dict[str, object] = {
        "model": SEVEN_B,
        "accelerator": H100,
        "num_devices": 8,
        "peak_precision": "bf16",
        "phase": Phase.TRAINING,
        "tokens_per_second": 72_018,
        "sequence_tokens": 4096,
    }
    return ComputeUtilizationRequest(**(given | changed))  # type: ignore[arg-type]


def on(answer: ComputeUtilizationResponse, basis: UtilizationBasis) -> Utilization:
    return next(each for each in answer.utilizations if each.basis is basis)


@pytest.mark.parametrize(
    ("basis", "ratio", "valid"),
    [
        (UtilizationBasis.MFU_6N, 0.3821, True),
        (UtilizationBasis.MFU_6N_ATTENTION_FULL, 0.4408, True),
        (UtilizationBasis.MFU_6N_ATTENTION_CAUSAL, (0.3821 + 0.4408) / 2, True),
        (UtilizationBasis.HFU_6N_FULL_RECOMPUTATION, 0.5095, True),
        (UtilizationBasis.MFU_6N_SPARSE_PEAK, 0.1911, False),
    ],
)
def test_one_training_run_on_every_basis(planner: Planner, basis: UtilizationBasis, ratio: float, valid: bool) -> None:
    found = on(planner.compute_utilization(training_run()), basis)
    assert found.ratio == pytest.approx(ratio, rel=1e-3)
    assert found.valid is valid
    assert bool(found.warning) is (not valid or "HFU" in basis)


def test_palm_540b(planner: Planner) -> None:
    palm = training_run(
        model=ModelSpec(dense=DenseModel(540.35e9, num_layers=118, num_query_heads=48, num_kv_heads=1, head_dim=256)),
        accelerator=AcceleratorSpec(inline=InlineAccelerator(peak_dense_flops_per_second={"bf16": 275e12})),
        num_devices=6144,
        tokens_per_second=238_300,
        sequence_tokens=2048,
    )
    answer = planner.compute_utilization(palm)
    assert on(answer, UtilizationBasis.MFU_6N_ATTENTION_FULL).ratio == pytest.approx(0.462, abs=0.0005)
    hfu = on(answer, UtilizationBasis.HFU_6N_ATTENTION_FULL_FULL_RECOMPUTATION)
    assert hfu.ratio == pytest.approx(0.616, abs=0.0005)
    assert "not comparable between systems" in hfu.warning


def test_the_statement_says_what_the_figure_rests_on(planner: Planner) -> None:
    answer = planner.compute_utilization(training_run(tokens_include_padding=False))
    assert answer.recommended_basis is UtilizationBasis.MFU_6N_ATTENTION_FULL
    for part in (
        "44.1%",
        "attention counted in full",
        "dense bf16 peak of 989.4 TFLOP/s",
        "excludes padding",
        "N = 7 billion",
        "72,018 tokens/s",
    ):
        assert part in answer.statement


def test_without_a_sequence_length_attention_is_left_out_and_said_to_be(planner: Planner) -> None:
    answer = planner.compute_utilization(training_run(sequence_tokens=None))
    assert answer.recommended_basis is UtilizationBasis.MFU_6N
    assert "attention left out: sequence_tokens is not given" in answer.assumptions


def test_experts_count_the_parameters_that_a_token_passes(planner: Planner) -> None:
    answer = planner.compute_utilization(training_run(model=ModelSpec(name="mixtral-8x7b")))
    active, total = (on(answer, b) for b in (UtilizationBasis.MFU_6N, UtilizationBasis.MFU_6N_TOTAL_PARAMETERS))
    assert total.ratio / active.ratio == pytest.approx(46.70e9 / 12.88e9, rel=1e-3)
    assert not total.valid
    assert answer.num_active_parameters == pytest.approx(12.88e9, rel=1e-3)


def test_decode_is_quoted_by_bandwidth(planner: Planner) -> None:
    request = training_run(
        phase=Phase.DECODE,
        num_devices=1,
        tokens_per_second=2218.05,
        sequence_tokens=4096,
        batch_size=64,
        model=ModelSpec(dense=DenseModel(7e9, num_layers=32, num_query_heads=32, num_kv_heads=8, head_dim=128)),
    )
    answer = planner.compute_utilization(request)
    # Half of the bound of 4,436 tokens/s is half of the bandwidth.
    assert on(answer, UtilizationBasis.MBU).ratio == pytest.approx(0.5, rel=1e-4)
    assert answer.recommended_basis is UtilizationBasis.MBU
    assert on(answer, UtilizationBasis.MFU_2N).ratio == pytest.approx(2 * 7e9 * 2218.05 / 989.4e12)


def test_prefill_is_causal(planner: Planner) -> None:
    answer = planner.compute_utilization(training_run(phase=Phase.PREFILL, tokens_per_second=200_000))
    assert answer.recommended_basis is UtilizationBasis.MFU_2N_ATTENTION_CAUSAL


def test_more_than_the_peak_is_said_to_be_wrong(planner: Planner) -> None:
    found = on(planner.compute_utilization(training_run(tokens_per_second=1e6)), UtilizationBasis.MFU_6N)
    assert found.ratio > 1
    assert not found.valid
    assert "no run beats its peak" in found.warning


def test_what_nvidia_smi_shows_is_refused(planner: Planner) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.compute_utilization(training_run(nvml_gpu_utilization_ratio=0.98))
    assert "at least one kernel ran" in refusal.value.violations[0].reason


def test_a_batch_does_not_belong_to_training(planner: Planner) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.compute_utilization(training_run(batch_size=8))
    assert refusal.value.violations[0].field == "batch_size"


def test_a_peak_that_does_not_exist(planner: Planner) -> None:
    with pytest.raises(Unanswerable, match="no dense fp4 peak"):
        planner.compute_utilization(training_run(accelerator=AcceleratorSpec(name="a100-sxm-80"), peak_precision="fp4"))


def published_runs() -> list[dict[str, str]]:
    """Training runs of the MPT family as their authors published them (LLM Foundry, 2023-10 and 2024-01): 6N + 12·L·H·Q·T
    against the dense peak, N with embeddings."""
    path = Path(__file__).parents[1] / "data" / "training_runs.csv"
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "run", published_runs(), ids=lambda run: f"{run['model']}-{run['accelerator']}-{run['sequence_tokens']}"
)
def test_published_training_runs(planner: Planner, run: dict[str, str]) -> None:
    heads = int(run["num_heads"])
    model = DenseModel(float(run["num_parameters"]), int(run["num_layers"]), heads, heads, int(run["head_dim"]))
    devices = int(run["num_devices"])
    answer = planner.compute_utilization(
        training_run(
            model=ModelSpec(dense=model),
            accelerator=AcceleratorSpec(name=run["accelerator"]),
            num_devices=devices,
            peak_precision=run["precision"],
            tokens_per_second=float(run["tokens_per_second_per_device"]) * devices,
            sequence_tokens=int(run["sequence_tokens"]),
        )
    )
    mfu = on(answer, UtilizationBasis.MFU_6N_ATTENTION_FULL)
    hfu = on(answer, UtilizationBasis.HFU_6N_ATTENTION_FULL_FULL_RECOMPUTATION)
    # They print tokens/s in whole numbers, and took 989 for 989.4 TFLOP/s.
    rounding = 0.5 / float(run["tokens_per_second_per_device"]) + 1e-3
    assert mfu.ratio == pytest.approx(float(run["mfu_reported"]), rel=rounding)
    if run["recomputed"] == "True":
        assert hfu.ratio == pytest.approx(float(run["hfu_reported"]), rel=rounding)
