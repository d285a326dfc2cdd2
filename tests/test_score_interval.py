"""Score intervals of means in [0, 1] and of paired differences: the rule by hand, its level, its doors, its worlds."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import optimize, special, stats

import evalreg as er
from evalreg.covariance.crossed import Scored, Widths
from evalreg.scores.score_interval import Unseen, null_variance

Array = npt.NDArray[np.float64]
MARGINS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
pytestmark = [
    pytest.mark.filterwarnings("ignore::evalreg.errors.ZeroVarianceWarning"),
    pytest.mark.filterwarnings("ignore::evalreg.errors.FewClustersWarning"),
]


# The rule by hand: one variance, one root, from sums by cluster


class ByHand:
    """A mean of y in [0, 1], or a mean difference d in [-1, 1], with clusters; slow and obvious."""

    def __init__(
        self, values: Array, cluster: Array, icc: float, *, signed: bool, weight: Array | None = None, of: tuple = ()
    ) -> None:
        weight = np.ones(values.size) if weight is None else weight
        w = weight * weight.sum() / np.sum(weight**2)  # Kish (1965): rows that a weight counts as
        n, theta = w.sum(), np.average(values, weights=w)
        groups = [(values[cluster == g], w[cluster == g]) for g in np.unique(cluster)]
        h = np.array([v.sum() for _, v in groups]) / n
        self.V = sum((v @ (g - theta)) ** 2 / (1 - v.sum() / n) for g, v in groups) / n**2
        a = h**2 / (1 - h)
        self.dof = 1 / (np.sum(h**2) + a.sum() ** 2 - np.sum(a**2))
        s2 = np.average(values**2, weights=w) - theta**2
        self.V, self.dof, s2 = of or (self.V, self.dof, s2)
        naive = s2 / (n - 1)
        deff = max(1.0, self.V / naive) if naive > 0 else 1.0
        self.E, share = 0.0, 0.0
        for (group, v), part in zip(groups, h, strict=True):
            kinds = [np.sum(group == kind) for kind in (-1, 0, 1)]
            rarer = len(group) - max(kinds) if signed else min(v @ group, v @ (1 - group))
            unseen = 0.5 / (0.5 + rarer)
            self.E += part * (unseen * (1 + icc * (v.sum() - 1)) + (1 - unseen) * deff)
            share += part * unseen
        self.V1 = self.V + share * max(naive - self.V, 0.0)
        self.theta, self.n, self.s2, self.signed = theta, n, s2, signed
        self.M, self.Q = np.mean(np.abs(values)), np.mean(values**2)

    def variance(self, x: float) -> float:
        theta, n, E = self.theta, self.n, self.E
        if self.signed:  # Tango (1998): the likeliest mean |d| if the mean d were x
            jump = (n * self.Q + E) / (n * self.M + E)
            B, C = (2 - theta) * x - self.M, x * (1 - x) * (self.M - theta) / 2
            rate = x + (np.sqrt(max(B * B + 8 * C, 0.0)) - B) / 2
            return float(self.V1 + E * max(jump * (rate - self.M) - (x * x - theta**2), 0.0) / n)
        now, then = theta * (1 - theta), x * (1 - x)
        phi = self.s2 / now if self.s2 > 0 else 1.0
        return float(self.V1 + E * phi * (then - now) / n if then > now else (self.V1 * then / now if now else 0.0))

    def t(self, x: float) -> float:
        values = (x, 0.0) if self.signed and self.theta * x < 0 else (x,)
        return max(0.0 if z == self.theta else abs(self.theta - z) / np.sqrt(self.variance(z)) for z in values)

    def p(self, x: float) -> float:
        return float(2 * stats.t.sf(self.t(x), self.dof))

    def limits(self, alpha: float = 0.05) -> list[float]:
        critical, ends = stats.t.isf(alpha / 2, self.dof), []
        for end in (-1.0 if self.signed else 0.0, 1.0):
            grid = np.linspace(self.theta, end, 20001)[1:]
            out = next((x for x in grid if self.variance(x) == 0 or self.t(x) > critical), None)
            if out is None or self.theta == end:
                ends.append(end)
                continue
            inside = out - (grid[1] - grid[0])
            ends.append(optimize.brentq(lambda x: self.t(x) - critical, inside, out, xtol=1e-14))
        return ends


def scores_of(kind: str, rng: np.random.Generator) -> tuple[Array, Array]:
    sizes = rng.integers(1, 12, 14)
    cluster = np.repeat(np.arange(14), sizes)
    level = rng.beta(4, 0.4, 14)[cluster]
    y = (rng.random(cluster.size) < level).astype(float)
    if kind == "fractions":
        y = np.round(y * rng.random(y.size), 2)
    if kind == "hardly vary":
        y = 0.01 + 0.0004 * rng.random(y.size)
    return (np.ones(y.size) if kind == "perfect" else y), cluster


@pytest.mark.parametrize("kind", ["0/1", "fractions", "hardly vary", "perfect"])
@pytest.mark.parametrize(("icc", "weighted"), [(0.2, False), (0.0, False), (0.7, False), (0.2, True), (0.7, True)])
def test_the_interval_of_a_mean_is_the_formula_by_hand(
    kind: str, icc: float, weighted: bool, rng: np.random.Generator
) -> None:
    y, cluster = scores_of(kind, rng)
    weight = np.exp(rng.normal(size=y.size)) if weighted else np.ones(y.size)
    log = pd.DataFrame({"score": y, "passage": cluster, "w": weight, "part": weight * y})
    results = er.mean(log, groups="passage", icc=icc, weights="w" if weighted else None)
    expected = ByHand(y, cluster, icc, signed=False, weight=weight)
    if icc == 0.2:
        ratio = er.ratio(log, "part", "w", groups="passage")
        np.testing.assert_allclose(ratio.conf_int(), results.conf_int(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(results.conf_int().iloc[0], expected.limits(), rtol=1e-7, atol=1e-12)
    for x in (0.05, 0.3, 0.5, 0.93):
        assert float(results.t_test(f"mean = {x}").pvalue) == pytest.approx(expected.p(x), rel=1e-9)
    assert results.equivalence(2.0, kind="non-inferiority")["verdict"].tolist() == ["shown"]


def test_the_interval_of_a_win_rate_is_the_formula_by_hand(rng: np.random.Generator) -> None:
    log = pd.DataFrame({"prompt": rng.integers(0, 25, 300), "left": rng.choice(list("abc"), 300), "right": "d"})
    log["right"] = log["right"].where(rng.random(300) < 0.5, log["left"].map(dict(zip("abc", "bca", strict=True))))
    chance = np.where(log["left"] == "a", 0.95, np.where(log["right"] == "a", 0.05, 0.5))
    log["score"] = (rng.random(300) < chance) * 1.0
    board = er.win_rate(log, left="left", right="right", score="score", groups="prompt")
    turned = log.rename(columns={"left": "right", "right": "left"}).assign(score=1 - log["score"])
    own = pd.concat([log, turned]).query("left == 'a'")
    of_pair = own.groupby("right")["score"]
    n, p, v = of_pair.size(), of_pair.mean(), of_pair.var()
    rows, unseen = 9 / np.sum(1 / n), 0.5 / (0.5 + n * np.minimum(p, 1 - p))  # as over strata of equal shares
    pooled = np.sum((n - 1) * v) / np.sum(n - 1)
    s2 = (rows - 1) / 9 * np.sum((v + unseen * (pooled - v)) / n)
    y, prompt, weight = own["score"].to_numpy(), own["prompt"].to_numpy(), 1 / own["right"].map(n).to_numpy()
    of = board.bse["a"] ** 2, board.dof["a"], s2
    hand = ByHand(y, prompt, 0.2, signed=False, weight=weight, of=of)
    np.testing.assert_allclose(board.conf_int().loc["a"], hand.limits(), rtol=1e-7)
    assert board.pvalues["a"] == pytest.approx(hand.p(0.5), rel=1e-9)


@pytest.mark.parametrize("kind", ["rare", "common", "fractions", "none"])
def test_the_interval_of_a_difference_is_the_formula_by_hand(kind: str, rng: np.random.Generator) -> None:
    cluster = np.repeat(np.arange(20), 9)
    rate = {"rare": 0.03, "common": 0.4, "fractions": 0.2, "none": 0.0}[kind]
    old = (rng.random(180) < 0.6).astype(float)
    new = np.where(rng.random(180) < rate, 1 - old, old)
    if kind == "fractions":
        new = np.where(rng.random(180) < rate, np.round(rng.random(180), 2), old)
    log = pd.DataFrame({"model": np.repeat(["new", "old"], 180), "item": np.tile(np.arange(180), 2)})
    log = log.assign(passage=np.tile(cluster, 2), score=np.append(new, old))
    expected = ByHand(new - old, cluster, 0.5, signed=True)
    row, limits = er.compare(log, groups="passage", baseline="old").table.iloc[0], expected.limits()
    np.testing.assert_allclose(row[["lower", "upper"]].astype(float), limits, rtol=1e-7, atol=1e-12)
    assert row["p_value"] == pytest.approx(expected.p(0.0) if np.any(new != old) else 1.0)
    # Every door to the same pair gives the same.
    means = er.mean(log, by="model", item="item", groups="passage")
    one = means.contrast("new - old")
    percent = means.contrast({"new": 100, "old": -100})
    doors = {
        "contrast": one.conf_int().iloc[0],
        "percent": percent.conf_int().iloc[0] / 100,
        "mirrored": -means.contrast("old - new").conf_int().iloc[0][::-1],
        "pairwise": means.pairwise().iloc[0][["lower", "upper"]],
        "t_test": means.t_test("new - old = 0").conf_int()[0],
        "selected": er.compare(log, groups="passage", baseline="old").results.contrast(np.eye(1)).conf_int().iloc[0],
    }
    for door, ends in doors.items():
        np.testing.assert_allclose(np.asarray(ends, float), limits, rtol=1e-7, atol=1e-12, err_msg=door)
    shown = one.equivalence(0.03, kind="non-inferiority")["p_value"].iloc[0]
    against = expected.p(-0.03) / 2
    assert shown == pytest.approx(against if one.params.iloc[0] > -0.03 else 1 - against)


def test_wilsons_interval_is_what_independent_scores_have() -> None:
    """With the normal, and p (1 - p)/n in place of p (1 - p)/(n - 1)."""
    from statsmodels.stats.proportion import proportion_confint

    n = 10_000_000
    theta, ones = np.array([0.9]), np.ones(1)
    v = theta * (1 - theta)
    null = null_variance(theta, n * ones, v, theta, theta, v / n, Unseen.of_rows(1), 0.2, signed=False)
    scored = Scored(np.array([0]), ones, 0, null)
    widths = Widths(null.seen, null.seen[None], np.full((1, 1), np.inf), np.ones((1, 1)), scored)
    np.testing.assert_allclose(widths.limits(theta)[0], proportion_confint(0.9 * n, n, method="wilson"), rtol=1e-9)


def test_t_dof_and_p_of_one_test_belong_together(rng: np.random.Generator) -> None:
    log = er.datasets.judge_log(n_models=4, n_prompts=40, n_judges=5, seed=3)
    board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")
    y, cluster = scores_of("0/1", rng)
    mean = er.mean(pd.DataFrame({"score": y, "passage": cluster}), groups="passage")
    for results, asked in ((board, f"`{board.params.index[0]}` = 0.5"), (mean, "mean = 0.7")):
        test = results.t_test(asked)
        t, p, dof = (float(np.ravel(x)[0]) for x in (test.tvalue, test.pvalue, test.df_denom))
        assert p == pytest.approx(2 * stats.t.sf(abs(t), dof), rel=1e-6)
        assert t == pytest.approx((float(test.effect[0]) - float(asked.split("= ")[1])) / float(np.ravel(test.sd)[0]))


# Independent questions, exactly


@functools.cache
def tables(n: int, most: int) -> tuple[Array, Array]:
    """All numbers of wins and losses up to `most` together."""
    wins, losses = np.meshgrid(np.arange(most + 1.0), np.arange(most + 1.0), indexing="ij")
    held = wins + losses <= min(most, n)
    return wins[held], losses[held]


def independent(n: int, wins: Array, losses: Array) -> tuple[Array, Widths]:
    theta, rate = (wins - losses) / n, (wins + losses) / n
    every, spread = np.full(theta.size, float(n)), rate - theta**2
    rows = Unseen.of_rows(theta.size)
    null = null_variance(theta, every, spread, rate, rate, spread / (n - 1), rows, 0.5, signed=True)
    widths = Widths.one_t(spread / (n - 1), every - 1)
    scored = Scored(np.arange(theta.size), np.ones(theta.size), 0, null)
    return theta, Widths(widths.variance, widths.terms, widths.dofs, widths.signs, scored)


def shown(n: int, wins: Array, losses: Array, bound: float) -> Array:
    """One-sided p-values of "the difference is at most the bound"."""
    theta, widths = independent(n, wins, losses)
    p = widths.pvalues(theta - bound) / 2
    return np.where(theta > bound, p, 1 - p)


def chances(n: int, wins: Array, losses: Array, win: float, loss: float) -> Array:
    """Trinomial probabilities of the tables."""
    ties = n - wins - losses
    log = special.gammaln(n + 1) - special.gammaln(wins + 1) - special.gammaln(losses + 1) - special.gammaln(ties + 1)
    log = log + special.xlogy(wins, win) + special.xlogy(losses, loss) + special.xlogy(ties, 1 - win - loss)
    return np.asarray(np.exp(log))


@pytest.mark.parametrize("n", [20, 50, 300, 1000])
def test_the_chance_to_show_what_is_false_holds_exactly(n: int) -> None:
    wins, losses = tables(n, min(n, 150))
    for margin in MARGINS:
        p = shown(n, wins, losses, -margin)
        for win in (0.0, 0.0007, 0.002, 0.006, 0.015, 0.04, 0.1, 0.25):
            if win + margin > 0.8 or n * (2 * win + margin) > 100:
                continue
            chance = chances(n, wins, losses, win, win + margin)
            assert chance.sum() > 0.999
            assert chance @ (p < 0.05) < 0.0585, (margin, win)


@pytest.mark.parametrize("n", [20, 100, 300])
@pytest.mark.parametrize("win", [0.0, 0.002, 0.01, 0.05, 0.3])
def test_intervals_of_independent_questions_cover_exactly(n: int, win: float) -> None:
    wins, losses = tables(n, min(n, 260))
    theta, widths = independent(n, wins, losses)
    limits = widths.limits(theta)
    for loss in (0.0, 0.001, 0.005, 0.02, 0.08, 0.2, 0.5, 0.69):
        chance, truth = chances(n, wins, losses, win, loss), win - loss
        if chance.sum() < 0.999:
            continue
        covered = chance @ ((limits[:, 0] <= truth) & (truth <= limits[:, 1]))
        assert covered > 0.943, (loss, covered)


@pytest.mark.parametrize("n", [10, 40, 300])
def test_more_losses_never_show_what_fewer_did_not(n: int) -> None:
    most = min(n, 60)
    wins, losses = tables(n, most)
    for bound in (*(-margin for margin in MARGINS), -0.3, 0.0, 0.01, 0.1):
        p = np.full((most + 2, most + 2), np.nan)
        p[wins.astype(int), losses.astype(int)] = shown(n, wins, losses, bound)
        undecided = p >= 0.05
        worse = p[:-1, 1:]
        for kind, before in (("loss for a tie", undecided[:-1, :-1]), ("loss for a win", undecided[1:, :-1])):
            assert not np.any(before & (worse < 0.05)), (bound, kind)


# Worlds in which the rule that stood was too sure, or far too wide


# Options, engines, copies


def test_fixed_strata_that_explain_the_differences_keep_their_gain() -> None:
    rng = np.random.default_rng(1)
    subject = np.repeat(np.arange(4), 60)
    d = (rng.random(240) < np.array([0.05, 0.3, 0.6, 0.95])[subject]).astype(float)
    log = pd.DataFrame({"model": np.repeat(["new", "old"], 240), "item": np.tile(np.arange(240), 2)})
    log = log.assign(score=np.append(d, np.zeros(240)), subject=np.tile(subject, 2))
    within, plain = (er.compare(log, baseline="old", strata=strata).table.iloc[0] for strata in ("subject", None))
    assert within["upper"] - within["lower"] < 0.85 * (plain["upper"] - plain["lower"])


@pytest.mark.parametrize("groups", ["passage", None])
def test_weights_whose_sum_is_the_number_of_rows_are_weights(groups):
    log = er.datasets.passages(n_passages=20, questions_per_passage=5, seed=1)
    weights = np.where(np.arange(len(log)) % 10 < 9, 0.5, 5.5)
    assert weights.sum() == len(log)
    whole, doubled = (er.mean(log, weights=unit * weights, groups=groups) for unit in (1, 2))
    pd.testing.assert_frame_equal(whole.conf_int(), doubled.conf_int(), rtol=1e-12)
    with pytest.raises(er.errors.NotAvailableError, match="weights"):
        er.posterior(whole)


def test_the_average_of_models_has_the_interval_of_all_their_answers_and_one_of_copies_that_of_the_pair():
    rng = np.random.default_rng(2)
    easy, passage = rng.beta(3.8, 0.2, 15), np.repeat(np.arange(15), 10)
    log = pd.concat(
        [
            pd.DataFrame({"model": model, "question": np.arange(150), "passage": passage, "score": row})
            for model, row in zip("ab", rng.random((2, 150)) < easy[passage], strict=True)
        ]
    ).assign(score=lambda log: log["score"].astype(float))
    asked = {"by": "model", "item": "question", "groups": "passage"}
    average = er.mean(log, **asked).contrast({"a": 0.5, "b": 0.5})
    pooled = er.mean(log, groups="passage")
    np.testing.assert_allclose(average.bse, pooled.bse, rtol=1e-12)
    np.testing.assert_allclose(average.conf_int(), pooled.conf_int(), atol=1e-3)
    copied = er.mean(pd.concat([log, log[log["model"] == "b"].assign(model="c")]), **asked)
    pair, against = (copied.contrast(text) for text in ("a - b", "a - 0.5*b - 0.5*c"))
    np.testing.assert_allclose(against.conf_int(), pair.conf_int(), rtol=1e-12)
    assert against.pvalues.item() == pytest.approx(pair.pvalues.item(), rel=1e-9)


def test_a_metric_without_bounds_beside_takes_no_score_interval_away():
    log = er.datasets.passages(n_passages=20, seed=1).assign(perfect=1.0)
    for score in ("score", "perfect"):
        mean, words = er.mean(log, score, groups="passage"), er.mean(log, "n_words", groups="passage")
        for both in (mean.stack(words, ["mean", "words"]), words.stack(mean, ["words", "mean"])):
            np.testing.assert_allclose(both.conf_int().loc["mean"], mean.conf_int().loc["mean"], rtol=1e-12)
