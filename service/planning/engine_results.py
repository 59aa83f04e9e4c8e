"""What an engine's view of the memory consists of: the nouns of the answer."""

from dataclasses import dataclass
from enum import StrEnum

from service.planning.engine_stages import EngineBudgetLine
from service.planning.results import Cure


class EngineOutcome(StrEnum):
    """What the engine does when it is started so."""

    STARTS = "STARTS"
    REFUSED_NO_KV = "REFUSED_NO_KV"
    REFUSED_MAX_LEN = "REFUSED_MAX_LEN"
    OUT_OF_MEMORY_LOADING_WEIGHTS = "OUT_OF_MEMORY_LOADING_WEIGHTS"


@dataclass(frozen=True, slots=True)
class Holding:
    """What a pool of a given size holds, over all stages: the stage with the fewest blocks decides."""

    num_blocks: float
    kv_cache_tokens: float  # as the engine prints them
    max_concurrency: float  # at max_model_len
    longest_context_tokens: float
    outcome: EngineOutcome


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """An engine's own view of the memory. Per device; of the stage that decides, where there are several.

    ``kv_bytes_per_token_per_device`` is what one token costs in every layer, padding layers included. ``low`` and ``high`` are
    what the pool would hold at the ends of its range; ``outcome_is_certain`` says whether they agree with ``likely``.
    ``replica_max_concurrency`` counts every attention-data rank, each of which is an engine with a pool of its own.
    """

    engine: str
    version: str
    likely: Holding
    low: Holding
    high: Holding
    statement: str
    budget: tuple[EngineBudgetLine, ...]
    stage_budgets: tuple[tuple[EngineBudgetLine, ...], ...]  # of every pipeline stage, first to last
    kv_pool_bytes_per_device: float
    kv_pool_low_bytes_per_device: float
    kv_pool_high_bytes_per_device: float
    kv_bytes_per_token_per_device: float
    needed_bytes_per_device: float  # for one sequence of max_model_len
    replica_max_concurrency: float
    block_tokens: int
    num_padding_layers: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    memory_fraction: float
    remedies: tuple[Cure, ...]
    assumptions: tuple[str, ...]

    @property
    def outcome(self) -> EngineOutcome:
        """What the engine most likely does."""
        return self.likely.outcome

    @property
    def outcome_is_certain(self) -> bool:
        """Whether it does the same over the whole range."""
        return self.low.outcome is self.likely.outcome is self.high.outcome
