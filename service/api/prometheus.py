"""Reads an observation out of a Prometheus server that keeps the engine's own metrics, or the number that a query yields.

Only servers that the operator has named are asked: a service that fetches whatever address a caller sends is a way into the
operator's network. One query an observation, so that all figures are of one moment; no redirect is followed, no more is read
and no longer is waited than the constants below say, and every number is looked at before it is used.
"""

import asyncio
import json
import math
import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlsplit

import httptools
import orjson
from msgspec import Struct

from service.api.errors import shortened
from service.planning.errors import InvalidRequest, Unanswerable, Violation
from service.planning.serving.requests import PrometheusObservation, ServingObservation

TIMEOUT_SECONDS: Final = 2.0
MAX_RESPONSE_BYTES: Final = 2**20
DEFAULT_WINDOW_SECONDS: Final = 600

_FIELD: Final = "observe"
_URL_FIELD: Final = "observe.prometheus_url"
_CHUNK_BYTES: Final = 2**16
_LARGEST: Final = 1e15  # no sum of seconds and no count of tokens of a window comes near
_LARGEST_COUNT: Final = 2**31 - 1
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(r"https?://[^\s\x00-\x1f\x7f?#@\\]+")
_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_PREFIX: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?")


class EngineMetrics(Struct, frozen=True):
    """Histograms in seconds and a gauge, under every name that releases gave them, the best first."""

    time_to_first_token: tuple[str, ...]
    time_per_output_token: tuple[str, ...]
    running_requests: tuple[str, ...]


#: By engine. vLLM's mean per request is right where a step yields several tokens too; its other two histograms observe steps,
#: under a newer name and an older one; SGLang has renamed its own likewise. Sources: vllm-project/vllm
#: docs/design/metrics.md; sgl-project/sglang python/sglang/srt/metrics/collector.py; NVIDIA/TensorRT-LLM
#: tensorrt_llm/metrics/collector.py.
METRICS: Final[Mapping[str, EngineMetrics]] = {
    "vllm": EngineMetrics(
        time_to_first_token=("vllm:time_to_first_token_seconds",),
        time_per_output_token=(
            "vllm:request_time_per_output_token_seconds",
            "vllm:inter_token_latency_seconds",
            "vllm:time_per_output_token_seconds",
        ),
        running_requests=("vllm:num_requests_running",),
    ),
    "sglang": EngineMetrics(
        time_to_first_token=("sglang:time_to_first_token_seconds",),
        time_per_output_token=("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        running_requests=("sglang:num_running_reqs",),
    ),
    "tensorrt-llm": EngineMetrics(
        time_to_first_token=("trtllm_time_to_first_token_seconds",),
        time_per_output_token=("trtllm_time_per_output_token_seconds",),
        running_requests=("trtllm_num_requests_running",),
    ),
}


class Unread(Exception):
    """A server did not answer, or not with what was asked for: why, and what to do about it."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


class PrometheusReader:
    """Reads from the servers that are allowed, named by scheme, host and port."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = frozenset(_origin(urlsplit(each)) for each in allowed)

    async def observation(self, asked: PrometheusObservation, engine: str) -> ServingObservation:
        """What the engine's metrics say of the window.

        Args:
            asked: the server and the series.
            engine: the engine's name in the catalogue.

        Raises:
            InvalidRequest: the address, a label or the prefix can be none.
            Unanswerable: the server is not allowed, does not answer as it should, or knows no such figures.
        """
        url, metrics = self.server(asked.prometheus_url, _URL_FIELD, "send the observation itself, or "), _metrics_of(engine)
        window = asked.window_seconds or DEFAULT_WINDOW_SECONDS
        query = promql(metrics, _selector(asked.labels), _prefix(asked.metric_prefix), window)
        try:
            figures = _vector(await _get(url, query))
        except Unread as unread:
            remedy = f"{unread.remedy}; or send the observation itself"
            raise Unanswerable(_URL_FIELD, f"the server cannot be read: {unread.why}", remedy) from None
        return _observation(figures, metrics, window)

    async def number(self, server: SplitResult, query: str) -> float:
        """The one number, finite and not negative, that a query yields now.

        Args:
            server: as ``server`` returned it.
            query: in PromQL.

        Raises:
            Unread: there is none, several, or one of which it is in doubt what it says.
        """
        return _number(await _get(server, query))

    def server(self, text: str, field: str, instead: str = "") -> SplitResult:
        """An address that may be read.

        Args:
            text: as a caller gave it.
            field: where, for the refusal.
            instead: what the caller could do without asking the operator, for the refusal.

        Raises:
            InvalidRequest: it can be no address.
            Unanswerable: it is not allowed.
        """
        try:
            url = urlsplit(text)
            origin = _origin(url)
        except ValueError:
            url, origin = urlsplit(""), None
        if origin is None or not _URL.fullmatch(text):
            reason = f"{shortened(text)!r} is no address of a server"
            remedy = "give http:// or https://, host and port, as http://prometheus:9090"
            raise InvalidRequest(Violation(field, reason, remedy))
        if origin not in self._allowed:
            what = (
                f"{shortened(text)!r} is not among the servers that may be read" if self._allowed else "no server may be read"
            )
            raise Unanswerable(field, what, f"{instead}have the operator name the server in TONNAGE_PROMETHEUS_HOSTS")
        return url


def _origin(url: SplitResult) -> tuple[str, str, int] | None:
    if url.scheme not in _DEFAULT_PORTS or not url.hostname:
        return None
    return url.scheme, url.hostname.casefold(), url.port or _DEFAULT_PORTS[url.scheme]


def _metrics_of(engine: str) -> EngineMetrics:
    found = METRICS.get(engine)
    if found is None:
        remedy = f"send the observation itself; metrics are known of {', '.join(METRICS)}"
        raise Unanswerable(_FIELD, f"which metrics {engine} has is not known", remedy)
    return found


def _selector(labels: Mapping[str, str]) -> str:
    for name in labels:
        if not _LABEL.fullmatch(name):
            raise InvalidRequest(Violation("observe.labels", f"{shortened(name)!r} is no name of a label", "as in model_name"))
    # PromQL reads the escapes that JSON writes.
    return ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(labels.items()))


