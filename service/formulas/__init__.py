"""Pure maths, one topic a file. Importing the package registers every formula."""

from service.formulas import (
    attention,
    collectives,
    cost,
    engine_memory,
    fleet,
    fusion,
    kv_cache,
    memory,
    memory_access,
    occupancy,
    roofline,
    serving,
    transformer,
    utilization,
)
from service.formulas.registry import REGISTRY, Formula

__all__ = [
    "REGISTRY",
    "Formula",
    "attention",
    "collectives",
    "cost",
    "engine_memory",
    "fleet",
    "fusion",
    "kv_cache",
    "memory",
    "memory_access",
    "occupancy",
    "roofline",
    "serving",
    "transformer",
    "utilization",
]
