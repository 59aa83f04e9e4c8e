"""What no engine beats: the least of each time and the most of each rate, at which ranges are cut.

A range says how far runs lie from the estimate elsewhere; where the estimate lies near the bound, its lower end would promise
what the device cannot do.
"""

from msgspec import Struct

from service.planning.pick import FLOATS, Pick
from service.planning.serving.prefill_bound import PrefillBound
from service.planning.serving.steady import Traffic, new_tokens
from service.planning.serving.work import ServingWork


class Floors(Struct, frozen=True):
    """Seconds at least, and requests per second at most. Floats, or arrays in a sweep."""

    inter_token_seconds: float
    first_token_seconds: float
    requests_per_second: float

    def end_to_end_seconds(self, output_tokens: float) -> float:
        """From arrival to the last token."""
        return self.first_token_seconds + self.inter_token_seconds * (output_tokens - 1)


def floors(
    prompts: PrefillBound,
    work: ServingWork,
    traffic: Traffic,
    step_seconds: float,
    batch: float,
    replicas: tuple[int, int] = (1, 1),
    pick: Pick = FLOATS,
) -> Floors:
    """By the bound on a step of so many requests, ``step_seconds``. ``replicas``: that compute prompts, and that decode."""
    cached = traffic.input_tokens * traffic.cached_ratio
    asked = (work, new_tokens(traffic), cached, pick)
    token = step_seconds / traffic.tokens_per_step
    prompt_share = prompts.arithmetic_seconds(*asked) / (prompts.num_groups * replicas[0])
    answer_share = token * (traffic.output_tokens - 1) / (batch * replicas[1])
    return Floors(token, prompts.seconds(*asked), 1 / pick.larger(prompt_share, answer_share))
