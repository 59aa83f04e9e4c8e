"""Nodes, jobs and policies as people write them: "3 nodes of 8 GPUs", "T16: 2x8", "gang and bin packing"."""

import re
from collections.abc import Iterator
from typing import Any, Final

from service.api.errors import FieldViolation, MalformedRequest, shortened
from service.api.mcp.names import Names, counted

#: What kube-scheduler's configuration weighs a device with where it is to pack them; CPU and memory then do not count.
_DEVICE_WEIGHT: Final = 5
_NVIDIA, _AMD = "nvidia.com/gpu", "amd.com/gpu"
_MAX_JOBS: Final = 1000
_SEPARATORS: Final = re.compile(r"\s*(?:[,;\n]|\bthen\b|\band\b)\s*", re.IGNORECASE)
_NODES: Final = re.compile(
    r"(\d{1,6})\s*(?:x|×|\*|nodes?\s+(?:of|with)|nodes?\s*[x×])\s*(\d{1,6})\b\s*(?:[x×*]\s*)?(.*)", re.IGNORECASE
)
_DEVICE_WORDS: Final = re.compile(r"\b(?:gpus?|devices?|accelerators?|cards?|each|(?:a|per|in each)\s+node)\b", re.IGNORECASE)
_JOB: Final = re.compile(
    r"(?:(?P<jobs>\d{1,6})\s+jobs?\s+(?:of|with)\s+)?(?:(?P<name>[^:=]{1,63}?)\s*[:=]\s*)?"
    r"(?:(?P<pods>\d{1,6})\s*(?:x|×|\*|pods?\s*(?:of|with|x|×)?)\s*)?"
    r"(?P<devices>\d{1,6})\s*(?:gpus?|devices?)?\s*(?:each|(?:per|a)\s+pod)?",
    re.IGNORECASE,
)

#: Policies by what they are called, in the order in which they are compared.
POLICIES: Final = ("default", "bin packing", "gang", "gang and bin packing")


def nodes(names: Names, text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The groups of nodes of a cluster, and how names in them were read.

    Raises:
        NotFound: a name is none of the catalogue.
        MalformedRequest: nothing says how many devices a node has.
    """
    groups, notes = [], []
    for place, part in enumerate(filter(None, _SEPARATORS.split(text.strip())), 1):
        group, note = _group(names, part)
        groups.append(group | {"name": f"{group.get('node_type', 'node')}{f'-{place}' if place > 1 else ''}"})
        notes.append(note)
    if not groups:
        raise _malformed("nodes", "it is empty", "write '3 nodes of 8 GPUs' or '2x DGX H100'")
    return groups, notes


def _group(names: Names, part: str) -> tuple[dict[str, Any], str]:
    found = _NODES.fullmatch(part)
    if found is not None:
        group: dict[str, Any] = {"count": int(found[1]), "devices": int(found[2])}
        kind = _DEVICE_WORDS.sub(" ", found[3]).strip()
        if not kind:
            return group, ""
        on = names.hardware(kind)
        return group | {"device_resource": _AMD if names.vendor(on.accelerator) == "AMD" else _NVIDIA}, on.note
    count, name = counted(part)
    on = names.hardware(name)
    if on.node_type is None:
        problem = f"{shortened(name, 60)!r} is an accelerator, which does not say how many a node has"
        raise _malformed("nodes", problem, f"write '{count or 3} nodes of 8 {name[:40]}', or a node type such as 'DGX H100'")
    amd = names.vendor(on.accelerator) == "AMD"
    return {"count": count or 1, "node_type": on.node_type, "device_resource": _AMD if amd else _NVIDIA}, on.note


def jobs(text: str) -> list[dict[str, Any]]:
    """The jobs of a text, in their order.

    >>> jobs("a: 4, T16: 2 pods of 8")
    [{'name': 'a', 'num_pods': 1, 'devices_per_pod': 4}, {'name': 'T16', 'num_pods': 2, 'devices_per_pod': 8}]
    >>> [job["name"] for job in jobs("2 jobs of 4 GPUs, T8: 8")]
    ['job-1', 'job-2', 'T8']

    Raises:
        MalformedRequest: a part of it is no job, or there are too many.
    """
    made: list[dict[str, Any]] = []
    for part in filter(None, _SEPARATORS.split(text.strip())):
        found = _JOB.fullmatch(part)
        if found is None:
            raise _malformed(
                "jobs", f"{shortened(part, 60)!r} is no job", "write 'name: pods x GPUs per pod', such as 'T16: 2x8' or 'a: 4'"
            )
        count = int(found["jobs"] or 1)
        if len(made) + count > _MAX_JOBS:
            raise _malformed("jobs", f"these are more than {_MAX_JOBS:,} jobs", "ask about fewer at once")
        for number in range(1, count + 1):
            name = found["name"].strip() if found["name"] else f"job-{len(made) + 1}"
            if found["name"] and count > 1:
                name = f"{name}-{number}"
            made.append({"name": name, "num_pods": int(found["pods"] or 1), "devices_per_pod": int(found["devices"])})
    if not made:
        raise _malformed("jobs", "it is empty", "write 'name: pods x GPUs per pod', such as 'a: 4, T16: 2x8'")
    return made


def policies(text: str) -> tuple[str, ...]:
    """The policies that a text means; without one, all that are compared.

    >>> policies("Gang scheduling + bin packing"), policies("kube-scheduler default"), policies("Kueue")
    (('gang and bin packing',), ('default',), ('eviction',))

    Raises:
        MalformedRequest: it means none.
    """
    said = text.casefold().replace("-", " ").replace("_", " ")
    gang = "gang" in said or "all or nothing" in said or "volcano" in said
    packs = "pack" in said or "mostallocated" in said.replace(" ", "")
    if gang or packs:
        return ("gang and bin packing" if gang and packs else "gang" if gang else "bin packing",)
    if "evict" in said or "kueue" in said or "waitforpodsready" in said.replace(" ", ""):
        return ("eviction",)
    if not said.strip():
        return POLICIES
    if "default" in said or "kube scheduler" in said or "one pod" in said or "leastallocated" in said.replace(" ", ""):
        return ("default",)
    names = ", ".join((*POLICIES, "eviction"))
    raise _malformed("policy", f"{shortened(text, 60)!r} is none", f"give one of {names}; leave it out to compare")


def policy(name: str, groups: list[dict[str, Any]], *, interleave: bool) -> dict[str, Any]:
    """A policy as requests take it."""
    resource = groups[0].get("device_resource", _NVIDIA)
    asked: dict[str, Any] = {"gang": "gang" in name, "interleave_pods": interleave}
    if "bin packing" in name:
        asked |= {"scoring": "MOST_ALLOCATED", "weights": {resource: _DEVICE_WEIGHT}}
    if name == "eviction":
        asked["wait_for_pods_ready"] = {}
    return asked


def described(name: str) -> Iterator[str]:
    """What a policy of that name does."""
    yield "whole jobs or nothing" if "gang" in name else "one pod at a time"
    if "bin packing" in name:
        yield f"nodes filled up: MostAllocated, GPUs weighted {_DEVICE_WEIGHT}"
    elif name == "eviction":
        yield "evicting what holds GPUs half placed for 300 s, as Kueue's waitForPodsReady does"
    else:
        yield "scores by CPU and memory alone"


def _malformed(field: str, problem: str, remedy: str) -> MalformedRequest:
    return MalformedRequest([FieldViolation(field, f"{problem}; {remedy}")])
