"""Variance components by facets: lme4's REML, matrices written out in full, simulated truth, bad input."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er

REFERENCE = Path(__file__).parent / "reference"
REML = 1e-6  # to which lme4's optimiser comes
SIGMAS = 4


@pytest.fixture(scope="module")
def balanced():
    return pd.read_csv(REFERENCE / "facets.csv")


@pytest.fixture(scope="module")
def lme4():
    return json.loads((REFERENCE / "facets.json").read_text(encoding="utf-8"))


def test_balanced_crossed_components_are_lme4s(balanced, lme4):
    found = er.components(balanced, facets="item x judge x template").table["variance"]
    wanted = {name.replace(":", " x "): value for name, value in lme4["crossed"].items()}
    wanted["item x judge x template + error"] = wanted.pop("Residual")
    assert set(found.index) == set(wanted)
    np.testing.assert_allclose(found, [wanted[name] for name in found.index], rtol=20 * REML)


def test_balanced_nested_components_are_lme4s(balanced, lme4):
    found = er.components(balanced, facets="item x judge:item").table["variance"]
    wanted = lme4["nested"]
    np.testing.assert_allclose(found[["item", "judge:item"]], [wanted["item"], wanted["item:judge"]], rtol=20 * REML)
    np.testing.assert_allclose(found["error"], wanted["Residual"], rtol=20 * REML)


def test_errors_on_a_balanced_design_are_those_of_its_mean_squares():
    log = er.datasets.sampled(n_questions=30, n_samples=4, n_models=1, seed=1)
    found = er.components(log, facets="question").table["se"]
    answers = log.pivot(index="question", columns="sample", values="score").to_numpy()
    squares = np.array([4 * answers.mean(axis=1).var(ddof=1), answers.var(axis=1, ddof=1).mean()])
    errors = squares * np.sqrt(2 / np.array([29 + 2, 90 + 2]))
    np.testing.assert_allclose(found, [np.hypot(*errors) / 4, errors[1]], rtol=1e-10)


def test_unbalanced_components_solve_the_equations_of_dense_matrices():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(list(itertools.product(range(6), range(4), range(2))), columns=["item", "judge", "again"])
    frame = frame[rng.random(len(frame)) < 0.7].reset_index(drop=True)
    frame["score"] = rng.normal(size=6)[frame["item"]] + rng.normal(size=len(frame))
    n = len(frame)
    both = frame["item"] * 10 + frame["judge"]
    Z = [pd.get_dummies(key).to_numpy(float) for key in (frame["item"], frame["judge"], both)]
    kernels = [one @ one.T for one in Z] + [np.eye(n)]
    forms = [one @ np.linalg.pinv(one) for one in Z] + [np.eye(n)]
    M = np.eye(n) - 1 / n
    e = M @ frame["score"].to_numpy()
    slow = np.linalg.solve([[np.trace(F @ M @ K @ M) for K in kernels] for F in forms], [e @ F @ e for F in forms])
    found = er.components(frame, facets="item x judge").table["variance"]
    np.testing.assert_allclose(found, slow, rtol=1e-9)


def test_judges_who_all_agree_leave_no_variance_but_that_of_items():
    frame = pd.DataFrame(list(itertools.product(range(6), range(4))), columns=["item", "judge"])
    frame["score"] = 0.1 + frame["item"] % 2
    table = er.components(frame, facets="item x judge").table
    assert table.loc["item", "variance"] == pytest.approx(0.3)
    assert (table.iloc[1:][["variance", "se", "lower", "upper", "share"]] == 0).all(axis=None)


def test_a_score_of_one_level_alone_has_finite_errors():
    frame = unbalanced(*UNBALANCED[0])
    frame["score"] = (frame["item"] == "item2").astype(float)
    columns = ["variance", "se", "lower", "upper", "dof"]
    assert np.isfinite(er.components(frame, facets="item x judge").table[columns]).all(axis=None)


UNBALANCED = [
    ("item x judge", (9, 5), 2),
    ("item x judge", (12, 6), 1),
    ("item x judge:item", (7, 4), 2),
    ("item x judge x template", (6, 3, 3), 2),
    ("item x judge:item x template", (5, 3, 4), 2),
]


def unbalanced(facets, levels, repeats, seed=5):
    """Rows of a design of which a third is missing, in any order, with labels of text."""
    rng = np.random.default_rng(seed)
    names = [name.partition(":")[0] for name in facets.split(" x ")]
    index = list(itertools.product(*(range(n) for n in levels), range(repeats)))
    frame = pd.DataFrame(index, columns=[*names, "again"]).sample(frac=0.65, random_state=seed)
    frame["score"] = rng.normal(size=len(frame))
    for name, n in zip(names, levels, strict=True):
        frame["score"] += rng.normal(size=n)[frame[name]]
        frame[name] = [f"{name}{level}" for level in frame[name]]
    return frame.drop(columns="again").reset_index(drop=True)


@pytest.mark.parametrize(("facets", "levels", "repeats"), UNBALANCED)
def test_errors_on_unbalanced_designs_are_those_of_dense_matrices(facets, levels, repeats):
    frame = unbalanced(facets, levels, repeats)
    found = er.components(frame, facets=facets).table
    n, sets = len(frame), [sorted(set(name.replace(" x ", ":").split(":"))) for name in found.index[:-1]]
    Z = [pd.get_dummies(frame[columns].agg("|".join, axis=1)).to_numpy(float) for columns in sets]
    kernels = [one @ one.T for one in Z] + [np.eye(n)]
    M = np.eye(n) - 1 / n
    means = [M @ one @ np.linalg.pinv(one) @ M for one in Z] + [M]
    solve = np.linalg.inv([[np.trace(F @ K) for K in kernels] for F in means])
    V = sum(max(v, 0.0) * K for v, K in zip(found["variance"], kernels, strict=True))
    se = [np.sqrt(2 * np.trace(A @ V @ A @ V)) for A in np.tensordot(solve, means, axes=1)]
    np.testing.assert_allclose(found["se"], se, rtol=1e-8)
    sums = [mean.copy() for mean in means]
    for c, own in enumerate(sets):
        for d in range(c):
            sums[c] -= sums[d] if set(sets[d]) < set(own) else 0.0
    sums[-1] = sums[-1] - sum(sums[:-1])
    dof = [np.trace(A @ V) ** 2 / np.trace(A @ V @ A @ V) for A in sums]
    np.testing.assert_allclose(found["dof"], np.maximum(dof, 1.0), rtol=1e-8)


@pytest.mark.parametrize(("kept", "draws"), [pytest.param(1.0, 80, marks=pytest.mark.slow), (0.6, 80)])
def test_estimates_and_errors_are_those_of_simulated_truth(kept, draws):
    rng, found, errors = np.random.default_rng(8), [], []
    truth = np.array([0.09, 0.04, 0.05])
    i, j = np.indices((20, 6)).reshape(2, -1)
    for _ in range(draws):
        keep = rng.random(i.size) < kept
        score = rng.normal(0, 0.3, 20)[i] + rng.normal(0, 0.2, 6)[j] + rng.normal(0, np.sqrt(0.05), i.size)
        frame = pd.DataFrame({"item": i, "judge": j, "score": score})[keep]
        table = er.components(frame, facets="item x judge").table
        found.append(table["variance"])
        errors.append(table["se"])
    sd = np.std(found, axis=0, ddof=1)
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < SIGMAS * sd / np.sqrt(len(found)))
    # A standard error of 80 draws is known to some 8%, more where a component has few degrees of freedom.
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(errors), axis=0)), sd, rtol=0.35)


def test_the_error_of_another_design_is_that_of_simulated_means():
    rng = np.random.default_rng(2)
    i, j = np.indices((40, 5)).reshape(2, -1)
    score = rng.normal(0, 0.3, 40)[i] + rng.normal(0, 0.1, 5)[j] + rng.normal(0, 0.2, 200)
    found = er.components(pd.DataFrame({"item": i, "judge": j, "score": score}), facets="item x judge")
    sd = np.sqrt(found.table["variance"].clip(lower=0))
    draws = [
        rng.normal(0, sd.iloc[0], 9).mean() + rng.normal(0, sd.iloc[1], 3).mean() + rng.normal(0, sd.iloc[2], 27).mean()
        for _ in range(4000)
    ]
    np.testing.assert_allclose(found.standard_error(item=9, judge=3), np.std(draws), rtol=SIGMAS / np.sqrt(2 * 4000))
