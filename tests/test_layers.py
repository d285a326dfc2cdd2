"""The package has one order: a module imports only modules above it, and importing evalreg stays light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "evalreg"

# Top to bottom. `logs` stands for every file of that folder.
ORDER = [
    "errors",
    "elsewhere",
    "memory",
    "checks",
    "keywords",
    "choices",
    "clusters",
    "scores",
    "pair_scores",
    "stacking",
    "strata",
    "anova",
    "inference.unseen",
    "mapped",
    "paired",
    "engine",
    "columns",
    "frame",
    "estimate",
    "labelled",
    "questions",
    "student",
    "widths",
    "small_sample",
    "basis",
    "newton",
    "fitting",
    "groups",
    "pieces",
    "alike",
    "sparsity",
    "covariance",
    "dependence",
    "diagnostics",
    "inference.proportions",
    "inference.multiplicity",
    "inference.levels",
    "inference.contrasts",
    "inference.widening",
    "inference.carriers",
    "inference.rectified",
    "inference.intervals",
    "inference.wald",
    "inference.standards",
    "inference.discordance",
    "inference.simultaneous",
    "inference.ranks",
    "inference.equivalence",
    "inference.sequential",
    "inference.bootstrap",
    "inference.beta_binomial",
    "inference.posterior",
    "duels",
    "judges.rows",
    "judges.agreement",
    "judges.position",
    "judges.boards",
    "judges.variance",
    "tables",
    "resampling.draws",
    "resampling.inversion",
    "resampling.wild_sums",
    "resampling.wild",
    "resampling.boot_sums",
    "resampling.resample",
    "resampling.sampling",
    "many",
    "canvas",
    "plots",
    "figures",
    "bridge",
    "predictions",
    "rectification",
    "summaries",
    "judges.grids",
    "judges.judging",
    "resampled",
    "shown",
    "results",
    "boards",
    "estimators.joint_ids",
    "estimators.repeats",
    "estimators.filters",
    "estimators.cells",
    "estimators.grammar",
    "estimators.formula",
    "estimators.regression",
    "estimators.mean",
    "estimators.linearized",
    "estimators.ratio",
    "estimators.classification",
    "estimators.mover",
    "estimators.quantile",
    "estimators.pass_at_k",
    "estimators.sign",
    "estimators.answers",
    "estimators.pair_tables",
    "estimators.comparison",
    "estimators.difference",
    "estimators.verdicts",
    "estimators.pairs",
    "estimators.strength",
    "estimators.outcomes",
    "estimators.reweighted",
    "estimators.schedules",
    "estimators.win_rate",
    "estimators.bradley_terry",
    "estimators.controlled",
    "estimators.rectified",
    "estimators.rectified_pairs",
    "watching",
    "planning.power",
    "planning.components",
    "planning.clusters",
    "planning.costs",
    "planning.boards",
    "planning.simulation",
    "planning.pilot",
    "datasets",
    "logs",
    "where",
    "report",
    "selection",
    "gates",
    "demo",
    "commands.parsing",
    "commands.shared",
    "commands.fit",
    "commands.mean",
    "commands.compare",
    "commands.leaderboard",
    "commands.plan",
    "commands.demo",
    "cli",
    "__main__",
    "__init__",
]
RANK = {name: rank for rank, name in enumerate(ORDER)}
# Sub-packages whose files have places of their own. Importing such a folder is importing the last of its files.
FOLDERS = sorted({name.split(".")[0] for name in ORDER if "." in name})

HEAVY = ("scipy.stats", "scipy.optimize", "statsmodels", "matplotlib", "patsy", "polars", "duckdb", "pyarrow")


def module_name(path: Path) -> str:
    """Dotted name inside the package: `evalreg/inference/wald.py` is "inference.wald"."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def written_modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room(name: str) -> str | None:
    """The entry of ORDER (or the folder's `__init__`) that a module belongs to, or None when it has no place."""
    if name.split(".")[0] == "logs":
        return "logs"
    if name in RANK or name in {f"{folder}.__init__" for folder in FOLDERS}:
        return name
    return None


