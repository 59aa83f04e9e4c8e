"""The tool that says where a scheduler would put jobs on a cluster, who waits, and which policy keeps more GPUs at work."""

from typing import Annotated, Any

from pydantic import Field

from service.api.errors import FieldViolation, MalformedRequest
from service.api.mcp import cluster_words
from service.api.mcp.answers import Answer
from service.api.mcp.prose import listed, sentence
from service.api.mcp.tools import Desk, Tool

_WAITING = ("WAITING", "WAITING_PARTIAL", "EVICTED", "GATED")
_SAID_JOBS = 6
_SAID_REMEDIES = 2


def place_jobs(desk: Desk) -> Tool:
    """The tool, asking at this desk."""

    async def tool(
        nodes: Annotated[str, Field(description="'3 nodes of 8 GPUs', '2x DGX H100'")],
        jobs: Annotated[
            str, Field(description="'name: pods x GPUs per pod' in order of arrival: 'a: 4, b: 4, T16: 2x8, T8: 8'")
        ],
        policy: Annotated[
            str, Field(description="default, gang, bin packing, gang and bin packing, eviction; empty compares")
        ] = "",
        interleave_pods: Annotated[bool, Field(description="jobs that arrive together take turns pod by pod")] = False,
    ) -> Answer:
        """Where does Kubernetes place jobs on a GPU cluster, who waits for whom, and what keeps more GPUs at work?

        Simulates kube-scheduler, gang scheduling and GPU bin packing, and names deadlocks and remedies. Not for whether a model
        fits a node (will_it_fit).
        """
        groups, notes = cluster_words.nodes(desk.names, nodes)
        asked = cluster_words.policies(policy)
        if interleave_pods:
            asked = tuple(each for each in asked if "gang" not in each)
            if not asked:
                problem = "gang binds whole jobs, whose pods cannot take turns; leave one of the two out"
                raise MalformedRequest([FieldViolation("interleave_pods", problem)])
        question = {"cluster": {"nodes": groups}, "jobs": cluster_words.jobs(jobs)}
        replies = {
            each: await desk.ask(
                "SimulatePlacement", question | {"policy": cluster_words.policy(each, groups, interleave=interleave_pods)}
            )
            for each in asked
        }
        return _one(desk, asked[0], replies[asked[0]], notes) if len(replies) == 1 else _compared(desk, replies, notes)

    return tool


def _one(desk: Desk, name: str, reply: dict[str, Any], notes: list[str]) -> Answer:
    remedies = [f"{each['description']}: {each['num_devices_working']} would work" for each in reply["remedies"]]
    summary = f"{_said(name, reply)} {_deadlocks(reply)}".strip()
    if remedies:
        summary += f" What would help: {'; '.join(remedies[:_SAID_REMEDIES])}."
    return desk.answer(
        reply,
        summary,
        figures={each: reply[each] for each in _FIGURES} | {"num_deadlocks": len(reply["deadlocks"])},
        rows=map(_row, _interesting(reply["jobs"])),
        notes=[*reply["notes"], *remedies],
        assumptions=notes,
        hints=("leave policy out to compare policies", "look_up 'gang scheduling', 'Kueue' or 'bin packing' says what each is"),
    )


_FIGURES = (
    "num_devices",
    "num_devices_working",
    "num_devices_held_idle",
    "num_devices_free",
    "num_devices_stranded",
    "end_seconds",
)


def _compared(desk: Desk, replies: dict[str, dict[str, Any]], notes: list[str]) -> Answer:
    said = [f"{_said(name, reply)} {_deadlocks(reply)}".strip() for name, reply in replies.items()]
    return desk.answer(
        {"catalogue_revision": next(iter(replies.values()))["catalogue_revision"]},
        " ".join(said),
        figures={
            f"{name.replace(' ', '_')}_{each}": reply[each]
            for name, reply in replies.items()
            for each in ("num_devices_working", "num_devices_held_idle")
        },
        rows=[
            {"policy": name, **{each: reply[each] for each in _FIGURES}, "waiting": _listed(_names(reply, *_WAITING))}
            for name, reply in replies.items()
        ],
        notes=[note for reply in replies.values() for note in reply["notes"]],
        assumptions=[*notes, *(each for reply in replies.values() for each in reply["assumptions"])],
        hints=("name a policy for where each job stands and what would help",),
    )


def _said(name: str, reply: dict[str, Any]) -> str:
    held = reply["num_devices_held_idle"]
    idle = f" ({held} held idle by jobs that wait for the rest of their pods)" if held else ""
    text = f"{name.capitalize()} ({', '.join(cluster_words.described(name))}): "
    text += f"{reply['num_devices_working']} of {reply['num_devices']} GPUs work{idle}"
    for word, states in (("runs", ("RUNNING",)), ("is half placed", ("WAITING_PARTIAL",)), ("waits", _OTHERS)):
        names = _names(reply, *states)
        if names:
            text += f"; {_listed(names)} {_PLURAL[word] if len(names) > 1 else word}"
    return f"{text}."


_OTHERS = ("WAITING", "EVICTED", "GATED")
_PLURAL = {"runs": "run", "is half placed": "are half placed", "waits": "wait"}


def _names(reply: dict[str, Any], *states: str) -> list[str]:
    return [each["name"] for each in reply["jobs"] if each["state"] in states]


def _listed(names: list[str]) -> str:
    rest = len(names) - _SAID_JOBS
    return "" if not names else listed([*names[:_SAID_JOBS], f"{rest} more"] if rest > 0 else names)


def _deadlocks(reply: dict[str, Any]) -> str:
    return " ".join(f"Deadlock: {sentence(each['description'])}" for each in reply["deadlocks"][:_SAID_REMEDIES])


def _interesting(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that wait before those that run: the table is short."""
    return sorted(jobs, key=lambda job: job["state"] not in _WAITING)


def _row(job: dict[str, Any]) -> dict[str, Any]:
    row = {
        "job": job["name"],
        "state": job["state"],
        "num_pods": job["num_pods"],
        "num_pods_placed": job["num_pods_placed"],
        "num_devices_held": job["num_devices_held"],
        "nodes": ", ".join(each["node"] for each in job["placements"][:8]),
        "reason": job["reason"],
    }
    return {name: value for name, value in row.items() if value != ""}
