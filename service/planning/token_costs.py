"""What a million tokens cost of what a deployment costs per hour, by each way of dividing it between input and output."""

from msgspec import Struct

from service.formulas.cost import (
    cost_per_million_tokens,
    input_cost_per_million_tokens,
    output_cost_per_million_tokens,
    prefill_time_ratio,
)
from service.planning.explain import Apply, plainly
from service.planning.money import CostSplit


class TokenRates(Struct, frozen=True):
    """Tokens per second that a deployment really reads and writes, and the device seconds that each takes.

    ``prefill_seconds`` and ``decode_seconds`` are of any one stretch of time: only their proportion counts. All are finite, the
    rates above zero, the seconds at least zero and not both zero.
    """

    input_tokens_per_second: float
    output_tokens_per_second: float
    prefill_seconds: float
    decode_seconds: float


class TokenCosts(Struct, frozen=True):
    """Cost of a million tokens; with every split, input and output at the rates add up to the cost per hour."""

    split: CostSplit
    input_cost_per_million_tokens: float
    output_cost_per_million_tokens: float


def token_costs(cost_per_hour: float, rates: TokenRates, split: CostSplit, apply: Apply = plainly) -> TokenCosts:
    """The cost of input and output tokens, of what costs so much per hour.

    What is paid for is the hour and not the token: at half the load, a token costs twice as much.
    """
    if split is CostSplit.ALL_OUTPUT:
        of_output = apply(
            cost_per_million_tokens, cost_per_hour=cost_per_hour, tokens_per_second=rates.output_tokens_per_second
        )
        return TokenCosts(split, 0.0, of_output)
    if split is CostSplit.BLENDED:
        together = rates.input_tokens_per_second + rates.output_tokens_per_second
        each = apply(cost_per_million_tokens, cost_per_hour=cost_per_hour, tokens_per_second=together)
        return TokenCosts(split, each, each)
    ratio = apply(prefill_time_ratio, prefill_seconds=rates.prefill_seconds, decode_seconds=rates.decode_seconds)
    of_input = apply(
        input_cost_per_million_tokens,
        cost_per_hour=cost_per_hour,
        prefill_time_ratio=ratio,
        input_tokens_per_second=rates.input_tokens_per_second,
    )
    of_output = apply(
        output_cost_per_million_tokens,
        cost_per_hour=cost_per_hour,
        prefill_time_ratio=ratio,
        output_tokens_per_second=rates.output_tokens_per_second,
    )
    return TokenCosts(split, of_input, of_output)
