"""Corrections, degrees of freedom and intervals against versions that are slow and obvious: loops, n x n matrices."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import evalreg as er

# Small designs are few and unequal by construction; warnings about that have their own tests.
pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# The slow version inverts matrices as they stand, so condition numbers of some 1e4 cost this much.
CLOSE = 1e-7
# Sums of at most a few hundred terms, without any inverse.
SAME = 1e-11
# Leverages between this and 1 are neither: (1 - h)^-1 loses the digits that the slow version is to check.
CLEAR = 1e-4
# Draws of a design are cheap, but each is checked in loops.
EXAMPLES = settings(max_examples=8)

COVS = ("CR0", "CR2", "CR3")
POWERS = {"CR0": 0.0, "CR2": 0.5, "CR3": 1.0}


@dataclass(frozen=True)
class Problem:
    """A small weighted regression, everything dense and written out."""

    X: np.ndarray
    y: np.ndarray
    w: np.ndarray
    codes: np.ndarray
    other: np.ndarray

    @property
    def scaled(self):
        """Rows of the design times the root of the weight."""
        return self.X * np.sqrt(self.w)[:, None]

    @property
    def inverse(self):
        return np.linalg.inv(self.scaled.T @ self.scaled)

    @property
    def params(self):
        return self.inverse @ self.scaled.T @ (np.sqrt(self.w) * self.y)

    @property
    def residual(self):
        return np.sqrt(self.w) * (self.y - self.X @ self.params)

    @property
    def annihilator(self):
        """I - H, n x n."""
        return np.eye(self.y.size) - self.scaled @ self.inverse @ self.scaled.T

    @property
    def scale(self):
        """The largest variance if rows were independent."""
        return np.diag(self.inverse).max() * np.mean(self.residual**2)

    @property
    def n_clusters(self):
        return np.unique(self.codes).size

    def rows(self):
        """Rows of each cluster."""
        return [np.flatnonzero(self.codes == code) for code in np.unique(self.codes)]

    def estimate(self):
        return er.from_statsmodels(sm.WLS(self.y, self.X, weights=self.w).fit())

    def without(self, rows):
        keep = np.setdiff1d(np.arange(self.y.size), rows)
        return Problem(self.X[keep], self.y[keep], self.w[keep], self.codes[keep], self.other[keep])


def _codes(rng, n, n_clusters):
    """Unequal clusters, every one of `n_clusters` present."""
    return rng.permutation(np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, n - n_clusters) // 2]))


def _design(rng, kind, n, codes):
    if kind == "numeric":
        return rng.normal(size=n)
    if kind == "binary":
        return rng.integers(0, 2, n).astype(float)
    if kind == "cluster":
        return rng.normal(size=codes.max() + 1)[codes]
    return (codes == codes[0]).astype(float)  # a dummy of one cluster, which has leverage 1


@st.composite
def problems(draw, kinds=("numeric", "binary", "cluster", "dummy")):
    n_clusters = draw(st.integers(3, 6))
    n = draw(st.integers(max(n_clusters, 8), 24))
    columns = draw(st.lists(st.sampled_from(kinds), max_size=3, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = _codes(rng, n, n_clusters)
    X = np.column_stack([np.ones(n), *(_design(rng, kind, n, codes) for kind in columns)])
    w = rng.uniform(0.3, 3.0, n) if draw(st.booleans()) else np.ones(n)
    problem = Problem(X, rng.normal(size=n), w, codes, rng.integers(0, 3, n))
    assume(n > X.shape[1] + 1)
    assume(np.linalg.cond(problem.scaled) < 1e3)
    for rows in problem.rows():
        free = 1 - np.linalg.eigvalsh(_own_leverage(problem, rows))
        assume(np.all((np.abs(free) < 1e-12) | (free > CLEAR)))
    return problem


def _own_leverage(problem, rows):
    """H_gg, n_g x n_g."""
    return problem.scaled[rows] @ problem.inverse @ problem.scaled[rows].T


def _adjustment(problem, rows, power):
    """(I - H_gg)^-power, the symmetric root, Moore-Penrose: eigenvalue 1 of H_gg is mapped to 0."""
    values, axes = np.linalg.eigh(np.eye(rows.size) - _own_leverage(problem, rows))
    scale = np.array([0.0 if value < CLEAR / 2 else value**-power for value in values]) if power else np.ones(rows.size)
    return axes @ np.diag(scale) @ axes.T


def _slow_covariance(problem, power):
    k = problem.X.shape[1]
    meat = np.zeros((k, k))
    for rows in problem.rows():
        total = problem.scaled[rows].T @ _adjustment(problem, rows, power) @ problem.residual[rows]
        meat += np.outer(total, total)
    return problem.inverse @ meat @ problem.inverse


def _spread_of_totals(problem, C, power):
    """B_g with C T_g = B_g e: adjusted totals of each cluster as linear maps of independent errors, q x n each."""
    maps = []
    for rows in problem.rows():
        adjusted = problem.scaled[rows].T @ _adjustment(problem, rows, power) @ problem.annihilator[rows]
        maps.append(C @ problem.inverse @ adjusted)
    return maps


def _slow_dof(problem, c, power):
    """(trace P)^2 / trace(P P) of the quadratic form sum_g (B_g e)^2 under the working model."""
    P = np.concatenate(_spread_of_totals(problem, np.atleast_2d(c), power))
    products = P @ P.T
    return np.trace(products) ** 2 / np.sum(products**2)


def _slow_eta(problem, C, power=0.5):
    """q (q + 1) over the total variance of the whitened covariance matrix, element by element (PT 2018)."""
    maps = _spread_of_totals(problem, C, power)
    omega = sum(B @ B.T for B in maps)
    whiten = np.linalg.inv(np.linalg.cholesky(omega))
    maps = [whiten @ B for B in maps]
    q, variance = C.shape[0], 0.0
    for s in range(q):
        for t in range(q):
            for one in maps:
                for two in maps:
                    cross = one @ two.T  # covariance of the totals of two clusters
                    variance += cross[s, s] * cross[t, t] + cross[s, t] * cross[t, s]
    return q * (q + 1) / variance


def _lost(problem):
    """Whether some cluster has leverage 1."""
    return any(np.linalg.eigvalsh(_own_leverage(problem, rows)).max() > 1 - 1e-9 for rows in problem.rows())


def _assert_close(found, expected, rtol=CLOSE, scale=0.0):
    """Relative to the largest element, or to `scale` where cancellation may leave nothing."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    largest = np.max(np.abs(expected), where=np.isfinite(expected), initial=scale)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * largest)


