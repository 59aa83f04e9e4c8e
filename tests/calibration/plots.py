"""Estimated against measured times as pictures: one SVG a time, both axes logarithmic, one colour an engine."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tests.calibration.runs import Run

_SIZE: Final = 520
_LEFT, _TOP, _SIDE = 70, 40, 400
_COLOURS: Final = ("#1f6f8b", "#c8553d", "#6a994e", "#7b5ea7", "#8d6b2f")


def scatter(path: Path, title: str, points: Sequence[tuple[Run, float, float]]) -> None:
    """Writes the picture. ``points``: run, measured seconds, estimated seconds."""
    low = math.floor(math.log10(min(min(m, e) for _, m, e in points)))
    high = math.ceil(math.log10(max(max(m, e) for _, m, e in points)))
    engines = sorted({run.engine for run, _, _ in points})
    colours = dict(zip(engines, _COLOURS, strict=False))

    def place(seconds: float) -> float:
        return (math.log10(seconds) - low) / (high - low) * _SIDE

    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_SIZE}" height="{_SIZE}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="14">{escape(title)}</text>',
        *_axes(low, high),
        *(_line(math.log10(factor) / (high - low) * _SIDE) for factor in (0.9, 1.0, 1 / 0.9)),
        *(
            f'<circle cx="{_LEFT + place(measured):.1f}" cy="{_TOP + _SIDE - place(estimated):.1f}" r="2" '
            f'fill="{colours[run.engine]}" fill-opacity="0.5"/>'
            for run, measured, estimated in points
        ),
        *(
            f'<text x="{_LEFT + 12}" y="{_TOP + 20 + 16 * n}" fill="{colours[engine]}">{escape(engine)}</text>'
            for n, engine in enumerate(engines)
        ),
        "</svg>",
    ]
    path.write_text("\n".join(body) + "\n")


def _axes(low: int, high: int) -> Iterable[str]:
    yield f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#444"/>'
    for power in range(low, high + 1):
        at = (power - low) / (high - low) * _SIDE
        label = _seconds(power)
        yield f'<text x="{_LEFT + at:.1f}" y="{_TOP + _SIDE + 18}" text-anchor="middle">{label}</text>'
        yield f'<text x="{_LEFT - 8}" y="{_TOP + _SIDE - at + 4:.1f}" text-anchor="end">{label}</text>'
    yield f'<text x="{_LEFT + _SIDE / 2}" y="{_TOP + _SIDE + 42}" text-anchor="middle">measured</text>'
    middle = _TOP + _SIDE / 2
    yield f'<text x="18" y="{middle}" transform="rotate(-90 18 {middle})" text-anchor="middle">estimated</text>'


def _seconds(power: int) -> str:
    return f"{10 ** (power + 3):.0f} ms" if -3 <= power < 0 else f"{10.0**power:g} s"


def _line(offset: float) -> str:
    """The diagonal, or a tenth off it: parallel, since the axes are logarithmic."""
    dash = ' stroke-dasharray="4 4"' if offset else ""
    ends = f'x1="{_LEFT}" y1="{_TOP + _SIDE - offset:.1f}" x2="{_LEFT + _SIDE}" y2="{_TOP - offset:.1f}"'
    return f'<line {ends} stroke="#888"{dash}/>'
