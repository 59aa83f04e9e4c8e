"""Does the model that a pod serves fit the devices of a node? Refused only where it cannot.

That is where weights and one sequence are too large. What an engine takes beside them is not counted, so that nothing is
refused by an estimate.
"""

from functools import lru_cache
from typing import Final

from msgspec import Struct

from service.planning import defaults
from service.planning.capacity import known_capacity
from service.planning.errors import InvalidRequest, NotFound, PlanningError
from service.planning.explain import plainly
from service.planning.node_groups.devices import Device
from service.planning.node_groups.served import SGLANG, VLLM, Served
from service.planning.requests import ModelSpec, Parallelism, Precision
from service.planning.resolve import Resolver

_CACHED: Final = 8192
_GIB: Final = 2.0**30
_UNQUANTIZED: Final = frozenset({"bf16", "fp16", "fp32"})


class Verdict(Struct, frozen=True):
    """Whether it fits; None where that cannot be said, for the reason that ``unknown`` names ("model", "shape", "pod")."""

    fits: bool | None
    reason: str = ""
    unknown: str = ""


class ModelMemory:
    """Judges against one catalogue. Equal questions are answered once."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._vllm_ratio = _default_ratio(resolver)
        self.verdict = lru_cache(maxsize=_CACHED)(self._verdict)

    def _verdict(self, served: Served, device: Device, num_devices: int) -> Verdict:
        """Whether weights and a sequence fit.

        Args:
            served: what the pod serves.
            device: one of the node.
            num_devices: that the pod asks for: what the model is split over where nothing else is said.
        """
        if served.doubt:
            return Verdict(None, served.doubt, "pod")
        if served.model.casefold() not in self._resolver.catalogue.model_names:
            return Verdict(None, "the catalogue has no such model", "model")  # the nearest names would take milliseconds
        try:
            return self._judged(served, device, num_devices)
        except NotFound as error:
            return Verdict(None, str(error), "model" if error.kind == "model" else "device")
        except InvalidRequest as error:  # an engine would refuse the shape on any device
            return Verdict(None, str(error), "shape")
        except PlanningError as error:
            return Verdict(None, str(error), "model")

    def _judged(self, served: Served, device: Device, num_devices: int) -> Verdict:
        spec = ModelSpec(name=served.model)
        architecture = self._resolver.architecture(spec)
        native = architecture.checkpoint_precision
        if served.is_quantized_checkpoint and native in _UNQUANTIZED:
            return Verdict(None, "the arguments name a quantisation that the catalogue's checkpoint has not", "model")
        weights = served.weights
        if weights is None and native in _UNQUANTIZED and served.engine:
            weights = served.dtype or ("bf16" if native == "fp32" else None)  # engines halve what is stored in fp32
        shape = _shape(served, num_devices, has_experts=architecture.experts is not None)
        split = self._resolver.split(spec, Precision(weights, served.kv_cache), shape)
        context = served.context_tokens if served.engine in ("", VLLM) else None
        if context is None:
            # vLLM does not start where one sequence of full length has no room; others take shorter ones.
            context = architecture.context_limit_tokens if served.engine == VLLM and not served.chooses_context else None
        ratio = self._ratio(served)
        resolved = self._resolver.device(device.spec)
        found = known_capacity(split.footprint, resolved, ratio, context or 1, 1, plainly)
        if found is None:
            return Verdict(None, "the memory of the device is not known", "device")
        if found.fits:
            return Verdict(True)
        need, have = found.required_bytes / _GIB, found.available_bytes / _GIB
        reason = (
            f"{served.model} needs {need:.1f} GiB on each of {shape.num_devices} devices, {resolved.title} gives {have:.1f} GiB"
        )
        return Verdict(False, reason)

    def _ratio(self, served: Served) -> float:
        """The part of the memory that weights and cache may take; all where an engine's own default is of something else."""
        if served.memory_utilization_ratio is not None:
            return served.memory_utilization_ratio
        if served.engine == VLLM:
            return self._vllm_ratio
        return 1.0 if served.engine else defaults.MEMORY_UTILIZATION_RATIO


def _shape(served: Served, num_devices: int, *, has_experts: bool) -> Parallelism:
    """The model's split as the engine takes its flags."""
    tensor = served.tensor or max(1, num_devices // (served.pipeline * served.data) or 1)
    groups = 1
    if served.engine == SGLANG and served.splits_attention and served.data > 1:
        groups = served.data
        if tensor % groups:
            groups = 1
        tensor //= groups
    elif served.engine == VLLM and has_experts:
        groups = served.data
    expert = tensor * groups if served.shares_experts and has_experts else 1
    return Parallelism(tensor, served.pipeline, expert, groups)


def _default_ratio(resolver: Resolver) -> float:
    """VLLM's own default, the largest of those of its releases: which release runs is not known."""
    engine = resolver.catalogue.engines.get(VLLM)
    known = [each.value for each in engine.figures if each.name == "default_memory_fraction"] if engine else []
    return max(known, default=defaults.MEMORY_UTILIZATION_RATIO)
