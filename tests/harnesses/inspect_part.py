"""Inspect with its mock model: 24 questions in 6 passages, 3 epochs, five scorers, errors, and an aborted run."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import edit_score, read_eval_log, read_eval_log_sample_summaries, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, ScoreEdit, accuracy, mean, scorer, stderr
from inspect_ai.scorer import value_to_float as inspect_value_to_float
from inspect_ai.solver import solver

import evalreg as er
from evalreg.errors import ArgumentError
from evalreg.inspect import ci as grouped_ci
from evalreg.inspect import stderr as grouped_stderr
from evalreg.logs.inspect_log import as_number

CLOSE = {"rtol": 1e-12}
OWN = [grouped_stderr("passage", cov="CR1"), grouped_stderr(["passage", "language"]), grouped_ci("passage")]


def answer(input: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
    """Right two times in three; the usage is given, or the mock would count tokens with a downloaded vocabulary."""
    output = ModelOutput.from_content("mockllm/model", "yes" if int(input[-1].text.split()[-1]) % 3 else "no")
    output.usage = ModelUsage(input_tokens=3, output_tokens=1, total_tokens=4)
    return output


@solver
def fails_at(identity: int):
    async def solve(state, generate):
        if state.sample_id == identity:
            raise RuntimeError("no tool")
        return await generate(state)

    return solve


@scorer(metrics=[accuracy(), stderr(cluster="passage"), stderr(), *OWN])
def letter():
    async def score(state, target):
        right = state.output.completion == target.text
        return Score(value="C" if right else "PN"[(state.sample_id + state.epoch) % 2])

    return score


@scorer(metrics=[mean(), stderr(cluster="passage"), grouped_stderr("passage", cov="CR1"), grouped_stderr("none")])
def number():
    async def score(state, target):
        return Score.unscored(reason="grader_failed") if state.sample_id == 7 else Score(value=state.sample_id / 24)

    return score


@scorer(metrics=[accuracy()])
def truth():
    async def score(state, target):
        return None if state.sample_id == 8 else Score(value=state.output.completion == target.text)

    return score


@scorer(metrics={"a": [mean(), stderr(), grouped_stderr()], "b": [mean()]})
def parts():
    async def score(state, target):
        return Score(value={"a": state.sample_id % 2, "b": math.nan if state.sample_id == 3 else 0.5})

    return score


@scorer(metrics=[accuracy()])
def late():
    async def score(state, target):
        if state.sample_id in (10, 11):
            raise ValueError("grader down")
        return Score(value="I")

    return score


def questions() -> MemoryDataset:
    """Questions with their passages and languages."""
    return MemoryDataset(
        [
            Sample(
                id=i,
                input=f"question {i}",
                target="yes",
                metadata={
                    "passage": f"p{(i - 1) // 4}",
                    "language": ["en", "de", "fr"][i % 3],
                    "about": {"level": i % 2},
                },
            )
            for i in range(1, 25)
        ],
        name="passages",
    )


def run(folder: Path, **task: Any) -> str:
    """Where the log of a run is."""
    model = get_model("mockllm/model", custom_outputs=answer)
    made = Task(dataset=questions(), solver=[fails_at(5)], epochs=3, **task)
    (log,) = run_eval(made, model=model, log_dir=str(folder), display="none", log_level="error")
    return str(log.location).removeprefix("file://")


def check_figures(path: str) -> None:
    """Means and clustered errors are those in the header, under the rule that keeps scores given before an error."""
    header = read_eval_log(path, header_only=True)
    assert header.status == "success", header.error
    assert header.results is not None
    for entry in header.results.scores:
        metric = entry.name if entry.scorer == "parts" else None
        log = er.read_log(path, scorer=entry.scorer, metric=metric, failed="keep")
        figures = {name: figure.value for name, figure in entry.metrics.items()}
        assert log.runs[0].details["reported"].keys() == figures.keys()
        results = log.mean(groups="metadata.passage", cov="CR1")
        np.testing.assert_allclose(results.params, figures.get("accuracy", figures.get("mean")), **CLOSE)
        if entry.scorer in ("letter", "number"):
            np.testing.assert_allclose(results.bse, figures["stderr"], **CLOSE)
            np.testing.assert_allclose(results.bse, figures["stderr_passage"], **CLOSE)
        if entry.scorer == "letter":
            frame = log.frame
            crossed = er.mean(frame, item="item", sample="sample", groups="`metadata.passage` + `metadata.language`")
            np.testing.assert_allclose(crossed.bse, figures["stderr_passage_language"], **CLOSE)
            np.testing.assert_allclose(log.mean(cov="CR1").bse, figures["stderr2"], **CLOSE)
            limits = log.mean(groups="metadata.passage").conf_int().iloc[0]
            np.testing.assert_allclose(limits, [figures["ci_passage_lower"], figures["ci_passage_upper"]], **CLOSE)
        if entry.name == "a":
            np.testing.assert_allclose(figures["stderr"], log.mean(cov="CR1").bse, **CLOSE)
    assert math.isnan(header.results.scores[1].metrics["stderr_none"].value)


def check_counts(path: str) -> None:
    """Every sample is a score or counted by its reason; the choice among scorers is asked for."""
    expected = {"letter": (63, 9, 0), "number": (60, 9, 3), "truth": (60, 9, 3), "late": (63, 9, 0)}
    for name, (scores, errored, unscored) in expected.items():
        log = er.read_log(path, scorer=name)
        found = (len(log.frame), log.left_out.get("errored", 0), log.left_out.get("unscored", 0))
        assert found == (scores, errored, unscored), (name, found)
    assert len(er.read_log(path, scorer="letter", failed="keep").frame) == 69
    assert len(er.read_log(path, scorer="letter", failed="zero").frame) == 72
    for asked in ({}, {"scorer": "parts"}):
        try:
            er.read_log(path, **asked)
        except ArgumentError as error:
            assert "there are" in str(error)
        else:
            raise AssertionError("one of several was chosen unasked")


def check_against_inspect(path: str) -> None:
    """Every value is the one that Inspect's own reader and `value_to_float` give."""
    convert = inspect_value_to_float()
    own = {
        (str(sample.id), sample.epoch): convert(sample.scores["letter"].value)
        for sample in read_eval_log_sample_summaries(path)
        if sample.scores
    }
    frame = er.read_log(path, scorer="letter", failed="keep").frame
    assert own == dict(zip(zip(frame["item"], frame["sample"], strict=True), frame["score"], strict=True))
    assert set(frame["metadata.about.level"]) == {0, 1}
    for value in ("C", "I", "P", "N", True, False, 3, 0.25, "yes", "No", "true", "FALSE", "0.5", "-1", "1e3", " 7 "):
        assert as_number(value) == convert(value), value


