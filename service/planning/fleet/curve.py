"""What requests see on one replica, at every number of them that decode: the whole curve at once, on arrays.

Both the arrival rate and every time grow with the number of requests that decode, so one walk along it answers how many
requests per second a replica carries within a service level. The physics are those of ``serving.load.arrivals``.
"""

from functools import cached_property
from typing import Any, Final

import numpy as np
from msgspec import Struct

from service.catalogue.calibrations import Parameters, Spreads
from service.planning.fleet.demand import MID, Kind, Mix
from service.planning.fleet.results import FleetLimit
from service.planning.fleet.short_answers import MOST_GAPS, tpot_quantile
from service.planning.pick import ARRAYS
from service.planning.requests import EngineSpec, ModelSpec
from service.planning.serving.estimate import Deployment, ServingEstimator
from service.planning.serving.load import as_met, fullest, place_wait, waits_of
from service.planning.serving.places import Places
from service.planning.serving.steady import TOKENS_PER_PASS, Steady, Traffic
from service.planning.serving.step import prefill
from service.planning.serving.waiting import RATIOS, Waits, first_quantile, token_quantile
from service.planning.serving.work import ServingWork

#: Requests that decode at the low end: a replica that is idle but for one request in a hundred.
IDLE: Final = 0.01
_HALVINGS: Final = 30
#: An answer of a single token never decodes, so that no number of decoding requests says how many arrive: one step more is
#: counted.
_FEWEST: Final = 2.0

#: How far percentiles of the time between tokens may lie above what the formulas say: they were held against a simulation, and
#: where nearly all requests see the same time, a small error in it moves many over the limit.
_MARGIN: Final = 1.03

Array = Any  # numpy.ndarray of float64


class Points(Struct, frozen=True):
    """The curve at some numbers of decoding requests; every field an array."""

    decoding: Array
    rate: Array
    state: Steady
    seen: Waits
    queue: Array
    load: Array  # rate over the most that can be finished


