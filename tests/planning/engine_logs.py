"""Start-up logs of engines, and what we predict for each: read by the tests and by the benchmark.

``given`` says how much of a run is known: "all" (model, GPU, release and flags: everything is predicted), "parts" (the pool, or
what was free, is taken from the log: only what the pool holds is predicted), or "none" (``why`` says what is missing).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.architectures import Architecture, read
from service.catalogue.entries import Catalogue
from service.catalogue.lookup import accelerator
from service.planning.device import Device, MemoryBasis, catalogue_device
from service.planning.engine_memory import engine_memory
from service.planning.engine_stages import ObservedMemory
from service.planning.footprint import FootprintBuilder
from service.planning.formats import stored_formats
from service.planning.requests import EngineSpec, Parallelism, Precision
from service.planning.results import EngineBudgetItem, EngineMemory

DATA = Path(__file__).parents[1] / "data"
GIB = 2.0**30
#: Large enough for whatever the log's pool is; its size matters nowhere where the pool is given.
UNNAMED_DEVICE_GIB = 80.0


@dataclass(frozen=True)
class Log:
    """One start-up log: what was started, what was logged (GiB, tokens), and what is missing of it."""

    id: str
    engine: str
    version: str | None
    model: str | None
    accelerator: str | None
    tensor: int
    pipeline: int
    given: str
    settings: dict[str, Any]
    logged: dict[str, Any]
    physical_gib: float | None = None
    weights: str | None = None
    why: str = ""
    stage: int | None = None  # the pipeline stage that was logged, where that is not the one that decides


def logs(*given: str) -> list[Log]:
    """The logs of which so much is known; all of them where nothing is asked."""
    rows = [Log(**row) for row in json.loads((DATA / "engine_memory_logs.json").read_text())]
    return [row for row in rows if not given or row.given in given]


def log(name: str) -> Log:
    return next(each for each in logs() if each.id == name)


def architecture(catalogue: Catalogue, name: str) -> Architecture:
    """A model of the catalogue, or one of those kept beside the logs."""
    if name in catalogue.models:
        model = catalogue.models[name]
        return read(model.hf_config, quantization=model.hf_quantization)
    return read(json.loads((DATA / "engine_models.json").read_text())[name])


def builder(catalogue: Catalogue, name: str, weights: str | None = None) -> FootprintBuilder:
    model = architecture(catalogue, name)
    formats, _ = stored_formats(model, Precision(weights=weights))
    return FootprintBuilder(model, formats)


def device(catalogue: Catalogue, name: str | None) -> Device:
    """A device of the catalogue, or an unnamed one."""
    if name is not None:
        return catalogue_device(catalogue, accelerator(catalogue, name))
    return inline_device(UNNAMED_DEVICE_GIB)


def inline_device(memory_gib: float) -> Device:
    return Device("unnamed", "", {}, {}, None, memory_gib * GIB, MemoryBasis.CALLER, (), {})


def observed(row: Log) -> ObservedMemory:
    """What is taken from the log where only parts of a run are known."""
    seen = row.logged
    if row.given == "all":
        return ObservedMemory()

    def gib(name: str) -> float | None:
        return seen[name] * GIB if name in seen else None

    if "free_after_gib" in seen:
        return ObservedMemory(free_before_load_bytes=gib("free_before_gib"), free_after_load_bytes=gib("free_after_gib"))
    return ObservedMemory(pool_bytes=gib("pool_gib"))


def predict(catalogue: Catalogue, row: Log) -> EngineMemory:
    return engine_memory(
        catalogue,
        builder(catalogue, row.model or "", row.weights),
        Parallelism(row.tensor, row.pipeline),
        device(catalogue, row.accelerator),
        EngineSpec(row.engine, row.version, **row.settings),
        observed=observed(row),
    )


def predicted_lines(row: Log, answer: EngineMemory) -> dict[str, float]:
    """Predicted figures under the names that the logs use, of the stage that was logged."""
    budget = answer.budget if row.stage is None else answer.stage_budgets[row.stage].lines
    line = {each.item: each.bytes_per_device / GIB for each in budget}
    found = {
        "weights_gib": line[EngineBudgetItem.WEIGHTS] + line[EngineBudgetItem.WEIGHTS_BESIDE_CHECKPOINT],
        "pool_gib": answer.kv_pool_bytes_per_device / GIB,
        "kv_tokens": answer.likely.kv_cache_tokens,
        "blocks": answer.likely.num_blocks,
        "concurrency": answer.likely.max_concurrency,
        "needed_gib": answer.needed_bytes_per_device / GIB,
        "longest": answer.likely.longest_context_tokens,
    }
    names = {"activation_peak_gib": "ACTIVATION_PEAK", "non_torch_gib": "NON_TORCH", "graphs_gib": "CUDA_GRAPHS"}
    return found | {name: line[EngineBudgetItem(item)] for name, item in names.items() if item in line}


def error(predicted: float, logged: float) -> float:
    """The relative error; 0 where both are nothing."""
    return abs(predicted - logged) / abs(logged) if logged else float(predicted != 0)


def cache_error(row: Log, predicted: dict[str, float]) -> float | None:
    """The error of the cache's size: by tokens, else concurrency, else the pool where that is itself predicted."""
    for name in ("kv_tokens", "concurrency", "pool_gib"):
        logged = row.logged.get(name)
        if logged and logged > 0 and (row.given == "all" or name != "pool_gib"):
            return error(predicted[name], logged)
    return None
