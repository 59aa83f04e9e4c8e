"""Each of the first questions, as a person puts it, is answered by one or two tool calls, with the worked figures."""

import re

import pytest

from tests.api.mcp.calling import HANDSHAKE, MODERN, call
from tests.api.mcp.seed_questions import QUESTIONS, Question
from tests.service_process import RunningService

WORKED = {
    *(f"A{row}" for row in range(1, 8)),
    *(f"B{row}" for row in range(1, 8)),
    *(f"C{row}" for row in range(1, 13)),
    *(f"D{row}" for row in range(1, 11) if row != 5),  # 400 rows of a table, which no person asks for
    *(f"E{row}" for row in range(1, 7)),
}


def test_every_worked_figure_is_asked_for_in_one_or_two_calls() -> None:
    assert WORKED == {row for each in QUESTIONS for row in each.rows.split() if re.fullmatch(r"[A-E]\d+", row)}
    assert all(1 <= len(each.calls) <= 2 for each in QUESTIONS)


@pytest.mark.parametrize("mode", [MODERN, HANDSHAKE])
@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda each: each.rows.replace(" ", "-"))
async def test_a_question_is_answered_by_its_calls(service: RunningService, asked: Question, mode: str) -> None:
    for each in asked.calls:
        summary = (await call(service.http, each.tool, mode=mode, **each.arguments)).summary
        missing = [text for text in each.holds if text.casefold() not in summary.casefold()]
        assert [] == missing, f"{asked.question}\n{summary}"
