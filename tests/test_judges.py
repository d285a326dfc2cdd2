"""Judges set against each other, held against slow loops, statsmodels, published values and simulated truth."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.stats.inter_rater import fleiss_kappa
from statsmodels.stats.multitest import multipletests

import evalreg as er

LABELS = {"left": "left", "right": "right", "winner": "winner"}
SCORE = {"left": 1.0, "tie": 0.5, "right": 0.0}


def board_of(log: pd.DataFrame, **more) -> er.Board:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", er.errors.EvalregWarning)
        return er.win_rate(log, **{**LABELS, "groups": "prompt", **more})


def both_orders(log: pd.DataFrame) -> pd.DataFrame:
    """Every comparison once more with the models in the other order, verdicts drawn anew."""
    other = log.rename(columns={"left": "right", "right": "left"})
    drawn = np.random.default_rng(4).choice(["left", "right", "tie"], len(log))
    keep = np.random.default_rng(5).random(len(log)) < 0.6
    flipped = log["winner"].map({"left": "right", "right": "left", "tie": "tie"})
    return pd.concat([log, other.assign(winner=np.where(keep, flipped, drawn))], ignore_index=True)


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    full = er.datasets.judge_log(n_models=4, n_prompts=40, n_judges=4, judge_sd=0.4, position_effect=0.4, seed=3)
    # Judges saw different parts of it: unequal, unbalanced in order.
    part = full[np.random.default_rng(1).random(len(full)) < 0.8]
    return part.reset_index(drop=True)


@pytest.fixture(scope="module")
def judging(log: pd.DataFrame):
    """What is said of the judges of that log by default."""
    return board_of(log).judges()


@pytest.fixture(scope="module")
def cr0(log: pd.DataFrame):
    return board_of(log, cov="CR0").judges()


def oriented(log: pd.DataFrame) -> pd.DataFrame:
    """Pair, the score of its first model and the side of that."""
    score = log["winner"].map(SCORE)
    swapped = log["left"] > log["right"]
    return log.assign(
        a=np.where(swapped, log["right"], log["left"]),
        b=np.where(swapped, log["left"], log["right"]),
        s=np.where(swapped, 1 - score, score),
        x=np.where(swapped, -1.0, 1.0),
    )


def slow_verdicts(log: pd.DataFrame) -> dict[tuple, dict[str, int]]:
    found: dict[tuple, dict[str, int]] = {}
    for (prompt, a, b, judge), mean in oriented(log).groupby(["prompt", "a", "b", "judge"])["s"].mean().items():
        found.setdefault((prompt, a, b), {})[judge] = int(np.sign(mean - 0.5))
    return found


@pytest.mark.parametrize("twice", [False, True])
def test_agreement_of_two_judges_is_that_of_a_slow_loop(log, cr0, twice):
    data = both_orders(log) if twice else log
    verdicts = slow_verdicts(data)
    table = (board_of(data, cov="CR0").judges() if twice else cr0).agreement
    assert len(table) == 6
    for one, other in itertools.combinations(sorted(data["judge"].unique()), 2):
        shared = [(key[0], v[one], v[other]) for key, v in verdicts.items() if one in v and other in v]
        prompt, first, second = map(np.array, zip(*shared, strict=True))
        row = table.loc[(one, other)]
        assert row["n"] == len(shared)
        equal = (first == second).astype(float)
        clusters = {"groups": pd.factorize(prompt)[0], "use_correction": False}
        fit = sm.OLS(equal, np.ones(len(equal))).fit(cov_type="cluster", cov_kwds=clusters)
        np.testing.assert_allclose([row["agreement"], row["se"]], [fit.params[0], fit.bse[0]], rtol=1e-10)
        # Verdicts from either side, as the first of two models is so by its name alone.
        first, second = (np.concatenate([side, -side]) for side in (first, second))
        by_chance = sum(np.mean(first == k) * np.mean(second == k) for k in (-1, 0, 1))
        assert row["kappa"] == pytest.approx((equal.mean() - by_chance) / (1 - by_chance), abs=1e-12)


def test_a_judge_whose_verdict_turns_with_the_order_calls_a_tie():
    rows = []
    for prompt in "pq":
        # j1 prefers whatever stands on the left; j2 prefers m1; j3 says tie.
        for left, right in (("m1", "m2"), ("m2", "m1")):
            rows += [(prompt, "j1", left, right, "left"), (prompt, "j2", left, right, "m1")]
            rows += [(prompt, "j3", left, right, "tie")]
    log = pd.DataFrame(rows, columns=["prompt", "judge", "left", "right", "winner"])
    judging = board_of(log).judges(min_shared=1)
    assert judging.agreement["agreement"].to_dict() == {("j1", "j2"): 0.0, ("j1", "j3"): 1.0, ("j2", "j3"): 0.0}
    assert judging.agreement["n"].tolist() == [2, 2, 2]
    assert judging.position["consistent"].to_dict() == {"j1": 0.0, "j2": 1.0, "j3": 1.0}
    assert judging.position["bias"].to_dict() == {"j1": 0.5, "j2": 0.0, "j3": 0.0}
    assert judging.position["se"].isna().all()
    assert judging.position["balanced"].all()


def test_fleiss_kappa_needs_every_judge_on_every_comparison(judging):
    full = er.datasets.judge_log(n_models=3, n_prompts=20, n_judges=3, seed=1)
    counts = [[list(v.values()).count(k) for k in (1, 0, -1)] for v in slow_verdicts(full).values()]
    complete = board_of(full).judges()
    both = np.array([*counts, *(unit[::-1] for unit in counts)])
    assert complete.overall["fleiss"] == pytest.approx(fleiss_kappa(both), abs=1e-12)
    assert "Fleiss' kappa" in str(complete.summary())
    assert np.isnan(judging.overall["fleiss"])


@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3"])
def test_the_board_of_a_judge_is_the_board_of_its_rows(log, judging, cov):
    boards = (judging if cov == "CR2" else board_of(log, cov=cov).judges()).boards
    for judge, part in log.groupby("judge"):
        alone = board_of(part, cov=cov)
        mine = boards.loc[judge]
        np.testing.assert_allclose(mine["estimate"], alone.params, rtol=1e-12)
        np.testing.assert_allclose(mine["se"], alone.bse, rtol=1e-10)
        np.testing.assert_allclose(mine["dof"], alone.cov.dof(), rtol=1e-8)
        assert mine["rank"].to_dict() == alone.params.rank(ascending=False).astype(int).to_dict()


def slow_effect(data: pd.DataFrame, judge: str, model: str) -> tuple[float, float]:
    """The effect and its CR0 error by the definition, one cell of opponent and judge at a time."""
    names = {name: data[name].to_numpy() for name in ("a", "b", "judge", "prompt")}
    first, mine = names["a"] == model, (names["a"] == model) | (names["b"] == model)
    other, y = np.where(first, names["b"], names["a"]), np.where(first, data["s"], 1 - data["s"])
    seen = {one: sorted(set(names["judge"][mine & (other == one)])) for one in sorted(set(other[mine]))}
    opponents = [one for one, judges in seen.items() if judge in judges and len(judges) > 1]
    value, influence = 0.0, dict.fromkeys(names["prompt"], 0.0)
    for one in opponents:
        for j in seen[one]:
            rows = np.flatnonzero(mine & (other == one) & (names["judge"] == j))
            weight = ((j == judge) - 1 / len(seen[one])) / len(opponents)
            mean = y[rows].mean()
            value += weight * mean
            for row in rows:
                influence[names["prompt"][row]] += weight * (y[row] - mean) / len(rows)
    return value, float(np.sqrt(sum(u**2 for u in influence.values())))


def test_effects_are_those_of_the_definition(log):
    # One judge saw no comparison of one pair.
    gone = (log["judge"] == "judge-2") & log["left"].isin(["model-01", "model-02"])
    data = log[~(gone & log["right"].isin(["model-01", "model-02"]))].reset_index(drop=True)
    effects = board_of(data, cov="CR0").judges().effects
    slow = oriented(data)
    for (judge, model), row in effects.iterrows():
        np.testing.assert_allclose([row["effect"], row["se"]], slow_effect(slow, judge, model), rtol=1e-9, atol=1e-12)
    assert effects.loc[("judge-2", "model-01"), "opponents"] == 2
    assert effects.loc[("judge-1", "model-01"), "opponents"] == 3
    adjusted = multipletests(effects["p_value"], method="holm")[1]
    np.testing.assert_allclose(effects["p_adjusted"], adjusted)
    assert (effects["stands"] == (effects["p_adjusted"] <= 0.05)).all()


def test_position_bias_is_that_of_a_regression_on_pairs_and_order(log, cr0):
    table = cr0.position
    for judge, part in oriented(log).groupby("judge"):
        dummies = pd.get_dummies(part["a"] + part["b"]).to_numpy(dtype=float)
        fit = sm.OLS(part["s"].to_numpy(), np.column_stack([part["x"], dummies])).fit(
            cov_type="cluster", cov_kwds={"groups": pd.factorize(part["prompt"])[0], "use_correction": False}
        )
        row = table.loc[judge]
        np.testing.assert_allclose([row["bias"], row["se"]], [fit.params[0], fit.bse[0]], rtol=1e-9)
        assert row["left"] == pytest.approx(part["winner"].map(SCORE).mean() - 0.5)
        assert not row["balanced"]
        assert row["n"] == len(part)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize(("share", "rtol", "dof_rtol"), [(0.8, 0.005, 0.03), (0.15, 0.03, 0.3)])
def test_position_errors_are_those_of_a_regression_with_all_its_leverages(log, share, rtol, dof_rtol):
    part = log[np.random.default_rng(2).random(len(log)) < share].reset_index(drop=True)
    table = board_of(part).judges().position
    for judge, rows in oriented(part).groupby("judge"):
        fit = er.fit("s ~ 0 + C(pair) + x", rows.assign(pair=rows["a"] + rows["b"]), groups="prompt", cov="CR2")
        row = table.loc[judge]
        np.testing.assert_allclose([row["bias"], row["se"]], [fit.params["x"], fit.bse["x"]], rtol=rtol)
        assert row["dof"] == pytest.approx(fit.dof["x"], rel=dof_rtol)


@pytest.mark.parametrize("crossed", ["judge + prompt", "judge:prompt + prompt"])
def test_clusterings_that_cross_are_not_taken_for_the_name_of_one(log, crossed):
    with pytest.raises(er.errors.ArgumentError) as refused:
        board_of(log).judges(crossed)
    assert not isinstance(refused.value, er.errors.MissingColumnError)
