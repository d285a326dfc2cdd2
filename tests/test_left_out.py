"""What reads real logs is left out where there are none, is counted, and nothing is skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SMALL = """
import pytest

@pytest.fixture
def log(shared):
    return shared / "log.csv"

def test_needs_none():
    pass

@pytest.mark.parametrize("side", [0, 1])
def test_reads_one(log, side):
    assert log.read_text()

def test_reads_one_too(shared):
    assert (shared / "log.csv").exists()
"""


@pytest.fixture
def run(tmp_path):
    """Run pytest on a small folder under this project's conftest; its status and what it prints."""
    tests = tmp_path / "checkout" / "tests"
    tests.mkdir(parents=True)
    shutil.copy(HERE / "conftest.py", tests)
    (tests / "test_small.py").write_text(SMALL)

    def call(*arguments: str, **environment: str) -> tuple[int, str]:
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("EVALREG_", "PYTEST_"))}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", *arguments, "tests"],
            cwd=tests.parent,
            env=clean | {"PYTHONPATH": str(HERE)} | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return call


def test_tests_of_real_logs_are_left_out_and_counted_where_there_are_none(run):
    status, out = run()
    assert status == 0
    assert "1 passed" in out
    assert "skipped" not in out
    assert "EVALREG_SHARED names their folder" in out
    assert "3 tests that read real logs left out" in out


def test_tests_of_real_logs_run_where_they_are_and_fail_where_they_are_required(run, tmp_path):
    status, out = run(EVALREG_REQUIRE_SHARED="1")
    assert (status, "3 errors" in out, "left out" in out) == (1, True, False)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "log.csv").write_text("score\n1\n")
    status, out = run()
    assert (status, "4 passed" in out, "left out" in out) == (0, True, False)
