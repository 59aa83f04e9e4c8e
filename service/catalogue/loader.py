"""From folders of YAML to one frozen ``Catalogue``; whatever is unsourced, unknown or doubtful is refused.

A folder holds ``sources.yaml`` and the folders ``accelerators``, ``nodes``, ``models``, ``engines``, ``prices``,
``compute_capabilities``, ``calibrations``, ``processes`` and ``exposure_fields``, one YAML file a thing, named as the thing
is. Further folders of the same layout add to the first: they may name its sources and accelerators, and may not define
anything again.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct, field

from service.catalogue.calibrations import read_calibration
from service.catalogue.compute_capabilities import read_compute_capability
from service.catalogue.documents import DocumentError, Located, parse
from service.catalogue.engines import read_engine
from service.catalogue.entries import Accelerator, Catalogue, NodeType, Source
from service.catalogue.kept import KeptDocuments
from service.catalogue.prices import PublishedPrices, read_published_prices
from service.catalogue.processes import Process, read_exposure_field, read_process
from service.catalogue.readers import read_accelerator, read_model, read_node_type, read_source
from service.catalogue.sections import Report, Section, Violation

_SOURCES_FILE: Final = "sources.yaml"
_KINDS: Final = (
    "accelerators",
    "nodes",
    "models",
    "engines",
    "prices",
    "compute_capabilities",
    "calibrations",
    "processes",
    "exposure_fields",
)
_SUFFIX: Final = ".yaml"
#: Pages and pictures about the files, for people.
_BESIDE: Final = frozenset({".md", ".svg"})
_MAX_FILE_BYTES: Final = 1 << 20
_NUM_REVISION_DIGITS: Final = 12


class CatalogueError(ValueError):
    """The folders hold no valid catalogue; ``violations`` are all the reasons, ordered by file and line."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(sorted(violations, key=lambda each: (each.file, each.line, each.field, each.reason)))
        super().__init__("\n".join(str(violation) for violation in self.violations))


class _Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> tuple[str, ...]: ...


_Entry = TypeVar("_Entry", bound=_Named)


class _File(Struct, frozen=True):
    """One file: its folder, its path as messages show it, its path within its folder, and its bytes."""

    folder: Path
    shown: str
    relative: str
    content: bytes


