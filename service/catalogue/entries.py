"""The catalogue's nouns: what one accelerator, node type or model is, every number with its source.

All of them are frozen. What is not known is ``None`` or absent from a tuple; nothing is filled in by analogy.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from service.catalogue.calibrations import Calibration
    from service.catalogue.compute_capabilities import ComputeCapability
    from service.catalogue.engines import Engine
    from service.catalogue.prices import PublishedPrices
    from service.catalogue.processes import ExposureField, Process


class Basis(StrEnum):
    """What kind of statement a figure is."""

    DATASHEET = "datasheet"  # the vendor's product page, datasheet or code
    WHITEPAPER = "whitepaper"  # the vendor's architecture paper
    MEASURED = "measured"  # read from a device or a running system
    DERIVED = "derived"  # arithmetic over other figures; the note shows it
    PRELIMINARY = "preliminary"  # announced, or marked as subject to change


class Confidence(StrEnum):
    """How a figure reached this catalogue from the one who first stated it."""

    VENDOR = "vendor"  # the vendor's own document or code was read
    TRANSCRIPTION = "transcription"  # someone else's copy of the vendor's document was read
    THIRD_PARTY = "third_party"  # somebody other than the vendor states it


class Status(StrEnum):
    """Whether the vendor may still change what it has said about a product."""

    FINAL = "final"
    PRELIMINARY = "preliminary"


class Sparsity(StrEnum):
    """Which matrices a peak holds for: any, or those with two zeros in every four weights."""

    DENSE = "dense"
    STRUCTURED_2_4 = "structured_2_4"


class ConflictStatus(StrEnum):
    """How far a disagreement between sources has been settled."""

    RESOLVED = "resolved"
    OPEN = "open"  # sources of equal weight still disagree
    UNVERIFIED = "unverified"  # no source of the vendor's was found


#: Number formats that a peak can be stated for. NVFP4 and MXFP4 are both ``fp4``; the peak's note names the format.
PRECISIONS: Final = frozenset(("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4", "int4"))


class Source(Struct, frozen=True):
    """Where figures come from. ``date`` is as the source prints it; ``read_as`` says what was actually read."""

    id: str
    title: str
    publisher: str
    url: str | None
    date: str | None
    read_as: str


class Figure(Struct, frozen=True):
    """One sourced number: ``value`` in the base unit ``unit``, and as it was printed.

    ``sources`` are ids in ``Catalogue.sources``; there is always at least one.
    """

    value: float
    unit: str
    printed_value: float
    printed_unit: str
    basis: Basis
    sources: tuple[str, ...]
    note: str | None = None
    confidence: Confidence | None = None


class Peak(Struct, frozen=True):
    """The highest arithmetic rate of one number format, in FLOP/s (operations per second for integers)."""

    precision: str
    sparsity: Sparsity
    figure: Figure


class Link(Struct, frozen=True):
    """One way from a device to its peers.

    ``bandwidth_one_way`` is bytes per second per device in one direction, all lanes of that device together.
    ``domain`` counts the devices that reach each other over it, the device itself included; None where the link joins
    whatever devices one host has, as PCIe does.
    """

    name: str
    bandwidth_one_way: Figure
    domain: Figure | None

    @property
    def num_devices_in_domain(self) -> int | None:
        """How many devices the link joins, as a count; None where that is a matter of the host."""
        return None if self.domain is None else int(self.domain.value)


class Conflict(Struct, frozen=True):
    """Sources that disagree: all their figures, the one that is used (None where none is), and why.

    ``field`` is the field of the accelerator, as in the YAML: ``memory_bandwidth``, ``peaks.bf16``, ``links.pcie``.
    """

    field: str
    figures: tuple[Figure, ...]
    chosen: Figure | None
    reason: str
    status: ConflictStatus


class Accelerator(Struct, frozen=True):
    """One accelerator as sold, per ``counted_unit``.

    Memory is three figures, never the same: ``marketed_memory`` is a product name, ``usable_memory`` is what the driver
    reports, ``framework_visible_memory`` is what a framework sees of it. ``links`` are fastest first.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    vendor: str
    architecture: str
    form_factor: str
    compute_capability: str | None
    counted_unit: str
    status: Status
    peaks: tuple[Peak, ...]
    memory_bandwidth: Figure | None
    marketed_memory: Figure
    usable_memory: Figure | None
    framework_visible_memory: Figure | None
    links: tuple[Link, ...]
    num_compute_units: Figure | None
    boost_clock: Figure | None
    l2_cache: Figure | None
    max_power: Figure | None
    gpu_product_labels: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    notes: tuple[str, ...]

    def peak(self, precision: str, sparsity: Sparsity) -> Peak | None:
        """The stated peak of that number format, or None where nobody stated one."""
        for peak in self.peaks:
            if peak.precision == precision and peak.sparsity is sparsity:
                return peak
        return None

    def peak_dense(self, precision: str) -> Peak | None:
        """The dense peak of that number format: what an ordinary model can be held against."""
        return self.peak(precision, Sparsity.DENSE)

    def peak_sparse(self, precision: str) -> Peak | None:
        """The peak with 2:4 structured sparsity, which only a model pruned to that pattern gets."""
        return self.peak(precision, Sparsity.STRUCTURED_2_4)


