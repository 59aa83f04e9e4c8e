"""Every name of a question that the catalogue lacks, where answering stopped at the first of them."""

from collections.abc import Iterator
from typing import TypeAlias

from service.catalogue import lookup
from service.catalogue.entries import Catalogue
from service.planning.cluster_fit.requests import FitClusterRequest
from service.planning.errors import NotFound
from service.planning.requests import (
    ComputeUtilizationRequest,
    EstimateDecodeRequest,
    EstimateKvMemoryRequest,
    FitNodeRequest,
)

Question: TypeAlias = (
    EstimateDecodeRequest | EstimateKvMemoryRequest | FitNodeRequest | ComputeUtilizationRequest | FitClusterRequest
)


def all_unknown(catalogue: Catalogue, question: Question, met: NotFound) -> NotFound:
    """The refusal with all unknown names of the question; ``met`` is the one that answering stopped at."""
    first, *others = list(_unknown(catalogue, question)) or [met]
    return NotFound(first.field, first.kind, first.name, first.nearest, tuple(others))


def _unknown(catalogue: Catalogue, question: Question) -> Iterator[NotFound]:
    for field, kind, name, look_up in (
        ("model", "model", _name(question.model), lookup.model),
        ("node", "node type", _name(getattr(question, "node", None)), lookup.node_type),
        ("accelerator", "accelerator", _name(question.accelerator), lookup.accelerator),
        ("engine", "engine", _name(getattr(question, "engine", None)), lookup.engine),
    ):
        if name is None:
            continue
        try:
            look_up(catalogue, name)
        except lookup.UnknownName as unknown:
            yield NotFound(f"{field}.name", kind, name, unknown.nearest)


def _name(spec: object) -> str | None:
    name: str | None = getattr(spec, "name", None)
    return name
