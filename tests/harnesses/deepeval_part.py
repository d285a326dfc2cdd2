"""DeepEval with metrics that need no model, of which one fails: 24 test cases in 6 passages."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import evalreg as er
from evalreg.errors import ArgumentError

CASES = 24


def run(folder: Path) -> Path:
    """The file of a test run; nothing is sent anywhere."""
    os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_RESULTS_FOLDER": str(folder / "runs")}
    os.environ |= {"DEEPEVAL_DISABLE_DOTENV": "1", "HOME": str(folder)}
    os.chdir(folder)
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase

    class Share(BaseMetric):  # type: ignore[misc]
        """A share that depends on the number of the case."""

        def __init__(self, name: str, threshold: float, broken: int | None = None) -> None:
            self.name, self.threshold, self.broken = name, threshold, broken
            self.async_mode = self.strict_mode = self.include_reason = self.verbose_mode = False
            self.evaluation_model = "none"

        @property
        def __name__(self) -> str:
            return self.name

        def measure(self, case: Any, *_: Any, **__: Any) -> float:
            number = int(case.input.split()[-1])
            if self.broken is not None and number % self.broken == 3:
                raise ValueError("judge down")
            self.error, self.score = None, number * 5 % 7 / 6
            self.success = self.score >= self.threshold
            return self.score

        async def a_measure(self, case: Any, *_: Any, **__: Any) -> float:
            return self.measure(case)

        def is_successful(self) -> bool:
            return bool(self.success)

    cases = [
        LLMTestCase(input=f"question {i}", actual_output="yes", metadata={"passage": f"p{i // 4}"})
        for i in range(CASES)
    ]
    evaluate(
        cases,
        [Share("Early", 0.2), Share("Late", 0.4, broken=10)],
        hyperparameters={"model": "model-a"},
        async_config=AsyncConfig(run_async=False),
        display_config=DisplayConfig(show_indicator=False, print_results=False),
        error_config=ErrorConfig(ignore_errors=True),
    )
    (path,) = (folder / "runs").glob("test_run_*.json")
    return path


def check_counts(path: Path) -> None:
    """Passes, failures and errors of each metric, and the pass rate, are DeepEval's."""
    for name in ("Early", "Late"):
        log = er.read_log(path, metric=name)
        own = log.runs[0].details["reported"][name]
        passes = er.read_log(path, metric=f"{name}.success").frame["score"]
        assert (passes.sum(), (1 - passes).sum()) == (own["passes"], own["fails"])
        assert log.left_out.get("errored", 0) == own["errors"]
        assert len(log.frame) == CASES - own["errors"]
        expected = [i * 5 % 7 / 6 for i in range(CASES) if name == "Early" or i % 10 != 3]
        np.testing.assert_allclose(log.mean().params, np.mean(expected), rtol=1e-12)
    assert own["errors"] == 3
    kept = er.read_log(path, metric="success", failed="keep")
    reported = kept.runs[0].details["reported"]
    assert kept.frame["score"].sum() == reported["testPassed"] > 0
    assert len(kept.frame) == reported["testPassed"] + reported["testFailed"] == CASES
    assert kept.runs[0].model == "model-a"
    assert kept.mean(groups="passage").n_clusters == {"passage": CASES // 4}


def check_choice(path: Path) -> None:
    """One of several is not chosen, and the snapshot of the latest run reads the same."""
    try:
        er.read_log(path)
    except ArgumentError as error:
        assert "'Early.success' (24)" in str(error)
    else:
        raise AssertionError("a metric was chosen unasked")
    latest = path.parents[1] / ".deepeval" / ".latest_run_full.json"
    assert er.read_log(latest, metric="Late").frame.equals(er.read_log(path, metric="Late").frame)


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    path = run(folder)
    check_counts(path)
    check_choice(path)
    print("deepeval: every figure agrees")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
