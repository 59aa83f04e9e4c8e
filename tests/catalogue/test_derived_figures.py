"""Every derived figure follows from its own arithmetic, and every peak from its clock, but for those that are known not to."""

import pytest

from service.catalogue.entries import Catalogue
from tests.benchmarks.derived_figures import Check, checks

#: Peaks that are stated at another clock than the boost that is printed beside them, or otherwise than their chip's rate.
DO_NOT_FOLLOW = {
    "gaudi3": "rounded down from 1,677.7",
    "h100-nvl": "at 1,545 MHz, as half of the sparse figure printed",
    "h100-pcie": "at 1,620 MHz",
    "h200-nvl": "at 1,545 MHz, as half of the sparse figure printed",
    "h800": "a third party's figure, of the H100's clock",
    "l40": "half of what its chip and clock give, as its datasheet has it",
    "l40s": "at 2,490 MHz",
    "rtx-3090": "integers rounded down from 284.7",
    "rtx-pro-6000-server": "at 2,430 MHz",
}


@pytest.fixture(scope="module")
def made(catalogue: Catalogue) -> list[Check]:
    return list(checks(catalogue))


def test_what_does_not_follow_is_known(made: list[Check]) -> None:
    assert DO_NOT_FOLLOW.keys() == {each.name for each in made if not each.follows}


def test_most_figures_are_checked_by_arithmetic(made: list[Check]) -> None:
    checked = [each for each in made if each.derived is not None]
    assert len(checked) > 100
    assert len(made) - len(checked) < 20


def test_a_figure_that_is_off_is_seen(made: list[Check]) -> None:
    one = next(each for each in made if each.name == "h100-sxm" and each.field == "peaks.bf16")
    assert one.follows
    assert not Check(one.name, one.field, one.stated * 1.01, one.derived, one.how).follows


@pytest.mark.parametrize(
    ("name", "field", "derived"),
    [("h100-sxm", "peaks.bf16", 989.4e12), ("mi300x", "peaks.fp16", 1307.4e12), ("b300", "conflict peaks.fp4", 13.5e15)],
)
def test_by_hand(made: list[Check], name: str, field: str, derived: float) -> None:
    found = [each.derived for each in made if (each.name, each.field) == (name, field)]
    assert pytest.approx(derived, rel=1e-3) in found
