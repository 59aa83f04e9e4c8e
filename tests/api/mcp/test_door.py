"""The way to the tools: who is let in, how it is counted, many callers at once, switched off, not installed, drained."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.api.asking import refusal_in
from tests.api.mcp.calling import HANDSHAKE, MODERN, call, reply_of
from tests.service_process import RunningService, running_service

TOKEN = "0123456789abcdef-a-token"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"accept": "application/json, text/event-stream"}
#: Takes a second or so: four simulations of a long queue.
LONG = {"nodes": "3x8", "jobs": "1000 jobs of 4"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningService]:
    hosts = "tonnage.example,[::1]:9000"
    with running_service(TONNAGE_MCP="true", TONNAGE_MCP_TOKEN=TOKEN, TONNAGE_MCP_ALLOWED_HOSTS=hosts) as running:
        yield running


@contextlib.asynccontextmanager
async def connected(http: str, mode: str, headers: dict[str, str]) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers) as client,
        Client(streamable_http_client(f"{http}/mcp", http_client=client), mode=mode) as connection,
    ):
        yield connection


def ask(service: RunningService, **headers: str) -> httpx.Response:
    return httpx.post(f"{service.http}/mcp", json=LIST, headers=ACCEPT | headers)


# -- who is let in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [MODERN, HANDSHAKE])
async def test_a_caller_with_the_token_is_answered(guarded: RunningService, mode: str) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "host": "tonnage.example"}
    async with connected(guarded.http, mode, headers) as client:
        reply = await reply_of(client, "look_up", {"name": "H100"})
    assert "989.4 TFLOPS" in reply.summary


@pytest.mark.parametrize("presented", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xe9"])
def test_a_caller_without_it_is_told_how(guarded: RunningService, presented: str | None) -> None:
    headers = ACCEPT | {"host": "tonnage.example"} | ({} if presented is None else {"authorization": presented})
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    response = httpx.post(f"{guarded.http}/mcp", json=LIST, headers=encoded)
    assert 401 == response.status_code
    assert response.headers["www-authenticate"].startswith("Bearer")
    refusal = refusal_in(response)
    assert "UNAUTHENTICATED" == refusal.code
    assert "authorization: Bearer" in refusal.message
    assert TOKEN not in response.text


@pytest.mark.parametrize("host", ["tonnage.example", "TONNAGE.example:8443", "[::1]:9000"])
def test_a_host_that_is_allowed_is_answered(guarded: RunningService, host: str) -> None:
    response = ask(guarded, host=host, authorization=f"bearer {TOKEN}")
    assert 200 == response.status_code
    assert 8 == len(response.json()["result"]["tools"])


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1:8080", "[::1]", "tonnage.example.evil.example", ""])
def test_another_host_is_misdirected(guarded: RunningService, host: str) -> None:
    response = ask(guarded, host=host, authorization=f"Bearer {TOKEN}")
    assert 421 == response.status_code
    assert "TONNAGE_MCP_ALLOWED_HOSTS" in refusal_in(response).message


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080"])
def test_this_machine_is_allowed_where_no_host_is_named(service: RunningService, host: str) -> None:
    assert 200 == ask(service, host=host).status_code


def test_a_page_of_another_site_is_refused(service: RunningService) -> None:
    assert 421 == ask(service, host="rebound.example").status_code
    foreign = ask(service, origin="https://evil.example")
    assert 403 == foreign.status_code
    assert "evil.example" in refusal_in(foreign).message
    assert 200 == ask(service, origin="http://localhost:3000").status_code
    assert 403 == ask(service, origin="null").status_code


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_streams_to_get_and_no_sessions_to_delete(service: RunningService, method: str) -> None:
    response = httpx.request(method, f"{service.http}/mcp", headers=ACCEPT)
    assert 405 == response.status_code
    assert "POST" == response.headers["allow"]


def test_no_session_is_kept(service: RunningService) -> None:
    assert "mcp-session-id" not in ask(service).headers


# -- counting ---------------------------------------------------------------------------------------------------------


def counted(service: RunningService, tool: str, outcome: str) -> float:
    text = httpx.get(f"{service.http}/metrics").text
    found = re.search(rf'^tonnage_mcp_tool_calls_total{{outcome="{outcome}",tool="{tool}"}} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def test_calls_are_counted_by_tool_and_outcome(service: RunningService) -> None:
    before = [counted(service, "look_up", outcome) for outcome in ("ok", "name_not_found")]
    await call(service.http, "look_up", name="H100")
    await call(service.http, "look_up", name="no such thing")
    assert [before[0] + 1, before[1] + 1] == [counted(service, "look_up", each) for each in ("ok", "name_not_found")]


async def test_a_name_that_is_no_tool_makes_no_series(service: RunningService) -> None:
    await call(service.http, "made_up_by_a_caller")
    assert "made_up_by_a_caller" not in httpx.get(f"{service.http}/metrics").text


# -- many at once -----------------------------------------------------------------------------------------------------


def questions() -> list[tuple[str, dict[str, Any]]]:
    return [
        *(("how_fast", {"model": "Llama 70B", "hardware": "8x H100", "batch_size": 1 + number}) for number in range(12)),
        *(("will_it_fit", {"model": "DeepSeek V3", "hardware": "DGX H100", "context_tokens": 100 + n}) for n in range(12)),
        *(("place_jobs", {"nodes": f"{number + 1}x8", "jobs": "a: 4, T16: 2x8", "policy": "gang"}) for number in range(12)),
        *(("check_claim", {"text": f"H100: {number},000 TFLOPS"}) for number in range(1, 13)),
    ]


async def test_many_callers_at_once_get_what_they_would_get_alone(service: RunningService) -> None:
    async with Client(f"{service.http}/mcp") as client:
        alone = [await reply_of(client, *each) for each in questions()]

    async def caller(mode: str) -> list[Any]:
        async with Client(f"{service.http}/mcp", mode=mode) as client:
            return await asyncio.gather(*(reply_of(client, *each) for each in questions()))

    for together in await asyncio.gather(caller(MODERN), caller(HANDSHAKE), caller(MODERN)):
        assert alone == together
    assert len({each.summary for each in alone}) > 40


async def test_more_than_the_service_takes_is_told_to_come_back() -> None:
    with running_service(TONNAGE_MCP="true", TONNAGE_MAX_CONCURRENT_REQUESTS="1") as running:
        async with Client(f"{running.http}/mcp") as client:
            asked = [LONG | {"nodes": f"{number}x8"} for number in range(3, 9)]
            replies = await asyncio.gather(*(reply_of(client, "place_jobs", each) for each in asked))
            assert not (await reply_of(client, "look_up", {"name": "H100"})).is_error
    refused = [each.text for each in replies if each.is_error]
    assert 0 < len(refused) < len(replies)
    assert all("again" in text for text in refused), refused


# -- off, absent, over ------------------------------------------------------------------------------------------------

WITHOUT_MCP = "import sys\nsys.modules['mcp'] = None\n"


def imported(running: RunningService) -> set[str]:
    """Top-level packages that the process has imported, by its own account (PYTHONPROFILEIMPORTTIME)."""
    return set(re.findall(r"^import time:.*\|\s+([a-z0-9_]+)(?:\.|$)", running.log.read_text(), re.MULTILINE))


def test_switched_off_it_is_a_path_that_does_not_exist_and_nothing_of_it_is_imported() -> None:
    with running_service(TONNAGE_MCP="false", PYTHONPROFILEIMPORTTIME="1") as running:
        response = ask(running)
        assert 404 == response.status_code
        assert "TONNAGE_MCP=false" in refusal_in(response).message
        assert "starlette" in imported(running)
        assert not {"mcp", "mcp_types"} & imported(running)


def test_without_the_library_the_service_runs_and_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_MCP)
    with running_service(PYTHONPATH=str(tmp_path)) as running:
        response = ask(running)
        assert 404 == response.status_code
        assert "pip install 'tonnage-service[mcp]'" in refusal_in(response).message
        assert 200 == httpx.get(f"{running.http}/v1/accelerators/h100-sxm").status_code


def test_without_the_library_it_cannot_be_insisted_on(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_MCP)
    with (
        pytest.raises(RuntimeError, match=r"TONNAGE_MCP is true and the MCP library is not installed: pip install"),
        running_service(PYTHONPATH=str(tmp_path), TONNAGE_MCP="true"),
    ):
        pass


async def test_calls_under_way_are_answered_before_the_service_ends() -> None:
    with running_service(TONNAGE_MCP="true", PYTHONPROFILEIMPORTTIME="1") as running:
        address = f"{running.http}/mcp"
        async with Client(address, mode=MODERN) as modern, Client(address, mode=HANDSHAKE) as older:
            for client in (modern, older):
                await client.list_tools()  # which a client wants for checking an answer, and then no longer gets
            under_way = [
                asyncio.create_task(reply_of(client, "place_jobs", LONG | {"nodes": f"{number}x8"}))
                for number, client in enumerate((modern, older), 3)
            ]
            await asyncio.sleep(0.1)
            assert not any(each.done() for each in under_way)
            running.process.terminate()
            first, second = await asyncio.gather(*under_way)
            assert "24 of 24 GPUs work" in first.summary
            assert "32 of 32 GPUs work" in second.summary
        assert 0 == await asyncio.to_thread(running.process.wait, 30)
        assert "Traceback" not in running.log.read_text()
        assert {"mcp", "mcp_types"} <= imported(running), "what is not imported when it is off is imported when it is on"
