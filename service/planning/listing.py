"""The catalogue as it is listed: field for field the messages of protos/tonnage/v1/catalogue_service.proto."""

import base64
import binascii
from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

from service.architectures import Architecture
from service.catalogue import entries
from service.planning.errors import InvalidRequest, Violation
from service.planning.footprint import FootprintBuilder
from service.planning.formats import StoredFormats
from service.planning.requests import Page, Parallelism

DEFAULT_PAGE_SIZE = 50
T = TypeVar("T")


class Source(Struct, frozen=True):
    """A document that a figure comes from."""

    id: str
    title: str
    publisher: str
    url: str
    date: str


class Figure(Struct, frozen=True):
    """A figure with its basis and source."""

    value: float
    unit: str
    printed_value: float
    printed_unit: str
    basis: str
    sources: tuple[Source, ...]
    note: str
    confidence: str


class Peak(Struct, frozen=True):
    """A peak rate of the matrix units."""

    precision: str
    sparsity: str
    figure: Figure


class Link(Struct, frozen=True):
    """A link between devices."""

    name: str
    bandwidth_one_way: Figure
    num_devices_in_domain: int | None


class Conflict(Struct, frozen=True):
    """A figure on which sources disagree."""

    field: str
    figures: tuple[str, ...]
    chosen: str
    reason: str
    status: str
    stated_figures: tuple[Figure, ...]


class Accelerator(Struct, frozen=True):
    """An accelerator SKU."""

    name: str
    aliases: tuple[str, ...]
    title: str
    vendor: str
    architecture: str
    form_factor: str
    compute_capability: str | None
    counted_unit: str
    status: str
    peaks: tuple[Peak, ...]
    memory_bandwidth: Figure | None
    marketed_memory: Figure
    usable_memory: Figure | None
    framework_visible_memory: Figure | None
    links: tuple[Link, ...]
    max_power: Figure | None
    gpu_product_labels: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    num_compute_units: Figure | None
    boost_clock: Figure | None
    l2_cache: Figure | None
    notes: tuple[str, ...]


class NodeType(Struct, frozen=True):
    """A node type of a cloud or a vendor."""

    name: str
    aliases: tuple[str, ...]
    title: str
    provider: str
    accelerator: str
    num_devices: int
    num_vcpus: int | None
    memory: Figure | None
    network_bandwidth_one_way: Figure | None
    notes: tuple[str, ...]


class Model(Struct, frozen=True):
    """A model."""

    name: str
    aliases: tuple[str, ...]
    title: str
    publisher: str
    declared_parameters: Figure
    declared_active_parameters: Figure | None
    total_parameters: float
    active_parameters: float
    weight_bytes: float
    checkpoint_precision: str
    num_layers: int
    kv_bytes_per_token: float
    windowed_kv_bytes_per_token: float
    state_bytes_per_sequence: float
    notes: tuple[str, ...]


class ListAcceleratorsResponse(Struct, frozen=True):
    """A page of accelerators."""

    accelerators: tuple[Accelerator, ...]
    next_page_token: str
    catalogue_revision: str


class GetAcceleratorResponse(Struct, frozen=True):
    """An accelerator."""

    accelerator: Accelerator
    catalogue_revision: str


class ListNodeTypesResponse(Struct, frozen=True):
    """A page of node types."""

    node_types: tuple[NodeType, ...]
    next_page_token: str
    catalogue_revision: str


class GetNodeTypeResponse(Struct, frozen=True):
    """A node type."""

    node_type: NodeType
    catalogue_revision: str


class ListModelsResponse(Struct, frozen=True):
    """A page of models."""

    models: tuple[Model, ...]
    next_page_token: str
    catalogue_revision: str


class GetModelResponse(Struct, frozen=True):
    """A model."""

    model: Model
    catalogue_revision: str


def page_of(entries_by_name: Mapping[str, T], page: Page) -> tuple[tuple[T, ...], str]:
    """The entries of a page in the order of their names, and the token of the next one ("" on the last).

    The token is the last name given out, so that a page is right even when entries were added meanwhile.
    """
    after = _decode(page.page_token)
    names = sorted(name for name in entries_by_name if name > after)
    size = page.page_size or DEFAULT_PAGE_SIZE
    chosen = names[:size]
    token = base64.urlsafe_b64encode(chosen[-1].encode()).decode() if len(names) > size else ""
    return tuple(entries_by_name[name] for name in chosen), token


