"""Every file of tests is in one part, and a part runs its own files only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from parts import files_of

HERE = Path(__file__).parent


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_every_file_is_in_one_part_and_parts_are_about_as_large(n):
    parts = [files_of(f"{k}/{n}", HERE) for k in range(1, n + 1)]
    assert sorted(file for part in parts for file in part) == sorted(HERE.rglob("test_*.py"))
    sizes = [sum(file.stat().st_size for file in part) for part in parts]
    largest = max(file.stat().st_size for part in parts for file in part)
    assert max(sizes) - min(sizes) <= largest


@pytest.mark.parametrize(("part", "names", "status"), [("1/2", "a", 0), ("2/2", "bc", 0), ("3/2", "", 4)])
def test_a_part_runs_its_files_only(part, names, status, tmp_path):
    tests = tmp_path / "tests"
    tests.mkdir()
    for name, size in {"a": 900, "b": 300, "c": 200}.items():
        (tests / f"test_{name}.py").write_text(f"def test_{name}():\n    pass\n#{'x' * size}\n")
    (tests / "conftest.py").write_text((HERE / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--part", part, "tests"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(HERE), "EVALREG_SHARED": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert [name for name in "abc" if f"::test_{name} PASSED" in done.stdout] == list(names)
    assert ("--part takes K/N" in done.stderr) == (status == 4)
