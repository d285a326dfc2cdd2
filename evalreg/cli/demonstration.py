"""The demonstration: two simulated evals, what evalreg says about them, and what is true."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from evalreg.datasets import judge_log, paired, passages, sampled
from evalreg.errors import ArgumentError, muted
from evalreg.estimators.regression import fit
from evalreg.report.tables import WIDTH, Grid, number
from evalreg.results.results import Results

__all__ = ["comparison_log", "passage_log", "text", "write"]

BEST = "model-01"
N_MORE = 100  # further logs on which the intervals are tried: enough to tell 95% from 70%, and done in two seconds

PASSAGES_FILE, JUDGES_FILE, MODELS_FILE, PILOT_FILE = "passages.csv", "judge_log.csv", "models.csv", "pilot.csv"

_READING = (
    "1. Reading comprehension. One model answers {n} questions on {clusters} passages, some with many questions and "
    "some with one. A hard passage lowers the scores of all its questions together, so that they say less than as many "
    "questions drawn one by one."
)
_JUDGING = (
    "2. Judges. {n_judges} judges compare the answers of {n_models} models to {n_prompts} prompts. The score is that "
    "of {best}: 1 where it wins, 0 where it loses, 0.5 for a tie. An answer is in many comparisons, and a judge "
    "has a taste, so that rows are dependent along two axes. Another log would bring other prompts and other judges."
)

_WRITTEN = """\
Wrote {passages}: simulated scores of one model
  on {n} questions under {clusters} passages. True mean: {mean:.4f}.
Wrote {judges}: a simulated log of {n_judges} judges comparing
  {n_models} models. `best_score` is the score of {best} where it takes part: 1, 0,
  or 0.5 for a tie. Its true win rate: {win_rate:.4f}.
Wrote {models}: simulated scores of two models, old and new, on the same
  {n_shared} questions. True difference: {difference:.4f}.
Wrote {pilot}: a simulated pilot, {n_answers} answers of two models
  to each of {n_pilot} questions. True omega2 of single questions: {omega2:.4f}.

Try:

evalreg fit "score ~ 1" {passages} --groups passage
evalreg mean {passages} --by subject --groups passage
evalreg fit "score ~ n_words" {passages} --groups passage
evalreg fit "score ~ 1" {judges} --score best_score \\
    --groups "prompt + judge" --where 'best_score != missing'
