"""Exit codes, and the message that goes with each."""

from enum import IntEnum
from typing import NoReturn

import click

from tonnage import errors
from tonnage.cli.fields import option_of
from tonnage.cli.rest_json import rest_json


class Exit(IntEnum):
    """What the shell is told."""

    ANSWERED = 0
    SERVICE_FAILED = 1
    BAD_REQUEST = 2
    DOES_NOT_FIT = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    UNANSWERABLE = 6
    OVERLOADED = 7


EPILOGUE = """\b
Exit codes:
  0  answered; "does not fit" is an answer too
  1  the service failed, or this program did
  2  usage, or a request that the service refuses as malformed or contradictory
  3  with --check: it does not fit, or that cannot be told
  4  the catalogue has no such model, accelerator or node type
  5  no service answers at the address, or not in time
  6  a figure that the answer needs does not exist
  7  the service is busy, or too much was asked at once
"""

_EXITS: dict[type[errors.TonnageError], Exit] = {
    errors.InvalidRequest: Exit.BAD_REQUEST,
    errors.NotFound: Exit.NOT_FOUND,
    errors.Unanswerable: Exit.UNANSWERABLE,
    errors.Overloaded: Exit.OVERLOADED,
    errors.Unavailable: Exit.UNREACHABLE,
    errors.DeadlineExceeded: Exit.UNREACHABLE,
}


def refuse(error: errors.TonnageError, server: str, timeout: float, as_json: bool) -> NoReturn:
    """Says on standard error why there is no answer and ends the program with the exit code for it.

    With ``as_json``, what it says is the status that REST sends as its body.
    """
    if as_json:
        click.echo(rest_json(error.status), err=True)
    else:
        click.echo(f"tonnage: {explained(error, server, timeout)}", err=True)
    raise SystemExit(_EXITS.get(type(error), Exit.SERVICE_FAILED))


def explained(error: errors.TonnageError, server: str, timeout: float) -> str:
    """What went wrong and what to do next, for a person."""
    match error:
        case errors.Unavailable() if "resolving" in error.message:
            return f"the host in {server} has no address; give --server or TONNAGE_SERVER as host:port"
        case errors.Unavailable():
            return (
                f"no Tonnage service answers at {server}: start one with `make serve` or `tonnage-service`, "
                f"or name another with --server or TONNAGE_SERVER"
            )
        case errors.DeadlineExceeded():
            return f"{server} did not answer within {timeout:g} s; --timeout gives it longer"
        case errors.InvalidRequest() if error.violations:
            return "\n".join(["the request is refused", *(f"  {_line(violation)}" for violation in error.violations)])
        case errors.NotFound() if error.metadata.get("kind") == "model":
            return f"{error.message}\n  → a model outside the catalogue is given by its config.json, with --config"
        case errors.Unanswerable() if error.remedy:
            return f"{error.message}\n  → {error.remedy}"
        case errors.Overloaded() if error.retry_after_seconds is not None:
            return f"{error.message} (try again in {error.retry_after_seconds:g} s)"
        case errors.Unimplemented():
            return f"{server} does not know this question: it is an older Tonnage, or no Tonnage at all"
    return error.message


def _line(violation: errors.Violation) -> str:
    option = option_of(violation.field)
    return f"{violation.field} ({option}): {violation.reason}" if option else f"{violation.field}: {violation.reason}"
