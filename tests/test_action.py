"""The action of continuous integration and the fixture of the guide do with the statuses of a gate what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import evalreg as er
from evalreg.cli import main as cli

ROOT = Path(__file__).resolve().parents[1]
ACTION = ROOT / ".github" / "actions" / "gate" / "action.yml"


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Scores of `new` and `old`."""
    path = tmp_path / "two words.csv"
    er.datasets.paired(n_passages=30, seed=3).rename(columns={"question": "item"}).to_csv(path, index=False)
    return path


def script() -> str:
    """What the action runs last."""
    text = ACTION.read_text(encoding="utf-8").split("      run: |\n")[1]
    return "\n".join(line[8:] for line in text.splitlines())


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action runs in bash")
@pytest.mark.parametrize(
    ("gate", "undecided", "status", "left_with", "started"),
    [
        ("new - old > -0.5", "fail", 0, 0, False),
        ("new - old > 0.5", "fail", 1, 1, False),
        ("new - old > 0.09", "fail", 2, 2, False),
        ("new - old > 0.09", "pass", 2, 0, True),
        ("new - old", "pass", 3, 3, False),
        ("new - old > -0.5", "passes", 3, 3, True),
    ],
)
def test_the_action_leaves_with_the_status_of_the_gate(
    scores, tmp_path, capsys, gate, undecided, status, left_with, started
):
    folder, asked_for = tmp_path / "bin", tmp_path / "arguments"
    folder.mkdir()
    # The command itself once; else one that notes what it is asked, for this process to ask, and leaves as told.
    noting = f'printf "%s\\n" "$@" >"{asked_for}"; exit {status}'
    run_by = f'exec "{sys.executable}" -m evalreg "$@"' if started else noting
    (folder / "evalreg").write_text(f"#!/bin/sh\n{run_by}\n")
    (folder / "evalreg").chmod(0o755)
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    asked = {"LOGS": f"{scores}\n", "GATE": gate, "OPTIONS": "--groups=passage\n--alpha=0.05\n", "UNDECIDED": undecided}
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-e", "-c", script()],
        env={**os.environ, **files, **asked, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == left_with, run.stderr
    assert Path(files["GITHUB_OUTPUT"]).read_text() == f"status={status}\n"
    if not started:
        assert cli.main(asked_for.read_text().splitlines()) == status
        capsys.readouterr()
    if status < 3:
        assert gate in Path(files["GITHUB_STEP_SUMMARY"]).read_text()
