"""Several evals together: R's metafor, statsmodels' sandwich and simulated truth."""

from __future__ import annotations

import ast
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.multitest import multipletests

import evalreg as er
from evalreg.errors import ArgumentError
from evalreg.suites.average import drawn, drawn_alike

# rma(y, sei = se, method = "PM", test = "adhoc") and predict() of R's metafor 3.8-1: mean, SE, ends, ends of a new one.
METAFOR = (
    (
        (0.82, 0.71, 0.64, 0.90, 0.55),
        (0.02, 0.05, 0.03, 0.015, 0.06),
        (0.7306186316, 0.0621487432, 0.5580660576, 0.9031712055, 0.3212879253, 1.1399493379),
        0.0178730754,
    ),
    (
        (0.50, 0.52, 0.51, 0.49),
        (0.05, 0.03, 0.06, 0.04),
        (0.5077675489, 0.0203536059, 0.4429932909, 0.5725418070, 0.4429932909, 0.5725418070),
        0.0,
    ),
)


def eval_log(seed: int, n_passages: int = 20, models: tuple[str, ...] = ("a", "b", "c")) -> pd.DataFrame:
    """Continuous scores of models on questions in passages of unequal sizes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, n_passages)
    passage = np.repeat(np.arange(n_passages), sizes)
    shared = rng.normal(size=n_passages)[passage] + rng.normal(size=passage.size)
    frames = [
        pd.DataFrame({"passage": passage, "item": np.arange(passage.size), "model": model, "score": values})
        for i, model in enumerate(models)
        for values in [3 + 0.2 * i + shared + rng.normal(size=passage.size)]
    ]
    return pd.concat(frames, ignore_index=True)


def means(log: pd.DataFrame, **options) -> er.Results:
    return er.mean(log, by="model", item="item", groups="passage", **options)


@pytest.fixture(scope="module")
def logs() -> dict[str, pd.DataFrame]:
    return {name: eval_log(seed, 15 + 5 * seed) for seed, name in enumerate(["reading", "maths", "code"], 1)}


@pytest.fixture(scope="module")
def evals(logs: dict[str, pd.DataFrame]) -> er.Evals:
    return er.join_evals({name: means(log) for name, log in logs.items()})


# Tables


def test_the_table_is_that_of_each_eval(evals: er.Evals) -> None:
    for name, part in evals.parts.items():
        frame = part.to_frame()
        own = evals.table.loc[name]
        for column in ("estimate", "se", "lower", "upper", "naive_se", "dof"):
            np.testing.assert_array_equal(own[column], frame[column])
        np.testing.assert_allclose(own["ratio"], frame["se"] / frame["naive_se"], rtol=1e-12)
        assert set(own["n_clusters"]) == {part.n_clusters["passage"]}


def test_rows_that_name_their_eval_and_logs_by_name_give_the_same(logs: dict[str, pd.DataFrame]) -> None:
    rows = {name: log.rename(columns={"question": "item"}) for name, log in logs.items()}
    whole = er.Log(pd.concat([log.assign(task=name) for name, log in rows.items()]))
    named = er.by_eval(er.mean, {name: er.Log(log) for name, log in rows.items()}, {}).table
    pd.testing.assert_frame_equal(er.by_eval(er.mean, whole, {}, column="task").table, named)


def test_each_form_holds_what_the_paper_s_table_holds(evals: er.Evals) -> None:
    first = evals.table.iloc[0]
    scores = er.join_evals(evals.parts, form="scores").summary().grids[0]
    assert scores.headers == ("model", "reading", "maths", "code")
    assert scores.rows[0][1] == f"{first['estimate']:.4f} ({first['se']:.4f})"
    assert len(scores.rows) == 3
    counts = {row[0]: row[1:] for row in evals.summary().grids[0].rows}
    assert counts["Clusters"] == ("20", "25", "30")
    assert counts["Questions or rows"] == tuple(str(part.nobs // 3) for part in evals.parts.values())
    clustered = er.join_evals(evals.parts, form="clustered").summary().grids[0]
    assert clustered.rows[0][0] == "reading: a"
    assert clustered.rows[0][2:5] == (f"{first['se']:.4f}", f"{first['naive_se']:.4f}", f"{first['ratio']:.2f}")


@pytest.mark.usefixtures("uncollected")
def test_p_values_are_adjusted_over_all_evals_as_statsmodels_does(logs: dict[str, pd.DataFrame]) -> None:
    parts = {name: er.compare(log, item="item", groups="passage") for name, log in logs.items()}
    for method in ("fdr_bh", "fdr_by", "holm", "bonferroni"):
        joined = er.join_evals(parts, adjust=method)
        p = joined.table["p_value"].to_numpy()
        np.testing.assert_allclose(joined.table["p_adjusted"], multipletests(p, method=method)[1], rtol=1e-12)
        if method in ("fdr_by", "bonferroni"):
            continue  # the words and what is stored follow from the name
        assert f"all 9 differences on all evals ({method})" in " ".join(str(joined.summary()).split())
        stored = er.read_results(joined.to_json()).table["p_adjusted"]
        assert sorted(stored) == sorted(joined.table["p_adjusted"])
    with pytest.raises(ArgumentError, match="already adjusted"):
        er.join_evals({"x": er.compare(logs["code"], item="item", adjust="holm")}, adjust="fdr_bh")


# Averages


@pytest.mark.usefixtures("uncollected")
def test_the_average_over_fixed_evals_is_that_of_independent_regressions(
    evals: er.Evals, logs: dict[str, pd.DataFrame]
) -> None:
    weights = {"reading": 0.5, "maths": 0.3, "code": 0.2}
    parts = {name: part.with_cov(cov="CR0") for name, part in evals.parts.items()}
    found = er.join_evals(parts).average(weights)
    params, V = 0.0, 0.0
    for name, log in logs.items():
        fit = smf.ols("score ~ 0 + C(model)", log).fit(
            cov_type="cluster", cov_kwds={"groups": log["passage"], "use_correction": False}
        )
        params, V = params + weights[name] * fit.params.to_numpy(), V + weights[name] ** 2 * fit.cov_params().to_numpy()
    with pytest.raises(er.errors.ArgumentTypeError, match="`weights` must be a number; got str 'half'"):
        evals.average(dict.fromkeys(weights, "half"))
    with pytest.raises(er.errors.ArgumentError, match="sum to 1") as refused:
        evals.average(dict.fromkeys(weights, 1))
    advised = ast.literal_eval(re.search(r"\{.*\}", str(refused.value))[0])
    assert evals.average(advised).table["estimate"].notna().all()
    table = found.table.loc[["a", "b", "c"]]
    np.testing.assert_allclose(table["estimate"], params, rtol=1e-10)
    np.testing.assert_allclose(table["se"], np.sqrt(np.diag(V)), rtol=1e-10)
    pairs = found.pairwise()
    np.testing.assert_allclose(pairs.loc[("a", "c"), "se"], np.sqrt(V[0, 0] + V[2, 2] - 2 * V[0, 2]), rtol=1e-10)
    # Welch and Satterthwaite over the evals, each with G - 1.
    own = [weights[name] ** 2 * part.bse["a"] ** 2 for name, part in parts.items()]
    dof = sum(own) ** 2 / sum(v**2 / part.dof["a"] for v, part in zip(own, parts.values(), strict=True))
    np.testing.assert_allclose(table.loc["a", "dof"], dof, rtol=1e-10)
    np.testing.assert_allclose(
        table.loc["a", "upper"], params[0] + stats.t.ppf(0.975, dof) * np.sqrt(V[0, 0]), rtol=1e-10
    )
    p = 2 * stats.t.sf(abs(pairs["difference"] / pairs["se"]), pairs["dof"])
    np.testing.assert_allclose(pairs["p_adjusted"], multipletests(p, method="holm")[1], rtol=1e-8)


@pytest.mark.parametrize("case", METAFOR)
def test_drawn_tasks_by_precision_are_those_of_metafor(case) -> None:
    y, se, expected, tau2 = case
    found = drawn(np.array(y)[:, None], np.array(se)[:, None])
    t = stats.t.ppf(0.975, len(y) - 1)
    mean, error, new = found.estimate[0], found.se[0], found.new_se[0]
    ours = (mean, error, mean - t * error, mean + t * error, mean - t * new, mean + t * new)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    np.testing.assert_allclose(found.tau[0] ** 2, tau2, rtol=1e-6)


def test_drawn_tasks_that_count_alike_are_the_t_test_of_their_scores(rng: np.random.Generator) -> None:
    y = rng.normal(0.6, 0.2, 8)
    found = drawn_alike(y[:, None], np.full((8, 1), 0.01))
    t = stats.ttest_1samp(y, 0.0)
    ours = [found.estimate[0], found.estimate[0] / found.se[0], found.new_se[0]]
    np.testing.assert_allclose(ours, [y.mean(), t.statistic, y.std(ddof=1) * np.sqrt(1 + 1 / 8)])
    # Never surer than the questions of these evals let one be.
    same = drawn_alike(np.full((8, 1), 0.6), np.full((8, 1), 0.04))
    np.testing.assert_allclose(same.se[0], 0.04 / np.sqrt(8))


@pytest.mark.parametrize(("k", "tau"), [(2, 0.1), (5, 0.1), (10, 0.1), (5, 0.03), (10, 0.0)])
def test_drawn_tasks_of_unequal_sizes_are_covered(k: int, tau: float) -> None:
    rng, draws = np.random.default_rng(7), 4000
    n = np.resize([30, 60, 120, 500, 2000], k)[:, None]
    p = np.clip(0.6 + tau * rng.normal(size=(k + 1, draws)), 0.01, 0.99)
    y = rng.binomial(n, p[:k]) / n
    found = drawn_alike(y, np.sqrt(np.maximum(y * (1 - y), 0.5 / n) / n))
    t = stats.t.ppf(0.975, k - 1)
    slack = 4 * np.sqrt(0.05 * 0.95 / draws)
    assert np.mean(np.abs(found.estimate - 0.6) <= t * found.se) > 0.95 - slack
    assert np.mean(np.abs(found.estimate - p[k]) <= t * found.new_se) > 0.95 - slack


def test_ranks_are_those_that_no_pair_excludes() -> None:
    parts = {}
    for seed in range(4):
        log = eval_log(seed, 40)
        log["score"] += log["model"].map({"a": 0.0, "b": 0.0, "c": 3.0})
        parts[f"e{seed}"] = means(log)
    average = er.join_evals(parts).average()
    assert average.table.index[0] == "c"
    assert average.table.loc["c", ["rank", "rank_lower", "rank_upper"]].tolist() == [1, 1, 1]
    apart = average.pairwise().loc[("a", "b"), "p_adjusted"] <= 0.05
    assert average.table.loc["a", "rank_upper"] - average.table.loc["a", "rank_lower"] == (0 if apart else 1)


# Bad input


@pytest.mark.parametrize("kind", ["differences", "scores"])
def test_a_forest_plot_has_a_row_for_each_eval_and_the_average_at_the_foot(kind):
    plt = pytest.importorskip("matplotlib.pyplot")
    long = "A benchmark with a name of rather more than sixty letters, held out, 2026"
    logs = {name: er.datasets.paired(n_passages=20, seed=i) for i, name in enumerate(["reading", long])}
    if kind == "differences":
        name = "new - old"
        suite = er.join_evals({key: er.compare(log, item="question", baseline="old") for key, log in logs.items()})
    else:
        name = "new"
        suite = er.join_evals({key: er.mean(log, by="model", item="question") for key, log in logs.items()})
    ax = suite.plot(name)
    labels = [label.get_text().replace("\n", " ") for label in ax.get_yticklabels()]
    assert labels == ["reading", long, "Average"]
    average = suite.average(models=[name]).table.loc[name]
    (mark,) = (line for line in ax.get_lines() if line.get_gid() == "average")
    assert mark.get_xydata().ravel().tolist() == pytest.approx([average["estimate"], 2])
    bars = np.vstack([segment for found in ax.collections for segment in found.get_segments()])
    foot = bars[bars[:, 1] == 2]
    assert {average["lower"], average["upper"]} <= set(foot[:, 0])
    zero = [line for line in ax.get_lines() if np.allclose(line.get_xdata(), 0) and line.get_gid() is None]
    assert len(zero) == (kind == "differences")
    plt.close("all")
    with pytest.raises(er.errors.ArgumentError, match="`name` must be"):
        suite.plot("nobody")
    other = er.join_evals({"reading": suite.parts["reading"], "other": suite.parts[long]}).average()
    with pytest.raises(er.errors.ArgumentError, match="`average` must be"):
        suite.plot(name, average=other)
    assert len(suite.plot(name, average=False).get_yticks()) == 2
    plt.close("all")


@pytest.mark.filterwarnings("ignore::evalreg.errors.ZeroVarianceWarning")
@pytest.mark.parametrize("groups", [None, "passage"])
@pytest.mark.parametrize("weights", [None, {"a": 0.2, "b": 0.8}, {"a": 0.0, "b": 1.0}])
def test_averages_of_means_in_the_unit_interval_have_the_interval_of_a_mean_over_strata(groups, weights):
    logs = {name: er.datasets.paired(n_passages=12 + 9 * seed, seed=seed) for seed, name in enumerate("ab")}
    logs["b"] = logs["b"].assign(score=logs["b"]["score"].where(logs["b"]["model"] == "old", 1.0))
    asked = {"by": "model", "item": "question", "groups": groups, "dof": "normal"}
    average = er.join_evals({name: er.mean(log, **asked) for name, log in logs.items()}).average(weights)
    counted = [name for name in logs if weights is None or weights[name] > 0]
    log = pd.concat(
        [
            logs[name].assign(eval=name, question=lambda rows: rows["eval"] + rows["question"].astype(str))
            for name in counted
        ]
    ).assign(passage=lambda rows: rows["eval"] + rows["passage"].astype(str))
    shares = "macro" if weights is None else {name: weights[name] for name in counted}
    expected = er.mean(log, **asked, strata="eval", strata_weights=shares).conf_int()
    found = average.table.loc[expected.index, ["lower", "upper"]]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
