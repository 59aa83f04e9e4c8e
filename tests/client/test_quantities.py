"""Quantities as a person reads them. The examples stand beside the functions."""

import doctest
import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.cli import engine_memory, fields, log_question, quantities
from tonnage.logs import gpu


@pytest.mark.parametrize("module", [engine_memory, fields, gpu, log_question, quantities], ids=lambda module: module.__name__)
def test_the_examples_hold(module: ModuleType) -> None:
    results = doctest.testmod(module)

    assert results.attempted > 0
    assert 0 == results.failed


SIZES = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}


@given(st.floats(min_value=1, max_value=2.0**59))
def test_memory_is_read_back_within_its_digits(value: float) -> None:
    number, unit = quantities.byte_count(value).split()

    read = float(number.replace(",", "")) * SIZES[unit.removesuffix("B").removesuffix("i")]
    assert math.isclose(value, read, rel_tol=0.005)
    assert float(number.replace(",", "")) < 1024


@given(st.floats(min_value=1e-9, max_value=1e6) | st.just(0.0))
def test_no_duration_is_without_a_unit(value: float) -> None:
    text = quantities.duration(value)

    assert text.split()[1] in ("s", "ms", "µs", "ns")


@given(st.floats(min_value=-1e24, max_value=1e24))
def test_anything_can_be_shown(value: float) -> None:
    for show in (quantities.byte_count, quantities.count, quantities.duration, quantities.large_count, quantities.percent):
        assert show(value)
    assert quantities.rate(value, "FLOP/s").endswith("FLOP/s")
