"""Shares corrected for a judge's errors: the delta method and Fieller's ends by hand, coverage, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er
from evalreg.covariance.covariance import Covariance
from evalreg.errors import ArgumentTypeError, DataError, EvalregError, RectificationWarning, ZeroVarianceWarning

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

ROLES = {"judge": "verdict", "human": "label"}


def judged(rng: np.random.Generator, n_prompts: int = 60, share: float = 0.3) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Verdicts on answers of two models to prompts, and a calibration set of which a part is on the same prompts."""

    def verdicts(truth: np.ndarray) -> np.ndarray:
        return np.where(rng.uniform(size=truth.size) < np.where(truth == 1, 0.85, 0.1), 1.0, 0.0)

    prompt = np.tile(np.repeat(np.arange(n_prompts), 2), 2)
    hard = rng.beta(share * 5, (1 - share) * 5, n_prompts + 30)
    truth = (rng.uniform(size=prompt.size) < hard[prompt]).astype(float)
    model = np.repeat(["new", "old"], prompt.size // 2)
    log = pd.DataFrame({"model": model, "prompt": prompt, "verdict": verdicts(truth)})
    of_calibration = np.repeat(np.arange(n_prompts - 20, n_prompts + 30), 4)
    label = (rng.uniform(size=of_calibration.size) < 0.5).astype(float)
    return log, pd.DataFrame({"prompt": of_calibration, "verdict": verdicts(label), "label": label})


def by_hand(
    log: pd.DataFrame, calibration: pd.DataFrame, models: list[str]
) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """Estimates, influence of every row on p of each model, q0 and q1, and these."""
    rows = []
    for model in models:
        y = log["verdict"].where(log["model"] == model)
        rows.append(np.append(((y - y.mean()) / y.count()).fillna(0), np.zeros(len(calibration))))
    theta = [log.loc[log["model"] == model, "verdict"].mean() for model in models]
    for truth in (0.0, 1.0):
        right = (calibration["verdict"] == truth).astype(float).where(calibration["label"] == truth)
        rows.append(np.append(np.zeros(len(log)), ((right - right.mean()) / right.count()).fillna(0)))
        theta.append(right.mean())
    influence = pd.DataFrame(np.array(rows).T)
    influence["prompt"] = np.append(log["prompt"], calibration["prompt"])
    p, (q0, q1) = np.array(theta[:-2]), theta[-2:]
    return (p + q0 - 1) / (q0 + q1 - 1), influence, np.array(theta)


def test_estimates_and_joint_covariance_are_the_delta_methods_by_hand(rng):
    log, calibration = judged(rng)
    found = er.judge_corrected(log, **ROLES, calibration=calibration, by="model", groups="prompt", cov="CR0")
    value, influence, theta = by_hand(log, calibration, ["new", "old"])
    assert found.params.to_dict() == pytest.approx({"new": value[0], "old": value[1]}, abs=1e-12)
    slope = theta[2] + theta[3] - 1
    J = np.array([[1, 0, 1 - value[0], -value[0]], [0, 1, 1 - value[1], -value[1]]]) / slope
    T = influence.groupby("prompt").sum().to_numpy()
    V = T.T @ T
    assert found.cov_params().to_numpy() == pytest.approx(J @ V @ J.T, rel=1e-9)
    assert found.n_clusters == {"prompt": 90}


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_intervals_are_fiellers_within_0_and_1(rng, alpha):
    log, calibration = judged(rng, share=0.05)
    found = er.judge_corrected(log, **ROLES, calibration=calibration, by="model", groups="prompt", cov="CR0")
    _, influence, theta = by_hand(log, calibration, ["new", "old"])
    T = influence.groupby("prompt").sum().to_numpy()
    t2 = stats.t.ppf(1 - alpha / 2, found.dof.iloc[0]) ** 2
    grid = np.linspace(-0.2, 1.2, 140001)
    for place, ends in enumerate(found.conf_int(alpha).to_numpy()):
        # h is in the interval where p + q0 - 1 - h (q0 + q1 - 1) is not significantly different from 0.
        effect = theta[place] + theta[2] - 1 - grid * (theta[2] + theta[3] - 1)
        own = np.array([np.eye(4)[place] + [0, 0, 1, 0] - h * np.array([0, 0, 1, 1]) for h in grid[::1000]])
        variance = np.interp(grid, grid[::1000], ((own @ T.T) ** 2).sum(axis=1))
        inside = grid[effect**2 <= t2 * variance]
        assert ends == pytest.approx(np.clip([inside.min(), inside.max()], 0, 1), abs=2e-4)


def test_a_difference_of_models_is_surer_than_two_intervals_suggest(rng):
    log, calibration = judged(rng)
    found = er.judge_corrected(log, **ROLES, calibration=calibration, by="model", groups="prompt")
    apart = er.judge_corrected(log, **ROLES, calibration=calibration, by="model").bse
    assert found.contrast("new - old").bse.iloc[0] < np.hypot(*found.bse)
    assert not np.allclose(apart, found.bse)
    assert er.judge_corrected(log, **ROLES, calibration=calibration).params.index.tolist() == ["mean"]
    joint = er.judge_corrected(log.assign(size="s"), **ROLES, calibration=calibration, by=["model", "size"])
    assert joint.params.index.tolist() == ["new:s", "old:s"]


def test_rows_without_a_verdict_or_a_label_are_dropped_and_counted(rng):
    log, calibration = judged(rng)
    log.loc[[0, 5], "verdict"] = np.nan
    calibration.loc[[1], "label"] = np.nan
    calibration.loc[[3], "prompt"] = np.nan
    found = er.judge_corrected(log, **ROLES, calibration=calibration, groups="prompt")
    assert found.dropped[["score", "group"]].to_dict() == {"score": 3, "group": 1}
    assert found.nobs == len(log) + len(calibration) - 4
    with pytest.raises(EvalregError, match="verdict"):
        er.judge_corrected(log, **ROLES, calibration=calibration, missing="raise")
    part = er.judge_corrected(log, **ROLES, calibration=calibration, subset="model == 'new'")
    new = er.judge_corrected(log[log["model"] == "new"], **ROLES, calibration=calibration)
    assert part.params.to_dict() == pytest.approx(new.params.to_dict())


def test_a_calibration_set_that_cannot_correct_is_refused(rng):
    log, calibration = judged(rng)
    blind = calibration.assign(verdict=rng.permutation(calibration["verdict"]))
    with pytest.raises(DataError, match="sensitivity"):
        er.judge_corrected(log, **ROLES, calibration=blind)
    for truth, name in ((0, "sensitivity"), (1, "specificity")):
        with pytest.raises(DataError, match=name):
            er.judge_corrected(log, **ROLES, calibration=calibration[calibration["label"] == truth])
    with pytest.raises(EvalregError, match="`judge` and `human` must be different"):
        er.judge_corrected(log, judge="verdict", human="verdict", calibration=calibration)
    with pytest.raises(ArgumentTypeError, match="'prompt' holds text"):
        er.judge_corrected(log, **ROLES, calibration=calibration.astype({"prompt": str}), groups="prompt")


def test_a_share_of_which_all_verdicts_are_alike_is_not_taken_for_known_in_the_interval(rng):
    _, calibration = judged(rng)
    for known in (calibration, calibration.assign(verdict=calibration["label"])):
        with pytest.warns(ZeroVarianceWarning, match="mean"):
            few = er.judge_corrected({"verdict": np.zeros(4)}, **ROLES, calibration=known)
        # At least as far as Clopper and Pearson's end for 0 of 4, less the false alarms.
        assert few.conf_int().iloc[0, 1] > 1 - 0.025 ** (1 / 4) + few.params.iloc[0]
    with pytest.warns(RectificationWarning, match="mean"):
        er.judge_corrected({"verdict": np.zeros(900)}, **ROLES, calibration=calibration)


def test_p_values_take_the_covariance_behind_the_shares_once_for_all_levels(rng, monkeypatch):
    log, calibration = judged(rng)
    results = er.judge_corrected(log, **ROLES, calibration=calibration, by="model")
    matrix, taken = Covariance.matrix.fget, []
    monkeypatch.setattr(Covariance, "matrix", property(lambda cov: taken.append(cov) or matrix(cov)))
    p = results.t_test((np.eye(2), results.conf_int(0.01).to_numpy()[:, 0])).pvalue
    np.testing.assert_allclose(p, 0.01, rtol=1e-6)
    assert not taken  # the intervals had it
