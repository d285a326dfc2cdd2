"""Rules of newer code written out slowly, or held against scipy: the places where a sign or a factor could hide."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import evalreg as er
from evalreg.covariance.reach import LEVELS, mover_floor
from evalreg.data.formula import names_in
from evalreg.data.questions import answered, without_worst
from evalreg.errors import FormulaError
from evalreg.inference.simultaneous import family_of

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def few_differ() -> er.Results:
    """Five models of which few answers differ, on questions of passages."""
    rng = np.random.default_rng(6)
    right = np.repeat(rng.random((1, 240)) < 0.8, 5, axis=0)
    for model, flips in enumerate(([], [3, 50, 51], [3, 90], [7, 8, 9, 120], [200])):
        right[model, flips] ^= True
    model, item = np.indices(right.shape)
    log = pd.DataFrame({"model": [f"m{i}" for i in model.ravel()], "item": item.ravel(), "score": right.ravel()})
    return er.mean(log.assign(passage=log["item"] % 80), by="model", item="item", groups="passage")


def test_joint_statements_allow_for_differences_not_seen_as_single_contrasts_do():
    results = few_differ()
    bands = results.simultaneous(contrasts="pairs")
    family = family_of(results.params, results.cov, "pairs")
    widths = results.cov.widths(family.matrix)
    p = widths.pvalues(family.effect)
    ends = widths.limits(family.effect, bands.attrs["level"])
    for i, (left, right) in enumerate(bands.index):
        one = results.contrast(f"{left} - {right}")
        single = one.conf_int(alpha=bands.attrs["level"]).iloc[0]
        np.testing.assert_allclose(bands.iloc[i][["lower", "upper"]].astype(float), single, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ends[i], single, rtol=1e-9, atol=1e-12)
        assert p[i] == pytest.approx(one.pvalues.iloc[0], rel=1e-9)
        # Without them the intervals are narrower: this is what is at stake.
        plain = one.conf_int(alpha=bands.attrs["level"], method="wald").iloc[0]
        assert single[0] < plain[0]
        assert single[1] > plain[1]


def limits_at(z):
    """Three intervals whose sides differ, at a normal quantile."""
    theta = np.array([0.9, 0.5, 0.2])
    return theta, np.column_stack([theta - 0.2 * z - 0.02 * z**2, theta + 0.1 * z + 0.01 * z**2])


@pytest.mark.parametrize("c", [[1, -1, 0], [-1, 1, 0], [0, 1, -1], [1, 1, -1], [-2, 1, 1]])
def test_the_least_variance_of_a_difference_is_where_movers_interval_ends_at_zero(c):
    R = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 1.0]])
    cov = SimpleNamespace(
        matrix=R * 0.01,
        variance=lambda contrasts=None: np.full(3 if contrasts is None else len(contrasts), 0.01),
        critical=lambda contrasts=None, alpha=0.05: np.full(
            3 if contrasts is None else len(contrasts), stats.norm.isf(alpha / 2)
        ),
    )
    theta = limits_at(0.0)[0]
    floor = mover_floor(theta, cov, lambda se, critical: limits_at(critical[0])[1])

    def reach(z):
        """From the estimate towards zero; Zou and Donner's equations with correlations (Zou 2009)."""
        ends = limits_at(z)[1]
        side = np.sign(np.dot(c, theta))
        a = [k * side * (theta[i] - ends[i, 0] if k * side > 0 else ends[i, 1] - theta[i]) for i, k in enumerate(c)]
        return math.sqrt(sum(a[i] * a[j] * R[i, j] for i in range(3) for j in range(3)))

    effect = abs(float(np.dot(c, theta)))
    last, five = float(LEVELS[-1]), stats.norm.isf(0.025)
    inside = reach(last) > effect
    z = optimize.brentq(lambda z: reach(z) - effect, 1e-6, last) if inside else last
    expected = max(effect / z if inside else reach(last) / last, reach(five) / five)
    # Between levels a quarter apart it is taken to be a straight line.
    assert math.sqrt(floor.variance(np.array([c], dtype=float))[0]) == pytest.approx(expected, rel=2e-3)


