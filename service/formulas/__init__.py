"""Pure maths, one topic a file. Importing the package registers every formula."""

from service.formulas import attention, collectives, engine_memory, kv_cache, memory, roofline, transformer, utilization
from service.formulas.registry import REGISTRY, Formula

__all__ = [
    "REGISTRY",
    "Formula",
    "attention",
    "collectives",
    "engine_memory",
    "kv_cache",
    "memory",
    "roofline",
    "transformer",
    "utilization",
]