# Regressions


@EXAMPLES
@given(problem=problems(), cov=st.sampled_from(COVS))
def test_one_way_covariances_are_those_of_n_by_n_matrices(problem, cov):
    found = er.covariance(problem.estimate(), problem.codes, cov=cov).raw
    factor = (problem.n_clusters - 1) / problem.n_clusters if cov == "CR3" else 1.0
    _assert_close(found, factor * _slow_covariance(problem, POWERS[cov]), scale=problem.scale)


@EXAMPLES
@given(problem=problems(), cov=st.sampled_from(COVS), seed=st.integers(0, 999))
def test_satterthwaite_degrees_of_freedom_are_those_of_the_explicit_quadratic_form(problem, cov, seed):
    C = np.vstack([np.eye(problem.X.shape[1]), np.random.default_rng(seed).normal(size=(2, problem.X.shape[1]))])
    found = er.covariance(problem.estimate(), problem.codes, cov=cov, dof="satterthwaite").dof(C)
    for c, dof in zip(C, found, strict=True):
        P = np.concatenate(_spread_of_totals(problem, c[None], POWERS[cov]))
        if np.sum(P**2) < 1e-12 * (c @ problem.inverse @ c):
            continue  # the contrast rests on one cluster: 0/0
        _assert_close(dof, _slow_dof(problem, c, POWERS[cov]))


