"""The best of several models, corrected for the choice."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import evalreg as er
from evalreg.errors import ArgumentError, NotAvailableError, ZeroVarianceWarning
from evalreg.results.multiple_models import corrected, hybrid_level, quantile_unbiased, winning_values

# Printed with eight decimals by the other package.
PRINTED = 1e-7


def scores(rng: np.random.Generator, n_models: int, n_questions: int = 240, per_passage: int = 8) -> pd.DataFrame:
    """Equal models whose 0/1 scores depend on the question."""
    ease = rng.normal(0, 1, n_questions)
    question = np.arange(n_questions)
    passage = question // per_passage
    ease = ease + rng.normal(0, 0.5, passage.max() + 1)[passage]
    parts = [
        pd.DataFrame(
            {
                "model": f"prompt-{k:02d}",
                "question": question,
                "passage": passage,
                "score": (ease + rng.normal(0, 1, n_questions) > -0.4).astype(float),
            }
        )
        for k in range(n_models)
    ]
    return pd.concat(parts, ignore_index=True)


def mean_of(log: pd.DataFrame) -> er.Results:
    return er.mean(log, by="model", item="question", groups="passage")


def test_conditional_values_are_those_of_the_package_multiple_inference():
    # multiple-inference 1.2.0, RankCondition(X, V).get_marginal_distribution(best).ppf(...).
    estimates, sd = np.array([0.62, 0.70, 0.705, 0.66, 0.58]), np.array([0.03, 0.025, 0.02, 0.03, 0.04])
    V = (0.5 + 0.5 * np.eye(5)) * np.outer(sd, sd)
    found = corrected(0.705, 0.02, winning_values(estimates, V, 2), 0.05)
    np.testing.assert_allclose(found, [0.69124321, 0.59117965, 0.74250674], rtol=PRINTED)
    whole = np.arange(5.0)
    found = corrected(4.0, 1.0, winning_values(whole, np.eye(5), 4), 0.05)
    np.testing.assert_allclose(found, [3.68627552, 0.06742731, 5.93267239], rtol=PRINTED)


def test_hybrid_values_are_those_of_the_package_multiple_inference():
    # The same with beta=0.005; its projection is drawn, and turned around here from its lower end.
    found = corrected(4.0, 1.0, (3.0, np.inf), hybrid_level(0.05), reach=3.284)
    np.testing.assert_allclose(found[[0, 2]], [3.68742998, 5.97693924], atol=1e-4)
    assert found[1] == pytest.approx(0.87131038, abs=1e-3)


@pytest.mark.parametrize(("x", "lower", "upper"), [(0.3, 0.2, np.inf), (0.3, -1.0, 0.9), (-2.0, -np.inf, -1.5)])
def test_quantiles_turn_the_truncated_normal_of_scipy_around(x, lower, upper):
    for p in (0.025, 0.5, 0.975):
        mean = float(quantile_unbiased(x, 0.4, lower, upper, p))
        given = stats.truncnorm((lower - mean) / 0.4, (upper - mean) / 0.4, mean, 0.4)
        assert given.cdf(x) == pytest.approx(1 - p, abs=1e-9)


def test_far_tails_keep_their_digits():
    # With x so near to its bound the distribution is exponential: 1 - F = exp(-(x - L)(L - mean)/se^2).
    for gap in (1e-3, 1e-6, 1e-9):
        mean = float(quantile_unbiased(gap, 1.0, 0.0, np.inf, 0.025))
        assert mean == pytest.approx(-np.log(40) / gap, rel=2e-2 if gap > 1e-5 else 1e-4)
    assert float(quantile_unbiased(0.0, 1.0, 0.0, np.inf, 0.5)) == -np.inf


def test_a_winner_far_ahead_has_the_interval_of_t():
    X, V = np.array([9.0, 0.0, 1.0]), 0.01 * np.eye(3)
    stretch = stats.t.ppf(0.975, 7) / stats.norm.ppf(0.975)
    found = corrected(9.0, 0.1, winning_values(X, V, 0), 0.05, stretch=stretch)
    half = stats.t.ppf(0.975, 7) * 0.1
    np.testing.assert_allclose(found, [9, 9 - half, 9 + half], rtol=1e-9)


def test_bounds_are_where_the_winner_stops_winning(rng):
    for _ in range(20):
        A = rng.normal(size=(4, 4))
        X, V = rng.normal(size=4), A @ A.T
        w = int(np.argmax(X))
        low, high = winning_values(X, V, w)
        rest = X - V[:, w] / V[w, w] * X[w]
        for value in np.linspace(X[w] - 5, X[w] + 5, 801):
            moved = rest + V[:, w] / V[w, w] * value
            assert (np.argmax(moved) == w) == (low <= value <= high) or min(abs(value - low), abs(value - high)) < 1e-9


def test_the_conditional_distribution_is_that_of_draws_in_which_the_same_model_won(rng):
    # Brute force: among draws with this winner, the estimate is above the truth in half of them.
    mu, sd = np.array([0.0, 0.05, -0.1]), np.array([0.1, 0.15, 0.2])
    V = (0.4 + 0.6 * np.eye(3)) * np.outer(sd, sd)
    X = rng.multivariate_normal(mu, V, 3000)
    best = np.argmax(X, axis=1)
    for w in range(3):
        own = X[best == w]
        ends = np.array([winning_values(row, V, w) for row in own])
        for p in (0.1, 0.5, 0.9):
            found = quantile_unbiased(own[:, w], sd[w], ends[:, 0], ends[:, 1], p)
            share = np.mean(mu[w] <= found)
            assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / len(own))


def test_ties_are_told_and_give_a_projection(rng):
    log = scores(rng, 4)
    wide = log.pivot(index=["question", "passage"], columns="model", values="score")
    best = wide.mean().idxmax()
    other = wide[best].sample(frac=1, random_state=3).to_numpy()
    twin = wide[best].reset_index().assign(model="twin", score=other)[["model", "question", "passage", "score"]]
    results = mean_of(pd.concat([log, twin], ignore_index=True))
    found = results.winner()
    assert {found.name, *found.tied} == {best, "twin"}
    assert (found.method, np.isnan(found.corrected)) == ("projection", True)
    band = results.simultaneous().loc[found.name]
    assert (found.lower, found.upper) == (band["lower"], band["upper"])
    assert "came out equal" in str(found.summary())
    assert "unknown" in str(found.summary())
    assert "nan" not in str(found.summary())
    with pytest.raises(NotAvailableError, match='method="projection"'):
        results.winner(method="hybrid")


def test_a_perfect_score_has_a_projection_by_the_number_of_models(rng):
    log = scores(rng, 4)
    log.loc[log["model"] == "prompt-02", "score"] = 1.0
    with pytest.warns(ZeroVarianceWarning):
        results = mean_of(log)
    found = results.winner()
    expected = results.conf_int(0.05 / 4).loc["prompt-02"]
    assert (found.method, found.lower, found.upper) == ("projection", expected[0], expected[1])


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_few_crossed_clusters_give_a_projection():
    sides = {"left": "left", "right": "right", "winner": "winner"}
    log = er.datasets.judge_log(n_models=4, n_prompts=60, n_judges=5, seed=1)
    board = er.win_rate(log, **sides, groups="prompt + judge")
    found = board.winner()
    assert found.method == "projection"
    assert 'those of "judge" are worth 5.0 equal ones' in found.reason
    assert np.isnan(found.corrected)
    with pytest.raises(NotAvailableError, match="with fewer than 9 the other interval"):
        board.winner(method="hybrid")
    assert board.with_cov(groups="prompt").winner().method == "hybrid"
    # Twelve judges of which one has nearly all verdicts are not twelve.
    many = er.datasets.judge_log(n_models=4, n_prompts=60, n_judges=12, seed=1)
    first = many["judge"] == many["judge"].iloc[0]
    part = many[first | (np.random.default_rng(0).random(len(many)) < 0.05)]
    assert "judge" in er.win_rate(part, **sides, groups="prompt + judge").winner().reason
    assert er.win_rate(many, **sides, groups="prompt + judge").winner().method == "hybrid"
    for other in ({"repair": "two-term"}, {"cov": "CR1"}):
        found = er.win_rate(many, **sides, groups="prompt + judge", **other).winner()
        assert "needs their default covariance" in found.reason


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_cluster_that_outweighs_all_others_gives_a_projection(rng):
    # (sum h^2)^2 / sum h^4 of one passage of 24 questions and 30 of two is 1.5, of one of 12 and 30 of two 3.3.
    sizes = np.array([24, *[2] * 30])
    passage = np.repeat(np.arange(31), sizes)
    asked = {"by": "model", "item": "question", "groups": "passage"}
    log = pd.DataFrame({"question": np.tile(np.arange(84), 3), "passage": np.tile(passage, 3)})
    log = log.assign(model=np.repeat(["a", "b", "c"], 84), score=rng.normal(size=252))
    results = er.mean(log, **asked)
    found = results.winner()
    assert found.method == "projection"
    assert f'"0" weighs 29% in the estimate of {found.name} and the next of 31 passage clusters 2%' in found.reason
    assert er.fit("score ~ 0 + model", log, groups="passage").winner().reason == found.reason.replace(
        f"of {found.name} ", f"of model[{found.name}] "
    )
    with pytest.raises(NotAvailableError, match="few clusters determine how the models vary"):
        results.winner(method="hybrid")
    # Of numbers from elsewhere only the influence of rows is known: its rows are counted.
    elsewhere = er.from_influence(results.params, results.influence(), data=log)
    assert er.infer(elsewhere, groups="passage").winner().reason == found.reason
    light = log[log["question"] >= 12]
    known = er.mean(light, **asked)
    elsewhere = er.from_influence(known.params, known.influence(), data=light)
    assert er.infer(elsewhere, groups="passage").winner().method == "hybrid"
    assert er.mean(log[log["question"] >= 12], **asked).winner().method == "hybrid"
    # Two equal clusters are worth 2, where the hybrid holds the truth in as few as .81 of the logs.
    halves = log.assign(passage=log["question"] % 2)
    assert '"0" weighs 50%' in er.mean(halves, **asked).winner().reason.replace('"1"', '"0"')
    assert er.mean(log.assign(passage=log["question"] % 3), **asked).winner().method == "hybrid"


def judged_scores(rng, P, J, K, taste):
    """Scores of K equal models by J judges on P prompts, and a long frame of them."""
    y = 0.6 * rng.standard_normal((P, 1, K)) + taste * rng.standard_normal((J, K)) + rng.standard_normal((P, J, K))
    prompt, judge, model = np.indices(y.shape).reshape(3, -1)
    return y, pd.DataFrame({"prompt": prompt, "judge": judge, "model": model, "score": y.ravel()})


def test_crossed_clusters_have_the_conditional_interval_of_their_widths(rng):
    # By hand: terms of inclusion-exclusion by numpy, widths from sums of t^2 V, ends by a root of scipy's normal.
    P, J, K, alpha = 25, 12, 4, 0.05
    y, log = judged_scores(rng, P, J, K, 0.4)
    found = er.mean(log, by="model", groups="prompt + judge").winner(method="conditional")
    x, parts = y.mean(axis=(0, 1)), (y.mean(axis=1), y.mean(axis=0), y.reshape(-1, K))
    V = [np.cov(part.T) / len(part) for part in parts]
    spread = [np.diag(one) for one in V]
    se = np.sqrt(np.max([spread[0] + spread[1] - spread[2], spread[0], spread[1]], axis=0))
    both = V[0] + V[1]
    shown = both * np.outer(se, se) / np.sqrt(np.outer(np.diag(both), np.diag(both)))
    w = int(np.argmax(x))
    t2 = [stats.t.ppf(1 - alpha / 2, n - 1) ** 2 * one[w] for n, one in zip((P, J, P * J), spread, strict=True)]
    stretched = np.sqrt(max(t2[0] + t2[1] - t2[2], t2[0], t2[1])) / stats.norm.ppf(1 - alpha / 2)
    share = np.delete(shown[:, w], w) / shown[w, w]
    low = np.max((np.delete(x, w) - share * x[w]) / (1 - share))

    def end(p, s):
        def gap(mu):
            return np.exp(stats.norm.logsf((x[w] - mu) / s) - stats.norm.logsf((low - mu) / s)) - p

        return optimize.brentq(gap, x[w] - 30 * s, x[w] + 9 * s, xtol=1e-13)

    assert found.name == str(w)
    assert found.lower == pytest.approx(end(alpha / 2, stretched), rel=1e-7)
    assert found.upper == pytest.approx(end(1 - alpha / 2, stretched), rel=1e-7)
    assert found.corrected == pytest.approx(end(0.5, se[w]), rel=1e-7)
    hybrid = er.mean(log, by="model", groups="prompt + judge").winner()
    assert hybrid.method == "hybrid"
    assert hybrid.lower >= found.lower - 1e-9 or hybrid.upper <= found.upper + 1e-9


def test_a_comparison_corrects_the_largest_gain_over_its_baseline(rng):
    log = scores(rng, 5)
    comparison = er.compare(log, item="question", groups="passage", baseline="prompt-00")
    found = comparison.winner()
    assert found.n_models == 4
    assert found.estimate == comparison.table["difference"].max()
    assert found.corrected < found.estimate
    with pytest.raises(ArgumentError, match="one baseline"):
        er.compare(log, item="question", groups="passage").winner()
