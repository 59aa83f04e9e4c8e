"""What a million output tokens cost and take in energy on one accelerator: at the bound, and by the estimate."""

from collections.abc import Callable

from msgspec import Struct

from service.formulas.cost import cost_per_million_tokens, energy_joules_per_token
from service.planning.explain import Apply
from service.planning.serving.results import Interval


class TokenPrices(Struct, frozen=True):
    """Of a million output tokens that bear everything; ``None`` where the rate, the price or the power is not known.

    At the bound nothing is cheaper; an estimate is a range, whose p10 is of the rate's p90.
    """

    bound_cost: float | None
    bound_joules: float | None
    estimated_cost: Interval | None
    estimated_joules: Interval | None


def token_prices(
    cost_per_hour: float | None, watts: float | None, bound_rate: float | None, estimated_rate: Interval | None, apply: Apply
) -> TokenPrices:
    """All four. Rates are output tokens per second and device, as are the cost and the power of one device."""

    def cost(rate: float) -> float | None:
        if not cost_per_hour or not rate:
            return None
        return apply(cost_per_million_tokens, cost_per_hour=cost_per_hour, tokens_per_second=rate)

    def joules(rate: float) -> float | None:
        return apply(energy_joules_per_token, watts=watts, tokens_per_second=rate) * 1e6 if watts and rate else None

    return TokenPrices(
        bound_cost=cost(bound_rate) if bound_rate else None,
        bound_joules=joules(bound_rate) if bound_rate else None,
        estimated_cost=_of_range(estimated_rate, cost),
        estimated_joules=_of_range(estimated_rate, joules),
    )


def _of_range(rate: Interval | None, of: Callable[[float], float | None]) -> Interval | None:
    """What falls as the rate grows, over its range."""
    if rate is None:
        return None
    low, middle, high = of(rate.p90), of(rate.p50), of(rate.p10)
    return None if low is None or middle is None or high is None else Interval(low, middle, high)
