"""Claims as brochures print them, each with its verdict: see tests/data/claims.yaml."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.catalogue.entries import Catalogue
from service.planning.claims.audit import audit_claim
from service.planning.claims.requests import AuditClaimRequest
from service.planning.claims.results import AuditedClaim

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "data" / "claims.yaml").read_text(encoding="utf-8"))


def audited(catalogue: Catalogue, text: str) -> AuditedClaim:
    return audit_claim(catalogue, AuditClaimRequest(text=text)).claims[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"])
def test_a_claim_gets_the_verdict_it_deserves(row: dict[str, Any], catalogue: Catalogue) -> None:
    answer = audited(catalogue, row["text"])

    assert row["verdict"] == answer.verdict.value, answer.reasons
    if "name" in row:
        assert row["name"] == (answer.matches[0].name if answer.matches else None), answer.reasons
    if "figure" in row:
        assert row["figure"] == answer.matches[0].figure
    if "like_for_like" in row:
        assert row["like_for_like"] == (answer.like_for_like.printed if answer.like_for_like else None)
    if "says" in row:
        assert row["says"].casefold() in " ".join(answer.reasons).casefold()
    if "nearest" in row:
        assert row["nearest"] in answer.nearest
