"""Turns what a request names or describes into what the maths takes: architecture, device, formats, footprint."""

from functools import lru_cache

from msgspec import Struct

from service.architectures import Architecture, UnreadableConfig, read
from service.catalogue.entries import Catalogue, NodeType, Status
from service.planning.decode_figures import DecodeFigures
from service.planning.decode_step import DecodePlan, decode_plan
from service.planning.device import Device, resolve_device
from service.planning.footprint import Footprint, FootprintBuilder
from service.planning.formats import arithmetic, stored_formats
from service.planning.model import check_spec, find_model, phrase, read_inline
from service.planning.requests import AcceleratorSpec, ModelSpec, Parallelism, Precision
from service.planning.shape import check_shape, is_even

_CACHED_PLANS = 4096
_DEVICES_OF_A_USUAL_NODE = 8


class SplitModel(Struct, frozen=True):
    """A model kept in given formats and split a given way, with sentences on what was assumed."""

    builder: FootprintBuilder
    footprint: Footprint
    notes: tuple[str, ...]

    @property
    def architecture(self) -> Architecture:
        """The model."""
        return self.builder.architecture

    @property
    def has_cache(self) -> bool:
        """Whether a sequence keeps anything: not for a bare parameter count."""
        return bool(self.architecture.layer_kinds)


