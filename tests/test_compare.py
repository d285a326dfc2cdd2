"""Differences between models: against other software, slow loops over pairs, and the regression that they equal."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from golden import Golden
from scipy import stats

import evalreg as er
from evalreg.errors import IndependenceWarning, ZeroVarianceWarning

# The same sums in another order.
ROUNDING = 1e-11

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
        plain = er.compare(log, item="question", groups="passage", icc=None).table.iloc[0]
    assert np.isnan(plain[["se", "lower", "upper", "p_value"]].to_numpy(dtype=float)).all()


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
        comparison = er.compare(frame[half], groups="item", baseline="m0", cov="naive", icc=None)
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


# Shapes


# Many pairs


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("adjust", ["holm", "fdr_bh", "bonferroni"])
def test_adjusted_p_values_are_those_of_statsmodels(rng: np.random.Generator, adjust: Any) -> None:
    from statsmodels.stats.multitest import multipletests

    table = er.compare(board(rng), groups="passage", adjust=adjust).table
    np.testing.assert_allclose(table["p_adjusted"], multipletests(table["p_value"], method=adjust)[1])


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


def test_a_third_axis_never_makes_the_clustered_sign_test_surer() -> None:
    frame = board(np.random.default_rng(8), n_models=2, binary=True)
    frame["batch"] = frame["item"].str[1:].astype(int) % 4
    joined, signs = on_shared(frame, "m1", "m0"), er.compare(frame, groups="passage", baseline="m0")
    for axes in (["passage", "style"], ["passage", "style", "batch"]):
        sets = [part for size in (1, 2, 3) for part in itertools.combinations(axes, size)]
        square = {part: (joined.groupby(list(part))["score"].sum() ** 2).sum() for part in sets}
        sums = [sum(-((-1) ** len(part)) * square[part] for part in sets if set(part) <= set(some)) for some in sets]
        crossed = signs.with_cov(groups=axes).sign_test()["clustered_statistic"].iloc[0]
        assert crossed == pytest.approx(joined["score"].sum() ** 2 / max(sums))


# What is printed


# Bad input


# Real logs


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
