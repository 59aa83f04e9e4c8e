"""A scaled deployment: its replicas, their service level, where its demand is read, and how far it may scale."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from service.api.autoscalers.deployment_keys import IN_METADATA, Refusal, unknown
from service.planning.errors import InvalidRequest, Violation
from service.planning.fleet.requests import Certainty, Percentile, ServiceLevel
from service.planning.fleet.results import PoolRole
from service.planning.replicas import DOWNSCALE_RATIO, DOWNSCALE_SECONDS, ReplicaSpec, ScalingRule
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision

#: What KEDA reads itself, but sends along.
KEDAS_OWN: Final = frozenset(
    ("scalerAddress", "enableTLS", "unsafeSsl", "tlsCertFile", "caCert", "tlsClientCert", "tlsClientKey")
)
#: KEDA sends such keys with the value of the environment variable that they name.
_FROM_ENVIRONMENT: Final = "FromEnv"
_REQUIRED: Final = ("model", "accelerator", "engine")


class DemandSource(Struct, frozen=True):
    """Where the demand is read: figures, or queries to one server."""

    requests_per_second: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    prometheus_server: str = ""
    query: str = ""
    input_tokens_query: str = ""
    output_tokens_query: str = ""


class ObservedSource(Struct, frozen=True):
    """Where the engine's own metrics are, to hold them against what is predicted."""

    labels: tuple[tuple[str, str], ...] = ()
    window_seconds: int | None = None
    metric_prefix: str = ""


class ScaledDeployment(Struct, frozen=True):
    """What is scaled. ``role``: of a ScaledObject, which of the two kinds of replicas it scales."""

    spec: ReplicaSpec
    rule: ScalingRule
    demand: DemandSource | None
    role: PoolRole | None = None
    observed: ObservedSource | None = None
    dynamo_port: int | None = None


class _Faults(Struct, dict=True):
    """Violations, each under the name by which the asker knows the key."""

    spelled: Callable[[str], str]
    found: list[Violation] = field(default_factory=list)

    def add(self, name: str, reason: str, remedy: str) -> None:
        self.found.append(Violation(self.spelled(name), reason, remedy))

    def one_of(self, values: Mapping[str, Any], one: str, other: str) -> None:
        """Exactly one of two is given."""
        if (one in values) == (other in values):
            both = f"{self.spelled(one)} or {self.spelled(other)}"
            self.add(one, "both are given" if one in values else "it is not given", f"give exactly one of {both}")


def from_metadata(metadata: Mapping[str, str]) -> ScaledDeployment:
    """The deployment that the metadata of a KEDA trigger describes. InvalidRequest with everything that is wrong with it."""
    values: dict[str, Any] = {}
    faults = _Faults(_camel)
    for word, text in metadata.items():
        if word in KEDAS_OWN or word.removesuffix(_FROM_ENVIRONMENT) in KEDAS_OWN:
            continue
        key = IN_METADATA.get(word) or IN_METADATA.get(word.removesuffix(_FROM_ENVIRONMENT))
        if key is None:
            faults.found.append(Violation(word[:120], *unknown(word[:120], IN_METADATA)))
        elif key.name in values:
            faults.add(key.name, "it is given twice", f"give {key.camel} or {key.camel}{_FROM_ENVIRONMENT}")
        else:
            try:
                values[key.name] = key.of_text(text)
            except Refusal as refusal:
                faults.add(key.name, refusal.reason, refusal.accepted)
    return assembled(values, faults.spelled, faults.found)


def _camel(name: str) -> str:
    return next(camel for camel, key in IN_METADATA.items() if key.name == name)


def assembled(values: Mapping[str, Any], spelled: Callable[[str], str], found: list[Violation]) -> ScaledDeployment:
    """The deployment of values that are each right by itself.

    Args:
        values: by the names of the table of keys.
        spelled: how the asker spells a name.
        found: what is wrong already.

    Raises:
        InvalidRequest: something was wrong, or the values do not go together.
    """
    faults = _Faults(spelled, list(found))
    if not faults.found:
        _check_together(values, faults)
    if faults.found:
        raise InvalidRequest(*faults.found)
    role = {"prefill": PoolRole.PREFILL, "decode": PoolRole.DECODE}.get(values.get("role", ""))
    return ScaledDeployment(
        spec=_spec(values, role is not None or values.get("disaggregated", False)),
        rule=_rule(values),
        demand=_source(values) if "query" in values or "requests_per_second" in values else None,
        role=role,
        observed=_observed(values) if values.get("observe") else None,
        dynamo_port=values.get("dynamo_port"),
    )


