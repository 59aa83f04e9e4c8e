"""What planning knows of one device: the catalogue's entry or the caller's own figures, in plain numbers."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from service.catalogue.entries import Accelerator, Catalogue, Figure, Sparsity
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import accelerator as look_up
from service.planning.errors import NotFound, Unanswerable
from service.planning.requests import AcceleratorSpec, InlineAccelerator
from service.planning.results import UsedFigure

#: Formats that weights may be kept in while 16-bit units multiply them.
_NARROW: Final = frozenset({"fp8", "fp4", "int8"})

#: An inline link without a domain size joins every replica that a request can describe.
_UNBOUNDED_DOMAIN: Final = 2**31 - 1


class MemoryBasis(StrEnum):
    """Where the usable memory comes from."""

    MEASURED = "MEASURED"
    MARKETED = "MARKETED"
    CALLER = "CALLER"


class DeviceLink(Struct, frozen=True):
    """A link between devices: bytes/s per device in one direction, and how many devices it joins."""

    name: str
    bandwidth_one_way_bytes_per_second: float
    num_devices_in_domain: int


#: Devices that a link joins where that is a matter of the host (PCIe): more than eight in one host are rare.
_HOST_DEVICES: Final = 8


class Device(Struct, frozen=True):
    """One accelerator in base units. ``None`` and absent keys are unknown, never guessed."""

    title: str
    vendor: str  # "" where the caller does not say
    peaks_dense: Mapping[str, float]  # FLOP/s by number format
    peaks_sparse: Mapping[str, float]
    memory_bandwidth_bytes_per_second: float | None
    usable_memory_bytes: float | None
    memory_basis: MemoryBasis
    links: tuple[DeviceLink, ...]  # the fastest first
    figures: Mapping[str, UsedFigure]  # by quantity: "memory_bandwidth", "peak_dense.bf16"
    notes: tuple[str, ...] = ()
    framework_visible_memory_bytes: float | None = None  # what a framework sees of the usable memory
    num_compute_units: float | None = None  # multiprocessors
    architecture: str = ""  # as the catalogue names it; "" for an inline accelerator
    name: str = ""  # in the catalogue

    def peak_dense(self, precision: str, asked_by: str) -> float:
        """Dense peak in FLOP/s; Unanswerable, naming the request field ``asked_by``, where none is known."""
        peak = self.peaks_dense.get(precision)
        if peak is None:
            missing = f"no dense {precision} peak is known for {self.title}"
            if self.memory_basis is MemoryBasis.CALLER:
                raise Unanswerable("accelerator.inline.peak_dense_flops_per_second", missing, f"give it for {precision}")
            raise Unanswerable(asked_by, missing, self._other_peaks(precision))
        return peak

    def _other_peaks(self, precision: str) -> str:
        known = ", ".join(sorted(self.peaks_dense))
        if not known:
            return "no peak of it is known at all: give the accelerator inline with its own figures"
        hint = ""
        if precision in _NARROW:
            hint = f"; for {precision} weights that are multiplied in 16 bits, set precision.compute to bf16 or fp16"
        return f"its dense peaks are: {known}{hint}"

    def memory_bandwidth(self) -> float:
        """Memory bandwidth in bytes/s; Unanswerable where it is not known."""
        if self.memory_bandwidth_bytes_per_second is None:
            raise Unanswerable(
                "accelerator.inline.memory_bandwidth_bytes_per_second",
                f"the memory bandwidth of {self.title} is not known",
                "give it in bytes per second, with the accelerator inline",
            )
        return self.memory_bandwidth_bytes_per_second

    @property
    def speed_and_memory_figures(self) -> tuple[UsedFigure, ...]:
        """The figures of memory and link, as far as they are known."""
        names = ("memory_bandwidth", "usable_memory", "link_bandwidth_one_way")
        return tuple(self.figures[name] for name in names if name in self.figures)

    def link_over(self, num_devices: int) -> DeviceLink | None:
        """The fastest link that joins so many devices, or None where none is known to."""
        return next((link for link in self.links if link.num_devices_in_domain >= num_devices), None)


def resolve_device(catalogue: Catalogue, spec: AcceleratorSpec, field_name: str = "accelerator") -> Device:
    """The device that a request names or describes. NotFound, with the nearest names, where the catalogue has none."""
    if spec.inline is not None:
        return _inline_device(spec.inline)
    name = spec.name or ""
    try:
        return catalogue_device(catalogue, look_up(catalogue, name))
    except UnknownName as unknown:
        raise NotFound(f"{field_name}.name", "accelerator", name, unknown.nearest) from None


def used_figure(name: str, figure: Figure, catalogue: Catalogue) -> UsedFigure:
    """A figure of the catalogue under the name of the quantity that it stands for, with the titles of its sources."""
    titles = tuple(catalogue.sources[source].title for source in figure.sources)
    return UsedFigure(name, figure.value, figure.unit, figure.basis.value, titles, figure.note or "")


def catalogue_device(catalogue: Catalogue, entry: Accelerator) -> Device:
    """The catalogue's accelerator as a device."""
    memory = entry.usable_memory or entry.marketed_memory
    figures = {"usable_memory": used_figure("usable_memory", memory, catalogue)}
    if entry.memory_bandwidth:
        figures["memory_bandwidth"] = used_figure("memory_bandwidth", entry.memory_bandwidth, catalogue)
    figures |= {
        f"peak_{peak.sparsity.value}.{peak.precision}": used_figure(
            f"peak_{peak.sparsity.value}.{peak.precision}", peak.figure, catalogue
        )
        for peak in entry.peaks
    }
    if entry.links:
        figures["link_bandwidth_one_way"] = used_figure("link_bandwidth_one_way", entry.links[0].bandwidth_one_way, catalogue)
    return Device(
        title=entry.name,
        vendor=entry.vendor,
        peaks_dense={p.precision: p.figure.value for p in entry.peaks if p.sparsity is Sparsity.DENSE},
        peaks_sparse={p.precision: p.figure.value for p in entry.peaks if p.sparsity is not Sparsity.DENSE},
        memory_bandwidth_bytes_per_second=entry.memory_bandwidth.value if entry.memory_bandwidth else None,
        usable_memory_bytes=memory.value,
        memory_basis=MemoryBasis.MEASURED if entry.usable_memory else MemoryBasis.MARKETED,
        links=tuple(
            DeviceLink(link.name, link.bandwidth_one_way.value, link.num_devices_in_domain or _HOST_DEVICES)
            for link in entry.links
        ),
        figures=figures,
        notes=_notes(entry),
        framework_visible_memory_bytes=entry.framework_visible_memory.value if entry.framework_visible_memory else None,
        num_compute_units=entry.num_compute_units.value if entry.num_compute_units else None,
        architecture=entry.architecture,
        name=entry.name,
    )


