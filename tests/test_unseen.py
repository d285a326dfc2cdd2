"""Paired differences of which few questions tell: against exact probabilities, a slow likelihood, and each other."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import optimize, special, stats

import evalreg as er
from evalreg.errors import UnequalQuestionsWarning
from evalreg.scores.paired import PairedQuestions, in_differing_clusters
from evalreg.scores.unseen import Unseen, unseen

Array = npt.NDArray[np.float64]
MARGINS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


@functools.cache
def tables(n: int, most: int) -> tuple[Array, Array]:
    """All numbers of wins and losses up to `most` together."""
    wins, losses = np.meshgrid(np.arange(most + 1.0), np.arange(most + 1.0), indexing="ij")
    held = wins + losses <= min(most, n)
    return wins[held], losses[held]


def independent(n: int, wins: Array, losses: Array) -> Unseen:
    theta, rate = (wins - losses) / n, (wins + losses) / n
    every = np.full(theta.size, float(n))
    variance = (rate - theta**2) / (n - 1)
    return unseen(theta, variance, rate, rate, rate, rate, 1 - rate, rate, every, every, np.zeros(theta.size))


@functools.cache
def usual_limits(n: int, most: int) -> Array:
    """The 95% intervals of all tables, shape (n_tables, 2)."""
    wins, losses = tables(n, most)
    return independent(n, wins, losses).limits(np.full(wins.size, stats.t.ppf(0.975, n - 1)))


def shown(of: Unseen, bound: float, n: int) -> Array:
    """One-sided p-values of "the difference is at most the bound"."""
    return np.asarray(stats.t.sf(of.statistic(bound), n - 1))


def chances(n: int, wins: Array, losses: Array, win: float, loss: float) -> Array:
    """Trinomial probabilities of the tables."""
    ties = n - wins - losses
    log = special.gammaln(n + 1) - special.gammaln(wins + 1) - special.gammaln(losses + 1) - special.gammaln(ties + 1)
    log = log + special.xlogy(wins, win) + special.xlogy(losses, loss) + special.xlogy(ties, 1 - win - loss)
    return np.asarray(np.exp(log))


# The rule itself


@pytest.mark.parametrize("n", [20, 50, 300, 1000])
def test_the_chance_to_show_what_is_false_holds_exactly(n: int) -> None:
    wins, losses = tables(n, min(n, 150))
    found = independent(n, wins, losses)
    for margin in MARGINS:
        p = shown(found, -margin, n)
        for win in (0.0, 0.0007, 0.002, 0.006, 0.015, 0.04, 0.1, 0.25):
            if win + margin > 0.8 or n * (2 * win + margin) > 100:
                continue
            chance = chances(n, wins, losses, win, win + margin)
            assert chance.sum() > 0.999
            # The worst are 0.061 and 0.013, where 100 differences are expected and nearly all are losses.
            assert chance @ (p < 0.05) < (0.0625 if n * margin > 50 else 0.056), (margin, win)
            assert chance @ (p < 0.01) < 0.014, (margin, win)


@pytest.mark.parametrize("n", [20, 100, 300])
@pytest.mark.parametrize("win", [0.0, 0.002, 0.01, 0.05, 0.3])
def test_intervals_of_independent_questions_cover_exactly(n: int, win: float) -> None:
    wins, losses = tables(n, min(n, 260))
    limits = usual_limits(n, min(n, 260))
    for loss in (0.0, 0.001, 0.005, 0.02, 0.08, 0.2, 0.5, 0.69):
        chance, truth = chances(n, wins, losses, win, loss), win - loss
        if chance.sum() < 0.999:
            continue
        covered = chance @ ((limits[:, 0] <= truth) & (truth <= limits[:, 1]))
        assert covered > 0.943, (loss, covered)


def test_a_model_that_nearly_always_wins_is_covered_too() -> None:
    for n, win, loss in ((20, 0.95, 0.0), (50, 0.98, 0.0), (100, 0.98, 0.01), (100, 0.947, 0.047)):
        wins, losses = tables(n, n)
        limits = usual_limits(n, n)
        covered = chances(n, wins, losses, win, loss) @ ((limits[:, 0] <= win - loss) & (win - loss <= limits[:, 1]))
        assert covered > 0.94, (n, win, loss)


@pytest.mark.parametrize("n", [10, 40, 300, 2000])
def test_more_losses_never_show_what_fewer_did_not(n: int) -> None:
    most = min(n, 60)
    wins, losses = tables(n, most)
    found = independent(n, wins, losses)
    for bound in (*(-margin for margin in MARGINS), -0.3, 0.0, 0.01, 0.1):
        p = np.full((most + 2, most + 2), np.nan)
        p[wins.astype(int), losses.astype(int)] = shown(found, bound, n)
        undecided = p >= 0.05
        for kind, worse in (("loss for a tie", p[:-1, 1:]), ("loss for a win", p[:-1, 1:])):
            before = undecided[:-1, :-1] if kind == "loss for a tie" else undecided[1:, :-1]
            assert not np.any(before & (worse < 0.05)), (bound, kind)


@pytest.mark.parametrize(("wins", "losses", "n", "bound"), [(3, 1, 200, -0.01), (0, 1, 300, -0.01), (7, 2, 500, 0.03)])
def test_the_rate_under_the_bound_is_the_likeliest(wins: int, losses: int, n: int, bound: float) -> None:
    """Poisson counts of wins and losses whose rates differ by the bound, maximized slowly."""

    def loss_of(log_loss: float) -> float:
        lost = np.exp(log_loss)
        won = lost + bound
        if won <= 0:
            return np.inf
        return float(n * (won + lost) - special.xlogy(wins, won) - special.xlogy(losses, lost))

    start = np.log(max(-bound, 0.0) + 1e-9)
    best = optimize.minimize_scalar(loss_of, bounds=(start, 0.0), method="bounded", options={"xatol": 1e-12}).x
    rate = 2 * np.exp(best) + bound
    found = independent(n, np.array([float(wins)]), np.array([float(losses)]))
    theta, naive = (wins - losses) / n, found.spread[0]
    extra = rate - (wins + losses) / n - max(bound**2 - theta**2, 0)
    np.testing.assert_allclose(
        found.at(bound)[0], naive + (max(extra, 0) + (1 - (wins + losses) / n) / (2 * n)) / n, rtol=1e-5
    )


def test_tests_and_intervals_agree(rng: np.random.Generator) -> None:
    m, n = 400, rng.integers(10, 2000, 400).astype(float)
    size = np.minimum(rng.exponential(10 / n), 0.9)
    square, theta = size * rng.uniform(0.3, 1, m), size * rng.uniform(-1, 1, m)
    square = np.maximum(square, size**2)
    clusters = np.maximum(n / rng.integers(1, 60, m), 2.0)
    alike = rng.uniform(0, 3, m) * square / clusters
    differ = np.minimum(size * rng.uniform(1, 3, m), 1.0)
    whole = rng.uniform(0, 1, m) * square
    silent = rng.uniform(0, 1, m) * (1 - differ)
    silent_whole = rng.uniform(0, 1, m) * whole
    variance = rng.uniform(0, 2, m) * square / clusters
    found = unseen(theta, variance, size, square, differ, whole, silent, silent_whole, n, clusters, alike)
    critical = rng.uniform(1.5, 4, m)
    limits = found.limits(critical)
    assert np.all((limits[:, 0] <= theta) & (theta <= limits[:, 1]))
    for bound in np.linspace(-1, 1, 401):
        inside = (limits[:, 0] - 1e-9 <= bound) & (bound <= limits[:, 1] + 1e-9)
        edge = np.min(np.abs(limits - bound), axis=1) < 1e-9
        assert np.all((np.abs(found.statistic(float(bound))) <= critical) == inside, where=~edge)


def test_an_interval_holds_zero_just_where_no_difference_is_not_rejected() -> None:
    # 11 of 12 questions differ by a half: further from 0.1 than from 0, in standard errors, as fewer can differ there.
    one = np.ones(1)
    found = unseen(
        *(share * one for share in (11 / 24, 0.0, 11 / 24, 11 / 48, 11 / 12, 0.0, 1 / 24, 0.0)),
        12 * one,
        12 * one,
        0 * one,
    )
    critical = 12.0
    assert abs(found.statistic(0.0)[0]) < critical < abs(found.statistic(0.1)[0])
    low, high = found.limits(np.array([critical]))[0]
    assert low < 0 < high
    np.testing.assert_allclose(np.abs([found.statistic(low)[0], found.statistic(high)[0]]), critical, rtol=1e-10)


@pytest.mark.parametrize("m", [1, 7, 9000])
def test_ends_of_intervals_are_those_by_bisection(rng: np.random.Generator, m: int) -> None:
    n = rng.integers(5, 2000, m).astype(float)
    wins, losses = rng.binomial(n.astype(int), 0.2 * rng.random(m)), rng.binomial(n.astype(int), 0.1 * rng.random(m))
    theta, size, every = (wins - losses) / n, (wins + losses) / n, np.ones(m)
    variance = rng.choice([0.0, 0.5, 1.0, 3.0], m) * (size - theta**2) / n
    found = unseen(theta, variance, size, size, size, size, (1 - size) / 2, size / 2, n, n / 2, 0 * every)
    critical = rng.choice([1.0, 2.0, 3.0, 5.0], m)
    for side, column in zip((-1.0, 1.0), found.limits(critical).T, strict=True):
        with_zero = np.abs(found.statistic(0.0)) <= critical
        inside, outside = np.where(with_zero & (theta * side < 0), 0.0, theta), np.full(m, side)
        reached = np.abs(found.statistic(outside)) > critical
        for _ in range(60):
            middle = (inside + outside) / 2
            beyond = np.abs(found.statistic(middle)) > critical
            inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
        np.testing.assert_allclose(column, np.where(reached, outside, side), rtol=0, atol=1e-13)


def test_nothing_is_added_where_many_questions_differ() -> None:
    found = independent(1000, np.array([60.0]), np.array([40.0]))
    assert not found.active.any()
    np.testing.assert_array_equal(found.at(0.02), found.variance)


def clustered(wins: Array, losses: Array, sizes: Array) -> Unseen:
    """What was not seen, from counts by cluster, shape (m, G)."""
    n = sizes.sum()
    theta, rate = (wins - losses).sum(axis=1) / n, (wins + losses).sum(axis=1) / n
    totals = wins - losses - theta[:, None] * sizes
    variance = np.sum(totals**2 / (1 - sizes / n), axis=1) / n**2
    silent, whole = (wins + losses == 0) @ sizes / n, (wins + losses == sizes) @ sizes / n
    every = np.full(theta.size, n)
    kish = np.full(theta.size, n**2 / (sizes @ sizes))
    return unseen(theta, variance, rate, rate, rate, rate, silent, whole, every, kish, np.zeros(theta.size))


@pytest.mark.parametrize("sizes", [np.full(8, 25.0), np.linspace(5, 50, 12).round(), np.array([230.0, *[30.0] * 9])])
def test_little_is_added_where_every_cluster_has_questions_that_differ(sizes: Array, rng: np.random.Generator) -> None:
    wins = rng.binomial(sizes.astype(int), 0.08, (400, sizes.size)).astype(float)
    losses = rng.binomial((sizes - wins).astype(int), 0.1).astype(float)
    few = (wins + losses).sum(axis=1) >= 20
    none = (wins + losses == 0) @ sizes / sizes.sum() == 0
    found = clustered(wins, losses, sizes).chosen(np.flatnonzero(few & none))
    assert found.n.size > 20
    assert not found.active.any()
    # Clusters with half of the questions, and silent, bring all of it back; a quarter brings half.
    for silent, share in ((1, 0.5), (2, 1.0)):
        quiet = np.arange(4) < silent
        wins, losses = np.where(quiet, 0.0, [[1.0, 0.0, 4.0, 2.0]]), np.where(quiet, 0.0, [[0.0, 3.0, 8.0, 9.0]])
        poor = clustered(wins, losses, np.full(4, 25.0))
        np.testing.assert_allclose(poor.share, share * np.minimum((1 - poor.n_differing / poor.wanted) / 0.8, 1.0))


@pytest.mark.parametrize("G", [8, 20])
@pytest.mark.parametrize(("rate", "icc"), [(0.01, 0.2), (0.03, 0.5), (0.2, 0.2), (0.2, 0.05)])
def test_clusters_do_not_show_what_is_false(G: int, rate: float, icc: float, rng: np.random.Generator) -> None:
    """All that differ are losses, with beta rates of the clusters; the test is at the true difference."""
    logs, sizes = 4000, np.full(G, 40.0)
    odds = 1 / icc - 1
    losses = rng.binomial(40, rng.beta(rate * odds, (1 - rate) * odds, (logs, G))).astype(float)
    found = clustered(np.zeros((logs, G)), losses, sizes)
    t = np.nan_to_num(found.statistic(-rate))
    # Three standard errors of 4,000 logs are 0.011; the skew of all losses adds 0.02.
    assert np.mean(np.abs(t) > stats.t.ppf(0.95, G - 1)) < 0.1 + 0.015
    assert np.mean(t > stats.t.ppf(0.95, G - 1)) < 0.075


def test_questions_of_told_clusters_are_counted_slowly(rng: np.random.Generator) -> None:
    home, differ = rng.integers(0, 9, 60), rng.random((7, 60)) < 0.05
    there = (rng.random((7, 60)) < 0.8).astype(float)
    differ &= there > 0
    for mask in (None, there):
        own = np.ones((7, 60)) if mask is None else mask
        slow = [
            sum(own[i, home == g].sum() for g in range(9) if differ[i, home == g].any()) for i in range(differ.shape[0])
        ]
        np.testing.assert_array_equal(in_differing_clusters(differ, mask, home), slow)


# The same through every door


def test_scores_of_0_and_1_are_compared_without_a_look_at_the_questions(rng: np.random.Generator) -> None:
    right = rng.random((50, 6)) < 0.7
    right[:, 5] = right[:, 4]
    frame = pd.DataFrame({"score": right.ravel().astype(float)})
    frame["item"], frame["model"] = np.repeat(np.arange(50), 6), np.tile(list("abcdef"), 50)
    frame = frame[(frame["item"] > 3) | ~frame["model"].isin(["c", "d"])]  # both lack the same questions
    with pytest.warns(UnequalQuestionsWarning, match="different questions"):
        results = er.mean(frame, by="model", item="item")
    paired, axes = results.cov.paired, results.cov.axes
    assert paired is not None
    rows, first, second, _ = paired._sides(np.eye(6)[np.triu_indices(6, 1)[0]] - np.eye(6)[np.triu_indices(6, 1)[1]])
    assert rows.size == 7  # a, b, e, f with each other, and c with d
    quick, slow = paired._passed(first, second, axes), PairedQuestions._passed(paired, first, second, axes)
    np.testing.assert_allclose(quick, slow, rtol=1e-13, atol=1e-15)
    wide = frame.pivot(index="item", columns="model", values="score")
    shares = [(wide.iloc[:, a] - wide.iloc[:, b]).dropna().ne(0).mean() for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(quick[2], shares, rtol=1e-13)


def few_differ(n: int = 240, passages: int = 80, seed: int = 3) -> pd.DataFrame:
    """Three models of which few answers differ; questions in passages."""
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.8
    new, third = old.copy(), old.copy()
    new[[3, 50, 51]] ^= True
    third[[3, 90]] ^= True
    frame = pd.DataFrame({"item": np.tile(np.arange(n), 3), "passage": np.tile(np.arange(n) % passages, 3)})
    frame = frame.assign(model=np.repeat(["new", "old", "third"], n), score=np.concatenate([new, old, third]))
    return frame.sample(frac=1, random_state=1, ignore_index=True)


def slowly(frame: pd.DataFrame, model: str, baseline: str, used: float | None = None) -> Unseen:
    """What was not seen of a difference of 0/1 scores, from a loop over passages of equal size."""
    wide = frame.pivot(index=["item", "passage"], columns="model", values="score").astype(float)
    d = wide[model] - wide[baseline]
    n, theta, G = len(d), d.mean(), d.index.get_level_values("passage").nunique()
    totals = (d - theta).groupby("passage").sum()
    variance = sum(total**2 / (1 - 1 / G) for total in totals) / n**2 if used is None else used
    m, between = n / G, float((totals**2).sum() / (n / G)) / (G - 1)
    within = (float(((d - theta) ** 2).sum()) - between * (G - 1)) / (n - G)
    rho = max((between - within) / (between + (m - 1) * within), 0.0)
    naive = d.var(ddof=1) / n
    alike = naive * (1 + (m - 1) * rho) if rho > 0 else 0.0
    rate = float(np.mean(d != 0))
    silent = float((d != 0).groupby("passage").sum().eq(0).mean())
    all_differ = float((d != 0).groupby("passage").all().mean())
    one = np.ones(1)
    return unseen(*(x * one for x in (theta, variance, rate, rate, rate, rate, silent, all_differ, n, G, alike)))


@pytest.mark.parametrize(("model", "baseline"), [("new", "old"), ("old", "third")])
def test_every_door_gives_the_same(model: str, baseline: str) -> None:
    frame, bound = few_differ(), -0.03
    expected, dof = slowly(frame, model, baseline), 79
    p = 2 * stats.t.sf(np.abs(expected.statistic(0.0)), dof)[0]
    limits = expected.limits(np.array([stats.t.ppf(0.975, dof)]))[0]
    inner = expected.limits(np.array([stats.t.ppf(0.95, dof)]))[0]
    shown = stats.t.sf(expected.statistic(bound), dof)[0]
    pair = frame[frame["model"].isin([model, baseline])]
    comparison = er.compare(pair, groups="passage", baseline=baseline)
    means = er.mean(frame, by="model", item="item", groups="passage")
    contrast = means.contrast(f"{model} - {baseline}")
    percent = means.contrast({model: 100, baseline: -100})
    mirrored = means.contrast(f"{baseline} - {model}")
    rows = {
        "compare": comparison.table.iloc[0][["p_value", "lower", "upper"]],
        "all pairs": er.compare(frame, groups="passage", baseline=baseline).table.loc[(model, baseline)][
            ["p_value", "lower", "upper"]
        ],
        "contrast": [contrast.pvalues.iloc[0], *contrast.conf_int().iloc[0]],
        "frame": contrast.to_frame().iloc[0][["p_value", "lower", "upper"]],
        "percent": [percent.pvalues.iloc[0], *percent.conf_int().iloc[0] / 100],
        "mirrored": [mirrored.pvalues.iloc[0], *-mirrored.conf_int().iloc[0][::-1]],
        "pairwise": means.pairwise().loc[(model, baseline)][["p_value", "lower", "upper"]],
        "selected": [
            (own := comparison.results.contrast(np.eye(1))).pvalues.iloc[0],
            *own.conf_int().iloc[0],
        ],
    }
    tested = means.t_test(f"{model} - {baseline} = 0")
    rows["t_test"] = [float(tested.pvalue), *tested.conf_int()[0]]
    for door, found in rows.items():
        np.testing.assert_allclose(np.asarray(found, dtype=float), [p, *limits], rtol=1e-9, atol=1e-12, err_msg=door)
    for results in (comparison, contrast):
        row = results.equivalence(-bound, kind="non-inferiority").iloc[0]
        found = [row["p_value"], row["lower"], row["upper"]]
        np.testing.assert_allclose(found, [shown, *inner], rtol=1e-9, atol=1e-12)
    against = means.t_test(f"{model} - {baseline} = {bound}")
    assert min(float(against.pvalue) / 2, 1 - float(against.pvalue) / 2) == pytest.approx(min(shown, 1 - shown))
    assert "also allow for differences that were not seen" in " ".join(comparison.summary().as_text().split())


@pytest.mark.parametrize("model", ["new", "third"])
def test_strata_leave_what_was_not_seen_as_it_is(model: str) -> None:
    """A difference within fixed subjects is the plain mean; only the variance of what was seen is theirs."""
    frame = few_differ().assign(subject=lambda log: log["passage"] % 4)
    compared = er.compare(frame, groups="passage", strata="subject", baseline="old")
    one = compared.results.contrast(f"`{model} - old`")
    means = er.mean(frame, by="model", item="item", groups="passage", strata="subject")
    swapped = compared.with_cov(icc=1.0).with_cov(icc=0.5).results.contrast(f"`{model} - old`")
    expected = slowly(frame, model, "old", used=float(one.bse.iloc[0]) ** 2)
    limits = expected.limits(np.array([stats.t.ppf(0.975, one.dof.iloc[0])]))[0]
    doors = (one, swapped, means.contrast(f"{model} - old"), pickle.loads(pickle.dumps(one)))
    for results in doors:
        np.testing.assert_allclose(results.conf_int().iloc[0], limits, rtol=1e-9)
        shown = stats.t.sf(expected.statistic(-0.03), one.dof.iloc[0])[0]
        assert results.equivalence(0.03, kind="non-inferiority")["p_value"].iloc[0] == pytest.approx(shown)


def test_strata_of_one_loss_do_not_show_a_small_margin() -> None:
    n = 300
    score = np.ones((2, n))
    score[0, 7] = 0
    frame = pd.DataFrame({"model": np.repeat(["new", "old"], n), "item": np.tile(np.arange(n), 2)})
    frame = frame.assign(score=score.ravel(), subject=frame["item"] % 3)
    row = er.compare(frame, strata="subject", baseline="old").equivalence(0.01, kind="non-inferiority").iloc[0]
    # The exact test of three losses expected has .198.
    assert row["verdict"] == "cannot tell"
    assert 0.1 < row["p_value"] < 0.2


def one_loss(n: int = 300) -> pd.DataFrame:
    """Two models of which one lost one question, and a third on questions of its own."""
    score = np.ones((3, n))
    score[:2, [20, 41, 62, 83]] = score[0, 7] = score[2, [4, 9]] = 0
    frame = pd.DataFrame({"model": np.repeat(["new", "old", "away"], n), "item": np.tile(np.arange(n), 3)})
    frame["item"] += 1000 * (frame["model"] == "away")
    weight = np.tile(np.linspace(1, 2, n), 3)
    return frame.assign(score=score.ravel(), weight=weight, subject=frame["item"] % 4)


@pytest.mark.filterwarnings("ignore::evalreg.errors.ZeroVarianceWarning")
@pytest.mark.parametrize("groups", [None, "passage"])
def test_a_model_that_wins_all_questions_has_an_interval(groups: str | None) -> None:
    """The more is won the higher is the lower end, up to the last question."""
    n, lower, p = 20, [], []
    for lost in (4, 3, 2, 1, 0):
        frame = pd.DataFrame({"model": np.repeat(["new", "old"], n), "item": np.tile(np.arange(n), 2)})
        score = np.repeat([1.0, 0.0], n)
        score[:lost] = 0.0
        frame = frame.assign(score=score, passage=frame["item"] % 10)
        compared = er.compare(frame, baseline="old", groups=groups)
        row = compared.table.iloc[0]
        contrast = er.mean(frame, by="model", item="item", groups=groups).contrast("new - old")
        np.testing.assert_allclose(contrast.conf_int().iloc[0], row[["lower", "upper"]].astype(float))
        assert contrast.pvalues.iloc[0] == pytest.approx(row["p_value"])
        lower.append(row["lower"])
        p.append(row["p_value"])
        text = " ".join(compared.summary().as_text().split())
        assert ("all 20 questions differ" in text) == (lost == 0)
        assert ("1 of 20 questions does not differ" in text) == (lost == 1 and groups is not None)
    assert np.all(np.diff(lower) > 0)
    assert np.all(np.diff(p) < 0)
    assert p[-1] > 0
    if groups is None:
        # Score and exact limits of 20 of 20 wins.
        c2 = stats.t.ppf(0.975, n - 1) ** 2
        assert lower[-1] == pytest.approx(n / (n + c2))
        assert 0.97 * 0.025 ** (1 / n) < lower[-1] < 0.025 ** (1 / n)


def test_questions_that_differ_by_unequal_amounts_are_counted_and_weighed() -> None:
    d = np.array([0.25, 0.25, 0.25, -0.25, 0.25, 0.25, 1.0] + [0.0] * 8)
    old = np.where(d == 1, 0.0, 0.25)
    frame = pd.concat(
        pd.DataFrame({"model": model, "item": np.arange(d.size), "score": score})
        for model, score in (("old", old), ("new", old + d))
    )
    compared = er.compare(frame, item="item", baseline="old")
    assert compared.sign_test()[["wins", "losses"]].sum(axis=1).item() == 7
    text = " ".join(str(compared.summary()).split())
    # Kish's number of equal ones: (sum of |d|)^2 / sum of d^2.
    assert round(np.abs(d).sum() ** 2 / np.sum(d**2)) == 5
    assert "7 of 15 questions differ, by unequal amounts, and tell as much as about 5." in text


def test_one_question_is_not_several() -> None:
    text = " ".join(er.compare(one_loss()[lambda log: log["model"] != "away"]).summary().as_text().split())
    assert "1 of 300 questions differs." in text


@pytest.mark.parametrize("formula", ["score ~ 1", "score ~ 0 + model", "score ~ model"])
@pytest.mark.parametrize("weights", [None, "weight"])
def test_only_coefficients_that_are_differences_speak_of_differences(formula: str, weights: str | None) -> None:
    frame = one_loss()[lambda log: log["model"] != "away"]
    frame = frame.assign(score=frame["score"].where(frame["item"] == 7, 1.0))
    frame.loc[(frame["model"] == "old") & (frame["item"] == 9), "score"] = 0.0
    text = " ".join(er.fit(formula, frame, groups="item", weights=weights).summary().as_text().split())
    assert ("few clusters tell" in text) == (formula == "score ~ model")
    assert '"Intercept": few' not in text


TELL = "few clusters tell (about {} of {} by"


def test_what_does_not_allow_for_the_unseen_says_so() -> None:
    frame = one_loss()
    both = frame[frame["model"] != "away"]
    shares = {str(k): share for k, share in enumerate((0.4, 0.2, 0.2, 0.2))}
    named = both.assign(subject=both["subject"].astype(str))
    weighted = er.mean(both, by="model", item="item", weights="weight").contrast("new - old")
    macro = er.mean(named, by="model", item="item", strata="subject", strata_weights=shares).contrast("new - old")
    doors = {
        "unpaired": (er.compare(both, baseline="old", paired=False), 9, 600),
        "plain": (er.compare(both, baseline="old", icc=None), 1, 300),
        "weights": (weighted, 1, 300),
        "other weights of strata": (macro, 1, 300),
        "regression": (er.fit("score ~ model", both, groups="item"), 1, 300),
        "coefficient": (er.fit("score ~ model", both, groups="item").contrast(np.array([[0.0, 1.0]])), 1, 300),
    }
    for door, (results, told, n) in doors.items():
        for text in (results.summary().as_text(), results.summary().as_markdown(), results.summary().as_html()):
            assert TELL.format(told, n) in " ".join(text.split()), door
    # Of three pairs two share no question; the third has the rule.
    with pytest.warns(er.errors.IndependenceWarning):
        text = " ".join(er.compare(frame).summary().as_text().split())
    assert "away" in text[text.index(TELL[:17]) - 60 : text.index(TELL[:17])]
    assert "also allow for differences that were not seen" in text


def test_where_many_tell_or_the_rule_does_nothing_is_said() -> None:
    rng = np.random.default_rng(2)
    frame = one_loss()[lambda log: log["model"] != "away"]
    assert "few clusters tell" not in er.compare(frame, baseline="old").summary().as_text()
    assert "few clusters tell" not in er.mean(frame, by="model", item="item").contrast("new - old").summary().as_text()
    wide = frame.assign(score=5 * frame["score"])
    assert "few clusters tell" not in er.fit("score ~ model", wide, groups="item").summary().as_text()
    many = frame.assign(score=(rng.random(len(frame)) < 0.7).astype(float))
    for results in (
        er.compare(many, baseline="old", paired=False),
        er.fit("score ~ model", many, groups="item"),
        er.mean(many, by="model", item="item", weights="weight").contrast("new - old"),
    ):
        assert "few clusters tell" not in results.summary().as_text()


def test_wald_by_name_is_the_plain_test() -> None:
    contrast = er.mean(few_differ(), by="model", item="item", groups="passage").contrast("new - old")
    theta, se, t = contrast.params.iloc[0], contrast.bse.iloc[0], stats.t.ppf(0.975, contrast.dof.iloc[0])
    np.testing.assert_allclose(contrast.conf_int(method="wald").iloc[0], [theta - t * se, theta + t * se])
    assert float(contrast.t_test("`new - old` = 0", method="wald").pvalue) == pytest.approx(
        2 * stats.t.sf(abs(theta / se), contrast.dof.iloc[0])
    )


def test_types_and_other_clusterings_go_the_same_way() -> None:
    frame = few_differ()
    whole = er.compare(frame.astype({"score": int}), groups="passage").table
    for other in (frame, frame.astype({"score": float}), frame.astype({"score": object})):
        pd.testing.assert_frame_equal(er.compare(other, groups="passage").table, whole)
    apart, joined = er.compare(frame), er.compare(frame, groups="passage")
    pd.testing.assert_frame_equal(joined.with_cov(groups=None).table, er.compare(frame, cov="naive").table)
    # Clusters make what was not seen go together, and so do larger ones.
    width = {
        name: float((table["upper"] - table["lower"]).iloc[0])
        for name, table in (
            ("item", apart.table),
            ("none", joined.with_cov(icc=0).table),
            ("half", joined.table),
            ("whole", joined.with_cov(icc=1.0).table),
        )
    }
    assert width["item"] < width["half"] < width["whole"]
    assert width["none"] < width["half"]


def test_engines_know_the_clusters_of_questions_too() -> None:
    polars = pytest.importorskip("polars")
    frame = few_differ(n=120, passages=12)
    flip = (frame["model"] == "new") & (frame["item"] % 5 == 0)
    frame.loc[flip, "score"] ^= True
    frame["score"] = frame["score"].astype(float)
    held, lazy = (
        er.mean(data, by="model", item="item", groups="passage") for data in (frame, polars.from_pandas(frame).lazy())
    )
    compared = er.compare(frame, groups="passage", baseline="old").table.loc[("new", "old")]
    for make in (lambda: held, lambda: lazy, lambda: pickle.loads(pickle.dumps(lazy))):
        ends = make().contrast("new - old").conf_int().iloc[0]
        np.testing.assert_allclose(ends, compared[["lower", "upper"]].astype(float), rtol=1e-9)


def _in_subjects() -> pd.DataFrame:
    return few_differ().assign(subject=lambda log: log["passage"] % 4, score=lambda log: log["score"].astype(float))


@functools.cache
def _in_memory(groups: str | None) -> tuple[er.Results, pd.DataFrame]:
    """The mean and the table of differences, once for all engines."""
    frame = _in_subjects()
    mean = er.mean(frame, by="model", item="item", groups=groups, strata="subject")
    return mean, er.compare(frame, groups=groups, strata="subject").table


@pytest.mark.parametrize(
    ("engine", "groups"),
    [
        ("polars", None),
        ("polars", "passage"),
        ("duckdb", "passage"),
        pytest.param("duckdb", None, marks=pytest.mark.slow),
    ],
)
def test_engines_follow_the_rule_within_strata_or_say_what_they_lack(engine: str, groups: str | None) -> None:
    module = pytest.importorskip(engine)
    frame = _in_subjects()
    if engine == "polars":
        lazy = module.from_pandas(frame).lazy()
    else:
        database = module.connect()  # older releases close it with the last reference
        lazy = database.register("frame", frame).table("frame")
    held, in_memory = _in_memory(groups)
    found = er.mean(lazy, by="model", item="item", groups=groups, strata="subject")
    copied = pickle.loads(pickle.dumps(found))
    for results in (held, found):
        one = results.contrast("new - old")
        assert "also allow for differences that were not seen" in " ".join(one.summary().as_text().split())
    expected = held.contrast("new - old")
    np.testing.assert_allclose(found.contrast("new - old").conf_int(), expected.conf_int(), rtol=1e-9)
    assert found.contrast("new - old").pvalues.iloc[0] == pytest.approx(expected.pvalues.iloc[0])
    # The questions are not by passage, and a copy has no rows to look them up in.
    if groups is not None:
        with pytest.raises(er.errors.NotAvailableError, match=r'"item".*no longer has its source rows'):
            copied.contrast("new - old").conf_int()
    in_engine = er.compare(lazy, groups=groups, strata="subject").table
    pd.testing.assert_frame_equal(in_engine, in_memory, rtol=1e-9)


@pytest.mark.parametrize("icc", [-0.1, 1.5, "high", True])
def test_wrong_correlations_are_errors(icc: object) -> None:
    with pytest.raises(er.errors.EvalregError, match="`icc` must"):
        er.compare(few_differ(), icc=icc)  # type: ignore[arg-type]


def test_scores_all_of_which_differ_keep_the_t_test(rng: np.random.Generator) -> None:
    scores = rng.uniform(0.4, 0.5, (2, 30))
    frame = pd.DataFrame(
        {"model": np.repeat(["a", "b"], 30), "item": np.tile(np.arange(30), 2), "score": scores.ravel()}
    )
    assert er.compare(frame, baseline="b").table["p_value"].iloc[0] == pytest.approx(stats.ttest_rel(*scores).pvalue)
