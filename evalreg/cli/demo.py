"""The demonstration: three simulated evals, what evalreg says about them, and what is true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import evalreg as er
from evalreg.checks import accessing, muted
from evalreg.errors import ArgumentError
from evalreg.report.summaries import ranks_text
from evalreg.report.tables import WIDTH, in_lines, show

N_MORE = 100  # further logs on which the intervals are tried: enough to tell 95% from 70%, and done in two seconds
FILES = {
    "passages.csv": "scores of one model on questions under passages",
    "judge_log.csv": "verdicts of judges on pairs of models",
    "models.csv": "scores of two models on the same questions",
    "pilot.csv": "four answers of two models to each question",
}

NEXT = """\
On a log of your own (Inspect, lm-eval, promptfoo, CSV, ...):

  evalreg doctor LOG

or on these simulated ones:

  evalreg demo --write logs
  evalreg mean logs/passages.csv --groups passage
  evalreg compare logs/models.csv --item question --groups passage
  evalreg leaderboard logs/judge_log.csv --groups "prompt + judge"
  evalreg report logs/models.csv --item question --groups passage \\
      -o report.html"""


def logs(seed: int) -> dict[str, pd.DataFrame]:
    """The simulated logs by the names of their files; each has the truth among its attributes."""
    frames = (
        passages(seed),
        er.datasets.judge_log(n_models=5, n_prompts=50, n_judges=6, seed=seed),
        er.datasets.paired(n_passages=60, difference=0.1, correlation=0.8, seed=seed),
        er.datasets.sampled(n_questions=300, n_samples=4, n_models=2, correlation=0.5, icc=0.3, seed=seed),
    )
    return dict(zip(FILES, frames, strict=True))


def passages(seed: int | np.random.Generator) -> pd.DataFrame:
    """Scores of one model on questions under passages of unequal size."""
    return er.datasets.passages(n_passages=60, unequal=True, seed=seed)


def text(seed: int = 0) -> str:
    """The demonstration, in lines of at most 80 columns."""
    log = logs(seed)
    head = f"Three simulated evals whose true values are known (seed {seed})."
    with muted():
        parts = [_mean(log["passages.csv"], seed), _difference(log["models.csv"]), _board(log["judge_log.csv"])]
    return "\n\n".join([head, *parts, NEXT])


def _part(said: str, table: pd.DataFrame) -> str:
    """A paragraph and its table."""
    return "\n".join([*in_lines(said, WIDTH), "", show(table).grids[0].text(WIDTH)])


def _ends(log: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard error and interval: clustered by passage, and of rows taken to be independent."""
    results = er.fit("score ~ 1", log, groups="passage")
    both = {"clustered by passage": results, "taken to be independent": results.with_cov(groups=None)}
    rows = {name: [fit.params.iloc[0], fit.bse.iloc[0], *fit.conf_int().iloc[0]] for name, fit in both.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std err", "lower", "upper"])


def _mean(log: pd.DataFrame, seed: int) -> str:
    """One mean: how often 95% intervals hold the truth on more such logs, clustered and taken to be independent."""
    true, held = log.attrs["truth"]["mean"], np.zeros(2, dtype=int)
    for i in range(N_MORE):
        ends = _ends(more := passages(np.random.default_rng([seed, i])))
        held += ((ends["lower"] <= more.attrs["truth"]["mean"]) & (more.attrs["truth"]["mean"] <= ends["upper"])).array
    said = (
        f"1. An error bar. One model answers {len(log)} questions on {log['passage'].nunique()} passages; a hard "
        f"passage lowers all its scores together. On {N_MORE} more such logs the 95% interval of clustered rows holds "
        f"the truth {held[0]} times, that of rows taken to be independent {held[1]} times."
    )
    table = _ends(log).assign(**{"holds the truth": [f"{n} of {N_MORE}" for n in held]})
    return f"{_part(said, table)}\n(true mean {true:.4f})"


def _difference(log: pd.DataFrame) -> str:
    """Two models on the same questions, paired and not."""
    ways = {"question by question": True, "as two separate means": False}
    tables = [er.compare(log, item="question", groups="passage", paired=paired).table for paired in ways.values()]
    table = pd.concat(tables)[["difference", "se", "lower", "upper"]].set_axis([*ways]).rename_axis("new - old")
    said = (
        f"2. A against B. Two models answer the same {log['question'].nunique()} questions. What is hard for one is "
        "often hard for the other, so the difference is taken question by question."
    )
    return f"{_part(said, table)}\n(true difference {log.attrs['truth']['difference']:.4f})"


def _board(log: pd.DataFrame) -> str:
    """A leaderboard with the ranks that are not excluded, beside the truth."""
    board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge").leaderboard()
    said = (
        f"3. A leaderboard. {log['judge'].nunique()} judges compare {log['left'].nunique()} models on "
        f"{log['prompt'].nunique()} prompts. Rows share prompts and judges, and another log would bring others. The "
        "ranks are those that the log does not exclude."
    )
    named = {"estimate": "win rate", "joint_lower": "joint lower", "joint_upper": "joint upper"}
    table = board[["rank", *named]].rename(columns=named).assign(true=pd.Series(log.attrs["truth"]["win_rate"]))
    table.insert(1, "ranks", board.apply(ranks_text, axis=1))
    return _part(said, table)


def write(folder: Path, seed: int = 0) -> str:
    """Write the simulated logs as CSV, and return what was written and what to try on it."""
    with accessing("write", folder, "a folder"):
        folder.mkdir(parents=True, exist_ok=True)
        contents = {folder / name: log.to_csv(index=False, lineterminator="\n") for name, log in logs(seed).items()}
        for path, content in contents.items():
            if path.exists() and path.read_text() != content:
                raise ArgumentError(f'`write` replaces no file; "{path}" already exists.', parameter="write")
        for path, content in contents.items():
            path.write_text(content, newline="\n")
    lines = [f"Wrote {path}: {FILES[path.name]}." for path in contents]
    return "\n".join([*lines, "", NEXT.partition("  evalreg demo --write logs\n")[2].replace("logs/", f"{folder}/")])
