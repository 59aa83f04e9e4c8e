"""Serving estimates of a sweep, by the bodies that answer EstimateServing."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.catalogue.calibrations import Parameters, Spread, Spreads
from service.planning.columns import Floats
from service.planning.decode_step import Load, decode_terms
from service.planning.pick import ARRAYS
from service.planning.serving.estimate import Deployment, ServingEstimator, traffic_of, unanswerable
from service.planning.serving.floors import Floors, floors
from service.planning.serving.load import kept_in_flight
from service.planning.serving.places import Places, asked_places
from service.planning.serving.ranges import interval, rate_interval
from service.planning.serving.requests import Workload
from service.planning.serving.steady import Steady, Traffic
from service.planning.serving.work import ServingWork
from service.planning.sweep.grid import Grid, Plan
from service.planning.sweep.joined import as_columns, joined, joined_plans
from service.planning.sweep.points import Columns, Loads, plan_columns, points_of, skipped
from service.planning.sweep.results import SkippedPoints, SkipReason


class EstimatedPlan(Struct, frozen=True):
    """A plan that there are estimates of."""

    plan: Plan
    deployed: Deployment
    parameters: Parameters
    spreads: Spreads
    most: Floats  # requests at a time, for each length
    num_points: int
    skipped: tuple[SkippedPoints, ...]


class Estimates:
    """The arithmetic of a serving sweep."""

    def __init__(self, serving: ServingEstimator, grid: Grid) -> None:
        asked = grid.request
        self._serving = serving
        self._grid = grid
        self._lengths = (
            np.array([each.input_tokens for each in asked.lengths], np.float64),
            np.array([each.output_tokens for each in asked.lengths], np.float64),
        )
        self._loads = Loads(np.array(asked.concurrencies, np.float64), len(asked.lengths))

    def ready(self, plan: Plan) -> EstimatedPlan | SkippedPoints:
        """The plan with all that does not depend on its loads. PlanningError where it is none."""
        assert plan.engine is not None
        deployed = self._serving.deployment(plan.model, plan.accelerator, plan.engine, plan.precision, plan.shape)
        generation = deployed.generation
        # As if there were room, and as if there were none: what keeps the plan from an estimate at all, and at some lengths.
        reason = unanswerable(deployed, Places(None, 1.0))
        if reason or generation is None:
            return skipped(self._grid, plan, SkipReason.NOT_CALIBRATED, reason)
        most = self._most(plan, deployed)
        num_points = int(np.count_nonzero(most >= 1)) * len(self._loads.outer)
        without: tuple[SkippedPoints, ...] = ()
        if left_out := self._grid.points_per_plan - num_points:
            description = unanswerable(deployed, Places(0.0, 1.0))
            without = (skipped(self._grid, plan, SkipReason.DOES_NOT_FIT, description, left_out),)
            if not num_points:
                return without[0]
        spreads = generation.familiar if self._serving.is_familiar(plan.model, deployed) else generation.unfamiliar
        by = self._serving.parameters(generation, deployed.calibration, plan.engine.version)
        return EstimatedPlan(plan, deployed, by, spreads, most, num_points, without)

    def _most(self, plan: Plan, deployed: Deployment) -> Floats:
        """Requests that find place at a time, for each length."""
        assert plan.engine is not None
        engine, asked = plan.engine, self._grid.request.memory_utilization_ratio
        means = self._lengths[0] + self._lengths[1] / 2
        held = (asked_places(deployed.split, deployed.plan, engine, asked, mean)[0] for mean in means.tolist())
        return np.array([each.most for each in held], np.float64)

    def columns(self, ready: Sequence[EstimatedPlan], first: int, end: int) -> Columns:
        """Columns of a slice of each plan's loads, one plan after the other, less what does not fit."""
        outer, inner = self._loads.places(first, end)
        concurrency, most = self._loads.outer[outer], np.array([each.most for each in ready])[:, inner]
        tokens: tuple[Any, Any] = (self._lengths[0][inner], self._lengths[1][inner])
        traffics = [traffic_of(Workload(*tokens), each.plan.engine, np.asarray) for each in ready if each.plan.engine]
        (per_pass,) = as_columns([(each.tokens_per_pass,) for each in traffics])
        traffic = replace(traffics[0], tokens_per_pass=per_pass)
        work, by = joined([each.deployed.work for each in ready]), joined([each.parameters for each in ready])
        kept_up: Any = kept_in_flight(work, by, traffic, concurrency, most, pick=ARRAYS)  # type: ignore[arg-type]
        least = _floors(ready, work, traffic, kept_up[0].batch)
        shapes = (each.deployed.plan.footprint.shape for each in ready)
        places = plan_columns(ready, with_engine=True) | {
            "num_devices": np.array([[shape.num_devices] for shape in shapes], np.int32),
            "concurrency_index": outer,
            "length_index": inner,
        }
        figures = _figures(kept_up, least, joined([each.spreads for each in ready]), tokens[1], places["num_devices"])
        kept = most >= 1
        columns = places | figures | {"max_running_requests": most}
        return points_of(columns, len(ready), end - first, None if kept.all() else kept)


