"""Ratings without each cluster: those of a fit to the other rows, and none where these link no finite ratings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special

import evalreg as er
from evalreg.errors import DisconnectedError
from evalreg.estimators import reweighted
from evalreg.estimators.left_out import AllRows, solved_nearby
from evalreg.estimators.outcomes import Logistic
from evalreg.estimators.reweighted import Reweighted
from evalreg.numerics.matrices import compressed

SETTLED = 1e-10
CALL = {"left": "left", "right": "right", "score": "score", "groups": "prompt"}


def contests(n_models: int, n_prompts: int, n_pairs: int, *, ties: float = 0.0, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    n = n_prompts * n_pairs
    strength, left = rng.normal(size=n_models), rng.integers(0, n_models, n)
    right = (left + rng.integers(1, n_models, n)) % n_models
    length = rng.normal(size=n)
    score = (rng.random(n) < special.expit(strength[left] - strength[right] + 0.3 * length)).astype(float)
    score[rng.random(n) < ties] = 0.5
    names = np.array([f"m{i}" for i in range(n_models)])
    prompt = np.repeat(np.arange(n_prompts), n_pairs)
    return pd.DataFrame(
        {"left": names[left], "right": names[right], "score": score, "length": length, "prompt": prompt}
    )


def solved(log: pd.DataFrame, options: dict[str, Any]) -> tuple[er.Board, np.ndarray, np.ndarray]:
    """A board, its parameters without each prompt, and the coefficients without it that need no new matrices."""
    board = er.bradley_terry(log, **CALL, **options)
    refit = board.estimate.refit
    assert refit is not None
    again, contrasts = refit.leave_out, refit.contrasts
    assert isinstance(again, Reweighted)
    (block,) = board.estimate.scores.sums_in_cells(("prompt",))
    near = solved_nearby(
        again._all_rows, compressed(block.totals), compressed(block.gram), gone=1e-10, singular=reweighted.DOUBTFUL
    )
    return board, board.estimate.params + again(block) @ contrasts.T, near


@pytest.mark.parametrize(
    ("options", "ties"),
    [
        ({}, 0.0),
        ({"formula": "1 + length"}, 0.0),
        ({"ties": "davidson"}, 0.25),
        ({"ties": "davidson", "formula": "0 + length"}, 0.25),
    ],
)
@pytest.mark.parametrize("shape", [(6, 25, 12), (20, 40, 15), (3, 24, 30)])
def test_ratings_without_each_prompt_are_those_of_the_other_rows(
    shape: tuple[int, int, int], options: dict[str, Any], ties: float
) -> None:
    log = contests(*shape, ties=ties)
    board, found, near = solved(log, options)
    for prompt in range(shape[1]):
        fitted = er.bradley_terry(log[log["prompt"] != prompt], **CALL, **options)
        np.testing.assert_allclose(found[prompt], fitted.params[board.params.index], rtol=0, atol=SETTLED)
    assert np.isfinite(near).all(axis=1).mean() > 0.5


def test_prompts_that_link_models_leave_no_ratings_and_others_do() -> None:
    log = contests(8, 14, 3, seed=1)
    board, found, near = solved(log, {})
    lost = 0
    for prompt in range(14):
        rest = log[log["prompt"] != prompt]
        try:
            fitted = er.bradley_terry(rest, **CALL)
            finite = fitted.params.size == board.params.size
        except DisconnectedError:
            finite = False
        assert finite == np.isfinite(found[prompt]).all()
        if finite:
            np.testing.assert_allclose(found[prompt], fitted.params, rtol=0, atol=SETTLED)
        lost += not finite
        assert finite or np.isnan(near[prompt]).all()
    assert 0 < lost < 14
    assert 0 < np.isfinite(near[:, 0]).sum() < 14 - lost


@pytest.mark.parametrize("size", [1e-13, 1e-9, 1.0])
def test_what_is_determined_is_told_from_the_smallest_eigenvalue_whatever_the_units_and_the_others(size: float) -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    good, doubtful = ((turn * [3.0, 2.0, 1.0, 1.0, 0.5, least]) @ turn.T for least in (0.3, size))
    units = np.diag(10.0 ** np.arange(-6, 6, 2))
    found = reweighted._determined(np.array([units @ one @ units for one in (good, doubtful)]))
    assert found.tolist() == [True, size > 1e-12]
    assert reweighted._determined(np.array([good])).all()


def test_likelihoods_whose_digits_are_lost_are_left_to_new_matrices() -> None:
    design = compressed(np.array([[1.0], [-1.0]]))
    for coefficient, weight, known in ((0.4, 1.0, True), (800.0, 1.0, False), (30.0, 1e6, False)):
        rows = AllRows.of(Logistic(design), np.array([coefficient]), np.full(2, weight), np.zeros(2))
        assert (rows.determined > 0) == known
        assert np.isfinite(rows.inverse).all()
