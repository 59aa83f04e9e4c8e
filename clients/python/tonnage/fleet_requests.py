"""From keyword arguments to request messages, for fleets and comparisons."""

from collections.abc import Iterable, Sequence
from typing import TypedDict, Unpack

from tonnage.errors import InvalidRequest, Violation
from tonnage.price_requests import _term
from tonnage.requests import Engine, Model, _either, _engine, _message, _model, _parallelism, _precision
from tonnage.v1.fleet_service_pb2 import (
    CompareAcceleratorsRequest,
    Demand,
    FleetWorkload,
    PlanFleetRequest,
    ServiceLevel,
)
from tonnage.v1.price_pb2 import CostSplit, Power, PriceList, PurchaseModel


class PriceOptions(TypedDict, total=False):
    """Which prices hold: of one's own before those of the catalogue, the term ("on_demand", "spot", …), region and currency."""

    price_list: PriceList | None
    term: str | None
    region: str | None
    currency: str | None


class FleetOptions(PriceOptions, total=False):
    """What else a fleet is to be. Fields are those of PlanFleetRequest, whose comments say more; enums go by name."""

    devices_per_node: int | None
    max_tensor: int | None
    headroom_ratio: float | None
    redundant_nodes: int | None
    certainty: str | None
    disaggregated: bool
    transfer_bytes_per_second: float | None
    purchases: Sequence[PurchaseModel]
    power: Power | None
    cost_split: str | None
    unserved_cost_ratio: float | None
    max_plans: int | None
    memory_utilization_ratio: float | None
    explain: bool


def plan_fleet(
    request: PlanFleetRequest | None = None,
    /,
    *,
    model: Model | None = None,
    workloads: Sequence[FleetWorkload] = (),
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    requests_per_second: float | tuple[float, float, float] | None = None,
    confidence: float | None = None,
    ttft_seconds: float | None = None,
    tpot_seconds: float | None = None,
    end_to_end_seconds: float | None = None,
    percentile: str | None = None,
    node_types: Iterable[str] = (),
    accelerators: Iterable[str] = (),
    engines: Iterable[Engine] = (),
    weights: str | None = None,
    kv_cache: str | None = None,
    compute: str | None = None,
    **rest: Unpack[FleetOptions],
) -> PlanFleetRequest:
    """Asks for the fleets that carry a demand and keep its service level, ranked by cost, and why every other option is out.

    Args:
        request: A ready request, in place of all that follows.
        model: A name ("llama-3.1-70b"), a config.json as a dict, a DenseModel or a ModelSpec.
        workloads: FleetWorkload messages, in place of the next four, which are those of one workload.
        input_tokens: Tokens of a prompt.
        output_tokens: Tokens of an answer.
        requests_per_second: Requests over the whole fleet, or a range (low, mid, high). Fleets are sized for its upper end.
        confidence: How likely the demand lies in the range. Default 0.8.
        ttft_seconds, tpot_seconds, end_to_end_seconds: Times that requests are to see.
        percentile: "p50", "p90" or "p99": how many of them. Default p90.
        node_types, accelerators: What is allowed; accelerators are paid for by the device. Default: every node type.
        engines: Engines that are allowed: "vllm", "sglang==0.5", EngineSpec. Default: vllm.
        weights, kv_cache, compute: Number formats. Default: the checkpoint's own.
        rest: See FleetOptions.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model, node type, accelerator or calibrated engine.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    fields = {
        "model": _model(model),
        "workloads": _workloads(workloads, input_tokens, output_tokens, requests_per_second, confidence),
        "service_level": _level(ttft_seconds, tpot_seconds, end_to_end_seconds, percentile),
        "node_types": list(node_types) or None,
        "accelerators": list(accelerators) or None,
        "engines": [_engine(each) for each in engines] or None,
        "precision": _precision(weights, kv_cache, compute),
    }
    return _either(request, _message(PlanFleetRequest, **fields, **_by_number(rest)))


def compare_accelerators(
    request: CompareAcceleratorsRequest | None = None,
    /,
    *,
    model: Model | None = None,
    accelerators: Iterable[str] = (),
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    concurrency: int | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    expert: int | None = None,
    attention_data: int | None = None,
    weights: str | None = None,
    kv_cache: str | None = None,
    compute: str | None = None,
    engine: Engine | None = None,
    explain: bool = False,
    **prices: Unpack[PriceOptions],
) -> CompareAcceleratorsRequest:
    """Asks for accelerators side by side under one workload: peaks, bounds, estimates, cost, energy; each beside the first.

    Args:
        request: A ready request, in place of all that follows.
        model: A name, a config.json as a dict, a DenseModel or a ModelSpec.
        accelerators: Two names or more; all are compared with the first.
        input_tokens, output_tokens: Tokens of a prompt and of an answer.
        concurrency: Requests kept in flight on one replica.
        tensor, pipeline, expert, attention_data: How one replica is split, on all alike. Default: one device.
        weights, kv_cache, compute: Number formats. Default: the checkpoint's own.
        engine: The engine, for estimates. Default vllm.
        explain: Whether to show, for each accelerator, every formula with its inputs and sources.
        prices: See PriceOptions.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model, accelerator or calibrated engine.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    fields = {
        "model": _model(model),
        "accelerators": list(accelerators) or None,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "concurrency": concurrency,
        "parallelism": _parallelism(tensor, pipeline, expert, attention_data),
        "precision": _precision(weights, kv_cache, compute),
        "engine": _engine(engine),
        "explain": explain or None,
    }
    return _either(request, _message(CompareAcceleratorsRequest, **fields, **_by_number(prices)))


