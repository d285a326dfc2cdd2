"""The demonstration: three simulated evals, what evalreg says about them, and what is true."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from evalreg.cli.spelled import spelled
from evalreg.datasets import judge_log, paired, passages, sampled
from evalreg.errors import ArgumentError, muted
from evalreg.estimators.difference import compare
from evalreg.estimators.regression import fit
from evalreg.estimators.win_rate import win_rate
from evalreg.report.tables import WIDTH, Grid, in_lines, number
from evalreg.results.results import Results
from evalreg.results.tiers import ranks_text

__all__ = ["comparison_log", "passage_log", "text", "write"]

BEST = "model-01"
# Options of the command whose sentences are shown.
_COMPARE = argparse.Namespace(command="compare", adjust=None, groups="passage", icc=None, wild=False)
N_MORE = 100  # further logs on which the intervals are tried: enough to tell 95% from 70%, and done in two seconds

PASSAGES_FILE, JUDGES_FILE, MODELS_FILE, PILOT_FILE = "passages.csv", "judge_log.csv", "models.csv", "pilot.csv"

_READING = (
    "1. An error bar. One model answers {n} questions on {clusters} passages, some with many questions and some with "
    "one. A hard passage lowers the scores of all its questions together, so that they say less than as many questions "
    "drawn one by one."
)
_COMPARING = (
    "2. A against B. Two models, old and new, answer the same {n} questions on {clusters} passages. A question that is "
    "hard for one is often hard for the other, so the difference is taken question by question."
)
_JUDGING = (
    "3. A leaderboard. {n_judges} judges compare the answers of {n_models} models to {n_prompts} prompts. An answer "
    "is in many comparisons, and a judge has a taste, so that rows are dependent along two axes. Another log would "
    "bring other prompts and other judges. Ranks open are those that the log does not exclude. The naive intervals "
    "take rows to be independent."
)
_FIGURE = (
    "o: win rate; =: 95% interval of each; -: 95% intervals that hold for all at once; |: a half; at the right the "
    "ranks open. As a picture: evalreg leaderboard ... --figure board.png"
)
_NEXT = """\
What to type next, on a log of your own (Inspect, lm-eval, promptfoo, CSV, ...):

  evalreg doctor LOG

or on these simulated ones:

  evalreg demo --write logs
  evalreg report logs/models.csv --item question --groups passage \\
      -o report.html"""

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
evalreg compare {models} --item question --groups passage
evalreg report {models} --item question --groups passage \\
    -o report.html"""


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


def text(seed: int = 0) -> str:
    """The demonstration, in lines of at most 80 columns.

    Three simulated evals: what they are, what evalreg says of them, and the truth beside the estimates.
    """
    head = f"evalreg demo: three simulated evals whose true values are known (seed {seed})"
    reading, answered, judged = READING.draw(seed), models_log(seed), comparison_log(seed)
    first = _READING.format(n=len(reading), clusters=reading["passage"].nunique())
    second = _COMPARING.format(n=answered["question"].nunique(), clusters=answered["passage"].nunique())
    counts = {"n_judges": judged["judge"].nunique(), "n_models": judged["left"].nunique()}
    third = _JUDGING.format(**counts, n_prompts=judged["prompt"].nunique())
    parts = (_wrapped(first), _findings(READING, "mean score", seed), _wrapped(second), _difference(answered))
    return "\n\n".join([head, *parts, _wrapped(third), _board(judged), _NEXT])


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
        win_rate=judged.attrs["truth"]["win_rate"][BEST],
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


def _wrapped(paragraph: str, indent: str = "   ") -> str:
    return "\n".join(in_lines(paragraph, WIDTH, indent))


