"""Quantities as a person reads them: three significant digits and a prefix. For eyes only; programs read ``--json``."""

from collections.abc import Sequence

_DECIMAL = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY = ((2.0**50, "Pi"), (2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"), (1.0, ""))
_SUBDIVISIONS = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_WORDS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1.0, ""))


def significant(value: float, digits: int = 3) -> str:
    """The value with that many significant digits, never fewer than its whole part, thousands apart.

    >>> [significant(value) for value in (0.0, 0.01234, 4.0, 14.427, 989.4, 4436.1)]
    ['0', '0.0123', '4.00', '14.4', '989', '4,436']
    """
    if value == 0:
        return "0"
    magnitude = int(f"{abs(value):.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}".replace("-", "−")


def _prefixed(value: float, unit: str, prefixes: tuple[tuple[float, str], ...], thousand: float) -> str:
    for position, (size, prefix) in enumerate(prefixes):
        last = position == len(prefixes) - 1
        if abs(value) >= size or last:
            # 999.7 MB would be printed as 1,000 MB: where rounding reaches the next prefix, take it.
            if position and round(abs(value) / size, 0) >= thousand:
                size, prefix = prefixes[position - 1]
            return f"{significant(value / size)} {prefix}{unit}".rstrip()
    raise AssertionError("unreachable: the last prefix takes all")


def byte_count(value: float) -> str:
    """Memory, in powers of 1,024.

    >>> byte_count(82.72e9), byte_count(131072), byte_count(-5.4 * 2**30), byte_count(2**30 - 1), byte_count(0)
    ('77.0 GiB', '128 KiB', '−5.40 GiB', '1.00 GiB', '0 B')
    """
    return _prefixed(value, "B", _BINARY, 1024)


def rate(value: float, unit: str) -> str:
    """Anything counted in powers of 1,000, such as FLOP/s and bytes per second.

    >>> rate(989.4e12, "FLOP/s"), rate(3.352e12, "B/s"), rate(999.9e9, "B/s"), rate(0, "FLOP")
    ('989 TFLOP/s', '3.35 TB/s', '1.00 TB/s', '0 FLOP')
    """
    return _prefixed(value, unit, _DECIMAL, 1000)


def duration(seconds: float) -> str:
    """Seconds, down to nanoseconds.

    >>> duration(0.014427), duration(4.1766e-3), duration(33.6e-6), duration(2.5), duration(0)
    ('14.4 ms', '4.18 ms', '33.6 µs', '2.50 s', '0 s')
    """
    return "0 s" if seconds == 0 else _prefixed(seconds, "s", _SUBDIVISIONS, 1000)


def count(value: float) -> str:
    """A number of things, whole where it is whole.

    >>> count(27.0), count(4436.1), count(69.3), count(1234567.0)
    ('27', '4,436', '69.3', '1,234,567')
    """
    return f"{value:,.0f}" if value == round(value) else significant(value)


def counted(number: float, noun: str) -> str:
    """A number of things with their name.

    >>> counted(1, "sequence"), counted(4096, "token"), counted(0, "sequence")
    ('1 sequence', '4,096 tokens', '0 sequences')
    """
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def large_count(value: float) -> str:
    """A number of parameters, in words.

    >>> large_count(70.554e9), large_count(671e9), large_count(1.03e12), large_count(12000)
    ('70.6 billion', '671 billion', '1.03 trillion', '12,000')
    """
    return count(value) if abs(value) < 1e6 else _prefixed(value, "", _WORDS, 1000)


def percent(ratio: float) -> str:
    """A ratio as a percentage.

    >>> percent(0.38214), percent(1.02)
    ('38.21 %', '102.00 %')
    """
    return f"{ratio * 100:.2f} %"


def measured_in(value: float, unit: str) -> str:
    """A figure of the catalogue by its base unit.

    >>> measured_in(700.0, "W"), measured_in(8.552e10, "B"), measured_in(3.352e12, "B/s"), measured_in(989.4e12, "FLOP/s")
    ('700 W', '79.6 GiB', '3.35 TB/s', '989 TFLOP/s')
    """
    if unit in ("", "1"):
        return large_count(value)
    return byte_count(value) if unit == "B" else rate(value, unit)


def first_few(texts: Sequence[str], most: int) -> str:
    """The first of several, and how many more there are.

    >>> first_few(["a", "b", "c"], 3), first_few(["a", "b", "c", "d"], 2)
    ('a, b, c', 'a, b and 2 more')
    """
    left = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {left} more" if left > 0 else "")


def words(constant: str) -> str:
    """The name of an enum value as one reads it.

    >>> words("KV_BANDWIDTH"), words("MEMORY_BANDWIDTH"), words("USABLE_MEMORY")
    ('KV bandwidth', 'memory bandwidth', 'usable memory')
    """
    return " ".join("KV" if word == "KV" else word.lower() for word in constant.split("_"))