def _prefix(prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix):
        raise InvalidRequest(
            Violation("observe.metric_prefix", f"{shortened(prefix)!r} begins no metric's name", "as in kserve_")
        )
    return prefix


def promql(metrics: EngineMetrics, selector: str, prefix: str, window_seconds: int) -> str:
    """One query for all figures, told apart by a label. Of several names, the first that has series in the window."""

    def grown(names: tuple[str, ...], part: str) -> str:
        return " or ".join(f"sum(increase({prefix}{name}_{part}{{{selector}}}[{window_seconds}s]))" for name in names)

    def held(names: tuple[str, ...]) -> str:
        over = (f"avg_over_time({prefix}{name}{{{selector}}}[{window_seconds}s])" for name in names)
        return " or ".join(f"avg(sum by (instance) ({each}))" for each in over)

    figures = {
        "ttft_sum": grown(metrics.time_to_first_token, "sum"),
        "ttft_count": grown(metrics.time_to_first_token, "count"),
        "tpot_sum": grown(metrics.time_per_output_token, "sum"),
        "tpot_count": grown(metrics.time_per_output_token, "count"),
        "running": held(metrics.running_requests),
    }
    return " or ".join(f'label_replace({value}, "figure", "{name}", "", "")' for name, value in figures.items())


# -- over the network -------------------------------------------------------------------------------------------------


class _Collected:
    """What the parser of a response calls back."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.is_complete = False

    def on_body(self, part: bytes) -> None:
        """Called with each part of the body."""
        self.body += part

    def on_message_complete(self) -> None:
        """Called at the end, where the response says where it ends."""
        self.is_complete = True


async def _get(url: SplitResult, query: str) -> bytes:
    """The body of the server's answer to an instant query. Unread where there is none."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            status, body = await _fetch(url, query)
    except TimeoutError:
        raise Unread(f"it did not answer within {TIMEOUT_SECONDS:g} s", "try again, or a shorter window_seconds") from None
    except httptools.HttpParserError:
        raise Unread("what it answers is no HTTP", "check the address") from None
    except (OSError, UnicodeError) as error:
        raise Unread(f"it cannot be reached ({type(error).__name__})", "check the address, and that it is up") from None
    if 300 <= status < 400:
        raise Unread(f"it answers with a redirect (HTTP {status}), which is not followed", "give the address redirected to")
    if status != 200:
        raise Unread(f"it answers with HTTP {status}{_told(body)}", "check the address and its access rules")
    return body


