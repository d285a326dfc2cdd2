"""Simulated verdicts of judges on pairs of models."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import scipy

from evalreg.checks import FloatArray, IntArray
from evalreg.datasets.making import by_name, generator, ids, label_column, whole, with_truth, within


def judge_log(
    *,
    n_models: int = 6,
    n_prompts: int = 80,
    n_judges: int = 3,
    spread: float = 1.0,
    judge_sd: float = 0.2,
    prompt_sd: float = 1.0,
    ties: float = 0.1,
    position_effect: float = 0.0,
    pairs_per_prompt: int | None = None,
    seed: int | np.random.Generator = 0,
) -> pd.DataFrame:
    """Simulated log of pairwise comparisons of models by judges.

    The data are simulated. On prompt p, judge j prefers the left answer, by model a, to the right one, by model b, if

        (theta_a + u_ap + w_aj) - (theta_b + u_bp + w_bj) + position_effect + noise

    exceeds a threshold, prefers the right one if it is below minus the threshold, and calls a tie otherwise. The
    noise is standard normal and is the unit of every other scale. The answer u_ap is drawn once and is in all
    comparisons of model a on prompt p; the taste w_aj of judge j for model a is in all comparisons of a by j.
    Rows that share them are dependent, so by default errors that treat rows as independent are about a third of what
    they should be. Sides are random, row by row. Every pair drawn for a prompt is seen by every judge.

    Parameters
    ----------
    n_models : int, optional
        Number of models, 6 by default; at least 2.
    n_prompts : int, optional
        Number of prompts, 80 by default; at least 1.
    n_judges : int, optional
        Number of judges, 3 by default; at least 1.
    spread : float, optional
        Quality theta of the best model, model-01, minus that of the worst, the last; others are spaced evenly, and
        the mean is 0. At least 0; 1 by default.
    judge_sd : float, optional
        Standard deviation of w, at least 0; 0.2 by default.
    prompt_sd : float, optional
        Standard deviation of u, at least 0; 1 by default.
    ties : float, optional
        Expected share of ties when all pairs are compared, in [0, 1); 0.1 by default.
    position_effect : float, optional
        Advantage of the left side; 0 by default, negative favours the right.
    pairs_per_prompt : int, optional
        Pairs compared on each prompt, drawn without replacement; at least 1. None, the default, compares all pairs.
    seed : int or numpy.random.Generator, optional
        0 by default.

    Returns
    -------
    pandas.DataFrame
        One row per comparison. Columns `prompt`, `judge`, `left`, `right` (models) and `winner` ("left", "right" or
        "tie"). `.attrs["truth"]` holds `theta` by model; `psi`, the expected score `psi[a][b]` of a against b, a tie
        counting one half, over new prompts, new judges and both sides; `win_rate` by model, the mean of its psi over
        all opponents; `win_rate_these_judges`, the same for the judges drawn here; `tie_share`; `tie_threshold`;
        and `left_score`, the expected score of the left side.

    Raises
    ------
    ArgumentError
        If a count is too small, a standard deviation or `spread` is negative or infinite, `ties` is outside [0, 1),
        `position_effect` is not finite, `pairs_per_prompt` exceeds the number of pairs, or `seed` is negative.
    ArgumentTypeError
        If a count or a number is something else, or `seed` is neither a whole number nor a Generator.

    References
    ----------
    Thurstone (1927), Psychological Review 34, 273-286.
    Glenn and David (1960), Biometrics 16, 86-109 (ties by a threshold).

    Examples
    --------
    >>> from evalreg import datasets
    >>> log = datasets.judge_log(n_models=3, n_prompts=20, n_judges=2)
    >>> log.shape
    (120, 5)
    >>> round(log.attrs["truth"]["win_rate"]["model-02"], 6)
    0.5
    """
    rng, used_seed = generator(seed)
    n_models = whole("n_models", n_models, 2)
    n_prompts, n_judges = whole("n_prompts", n_prompts), whole("n_judges", n_judges)
    spread, ties = within("spread", spread, "[0, inf)"), within("ties", ties, "[0, 1)")
    judge_sd, prompt_sd = within("judge_sd", judge_sd, "[0, inf)"), within("prompt_sd", prompt_sd, "[0, inf)")
    position_effect = within("position_effect", position_effect, "(-inf, inf)")

    n_pairs = n_models * (n_models - 1) // 2
    chosen = n_pairs if pairs_per_prompt is None else whole("pairs_per_prompt", pairs_per_prompt, 1, n_pairs)

    theta = np.linspace(spread / 2, -spread / 2, n_models)
    sd = math.sqrt(1 + 2 * prompt_sd**2 + 2 * judge_sd**2)
    threshold = _tie_threshold(_gaps(theta) + position_effect, sd, ties)
    prompt, judge, left, right = _schedule(rng, n_models, n_prompts, n_judges, chosen)
    answer = theta[:, None] + prompt_sd * rng.standard_normal((n_models, n_prompts))
    taste = judge_sd * rng.standard_normal((n_models, n_judges))
    latent = answer[left, prompt] + taste[left, judge] - answer[right, prompt] - taste[right, judge]
    latent += position_effect + rng.standard_normal(len(latent))
    winner = np.where(latent > threshold, 0, np.where(latent < -threshold, 1, 2))

    models = ids("model", n_models, 2)
    columns = {
        "prompt": label_column(ids("prompt", n_prompts), prompt),
        "judge": label_column(ids("judge", n_judges, 1), judge),
        "left": label_column(models, left),
        "right": label_column(models, right),
        "winner": label_column(["left", "right", "tie"], winner),
    }
    psi = _expected_scores(theta, position_effect, threshold, sd)
    # Given the judges, their tastes shift theta and leave the variance.
    sd_given = math.sqrt(1 + 2 * prompt_sd**2)
    psi_given = np.mean([_expected_scores(theta + w, position_effect, threshold, sd_given) for w in taste.T], axis=0)
    truth = {
        "theta": by_name(models, theta),
        "psi": {a: {b: float(psi[i, j]) for j, b in enumerate(models) if j != i} for i, a in enumerate(models)},
        "win_rate": by_name(models, _win_rates(psi)),
        "win_rate_these_judges": by_name(models, _win_rates(psi_given)),
        "left_score": float(_half_tie(_gaps(theta) + position_effect, threshold, sd).mean()),
        "tie_share": ties,
        "tie_threshold": threshold,
    }
    return with_truth(columns, truth, used_seed)


def published_design(
    *, n_prompts: int = 300, judge_sd: float = 0.0, seed: int | np.random.Generator = 7
) -> pd.DataFrame:
    """Simulated log of the design that many public leaderboards have: 19 models, all pairs shown to 3 judges.

    It shows what clustering by prompt is for. Each model answers each prompt once, and its answer meets 18 others, so
    that errors of independent rows are too small by about sqrt(18) = 4.2, however little alike all rows of a prompt
    are.

    Parameters
    ----------
    n_prompts : int, optional
        Number of prompts, 300 by default; 171 comparisons by each of 3 judges on each.
    judge_sd : float, optional
        How much judges differ in taste, as in `judge_log`; not at all by default, 0.2 for a fivefold inflation.
    seed : int or Generator, optional
        Seed, 7 by default.

    Returns
    -------
    pandas.DataFrame
        As `judge_log`, with answers that differ by 1.8 times the noise of a verdict.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.published_design()
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> float(round((board.bse / board.with_cov(groups=None, cov="naive").bse).median(), 2))
    4.25
    """
    return judge_log(n_models=19, n_judges=3, prompt_sd=1.8, judge_sd=judge_sd, n_prompts=n_prompts, seed=seed)


def _schedule(
    rng: np.random.Generator, n_models: int, n_prompts: int, n_judges: int, n_chosen: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Prompt, judge, left and right model of each row."""
    first, second = np.triu_indices(n_models, 1)
    pairs = np.broadcast_to(np.arange(len(first)), (n_prompts, len(first)))
    if n_chosen < len(first):
        pairs = np.sort(rng.random(pairs.shape).argsort(axis=1)[:, :n_chosen], axis=1)
    pair = np.repeat(pairs.ravel(), n_judges)
    prompt = np.repeat(np.arange(n_prompts), n_chosen * n_judges)
    judge = np.tile(np.arange(n_judges), n_prompts * n_chosen)
    swapped = rng.random(len(pair)) < 0.5
    left, right = np.where(swapped, second[pair], first[pair]), np.where(swapped, first[pair], second[pair])
    return prompt, judge, left, right


