"""What requests that arrive at random see: how long they wait for their first token, and how far they differ.

A closed loop starts its requests together, so that prompts queue by how many requests there are; requests that arrive at random
(Poisson) meet only those that happen to come in the same steps. A request waits for the end of the step that runs when it
arrives; all prompts that came in that step are then computed in the next one, beside those that decode. A step's length so
depends on how many came in the one before: its mean and variance follow from that. Floats for a point, arrays for a sweep.
"""

from typing import Final

from msgspec import Struct

from service.catalogue.calibrations import Parameters
from service.formulas.serving import prefill_pass_seconds
from service.planning.pick import Pick
from service.planning.serving.steady import Steady, Traffic, new_tokens

#: Standard normal quantiles of the percentiles that are told.
NORMAL: Final = {"p50": 0.0, "p90": 1.2816, "p99": 2.3263}
RATIOS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_E: Final = 2.718281828459045
#: Prompts that fill more of the time than this have no steady state that could be told from growing queues.
_BUSIEST: Final = 0.98
#: The variance of the mean number of others during a stay, over that at a moment: stays overlap by two thirds on average.
_OVERLAP: Final = 2.0 / 3.0
#: How those that come during a stay and the mean number of others in it go together: 1/2 over the root of the overlap.
_TOGETHER: Final = 0.5 / _OVERLAP**0.5
#: Tukey's lambda distribution of this shape and scale is nearly the normal one.
_SHAPE: Final = 0.135
_SCALE: Final = 0.1975


class Waits(Struct, frozen=True):
    """Times over requests. Seconds: what is the same for all, and mean and deviation of what is not."""

    first_certain: float
    first_varying: float
    first_deviation: float
    token_certain: float
    token_varying: float
    token_deviation: float
    met_chance: float  # of falling into a step that computes a prompt
    met_varying: float  # what is then not the same for all, mean and deviation
    met_deviation: float
    unmet_seconds: float  # the most that a request waits otherwise: one step
    prefill_busy_ratio: float  # of the time, taken by prompts: at 1 they queue without end


def quantile(mean: float, deviation: float, normal: float, pick: Pick) -> float:
    """A quantile of a gamma distribution of that mean and deviation (Wilson and Hilferty, 1931); 0 where there is neither."""
    mean = pick.larger(mean, 1e-12)
    inverse = (deviation / mean) ** 2 / 9  # 1 / (9 · shape)
    found: float = mean * pick.larger(1 - inverse + normal * inverse**0.5, 0.0) ** 3
    return found


def token_quantile(mean: float, deviation: float, key: str, pick: Pick) -> float:
    """A percentile of what others add to the time between tokens: by a gamma or a normal distribution, whichever is longer.

    Where few prompts come in between it is skewed to one side, where places run out to the other.
    """
    skewed = quantile(mean, deviation, NORMAL[key], pick)
    if key == "p50":
        middle: float = pick.where(deviation > mean / 2, skewed, mean)
        return middle
    longer: float = pick.larger(skewed, mean + NORMAL[key] * deviation)
    return longer


def first_quantile(seen: Waits, key: str, queued: float, uneven: float, pick: Pick) -> float:
    """A percentile of what is not the same for all of the time to the first token.

    ``queued``: mean wait for a place. ``uneven``: how much more prompts queue that differ, 1 where all are alike. Few requests
    meet a prompt where prompts are few, and those that do wait long: a gamma distribution alone would miss them.
    """
    whole = quantile(*longer(seen.first_varying * uneven, seen.first_deviation * uneven, queued), NORMAL[key], pick)
    ratio = RATIOS[key]
    unmet = pick.larger(1 - seen.met_chance, 1e-9)
    among = pick.smaller(pick.larger((ratio - unmet) / pick.larger(seen.met_chance, 1e-9), 1e-6), 1 - 1e-6)
    normal = (among**_SHAPE - (1 - among) ** _SHAPE) / _SCALE
    met = quantile(seen.met_varying * uneven, seen.met_deviation * uneven, normal, pick)
    met = pick.where(ratio > unmet, met, 0.0)
    return pick.larger(whole, pick.larger(met, seen.unmet_seconds * pick.smaller(1.0, ratio / unmet)))


