"""What reads real logs is left out where there are none, is counted, and nothing is skipped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pytest_runs import Asked, pytest_runs

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


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Status and what is printed where real logs are not there, not there and required, and there."""
    settings = {"none": {}, "required": {"EVALREG_REQUIRE_SHARED": "1"}, "there": {}}
    asked = []
    for name, environment in settings.items():
        tests = tmp_path_factory.mktemp(name) / "checkout" / "tests"
        tests.mkdir(parents=True)
        shutil.copy(HERE / "conftest.py", tests)
        (tests / "test_small.py").write_text(SMALL)
        asked.append(Asked(["-ra"], tests.parent, environment))
    log = asked[-1].folder.parent / "shared" / "log.csv"
    log.parent.mkdir()
    log.write_text("score\n1\n")
    return dict(zip(settings, pytest_runs(asked), strict=True))


def test_tests_of_real_logs_are_left_out_and_counted_where_there_are_none(runs):
    status, out = runs["none"]
    assert status == 0
    assert "1 passed" in out
    assert "skipped" not in out
    assert "EVALREG_SHARED names their folder" in out
    assert "3 tests that read real logs left out" in out


def test_tests_of_real_logs_run_where_they_are_and_fail_where_they_are_required(runs):
    status, out = runs["required"]
    assert (status, "3 errors" in out, "left out" in out) == (1, True, False)
    status, out = runs["there"]
    assert (status, "4 passed" in out, "left out" in out) == (0, True, False)
