"""What t and p are against, in every table that shows them."""

import math
import warnings

import numpy as np
from scipy import stats

import evalreg as er

# Roots are found to this.
ROOT = 1e-6


def test_one_cluster_a_row_is_wilsons_test_by_hand():
    log = er.datasets.judge_log(n_models=2, n_prompts=300, n_judges=1, ties=0.0, spread=0.2, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        board = er.win_rate(log, left="left", right="right", winner="winner")
    rate = board.params["model-01"]
    t = (rate - 0.5) / math.sqrt(board.bse["model-01"] ** 2 + (0.25 - rate * (1 - rate)) / board.nobs)
    assert math.isclose(board.tvalues["model-01"], t, rel_tol=ROOT)
    p = 2 * stats.t.sf(abs(t), board.dof["model-01"])
    assert math.isclose(board.pvalues["model-01"], p, rel_tol=ROOT)


def _grid(results):
    """Headers of the first table of a summary."""
    return results.summary().grids[0].headers


def test_summaries_of_scores_on_one_side_of_0_have_no_test_against_0():
    log = er.datasets.paired(n_passages=20, seed=1)
    log["cost"], log["logprob"], log["gain"] = 5 + log["score"], log["score"] - 3, log["score"] - 0.5
    log["words"] = np.arange(len(log)) % 7 + 1.0
    for score, tested in {"score": False, "cost": False, "logprob": False, "gain": True}.items():
        means = er.mean(log, score, by="model", item="question")
        assert ("P>|t|" in _grid(means)) is tested, score
        assert ("P>|t|" in _grid(er.fit(f"{score} ~ 1", log, groups="question"))) is tested, score
        assert ("P>|t|" in _grid(er.quantile(log.assign(x=log[score] + log["words"]), "x", groups="passage"))) is (
            score in ("logprob",)
        ), score
        # What is tested stays so, and what is read in Python has its columns.
        assert "P>|t|" in _grid(means.contrast("new - old"))
        assert {"t", "p_value"} <= set(means.to_frame())
        # A mean of scores in [0, 1] has no test of 0, an end of the scale.
        assert means.pvalues.notna().all() == (score != "score")
        assert "P>|t|" in _grid(er.fit(f"{score} ~ model", log, groups="question"))
    assert "P>|t|" not in _grid(er.ratio(log, "score", "words", groups="passage"))
    assert "P>|t|" in _grid(er.ratio(log, "gain", "words", groups="passage"))
    # A calibration error has a null: no gap.
    log["guess"] = np.roll(log["score"], 1)
    assert "P>|t|" in _grid(er.classification(log, truth="score", predicted="guess", metric="ece", groups="passage"))
    assert "P>|t|" not in _grid(er.classification(log, truth="score", predicted="guess", positive=1, groups="passage"))


def test_what_is_made_of_means_is_tested_unless_it_is_a_mean_still():
    means = er.mean(er.datasets.paired(n_passages=20, seed=1), by="model", item="question")
    assert "P>|t|" not in _grid(means.contrast({"old": 1}))
    slopes = np.diag(1 / (means.params * (1 - means.params)))
    moved = means.estimate.transform(lambda p: np.log(p / (1 - p)), slopes, ["new", "old"])
    assert "P>|t|" in _grid(er.infer(moved, groups="question"))
    stored = er.read_results(means.to_json())
    assert stored.document["tested_against"] is None
    assert "P>|t|" not in _grid(stored)
    np.testing.assert_allclose(stored.pvalues, means.pvalues)
