"""The algebra of estimates: contrasts, the delta method, stacks of the same rows, and independent rows together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# The same sums in another order.
SAME = 1e-12
# CR2 and CR3 by cells and by rows: an eigendecomposition in one, divisions in the other.
ROUTES = 1e-9
# A numerical Jacobian by central differences with step 1e-6.
NUMERICAL = 1e-8

COVS = ["CR0", "CR1", "CR2", "CR3"]
C = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0], [0.2, 0.3, 0.5], [0.0, 2.0, 0.0]])
C_NAMES = ["a - b", "ab - c", "pooled", "2 b"]


@pytest.fixture
def wide(rng):
    """Scores of three models on the questions of twelve unequal passages, one row a question."""
    passage = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    effect = rng.normal(size=12)[passage]
    frame = pd.DataFrame({"passage": passage, "question": np.arange(passage.size), "judge": passage.size * [0]})
    frame["judge"] = rng.integers(0, 4, passage.size)
    for model in "abc":
        latent = effect + rng.normal(size=passage.size)
        frame[model] = 1 / (1 + np.exp(-latent))
        frame[f"words_{model}"] = rng.normal(size=passage.size) + 0.5 * latent
    return frame


@pytest.fixture
def long(wide):
    """The same scores, one row a model and question."""
    return wide.melt(["passage", "question", "judge"], ["a", "b", "c"], "model", "score")


@pytest.fixture
def models(long):
    return er.mean(long, by="model", item="question", groups="passage").estimate


@pytest.fixture
def regression(long, rng):
    return er.fit("score ~ 0 + model", long, groups="passage").estimate


def _close(found, expected, rtol=SAME):
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max(initial=0.0))


def _infer(estimate, cov="CR2", groups="passage", **options):
    return er.infer(estimate, groups=groups, cov=cov, **options)


def _mean_of(wide, column, name=None):
    """The mean of one column, under a name of its own."""
    estimate = er.mean(wide, column, groups="passage").estimate
    return estimate.linear(np.eye(1), [name or column])


# Linear maps


@pytest.mark.pairwise
@pytest.mark.parametrize("groups", ["passage", "passage + judge"])
@pytest.mark.parametrize("cov", COVS)
@pytest.mark.parametrize("kind", ["models", "regression"])
def test_the_covariance_of_contrasts_is_c_v_c_transposed(kind, cov, groups, request):
    estimate = request.getfixturevalue(kind)
    options = {"cov": cov, "groups": groups, **({"repair": "none"} if "+" in groups else {})}
    whole, moved = _infer(estimate, **options), _infer(estimate.linear(C, C_NAMES), **options)
    assert list(moved.params.index) == C_NAMES
    _close(moved.params, C @ whole.params)
    _close(moved.cov_params(), C @ whole.cov_params() @ C.T)


WAYS = [(None, None), *((groups, cov) for groups in ("passage", "passage + judge") for cov in (None, *COVS))]


# Each clustering with each covariance, of one kind and the other in turn; the rest of the product is slow.
@pytest.mark.parametrize(
    ("kind", "groups", "cov"),
    [
        pytest.param(kind, *way, marks=[pytest.mark.slow] * ((i + j) % 2))
        for i, kind in enumerate(("models", "regression"))
        for j, way in enumerate(WAYS)
    ],
)
def test_a_contrast_of_results_is_the_result_of_the_contrast(kind, cov, groups, request):
    estimate = request.getfixturevalue(kind)
    options = {"cov": cov, "groups": groups, **({"repair": "max"} if cov and groups and "+" in groups else {})}
    contrast, direct = er.infer(estimate, **options).contrast(C), er.infer(estimate.linear(C, C_NAMES), **options)
    _close(contrast.params, direct.params)
    _close(contrast.bse, direct.bse)
    _close(contrast.dof, direct.dof)
    _close(contrast.cov.variance(np.eye(4)[:1] + 1), direct.cov.variance(np.eye(4)[:1] + 1))
    _close(contrast.pvalues, direct.pvalues, ROUTES)


def test_a_contrast_of_means_of_cells_is_that_of_the_regression_by_rows(models, regression):
    for cov in COVS:
        cells = _infer(models.linear(C, C_NAMES), cov, dof="satterthwaite")
        rows = _infer(regression.linear(C, C_NAMES), cov, dof="satterthwaite")
        if cov != "CR1":
            _close(cells.cov_params(), rows.cov_params(), ROUTES)
        _close(cells.dof, rows.dof, ROUTES)


def test_a_paired_difference_is_the_mean_of_the_differences(wide, models):
    direct = er.mean(wide.assign(d=wide["a"] - wide["b"]), "d", groups="passage")
    stacked = _mean_of(wide, "a").stack(_mean_of(wide, "b"))
    paired = models.linear([[1.0, -1.0, 0.0]], ["a - b"]), stacked.linear([[1, -1]], ["a - b"])
    for found in (*map(_infer, paired), _infer(stacked).contrast("a - b")):
        _close(found.params, direct.params)
        _close(found.bse, direct.bse)
        _close(found.dof, direct.dof)


# The delta method


def _log_ratio(theta):
    return np.array([np.log(theta[0] / theta[1]), theta[2] ** 2])


def _jacobian(function, theta):
    steps = 1e-6 * np.eye(theta.size)
    return np.column_stack([(function(theta + step) - function(theta - step)) / 2e-6 for step in steps])


@pytest.mark.parametrize("cov", COVS)
@pytest.mark.parametrize("kind", ["models", "regression"])
def test_smooth_functions_have_the_covariance_of_the_delta_method(kind, cov, request):
    estimate = request.getfixturevalue(kind)
    a, b, c = estimate.params
    J = np.array([[1 / a, -1 / b, 0.0], [0.0, 0.0, 2 * c]])
    moved, whole = _infer(estimate.transform(_log_ratio, J, ["log a/b", "c^2"]), cov), _infer(estimate, cov)
    _close(moved.params, _log_ratio(np.array(estimate.params)))
    _close(moved.cov_params(), J @ whole.cov_params() @ J.T)
    _close(moved.dof, whole.cov.dof(J))
    numerical = _jacobian(_log_ratio, np.array(estimate.params))
    _close(moved.cov_params(), numerical @ whole.cov_params() @ numerical.T, NUMERICAL)


# Stacks


@pytest.mark.parametrize("cov", COVS)
def test_the_joint_covariance_of_stacked_means_is_that_of_the_regression(wide, long, cov):
    stacked = _mean_of(wide, "a").stack(_mean_of(wide, "b")).stack(_mean_of(wide, "c"))
    rows = er.fit("score ~ 0 + model", long, groups="passage", cov=cov, dof="satterthwaite")
    found = _infer(stacked, cov, dof="satterthwaite")
    _close(found.params, rows.params)
    # CR1 has the factor of its own number of rows: questions here, answers there.
    n = len(wide)
    factor = (3 * n - 1) / (3 * n - 3) if cov == "CR1" else 1.0
    _close(found.cov_params() * factor, rows.cov_params(), ROUTES)
    _close(found.dof, rows.dof, ROUTES)
    _close(found.cov.dof(C[:, :]), rows.cov.dof(C), ROUTES)
    _close(found.contrast("a - b").bse, rows.contrast("model[a] - model[b]").bse / np.sqrt(factor), ROUTES)


def test_stacked_regressions_have_the_joint_covariance_of_their_scores(wide):
    one = er.fit("a ~ words_a", wide, groups="passage")
    two = er.fit("b ~ words_b", wide, groups="passage")
    stacked = one.estimate.linear(np.eye(2), ["a0", "a1"]).stack(two.estimate.linear(np.eye(2), ["b0", "b1"]))
    totals = np.hstack([one.influence("passage"), two.influence("passage")])
    _close(_infer(stacked, "CR0").cov_params(), totals.T @ totals)
    rows = np.hstack([one.influence(), two.influence()])
    n = len(wide)
    _close(er.infer(stacked).cov_params(), n / (n - 2) * rows.T @ rows)


@pytest.mark.parametrize("beside", ["stack", "concat"])
def test_regressions_side_by_side_have_the_correlations_of_each(wide, beside):
    first, second = (er.fit(f"{name} ~ words_{name}", wide, groups="passage") for name in "ab")
    both = getattr(first, beside)(second, names=["a0", "a1", "b0", "b1"])
    alone = [each.dependence()["icc"] for each in (first, second)]
    np.testing.assert_allclose(both.dependence()["icc"], np.concatenate(alone), rtol=1e-12)
    table = pd.concat([first.dependence(), second.dependence()])
    columns = ["n_clusters", "mean_size", "icc", "lower", "upper", "implied"]
    np.testing.assert_allclose(both.dependence()[columns], table[columns], rtol=1e-12)
    assert "ICC" in both.summary(details=True).as_text()
    # A parameter of both is of no residuals in particular.
    mixed = both.contrast([[1, 0, -1, 0], [0, 2, 0, 0]], ["difference", "twice"])
    np.testing.assert_allclose(mixed.dependence()["icc"], [np.nan, alone[0].iloc[0]], rtol=1e-12)
    assert np.isnan(mixed.dependence().loc[("passage", "difference"), "n_clusters"])


def test_residuals_that_add_up_to_zero_in_every_cluster_have_no_correlation(wide):
    levels = er.fit("a ~ C(passage)", wide, groups="passage", cov="CR1")
    assert levels.dependence()["icc"].isna().all()


def test_a_stack_of_bounded_means_keeps_the_intervals_of_its_parts_and_compares_the_same_rows(wide, long):
    by_model = er.mean(long, by="model", item="question", groups="passage")
    a, b = (er.mean(wide, name, groups="passage") for name in "ab")
    stacked = a.stack(b, ["a", "b"])
    _close(stacked.conf_int(), pd.concat([a.conf_int(), b.conf_int()]))
    _close(stacked.pairwise(), by_model.pairwise().iloc[:1])
    metrics = by_model.stack(er.mean(long.round(), by="model", item="question", groups="passage"), list("abcdef"))
    _close(metrics.pairwise().iloc[[0, 1, 5]], by_model.pairwise())


# Independent rows


@pytest.mark.parametrize("cov", ["CR0", "CR1"])
def test_independent_estimates_have_a_block_diagonal_covariance(wide, cov):
    one, two = wide[wide["passage"] < 7], wide[wide["passage"] >= 4]
    # Labels occur in both; they are different clusters all the same.
    joined = _mean_of(one, "a").concat(_mean_of(two, "b"))
    found = _infer(joined, cov, dof="min", **({"ssc": "none"} if cov == "CR1" else {}))
    expected = [
        er.mean(rows, name, groups="passage", cov="CR0").bse.iloc[0] ** 2 for rows, name in ((one, "a"), (two, "b"))
    ]
    _close(found.cov_params(), np.diag(expected))
    assert found.n_clusters == {"passage": one["passage"].nunique() + two["passage"].nunique()}
    assert found.nobs == len(one) + len(two)
    _close(found.contrast("a - b").bse ** 2, [sum(expected)])


@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("cov", [None, "CR0", "CR1", "CR3", "jackknife"])
def test_means_of_independent_rows_are_those_of_all_rows_at_once(wide, cov, scale):
    parts = [rows.assign(a=scale * rows["a"]) for rows in (wide[wide["passage"] < 7], wide[wide["passage"] >= 4])]
    joined = er.mean(parts[0], "a", groups="passage", cov=cov).concat(
        er.mean(parts[1], "a", groups="passage", cov=cov), ["first", "second"]
    )
    marked = [rows.assign(part=name) for name, rows in zip(("first", "second"), parts, strict=True)]
    whole = er.mean(pd.concat(marked, ignore_index=True), "a", by="part", groups="part:passage", cov=cov)
    for found, expected in ((joined, whole), (joined.contrast("first - second"), whole.contrast("first - second"))):
        _close(found.bse, expected.bse)
        _close(found.dof, expected.dof)
        _close(found.conf_int(), expected.conf_int())


# Errors


def test_backticks_quote_the_names_of_parameters():
    frame = pd.DataFrame(
        {
            "score": np.arange(24) % 5 / 4,
            "model": np.repeat(["a-1 (high)", "b, c", "a"], 8),
            "passage": np.tile(np.arange(4).repeat(2), 3),
            "question": np.tile(np.arange(8), 3),
        }
    )
    results = er.mean(frame, by="model", groups="passage", item="question")
    direct = results.contrast({"a-1 (high)": 1, "b, c": -1})
    for text in ("`a-1 (high)` - `b, c`", "`a-1 (high)` - b, c"):
        quoted = results.contrast(text)
        np.testing.assert_array_equal(quoted.params, direct.params)
        np.testing.assert_array_equal(quoted.bse, direct.bse)
    p = results.t_test("`b, c` = 0.4, a = `a-1 (high)`").pvalue
    np.testing.assert_allclose(p[0], results.t_test("b, c = 0.4").pvalue, rtol=1e-12)
    np.testing.assert_allclose(p[1], results.contrast({"a": 1, "a-1 (high)": -1}).pvalues, rtol=1e-12)
    with pytest.raises(er.errors.MissingColumnError, match=r'"a-1 high" is not a parameter.*a-1 \(high\)'):
        results.contrast("`a-1 high` - a")
    with pytest.raises(er.errors.MissingColumnError, match=r'"`a" is not a parameter\. Did you mean "a"'):
        results.contrast("`a")


# What is said of the outcome


# Options kept and dropped
