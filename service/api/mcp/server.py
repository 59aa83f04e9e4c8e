"""The MCP server: the tools, how their arguments are checked, how their failures are said, how they are counted."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import orjson
from mcp.server import MCPServer
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import ValidationError

from service.api.errors import failure_of
from service.api.mcp import refusals
from service.api.mcp.check_claim import check_claim
from service.api.mcp.explain_kernel import explain_kernel
from service.api.mcp.explain_mfu import explain_mfu
from service.api.mcp.how_fast import how_fast
from service.api.mcp.look_up import look_up
from service.api.mcp.place_jobs import place_jobs
from service.api.mcp.plan_fleet import plan_fleet
from service.api.mcp.schemas import compact, outline
from service.api.mcp.tools import Desk
from service.api.mcp.tools import Tool as Body
from service.api.mcp.will_it_fit import will_it_fit
from service.telemetry import Telemetry

_TOOLS: Final[tuple[tuple[str, Callable[[Desk], Body]], ...]] = (
    ("will_it_fit", will_it_fit),
    ("how_fast", how_fast),
    ("plan_fleet", plan_fleet),
    ("check_claim", check_claim),
    ("look_up", look_up),
    ("explain_mfu", explain_mfu),
    ("explain_kernel", explain_kernel),
    ("place_jobs", place_jobs),
)
_INSTRUCTIONS: Final = (
    "Tonnage answers how much AI hardware can carry: whether a model fits, how fast it decodes, how many GPUs a load needs "
    "and what they cost, whether a vendor's figure holds, what a utilisation or a kernel figure means, where a cluster places "
    "jobs. Quote an answer's summary. Names of figures end in their unit; bound_ is physics and never beaten, expected_ is "
    "average arithmetic, estimate_ is what an engine will really do, with p10 and p90: keep them apart. Repeat the assumptions "
    "that matter. Names are taken as people write them; the answer says how it read them. A refusal says what to give instead."
)
_ANNOTATIONS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
#: A config.json may stand in an argument; nothing else is near this.
_MAX_ARGUMENT_BYTES: Final = 100_000
_MAX_ANSWER_SECONDS: Final = 30.0


class Server(MCPServer[None]):
    """The tools behind one way in, which checks, limits, says what went wrong, and counts.

    Args:
        desk: where the tools ask.
        telemetry: counts calls.
        version: of the service.
    """

    def __init__(self, desk: Desk, telemetry: Telemetry, version: str) -> None:
        tools = [_made(name, make(desk)) for name, make in _TOOLS]
        self._known = {tool.name: tuple(tool.parameters["properties"]) for tool in tools}
        self._calls = telemetry.tools(self._known)
        handlers = logging.root.handlers[:]
        level = logging.root.level
        super().__init__(
            "tonnage",
            title="Tonnage",
            instructions=_INSTRUCTIONS,
            version=version,
            tools=tools,
            subscriptions=False,
            log_level="WARNING",
        )
        logging.root.handlers[:] = handlers  # the library sets logging up, where nobody has: that is the program's own affair
        logging.root.setLevel(level)
        logging.getLogger("mcp").setLevel(logging.WARNING)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Calls a tool. ToolError with what to do next where it gives no answer."""
        begun, outcome = perf_counter(), "cancelled"
        try:
            self._check(name, arguments)
            async with asyncio.timeout(_MAX_ANSWER_SECONDS):
                result = await super().call_tool(name, arguments, context)
            outcome = "ok"
            return result
        except TimeoutError:
            outcome = "timeout"
            raise ToolError(
                f"it took longer than {_MAX_ANSWER_SECONDS:.0f} s: ask for less, such as less hardware at once"
            ) from None
        except UnexpectedToolError as error:
            cause = error.__cause__
            failure = failure_of(cause if isinstance(cause, Exception) else error, f"tool {name}")
            outcome = failure.reason.lower()
            raise ToolError(refusals.of_failure(failure)) from None
        except ToolError as error:
            outcome = "invalid_request"
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError(refusals.of_arguments(cause, self._known[name])) from None
            raise
        finally:
            self._calls.end(name, outcome, perf_counter() - begun)

    def _check(self, name: str, arguments: dict[str, Any]) -> None:
        known = self._known.get(name)
        if known is None:
            raise ToolError(refusals.of_unknown_tool(name, self._known))
        unknown = [each for each in arguments if each not in known]
        if unknown:
            raise ToolError(refusals.of_unknown_arguments(unknown, known))
        nested = [each for each, value in arguments.items() if isinstance(value, dict | list) and each != "model"]
        if nested:
            raise ToolError(f"{nested[0]}: give one value; several go into one text, separated by commas")
        if isinstance(arguments.get("model"), dict):  # a config.json as an object rather than as text
            arguments["model"] = _as_text(arguments["model"])
        size = sum(len(value) for value in arguments.values() if isinstance(value, str))
        if size > _MAX_ARGUMENT_BYTES:
            raise ToolError(f"the arguments hold {size:,} characters; at most {_MAX_ARGUMENT_BYTES:,} are read")


def _as_text(config: dict[str, Any]) -> str:
    try:
        return orjson.dumps(config).decode()
    except (TypeError, ValueError, RecursionError):
        raise ToolError("model: this is no config.json: it is nested too deeply or holds numbers too large") from None


def _made(name: str, body: Body) -> Tool:
    tool = Tool.from_function(
        body, name=name, description=inspect.getdoc(body), annotations=_ANNOTATIONS, structured_output=True
    )
    tool.parameters = compact(tool.parameters) | {"additionalProperties": False}
    assert tool.fn_metadata.output_schema is not None
    tool.fn_metadata.output_schema = outline(tool.fn_metadata.output_schema)
    return tool
