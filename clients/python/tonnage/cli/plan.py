"""``tonnage plan``: the fleets that carry a demand, ranked, and why the others are out."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonnage import methods
from tonnage.cli import layout, names, options, own_prices, titles
from tonnage.cli.engine_options import engine_spec
from tonnage.cli.exits import Exit
from tonnage.cli.options import grouped
from tonnage.cli.quantities import count, duration, first_few, percent, significant, words
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.v1.fleet_service_pb2 import (
    FleetExcuse,
    FleetPlan,
    FleetPool,
    FleetWorkload,
    LeastRegret,
    PlanFleetRequest,
    PlanFleetResponse,
    ServiceLevel,
)
from tonnage.v1.model_pb2 import Parallelism
from tonnage.v1.price_pb2 import Price

_SHOWN_EXCUSES = 12
#: Subjects that one excuse names.
_NAMED_SUBJECTS = 3


@dataclass(frozen=True, slots=True)
class DemandOptions:
    """The requests: like what, how many, and what they are to see."""

    input_tokens: int | None
    output_tokens: int | None
    requests_per_second: str | None
    confidence: float | None
    ttft_seconds: float | None
    tpot_seconds: float | None
    end_to_end_seconds: float | None
    percentile: str | None

    def given(self) -> dict[str, Any]:
        """As keyword arguments of the client's method. A UsageError where the rate is none."""
        return {**asdict(self), "requests_per_second": self._rate()}

    def _rate(self) -> float | tuple[float, float, float] | None:
        if self.requests_per_second is None:
            return None
        try:
            figures = tuple(float(each) for each in self.requests_per_second.split(":"))
        except ValueError:
            figures = ()
        if len(figures) == 1:
            return figures[0]
        if len(figures) != 3:
            raise click.UsageError(f"--rate {self.requests_per_second}: give a number, or LOW:MID:HIGH")
        return figures[0], figures[1], figures[2]


_NUMBER: dict[str, Any] = {"type": float, "metavar": "X"}
_with_demand = grouped(
    "demand",
    DemandOptions,
    click.option("--input-tokens", "--isl", type=int, metavar="N", default=1024, show_default=True, help="Tokens of a prompt."),
    click.option("--output-tokens", "--osl", type=int, metavar="N", default=1024, show_default=True, help="… of an answer."),
    click.option(
        "--requests-per-second", "--rate", required=True, metavar="X|LOW:MID:HIGH", help="Requests over the fleet, or a range."
    ),
    click.option("--confidence", **_NUMBER, help="… and how likely it holds. [default: 0.8]"),
    click.option("--ttft-seconds", "--ttft", **_NUMBER, help="Time to the first token to keep."),
    click.option("--tpot-seconds", "--tpot", **_NUMBER, help="Time between tokens to keep."),
    click.option("--end-to-end-seconds", **_NUMBER, help="Time to the last token to keep."),
    click.option("--percentile", type=click.Choice(["p50", "p90", "p99"]), help="… for how many. [default: p90]"),
)


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage plan llama-3.1-70b --rate 10 --isl 2000 --osl 500 --ttft 1 --tpot 0.05",
        "tonnage plan llama-3.1-70b --rate 5:10:20 --ttft 1 --tpot 0.05 --node aws-p5.48xlarge --node aws-p4d.24xlarge",
        "tonnage plan gpt-oss-120b --rate 20 --tpot 0.03 --accelerator h200-sxm --accelerator b200 --engine sglang --json",
        "tonnage plan llama-3.1-70b --rate 10 --ttft 1 --format xlsx > fleet.xlsx",
    ),
)
@click.argument("model", metavar="MODEL", shell_complete=names.of(names.MODELS))
@_with_demand
@names.option(names.NODE_TYPES, "--node", "node_types", multiple=True, help="A node type that is allowed. [default: all]")
@names.option(names.ACCELERATORS, "--accelerator", "accelerators", multiple=True, help="… or an accelerator, by the device.")
@names.option(names.ENGINES, "--engine", "engines", multiple=True, help="An engine that is allowed. [default: vllm]")
@options.with_formats
@click.option("--max-tensor", type=int, metavar="N", help="Tensor-parallel ranks at most.")
@click.option("--headroom-ratio", "--headroom", type=float, metavar="RATIO", help="Carried beyond the demand. [default: 0]")
@click.option("--redundant-nodes", type=int, metavar="N", help="Nodes that may be lost. [default: 0]")
@click.option("--certainty", type=click.Choice(["expected", "cautious"]), help="By the estimate, or its upper end.")
@click.option("--disaggregated", is_flag=True, help="Also prompts and answers on replicas of their own.")
@click.option("--term", type=click.Choice(["on-demand", "spot", "one-year", "three-years"]), help="[default: on-demand]")
@click.option("--region", metavar="NAME", help="Region of the prices.")
@click.option("--currency", metavar="CODE", help="[default: USD]")
@own_prices.option
@click.option("--max-plans", type=int, metavar="N", default=10, show_default=True, help="Plans to show.")
@options.memory_utilization_ratio
@options.explain
@options.with_tabular_session
def plan(
    model: str | None,
    demand: DemandOptions,
    engines: tuple[str, ...],
    formats: options.Formats,
    priced: tuple[str, ...],
    session: Session,
    **rest: Any,
) -> None:
    """Plan the fleet that carries a demand for MODEL within a service level, at the least cost.

    The service level is at least one of --ttft, --tpot and --end-to-end-seconds, all in seconds.
    """
    specs = [engine_spec(name.strip(), version.strip() or None, {}) for name, _, version in map(_parted, engines)]
    asked = {**demand.given(), **formats.given(), **rest, "engines": specs}
    request = own_prices.lay_in(session.request(methods.PLAN_FLEET, model=model, **asked), priced, session)
    answer = session.ask(lambda client: client.plan_fleet(request))

    def draw(console: Console, drawn: PlanFleetResponse) -> None:
        demands = map(_demand, request.workloads)
        layout.title(
            console, titles.model(request.model), *demands, _level(request.service_level), titles.formats(request.precision)
        )
        _draw(console, drawn, request)

    session.show(answer, draw, request)
    if not answer.plans:
        raise SystemExit(Exit.DOES_NOT_FIT)


