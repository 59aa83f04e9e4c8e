"""Draws a roofline as SVG: logarithmic axes, a roof for each number format, numbered points with a legend.

The text is real text with a title and a description for those who do not see it. Everything from outside is escaped, and
characters that XML does not allow are left out.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from msgspec import Struct

from service.planning.kernels.results import Roof, RooflinePoint

_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Okabe and Ito's colours, which people of every colour vision tell apart, without the yellow, which white swallows.
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_PREFIXES: Final = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))

_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 92, 64, 520, 400
_LEGEND_LEFT: Final = _LEFT + _PLOT_WIDTH + 28
_WIDTH: Final = _LEGEND_LEFT + 400
_LINE: Final = 19
_LONGEST_LABEL: Final = 46
_CLOSE: Final = 20  # pixels within which points share a label
_DECADES_AROUND: Final = 0.25  # of a decade, left free around what is drawn


class Picture(Struct, frozen=True):
    """What is drawn."""

    heading: str
    roofs: Sequence[Roof]
    points: Sequence[RooflinePoint]


class _Axis(Struct, frozen=True):
    """A logarithmic axis from ``low`` to ``high``, drawn from one pixel to another."""

    low: float
    high: float
    from_pixel: float
    to_pixel: float

    def at(self, value: float) -> float:
        share = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return self.from_pixel + share * (self.to_pixel - self.from_pixel)

    def ticks(self) -> Iterator[float]:
        """Powers of ten; every other one where there are many, and their double and fivefold where there are few."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        step = 1 + (last - first) // 10
        factors = (1, 2, 5) if last - first <= 3 else (1,)
        candidates = (factor * 10.0**power for power in range(first, last + 1, step) for factor in factors)
        yield from (value for value in candidates if self.low <= value <= self.high)


def draw(picture: Picture) -> str:
    """The SVG document."""
    across, up = _axes(picture)
    height = max(_TOP + _PLOT_HEIGHT + 72, _TOP + _LINE * (len(picture.points) + len(picture.roofs) + 5))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'role="img" aria-labelledby="roofline-title roofline-description" font-family="system-ui, sans-serif" font-size="13">',
        f'<title id="roofline-title">{_text(picture.heading)}</title>',
        f'<desc id="roofline-description">{_text(_description(picture))}</desc>',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _label(_LEFT, 34, _shortened(picture.heading, 90), size=18),
        *_grid(across, up),
        *_roof_lines(picture.roofs, across, up),
        *_series_lines(picture.points, across, up),
        *_markers(picture.points, across, up),
        *_legend(picture),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _axes(picture: Picture) -> tuple[_Axis, _Axis]:
    intensities = [roof.ridge_point_flops_per_byte for roof in picture.roofs]
    intensities += [point.arithmetic_intensity_flops_per_byte for point in picture.points]
    low, high = min(intensities), max(intensities) * 10
    bandwidth = picture.roofs[0].memory_bandwidth_bytes_per_second
    values = [low * bandwidth, *(roof.peak_dense_flops_per_second for roof in picture.roofs)]
    values += [point.bound_flops_per_second for point in picture.points]
    values += [point.attained_flops_per_second for point in picture.points if point.attained_flops_per_second is not None]
    free = 10**_DECADES_AROUND
    across = _Axis(low / free, high, _LEFT, _LEFT + _PLOT_WIDTH)
    return across, _Axis(min(values) / free, max(values) * free, _TOP + _PLOT_HEIGHT, _TOP)


def _grid(across: _Axis, up: _Axis) -> Iterator[str]:
    bottom, right = _TOP + _PLOT_HEIGHT, _LEFT + _PLOT_WIDTH
    for value in across.ticks():
        x = across.at(value)
        yield _line((x, _TOP), (x, bottom), "#e3e3e3")
        yield _label(x, bottom + 20, _number(value), anchor="middle")
    for value in up.ticks():
        y = up.at(value)
        yield _line((_LEFT, y), (right, y), "#e3e3e3")
        yield _label(_LEFT - 8, y + 4, f"{_number(value)}FLOP/s", anchor="end")
    yield f'<rect x="{_LEFT}" y="{_TOP}" width="{_PLOT_WIDTH}" height="{_PLOT_HEIGHT}" fill="none" stroke="#666666"/>'
    yield _label(_LEFT + _PLOT_WIDTH / 2, bottom + 46, "arithmetic intensity, FLOP per byte", anchor="middle")
    yield _label(_LEFT, _TOP - 10, "attainable, per device")


def _roof_lines(roofs: Sequence[Roof], across: _Axis, up: _Axis) -> Iterator[str]:
    for colour, (names, roof) in _coloured(roofs):
        ridge, peak = roof.ridge_point_flops_per_byte, roof.peak_dense_flops_per_second
        corners = (
            (across.low, max(across.low * roof.memory_bandwidth_bytes_per_second, up.low)),
            (ridge, peak),
            (across.high, peak),
        )
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in corners)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield _line((across.at(ridge), up.at(peak)), (across.at(ridge), _TOP + _PLOT_HEIGHT), colour, dashes="3 4")
        yield _label(_LEFT + _PLOT_WIDTH - 8, up.at(peak) - 6, names, anchor="end", colour=colour)


