"""Costs that grow with the length of a sequence: cache bytes, attention operations."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from msgspec import Struct


class ContextCost(Struct, frozen=True):
    """Something that depends on the length T of a sequence: fixed + per_token · T + Σ ⌊min(T, window) / tokens⌋ · each.

    A term without a window is only listed where an entry covers several tokens; else it is part of ``per_token``.
    """

    fixed: float = 0.0
    per_token: float = 0.0
    terms: tuple[tuple[int | None, int, float], ...] = ()  # window, tokens per entry, cost of each entry

    def at(self, context_tokens: float, smaller: Callable[[float, float], float] = min) -> float:
        """The cost of a sequence of so many tokens. A sweep passes ``smaller=np.minimum``."""
        cost = self.fixed + self.per_token * context_tokens
        for window, tokens, each in self.terms:
            covered = context_tokens if window is None else smaller(context_tokens, window)
            cost = cost + covered // tokens * each
        return cost

    @property
    def growing_per_token(self) -> float:
        """What one more token costs for good: terms that no window ends."""
        return self.per_token + sum(each / tokens for window, tokens, each in self.terms if window is None)

    @property
    def windowed_per_token(self) -> float:
        """What one more token costs besides, until the windows are full."""
        return sum((each / tokens for window, tokens, each in self.terms if window is not None), start=0.0)


def add_up(costs: Iterable[tuple[ContextCost, float]]) -> ContextCost:
    """Costs times their counts, like terms merged."""
    fixed = per_token = 0.0
    terms: dict[tuple[int | None, int], float] = defaultdict(float)
    for cost, count in costs:
        fixed += cost.fixed * count
        per_token += cost.per_token * count
        for window, tokens, each in cost.terms:
            terms[window, tokens] += each * count
    return ContextCost(fixed, per_token, tuple((window, tokens, each) for (window, tokens), each in terms.items()))