def _findings(study: Study, what: str, seed: int) -> str:
    """The summary of a study, and what is true beside it."""
    log = study.draw(seed)
    clustered, naive = _fitted(study, log)
    tried, truth, se = trials(study, seed), study.truth(log), float(log.attrs["truth"]["standard_error"])
    pairs = ((clustered, f"clustered by {study.groups}"), (naive, "rows taken to be independent"))
    rows = [(what, number(clustered.params.iloc[0]), number(truth))]
    rows += [(f"standard error, {name}", number(results.bse.iloc[0]), number(se)) for results, name in pairs]
    inside = tuple(
        (name, *map(number, _limits(results)), _said(_holds(results, truth)), f"{times} times")
        for (results, name), times in zip(pairs, (tried.clustered, tried.naive), strict=True)
    )
    headers = ("95% interval", "from", "to", "holds truth", f"on {N_MORE} more logs")
    grids = (Grid(("What is true", "estimated", "true"), tuple(rows)), Grid(headers, inside))
    return "\n\n".join([str(clustered.summary()), *(grid.text(WIDTH) for grid in grids)])


def _difference(log: pd.DataFrame) -> str:
    """The summary of a comparison, and what is true beside it."""
    with muted():
        paired = compare(log, item="question", groups="passage")
        apart = compare(log, item="question", groups="passage", paired=False)
    truth, rows = float(log.attrs["truth"]["difference"]), []
    for name, comparison in (("question by question", paired), ("as two separate means", apart)):
        (found,) = comparison.table.to_dict("records")
        holds = _said(found["lower"] <= truth <= found["upper"])
        rows.append((name, *(number(found[end]) for end in ("difference", "lower", "upper")), number(truth), holds))
    headers = ("new - old", "estimated", "from", "to", "true", "holds truth")
    summary = paired.summary()
    typed = replace(summary, sentences=tuple(spelled(text, _COMPARE) for text in summary.sentences))
    return f"{typed}\n\n{Grid(headers, tuple(rows)).text(WIDTH)}"


def _board(log: pd.DataFrame) -> str:
    """A leaderboard with its figure, and the true ranks beside those that are open."""
    with muted():
        board = win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")
        table, naive = board.leaderboard(), board.with_cov(groups=None).leaderboard()
    rows = []
    for name, row in table.iterrows():
        truth, other = log.attrs["truth"]["win_rate"][name], naive.loc[str(name)]
        held = [_said(bool(found["joint_lower"] <= truth <= found["joint_upper"])) for found in (row, other)]
        ends = f"{number(row['joint_lower'])} to {number(row['joint_upper'])}"
        rows.append((str(name), number(row["estimate"]), ranks_text(row), ends, number(truth), *held))
    headers = ("", "win rate", "ranks open", "joint 95% interval", "true", "holds it", "naive does")
    shown = "\n".join([*_drawn(table), _wrapped(_FIGURE, "")])
    return f"{Grid(headers, tuple(rows)).text(WIDTH)}\n\n{shown}"


def _drawn(table: pd.DataFrame, width: int = 56) -> list[str]:
    """Intervals of models as lines of characters, with a scale below and a mark at a half."""
    low, high = min(0.5, float(table["joint_lower"].min())), max(0.5, float(table["joint_upper"].max()))

    def place(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1))

    lines = []
    for name, row in table.iterrows():
        line = [" "] * width
        line[place(0.5)] = "|"
        for mark, kind in (("-", "joint_"), ("=", "")):
            start, end = place(row[f"{kind}lower"]), place(row[f"{kind}upper"])
            line[start : end + 1] = mark * (end + 1 - start)
        line[place(row["estimate"])] = "o"
        lines.append(f"{name!s:<10}{''.join(line)}  {ranks_text(row)}")
    scale = [" "] * (width + 2)
    for value in (low, 0.5, high):
        start = min(place(value), width - 2)
        scale[start : start + 4] = f"{value:.2f}"
    return [*lines, f"{'':<10}{''.join(scale)}".rstrip()]


def _said(holds: bool) -> str:
    return "yes" if holds else "NO"


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