def _coloured(roofs: Sequence[Roof]) -> Iterator[tuple[str, tuple[str, Roof]]]:
    """Each roof once, under the names of all formats that have it, with its colour."""
    names: dict[float, list[str]] = {}
    for roof in roofs:
        names.setdefault(roof.peak_dense_flops_per_second, []).append(roof.precision)
    different = {roof.peak_dense_flops_per_second: roof for roof in reversed(roofs)}
    for number, (peak, called) in enumerate(names.items()):
        yield _COLOURS[number % len(_COLOURS)], (", ".join(called), different[peak])


def _series_lines(points: Sequence[RooflinePoint], across: _Axis, up: _Axis) -> Iterator[str]:
    for series in dict.fromkeys(point.series for point in points if point.series):
        path = " ".join(
            f"{across.at(point.arithmetic_intensity_flops_per_byte):.1f},{up.at(_height(point)):.1f}"
            for point in points
            if point.series == series
        )
        yield f'<polyline points="{path}" fill="none" stroke="#444444" stroke-dasharray="6 4"/>'


def _markers(points: Sequence[RooflinePoint], across: _Axis, up: _Axis) -> Iterator[str]:
    clusters: dict[tuple[float, float], list[str]] = {}  # numbers by the place of the first
    for number, point in enumerate(points, 1):
        x, y = across.at(point.arithmetic_intensity_flops_per_byte), up.at(_height(point))
        if point.attained_flops_per_second is not None:
            yield _line((x, y), (x, up.at(point.bound_flops_per_second)), "#888888")
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="#ffffff" stroke="#111111" stroke-width="1.5"/>'
        near = next((place for place in clusters if math.dist(place, (x, y)) < _CLOSE), (x, y))
        clusters.setdefault(near, []).append(str(number))
    for (x, y), numbers in clusters.items():
        yield _label(x + 8, y + 16, ", ".join(numbers))


def _legend(picture: Picture) -> Iterator[str]:
    y, beside = _TOP + 4, _LEGEND_LEFT + 22
    for colour, (names, roof) in _coloured(picture.roofs):
        ridge = f"ridge {roof.ridge_point_flops_per_byte:.4g} FLOP per byte"
        yield f'<rect x="{_LEGEND_LEFT}" y="{y - 10}" width="14" height="10" fill="{colour}"/>'
        yield _label(beside, y, f"{names}: {_number(roof.peak_dense_flops_per_second)}FLOP/s, {ridge}")
        y += _LINE
    level = picture.roofs[0]
    yield _label(beside, y, f"{level.memory_level}: {_number(level.memory_bandwidth_bytes_per_second)}B/s")
    y += _LINE + 8
    for number, point in enumerate(picture.points, 1):
        yield _label(beside - 6, y, str(number), anchor="end")
        yield _label(beside, y, _shortened(point.label, _LONGEST_LABEL))
        y += _LINE


def _description(picture: Picture) -> str:
    roofs = "; ".join(
        f"{roof.precision} up to {_number(roof.peak_dense_flops_per_second)}FLOP/s, "
        f"from {roof.ridge_point_flops_per_byte:.4g} FLOP per byte on"
        for roof in picture.roofs
    )
    points = "; ".join(
        f"{number} {point.label}: {point.arithmetic_intensity_flops_per_byte:.4g} FLOP per byte, "
        f"{_number(_height(point))}FLOP/s"
        for number, point in enumerate(picture.points, 1)
    )
    return f"A roofline on logarithmic axes. Roofs: {roofs}. Points: {points}."


def _line(start: tuple[float, float], end: tuple[float, float], colour: str, *, dashes: str = "") -> str:
    ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line {ends} stroke="{colour}"{dashed}/>'


def _label(x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, colour: str = "#111111") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{colour}">{_text(text)}</text>'


def _height(point: RooflinePoint) -> float:
    """What a point is drawn at: what was attained, where that is known, else the bound."""
    return point.bound_flops_per_second if point.attained_flops_per_second is None else point.attained_flops_per_second


def _number(value: float) -> str:
    """Three digits and a prefix, with a space where a unit follows.

    >>> _number(1e12), _number(989.4e12), _number(0.25), _number(100.0)
    ('1 T', '989 T', '0.25 ', '100 ')
    """
    size, prefix = next(((size, prefix) for size, prefix in _PREFIXES if value >= size), _PREFIXES[-1])
    return f"{value / size:.3g} {prefix}"


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _text(text: str) -> str:
    """The text as XML has it."""
    return escape(_NOT_IN_XML.sub("", text))