def _parted(engine: str) -> tuple[str, str, str]:
    return engine.partition("==")


def _demand(workload: FleetWorkload) -> str:
    rates = workload.requests_per_second
    given = [rates.low, rates.mid, rates.high] if rates.HasField("low") and rates.HasField("high") else [rates.mid]
    rate = ":".join(f"{each:g}" for each in given)
    return f"{count(workload.input_tokens)} in, {count(workload.output_tokens)} out, {rate} requests/s"


def _level(level: ServiceLevel) -> str:
    times = (("TTFT", "ttft_seconds"), ("TPOT", "tpot_seconds"), ("end to end", "end_to_end_seconds"))
    parts = [f"{name} ≤ {duration(getattr(level, field))}" for name, field in times if level.HasField(field)]  # type: ignore[arg-type]
    percentile = ServiceLevel.Percentile.Name(level.percentile).lower() if level.percentile else "p90"
    return f"{', '.join(parts)} at {percentile}" if parts else ""


def _draw(console: Console, answer: PlanFleetResponse, request: PlanFleetRequest) -> None:
    if answer.plans:
        layout.section(console, f"Fleets, by {words(PlanFleetResponse.Ranking.Name(answer.ranking))}", _fleets(answer.plans))
        layout.sentences(console, "Prices", [*_unpriced(answer, request), *_prices(answer.plans)])
    if answer.HasField("infeasible"):
        console.print(Text(f"Infeasible: {answer.infeasible.reason}.", style=layout.BAD))
        if answer.infeasible.HasField("nearest_plan"):
            heading = f"Nearest: every time × {significant(answer.infeasible.relaxation_ratio)}"
            layout.section(console, heading, _fleets([answer.infeasible.nearest_plan]))
    if answer.HasField("least_regret"):
        layout.section(console, "Least regret over the range", _regret(answer.least_regret))
    layout.sentences(console, "Rejected", _excuses(answer.excuses, but=(FleetExcuse.NO_PRICE, FleetExcuse.COSTS_MORE)))
    layout.footing(console, answer.assumptions, answer.catalogue_revision)
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)


