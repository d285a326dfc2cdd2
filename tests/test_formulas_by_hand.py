"""Formulas on inputs so small that the answer is worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from scipy import sparse

import evalreg as er
from evalreg.boards.judged import effect_map
from evalreg.boards.pairs import cycles_of
from evalreg.covariance.crossed import Widths, subset_signs
from evalreg.covariance.leverage import (
    adjust_cell_totals,
    full_leverage_cells,
    full_leverage_directions,
    inverse_power_times,
    root_of,
)
from evalreg.covariance.options import KINDS, Counts
from evalreg.data.answers import ModelPairs
from evalreg.data.clusters import Labels
from evalreg.estimate import rows_behind
from evalreg.estimators.mean import solve as solve_mean
from evalreg.estimators.pair_tables import correlations
from evalreg.estimators.pass_at_k import all_of_k
from evalreg.estimators.quantile import bandwidth, logit_shift, middles
from evalreg.estimators.ratings import tied_moments
from evalreg.estimators.sign import clustered_sign_test
from evalreg.inference.rectification import means_of_cells
from evalreg.inference.sequential import roughness
from evalreg.inference.wald import f_test, hotelling_test, parse_contrasts, wald_quadratic
from evalreg.numerics.student import (
    effective_n,
    logit_interval,
    logit_statistic,
    proportion_interval,
)
from evalreg.report.tables import shorten
from evalreg.resampling.bootstrap import bca_levels, least_draws, tails
from evalreg.resampling.wild import wald_statistics
from evalreg.scores.base import CellSums
from evalreg.scores.differences import pair_sums
from evalreg.scores.stacking import flattened

EXACT = 1e-12
ONE = np.ones(1)


def test_a_difference_written_out_is_a_contrast():
    assert parse_contrasts("a - b", ("a", "b")).matrix.tolist() == [[1.0, -1.0]]


def test_the_sign_test_of_single_questions_is_mcnemars():
    # (3 - 1)^2 / (3 + 1)
    assert clustered_sign_test(np.array([1.0, 1.0, 1.0, -1.0]), []).statistic == 1.0


def test_a_gap_of_two_cells_is_the_difference_of_their_means():
    cell, gap = np.array([0, 0, 1, 1]), np.array([[-1.0, 1.0]])
    found = means_of_cells(np.array([1.0, 0.0, 1.0, 1.0]), cell, Labels(4), gap, ("gap",))
    assert found.params.tolist() == [0.5]


def test_a_logit_interval_ends_where_its_statistic_is_the_critical_value():
    mean, se, critical = 0.5 * ONE, 0.05 * ONE, 1.96 * ONE
    lower, upper = logit_interval(mean, se, critical)[0]
    # The standard error on the logit scale is 0.05 / (0.5 * 0.5).
    assert [lower, upper] == pytest.approx([1 / (1 + np.exp(0.392)), 1 / (1 + np.exp(-0.392))], rel=EXACT)
    assert logit_statistic(mean, se, lower * ONE) == pytest.approx(critical, rel=1e-9)


def test_effective_trials_are_those_of_the_same_variance_with_the_correction_for_t():
    # 0.25/0.0025 = 100 trials, times the squared ratio of the quantile of t on 399 degrees of freedom to that used.
    found = effective_n(0.5 * ONE, 0.0025 * ONE, 400 * ONE, 1.96 * ONE, ONE, 0.05)
    assert found == pytest.approx(100 * (scipy.stats.t.ppf(0.975, 399) / 1.96) ** 2, rel=1e-9)


def test_twenty_successes_of_twenty_leave_the_exact_lower_limit():
    found = proportion_interval(ONE, 20 * ONE, 0.05, "clopper-pearson")
    assert found.tolist()[0] == pytest.approx([0.025 ** (1 / 20), 1.0], rel=1e-9)


def test_an_estimate_by_model_is_made_of_the_rows_of_that_model():
    log = er.datasets.paired(n_passages=20, seed=1)
    assert rows_behind(er.mean(log, by="model", item="question").estimate).tolist() == [100.0, 100.0]


def test_one_cluster_unlike_three_is_rough():
    skew, share = roughness(np.array([[0.0], [0.0], [0.0], [4.0]]), np.ones((4, 1)), np.ones(1), 4)
    # Influences -1, -1, -1, 3: third moment 6, variance 3, four clusters.
    assert skew == pytest.approx(6 / 3**1.5 / 2, rel=EXACT)
    assert share == pytest.approx(9 / 12, rel=EXACT)


def test_joint_tests_of_two_independent_effects():
    effect, identity = np.array([1.0, 2.0]), np.eye(2)
    assert wald_quadratic(effect, identity) == pytest.approx(5.0, rel=EXACT)
    assert f_test(effect, identity, 10.0).statistic == pytest.approx(2.5, rel=EXACT)
    assert hotelling_test(effect, identity, 11.0).df_denom == 10.0


def test_strata_weigh_as_their_rows_under_micro():
    one = np.ones(2)
    sums = CellSums(one, np.array([1.0, 3.0]), one, one, one, one)
    found = solve_mean([("law",), ("math",)], sums, n_by=0, strata_weights="micro")
    assert found.coefficient_map.tolist() == [[0.25, 0.75]]


def test_equal_models_with_a_tie_parameter_of_one_tie_in_a_third():
    moments = tied_moments(np.array([0.0]), 0.0)
    assert moments.score.tolist() == pytest.approx([1 / 2], rel=EXACT)
    assert moments.tie.tolist() == pytest.approx([1 / 3], rel=EXACT)


def test_correlation_of_two_models_and_what_pairing_saves():
    two = ModelPairs(np.array([0]), np.array([1]), np.array([0]), (None,))
    r, saved = correlations(np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]), two)
    # Sums of squares 1 and 3/4, of products 1/2.
    assert r == pytest.approx([0.5 / 0.75**0.5], rel=EXACT)
    assert saved == pytest.approx([2 * 0.5 / 1.75], rel=EXACT)


def test_two_of_four_right_are_one_pair_of_six():
    found = all_of_k(np.array([2.0, 1.0]), np.array([4.0, 4.0]), 2)
    assert found == pytest.approx([1 / 6, 0.0], rel=EXACT)


def test_shares_move_on_the_logit_scale():
    # logit 0.9 = log 9, and half a width of 0.2 is 0.2/0.09 there.
    assert logit_shift(0.9, [0.0, 0.2]) == pytest.approx([0.9, 9 / (9 + np.exp(-0.2 / 0.09))], rel=1e-9)


def test_the_bandwidth_at_the_median_is_hall_and_sheathers():
    # (1.5 z^2 phi^2 / n)^(1/3) with phi the density of the normal at 0.
    z, phi = scipy.stats.norm.ppf(0.975), scipy.stats.norm.pdf(0)
    assert bandwidth(0.5, 1000) == pytest.approx((1.5 * z**2 * phi**2 / 1000) ** (1 / 3), rel=1e-9)


def test_shares_at_the_middle_of_two_equal_values():
    assert middles(np.array([0.5, 1.0])).tolist() == [0.25, 0.75]


def test_the_effects_of_two_judges_on_one_opponent_are_half_their_difference():
    coefficients, some = effect_map(np.array([[True], [True]]))
    assert coefficients.tolist() == [[0.5, -0.5], [-0.5, 0.5]]
    assert some.all()


def test_a_cycle_is_found_once():
    assert cycles_of(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=bool)) == [(0, 1, 2)]


def test_symmetric_draws_and_clusters_need_no_correction():
    levels = bca_levels(np.linspace(-1, 1, 101), 0.0, np.array([-1.0, 0.0, 1.0]), 0.1)
    assert levels == pytest.approx([0.05, 0.95], rel=EXACT)


def test_a_draw_as_large_as_the_data_counts_in_both_tails():
    assert tails(np.array([-1.0, 1.0, 3.0]), np.ones(3), 1.0) == (2, 2)


def test_the_wald_statistics_of_draws_are_those_of_each_draw():
    effects, covariances = np.array([[1.0, 2.0], [0.0, 3.0]]), np.stack([np.eye(2), np.diag([1.0, 9.0])])
    found = wald_statistics(effects, covariances)
    assert found == pytest.approx([wald_quadratic(e, v) for e, v in zip(effects, covariances, strict=True)])


def test_the_factor_of_cr1_without_coefficients_is_that_of_the_clusters():
    # 5/4 times (101 - 1)/(101 - 1)
    assert KINDS["CR1"].factor(Counts(n_clusters=5, smallest=5, n_rows=101), "statsmodels") == pytest.approx(
        1.25, rel=EXACT
    )


def test_totals_of_clusters_are_divided_by_what_others_leave_of_the_cell():
    share = sparse.csr_array(np.array([[0.75], [0.25]]))
    found = adjust_cell_totals(np.array([[1.0], [-1.0]]), share, 1.0).toarray().ravel()
    assert found == pytest.approx([4.0, -4 / 3], rel=EXACT)


def test_a_cell_that_only_one_cluster_has_rests_on_it():
    assert full_leverage_cells(sparse.csr_array(np.array([[1.0, 0.5], [0.0, 0.5]]))).tolist() == [True, False]
    assert full_leverage_directions(np.diag([1.0, 0.2])).tolist() == [[1.0], [0.0]]


def test_a_leverage_of_three_quarters_doubles_a_total_under_cr2():
    found = inverse_power_times(np.array([[[0.75]]]), 0.5, np.array([[1.0]]))
    assert found.ravel() == pytest.approx([2.0], rel=EXACT)


def test_a_root_keeps_what_is_small_beside_what_is_large():
    root, inverse = root_of(np.diag([4.0, 9e-20]))
    assert np.diag(root @ root.T) == pytest.approx([4.0, 9e-20], rel=EXACT)
    assert root @ inverse == pytest.approx(np.eye(2), abs=EXACT)


def test_inclusion_and_exclusion_of_two_axes_and_of_each_alone():
    assert subset_signs([(0,), (1,), (0, 1)]).tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, -1]]


def test_the_width_of_two_axes_is_the_root_of_t_squared_times_variance_summed():
    signs, dofs = subset_signs([(0,), (1,), (0, 1)]), np.array([3.0, 60.0, 200.0])
    variances = np.array([1.0, 1.0, 0.5])
    crossed = Widths(np.array([1.5]), variances[:, None], dofs[:, None], signs)
    half = crossed.half(0.05)
    t = scipy.stats.t.ppf(0.975, dofs)
    assert half == pytest.approx([np.sqrt((np.array([1, 1, -1]) * t**2 * variances).sum())], rel=1e-9)
    assert crossed.pvalues(half) == pytest.approx([0.05], rel=1e-9)
    # The t whose quantile times the standard error is that width.
    assert scipy.stats.t.ppf(0.975, crossed.dof(0.05)) == pytest.approx(half / np.sqrt(1.5), rel=1e-6)


def test_information_of_a_comparison_is_its_weight_times_the_product_of_its_design():
    found = flattened(np.array([[1.0, -1.0]]), np.array([0.25])).toarray()
    assert found.tolist() == [[0.25, -0.25, -0.25, 0.25]]


def test_the_total_of_a_pair_is_that_of_its_differences():
    two = ModelPairs(np.array([0]), np.array([1]), np.array([0]), (None,))
    assert pair_sums(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]), two).total.tolist() == [1.0]


def test_draws_are_enough_where_the_first_of_them_is_a_quantile():
    # (n + 1) alpha/2 is 1.
    assert [least_draws(0.05), least_draws(0.01)] == [39, 199]


def test_a_long_name_keeps_both_its_ends():
    assert shorten("anthropic/claude-3.5-sonnet-20241022", 20) == "anthropic...20241022"
