"""How log records are written: a line for people or a JSON object for machines, in UTC, without credentials.

What is logged while a request is worked on carries its ids, whoever logs it, libraries too.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final, Literal

import orjson

from service.request_context import CURRENT

#: What every log record has anyway; whatever else it has came in by ``extra`` and is printed.
_RECORD_FIELDS: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
#: user:password@ in an address.
_CREDENTIALS: Final = re.compile(r"://[^\s/\"']+@")
_HANDLER: Final = "tonnage"


class _Formatter(logging.Formatter):
    """Common to both formats: UTC times, fields given as ``extra``, and no credentials in whatever is written."""

    def format(self, record: logging.LogRecord) -> str:
        return _CREDENTIALS.sub("://***@", self.line(record))

    def line(self, record: logging.LogRecord) -> str:
        raise NotImplementedError

    @staticmethod
    def fields(record: logging.LogRecord) -> dict[str, object]:
        given = {key: value for key, value in record.__dict__.items() if key not in _RECORD_FIELDS}
        request = CURRENT.get()
        if request is not None:
            given |= {"request_id": request.request_id, "trace_id": request.trace_id, "span_id": request.span_id}
        return given

    @staticmethod
    def time(record: logging.LogRecord) -> str:
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class _TextFormatter(_Formatter):
    def line(self, record: logging.LogRecord) -> str:
        # A caller's text must not be able to pass for a line of its own.
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        fields = "".join(f" {key}={value!r}" for key, value in self.fields(record).items())
        line = f"{self.time(record)} {record.levelname:<7} {record.name}: {message}{fields}"
        return "\n".join(filter(None, (line, self.trace(record))))


class _JsonFormatter(_Formatter):
    def line(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": self.time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= self.fields(record)
        if record.exc_info:
            entry["exception"] = self.trace(record)
        return orjson.dumps(entry, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def configure_logging(level: Literal["debug", "info", "warning", "error"], format: Literal["text", "json"]) -> None:
    """Write all log records of this level and above to standard error, one line each, ours and the libraries' alike.

    Calling it again replaces what the first call set up.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.set_name(_HANDLER)
    handler.setFormatter(_JsonFormatter() if format == "json" else _TextFormatter())
    root = logging.getLogger()
    for previous in [each for each in root.handlers if each.get_name() == _HANDLER]:
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(level.upper())