async def _fetch(url: SplitResult, query: str) -> tuple[int, bytes]:
    port = url.port or _DEFAULT_PORTS[url.scheme]
    context = ssl.create_default_context() if url.scheme == "https" else None
    reader, writer = await asyncio.open_connection(url.hostname, port, ssl=context)
    try:
        path = quote(url.path.rstrip("/"), safe="/%:~")
        host = url.netloc.encode("idna" if not url.netloc.isascii() else "ascii").decode("ascii")
        request = f"GET {path}/api/v1/query?query={quote(query, safe='')} HTTP/1.1\r\nHost: {host}\r\n"
        writer.write(f"{request}Accept: application/json\r\nUser-Agent: tonnage\r\nConnection: close\r\n\r\n".encode("ascii"))
        return await _response(reader)
    finally:
        writer.transport.abort()


async def _response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    collected, read = _Collected(), 0
    parser = httptools.HttpResponseParser(collected)
    while not collected.is_complete:
        data = await reader.read(_CHUNK_BYTES)
        if not data:
            break  # a response without a length ends with the connection
        read += len(data)
        if read > MAX_RESPONSE_BYTES:
            raise Unread(f"it answers with more than {MAX_RESPONSE_BYTES} bytes", "check the address")
        parser.feed_data(data)
    return parser.get_status_code() if read else 0, bytes(collected.body)


def _told(body: bytes) -> str:
    """What Prometheus says is wrong, where it says so."""
    try:
        said = orjson.loads(body)["error"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
    return f": {shortened(str(said))}"


# -- numbers ----------------------------------------------------------------------------------------------------------


def _vector(body: bytes) -> dict[str, float]:
    """The figures of the answer by their label. Unread or Unanswerable where it is not as Prometheus answers."""
    try:
        answer: Any = orjson.loads(body)
        if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
            raise KeyError
        found = {each["metric"]["figure"]: float(each["value"][1]) for each in answer["data"]["result"]}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise Unread("its answer is none of Prometheus's query API", "check the address") from None
    for name, value in found.items():
        if not math.isfinite(value) or not 0 <= value <= _LARGEST:
            raise Unanswerable(
                _FIELD, f"{shortened(str(name))} is {value}, which nothing can have been", "check the series and labels"
            )
    return found


def _number(body: bytes) -> float:
    """The number that the answer to an instant query holds. Unread where there is not exactly one that can be relied on."""
    try:
        answer: Any = orjson.loads(body)
        data = answer["data"]
        samples = {"scalar": lambda: [data["result"]], "vector": lambda: [each["value"] for each in data["result"]]}
        found = [float(text) for _, text in samples[data["resultType"]]()]
        if answer["status"] != "success":
            raise KeyError
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        raise Unread("its answer is none of Prometheus's query API", "check the address") from None
    if answer.get("warnings"):  # a part of the series may be missing
        told = shortened(str(answer["warnings"]))
        raise Unread(f"it answers with warnings: {told}", "have the server read all that the query selects")
    if len(found) != 1:
        what = f"{len(found)} series" if found else "nothing: no series that it selects has a sample of late"
        raise Unread(f"the query yields {what}", "check its selectors, and sum over what it selects")
    if not math.isfinite(found[0]) or not 0 <= found[0] <= _LARGEST:
        raise Unread(f"the query yields {found[0]}, which is no amount", "check what it divides by")
    return found[0]


def _observation(found: Mapping[str, float], metrics: EngineMetrics, window: int) -> ServingObservation:
    ttft, tpot = (_mean(found, name) for name in ("ttft", "tpot"))
    if ttft is None:  # it also counts the requests
        raise _silent(metrics.time_to_first_token, window)
    if tpot is None:
        raise _silent(metrics.time_per_output_token, window)
    return ServingObservation(
        num_requests=min(int(found["ttft_count"]), _LARGEST_COUNT),
        tpot_seconds=tpot,
        ttft_seconds=ttft,
        running_requests=found.get("running") or None,
    )


def _mean(found: Mapping[str, float], name: str) -> float | None:
    """Seconds by count; None where nothing was counted, or no time passed."""
    seconds, count = found.get(f"{name}_sum", 0.0), found.get(f"{name}_count", 0.0)
    # Prometheus extrapolates to the ends of the window, so that one request may count as a part of one.
    return seconds / count if seconds > 0 and count >= 1 else None


def _silent(names: tuple[str, ...], window: int) -> Unanswerable:
    missing = f"{' or '.join(f'{name}_sum and _count' for name in names)} did not grow in the last {window} s"
    remedy = "check labels and metric_prefix, give a longer window_seconds, or send the observation itself"
    return Unanswerable(_FIELD, missing, remedy)
