"""Calling tools as a chatbot's host does: the SDK's own client, over streamable HTTP."""

from dataclasses import dataclass
from typing import Any

from mcp import Client

MODERN, HANDSHAKE = "2026-07-28", "legacy"


@dataclass(frozen=True)
class Reply:
    """What a call came to: an answer, or a text that says why there is none."""

    is_error: bool
    text: str
    answer: dict[str, Any]

    @property
    def summary(self) -> str:
        """What a chatbot would quote; fails where there is no answer."""
        assert not self.is_error, self.text
        summary: str = self.answer["summary"]
        return summary


async def reply_of(client: Client, tool: str, arguments: dict[str, Any]) -> Reply:
    """Calls one tool over an open connection."""
    result = await client.call_tool(tool, arguments)
    [content] = result.content
    assert "text" == content.type
    return Reply(bool(result.is_error), content.text, result.structured_content or {})


async def call(http: str, tool: str, *, mode: str = MODERN, **arguments: Any) -> Reply:
    """Calls one tool of the service at this address."""
    async with Client(f"{http}/mcp", mode=mode) as client:
        return await reply_of(client, tool, arguments)


async def summary(http: str, tool: str, **arguments: Any) -> str:
    """The summary of an answer; fails where there is none."""
    return (await call(http, tool, **arguments)).summary