def _by_number(options: FleetOptions | PriceOptions) -> dict[str, object]:
    """The options as fields of a message: enums by number, and nothing of what is not given."""
    fields: dict[str, object] = {name: value for name, value in options.items() if value is not None and value != ()}
    if isinstance(term := fields.get("term"), str):
        fields["term"] = _term(term)
    for name, enum in (("certainty", PlanFleetRequest.Certainty), ("cost_split", CostSplit)):
        if isinstance(value := fields.get(name), str):
            fields[name] = _named(enum, name, value)
    return fields


def _workloads(
    workloads: Sequence[FleetWorkload],
    input_tokens: int | None,
    output_tokens: int | None,
    rate: float | tuple[float, float, float] | None,
    confidence: float | None,
) -> list[FleetWorkload] | None:
    if (input_tokens, output_tokens, rate, confidence) == (None, None, None, None):
        return list(workloads) or None
    if workloads:
        raise InvalidRequest.of(Violation("workloads", "give workloads or the figures of one, not both"))
    demand = None
    if isinstance(rate, tuple):
        if len(rate) != 3:
            raise InvalidRequest.of(Violation("requests_per_second", f"{rate!r} is not (low, mid, high)"))
        low, mid, high = rate
        demand = _message(Demand, "requests_per_second", low=low, mid=mid, high=high, confidence=confidence)
    elif rate is not None:
        demand = _message(Demand, "requests_per_second", mid=rate, confidence=confidence)
    return [
        _message(
            FleetWorkload,
            "workloads[0]",
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            requests_per_second=demand,
        )
    ]


def _level(
    ttft_seconds: float | None, tpot_seconds: float | None, end_to_end_seconds: float | None, percentile: str | None
) -> ServiceLevel | None:
    if (ttft_seconds, tpot_seconds, end_to_end_seconds, percentile) == (None, None, None, None):
        return None
    return _message(
        ServiceLevel,
        "service_level",
        ttft_seconds=ttft_seconds,
        tpot_seconds=tpot_seconds,
        end_to_end_seconds=end_to_end_seconds,
        percentile=_named(ServiceLevel.Percentile, "percentile", percentile),
    )


def _named(enum: object, field: str, name: str | None) -> object:
    """The number of an enum's value by its name in any case; None for None."""
    if name is None:
        return None
    values: dict[str, int] = dict(enum.items())  # type: ignore[attr-defined]
    number = values.get(name.upper().replace("-", "_"))
    if number:
        return number
    known = ", ".join(each.lower() for each, value in values.items() if value)
    raise InvalidRequest.of(Violation(field, f"{name!r} is none of {known}"))
