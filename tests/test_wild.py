"""The wild cluster bootstrap: reference values, and a slow loop over refitted bootstrap samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from golden import Golden
from statsmodels.stats.multitest import multipletests

import evalreg as er
from evalreg.resampling.draws import WEBB

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# Relative slack within which two statistics tie, as in the reference values.
SLACK = 1e-9


# A slow and obvious version: every bootstrap sample is made row by row and fitted by the formulas of a textbook, which
# are held against statsmodels once.


def slow_fit(y: Any, X: Any, w: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least squares: coefficients, the inverse of X'WX, and what each row adds to X'We."""
    M = np.linalg.inv(X.T @ (w[:, None] * X))
    params = M @ (X.T @ (w * y))
    return params, M, X * (w * (y - X @ params))[:, None]


def slow_variance(M: np.ndarray, scores: np.ndarray, codes: list[np.ndarray]) -> np.ndarray:
    """CR1 covariances whose largest is taken: one for one clustering, three for two crossed ones."""
    n, k = scores.shape

    def one_way(ids: np.ndarray) -> np.ndarray:
        G = ids.max() + 1
        sums = np.eye(G)[ids].T @ scores
        return G / (G - 1) * (n - 1) / (n - k) * M @ (sums.T @ sums) @ M

    if len(codes) == 1:
        return one_way(codes[0])[None]
    both = pd.factorize(codes[0] * 1000 + codes[1])[0]
    first, second, joint = (one_way(ids) for ids in (*codes, both))
    return np.array([first + second - joint, first, second])


def slow_statistic(y: Any, X: Any, w: Any, codes: list[np.ndarray], C: np.ndarray, c: np.ndarray) -> float:
    """The t of one hypothesis, or the Wald statistic of several (one clustering)."""
    params, M, scores = slow_fit(y, X, w)
    gap, V = C @ params - c, slow_variance(M, scores, codes)
    if gap.size == 1:
        return float(gap[0] / np.sqrt(max(float((C @ one @ C.T)[0, 0]) for one in V)))
    return float(gap @ np.linalg.solve(C @ V[0] @ C.T, gap))


def slow_draws(
    y: Any, X: Any, w: Any, codes: list[np.ndarray], C: np.ndarray, c: np.ndarray, vectors: np.ndarray
) -> tuple[float, np.ndarray]:
    """The statistic of the data, and those of all draws; the last clustering carries the weights."""
    centre, M, _ = slow_fit(y, X, w)
    centre = centre - M @ C.T @ np.linalg.solve(C @ M @ C.T, C @ centre - c)
    residual = y - X @ centre
    drawn = [slow_statistic(X @ centre + v[codes[-1]] * residual, X, w, codes, C, c) for v in vectors]
    return slow_statistic(y, X, w, codes, C, c), np.array(drawn)


def slow_p(statistic: float, drawn: np.ndarray) -> tuple[float, float]:
    """Two-sided and equal-tailed p-values when every vector was taken once; ties count."""
    room = SLACK * abs(statistic)
    below, above = np.mean(drawn <= statistic + room), np.mean(drawn >= statistic - room)
    return float(np.mean(np.abs(drawn) >= abs(statistic) - room)), min(1.0, 2 * min(below, above))


def signs(n_clusters: int) -> np.ndarray:
    return np.array(list(itertools.product([1.0, -1.0], repeat=n_clusters)))


def few(rng: np.random.Generator, n_clusters: int = 6, n: int = 70) -> pd.DataFrame:
    """Rows in a few clusters of unequal size, with a covariate and a treatment of whole clusters."""
    g = np.concatenate([np.arange(n_clusters), rng.choice(n_clusters, n - n_clusters, p=_shares(n_clusters))])
    frame = pd.DataFrame({"g": g, "x": rng.standard_normal(n), "w": rng.uniform(0.5, 2.0, n)})
    frame["treat"] = (frame["g"] % 2).astype(float)
    frame["y"] = 0.3 + 0.2 * frame["x"] + 0.5 * rng.standard_normal(n_clusters)[g] + rng.standard_normal(n)
    return frame


def _shares(n_clusters: int) -> np.ndarray:
    return np.arange(1, n_clusters + 1) / np.arange(1, n_clusters + 1).sum()


