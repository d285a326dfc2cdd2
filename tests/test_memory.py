"""What does not fit into memory is refused before it is begun, with what it would take."""

from __future__ import annotations

import functools
import gc
import subprocess
import sys
import weakref

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.data import frame as memory
from evalreg.errors import TooLargeError
from evalreg.numerics.limits import COVARIANCES, DESIGNS, GRAMS

HALF = 0.5 * memory.GIB


@pytest.fixture
def small(monkeypatch):
    """A machine with half a GiB left."""
    monkeypatch.setattr(memory, "available", lambda: HALF)


@functools.cache
def _log(levels, rows):
    return pd.DataFrame(
        {
            "score": np.random.default_rng(3).uniform(size=rows),
            "cat": np.char.add("c", (np.arange(rows) % levels).astype(str)).astype(object),
            "code": np.arange(rows) % levels,
            "g": np.arange(rows) // 4,
        }
    )


@pytest.mark.parametrize("term", ["cat", "C(cat)", "C(code)", "cat * C(g)"])
def test_factors_of_very_many_levels_are_counted_first(small, term):
    log = _log(3000, 6000)
    with pytest.raises(TooLargeError, match=r"for 6,000 rows in 1,500 clusters takes about [\d,.]+ GiB") as caught:
        er.fit(f"score ~ {term}", log, groups="g")
    assert "0.5 are free" in str(caught.value)
    # A number is one column, however many values it has.
    assert len(er.fit("score ~ code", log, groups="g").params) == 2


def test_the_number_of_columns_is_the_one_that_a_fit_has(monkeypatch):
    log = _log(201, 2000)
    monkeypatch.setattr(memory, "available", lambda: 0.0)
    monkeypatch.setattr(memory, "GIB", 1.0)
    with pytest.raises(TooLargeError, match=r"'score ~ cat \+ code' has at least 200 columns"):
        er.fit("score ~ cat + code", log)
    monkeypatch.setattr("evalreg.data.designs._fewest", lambda *_: 0)
    with pytest.raises(TooLargeError, match=r"'score ~ cat \+ code' has 202 columns"):
        er.fit("score ~ cat + code", log)


def test_the_machine_says_what_it_has():
    assert 2.0**20 < memory.available() < 2.0**50


# One start for all parts: each is done by a copy of the process, which has a peak of its own.
PARTS = """
import os, resource, sys, warnings
import numpy as np, pandas as pd, evalreg as er
warnings.simplefilter('ignore')
er.mean, er.fit

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

for part in sys.argv[1:]:
    child = os.fork()
    if not child:
        exec(part)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
MEANS = """
def made(k):
    n = 10 * k
    scores, row = np.random.default_rng(0).uniform(size=n), np.arange(n)
    return er.mean(pd.DataFrame({{'score': scores, 'm': row % k, 'g': row // 50}}), by='m', groups='g').bse

made(20)
before = peak()
made({by})
print(peak() - before)
"""
REGRESSION = """
def made(k, n, size):
    log = pd.DataFrame({{'score': np.random.default_rng(0).normal(size=n), 'g': np.arange(n) // size}})
    log['m'] = np.random.default_rng(1).permutation(np.arange(n) % k)
    results = er.fit('score ~ C(m)', log, groups='g')
    return results.bse, results.dof, results.diagnostics()

made(8, 80, 10)
before = peak()
for size in {sizes}:
    made({k}, {n}, size)
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is read as Linux counts it")
@pytest.mark.parametrize("by", [pytest.param(500, marks=pytest.mark.slow), 1000])
def test_means_and_a_regression_take_no_more_than_is_counted(by):
    k, n = 160, 3200
    sizes = 20, 160  # clusters of fewer rows than columns, and of as many
    parts = [MEANS.format(by=by), REGRESSION.format(k=k, n=n, sizes=sizes)]
    done = subprocess.run([sys.executable, "-c", PARTS, *parts], capture_output=True, text=True, check=True)
    means, regression = map(float, done.stdout.split())
    assert 0 < means < COVARIANCES * 8 * by**2 + 40e6
    assert 0 < regression < 8 * k * n * (DESIGNS + GRAMS) + 40e6


def test_a_covariance_that_is_kept_alone_lets_go_of_its_estimate():
    log = _log(5, 2000)
    for formula in ("score ~ 1", "score ~ code", "score ~ cat", "score ~ g"):
        results = er.fit(formula, log, groups="g")
        estimate, cov = weakref.ref(results.estimate), results.cov
        assert cov.naive.shape == cov.matrix.shape
        del results
        gc.collect()
        assert estimate() is None, formula
