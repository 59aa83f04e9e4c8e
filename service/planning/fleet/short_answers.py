"""The time between tokens of answers of a few tokens, which no mean evens out: how many prompts fall between them.

A step computes the prompts that came during the step before. A request's own prompt makes one step longer, so that more prompts
come in just then, and their steps let in others: the counts of one step after the other are a branching process with
immigration. Its mean and variance over the steps of the answer are exact; a negative binomial distribution of those two takes
its place, whose percentiles are whole prompts, as those that requests see are.
"""

from typing import Any, Final

import numpy as np

from service.catalogue.calibrations import Parameters
from service.formulas.serving import prefill_pass_seconds
from service.planning.serving.steady import Steady

#: Answers of so few gaps between tokens are counted by whole prompts; in longer ones the mean of the gaps differs little.
MOST_GAPS: Final = 8
#: More prompts than this between the tokens of so short an answer keep no service level.
_MOST_PROMPTS: Final = 64
#: Prompts that fill more of the time than this have no steady state.
_BUSIEST: Final = 0.98

Array = Any  # numpy.ndarray of float64


def tpot_quantile(by: Parameters, state: Steady, rate: Array, gaps: int, ratio: float) -> Array:
    """Seconds between tokens that this part of the requests stay within, for an answer of so many gaps."""
    step = state.step.seconds
    one = _prompts_seconds(by, state, 1.0)
    load = np.minimum(rate * one, _BUSIEST)
    mean, variance = _moments(rate * step, load, gaps)
    prompts = _negative_binomial_quantile(mean, variance, ratio)
    steps = np.clip(prompts, 1.0, gaps)  # they come in as many steps as there are, or one by one
    return step + steps * _prompts_seconds(by, state, prompts / steps) / gaps


def _prompts_seconds(by: Parameters, state: Steady, count: Array) -> Array:
    """What so many prompts add to one step that decodes: they share a pass."""
    prompt = state.prompt
    beside: Any = prompt.pass_beside_decode_seconds(state.step.experts_read_ratio)
    fixed: Any = np.where(np.asarray(count) > 0, beside, 0.0)
    both = prefill_pass_seconds(compute_seconds=count * prompt.compute_seconds, fixed_seconds=fixed)
    return by.interference_ratio * both


def _moments(per_step: Array, load: Array, gaps: int) -> tuple[Array, Array]:
    """Mean and variance of the prompts in so many steps after one's own.

    ``per_step``: prompts that come during a step without any; ``load``: those that come while one is computed.
    """
    before = per_step / (1 - load) + load  # in its own step, besides its own: those of a step of the mean length and a bit
    expected = per_step + load * (1 + before)
    mean, variance = np.zeros_like(load), np.zeros_like(load)
    for left in range(gaps, 0, -1):
        weight = (1 - load**left) / (1 - load)  # itself and all that come of it within the steps that are left
        mean, variance = mean + expected, variance + expected * weight**2
        expected = per_step + load * expected
    return mean, variance + before * (load * (1 - load**gaps) / (1 - load)) ** 2


def _negative_binomial_quantile(mean: Array, variance: Array, ratio: float) -> Array:
    """The fewest that this part stays within; a Poisson distribution where the variance is no larger than the mean."""
    mean = np.maximum(mean, 1e-12)
    over = np.maximum(variance / mean - 1, 1e-9)
    size = mean / over
    chance = over / (1 + over)
    each = np.exp(-size * np.log1p(over))
    below, found = each.copy(), np.zeros_like(mean)
    for count in range(1, _MOST_PROMPTS + 1):
        found = np.where(below < ratio, float(count), found)
        each = each * (size + count - 1) / count * chance
        below = below + each
    return found
