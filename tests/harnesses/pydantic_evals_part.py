"""pydantic-evals with a task and evaluators that fail: 24 cases in 6 passages, run once and run three times."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected, Evaluator, EvaluatorContext
from pydantic_evals.reporting import EvaluationReport, EvaluationReportAdapter

import evalreg as er
from evalreg.errors import ArgumentError

CASES, CLOSE = 24, {"rtol": 1e-12}


@dataclass
class Graded(Evaluator):
    """A score, an assertion and a label; no grade for case 4."""

    def evaluate(self, ctx: EvaluatorContext) -> Any:
        if ctx.inputs == 4:
            raise ValueError("grader down")
        tone = "kind" if ctx.inputs % 2 else "cold"
        return {"closeness": 1 / (1 + abs(ctx.output - ctx.expected_output)), "even": ctx.output % 2 == 0, "tone": tone}


class Unsteady:
    """Every seventh call fails, every third is wrong."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, number: int) -> int:
        self.calls += 1
        if self.calls % 7 == 3:
            raise RuntimeError("no answer")
        return number * 2 + (self.calls % 3 == 0)


def report(folder: Path, repeat: int) -> tuple[Path, EvaluationReport]:
    """A file with a report, and the report."""
    cases = [
        Case(name=f"q{i}", inputs=i, expected_output=2 * i, metadata={"passage": f"p{i // 4}"}) for i in range(CASES)
    ]
    data: Dataset = Dataset(name="doubling", cases=cases, evaluators=[Graded(), EqualsExpected()])
    made = data.evaluate_sync(Unsteady(), name="unsteady", repeat=repeat, progress=False, max_concurrency=1)
    path = folder / f"report_{repeat}.json"
    path.write_bytes(EvaluationReportAdapter.dump_json(made, indent=2 if repeat == 1 else None))
    return path, made


def check_averages(folder: Path, repeat: int) -> None:
    """Means are the report's own averages; every run of a case is a score or counted."""
    path, made = report(folder, repeat)
    averages = made.averages()
    assert averages is not None
    log = er.read_log(path, metric="closeness")
    np.testing.assert_allclose(log.mean().params, averages.scores["closeness"], **CLOSE)
    assert log.format == "pydantic_evals"
    assert len(log.frame) + log.left_out.sum() == CASES * repeat
    graded = sum("closeness" in case.scores for case in made.cases)
    assert len(log.frame) == graded
    assert log.left_out.to_dict() == {"errored": CASES * repeat - graded}
    for name in ("even", "EqualsExpected"):
        own = [case.assertions[name].value for case in made.cases if name in case.assertions]
        found = er.read_log(path, metric=name).frame["score"]
        assert (found.sum(), len(found)) == (sum(own), len(own))
    assert log.mean(groups="passage").n_clusters == {"passage": CASES // 4}
    if repeat > 1:
        assert log.frame["sample"].max() == repeat


def check_choice(folder: Path) -> None:
    """One of several is not chosen, and labels are refused."""
    path = folder / "report_1.json"
    for metric, words in ((None, "'closeness'"), ("tone", "must name a number")):
        try:
            er.read_log(path, metric=metric)
        except ArgumentError as error:
            assert words in str(error)
        else:
            raise AssertionError("a score was chosen unasked")


def main(folder: Path) -> None:
    warnings.simplefilter("ignore", er.errors.EvalregWarning)
    for repeat in (1, 3):
        check_averages(folder, repeat)
    check_choice(folder)
    print("pydantic-evals: every figure agrees")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
