"""No result contradicts itself: a test rejects a value just where the interval of its level leaves it out."""

from __future__ import annotations

import numpy as np
import pytest

import evalreg as er
from tests.contract.cases import CASES, DERIVED

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

LEVELS = (0.3, 0.1, 0.05, 0.01, 1e-4)
# Levels and ends are looked for to so many digits.
SEARCHED = 1e-6


# Each estimate under one clustering, the next under the next; under the others where time does not matter.
CLUSTERED = [
    pytest.param(case, groups, marks=() if (i + j) % 3 == 0 else pytest.mark.slow, id=f"{case.name}-{groups}")
    for i, case in enumerate([*CASES, *DERIVED])
    for j, groups in enumerate([None, "passage", "passage + judge"])
]


def held(ends: np.ndarray, value: float) -> np.ndarray:
    """Whether intervals, shape (n_levels, 2), hold a value."""
    return (ends[:, 0] <= value) & (value <= ends[:, 1])


def values_near(results: er.Results, place: int) -> np.ndarray:
    """Values around a parameter, on both sides, at the ends of the scale and beyond."""
    se = results.bse.iloc[place]
    around = results.params.iloc[place] + (se if se > 0 else 0.1) * np.array([-3.1, -0.4, 0, 2.05])
    return np.append(around[np.isfinite(around)], [-0.1, 0.0, 1.0])


@pytest.mark.parametrize(("case", "groups"), CLUSTERED)
def test_a_value_is_rejected_just_where_the_interval_leaves_it_out(case, groups):
    frame = case.frame()
    try:
        results = case.run(getattr(case, "prepare", lambda frame: frame)(frame), groups, *[None] * (case in CASES))
    except er.errors.EvalregError:
        pytest.skip("not under these clusters")
    ends = np.stack([results.conf_int(alpha).to_numpy() for alpha in LEVELS], axis=1)
    if groups == "passage":
        stored = er.read_results(results.to_json(alpha=LEVELS))
        np.testing.assert_array_equal(stored.conf_int(LEVELS[1]), ends[:, 1])
        np.testing.assert_array_equal(stored.pvalues, results.pvalues)
    for place in {0, len(ends) - 1}:
        values, row = values_near(results, place), np.eye(len(ends))[place]
        tests = results.t_test((np.tile(row, (values.size, 1)), values))
        p = np.atleast_1d(tests.pvalue)
        assert np.isnan(p).all() == np.isnan(ends[place]).any()
        for value, level in zip(values, p, strict=True):
            apart = np.abs(np.array(LEVELS) - level) > SEARCHED * level
            assert (held(ends[place], value) == (level > np.array(LEVELS)))[apart].all(), (value, level)
        for value, level in list(zip(values, p, strict=True))[::3]:
            assert results.wald_test((row, [value])).pvalue == pytest.approx(level, rel=SEARCHED, nan_ok=True)
        np.testing.assert_allclose(results.contrast(row).conf_int(0.1), ends[[place], 1], rtol=1e-9)
        np.testing.assert_allclose(tests.conf_int(0.1), np.tile(ends[place, 1], (values.size, 1)), rtol=1e-9)
    null, p = results.estimate.about.null, results.pvalues.to_numpy()
    inside = np.array([held(rows, null) for rows in ends])
    # A level of scores has no test against 0, which no interval of it holds.
    assert (inside == (p[:, None] > LEVELS)).all()
