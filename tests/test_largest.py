"""The distribution of the largest statistic: its far tail, many values at once, levels next to nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from evalreg.inference.largest import MANY_VALUES, LargestStatistic
from evalreg.inference.multiplicity import simulate_largest
from evalreg.inference.simultaneous import simultaneous


def test_adjusted_p_values_far_out_are_those_of_independent_normals():
    t = np.concatenate([np.linspace(1, 12, 23), np.zeros(177)])
    bands = simultaneous(t, np.eye(200))
    one = 2 * special.ndtr(-t)
    sidak = -np.expm1(200 * np.log1p(-np.minimum(one, 1 - 1e-16)))
    # Where the draws end, at a standard error of a tenth, all p-values added up take over.
    np.testing.assert_allclose(bands["p_adjusted"], sidak, rtol=0.15)
    np.testing.assert_allclose(bands["p_adjusted"][14:23], sidak[14:23], rtol=1e-4)
    assert (bands["p_adjusted"] >= one * (1 - 1e-12)).all()


def test_a_level_that_no_direction_reaches_is_bonferronis():
    bands = simultaneous(np.zeros(60), np.eye(60), alpha=1e-12)
    assert bands.attrs["critical_value"] == pytest.approx(-special.ndtri(1e-12 / 120), rel=1e-9)
    assert bands.attrs["monte_carlo_error"] == 0.0


@pytest.mark.parametrize("alpha", [0.05, 1e-40, 1e-60, 1e-149])
def test_one_degree_of_freedom_has_a_quantile_at_every_level(alpha):
    one = LargestStatistic(np.ones(1), np.ones(1), np.full(1, 1 / 8192), 1, 1.0, 8192, 1)
    assert one.quantile(alpha) == pytest.approx(1 / np.tan(np.pi * alpha / 2), rel=1e-9)
    # Beyond, the t distribution of an older scipy ends at 1e150.
    assert one.quantile(1e-200) >= 0.99e150


def test_levels_next_to_nothing_of_correlated_t_end_too():
    bands = simultaneous(np.zeros(3), np.eye(3) + 0.5, alpha=1e-60, dof=1.0)
    # Between the quantile of one and that of all three one by one.
    assert -special.stdtrit(1.0, 0.5e-60) < bands.attrs["critical_value"] <= -special.stdtrit(1.0, 0.5e-60 / 3)


@pytest.mark.parametrize(("n", "dof"), [(2, np.inf), (2, 1.0), (5, 3.0), (120, np.inf), (120, 30.0)])
def test_many_values_have_the_tail_that_each_has_alone(rng, n, dof):
    found = simulate_largest(lambda z: np.abs(z).max(axis=1)[:, None], n, n, alpha=0.05, dof=dof, base=0)[0]
    values = np.concatenate([np.abs(5 * rng.standard_t(2, 2 * MANY_VALUES)), [0.0, 40.0, 1e60, np.inf, np.nan]])
    pick = np.append(rng.integers(0, values.size, 500), np.arange(values.size - 5, values.size))
    np.testing.assert_allclose(found.tail(values)[pick], found.tail(values[pick]), rtol=1e-9)
