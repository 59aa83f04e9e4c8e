"""A question asked of a named engine: what the engine says laid over the plain arithmetic."""

from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from service.planning.device import Device
from service.planning.engine_memory import engine_memory
from service.planning.errors import InvalidRequest, Violation
from service.planning.explain import Apply, plainly
from service.planning.footprint import FootprintBuilder
from service.planning.requests import EngineSpec, Parallelism
from service.planning.resolve import Resolver
from service.planning.results import Cure, EngineMemory, EngineOutcome, Shortfall


class EngineView(Struct, frozen=True, dict=True):
    """An engine's memory for one shape, and what of the asked sequences it holds."""

    memory: EngineMemory
    at_context: EngineMemory  # the same with sequences of the asked context
    sequences: int
    sequences_field: str
    context_tokens: int
    attention_groups: int

    @cached_property
    def max_sequences(self) -> float:
        """Whole sequences of the asked context over the replica; 0 where the engine does not start."""
        if self.memory.outcome is not EngineOutcome.STARTS:
            return 0.0
        return float(self.at_context.likely.max_concurrency // 1) * self.attention_groups

    @property
    def max_tokens(self) -> float:
        """Tokens in sequences of the asked context, parts of a sequence counted."""
        return float(self.at_context.replica_max_concurrency * self.context_tokens // 1)

    @property
    def fits(self) -> bool:
        """Whether the engine starts and holds the asked sequences at once."""
        return self.max_sequences >= self.sequences

    @property
    def headroom_bytes(self) -> float:
        """What is left of the pool beside the asked sequences; negative where it does not fit."""
        return self.memory.kv_pool_bytes_per_device - self._required_bytes

    @property
    def _required_bytes(self) -> float:
        return self.at_context.needed_bytes_per_device * -(-self.sequences // self.attention_groups)

    def shortfall(self) -> Shortfall | None:
        """What the engine lacks and what cures it, by its own flags where it does not start; None where it fits."""
        if self.fits:
            return None
        has = max(0.0, self.memory.kv_pool_bytes_per_device)
        starts = self.memory.outcome is EngineOutcome.STARTS
        required = self._required_bytes if starts else max(self.memory.needed_bytes_per_device, self._required_bytes)
        held = f"{self.max_sequences:.0f} sequence{'' if self.max_sequences == 1 else 's'} of {self.context_tokens} tokens fit"
        cures = (Cure(self.sequences_field, f"{self.max_sequences:.0f}", held),) if self.max_sequences else ()
        description = f"{self.memory.statement}; {held}" if starts else self.memory.statement
        short = max(0.0, required - has)
        return Shortfall("ENGINE_KV_POOL", required, has, short, description, (*cures, *self.memory.remedies))


class EngineQuestion(Struct, frozen=True):
    """An engine asked about one model on one kind of device, shape after shape."""

    resolver: Resolver
    builder: FootprintBuilder
    device: Device
    engine: EngineSpec
    sequences: int
    sequences_field: str
    context_tokens: int

    def view(self, shape: Parallelism, *, with_remedies: bool = True, apply: Apply = plainly) -> EngineView:
        """What the engine says of a shape. InvalidRequest, NotFound or Unanswerable as ``engine_memory``."""
        settings = replace(self.engine, max_model_len=self.engine.max_model_len or self.context_tokens)
        memory = self._memory(settings, shape, with_remedies, apply)
        same = settings.max_model_len == self.context_tokens
        context = replace(settings, max_model_len=self.context_tokens)
        at_context = memory if same else self._memory(context, shape, False, plainly)
        return EngineView(memory, at_context, self.sequences, self.sequences_field, self.context_tokens, shape.attention_data)

    def _memory(self, settings: EngineSpec, shape: Parallelism, with_remedies: bool, apply: Apply) -> EngineMemory:
        return engine_memory(
            self.resolver.catalogue, self.builder, shape, self.device, settings, with_remedies=with_remedies, apply=apply
        )


def check_engine(engine: EngineSpec | None, context_tokens: int, memory_utilization_ratio: float | None) -> None:
    """InvalidRequest where the request contradicts the engine that it names."""
    if engine is None:
        return
    violations = []
    if memory_utilization_ratio is not None:
        reason = "an engine has a memory fraction of its own"
        violations.append(Violation("memory_utilization_ratio", reason, "give the engine's own flag instead"))
    if engine.max_model_len is not None and context_tokens > engine.max_model_len:
        reason = f"the engine accepts no more than max_model_len {engine.max_model_len}"
        violations.append(Violation("context_tokens", reason, "give a shorter context or a larger engine.max_model_len"))
    if violations:
        raise InvalidRequest(*violations)
