"""``tonnage quote``: whether a vendor's offer holds, line by line."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonnage import methods
from tonnage.cli import layout, options
from tonnage.cli.exits import Exit
from tonnage.cli.quantities import count, significant, words
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.v1.claim_service_pb2 import (
    AuditQuoteResponse,
    QuoteColumn,
    QuoteFinding,
    QuoteLine,
    QuoteReading,
    QuoteTotal,
)
from tonnage.v1.price_pb2 import ExchangeRate, PriceList

_WRONG, _CHECK, _NOTE = ("✗", layout.BAD), ("?", "yellow"), ("·", layout.QUIET)
_VERDICTS = {QuoteLine.HOLDS: layout.GOOD, QuoteLine.WRONG_FIGURES: layout.BAD, QuoteLine.TO_CHECK: "yellow"}
_SEVERITIES = {
    QuoteFinding.WRONG: _WRONG,
    QuoteFinding.CHECK: _CHECK,
    QuoteFinding.NOTE: _NOTE,
}
_UNITS = {QuoteLine.ONCE: " once", QuoteLine.PER_HOUR: "/h", QuoteLine.PER_MONTH: "/month", QuoteLine.PER_YEAR: "/year"}
_MAX_BYTES = 1 << 22


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage quote offer.csv --price-unit once",
        "tonnage quote offer.csv --exchange-rate USD:EUR:0.9:2026-07-01",
        "tonnage quote - --currency USD --price-unit per-hour --format xlsx < offer.csv > audit.xlsx",
    ),
)
@click.argument("file", metavar="FILE|-")
@click.option("--currency", metavar="CODE", help="The currency of prices that do not say theirs.")
@click.option(
    "--price-unit",
    type=click.Choice(["once", "per-hour", "per-month", "per-year"]),
    help="What a unit price pays for, where the offer does not say.",
)
@click.option("--term", type=click.Choice(["on-demand", "spot", "one-year", "three-years"]), help="[default: on-demand]")
@click.option("--region", metavar="NAME", help="Region of the list prices to compare with.")
@click.option("--precision", metavar="FORMAT", help="Format of the dense peak that prices are divided by. [default: bf16]")
@click.option(
    "--depreciation-years", type=float, metavar="N", help="Years over which a price paid once is spread. [default: 5]"
)
@click.option(
    "--exchange-rate", "rates", multiple=True, metavar="FROM:TO:RATE:DATE", help="What one unit of a currency buys of another."
)
@click.option("--check", is_flag=True, help="Exit with 3 where a line or a sum is wrong.")
@options.with_tabular_session
def quote(file: str | None, rates: tuple[str, ...], price_unit: str | None, check: bool, session: Session, **rest: Any) -> None:
    """Audit a vendor's offer (CSV): figures by the catalogue, prices by list prices, sums. "-" reads standard input."""
    content = None if file is None else _content(file)
    price_list = PriceList(exchange_rates=list(map(_rate, rates))) if rates else None
    request = session.request(methods.AUDIT_QUOTE, document=content, price_unit=price_unit, price_list=price_list, **rest)
    answer = session.ask(lambda client: client.audit_quote(request))
    session.show(answer, _draw, request)
    if check and _is_wrong(answer):
        raise SystemExit(Exit.DOES_NOT_FIT)


def _content(file: str) -> bytes:
    try:
        content = sys.stdin.buffer.read(_MAX_BYTES + 1) if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        raise click.UsageError(f"{file} is larger than {_MAX_BYTES >> 20} MiB: send only the lines of products")
    return content


def _rate(text: str) -> ExchangeRate:
    try:
        bought, sold, rate, day = text.split(":")
        return ExchangeRate(from_currency=bought.upper(), to_currency=sold.upper(), rate=float(rate), date=day)
    except ValueError:
        raise click.UsageError(f"--exchange-rate {text}: give FROM:TO:RATE:DATE, such as USD:EUR:0.9:2026-07-01") from None


def _is_wrong(answer: AuditQuoteResponse) -> bool:
    return any(line.verdict == QuoteLine.WRONG_FIGURES for line in answer.lines) or any(map(_is_wrong_sum, answer.totals))


def _is_wrong_sum(total: QuoteTotal) -> bool:
    return total.HasField("computed_total") and not total.agrees


