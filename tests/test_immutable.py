"""Nothing that a result holds can be written: codes of clusters, sparse matrices, what leaving out needs, all of it."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from scipy import sparse

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def _cases() -> Any:
    name = "contract_cases"
    if name not in sys.modules:
        path = Path(__file__).parent / "contract" / "cases.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


# Estimators that differ by more than an option.
CASES = {case.name: case for case in _cases().CASES if not case.like}


def writable(value: Any, path: str = "", seen: set[int] | None = None) -> Iterator[str]:
    """Where an array that can be written is reached from a value by names that do not begin with an underscore."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        if value.flags.writeable and value.size:
            yield path
    elif sparse.issparse(value):
        for name in ("data", "indices", "indptr"):
            yield from writable(getattr(value, name, None), f"{path}.{name}", seen)
    elif isinstance(value, dict | MappingProxyType):
        for key, one in list(value.items()):
            yield from writable(one, f"{path}[{key!r}]", seen)
    elif isinstance(value, tuple | list):
        for place, one in enumerate(value):
            yield from writable(one, f"{path}[{place}]", seen)
    elif type(value).__module__.startswith("evalreg"):
        for name, one in list(getattr(value, "__dict__", {}).items()):
            # What statements make and share is no part of a result.
            if not name.startswith("_") and name != "kept":
                yield from writable(one, f"{path}.{name}", seen)


@pytest.mark.parametrize("name", CASES)
def test_nothing_that_a_result_holds_can_be_written(name):
    case = CASES[name]
    results = case.fit(case.frame(), "passage", None)
    before = results.to_frame()
    results.summary()
    assert not list(writable(results))
    assert not list(writable(pickle.loads(pickle.dumps(results))))
    assert results.to_frame().equals(before)
