"""Finding an entry by what people call it; a name that could mean two things is unknown, and the nearest are offered.

Names and aliases are matched whatever their case, and otherwise exactly: "h100" is three products with three memory
systems, so it finds none of them.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Final, TypeVar

from service.catalogue.calibrations import Calibration
from service.catalogue.compute_capabilities import ComputeCapability
from service.catalogue.engines import Engine
from service.catalogue.entries import Accelerator, Catalogue, Model, NodeType

_MAX_NEAREST: Final = 5
_ENOUGH_BY_PREFIX: Final = 3
_MIN_SIMILARITY: Final = 0.6
_MAX_COMPARED_LENGTH: Final = 100
_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
_PARTIAL_DEVICE: Final = re.compile(r"-(SHARED|MIG-.*)$", re.IGNORECASE)

_Entry = TypeVar("_Entry")


class UnknownName(LookupError):
    """Nothing has that name: ``kind`` says what was looked for, ``nearest`` are up to five names, best first."""

    def __init__(self, kind: str, name: str, nearest: tuple[str, ...]) -> None:
        hint = f"; the nearest are {', '.join(nearest)}" if nearest else ""
        super().__init__(f"no {kind} is named {name!r}{hint}")
        self.kind = kind
        self.name = name
        self.nearest = nearest


def accelerator(catalogue: Catalogue, name: str) -> Accelerator:
    """The accelerator of that name or alias. Raises ``UnknownName``."""
    return _find("accelerator", name, catalogue.accelerators, catalogue.accelerator_names)


def node_type(catalogue: Catalogue, name: str) -> NodeType:
    """The node type of that name or alias. Raises ``UnknownName``."""
    return _find("node type", name, catalogue.node_types, catalogue.node_type_names)


def model(catalogue: Catalogue, name: str) -> Model:
    """The model of that name or alias (a Hugging Face repository id is one). Raises ``UnknownName``."""
    return _find("model", name, catalogue.models, catalogue.model_names)


def engine(catalogue: Catalogue, name: str) -> Engine:
    """The serving engine of that name or alias. Raises ``UnknownName``."""
    return _find("engine", name, catalogue.engines, catalogue.engine_names)


def compute_capability(catalogue: Catalogue, name: str) -> ComputeCapability:
    """The compute capability of that name ("9.0") or alias ("sm_90"). Raises ``UnknownName``."""
    return _find("compute capability", name, catalogue.compute_capabilities, catalogue.compute_capability_names)


def calibration(catalogue: Catalogue, name: str) -> Calibration:
    """The calibration of the engine of that name or alias. Raises ``UnknownName``."""
    return _find("calibrated engine", name, catalogue.calibrations, catalogue.calibration_names)


def accelerator_by_product_label(catalogue: Catalogue, label: str) -> Accelerator:
    """The accelerator that a node label ``nvidia.com/gpu.product`` means.

    Raises ``UnknownName``, also for a MIG slice or a time-shared GPU (``…-MIG-1g.10gb``, ``…-SHARED``): such a label
    counts parts of a GPU, and planning with them as whole ones would be wrong. The whole GPU is then the nearest name.
    """
    name = catalogue.accelerators_by_label.get(label.casefold())
    if name is not None:
        return catalogue.accelerators[name]
    whole = catalogue.accelerators_by_label.get(_PARTIAL_DEVICE.sub("", label).casefold())
    nearest = (whole,) if whole is not None else nearest_names(label, catalogue.accelerators_by_label)
    raise UnknownName("GPU product label", label, nearest)


def accelerator_by_any_name(catalogue: Catalogue, name: str) -> Accelerator:
    """The accelerator of that name, alias or GPU product label. Raises ``UnknownName``, for a part of a GPU with its reason."""
    try:
        return accelerator(catalogue, name)
    except UnknownName:
        if name.casefold() in catalogue.accelerators_by_label or _PARTIAL_DEVICE.search(name):
            return accelerator_by_product_label(catalogue, name)
        raise


def nearest_names(name: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Up to five of the names that ``names`` leads to, best first: those that begin alike, then those spelt alike."""
    wanted = _normalised(name[:_MAX_COMPARED_LENGTH])
    if not wanted:
        return ()
    begins: dict[str, float] = {}
    resembles: dict[str, float] = {}
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    for spelling, target in names.items():
        # The owner before the slash says little: people leave it out.
        candidate = _normalised(spelling.rpartition("/")[2])
        matcher.set_seq1(candidate)
        similarity = matcher.ratio()
        matches = begins if candidate.startswith(wanted) else resembles
        matches[target] = max(similarity, matches.get(target, 0.0))
    first = sorted(begins, key=lambda target: (-begins[target], target))
    if len(first) < _ENOUGH_BY_PREFIX:
        close = (each for each, similarity in resembles.items() if similarity >= _MIN_SIMILARITY and each not in begins)
        first += sorted(close, key=lambda target: (-resembles[target], target))
    return tuple(first[:_MAX_NEAREST])


def _find(kind: str, name: str, entries: Mapping[str, _Entry], names: Mapping[str, str]) -> _Entry:
    found = names.get(name.casefold())
    if found is None:
        raise UnknownName(kind, name, nearest_names(name, names))
    return entries[found]


def _normalised(name: str) -> str:
    return _SEPARATORS.sub("", name.casefold())