def check_other_files(folder: Path, path: str) -> None:
    """The same log as JSON, with a score edited by hand, and compressed as older versions did."""
    log = read_eval_log(path)
    edit_score(log, 1, "letter", ScoreEdit(value="I"), epoch=1, recompute_metrics=False)
    for suffix in (".json", ".eval"):
        other = folder / f"edited{suffix}"
        write_eval_log(log, str(other))
        read = er.read_log(other, scorer="letter")
        first = read.frame[(read.frame["item"] == "1") & (read.frame["sample"] == 1)]
        assert (read.runs[0].details["edited"], float(first["score"].iloc[0])) == (1, 0.0)


def check_aborted(path: str) -> None:
    """A run that ended with an error keeps what it had, and says what is missing."""
    log = er.read_log(path)
    assert log.runs[0].details["status"] == "error"
    assert len(log.frame) + log.left_out.sum() == 72, log.left_out
    assert log.left_out["errored"] >= 1
    assert log.left_out["cancelled"] > 0
    assert "status 'error'" in log.notes[0]


def main(folder: Path) -> None:
    """Make the logs and check them."""
    warnings.simplefilter("ignore")
    five = [letter(), number(), truth(), parts(), late()]
    path = run(folder / "whole", name="passages", scorer=five, fail_on_error=False, version=2)
    check_figures(path)
    check_counts(path)
    check_against_inspect(path)
    check_other_files(folder, path)
    check_aborted(run(folder / "aborted", name="aborted", scorer=[letter()], fail_on_error=True))
    failing = run(folder / "failing", name="one", scorer=[letter()], fail_on_error=False)
    np.testing.assert_allclose(
        er.read_log(failing).mean().params, read_eval_log(failing).results.scores[0].metrics["accuracy"].value, **CLOSE
    )
    print("inspect: every figure agrees")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
