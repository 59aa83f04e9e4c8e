"""Writes the dashboards: python -m deploy.grafana.generate. A test holds them to what a running service exposes.

Rows are questions that an operator asks, in the order of asking them; every panel says what to look for.
"""

import json
from pathlib import Path
from typing import Any, Final

from deploy.grafana.autoscalers import AUTOSCALERS
from deploy.grafana.panels import JOB, Panel, Row, quantile, rate

FOLDER: Final = Path(__file__).parent / "dashboards"
_SOURCE: Final = {"type": "prometheus", "uid": "prometheus"}
_COLUMNS: Final = 24
_HEIGHT: Final = 8


SERVICE: Final = (
    Row(
        "Does it keep its promise?",
        (
            Panel(
                "Failed or shed, of all requests",
                "The promise is 0.1 % over 30 days. A refusal that names its reason is no failure.",
                "percentunit",
                (
                    ("5 minutes", "tonnage:failures:ratio5m"),
                    ("1 hour", "tonnage:failures:ratio1h"),
                    ("6 hours", "tonnage:failures:ratio6h"),
                ),
            ),
            Panel(
                "Budget left of 30 days",
                "Below zero the promise is broken: let changes wait.",
                "percentunit",
                (
                    (
                        "left",
                        "1 - avg_over_time(tonnage:failures:rate5m[30d]) / avg_over_time(tonnage:requests:rate5m[30d]) / 0.001",
                    ),
                ),
            ),
            Panel(
                "Replicas that answer", "Fewer than the autoscaler's minimum for long.", "none", (("up", f"sum(up{{{JOB}}})"),)
            ),
            Panel(
                "Estimates within 50 ms",
                "The promise is 99 %: points are arithmetic, so below it something waits. Processor and in flight tell what.",
                "percentunit",
                (
                    ("5 minutes", "tonnage:estimates_in_time:ratio5m"),
                    ("1 hour", "tonnage:estimates_in_time:ratio1h"),
                ),
                12,
            ),
            Panel(
                "Budget burnt, as a multiple",
                "1 uses the month's budget in a month. A page comes at 14.4 over an hour, a ticket at 3 over six.",
                "none",
                (
                    ("1 hour", "tonnage:failures:ratio1h / 0.001"),
                    ("6 hours", "tonnage:failures:ratio6h / 0.001"),
                ),
                12,
            ),
        ),
    ),
    Row(
        "Who asks what, and how long does it take?",
        (
            Panel(
                "gRPC calls by method",
                "A method that stopped, or one that grew.",
                "reqps",
                (("{{grpc_method}}", rate("grpc_server_started_total", "grpc_method")),),
            ),
            Panel(
                "HTTP requests by route",
                "The same over REST.",
                "reqps",
                (("{{route}}", rate("http_server_requests_total", "route")),),
            ),
            Panel(
                "Answers that are no OK",
                "INTERNAL and 5xx are ours; the rest tells what callers get wrong.",
                "reqps",
                (
                    ("gRPC {{grpc_code}}", rate("grpc_server_handled_total", "grpc_code", ', grpc_code!="OK"')),
                    ("HTTP {{code}}", rate("http_server_requests_total", "code", ', code!~"2.."')),
                ),
            ),
            Panel(
                "99th percentile by method, gRPC",
                "Points answer in about a millisecond, plans in tenths of a second.",
                "s",
                (("{{grpc_method}}", quantile(0.99, "grpc_server_handling_seconds", "grpc_method")),),
                12,
            ),
            Panel(
                "99th percentile by route, REST",
                "Likewise.",
                "s",
                (("{{route}}", quantile(0.99, "http_server_request_duration_seconds", "route")),),
                12,
            ),
        ),
    ),
    Row(
        "Is there room?",
        (
            Panel(
                "Requests in flight",
                "Near TONNAGE_MAX_CONCURRENT_REQUESTS, requests are shed.",
                "none",
                (("{{door}}", f"sum by (door) (tonnage_in_flight_requests{{{JOB}}})"),),
            ),
            Panel(
                "Shed",
                "Anything for long: more replicas.",
                "reqps",
                (("{{door}}", rate("tonnage_shed_requests_total", "door")),),
            ),
            Panel(
                "Processor",
                "One process uses one core.",
                "none",
                (("{{instance}}", f"rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval])"),),
            ),
            Panel(
                "Memory",
                "Flat, below the limit of the pod.",
                "bytes",
                (("{{instance}}", f"process_resident_memory_bytes{{{JOB}}}"),),
            ),
            Panel(
                "Files open",
                "Flat: connections that nobody closes show here.",
                "none",
                (("{{instance}}", f"process_open_fds{{{JOB}}}"),),
            ),
            Panel(
                "Planning, 99th percentile",
                "What no cache held, by question.",
                "s",
                (("{{rpc}}", quantile(0.99, "tonnage_planning_seconds", "rpc")),),
            ),
        ),
    ),
    Row(
        "Does the cache help?",
        (
            Panel(
                "Hits, of all look-ups",
                "Redis is asked only for what the process did not have.",
                "percentunit",
                (
                    (
                        "{{tier}}",
                        f'sum by (tier) (rate(tonnage_cache_requests_total{{{JOB}, outcome="hit"}}[$__rate_interval]))'
                        f" / sum by (tier) (rate(tonnage_cache_requests_total{{{JOB}}}[$__rate_interval]))",
                    ),
                ),
            ),
            Panel(
                "Trouble with a tier",
                "Answers stay right; they are computed anew.",
                "ops",
                (("{{tier}} {{kind}}", rate("tonnage_cache_errors_total", "tier, kind")),),
            ),
            Panel(
                "Breaker in front of Redis",
                "0 in use, 1 probing, 2 not asked.",
                "none",
                (("{{instance}}", f"tonnage_cache_breaker_state{{{JOB}}}"),),
            ),
        ),
    ),
    Row(
        "Who is refused?",
        (
            Panel(
                "Callers refused",
                "Unknown keys: somebody's secret is old. Limited: a caller that grew.",
                "reqps",
                (("{{reason}}", rate("tonnage_callers_refused_total", "reason")),),
            ),
            Panel(
                "Connections cut off",
                "408 slow, 431 long heads, 503 too many: mostly no friends.",
                "reqps",
                (("{{code}}", rate("tonnage_connections_cut_off_total", "code")),),
            ),
            Panel(
                "Certificates read anew",
                "Failed: the old one stays in use until it expires.",
                "ops",
                (("{{door}} {{outcome}}", rate("tonnage_tls_reloads_total", "door, outcome")),),
            ),
        ),
    ),
    Row(
        "What do chatbots ask?",
        (
            Panel(
                "Tool calls",
                "An outcome other than ok tells what models get wrong.",
                "reqps",
                (("{{tool}} {{outcome}}", rate("tonnage_mcp_tool_calls_total", "tool, outcome")),),
                12,
            ),
            Panel(
                "99th percentile by tool",
                "Plans take tenths of a second.",
                "s",
                (("{{tool}}", quantile(0.99, "tonnage_mcp_tool_call_seconds", "tool")),),
                12,
            ),
        ),
    ),
    Row(
        "What runs?",
        (
            Panel(
                "Builds and catalogues",
                "More than one line only during a rollout.",
                "none",
                (("{{version}} {{revision}}", f"count by (version, revision) (tonnage_catalogue_info{{{JOB}}})"),),
                24,
            ),
        ),
    ),
)


def dashboard(title: str, uid: str, rows: tuple[Row, ...]) -> dict[str, Any]:
    """A dashboard as Grafana reads it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": row.question,
                "collapsed": False,
                "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1},
                "panels": [],
            }
        )
        top += 1
        left = 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                left, top = 0, top + _HEIGHT
            panels.append(_panel(len(panels) + 1, panel, left, top))
            left += panel.width
        top += _HEIGHT
    return {
        "title": title,
        "uid": uid,
        "tags": ["tonnage"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "editable": False,
        "panels": panels,
    }


def _panel(number: int, panel: Panel, left: int, top: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
        for index, (legend, expression) in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.look_for,
        "datasource": _SOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": targets,
    }


DASHBOARDS: Final = {
    "tonnage.json": dashboard("Tonnage", "tonnage", SERVICE),
    "autoscalers.json": dashboard("Tonnage: autoscalers", "tonnage-autoscalers", AUTOSCALERS),
}


def text(name: str) -> str:
    """The file of a dashboard."""
    return json.dumps(DASHBOARDS[name], indent=1) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / each).write_text(text(each))
