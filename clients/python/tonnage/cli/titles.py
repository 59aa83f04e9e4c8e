"""What a request is about, in the words of a title line: whether options said it or a file."""

from tonnage.cli.quantities import large_count
from tonnage.v1.accelerator_pb2 import AcceleratorSpec, NodeSpec
from tonnage.v1.model_pb2 import ModelSpec, Parallelism, Precision

_WAYS = {"tensor": "TP", "pipeline": "PP", "expert": "EP", "attention_data": "DP"}
_FORMATS = {"weights": "weights", "kv_cache": "KV cache", "compute": "compute"}


def model(spec: ModelSpec, said: str = "") -> str:
    """The model: as it was ``said`` on the command line, else by its name or its size."""
    if said or spec.name:
        return said or spec.name
    return f"{large_count(spec.dense.num_parameters)} parameters" if spec.HasField("dense") else "a model by its config.json"


def hardware(spec: AcceleratorSpec | NodeSpec, said: str = "") -> str:
    """The accelerator or node type."""
    if said or spec.name:
        return said or spec.name
    return spec.inline.title if isinstance(spec, AcceleratorSpec) and spec.inline.title else "an accelerator by its figures"


def split(parallelism: Parallelism) -> str:
    """How a replica is split, as far as it was asked for.

    >>> split(Parallelism(tensor=4, pipeline=2))
    'TP 4 · PP 2'
    """
    return " · ".join(f"{_WAYS[field.name]} {number}" for field, number in parallelism.ListFields())


def formats(precision: Precision) -> str:
    """Number formats, as far as they were asked for.

    >>> formats(Precision(weights="fp8", compute="bf16"))
    'weights fp8, compute bf16'
    """
    return ", ".join(f"{_FORMATS[field.name]} {name}" for field, name in precision.ListFields())
