"""Figures as sentences show them: four digits, a unit, and the prefix that people use."""

from collections.abc import Iterable

from service.planning.claims.shown import shown

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def number(value: float) -> str:
    """Four digits, or all before the point.

    >>> number(4436.1), number(239.428), number(0.01415), number(8)
    ('4,436', '239.4', '0.01415', '8')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def seconds(value: float) -> str:
    """A time.

    >>> seconds(0.014427), seconds(1.4e-5), seconds(2.5)
    ('14.43 ms', '14 µs', '2.5 s')
    """
    size, unit = next(((size, unit) for size, unit in _SECONDS if abs(value) >= size), _SECONDS[-1])
    return f"{number(value / size)} {unit}"


def gigabytes(value: float) -> str:
    """Bytes that are moved, in GB of 10^9.

    >>> gigabytes(4.836e10), gigabytes(14e6)
    ('48.36 GB', '14 MB')
    """
    return shown(value, "B")


def gibibytes(value: float) -> str:
    """Memory, in GiB.

    >>> gibibytes(82719476736.0)
    '77.04 GiB'
    """
    return f"{value / 2**30:,.2f} GiB"


def mebibytes(value: float) -> str:
    """Small memory in the largest binary unit that leaves a whole number.

    >>> mebibytes(128 * 2**20), mebibytes(256 * 2**10), mebibytes(0)
    ('128 MiB', '256 KiB', '0 MiB')
    """
    if 0 < value < 2**20:
        return f"{number(value / 2**10)} KiB"
    return f"{number(value / 2**20)} MiB"


def percent(ratio: float) -> str:
    """A ratio.

    >>> percent(0.382145), percent(0.375), percent(1)
    ('38.21 %', '37.5 %', '100 %')
    """
    return f"{ratio * 100:.4g} %"


def spread(interval: dict[str, float], unit: str) -> str:
    """An estimate with its range.

    >>> spread({"p10": 0.0154, "p50": 0.01735, "p90": 0.0199}, "s")
    '17.35 ms (p10 15.4 ms, p90 19.9 ms)'
    """
    show, unit = (seconds, "") if unit == "s" else (number, f" {unit}")
    return f"{show(interval['p50'])}{unit} (p10 {show(interval['p10'])}, p90 {show(interval['p90'])})"


def counted(count: float, noun: str) -> str:
    """So many of something.

    >>> counted(1, "node"), counted(3, "node")
    ('1 node', '3 nodes')
    """
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def listed(items: Iterable[str]) -> str:
    """Items as a sentence has them.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def sentence(text: str) -> str:
    """The text with a full stop behind, and a capital in front unless it begins with a name.

    >>> sentence("117 sequences fit"), sentence("it fits."), sentence("vLLM starts"), sentence("h100-sxm fits")
    ('117 sequences fit.', 'It fits.', 'vLLM starts.', 'h100-sxm fits.')
    """
    text = text.strip()
    first = text.partition(" ")[0]
    if first.isalpha() and first.islower():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