def longer(varying: float, deviation: float, queued: float) -> tuple[float, float]:
    """Mean and deviation with a queue added, whose wait is exponential: its deviation is its mean."""
    return varying + queued, (deviation * deviation + queued * queued) ** 0.5


def waits(
    by: Parameters,
    traffic: Traffic,
    state: Steady,
    per_second: float,
    decoding: float,
    elasticity: float,
    step_growth_seconds: float,
    fullest_token_seconds: float,
    pick: Pick,
) -> Waits:
    """Times of requests that arrive ``per_second`` where ``decoding`` others decode on average.

    ``state``: as a request sees it, itself among those that decode. ``elasticity``: by how many per cent the time between
    tokens grows when 1 % more decode. ``step_growth_seconds``: by how much a step does when one more decodes.
    ``fullest_token_seconds``: the time between tokens with every place taken, which no engine exceeds on average.
    """
    apart = traffic.is_disaggregated
    step = state.step.seconds * (1 - apart)
    busy = (1 - _E**-decoding) * (1 - apart)  # the chance that an arrival finds somebody decoding
    tokens = new_tokens(traffic)
    share = pick.larger(pick.smaller(tokens / traffic.tokens_per_pass, 1e6), 0.0)
    passes = pick.larger(share, 1.0)
    beside = by.interference_ratio * prefill_pass_seconds(
        compute_seconds=state.prompt.compute_seconds,
        fixed_seconds=passes * state.prompt.pass_beside_decode_seconds(state.step.experts_read_ratio),
    )
    own = busy * beside + (1 - busy) * state.prompt.seconds
    each = own + busy * step * share  # a prompt that fills its passes keeps others out of them
    last = _last_pass(by, state, per_second, busy, own, step, share, passes, pick)
    load = pick.smaller(per_second * each, _BUSIEST)
    # Prompts that share a pass are done together; of those that fill one, a request waits for those before it alone.
    ahead = 1 - pick.smaller(share, 1.0) / 2
    wait, deviation = _first(per_second, load, each, ahead, busy * step)
    first = wait + last.mean, (deviation**2 + last.variance) ** 0.5
    host = by.first_token_host_seconds + by.prompt_token_seconds * traffic.input_tokens
    certain = host + own + busy * step * passes + last.own
    left, strayed = _left_behind(traffic, per_second, load, each, passes, first, own, busy * step, pick)
    # Whoever decodes longer for it is one more in the steps of others.
    held = per_second * left * pick.larger(traffic.output_tokens - 1, 1.0)
    left = left + held * step_growth_seconds / traffic.tokens_per_step / (1 - load)
    token = _at_most(_token(state, per_second, decoding, elasticity, (left, strayed), pick), fullest_token_seconds, pick)
    met = _met(first, per_second, each + last.own + last.window, busy * step, pick)
    return Waits(certain, *first, *token, *met, per_second * each)


class _LastPass(Struct, frozen=True):
    """What a prompt leaves empty of its last pass. Seconds."""

    own: float  # beyond the part of a pass that the rest of the prompt fills: a pass costs as much whatever its size
    window: float  # in which the next prompt may come that fills it
    mean: float  # what that adds, mean and variance
    variance: float


