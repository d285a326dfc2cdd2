"""Runs of pytest on small folders: what they import is loaded once, and each is a copy of that process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
CODE = """
import json, os, sys
import golden, hypothesis, pytest
for arguments, folder, environment in json.loads(sys.argv[1]):
    child = os.fork() if hasattr(os, "fork") else 0
    if not child:
        os.chdir(folder)
        os.environ.update(environment)
        os.dup2(os.open("printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        status = pytest.main(["-p", "no:cacheprovider", *arguments, "tests"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Asked(NamedTuple):
    """One run: its arguments, the folder that holds `tests`, what is added to the environment."""

    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


def pytest_runs(asked: Sequence[Asked]) -> list[tuple[int, str]]:
    """Status and what was printed of each run, which follow each other and see nothing of EVALREG_ and PYTEST_."""
    if not hasattr(os, "fork") and len(asked) > 1:
        return [found for run in asked for found in pytest_runs([run])]
    given = json.dumps([(run.arguments, str(run.folder), run.environment) for run in asked])
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("EVALREG_", "PYTEST_"))}
    command, environment = [sys.executable, "-c", CODE, given], clean | {"PYTHONPATH": str(HERE)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    statuses = [int(line) for line in done.stdout.splitlines()] or [done.returncode]
    assert len(statuses) == len(asked), done.stderr
    return [
        (status, (run.folder / "printed").read_text(encoding="utf-8"))
        for run, status in zip(asked, statuses, strict=True)
    ]