@EXAMPLES
@given(problem=problems(kinds=("numeric", "binary", "cluster")))
def test_joint_tests_have_the_degrees_of_freedom_of_their_definition(problem):
    k = problem.X.shape[1]
    assume(k >= 2)
    C = np.eye(k)[1:]
    maps = _spread_of_totals(problem, C, 0.5)
    assume(np.linalg.cond(sum(B @ B.T for B in maps)) < 1e4)
    eta, q = _slow_eta(problem, C), k - 1
    results = er.infer(problem.estimate(), groups=problem.codes)
    test = results.wald_test(C)
    if results.bse.iloc[1:].isna().any():
        assert _lost(problem)
        assert np.isnan(test.statistic)
        assert "single cluster" in test.reason
        return
    if eta <= q - 1:
        assert np.isnan(test.statistic)
        assert "jointly" in test.reason
        return
    effect, V = C @ problem.params, C @ _slow_covariance(problem, 0.5) @ C.T
    assume(np.linalg.cond(V) < 1e6)
    _assert_close(test.df_denom, eta - q + 1)
    F = (eta - q + 1) / (eta * q) * effect @ np.linalg.solve(V, effect)
    _assert_close(np.squeeze(test.statistic), F, rtol=1e-5)  # the condition of V times rounding
    _assert_close(test.pvalue, stats.f.sf(F, q, eta - q + 1), rtol=1e-5)


@EXAMPLES
@given(problem=problems())
def test_cr3_and_the_jackknife_leave_each_cluster_out_and_refit(problem):
    assume(not _lost(problem))
    changes = [problem.without(rows).params - problem.params for rows in problem.rows()]
    G = problem.n_clusters
    slow = (G - 1) / G * sum(np.outer(change, change) for change in changes)
    results = er.infer(problem.estimate(), groups={"g": problem.codes}, cov="CR3")
    _assert_close(results.cov_params(), slow)
    _assert_close(results.with_cov(cov="jackknife").cov_params(), slow)
    moved = [np.max(np.abs(change) / results.bse.to_numpy()) for change in changes]
    worst = np.argmax(moved)
    assume(np.sum(moved > moved[worst] * (1 - 1e-6)) == 1)
    row = results.diagnostics().loc["g"]
    _assert_close(list(row["params_without"].values()), problem.params + changes[worst])
    assert row["most_influential"] == str(np.unique(problem.codes)[worst])
    _assert_close(row["max_leverage"], max(np.trace(_own_leverage(problem, rows)) for rows in problem.rows()))


@EXAMPLES
@given(problem=problems(kinds=("dummy", "numeric")))
def test_what_a_cluster_alone_determines_has_no_cr3(problem):
    assume(_lost(problem))
    results = er.infer(problem.estimate(), groups=problem.codes, cov="CR3")
    for j, se in enumerate(results.bse):
        determined = False
        for rows in problem.rows():
            rest = np.delete(problem.scaled, rows, axis=0)
            # A coefficient can be estimated without the cluster if its unit vector lies in the rows that are left.
            projected = np.linalg.pinv(rest, rcond=1e-8) @ rest @ np.eye(problem.X.shape[1])[j]
            determined |= not np.allclose(projected, np.eye(problem.X.shape[1])[j], atol=1e-6)
        assert np.isnan(se) == determined


@EXAMPLES
@given(problem=problems(), ssc=st.sampled_from(["none", "fixest"]))
def test_crossed_cr1_sums_over_pairs_of_rows_that_share_a_cluster(problem, ssc):
    axes = {"a": problem.codes, "b": problem.other, "c": (np.arange(problem.y.size) * 7) % 4}
    assume(np.unique(problem.other).size > 1)
    u = problem.scaled * problem.residual[:, None] @ problem.inverse
    for names in (("a", "b"), ("a", "b", "c")):
        pieces = er.covariance(
            problem.estimate(), {name: axes[name] for name in names}, cov="CR1", ssc=ssc, repair="none"
        )
        assume(len(pieces.axes) == len(names))
        n, k = problem.X.shape
        slow = np.zeros((k, k))
        for r in range(n):
            for s in range(n):
                if any(axes[name][r] == axes[name][s] for name in names):
                    slow += np.outer(u[r], u[s])
        G = min(np.unique(axes[name]).size for name in names)
        factor = 1.0 if ssc == "none" else G / (G - 1) * (n - 1) / (n - k)
        _assert_close(pieces.raw, factor * slow, scale=problem.scale)


