"""Results may be made in several threads at once: nothing on the way changes the warning filters of the process."""

from __future__ import annotations

import ast
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import EvalregWarning, FewClustersWarning, muted

PACKAGE = Path(er.__file__).parent
N_THREADS = 4
ROUNDS = 2
# The command line is a process of its own.
MAY_CATCH = {"cli/main.py", "cli/ranked.py"}


def _uses_filters(source):
    names = {"catch_warnings", "simplefilter", "filterwarnings", "resetwarnings", "showwarning", "filters"}
    for node in ast.walk(ast.parse(source)) if "warnings" in source else ():
        if isinstance(node, ast.Attribute) and node.attr in names and getattr(node.value, "id", "") == "warnings":
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "warnings" and {n.name for n in node.names} & names:
            return True
    return False


def test_no_module_touches_the_filters_of_the_process():
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert {name for name, source in sources.items() if _uses_filters(source)} <= MAY_CATCH


@pytest.fixture
def log(rng):
    n = 240
    passage = rng.integers(0, 6, n)
    latent = rng.normal(size=n) + rng.normal(size=6)[passage]
    return pd.DataFrame(
        {
            "passage": passage,
            "question": np.arange(n) // 3,
            "model": np.tile(["ada", "bob", "cyd"], n // 3),
            "other": np.tile(["bob", "cyd", "ada"], n // 3),
            "words": rng.normal(size=n),
            "score": (latent > 0).astype(float),
        }
    )


def _board(log):
    board = er.win_rate(log, left="model", right="other", score="score", groups="passage")
    board.ranks()
    return board


MADE = {
    "regression": lambda log: er.fit("score ~ words + C(model)", log, groups="passage"),
    "GLM": lambda log: er.fit("score ~ words", log, groups="passage", family="binomial"),
    "mean": lambda log: er.mean(log, by="model", groups="passage"),
    "constant": lambda log: er.fit("score ~ 1", log, groups="passage"),
    "board": _board,
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_threads_leave_the_filters_as_they_are_and_their_warnings_arrive(log, make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expected = make(log)
        each = len(caught)
        assert any(issubclass(warning.category, FewClustersWarning) for warning in caught)
        before = list(warnings.filters)
        start = threading.Barrier(N_THREADS)

        def work(_):
            start.wait()
            return [make(log) for _ in range(ROUNDS)]

        with ThreadPoolExecutor(N_THREADS) as pool:
            results = [one for made in pool.map(work, range(N_THREADS)) for one in made]
        assert list(warnings.filters) == before
        assert len(caught) == each * (1 + N_THREADS * ROUNDS)
    for one in results:
        pd.testing.assert_series_equal(one.bse, expected.bse)


def test_muting_is_for_one_thread_alone(log):
    inside, go = threading.Event(), threading.Event()

    def quiet():
        with muted():
            inside.set()
            go.wait(30)
            return er.mean(log, groups="passage")

    with ThreadPoolExecutor(1) as pool:
        promised = pool.submit(quiet)
        assert inside.wait(30)
        with pytest.warns(EvalregWarning):
            er.mean(log, groups="passage")
        go.set()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results = promised.result(30)
    # What was not said aloud is still said in the summary.
    assert results.notes


def test_filters_are_not_touched_by_what_a_fit_calls(log, monkeypatch):
    # pandas has its own; it holds them for the time of a look-up.
    callers, enter = set(), warnings.catch_warnings.__enter__

    def seen(self):
        caller = sys._getframe(1)
        callers.add(caller.f_globals.get("__name__", "").partition(".")[0])
        return enter(self)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalregWarning)
        monkeypatch.setattr(warnings.catch_warnings, "__enter__", seen)
        for make in MADE.values():
            results = make(log)
            results.with_cov(cov="CR3")
            results.summary()
            results.wald_test(np.eye(len(results.params))[:1])
        monkeypatch.undo()
    assert callers <= {"pandas", "numpy", "unittest"}
