"""A question asked of a named engine: what the engine says laid over the plain arithmetic."""

from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from service.planning.cures import Question, larger_hardware_cure, lighter_weights_cure, sequences
from service.planning.device import Device
from service.planning.engine_memory import engine_memory
from service.planning.engine_remedies import TENSOR, wider
from service.planning.errors import InvalidRequest, PlanningError, Violation
from service.planning.explain import Apply, plainly
from service.planning.requests import AcceleratorSpec, EngineSpec, Parallelism
from service.planning.resolve import Resolver
from service.planning.results import Cure, EngineBudgetItem, EngineMemory, EngineOutcome, Shortfall


class EngineView(Struct, frozen=True, dict=True):
    """An engine's memory for one shape, and what of the asked sequences it holds."""

    memory: EngineMemory
    at_context: EngineMemory  # the same with sequences of the asked context
    asked: Question
    attention_groups: int
    other_cures: tuple[Cure, ...] = ()  # beside those by the engine's own flags

    @cached_property
    def max_sequences(self) -> float:
        """Whole sequences of the asked context over the replica; 0 where the engine does not start."""
        if self.memory.outcome is not EngineOutcome.STARTS:
            return 0.0
        return float(self.at_context.likely.max_concurrency // 1) * self.attention_groups

    @property
    def max_tokens(self) -> float:
        """Tokens in sequences of the asked context, parts of a sequence counted."""
        return float(self.at_context.replica_max_concurrency * self.asked.context_tokens // 1)

    @property
    def fits(self) -> bool:
        """Whether the engine starts and holds the asked sequences at once."""
        return self.max_sequences >= self.asked.sequences

    @property
    def headroom_bytes(self) -> float:
        """What is left of the pool beside the asked sequences; negative where it does not fit."""
        return self.memory.kv_pool_bytes_per_device - self._required_bytes

    @property
    def _required_bytes(self) -> float:
        return self.at_context.needed_bytes_per_device * self._sequences_per_device

    @property
    def _sequences_per_device(self) -> int:
        return -(-self.asked.sequences // self.attention_groups)

    def shortfall(self) -> Shortfall | None:
        """What the engine lacks and what cures it, by its own flags where it does not start; None where it fits.

        Where even weights and the engine's own memory are too large for a device, what they lack is required too.
        """
        if self.fits:
            return None
        pool, field = self.memory.kv_pool_bytes_per_device, self.asked.sequences_field
        starts = self.memory.outcome is EngineOutcome.STARTS
        required = self._required_bytes if starts else max(self.memory.needed_bytes_per_device, self._required_bytes)
        held = f"{sequences(int(self.max_sequences))} of {self.asked.context_tokens} tokens fit"
        fewer = (Cure(field, f"{self.max_sequences:.0f}", held),) if self.max_sequences else ()
        description = f"{self.memory.statement}; {held}" if starts else self.memory.statement
        cures = (*fewer, *self._remedies(), *self.other_cures)
        states = next((line for line in self.memory.budget if line.item is EngineBudgetItem.STATE_POOL), None)
        if starts and states is not None and required <= pool:
            # The cache would do: the pool of recurrent states holds too few.
            has = states.bytes_per_device
            required = has * self._sequences_per_device / max(1.0, self.at_context.likely.max_concurrency)
            return Shortfall("ENGINE_STATE_POOL", required, has, required - has, description, cures)
        required, has = required - min(0.0, pool), max(0.0, pool)
        return Shortfall("ENGINE_KV_POOL", required, has, max(0.0, required - has), description, cures)

    def _remedies(self) -> Iterator[Cure]:
        """The engine's own, by the fields of this request: an engine of which no length is given is started for its context."""
        for cure in self.memory.remedies:
            if cure.field == TENSOR:
                continue  # with which it starts, but may hold too few
            is_context = cure.field == "engine.max_model_len" and self.memory.max_model_len == self.asked.context_tokens
            yield Cure("context_tokens", cure.value, cure.description) if is_context else cure


class EngineQuestion(Struct, frozen=True):
    """An engine asked about one model on one kind of device, shape after shape."""

    resolver: Resolver
    device: Device
    engine: EngineSpec
    asked: Question

    def view(self, shape: Parallelism, *, with_remedies: bool = True, apply: Apply = plainly) -> EngineView:
        """What the engine says of a shape. InvalidRequest, NotFound or Unanswerable as ``engine_memory``."""
        context_tokens = self.asked.context_tokens
        settings = replace(self.engine, max_model_len=self.engine.max_model_len or context_tokens)
        memory = self._memory(settings, shape, with_remedies, apply)
        same = settings.max_model_len == context_tokens
        context = replace(settings, max_model_len=context_tokens)
        at_context = memory if same else self._memory(context, shape, False, plainly)
        view = EngineView(memory, at_context, self.asked, shape.attention_data)
        if view.fits or not with_remedies:
            return view
        return replace(view, other_cures=tuple(self._other_cures(shape)))

    def _memory(self, settings: EngineSpec, shape: Parallelism, with_remedies: bool, apply: Apply) -> EngineMemory:
        return engine_memory(
            self.resolver.catalogue, self.asked.builder, shape, self.device, settings, with_remedies=with_remedies, apply=apply
        )

    def _other_cures(self, shape: Parallelism) -> Iterator[Cure]:
        """More devices where the request says how many, lighter weights, larger devices: each tried before it is named."""
        for each in wider(shape) if self.asked.sequences_field == "batch_size" else ():
            if self._fits(each):
                text = f"it would fit at tensor {each.tensor}, on {each.num_devices} devices"
                yield Cure(TENSOR, str(each.tensor), text)
                break
        for weights in self.asked.lighter_formats:
            lighter = replace(self.asked, builder=self.asked.builder.with_weights(weights))
            if replace(self, asked=lighter)._fits(shape):
                yield lighter_weights_cure(weights)
                break
        for usable, name in self.asked.larger_hardware:
            node = self.resolver.catalogue.node_types.get(name)
            device = self.resolver.device(AcceleratorSpec(node.accelerator if node else name))
            if replace(self, device=device)._fits(shape):
                yield larger_hardware_cure(self.asked, usable, name)
                break

    def _fits(self, shape: Parallelism) -> bool:
        try:
            return self.view(shape, with_remedies=False).fits
        except PlanningError:
            return False


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
