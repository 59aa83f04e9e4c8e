"""What stands for each value of an axis in a table."""

from service.catalogue.lookup import accelerator
from service.planning.model import find_model
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.resolve import Resolver


def model_title(resolver: Resolver, spec: ModelSpec, number: int) -> str:
    """The catalogue's name, or which of the models given inline it is."""
    title = f"model {number}" if spec.name is None else find_model(resolver.catalogue, spec.name).name
    return f"{title} with MTP" if spec.multi_token_prediction else title


def accelerator_title(resolver: Resolver, spec: AcceleratorSpec, number: int) -> str:
    """The catalogue's name, or the title given, or which of the accelerators given inline it is."""
    if spec.inline is not None:
        return spec.inline.title or f"accelerator {number}"
    return accelerator(resolver.catalogue, spec.name or "").name


def shape_title(shape: Parallelism) -> str:
    """The parts that are not 1.

    >>> shape_title(Parallelism(tensor=4, pipeline=2)), shape_title(Parallelism())
    ('TP4 PP2', 'TP1')
    """
    sizes = (("TP", shape.tensor), ("PP", shape.pipeline), ("EP", shape.expert), ("DP", shape.attention_data))
    return " ".join(f"{name}{size}" for name, size in sizes if size > 1) or "TP1"


def precision_title(precision: Precision) -> str:
    """The formats that are given.

    >>> precision_title(Precision(weights="fp8")), precision_title(Precision())
    ('weights fp8', 'checkpoint')
    """
    formats = (("weights", precision.weights), ("kv_cache", precision.kv_cache), ("compute", precision.compute))
    return ", ".join(f"{name} {value}" for name, value in formats if value) or "checkpoint"


def engine_title(engine: EngineSpec) -> str:
    """The engine and its release.

    >>> engine_title(EngineSpec("vllm", "0.19"))
    'vllm 0.19'
    """
    return f"{engine.name} {engine.version}" if engine.version else engine.name
