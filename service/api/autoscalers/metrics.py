"""The metrics that only doors of autoscalers have, beside ``grpc_server_…``, which they share with the main door."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter

#: What the memory of pods can fail to be judged for.
_UNJUDGED: Final = ("model", "device", "shape", "pod")


class AutoscalerMetrics:
    """Counts what goes unnoticed otherwise. Made once for a registry.

    Args:
        registry: where the metrics are kept.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._unjudged = Counter(
            "tonnage_expander_unjudged_total",
            "What the expander could not judge by memory: unknown models, devices of node groups, shapes, arguments of pods.",
            ("what",),
            registry=registry,
        )
        for what in _UNJUDGED:
            self._unjudged.labels(what)

    def expander_unjudged(self, counts: Mapping[str, int]) -> None:
        """Count what one question of the Cluster Autoscaler left unjudged."""
        for what, count in counts.items():
            self._unjudged.labels(what).inc(count)