def test_of_no_difference_the_wider_side_counts():
    cov = SimpleNamespace(
        matrix=np.eye(2) * 0.01,
        variance=lambda contrasts=None: np.full(2 if contrasts is None else len(contrasts), 0.01),
        critical=lambda contrasts=None, alpha=0.05: np.full(
            2 if contrasts is None else len(contrasts), stats.norm.isf(alpha / 2)
        ),
    )
    sides = np.array([[0.05, 0.4], [0.3, 0.1]])  # below and above of each
    floor = mover_floor(np.full(2, 0.5), cov, lambda se, z: 0.5 + z[0] * sides * [-1, 1])
    for c in ([1.0, -1.0], [-1.0, 1.0]):
        towards = [math.hypot(sides[0, 0], sides[1, 1]), math.hypot(sides[0, 1], sides[1, 0])]
        assert math.sqrt(floor.variance(np.array([c]))[0]) == pytest.approx(max(towards))


@pytest.mark.parametrize("claim", ["new - old > -0.5", "new - old > 1.6", "new - old < 1.6", "new - old < -0.5"])
@pytest.mark.parametrize("gap", [-1.0, 0.4, 2.2])
def test_gates_are_scipys_one_sided_tests(claim, gap):
    rng = np.random.default_rng(4)
    old = rng.normal(size=40)
    d = gap + rng.normal(size=40)
    log = pd.DataFrame({"item": np.tile(np.arange(40), 2), "model": np.repeat(["new", "old"], 40)})
    made = er.compare(log.assign(score=np.concatenate([old + d, old])), baseline="old").gate(claim)
    above, below = (stats.ttest_1samp(d, made.bound, alternative=side).pvalue for side in ("greater", "less"))
    shown, fails = (above, below) if made.operator == ">" else (below, above)
    assert made.status == (0 if shown < 0.05 else 1 if fails < 0.05 else 2)
    low, high = stats.t.interval(0.9, 39, d.mean(), d.std(ddof=1) / math.sqrt(40))
    assert (made.lower, made.upper) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize(
    "code",
    [
        "np.clip(x, 0, 1, x)",
        "np.log(x, out=x)",
        "np.add(x, x, x)",
        "a < b < c",
        "(2 + 7) ** 9",
        "2 ** (3 ** 99)",
        "C(x, **y)",
    ],
)
def test_what_could_write_or_never_end_is_refused(code):
    with pytest.raises(FormulaError):
        names_in([code])


def test_models_to_leave_out_are_those_of_the_slow_search():
    rng = np.random.default_rng(3)
    for trial in range(200):
        n_models = int(rng.integers(2, 8))
        there = rng.random((30, n_models)) < rng.uniform(0.2, 1.0, n_models)
        there = there[there.any(axis=1)]
        names = tuple(f"m{i}" for i in range(n_models))
        kept, expected = list(range(n_models)), None
        for worst in np.argsort(there.sum(axis=0), kind="stable"):
            kept.remove(worst)
            # At least two models stay, and at least half of them.
            if len(kept) < 2 or n_models - len(kept) > n_models // 2:
                break
            shared, any_of = there[:, kept].all(axis=1).sum(), there[:, kept].any(axis=1).sum()
            if 2 * shared >= any_of:
                expected = ([names[i] for i in range(n_models) if i not in kept], shared)
                break
        found = without_worst(answered(np.asarray(there, dtype=float), names))
        assert (found is None) == (expected is None), trial
        if found is not None and expected is not None:
            assert (sorted(found[0]), found[1]) == expected


@pytest.mark.parametrize("seed", range(4))
def test_bands_of_one_difference_are_never_narrower_than_its_interval(seed):
    results = er.mean(er.datasets.paired(n_passages=12, seed=1), by="model", item="question", groups="passage")
    bands, pair = (results.simultaneous(contrasts="pairs", seed=seed), results.pairwise().iloc[0])
    assert bands["upper"].iloc[0] - bands["lower"].iloc[0] >= (pair["upper"] - pair["lower"]) * (1 - 1e-12)
    assert bands["p_adjusted"].iloc[0] >= pair["p_value"]
