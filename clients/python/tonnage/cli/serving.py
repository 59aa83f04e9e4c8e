"""``tonnage serving``: what an engine really serves, as ranges, where the time goes, and the bound beside it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonnage import methods
from tonnage.cli import layout, options, titles
from tonnage.cli.engine_options import EngineOptions, with_engine
from tonnage.cli.exits import Exit
from tonnage.cli.options import grouped
from tonnage.cli.quantities import count, counted, duration, percent, significant, words
from tonnage.cli.request_file import Question, has_request_file
from tonnage.cli.session import Session
from tonnage.cli.subject import Subject, with_accelerated_subject
from tonnage.v1.serving_service_pb2 import (
    Disaggregation,
    EstimateServingResponse,
    Interval,
    PrometheusObservation,
    ServingEstimate,
    ServingObservation,
    SpeculativeDecoding,
    Workload,
)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The requests: like what, and how many."""

    input_tokens: int | None
    output_tokens: int | None
    concurrency: float | None
    requests_per_second: float | None
    prefix_cache_hit_ratio: float | None
    accepted_tokens_per_step: float | None
    drafted_tokens_per_step: int | None
    drafter_step_ratio: float | None
    prefill_replicas: int | None
    decode_replicas: int | None
    transfer_bytes_per_second: float | None

    def given(self) -> dict[str, Any]:
        """As keyword arguments of the client's method. A UsageError where half of a pair is missing."""
        plain = ("input_tokens", "output_tokens", "concurrency", "requests_per_second", "prefix_cache_hit_ratio")
        return {
            **{name: getattr(self, name) for name in plain},
            "speculative_decoding": self._message(
                SpeculativeDecoding, "accepted_tokens_per_step", "drafted_tokens_per_step", "drafter_step_ratio"
            ),
            "disaggregation": self._message(Disaggregation, "prefill_replicas", "decode_replicas", "transfer_bytes_per_second"),
        }

    def _message(self, kind: Any, *names: str) -> Any:
        """The message, None where nothing of it is given. Its first two fields go together."""
        fields = {name: value for name in names if (value := getattr(self, name)) is not None}
        if not fields:
            return None
        if missing := [name for name in names[:2] if name not in fields]:
            given = next(iter(fields)).replace("_", "-")
            raise click.UsageError(f"--{given} goes with --{missing[0].replace('_', '-')}")
        return _made(kind, fields)


@dataclass(frozen=True, slots=True)
class ObservedOptions:
    """What was measured, or where it can be read."""

    observed_requests: int | None
    observed_tpot_seconds: float | None
    observed_ttft_seconds: float | None
    prometheus_url: str | None
    prometheus_label: tuple[str, ...]
    window_seconds: int | None
    metric_prefix: str | None

    def given(self) -> dict[str, Any]:
        """As keyword arguments of the client's method."""
        return {"observation": self._observation(), "observe": self._observe()}

    def _observation(self) -> ServingObservation | None:
        times = {"tpot_seconds": self.observed_tpot_seconds, "ttft_seconds": self.observed_ttft_seconds}
        fields = {name: value for name, value in times.items() if value is not None}
        if not fields and self.observed_requests is None:
            return None
        if self.observed_requests is None:
            raise click.UsageError("--observed-tpot-seconds and --observed-ttft-seconds go with --observed-requests")
        return ServingObservation(**_fitting(ServingObservation, {"num_requests": self.observed_requests, **fields}))

    def _observe(self) -> PrometheusObservation | None:
        if self.prometheus_url is None:
            if self.prometheus_label or self.window_seconds is not None or self.metric_prefix is not None:
                raise click.UsageError("--prometheus-label, --window-seconds and --metric-prefix go with --prometheus-url")
            return None
        labels = dict(map(_label, self.prometheus_label))
        fields = {"window_seconds": self.window_seconds, "metric_prefix": self.metric_prefix}
        rest = {name: value for name, value in fields.items() if value is not None}
        made: PrometheusObservation = _made(
            PrometheusObservation, {"prometheus_url": self.prometheus_url, "labels": labels, **rest}
        )
        return made


def _made(kind: Any, fields: dict[str, Any]) -> Any:
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None