@EXAMPLES
@given(problem=problems(kinds=("numeric", "binary")), cov=st.sampled_from(["CR1", "CR2", "CR3"]))
def test_max_repair_is_the_largest_of_the_crossed_and_one_way_variances_of_each_contrast(problem, cov):
    assume(np.unique(problem.other).size > 1)
    estimate, groups = problem.estimate(), {"a": problem.codes, "b": problem.other}
    crossed = er.covariance(estimate, groups, cov=cov, repair="max")
    assume(crossed.crossed)
    one_way = [er.covariance(estimate, {name: groups[name]}, cov=cov).raw for name in groups]
    both = er.covariance(estimate, {"ab": problem.codes * 10 + problem.other}, cov=cov).raw
    C = np.vstack([np.eye(problem.X.shape[1]), np.random.default_rng(0).normal(size=(3, problem.X.shape[1]))])
    raw = sum(one_way) - both
    for c, variance in zip(C, crossed.variance(C), strict=True):
        largest = max(c @ raw @ c, *(c @ V @ c for V in one_way))
        if np.isnan(variance):
            # CR3 of what a cluster alone determines, or no variance at all: a dummy of a single row fits it exactly.
            assert cov == "CR3" or largest < SAME * problem.scale
            continue
        _assert_close(variance, largest, scale=problem.scale)
    # The matrix shown: those variances with the correlations of the summed one-way pieces.
    if not np.isnan(crossed.matrix).any():
        d = np.sqrt(crossed.variance())
        spread = np.sqrt(np.diag(sum(one_way)))
        _assert_close(crossed.matrix, sum(one_way) * np.outer(d / spread, d / spread))
    eigen = er.covariance(estimate, groups, cov=cov, repair="eigen")
    values, axes = np.linalg.eigh((raw + raw.T) / 2)
    if not np.isnan(eigen.matrix).any():
        _assert_close(eigen.matrix, (axes * np.clip(values, 0, None)) @ axes.T)
    two_term = er.covariance(estimate, groups, cov=cov, repair="two-term")
    if not np.isnan(two_term.matrix).any():
        _assert_close(two_term.matrix, sum(one_way))


@EXAMPLES
@given(problem=problems(kinds=("numeric", "binary")))
def test_crossed_degrees_of_freedom_combine_those_of_the_pieces(problem):
    groups = {"a": problem.codes, "b": problem.other}
    assume(np.unique(problem.other).size > 1)
    estimate = problem.estimate()
    crossed = er.covariance(estimate, groups)
    assume(crossed.crossed)
    assume(not any(_lost(Problem(problem.X, problem.y, problem.w, codes, codes)) for codes in groups.values()))
    C = np.eye(problem.X.shape[1])
    joint = np.unique(problem.codes * 10 + problem.other, return_inverse=True)[1]
    found = crossed.dof(C)
    for i, c in enumerate(C):
        variances, dofs = [], []
        for codes in (problem.codes, problem.other):
            one = Problem(problem.X, problem.y, problem.w, codes, codes)
            variances.append(c @ _slow_covariance(one, 0.5) @ c)
            dofs.append(_slow_dof(one, c, 0.5))
        one = Problem(problem.X, problem.y, problem.w, joint, joint)
        variances.append(c @ _slow_covariance(one, 0.5) @ c)
        half = _slow_half(variances, [*dofs, joint.max()])
        _assert_close(crossed.half_width(c)[0], half)
        assert found[i] > 1e6 or stats.t.isf(0.025, found[i]) * np.sqrt(crossed.variance(c)[0]) == pytest.approx(half)