def _check_together(values: Mapping[str, Any], faults: _Faults) -> None:
    for name in _REQUIRED:
        if name not in values:
            faults.add(name, "it is not given", "name one of the catalogue; GET /v1/models, /v1/accelerators list them")
    if "ttft_seconds" not in values and "tpot_seconds" not in values:
        faults.add("tpot_seconds", "no time is given that requests are to see", f"give it or {faults.spelled('ttft_seconds')}")
    if values.get("min_replicas", 1) > values.get("max_replicas", values.get("min_replicas", 1)):
        faults.add("min_replicas", f"it is more than {faults.spelled('max_replicas')}", "give less")
    if "dynamo_port" in values and "max_replicas" not in values:
        reason = "Dynamo lets the least that is needed win over its own budget, and nothing here bounds it"
        faults.add("max_replicas", reason, "give it for every deployment with dynamo_port")
    if "dynamo_port" not in values or "query" in values or "requests_per_second" in values:
        _check_demand(values, faults)
    if values.get("observe"):
        _check_observed(values, faults)


def _check_demand(values: Mapping[str, Any], faults: _Faults) -> None:
    faults.one_of(values, "requests_per_second", "query")
    faults.one_of(values, "input_tokens", "input_tokens_query")
    faults.one_of(values, "output_tokens", "output_tokens_query")
    queries = [name for name in ("query", "input_tokens_query", "output_tokens_query") if name in values]
    if queries and "prometheus_server" not in values:
        faults.add("prometheus_server", f"{faults.spelled(queries[0])} needs a server", "give it, as http://prometheus:9090")
    if not queries and "prometheus_server" in values and not values.get("observe"):
        faults.add("query", "a server is given, but nothing to ask it", "give it, or leave out prometheus_server")


def _check_observed(values: Mapping[str, Any], faults: _Faults) -> None:
    if "query" not in values and "requests_per_second" not in values:
        faults.add("observe", "lengths of requests are needed for it", "give the demand too, or leave it out")
    if "prometheus_server" not in values:
        faults.add("prometheus_server", "observe needs a server", "give it, as http://prometheus:9090")
    if values.get("disaggregated"):
        reason = "engines tell prompts and answers of separate replicas in separate series, which are not joined here"
        faults.add("observe", reason, "leave it out where disaggregated is true")


def _spec(values: Mapping[str, Any], is_disaggregated: bool) -> ReplicaSpec:
    engine = EngineSpec(
        name=values["engine"],
        version=values.get("engine_version"),
        max_num_seqs=values.get("max_num_seqs"),
        max_num_batched_tokens=values.get("max_num_batched_tokens"),
    )
    shape = {name: values[name] for name in ("tensor", "pipeline", "expert", "attention_data") if name in values}
    formats = {name: values[name] for name in ("weights", "kv_cache", "compute") if name in values}
    percentile = Percentile(values.get("percentile", Percentile.P90))
    return ReplicaSpec(
        model=ModelSpec(values["model"]),
        accelerator=AcceleratorSpec(values["accelerator"]),
        engine=engine,
        service_level=ServiceLevel(values.get("ttft_seconds"), values.get("tpot_seconds"), percentile=percentile),
        parallelism=Parallelism(**shape),
        precision=Precision(**formats),
        certainty=Certainty(values.get("certainty", Certainty.EXPECTED)),
        prefix_cache_hit_ratio=values.get("prefix_cache_hit_ratio", 0.0),
        memory_utilization_ratio=values.get("memory_utilization_ratio"),
        disaggregated=is_disaggregated,
        transfer_bytes_per_second=values.get("transfer_bytes_per_second"),
    )


def _rule(values: Mapping[str, Any]) -> ScalingRule:
    return ScalingRule(
        headroom_ratio=values.get("headroom_ratio", 0.0),
        min_replicas=values.get("min_replicas", 1),
        max_replicas=values.get("max_replicas"),
        scale_to_zero=values.get("scale_to_zero", False),
        downscale_ratio=values.get("downscale_ratio", DOWNSCALE_RATIO),
        downscale_seconds=values.get("downscale_window_seconds", DOWNSCALE_SECONDS),
    )


def _source(values: Mapping[str, Any]) -> DemandSource:
    return DemandSource(
        requests_per_second=values.get("requests_per_second"),
        input_tokens=values.get("input_tokens"),
        output_tokens=values.get("output_tokens"),
        prometheus_server=values.get("prometheus_server", ""),
        query=values.get("query", ""),
        input_tokens_query=values.get("input_tokens_query", ""),
        output_tokens_query=values.get("output_tokens_query", ""),
    )


def _observed(values: Mapping[str, Any]) -> ObservedSource:
    return ObservedSource(
        labels=tuple(sorted(values.get("observe_labels", {}).items())),
        window_seconds=values.get("observe_window_seconds"),
        metric_prefix=values.get("observe_metric_prefix", ""),
    )
