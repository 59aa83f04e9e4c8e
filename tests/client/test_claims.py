"""Claims through both clients and the command line, against the real service; and the data sheet that they rest on."""

import json

import pytest

from tests.client.conftest import Run
from tests.service_process import RunningService
from tests.worked_figures import CLAIM_FIGURES, Figure, at
from tonnage import AsyncClient, Client
from tonnage.claim_requests import audit_claim
from tonnage.cli.exits import Exit
from tonnage.errors import InvalidRequest
from tonnage.v1.claim_service_pb2 import AuditClaimRequest, AuditedClaim, ClaimFields, ClaimReading


@pytest.mark.parametrize("figure", CLAIM_FIGURES, ids=lambda figure: f"{figure.row}-{figure.path}")
def test_worked_claim(run_for_real: Run, figure: Figure) -> None:
    code, out, _ = run_for_real("claim", figure.question["text"], "--json")
    assert Exit.ANSWERED == code
    actual = at(json.loads(out), figure.path)
    if isinstance(figure.value, float | int):
        assert actual == pytest.approx(figure.value, rel=figure.tolerance)
    else:
        assert actual == figure.value


def test_a_claim_reads_as_verdict_reasons_and_sources(run_for_real: Run) -> None:
    code, out, _ = run_for_real("claim", "H100: 1,979 TFLOPS BF16", "H101: 3 TB/s")
    assert Exit.ANSWERED == code
    for part in (
        "matches another basis",
        "dense is 989.4 TFLOPS",
        "like for like: 989.4 TFLOPS",
        "unknown",
        "nearest: ",
        "whitepaper",
    ):
        assert part in out


def test_nothing_is_no_claim(run_for_real: Run) -> None:
    code, _, told = run_for_real("claim", " ")
    assert Exit.BAD_REQUEST == code
    assert "there is no claim" in told


def test_the_blocking_client(service: RunningService) -> None:
    with Client(service.grpc) as client:
        answer = client.audit_claim(text="N4P: +11 %", claims=[{"subject": "h100-sxm", "value": 3.35, "unit": "TB/s"}])
    assert ["n4p", "h100-sxm"] == [each.matches[0].name for each in answer.claims]
    assert [AuditedClaim.MATCHES_ANOTHER_BASIS, AuditedClaim.MATCHES] == [each.verdict for each in answer.claims]


async def _ask(target: str) -> int:
    async with AsyncClient(target) as client:
        answer = await client.audit_claim(text="H100 SXM: 3.35 TB/s")
        return answer.claims[0].verdict


def test_the_asyncio_client(service: RunningService) -> None:
    import asyncio

    assert AuditedClaim.MATCHES == asyncio.run(_ask(service.grpc))


def test_a_quantity_by_name() -> None:
    asked = audit_claim(claims=[{"subject": "h100-sxm", "value": 900, "unit": "GB/s", "quantity": "link_bandwidth"}])
    expected = ClaimFields(subject="h100-sxm", value=900, unit="GB/s", quantity=ClaimReading.LINK_BANDWIDTH)
    assert AuditClaimRequest(claims=[expected]) == asked


def test_a_quantity_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"claims\[0\].quantity"):
        audit_claim(claims=[{"subject": "h100-sxm", "quantity": "beauty"}])


def test_the_data_sheet_shows_figure_basis_source_and_conflict(run_for_real: Run) -> None:
    code, out, _ = run_for_real("accelerators", "show", "h100-sxm")
    assert Exit.ANSWERED == code
    for part in (
        "peak bf16, dense",
        "989.4 TFLOPS",
        "whitepaper",
        "compute units",
        "boost clock",
        "L2 cache",
        "Where sources disagree",
    ):
        assert part in out
    for part in ("→ 989.4 TFLOPS", "1000 TFLOPS", "preliminary, March 2022", "1,000 was preliminary"):
        assert part in out


def test_a_preliminary_part_says_so(run_for_real: Run) -> None:
    _, out, _ = run_for_real("accelerators", "show", "rubin-cpx")
    assert "Preliminary: the vendor may still change every figure." in out
    assert "30 PFLOPS" in out