evalreg leaderboard {judges} --winner winner --groups prompt
evalreg compare {models} --item question --groups passage"""


@dataclass(frozen=True)
class Study:
    """A world to draw logs from, and how to estimate its truth."""

    draw: Callable[[int | np.random.Generator], pd.DataFrame]  # A log from a seed
    formula: str  # as in `fit`
    groups: str
    truth: Callable[[pd.DataFrame], float]  # the true value, from the attributes of a log


@dataclass(frozen=True)
class Trials:
    """What became of an estimate and its intervals on further logs."""

    naive: int  # how many intervals held the truth
    clustered: int
    spread: float  # standard deviation of the estimates


def passage_log(seed: int | np.random.Generator) -> pd.DataFrame:
    """Simulated scores of one model on questions under passages of unequal size."""
    return passages(n_passages=60, unequal=True, seed=seed)


def comparison_log(seed: int | np.random.Generator) -> pd.DataFrame:
    """Simulated comparisons by judges, with the score of the best model where it takes part as `best_score`."""
    log = judge_log(n_models=5, n_prompts=50, n_judges=6, seed=seed)
    won = (log["left"] == BEST) & (log["winner"] == "left") | (log["right"] == BEST) & (log["winner"] == "right")
    score = np.where(log["winner"] == "tie", 0.5, won.astype(float))
    return log.assign(best_score=np.where((log["left"] == BEST) | (log["right"] == BEST), score, np.nan))


def models_log(seed: int | np.random.Generator) -> pd.DataFrame:
    """Simulated scores of two models on the same questions under passages."""
    return paired(n_passages=60, difference=0.1, correlation=0.8, seed=seed)


def pilot_log(seed: int | np.random.Generator) -> pd.DataFrame:
    """Simulated answers of two models, several to each question under passages."""
    return sampled(n_questions=300, n_samples=4, n_models=2, correlation=0.5, icc=0.3, seed=seed)


READING = Study(passage_log, "score ~ 1", "passage", lambda log: float(log.attrs["truth"]["mean"]))
JUDGING = Study(
    lambda seed: comparison_log(seed).dropna(subset=["best_score"]),
    "best_score ~ 1",
    "prompt + judge",
    lambda log: float(log.attrs["truth"]["win_rate"][BEST]),
)


def text(seed: int = 0) -> str:
    """The demonstration, in lines of at most 80 columns.

    Two simulated evals: what they are, their summaries, and the truth beside the estimates.
    """
    head = f"evalreg demo: two simulated evals whose true values are known (seed {seed})"
    reading, log = READING.draw(seed), comparison_log(seed)
    first = _READING.format(n=len(reading), clusters=reading["passage"].nunique())
    counts = {"n_judges": log["judge"].nunique(), "n_models": log["left"].nunique()}
    second = _JUDGING.format(**counts, n_prompts=log["prompt"].nunique(), best=BEST)
    se = float(reading.attrs["truth"]["standard_error"])
    parts = [head, _wrapped(first), _findings(READING, "mean score", seed, se)]
    return "\n\n".join([*parts, _wrapped(second), _findings(JUDGING, "win rate", seed)])


def write(folder: Path, seed: int = 0) -> str:
    """Write the simulated logs as CSV, and return what was written and what to try on it."""
    logs = passage_log(seed), comparison_log(seed), models_log(seed), pilot_log(seed)
    reading, judged, answered, pilot = logs
    paths = tuple(folder / name for name in (PASSAGES_FILE, JUDGES_FILE, MODELS_FILE, PILOT_FILE))
    contents = [log.to_csv(index=False, lineterminator="\n").encode() for log in logs]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents, strict=True):
            if path.exists() and path.read_bytes() != content:
                raise ArgumentError(f'`--write` replaces no file; "{path}" already exists. Name another folder.')
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
    except OSError as error:
        raise ArgumentError(
            f'`--write` must name a folder to write to; "{folder}" is not: {error.strerror or error}.'
        ) from error
    return _WRITTEN.format(
        passages=paths[0],
        judges=paths[1],
        n=len(reading),
        clusters=reading["passage"].nunique(),
        n_judges=judged["judge"].nunique(),
        n_models=judged["left"].nunique(),
        best=BEST,
        mean=READING.truth(reading),
        win_rate=JUDGING.truth(judged),
        models=paths[2],
        n_shared=answered["question"].nunique(),
        difference=answered.attrs["truth"]["difference"],
        pilot=paths[3],
        n_answers=pilot["sample"].nunique(),
        n_pilot=pilot["question"].nunique(),
        omega2=pilot.attrs["truth"]["omega2"],
    )


def trials(study: Study, seed: int, n: int = N_MORE) -> Trials:
    """How often intervals hold the truth on further logs of the same world."""
    held, estimates = np.zeros(2, dtype=int), []
    for i in range(1, n + 1):
        log = study.draw(np.random.default_rng([seed, i]))
        clustered, naive = _fitted(study, log)
        held += [_holds(results, study.truth(log)) for results in (naive, clustered)]
        estimates.append(clustered.params.iloc[0])
    return Trials(int(held[0]), int(held[1]), float(np.std(estimates, ddof=1)))


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, WIDTH, subsequent_indent="   ")


def _findings(study: Study, what: str, seed: int, se: float | None = None) -> str:
    """The summary of a study, and what is true beside it."""
    log = study.draw(seed)
    clustered, naive = _fitted(study, log)
    tried, truth = trials(study, seed), study.truth(log)
    spread = tried.spread if se is None else se
    pairs = ((clustered, f"clustered by {study.groups}"), (naive, "rows taken to be independent"))
    rows = [(what, number(clustered.params.iloc[0]), number(truth))]
    rows += [(f"standard error, {name}", number(results.bse.iloc[0]), number(spread)) for results, name in pairs]
    parts = [Grid(("What is true", "estimated", "true"), tuple(rows)).text(WIDTH)]
    if se is None:
        parts[0] += f"\n(The true standard error is the spread of the {what} over {N_MORE} more logs.)"
    inside = tuple(
        (name, *map(number, _limits(results)), "yes" if _holds(results, truth) else "NO", f"{times} times")
        for (results, name), times in zip(pairs, (tried.clustered, tried.naive), strict=True)
    )
    parts.append(Grid(("95% interval", "from", "to", "holds truth", f"on {N_MORE} more logs"), inside).text(WIDTH))
    return "\n\n".join([str(clustered.summary()), *parts])


def _fitted(study: Study, log: pd.DataFrame) -> tuple[Results, Results]:
    """The estimate with clustered and with naive errors; what is fragile about it is in the summary."""
    with muted():
        clustered = fit(study.formula, log, groups=study.groups)
        return clustered, clustered.with_cov(groups=None)


def _limits(results: Results) -> tuple[float, float]:
    low, high = results.conf_int().iloc[0]
    return float(low), float(high)


def _holds(results: Results, truth: float) -> bool:
    low, high = _limits(results)
    return bool(low <= truth <= high)