def _decode(token: str) -> str:
    try:
        return base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        reason = "it is not a token that a list has given out"
        raise InvalidRequest(Violation("page_token", reason, "take next_page_token of the last answer")) from None


class Lister:
    """Turns the catalogue's entries into what is listed."""

    def __init__(self, catalogue: entries.Catalogue) -> None:
        self._sources = catalogue.sources

    def _figure(self, figure: entries.Figure) -> Figure:
        sources = tuple(
            Source(source.id, source.title, source.publisher, source.url or "", source.date or "")
            for source in (self._sources[name] for name in figure.sources)
        )
        return Figure(
            figure.value,
            figure.unit,
            figure.printed_value,
            figure.printed_unit,
            figure.basis.value,
            sources,
            figure.note or "",
            figure.confidence.value if figure.confidence else "",
        )

    def _optional(self, figure: entries.Figure | None) -> Figure | None:
        return None if figure is None else self._figure(figure)

    def accelerator(self, entry: entries.Accelerator) -> Accelerator:
        """An accelerator as it is listed."""
        return Accelerator(
            name=entry.name,
            aliases=entry.aliases,
            title=entry.title,
            vendor=entry.vendor,
            architecture=entry.architecture,
            form_factor=entry.form_factor,
            compute_capability=entry.compute_capability,
            counted_unit=entry.counted_unit,
            status=entry.status.value,
            peaks=tuple(Peak(p.precision, p.sparsity.value, self._figure(p.figure)) for p in entry.peaks),
            memory_bandwidth=self._optional(entry.memory_bandwidth),
            marketed_memory=self._figure(entry.marketed_memory),
            usable_memory=self._optional(entry.usable_memory),
            framework_visible_memory=self._optional(entry.framework_visible_memory),
            links=tuple(
                Link(link.name, self._figure(link.bandwidth_one_way), link.num_devices_in_domain) for link in entry.links
            ),
            max_power=self._optional(entry.max_power),
            gpu_product_labels=entry.gpu_product_labels,
            conflicts=tuple(self._conflict(conflict) for conflict in entry.conflicts),
            num_compute_units=self._optional(entry.num_compute_units),
            boost_clock=self._optional(entry.boost_clock),
            l2_cache=self._optional(entry.l2_cache),
            notes=entry.notes,
        )

    def _conflict(self, conflict: entries.Conflict) -> Conflict:
        printed = tuple(self._printed(figure) for figure in conflict.figures)
        chosen = "" if conflict.chosen is None else self._printed(conflict.chosen)
        stated = tuple(map(self._figure, conflict.figures))
        return Conflict(conflict.field, printed, chosen, conflict.reason, conflict.status.value, stated)

    def _printed(self, figure: entries.Figure) -> str:
        titles = ", ".join(self._sources[name].title for name in figure.sources)
        return f"{figure.printed_value:g} {figure.printed_unit} ({titles})"

    def node_type(self, entry: entries.NodeType) -> NodeType:
        """A node type as it is listed."""
        return NodeType(
            name=entry.name,
            aliases=entry.aliases,
            title=entry.title,
            provider=entry.provider,
            accelerator=entry.accelerator,
            num_devices=entry.num_devices,
            num_vcpus=entry.num_vcpus,
            memory=self._optional(entry.memory_bytes),
            network_bandwidth_one_way=self._optional(entry.network_bandwidth_one_way),
            notes=entry.notes,
        )

    def model(self, entry: entries.Model, architecture: Architecture) -> Model:
        """A model as it is listed, with what its config.json says beside what its publisher declares."""
        footprint = FootprintBuilder(architecture, StoredFormats(None, "bf16")).build(Parallelism())
        return Model(
            name=entry.name,
            aliases=entry.aliases,
            title=entry.title,
            publisher=entry.publisher,
            declared_parameters=self._figure(entry.declared_parameters),
            declared_active_parameters=self._optional(entry.declared_active_parameters),
            total_parameters=architecture.num_parameters,
            active_parameters=architecture.num_active_parameters,
            weight_bytes=footprint.weight_bytes,
            checkpoint_precision=architecture.checkpoint_precision,
            num_layers=architecture.num_layers,
            kv_bytes_per_token=footprint.cache_bytes.growing_per_token,
            windowed_kv_bytes_per_token=footprint.cache_bytes.windowed_per_token,
            state_bytes_per_sequence=footprint.cache_bytes.fixed,
            notes=(*entry.notes, *architecture.notes),
        )
