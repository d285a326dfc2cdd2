"""Time of `noise` for 60 models, 1,000 questions and 10 answers to each: all 1,770 pairs, under 2 seconds.

python benchmarks/noise.py              everything
python benchmarks/noise.py --repeat 11  more repetitions
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse

import numpy as np
import pandas as pd
from _measure import Contender, Target, interleaved, table, verdict

import evalreg as er


def answers(n_models: int = 60, n_questions: int = 1000, k: int = 10) -> pd.DataFrame:
    """0/1 answers with ids as text."""
    rng = np.random.default_rng(0)
    logit = 0.5 * rng.normal(size=(n_models, 1)) + 1.5 * rng.normal(size=(1, n_questions))
    score = rng.random((n_models, n_questions, k)) < 1 / (1 + np.exp(-logit))[:, :, None]
    m, q, s = (index.ravel() for index in np.indices(score.shape))
    names = np.array([f"model-{i:02d}" for i in range(n_models)])
    items = np.array([f"q{i}" for i in range(n_questions)])
    passages = np.array([f"p{i // 5}" for i in range(n_questions)])
    columns = {"model": names[m], "item": items[q], "passage": passages[q], "sample": s, "score": score.ravel()}
    return pd.DataFrame(columns)


def tables(found: er.Noise) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables, which are computed when they are asked for."""
    return found.models, found.pairs


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, help="repetitions")
    options = parser.parse_args()
    log = answers()
    counts = log.groupby(["model", "item"], as_index=False)["score"].agg(["sum", "count"])
    contenders = {
        "answers": Contender(lambda _: tables(er.noise(log, sample="sample"))),
        "clustered": Contender(lambda _: tables(er.noise(log, sample="sample", groups="passage"))),
        "counts": Contender(lambda _: tables(er.noise(counts, passes="sum", n_samples="count"))),
    }
    seconds = interleaved(contenders, options.repeat)
    print(table(seconds, "answers", {}))
    print(verdict(seconds, Target("answers", 2.0)))


if __name__ == "__main__":
    main()
