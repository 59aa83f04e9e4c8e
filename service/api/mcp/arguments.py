"""Arguments as people write them: "4,096", "500 ms", "48 KB", "72,018 tokens/s". What could mean two things is refused.

A unit is turned into the argument's own here, once; nothing behind this knows others.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from service.units import UNITS

#: Whole numbers beyond this are no longer told apart as a double.
_LARGEST: Final = 2**53
#: A comma that parts no thousands.
_COMMA_OF_DECIMALS: Final = re.compile(r",(?!\d{3}(?!\d))")
_NUMBER: Final = re.compile(r"[-+]?(\d[\d,_ ]*\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_THOUSANDS: Final = re.compile(r"(\d+(?:\.\d+)?)\s*k\b", re.IGNORECASE)

_TIMES: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
}
_RATES: Final = {
    **dict.fromkeys(("/s", "/sec", "/second", "per second", "rps", "qps", "req/s", "requests/s", "requests per second"), 1.0),
    **dict.fromkeys(("tokens/s", "token/s", "tok/s", "tps", "tokens per second", "tokens/sec"), 1.0),
    **dict.fromkeys(("/min", "/minute", "per minute", "rpm", "req/min", "requests/min", "requests per minute"), 1 / 60),
    **dict.fromkeys(("/h", "/hour", "per hour", "requests/h", "requests per hour"), 1 / 3600),
}
_RATIOS: Final = {"%": 0.01, "percent": 0.01}
#: US dollars of a device-hour: what is outside is a slip.
_LEAST_PRICE, _MOST_PRICE = 0.001, 100_000.0
#: CUDA's manuals count shared memory in units of 1,024 bytes and call them KB.
_SHARED_MEMORY: Final = {"b": 1.0, "bytes": 1.0, "byte": 1.0, "kb": 1024.0, "kib": 1024.0}


def _parts(text: str) -> tuple[float, str]:
    """The number at the front and the unit behind it; ValueError where there is no number."""
    found = _NUMBER.match(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no number")
    if _COMMA_OF_DECIMALS.search(found[0]):
        raise ValueError(f"{text[:40]!r} could have a decimal comma; write it with a point")
    value = float(re.sub(r"[,_ ]", "", found[0]))
    return value, text.strip()[found.end() :].strip()


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("it must be a finite number")
    return value


def whole(value: Any) -> Any:
    """A whole number out of a number or a text.

    >>> whole("4,096"), whole(8.0), whole("8")
    (4096, 8, 8)

    Raises:
        ValueError: it is none, or could be two ("4k").
    """
    if isinstance(value, bool) or value is None:
        raise ValueError("it must be a whole number")
    if isinstance(value, str):
        thousands = _THOUSANDS.search(value)
        if thousands is not None:
            count = float(thousands[1])
            raise ValueError(f"{value[:40]!r} could be {count * 1000:.0f} or {count * 1024:.0f}; write the number out")
        value, unit = _parts(value)
        if unit and unit.lower() not in {
            "tokens",
            "token",
            "gpus",
            "gpu",
            "devices",
            "requests",
            "sequences",
            "threads",
            "layers",
        }:
            raise ValueError(f"it is a count, not something in {unit[:20]!r}")
    if isinstance(value, float):
        if not _finite(value).is_integer():
            raise ValueError(f"{value:g} is no whole number")
        value = int(value)
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise ValueError("it is too large")
    return value


def _quantity(units: Mapping[str, float], what: str, *, exact_case: bool = False) -> Callable[[Any], Any]:
    """A validator that takes a number in the argument's own unit, or a text with a unit out of the table."""

    def validate(value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError(f"it must be {what}")
        if isinstance(value, int | float):
            if isinstance(value, int) and abs(value) > _LARGEST * 2**20:
                raise ValueError("it is too large")
            return _finite(value)
        if not isinstance(value, str):
            raise ValueError(f"it must be {what}")
        amount, unit = _parts(value)
        key = unit if exact_case else unit.lower()
        if unit and key not in units:
            raise ValueError(f"{unit[:20]!r} is no unit for it: give {what}")
        return _finite(amount * units.get(key, 1.0))

    return validate


def _by_unit(base: str) -> dict[str, float]:
    return {name: factor for name, (unit, factor) in UNITS.items() if unit == base}


def _number_or_text(description: str) -> tuple[Any, ...]:
    return (WithJsonSchema({"type": ["number", "string"]}), Field(description=description))


Whole = Annotated[int, BeforeValidator(whole)]
Seconds = Annotated[
    float,
    BeforeValidator(_quantity(_TIMES, "seconds, such as 0.5 or '500 ms'")),
    WithJsonSchema({"type": ["number", "string"]}),
]
PerSecond = Annotated[
    float,
    BeforeValidator(_quantity(_RATES, "a number per second, such as 50 or '3000 per minute'")),
    WithJsonSchema({"type": ["number", "string"]}),
]
_in_dollars = _quantity(
    {"usd": 1.0, "usd/h": 1.0, "/h": 1.0, "per hour": 1.0, "dollars": 1.0}, "US dollars per hour, such as 2.10 or '$2.10'"
)


def _dollars(value: Any) -> Any:
    amount = _in_dollars(value.strip().removeprefix("$") if isinstance(value, str) else value)
    if not _LEAST_PRICE <= amount <= _MOST_PRICE:
        raise ValueError(f"it must be from {_LEAST_PRICE:g} to {_MOST_PRICE:,.0f} US dollars per hour")
    return amount


DollarsPerHour = Annotated[float, BeforeValidator(_dollars), WithJsonSchema({"type": ["number", "string"]})]
Ratio = Annotated[
    float,
    BeforeValidator(_quantity(_RATIOS, "a ratio from 0 to 1, or a percentage such as '90 %'")),
    WithJsonSchema({"type": "number"}),
]
SharedMemory = Annotated[
    float,
    BeforeValidator(_quantity(_SHARED_MEMORY, "bytes, such as 49152 or '48 KB' (of 1,024 bytes)")),
    *_number_or_text("bytes, or '48 KB' (1 KB = 1,024 bytes here)"),
]
Bandwidth = Annotated[
    float,
    BeforeValidator(_quantity(_by_unit("B/s"), "bytes per second, such as 2e12 or '2 TB/s'", exact_case=True)),
    *_number_or_text("or '2 TB/s'"),
]
Peak = Annotated[
    float,
    BeforeValidator(
        _quantity(
            _by_unit("FLOP/s") | {name.replace("OPS", "OP/s"): factor for name, factor in _by_unit("FLOP/s").items()},
            "FLOP per second, such as 5e14 or '500 TFLOPS'",
            exact_case=True,
        )
    ),
    *_number_or_text("dense, or '500 TFLOPS'"),
]

#: What people call a number format → what the service calls it.
_PRECISIONS: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float8": "fp8",
    "fp8_e4m3": "fp8",
    "e4m3": "fp8",
    "8-bit": "int8",
    "4-bit": "int4",
    "w8a8": "int8",
    "w4a16": "int4",
    "awq": "int4",
    "gptq": "int4",
}


def precision(name: str | None) -> str | None:
    """A number format by the name that the service has for it.

    >>> precision("BFloat16"), precision("FP8"), precision(None)
    ('bf16', 'fp8', None)
    """
    if name is None:
        return None
    name = name.strip().lower()
    return _PRECISIONS.get(name, name)
