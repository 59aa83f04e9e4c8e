"""What will really be served? The estimate of a named calibration with its ranges, and the bound beside it."""

from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from service.catalogue.calibrations import (
    Calibration,
    GenerationCalibration,
    Parameters,
    Spread,
)
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import calibration as look_up
from service.planning import defaults
from service.planning.decode_step import DecodePlan, Load, decode_bound, decode_terms
from service.planning.engine_settings import cache_format
from service.planning.errors import InvalidRequest, NotFound, Unanswerable, Violation
from service.planning.explain import Apply, Recorder, plainly
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.resolve import Resolver, SplitModel
from service.planning.results import DecodeBound
from service.planning.serving.disaggregation import disaggregated
from service.planning.serving.floors import Floors, floors
from service.planning.serving.load import Loaded, arrivals, closed_loop
from service.planning.serving.places import RESERVED_NOTE, Places, asked_places
from service.planning.serving.prefill_bound import PrefillBound, prefill_bound
from service.planning.serving.ranges import (
    corrected,
    interval,
    observation_notes,
    rate_interval,
    tpot_over_requests,
    ttft_over_requests,
)
from service.planning.serving.requests import EstimateServingRequest, Workload
from service.planning.serving.results import (
    EstimateBasis,
    EstimateServingResponse,
    ServingEstimate,
    ServingTerms,
)
from service.planning.serving.steady import TOKENS_PER_PASS, Steady, Traffic
from service.planning.serving.work import ServingWork, serving_work

_CACHED = 4096


class Deployment(Struct, frozen=True):
    """A split model on a device under an engine: everything that does not depend on the load."""

    split: SplitModel
    plan: DecodePlan
    work: ServingWork
    prompts: PrefillBound
    calibration: Calibration
    generation: GenerationCalibration | None
    notes: tuple[str, ...]


