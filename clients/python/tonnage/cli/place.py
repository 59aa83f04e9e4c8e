"""``tonnage place``: where a scheduler would put jobs on a cluster, who waits and why, and what would help."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, TextIO

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonnage import methods
from tonnage.cli import layout, names, options
from tonnage.cli.exits import Exit
from tonnage.cli.quantities import duration, first_few, words
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.v1.placement_pb2 import PlacedJob, Placement, PlacementStep
from tonnage.v1.placement_service_pb2 import SimulatePlacementResponse

_NODES = re.compile(r"(\d+)x(\S+)", re.ASCII)
_JOB = re.compile(r"([^\s:]+):(?:(\d+)x)?(\d+)", re.ASCII)
_SCORINGS = ("least-allocated", "most-allocated", "requested-to-capacity-ratio")
_SHOWN_NODES = 4
_SHOWN_JOBS = 40


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage place --nodes 3x8 --job a:4 --job b:4 --job T16:2x8 --job T8:8",
        "tonnage place --nodes 4xdgx-h100 --jobs jobs.yaml --gang --scoring most-allocated --weight nvidia.com/gpu=5",
        "kubectl get nodes,pods -A -o json | tonnage place --snapshot - --job llama:2x8 --gang",
    ),
)
@click.option(
    "--nodes",
    multiple=True,
    metavar="COUNTxDEVICES",
    shell_complete=names.of(names.NODE_TYPES, names.COUNTED),
    help="Nodes: 3x8, or 3xdgx-h100 by node type. May be repeated.",
)
@click.option(
    "--snapshot", type=click.File(), metavar="FILE", help="What kubectl get nodes,pods -A -o json printed; - reads it."
)
@click.option("--without-waiting-pods", is_flag=True, help="Leave out pods of the snapshot that wait.")
@click.option("--job", "job_words", multiple=True, metavar="NAME:[PODSx]DEVICES", help="A job: T16:2x8. In order of arrival.")
@click.option("--jobs", "jobs_file", type=click.File(), metavar="FILE", help="Jobs as the REST API takes them, JSON or YAML.")
@click.option("--gang", is_flag=True, help="Bind whole jobs or nothing. [default: one pod at a time]")
@click.option("--scoring", type=click.Choice(_SCORINGS), help="How nodes are ranked. [default: least-allocated]")
@click.option(
    "--weight", "weights", multiple=True, metavar="RESOURCE=N", help="Weight in the score. [default: cpu=1, memory=1]"
)
@click.option("--shape", metavar="USE:SCORE,…", help="Line of requested-to-capacity-ratio. [default: 0:0,100:10]")
@click.option("--by-priority", is_flag=True, help="Look at jobs by priority. [default: by arrival]")
@click.option("--strict", is_flag=True, help="Let no job pass one that does not fit.")
@click.option("--interleave", is_flag=True, help="Let jobs that arrive together take turns pod by pod.")
@click.option("--wait-for-pods-ready", type=float, metavar="SECONDS", help="Evict what waits half placed for so long.")
@click.option("--horizon-seconds", type=float, metavar="SECONDS", help="The moment to look at. [default: a day]")
@click.option("--steps", "with_steps", is_flag=True, help="Show what happened step by step.")
@click.option("--check", is_flag=True, help="Exit with 3 where a job waits.")
@options.with_session
def place(
    nodes: tuple[str, ...],
    snapshot: TextIO | None,
    without_waiting_pods: bool,
    job_words: tuple[str, ...],
    jobs_file: TextIO | None,
    with_steps: bool,
    check: bool,
    session: Session,
    **rest: Any,
) -> None:
    """Simulate a scheduler: place jobs on a cluster, and say who waits, why, and what would help."""
    jobs = [*map(_job, job_words), *(_jobs_in(jobs_file) if jobs_file else ())]
    counted, policy = list(map(node_group, nodes)), _policy(**rest)
    held = snapshot_in(snapshot) if snapshot else None
    request = session.request(
        methods.SIMULATE_PLACEMENT,
        nodes=counted,
        snapshot=held,
        without_waiting_pods=without_waiting_pods,
        jobs=jobs,
        policy=policy,
    )
    answer = session.ask(lambda client: client.simulate_placement(request))
    session.show(answer, lambda console, drawn: _draw(console, drawn, with_steps))
    if check and any(job.state not in (PlacedJob.RUNNING, PlacedJob.FINISHED) for job in answer.jobs):
        raise SystemExit(Exit.DOES_NOT_FIT)


# ------------------------------------------------------------------------------------------------------------ options


def node_group(word: str) -> dict[str, Any]:
    """Counted nodes, from a word like 3x8 or 3xdgx-h100."""
    match = _NODES.fullmatch(word)
    if not match:
        raise click.BadParameter(f"{word!r} is not like 3x8 or 3xdgx-h100", param_hint="--nodes")
    count, what = int(match[1]), match[2]
    return {"count": count, "devices": int(what)} if what.isdecimal() else {"count": count, "node_type": what}


def _job(word: str) -> dict[str, Any]:
    match = _JOB.fullmatch(word)
    if not match:
        raise click.BadParameter(f"{word!r} is not like T8:8 or T16:2x8", param_hint="--job")
    return {"name": match[1], "num_pods": int(match[2] or 1), "devices_per_pod": int(match[3])}


def _policy(
    gang: bool,
    scoring: str | None,
    weights: tuple[str, ...],
    shape: str | None,
    by_priority: bool,
    strict: bool,
    interleave: bool,
    wait_for_pods_ready: float | None,
    horizon_seconds: float | None,
) -> dict[str, Any]:
    given = {
        "scoring": scoring.upper().replace("-", "_") if scoring else None,
        "weights": dict(map(_weight, weights)) or None,
        "shape": [_point(each) for each in shape.split(",")] if shape else None,
        "queue_order": "PRIORITY" if by_priority else None,
        "backfill": False if strict else None,
        "wait_for_pods_ready": {"timeout_seconds": wait_for_pods_ready} if wait_for_pods_ready is not None else None,
        "horizon_seconds": horizon_seconds,
    }
    kept = {name: value for name, value in given.items() if value is not None}
    return {"gang": gang, "interleave_pods": interleave, **kept}


def _weight(word: str) -> tuple[str, int]:
    name, _, number = word.rpartition("=")
    if not name or not number.isdecimal():
        raise click.BadParameter(f"{word!r} is not like nvidia.com/gpu=5", param_hint="--weight")
    return name, int(number)


def _point(word: str) -> dict[str, int]:
    use, _, score = word.partition(":")
    if not (use.strip().isdecimal() and score.strip().isdecimal()):
        raise click.BadParameter(f"{word!r} is not like 50:10", param_hint="--shape")
    return {"utilization": int(use), "score": int(score)}


def snapshot_in(file: TextIO) -> dict[str, Any]:
    """The object that a file of JSON holds."""
    content = _json_in(file, "--snapshot")
    if not isinstance(content, dict):
        raise click.BadParameter(f"{file.name} holds no JSON object", param_hint="--snapshot")
    return content


def _jobs_in(file: TextIO) -> list[Any]:
    content = _json_in(file, "--jobs") if not file.name.endswith((".yaml", ".yml")) else _yaml_in(file)
    jobs = content.get("jobs") if isinstance(content, dict) else content
    if not isinstance(jobs, list):
        raise click.BadParameter(f"{file.name} holds no list of jobs", param_hint="--jobs")
    return jobs


def _json_in(file: TextIO, option: str) -> Any:
    try:
        return json.load(file)
    except (ValueError, RecursionError) as error:
        # The message of the decoder gives line and column, and nothing of the content.
        raise click.BadParameter(f"{file.name} is not JSON: {error}", param_hint=option) from None


def _yaml_in(file: TextIO) -> Any:
    try:
        import yaml
    except ImportError:
        raise click.BadParameter("reading YAML needs PyYAML (pip install pyyaml); JSON does not", param_hint="--jobs") from None
    try:
        return yaml.safe_load(file)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{file.name} is not YAML: {error}", param_hint="--jobs") from None


# ------------------------------------------------------------------------------------------------------------- answer


def _draw(console: Console, answer: SimulatePlacementResponse, with_steps: bool) -> None:
    layout.title(console, f"{answer.num_devices} devices on {sum(each.num_nodes for each in answer.node_groups)} nodes")
    stranded = f" ({answer.num_devices_stranded} stranded)" if answer.num_devices_stranded else ""
    console.print(
        f"{answer.num_devices_working} work, {answer.num_devices_held_idle} are held idle, "
        f"{answer.num_devices_free} are free{stranded}."
    )
    if answer.end_seconds:
        console.print(f"As it stands after {duration(answer.end_seconds)}.")
    console.print()
    if answer.jobs:
        layout.section(console, _states(answer.jobs), _jobs(answer.jobs))
    if len(answer.node_groups) > 1:
        layout.section(console, "Groups of nodes", _groups(answer))
    waiting = (job for job in answer.jobs if job.reason)
    layout.sentences(console, "Who waits, and why", [f"{job.name}: {job.reason}" for job in list(waiting)[:_SHOWN_JOBS]])
    layout.sentences(console, "Deadlocks", (each.description for each in answer.deadlocks))
    layout.sentences(console, "What would help", map(_remedy, answer.remedies))
    if with_steps:
        layout.section(console, f"The first {len(answer.steps)} of {answer.num_steps} steps", _steps(answer.steps))
    layout.sentences(console, "Notes", answer.notes)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _states(jobs: Iterable[PlacedJob]) -> str:
    states = Counter(words(PlacedJob.State.Name(job.state)) for job in jobs)
    return "Jobs: " + ", ".join(f"{count} {state}" for state, count in states.items())


def _jobs(jobs: Iterable[PlacedJob]) -> Table:
    drawn = layout.table("job", "state", "pods", "devices", "nodes", right=[2, 3])
    listed = list(jobs)
    for job in listed[:_SHOWN_JOBS]:
        style = layout.GOOD if job.state in (PlacedJob.RUNNING, PlacedJob.FINISHED) else layout.BAD
        state = Text(words(PlacedJob.State.Name(job.state)), style=style)
        pods = f"{job.num_pods_placed} of {job.num_pods}"
        drawn.add_row(job.name, state, pods, str(job.num_devices_held), places(job.placements))
    if len(listed) > _SHOWN_JOBS:
        drawn.add_row(f"… {len(listed) - _SHOWN_JOBS} more", "", "", "", "")
    return drawn


def places(placements: Iterable[Placement]) -> str:
    """Nodes with the pods on each, the first of them."""
    named = [f"{each.node} ({each.num_pods} pods)" if each.num_pods > 1 else each.node for each in placements]
    return first_few(named, _SHOWN_NODES)


def _groups(answer: SimulatePlacementResponse) -> Table:
    drawn = layout.table("group", "nodes", "devices", "work", "held idle", "free", "stranded", right=range(1, 7))
    for each in answer.node_groups:
        counts = (each.num_nodes, each.num_devices, each.num_devices_working, each.num_devices_held_idle)
        drawn.add_row(each.name, *map(str, (*counts, each.num_devices_free, each.num_devices_stranded)))
    return drawn


def _remedy(remedy: Any) -> str:
    helped = f"; {', '.join(remedy.jobs_helped[:5])} then runs" if remedy.jobs_helped else ""
    return f"{remedy.description}: {remedy.num_devices_working} devices work{helped}"


def _steps(steps: Iterable[PlacementStep]) -> Table:
    drawn = layout.table("at", "step", "job", "pod", "node", "score", "", right=[5])
    for step in steps:
        action = words(PlacementStep.Action.Name(step.action))
        score = str(step.score) if step.HasField("score") else ""
        drawn.add_row(duration(step.seconds), action, step.job, step.pod, step.node, score, step.reason)
    return drawn
