"""The fixed cost of a call: logs of 200 rows, with pandas alone and statsmodels side by side.

python benchmarks/small.py
python benchmarks/small.py --quick
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import evalreg as er
from benchmarks._measure import Contender, interleaved, table

FORMULA = "score ~ x + C(model)"
Calls = dict[str, Callable[[], Any]]


def log() -> pd.DataFrame:
    """Four models on 50 questions of 13 passages, right or wrong, and a covariate; labels as text."""
    rng = np.random.default_rng(0)
    question = np.repeat(np.arange(50), 4)
    passage = question // 4
    return pd.DataFrame(
        {
            "model": np.tile([f"model {i}" for i in range(4)], 50),
            "item": [f"question {i}" for i in question],
            "passage": [f"passage {i}" for i in passage],
            "score": (rng.random(200) < 0.5 + 0.1 * np.sin(passage)).astype(float),
            "x": rng.normal(size=200),
        }
    )


def battles() -> pd.DataFrame:
    """The six pairs of four models on 40 prompts, with ties."""
    rng = np.random.default_rng(1)
    left, right = np.triu_indices(4, 1)
    return pd.DataFrame(
        {
            "left": [f"model {i}" for i in np.tile(left, 40)],
            "right": [f"model {i}" for i in np.tile(right, 40)],
            "score": rng.integers(0, 3, 240) / 2,
            "prompt": [f"prompt {i}" for i in np.repeat(np.arange(40), 6)],
        }
    )


def fits(frame: pd.DataFrame) -> Calls:
    """A mean, and a regression, with CR1 by passage."""
    import statsmodels.formula.api as smf

    def statsmodels(formula: str) -> Any:
        return smf.ols(formula, frame).fit(cov_type="cluster", cov_kwds={"groups": frame["passage"]})

    def pandas() -> float:
        e = frame["score"] - frame["score"].mean()
        G = frame["passage"].nunique()
        return float(np.sqrt((e.groupby(frame["passage"]).sum() ** 2).sum() * G / (G - 1))) / len(frame)

    mean = er.mean(frame, groups="passage", cov="CR1")
    np.testing.assert_allclose(mean.bse.iloc[0], pandas(), rtol=1e-12)
    np.testing.assert_allclose(
        er.fit(FORMULA, frame, groups="passage", cov="CR1").bse, statsmodels(FORMULA).bse, rtol=1e-10
    )
    return {
        "pandas, mean": pandas,
        "statsmodels, mean": lambda: statsmodels("score ~ 1").bse,
        "mean": lambda: er.mean(frame, groups="passage").bse,
        "fit, mean": lambda: er.fit("score ~ 1", frame, groups="passage").bse,
        "statsmodels, regression": lambda: statsmodels(FORMULA).bse,
        "fit, regression": lambda: er.fit(FORMULA, frame, groups="passage").bse,
    }


def models(frame: pd.DataFrame) -> Calls:
    """Means and differences of models on the same questions, and boards of their battles."""
    sides = {"left": "left", "right": "right", "score": "score", "groups": "prompt"}
    asked = battles()

    def pandas() -> pd.DataFrame:
        wide = frame.pivot(index="item", columns="model", values="score")
        left, right = np.triu_indices(4, 1)
        gaps = wide.iloc[:, left].to_numpy() - wide.iloc[:, right].to_numpy()
        return pd.DataFrame({"difference": gaps.mean(axis=0), "se": gaps.std(axis=0, ddof=1) / np.sqrt(len(wide))})

    found = np.sort(np.abs(er.compare(frame, cov="CR1").to_frame()["difference"]))
    np.testing.assert_allclose(found, np.sort(np.abs(pandas()["difference"])), rtol=0, atol=1e-12)
    return {
        "pandas, differences": pandas,
        "compare": lambda: er.compare(frame),
        "compare, passages": lambda: er.compare(frame, groups="passage"),
        "mean by model": lambda: er.mean(frame, by="model", item="item", groups="passage").bse,
        "win_rate": lambda: er.win_rate(asked, **sides).bse,
        "bradley_terry": lambda: er.bradley_terry(asked, **sides).bse,
    }


def methods(frame: pd.DataFrame) -> Calls:
    """What is asked of means by model, a new result for each."""

    def means() -> er.Results:
        return er.mean(frame, by="model", item="item", groups="passage")

    return {
        "mean by model": means,
        "and summary": lambda: str(means().summary()),
        "and pairwise": lambda: means().pairwise(),
        "and ranks": lambda: means().ranks(),
        "and leaderboard": lambda: means().leaderboard(),
        "and to_json": lambda: means().to_json(),
    }


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: does it run?")
    rounds = 5 if parser.parse_args().quick else 41
    warnings.simplefilter("ignore")
    frame = log()
    for name, make in {"fits": fits, "models": models, "methods": methods}.items():
        calls = make(frame)
        contenders = {call: Contender(lambda _, run=run: run()) for call, run in calls.items()}
        print(name, table(interleaved(contenders, rounds), next(iter(calls)), {}), sep="\n", flush=True)


if __name__ == "__main__":
    main()
