"""The package has one order: imports go to rooms above and never in a circle; importing stays light."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
PACKAGE = TOP / "evalreg"

# Top to bottom. A room is a file, or a folder with all its files; inside a folder only circles are refused.
ROOMS = [
    "versions",
    "errors",
    "choices",
    "checks",
    "numerics",
    "data",
    "scores",
    "estimate",
    "covariance",
    "inference",
    "report",
    "resampling",
    "planning",
    "results",
    "boards",
    "estimators",
    "suites",
    "noise",
    "datasets",
    "logs",
    "plots",
    "inspect",
    "__init__",
    "cli",
    "__main__",
]
RANK = {name: rank for rank, name in enumerate(ROOMS)}

HEAVY = ("scipy.stats", "scipy.optimize", "statsmodels", "matplotlib", "patsy", "polars", "duckdb", "pyarrow")


def module_name(path: Path) -> str:
    """Dotted name inside the package: `evalreg/inference/wald.py` is "inference.wald"."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def written_modules() -> dict[str, str]:
    """Source of every module."""
    return {module_name(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


# A statement that imports, at the beginning of a line; in texts, too.
STATEMENT = re.compile(r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?:\([^)]*\)|[^\n(]+))", re.MULTILINE)


def nodes_of(source: str) -> Iterator[ast.AST]:
    """What may import: all nodes of a module that names a function which imports; else its statements that import."""
    if "import_module" in source or "__import__" in source:
        yield from ast.walk(ast.parse(source))
        return
    for found in STATEMENT.finditer(source):
        (node,) = ast.parse(found[1].replace("\\\n", " ")).body
        yield ast.increment_lineno(node, source.count("\n", 0, found.start()))


def imported_modules(name: str, source: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every module of the package that a module imports, wherever the statement stands."""
    inside = ["evalreg", *name.split(".")[:-1]]
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = inside[: len(inside) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            targets = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _is_import_call(node):
            targets = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        else:
            continue
        for target in targets:
            parts = str(target).split(".")
            if parts[0] == "evalreg":
                yield node.lineno, _module_of(parts[1:], known)


def _is_import_call(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in {"import_module", "__import__"}


def _module_of(parts: list[str], known: set[str]) -> str:
    """The longest beginning that is a module: a name imported from a module is an import of that module."""
    for length in range(len(parts), 0, -1):
        dotted = ".".join(parts[:length])
        if dotted in known:
            return dotted
        if f"{dotted}.__init__" in known:
            return f"{dotted}.__init__"
    return "__init__"


def room(name: str) -> str:
    return name.split(".")[0]


def violations(modules: dict[str, str]) -> list[str]:
    """What breaks the order among modules given as source text."""
    problems = [f"{name}: {room(name)} has no place in ROOMS" for name in modules if room(name) not in RANK]
    beside: dict[str, set[str]] = {}
    for name, source in modules.items():
        for line, target in imported_modules(name, source, set(modules)):
            if room(name) == room(target) and name != target:
                beside.setdefault(name, set()).add(target)
            elif RANK.get(room(target), -1) >= RANK.get(room(name), len(RANK)):
                problems.append(f"{name}, line {line}: imports {target}, which does not stand above it")
    try:
        TopologicalSorter(beside).prepare()
    except CycleError as error:
        problems.append(f"imports run in a circle: {' -> '.join(error.args[1])}")
    return list(dict.fromkeys(problems))


def test_a_room_imports_only_from_rooms_above_it():
    assert violations(written_modules()) == []


def test_every_room_of_the_list_is_there():
    assert {room(name) for name in written_modules()} == set(ROOMS)


def test_no_folder_lies_deeper_than_one():
    assert [name for name in written_modules() if name.count(".") > 1] == []


def _missing_names(path: Path) -> Iterator[str]:
    """Names that a script takes from a module of the package and that are not there."""
    for statement in STATEMENT.finditer(path.read_text(encoding="utf-8")):
        if not statement[1].startswith("from evalreg"):
            continue
        (node,) = ast.parse(statement[1].replace("\\\n", " ")).body
        assert isinstance(node, ast.ImportFrom)
        try:
            module = importlib.import_module(node.module or "")
        except ImportError:
            yield f"{path.name}: {node.module}"
            continue
        for alias in node.names:
            if not hasattr(module, alias.name) and importlib.util.find_spec(f"{node.module}.{alias.name}") is None:
                yield f"{path.name}: {node.module}.{alias.name}"


def test_benchmarks_and_pages_import_what_is_there():
    scripts = [*TOP.glob("benchmarks/**/*.py"), *TOP.glob("docs/*.py"), *TOP.glob("tests/**/*.py")]
    assert [name for path in sorted(scripts) for name in _missing_names(path)] == []


def concepts(source: str) -> list[str]:
    """Classes and aliases of types that a module defines."""
    return re.findall(r"^(?:class (?=\w)|(?=\w+: TypeAlias\b))(\w+)", source, re.MULTILINE)


def test_a_name_of_a_class_or_type_has_one_meaning():
    homes: dict[str, list[str]] = {}
    for module, source in written_modules().items():
        for name in concepts(source):
            homes.setdefault(name, []).append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


HOUSE = dict.fromkeys(["errors", "checks", "data.clusters", "covariance.crossed", "covariance.covariance"], "") | (
    dict.fromkeys(["inference.wald", "inference.ranks", "inference.__init__", "results.results", "datasets"], "")
    | dict.fromkeys(
        ["estimators.mean", "logs.__init__", "logs.inspect_log", "logs.reading", "cli.main", "__init__"], ""
    )
)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("data.clusters", "from evalreg.covariance.covariance import covariance"),
        ("data.clusters", "from ..covariance import covariance"),
        ("data.clusters", "import evalreg.covariance.covariance as c"),
        ("data.clusters", "def f():\n    from ..covariance.covariance import covariance"),
        ("data.clusters", "import importlib\nimportlib.import_module('evalreg.covariance.covariance')"),
        ("data.clusters", "from evalreg import fit"),
        ("inference.wald", "from evalreg.inference import ranks\nfrom .ranks import rank_sets"),
        ("inference.wald", "from ..results import Results"),
        ("covariance.covariance", "from evalreg.inference import wald"),
        ("estimators.mean", "from evalreg.logs import inspect_log"),
        ("helpers", ""),
        ("helpers.shared", ""),
    ],
)
def test_the_check_sees_an_import_from_below_and_a_circle(name, source):
    # `ranks` imports `wald`, so that an import the other way round closes a circle.
    house = HOUSE | {"inference.ranks": "from .wald import t_test"}
    assert violations(house) == []
    assert len(violations(house | {name: source})) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("covariance.covariance", "from evalreg import errors\nfrom ..data.clusters import codes\nimport numpy as np"),
        ("inference.ranks", "from . import wald\nfrom evalreg.inference.wald import t_test"),
        ("inference.__init__", "from .wald import t_test"),
        ("results.results", "from evalreg.inference import wald"),
        ("logs.inspect_log", "from . import reading\nfrom ..errors import LogFormatError"),
        ("cli.main", "import evalreg"),
        ("__init__", "from .results.results import Results\nfrom . import datasets"),
    ],
)
def test_the_check_lets_an_import_from_above_pass(name, source):
    assert violations(HOUSE | {name: source}) == []


def test_a_first_mean_loads_nothing_heavy():
    code = (
        "import evalreg as er, json, sys\ner.mean(er.datasets.passages(), groups='passage').bse\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) & {*HEAVY, "scipy.linalg"} <= {"polars", "duckdb", "pyarrow"}