def _notes(entry: Accelerator) -> tuple[str, ...]:
    notes = []
    if entry.status.value == "preliminary":
        notes.append(f"{entry.name}: preliminary figures, which the vendor may still change")
    if entry.usable_memory is None:
        notes.append(f"{entry.name}: the driver-reported memory is not known, the marketed capacity is used instead")
    return tuple(notes)


def _inline_device(inline: InlineAccelerator) -> Device:
    title = inline.title or "the inline accelerator"
    bandwidth = inline.memory_bandwidth_bytes_per_second
    link = inline.link_bandwidth_one_way_bytes_per_second
    domain = inline.num_devices_in_link_domain
    given = {
        "memory_bandwidth": (bandwidth, "B/s"),
        "usable_memory": (inline.usable_memory_bytes, "B"),
        "link_bandwidth_one_way": (link, "B/s"),
    }
    given |= {f"peak_dense.{key}": (peak, "FLOP/s") for key, peak in inline.peak_dense_flops_per_second.items()}
    given |= {f"peak_structured_2_4.{key}": (peak, "FLOP/s") for key, peak in inline.peak_sparse_flops_per_second.items()}
    return Device(
        title=title,
        vendor="",
        peaks_dense=dict(inline.peak_dense_flops_per_second),
        peaks_sparse=dict(inline.peak_sparse_flops_per_second),
        memory_bandwidth_bytes_per_second=bandwidth,
        usable_memory_bytes=inline.usable_memory_bytes,
        memory_basis=MemoryBasis.CALLER,
        links=() if link is None else (DeviceLink("the inline link", link, domain or _UNBOUNDED_DOMAIN),),
        figures={name: UsedFigure(name, v, unit, "caller") for name, (v, unit) in given.items() if v is not None},
        notes=() if link is None or domain else ("the link is taken to join all devices of the replica",),
    )
