"""A covariance is one record, and nothing outside its room branches on the name of one."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evalreg as er
from evalreg.checks import COVS, REPAIRS
from evalreg.covariance.options import ENTRIES, KINDS, documented

PACKAGE = Path(__file__).resolve().parents[1] / "evalreg"
NAMES = set(COVS) - {"naive"}


def comparisons(source: str) -> list[int]:
    """Lines that compare with the name of a covariance, or look something up by one."""
    found = []
    if not re.search(rf"(['\"])({'|'.join(COVS)})\1", source):
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            strings = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            if any(isinstance(part, ast.Constant) and part.value in NAMES for part in strings):
                found.append(node.lineno)
            if any(
                isinstance(part, ast.Attribute) and part.attr == "cov" for part in (node.left, *node.comparators)
            ) and (any(isinstance(part, ast.Constant) and part.value == "naive" for part in strings)):
                found.append(node.lineno)
        elif isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            if NAMES & set(keys):
                found.append(node.lineno)
    return found


def test_no_name_of_a_covariance_is_compared_anywhere():
    found = {str(path.relative_to(PACKAGE)): comparisons(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        'if options.cov == "CR1": pass',
        'if options.cov in ("CR3", "jackknife"): pass',
        'wanted = options.cov != "naive"',
        'words = {"CR2": "half"}[options.cov]',
    ],
)
def test_the_search_finds_a_comparison(source):
    assert comparisons(source)


def test_every_name_has_one_record():
    assert tuple(KINDS) == COVS
    assert all(kind.name == name for name, kind in KINDS.items())


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_record_says_what_can_be_asked_with_it(kind):
    log = er.datasets.passages(n_passages=12, seed=1)
    groups = "passage" if kind.needs_clusters else None

    def asked(**options):
        return er.mean(log, groups=groups, cov=kind.name, **options)

    results = asked()
    assert results.cov.options.dof == kind.dof
    for taken, options in (
        (kind.takes_ssc, {"ssc": "none"}),
        (kind.takes_satterthwaite, {"dof": "satterthwaite"}),
        *((repair in kind.repairs, {"repair": repair}) for repair in REPAIRS),
        (not kind.needs_clusters, {"groups": None}),
    ):
        again = {"groups": groups} | options
        if taken:
            er.mean(log, cov=kind.name, **again)
        else:
            with pytest.raises(er.errors.ArgumentError):
                er.mean(log, cov=kind.name, **again)


@pytest.mark.parametrize(
    "name", [n for n in er.__all__ if "cov" in getattr(inspect.unwrap(getattr(er, n)), "__annotations__", {})]
)
def test_docstrings_list_the_covariances_that_there_are(name):
    doc = inspect.getdoc(getattr(er, name))
    assert not re.search(r"^ *<\w.*>$", doc, re.MULTILINE)
    options = set(inspect.signature(getattr(er, name)).parameters) & set(ENTRIES)
    assert {option for option in options if not re.search(rf"^(\w+, )*{option}(, \w+)* : ", doc, re.MULTILINE)} == set()


def test_names_of_covariances_are_listed_in_no_docstring_by_hand():
    written = [path.name for path in PACKAGE.rglob("*.py") if re.search(r"^ *cov : \{", path.read_text(), re.MULTILINE)]
    assert written == []


def test_an_entry_stands_where_it_is_asked_for_and_as_deep():
    def function():
        """Line.

        Parameters
        ----------
        <dof>
            Of t.
        <ssc>
        x < y, <ssc>
        """

    doc = inspect.getdoc(documented(function)).splitlines()
    assert doc[4:6] == ['dof : {"satterthwaite", "min", "normal"} or float, optional', "    Of t."]
    assert doc[6].startswith("ssc : {")
    assert doc[7:] == ["    Factor of CR1.", "x < y, <ssc>"]


def test_a_function_without_a_docstring_stays_without():
    def function():
        pass

    assert documented(function) is function
    assert function.__doc__ is None


@pytest.mark.slow  # all packages are compiled anew for it
def test_the_functions_are_there_where_python_drops_docstrings():
    code = "import evalreg; print(evalreg.mean.__doc__, evalreg.mean({'score': [0.0, 1.0]}).params.iloc[0])"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "0.5"]
