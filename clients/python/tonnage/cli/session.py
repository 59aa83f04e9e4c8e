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

    def ask(self, question: Callable[[Client], _T]) -> _T:
        """The answer. Where there is none, says why and ends the program."""
        with Client(self.server, timeout=self.timeout) as client:
            try:
                return question(client)
            except TonnageError as error:
                refuse(error, self.server, self.timeout, self.as_json)

    def show(self, answer: _AnswerT, draw: Callable[[Console, _AnswerT], None]) -> None:
        """Prints the answer: as JSON where asked for, else as ``draw`` draws it."""
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


def _console() -> Console:
    # Names and sentences come from elsewhere: "[red]" in one of them is text, not markup.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False)
