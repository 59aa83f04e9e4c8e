"""One question to the service: asked, and its answer or its failure shown."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import click
from google.protobuf.message import Message
from rich.console import Console

from tonnage.cli.exits import refuse
from tonnage.cli.rest_json import rest_json
from tonnage.client import Client
from tonnage.errors import TonnageError
from tonnage.tabular import CSV, XLSX, csv_of, workbook_of, xlsx_bytes

_T = TypeVar("_T")
_AnswerT = TypeVar("_AnswerT", bound=Message)
_PIPED_WIDTH = 120
"""Columns where the output is no terminal and COLUMNS is not set."""


@dataclass(frozen=True, slots=True)
class Session:
    """Where to ask, how long to wait, and how to print."""

    server: str
    timeout: float
    as_json: bool
    form: str = ""
    """The form of a table, where one is asked for: "csv" or "xlsx"."""

    def ask(self, question: Callable[[Client], _T]) -> _T:
        """The answer. Where there is none, says why and ends the program."""
        with Client(self.server, timeout=self.timeout) as client:
            try:
                return question(client)
            except TonnageError as error:
                refuse(error, self.server, self.timeout, self.as_json)

    def show(self, answer: _AnswerT, draw: Callable[[Console, _AnswerT], None], request: Message | None = None) -> None:
        """Prints the answer: as JSON or, where its request is given too, as a table where asked for, else as it is drawn."""
        if self.form and request is not None:
            click.echo(self._table(request, answer), nl=False)
            return
        self.tell(lambda: rest_json(answer), lambda console: draw(console, answer))

    def tell(self, as_json: Callable[[], str], draw: Callable[[Console], None]) -> None:
        """Prints what is more than one answer: what ``as_json`` returns where JSON is asked for, else as it is drawn."""
        if self.as_json:
            click.echo(as_json())
        else:
            console = _console()
            with console.capture() as captured:
                draw(console)
            # Tables pad their lines; what is pasted into a report should not end in blanks.
            print("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def _table(self, request: Message, answer: Message) -> bytes:
        """The same bytes as the service sends for the same answer."""
        if self.form == CSV.name:
            return csv_of(answer).encode()
        if sys.stdout.isatty():
            raise click.UsageError(f"--format {XLSX.name} is no text: send it to a file, with > answer{XLSX.ending}")
        try:
            return xlsx_bytes(workbook_of(request, answer))
        except ModuleNotFoundError as missing:
            raise click.UsageError(f"--format {XLSX.name} needs {missing.name}: pip install {missing.name}") from None


def _console() -> Console:
    # Names and sentences come from elsewhere: "[red]" in one of them is text, not markup.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False)
