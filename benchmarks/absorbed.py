"""Regressions with absorbed factors: evalreg's CR1 and pyfixest's on the same frame; dummies of 400 questions.

python benchmarks/absorbed.py
python benchmarks/absorbed.py --quick
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import evalreg as er
from benchmarks._measure import Contender, interleaved, peak_of, table

# Covariates before the bar; factors behind it; clusters.
CASES = (("question", "question"), ("question", "passage + judge"), ("question + judge", "passage + judge"))


def frame(n_rows: int) -> pd.DataFrame:
    """Ten rows a question on average, 500 rows a judge, ten questions a passage, two covariates."""
    rng = np.random.default_rng(1)
    n_questions = n_rows // 10
    question = rng.integers(0, n_questions, n_rows)
    effect = rng.normal(size=n_questions)[question]
    log = pd.DataFrame({"question": question, "judge": rng.integers(0, n_rows // 500, n_rows)})
    log["passage"] = question // 10
    log["x"], log["z"] = rng.normal(size=n_rows) + effect, rng.normal(size=n_rows)
    log["score"] = 0.1 * log.x + effect + rng.normal(size=n_rows)
    return log


def compared(log: pd.DataFrame, factors: str, groups: str) -> dict[str, Contender]:
    """CR1 with fixest's factor by both, whose standard errors must agree before anything is timed."""
    import pyfixest

    formula = f"score ~ x + z | {factors}"

    def ours(_: Any = None) -> er.Results:
        return er.fit(formula, log, groups=groups, cov="CR1", ssc="fixest", repair="none")

    def theirs(_: Any = None) -> Any:
        return pyfixest.feols(formula, log, vcov={"CRV1": groups}, fixef_rm="singleton")

    # pyfixest takes factors out to 1e-6 of their size unless told otherwise.
    np.testing.assert_allclose(ours().bse[["x", "z"]], theirs().se()[["x", "z"]], rtol=1e-6)
    return {"pyfixest": Contender(theirs), "evalreg": Contender(ours)}


def dummies(groups: str) -> dict[str, Contender]:
    """400 questions by ten models, as dummies under CR1 and CR2, and absorbed; with all intervals."""
    rng = np.random.default_rng(2)
    log = pd.DataFrame({"question": np.repeat(np.arange(400), 10), "model": np.tile(list("abcdefghij"), 400)})
    log["subject"], log["judge"] = log.question // 40, rng.integers(0, 10, len(log))
    log["score"] = rng.normal(size=400)[log.question] + rng.normal(size=len(log))

    def fit(formula: str, cov: str) -> Contender:
        return Contender(lambda _: er.fit(formula, log, groups=groups, cov=cov).conf_int())

    return {
        "dummies, CR1": fit("score ~ model + C(question)", "CR1"),
        "dummies, CR2": fit("score ~ model + C(question)", "CR2"),
        "absorbed, CR2": fit("score ~ model | question", "CR2"),
    }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    log = frame(100_000 if options.quick else 1_000_000)
    for factors, groups in CASES:
        contenders = compared(log, factors, groups)
        print(f"{len(log):,} rows, {log.question.nunique():,} questions: | {factors}, groups = {groups}")
        memory = {name: peak_of(one) for name, one in contenders.items()}
        print(table(interleaved(contenders, options.repeat), "pyfixest", memory))
    for groups in ("question", "subject", "question + judge"):
        print(f"4,000 rows, 400 questions: groups = {groups}")
        print(table(interleaved(dummies(groups), options.repeat), "dummies, CR1", {}))


if __name__ == "__main__":
    main()