def _fitting(kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
    _made(kind, fields)
    return fields


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--prometheus-label {text}: give NAME=VALUE")
    return name, value


_INTEGER: dict[str, Any] = {"type": int, "metavar": "N"}
_NUMBER: dict[str, Any] = {"type": float, "metavar": "X"}
_with_load = grouped(
    "load",
    LoadOptions,
    click.option("--input-tokens", "--isl", **_INTEGER, default=1024, show_default=True, help="Tokens of a prompt."),
    click.option("--output-tokens", "--osl", **_INTEGER, default=1024, show_default=True, help="Tokens of an answer."),
    click.option("--concurrency", **_NUMBER, help="Requests kept in flight (a closed loop)."),
    click.option("--requests-per-second", "--rate", **_NUMBER, help="… or requests that arrive per second, at random."),
    click.option("--prefix-cache-hit-ratio", type=float, metavar="RATIO", help="Part of a prompt that is cached. [default: 0]"),
    click.option("--accepted-tokens-per-step", **_NUMBER, help="Speculative decoding: tokens gained in a step, 1 and more."),
    click.option("--drafted-tokens-per-step", **_INTEGER, help="… and tokens drafted."),
    click.option("--drafter-step-ratio", type=float, metavar="RATIO", help="… and the drafter's part of a step. [default: 0]"),
    click.option("--prefill-replicas", **_INTEGER, help="Disaggregated: replicas for prompts."),
    click.option("--decode-replicas", **_INTEGER, help="… and replicas for answers."),
    click.option("--transfer-bytes-per-second", **_NUMBER, help="… and how fast a prompt's cache moves between them."),
)
_with_observed = grouped(
    "observed",
    ObservedOptions,
    click.option("--observed-requests", **_INTEGER, help="Correct by what was measured: requests."),
    click.option("--observed-tpot-seconds", **_NUMBER, help="… and their mean time between tokens."),
    click.option("--observed-ttft-seconds", **_NUMBER, help="… and their mean time to the first token."),
    click.option("--prometheus-url", metavar="URL", help="… or a Prometheus server where the service may read it."),
    click.option("--prometheus-label", multiple=True, metavar="NAME=VALUE", help="… label of its series; may be repeated."),
    click.option("--window-seconds", **_INTEGER, help="… and how far back it looks. [default: 600]"),
    click.option("--metric-prefix", metavar="TEXT", help="… and what its metric names begin with (kserve_)."),
)


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage serving llama-3.1-70b h200-sxm --engine vllm --tp 8 --weights fp8 --concurrency 64",
        "tonnage serving --model gpt-oss-120b --accelerator b200-sxm --engine trtllm --rate 5 --isl 4096 --osl 512",
    ),
)
@with_accelerated_subject
@with_engine
@_with_load
@options.with_split
@options.with_formats
@_with_observed
@options.memory_utilization_ratio
@options.explain
@options.check
@options.with_session
def serving(
    subject: Subject,
    engine: EngineOptions,
    load: LoadOptions,
    split: options.Split,
    formats: options.Formats,
    observed: ObservedOptions,
    check: bool,
    session: Session,
    **rest: Any,
) -> None:
    """Estimate what an engine really serves of MODEL on ACCELERATOR, with ranges, beside the bound."""
    spec = engine.spec()
    if spec is None and not has_request_file():
        raise click.UsageError("name an engine: --engine vllm, sglang, tensorrt-llm, llama.cpp or gpt-fast")
    asked = {**load.given(), **observed.given(), **split.given(), **formats.given(), **rest}
    request = session.request(
        methods.ESTIMATE_SERVING, model=subject.model, accelerator=subject.accelerator, engine=spec, **asked
    )
    answer = session.ask(lambda client: client.estimate_serving(request))
    devices = f"{answer.num_devices} × {titles.hardware(request.accelerator, subject.hardware_title)}"

    def draw(console: Console, drawn: EstimateServingResponse) -> None:
        named = " ".join(filter(None, (request.engine.name, request.engine.version)))
        replica = titles.split(request.parallelism), titles.formats(request.precision)
        layout.title(
            console, titles.model(request.model, subject.model_title), devices, named, *replica, _load(request.workload)
        )
        _draw(console, drawn)

    session.show(answer, draw)
    if check and not answer.fits:
        raise SystemExit(Exit.DOES_NOT_FIT)


def _load(workload: Workload) -> str:
    lengths = f"{count(workload.input_tokens)} in, {count(workload.output_tokens)} out"
    if workload.HasField("requests_per_second"):
        return f"{lengths}, {significant(workload.requests_per_second)} requests/s"
    return f"{lengths}, concurrency {count(workload.concurrency)}" if workload.HasField("concurrency") else lengths