class ServingEstimator:
    """Answers from one catalogue; what names lead to is kept."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._named = lru_cache(maxsize=_CACHED)(self._deploy)
        self._aged = lru_cache(maxsize=_CACHED)(self._parameters)

    def deployment(
        self, model: ModelSpec, accelerator: AcceleratorSpec, engine: EngineSpec, precision: Precision, shape: Parallelism
    ) -> Deployment:
        """What a request's names mean. NotFound, InvalidRequest or Unanswerable where they mean nothing."""
        make = self._deploy if model.name is None or accelerator.name is None else self._named
        return make(model, accelerator, engine.name, engine.kv_cache_dtype, precision, shape)

    def _deploy(
        self,
        model: ModelSpec,
        accelerator: AcceleratorSpec,
        engine: str,
        kv_cache_dtype: str | None,
        precision: Precision,
        shape: Parallelism,
    ) -> Deployment:
        calibration = self._calibration(engine)
        device = self.resolver.device(accelerator)
        generation = calibration.generation_of(device.architecture)
        precision, note = self._with_cache(model, precision, kv_cache_dtype, generation)
        split, plan = self.resolver.plan(model, accelerator, precision, shape)
        notes = (*(RESERVED_NOTE if each == defaults.NOT_COUNTED else each for each in plan.assumptions), *note)
        work = serving_work(split, plan)
        return Deployment(split, plan, work, prefill_bound(split, plan, work), calibration, generation, notes)

    def engine_name(self, name: str) -> str:
        """The name of a calibrated engine that goes by several. NotFound where there is none."""
        return self._calibration(name).name

    def _calibration(self, name: str) -> Calibration:
        try:
            return look_up(self.resolver.catalogue, name)
        except UnknownName as unknown:
            raise NotFound("engine.name", "calibrated engine", name, unknown.nearest) from None

    def _with_cache(
        self, model: ModelSpec, precision: Precision, dtype: str | None, generation: GenerationCalibration | None
    ) -> tuple[Precision, tuple[str, ...]]:
        """The precision with the cache's decided: as asked, as the engine's flag says, or as in the calibrated runs."""
        flag = cache_format(dtype)
        if precision.kv_cache is not None or flag is not None:
            return replace(precision, kv_cache=precision.kv_cache or flag), ()
        architecture = self.resolver.architecture(model)
        weights = precision.weights or architecture.checkpoint_precision
        if generation is None or architecture.kv_cache_precision or weights in {"bf16", "fp16", "fp32"}:
            return precision, ()
        note = f"KV cache in {generation.kv_cache_precision}, as the calibrated runs are taken to have kept it"
        return replace(precision, kv_cache=generation.kv_cache_precision), (note,)

    def parameters(self, generation: GenerationCalibration, calibration: Calibration, version: str | None) -> Parameters:
        """The parameters as they hold for a release."""
        return self._aged(calibration.name, generation.generation, version)

    def _parameters(self, engine: str, generation_name: str, version: str | None) -> Parameters:
        calibration = self._calibration(engine)
        generation = next(each for each in calibration.generations if each.generation == generation_name)
        return generation.parameters.aged(calibration.age_years(version))

    def estimate_serving(self, request: EstimateServingRequest) -> EstimateServingResponse:
        """The estimate and the bound. InvalidRequest, NotFound or Unanswerable where there is neither."""
        check_workload(request.workload)
        if request.observe is not None:  # the doors put an observation in its place
            raise Unanswerable("observe", "nothing here reads other servers", "send the observation itself")
        deployed = self.deployment(request.model, request.accelerator, request.engine, request.precision, request.parallelism)
        recorder = Recorder() if request.explain else None
        load = request.workload
        held, taken = asked_places(
            deployed.split,
            deployed.plan,
            request.engine,
            request.memory_utilization_ratio,
            load.input_tokens + load.output_tokens / 2,
        )
        reason = unanswerable(deployed, held)
        loaded = None if reason else self._loaded(request, deployed, held, recorder or plainly)
        batch = ceil(loaded.state.batch - 1e-9) if loaded else _batch_without(load, held)
        bound = decode_bound(
            deployed.plan,
            Load.of(deployed.plan.footprint, max(1, batch)),
            round(load.input_tokens + load.output_tokens / 2),
            recorder or plainly,
        )
        return EstimateServingResponse(
            estimate=self._estimate(request, deployed, held, loaded, bound) if loaded else None,
            no_estimate_reason=reason,
            bound=bound,
            saturated=loaded.is_saturated if loaded else False,
            saturation=_saturation(loaded, held) if loaded else "",
            fits=None if held.by_memory is None else held.by_memory >= 1,
            num_devices=deployed.plan.footprint.shape.num_devices * _replicas(load),
            assumptions=(
                *self._assumptions(request, deployed, held, taken),
                *observation_notes(request.observation, loaded.state.running / _decoders(load) if loaded else None),
            ),
            catalogue_revision=self.resolver.revision,
            explanation=recorder.explanation(deployed.plan.device.speed_and_memory_figures) if recorder else None,
        )

    def _loaded(self, request: EstimateServingRequest, deployed: Deployment, held: Places, apply: Apply) -> Loaded:
        assert deployed.generation is not None
        by = self.parameters(deployed.generation, deployed.calibration, request.engine.version)
        load = request.workload
        traffic = traffic_of(load, request.engine)
        if load.disaggregation is not None:
            return disaggregated(deployed.work, by, traffic, load, held.most, apply)
        if load.concurrency is not None:
            return closed_loop(deployed.work, by, traffic, load.concurrency, held.most, apply)
        return arrivals(deployed.work, by, traffic, load.requests_per_second or 0.0, held.most, apply)

    def _estimate(
        self, request: EstimateServingRequest, deployed: Deployment, held: Places, loaded: Loaded, bound: DecodeBound
    ) -> ServingEstimate:
        generation, calibration = deployed.generation, deployed.calibration
        assert generation is not None
        familiar = self.is_familiar(request.model, deployed)
        state = loaded.state
        first = state.first_token_seconds + loaded.queue_seconds
        correction, spreads = corrected(
            request.observation,
            state.inter_token_seconds if request.workload.output_tokens > 1 else None,
            first,
            generation.familiar if familiar else generation.unfamiliar,
        )
        token = correction.tpot_ratio or 1.0 if correction else 1.0
        prompt = correction.ttft_ratio or 1.0 if correction else 1.0
        output, stable = request.workload.output_tokens, loaded.is_stable
        has_gaps = output > 1
        least = _floors(request, deployed, bound.step_seconds, state.batch)
        tpot = tpot_over_requests(loaded, output, token, spreads.inter_token, least.inter_token_seconds)
        ttft = ttft_over_requests(loaded, prompt, spreads.first_token, least.first_token_seconds)
        rate = _corrected_rate(loaded, token, prompt, request.workload)
        whole_spread = spreads.inter_token if has_gaps else spreads.first_token
        # Arrivals that come to rest are finished at the rate at which they arrive, whatever the times.
        is_given = stable and request.workload.requests_per_second is not None
        spread, most = (Spread(1.0, 1.0), rate) if is_given else (whole_spread, least.requests_per_second)
        devices = deployed.plan.footprint.shape.num_devices * _replicas(request.workload)
        whole = first * prompt + state.decode_seconds * token
        end_to_end = interval(whole, whole_spread, least.end_to_end_seconds(output))
        per_user = rate_interval(1 / (state.inter_token_seconds * token), spreads.inter_token, 1 / least.inter_token_seconds)
        at_most = _most_with_every_place(request, deployed, held).requests_per_second
        return ServingEstimate(
            tpot_seconds=tpot.mean if stable and has_gaps else None,
            ttft_seconds=ttft.mean if stable else None,
            tpot_over_requests=tpot if stable and has_gaps else None,
            ttft_over_requests=ttft if stable else None,
            end_to_end_seconds=end_to_end if stable else None,
            output_tokens_per_second=rate_interval(rate * output, spread, most * output),
            output_tokens_per_second_per_user=per_user if has_gaps else None,
            output_tokens_per_second_per_device=rate_interval(rate * output / devices, spread, most * output / devices),
            requests_per_second=rate_interval(rate, spread, most),
            max_requests_per_second=rate_interval(loaded.most_per_second / token, whole_spread, at_most),
            effective_batch_size=state.batch,
            running_requests=state.running,
            queued_requests=loaded.queued,
            queue_seconds=loaded.queue_seconds,
            max_running_requests=held.most,
            kv_pool_occupancy_ratio=min(1.0, _holding(state, request.workload) / max(1.0, held.by_memory or held.most)),
            utilization_ratio=loaded.utilization_ratio,
            calibration=f"{calibration.name}-{generation.generation}",
            calibration_basis=EstimateBasis(generation.basis.value),
            is_familiar=familiar,
            terms=_terms(state, has_gaps=has_gaps),
            correction=correction,
        )

    def is_familiar(self, model: ModelSpec, deployed: Deployment) -> bool:
        """Whether runs of this very model on this accelerator are among those that were fitted to."""
        subject = f"{self._model_name(model)} on {deployed.plan.device.name}"
        return deployed.generation is not None and subject in deployed.generation.seen

    def _model_name(self, spec: ModelSpec) -> str:
        names = self.resolver.catalogue.model_names
        return names.get(spec.name.casefold(), "") if spec.name else ""

    def _assumptions(self, request: EstimateServingRequest, deployed: Deployment, held: Places, taken: str) -> tuple[str, ...]:
        notes = [*deployed.notes, taken]
        if request.engine.version is None:
            notes.append(f"no release given: as of {deployed.calibration.reference:%Y-%m}, when most runs were made")
        if deployed.generation is not None and deployed.generation.note:
            notes.append(deployed.generation.note)
        notes.append(f"at most {held.most:.0f} requests at a time, by {held.limit}")
        beyond = defaults.context_note(
            request.workload.input_tokens + request.workload.output_tokens, deployed.split.architecture.context_limit_tokens
        )
        return (*notes, beyond) if beyond else tuple(notes)


