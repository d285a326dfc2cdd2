"""Metrics of scores of two classes: DeLong by hand, a cluster bootstrap, calibration that is known, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

ROLES = {"truth": "bad", "predicted": "score"}
# Draws of the bootstrap: its standard error is known to 1/sqrt(2 B), here 3.5%; terms of order 1/G come on top.
DRAWS, CLOSE = 400, 0.12


def monitored(rng: np.random.Generator, n_tasks: int = 80, per: int = 5) -> pd.DataFrame:
    """Scores of two monitors of the same transcripts, a third of them bad, in tasks whose scores are alike."""
    task = np.repeat(np.arange(n_tasks), per)
    bad = (rng.uniform(size=task.size) < 1 / 3).astype(int)
    shared, seen = rng.normal(size=n_tasks)[task], {"task": task, "case": np.arange(task.size), "bad": bad}
    parts = []
    for model, skill in (("new", 1.5), ("old", 1.0)):
        latent = skill * bad + 0.7 * shared + rng.normal(size=task.size)
        parts.append(pd.DataFrame({"model": model, **seen, "score": latent.round(1)}))
    return pd.concat(parts, ignore_index=True)


def area(frame: pd.DataFrame) -> float:
    positive, negative = (frame.loc[frame["bad"] == k, "score"].to_numpy() for k in (1, 0))
    return float(((positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)).mean())


def hits(frame: pd.DataFrame, share: float) -> float:
    """Hits of the lowest of all thresholds that flags at most a share of the negatives."""
    positive, negative = (frame.loc[frame["bad"] == k, "score"].to_numpy() for k in (1, 0))
    allowed = [c for c in np.append(frame["score"].unique(), np.inf) if (negative >= c).mean() <= share]
    return float((positive >= min(allowed)).mean())


def bootstrap(frame: pd.DataFrame, statistic, rng: np.random.Generator) -> float:
    parts = [rows for _, rows in frame.groupby("task")]
    draws = [statistic(pd.concat([parts[i] for i in rng.integers(len(parts), size=len(parts))])) for _ in range(DRAWS)]
    return float(np.std(draws, ddof=1))


def test_areas_and_their_joint_covariance_are_delongs_by_hand(rng):
    log = monitored(rng)
    found = er.classification(log, **ROLES, metric="auc", by="model", groups="case", cov="CR0")
    columns = []
    for model in ("new", "old"):
        own = log[log["model"] == model]
        score, bad = own["score"].to_numpy(), own["bad"].to_numpy() == 1
        right = (score[bad][:, None] > score[~bad]) + 0.5 * (score[bad][:, None] == score[~bad])
        u = np.empty(len(own))
        u[bad] = (right.mean(axis=1) - right.mean()) / bad.sum()
        u[~bad] = (right.mean(axis=0) - right.mean()) / (~bad).sum()
        columns.append(u)
        assert found.params[model] == pytest.approx(area(own), abs=1e-12)
    T = np.array(columns).T
    assert found.cov_params().to_numpy() == pytest.approx(T.T @ T, rel=1e-9)
    by_task = found.with_cov(groups="task", cov="CR0").cov_params().to_numpy()
    T = pd.DataFrame(T).groupby(np.arange(len(T)) // 5).sum().to_numpy()
    assert by_task == pytest.approx(T.T @ T, rel=1e-9)


@pytest.mark.slow
def test_errors_under_clusters_are_those_of_a_cluster_bootstrap(rng):
    log = monitored(rng).query("model == 'new'")
    found = er.classification(log, **ROLES, metric="auc", groups="task")
    assert found.bse.iloc[0] == pytest.approx(bootstrap(log, area, rng), rel=CLOSE)
    log = log.assign(score=log["score"] + 0.01 * rng.normal(size=len(log)))
    for share in (0.05, 0.2):
        found = er.classification(log, **ROLES, metric=f"tpr@fpr={share}", groups="task")
        ratio = found.bse.iloc[0] / bootstrap(log, lambda frame, share=share: hits(frame, share), rng)
        assert 0.7 < ratio < 1.4


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9])
def test_hits_are_those_of_the_lowest_threshold_that_flags_few_enough(rng, share):
    log = monitored(rng, 30)
    found = er.classification(log, **ROLES, metric=f"tpr@fpr={share}", by="model", groups="task")
    for model in ("new", "old"):
        assert found.params[model] == pytest.approx(hits(log[log["model"] == model], share), abs=1e-12)
    alone = er.classification(log.query("model == 'new'"), **ROLES, metric=f"tpr@fpr={share}")
    assert alone.params.index.tolist() == [f"tpr@fpr={share}"]


def test_a_perfect_monitor_has_a_wide_interval_for_whose_end_a_difference_from_it_allows(rng):
    log = monitored(rng, 20).query("model == 'new'")
    log = log.assign(score=log["bad"] * 10 + log["score"].rank() / 1000)
    old = log.assign(model="old", score=log["score"] - 10.1 * log["bad"] * (rng.random(len(log)) < 0.3))
    for metric in ("auc", "tpr@fpr=0.1"):
        both = er.classification(pd.concat([log, old]), **ROLES, metric=metric, by="model", groups="task")
        low, high = both.conf_int().loc["new"]
        assert 0.5 < low < 0.99 < high == 1
        difference, gap = both.contrast("new - old"), 1 - both.params["old"]
        # Zou and Donner (2008), equations 7 and 8, with the t interval of the one that has a variance.
        half = stats.t.ppf(0.975, difference.dof.iloc[0]) * both.bse["old"]
        np.testing.assert_allclose(
            difference.conf_int().iloc[0], [gap - np.hypot(1 - low, half), gap + half], rtol=1e-9
        )
        assert float(both.t_test(f"new - old = {gap + half}").pvalue) == pytest.approx(0.05, rel=1e-6)
    # One of them is caught just above the threshold, whose noise is in the interval too.
    near = log["score"].where(log.index != log["bad"].idxmax(), log.query("bad == 0")["score"].quantile(0.92))
    unsure = er.classification(log.assign(score=near), **ROLES, metric="tpr@fpr=0.1", groups="task", cov="CR1")
    half = stats.t.ppf(0.975, 19) * unsure.bse.iloc[0]
    assert half > 0
    assert unsure.conf_int().iloc[0].tolist() == pytest.approx([1 - np.hypot(1 - low, half), 1])
    both = pd.concat([log, log.assign(model="old")])
    same = er.classification(both, **ROLES, metric="auc", by="model", groups="task").contrast("new - old")
    assert same.conf_int().iloc[0].tolist() == pytest.approx([low - 1, 1 - low])


def test_weights_count_rows_as_often(rng):
    log = monitored(rng, 20).query("model == 'new'").reset_index(drop=True)
    copies = rng.integers(1, 4, len(log))
    for metric in ("auc", "brier"):
        own = log.assign(score=1 / (1 + np.exp(-log["score"])), copies=copies.astype(float))
        weighted = er.classification(own, **ROLES, metric=metric, weights="copies", groups="task")
        repeated = er.classification(own.loc[own.index.repeat(copies)], **ROLES, metric=metric, groups="task")
        assert weighted.params.iloc[0] == pytest.approx(repeated.params.iloc[0], abs=1e-12)


def chances(rng: np.random.Generator, n_tasks: int, off: float, per: int = 4) -> pd.DataFrame:
    """Chances of outcomes that are too high by `off`, and outcomes that are alike within tasks."""
    task = np.repeat(np.arange(n_tasks), per)
    score = rng.uniform(0.15, 0.85, task.size)
    from scipy.special import ndtr

    alike = ndtr(0.7 * rng.normal(size=n_tasks)[task] + np.sqrt(1 - 0.49) * rng.normal(size=task.size))
    return pd.DataFrame({"bad": (alike < score - off).astype(int), "score": score, "task": task})


def test_briers_score_is_the_mean_of_squares_and_its_error_that_of_a_mean(rng):
    log = chances(rng, 60, 0.1)
    found = er.classification(log, **ROLES, metric="brier", groups="task")
    alone = er.mean(log.assign(square=(log["score"] - log["bad"]) ** 2), "square", groups="task")
    assert found.params.to_dict() == pytest.approx({"brier": alone.params.iloc[0]})
    assert found.bse.iloc[0] == pytest.approx(alone.bse.iloc[0])
    # The score interval takes the spread of rows from n in place of n - 1.
    assert found.conf_int().to_numpy() == pytest.approx(alone.conf_int().to_numpy(), rel=2e-3)
    # The same tasks tell two models apart, whichever clusters are named first.
    both = pd.concat([log.assign(model="a"), log.assign(model="b", score=log["score"].clip(upper=0.8))])
    both = both.assign(square=(both["score"] - both["bad"]) ** 2, row=np.tile(np.arange(len(log)), 2))
    for groups in ("row", "row + task", "task + row"):
        pairs = er.classification(both, **ROLES, metric="brier", by="model", groups=groups).pairwise()
        means = er.mean(both, "square", by="model", item="row", groups=groups).pairwise()
        assert pairs.to_numpy() == pytest.approx(means.to_numpy(), rel=1e-9)
        named = er.mean(both, "square", by="model", groups=groups).pairwise()
        assert named.to_numpy() == pytest.approx(means.to_numpy(), rel=1e-9)
        ratio = er.ratio(both.assign(one=1.0), "square", "one", by="model", groups=groups).pairwise()
        assert ratio.to_numpy() == pytest.approx(means.to_numpy(), rel=1e-9)


def test_the_calibration_error_is_the_debiased_root_of_the_square_gaps(rng):
    log = chances(rng, 100, 0.1, 10)
    found = er.classification(log, **ROLES, metric="ece", groups="task")
    bins = (log["score"] * 10).astype(int)
    gaps = er.mean(log.assign(gap=log["bad"] - log["score"], bin=bins), "gap", by="bin", groups="task")
    weights = bins.value_counts(normalize=True).sort_index().to_numpy()
    square = weights @ (gaps.params.to_numpy() ** 2 - gaps.bse.to_numpy() ** 2)
    assert found.params.to_dict() == pytest.approx({"ece": np.sign(square) * np.sqrt(abs(square))})
    # The shares of the bins are estimated too: a row adds the square gap of its bin, and its own part in that gap.
    bins, d = bins.factorize(sort=True)[0], gaps.params.to_numpy()
    of_bin = (d**2 - gaps.bse.to_numpy() ** 2)[bins]
    u = (of_bin - square + 2 * d[bins] * (log["bad"] - log["score"] - d[bins])) / len(log) / (2 * np.sqrt(abs(square)))
    T = u.groupby(log["task"]).sum()
    assert found.with_cov(cov="CR0").bse.iloc[0] == pytest.approx(np.sqrt(T @ T), rel=1e-9)
    # A bin that lies in one cluster counts for nothing: of many rows, or of one whatever its weight.
    one_cluster = log.assign(task=log["task"].mask(log["score"] > 0.8, 0), weight=1.0)
    one_row = log.drop(log.index[log["score"] > 0.8][1:])
    for rows in (one_cluster, *(one_row.assign(weight=w) for w in rng.uniform(0.3, 2.0, (30, len(one_row))))):
        lone = er.classification(rows, **ROLES, metric="ece", weights="weight", groups="task", cov="CR0")
        assert "rows are in bins that lie in one cluster" in " ".join(str(lone.summary()).split())


def test_bins_in_which_all_came_true_are_tested_with_their_neighbours(rng):
    log = chances(rng, 100, 0.0, 10)
    log.loc[log["score"] >= 0.8, "bad"] = 1
    found = er.classification(log, **ROLES, metric="ece", groups="task")
    bins = (log["score"] * 10).astype(int)
    gaps = er.mean(log.assign(gap=log["bad"] - log["score"], bin=bins), "gap", by="bin", groups="task")
    C = np.eye(len(gaps.params))[:-1]
    C[-1, -2:] = bins.value_counts(normalize=True)[[7, 8]] / bins.isin([7, 8]).mean()
    assert found.pvalues.iloc[0] == pytest.approx(float(gaps.wald_test(C).pvalue), rel=1e-6)


def test_a_calibration_error_below_0_has_the_p_of_its_interval_with_one_degree_of_freedom(rng):
    found = er.classification(chances(rng, 100, 0.05, 10), **ROLES, metric="ece", groups="task", dof=1.0)
    low = found.conf_int(0.3).iloc[0, 0]
    assert low < 0 < found.params.iloc[0]
    assert found.t_test(([1.0], low)).pvalue == pytest.approx(0.3, rel=1e-6)


def test_the_positive_class_is_the_greater_or_named(rng):
    log = monitored(rng, 30).query("model == 'new'")
    found = er.classification(log, **ROLES, metric="auc").params.iloc[0]
    assert er.classification(log, **ROLES, metric="auc", positive=0).params.iloc[0] == pytest.approx(1 - found)
    assert er.classification(log.astype({"bad": float}), **ROLES, metric="auc", positive=1).params.iloc[0] == found
    words = log.assign(bad=np.where(log["bad"] == 1, "bad", "ok"))
    assert '"ok" is the positive class' in str(er.classification(words, **ROLES, metric="auc").summary())
    assert er.classification(words, **ROLES, metric="auc", positive="bad").params.iloc[0] == pytest.approx(found)
