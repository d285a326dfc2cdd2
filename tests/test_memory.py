"""What does not fit into memory is refused before it is begun, with what it would take."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import main
from evalreg.covariance.memory import COVARIANCES
from evalreg.data import memory
from evalreg.errors import TooLargeError

HALF = 0.5 * memory.GIB


@pytest.fixture
def small(monkeypatch):
    """A machine with half a GiB left."""
    monkeypatch.setattr(memory, "available", lambda: HALF)


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
    monkeypatch.setattr("evalreg.data.formula._fewest", lambda *_: 0)
    with pytest.raises(TooLargeError, match=r"'score ~ cat \+ code' has 202 columns"):
        er.fit("score ~ cat + code", log)


@pytest.mark.parametrize("groups", [None, "g"])
def test_very_many_means_are_counted_first(small, groups):
    with pytest.raises(TooLargeError, match=r"60,000 parameters takes about 376 GiB.*values of `by`"):
        er.mean(_log(60_000, 120_000), by="cat", groups=groups)


def test_another_covariance_is_counted_first(monkeypatch):
    log = _log(40, 400)
    results = er.fit("score ~ cat", log)
    monkeypatch.setattr(memory, "available", lambda: 0.0)
    monkeypatch.setattr(memory, "GIB", 1.0)
    with pytest.raises(TooLargeError, match="covariance of"):
        results.with_cov(groups="g")


def test_what_fits_is_done():
    log = _log(210, 840)
    assert len(er.fit("score ~ cat", log).params) == 210


def test_the_command_line_says_so(small, tmp_path, capsys):
    table = tmp_path / "log.csv"
    _log(3000, 6000).to_csv(table, index=False)
    assert main(["fit", "score ~ cat", str(table), "--groups", "g"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "2,999 columns" in said.err
    assert "bug" not in said.err


def test_running_out_of_memory_all_the_same_is_no_bug(monkeypatch, tmp_path, capsys):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 20 GiB")

    table = tmp_path / "log.csv"
    _log(3, 60).to_csv(table, index=False)
    monkeypatch.setattr("evalreg.cli.fit.fit", full)
    assert main(["fit", "score ~ cat", str(table)]) == 3
    assert "not enough memory" in capsys.readouterr().err


def test_the_machine_says_what_it_has():
    assert 2.0**20 < memory.available() < 2.0**50


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is read as Linux counts it")
@pytest.mark.parametrize("by", [pytest.param(500, marks=pytest.mark.slow), 1000])
def test_the_peak_is_no_larger_than_what_is_counted(by):
    code = (
        "import resource, sys, warnings\nimport numpy as np, pandas as pd, evalreg as er\n"
        "warnings.simplefilter('ignore')\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "def made(k):\n"
        "    n = 10 * k\n"
        "    scores, row = np.random.default_rng(0).uniform(size=n), np.arange(n)\n"
        "    log = pd.DataFrame({'score': scores, 'm': row % k, 'g': row // 50})\n"
        "    return er.mean(log, by='m', groups='g').bse\n"
        "made(20); before = peak(); made(int(sys.argv[1])); print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(by)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < COVARIANCES * 8 * by**2 + 40e6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is read as Linux counts it")
def test_a_regression_takes_no_more_than_is_counted():
    k, n = 160, 3200
    sizes = 20, 160  # clusters of fewer rows than columns, and of as many
    code = (
        "import resource, sys, warnings\nimport numpy as np, pandas as pd, evalreg as er\n"
        "warnings.simplefilter('ignore')\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "def made(k, n, size):\n"
        "    log = pd.DataFrame({'score': np.random.default_rng(0).normal(size=n), 'g': np.arange(n) // size})\n"
        "    log['m'] = np.random.default_rng(1).permutation(np.arange(n) % k)\n"
        "    results = er.fit('score ~ C(m)', log, groups='g')\n"
        "    return results.bse, results.dof, results.diagnostics()\n"
        "k, n, *sizes = map(int, sys.argv[1:])\n"
        "made(8, 80, 10); before = peak()\n"
        "for size in sizes: made(k, n, size)\n"
        "print(peak() - before)"
    )
    arguments = [sys.executable, "-c", code, *map(str, (k, n, *sizes))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 8 * k * n * (memory.DESIGNS + memory.GRAMS) + 40e6