def _slow_half(variances, dofs):
    """Half-width of two axes and their intersection, never below that of an axis alone."""
    terms = [stats.t.isf(0.025, d) ** 2 * V for V, d in zip(variances, dofs, strict=True)]
    return np.sqrt(max(terms[0] + terms[1] - terms[2], terms[0], terms[1]))


@pytest.mark.parametrize("judge_sd", [0.0, 0.3, 2.0])
def test_judges_who_make_up_the_variance_leave_their_own_degrees_of_freedom(judge_sd):
    rng = np.random.default_rng(4)
    P, J = 60, 5
    scores = rng.normal(size=(P, 1)) + judge_sd * rng.normal(size=(1, J)) + rng.normal(size=(P, J))
    prompt, judge = (codes.ravel() for codes in np.indices((P, J)))
    results = er.mean({"score": scores.ravel(), "prompt": prompt, "judge": judge}, groups="prompt + judge")
    residual = (scores - scores.mean()) / scores.size
    # Adjusted for a leverage of one cluster's share: Bell and McCaffrey (2002).
    by_prompt, by_judge = np.sum(residual.sum(1) ** 2) * P / (P - 1), np.sum(residual.sum(0) ** 2) * J / (J - 1)
    n = scores.size
    cells = np.sum(residual**2) * n / (n - 1)
    half = _slow_half([by_prompt, by_judge, cells], [P - 1, J - 1, n - 1])
    _assert_close(results.conf_int()[1] - results.params, [half])
    _assert_close(stats.t.isf(0.025, results.dof) * results.bse, [half])
    assert judge_sd < 2 or results.dof.iloc[0] < (J - 1) * 1.1


# The series and the eigenvectors


def test_many_small_clusters_and_one_large_one(rng):
    codes = np.concatenate([np.arange(200) % 80, np.full(60, 80)])
    X = np.column_stack([np.ones(260), rng.normal(size=260)])
    problem = Problem(X, rng.normal(size=260), np.ones(260), codes, codes)
    V = er.covariance(problem.estimate(), codes)
    _assert_close(V.raw, _slow_covariance(problem, 0.5))
    _assert_close(V.dof(), [_slow_dof(problem, c, 0.5) for c in np.eye(2)])


# Means by cells


