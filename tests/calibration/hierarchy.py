"""The parameters of all engines and generations together: a common value, and how far each engine and generation departs.

Departures are held near none by their priors, so that what is measured on one pair speaks for the others, and an engine or a
generation without runs of its own takes the common value. All in logarithms: a departure is a factor.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from service.catalogue.calibrations import PARAMETER_NAMES, Parameters


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of a parameter before any run: its most likely value and the spread of its logarithm.

    ``by_engine`` and ``by_generation``: the spread of the departures; 0 where there is none.
    """

    value: float
    spread: float
    by_engine: float = 0.0
    by_generation: float = 0.0


#: Bandwidth and peak ratios and collectives: medians of measured kernels (README.md); times: of the order of a few launches.
PRIORS: Final[Mapping[str, Prior]] = {
    "dense_bandwidth_ratio": Prior(0.84, 0.1, 0.0, 0.05),
    "eight_bit_bandwidth_ratio": Prior(0.95, 0.1),
    "four_bit_bandwidth_ratio": Prior(0.7, 0.2),
    "expert_bandwidth_ratio": Prior(0.8, 0.15, 0.0, 0.1),
    "four_bit_expert_bandwidth_ratio": Prior(0.9, 0.15),
    "cache_bandwidth_ratio": Prior(0.82, 0.15, 0.0, 0.25),
    "widening_bytes_per_second": Prior(2.7e12, 0.3),
    "routing_exponent": Prior(0.85, 0.1),
    "layer_seconds": Prior(20e-6, 0.5, 0.3),
    "quantized_layer_seconds": Prior(20e-6, 0.6),
    "expert_layer_seconds": Prior(40e-6, 0.5, 0.3),
    "widening_layer_seconds": Prior(15e-6, 0.6),
    "latent_layer_seconds": Prior(50e-6, 0.6),
    "linear_layer_seconds": Prior(50e-6, 0.6),
    "seconds_per_expert": Prior(0.1e-6, 0.8),
    "step_seconds": Prior(0.4e-3, 0.8, 0.5),
    "request_seconds": Prior(10e-6, 0.8, 0.5),
    "collective_ratio": Prior(1.2, 0.3, 0.2),
    "decode_attention_compute_ratio": Prior(0.3, 0.4),
    "prefill_sixteen_bit_ratio": Prior(0.65, 0.2, 0.0, 0.15),
    "prefill_eight_bit_ratio": Prior(0.5, 0.2, 0.0, 0.15),
    "prefill_four_bit_ratio": Prior(0.42, 0.2, 0.0, 0.15),
    "expert_prefill_ratio": Prior(0.4, 0.4),
    "prefill_attention_ratio": Prior(0.5, 0.4),
    "linear_prefill_factor": Prior(3.0, 0.5),
    "latent_prefill_factor": Prior(1.5, 0.5),
    "prefill_state_moves": Prior(20.0, 0.5),
    "prefill_launch_ratio": Prior(6.0, 0.6, 0.2, 0.2),
    "interference_ratio": Prior(1.0, 0.1, 0.1),
    "first_token_host_seconds": Prior(40e-3, 0.8, 0.6),
    "prompt_token_seconds": Prior(5e-6, 0.7),
    "prompts_ahead_per_request": Prior(0.07, 0.4, 0.2),
    "yearly_speedup": Prior(1.7, 0.2, 0.2),
}
#: Departures that several parameters share: the pace of a generation's small kernels, how well an engine prefills.
KERNEL_PACE: Final = (
    "layer_seconds",
    "quantized_layer_seconds",
    "expert_layer_seconds",
    "latent_layer_seconds",
    "linear_layer_seconds",
)
PREFILL: Final = (
    "prefill_sixteen_bit_ratio",
    "prefill_eight_bit_ratio",
    "prefill_four_bit_ratio",
    "prefill_attention_ratio",
)
_SHARED: Final = {("kernel pace", "generation"): (KERNEL_PACE, 0.2), ("prefill", "engine"): (PREFILL, 0.2)}


class Hierarchy:
    """The vector that is fitted, and how parameters follow from it."""

    def __init__(self, engines: Sequence[str], generations: Sequence[str], measured: Mapping[str, Mapping[str, float]]) -> None:
        """``measured``: by generation, parameters that operator data give: where a departure begins, or the value itself."""
        self.engines, self.generations, self._measured = tuple(engines), tuple(generations), measured
        self._index: dict[tuple[str, str, str], int] = {}
        means: list[float] = []
        spreads: list[float] = []

        def add(key: tuple[str, str, str], mean: float, spread: float) -> None:
            self._index[key] = len(means)
            means.append(mean)
            spreads.append(spread)

        for name, prior in PRIORS.items():
            add((name, "", ""), math.log(prior.value), prior.spread)
            for level, members, spread in (
                ("engine", self.engines, prior.by_engine),
                ("generation", self.generations, prior.by_generation),
            ):
                for member in members if spread else ():
                    add((name, level, member), 0.0, spread)
        for (name, level), (_, spread) in _SHARED.items():
            for member in self.engines if level == "engine" else self.generations:
                add((name, level, member), 0.0, spread)
        self._keys = tuple(self._index)
        self.means, self.spreads = np.array(means), np.array(spreads)

    def is_departure_beyond(self, position: int, engines: set[str], generations: set[str]) -> bool:
        """Whether a place of the vector belongs to an engine or a generation that is not among these."""
        _, level, member = self._keys[position]
        return (level == "engine" and member not in engines) or (level == "generation" and member not in generations)

    def value(self, vector: Any, name: str, engine: str, generation: str) -> float:
        """One parameter of one engine on one generation, for a release of the reference day."""
        given = self._measured.get(generation, {})
        if name not in PRIORS:
            return given[name]
        total = vector[self._index[name, "", ""]] + math.log(given.get(name, 1.0))
        for level, member in (("engine", engine), ("generation", generation)):
            position = self._index.get((name, level, member))
            total += vector[position] if position is not None else 0.0
        for (shared, level), (names, _) in _SHARED.items():
            member = engine if level == "engine" else generation
            position = self._index.get((shared, level, member))
            total += vector[position] if name in names and position is not None else 0.0
        return math.exp(total)

    def parameters(self, vector: Any, engine: str, generation: str) -> Parameters:
        """All parameters of one engine on one generation."""
        return Parameters(**{name: self.value(vector, name, engine, generation) for name in PARAMETER_NAMES})