def design(frame: pd.DataFrame) -> np.ndarray:
    return np.column_stack([np.ones(len(frame)), frame["x"], frame["treat"]])


def test_the_slow_version_is_that_of_statsmodels(rng):
    frame = crossed(rng).assign(w=lambda d: rng.uniform(0.5, 2.0, len(d)))
    y, X = frame["y"].to_numpy(), np.column_stack([np.ones(len(frame)), frame["x"]])
    w, codes = frame["w"].to_numpy(), [frame["prompt"].to_numpy(), frame["judge"].to_numpy()]
    params, M, scores = slow_fit(y, X, w)
    fitted = sm.WLS(y, X, w).fit()
    both = pd.factorize(codes[0] * 1000 + codes[1])[0]
    one, other, joint = (fitted.get_robustcov_results("cluster", groups=ids).cov_params() for ids in (*codes, both))
    np.testing.assert_allclose(params, fitted.params, rtol=1e-10)
    np.testing.assert_allclose(slow_variance(M, scores, codes), [one + other - joint, one, other], rtol=1e-9)


@pytest.mark.parametrize("name", ["d4_few_g5", "d4_few_g8", "d4_few_g12"])
@pytest.mark.parametrize("coefficient", ["x", "treat"])
def test_enumerated_p_values_are_the_reference_ones(
    golden: Callable[[str], Golden], name: str, coefficient: str
) -> None:
    g = golden(name)
    results = er.fit("y ~ x + treat", g.frame, groups="cluster")
    test = results.wild_test(f"{coefficient} = 0", weights="rademacher")
    key = f"wild.{coefficient}.null_imposed"
    g.check(f"{key}.t", test.statistic)
    g.check(f"{key}.n_draws", test.draws)
    g.check(f"{key}.count_ge", test.p_value * test.draws)
    g.check(f"{key}.p_ge", test.p_value)
    assert test.enumerated
    assert test.seed is None


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("null", ["x = 0.1", "treat = 0", "x - treat = 0.2", "Intercept = 0"])
def test_one_hypothesis_agrees_with_refitted_samples(rng, null, weighted):
    frame = few(rng)
    w = frame["w"].to_numpy() if weighted else np.ones(len(frame))
    results = er.fit("y ~ x + treat", frame, groups="g", weights="w" if weighted else None)
    test = results.wild_test(None if null == "Intercept = 0" else null, weights="rademacher")
    asked = {
        "x = 0.1": ([0, 1, 0], 0.1),
        "treat = 0": ([0, 0, 1], 0),
        "x - treat = 0.2": ([0, 1, -1], 0.2),
        "Intercept = 0": ([1, 0, 0], 0),
    }[null]
    C, c = np.array([asked[0]], dtype=float), np.array([asked[1]], dtype=float)
    slow = slow_draws(frame["y"].to_numpy(), design(frame), w, [frame["g"].to_numpy()], C, c, signs(6))
    assert test.statistic == pytest.approx(slow[0], rel=1e-9)
    assert (test.p_value, test.p_equal_tailed) == pytest.approx(slow_p(*slow))
    assert test.draws == 64


def test_webb_vectors_are_enumerated_with_the_identity_among_them(rng):
    frame = few(rng, 4, 30)
    test = er.fit("y ~ x", frame, groups="g").wild_test("x = 0")
    every = np.array(list(itertools.product(WEBB, repeat=4)))
    X = design(frame)[:, :2]
    ones = np.ones(len(frame))
    slow = slow_draws(
        frame["y"].to_numpy(), X, ones, [frame["g"].to_numpy()], np.array([[0.0, 1.0]]), np.zeros(1), every
    )
    assert (test.weights, test.draws, test.enumerated) == ("webb", 1296, True)
    assert test.p_value == pytest.approx(slow_p(*slow)[0])


def test_several_hypotheses_agree_with_refitted_samples(rng):
    frame = few(rng)
    test = er.fit("y ~ x + treat", frame, groups="g").wild_test("x = 0.1, treat = 0", weights="rademacher")
    C, c = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0.1, 0.0])
    ones = np.ones(len(frame))
    W, drawn = slow_draws(frame["y"].to_numpy(), design(frame), ones, [frame["g"].to_numpy()], C, c, signs(6))
    assert test.statistic == pytest.approx(W / 2, rel=1e-9)
    assert test.p_value == pytest.approx(np.mean(drawn >= W * (1 - 2 * SLACK)))
    assert test.interval is None
    assert np.isnan(test.p_equal_tailed)


