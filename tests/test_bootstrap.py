"""The cluster bootstrap: a slow loop that stacks whole clusters, closed forms, and scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import evalreg as er
from evalreg.errors import ArgumentError, ArgumentTypeError, EvalregError, EvalregWarning
from evalreg.inference.simultaneous import block_stream
from evalreg.resampling.draws import BLOCK, boot_chunks

# The same sums in another order.
SAME = 1e-9


def weights_of(kind: Any, n_clusters: list[int], draws: int, seed: int = 0) -> list[np.ndarray]:
    """The weights that a bootstrap with that seed draws, one array an axis."""
    parts = []
    for block, first in enumerate(range(0, draws, BLOCK)):
        chunks = boot_chunks(kind, n_clusters, min(BLOCK, draws - first), block_stream(seed, block))
        parts.extend(list(chunks))
    return [np.concatenate([part[axis] for part in parts]) for axis in range(len(n_clusters))]


def codes(labels: pd.Series) -> np.ndarray:
    return pd.factorize(labels)[0]


def stacked(frame: pd.DataFrame, by_row: np.ndarray) -> pd.DataFrame:
    """Each row as often as its weight says."""
    return frame.iloc[[i for i, n in enumerate(by_row) for _ in range(int(n))]].reset_index(drop=True)


def line(frame: pd.DataFrame) -> pd.Series:
    """Least squares without the cost of a formula, which a statistic of every draw pays each time."""
    X = np.column_stack([np.ones(len(frame)), frame["n_words"]])
    return pd.Series(np.linalg.lstsq(X, frame["score"].to_numpy(), rcond=None)[0], index=["Intercept", "n_words"])


def unequal(seed: int = 3) -> pd.DataFrame:
    return er.datasets.passages(n_passages=14, questions_per_passage=4, unequal=True, seed=seed)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_means_of_models_are_those_of_stacked_clusters():
    log = er.datasets.paired(n_passages=12, seed=5)
    results = er.mean(log, by="model", item="question", groups="passage")
    boot = results.bootstrap(draws=150)
    passage = codes(log["passage"])
    [drawn] = weights_of("multinomial", [12], 150)
    for i in (0, 1, 127, 128, 149):
        means = stacked(log, drawn[i][passage]).groupby("model")["score"].mean()
        assert boot.draws[i] == pytest.approx(means[list(boot.names)].to_numpy(), rel=SAME)
    difference = results.contrast("new - old").bootstrap(draws=150)
    assert difference.draws[:, 0] == pytest.approx(boot.draws @ [1, -1], abs=1e-12)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["multinomial", "bayesian"])
def test_regressions_are_those_of_weighted_clusters(rng, kind, weighted):
    log = unequal().assign(w=lambda d: rng.uniform(0.5, 2, len(d)), x=lambda d: rng.standard_normal(len(d)))
    results = er.fit("score ~ x", log, groups="passage", weights="w" if weighted else None)
    boot = results.bootstrap(draws=99, weights=kind)
    [drawn] = weights_of(kind, [14], 6)
    own = log["w"].to_numpy() if weighted else np.ones(len(log))
    for i in range(6):
        # A row that stands twice is a row of weight two.
        slow = smf.wls("score ~ x", log, weights=own * drawn[i][codes(log["passage"])]).fit()
        assert boot.draws[i] == pytest.approx(slow.params.to_numpy(), rel=1e-8)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_crossed_clusters_are_drawn_on_each_axis():
    log = er.datasets.judge_log(n_prompts=9, n_judges=4, n_models=3, seed=2)
    log = log.assign(score=lambda d: (d["winner"] == "left").astype(float))
    boot = er.fit("score ~ 1", log, groups="prompt + judge").bootstrap(draws=99)
    prompts, judges = weights_of("multinomial", [9, 4], 30)
    for i in (0, 7, 29):
        by_row = prompts[i][codes(log["prompt"])] * judges[i][codes(log["judge"])]
        assert boot.draws[i, 0] == pytest.approx(np.average(log["score"], weights=by_row), rel=SAME)
    function = er.bootstrap(log, lambda frame: frame["score"].mean(), groups="prompt + judge", draws=99)
    assert function.draws == pytest.approx(boot.draws, rel=SAME)
    assert boot.n_clusters == {"prompt": 9, "judge": 4}


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_function_of_the_frame_gives_the_draws_of_the_results():
    log = unequal()
    results = er.fit("score ~ n_words", log, groups="passage").bootstrap(draws=140)
    function = er.bootstrap(log, line, groups="passage", draws=140)
    assert function.names == results.names
    assert function.estimate.to_numpy() == pytest.approx(results.estimate.to_numpy(), rel=SAME)
    assert function.draws == pytest.approx(results.draws, rel=1e-7)
    weighted = er.bootstrap(
        log,
        lambda frame, weights: np.average(frame["score"], weights=weights),
        groups="passage",
        draws=140,
        weights="bayesian",
    )
    other = er.mean(log, groups="passage").bootstrap(draws=140, weights="bayesian")
    assert weighted.draws == pytest.approx(other.draws, rel=SAME)


def test_the_spread_of_equal_clusters_has_a_closed_form():
    log = er.datasets.passages(n_passages=25, questions_per_passage=4, seed=3)
    means = log.groupby("passage")["score"].mean().to_numpy()
    squares = float(np.sum((means - means.mean()) ** 2))
    results = er.mean(log, groups="passage")
    for kind, variance in (("multinomial", squares / 25**2), ("bayesian", squares / (25 * 26))):
        boot = results.bootstrap(draws=20_000, weights=kind)
        assert boot.bse["mean"] == pytest.approx(np.sqrt(variance), rel=0.025)
        assert boot.draws.mean() == pytest.approx(means.mean(), abs=4 * np.sqrt(variance / 20_000))


def test_quantiles_are_order_statistics(rng):
    log = er.datasets.passages(n_passages=25, seed=3)
    boot = er.fit("score ~ 1", log, groups="passage").bootstrap(draws=199, alpha=0.1)
    ordered = np.sort(boot.draws[:, 0])
    assert boot.conf_int().to_numpy()[0] == pytest.approx([ordered[9], ordered[189]])
    value = boot.estimate["Intercept"]
    basic = boot.conf_int(kind="basic").to_numpy()[0]
    assert basic == pytest.approx([2 * value - ordered[189], 2 * value - ordered[9]])
    assert boot.conf_int(alpha=0.02).to_numpy()[0] == pytest.approx([ordered[1], ordered[197]])


@pytest.mark.filterwarnings("ignore::evalreg.errors.SkewedScoresWarning")
def test_bca_is_scipys_on_the_means_of_equal_clusters(rng):
    skewed = rng.exponential(1, 30) ** 1.5
    log = pd.DataFrame({"score": np.repeat(skewed, 3), "g": np.repeat(np.arange(30), 3)})
    boot = er.mean(log, groups="g").bootstrap(draws=100_000, kind="bca", alpha=0.1)
    options = {"n_resamples": 100_000, "confidence_level": 0.9, "random_state": np.random.default_rng(1)}
    other = stats.bootstrap((skewed,), np.mean, method="BCa", **options)
    ends = boot.conf_int().to_numpy()[0]
    plain = boot.conf_int(kind="percentile").to_numpy()[0]
    expected = np.array([other.confidence_interval.low, other.confidence_interval.high])
    assert ends == pytest.approx(expected, abs=0.03)
    assert np.abs(plain - expected).max() > 0.1


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.filterwarnings("ignore:12 draws are few")
@pytest.mark.parametrize("formula", ["score ~ 1", "score ~ n_words"])
def test_standard_errors_of_draws_count_a_cluster_drawn_twice_as_two(formula):
    log = unequal()
    boot = er.fit(formula, log, groups="passage", cov="CR0").bootstrap(draws=12, kind="studentized", alpha=4 / 13)
    [drawn] = weights_of("multinomial", [14], 12)
    passage = codes(log["passage"])
    for i in range(5):
        copies = [log[passage == g].assign(copy=f"{g}.{j}") for g in range(14) for j in range(int(drawn[i][g]))]
        frame = pd.concat(copies, ignore_index=True)
        kwds = {"groups": pd.factorize(frame["copy"])[0], "use_correction": False}
        slow = smf.ols(formula, frame).fit(cov_type="cluster", cov_kwds=kwds)
        assert boot.draws_se is not None
        assert boot.draws_se[i] == pytest.approx(slow.bse.to_numpy(), rel=1e-7)
    t = np.sort((boot.draws[:, -1] - boot.values[-1]) / boot.draws_se[:, -1])
    assert boot.se is not None
    # The second and the second to last of twelve stand at 2/13 and 11/13.
    slow_ends = boot.values[-1] - t[[10, 1]] * boot.se[-1]
    assert boot.conf_int(alpha=4 / 13).to_numpy()[-1] == pytest.approx(slow_ends, rel=SAME)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_studentized_draws_agree_with_the_cr0_of_the_data():
    log = unequal()
    for results in (
        er.mean(log, by="subject", groups="passage", cov="CR0"),
        er.fit("score ~ n_words", log, groups="passage", cov="CR0"),
    ):
        boot = results.bootstrap(draws=99, kind="studentized")
        assert boot.se == pytest.approx(results.bse.to_numpy(), rel=1e-8)


@pytest.mark.slow
def test_intervals_of_many_clusters_cover(rng):
    hits = np.zeros(4)
    kinds = ("percentile", "basic", "bca", "studentized")
    for i in range(150):
        log = er.datasets.passages(n_passages=50, questions_per_passage=4, icc=0.2, seed=i)
        results, truth = er.fit("score ~ 1", log, groups="passage"), log.attrs["truth"]["mean"]
        for j, kind in enumerate(kinds):
            low, high = results.bootstrap(draws=399, kind=kind, seed=i).conf_int().to_numpy()[0]
            hits[j] += low <= truth <= high
    assert np.all(hits / 150 >= 0.88)
    assert np.all(hits / 150 <= 0.995)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_cluster_drawn_twice_has_two_ids():
    samples: list[pd.DataFrame] = []

    def rows(frame: pd.DataFrame) -> int:
        samples.append(frame)
        return len(frame)

    log = unequal()
    er.bootstrap(log, rows, groups="passage", draws=99)
    assert {frame["passage"].nunique() for frame in samples} == {14}
    assert max(len(frame) / 14 for frame in samples) <= log["passage"].value_counts().max()
    samples.clear()
    judged = er.datasets.judge_log(n_prompts=9, n_judges=4, n_models=3, seed=2)
    er.bootstrap(judged, rows, groups="prompt + judge", draws=99)
    assert max(frame["prompt"].nunique() for frame in samples) == 9
    assert max(frame["judge"].nunique() for frame in samples) <= 4
    # Copies of copies are kept apart, so that no meeting of the two grows.
    meetings = [frame.groupby(["prompt", "judge"]).size().max() for frame in samples]
    assert max(meetings) == judged.groupby(["prompt", "judge"]).size().max()


@pytest.mark.parametrize("weights", ["multinomial", "bayesian"])
@pytest.mark.parametrize("kind", ["percentile", "bca"])
def test_draws_that_are_all_alike_give_no_interval(kind, weights):
    """A perfect score is not known to a point."""
    with pytest.warns(EvalregWarning, match="all alike"):
        boot = er.bootstrap(LOG, lambda *_: 1 / 3, groups="passage", draws=199, kind=kind, weights=weights)
    assert pd.concat([boot.bse, boot.conf_int()]).isna().all(axis=None)


def test_draws_do_not_depend_on_their_number():
    log = er.datasets.passages(n_passages=20, seed=1)

    def middle(frame):
        return frame["score"].mean()

    more, fewer = (er.bootstrap(log, middle, groups="passage", draws=n) for n in (140, 99))
    assert np.array_equal(fewer.draws, more.draws[:99])
    other = er.bootstrap(log, middle, groups="passage", draws=99, seed=1)
    assert not np.array_equal(fewer.draws, other.draws)
    results = er.fit("score ~ 1", log, groups="passage")
    assert np.array_equal(results.bootstrap(draws=200).draws, results.bootstrap(draws=500).draws[:200])
    assert results.bootstrap(draws=99, seed=np.random.default_rng(2)).seed is None


# What is refused

LOG = er.datasets.passages(n_passages=20, seed=1)


def failing(frame: Any) -> float:
    if frame["passage"].value_counts().max() < 100 and frame.index.duplicated().any():
        raise ZeroDivisionError("nothing left")
    return 1.0


@pytest.mark.parametrize(
    ("statistic", "error", "parts"),
    [
        (failing, ArgumentError, ["draw 0", "ZeroDivisionError", "nothing left"]),
        (lambda frame: 1 / 0, ArgumentError, ["the data as they are", "ZeroDivisionError"]),
        (lambda frame: "high", ArgumentTypeError, ["number", "str", "the data as they are"]),
        (lambda frame: np.ones((2, 2)), ArgumentTypeError, ["number", "ndarray"]),
        (lambda frame: [], ArgumentTypeError, ["number", "list"]),
        (lambda frame: None if frame.index.duplicated().any() else 1.0, ArgumentTypeError, ["draw 0", "NoneType"]),
        (lambda frame: [1.0] * (1 + frame.index.duplicated().any()), ArgumentError, ["1 for the data", "2 for draw 0"]),
        (lambda frame: {f"n{len(frame.index.unique())}": 1.0}, ArgumentError, ["same names", "draw 0"]),
        ("mean", ArgumentTypeError, ["`statistic`", "function", "str"]),
    ],
)
def test_a_statistic_that_fails_is_shown_with_its_draw(statistic, error, parts):
    with pytest.raises(error) as caught:
        er.bootstrap(LOG, statistic, groups="passage", draws=300)
    assert isinstance(caught.value, EvalregError)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_thin_board_is_solved_anew_from_the_pairs_that_were_drawn():
    log = er.datasets.judge_log(n_models=6, n_prompts=25, n_judges=1, pairs_per_prompt=3, spread=0.3, seed=4)
    log = log.assign(score=log["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0}))
    sides = {"left": "left", "right": "right", "score": "score"}
    board = er.win_rate(log, **sides, groups="prompt")
    drawn = board.bootstrap(draws=99)
    # The same prompts drawn, by hand: copies of their rows, the win rates from the pairs that are left.
    [weights] = weights_of("multinomial", [25], 99)
    for values, weight in zip(drawn.draws[::4], weights[::4], strict=True):
        copies = np.repeat(np.arange(len(log)), weight[codes(log["prompt"])].astype(int))
        again = er.win_rate(log.iloc[copies], **sides)
        np.testing.assert_allclose(values, again.params.reindex(board.params.index), rtol=1e-10)
    assert np.isfinite(drawn.draws).all()
    difference = board.contrast({"model-01": 1, "model-02": -1}).bootstrap(draws=99)
    np.testing.assert_allclose(difference.draws[:, 0], drawn.draws[:, 0] - drawn.draws[:, 1], rtol=1e-10, atol=1e-13)
    twice = board.net_benefit().bootstrap(draws=99)
    np.testing.assert_allclose(twice.draws, 2 * drawn.draws - 1, rtol=1e-10, atol=1e-13)


# --- how many draws an interval needs, and draws that are lost --------------------------------------------------------


@pytest.mark.parametrize(("alpha", "least"), [(0.05, 39), (0.01, 199), (0.1, 19), (0.5, 3)])
def test_draws_that_cannot_carry_the_level_are_refused(alpha, least):
    results = er.mean(er.datasets.passages(n_passages=20, seed=1), groups="passage")
    for call in (
        lambda draws: results.bootstrap(draws=draws, alpha=alpha),
        lambda draws: er.bootstrap(LOG, lambda d: d["score"].mean(), groups="passage", draws=draws, alpha=alpha),
    ):
        with pytest.raises(ArgumentError, match=f"at least {least} for a"):
            call(least - 1)
        with pytest.warns(EvalregWarning, match=f"{least} draws are few for a"):
            boot = call(least)
        # The ends are the smallest and the largest draw.
        np.testing.assert_allclose(boot.conf_int().to_numpy()[0], [boot.draws.min(), boot.draws.max()], rtol=1e-12)
        with pytest.raises(ArgumentError, match="larger `alpha`"):
            boot.conf_int(alpha=alpha / 2)
