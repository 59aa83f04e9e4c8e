"""The documents that a sweep's figures come from: those of its accelerators, models and engines."""

from collections.abc import Iterator

from service.catalogue.entries import Accelerator, Figure
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import accelerator as find_accelerator
from service.catalogue.lookup import calibration as find_calibration
from service.planning.listing import Source
from service.planning.model import find_model
from service.planning.resolve import Resolver
from service.planning.sweep.requests import RunSweepRequest


def sources_of(resolver: Resolver, asked: RunSweepRequest) -> tuple[Source, ...]:
    """Every document once, in the order of the axes; what is given inline has none."""
    known = resolver.catalogue.sources
    found = (known[each] for each in dict.fromkeys(_ids(resolver, asked)))
    return tuple(Source(each.id, each.title, each.publisher, each.url or "", each.date or "") for each in found)


def _ids(resolver: Resolver, asked: RunSweepRequest) -> Iterator[str]:
    catalogue = resolver.catalogue
    for model in asked.models:
        if model.name is not None:
            yield from find_model(catalogue, model.name).sources
    for accelerator in asked.accelerators:
        if accelerator.inline is None:
            for figure in _figures(find_accelerator(catalogue, accelerator.name or "")):
                yield from figure.sources
    for engine in asked.engines:
        try:
            yield from find_calibration(catalogue, engine.name).sources
        except UnknownName:  # its plans are skipped, with the reason
            continue


def _figures(entry: Accelerator) -> Iterator[Figure]:
    """The figures that bounds and estimates are computed from."""
    memory = (entry.memory_bandwidth, entry.usable_memory or entry.marketed_memory, entry.framework_visible_memory)
    yield from (figure for figure in memory if figure is not None)
    yield from (peak.figure for peak in entry.peaks)
    yield from (link.bandwidth_one_way for link in entry.links)
