"""Section C of the worked figures through REST and gRPC, against the running service; and what a claim refuses."""

import json
import time
import urllib.error
from typing import Any

import pytest

from tests.api.test_worked_figures import ask_grpc, ask_rest
from tests.service_process import RunningService
from tests.worked_figures import AUDIT, CLAIM_FIGURES, CLAIM_REASONS, Figure, at, audit


@pytest.mark.parametrize("door", [ask_rest, ask_grpc], ids=["rest", "grpc"])
@pytest.mark.parametrize("figure", CLAIM_FIGURES, ids=lambda figure: f"{figure.row}-{figure.path}")
def test_worked_claim(service: RunningService, door: Any, figure: Figure) -> None:
    actual = at(door(service, AUDIT, figure.question), figure.path)
    if isinstance(figure.value, float | int):
        assert actual == pytest.approx(figure.value, rel=figure.tolerance)
    else:
        assert actual == figure.value


@pytest.mark.parametrize(("row", "text", "said"), CLAIM_REASONS)
def test_the_reasons_say_why(service: RunningService, row: str, text: str, said: str) -> None:
    answer = ask_rest(service, AUDIT, audit(text))
    assert said in " ".join(reason for claim in answer["claims"] for reason in claim["reasons"]), row


def test_every_verdict_but_unknown_has_its_sources(service: RunningService) -> None:
    for figure in CLAIM_FIGURES:
        for claim in ask_rest(service, AUDIT, figure.question)["claims"]:
            assert claim["reasons"]
            assert claim["sources"]


def refusal(service: RunningService, question: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask_rest(service, AUDIT, question)
    assert refused.value.code == 400
    body: dict[str, Any] = json.load(refused.value)
    return body


@pytest.mark.parametrize(
    ("question", "field", "reason"),
    [
        ({}, "text", "there is no claim"),
        ({"text": " \n "}, "text", "there is no claim"),
        ({"claims": [{"value": 3}]}, "claims[0].subject", ""),
        ({"claims": [{"subject": "h100-sxm", "value": 3}]}, "claims[0].unit", "a figure needs its unit"),
        ({"claims": [{"subject": "h100-sxm", "value": 3, "unit": "apples"}]}, "claims[0].unit", "no unit that is understood"),
        ({"claims": [{"subject": "h100-sxm", "value": 0, "unit": "TB/s"}]}, "claims[0].value", "above zero"),
        (
            {"claims": [{"subject": "h100-sxm", "value": 3, "unit": "TB/s", "quantity": "PEAK"}]},
            "claims[0].quantity",
            "PEAK is not counted in TB/s",
        ),
        ({"claims": [{"subject": "h100-sxm", "precision": "fp7"}]}, "claims[0].precision", "no number format"),
        ({"claims": [{"subject": "h100-sxm", "sparsity": "half"}]}, "claims[0].sparsity", "neither with nor without"),
        ({"claims": [{"subject": "h100-sxm", "direction": "up"}]}, "claims[0].direction", "no direction"),
        ({"text": "x" * 20_001}, "text", ""),
    ],
)
def test_what_is_no_claim_is_refused_by_field(
    service: RunningService, question: dict[str, Any], field: str, reason: str
) -> None:
    violations = refusal(service, question)["details"][1]["field_violations"]
    assert field in {each["field"] for each in violations}
    assert any(reason in each["description"] for each in violations)


@pytest.mark.parametrize("piece", ["1,", "H100 ", "9", "a1-"])
def test_a_text_as_long_as_a_body_may_be_is_refused_at_once(service: RunningService, piece: str) -> None:
    started = time.perf_counter()
    body = refusal(service, {"text": (piece * 4_000_000)[:4_000_000]})
    assert time.perf_counter() - started < 5
    assert "text" == body["details"][1]["field_violations"][0]["field"]


def test_a_claim_by_its_fields_is_judged_as_in_words(service: RunningService) -> None:
    fields = {"subject": "GB300 NVL72", "value": 1440, "unit": "PFLOPS", "precision": "nvfp4"}
    by_fields = ask_rest(service, AUDIT, {"claims": [fields]})["claims"][0]
    in_words = ask_rest(service, AUDIT, audit("GB300 NVL72: 1,440 PFLOPS NVFP4"))["claims"][0]
    for key in ("verdict", "reasons", "matches", "like_for_like"):
        assert in_words[key] == by_fields[key]


def test_a_product_label_finds_its_accelerator(service: RunningService) -> None:
    answer = ask_grpc(service, "GetAccelerator", {"name": "NVIDIA-H100-80GB-HBM3"})
    assert "h100-sxm" == answer["accelerator"]["name"]