def _floors(ready: Sequence[EstimatedPlan], work: ServingWork, traffic: Traffic, decoding: Any) -> Floors:
    """What no engine beats, by the bound on a step of so many requests."""
    batch: Any = np.maximum(1.0, np.ceil(decoding - 1e-9))
    plans: Any = joined_plans([each.deployed.plan for each in ready])
    context: Any = np.round(traffic.input_tokens + traffic.output_tokens / 2)
    bound = decode_terms(plans, Load.of(plans.footprint, batch, ARRAYS), context, pick=ARRAYS)
    return floors(joined([each.deployed.prompts for each in ready]), work, traffic, bound.step_seconds, batch, pick=ARRAYS)


def _figures(kept_up: tuple[Steady, Any, Any], least: Floors, spreads: Spreads, output_tokens: Any, devices: Any) -> Columns:
    """The figures of the points. Answers of one token have no time between tokens: it is 0 there, as is its inverse."""
    state, waiting, wait = kept_up
    has_gaps = output_tokens > 1
    by_token, by_prompt = spreads.inter_token, spreads.first_token
    low: Any = np.where(has_gaps, by_token.p10, by_prompt.p10)
    high: Any = np.where(has_gaps, by_token.p90, by_prompt.p90)
    whole = Spread(low, high)
    first_token = state.first_token_seconds + wait
    tpot = interval(state.inter_token_seconds, by_token, least.inter_token_seconds, ARRAYS)
    ttft = interval(first_token, by_prompt, least.first_token_seconds, ARRAYS)
    per_user = rate_interval(1 / state.inter_token_seconds, by_token, 1 / least.inter_token_seconds, ARRAYS)
    end_to_end = interval(first_token + state.decode_seconds, whole, least.end_to_end_seconds(output_tokens), ARRAYS)
    requests: Any = rate_interval(state.requests_per_second, whole, least.requests_per_second, ARRAYS)
    return {
        "tpot_seconds": tpot.p50 * has_gaps,
        "tpot_p10_seconds": tpot.p10 * has_gaps,
        "tpot_p90_seconds": tpot.p90 * has_gaps,
        "ttft_seconds": ttft.p50,
        "ttft_p10_seconds": ttft.p10,
        "ttft_p90_seconds": ttft.p90,
        "end_to_end_seconds": end_to_end.p50,
        "output_tokens_per_second": requests.p50 * output_tokens,
        "output_tokens_per_second_p10": requests.p10 * output_tokens,
        "output_tokens_per_second_p90": requests.p90 * output_tokens,
        "output_tokens_per_second_per_user": per_user.p50 * has_gaps,
        "output_tokens_per_second_per_device": requests.p50 * output_tokens / devices,
        "requests_per_second": requests.p50,
        "effective_batch_size": state.batch,
        "running_requests": state.running,
        "queue_seconds": wait,
        "saturated": np.asarray(waiting) > 0,
    }
