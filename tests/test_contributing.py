"""The guide for contributors is true: its rooms, its files, and its estimator, under the whole contract."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
# What the reader of the page writes.
WRITTEN = {"evalreg/estimators/geometric.py", "tests/test_geometric.py"}


def _load(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _block(words: str) -> str:
    """The block of Python on the page that holds these words."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    return next(block for block in blocks if words in block)


def _namespace(source: str) -> dict:
    found = {"__name__": "geometric"}
    # Without the future of this file, which would make text of its annotations either way.
    exec(compile(source, "docs/contributing.md", "exec", dont_inherit=True), found)
    return found


contract = _load("contract_of_the_page", ROOT / "tests" / "contract" / "test_contract.py")
ESTIMATOR = _namespace(_block("def geometric_mean("))
(CASE,) = eval(_block("_same("), dict(vars(contract.cases)))


@pytest.fixture(autouse=True, scope="module")
def _exported():
    """The name as its two lines in the package would have it."""
    er.geometric_mean = ESTIMATOR["geometric_mean"]
    yield
    del er.geometric_mean


# The checks of the contract are tests of this module too, and the only case here is that of the page.
CHECKS = {name: check for name, check in vars(contract).items() if name.startswith("test_")}
globals().update({name: check for name, check in CHECKS.items() if contract.checked_cases(check, [CASE])})


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        contract.parametrize(metafunc, [CASE])


def test_the_test_of_the_page_passes():
    found = _namespace(_block("def test_error_bars"))
    tests = [value for name, value in found.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()


def test_the_example_in_its_docstring_runs():
    function = ESTIMATOR["geometric_mean"]
    example = doctest.DocTestFinder().find(function, "geometric_mean", globs={}, module=False)
    assert sum(len(part.examples) for part in example) == 3
    runner = doctest.DocTestRunner()
    assert all(runner.run(part).failed == 0 for part in example)


def test_values_that_are_not_positive_are_refused():
    with pytest.raises(er.errors.ScoreRangeError, match="must be positive"):
        er.geometric_mean({"score": [1.0, 0.0, 2.0]})


def test_the_rooms_are_those_of_the_order():
    section = PAGE[PAGE.index("## The rooms") : PAGE.index("## Add an estimator")]
    rooms = _load("layers_of_the_page", ROOT / "tests" / "test_layers.py").ROOMS
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [name for name in rooms if not name.startswith("__")]


def test_the_files_of_the_page_are_there():
    named = set(re.findall(r"`((?:evalreg|tests|docs)/[\w/.]+\.\w+)`", PAGE))
    assert len(named) > 10
    assert {name for name in named - WRITTEN if not (ROOT / name).exists()} == set()


def test_the_lines_of_its_code_are_no_longer_than_those_of_the_project():
    assert max(map(len, _block("def geometric_mean(").splitlines())) <= 120


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("evalreg/__init__.py", [" as mean", "_HOMES"]),
        ("evalreg/checks.py", ["CovName"]),
        ("evalreg/covariance/kinds.py", ["class Kind", "name=", "words=", "power=", "needs_refit", "single="]),
        ("evalreg/covariance/corrections.py", ["cr1_factor", "adjust_cell_totals", "inverse_power_times"]),
        ("evalreg/report/plots.py", ["__all__", "checked_columns(", "with canvas(ax, ", "def inflation_axes"]),
        ("evalreg/report/figures.py", ["FigureName", "def plot_results"]),
        ("evalreg/logs/table.py", ["def read_table", "def table_and_broken", "_FOREIGN", "TABLES", "LogFormatError"]),
        ("evalreg/logs/csv_table.py", ["def decoded(data: bytes, name"]),
        ("evalreg/logs/table_log.py", ["TITLE"]),
        ("evalreg/plots.py", ["heat_map", "curves", "__all__"]),
        ("tests/contract/cases.py", ["CASES = ["]),
        ("evalreg/logs/tabular.py", ["class TableRequest", "def chosen(columns"]),
        ("docs/reference.md", ["## Estimates", "## Figures"]),
    ],
)
def test_what_the_page_points_at_is_there(path, names):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert [name for name in names if name not in text] == []