def _last_pass(
    by: Parameters,
    state: Steady,
    per_second: float,
    busy: float,
    own: float,
    step: float,
    share: float,
    passes: float,
    pick: Pick,
) -> _LastPass:
    """The last pass of a prompt of more than one: short where nobody else waits, and else filled by the next prompt.

    Both make the first token later: it comes with the end of the pass, whoever's tokens are in it.
    """
    steps = pick.larger(1.0, -(-share // 1))
    empty = busy * (steps - passes)
    fixed = by.interference_ratio * state.prompt.pass_beside_decode_seconds(state.step.experts_read_ratio)
    before = (own + busy * step * passes) * (steps - 1) / passes
    chance = 1 - _E ** -(per_second * before)  # that the next one comes while this one is computed
    filled = pick.larger(empty * (own / passes - fixed), 0.0)
    return _LastPass(empty * (fixed + step), empty * before, chance * filled, chance * (1 - chance) * filled**2)


def _at_most(token: tuple[float, float, float], fullest: float, pick: Pick) -> tuple[float, float, float]:
    """What others add, no more than they can: those of short answers would else add prompts without end."""
    certain, varying, deviation = token
    limited = pick.smaller(varying, pick.larger(fullest - certain, 0.0))
    return certain, limited, deviation * limited / pick.larger(varying, 1e-12)


def _met(
    first: tuple[float, float], per_second: float, each: float, step: float, pick: Pick
) -> tuple[float, float, float, float]:
    """The wait of those that fall into a step that computes a prompt: their part, mean and deviation; and the others' most."""
    chance = pick.smaller(pick.larger(per_second * (each + step), 1e-9), 1.0)
    mean = pick.larger(first[0] - (1 - chance) * step / 2, 0.0) / chance
    square = pick.larger(first[0] * first[0] + first[1] * first[1] - (1 - chance) * step * step / 3, 0.0) / chance
    deviation = pick.larger(square - mean * mean, mean * mean / 3) ** 0.5  # at least that of a residual time, which is even
    return chance, mean, deviation, step


def _first(per_second: float, load: float, each: float, ahead: float, step: float) -> tuple[float, float]:
    """Mean and deviation of the wait: for the running step, and for prompts of the next one, of which ``ahead`` are before it.

    A step takes ``step`` and ``each`` for every prompt that came during the one before: K ~ Poisson(λ·S). Without steps, and
    with half of the prompts before it, this is the queue of one server (M/D/1).
    """
    mean_step = step / (1 - load)
    variance = each * each * per_second / (1 - load * load)  # of a step, over its mean
    seen = mean_step + variance  # the step that an arrival falls into: long ones are met more often
    spread = variance * seen
    load = load * ahead
    wait = seen / 2 + load * seen
    square = (seen * seen + spread) / 3 - seen * seen / 4
    square = square + each * each * per_second * ahead * seen + load * load * spread + load * spread
    return wait, square**0.5


def _left_behind(
    traffic: Traffic,
    per_second: float,
    load: float,
    each: float,
    passes: float,
    first: tuple[float, float],
    own: float,
    step: float,
    pick: Pick,
) -> tuple[float, float]:
    """What the prompts that came while a request waited add to each of its tokens, mean and deviation.

    They are computed while it decodes, and so are those that come meanwhile; at its end fewer wait than at its start, since
    it starts where prompts bunch. Where they need more passes than it has tokens, it has its last token before: of numbers that
    are spread exponentially around their mean, the mean of those up to a limit.
    """
    tokens = pick.larger(traffic.output_tokens - 1, 1.0)
    waited = pick.larger(first[0] + own + step - step / (1 - load), 0.0)
    each_token = each * per_second / (1 - load) / tokens * (1 - traffic.is_disaggregated)
    added = pick.larger(waited * each_token, 1e-12)
    most = each / passes * (1 - traffic.is_disaggregated)  # with a pass beside every token
    kept = (1 - _E ** -(most / added)) * added
    return kept, first[1] * each_token * kept / added


def _token(
    state: Steady,
    per_second: float,
    decoding: float,
    elasticity: float,
    left: tuple[float, float],
    pick: Pick,
) -> tuple[float, float, float]:
    """Time between tokens: for a request alone, and mean and deviation of what others add.

    Others differ in number, and a slower engine holds more of them: the square root of their number over (1 − elasticity).
    """
    feedback = pick.larger(1 - elasticity, 0.05)
    mean = state.inter_token_seconds
    relative = elasticity * (_OVERLAP / feedback / pick.larger(decoding, 1e-9)) ** 0.5
    met = pick.larger(per_second * state.decode_seconds, 1e-9)
    counted = state.interference_seconds / met**0.5 / feedback
    varying = pick.smaller(mean, pick.larger(state.interference_seconds + elasticity * mean, 1e-12))
    batch_part = relative * mean * (1 - state.interference_seconds / mean)
    variance = batch_part * batch_part + counted * counted + 2 * _TOGETHER * batch_part * counted + left[1] * left[1]
    return mean - varying, varying + left[0], variance**0.5
