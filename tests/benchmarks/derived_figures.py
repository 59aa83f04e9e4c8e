"""Does what the catalogue holds follow from what it is derived from? ``python -m tests.benchmarks.derived_figures``.

Two checks. A figure whose basis is ``derived`` says its arithmetic in its note, which is done again here. A peak of the matrix
units is clock × units × operations per clock and unit, which holds to the rounding of its source, or shows that it is stated
at another clock than the one printed. Whatever does not follow is listed, and a test knows the list.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service.catalogue.entries import Accelerator, Basis, Catalogue, Figure
from service.catalogue.loader import load
from service.units import UNITS

ROOT = Path(__file__).resolve().parents[2]

#: Dense 16-bit operations per clock of one SM or compute unit, multiply and add counted apart. NVIDIA: whitepapers of each
#: architecture, FP32 accumulation; AMD: the CDNA specifications. GeForce parts run it at half the rate of the same chip.
OPERATIONS_PER_CLOCK: Final = {
    "GV100": 1024,
    "TU104": 1024,
    "GA100": 2048,
    "GA102": 1024,
    "GH100": 4096,
    "AD104": 1024,
    "AD102": 1024,
    "GB202": 1024,
    "CDNA2": 1024,
    "CDNA3": 2048,
    "CDNA4": 4096,
}
#: Rate of a format over the 16-bit one, where the same units do it.
RATE: Final = {"fp16": 1.0, "bf16": 1.0, "fp8": 2.0, "int8": 2.0}
_NUMBER: Final = re.compile(
    r"(?P<operator>×|÷|\bof\b)?\s*(?P<open>\()?(?P<number>\d[\d,]*(?:\.\d+)?)"
    r"\s?(?P<unit>[A-Za-z]+(?:/s)?)?"
)
_LINE_RATE: Final = {"GT/s": 1e9, "GHz": 1e9}


@dataclass(frozen=True)
class Check:
    """A figure and what its derivation gives; ``derived`` is None where that is said in words."""

    name: str
    field: str
    stated: float
    derived: float | None
    how: str

    @property
    def follows(self) -> bool:
        """Whether the derivation gives the figure."""
        return self.derived is None or abs(self.derived - self.stated) <= self._rounding

    @property
    def _rounding(self) -> float:
        digits = f"{self.stated:.6e}".partition("e")
        significant = max(2, len(digits[0].rstrip("0").replace(".", "")))
        return 0.51 * 10.0 ** (int(digits[2]) - significant + 1) + 1e-9 * self.stated


def checks(catalogue: Catalogue) -> Iterator[Check]:
    """Every derived figure and every peak that clock, units and width are known for."""
    for entry in catalogue.accelerators.values():
        yield from _of_notes(entry)
        yield from _of_clocks(entry)
    for node in catalogue.node_types.values():
        for field in ("memory_bytes", "network_bandwidth_one_way", "max_power"):
            figure: Figure | None = getattr(node, field)
            if figure is not None and figure.basis is Basis.DERIVED:
                yield Check(node.name, field, figure.value, arithmetic(figure), figure.note or "")
    for each in catalogue.exposure_fields.values():
        yield Check(each.name, "area", each.area.value, each.width.value * each.height.value, "width × height")


def _of_notes(entry: Accelerator) -> Iterator[Check]:
    for field, figure in _figures(entry):
        if figure.basis is Basis.DERIVED:
            in_words = _in_words(entry, field, figure)
            derived = arithmetic(figure) if in_words is None else in_words
            yield Check(entry.name, field, figure.value, derived, figure.note or "")


def _figures(entry: Accelerator) -> Iterator[tuple[str, Figure]]:
    for name in entry.__struct_fields__:
        value = getattr(entry, name)
        if isinstance(value, Figure):
            yield name, value
    yield from ((f"peaks.{each.precision}", each.figure) for each in entry.peaks)
    yield from ((f"links.{each.name}", each.bandwidth_one_way) for each in entry.links)
    for conflict in entry.conflicts:
        yield from ((f"conflict {conflict.field}", each) for each in conflict.figures if each is not conflict.chosen)


def _in_words(entry: Accelerator, field: str, figure: Figure) -> float | None:
    """What is derived from another figure of the same entry."""
    note, precision = figure.note or "", field.rpartition(".")[2]
    if note.startswith("half of the printed figure"):
        sparse = entry.peak_sparse(precision)
        return None if sparse is None else sparse.figure.value / 2
    for words, factor in (("as for bf16", 1.0), ("twice the rate of bf16", 2.0)):
        if note.startswith(words) and (bf16 := entry.peak_dense("bf16")):
            return bf16.figure.value * factor
    return None


def arithmetic(figure: Figure) -> float | None:
    """What the products and quotients in a figure's note come to, in base units; None where there are none.

    "108 PFLOPS ÷ 8", "3 POPS with sparsity ÷ 8 ÷ 2", "16 lanes × 32 GT/s ÷ 8", "756.5 TFLOPS ÷ (114 SM × 4,096)".
    """
    note = (figure.note or "").partition(";")[0].partition(":")[0]
    if not re.search(r"[×÷]|ports of", note) or re.search(r"[×÷]\s*[^\d\s(]", note):
        return None
    result, scale, inside = 1.0, 1.0, False
    for position, found in enumerate(_NUMBER.finditer(note)):
        if position and not found["operator"]:
            break
        number = float(found["number"].replace(",", ""))
        scale *= _scale(found["unit"] or "")
        inside = inside or bool(found["open"])
        divides = found["operator"] == "÷" or (inside and not found["open"])
        result = result / number if divides else result * number
    return result * scale if scale != 1.0 else result * figure.value / figure.printed_value


def _scale(unit: str) -> float:
    if unit in _LINE_RATE:
        return _LINE_RATE[unit]
    return UNITS[unit][1] if unit in UNITS else 1.0


def _of_clocks(entry: Accelerator) -> Iterator[Check]:
    width = next((width for chip, width in OPERATIONS_PER_CLOCK.items() if chip in entry.architecture), None)
    if width is None or entry.num_compute_units is None or entry.boost_clock is None:
        return
    for precision, rate in RATE.items():
        if "consumer" in entry.form_factor and precision != "int8":
            rate /= 2  # GeForce: FP32 accumulation at half the rate; integers at the whole
        peak = entry.peak_dense(precision)
        if peak is None:
            continue
        if precision == "int8" and "CDNA2" in entry.architecture:
            rate = 1.0
        derived = entry.boost_clock.value * entry.num_compute_units.value * width * rate
        clock = f"{entry.boost_clock.printed_value:g} {entry.boost_clock.printed_unit}"
        how = f"{clock} × {entry.num_compute_units.value:.0f} × {width * rate:g}"
        yield Check(entry.name, f"peaks.{precision}", peak.figure.value, derived, how)


def main() -> int:
    """Prints what was checked and what does not follow; fails only where nothing could be checked."""
    made = list(checks(load(ROOT / "specs")))
    in_words = [each for each in made if each.derived is None]
    wrong = [each for each in made if not each.follows]
    following = len(made) - len(in_words) - len(wrong)
    print(f"{len(made)} figures: {following} follow, {len(wrong)} do not, {len(in_words)} are in words")
    for title, listed in (("Do not follow", wrong), ("Said in words only", in_words)):
        print(f"\n{title}")
        for each in listed:
            derived = "" if each.derived is None else f"{each.derived:.6g}"
            print(f"  {each.name:24} {each.field:26} stated {each.stated:<12.6g} derived {derived:12} {each.how}")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
