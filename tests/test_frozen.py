"""The numbers that users get stand in tests/frozen/numbers.json; every engine gives them."""

from __future__ import annotations

import functools
import json
import warnings

import numpy as np
import pytest
from engines.lazy import LAZY
from frozen.calls import FAMILIES, RANKED, SUMMED, calls, clustered, frame, numbers
from frozen.make import FILE

import evalreg as er

# The file has twelve digits; iterated fits stop elsewhere, and solved degrees of freedom come from a root finder.
SAME = 1e-10
SOLVED = 1e-7
# Made of the covariances that the other names ask for, by functions that see no rows.
DERIVED = ("CR0", "CR1 fixest", "min", "CR1 none", "CR3 none", "two-term")
# What the functions are asked for themselves, each of their arguments; `with_cov` has the others.
IN_CALL = ("CR1 fixest", "min", "eigen")
PARTS = ("params", "bse", "dof", "pvalues", "ends")
ENGINES = [
    (family, clustering)
    for family, (_, _, lazy, _) in FAMILIES.items()
    for clustering, _, _ in clustered(family)
    if lazy
]


@functools.cache
def frozen() -> dict[str, dict[str, object]]:
    """The entries, by name."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def differences(name: str, given: dict[str, object]) -> list[str]:
    """What of an entry is not as it stands in the file."""
    expected, wrong = frozen()[name], []
    for part in expected.keys() | given.keys():
        if part not in PARTS:
            if expected.get(part) != given.get(part):
                wrong.append(f"{name}: {part} {given.get(part)}, not {expected.get(part)}")
            continue
        got = np.asarray(given.get(part, []), dtype=float)
        stands = np.array([np.nan if x is None else x for x in expected.get(part, [])], dtype=float)
        tolerance = SAME if part in ("params", "bse") else SOLVED
        got = np.where(np.isfinite(got), got, np.nan)
        scale = np.max(np.abs(stands), initial=0.0, where=np.isfinite(stands)) if part == "params" else 0.0
        if got.shape != stands.shape or not np.allclose(
            got, stands, rtol=tolerance, atol=1e-14 + tolerance * scale, equal_nan=True
        ):
            wrong.append(f"{name}: {part} {got.tolist()}, not {stands.tolist()}")
    return wrong


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_numbers_are_those_that_are_frozen(family):
    # What is tuned depends on the covariance.
    options = {name for _, _, options in clustered(family) for name in options}
    check(family, lambda rows, _: rows, derived=(), in_call=options if family.startswith("rectified") else IN_CALL)


def check(family: str, hold, named: tuple[str, ...] | None = None, derived=DERIVED, in_call=()) -> None:
    """A family gives its numbers; a clustering is asked for once, and other covariances but what is derived of that."""
    of, run, _, _ = FAMILIES[family]
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for clustering, groups, options in clustered(family):
            if (named is not None and clustering not in named) or (data := hold(frame(of), groups)) is None:
                continue
            results = run(data, groups=groups)
            for name, chosen in options.items():
                if name in derived:
                    continue
                again = results
                if chosen:
                    again = run(data, groups=groups, **chosen) if name in in_call else results.with_cov(**chosen)
                wrong += differences(f"{family} | {clustering} | {name}", numbers(again, family in RANKED and not name))
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.pairwise
@pytest.mark.parametrize("engine", LAZY)
@pytest.mark.parametrize(("family", "clustering"), ENGINES)
def test_engines_give_the_frozen_numbers(family, clustering, engine):
    check(family, lambda rows, groups: LAZY[engine](rows), (clustering,))


@pytest.mark.parametrize("family", SUMMED)
def test_files_of_sums_give_the_frozen_numbers(family, tmp_path):
    def summed(rows, groups):
        if groups is None:
            return None
        er.summarise(rows, path=tmp_path / "sums.parquet", groups=groups, **SUMMED[family])
        return er.merged([tmp_path / "sums.parquet"])

    check(family, summed)


def test_each_entry_has_a_call():
    assert set(frozen()) == {name for name, _, _ in calls()}
