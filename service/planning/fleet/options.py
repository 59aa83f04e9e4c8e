"""Every option of one request tried: the ways that carry the demand, the near misses, and an excuse for each of the others."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, OutOfTime, TooLarge, Unanswerable
from service.planning.fleet.candidates import Hardware, engines, hardware, refuse_too_many, shapes
from service.planning.fleet.curve import Curve, mean_context, replica_curve
from service.planning.fleet.demand import HIGH, Mix
from service.planning.fleet.disaggregation import disaggregated
from service.planning.fleet.over_nodes import Misfit, misfit_text, wider_replica
from service.planning.fleet.pools import Way, aggregated, apart, num_units
from service.planning.fleet.requests import Certainty, PlanFleetRequest
from service.planning.fleet.results import ExcuseReason, FleetExcuse, FleetLimit
from service.planning.fleet.sizing import Capability, Miss, largest_rate
from service.planning.requests import AcceleratorSpec, EngineSpec, Parallelism
from service.planning.serving.estimate import Deployment, ServingEstimator, unanswerable
from service.planning.serving.places import asked_places
from service.planning.streams import NEVER, Stop

#: Seconds that one plan may take; what is not done then is refused, not left out.
TIME_BUDGET_SECONDS: Final = 30.0


class Option(Struct, frozen=True):
    """A way to carry the demand on one kind of hardware."""

    hardware: Hardware
    engine: EngineSpec
    way: Way
    deployed: Deployment
    is_familiar: bool


class NearMiss(Struct, frozen=True):
    """An option that misses the service level even when all but idle."""

    hardware: Hardware
    engine: EngineSpec
    shape: Parallelism
    deployed: Deployment
    is_familiar: bool
    miss: Miss


class _Trial(Struct, frozen=True):
    """What one shape comes to on one accelerator under one engine, whatever the node around it."""

    deployed: Deployment | None
    is_familiar: bool
    excuse: tuple[ExcuseReason, str] | None
    mixed: Capability | Miss | None = None
    alone: tuple[Capability | Miss, ...] = ()
    split: tuple[Way, ...] | Miss | None = None


class Options(Struct, dict=True):
    """All options of a request, tried in order."""

    serving: ServingEstimator
    request: PlanFleetRequest
    mix: Mix
    stop: Stop = NEVER
    clock: Callable[[], float] = time.thread_time  # while it gives way to others, its time stands still
    found: list[Option] = field(default_factory=list)
    misses: list[NearMiss] = field(default_factory=list)
    excuses: list[FleetExcuse] = field(default_factory=list)
    num_candidates: int = 0
    _begun: float = 0.0
    _trials: dict[tuple[str, EngineSpec, Parallelism], _Trial] = field(default_factory=dict)

    def try_all(self) -> "Options":
        """Tries every option. NotFound for unknown names, TooLarge where they are too many or take too long, OutOfTime."""
        self._begun = self.clock()
        catalogue, resolver = self.serving.resolver.catalogue, self.serving.resolver
        builder, _ = resolver.builder(self.request.model, self.request.precision)
        pairs = [(each, engine) for each in hardware(catalogue, self.request) for engine in engines(self.request)]
        possible = [
            shapes(builder.architecture, builder.quantized_cuts, each.devices_per_node, self.request.max_tensor)
            for each, _ in pairs
        ]
        self.num_candidates = sum(map(len, possible)) * (2 if self.request.disaggregated else 1)
        refuse_too_many(self.num_candidates)
        for (each, engine), legal in zip(pairs, possible, strict=True):
            self._on(each, engine, legal)
        return self

    def check_time(self) -> None:
        """OutOfTime where nobody waits for the plan any longer, TooLarge where it takes too long for anybody."""
        if self.stop.look():
            raise OutOfTime(f"nobody waits any longer for a plan out of {self.num_candidates} options; allow fewer of them")
        if self.clock() - self._begun > TIME_BUDGET_SECONDS:
            what = f"{self.num_candidates} options take longer than {TIME_BUDGET_SECONDS:g} seconds"
            raise TooLarge("node_types", what, round(TIME_BUDGET_SECONDS), "allow fewer")

    def _on(self, hardware: Hardware, engine: EngineSpec, legal: tuple[Parallelism, ...]) -> None:
        alone: dict[int, list[tuple[Parallelism, Capability]]] = {}
        deployed, is_familiar = None, False
        tried = list(self._each(hardware.accelerator, engine, legal))
        if self._fits_no_node(hardware, engine, [trial for _, trial in tried]):
            return
        for shape, trial in tried:
            if trial.excuse is not None or trial.deployed is None:
                self._excuse(hardware, engine, shape, trial)
                continue
            deployed, is_familiar = trial.deployed, trial.is_familiar
            self._one_pool(hardware, engine, shape, trial)
            self._split(hardware, engine, shape, trial)
            for index, each in enumerate(trial.alone):
                if isinstance(each, Capability):
                    alone.setdefault(index, []).append((shape, each))
        if len(self.mix.kinds) > 1 and deployed is not None:
            way = apart(alone, [Mix((kind,)) for kind in self.mix.kinds], lambda each: self._units(each, hardware))
            if way is not None:
                self.found.append(Option(hardware, engine, way, deployed, is_familiar))

    def _each(
        self, accelerator: str, engine: EngineSpec, legal: tuple[Parallelism, ...]
    ) -> Iterator[tuple[Parallelism, _Trial]]:
        """The shapes with what they come to, up to one that says the same of all."""
        for shape in legal:
            self.check_time()
            trial = self._trial(accelerator, engine, shape)
            yield shape, trial
            if trial.excuse and trial.excuse[0] is ExcuseReason.NOT_CALIBRATED and trial.deployed is None:
                return

    def _fits_no_node(self, hardware: Hardware, engine: EngineSpec, trials: list[_Trial]) -> bool:
        """Whether no shape within a node holds the model. One excuse then stands for all of them."""
        large = [each.deployed for each in trials if each.excuse and each.excuse[0] is ExcuseReason.DOES_NOT_FIT]
        found = [each for each in large if each is not None]
        if not found or len(large) < len(trials):
            return False
        request = self.request
        nearest = min(found, key=lambda each: max(stage.weight_bytes for stage in each.split.footprint.stages))
        sums = (sum(stage.weight_bytes for stage in each.split.footprint.stages) for each in found if _is_whole(each))
        whole = min(sums, default=0.0)
        most = request.max_tensor or hardware.devices_per_node
        context = mean_context(self.mix)
        ratio = request.memory_utilization_ratio
        domain = self._devices_in_domain(hardware)
        misfit = Misfit(request.model, hardware, engine, request.precision, nearest, domain, whole, context, ratio, most)
        wider = wider_replica(self.serving, misfit)
        self.excuses.append(
            FleetExcuse(
                hardware.node_type,
                hardware.accelerator,
                engine.name,
                None,
                False,
                ExcuseReason.DOES_NOT_FIT,
                misfit_text(misfit, wider),
                fitting_parallelism=wider.shape if wider else None,
                fitting_num_nodes=wider.num_nodes if wider else None,
            )
        )
        return True

    def _devices_in_domain(self, hardware: Hardware) -> int:
        node = self.serving.resolver.catalogue.node_types.get(hardware.node_type)
        return (node.num_devices_per_scale_up_domain if node else None) or hardware.devices_per_node

    def _units(self, way: Way, hardware: Hardware) -> int:
        headroom, redundant = self.request.headroom_ratio or 0.0, self.request.redundant_nodes or 0
        return num_units(way, hardware, HIGH, headroom, redundant).units

    def _one_pool(self, hardware: Hardware, engine: EngineSpec, shape: Parallelism, trial: _Trial) -> None:
        assert trial.deployed is not None
        if isinstance(trial.mixed, Capability):
            way = aggregated(self.mix, shape, trial.mixed)
            self.found.append(Option(hardware, engine, way, trial.deployed, trial.is_familiar))
        elif trial.mixed is not None:
            self.misses.append(NearMiss(hardware, engine, shape, trial.deployed, trial.is_familiar, trial.mixed))
            self.excuses.append(_missed(hardware, engine, shape, trial.mixed, is_disaggregated=False))

    def _split(self, hardware: Hardware, engine: EngineSpec, shape: Parallelism, trial: _Trial) -> None:
        assert trial.deployed is not None
        if isinstance(trial.split, tuple):
            self.found += [Option(hardware, engine, way, trial.deployed, trial.is_familiar) for way in trial.split]
        elif trial.split is not None:
            self.excuses.append(_missed(hardware, engine, shape, trial.split, is_disaggregated=True))

    def _excuse(self, hardware: Hardware, engine: EngineSpec, shape: Parallelism, trial: _Trial) -> None:
        reason, text = trial.excuse or (ExcuseReason.UNANSWERABLE, "")
        whole = reason is ExcuseReason.NOT_CALIBRATED and trial.deployed is None
        self.excuses.append(
            FleetExcuse(hardware.node_type, hardware.accelerator, engine.name, None if whole else shape, False, reason, text)
        )

    # -- one shape on one accelerator ---------------------------------------------------------------------------------

    def _trial(self, accelerator: str, engine: EngineSpec, shape: Parallelism) -> _Trial:
        key = (accelerator, engine, shape)
        if key not in self._trials:
            self._trials[key] = self._tried(accelerator, engine, shape)
        return self._trials[key]

    def _tried(self, accelerator: str, engine: EngineSpec, shape: Parallelism) -> _Trial:
        request = self.request
        try:
            deployed = self.serving.deployment(request.model, AcceleratorSpec(accelerator), engine, request.precision, shape)
        except Unanswerable as refusal:
            return _Trial(None, False, (ExcuseReason.UNANSWERABLE, f"{refusal.missing}: {refusal.remedy}"))
        except InvalidRequest as refusal:
            return _Trial(None, False, (ExcuseReason.UNANSWERABLE, str(refusal)))
        curve = self._curve(deployed, engine, self.mix)
        if isinstance(curve, tuple):
            return _Trial(None if deployed.generation is None else deployed, False, curve)
        return _Trial(
            deployed,
            self.serving.is_familiar(request.model, deployed),
            None,
            largest_rate(curve),
            self._each_alone(deployed, engine),
            disaggregated(curve, shape, request.transfer_bytes_per_second) if request.disaggregated else None,
        )

    def _each_alone(self, deployed: Deployment, engine: EngineSpec) -> tuple[Capability | Miss, ...]:
        """What a replica carries of each of several workloads by itself."""
        if len(self.mix.kinds) == 1:
            return ()
        curves = (self._curve(deployed, engine, Mix((kind,))) for kind in self.mix.kinds)
        return tuple(largest_rate(each) for each in curves if isinstance(each, Curve))

    def _curve(self, deployed: Deployment, engine: EngineSpec, mix: Mix) -> Curve | tuple[ExcuseReason, str]:
        asked = self.request.memory_utilization_ratio
        held, taken = asked_places(deployed.split, deployed.plan, engine, asked, mean_context(mix))
        reason = unanswerable(deployed, held)
        if reason:
            fits = held.most >= 1
            return (ExcuseReason.NOT_CALIBRATED if fits or deployed.generation is None else ExcuseReason.DOES_NOT_FIT), reason
        assert deployed.generation is not None
        is_cautious = self.request.certainty is Certainty.CAUTIOUS
        curve = replica_curve(self.serving, deployed, self.request.model, engine, mix, held, is_cautious=is_cautious)
        title = deployed.plan.device.title
        # GetAccelerator tells what is of one device.
        return replace(curve, notes=(taken, *(note for note in deployed.notes if title not in note)))


def _is_whole(deployed: Deployment) -> bool:
    return deployed.split.footprint.shape.num_devices == 1


def _missed(hardware: Hardware, engine: EngineSpec, shape: Parallelism, miss: Miss, *, is_disaggregated: bool) -> FleetExcuse:
    allowed = _allowed(miss)
    least = allowed * miss.ratio
    what = {FleetLimit.TTFT: "the time to the first token", FleetLimit.TPOT: "the time between tokens"}.get(
        miss.limit, "the time to the last token"
    )
    text = (
        f"{what} is at least {least:.4g} s where {allowed:.4g} s are allowed, even on an idle replica: more of them do not help"
    )
    return FleetExcuse(
        hardware.node_type,
        hardware.accelerator,
        engine.name,
        shape,
        is_disaggregated,
        ExcuseReason.MISSES_SERVICE_LEVEL,
        text,
        miss.limit,
        least,
        allowed,
    )


def _allowed(miss: Miss) -> float:
    """The limit that is missed; of several workloads the tightest."""
    names = {FleetLimit.TTFT: "ttft_seconds", FleetLimit.TPOT: "tpot_seconds", FleetLimit.END_TO_END: "end_to_end_seconds"}
    times = (getattr(kind.level, names[miss.limit]) for kind in miss.curve.mix.kinds)
    return float(min(time for time in times if time is not None))
