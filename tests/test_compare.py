"""Differences between models: against other software, slow loops over pairs, and the regression that they equal."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from golden import Golden
from scipy import stats

import evalreg as er
from evalreg.data.answers import ModelPairs
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    EvalregWarning,
    IndependenceWarning,
    MissingColumnError,
    NonFiniteError,
    NotAvailableError,
    ScoreRangeError,
    TooFewClustersError,
    ZeroVarianceWarning,
)
from evalreg.scores.differences import PairScores, differences

# The same sums in another order.
ROUNDING = 1e-11
PROMISED = ["difference", "se", "lower", "upper", "p_value", "p_adjusted", "correlation", "n", "n_clusters"]

pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.DominantClusterWarning"
)


def board(
    rng: np.random.Generator, *, n_models: int = 5, n_questions: int = 60, answered: float = 1.0, binary: bool = False
) -> pd.DataFrame:
    """Models on questions in unequal passages, with subjects that cross them; each answers a share of the questions."""
    passage = np.sort(rng.integers(0, n_questions // 5, n_questions))
    style = rng.integers(0, 6, n_questions)
    subject = np.array(["law", "math", "art"])[passage % 3]
    ability = np.linspace(-0.3, 0.3, n_models)
    hard, quirk = rng.normal(size=passage.max() + 1), rng.normal(size=(n_models, 6))
    latent = ability[:, None] + 0.7 * hard[passage] + 0.4 * quirk[:, style] + rng.normal(size=(n_models, n_questions))
    score = (latent > 0).astype(float) if binary else 1 / (1 + np.exp(-latent))
    question = np.tile(np.arange(n_questions), n_models)
    frame = pd.DataFrame(
        {
            "model": np.repeat([f"m{m}" for m in range(n_models)], n_questions),
            "item": np.array([f"q{i}" for i in range(n_questions)])[question],
            "passage": passage[question],
            "style": style[question],
            "subject": subject[question],
            "score": score.ravel(),
        }
    )
    return frame[rng.uniform(size=len(frame)) < answered].sample(frac=1, random_state=3, ignore_index=True)


def on_shared(frame: pd.DataFrame, model: str, baseline: str) -> pd.DataFrame:
    """Differences of two models on the questions that both answered, by a join."""
    both = frame[frame["model"] == model].merge(
        frame[frame["model"] == baseline].drop(columns=["model", "passage", "style", "subject"]),
        on="item",
        suffixes=("", "_b"),
    )
    return both.assign(score=both["score"] - both["score_b"])


# Other software


@pytest.mark.parametrize("kind", ["bin", "cont"])
@pytest.mark.parametrize("answers", ["k1", "kmean"])
def test_two_models_agree_with_r(golden: Callable[[str], Golden], kind: str, answers: str) -> None:
    g = golden("d2_paired")
    frame = g.frame if answers == "kmean" else g.frame[g.frame["k"] == 1]
    columns = {f"{model}_{kind}": model for model in "ab"}
    log = frame.rename(columns=columns).melt(["question", "passage", "k"], list("ab"), "model", "score")
    # Paired t tests as R has them, of what was seen alone.
    roles: dict[str, Any] = {"item": "question", "baseline": "b", "sample": "k", "icc": None}
    key = f"{kind}.{answers}"
    naive = er.compare(log, **roles, cov="naive")
    row = naive.table.loc[("a", "b")]
    g.check(f"{key}.diff", row["difference"])
    g.check(f"{key}.corr", row["correlation"])
    g.check(f"{key}.se_paired", row["se"])
    g.check(f"{key}.p_paired_t", row["p_value"])
    assert (row["n"], row["n_unpaired"], row["paired"]) == (g.facts["n_questions"], 0, True)
    normal = naive.with_cov(dof="normal").to_frame(2 * stats.norm.sf(1.96)).loc[("a", "b")]
    g.check(f"{key}.ci95_paired_196", normal[["lower", "upper"]].to_numpy(dtype=float))
    g.check(f"{key}.p_paired_z", normal["p_value"])
    se = {model: er.mean(log[log["model"] == model], item="question", sample="k", cov="naive") for model in "ab"}
    a, b = (float(results.bse.iloc[0]) for results in se.values())
    identity = a**2 + b**2 - 2 * a * b * row["correlation"]
    assert row["se"] ** 2 == pytest.approx(identity, rel=ROUNDING)
    assert row["variance_saved"] == pytest.approx(1 - row["se"] ** 2 / (a**2 + b**2), rel=1e-9)
    apart = er.compare(log, **roles, paired=False, cov="naive").table.loc[("a", "b")]
    g.check(f"{key}.se_unpaired", apart["se"])
    g.check(f"{key}.welch_df", apart["dof"])
    g.check(f"{key}.welch_p", apart["p_value"])
    clustered = er.compare(log, **roles, groups="passage", cov="CR0", dof="normal")
    g.check(f"{key}.se_paired_clustered", clustered.table["se"].iloc[0])
    ends = clustered.to_frame(2 * stats.norm.sf(1.96))[["lower", "upper"]].to_numpy(dtype=float)
    g.check(f"{key}.ci95_paired_clustered_196", ends[0])
    cr1 = clustered.with_cov(cov="CR1", dof=None).table.loc[("a", "b")]
    g.check(f"{key}.se_paired_clustered_CR1", cr1["se"])
    G = clustered.results.n_clusters["passage"]
    assert (cr1["dof"], cr1["n_clusters"]) == (G - 1, G)
    cr2 = er.compare(log, **roles, groups="passage").table.loc[("a", "b")]
    g.check(f"{key}.se_paired_clustered_CR2", cr2["se"])
    g.check(f"{key}.CR2.satt_df", cr2["dof"])
    g.check(f"{key}.CR2.satt_p", cr2["p_value"])
    g.check(f"{key}.CR2.satt_ci_lo", cr2["lower"])
    g.check(f"{key}.CR2.satt_ci_hi", cr2["upper"])
    cr3 = clustered.with_cov(cov="CR3", dof="satterthwaite").table.loc[("a", "b")]
    g.check(f"{key}.se_paired_clustered_CR3", cr3["se"] * np.sqrt(G / (G - 1)))
    g.check(f"{key}.CR3.satt_df", cr3["dof"])
    together = er.compare(log, **roles, groups="passage", paired=False, cov="CR0").table.loc[("a", "b")]
    g.check(f"{key}.se_unpaired_clustered", together["se"])


def test_exact_and_chi_squared_tests_agree_with_r(golden: Callable[[str], Golden]) -> None:
    g = golden("d2_paired")
    frame = g.frame[g.frame["k"] == 1].rename(columns={"a_bin": "a", "b_bin": "b"})
    log = frame.melt(["question", "passage"], ["a", "b"], "model", "score")
    comparison = er.compare(log, item="question", baseline="b")
    signs, chi = comparison.sign_test().loc[("a", "b")], comparison.mcnemar().loc[("a", "b")]
    g.check("bin.k1.wins_a", signs["wins"])
    g.check("bin.k1.wins_b", signs["losses"])
    g.check("bin.k1.sign_test_p", signs["p_value"])
    g.check("bin.k1.sign_test_p", chi["exact_p_value"])
    g.check("bin.k1.mcnemar_stat", chi["statistic"])
    g.check("bin.k1.mcnemar_p", chi["p_value"])
    g.check("bin.k1.mcnemar_cc_stat", chi["corrected_statistic"])
    g.check("bin.k1.mcnemar_cc_p", chi["corrected_p_value"])
    # With every question its own cluster the clustered statistic is McNemar's.
    g.check("bin.k1.mcnemar_stat", chi["clustered_statistic"])
    assert chi[["both", "model_only", "baseline_only", "neither"]].sum() == g.facts["n_questions"]


def test_identical_models_have_no_error_bar_and_no_test(golden: Callable[[str], Golden]) -> None:
    g = golden("d6_identical")
    models = [name for name in g.frame.columns if name not in ("question", "passage")][:2]
    log = g.frame.melt(["question", "passage"], models, "model", "score")
    with pytest.warns(ZeroVarianceWarning, match="do not vary"):
        comparison = er.compare(log, item="question", groups="passage")
    row = comparison.table.iloc[0]
    g.check("diff", row["difference"])
    g.check("corr", row["correlation"])
    g.check("sign_test_p", comparison.sign_test()["p_value"].iloc[0])
    assert np.isnan(row["se"])
    assert row["p_value"] == 1
    # Zero differences are not zero variance: x^2 = t^2 E (x - x^2)/n, the rule of three of so many effective questions.
    sizes = g.frame.groupby("passage").size().to_numpy()
    k = stats.t.ppf(0.975, row["dof"]) ** 2 * (1 + 0.5 * (float(sizes @ sizes) / sizes.sum() - 1)) / sizes.sum()
    assert -row["lower"] == row["upper"] == pytest.approx(k / (1 + k), rel=1e-9)
    with pytest.warns(ZeroVarianceWarning, match="t and p are NaN"):
        plain = comparison.with_cov(icc=None).table.iloc[0]
    assert np.isnan(plain[["se", "lower", "upper", "p_value"]].to_numpy(dtype=float)).all()


# Standard errors of the two models in percent, and their correlation, as printed in tables 2 and 5 of Miller (2024).
PRINTED = {"MATH": (0.7, 0.7, 0.5), "HumanEval": (3.2, 3.0, 0.64), "MGSM": (1.6, 1.5, 0.37)}


@pytest.mark.parametrize("name", list(PRINTED))
def test_the_paired_errors_of_the_paper_follow_from_its_correlations(
    golden: Callable[[str], Golden], rng: np.random.Generator, name: str
) -> None:
    *se, r = PRINTED[name]
    n = 400
    # Two orthogonal columns of mean zero and variance one, mixed to have exactly that correlation and those errors.
    z = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, 2))]))[0][:, 1:] * np.sqrt(n - 1)
    scores = np.column_stack([z[:, 0], r * z[:, 0] + np.sqrt(1 - r**2) * z[:, 1]]) * np.array(se) * np.sqrt(n)
    log = pd.DataFrame(scores, columns=["a", "b"]).reset_index(names="item").melt("item", ["a", "b"], "model")
    row = er.compare(log, "value", baseline="b", cov="naive").table.iloc[0]
    assert row["correlation"] == pytest.approx(r, rel=1e-9)
    golden("scalars").check(f"table5.se_identity.{name}", row["se"])


def test_pairing_two_uniform_models_of_correlation_one_half_halves_the_variance(
    golden: Callable[[str], Golden], rng: np.random.Generator
) -> None:
    g, n = golden("scalars"), 100_000
    shared, own = rng.uniform(size=n), rng.uniform(size=(2, n))
    takes = rng.uniform(size=(2, n)) < np.sqrt(0.5)  # correlation one half: both take the shared one half of the time
    log = pd.DataFrame(
        {
            "model": np.repeat(["a", "b"], n),
            "item": np.tile(np.arange(n), 2),
            "score": np.where(takes, shared, own).ravel(),
        }
    )
    row = er.compare(log, baseline="b").table.iloc[0]
    apart = er.compare(log, baseline="b", paired=False).table.iloc[0]
    # Variances of 100,000 draws, whose standard error is 0.3%.
    assert n * row["se"] ** 2 == pytest.approx(g.value("uniform_corr_half.var_paired_times_n"), rel=0.02)
    assert n * apart["se"] ** 2 == pytest.approx(g.value("uniform_corr_half.var_unpaired_times_n"), rel=0.02)
    assert row["variance_saved"] == pytest.approx(0.5, abs=0.01)


def test_a_paired_comparison_is_the_stacked_regression(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    row = er.compare(frame, groups="passage", baseline="m0").table.loc[("m1", "m0")]
    stacked = er.fit("score ~ C(model)", frame, groups="passage")
    term = "C(model)[T.m1]"
    assert row["difference"] == pytest.approx(stacked.params[term], rel=ROUNDING)
    for cov in ("CR0", "CR2", "CR3"):
        ours = er.compare(frame, groups="passage", baseline="m0", cov=cov).table.loc[("m1", "m0")]
        theirs = stacked.with_cov(cov=cov)
        assert ours["se"] == pytest.approx(theirs.bse[term], rel=1e-9)
        assert ours["dof"] == pytest.approx(theirs.dof[term], rel=1e-9)
    codes = pd.factorize(frame["passage"])[0]
    plain = smf.ols("score ~ C(model)", frame)
    cr0 = plain.fit(cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False})
    assert er.compare(frame, groups="passage", baseline="m0", cov="CR0").table["se"].iloc[0] == pytest.approx(
        cr0.bse[term], rel=1e-9
    )
    # CR1 counts the rows of the regression: 2N answers and two coefficients, where there are N differences and one.
    N = frame["item"].nunique()
    cr1 = plain.fit(cov_type="cluster", cov_kwds={"groups": codes})
    ours = er.compare(frame, groups="passage", baseline="m0", cov="CR1").table["se"].iloc[0]
    assert cr1.bse[term] == pytest.approx(ours * np.sqrt((2 * N - 1) / (2 * N - 2)), rel=1e-9)


def test_independent_questions_give_the_paired_t_test_of_scipy(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    wide = frame.pivot(index="item", columns="model", values="score")
    for options in ({}, {"cov": "naive"}, {"cov": "CR1"}):
        row = er.compare(frame, baseline="m0", icc=None, **options).table.iloc[0]
        test = stats.ttest_rel(wide["m1"], wide["m0"])
        assert row["p_value"] == pytest.approx(test.pvalue, rel=1e-9)
        assert row["dof"] == pytest.approx(len(wide) - 1)
        interval = test.confidence_interval()
        assert (row["lower"], row["upper"]) == pytest.approx((interval.low, interval.high), rel=1e-9)


# Slow loops over pairs


@pytest.mark.parametrize("answered", [1.0, pytest.param(0.8, marks=pytest.mark.slow), 0.4])
@pytest.mark.parametrize(
    ("groups", "options"),
    [
        ("item", {}),
        ("passage", {}),
        ("passage", {"cov": "CR0"}),
        ("passage", {"cov": "CR1"}),
        ("passage", {"cov": "CR3"}),
        ("passage", {"cov": "jackknife"}),
        ("passage", {"cov": "naive"}),
        ("passage + style", {}),
        ("passage + style", {"cov": "CR2", "repair": "two-term"}),
        ("passage + style", {"cov": "CR0", "repair": "none"}),
    ],
)
@pytest.mark.filterwarnings(
    "ignore::evalreg.errors.NestedClustersWarning", "ignore::evalreg.errors.ZeroVarianceWarning"
)
def test_every_pair_is_the_mean_of_its_own_differences(
    rng: np.random.Generator, answered: float, groups: str, options: dict[str, Any]
) -> None:
    frame, cov = board(rng, answered=answered), options.get("cov")
    comparison = er.compare(frame, groups=groups, **options)
    table, G = comparison.table, comparison.results.n_clusters.get("passage", 0)
    assert len(table) == 10
    # Every pair is checked under some clustering, covariance and share of answers.
    first = (len(groups) + len(str(cov)) + int(10 * answered)) % 5
    for model, baseline in table.index[first::5]:
        joined, row = on_shared(frame, model, baseline), table.loc[(model, baseline)]
        alone = er.mean(joined, groups=groups, **options)
        assert row["difference"] == pytest.approx(joined["score"].mean(), rel=1e-9)
        g = alone.n_clusters.get("passage", 0)
        # One number of clusters, that of all questions in use, goes into the factors of all pairs.
        factor = {"CR1": (G / (G - 1)) / (g / (g - 1)), "CR3": ((G - 1) / G) / ((g - 1) / g)} if g else {}
        scale = np.sqrt(factor.get("CR3" if cov == "jackknife" else str(cov), 1.0))
        if len(alone.cov.axes) == len(comparison.results.cov.axes):  # among few questions passages lie inside styles
            assert row["se"] == pytest.approx(scale * alone.bse.iloc[0], rel=1e-8, nan_ok=True)
        assert row["difference"] >= 0
        assert row["n"] == len(joined)
        counts = alone.n_clusters
        if cov != "naive":
            single = [count for name, count in counts.items() if ":" not in name]
            assert row["n_clusters"] == min(single)
        if not options and groups != "passage + style":
            assert row["dof"] == pytest.approx(alone.dof.iloc[0], rel=1e-8)
        own = {m: set(frame.loc[frame["model"] == m, "item"]) for m in (model, baseline)}
        assert row["n_unpaired"] == len(own[model] ^ own[baseline])
        assert row["correlation"] == pytest.approx(
            np.corrcoef(joined["score"] + joined["score_b"], joined["score_b"])[0, 1]
        )


@pytest.mark.parametrize("answered", [1.0, 0.7])
def test_the_joint_covariance_of_all_pairs_is_that_of_their_influences(
    rng: np.random.Generator, answered: float
) -> None:
    frame = board(rng, n_models=4, answered=answered)
    comparison = er.compare(frame, groups="passage", cov="CR0")
    influence = {}
    for model, baseline in comparison.table.index:
        joined = on_shared(frame, model, baseline).set_index("item")
        influence[f"{model} - {baseline}"] = (joined["score"] - joined["score"].mean()) / len(joined)
    by_question = pd.DataFrame(influence).fillna(0.0)
    passage = frame.drop_duplicates("item").set_index("item")["passage"]
    totals = by_question.groupby(passage.reindex(by_question.index)).sum()
    V = totals.T @ totals
    np.testing.assert_allclose(
        comparison.results.cov_params().loc[V.index, V.columns], V, atol=1e-12 * np.abs(V).max().max()
    )
    rows = comparison.results.influence()
    np.testing.assert_allclose(rows.sum(), 0.0, atol=1e-12)
    by_passage = comparison.results.influence(by="passage")
    np.testing.assert_allclose(by_passage.T @ by_passage, V, atol=1e-12)


def test_blocks_of_clusters_give_the_same_numbers(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = board(rng, answered=0.8)
    whole = er.compare(frame, groups="passage + style")
    monkeypatch.setattr("evalreg.scores.differences.ENTRIES", 25)
    blocks = er.compare(frame, groups="passage + style")
    pd.testing.assert_frame_equal(whole.table, blocks.table, rtol=1e-10)
    naive = whole.with_cov(cov="naive").results.cov_params()
    pd.testing.assert_frame_equal(naive, blocks.with_cov(cov="naive").results.cov_params(), rtol=1e-10)


def test_sums_where_few_are_there_are_the_same(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = board(rng, answered=0.5)
    dense = er.compare(frame, groups="passage")
    monkeypatch.setattr("evalreg.scores.differences.DENSE_SHARE", 1.0)
    monkeypatch.setattr("evalreg.numerics.matrices.DENSE_SHARE", 1.0)
    sparse = er.compare(frame, groups="passage")
    pd.testing.assert_frame_equal(dense.table, sparse.table, rtol=1e-10)
    pd.testing.assert_series_equal(dense.results.icc(), sparse.results.icc(), rtol=1e-10)


def test_strata_are_those_of_a_mean_of_differences(rng: np.random.Generator) -> None:
    for answered in (1.0, 0.7):
        frame = board(rng, n_models=3, answered=answered)
        for groups in ("item", "passage"):
            table = er.compare(frame, groups=groups, strata="subject").table
            for model, baseline in table.index:
                alone = er.mean(on_shared(frame, model, baseline), strata="subject", groups=groups)
                row = table.loc[(model, baseline)]
                assert row["difference"] == pytest.approx(alone.params.iloc[0], rel=1e-9)
                assert row["se"] == pytest.approx(alone.bse.iloc[0], rel=1e-9)
                assert row["n_clusters"] == alone.n_clusters[groups]


def test_answers_are_averaged_within_model_and_question_first(rng: np.random.Generator) -> None:
    one = board(rng, n_models=3)
    copies = one.loc[one.index.repeat(1 + np.arange(len(one)) % 3)].reset_index(drop=True)
    copies["sample"] = copies.groupby(["model", "item"]).cumcount()
    copies["score"] = rng.uniform(size=len(copies))
    averaged = copies.groupby(["model", "item", "passage", "style", "subject"], as_index=False)["score"].mean()
    sampled = er.compare(copies, sample="sample", groups="passage")
    pd.testing.assert_frame_equal(sampled.table, er.compare(averaged, groups="passage").table, rtol=1e-10)
    assert "Answers (sample, 1 to 3 of a model to a question) were averaged first." in sampled.summary().sentences


# Unpaired


def test_models_without_a_question_in_common_are_compared_unpaired(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    half = frame["item"].str[1:].astype(int) % 2 == (frame["model"] == "m1")
    with pytest.warns(IndependenceWarning, match="m1 - m0.*no question in common"):
        comparison = er.compare(frame[half], groups="item", baseline="m0", cov="naive")
    row = comparison.table.iloc[0]
    a, b = (frame[half & (frame["model"] == m)]["score"] for m in ("m1", "m0"))
    assert row["se"] == pytest.approx(np.sqrt(a.var() / len(a) + b.var() / len(b)), rel=ROUNDING)
    test = stats.ttest_ind(a, b, equal_var=False)
    assert (row["p_value"], row["dof"]) == pytest.approx((test.pvalue, test.df), rel=1e-9)
    assert (row["n"], row["n_unpaired"], row["paired"]) == (len(a) + len(b), len(a) + len(b), False)
    assert np.isnan(row["correlation"])
    assert comparison.sign_test().isna().all(axis=None)


def test_unpaired_models_that_share_passages_stay_dependent(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    half = frame["item"].str[1:].astype(int) % 2 == (frame["model"] == "m1")
    with pytest.warns(IndependenceWarning):
        row = er.compare(frame[half], groups="passage", baseline="m0", cov="CR0").table.iloc[0]
    stacked = er.fit("score ~ C(model)", frame[half], groups="passage", cov="CR0")
    assert row["se"] == pytest.approx(stacked.bse.iloc[1], rel=1e-9)


def test_the_summary_says_what_to_do_with_answers_that_are_missing_because_they_failed(
    rng: np.random.Generator,
) -> None:
    frame = board(rng, n_models=2)
    whole = " ".join(str(er.compare(frame, groups="passage").summary()).split())
    assert "score it 0" not in whole
    some = " ".join(str(er.compare(frame.drop(index=frame.index[3]), groups="passage").summary()).split())
    assert "1 that only one of the two answered" in some
    assert "Where an answer is missing because it failed (a time-out, a refusal), score it 0" in some


def test_some_pairs_may_be_unpaired_among_others(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=3)
    number = frame["item"].str[1:].astype(int)
    kept = (frame["model"] == "m2") | (number % 2 == (frame["model"] == "m1"))
    with pytest.warns(IndependenceWarning, match="no question in common"):
        table = er.compare(frame[kept], groups="passage").table
    assert table["paired"].tolist().count(False) == 1
    for pair in table.index[table["paired"]]:
        alone = er.mean(on_shared(frame[kept], *pair), groups="passage")
        assert table.loc[pair, "se"] == pytest.approx(alone.bse.iloc[0], rel=1e-9)


def test_unpaired_on_request_adds_the_variances(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=3)
    comparison = er.compare(frame, groups="passage", paired=False, baseline="m0")
    for model in ("m1", "m2"):
        parts = [er.mean(frame[frame["model"] == m], groups="passage").bse.iloc[0] ** 2 for m in (model, "m0")]
        assert comparison.table.loc[(model, "m0"), "se"] == pytest.approx(np.sqrt(sum(parts)), rel=1e-9)
    assert not comparison.table["paired"].any()
    with pytest.raises(NotAvailableError, match="paired=False"):
        comparison.sign_test()


@pytest.mark.parametrize("first", [None, "passage"])
@pytest.mark.parametrize("groups", ["item", "passage", ["passage", "style"], "array"])
def test_models_held_apart_stay_so_under_other_clusters(rng: np.random.Generator, first: Any, groups: Any) -> None:
    frame = board(rng, n_models=3)
    groups = {"passage": frame["passage"].to_numpy()} if groups == "array" else groups
    expected = er.compare(frame, groups=groups, paired=False)
    found = er.compare(frame, groups=first, paired=False).with_cov(groups=groups)
    pd.testing.assert_frame_equal(found.table, expected.table)
    assert found.results.n_clusters == expected.results.n_clusters
    again = er.infer(er.compare(frame, groups=first, paired=False).results.estimate, groups=groups)
    pd.testing.assert_series_equal(again.bse, expected.results.bse)


# Shapes


def test_the_table_has_the_promised_shape(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=4, answered=0.9)
    comparison = er.compare(frame, groups="passage", adjust="holm")
    table = comparison.table
    assert table.columns[:9].tolist() == PROMISED
    assert table.index.names == ["model", "baseline"]
    assert len({frozenset(pair) for pair in table.index}) == len(table) == 6
    assert (table["difference"] >= 0).all()
    against = er.compare(frame, groups="passage", baseline="m3").table
    assert against.index.tolist() == [(m, "m3") for m in against.index.get_level_values(0)]
    assert set(against.index.get_level_values(0)) == {"m0", "m1", "m2"}
    for pair in against.index:
        same = pair in table.index
        there = table.loc[pair if same else pair[::-1], "difference"]
        assert against.loc[pair, "difference"] == pytest.approx(there if same else -there)
    table.loc[:, "se"] = 0.0
    assert (comparison.table["se"] > 0).all(), "a table is the reader's own"


def test_results_are_those_of_the_differences(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=3)
    comparison = er.compare(frame, groups="passage", baseline="m0")
    results = comparison.results
    assert list(results.params.index) == [f"{m} - m0" for m in comparison.table.index.get_level_values(0)]
    assert (results.nobs, results.n_clusters) == (60, {"passage": frame["passage"].nunique()})
    wide = frame.pivot(index="item", columns="model", values="score")
    passage = frame.drop_duplicates("item").set_index("item")["passage"].reindex(wide.index)
    alone = er.mean(pd.DataFrame({"score": wide["m1"] - wide["m0"], "passage": passage}), groups="passage")
    for method in ("icc", "design_effect", "n_eff"):
        assert getattr(results, method)()["m1 - m0"] == pytest.approx(getattr(alone, method)().iloc[0], rel=1e-9)
    assert results.diagnostics().loc["passage", "max_leverage"] == pytest.approx(
        alone.diagnostics().loc["passage", "max_leverage"]
    )
    assert "m1 - m0" in str(results.summary())
    contrast = results.contrast({"m1 - m0": 1, "m2 - m0": -1})
    other = er.compare(frame, groups="passage", baseline="m2").table.loc[("m1", "m2")]
    assert contrast.bse.iloc[0] == pytest.approx(other["se"], rel=1e-9)
    assert contrast.dof.iloc[0] == pytest.approx(other["dof"], rel=1e-9)
    by_style = comparison.with_cov(groups="style")
    pd.testing.assert_frame_equal(by_style.table, er.compare(frame, groups="style", baseline="m0").table)
    given = frame.drop_duplicates("item").set_index("item")["style"].reindex(frame["item"]).to_numpy()
    as_array = er.compare(frame, groups=given, baseline="m0").table
    np.testing.assert_allclose(as_array["se"], by_style.table["se"])


def test_pickles_keep_the_numbers(rng: np.random.Generator) -> None:
    comparison = er.compare(board(rng, answered=0.8, binary=True), groups="passage")
    again = pickle.loads(pickle.dumps(comparison))
    pd.testing.assert_frame_equal(again.table, comparison.table)
    pd.testing.assert_frame_equal(again.sign_test(), comparison.sign_test())
    pd.testing.assert_frame_equal(again.with_cov(cov="CR1").table, comparison.with_cov(cov="CR1").table)


def test_the_order_of_rows_and_the_kind_of_frame_change_nothing(rng: np.random.Generator) -> None:
    import polars as pl
    import pyarrow as pa

    frame = board(rng, answered=0.9)
    plain = er.compare(frame, groups="passage").table
    for other in (frame.sample(frac=1, random_state=8), pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        pd.testing.assert_frame_equal(er.compare(other, groups="passage").table, plain, rtol=1e-10)


def test_question_ids_may_repeat_between_tasks(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    within = frame.assign(task=frame["passage"], number=frame["item"].str[1:].astype(int) - 5 * frame["passage"])
    joined = er.compare(within, item="task:number", groups="task").table
    pd.testing.assert_frame_equal(joined, er.compare(frame, groups="passage").table, rtol=1e-10)
    some = within.drop_duplicates(["model", "number"]).reset_index(drop=True)
    with pytest.raises(AlignmentError, match='item="row:number"') as caught:
        er.compare(some.assign(row=np.arange(len(some))), item="number", groups="row")
    assert caught.value.column == "row"
    by_default = er.compare(within, item="task:number")
    assert by_default.table["se"].iloc[0] == pytest.approx(er.compare(frame).table["se"].iloc[0])


# Many pairs


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("adjust", ["holm", "fdr_bh", "bonferroni"])
def test_adjusted_p_values_are_those_of_statsmodels(rng: np.random.Generator, adjust: Any) -> None:
    from statsmodels.stats.multitest import multipletests

    table = er.compare(board(rng), groups="passage", adjust=adjust).table
    np.testing.assert_allclose(table["p_adjusted"], multipletests(table["p_value"], method=adjust)[1])


def test_the_short_name_of_the_false_discovery_rate_is_taken_wherever_it_is_adjusted(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=4)
    by_name = {name: er.compare(frame, groups="passage", adjust=name) for name in ("bh", "fdr_bh")}  # type: ignore[arg-type]
    assert by_name["bh"].adjust == "fdr_bh"
    assert str(by_name["bh"].summary()) == str(by_name["fdr_bh"].summary())
    pd.testing.assert_frame_equal(by_name["bh"].table, by_name["fdr_bh"].table)
    means = er.mean(frame, by="model", item="item", groups="passage")
    pd.testing.assert_frame_equal(means.pairwise("bh"), means.pairwise("fdr_bh"))
    assert means.pairwise("bh").attrs["adjust"] == "fdr_bh"
    plain = er.compare(frame, groups="passage")
    joined = er.join_evals({"a": plain, "b": plain}, adjust="bh")
    assert joined.adjust == "fdr_bh"
    pd.testing.assert_frame_equal(joined.table, er.join_evals({"a": plain, "b": plain}, adjust="fdr_bh").table)
    other = er.mean(board(rng, n_models=4), by="model", item="item", groups="passage")
    average = er.join_evals({"a": means, "b": other}).average()
    pd.testing.assert_frame_equal(average.pairwise("bh"), average.pairwise("fdr_bh"))
    asked: tuple[Any, ...] = (
        lambda name: er.compare(frame, groups="passage", adjust=name),
        means.pairwise,
        lambda name: means.plot("pairs", adjust=name),
        average.pairwise,
        lambda name: er.join_evals({"a": plain, "b": plain}, adjust=name),
    )
    for call in asked:
        for name in ("fdr", "BH"):
            with pytest.raises(ArgumentError, match='For the false discovery rate write "fdr_bh", or "bh" for short'):
                call(name)


@pytest.mark.parametrize("answered", [1.0, 0.8])
def test_single_step_adjustment_is_that_of_all_pairs_of_means(rng: np.random.Generator, answered: float) -> None:
    frame = board(rng, n_models=4, answered=answered)
    table = er.compare(frame, groups="passage", adjust="single-step", cov="CR1").table
    assert (table["p_adjusted"] >= table["p_value"] - 1e-12).all()
    if answered == 1.0:
        pairs = er.mean(frame, by="model", item="item", groups="passage", cov="CR1").pairwise("single-step")
        for pair in table.index:
            there = pairs.loc[pair] if pair in pairs.index else pairs.loc[pair[::-1]]
            assert table.loc[pair, "se"] == pytest.approx(there["se"], rel=1e-9)
            assert table.loc[pair, "p_adjusted"] == pytest.approx(there["p_adjusted"], abs=0.01)
    single = er.compare(frame, groups="passage", cov="CR1").table
    assert ((table["upper"] - table["lower"]) > (single["upper"] - single["lower"])).all()


@pytest.mark.slow
def test_intervals_cover_the_true_difference() -> None:
    # 300 logs; a 95% interval misses fewer than 9% with a probability above 0.999.
    held = 0
    for seed in range(300):
        log = er.datasets.paired(n_passages=25, questions_per_passage=4, difference=0.05, icc=0.3, seed=seed)
        row = er.compare(log, item="question", groups="passage", baseline="old").table.iloc[0]
        held += row["lower"] <= log.attrs["truth"]["difference"] <= row["upper"]
    assert held >= 273


# Tests of wins and losses


def test_the_sign_test_counts_wins_of_any_scores(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=3, answered=0.8)
    signs = er.compare(frame, groups="passage").sign_test()
    for model, baseline in signs.index:
        d, row = on_shared(frame, model, baseline)["score"], signs.loc[(model, baseline)]
        wins, losses = int((d > 0).sum()), int((d < 0).sum())
        assert (row["wins"], row["losses"], row["ties"]) == (wins, losses, (d == 0).sum())
        assert row["p_value"] == pytest.approx(er.sign_test(wins, losses).p_value, rel=1e-9)


def test_the_clustered_sign_test_squares_sums_of_clusters(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2, binary=True)
    comparison = er.compare(frame, groups="passage", baseline="m0")
    joined = on_shared(frame, "m1", "m0")
    surplus = joined.groupby("passage")["score"].sum()
    z = surplus.sum() / np.sqrt((surplus**2).sum())
    for table in (comparison.sign_test(), comparison.mcnemar()):
        assert table["clustered_statistic"].iloc[0] == pytest.approx(z**2)
        assert table["clustered_p_value"].iloc[0] == pytest.approx(2 * stats.t.sf(abs(z), len(surplus) - 1))
    crossed = comparison.with_cov(groups="passage + style").sign_test()["clustered_statistic"].iloc[0]
    squares = {
        key: (joined.groupby(by)["score"].sum() ** 2).sum()
        for key, by in {"p": "passage", "s": "style", "ps": ["passage", "style"]}.items()
    }
    variance = max(squares["p"] + squares["s"] - squares["ps"], squares["p"], squares["s"])
    assert crossed == pytest.approx(joined["score"].sum() ** 2 / variance)


def test_mcnemar_needs_scores_of_0_and_1(rng: np.random.Generator) -> None:
    with pytest.raises(ScoreRangeError, match=r"scores of 0 and 1.*sign_test"):
        er.compare(board(rng, n_models=2)).mcnemar()


# What is printed


def test_several_evals_stand_in_one_table(rng: np.random.Generator) -> None:
    parts = {name: er.compare(board(rng, n_models=2), baseline="m0") for name in ("reading", "maths")}
    evals = er.join_evals(parts)
    assert evals.table.index.tolist() == [(name, "m1", "m0") for name in parts]
    text = evals.summary().as_markdown()
    assert "reading: m1 - m0" in text
    assert text.count("Questions: 60") == 1
    with pytest.raises(ArgumentTypeError, match="compare"):
        er.join_evals([parts["maths"]])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="at least one"):
        er.join_evals({})


# Bad input


def test_one_model_cannot_be_compared(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=1)
    with pytest.raises(DataError, match=r'at least two models.*"m0" only'):
        er.compare(frame)


def test_an_unknown_baseline_names_the_nearest(rng: np.random.Generator) -> None:
    with pytest.raises(MissingColumnError, match=r'`baseline`.*"m00" is not. Did you mean "m0"'):
        er.compare(board(rng, n_models=2), baseline="m00")
    with pytest.raises(MissingColumnError, match='The models are "m0", "m1"'):
        er.compare(board(rng, n_models=2), baseline="zzz")


def test_a_question_answered_twice_names_the_rows(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    twice = pd.concat([frame, frame.iloc[[3, 5]]], ignore_index=True)
    with pytest.raises(
        DuplicateRowsError, match=r"one row for each 'model' and 'item'; 2 rows repeat.*sample"
    ) as caught:
        er.compare(twice)
    assert caught.value.rows == [len(frame), len(frame) + 1]


def test_a_cluster_that_differs_between_the_answers_names_the_rows(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    with pytest.raises(AlignmentError, match="the same for all answers to one item") as caught:
        er.compare(frame, groups="model")
    assert caught.value.count == 60


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"model": "modle"}, MissingColumnError, '`model` names "modle".*Did you mean "model"'),
        ({"item": "question"}, MissingColumnError, "`item` names"),
        ({"sample": "item"}, ArgumentError, "`item` and `sample` must be different columns"),
        ({"adjust": "tukey"}, ArgumentError, "`adjust` must be one of"),
        ({"paired": "no"}, ArgumentTypeError, "`paired` must be True or False"),
        ({"missing": "ignore"}, ArgumentError, "`missing` must be one of"),
        ({"cov": "HC9"}, ArgumentError, "`cov` must be one of"),
        ({"cov": "HC1"}, ArgumentError, 'For clusters use cov="CR1"'),
        ({"groups": "passages"}, MissingColumnError, '"passages"'),
        ({"groups": "one"}, TooFewClustersError, "at least 2"),
    ],
)
def test_wrong_arguments_are_named(rng: np.random.Generator, options: dict[str, Any], error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        er.compare(board(rng, n_models=2).assign(one=1), **options)


def test_missing_scores_are_dropped_and_counted_or_an_error(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    frame.loc[[2, 7], "score"] = np.nan
    comparison = er.compare(frame, groups="passage", baseline="m0")
    assert comparison.results.dropped["score"] == 2
    complete = frame.dropna()
    pd.testing.assert_frame_equal(comparison.table, er.compare(complete, groups="passage", baseline="m0").table)
    assert comparison.table["n_unpaired"].iloc[0] > 0
    with pytest.raises(NonFiniteError, match="rows 2, 7"):
        er.compare(frame, missing="raise")


def test_a_model_without_a_score_is_named(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=3)
    frame.loc[frame["model"] == "m2", "score"] = np.nan
    comparison = er.compare(frame)
    assert comparison.table.index.tolist() == [("m1", "m0")] or comparison.table.index.tolist() == [("m0", "m1")]
    assert any(line.startswith('Of "m2" no row is in use') for line in comparison.summary().sentences)
    assert comparison.results.dropped["score"] == 60


def test_pairs_that_would_have_one_name_are_refused(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=4)
    names = {"m0": "a", "m1": "b - c", "m2": "a - b", "m3": "c"}
    latent = {"m0": 4.0, "m2": 4.0, "m1": 0.0, "m3": 0.0}
    frame = frame.assign(score=frame["score"] + frame["model"].map(latent), model=frame["model"].map(names))
    with pytest.raises(DataError, match='"a - b - c" would name two pairs'):
        er.compare(frame)


@pytest.mark.filterwarnings("ignore::evalreg.errors.LeverageWarning")
def test_pairs_that_rest_on_one_cluster_have_no_error_bar(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=3)
    first = frame["passage"].min()
    few = frame[(frame["model"] != "m2") | (frame["passage"] == first)]
    with pytest.warns(ZeroVarianceWarning, match="rests on a single cluster"):
        table = er.compare(few, groups="passage").table
    lonely = table[table["n_clusters"] == 1]
    assert len(lonely) == 2
    assert lonely["se"].isna().all()
    assert table["se"].notna().sum() == 1


def test_a_constant_difference_is_not_measured_as_rounding(rng: np.random.Generator) -> None:
    frame = board(rng, n_models=2)
    first = frame[frame["model"] == "m0"]
    shifted = pd.concat([first, first.assign(model="m1", score=first["score"] + 0.1)])
    with pytest.warns(ZeroVarianceWarning):
        table = er.compare(shifted, groups="passage").table
    assert table["difference"].iloc[0] == pytest.approx(0.1)
    assert np.isnan(table["se"].iloc[0])


def test_differences_are_taken_on_the_questions_of_a_set() -> None:
    values = np.array([[1.0, 2.0, 3.0], [0.0, 5.0, 1.0]])
    pairs = ModelPairs(np.array([0, 1]), np.array([1, -1]), np.array([0, 0]), (np.array([True, False, True]),))
    np.testing.assert_array_equal(differences(values, pairs, np.array([0, 1]), pairs.sets[0]), [[1.0, 2.0], [0.0, 1.0]])


def test_scores_are_of_questions_and_pairs(rng: np.random.Generator) -> None:
    scores = er.compare(board(rng, n_models=4)).results.estimate.scores
    assert isinstance(scores, PairScores)
    assert (scores.n_rows, scores.n_columns) == (60, 6)
    assert len(list(combinations(range(4), 2))) == 6


# Real logs


def log_of(shared: Path, name: str, **options: Any) -> pd.DataFrame:
    return pd.read_csv(shared / "data" / f"{name}.csv.gz", **options)


def test_two_prompting_methods_differ_by_task(shared: Path) -> None:
    log = log_of(shared, "bbh_codex_cot_vs_direct")
    roles: dict[str, Any] = {"model": "method", "item": "task:question_index", "baseline": "direct"}
    clustered = er.compare(log, "correct", groups="task", **roles)
    naive = er.compare(log, "correct", **roles)
    row = clustered.table.iloc[0]
    assert (row["n"], row["n_clusters"]) == (6511, 27)
    assert 5.5 < row["se"] / naive.table["se"].iloc[0] < 6.5
    wide = log.pivot(index=["task", "question_index"], columns="method", values="correct").reset_index()
    alone = er.mean(wide.assign(score=wide["cot"] - wide["direct"]), groups="task")
    assert row["se"] == pytest.approx(alone.bse.iloc[0], rel=1e-9)
    exact, robust = clustered.sign_test()[["p_value", "clustered_p_value"]].iloc[0]
    assert exact < 1e-100 < 1e-4 < robust < 0.01


@pytest.fixture(scope="module")
def three_models(shared: Path) -> pd.DataFrame:
    """Three models of a large log, of which one lacks questions."""
    log = log_of(shared, "mmlu_pro_scores", dtype={"question_id": str})
    return log[log["model"].isin(["DeepSeek-Coder-V2", "Meta-Llama-3-70B", "Meta-Llama-3_1-70B"])]


@pytest.mark.parametrize("groups", ["passage", "source", "category"])
def test_models_that_lack_questions_are_compared_on_the_shared_ones(three_models: pd.DataFrame, groups: str) -> None:
    log = three_models
    table = er.compare(log, "correct", item="question_id", groups=groups, baseline="Meta-Llama-3-70B").table
    lacking = table.loc[("DeepSeek-Coder-V2", "Meta-Llama-3-70B")]
    assert (lacking["n"], lacking["n_unpaired"]) == (10351, 1681)
    assert table.loc[("Meta-Llama-3_1-70B", "Meta-Llama-3-70B"), "n"] == 12032
    wide = log.pivot(index=["question_id", groups], columns="model", values="correct").dropna().reset_index()
    alone = er.mean(wide.assign(score=wide["DeepSeek-Coder-V2"] - wide["Meta-Llama-3-70B"]), groups=groups)
    assert lacking["se"] == pytest.approx(alone.bse.iloc[0], rel=1e-9)
    assert lacking["dof"] == pytest.approx(alone.dof.iloc[0], rel=1e-9)


def test_a_log_with_copies_is_refused_and_its_other_models_compared(shared: Path) -> None:
    log = log_of(shared, "livebench_scores")
    with pytest.raises(DuplicateRowsError, match="590 rows repeat an earlier one") as caught:
        er.compare(log, item="question_id")
    assert caught.value.count == 590
    copied = log[log.duplicated(["model", "question_id"])]["model"].unique()
    log = log[~log["model"].isin(copied)]
    some = sorted(log["model"].unique())[:12]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndependenceWarning)
        table = er.compare(log[log["model"].isin(some)], item="question_id", groups="task").table
    assert table["n"].nunique() > 1
    assert table["se"][table["paired"]].notna().all()


def test_four_answers_to_fifteen_problems_are_averaged(shared: Path) -> None:
    log = log_of(shared, "matharena_aime2025_II_scores")
    table = er.compare(log, "correct", item="question_id", sample="sample", adjust="holm").table
    assert (table["n"] == 15).all()
    assert len(table) == 19 * 18 / 2


@pytest.mark.parametrize("groups", [None, "passage", "passage + day", "own"])
def test_many_pairs_over_the_same_questions_are_each_pair_by_itself(rng, groups):
    wide = (rng.random((40, 4)) < 0.6).astype(float)
    wide[:, 2] = wide[:, 3] = wide[:, 1]
    wide[3, 3] = 1 - wide[3, 3]  # one model twice, and another that differs from it on one question
    frame = pd.DataFrame({"score": wide.ravel(), "item": np.repeat(np.arange(40), 4)})
    frame["model"], frame["passage"] = np.tile(list("abcd"), 40), frame["item"] // 3
    frame["day"], frame["own"] = frame["item"] % 7, 99 - frame["item"]
    options: dict[str, Any] = {"repair": "two-term"} if groups == "passage + day" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalregWarning)
        together = {cov: er.compare(frame, groups=groups, cov=cov, **options).table for cov in ("CR0", "CR2")}
        for left, right in together["CR0"].index[::2]:
            pair = er.compare(frame[frame["model"].isin([left, right])], groups=groups, cov="CR0", **options)
            for cov, table in together.items():
                alone = pair.with_cov(cov=cov).table
                one, other = table.loc[(left, right)], alone.iloc[0]
                turned = alone.index[0] != (left, right)
                for column in ("difference", "se", "lower", "upper", "p_value", "n_clusters"):
                    same = -other[column] if column == "difference" and turned else other[column]
                    if column not in ("lower", "upper") or not turned:
                        assert one[column] == pytest.approx(same, rel=1e-10, abs=1e-14, nan_ok=True), (cov, column)
    for table in together.values():
        twins = table["se"].loc[[pair for pair in table.index if set(pair) == {"b", "c"}]].iloc[0]
        assert twins == 0 or np.isnan(twins)


def test_differences_far_smaller_than_the_scores_keep_their_correlations(rng):
    passage = np.arange(400) // 5
    values = rng.normal(size=400) + 1e-8 * rng.normal(size=(8, 400))
    frame = pd.DataFrame({"score": values.ravel(), "model": np.repeat(np.arange(8), 400)})
    frame["item"], frame["passage"] = np.tile(np.arange(400), 8), np.tile(passage, 8)
    comparison = er.compare(frame, groups="passage")
    d = np.array([values[int(left)] - values[int(right)] for left, right in comparison.table.index])
    totals = np.array([np.bincount(passage, one) for one in d - d.mean(axis=1, keepdims=True)])
    expected = totals @ totals.T / 400**2 / (1 - 1 / 80)
    found, scale = comparison.results.cov_params().to_numpy(), np.sqrt(np.diag(expected))
    # The scores have 16 digits, of which 8 are left in a difference.
    np.testing.assert_allclose(found / np.outer(scale, scale), expected / np.outer(scale, scale), atol=1e-6)


@pytest.mark.parametrize("adjust", ["holm", "single-step", None])
@pytest.mark.parametrize("paired", [True, False])
def test_questions_named_later_are_those_of_a_comparison_without_groups(adjust, paired):
    rng = np.random.default_rng(0)
    log = pd.DataFrame({"item": np.arange(64) // 4, "model": np.tile(list("abcd"), 16), "part": np.arange(64) // 8})
    log["score"] = rng.normal(size=64) + 0.6 * (log.model == "a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalregWarning)
        plain = er.compare(log, groups=None, adjust=adjust, paired=paired)
        later = er.compare(log, groups="part", adjust=adjust, paired=paired).with_cov(groups=None)
    pd.testing.assert_frame_equal(later.table, plain.table, rtol=1e-12)
