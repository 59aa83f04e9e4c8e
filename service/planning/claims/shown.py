"""Figures as sentences show them: four digits and a prefix, and no more exact than that."""

from typing import Final

from service.catalogue.entries import Figure

_DECIMAL: Final = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SIGNS: Final = {"x": "×", "mm2": "mm²", "nm": "nm"}
_NAMES: Final = {"FLOP/s": "FLOPS", "units": "compute units", "devices": "devices", "1": ""}
#: People say 989.4 TFLOPS and 1,979 TFLOPS, and 8,000 GB/s as often as 8 TB/s: a prefix is changed at ten thousand.
_FROM: Final = 10.0


def shown(value: float, unit: str) -> str:
    """A figure in a base unit.

    >>> [shown(989.4e12, "FLOP/s"), shown(1978.9e12, "FLOP/s"), shown(1440e15, "FLOP/s"), shown(3.352e12, "B/s")]
    ['989.4 TFLOPS', '1,979 TFLOPS', '1,440 PFLOPS', '3.352 TB/s']
    >>> [shown(80e9, "B"), shown(0.11, "ratio"), shown(120, "x"), shown(858, "mm2"), shown(0.9487, "ratio")]
    ['80 GB', '11 %', '120 ×', '858 mm²', '94.87 %']
    """
    if unit == "ratio":
        return f"{_digits(value * 100)} %"
    if unit == "%":
        return f"{_digits(value)} %"
    if unit in {"x", "mm2", "nm", "transistors"}:
        if unit == "transistors":
            return f"{_digits(value / 1e9)} billion transistors"
        if unit == "nm" and value >= 1e5:
            return f"{_digits(value / 1e6)} mm"
        return f"{_digits(value)} {_SIGNS[unit]}"
    if unit in {"units", "devices", "1"}:
        return f"{value:,.0f} {_NAMES[unit]}".strip()
    least = _FROM if unit == "FLOP/s" else 1.0
    size, prefix = next(((size, prefix) for size, prefix in _DECIMAL if abs(value) >= least * size), (1.0, ""))
    return f"{_digits(value / size)} {prefix}{_NAMES.get(unit, unit)}"


def shown_memory(figure: Figure) -> str:
    """Memory as its source prints it, and in GiB where that is a binary unit."""
    if figure.printed_unit == "MiB":
        return f"{figure.printed_value:,.0f} MiB ({figure.value / 2**30:.2f} GiB)"
    return f"{figure.printed_value:g} {figure.printed_unit}"


def ratio_words(ratio: float) -> str:
    """A ratio as people say it where it is a simple one.

    >>> ratio_words(4 / 3), ratio_words(2.0), ratio_words(18 / 14)
    ('4:3', '2:1', '9:7')
    """
    for below in range(1, 10):
        above = ratio * below
        if abs(above - round(above)) < 0.002 * above:
            return f"{round(above)}:{below}"
    return f"{ratio:.2f}:1"


def _digits(value: float) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text if "e" not in text else f"{value:,.4f}".rstrip("0").rstrip(".")