class NodeType(Struct, frozen=True):
    """A machine as one rents or buys it: how many accelerators share a host.

    ``memory_bytes`` is the host's; ``network_bandwidth_one_way`` is the whole node's, bytes per second one way.
    ``num_devices_per_scale_up_domain`` is None where the fast link joins exactly the devices of one node.
    ``sources`` are those of the node itself and of its plain counts.
    """

    name: str
    aliases: tuple[str, ...]
    provider: str
    title: str
    accelerator: str
    num_devices: int
    num_devices_per_scale_up_domain: int | None
    num_vcpus: int | None
    memory_bytes: Figure | None
    network_bandwidth_one_way: Figure | None
    max_power: Figure | None
    sources: tuple[str, ...]
    notes: tuple[str, ...]


class Model(Struct, frozen=True):
    """A language model: its published ``config.json`` as it is, and what its publisher says it weighs.

    ``hf_quantization`` is the separate ``hf_quant_config.json`` of the checkpoints that have one.
    ``declared_parameters`` and ``declared_active_parameters`` are counts as the publisher rounds them.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    publisher: str
    hf_config: Mapping[str, object]
    hf_quantization: Mapping[str, object] | None
    declared_parameters: Figure
    declared_active_parameters: Figure | None
    sources: tuple[str, ...]
    notes: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.name)  # mappings have none


class Catalogue(Struct, frozen=True, eq=False):
    """Everything that was loaded, by name, and the ``revision`` that names exactly this content.

    The ``…_names`` mappings lead from a case-folded name or alias to the name; ``accelerators_by_label`` from a
    case-folded GPU product label (as node labels print it) to the accelerator's name.
    """

    revision: str
    sources: Mapping[str, Source]
    accelerators: Mapping[str, Accelerator]
    node_types: Mapping[str, NodeType]
    models: Mapping[str, Model]
    accelerator_names: Mapping[str, str]
    node_type_names: Mapping[str, str]
    model_names: Mapping[str, str]
    accelerators_by_label: Mapping[str, str]
    engines: Mapping[str, "Engine"]
    engine_names: Mapping[str, str]
    prices: Mapping[str, "PublishedPrices"]
    compute_capabilities: Mapping[str, "ComputeCapability"]
    compute_capability_names: Mapping[str, str]
    calibrations: Mapping[str, "Calibration"]
    calibration_names: Mapping[str, str]
    processes: Mapping[str, "Process"]
    process_names: Mapping[str, str]
    exposure_fields: Mapping[str, "ExposureField"]
