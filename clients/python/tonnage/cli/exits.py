"""Exit codes, and the message that goes with each."""

from enum import IntEnum
from typing import NoReturn

import click

from tonnage import errors
from tonnage.cli.connection import Connection
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
    REFUSED = 8


EPILOGUE = """\b
Exit codes:
  0  answered; "does not fit" is an answer too
  1  the service failed, or this program did
  2  usage, or a request that the service refuses as malformed or contradictory
  3  with --check: it does not fit, or that cannot be told; an offer has a line or a sum that is wrong
  4  the catalogue has no such model, accelerator or node type
  5  no service answers at the address, or not in time
  6  a figure that the answer needs does not exist
  7  the service is busy, or too much was asked at once
  8  the service wants a key, or another one
  130  interrupted by Ctrl-C
`tonnage serve` ends with the service's codes: `tonnage-service --help`.
"""

_EXITS: dict[type[errors.TonnageError], Exit] = {
    errors.InvalidRequest: Exit.BAD_REQUEST,
    errors.NotFound: Exit.NOT_FOUND,
    errors.Unanswerable: Exit.UNANSWERABLE,
    errors.Overloaded: Exit.OVERLOADED,
    errors.Unavailable: Exit.UNREACHABLE,
    errors.DeadlineExceeded: Exit.UNREACHABLE,
    errors.Refused: Exit.REFUSED,
}


def refuse(error: errors.TonnageError, asked: Connection, timeout: float, as_json: bool) -> NoReturn:
    """Says on standard error why there is no answer and ends the program with the exit code for it.

    With ``as_json``, what it says is the status that REST sends as its body.
    """
    if as_json:
        click.echo(rest_json(error.status), err=True)
    else:
        click.echo(f"tonnage: {explained(error, asked, timeout)}", err=True)
    raise SystemExit(_EXITS.get(type(error), Exit.SERVICE_FAILED))


def explained(error: errors.TonnageError, asked: Connection, timeout: float) -> str:
    """What went wrong and what to do next, for a person."""
    server = "the service of --local" if asked.is_local else asked.server
    match error:
        case errors.Unavailable() if "resolving" in error.message:
            return f"the host in {server} has no address; give --server or TONNAGE_SERVER as host:port"
        case errors.Unavailable() if "CERTIFICATE_VERIFY_FAILED" in error.message or "Hostname Verification" in error.message:
            return f"the certificate of {server} is not trusted, or is for another name; --ca names the file of its issuers"
        case errors.Unavailable():
            hint = "" if asked.is_encrypted else "; where it speaks TLS, give --tls or --ca"
            return (
                f"no Tonnage service answers at {server}: start one with `tonnage serve` or `make serve`, have this command "
                f"start one with --local, or name another with --server or TONNAGE_SERVER{hint}"
            )
        case errors.Refused():
            return f"{error.message}\n  → the key goes in TONNAGE_TOKEN, --token-file or --token"
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