def crossed(rng: np.random.Generator) -> pd.DataFrame:
    """Prompts by judges, some meetings missing, with effects of both."""
    grid = pd.DataFrame(list(itertools.product(range(7), range(5))), columns=["prompt", "judge"]).sample(
        frac=0.8, random_state=3
    )
    grid = pd.concat([grid, grid.iloc[:9]], ignore_index=True)
    effects = rng.standard_normal(7)[grid["prompt"]] + 0.7 * rng.standard_normal(5)[grid["judge"]]
    return grid.assign(x=rng.standard_normal(len(grid)), y=effects + rng.standard_normal(len(grid)))


@pytest.mark.parametrize("null", ["Intercept = 0.4", "x = 0"])
def test_crossed_clusters_agree_with_refitted_samples(rng, null):
    frame = crossed(rng)
    results = er.fit("y ~ x", frame, groups="judge + prompt")
    test = results.wild_test(null, weights="rademacher")
    C, c = (np.array([[1.0, 0.0]]), 0.4) if null.startswith("I") else (np.array([[0.0, 1.0]]), 0.0)
    prompt, judge = frame["prompt"].to_numpy(), frame["judge"].to_numpy()
    X, y, ones = np.column_stack([np.ones(len(frame)), frame["x"]]), frame["y"].to_numpy(), np.ones(len(frame))
    # Each axis in turn carries the weights.
    slow = {
        "judge": slow_draws(y, X, ones, [prompt, judge], C, np.array([c]), signs(5)),
        "prompt": slow_draws(y, X, ones, [judge, prompt], C, np.array([c]), signs(7)),
    }
    p = {name: slow_p(*found) for name, found in slow.items()}
    assert dict(test.p_by_axis) == pytest.approx({name: one[0] for name, one in p.items()})
    assert test.statistic == pytest.approx(slow["judge"][0], rel=1e-9)
    assert (test.p_value, test.p_equal_tailed) == pytest.approx(tuple(np.max(list(p.values()), axis=0)))
    assert test.by == max(p, key=lambda name: p[name][0])
    assert test.n_clusters == {"judge": 5, "prompt": 7}[test.by]


@pytest.mark.parametrize("groups", ["prompt + judge", "prompt + judge + day"])
def test_a_crossed_interval_holds_what_some_axis_does_not_reject(rng, groups):
    frame = crossed(rng)
    frame["day"] = rng.integers(0, 6, len(frame))
    results = er.mean(frame, "y", groups=groups)
    test = results.wild_test(alpha=0.1, weights="rademacher", draws=499, seed=3)
    assert {name for name, _ in test.p_by_axis} == set(groups.split(" + "))
    low, high = test.interval
    step = 1e-6 * (high - low)
    for value, inside in ((low + step, True), (low - step, False), (high - step, True), (high + step, False)):
        again = results.wild_test(f"mean = {value!r}", weights="rademacher", draws=499, seed=3)
        assert (again.p_value > 0.1) == inside
        assert again.p_value == max(p for _, p in again.p_by_axis)


def test_the_interval_holds_the_values_that_refitted_samples_do_not_reject(rng):
    frame = few(rng, 8, 60)
    test = er.fit("y ~ x + treat", frame, groups="g").wild_test("x = 0", weights="rademacher", alpha=0.1)
    C, ones, codes = np.array([[0.0, 1.0, 0.0]]), np.ones(len(frame)), [frame["g"].to_numpy()]
    assert test.interval is not None
    low, high = test.interval
    step = 1e-7 * (high - low)
    for value, inside in ((low + step, True), (low - step, False), (high - step, True), (high + step, False)):
        slow = slow_draws(frame["y"].to_numpy(), design(frame), ones, codes, C, np.array([value]), signs(8))
        assert (slow_p(*slow)[0] > 0.1) == inside


