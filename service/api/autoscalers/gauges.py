"""The names and texts of the gauges of deployments, and how they are exposed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import Final

from msgspec import Struct
from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector


class DeploymentFigures(Struct, frozen=True):
    """What is known of a deployment of the deployments file. What is None or missing is not shown."""

    requests_per_second: float
    desired_replicas: Mapping[str, int]  # by role
    max_requests_per_second_per_replica: Mapping[str, float]  # by role
    tokens_per_second: float | None
    times_seconds: Mapping[str, float]  # "ttft_seconds", "tpot_seconds"
    observed_to_predicted: Mapping[str, float]  # by the same


#: Gauges of deployments: name, text, and the label beside the deployment.
_DEPLOYMENT_GAUGES: Final = (
    ("tonnage_demand_requests_per_second", "Requests per second that are asked of a deployment.", ""),
    ("tonnage_desired_replicas", "Replicas that a deployment needs for its demand and its service level.", "role"),
    (
        "tonnage_max_requests_per_second_per_replica",
        "Requests per second that one replica carries within the service level.",
        "role",
    ),
    (
        "tonnage_predicted_tokens_per_second",
        "Output tokens per second that the desired replicas yield at most within the service level.",
        "",
    ),
    (
        "tonnage_predicted_ttft_seconds",
        "Time to the first token at the percentile of the service level, the desired replicas sharing the demand.",
        "",
    ),
    (
        "tonnage_predicted_tpot_seconds",
        "Time per further token at the percentile of the service level, the desired replicas sharing the demand.",
        "",
    ),
    (
        "tonnage_observed_to_predicted_ratio",
        "Mean time that the engines tell over the mean time predicted for the load they tell.",
        "quantity",
    ),
)
_DEPLOYMENT_UP: Final = ("tonnage_deployment_up", "Whether the figures of a deployment are known now.")
_DEPLOYMENT_AGE: Final = ("tonnage_deployment_age_seconds", "Time since the figures of a deployment were last known.")
_DEPLOYMENTS_CURRENT: Final = (
    "tonnage_deployments_file_current",
    "Whether the deployments in force are those of the file as it is; 0: it has a fault, and older ones hold.",
)


class DeploymentGauges(Collector):
    """Gauges of the deployments of the deployments file. What is not known now is absent, never 0.

    Collected from memory rather than kept in the registry's gauges: those of several processes outlive what they say.

    Args:
        stale_seconds: figures older than this are no longer shown, whoever should have renewed them.
        clock: seconds that never go back.
    """

    def __init__(self, *, stale_seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._stale_seconds = stale_seconds
        self._clock = clock
        self._known: dict[str, tuple[DeploymentFigures | None, float | None]] = {}
        self._is_current: bool | None = None

    def keep(self, deployments: Iterable[str], *, is_current: bool) -> None:
        """Show these deployments and no others. ``is_current``: whether they are those of the file as it is."""
        self._known = {name: self._known.get(name, (None, None)) for name in deployments}
        self._is_current = is_current

    def show(self, deployment: str, figures: DeploymentFigures, at_seconds: float) -> None:
        """Show figures, read at a time of the clock."""
        self._known[deployment] = (figures, at_seconds)

    def lose(self, deployment: str) -> None:
        """Show that nothing is known, and since when."""
        self._known[deployment] = (None, self._known.get(deployment, (None, None))[1])

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are not looked for in what is not known yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The gauges as they are now."""
        if self._is_current is None:
            return
        now = self._clock()
        families = {name: _family(name, text, label) for name, text, label in _DEPLOYMENT_GAUGES}
        up, age = (_family(name, text, "") for name, text in (_DEPLOYMENT_UP, _DEPLOYMENT_AGE))
        for deployment, (figures, at) in self._known.items():
            is_known = figures is not None and at is not None and now - at <= self._stale_seconds
            up.add_metric((deployment,), float(is_known))
            if at is not None:
                age.add_metric((deployment,), max(0.0, now - at))
            if figures is not None and is_known:
                for name, label, value in _deployment_samples(figures):
                    families[name].add_metric((deployment, label) if label else (deployment,), value)
        current = GaugeMetricFamily(*_DEPLOYMENTS_CURRENT, value=float(self._is_current))
        yield from (*(each for each in families.values() if each.samples), up, age, current)


def _family(name: str, text: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=("deployment", label) if label else ("deployment",))


def _deployment_samples(figures: DeploymentFigures) -> Iterator[tuple[str, str, float]]:
    """Name, second label and value of everything that is known."""
    yield "tonnage_demand_requests_per_second", "", figures.requests_per_second
    for role, replicas in figures.desired_replicas.items():
        yield "tonnage_desired_replicas", role, float(replicas)
    for role, rate in figures.max_requests_per_second_per_replica.items():
        yield "tonnage_max_requests_per_second_per_replica", role, rate
    if figures.tokens_per_second is not None:
        yield "tonnage_predicted_tokens_per_second", "", figures.tokens_per_second
    for quantity, seconds in figures.times_seconds.items():
        yield f"tonnage_predicted_{quantity}", "", seconds
    for quantity, ratio in figures.observed_to_predicted.items():
        yield "tonnage_observed_to_predicted_ratio", quantity, ratio
