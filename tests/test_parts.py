"""Every file of tests is in one part, and a part runs its own files only."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from parts import files_of
from pytest_runs import Asked, pytest_runs

HERE = Path(__file__).parent


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_every_file_is_in_one_part_and_parts_are_about_as_large(n):
    parts = [files_of(f"{k}/{n}", HERE) for k in range(1, n + 1)]
    assert sorted(file for part in parts for file in part) == sorted(HERE.rglob("test_*.py"))
    sizes = [sum(file.stat().st_size for file in part) for part in parts]
    largest = max(file.stat().st_size for part in parts for file in part)
    assert max(sizes) - min(sizes) <= largest


PARTS = [("1/2", "a", 0), ("2/2", "bc", 0), ("3/2", "", 4)]


def test_a_part_runs_its_files_only(tmp_path):
    tests = tmp_path / "tests"
    tests.mkdir()
    for name, size in {"a": 900, "b": 300, "c": 200}.items():
        (tests / f"test_{name}.py").write_text(f"def test_{name}():\n    pass\n#{'x' * size}\n")
    (tests / "conftest.py").write_text((HERE / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    shared = {"EVALREG_SHARED": str(tmp_path)}
    folders = [shutil.copytree(tests, tmp_path / str(i) / "tests").parent for i in range(len(PARTS))]
    asked = [Asked(["-v", "--part", part], folder, shared) for (part, _, _), folder in zip(PARTS, folders, strict=True)]
    for (part, names, status), (left_with, printed) in zip(PARTS, pytest_runs(asked), strict=True):
        assert left_with == status, printed
        assert [name for name in "abc" if f"::test_{name} PASSED" in printed] == list(names), part
        assert ("--part takes K/N" in printed) == (status == 4), part