def slow_p_of_differences(d, passage, null):
    """Every vector of signs for the mean of the differences, with residuals under the null and the CR1 t."""
    codes, n = np.unique(passage, return_inverse=True)[1], len(d)
    G = codes.max() + 1
    sizes = np.bincount(codes)

    def t(values):
        mean = values.mean(axis=-1)
        sums = (values - mean[..., None]) @ np.eye(G)[codes]
        return (mean - null) / np.sqrt(G / (G - 1) * np.sum(sums**2, axis=-1) / n**2)

    at = abs(t(d))
    assert sizes.min() > 0
    return at, np.mean(np.abs(t(null + signs(G)[:, codes] * (d - null))) >= at * (1 - 1e-9))


@pytest.mark.parametrize("null", [0.0, 0.05])
def test_a_comparison_tests_each_difference_by_all_vectors(rng, null):
    frame = models_on_questions(rng)
    comparison = er.compare(frame, "score", item="item", groups="passage", adjust="holm", baseline="m0")
    with pytest.raises(er.errors.ArgumentError, match="`null` must say what is tested"):
        comparison.results.wild_test()
    table = comparison.wild_test(null, weights="rademacher")
    assert table.index.equals(comparison.table.index)
    assert table["enumerated"].all()
    assert set(table["draws"]) == {2**8}
    assert set(table["by"]) == {"passage"}
    wide = frame.pivot(index=["item", "passage"], columns="model", values="score").reset_index("passage")
    for model, baseline in table.index:
        d = (wide[model] - wide[baseline]).to_numpy()
        at, p = slow_p_of_differences(d, wide["passage"].to_numpy(), null)
        row = table.loc[(model, baseline)]
        assert abs(row["statistic"]) == pytest.approx(at)
        assert row["p_value"] == pytest.approx(p, abs=1e-12)
        assert row["difference"] == pytest.approx(d.mean())
        assert slow_p_of_differences(d, wide["passage"].to_numpy(), row["lower"] - 1e-6)[1] <= 0.05
        assert slow_p_of_differences(d, wide["passage"].to_numpy(), row["lower"] + 1e-6)[1] > 0.05
    np.testing.assert_allclose(table["p_adjusted"], multipletests(table["p_value"], method="holm")[1])
    assert "p_adjusted" not in er.compare(frame, item="item", groups="passage").wild_test(draws=99)


def models_on_questions(rng):
    """Three models on questions in eight passages; names that a formula could not hold."""
    passage = np.sort(np.r_[np.arange(8), rng.integers(0, 8, 32)])
    shift = rng.normal(0, 0.2, 8)
    parts = [
        pd.DataFrame(
            {
                "model": name,
                "item": np.arange(40),
                "passage": passage,
                "score": rng.normal(0.1 * i, 1, 40) + i * shift[passage],
            }
        )
        for i, name in enumerate(("m0", "a`b - c", "1,2 = 3"))
    ]
    return pd.concat(parts, ignore_index=True)


def test_drawn_p_values_are_those_of_all_vectors_up_to_chance(rng):
    results = er.fit("y ~ x + treat", few(rng, 12, 90), groups="g")
    every = results.wild_test("x = 0.1", weights="rademacher")
    drawn = results.wild_test("x = 0.1", weights="rademacher", draws=4000)
    assert (every.enumerated, drawn.enumerated) == (True, False)
    assert drawn.p_value == pytest.approx(every.p_value, abs=4 * np.sqrt(every.p_value / 4000))
    assert drawn.interval == pytest.approx(every.interval, abs=0.05)
    assert (drawn.p_value * 4001) % 1 == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_rejections_under_the_null_are_as_many_as_stated(rng):
    # Eight clusters, the covariate constant within them: the normal quantile on CR0 rejects four times too often.
    wild, naive = 0, 0
    for _ in range(300):
        g = np.repeat(np.arange(8), 6)
        frame = pd.DataFrame({"g": g, "z": rng.standard_normal(8)[g]})
        frame["y"] = rng.standard_normal(8)[g] + rng.standard_normal(48)
        results = er.fit("y ~ z", frame, groups="g", cov="CR0", dof="normal")
        naive += results.pvalues["z"] <= 0.05
        wild += results.wild_test("z = 0", weights="rademacher").p_value <= 0.05
    assert 0.02 <= wild / 300 <= 0.09
    assert naive / 300 >= 0.12


# What is fragile, and what is refused