@st.composite
def cell_logs(draw):
    """Two to four models on rows in clusters; every model in at least two clusters."""
    n_models, n_clusters = draw(st.integers(2, 4)), draw(st.integers(3, 6))
    n = draw(st.integers(4 * n_models, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    frame = pd.DataFrame(
        {
            "model": np.array(list("abcd"))[
                np.concatenate([np.arange(n_models), rng.integers(0, n_models, n - n_models)])
            ],
            "cluster": _codes(rng, n, n_clusters),
            "other": rng.integers(0, 3, n),
            "weight": rng.uniform(0.5, 2.0, n),
            "score": rng.normal(size=n),
        }
    )
    counts = frame.groupby("model")["cluster"].nunique()
    assume(counts.min() >= 2)
    assume(frame.groupby("model")["score"].size().min() >= 2)
    return frame


@EXAMPLES
@given(frame=cell_logs(), cov=st.sampled_from(COVS), weighted=st.booleans())
def test_means_by_model_are_the_regression_on_model_dummies(frame, cov, weighted):
    weights = "weight" if weighted else None
    options = {"groups": "cluster", "weights": weights, "cov": cov, "dof": "satterthwaite"}
    means = er.mean(frame, by="model", **options)
    rows = er.fit("score ~ 0 + C(model)", frame, **options)
    _assert_close(means.params, rows.params, SAME)
    _assert_close(means.cov_params(), rows.cov_params())
    C = np.vstack(
        [
            np.eye(len(means.params)),
            *(
                np.eye(len(means.params))[a] - np.eye(len(means.params))[b]
                for a, b in combinations(range(len(means.params)), 2)
            ),
        ]
    )
    _assert_close(means.cov.variance(C), rows.cov.variance(C))
    _assert_close(means.cov.dof(C), rows.cov.dof(C))
    if cov == "CR2" and len(means.params) > 2:
        steps = np.array([np.eye(len(means.params))[a] - np.eye(len(means.params))[b] for a, b in pairwise(range(3))])
        _assert_close(means.wald_test(steps).df_denom, rows.wald_test(steps).df_denom, 1e-6)


@EXAMPLES
@given(frame=cell_logs())
def test_crossed_means_by_model_are_the_crossed_regression_on_model_dummies(frame):
    assume(frame["other"].nunique() > 1)
    means = er.mean(frame, by="model", groups="cluster + other")
    rows = er.fit("score ~ 0 + C(model)", frame, groups="cluster + other")
    _assert_close(means.cov_params(), rows.cov_params())
    _assert_close(means.dof, rows.dof)


# Strata


@st.composite
def stratified_logs(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(18, 40))
    stratum = np.array(["art", "law", "sea"])[np.concatenate([np.arange(3).repeat(3), rng.integers(0, 3, n - 9)])]
    # With `spanning`, clusters cross the strata.
    spanning = draw(st.booleans())
    within = np.concatenate([np.tile(np.arange(3), 3), rng.integers(0, 4, n - 9)])
    cluster = within.astype(str) if spanning else np.char.add(stratum, within.astype(str))
    return pd.DataFrame({"stratum": stratum, "cluster": cluster, "score": rng.normal(size=n)})


@EXAMPLES
@given(frame=stratified_logs(), how=st.sampled_from(["micro", "macro"]))
def test_strata_have_the_formula_of_each_stratum_summed(frame, how):
    results = er.mean(frame, strata="stratum", strata_weights=how, groups="cluster", cov="CR1")
    strata = sorted(frame["stratum"].unique())
    n, total = len(frame), dict.fromkeys(frame["cluster"].unique(), 0.0)
    point, dof = 0.0, 0
    for name in strata:
        rows = frame[frame["stratum"] == name]
        share = len(rows) / n if how == "micro" else 1 / len(strata)
        G = rows["cluster"].nunique()
        point += share * rows["score"].mean()
        dof += G - 1
        for cluster, part in rows.groupby("cluster"):
            T = float((part["score"] - rows["score"].mean()).sum())
            total[cluster] += share * np.sqrt(G / (G - 1)) * T / len(rows)
    _assert_close(results.params, [point], SAME)
    _assert_close(results.bse**2, [sum(T**2 for T in total.values())], SAME)
    assert results.dof.tolist() == [dof]


@EXAMPLES
@given(frame=stratified_logs(), how=st.sampled_from(["micro", "macro"]), cov=st.sampled_from(COVS))
def test_strata_are_a_contrast_of_the_regression_on_their_dummies(frame, how, cov):
    results = er.mean(frame, strata="stratum", strata_weights=how, groups="cluster", cov=cov, dof="satterthwaite")
    rows = er.fit("score ~ 0 + C(stratum)", frame, groups="cluster", cov=cov, dof="satterthwaite")
    counts = frame["stratum"].value_counts().sort_index().to_numpy()
    c = (counts / counts.sum() if how == "micro" else np.full(3, 1 / 3))[None]
    _assert_close(results.bse**2, rows.cov.variance(c))
    _assert_close(results.dof, rows.cov.dof(c))


# Dependence


@EXAMPLES
@given(frame=cell_logs(), weighted=st.booleans())
def test_dependence_is_measured_as_its_formulas_say(frame, weighted):
    weights = "weight" if weighted else None
    results = er.mean(frame, by="model", groups="cluster", weights=weights, cov="CR1")
    w_all = frame["weight"] if weighted else pd.Series(1.0, frame.index)
    for name, rows in frame.groupby("model"):
        w = w_all[rows.index].to_numpy()
        mean = np.sum(w * rows["score"]) / w.sum()
        e = rows["score"].to_numpy() - mean
        n = len(rows)
        variance = results.bse[name] ** 2
        measured = results.to_frame().loc[name]
        _assert_close(measured["n_eff"], np.sum(w * e**2) / w.sum() * n / (n - 1) / variance)
        _assert_close(measured["design_effect"], variance / (np.sum((w * e) ** 2) / w.sum() ** 2 * n / (n - 1)))
        if not weighted:
            icc = results.dependence().loc[("cluster", name), "icc"]
            _assert_close(icc, _slow_icc(rows["score"].to_numpy(), rows["cluster"].to_numpy()))
    W = w_all.groupby(frame["cluster"]).sum().to_numpy()
    diagnostics = results.diagnostics().loc["cluster"]
    _assert_close(diagnostics["effective_clusters"], W.sum() ** 2 / np.sum(W**2))
    _assert_close(diagnostics["largest_share"], W.max() / W.sum())
    _assert_close(diagnostics["mean_size"], len(frame) / W.size)


def _slow_icc(values, clusters):
    groups = [values[clusters == name] for name in np.unique(clusters)]
    n, G = values.size, len(groups)
    if n == G:
        return np.nan
    msb = sum(group.size * (group.mean() - values.mean()) ** 2 for group in groups) / (G - 1)
    msw = sum(((group - group.mean()) ** 2).sum() for group in groups) / (n - G)
    m0 = (n - sum(group.size**2 for group in groups) / n) / (G - 1)
    return (msb - msw) / (msb + (m0 - 1) * msw)


@EXAMPLES
@given(frame=cell_logs())
def test_params_without_a_cluster_are_the_means_without_it(frame):
    results = er.mean(frame, by="model", groups="cluster")
    row = results.diagnostics().loc["cluster"]
    assume(frame.groupby("cluster")["model"].nunique().max() <= frame["model"].nunique())
    changes = {}
    for name in frame["cluster"].unique():
        left = frame[frame["cluster"] != name].groupby("model")["score"].mean().reindex(results.params.index)
        # A model that only this cluster has keeps its mean: leaving it out says nothing.
        changes[str(name)] = left.fillna(results.params)
    sizes = {name: float(((left - results.params).abs() / results.bse).max()) for name, left in changes.items()}
    worst = max(sizes, key=sizes.get)
    assume(sum(size > sizes[worst] * (1 - 1e-6) for size in sizes.values()) == 1)
    assert row["most_influential"] == worst
    _assert_close(list(row["params_without"].values()), changes[worst])


# Intervals of means in [0, 1]


@EXAMPLES
@given(
    seed=st.integers(0, 2**32 - 1),
    alpha=st.sampled_from([0.01, 0.05, 0.32]),
    binary=st.booleans(),
    clustered=st.booleans(),
)
def test_intervals_of_means_in_the_unit_interval_are_those_of_scipy(seed, alpha, binary, clustered):
    rng = np.random.default_rng(seed)
    n = 40
    p = rng.beta(3, 2, 8)[np.arange(n) % 8]
    score = (rng.uniform(size=n) < p).astype(float) if binary else rng.beta(4 * p, 4 * (1 - p))
    assume(0 < score.mean() < 1)
    results = er.mean({"score": score, "cluster": np.arange(n) % 8}, groups="cluster" if clustered else None)
    mean, se, dof = float(score.mean()), float(results.bse.iloc[0]), float(results.dof.iloc[0])
    assume(se > 0)
    t = stats.t.ppf(1 - alpha / 2, dof)
    ends = np.log(mean / (1 - mean)) + np.array([-1, 1]) * t * se / (mean * (1 - mean))
    logit = 1 / (1 + np.exp(-ends))
    _assert_close(results.conf_int(alpha, method="logit"), [logit], SAME)
    _assert_close(results.conf_int(alpha, method="wald"), [[mean - t * se, mean + t * se]], SAME)
    # Korn and Graubard (1998): an effective number of trials, with the t quantiles' ratio; independent 0/1 rows are n.
    ratio = (stats.t.ppf(1 - alpha / 2, n - 1) / t) ** 2
    trials = n if binary and not clustered else min(n, mean * (1 - mean) / se**2 * ratio)
    hits = trials * mean
    beta = [stats.beta.ppf(alpha / 2, hits, trials - hits + 1), stats.beta.ppf(1 - alpha / 2, hits + 1, trials - hits)]
    _assert_close(results.conf_int(alpha, method="clopper-pearson"), [beta], 1e-9)
    half = stats.beta.ppf([alpha / 2, 1 - alpha / 2], hits + 0.5, trials - hits + 0.5)
    # The default, as docs/decisions/score-interval.md has it: the values x with (mean - x)^2 below t^2 V(x).
    owners = np.arange(n) % 8 if clustered else np.arange(n)
    total, rows = np.bincount(owners, score), np.bincount(owners)
    unseen = 0.5 / (0.5 + np.minimum(total, rows - total)) if clustered else np.ones(n)
    spread, now = score.var(), mean * (1 - mean)
    naive = spread / (n - 1)
    effect = np.mean(unseen * (1 + 0.2 * (rows - 1)) + (1 - unseen) * max(1, se**2 / naive))
    base = se**2 + unseen.mean() * max(naive - se**2, 0)

    def beyond(x):
        then = x * (1 - x)
        growth = effect * spread / now * max(then - now, 0) / n
        return (mean - x) ** 2 - t**2 * (base * min(then / now, 1) + growth)

    score_ends = [optimize.brentq(beyond, *ends, xtol=1e-15) for ends in ((1e-30, mean), (mean, 1 - 1e-16))]
    _assert_close(results.conf_int(alpha), [score_ends], 1e-9)
    _assert_close(results.conf_int(alpha, method="jeffreys"), [half], 1e-9)
    z = stats.norm.ppf(1 - alpha / 2)
    centre, width = mean + z**2 / (2 * trials), z * np.sqrt(mean * (1 - mean) / trials + z**2 / (4 * trials**2))
    _assert_close(
        results.conf_int(alpha, method="wilson"), [(centre + np.array([-width, width])) / (1 + z**2 / trials)], 1e-9
    )


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_mean_of_zero_or_one_has_wilsons_interval_with_the_design_effect_that_is_granted(value):
    sizes = [5, 3, 1, 1]
    results = er.mean({"score": np.full(10, value), "cluster": np.repeat(np.arange(4), sizes)}, groups="cluster")
    effect = sum(size / 10 * (1 + 0.2 * (size - 1)) for size in sizes)
    squared = stats.t.ppf(0.975, results.dof.iloc[0]) ** 2 * effect
    open_end = squared / (10 + squared)
    assert results.bse.tolist() == [0.0]
    assert np.isnan(results.pvalues.iloc[0])
    _assert_close(results.conf_int(), [[1 - open_end, 1.0] if value else [0.0, open_end]], 1e-9)


def test_equal_clusters_have_cr2_equal_to_cr1_with_one_less_than_their_number(rng):
    frame = {"score": rng.normal(size=60), "cluster": np.arange(60) % 12}
    cr2, cr1 = er.mean(frame, groups="cluster"), er.mean(frame, groups="cluster", cov="CR1")
    _assert_close(cr2.bse, cr1.bse, SAME)
    _assert_close(cr2.dof, [11.0], SAME)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_one_step_without_a_cluster_is_said_to_be_one(rng):
    passage = np.repeat(np.arange(12), 6)
    words = rng.normal(size=passage.size)
    log = pd.DataFrame({"passage": passage, "words": words, "right": (words + rng.normal(size=passage.size) > 0) * 1.0})
    logit = er.fit("right ~ words", log, groups="passage", family="binomial")
    solved = {
        "mean": er.mean(log, "right", groups="passage"),
        "least squares": er.fit("right ~ words", log, groups="passage"),
        "GLM": logit,
        "quantile": er.quantile(log, "words", 0.5, groups="passage"),
        "slopes": logit.avg_slopes(),
    }
    found = {name: bool(results.diagnostics().loc["passage", "solved"]) for name, results in solved.items()}
    assert found == {"mean": True, "least squares": True, "GLM": False, "quantile": False, "slopes": False}
