"""The MCP door of the shared service, awake."""

import httpx
import pytest

from tests.service_process import RunningService


@pytest.fixture(scope="session", autouse=True)
def _awake(service: RunningService) -> None:
    """The library is loaded for whoever asks first, and the clients of these tests wait five seconds at most."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"accept": "application/json, text/event-stream"}
    assert httpx.post(f"{service.http}/mcp", json=ping, headers=headers, timeout=120).status_code < 500
