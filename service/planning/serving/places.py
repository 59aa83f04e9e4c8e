"""How many requests an engine can hold at a time: what its memory leaves for their caches, or its own limit."""

from typing import Final

from msgspec import Struct

from service.planning.decode_step import DecodePlan
from service.planning.defaults import MEMORY_UTILIZATION_RATIO
from service.planning.requests import EngineSpec
from service.planning.resolve import SplitModel

#: Of the share that an engine may take, what goes to activations, graphs and libraries: the median of the start-up logs that
#: specs/engines was fitted to (15 of vLLM, 2 to 8 GiB).
RESERVED_BYTES: Final = 4.9 * 2**30
RESERVED_NOTE: Final = (
    f"{RESERVED_BYTES / 2**30:g} GiB of a device's share are kept for activations, CUDA graphs and the engine's own memory: "
    "the median of start-up logs, not computed for this model"
)
#: What the engines take at most at a time where neither flag nor catalogue says (vLLM's API server since 0.8).
DEFAULT_MAX_RUNNING: Final = 1024.0
#: What a model that barely fits is run with.
TIGHT_RATIO: Final = 0.98


class Places(Struct, frozen=True):
    """Requests that are served at a time, over the whole replica; ``by_memory`` None where the memory is not known."""

    by_memory: float | None
    by_engine: float

    @property
    def most(self) -> float:
        """The smaller of the two."""
        return self.by_engine if self.by_memory is None else min(self.by_memory, self.by_engine)

    @property
    def limit(self) -> str:
        """Which of the two decides, in words."""
        return "memory" if self.most < self.by_engine else "the engine's own limit"


def places(split: SplitModel, plan: DecodePlan, spec: EngineSpec, memory_ratio: float, mean_tokens: float) -> Places:
    """Places for requests that hold ``mean_tokens`` on average; engines fill their memory to the last block."""
    by_engine = float(spec.max_num_seqs or spec.max_running_requests or DEFAULT_MAX_RUNNING)
    device = plan.device
    memory = device.framework_visible_memory_bytes or device.usable_memory_bytes
    if memory is None:
        return Places(None, by_engine)
    held = []
    for stage in split.footprint.stages:
        free = memory * memory_ratio - RESERVED_BYTES - stage.weight_bytes
        cache = stage.cache_bytes.at(mean_tokens)
        if free <= 0:
            return Places(0.0, by_engine)
        if cache > 0:
            held.append(free / cache)
    if not held:
        return Places(None, by_engine)
    each = min(held)  # a sequence lives in one group, so that parts of a place in several hold none
    return Places(each * split.footprint.shape.attention_data if each >= 1 else 0.0, by_engine)


def default_places(split: SplitModel, plan: DecodePlan, spec: EngineSpec, mean_tokens: float) -> tuple[Places, str]:
    """Places where nobody says how much memory the engine may take, and the sentence on what was taken.

    A model that barely fits is run with more than the default, since it would not start otherwise.
    """
    for ratio in (MEMORY_UTILIZATION_RATIO, TIGHT_RATIO):
        held = places(split, plan, spec, ratio, mean_tokens)
        if held.by_memory is None or held.by_memory >= 1:
            break
    else:
        return places(split, plan, spec, MEMORY_UTILIZATION_RATIO, mean_tokens), _taken(MEMORY_UTILIZATION_RATIO)
    tight = "" if ratio == MEMORY_UTILIZATION_RATIO else f", since {MEMORY_UTILIZATION_RATIO} leaves no room beside the weights"
    return held, _taken(ratio) + tight


def asked_places(
    split: SplitModel, plan: DecodePlan, spec: EngineSpec, asked: float | None, mean_tokens: float
) -> tuple[Places, str]:
    """Places by the request's share of the memory, the engine flag's or the default, and the sentence on what was taken."""
    ratio = _asked_ratio(spec, asked)
    if ratio is None:
        return default_places(split, plan, spec, mean_tokens)
    return places(split, plan, spec, ratio, mean_tokens), _taken(ratio)


def most_for_weights(plan: DecodePlan, spec: EngineSpec, asked: float | None) -> float | None:
    """Bytes of a device that weights and caches may take at the very most; None where its memory is not known."""
    memory = plan.device.framework_visible_memory_bytes or plan.device.usable_memory_bytes
    ratio = _asked_ratio(spec, asked)
    return None if memory is None else memory * (TIGHT_RATIO if ratio is None else ratio) - RESERVED_BYTES


def _asked_ratio(spec: EngineSpec, asked: float | None) -> float | None:
    flags = (asked, spec.gpu_memory_utilization, spec.mem_fraction_static, spec.free_gpu_memory_fraction)
    return next((flag for flag in flags if flag is not None), None)


def _taken(ratio: float) -> str:
    return f"the engine may take {ratio:g} of the memory"
