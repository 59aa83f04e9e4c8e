"""One question to the service: asked, and its answer or its failure shown."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeVar

import click
from google.protobuf.message import Message
from rich.console import Console

from tonnage.cli.connection import Connection
from tonnage.cli.exits import refuse
from tonnage.cli.request_file import with_request_file
from tonnage.cli.rest_json import rest_json
from tonnage.cli.yaml_text import yaml_text
from tonnage.client import Client
from tonnage.errors import TonnageError
from tonnage.methods import Method, P, RequestT, ResponseT
from tonnage.tabular import CSV, XLSX, csv_of, workbook_of, xlsx_bytes

_T = TypeVar("_T")
_AnswerT = TypeVar("_AnswerT", bound=Message)
_PIPED_WIDTH = 120
"""Columns where the output is no terminal and COLUMNS is not set."""

TABLE, JSON, YAML = "table", "json", "yaml"
"""The forms that every answer has; some have those of ``tonnage.tabular`` too."""


@dataclass(frozen=True, slots=True)
class Session:
    """Where to ask, how long to wait, and how to print."""

    connection: Connection
    timeout: float
    form: str = TABLE

    @property
    def as_json(self) -> bool:
        """Whether programs read what is printed, also why there is no answer."""
        return self.form == JSON

    def client(self, timeout: float | None = None) -> Client:
        """A client of the service; its calls take at most ``timeout`` seconds, those of the session where not given."""
        return self.connection.client(self.timeout if timeout is None else timeout)

    def request(self, method: Method[P, RequestT, ResponseT], *args: P.args, **kwargs: P.kwargs) -> RequestT:
        """The request that the options make, laid over the one of ``--request``. Ends the program where they make none."""
        try:
            return with_request_file(method.build(*args, **kwargs))
        except TonnageError as error:
            self.refuse(error)

    def ask(self, question: Callable[[Client], _T]) -> _T:
        """The answer. Where there is none, says why and ends the program."""
        with self.client() as client:
            try:
                with _waiting():
                    return question(client)
            except TonnageError as error:
                self.refuse(error)

    def refuse(self, error: TonnageError, timeout: float | None = None) -> NoReturn:
        """Says why there is no answer and ends the program."""
        refuse(error, self.connection, self.timeout if timeout is None else timeout, self.form in (JSON, YAML))

    def show(self, answer: _AnswerT, draw: Callable[[Console, _AnswerT], None], request: Message | None = None) -> None:
        """Prints the answer: in the form asked for, for spreadsheets where its request is given too, else as it is drawn."""
        if self.form in (CSV.name, XLSX.name) and request is not None:
            click.echo(self._table(request, answer), nl=False)
            return
        if self.form in (CSV.name, XLSX.name):
            raise click.UsageError(f"--format {self.form}: this answer has no table for spreadsheets; json, yaml or table")
        self.tell(lambda: rest_json(answer), lambda console: draw(console, answer))

    def tell(self, as_json: Callable[[], str], draw: Callable[[Console], None]) -> None:
        """Prints what is more than one answer: what ``as_json`` returns where a program reads it, else as it is drawn."""
        if self.form == JSON:
            click.echo(as_json())
        elif self.form == YAML:
            click.echo(yaml_text(json.loads(as_json())), nl=False)
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


@contextmanager
def _waiting() -> Iterator[None]:
    """A sign of life on standard error while the service thinks, where that is a terminal; it leaves nothing behind."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True, color_system=_colours()).status("asking"):
        yield


def _console() -> Console:
    # Names and sentences come from elsewhere: "[red]" in one of them is text, not markup.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False, color_system=_colours())


def _colours() -> Literal["auto"] | None:
    """No colour where NO_COLOR says so, whatever it says; elsewhere where the output is a terminal."""
    return None if os.environ.get("NO_COLOR") else "auto"