def _fleets(plans: Iterable[FleetPlan]) -> Table:
    heads = ("fleet", "replicas", "nodes", "devices", "per hour", "per M in / out", "kW", "full", "limit", "TTFT", "TPOT")
    drawn = layout.table(*heads, right=[2, 3, 4, 5, 6, 7])
    for each in plans:
        known = each.HasField("cost")
        drawn.add_row(
            f"{each.node_type or each.accelerator} {each.engine}",
            "\n".join(map(_pool, each.pools)),
            count(each.num_nodes),
            count(each.num_devices),
            f"{each.cost.cost_per_hour:,.2f} {each.cost.currency}" if known else "no price",
            f"{each.cost.input_cost_per_million_tokens:.3g} / {each.cost.output_cost_per_million_tokens:.3g}" if known else "",
            significant(each.watts / 1000) if each.HasField("watts") else "",
            percent(each.utilization_ratio),
            words(FleetPool.Limit.Name(each.binding_limit)),
            _longest(pool.ttft_seconds for pool in each.pools if pool.HasField("ttft_seconds")),
            _longest(pool.tpot_seconds for pool in each.pools if pool.HasField("tpot_seconds")),
        )
    return drawn


def _pool(pool: FleetPool) -> str:
    role = "" if pool.role == FleetPool.AGGREGATED else f" {words(FleetPool.Role.Name(pool.role))}"
    return f"{pool.num_replicas} × {_split(pool.parallelism)}{role}"


def _split(shape: Parallelism) -> str:
    return f"DP {shape.attention_data} EP {shape.expert}" if shape.attention_data > 1 else f"TP {shape.tensor}"


def _longest(seconds: Iterable[float]) -> str:
    listed = list(seconds)
    return duration(max(listed)) if listed else ""


def _unpriced(answer: PlanFleetResponse, request: PlanFleetRequest) -> Iterator[str]:
    """Of which hardware no price is known, and how it is ranked without; then which prices are known instead."""
    without = [each for each in answer.excuses if each.reason == FleetExcuse.NO_PRICE]
    if not without:
        return
    subjects = list(dict.fromkeys(each.node_type or each.accelerator for each in without))
    term = Price.Term.Name(request.term or Price.ON_DEMAND).lower().replace("_", "-")
    asked = "".join(f" in {each}" for each in (request.region, request.currency) if each)
    by_cost = answer.ranking == PlanFleetResponse.COST
    ranked = "after what has one" if by_cost else f"by {words(PlanFleetResponse.Ranking.Name(answer.ranking))}"
    names = first_few(subjects, _NAMED_SUBJECTS)
    yield f"no {term} price{asked} is known for {names}; ranked {ranked}; --price NAME=AMOUNT takes yours"
    yield from _excuses(without)


def _prices(plans: Iterable[FleetPlan]) -> Iterable[str]:
    lines: dict[str, None] = {}
    for each in plans:
        if not each.HasField("cost"):
            continue
        cost, price = each.cost, each.cost.price
        day = price.date or cost.purchase_date or "not dated"
        unit = f"{cost.cost_per_unit_hour:,.4g} {cost.currency} per hour"
        about = "; ".join(filter(None, (price.source, *cost.notes)))
        lines[f"{each.node_type or each.accelerator}: {unit}, {day}, {about}"] = None
    return lines


def _regret(regret: LeastRegret) -> str:
    each = regret.plan
    replicas = ", ".join(map(_pool, each.pools))
    return (
        f"{each.node_type or each.accelerator} {each.engine}: {replicas} on {count(each.num_nodes)} nodes, sized for "
        f"{significant(regret.requests_per_second)} requests/s; {regret.expected_regret_per_hour:,.2f} {regret.unit} an hour "
        f"more than the best on average, {regret.max_regret_per_hour:,.2f} at most"
    )


def _excuses(excuses: Iterable[FleetExcuse], but: Container[FleetExcuse.Reason.ValueType] = ()) -> list[str]:
    """One line for what is told in the same words: its subjects, the first few by name. ``but`` are reasons told elsewhere."""
    subjects: dict[tuple[str, str], dict[str, None]] = {}
    for each in excuses:
        if each.reason in but:
            continue
        shape = f" {_split(each.parallelism)}" if each.HasField("parallelism") else ""
        subjects.setdefault((each.engine, each.text), {})[f"{each.node_type or each.accelerator}{shape}"] = None
    lines = [f"{_named(subject)} {engine}: {text}".replace(" :", ":") for (engine, text), subject in subjects.items()]
    left = len(lines) - _SHOWN_EXCUSES
    return lines[:_SHOWN_EXCUSES] + ([f"and {left} more: see --json"] if left > 0 else [])


def _named(subjects: Iterable[str]) -> str:
    """The first few, and how many more; what follows is about all of them."""
    listed = list(subjects)
    return first_few(listed, _NAMED_SUBJECTS) + ("," if len(listed) > _NAMED_SUBJECTS else "")
