"""Figures in a text: numbers as people print them, with their units. Every pattern is bounded: time grows with length."""

import re
from collections.abc import Iterator
from typing import Final

from service.planning.claims.claim import Amount, Value

_PREFIXES: Final = {
    "k": 1e3,
    "m": 1e6,
    "g": 1e9,
    "t": 1e12,
    "p": 1e15,
    "e": 1e18,
    "kilo": 1e3,
    "mega": 1e6,
    "giga": 1e9,
    "tera": 1e12,
    "peta": 1e15,
    "exa": 1e18,
}
_BINARY: Final = {"k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40, "p": 2.0**50}
_GAP = r"[ \t\u00a0\u202f-]{0,2}"
_NUMBER: Final = re.compile(
    r"(?<![\w.,])(?P<sign>[+\u2212-]?)(?P<times>[x×][ ]?)?"
    r"(?P<number>\d{1,15}(?:[.,'’]\d{1,15}){0,4}(?:[ \u00a0\u202f]\d{3}(?!\d)){0,4})(?![\d])"
)
_UNIT: Final = re.compile(
    _GAP + r"(?:"
    r"(?:AI )?(?P<rate>[kmgtpe]|kilo|mega|giga|tera|peta|exa)[ -]?(?:flops?|ops?)(?:/s(?:ec)?|[ ]per[ ]second)?"
    r"|(?P<short_rate>(?-i:[TPE]F)s?)"
    r"|(?P<speed>[kmgtp])(?P<speed_binary>i?)(?P<speed_letter>b|bit|byte)(?P<per>/s(?:ec)?|ps|[ ]per[ ]second)"
    r"|(?P<speed_word>giga|tera|peta)bytes?(?:/s|[ ]per[ ]second)"
    r"|(?P<size>[kmgtp])(?P<size_binary>i?)b"
    r"|(?P<size_word>mega|giga|tera)bytes?"
    r"|(?P<power>kilo|k|mega|m)?[ ]?(?:watts?|w)"
    r"|(?P<clock>[mg])hz"
    r"|(?P<area>mm²|mm\^?2|sq\.?[ ]mm|square[ ]millimet(?:er|re)s?)"
    r"|(?P<length>nm|nanomet(?:er|re)s?|mm|millimet(?:er|re)s?)"
    r"|(?P<percent>%|percent|per[ ]cent)"
    r"|(?P<transistors>million|billion|bn|b|trillion)[ ]transistors"
    r"|(?P<compute_units>sms?|cus?|compute[ ]units|streaming[ ]multiprocessors)"
    r"|(?P<devices>gpus?|chips|accelerators)"
    r"|(?P<factor>x|×|times|fold)"
    r")(?![^\W\d_]|\d|/(?!gpu|chip|device))",
    re.IGNORECASE,
)
_COUNTS: Final = {"million": 1e6, "billion": 1e9, "bn": 1e9, "b": 1e9, "trillion": 1e12}
_LOWER_BOUND: Final = re.compile(
    r"(?:\bover|\bmore than|\bat least|\babove|\bexceed(?:s|ing)|>|≥|\bmin(?:imum)?)[ ]?$", re.IGNORECASE
)
_ABOUT: Final = re.compile(
    r"(?:\babout|\baround|\broughly|\bapprox(?:imately|\.)?|\bnearly|\balmost|~|≈|\bca\.)[ ]?$", re.IGNORECASE
)
_SPACES: Final = re.compile(r"[\s'’]")

#: A claim printed with few digits may have been rounded; further off than this it is another figure, however few there are.
_MAX_ROUNDING: Final = 0.04
#: Zeros at the end may be digits or rounding. As rounding they are taken to be worth no more than this.
_ZEROS_ROUNDING: Final = 0.005
#: Half of a printed figure, doubled again, and the like.
_MIN_ROUNDING: Final = 0.001
_ABOUT_ROUNDING: Final = 0.02


def amounts(text: str) -> Iterator[Amount]:
    """The figures of a text in order; numbers without a unit are none."""
    for found in _NUMBER.finditer(text):
        times = found["times"]
        unit = _UNIT.match(text, found.end())
        if times is None and unit is None:
            continue
        readings = _numbers(found["number"])
        if not readings:
            continue
        before = text[max(0, found.start() - 16) : found.start()]
        end = unit.end() if unit else found.end()
        scales = _scales(unit) if unit else [("x", 1.0, "")]
        values = _values(readings, scales, about=bool(_ABOUT.search(before)))
        printed = text[found.start("number") : end] if unit else f"× {found['number']}"
        is_range = found.start() > 0 and text[found.start() - 1].isalnum()
        sign = "" if is_range else found["sign"].replace("\u2212", "-")
        yield Amount(found.start(), end, printed.strip(), scales[0][0], values, sign, bool(_LOWER_BOUND.search(before)))


def amount_of(value: float, unit: str) -> Amount | None:
    """A figure whose number is given as such; None where the unit is not understood."""
    found = _UNIT.fullmatch(unit.strip() or "?")
    if found is None:
        return None
    scales = _scales(found)
    shown = f"{abs(value):.12g}"
    decimals = len(shown.partition(".")[2]) if "e" not in shown else 0
    values = _values([(abs(value), decimals, "")], scales, about=False)
    return Amount(0, 0, f"{value:,.12g} {unit.strip()}", scales[0][0], values, "-" if value < 0 else "")


def _values(readings: list[tuple[float, int, str]], scales: list[tuple[str, float, str]], *, about: bool) -> tuple[Value, ...]:
    return tuple(
        Value(
            number * scale, max(_half_step(number, decimals), _ABOUT_ROUNDING * number if about else 0.0) * scale, remark or why
        )
        for _, scale, why in scales
        for number, decimals, remark in readings
    )


def _half_step(number: float, decimals: int) -> float:
    """How far rounding may have moved a printed number."""
    step = min(0.5 * 10.0**-decimals, _MAX_ROUNDING * number)
    if not decimals and number:
        zeros = 0
        while number % 10 ** (zeros + 1) == 0 and zeros < 15:
            zeros += 1
        step = max(step, min(0.5 * 10.0**zeros, _ZEROS_ROUNDING * number))
    return max(step, _MIN_ROUNDING * number)


def _numbers(printed: str) -> list[tuple[float, int, str]]:
    """The number, its decimals, and what was assumed: a point or comma before three digits can mean either."""
    text = _SPACES.sub("", printed)
    points, commas = text.count("."), text.count(",")
    if points and commas:
        decimal = "." if text.rfind(".") > text.rfind(",") else ","
        thousands = "," if decimal == "." else "."
        if text.count(decimal) > 1:
            return []
        return _read(text.replace(thousands, ""), decimal)
    if points + commas == 0:
        return _read(text, ".")
    mark = "." if points else ","
    grouped = all(len(part) == 3 for part in text.split(mark)[1:]) and len(text.split(mark)[0]) <= 3
    if points + commas > 1:
        return _read(text.replace(mark, ""), ".") if grouped else []
    decimal_reading = _read(text, mark)
    if not grouped or text.startswith("0"):
        return decimal_reading
    whole = _read(text.replace(mark, ""), ".")
    first, second = (whole, decimal_reading) if mark == "," else (decimal_reading, whole)
    (value, decimals, _), name = second[0], "thousands" if mark == "." else "decimals"
    return [*first, (value, decimals, f"the mark in {printed} is read as one of {name}")]


def _read(text: str, decimal: str) -> list[tuple[float, int, str]]:
    whole, _, fraction = text.partition(decimal)
    return [(float(f"{whole}.{fraction or 0}"), len(fraction), "")]


def _scales(unit: re.Match[str]) -> list[tuple[str, float, str]]:
    """The base unit and the factor to it, the plain reading first, each with what it assumes."""
    kind = unit.lastgroup or ""
    if unit["rate"] or unit["short_rate"]:
        return [("FLOP/s", _PREFIXES[(unit["rate"] or unit["short_rate"][0]).lower()], "")]
    if unit["speed"]:
        return _byte_rates(unit)
    if unit["speed_word"]:
        return [("B/s", _PREFIXES[unit["speed_word"].lower()], "")]
    if unit["size"] or unit["size_word"]:
        prefix = (unit["size"] or unit["size_word"]).lower()
        return [("B", _BINARY[prefix] if unit["size_binary"] else _PREFIXES[prefix], "")]
    if unit["clock"]:
        return [("Hz", _PREFIXES[unit["clock"].lower()], "")]
    if unit["transistors"]:
        return [("transistors", _COUNTS[unit["transistors"].lower()], "")]
    if unit["length"]:
        return [("nm", 1.0 if unit["length"].lower().startswith("n") else 1e6, "")]
    plain = {"area": "mm2", "percent": "%", "compute_units": "units", "devices": "devices", "factor": "x"}
    if kind in plain:
        return [(plain[kind], 1.0, "")]
    return [("W", _PREFIXES[(unit["power"] or "").lower()] if unit["power"] else 1.0, "")]


def _byte_rates(unit: re.Match[str]) -> list[tuple[str, float, str]]:
    prefix, letter = unit["speed"], unit["speed_letter"]
    factor = _BINARY[prefix.lower()] if unit["speed_binary"] else _PREFIXES[prefix.lower()]
    if letter in {"B", "byte", "Byte"}:
        return [("B/s", factor, "")]
    written = unit.group().strip()
    if letter == "b" and prefix.islower():  # people who write tb/s mean terabytes as often as not
        both = [("B/s", factor, f"{written} is read as bytes"), ("B/s", factor / 8, f"{written} is read as bits")]
        return both if unit["per"] != "ps" else both[::-1]
    return [("B/s", factor / 8, "")]
