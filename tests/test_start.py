"""A light start: names are found when they are used, help needs no data frames, an interrupt is one line."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import evalreg as er

PACKAGE = Path(er.__file__).parent
FRAMES = {"numpy", "pandas", "scipy", "narwhals", "statsmodels", "patsy", "matplotlib", "polars", "duckdb", "pyarrow"}
# Whatever is imported before, and in whatever order.
EVERYTHING = """
import importlib, pkgutil, evalreg
for found in pkgutil.walk_packages(evalreg.__path__, "evalreg."):
    if found.name != "evalreg.__main__":
        importlib.import_module(found.name)
"""


def python(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def loaded_after(code: str) -> set[str]:
    return set(json.loads(python(f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))")))


def static_homes() -> dict[str, str]:
    """The module of each name as type checkers read it."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    homes = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            module = str(node.module).removeprefix("evalreg").removeprefix(".")
            homes |= {alias.asname or alias.name: module or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            homes[node.targets[0].id] = homes.pop(node.value.id)  # a module under another name
    return homes


def test_type_checkers_and_the_interpreter_find_each_name_in_the_same_module():
    assert static_homes() == er._HOMES
    assert set(er._HOMES) == set(er.__all__)


@pytest.mark.parametrize("name", er.__all__)
def test_each_name_is_what_its_module_has_under_that_name(name):
    module = importlib.import_module(f"evalreg.{er._HOMES[name]}")
    found = getattr(er, name)
    if isinstance(found, ModuleType):
        assert found is module
    else:
        assert inspect.unwrap(found) is inspect.unwrap(getattr(module, name))
        assert (found.__module__, found.__name__) == (module.__name__, name)


def test_importing_evalreg_or_naming_its_errors_loads_no_data_frames():
    assert not FRAMES & loaded_after("import evalreg; dir(evalreg); evalreg.errors.EvalregError; evalreg.__version__")


# Every name is used first by eight threads at the same time, in an order of their own.
IN_THREADS = """
import sys, threading
sys.setswitchinterval(1e-6)
names, n_threads = [*evalreg.__all__, "__version__"], 8
seen, barrier = [None] * n_threads, threading.Barrier(n_threads)
def look(i):
    barrier.wait()
    own = names[i:] + names[:i] if i % 2 else names
    seen[i] = {name: id(getattr(evalreg, name)) for name in own}
    seen[i] |= {f"plan.{name}": id(getattr(evalreg.plan, name)) for name in evalreg.plan.__all__}
threads = [threading.Thread(target=look, args=(i,)) for i in range(n_threads)]
for thread in threads: thread.start()
for thread in threads: thread.join()
one = [all(other == seen[0] for other in seen), len(seen[0]) > len(names), evalreg.mean is evalreg.mean]
"""


# What evalreg itself imports is loaded once; each part is then done by a copy of the process that knows no evalreg.
PARTS = """
import os, sys
import narwhals.stable.v2, pandas, scipy.linalg, scipy.sparse, scipy.special
assert "evalreg" not in sys.modules
for part in sys.argv[1:]:
    child = os.fork()
    if not child:
        exec(part, {})
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
IMPORTS = ("import evalreg", EVERYTHING)


@functools.cache
def seen() -> dict[str, dict[str, Any]]:
    """What a process shows after each of `IMPORTS`: its names, the kind of each, and its names when all were used."""
    kinds = "{n: type(getattr(evalreg, n)).__name__ for n in evalreg.__all__}"
    shown = f"import json\nprint(json.dumps(dict(first=first, kinds={kinds}, last=dir(evalreg), one=one)))"
    used = (IN_THREADS, "one = [getattr(evalreg, name) for name in evalreg.__all__] and None")
    parts = [f"{code}\nfirst = dir(evalreg)\n{use}\n{shown}" for code, use in zip(IMPORTS, used, strict=True)]
    printed = python(PARTS, *parts) if hasattr(os, "fork") else "".join(map(python, parts))
    return dict(zip(IMPORTS, map(json.loads, printed.splitlines()), strict=True))


def test_dir_shows_the_public_names_and_nothing_else():
    for code in IMPORTS:
        for moment in ("first", "last"):
            shown = seen()[code][moment]
            assert "__version__" in shown
            assert [name for name in shown if not (name.startswith("__") and name.endswith("__"))] == sorted(er.__all__)


def test_threads_that_use_a_name_first_at_the_same_time_get_one_object():
    assert seen()["import evalreg"]["one"] == [True, True, True]


@pytest.mark.parametrize("arguments", ["--help", "--version", "fit --help"])
def test_help_and_version_load_no_data_frames(arguments):
    code = f"""
import contextlib, io, evalreg.__main__ as entry, sys
sys.argv = ["evalreg", *{arguments.split()}]
with contextlib.redirect_stdout(io.StringIO()):
    assert entry.main() == 0
"""
    assert not FRAMES & loaded_after(code)


def test_the_command_and_the_module_are_one_entry():
    pyproject = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = pyproject["project"]["scripts"]["evalreg"].partition(":")
    assert (module, name) == ("evalreg.__main__", "main")


def test_little_is_imported_before_an_interrupt_is_taken_care_of():
    before = loaded_after("import importlib, types")
    assert loaded_after("import evalreg.__main__") - before == {"evalreg", "evalreg.__main__"}


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process there")
@pytest.mark.parametrize(
    "delay",
    [0.0, 0.05, 0.2, 0.5, *(pytest.param(late, marks=pytest.mark.slow) for late in (0.02, 0.1, 0.3, 0.7, 1, 2))],
)
def test_an_interrupt_at_any_moment_is_one_line_and_status_130(delay, tmp_path):
    er.datasets.passages(n_passages=20, seed=1).to_csv(tmp_path / "log.csv", index=False)
    # As the installed command does; the byte says that evalreg has begun, and Python's own start is over.
    code = (
        "import os, signal, sys; from evalreg.__main__ import main; taken = signal.signal\n"
        "signal.signal = lambda *given: (taken(*given), os.write(1, b'.'))[0]\n"
        "sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "fit", "score ~ n_words", str(tmp_path / "log.csv"), "--groups", "passage"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"."
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert b"Traceback" not in said
    assert process.returncode in (0, 130)
    if process.returncode == 130:
        assert said.decode().splitlines()[-1] == "evalreg: interrupted"
        assert said.decode().count("interrupted") == 1
    if delay <= 0.05:
        assert process.returncode == 130, "a command that takes no time would test nothing"
