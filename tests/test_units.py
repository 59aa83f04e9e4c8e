import pytest

from service.units import BYTES_PER_ELEMENT, UNITS, in_base_units


@pytest.mark.parametrize(
    ("value", "unit", "base_unit", "expected"),
    [
        (80, "GB", "B", 80e9),
        (81559, "MiB", "B", 81559 * 2**20),
        (1, "GiB", "B", 2**30),
        (3.35, "TB/s", "B/s", 3.35e12),
        (820, "GiB/s", "B/s", 820 * 2**30),
        (3200, "Gb/s", "B/s", 400e9),
        (989.4, "TFLOPS", "FLOP/s", 989.4e12),
        (15, "PFLOPS", "FLOP/s", 15e15),
        (307, "TOPS", "FLOP/s", 307e12),
        (1830, "MHz", "Hz", 1.83e9),
        (10.2, "kW", "W", 10200),
        (671, "billion", "1", 671e9),
        (1, "trillion", "1", 1e12),
        (8, "1", "1", 8),
        (26, "mm", "mm", 26),
        (11, "percent", "1", 0.11),
    ],
)
def test_a_unit_reduces_to_its_base(value: float, unit: str, base_unit: str, expected: float) -> None:
    assert base_unit == UNITS[unit][0]
    assert pytest.approx(expected) == in_base_units(value, unit)


@pytest.mark.parametrize("unit", ["", "gb", "Gb", "GBps", "TFLOP", "TFLOP/s", "KB", "%"])
def test_a_unit_that_could_be_misread_is_unknown(unit: str) -> None:
    with pytest.raises(KeyError):
        in_base_units(1, unit)


def test_every_base_unit_reduces_to_itself() -> None:
    for base_unit, _ in UNITS.values():
        if base_unit not in {"FLOP/s", "Hz"}:  # printed with a prefix only, or as FLOPS
            assert (base_unit, 1.0) == UNITS[base_unit]


def test_block_formats_carry_their_scales() -> None:
    assert BYTES_PER_ELEMENT["mxfp4"] * 32 == 32 / 2 + 1  # one byte of scale for 32 elements
    assert BYTES_PER_ELEMENT["nvfp4"] * 16 == 16 / 2 + 1  # one byte of scale for 16 elements
    assert BYTES_PER_ELEMENT["int4"] * 128 == 128 / 2 + 2 + 0.5  # a 16-bit scale and a 4-bit zero point for 128
