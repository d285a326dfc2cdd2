"""Draws of ratings in which models never win, or never lose, against the rest: infinite ones at their side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import EvalregWarning
from evalreg.estimators.separated import tiers_of
from evalreg.resampling.boot_sums import solver_of
from evalreg.resampling.intervals import percentile_interval

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

SIDES: dict[str, Any] = {"left": "left", "right": "right", "score": "score", "groups": "prompt"}
MODELS = ["alpha", "beta", "gamma", "delta", "weak"]
# A score this far from 0 and 1 keeps every rating finite; differences that are finite without it move by this order.
NUDGE = 1e-9


def sparse_log(weakest: float = -2.6, seed: int = 4, ties: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    strength = np.array([0.8, 0.4, 0.0, -0.3, weakest])
    rows = []
    for prompt in range(40):
        for _ in range(3):
            a, b = rng.choice(5, 2, replace=False)
            score = float(rng.random() < 1 / (1 + np.exp(strength[b] - strength[a])))
            if ties and "weak" not in (MODELS[a], MODELS[b]) and rng.random() < 0.3:
                score = 0.5
            rows.append((MODELS[a], MODELS[b], score, prompt))
    return pd.DataFrame(rows, columns=["left", "right", "score", "prompt"])


def wins_of_weak(log: pd.DataFrame) -> np.ndarray:
    """Score of the weak model in each prompt."""
    mine = np.where(log["left"] == "weak", log["score"], np.where(log["right"] == "weak", 1 - log["score"], 0.0))
    return np.asarray(pd.Series(mine).groupby(log["prompt"]).sum())


def counts_without_a_win(log: pd.DataFrame) -> np.ndarray:
    """Prompts drawn again, those that the weak model won left out."""
    counts = np.random.default_rng(1).multinomial(40, np.full(40, 1 / 40)).astype(float)
    return np.where(wins_of_weak(log) > 0, 0.0, counts)


def drawn_again(log: pd.DataFrame, counts: np.ndarray) -> pd.DataFrame:
    again = log.loc[np.repeat(log.index, counts[log["prompt"]].astype(int))]
    return again.assign(score=again["score"].clip(NUDGE, 1 - NUDGE))


@pytest.mark.parametrize("options", [{}, {"formula": "1"}, {"scale": "elo"}, {"reference": "beta", "formula": "1"}])
def test_the_rest_is_rated_as_if_the_lost_model_were_far_away(options: dict[str, Any]) -> None:
    log = sparse_log()
    board = er.bradley_terry(log, **SIDES, **options)
    counts = counts_without_a_win(log)
    found = dict(zip(board.estimate.names, solver_of(board.estimate, ("prompt",)).solve(counts[None])[0], strict=True))
    assert found.pop("weak") == -np.inf
    far = er.bradley_terry(drawn_again(log, counts), **SIDES, **options).params
    unit = 400 / np.log(10) if options.get("scale") == "elo" else 1.0
    assert far["weak"] - far["delta"] < -10 * unit
    rest = MODELS[:4]
    if "reference" in options:
        assert found["beta"] == 0
    else:
        assert sum(found[name] for name in rest) == pytest.approx(0.0, abs=1e-8)
    for name in rest:
        assert found[name] - found["beta"] == pytest.approx(far[name] - far["beta"], abs=1e-5 * unit)
    if "formula" in options:
        assert found["position"] == pytest.approx(far["position"], abs=1e-5)


def test_davidsons_ties_are_kept_where_some_are_drawn() -> None:
    log = sparse_log(ties=True)
    board = er.bradley_terry(log, **SIDES, ties="davidson")
    counts = counts_without_a_win(log)
    solver = solver_of(board.estimate, ("prompt",))
    found = dict(zip(board.estimate.names, solver.solve(counts[None])[0], strict=True))
    assert found["weak"] == -np.inf
    rest = drawn_again(log, counts)
    rest = rest[(rest["left"] != "weak") & (rest["right"] != "weak")].assign(
        score=lambda frame: frame["score"].round(1)
    )
    alone = er.bradley_terry(rest, **SIDES, ties="davidson").params
    for name in (*MODELS[:4], "log_tie"):
        assert found[name] == pytest.approx(alone[name], abs=1e-7)
    tied = log.groupby("prompt")["score"].agg(lambda score: (score == 0.5).any()).to_numpy()
    assert np.isnan(solver.solve(np.where(tied, 0.0, 1.0)[None])).all()


def test_contrasts_of_two_models_go_to_their_side() -> None:
    log = sparse_log()
    board = er.bradley_terry(log, **SIDES)
    counts = counts_without_a_win(log)[None]
    whole = solver_of(board.estimate, ("prompt",)).solve(counts)[0]
    pairs = board.contrast("alpha - weak, weak - beta, alpha - beta, alpha + beta - gamma - delta")
    found = solver_of(pairs.estimate, ("prompt",)).solve(counts)[0]
    np.testing.assert_array_equal(found[:2], [np.inf, -np.inf])
    rating = dict(zip(board.estimate.names, whole, strict=True))
    assert found[2] == pytest.approx(rating["alpha"] - rating["beta"])
    assert found[3] == pytest.approx(rating["alpha"] + rating["beta"] - rating["gamma"] - rating["delta"])
    of_weak = er.bradley_terry(log, **SIDES, reference="weak")
    found = solver_of(of_weak.estimate, ("prompt",)).solve(counts)[0]
    assert dict(zip(of_weak.estimate.names, found, strict=True)) == {**dict.fromkeys(MODELS, np.inf), "weak": 0.0}


def test_groups_that_split_are_ordered_where_the_draw_orders_them() -> None:
    """A and B lost to C and D but for the last prompt; E met C alone, and only there."""
    rows = [(a, b, s, p) for p in range(6) for a, b, s in [("A", "B", p % 2), ("C", "D", p % 2), ("C", "A", 1)]]
    rows += [("A", "D", 1, 6), ("E", "C", 1, 7), ("C", "E", 1, 7)]
    board = er.bradley_terry(pd.DataFrame(rows, columns=["left", "right", "score", "prompt"]), **SIDES)
    V = np.ones((2, 8))
    V[:, 6] = 0.0
    V[1, 7] = 0.0
    solver = solver_of(board.estimate, ("prompt",))
    np.testing.assert_allclose(solver.solve(V)[0], [-np.inf, -np.inf, 0.0, 0.0, 0.0], atol=1e-9)
    # Without E no group holds most models: it is not known which are the rest.
    assert np.isnan(solver.solve(V)[1]).all()
    pairs = solver_of(board.contrast("A - B, A - C, C - D, D - B, E - A").estimate, ("prompt",))
    np.testing.assert_allclose(pairs.solve(V)[0], [0.0, -np.inf, 0.0, np.inf, np.inf], atol=1e-9)
    np.testing.assert_allclose(pairs.solve(V)[1], [0.0, -np.inf, 0.0, np.inf, np.nan], atol=1e-9)


def test_tiers_are_those_of_chains_of_wins(rng: np.random.Generator) -> None:
    for _ in range(50):
        first, second = np.triu_indices(6, 1)
        some = rng.random(first.size) < 0.5
        first, second = first[some], second[some]
        score = rng.choice([0.0, 0.5, 1.0], first.size, p=[0.4, 0.2, 0.4])
        beat = np.eye(6, dtype=bool)
        beat[first[score > 0], second[score > 0]] = True
        beat[second[score < 1], first[score < 1]] = True
        chain = np.linalg.matrix_power(beat.astype(int), 6) > 0
        tier, above = tiers_of(first, second, score, 6)
        np.testing.assert_array_equal(tier[:, None] == tier, chain & chain.T)
        np.testing.assert_array_equal(above[tier][:, tier], chain & ~chain.T)


@pytest.mark.parametrize("formula", [None, "1"])
def test_every_draw_without_a_win_counts_below_all_others(formula: str | None) -> None:
    log = sparse_log()
    board = er.bradley_terry(log, **SIDES, formula=formula)
    with pytest.warns(EvalregWarning, match="never won against the rest"):
        boot = board.bootstrap(draws=499)
    lost = np.isneginf(boot.draws[:, board.estimate.names.index("weak")])
    share = lost.mean()
    assert share > 0.025
    assert np.isfinite(boot.draws[:, :4]).all()
    assert boot.bse["weak"] == np.inf
    assert boot.bse.drop("weak").max() < 1.0
    text = f'in {lost.sum()} of 499 draws "weak" never won against the rest; its lower limit counts them as below all'
    assert any(text in note for _, note in boot.notes)
    assert f"in {lost.sum()} of 499 draws" in boot.summary().as_text()
    assert boot.conf_int().loc["weak", 0] == -np.inf
    # Past the draws that are lost the end is a draw again, and the lost ones keep their places below it.
    wide = boot.conf_int(alpha=2 * share + 0.02)
    assert np.isfinite(wide.loc["weak", 0])
    numbered = np.where(np.isneginf(boot.draws), -1e6, boot.draws)
    np.testing.assert_allclose(wide, percentile_interval(numbered, 2 * share + 0.02))
    basic = boot.conf_int(kind="basic")
    assert basic.loc["weak", 1] == np.inf
    assert np.isfinite(basic.drop("weak")).all(axis=None)


def test_a_model_that_never_lost_counts_above_all_others() -> None:
    log = sparse_log().assign(score=lambda frame: 1 - frame["score"])
    with pytest.warns(EvalregWarning, match='"weak" never lost against the rest; its upper limit counts them as above'):
        boot = er.bradley_terry(log, **SIDES).bootstrap(draws=199)
    assert boot.conf_int().loc["weak", 1] == np.inf
    with pytest.warns(EvalregWarning, match='"weak" never lost against the rest; its lower limit counts them as above'):
        boot = er.bradley_terry(log, **SIDES).bootstrap(draws=199, kind="basic")
    assert boot.conf_int().loc["weak", 0] == -np.inf


def test_bca_orders_lost_draws_and_names_what_it_cannot_give() -> None:
    log = sparse_log()
    boot = er.bradley_terry(log, **SIDES).bootstrap(draws=999, kind="bca")
    assert boot.conf_int().loc["weak", 0] == -np.inf
    assert np.isfinite(boot.conf_int().drop("weak")).all(axis=None)
    won = np.flatnonzero(wins_of_weak(log) > 0)
    once = log[~log["prompt"].isin(won[1:])]
    with pytest.warns(EvalregWarning, match='no "bca" interval of "weak": without one of the clusters'):
        boot = er.bradley_terry(once, **SIDES).bootstrap(draws=199, kind="bca")
    assert boot.conf_int().loc["weak"].isna().all()


def test_each_model_has_its_count() -> None:
    rng = np.random.default_rng(0)
    rows = [(*rng.choice(["a", "b", "c", "d", "e"], 2, replace=False), 0.5, prompt) for prompt in range(60)]
    for prompt, name in enumerate(["low", "lower"]):
        rows += [(name, other, 0.0, p) for p, other in enumerate("abcde" * 2)]
        rows += [(name, "a", 1.0, 20 + i) for i in range(2 - prompt)]
    board = er.bradley_terry(pd.DataFrame(rows, columns=["left", "right", "score", "prompt"]), **SIDES)
    boot = board.bootstrap(draws=499)
    lost = dict(zip(boot.names, np.isneginf(boot.draws).sum(axis=0), strict=True))
    assert lost["lower"] > lost["low"] > 0
    text = f'in {lost["lower"]} of 499 draws "lower", in {lost["low"]} "low" never won against the rest; each one\'s'
    assert any(text in note for _, note in boot.notes)
    of_one = er.bradley_terry(sparse_log(), **SIDES, reference="alpha").bootstrap(draws=499)
    assert any('"weak" fell infinitely far from "alpha", which is 0; its lower' in note for _, note in of_one.notes)


def test_a_cluster_that_holds_the_only_wins_leaves_no_jackknife() -> None:
    log = sparse_log()
    once = log[~log["prompt"].isin(np.flatnonzero(wins_of_weak(log) > 0)[1:])]
    for formula in (None, "1"):
        assert np.isnan(er.bradley_terry(once, **SIDES, formula=formula, cov="jackknife").bse["weak"])


def test_no_lost_draw_nothing_to_say() -> None:
    boot = er.bradley_terry(sparse_log(weakest=0.0), **SIDES).bootstrap(draws=199)
    assert np.isfinite(boot.draws).all()
    assert boot.notes == ()
