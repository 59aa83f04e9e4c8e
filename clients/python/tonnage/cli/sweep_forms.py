"""In which forms ``tonnage sweep`` writes a sweep, part by part: a CSV, lines of JSON, or a workbook at the end."""

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

import click
from google.protobuf.message import Message

from tonnage.cli.session import JSON, TABLE
from tonnage.sweeps import Sweep
from tonnage.tabular import CSV, XLSX
from tonnage.tabular.sweep_workbook import MAX_POINTS, SweepWorkbook, TooManyPoints
from tonnage.v1.sweep_service_pb2 import RunSweepResponse

Form: TypeAlias = Callable[[RunSweepResponse], bytes]
"""What is written once that part is there."""


def _csv(under_way: Sweep, _: Message) -> Form:
    def write(part: RunSweepResponse) -> bytes:
        kind, table = part.WhichOneof("part"), under_way.table
        if kind == "start":
            return table.csv_header().encode()
        return (table.csv_rows(part.chunk) if kind == "chunk" else table.csv_end(part.end)).encode()

    return write


def _json(under_way: Sweep, _: Message) -> Form:
    def write(part: RunSweepResponse) -> bytes:
        return "".join(json.dumps(row) + "\n" for row in under_way.table.rows(part.chunk)).encode()

    return write


def _xlsx(_: Sweep, request: Message) -> Form:
    workbook = SweepWorkbook(request)

    def write(part: RunSweepResponse) -> bytes:
        kind = part.WhichOneof("part")
        if kind == "start":
            try:
                workbook.begin(part.start)
            except TooManyPoints as refused:
                remedy = "csv and json have no such limit, or sweep part of the grid"
                raise click.UsageError(f"--format {XLSX.name}: {refused}, and it holds {MAX_POINTS}: {remedy}") from None
        elif kind == "chunk":
            workbook.add(part.chunk)
        return workbook.saved(part.end) if kind == "end" else b""

    return write


_FORMS: Mapping[str, Callable[[Sweep, Message], Form]] = {TABLE: _csv, CSV.name: _csv, XLSX.name: _xlsx, JSON: _json}


def form_of(name: str, under_way: Sweep, request: Message) -> Form:
    """The form of that name for one sweep. A UsageError where it needs what is not installed."""
    try:
        return _FORMS[name](under_way, request)
    except ModuleNotFoundError as missing:
        under_way.cancel()
        raise click.UsageError(f"--format {name} needs {missing.name}: pip install {missing.name}") from None