def _draw(console: Console, answer: AuditQuoteResponse) -> None:
    console.print(Text(answer.summary, style=layout.BAD if _is_wrong(answer) else layout.HEADING))
    console.print()
    _reading(console, answer.reading)
    layout.section(console, "Per device", _prices(answer))
    for line in answer.lines:
        verdict = words(QuoteLine.Verdict.Name(line.verdict))
        console.print(Text(f"line {line.line}: {line.product}", style=layout.HEADING))
        console.print(Text(verdict, style=_VERDICTS.get(line.verdict, layout.QUIET)))
        console.print(_marked([*map(_finding, sorted(line.findings, key=lambda each: -each.severity)), *_unknown(line)]))
        console.print()
    layout.sentences(console, "What the offer leaves open", _open(answer))
    if answer.totals:
        layout.section(console, "Sums", _marked(map(_sum, answer.totals)))
    layout.sentences(console, "Not read", [f"line {each.line}: {each.reason} ({each.text})" for each in answer.unread_lines])
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _open(answer: AuditQuoteResponse) -> list[str]:
    """By which options one says what the offer does not."""
    priced = [line for line in answer.lines if line.HasField("price_per_device")]
    options_for = {
        "--currency USD": any(not line.currency for line in priced),
        "--price-unit once|per-hour|per-month|per-year": any(not line.HasField("price_unit") for line in priced),
    }
    return [f"{option} says it" for option, is_open in options_for.items() if is_open]


def _reading(console: Console, reading: QuoteReading) -> None:
    taken = [
        f"{each.header} as {words(QuoteColumn.Meaning.Name(each.meaning))}"
        for each in reading.columns
        if each.meaning != QuoteColumn.NOT_READ
    ]
    left = [each.header or "(no heading)" for each in reading.columns if each.meaning == QuoteColumn.NOT_READ]
    layout.sentences(
        console, "Read", [", ".join(taken), *([f"not looked at: {', '.join(left)}"] if left else []), *reading.notes]
    )


def _prices(answer: AuditQuoteResponse) -> Table:
    heads = (
        "line",
        "device",
        "devices",
        "price",
        "per hour",
        "list, per hour",
        "of list",
        "per dense PFLOPS",
        "per GB/s",
        "per GB",
    )
    drawn = layout.table(*heads, right=range(2, len(heads)))
    for line in answer.lines:
        listed = line.list_price.date or "not dated"
        drawn.add_row(
            str(line.line),
            line.accelerator or line.product,
            count(round(line.num_devices)) if line.HasField("num_devices") else "",
            _amount(line, "price_per_device", f" {line.currency}{_unit(line)}"),
            _amount(line, "price_per_device_hour"),
            _amount(line, "list_price_per_device_hour", f" ({listed})"),
            f"{line.list_price_ratio:.0%}" if line.HasField("list_price_ratio") else "",
            *(_amount(line, f"price_per_{name}") for name in ("dense_petaflops", "gigabyte_per_second", "gigabyte")),
        )
    return drawn


def _amount(line: QuoteLine, field: str, beside: str = "") -> str:
    if not line.HasField(field):  # type: ignore[arg-type]  # the stub takes literals only
        return ""
    value: float = getattr(line, field)
    return f"{value:,.2f}{beside}" if value >= 1 else f"{significant(value)}{beside}"


def _unit(line: QuoteLine) -> str:
    return _UNITS[line.price_unit] if line.HasField("price_unit") else " (per what?)"


def _marked(sentences: Iterable[tuple[tuple[str, str], str]]) -> Table:
    """Sentences, each under its mark: a sign and its style."""
    body = Table.grid(padding=(0, 1))
    for (sign, style), text in sentences:
        body.add_row(Text(sign, style=style), text)
    return body


def _unknown(line: QuoteLine) -> Iterator[tuple[tuple[str, str], str]]:
    """What an unknown product may be meant to be: nothing of its line is checked."""
    if line.verdict == QuoteLine.NOT_JUDGED:
        near = f"; the nearest are {', '.join(line.candidates)}" if line.candidates else ""
        yield _CHECK, f"no product of the catalogue is called so, so that nothing of it is checked{near}"


def _finding(finding: QuoteFinding) -> tuple[tuple[str, str], str]:
    return _SEVERITIES.get(finding.severity, _NOTE), f"{finding.field}: {finding.text}" if finding.field else finding.text


def _sum(total: QuoteTotal) -> tuple[tuple[str, str], str]:
    stated = f"line {total.line}, {total.label}: {total.stated_total:,.2f}"
    if total.agrees:
        return _NOTE, f"{stated} is right"
    if not _is_wrong_sum(total):
        return _CHECK, f"{stated} cannot be checked: a line above has no total, or another currency"
    off = total.stated_total - total.computed_total
    return _WRONG, f"{stated} is wrong by {off:+,.2f}: rightly reckoned it is {total.computed_total:,.2f}"