def _draw(console: Console, answer: EstimateServingResponse) -> None:
    if answer.HasField("estimate"):
        if answer.saturation:
            console.print(Text(answer.saturation, style=layout.BAD))
            console.print()
        layout.section(console, "Estimate, with the range that eight runs in ten lie in", _estimate(answer))
        layout.section(console, "Where the time goes", _terms(answer))
        console.print(_basis(answer.estimate))
    else:
        console.print(Text(f"No estimate: {answer.no_estimate_reason}", style=layout.BAD))
        console.print(f"Bound: a step takes at least {duration(answer.bound.step_seconds)}")
    console.print()
    layout.verdict(console, answer.fits if answer.HasField("fits") else None, None)
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _has_gaps(estimate: ServingEstimate) -> bool:
    return estimate.HasField("output_tokens_per_second_per_user")


def _estimate(answer: EstimateServingResponse) -> Table:
    estimate = answer.estimate
    drawn = layout.table("", "p10", "estimate", "p90", right=[1, 2, 3])
    if estimate.HasField("ttft_seconds"):
        for name, mean, times in (
            ("time to first token", estimate.ttft_seconds, estimate.ttft_over_requests),
            # Answers of one token have no time between tokens.
            ("time between tokens", estimate.tpot_seconds, estimate.tpot_over_requests if _has_gaps(estimate) else None),
        ):
            if times is None:
                continue
            drawn.add_row(f"{name}, mean", *_durations(mean))
            for share, each in (("half see less than", times.p50), ("1 in 10 more than", times.p90), ("1 in 100", times.p99)):
                drawn.add_row(f"  {share}", *_durations(each))
        drawn.add_row("arrival to last token", *_durations(estimate.end_to_end_seconds))
        drawn.add_section()
    for name, rate in (
        ("output tokens/s", estimate.output_tokens_per_second),
        ("  per user", estimate.output_tokens_per_second_per_user if _has_gaps(estimate) else None),
        ("  per device", estimate.output_tokens_per_second_per_device),
        ("requests/s", estimate.requests_per_second),
        ("  at the most", estimate.max_requests_per_second),
    ):
        if rate is not None:
            drawn.add_row(name, *map(significant, _of(rate)))
    drawn.add_section()
    for name, value in (
        ("requests that decode", estimate.effective_batch_size),
        ("requests that run", estimate.running_requests),
        ("requests that wait", estimate.queued_requests),
    ):
        drawn.add_row(name, "", significant(value))
    drawn.add_row("requests that find place", "", significant(estimate.max_running_requests))
    drawn.add_row("KV pool taken", "", percent(estimate.kv_pool_occupancy_ratio))
    return drawn


def _of(interval: Interval) -> tuple[float, float, float]:
    return interval.p10, interval.p50, interval.p90


def _durations(interval: Interval) -> Iterable[str]:
    return map(duration, _of(interval))


def _terms(answer: EstimateServingResponse) -> Table:
    terms = answer.estimate.terms
    drawn = layout.table("term", "time", "bound\n(nothing can beat it)", right=[1, 2])
    drawn.add_row("decode step", duration(terms.decode_step_seconds), f"≥ {duration(answer.bound.step_seconds)}")
    for name in ("weights", "experts", "attention", "collectives", "layers", "host"):
        drawn.add_row(f"  {name}", duration(getattr(terms, f"{name}_seconds")))
    drawn.add_row("prompts of others, a token", duration(terms.interference_seconds))
    drawn.add_row("one prompt alone", duration(terms.prefill_seconds))
    drawn.add_row("wait for a place", duration(answer.estimate.queue_seconds))
    return drawn


def _basis(estimate: ServingEstimate) -> str:
    """What the ranges rest on, in a sentence or two."""
    basis = words(ServingEstimate.Basis.Name(estimate.calibration_basis))
    familiar = "this model on this accelerator is among its runs" if estimate.is_familiar else "no runs of this very pair"
    text = f"Calibration {estimate.calibration}, {basis}: {familiar}."
    if not estimate.HasField("correction"):
        return text
    correction = estimate.correction
    moved = [
        f"time {name} × {significant(ratio)}"
        for name, ratio, is_given in (
            ("between tokens", correction.tpot_ratio, correction.HasField("tpot_ratio")),
            ("to first token", correction.ttft_ratio, correction.HasField("ttft_ratio")),
        )
        if is_given
    ]
    return f"{text} Corrected by {counted(correction.num_requests, 'request')} observed: {', '.join(moved)}."
