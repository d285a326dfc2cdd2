"""Rank sets, the best models and letters, against slow versions, properties and simulated truth."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.stats.multitest import multipletests

import evalreg as er
from evalreg.inference.simultaneous import groups_of_unseparated, pairwise_table, rank_sets, separated, simultaneous

NAMES = list("abcdefgh")


def board(rng, n, spread=1.0):
    A = rng.standard_normal((n, n + 2))
    return pd.Series(spread * rng.standard_normal(n), index=NAMES[:n]), 0.3 * A @ A.T / n


def counted(params, separated):
    """Rank sets by counting, from a function that says whether the first is surely better than the second."""
    names = params.index
    better = np.array([[a != b and separated(a, b) for b in names] for a in names])
    return (1 + better.sum(axis=0)).tolist(), (len(names) - better.sum(axis=1)).tolist()


# Rank sets


@pytest.mark.parametrize("dof", [np.inf, 8.0])
def test_joint_sets_count_the_pairs_that_the_simultaneous_intervals_separate(rng, dof):
    params, V = board(rng, 8, spread=2.0)
    bands = simultaneous(params, V, contrasts="pairs", dof=dof, stepdown=True)

    def separated(a, b):
        row = bands.loc[(a, b)] if (a, b) in bands.index else -bands.loc[(b, a)]
        return row["estimate"] > 0 and abs(row["p_adjusted"]) <= 0.05

    sets = rank_sets(params, V, dof=dof)
    assert (sets["lower"].tolist(), sets["upper"].tolist()) == counted(params, separated)
    assert sets["rank"].tolist() == stats.rankdata(-params, method="min").tolist()
    assert all(dtype.kind == "i" for dtype in sets.dtypes)
    assert sets["lower"].max() > 1
    assert sets["upper"].min() < 8
    assert sets.attrs["critical_value"] == bands.attrs["critical_value"]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("own", [False, True])
def test_marginal_sets_use_the_differences_with_one_model_alone(rng, own):
    params, V = board(rng, 5, spread=2.0)
    n = params.size
    i, j = np.triu_indices(n, 1)
    dof = rng.uniform(4, 30, i.size) if own else 12.0
    sets = rank_sets(params, V, joint=False, dof=dof)
    for position, name in enumerate(params.index):
        with_it = (i == position) | (j == position)
        C = np.zeros((n - 1, n))
        C[np.arange(n - 1), np.delete(np.arange(n), position)] = -1.0
        C[:, position] = 1.0
        one = simultaneous(params, V, contrasts=C, dof=dof[with_it] if own else dof)
        t = (one["estimate"] / one["se"]).to_numpy()
        p = multipletests(2 * stats.t.sf(np.abs(t), dof[with_it] if own else dof), method="holm")[1]
        assert sets.loc[name, "lower"] == 1 + int(((p <= 0.05) & (t < 0)).sum())
        assert sets.loc[name, "upper"] == n - int(((p <= 0.05) & (t > 0)).sum())


@pytest.mark.parametrize("joint", [True, False])
def test_ties_share_a_rank_and_one_model_and_two_have_theirs(joint):
    assert rank_sets([0.5, 0.9, 0.5, 0.1], np.eye(4), joint=joint)["rank"].tolist() == [2, 1, 2, 4]
    one = rank_sets(pd.Series([0.3], index=["only"]), [[1.0]], joint=joint)
    assert one.loc["only"].tolist() == [1, 1, 1]
    c = special.stdtrit(5.0, 0.975)
    for gap, expected in [(1.001 * c, [[1, 1], [2, 2]]), (0.999 * c, [[1, 2], [1, 2]])]:
        two = rank_sets([gap, 0.0], np.eye(2) / 2, dof=5.0, joint=joint)
        assert two[["lower", "upper"]].to_numpy().tolist() == expected


def test_a_pair_without_variance_is_undecided_and_named():
    V = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) * 1e-4
    params = pd.Series([3.0, 2.0, 1.0], index=["a", "b", "c"])
    for arguments in ({}, {"joint": False}):
        sets = rank_sets(params, V, **arguments)
        assert list(sets.attrs["undecided"]) == [("a", "b")]
        assert sets.to_numpy().tolist() == [[1, 1, 2], [2, 1, 2], [3, 3, 3]]
    assert separated(params, V)["letters"].to_dict() == {"a": "a", "b": "a", "c": "b"}
    all_alike = rank_sets(params, np.ones((3, 3)))
    assert all_alike[["lower", "upper"]].to_numpy().tolist() == [[1, 3]] * 3


def test_the_order_of_models_changes_nothing(rng):
    params, V = board(rng, 7, spread=1.5)
    order = rng.permutation(7)
    turned, W = params.iloc[order], V[np.ix_(order, order)]
    for arguments in ({}, {"joint": False}):
        pd.testing.assert_frame_equal(rank_sets(params, V, **arguments).iloc[order], rank_sets(turned, W, **arguments))
    pd.testing.assert_frame_equal(separated(params, V).iloc[order], separated(turned, W))


def test_seeds_repeat_and_generators_move_on(rng):
    params, V = board(rng, 6)
    first, again = rank_sets(params, V, seed=5), rank_sets(params, V, seed=5)
    assert first.attrs == again.attrs
    assert first.attrs["seed"] == 5
    generator = np.random.default_rng(5)
    moved = [rank_sets(params, V, seed=generator).attrs for _ in range(2)]
    assert moved[0]["critical_value"] != moved[1]["critical_value"]
    assert moved[0]["seed"] is None


# Letters


def cliques(apart):
    """Maximal sets without a separated pair, by looking at all sets."""
    n = apart.shape[0]
    free = [
        set(some)
        for size in range(1, n + 1)
        for some in combinations(range(n), size)
        if not any(apart[i, j] for i, j in combinations(some, 2))
    ]
    return sorted(tuple(sorted(one)) for one in free if not any(one < other for other in free))


def together(groups, n):
    """Which two models share a group, (n, n)."""
    shared = np.zeros((n, n), dtype=bool)
    for group in groups:
        shared[np.ix_(group, group)] = True
    return shared


@given(st.integers(1, 7), st.randoms(use_true_random=False))
def test_groups_are_maximal_sets_without_a_separated_pair_and_enough_of_them(n, random):
    apart = np.zeros((n, n), dtype=bool)
    for i, j in combinations(range(n), 2):
        apart[i, j] = apart[j, i] = random.random() < 0.5
    found = groups_of_unseparated(apart)
    assert set(found) <= set(cliques(apart))
    assert found == sorted(set(found))
    np.testing.assert_array_equal(together(found, n), ~apart)


def test_groups_that_are_millions_of_millions_are_not_all_made():
    # Of 60 pairs each is separated, and nothing else: one group for each way to take one of each pair.
    n = 120
    apart = np.kron(np.eye(n // 2), 1 - np.eye(2)).astype(bool)
    found = groups_of_unseparated(apart)
    assert len(found) <= 4 * n
    np.testing.assert_array_equal(together(found, n), ~apart)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_two_models_share_a_letter_exactly_if_not_separated(rng, n):
    for _ in range(3):
        params, V = board(rng, n, spread=2.0)
        shown = separated(params, V)["letters"]
        assert shown.index.tolist() == params.index.tolist()
        assert "a" in shown[params.idxmax()]
        for (left, right), p in pairwise_table(params, V, "step-down")["p_adjusted"].items():
            assert bool(set(shown[left]) & set(shown[right])) == (p >= 0.05)


# From a log


def test_a_board_from_a_log_takes_its_degrees_of_freedom_from_the_covariance():
    results = er.mean(er.datasets.paired(n_passages=30, seed=2), by="model", item="question", groups="passage")
    apart = bool(results.contrast("new - old").pvalues.iloc[0] < 0.05)
    assert results.ranks().loc["new"].tolist() == [1, 1, 2 - apart]
    letters = separated(results.params, results.cov)["letters"]
    assert bool(set(letters["new"]) & set(letters["old"])) == (not apart)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("n_clusters", [2, 3])
def test_equal_models_whose_few_clusters_happen_to_agree_are_not_separated(rng, n_clusters):
    model, cluster, _ = np.indices((20, n_clusters, 20)).reshape(3, -1)
    for _ in range(4):
        score = rng.random(model.size) < rng.beta(8.1, 0.9, 20 * n_clusters).repeat(20)
        results = er.mean({"score": score, "model": model, "cluster": cluster}, by="model", groups="cluster")
        assert results.ranks()["lower"].max() == 1
        assert np.all(results.pairwise("step-down").eval("p_adjusted >= p_value"))
