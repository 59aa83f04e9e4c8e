"""How well each fitted constant of an engine predicts a model that it was not fitted on.

A constant acts linearly on one logged figure, so each log implies a value of it. Leaving a model out, the constant becomes the
median of what the other models' logs imply, and the error of the figure on the model left out is what is reported.
"""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from service.catalogue.engines import EngineFigure
from service.catalogue.entries import Catalogue
from tests.planning.engine_logs import Log, cache_error, logs, predict, predicted_lines

#: Fitted constant → the logged figure that it acts on.
FITTED = {
    "sampler_bytes_per_logit": "activation_peak_gib",
    "sampler_bytes_per_vocabulary_entry_and_compute_unit": "activation_peak_gib",
    "activation_base": "activation_peak_gib",
    "forward_hidden_multiples": "activation_peak_gib",
    "multimodal_hidden_multiples": "activation_peak_gib",
    "non_torch": "non_torch_gib",
    "weights_beside_checkpoint": "weights_gib",
    "weights_beside_vision_tower": "weights_gib",
    "mxfp4_repacking_ratio": "weights_gib",
    "graph_bytes_per_capture": "graphs_gib",
}
#: Refitted together when a model is left out; the others act on the same figures and would count a deviation twice.
JOINT = ("sampler_bytes_per_logit", "non_torch", "weights_beside_checkpoint", "weights_beside_vision_tower")
_STEP = 1.01
#: Graphs measured as a difference of free memory came out negative in some logs: those say nothing.
_SMALLEST_GRAPHS_GIB = 0.45


@dataclass(frozen=True)
class Implied:
    """What one log implies for a constant: the value at which it would be met, and how the figure changes with it."""

    row: Log
    value: float
    slope: float
    logged: float


def with_value(catalogue: Catalogue, engine: str, old: EngineFigure, value: float) -> Catalogue:
    """The catalogue with one constant changed."""
    changed = replace(old, figure=replace(old.figure, value=value))
    found = catalogue.engines[engine]
    figures = tuple(changed if each is old else each for each in found.figures)
    return replace(catalogue, engines={**catalogue.engines, engine: replace(found, figures=figures)})


def implied(catalogue: Catalogue, figure: EngineFigure, quantity: str, rows: Iterable[Log]) -> Iterator[Implied]:
    """What each log implies for a constant of vLLM, where the log gives the figure and the constant moves it."""
    nudged = with_value(catalogue, "vllm", figure, figure.value * _STEP)
    for row in rows:
        logged = row.logged.get(quantity)
        if logged is None or (quantity == "graphs_gib" and logged < _SMALLEST_GRAPHS_GIB):
            continue
        at = predicted_lines(row, predict(catalogue, row))[quantity]
        slope = (predicted_lines(row, predict(nudged, row))[quantity] - at) / (figure.value * (_STEP - 1))
        if abs(slope) > 1e-15:
            yield Implied(row, figure.value + (logged - at) / slope, slope, logged)


def left_out_errors(catalogue: Catalogue) -> Iterator[str]:
    """One line a constant: on how many logs and models it rests, and its errors with each model left out."""
    rows = [row for row in logs("all") if row.engine == "vllm"]
    for name, quantity in FITTED.items():
        for figure in (each for each in catalogue.engines["vllm"].figures if each.name == name):
            found = list(implied(catalogue, figure, quantity, rows))
            models = {each.row.model for each in found}
            which = f"{name} {figure.versions.text}" + (f" from {figure.from_devices} devices" * (figure.from_devices > 1))
            if len(models) < 2:
                yield f"{which}: {len(found)} log{'s' * (len(found) != 1)} of {len(models)} model: nothing to leave out"
                continue
            errors = [abs(without(found, each.row.model) - each.value) * abs(each.slope) / abs(each.logged) for each in found]
            spread = f"median {statistics.median(errors):.2%}, largest {max(errors):.2%}"
            yield f"{which}: {len(found)} logs of {len(models)} models, {quantity}: {spread}"


def without(found: list[Implied], model: str | None) -> float:
    """The constant as the other models' logs have it."""
    return statistics.median(each.value for each in found if each.row.model != model)


def left_out_cache_errors(catalogue: Catalogue) -> list[tuple[Log, float]]:
    """Errors of the cache on each log, all constants refitted without the log's model."""
    rows = [row for row in logs("all") if row.engine == "vllm"]
    fits = [
        (figure, list(implied(catalogue, figure, FITTED[figure.name], rows)))
        for figure in catalogue.engines["vllm"].figures
        if figure.name in JOINT
    ]
    errors = []
    for row in rows:
        other = catalogue
        for figure, found in fits:
            if len({each.row.model for each in found} - {row.model}) > 0 and len({each.row.model for each in found}) > 1:
                other = with_value(other, "vllm", figure, without(found, row.model))
        deviation = cache_error(row, predicted_lines(row, predict(other, row)))
        if deviation is not None:
            errors.append((row, deviation))
    return errors
