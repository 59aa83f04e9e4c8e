"""Why a tool did not answer, in words that a model can act on: which argument, what is wrong with it, what to give instead."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from service.api.errors import Failure, shortened

_MAX_SENTENCES: Final = 8
#: Fields of the service's requests → arguments of the tools. The first that fits is taken.
_ARGUMENTS: Final = (
    ("model.dense.", ""),
    ("model", "model"),
    ("accelerators", "hardware"),
    ("accelerator", "hardware"),
    ("node_types", "hardware"),
    ("node", "hardware"),
    ("devices_per_node", "hardware"),
    ("max_num_nodes", "hardware"),
    ("num_devices", "hardware"),
    ("parallelism", "hardware (its count)"),
    ("precision.weights", "weights_precision"),
    ("precision.kv_cache", "kv_cache_precision"),
    ("precision.compute", "peak_precision"),
    ("precision", "data_type"),
    ("engines", "engine"),
    ("engine", "engine"),
    ("concurrency", "batch_size"),
    ("workload.concurrency", "batch_size"),
    ("workloads[0].requests_per_second.mid", "requests_per_second"),
    ("workloads[0].", ""),
    ("workload.", ""),
    ("service_level.", ""),
    ("nvml_gpu_utilization_ratio", "nvidia_smi_utilization_ratio"),
    ("shared_memory_bytes_per_block", "shared_memory_per_block"),
    ("operators[0].gemm.", ""),
    ("cluster", "nodes"),
    ("jobs", "jobs"),
    ("policy", "policy"),
)


def argument_of(field: str) -> str:
    """The argument that a field of a request comes from.

    >>> argument_of("accelerator.name"), argument_of("workloads[0].input_tokens"), argument_of("context_tokens")
    ('hardware', 'input_tokens', 'context_tokens')
    """
    for prefix, argument in _ARGUMENTS:
        if field == prefix or field.startswith(prefix if prefix.endswith(".") else (f"{prefix}.", f"{prefix}[")):
            return argument or field.removeprefix(prefix)
    return field


def of_failure(failure: Failure) -> str:
    """What a failure of the service says to a model."""
    if failure.reason == "INTERNAL_ERROR":
        return f"{failure.message}. Other questions may well be answered; do not ask this one again."
    if failure.reason == "TOO_MANY_REQUESTS":
        return failure.message
    said = [f"{argument_of(each.field)}: {each.description}" if each.field else each.description for each in failure.violations]
    text = ". ".join(said[:_MAX_SENTENCES]) or failure.message
    return f"{text}. {_remedy(failure)}".strip()


def _remedy(failure: Failure) -> str:
    if failure.reason != "NAME_NOT_FOUND":
        return ""
    kind = failure.metadata.get("kind", "")
    if failure.metadata.get("nearest"):
        return "Call again with one of these names" + (", or with a size such as '7B'." if kind == "model" else ".")
    if kind == "model":
        return "Call again with another name, or with its size ('7B') and num_layers, num_query_heads, num_kv_heads, head_dim."
    return (
        "Check the spelling; look_up takes a product ('H100'), a model ('Llama 70B'), a node type, a formula or a word ('MFU')."
    )


def of_arguments(error: ValidationError, known: Iterable[str]) -> str:
    """What is wrong with arguments that could not be read."""
    sentences = [_sentence(each) for each in error.errors(include_url=False, include_context=False, include_input=False)]
    return f"{'. '.join(sentences[:_MAX_SENTENCES])}. The arguments are {', '.join(known)}."


def _sentence(error: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in error["loc"][:1])
    if error["type"] == "missing":
        return f"{field}: it is missing"
    return f"{field}: {shortened(str(error['msg']).removeprefix('Value error, ').removeprefix('Input '), 200)}"


def of_unknown_arguments(unknown: Iterable[str], known: Iterable[str]) -> str:
    """What to write in place of arguments that a tool does not take."""
    names = list(known)
    sentences = []
    for each in list(unknown)[:_MAX_SENTENCES]:
        near = difflib.get_close_matches(each[:60].lower(), names, n=2, cutoff=0.5)
        meant = f"; did you mean {' or '.join(near)}" if near else ""
        sentences.append(f"{shortened(each, 60)!r} is no argument of this tool{meant}")
    return f"{'. '.join(sentences)}. The arguments are {', '.join(names)}."


def of_unknown_tool(name: str, tools: Iterable[str]) -> str:
    """What there is in place of a tool that there is not."""
    return f"there is no tool called {shortened(name, 60)!r}; there are {', '.join(tools)}"