def check_workload(load: Workload) -> None:
    """InvalidRequest where the load is none or two."""
    if (load.concurrency is None) == (load.requests_per_second is None):
        reason = "give concurrency for a closed loop or requests_per_second for arrivals"
        raise InvalidRequest(Violation("workload", reason, "exactly one of the two"))
    drafts = load.speculative_decoding
    if drafts and drafts.accepted_tokens_per_step > drafts.drafted_tokens_per_step + 1:
        field = "workload.speculative_decoding.accepted_tokens_per_step"
        most = drafts.drafted_tokens_per_step + 1
        raise InvalidRequest(Violation(field, f"more than the {most} tokens that a step puts forward", f"at most {most}"))


def traffic_of(load: Workload, engine: EngineSpec, number: Callable[[Any], Any] = float) -> Traffic:
    """The requests as the arithmetic takes them. A sweep, whose tokens are arrays, passes ``number=np.asarray``."""
    drafts = load.speculative_decoding
    slowed = 1 + (drafts.drafter_step_ratio or 0.0) if drafts else 1.0
    return Traffic(
        input_tokens=number(load.input_tokens),
        output_tokens=number(load.output_tokens),
        cached_ratio=load.prefix_cache_hit_ratio or 0.0,
        tokens_per_pass=float(engine.max_num_batched_tokens or TOKENS_PER_PASS),
        tokens_per_step=drafts.accepted_tokens_per_step / slowed if drafts else 1.0,
        drafted_per_step=float(drafts.drafted_tokens_per_step) if drafts else 0.0,
        is_disaggregated=float(load.disaggregation is not None),
    )


