"""Results may be made in several threads at once: nothing on the way changes the warning filters of the process."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import FewClustersWarning

N_THREADS = 4
ROUNDS = 2
# The command line is a process of its own.


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
