"""Tables and mappings of results are copies: what is done to them changes no result."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import importlib
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import EvalregError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@functools.cache
def _results(seed: int = 1) -> er.Results:
    log = er.datasets.paired(n_passages=15, questions_per_passage=3, seed=seed)
    return er.mean(log, by="model", item="question", groups="passage")


@functools.cache
def _comparison() -> er.Comparison:
    return er.compare(er.datasets.paired(n_passages=15, seed=1), item="question", groups="passage")


@functools.cache
def _board() -> er.Board:
    log = er.datasets.judge_log(n_models=3, n_prompts=30, n_judges=4, seed=1)
    return er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")


@functools.cache
def _sampled() -> pd.DataFrame:
    return er.datasets.sampled(n_questions=20, n_samples=3, n_models=2, seed=1)


def _randomised() -> Any:
    log = er.datasets.passages(n_passages=12, questions_per_passage=2, seed=1)
    log["treated"] = np.where(log["passage"].factorize()[0] % 2, "yes", "no")
    return er.randomisation_test(log, treatment="treated", groups="passage", draws=99)


# Classes of results, each with one that is made small.
MADE: dict[str, Callable[[], Any]] = {
    "Results": _results,
    "Board": _board,
    "Bootstrap": lambda: _results().bootstrap(draws=99),
    "Comparison": _comparison,
    "Covariance": lambda: _results().cov,
    "EvalAverage": lambda: er.join_evals({"one": _results(), "two": _results(2)}).average(),
    "Evals": lambda: er.join_evals({"one": _results(), "two": _results(2)}),
    "FacetComponents": lambda: er.components(_sampled(), facets="model x question"),
    "Judging": lambda: _board().judges(),
    "Noise": lambda: er.noise(_sampled(), item="question", sample="sample"),
    "RandomisationTest": _randomised,
    "ResultsTable": lambda: er.table({"one": _results()}),
    "StoredComparisons": lambda: er.read_results(er.join_evals({"one": _comparison()}).to_json()),
    "StoredResults": lambda: er.read_results(_results().to_json()),
    "WildTest": lambda: _results().wild_test("new - old = 0", draws=99),
    "Winner": lambda: _results().winner(),
}
# They hold rows, or what a log was summed to, which is data; or have no table and no mapping.
OTHERS = {"Estimate", "Posterior", "SummedLog"}


def test_every_class_of_results_is_tried():
    reference = (Path(__file__).resolve().parents[1] / "docs" / "reference.md").read_text(encoding="utf-8")
    homes = re.findall(r"^   (\w+\.\w+)\.([A-Z]\w+)$", reference, re.MULTILINE)
    public = [getattr(er, name) for name in er.__all__]
    public += [getattr(importlib.import_module(f"evalreg.{home}"), name) for home, name in homes]
    classes = {one.__name__ for one in public if inspect.isclass(one) and dataclasses.is_dataclass(one)}
    assert classes == {*MADE, *OTHERS}


def handed_out(result: Any) -> Iterator[tuple[str, Any]]:
    """Tables, mappings and lists that a result has as attributes, by name."""
    for name in {*dir(type(result)), *(field.name for field in dataclasses.fields(result))}:
        # What statements make and share is no part of a result.
        if name.startswith("_") or name in ("shared", "cache") or callable(getattr(type(result), name, None)):
            continue
        with contextlib.suppress(AttributeError, EvalregError):  # what such a result has not
            value = getattr(result, name)
            if isinstance(value, pd.DataFrame | pd.Series | dict | list):
                yield name, value


def spoil(value: Any) -> None:
    """Change a table or a mapping in place, and all mappings and lists inside it."""
    if isinstance(value, pd.DataFrame):
        with contextlib.suppress(ValueError):  # where it cannot be written to, there is no harm
            value.iloc[0, 0] = value.iloc[-1, 0]
        value.pop(value.columns[0])
    elif isinstance(value, pd.Series):
        with contextlib.suppress(ValueError):
            value.iloc[0] = value.iloc[-1]
        value.index.name = "spoilt"
        value.pop(value.index[0])
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, dict | list):
                spoil(inner)
        value.clear()


def same(one: Any, other: Any) -> bool:
    frames = isinstance(one, pd.DataFrame | pd.Series)
    return one.equals(other) and one.index.names == other.index.names if frames else repr(one) == repr(other)


@pytest.mark.parametrize("name", MADE)
def test_what_is_done_to_a_table_of_a_result_does_not_reach_it(name):
    result = MADE[name]()
    for own in (result, pickle.loads(pickle.dumps(result)), copy.copy(result)):
        before = {name: copy.deepcopy(value) for name, value in handed_out(own)}
        for _, value in handed_out(own):
            spoil(value)
        left = dict(handed_out(own))
        assert not [name for name, value in before.items() if not same(left[name], value)]
