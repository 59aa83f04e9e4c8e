"""``tonnage fit-cluster``: where replicas of a model fit a cluster as it stands, what would help, and manifests."""

from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import click
from rich.console import Console
from rich.table import Table

from tonnage import methods
from tonnage.cli import layout, names, options, titles
from tonnage.cli.engine_options import EngineOptions, with_engine
from tonnage.cli.exits import Exit
from tonnage.cli.fit import shape
from tonnage.cli.place import node_group, places, snapshot_in
from tonnage.cli.quantities import byte_count, count, counted
from tonnage.cli.request_file import Question
from tonnage.cli.session import TABLE, Session
from tonnage.cli.subject import Subject, with_modelled_subject
from tonnage.v1.cluster_fit_pb2 import ClusterFitOption, FitClusterResponse, FittedReplica

_SHOWN_REPLICAS = 20
_KINDS = ("Deployment", "LeaderWorkerSet", "PodGroup", "ScaledObject", "ProvisioningRequest", "CapacityBuffer")


@click.command(
    "fit-cluster",
    cls=Question,
    epilog=options.examples(
        "tonnage fit-cluster llama-3.1-70b --nodes 3xdgx-h100 --context-tokens 8192",
        "kubectl get nodes,pods -A -o json | tonnage fit-cluster deepseek-v3 --snapshot - --context-tokens 8192 --replicas 2",
        "tonnage fit-cluster qwen3-32b --nodes 2xdgx-h100 --context-tokens 8192 --manifests --namespace serving > serving.yaml",
    ),
)
@with_modelled_subject
@click.option(
    "--nodes",
    multiple=True,
    metavar="COUNTxTYPE",
    shell_complete=names.of(names.NODE_TYPES, names.COUNTED),
    help="Nodes: 3xdgx-h100, or 3x8 with --accelerator. Repeatable.",
)
@click.option(
    "--snapshot", type=click.File(), metavar="FILE", help="What kubectl get nodes,pods -A -o json printed; - reads it."
)
@click.option("--without-waiting-pods", is_flag=True, help="Leave out pods of the snapshot that wait.")
@click.option("--replicas", "num_replicas", type=int, metavar="N", help="Replicas that are wanted. [default: as many as fit]")
@options.with_searched_split
@options.with_formats
@options.context_tokens(required=True)
@click.option("--concurrency", type=int, metavar="N", help="Sequences that a replica holds at once. [default: 1]")
@options.memory_utilization_ratio
@with_engine
@click.option("--max-num-nodes", type=int, metavar="N", help="Nodes that a replica may reach over. [default: up to 16]")
@click.option("--cpus-per-device", type=float, metavar="N", help="CPUs that pods ask for a device. [default: at most 10]")
@click.option(
    "--memory-bytes-per-device", type=float, metavar="BYTES", help="Host memory that pods ask for. [default: at most 100 GiB]"
)
@click.option("--manifests", "with_manifests", is_flag=True, help="Print manifests for kubectl apply, and nothing else.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help="Which manifests. [default: all that apply]")
@click.option("--name", help="What to call the objects. [default: the model's name]")
@click.option("--namespace", help="Where they go. [default: default]")
@click.option("--image", help="The container image. [default: the engine's own]")
@click.option("--model-path", metavar="PATH", help="What the engine loads. [default: the model's repository]")
@options.check
@options.with_session
def fit_cluster(
    subject: Subject,
    nodes: tuple[str, ...],
    snapshot: TextIO | None,
    split: options.Split,
    formats: options.Formats,
    engine: EngineOptions,
    with_manifests: bool,
    kinds: tuple[str, ...],
    name: str | None,
    namespace: str | None,
    image: str | None,
    model_path: str | None,
    check: bool,
    session: Session,
    **rest: Any,
) -> None:
    """Find where replicas of MODEL fit a cluster now, how many, on which nodes, and what would help.

    Where no way to split it is given, the smallest one that fits is taken, for each accelerator.
    """
    texts = {"name": name, "namespace": namespace, "image": image, "model_path": model_path}
    given = {key: text for key, text in texts.items() if text is not None}
    request = session.request(
        methods.FIT_CLUSTER,
        nodes=list(map(node_group, nodes)),
        snapshot=snapshot_in(snapshot) if snapshot else None,
        model=subject.model,
        accelerator=subject.accelerator,
        engine=engine.spec(),
        manifests={"kinds": list(kinds), **given} if with_manifests or kinds or given else None,
        **split.given(),
        **formats.given(),
        **rest,
    )
    answer = session.ask(lambda client: client.fit_cluster(request))

    def draw(console: Console, drawn: FitClusterResponse) -> None:
        asked = f"{counted(request.concurrency or 1, 'sequence')} at {counted(request.context_tokens, 'token')}"
        layout.title(console, titles.model(request.model, subject.model_title), titles.formats(request.precision), asked)
        _draw(console, drawn)

    if answer.manifests and session.form == TABLE:
        _print_manifests(answer)
    else:
        session.show(answer, draw)
    if check and not any(option.fits for option in answer.options):
        raise SystemExit(Exit.DOES_NOT_FIT)


def _print_manifests(answer: FitClusterResponse) -> None:
    """The manifests as one file for kubectl, and the rest where it does not get in the way."""
    click.echo(answer.summary, err=True)
    for note in answer.notes:
        click.echo(f"· {note}", err=True)
    click.echo("---\n".join(each.yaml for each in answer.manifests), nl=False)


def _draw(console: Console, answer: FitClusterResponse) -> None:
    fits = any(option.fits for option in answer.options)
    console.print(answer.summary, style=layout.GOOD if fits else layout.BAD)
    console.print()
    layout.section(console, "Accelerators", _options(answer.options))
    for option in answer.options:
        _draw_option(console, option, named=len(answer.options) > 1)
    layout.sentences(console, "Notes", answer.notes)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _options(listed: Iterable[ClusterFitOption]) -> Table:
    drawn = layout.table(
        "accelerator",
        "nodes",
        "devices",
        "free",
        "shape",
        "pods",
        "sequences",
        "headroom",
        "fit now",
        right=[1, 2, 3, 5, 6, 7, 8],
    )
    for option in listed:
        can = option.HasField("parallelism")
        drawn.add_row(
            option.accelerator,
            str(option.num_nodes),
            str(option.num_devices),
            str(option.num_devices_free),
            shape(option.parallelism) if can else "none",
            f"{option.num_pods_per_replica} × {option.num_devices_per_pod}" if can else "",
            count(option.max_sequences) if can else "",
            byte_count(option.headroom_bytes_per_device) if can else "",
            str(option.num_replicas_now),
        )
    return drawn


def _draw_option(console: Console, option: ClusterFitOption, *, named: bool) -> None:
    title = f" on {option.accelerator}" if named else ""
    if option.replicas:
        layout.section(console, f"Replicas{title}", _replicas(option.replicas))
    if option.reason:
        told = [
            option.reason,
            *(_obstacle(each.num_nodes, each.node_group, each.reason, each.remedy) for each in option.obstacles),
        ]
        layout.sentences(console, f"Why no more{title}", told)
    helps = (f"{each.description}: {counted(each.num_replicas, 'replica')} then" for each in option.remedies)
    layout.sentences(console, f"What would help{title}", helps)


def _obstacle(num_nodes: int, group: str, reason: str, remedy: str) -> str:
    where = f"{counted(num_nodes, 'node')}{f' of {group}' if group else ''}"
    return f"{where}: {reason}" + (f" → {remedy}" if remedy else "")


def _replicas(replicas: Sequence[FittedReplica]) -> Table:
    drawn = layout.table("replica", "devices", "nodes", "NVLink domain", right=[1])
    for number, each in enumerate(replicas[:_SHOWN_REPLICAS], 1):
        devices = sum(place.num_devices for place in each.placements)
        drawn.add_row(str(number), str(devices), places(each.placements), each.link_domain)
    if len(replicas) > _SHOWN_REPLICAS:
        drawn.add_row(f"… {len(replicas) - _SHOWN_REPLICAS} more", "", "", "")
    return drawn
