"""Kubernetes quantities, against an independent reading with fractions."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.placement.errors import Unreadable
from service.placement.quantities import LARGEST, amount

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{name: Fraction(10) ** (3 * place) for place, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Fraction(2) ** (10 * place) for place, name in enumerate("KMGTPE", 1)},
}


@pytest.mark.parametrize(
    ("resource", "quantity", "expected"),
    [
        ("cpu", "96", 96_000),
        ("cpu", "1500m", 1500),
        ("cpu", "0.1", 100),
        ("cpu", ".5", 500),
        ("cpu", "2.", 2000),
        ("cpu", "100u", 1),  # 0.1 millicores, rounded up
        ("cpu", 4, 4000),
        ("cpu", 0.5, 500),
        ("memory", "960Gi", 960 * 2**30),
        ("memory", "1e3", 1000),
        ("memory", "1E3", 1000),
        ("memory", "1E", 10**18),
        ("memory", "128974848", 128_974_848),
        ("memory", "129M", 129_000_000),
        ("memory", "100m", 1),
        ("memory", "+5", 5),
        ("memory", "-0", 0),
        ("nvidia.com/gpu", "8", 8),
        ("nvidia.com/gpu", 8.0, 8),
        ("nvidia.com/gpu", "8000m", 8),
        ("nvidia.com/mig-1g.5gb", "7", 7),
        ("pods", "110", 110),
    ],
)
def test_read(resource: str, quantity: object, expected: int) -> None:
    assert expected == amount(resource, quantity)


NOT_TEXTS: list[object] = [None, True, [], {}, ()]


@pytest.mark.parametrize(
    ("resource", "quantity", "reason"),
    [
        ("nvidia.com/gpu", "0.5", "comes in whole numbers"),
        ("nvidia.com/gpu", "500m", "comes in whole numbers"),
        ("pods", "1.5", "comes in whole numbers"),
        ("cpu", "-1", "cannot be negative"),
        ("memory", "9223372036854775808", "more than Kubernetes can store"),
        ("memory", 2**70, "more than Kubernetes can store"),
        ("memory", "16Ei", "more than Kubernetes can store"),
        ("memory", "1e31", "exponent"),
        ("memory", "1e-999999999", "exponent"),
        ("memory", "9" * 65, "longer than any"),
        *(
            ("cpu", text, "no quantity")
            for text in ("", ".", "m", "1 Gi", "1gi", "1Ki1", "0x10", "1_000", "¹", "nan", "inf", "1ee3")
        ),
        *(("cpu", each, "a text or a number") for each in NOT_TEXTS),
        ("memory", float("nan"), "no quantity"),
        ("memory", float("inf"), "no quantity"),
    ],
)
def test_refused(resource: str, quantity: object, reason: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(reason)) as refused:
        amount(resource, quantity)
    assert "" == refused.value.path


@given(
    st.integers(0, 10**6),
    st.one_of(st.none(), st.text("0123456789", max_size=6)),
    st.sampled_from(sorted(SUFFIXES)),
    st.sampled_from(["cpu", "memory"]),
)
def test_every_quantity_is_its_fraction_rounded_up(whole: int, part: str | None, suffix: str, resource: str) -> None:
    value = Fraction(whole) + (Fraction(int(part), 10 ** len(part)) if part else 0)
    exact = value * SUFFIXES[suffix] * (1000 if resource == "cpu" else 1)
    text = f"{whole}{'' if part is None else f'.{part}'}{suffix}"
    expected = -(-exact.numerator // exact.denominator)
    if expected > LARGEST:
        with pytest.raises(Unreadable, match="more than Kubernetes can store"):
            amount(resource, text)
    else:
        assert expected == amount(resource, text)