class Curve(Struct, frozen=True, dict=True):
    """One replica under one mix. ``certainty``: what times are multiplied by to be sure, first token and between tokens."""

    work: ServingWork
    by: Parameters
    mix: Mix
    held: Places
    certainty: tuple[float, float]
    tokens_per_pass: float
    is_disaggregated: bool = False
    notes: tuple[str, ...] = ()  # what was taken for granted of the replica

    @cached_property
    def traffic(self) -> Traffic:
        """One request that stands for all: of the mean answer, and of a prompt that takes the mean time."""
        kinds = self.mix.kinds
        cached = kinds[0].cached_ratio if len(kinds) == 1 else 0.0
        return Traffic(
            input_tokens=kinds[0].input_tokens if len(kinds) == 1 else self._equivalent_prompt(),
            output_tokens=max(self.mix.output_tokens, _FEWEST),
            cached_ratio=cached,
            tokens_per_pass=self.tokens_per_pass,
            is_disaggregated=float(self.is_disaggregated),
        )

    @cached_property
    def _fullest(self) -> tuple[Steady, float]:
        return fullest(self.work, self.by, self.traffic, self.held.most)

    @property
    def full(self) -> Steady:
        """A replica with every place taken."""
        return self._fullest[0]

    @property
    def full_rate(self) -> float:
        """The most requests per second that a replica finishes."""
        return self._fullest[1]

    def at(self, decoding: Array) -> Points:
        """The curve where so many requests decode on average."""
        state = as_met(self.work, self.by, self.traffic, decoding, pick=ARRAYS)
        rate = decoding / np.maximum(state.decode_seconds, 1e-9)
        seen = waits_of(self.work, self.by, self.traffic, state, rate, decoding, self.full, ARRAYS)
        load = rate / self.full_rate
        first = seen.first_certain + seen.first_varying
        queue = place_wait(self.traffic, load, state.decode_seconds, first, self.held.most, ARRAYS)
        return Points(decoding, rate, state, seen, queue, load)

    def grid(self, count: int) -> Array:
        """Numbers of decoding requests from all but none to every place."""
        return np.geomspace(self._least, max(self.held.most, 2 * IDLE), count)

    @cached_property
    def _least(self) -> float:
        """So few that decode that the replica is idle, also where prompts take most of its time."""
        alone = as_met(self.work, self.by, self.traffic, 0.0)
        return min(IDLE, IDLE * self.full_rate * alone.decode_seconds)

    # -- times over requests ------------------------------------------------------------------------------------------

    def ttft(self, points: Points, kind: Kind, percentile: str | None) -> Array:
        """Seconds to the first token of one kind: at a percentile, or the mean where none is named."""
        seen, uneven = points.seen, self.unevenness
        certain = seen.first_certain + self._longer_prompt(kind)
        times = seen.first_varying * uneven + points.queue
        if percentile is not None:
            times = first_quantile(seen, percentile, points.queue, uneven, ARRAYS)
        return (certain + times) * self.certainty[0]

    def tpot(self, points: Points, kind: Kind, percentile: str | None) -> Array:
        """Seconds between tokens of one kind: at a percentile, or the mean where none is named."""
        seen = points.seen
        times = seen.token_varying
        if percentile is not None:
            shorter = max(1.0, self.mix.output_tokens / kind.output_tokens)  # a short answer evens out less
            deviation = seen.token_deviation * (self.unevenness * shorter) ** 0.5
            whole = seen.token_certain + token_quantile(seen.token_varying, deviation, percentile, ARRAYS)
            gaps = round(kind.output_tokens - 1)
            if 1 <= gaps <= MOST_GAPS and not self.is_disaggregated:
                counted = tpot_quantile(self.by, points.state, points.rate, gaps, RATIOS[percentile])
                whole = counted if len(self.mix.kinds) == 1 else np.maximum(counted, whole)
            return whole * _MARGIN * self.certainty[1]
        return (seen.token_certain + times) * self.certainty[1]

    def end_to_end(self, points: Points, kind: Kind, percentile: str | None) -> Array:
        """Seconds to the last token: a request that waits long is taken to decode slowly too."""
        gaps = max(kind.output_tokens - 1, 0.0)
        return self.ttft(points, kind, percentile) + self.tpot(points, kind, percentile) * gaps

    def excess(self, points: Points) -> dict[FleetLimit, Array]:
        """Each time over what is allowed, of several kinds the worst; a service level is kept where none is above 1."""
        worst: dict[FleetLimit, Array] = {}
        for kind in self.mix.kinds:
            level = kind.level
            asked = (
                (FleetLimit.TTFT, level.ttft_seconds, self.ttft),
                (FleetLimit.TPOT, level.tpot_seconds if kind.output_tokens > 1 else None, self.tpot),
                (FleetLimit.END_TO_END, level.end_to_end_seconds, self.end_to_end),
            )
            for limit, allowed, time in asked:
                if allowed is not None:
                    ratio = time(points, kind, kind.percentile) / allowed
                    worst[limit] = np.maximum(worst[limit], ratio) if limit in worst else ratio
        return worst

    # -- kinds that differ --------------------------------------------------------------------------------------------

    def prompt_seconds(self, tokens: float, cached_ratio: float) -> float:
        """Seconds of one prompt computed alone."""
        alone = prefill(
            self.work,
            self.by,
            new_tokens=tokens * (1 - cached_ratio),
            cached_tokens=tokens * cached_ratio,
            tokens_per_pass=self.tokens_per_pass,
        )
        return alone.seconds

    @cached_property
    def _prompts(self) -> tuple[float, ...]:
        return tuple(self.prompt_seconds(kind.input_tokens, kind.cached_ratio) for kind in self.mix.kinds)

    @cached_property
    def mean_prompt_seconds(self) -> float:
        """Seconds of a prompt computed alone, over all kinds."""
        total = self.mix.rates[MID]
        return sum(each * kind.rates[MID] for each, kind in zip(self._prompts, self.mix.kinds, strict=True)) / total

    @cached_property
    def unevenness(self) -> float:
        """The mean square of a prompt's time over the square of its mean: how much more prompts that differ queue."""
        if len(self.mix.kinds) == 1:
            return 1.0
        pairs = zip(self._prompts, self.mix.kinds, strict=True)
        square = sum(each * each * kind.rates[MID] for each, kind in pairs) / self.mix.rates[MID]
        return float(square / self.mean_prompt_seconds**2)

    def _longer_prompt(self, kind: Kind) -> float:
        """By how many seconds a kind's own prompt takes longer than the one that stands for all."""
        if len(self.mix.kinds) == 1:
            return 0.0
        own = self._prompts[self.mix.kinds.index(kind)]
        host = self.by.prompt_token_seconds * (kind.input_tokens - self.traffic.input_tokens)
        return own - self.prompt_seconds(self.traffic.input_tokens, 0.0) + host

    def _equivalent_prompt(self) -> float:
        """Tokens of a prompt that takes the mean time, and at least as many as keep the mean context of those that decode."""
        low, high = 1.0, max(kind.input_tokens for kind in self.mix.kinds)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.prompt_seconds(middle, 0.0) < self.mean_prompt_seconds:
                low = middle
            else:
                high = middle
        return max(high, mean_context(self.mix) - self.mix.output_tokens / 2, 1.0)


def mean_context(mix: Mix) -> float:
    """Tokens that a request which decodes holds on average."""
    answers = sum(kind.rates[MID] * kind.output_tokens for kind in mix.kinds)
    held = sum(kind.rates[MID] * kind.output_tokens * (kind.input_tokens + kind.output_tokens / 2) for kind in mix.kinds)
    return held / answers


def certainty_of(spreads: Spreads, is_cautious: bool) -> tuple[float, float]:
    """What times are multiplied by: nothing, or the upper ends of the calibration's ranges."""
    return (spreads.first_token.p90, spreads.inter_token.p90) if is_cautious else (1.0, 1.0)


def replica_curve(
    serving: ServingEstimator,
    deployed: Deployment,
    model: ModelSpec,
    engine: EngineSpec,
    mix: Mix,
    held: Places,
    *,
    is_cautious: bool,
) -> Curve:
    """The curve of a deployment that is calibrated and fits. ``is_cautious``: by the upper ends of the calibration's ranges."""
    assert deployed.generation is not None
    by = serving.parameters(deployed.generation, deployed.calibration, engine.version)
    familiar = serving.is_familiar(model, deployed)
    spreads = deployed.generation.familiar if familiar else deployed.generation.unfamiliar
    per_pass = float(engine.max_num_batched_tokens or TOKENS_PER_PASS)
    return Curve(deployed.work, by, mix, held, certainty_of(spreads, is_cautious), per_pass)