def rank(name: str) -> int:
    """Place of a room from the top."""
    folder, _, last = name.rpartition(".")
    if last == "__init__" and folder:
        return max(place for other, place in RANK.items() if other.startswith(f"{folder}."))
    return RANK[name]


def imported_modules(name: str, tree: ast.AST, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every module of the package that a module imports, wherever the statement stands."""
    inside = ["evalreg", *name.split(".")[:-1]]
    for node in ast.walk(tree):
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


def violations(modules: dict[str, str]) -> list[str]:
    """What breaks the order among modules given as source text."""
    problems = []
    for name, source in modules.items():
        own = room(name)
        if own is None:
            problems.append(f"{name}: has no place in ORDER")
            continue
        for line, target in imported_modules(name, ast.parse(source), set(modules)):
            other = room(target)
            if name.endswith(".__init__") and own != "logs":
                allowed = target.rpartition(".")[0] == name.rpartition(".")[0]
            elif own == "logs" and other == "logs":
                allowed = True
            else:
                allowed = other is not None and rank(other) < rank(own)
            if not allowed:
                problems.append(f"{name}, line {line}: imports {target}, which does not stand above it")
    return list(dict.fromkeys(problems))


def test_a_module_imports_only_modules_above_it():
    modules = {name: path.read_text(encoding="utf-8") for name, path in written_modules().items()}
    assert modules, "the package is empty"
    assert violations(modules) == []


def test_no_folder_lies_deeper_than_one():
    assert [name for name in written_modules() if name.count(".") > 1] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("clusters", "from evalreg.covariance import covariance"),
        ("clusters", "from . import covariance"),
        ("clusters", "import evalreg.covariance as c"),
        ("clusters", "def f():\n    from .covariance import covariance"),
        ("clusters", "import importlib\nimportlib.import_module('evalreg.covariance')"),
        ("clusters", "from evalreg import fit"),
        ("inference.wald", "from evalreg.inference.ranks import rank_sets"),
        ("inference.wald", "from ..results import Results"),
        ("covariance", "from evalreg.inference import wald"),
        ("inference.__init__", "from evalreg.errors import EvalregError"),
        ("estimators.mean", "from evalreg.logs import inspect"),
        ("helpers", ""),
        ("inference.helpers", ""),
    ],
)
def test_the_check_sees_an_import_from_below(name, source):
    modules = dict.fromkeys(ORDER, "") | dict.fromkeys([f"{folder}.__init__" for folder in FOLDERS], "")
    modules |= {"logs.__init__": "", "logs.inspect": ""}
    del modules["logs"]
    assert len(violations(modules | {name: source})) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("covariance", "from evalreg import errors\nfrom .clusters import codes\nimport numpy as np"),
        ("inference.ranks", "from . import wald\nfrom evalreg.inference.simultaneous import bands"),
        ("inference.__init__", "from .wald import t_test"),
        ("results", "from evalreg.inference import wald"),
        ("logs.inspect", "from . import tidy\nfrom ..errors import LogError"),
        ("cli", "import evalreg.logs"),
        ("__init__", "from .results import Results\nfrom . import datasets"),
    ],
)
def test_the_check_lets_an_import_from_above_pass(name, source):
    modules = dict.fromkeys(ORDER, "") | dict.fromkeys([f"{folder}.__init__" for folder in FOLDERS], "")
    modules |= {"logs.__init__": "", "logs.inspect": "", "logs.tidy": ""}
    del modules["logs"]
    assert violations(modules | {name: source}) == []


def heavy_modules_after(statement: str) -> set[str]:
    """Which of HEAVY a new interpreter has loaded after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout)) & set(HEAVY)


def test_importing_evalreg_loads_nothing_heavy():
    # pandas itself loads pyarrow where it is installed; nothing else of HEAVY may come from there.
    unavoidable = heavy_modules_after("import pandas, scipy.sparse, narwhals")
    assert unavoidable <= {"pyarrow"}
    assert heavy_modules_after("import evalreg") - unavoidable == set()
