"""What dashboards are made of: rows, panels and the forms of their queries."""

from dataclasses import dataclass
from typing import Final

#: The matcher of what the service exposes.
JOB: Final = 'job="tonnage"'


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart: its queries by legend, the unit in Grafana's name, and what to look for."""

    title: str
    look_for: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    width: int = 8


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that answer one question."""

    question: str
    panels: tuple[Panel, ...]


def rate(metric: str, by: str, more: str = "") -> str:
    """How fast a counter grows, per second, by some labels; ``more``: further matchers, begun with a comma."""
    return f"sum by ({by}) (rate({metric}{{{JOB}{more}}}[$__rate_interval]))"


def quantile(q: float, metric: str, by: str, more: str = "") -> str:
    """A quantile of a histogram, by some labels; ``more``: further matchers, begun with a comma."""
    return f"histogram_quantile({q}, sum by (le, {by}) (rate({metric}_bucket{{{JOB}{more}}}[$__rate_interval])))"


def largest(metric: str, by: str = "deployment") -> str:
    """Of a gauge that all replicas of the service show alike; the largest counts, as for prometheus-adapter."""
    return f"max by ({by}) ({metric}{{{JOB}}})"
