"""The numbers that users get stand in tests/frozen/numbers.json; every engine gives them."""

from __future__ import annotations

import functools
import json
import warnings

import numpy as np
import pytest
from engines.lazy import LAZY
from frozen.calls import RANKED, SUMMED, calls, frame, made, summed
from frozen.make import FILE

import evalreg as er

# The file has twelve digits; iterated fits stop elsewhere, and solved degrees of freedom come from a root finder.
SAME = 1e-10
SOLVED = 1e-7
PARTS = ("params", "bse", "dof", "pvalues", "ends")
FAMILIES = sorted({name.split(" | ")[0] for name, _, _ in calls()})
ENGINES = sorted({name.split(" | ")[0] for name, _, _ in calls(engines=True)})


@functools.cache
def frozen() -> dict[str, dict[str, object]]:
    """The entries, by name."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def differences(name: str, numbers: dict[str, object]) -> list[str]:
    """What of an entry is not as it stands in the file."""
    expected, wrong = frozen()[name], []
    for part in expected.keys() | numbers.keys():
        if part not in PARTS:
            if expected.get(part) != numbers.get(part):
                wrong.append(f"{name}: {part} {numbers.get(part)}, not {expected.get(part)}")
            continue
        got = np.asarray(numbers.get(part, []), dtype=float)
        stands = np.array([np.nan if x is None else x for x in expected.get(part, [])], dtype=float)
        tolerance = SAME if part in ("params", "bse") else SOLVED
        got = np.where(np.isfinite(got), got, np.nan)
        scale = np.max(np.abs(stands), initial=0.0, where=np.isfinite(stands)) if part == "params" else 0.0
        if got.shape != stands.shape or not np.allclose(
            got, stands, rtol=tolerance, atol=1e-14 + tolerance * scale, equal_nan=True
        ):
            wrong.append(f"{name}: {part} {got.tolist()}, not {stands.tolist()}")
    return wrong


def check(family: str, engines: bool, make=lambda frame: frame) -> None:
    """Every entry of a family gives its numbers."""
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, of, call in calls(engines=engines):
            if name.split(" | ")[0] == family:
                ranked = family in RANKED and name.endswith("| ")
                wrong += differences(name, made(call, make(frame(of)), ranked))
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_are_those_that_are_frozen(family):
    check(family, engines=False)


@pytest.mark.parametrize("engine", LAZY)
@pytest.mark.parametrize("family", ENGINES)
def test_engines_give_the_frozen_numbers(family, engine):
    check(family, engines=True, make=LAZY[engine])


@pytest.mark.parametrize("family", SUMMED)
def test_files_of_sums_give_the_frozen_numbers(family, tmp_path):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, of, summarise, call in summed(family):
            summarise(frame(of), path=tmp_path / "sums.parquet")
            wrong += differences(
                name, made(call, er.merged([tmp_path / "sums.parquet"]), name.endswith("| ") and family in RANKED)
            )
    assert not wrong, "\n".join(wrong[:10])


def test_each_entry_has_a_call():
    assert set(frozen()) == {name for name, _, _ in calls()}
