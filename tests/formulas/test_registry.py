"""Every registered formula: one body for a point and a sweep, documented, with a doctest and a source."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from service.formulas import REGISTRY, Formula
from service.formulas.registry import formula

FORMULAS = [pytest.param(each, id=name) for name, each in REGISTRY.items()]
#: Several orders of magnitude, none of them round, and no two alike.
POINTS = np.array([1.25, 3.5, 17.0, 4099.0, 1.7e6, 2.9e10])
#: What is never more than there are experts, than 1, or than there is room.
BELOW_ONE = {"num_experts_per_token", "routing_exponent", "utilization_ratio"}


def _injected(body: Callable[..., float], *, vector: bool) -> dict[str, object]:
    names = inspect.signature(body).parameters
    ufuncs = {"maximum": (max, np.maximum), "minimum": (min, np.minimum)}
    return {name: pair[vector] for name, pair in ufuncs.items() if name in names}


@pytest.mark.parametrize("registered", FORMULAS)
def test_a_sweep_gives_what_its_points_give(registered: Formula) -> None:
    columns = {name: np.roll(POINTS, shift) + 1.5 * shift for shift, name in enumerate(registered.parameters)}
    columns |= dict.fromkeys(BELOW_ONE & columns.keys(), 1 / POINTS)
    swept = registered.body(**columns, **_injected(registered.body, vector=True))
    for index in range(len(POINTS)):
        point = {name: float(column[index]) for name, column in columns.items()}
        alone = registered.body(**point, **_injected(registered.body, vector=False))
        # NumPy's power may differ from the interpreter's in the last bit; nothing else may.
        assert np.broadcast_to(swept, POINTS.shape)[index] == pytest.approx(alone, rel=1e-15, nan_ok=False)


@pytest.mark.parametrize("registered", FORMULAS)
def test_it_does_not_change_its_inputs(registered: Formula) -> None:
    columns = {name: 1 / POINTS if name in BELOW_ONE else POINTS.copy() for name in registered.parameters}
    before = {name: column.copy() for name, column in columns.items()}
    registered.body(**columns, **_injected(registered.body, vector=True))
    for name, column in columns.items():
        assert (column == before[name]).all()


@pytest.mark.parametrize("registered", FORMULAS)
def test_it_says_what_it_is(registered: Formula) -> None:
    assert ">>>" in (registered.body.__doc__ or ""), "a doctest that one can check with a pencil"
    assert registered.meaning.endswith((".", ":"))
    assert registered.source
    assert registered.expression
    parameters = inspect.signature(registered.body).parameters.values()
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)


def test_two_formulas_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match="two formulas are called step_seconds"):

        @formula("1", source="none")
        def step_seconds() -> float:
            return 1.0