def _gaps(theta: FloatArray) -> FloatArray:
    """Difference of theta, left model minus right, for all ordered pairs of different models."""
    return np.subtract.outer(theta, theta)[~np.eye(len(theta), dtype=bool)]


def _half_tie(gap: FloatArray, threshold: float, sd: float) -> FloatArray:
    """Expected score when the latent difference is normal with mean `gap`; a tie counts one half."""
    return np.asarray((scipy.special.ndtr((gap - threshold) / sd) + scipy.special.ndtr((gap + threshold) / sd)) / 2)


def _tie_threshold(gap: FloatArray, sd: float, ties: float) -> float:
    """Threshold at which the expected share of ties over the pairs is `ties`, by bisection."""
    low, high = 0.0, float(np.abs(gap).max()) + 40 * sd
    for _ in range(100):
        middle = (low + high) / 2
        share = (scipy.special.ndtr((middle - gap) / sd) - scipy.special.ndtr((-middle - gap) / sd)).mean()
        low, high = (middle, high) if share < ties else (low, middle)
    return low


def _expected_scores(theta: FloatArray, position_effect: float, threshold: float, sd: float) -> FloatArray:
    """psi, shape (n_models, n_models): expected score of each model against each, half the time on either side."""
    gap = np.subtract.outer(theta, theta)
    either = _half_tie(gap + position_effect, threshold, sd) + _half_tie(gap - position_effect, threshold, sd)
    return either / 2


def _win_rates(psi: FloatArray) -> FloatArray:
    """Mean of psi over the opponents of each model."""
    return np.asarray((psi.sum(axis=1) - psi.diagonal()) / (len(psi) - 1))
