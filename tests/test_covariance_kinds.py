"""What can be asked with each covariance, and that docstrings list it."""

from __future__ import annotations

import inspect
import re

import pytest

import evalreg as er
from evalreg.choices import REPAIRS
from evalreg.covariance.options import ENTRIES, KINDS


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_record_says_what_can_be_asked_with_it(kind):
    log = er.datasets.passages(n_passages=12, seed=1)
    groups = "passage" if kind.needs_clusters else None

    def asked(**options):
        return er.mean(log, groups=groups, cov=kind.name, **options)

    assert asked().cov.options.dof == kind.dof
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
    "name",
    [n for n in er.__all__ if inspect.isfunction(f := getattr(er, n)) and "cov" in inspect.signature(f).parameters],
)
def test_docstrings_list_the_covariances_that_there_are(name):
    doc = inspect.getdoc(getattr(er, name))
    assert not re.search(r"^ *<\w.*>$", doc, re.MULTILINE)
    options = set(inspect.signature(getattr(er, name)).parameters) & set(ENTRIES)
    assert {option for option in options if not re.search(rf"^(\w+, )*{option}(, \w+)* : ", doc, re.MULTILINE)} == set()
