"""Values that look odd and have a right answer: missing ones, labels of any kind, and logs too thin to say much."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf
from frames import BY_INDEX, DUELS, LOG, PLAYERS, SCORES, TIES, VERDICTS, with_value
from statsmodels.stats.proportion import proportion_confint

import evalreg as er
from evalreg.errors import FewClustersWarning, LeverageWarning, SparseBoardWarning, ZeroVarianceWarning

# Rounding of sums in another order; nothing here is ill-conditioned.
SAME = 1e-12


def put(**columns: Any) -> pd.DataFrame:
    """The log with other columns."""
    return LOG.assign(**columns)


def said(verdict: dict[Any, Any]) -> pd.DataFrame:
    """The duels with their verdicts written otherwise."""
    return DUELS.assign(winner=DUELS["winner"].map(lambda value: verdict.get(value, value)).astype(object))


def test_missing_values_are_dropped_and_counted_once_in_order() -> None:
    frame = with_value(LOG, "score", [0, 1, 2], np.nan, x=([2, 3], np.nan), passage=([3, 4, 5, 6], None))
    results = er.fit("score ~ x", frame, groups="passage")
    assert results.dropped.to_dict() == {"score": 3, "covariate": 1, "group": 3}
    assert results.nobs == len(LOG) - 7
    kept = er.fit("score ~ x", LOG[7:], groups="passage")
    np.testing.assert_allclose(results.to_frame(), kept.to_frame(), rtol=SAME)


TRUE = LOG["score"] == 1
BOOLEANS: dict[str, Callable[[], Any]] = {
    "numpy": lambda: put(score=TRUE),
    "nullable": lambda: put(score=TRUE.astype("boolean")),
    "nullable with NA": lambda: with_value(put(score=TRUE.astype("boolean")), "score", [3], pd.NA),
    "objects": lambda: put(score=TRUE.astype(object)),
    "objects with None": lambda: with_value(put(score=TRUE), "score", [3], None),
    "polars": lambda: pl.from_pandas(put(score=TRUE)),
    "polars with null": lambda: pl.from_pandas(with_value(put(score=TRUE.astype("boolean")), "score", [3], pd.NA)),
}


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("estimate", [er.mean, partial(er.fit, "score ~ x")], ids=["mean", "fit"])
def test_boolean_scores_are_zero_and_one(name: str, estimate: Callable[..., er.Results]) -> None:
    missing = "with" in name
    expected = estimate(with_value(LOG, "score", [3], np.nan) if missing else LOG, groups="passage")
    results = estimate(BOOLEANS[name](), groups="passage")
    pd.testing.assert_frame_equal(results.to_frame(), expected.to_frame(), rtol=SAME)
    assert results.dropped["score"] == (1 if missing else 0)


@pytest.mark.parametrize(
    "with_labels",
    [
        lambda labels: er.mean(LOG, groups=labels),
        lambda labels: er.fit("score ~ 1", LOG, groups=labels),
        lambda labels: er.mean(LOG).with_cov(groups=labels),
        lambda labels: er.mean(LOG, groups={"passage": labels}),
        lambda labels: er.infer(er.from_statsmodels(smf.ols("score ~ 1", LOG).fit()), groups=labels),
    ],
    ids=["mean", "fit", "with_cov", "dict", "infer"],
)
def test_a_series_is_aligned_by_its_index(with_labels: Callable[[Any], er.Results]) -> None:
    shuffled = BY_INDEX.sample(frac=1.0, random_state=1)
    assert shuffled.to_list() != BY_INDEX.to_list()
    expected = er.mean(LOG, groups="passage").bse.iloc[0]
    assert with_labels(shuffled).bse.iloc[0] == pytest.approx(expected, rel=SAME)
    assert with_labels(shuffled.to_numpy()).bse.iloc[0] != pytest.approx(expected, rel=1e-3)


def test_a_series_of_weights_is_aligned_by_its_index() -> None:
    shuffled = LOG["w"].sample(frac=1.0, random_state=1)
    np.testing.assert_allclose(
        er.mean(LOG, weights=shuffled).to_frame(), er.mean(LOG, weights="w").to_frame(), rtol=SAME
    )


def test_an_equal_index_with_repeats_is_taken_as_it_stands() -> None:
    frame = LOG.set_axis([0] * len(LOG))
    results = er.mean(frame, groups=pd.Series(LOG["passage"].to_numpy(), index=frame.index))
    assert results.bse.iloc[0] == pytest.approx(er.mean(LOG, groups="passage").bse.iloc[0], rel=SAME)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("separator", ["_", ":", "\x1f", ""])
@pytest.mark.parametrize("groups", ["left + right", ["left", "right"], "left:right"])
def test_ids_that_collide_when_joined_stay_apart(separator: str, groups: Any) -> None:
    left = [f"a{separator}b", "a", "a", f"a{separator}b"]
    right = ["c", f"b{separator}c", "c", f"b{separator}c"]
    frame = pd.DataFrame({"score": np.arange(16.0) % 3, "left": left * 4, "right": right * 4})
    plain = frame.assign(left=[0, 1, 1, 0] * 4, right=[0, 1, 0, 1] * 4)
    results, expected = er.mean(frame, groups=groups), er.mean(plain, groups=groups)
    assert results.n_clusters["left:right"] == 4
    assert results.n_clusters == expected.n_clusters
    np.testing.assert_allclose(results.to_frame(), expected.to_frame(), rtol=SAME)


def test_unused_categories_are_neither_clusters_nor_columns() -> None:
    passages = pd.Categorical(LOG["passage"], categories=["never", *LOG["passage"].unique(), "nor this"])
    judges = pd.Categorical(LOG["judge"], categories=["j0", "never", "j1", "j2"])
    results = er.fit("score ~ judge", put(passage=passages, judge=judges), groups="passage")
    assert results.n_clusters == {"passage": 10}
    assert list(results.params.index) == ["Intercept", "judge[T.j1]", "judge[T.j2]"]
    assert er.mean(put(passage=passages), groups="passage").n_clusters == {"passage": 10}


def test_a_level_whose_rows_were_dropped_is_not_a_column() -> None:
    frame = with_value(LOG, "score", np.flatnonzero(LOG["judge"] == "j1"), np.nan)
    assert list(er.fit("score ~ judge", frame).params.index) == ["Intercept", "judge[T.j2]"]


@pytest.mark.parametrize(("score", "low", "high"), [(1.0, 0.5, 1.0), (0.0, 0.0, 0.5), (0.5, 0.1, 0.9)])
@pytest.mark.parametrize("estimate", [er.mean, lambda data, **options: er.fit("score ~ 1", data, **options)])
def test_constant_bounded_scores_have_no_p_value_but_a_real_interval(
    estimate: Callable[..., er.Results], score: float, low: float, high: float
) -> None:
    with pytest.warns(ZeroVarianceWarning, match="do not vary"):
        results = estimate(put(score=score), groups="passage")
    assert results.bse.tolist() == [0.0]
    assert np.isnan(results.pvalues).all()
    assert np.isnan(results.tvalues).all()
    interval = results.conf_int().iloc[0]
    assert low <= interval[0] < interval[1] <= high
    # Wilson's of as many rows, were they independent.
    alone = proportion_confint(score * 40, 40, method="wilson")
    assert interval[1] - interval[0] > alone[1] - alone[0]


def few_clusters(**options: Any) -> er.Results:
    """Five coefficients, four clusters."""
    frame = put(passage=np.where(LOG["passage"] < "p3", LOG["passage"], "p3"))
    with pytest.warns(FewClustersWarning, match="4 passage clusters: "):
        return er.fit("score ~ x + w + C(judge)", frame, groups="passage", **options)


@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3"])
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_fewer_clusters_than_coefficients_gives_finite_t_tests_or_a_reason(cov: Any) -> None:
    results = few_clusters(cov=cov)
    known = results.bse > 0
    assert known.any()
    assert np.isfinite(results.pvalues[known]).all()
    notes = " ".join(text for _, text in results.notes)
    for name in results.params.index[~known]:
        assert name in notes


@pytest.mark.parametrize(
    ("options", "n_hypotheses"), [({}, 3), ({}, 4), ({"cov": "CR0", "dof": "satterthwaite"}, 4)], ids=str
)
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_joint_test_without_degrees_of_freedom_is_missing_with_its_reason(
    options: dict[str, Any], n_hypotheses: int
) -> None:
    test = few_clusters(**options).wald_test(np.eye(5)[-n_hypotheses:])
    assert np.isnan(test.pvalue)
    assert f"degrees of freedom cannot test {n_hypotheses} contrasts" in test.reason


# Boards.


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ({"tie": "Tie"}, {"Tie": "tie"}),
        ({"left": "A", "right": "B", "tie": "C"}, {"A": "left", "B": "right", "C": "tie"}),
        ({"left": 1, "right": 2, "tie": 0}, {1: "left", 2: "right", 0: "tie"}),
        ({"left": True, "right": False}, {True: "left", False: "right"}),
        ({}, {"left": "left"}),
        # Of models that this log does not have nothing is asked.
        ({}, {"X": "zed", "left": "left"}),
    ],
)
def test_declared_labels_are_read(written: dict[Any, Any], labels: dict[Any, str]) -> None:
    expected = er.win_rate(DUELS, **VERDICTS)
    found = er.win_rate(said(written), **VERDICTS, labels=labels)
    assert found.params.to_dict() == expected.params.to_dict()
    assert found.bse.to_dict() == expected.bse.to_dict()


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_models_called_like_sides_are_fine_once_nothing_is_ambiguous() -> None:
    named = DUELS.replace({"left": {"ada": "left"}, "right": {"ada": "left"}})
    expected = er.win_rate(DUELS, **VERDICTS)
    by_score = er.win_rate(named, **SCORES)
    by_labels = er.win_rate(named, **VERDICTS, labels={"left": "left"})
    for board in (by_score, by_labels):
        assert board.params.rename({"left": "ada"})[PLAYERS].tolist() == pytest.approx(expected.params.tolist())


@pytest.mark.parametrize("side", ["left", "right"])
def test_whole_numbers_are_one_model_however_they_are_stored(side: str) -> None:
    number = {name: 7 * i for i, name in enumerate(PLAYERS)}
    frame = DUELS.assign(left=DUELS["left"].map(number), right=DUELS["right"].map(number))
    holed = frame.assign(**{side: frame[side].where(frame.index != 3)})
    assert holed[side].dtype == float
    found, expected = er.win_rate(holed, **VERDICTS), er.win_rate(DUELS.drop(index=3), **VERDICTS)
    assert list(found.params.index) == ["0", "14", "21", "7"]
    assert found.params[["0", "7", "14", "21"]].tolist() == pytest.approx(expected.params.tolist(), rel=1e-12)
    # Verdicts by name, as floats too.
    won = np.where(holed["winner"] == "left", frame["left"], frame["right"]).astype(float)
    by_name = holed.assign(winner=np.where(holed["winner"] == "tie", np.nan, won))
    same = er.win_rate(DUELS.drop(index=3).query("winner != 'tie'"), **VERDICTS)
    found = er.win_rate(by_name, **VERDICTS)
    assert found.params[["0", "7", "14", "21"]].tolist() == pytest.approx(same.params.tolist(), rel=1e-12)


def test_missing_values_are_dropped_and_counted_once() -> None:
    frame = DUELS.copy()
    frame.loc[[1, 2], "winner"] = None
    frame.loc[[2, 3], "left"] = None
    frame.loc[[3, 4, 5], "judge"] = None
    frame.loc[6, "weight"] = np.nan
    frame.loc[7, "lang"] = None
    options: dict[str, Any] = {"weights": "weight", "by": "lang", "cov": "CR1"}
    options |= {"left": "left", "right": "right", "winner": "winner", "groups": ["prompt", "judge"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", er.errors.EvalregWarning)
        board = er.win_rate(frame, **options)
        clean = er.win_rate(DUELS.drop(index=range(1, 8)), **options)
    assert board.dropped.to_dict() == {"score": 2, "covariate": 3, "group": 2}
    assert board.nobs == 113
    assert board.params.tolist() == clean.params.tolist()
    np.testing.assert_allclose(board.cov_params(), clean.cov_params(), rtol=1e-12)
    assert board.influence().index.tolist() == [0, *range(8, 120)]


def test_labels_may_say_that_a_verdict_is_none() -> None:
    board = er.win_rate(said({"tie": "error"}), **VERDICTS, labels={"error": None})
    assert board.dropped["score"] == TIES.size
    assert board.nobs == 120 - TIES.size


def test_rows_alike_are_counted_where_no_key_says_what_a_comparison_is() -> None:
    def sentences(frame: pd.DataFrame, **more: Any) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", er.errors.EvalregWarning)
            board = er.win_rate(frame, **{**VERDICTS, "groups": "prompt + judge"}, **more)
        return " ".join(str(board.summary()).split())

    twice = pd.concat([DUELS, DUELS.iloc[[3, 7]]], ignore_index=True)
    assert "2 rows equal an earlier one" in sentences(twice)
    assert "`key`" in sentences(twice)
    assert "equal an earlier one" not in sentences(DUELS)
    assert "equal an earlier one" not in sentences(DUELS, key=["prompt", "judge"])


@pytest.mark.parametrize("frame", [DUELS.iloc[[0]], DUELS.iloc[[1]]])
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_one_comparison_has_a_rate_and_no_error(frame: pd.DataFrame) -> None:
    board = er.win_rate(frame, **{**SCORES, "groups": None})
    assert board.params.sum() == 1
    assert board.bse.isna().all()
    assert board.head_to_head()["se"].isna().all()
    assert "rests on a single row" in " ".join(str(board.summary()).split())


@pytest.mark.filterwarnings("ignore::evalreg.errors.SparseBoardWarning")
# Thin logs


def thin_log(n_lone: int = 1) -> pd.DataFrame:
    """The log, and a model eve that met ada and bob on one or two prompts of its own."""
    rows = [("eve", name, verdict, p) for name, verdict in (("ada", 1.0), ("bob", 1.0)) for p in range(n_lone)]
    more = pd.DataFrame(rows, columns=["left", "right", "score", "prompt"])
    more = more.loc[more.index.repeat(4)].assign(judge=["j0", "j1", "j2", "j1"] * len(rows))
    flipped = (more["judge"] == "j1") & (more["prompt"] == 0)
    more["score"] = np.where(flipped, 1 - more["score"], more["score"])
    return pd.concat([DUELS, more.assign(prompt=[f"own{p}" for p in more["prompt"]])], ignore_index=True)


def warned(frame: pd.DataFrame, category: type[Warning], **options: Any) -> tuple[er.Board, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        board = er.win_rate(frame, **{**SCORES, **options})
    return board, [str(found.message) for found in caught if issubclass(found.category, category)]


@pytest.mark.parametrize("cov", ["CR0", "CR1"])
def test_fixed_weights_that_are_too_thin_are_named(cov: str) -> None:
    _, texts = warned(thin_log(), SparseBoardWarning, cov=cov)
    (text,) = [text for text in texts if "far too small" in text]
    assert '"ada", "bob", "eve"' in text
    assert '"jackknife"' in text
    assert '"cyd"' not in text
    assert '"dan"' not in text


def test_thin_pairs_are_named_under_cr2_by_name_and_by_default() -> None:
    by_default, texts = warned(thin_log(), SparseBoardWarning)
    assert any('"ada", "bob", "eve"' in text and "CR2 does not exist for such pairs" in text for text in texts)
    by_name, texts = warned(thin_log(), SparseBoardWarning, cov="CR2")
    assert any('"ada", "bob", "eve"' in text and "add nothing to the variance" in text for text in texts)
    _, texts = warned(thin_log(), LeverageWarning, cov="CR2")
    assert any("adds nothing to the variance" in text for text in texts)
    # All that eve has is pairs of one prompt: that is no variance of zero.
    for board in (by_default, by_name):
        assert np.isnan(board.bse["eve"])
        assert "it rests on a single cluster" in board.cov.reasons()[-1]


def test_models_on_few_effective_prompts_are_named_and_not_ranked() -> None:
    board, texts = warned(thin_log(2), SparseBoardWarning)
    (text,) = [text for text in texts if "effective prompt clusters" in text]
    assert '"eve"' in text
    assert board.bse["eve"] > 0
    ranks = board.ranks()
    assert ranks.loc["eve", ["lower", "upper"]].tolist() == [1, 5]
    assert board.cov.withheld is None
    # The others are ranked among themselves, eve being anywhere.
    spread = ranks.drop("eve")["upper"] - ranks.drop("eve")["lower"]
    assert (spread >= 1).all()


def test_a_variance_that_is_not_positive_is_named_and_never_clipped() -> None:
    # Judges that cancel: within each prompt and judge rows are alike, between judges they are opposed.
    rows = [(f"p{p:02d}", f"j{j}", float((p + j) % 2)) for p in range(20) for j in range(4) for _ in range(3)]
    frame = pd.DataFrame(rows, columns=["prompt", "judge", "score"]).assign(left="ada", right="bob")
    board, _ = warned(frame, SparseBoardWarning, groups=["prompt", "judge"], cov="CR1", repair="none")
    assert board.cov.raw[0, 0] < 0
    assert board.bse.isna().all()
    assert board.pvalues.isna().all()
    text = " ".join(str(board.summary()).split())
    assert "ada, bob: no test, because the cluster totals do not vary; t and p are NaN" in text
    assert board.ranks()[["lower", "upper"]].to_numpy().tolist() == [[1, 2], [1, 2]]
    assert board.head_to_head()["se"].isna().all()