class _Shelf(Struct, Generic[_Entry]):
    """The entries of one kind, their names and aliases case-folded, and the section each was read from."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    sections: dict[str, Section] = field(default_factory=dict)


def load(*folders: Path | str, kept: KeptDocuments | None = None) -> Catalogue:
    """The catalogue that the folders hold together; the order of the folders is of no consequence.

    ``kept`` spares parsing what one of the folders holds, where that was parsed before: the catalogue is the same without.
    Raises ``CatalogueError`` with every violation at once. OSError passes where a file cannot be read.
    """
    report = Report(source_ids=frozenset())
    files = [file for folder in folders for file in _files(Path(folder), report)]
    documents = [(file, document) for file in files if (document := _document(file, report, kept))]
    if kept is not None:
        kept.write()
    sources = _sources(documents, report)
    report.source_ids = sources.keys()
    accelerators = _shelf("accelerators", read_accelerator, documents, report)
    node_types = _shelf("nodes", read_node_type, documents, report)
    models = _shelf("models", read_model, documents, report)
    engines = _shelf("engines", read_engine, documents, report)
    prices = _shelf("prices", read_published_prices, documents, report)
    capabilities = _shelf("compute_capabilities", read_compute_capability, documents, report)
    calibrations = _shelf("calibrations", read_calibration, documents, report)
    processes = _shelf("processes", read_process, documents, report)
    exposure_fields = _shelf("exposure_fields", read_exposure_field, documents, report)
    labels = _labels(accelerators)
    _refuse_unknown_accelerators(node_types, accelerators)
    _refuse_unknown_subjects(prices, node_types, accelerators)
    _refuse_unknown_baselines(processes)
    if report.violations:
        raise CatalogueError(report.violations)
    return Catalogue(
        revision=_revision(files),
        sources=_frozen(sources),
        accelerators=_frozen(accelerators.entries),
        node_types=_frozen(node_types.entries),
        models=_frozen(models.entries),
        accelerator_names=_frozen(accelerators.names),
        node_type_names=_frozen(node_types.names),
        model_names=_frozen(models.names),
        accelerators_by_label=_frozen(labels),
        engines=_frozen(engines.entries),
        engine_names=_frozen(engines.names),
        prices=_frozen(prices.entries),
        compute_capabilities=_frozen(capabilities.entries),
        compute_capability_names=_frozen(capabilities.names),
        processes=_frozen(processes.entries),
        process_names=_frozen(processes.names),
        exposure_fields=_frozen(exposure_fields.entries),
        calibrations=_frozen(calibrations.entries),
        calibration_names=_frozen(calibrations.names),
    )


_Value = TypeVar("_Value")


def _frozen(mapping: dict[str, _Value]) -> Mapping[str, _Value]:
    return MappingProxyType(dict(sorted(mapping.items())))


def _files(folder: Path, report: Report) -> Iterator[_File]:
    if not folder.is_dir():
        report.add(str(folder), 1, "", "no such folder")
        return
    if (folder / _SOURCES_FILE).is_file():
        yield _read(folder, _SOURCES_FILE)
    for kind in _KINDS:
        if not (folder / kind).is_dir():
            continue
        for path in sorted((folder / kind).iterdir()):
            if path.name.startswith(".") or path.suffix in _BESIDE:
                continue
            if path.suffix == _SUFFIX:
                yield _read(folder, f"{kind}/{path.name}")
            else:
                report.add(str(path), 1, "", f"not read: the name of a catalogue file ends in {_SUFFIX}")


def _read(folder: Path, relative: str) -> _File:
    path = folder / relative
    return _File(folder, str(path), relative, path.read_bytes())


def _document(file: _File, report: Report, kept: KeptDocuments | None) -> Located | None:
    if kept is None or file.folder != kept.folder:
        return _parse(file, report)
    document = kept.document(file.content)
    if document is None and (document := _parse(file, report)):
        kept.add(file.content, document)
    return document


def _parse(file: _File, report: Report) -> Located | None:
    if len(file.content) > _MAX_FILE_BYTES:
        report.add(file.shown, 1, "", f"larger than {_MAX_FILE_BYTES} bytes")
        return None
    try:
        return parse(file.content.decode())
    except DocumentError as error:
        report.add(file.shown, error.line, "", error.reason)
    except UnicodeDecodeError as error:
        line = file.content.count(b"\n", 0, error.start) + 1
        report.add(file.shown, line, "", "not UTF-8")
    return None


def _sources(documents: list[tuple[_File, Located]], report: Report) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for file, document in documents:
        if file.relative != _SOURCES_FILE:
            continue
        for source_id, section in Section(file.shown, document, "", report).named_sections():
            if source_id in sources:
                section.refuse("", "this source is already defined in another folder")
            sources[source_id] = read_source(section, source_id)
            section.done()
    return sources


def _shelf(
    kind: str,
    read: Callable[[Section], _Entry],
    documents: list[tuple[_File, Located]],
    report: Report,
) -> _Shelf[_Entry]:
    shelf = _Shelf[_Entry]()
    for file, document in documents:
        folder, _, file_name = file.relative.partition("/")
        if folder != kind:
            continue
        section = Section(file.shown, document, "", report)
        entry = read(section)
        section.done()
        if entry.name and file_name != entry.name + _SUFFIX:
            section.refuse("name", f"{entry.name!r} must be in a file of that name")
        _put(entry, section, shelf)
    return shelf


def _put(entry: _Entry, section: Section, shelf: _Shelf[_Entry]) -> None:
    if entry.name != entry.name.lower():
        section.refuse("name", "must be lower case")
    for key, name in (("name", entry.name), *(("aliases", alias) for alias in entry.aliases)):
        owner = shelf.names.setdefault(name.casefold(), entry.name)
        if shelf.sections.get(owner, section) is not section:
            section.refuse(key, f"{name!r} already names {owner!r} in {shelf.sections[owner].file}")
        elif key == "aliases" and name.casefold() == entry.name.casefold():
            section.refuse(key, f"{name!r} is the name itself")
    if shelf.sections.setdefault(entry.name, section) is section:
        shelf.entries[entry.name] = entry


def _labels(accelerators: _Shelf[Accelerator]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for name, accelerator in accelerators.entries.items():
        for label in accelerator.gpu_product_labels:
            owner = labels.setdefault(label.casefold(), name)
            if owner != name:
                accelerators.sections[name].refuse("gpu_product_labels", f"{label!r} already leads to {owner!r}")
    return labels


def _refuse_unknown_accelerators(node_types: _Shelf[NodeType], accelerators: _Shelf[Accelerator]) -> None:
    for name, node_type in node_types.entries.items():
        if node_type.accelerator and node_type.accelerator not in accelerators.entries:
            node_types.sections[name].refuse("accelerator", f"no accelerator is named {node_type.accelerator!r}")


def _refuse_unknown_subjects(
    prices: _Shelf[PublishedPrices], node_types: _Shelf[NodeType], accelerators: _Shelf[Accelerator]
) -> None:
    for name, published in prices.entries.items():
        for key, each in published.rows():
            if each.node_type is not None and each.node_type not in node_types.entries:
                prices.sections[name].refuse(key, f"no node type is named {each.node_type!r}")
            if each.accelerator is not None and each.accelerator not in accelerators.entries:
                prices.sections[name].refuse(key, f"no accelerator is named {each.accelerator!r}")


def _refuse_unknown_baselines(processes: _Shelf[Process]) -> None:
    for name, process in processes.entries.items():
        for each in process.improvements:
            if each.baseline and each.baseline not in processes.entries:
                processes.sections[name].refuse("improvements", f"no process is named {each.baseline!r}")


def _revision(files: Iterable[_File]) -> str:
    digest = hashlib.sha256()
    for relative, content in sorted((file.relative, hashlib.sha256(file.content).hexdigest()) for file in files):
        digest.update(f"{relative}\0{content}\n".encode())
    return digest.hexdigest()[:_NUM_REVISION_DIGITS]