def _floors(request: EstimateServingRequest, deployed: Deployment, step_seconds: float, batch: float) -> Floors:
    """What no engine beats, where ``step_seconds`` is the bound on a step of so many requests."""
    split = request.workload.disaggregation
    replicas = (split.prefill_replicas, split.decode_replicas) if split else (1, 1)
    traffic = traffic_of(request.workload, request.engine)
    return floors(deployed.prompts, deployed.work, traffic, step_seconds, max(1, ceil(batch - 1e-9)), replicas)


def _most_with_every_place(request: EstimateServingRequest, deployed: Deployment, held: Places) -> Floors:
    """The same with as many requests as find place."""
    load, batch = request.workload, max(1, ceil(held.most - 1e-9))
    context = round(load.input_tokens + load.output_tokens / 2)
    terms = decode_terms(deployed.plan, Load.of(deployed.plan.footprint, batch), context)
    return _floors(request, deployed, terms.step_seconds, batch)


def _holding(state: Steady, load: Workload) -> float:
    """Requests of one replica that hold a cache: where prompts are computed elsewhere, those that decode."""
    return state.batch if load.disaggregation else state.running


def _decoders(load: Workload) -> int:
    return load.disaggregation.decode_replicas if load.disaggregation else 1


def _replicas(load: Workload) -> int:
    split = load.disaggregation
    return split.prefill_replicas + split.decode_replicas if split else 1


def unanswerable(deployed: Deployment, held: Places) -> str:
    """Why there is no estimate; empty where there is one."""
    device, name = deployed.plan.device, deployed.calibration.title
    if deployed.generation is None:
        known = ", ".join(each.generation for each in deployed.calibration.generations)
        return f"nothing measured or known of {name} on {device.title}: it is calibrated on {known}; the bound still holds"
    shape = deployed.plan.footprint.shape
    ranks = shape.tensor * shape.attention_data
    if ranks > 1 and device.link_over(ranks) is None:
        return f"{ranks} ranks reach beyond what a link of {device.title} joins: collectives over a network are not calibrated"
    if held.most < 1:
        return "the weights leave no room for a single request: use more devices, a narrower format or more of the memory"
    return ""


def _saturation(loaded: Loaded, held: Places) -> str:
    if not loaded.is_stable:
        return (
            f"overloaded: no steady state. At most {loaded.most_per_second:.4g} requests/s finish, with "
            f"{held.most:.0f} at a time by {held.limit}"
        )
    if loaded.is_saturated:
        return f"{loaded.queued:.0f} requests wait: at most {held.most:.0f} run at a time, by {held.limit}"
    return ""


def _batch_without(load: Workload, held: Places) -> int:
    """The batch to bound where there is no estimate: the concurrency, as far as it finds place."""
    asked = load.concurrency if load.concurrency is not None else 1.0
    return int(max(1.0, min(asked, max(1.0, held.most))))


def _corrected_rate(loaded: Loaded, token: float, prompt: float, load: Workload) -> float:
    state = loaded.state
    if load.requests_per_second is not None:
        return load.requests_per_second if loaded.is_stable else min(load.requests_per_second, loaded.most_per_second / token)
    return state.running / (state.decode_seconds * token + state.first_token_seconds * prompt)


def _terms(state: Steady, *, has_gaps: bool) -> ServingTerms:
    step = state.step
    return ServingTerms(
        decode_step_seconds=step.seconds,
        weights_seconds=step.weights_seconds,
        experts_seconds=step.experts_seconds,
        attention_seconds=step.attention_seconds,
        collectives_seconds=step.collectives_seconds,
        layers_seconds=step.layers_seconds,
        host_seconds=step.host_seconds,
        prefill_seconds=state.prompt.seconds,
        interference_seconds=state.interference_seconds if has_gaps else 0.0,
    )