class Resolver:
    """Resolves against one catalogue.

    What a catalogue name leads to is kept, since the same names come again and again; what a caller sends inline is built
    afresh. Nothing of a request is kept.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._named_architecture = lru_cache(maxsize=None)(self._read_named)
        self._named_device = lru_cache(maxsize=None)(self._resolve_device)
        self._named_split = lru_cache(maxsize=_CACHED_PLANS)(self._split)
        self._named_plan = lru_cache(maxsize=_CACHED_PLANS)(self._plan)
        self._named_decode = lru_cache(maxsize=_CACHED_PLANS)(self._decode)

        final = (entry for entry in catalogue.accelerators.values() if entry.status is Status.FINAL)
        sizes = (((entry.usable_memory or entry.marketed_memory).value, entry.name) for entry in final)
        self._accelerators_by_memory = tuple(sorted(sizes))
        self._most_in_a_node: dict[str, int] = {}
        for node in catalogue.node_types.values():
            self._most_in_a_node[node.accelerator] = max(node.num_devices, self._most_in_a_node.get(node.accelerator, 1))

    @property
    def revision(self) -> str:
        """The catalogue's revision, which every answer carries."""
        return self.catalogue.revision

    def architecture(self, spec: ModelSpec) -> Architecture:
        """The model that a request means. InvalidRequest or NotFound where it cannot be read."""
        check_spec(spec)
        return read_inline(spec) if spec.name is None else self.named_architecture(find_model(self.catalogue, spec.name).name)

    def named_architecture(self, name: str) -> Architecture:
        """The architecture of a model of the catalogue, by its name there."""
        return self._named_architecture(name)

    def _read_named(self, name: str) -> Architecture:
        model = self.catalogue.models[name]
        try:
            return read(model.hf_config, quantization=model.hf_quantization)
        except UnreadableConfig as refusal:
            raise RuntimeError(f"the catalogue's own {name} cannot be read: {refusal}") from refusal

    def device(self, spec: AcceleratorSpec) -> Device:
        """The accelerator that a request means. NotFound where the catalogue does not know it."""
        return self._resolve_device(spec) if spec.inline is not None else self._named_device(spec)

    def _resolve_device(self, spec: AcceleratorSpec) -> Device:
        return resolve_device(self.catalogue, spec)

    def builder(self, spec: ModelSpec, precision: Precision) -> tuple[FootprintBuilder, tuple[str, ...]]:
        """The model kept in the asked formats, ready to be split, and what was assumed."""
        architecture = self.architecture(spec)
        formats, notes = stored_formats(architecture, precision)
        notes = (*map(phrase, architecture.notes), *notes)
        if architecture.multi_token_prediction and not spec.multi_token_prediction:
            notes = (*notes, "multi-token-prediction layers are not loaded")
        if spec.multi_token_prediction and not architecture.multi_token_prediction:
            notes = (*notes, "the model has no multi-token-prediction layers to load")
        return FootprintBuilder(architecture, formats, spec.multi_token_prediction), notes

    def split(self, spec: ModelSpec, precision: Precision, shape: Parallelism) -> SplitModel:
        """The model split as asked. InvalidRequest where an engine would refuse the shape."""
        split = self._split if spec.name is None else self._named_split
        return split(spec, precision, shape)

    def _split(self, spec: ModelSpec, precision: Precision, shape: Parallelism) -> SplitModel:
        builder, notes = self.builder(spec, precision)
        check_shape(builder.architecture, shape, builder.quantized_cuts)
        return SplitModel(builder, builder.build(shape), notes)

    def larger_accelerators(self, device: Device, num_devices: int = 1) -> tuple[tuple[float, str], ...]:
        """Accelerators with more memory, of the device's own vendor where it is known: usable bytes and name, ascending.

        For a group of ``num_devices``, only such as some node type has so many of; of more than eight, eight.
        """
        usable, entries = device.usable_memory_bytes or 0.0, self.catalogue.accelerators
        return tuple(
            (size, name)
            for size, name in self._accelerators_by_memory
            if size > usable
            and device.vendor in {"", entries[name].vendor}
            and self._most_in_a_node.get(name, 1) >= min(num_devices, _DEVICES_OF_A_USUAL_NODE)
        )

    def larger_nodes(self, node: NodeType, device: Device) -> tuple[tuple[float, str], ...]:
        """Node types with as many devices of more memory, the provider's own first: usable bytes of a device and name."""
        sizes = {name: size for size, name in self.larger_accelerators(device)}
        alike = [
            (each.provider != node.provider, sizes[each.accelerator], each.name)
            for each in self.catalogue.node_types.values()
            if each.accelerator in sizes and each.num_devices == node.num_devices
        ]
        return tuple((size, name) for _, size, name in sorted(alike))

    def plan(
        self, model: ModelSpec, accelerator: AcceleratorSpec, precision: Precision, shape: Parallelism
    ) -> tuple[SplitModel, DecodePlan]:
        """The split model and its decode step on the device. Unanswerable where a peak that it needs is not known."""
        plan = self._plan if model.name is None or accelerator.name is None else self._named_plan
        return plan(model, accelerator, precision, shape)

    def _plan(
        self, model: ModelSpec, accelerator: AcceleratorSpec, precision: Precision, shape: Parallelism
    ) -> tuple[SplitModel, DecodePlan]:
        split = self.split(model, precision, shape)
        device = self.device(accelerator)
        sums = arithmetic(split.architecture, split.builder.formats, precision, device)
        notes = (*split.notes, *device.notes)
        if not is_even(split.architecture, shape.pipeline):
            reason = "the fullest sets the pace, which the bound takes as the average"
            notes = (*notes, f"{split.architecture.num_layers} layers do not divide over {shape.pipeline} stages: {reason}")
        return split, decode_plan(split.footprint, device, sums, notes)

    def decode(
        self, model: ModelSpec, accelerator: AcceleratorSpec, precision: Precision, shape: Parallelism
    ) -> tuple[SplitModel, DecodePlan, DecodeFigures]:
        """As ``plan``, with what gives the figures of a step."""
        decode = self._decode if model.name is None or accelerator.name is None else self._named_decode
        return decode(model, accelerator, precision, shape)

    def _decode(
        self, model: ModelSpec, accelerator: AcceleratorSpec, precision: Precision, shape: Parallelism
    ) -> tuple[SplitModel, DecodePlan, DecodeFigures]:
        split, plan = self.plan(model, accelerator, precision, shape)
        return split, plan, DecodeFigures(plan)
