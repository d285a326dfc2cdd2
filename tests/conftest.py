"""Fixtures that every test may ask for, and how hypothesis draws."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from golden import Golden, load
from hypothesis import settings
from pairwise import between_first_and_last, mark_the_rest

ROOT = Path(__file__).resolve().parents[1]
# Scripts that run elsewhere, and those that made the reference values: no tests, and no examples.
collect_ignore_glob = ["engines/*_part.py", "harnesses/*", "reference/*"]
# The same examples in every run, and no time limit: a slow machine is not a failure.
settings.register_profile("evalreg", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("evalreg")


def _release_duckdb() -> None:
    """Empty DuckDB's modules when the interpreter ends.

    No relation, connection or thread is left by then. Yet after some runs of several files its modules outlive Python,
    for a reason not found, and nanobind lists their types as leaked. Neither has a switch for that in Python.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] in ("duckdb", "_duckdb")]:
        vars(sys.modules.pop(name)).clear()
    gc.collect()


# Registered before DuckDB is imported, so that it runs after what DuckDB itself does at the end.
atexit.register(_release_duckdb)


@pytest.fixture
def collected() -> Iterator[list[int]]:
    """Lines of everything that leaves an engine."""
    from engines import cases

    with cases.collected() as lines:
        yield lines


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: its status, what it prints, and what it says on standard error."""
    from evalreg.cli.main import main

    def run(*words: object) -> tuple[int, str, str]:
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def uncollected(monkeypatch: pytest.MonkeyPatch) -> None:
    """No collection on demand: statsmodels' `multipletests` asks for one at every call, 50 ms among many modules."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that starts from the same seed in every test."""
    return np.random.default_rng(20240607)


# Real logs are not part of the project. Tests that ask for `shared` read them, and without them are no tests: they are
# left out of the run and counted, so that nothing is skipped.
LEFT_OUT = pytest.StashKey[int]()


def _real_logs() -> Path:
    """The folder of real logs: EVALREG_SHARED, or `shared` beside the checkout."""
    return Path(os.environ.get("EVALREG_SHARED") or ROOT.parent / "shared")


def _without_real_logs() -> bool:
    """Whether there are none, and EVALREG_REQUIRE_SHARED=1 does not make that a failure."""
    return not _real_logs().is_dir() and os.environ.get("EVALREG_REQUIRE_SHARED") != "1"


def pytest_report_header() -> list[str]:
    """Say before the tests that some are left out."""
    if not _without_real_logs():
        return []
    return [f"real logs: none at {_real_logs()}; what reads them is left out (EVALREG_SHARED names their folder)"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer a shorter run for other releases of what the package stands on."""
    words = "of each test outside the contract, only the first case and the last: each line of code, not each value"
    parser.addoption("--first-and-last", action="store_true", help=words)


# Before pytest itself leaves out by marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is beyond a covering set of its product; leave out what was not asked for or has no real logs here."""
    mark_the_rest(items)
    if config.getoption("first_and_last", False):
        between = {*between_first_and_last(items)}
        config.hook.pytest_deselected(items=list(between))
        items[:] = [item for item in items if item not in between]
    if not _without_real_logs():
        return
    reads = [item for item in items if "shared" in getattr(item, "fixturenames", ())]
    config.stash[LEFT_OUT] = len(reads)
    config.hook.pytest_deselected(items=reads)
    items[:] = [item for item in items if item not in reads]


@pytest.fixture(scope="session", autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what streams held in the folder of the run: workers end without the exit handlers that remove it."""
    tempfile.tempdir = str(tmp_path_factory.mktemp("spooled"))


def pytest_sessionstart() -> None:
    """Collect no garbage while the tests are gathered: little of it is any."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare the garbage collector ten thousand tests and their modules, which live to the end of the run anyway."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say after the tests how many were left out."""
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            f"{count} tests that read real logs left out: EVALREG_SHARED names no folder of them"
        )


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real logs; without it a test that asks is left out, or fails if EVALREG_REQUIRE_SHARED=1."""
    if not _real_logs().is_dir():
        pytest.fail(
            f"the folder of real logs is not here: {_real_logs()} (set EVALREG_SHARED to its path)", pytrace=False
        )
    return _real_logs().resolve()


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Golden]:
    """Reference values by name: `golden("d1_clustered").check("score.se_cr0", se)`; see tests/reference/README.md."""
    return lambda name: load(ROOT / "tests" / "reference", name)
