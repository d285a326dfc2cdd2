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
from engines.lazy import LAZY
from scipy import sparse

import evalreg as er
from evalreg.checks import hold
from evalreg.estimate import Refit

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


@pytest.mark.parametrize("engine", LAZY.values(), ids=LAZY.keys())
def test_nor_what_comes_from_an_engine(engine):
    log = er.datasets.paired(n_passages=20, seed=1)
    for data in (log, engine(log)):
        results = er.mean(data, by="model", item="question", groups="passage")
        assert not list(writable(results))
    duels = engine(er.datasets.judge_log(n_models=3, n_prompts=30, seed=1))
    board = er.win_rate(duels, left="left", right="right", winner="winner", groups="prompt")
    assert not list(writable(board))


def test_arrays_of_the_caller_can_still_be_written():
    weights, passage = np.linspace(1, 2, 40), np.arange(40) // 4
    data = {"score": np.arange(40) % 3 * 1.0, "x": np.arange(40) % 7 * 1.0}
    results = er.fit("score ~ x", data, groups=passage, weights=weights)
    assert not list(writable(results))
    for array in (weights, passage, *data.values()):
        assert array.flags.writeable


def test_no_value_is_copied_and_what_sparse_matrices_hold_is_in_order():
    array = np.ones(2)
    unordered = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 0]), np.array([0, 2, 3])), shape=(2, 2))
    ordered, values = unordered.sorted_indices(), unordered.data
    refit = Refit(array, contrasts=unordered)
    hold(refit)
    assert not list(writable(refit))
    assert np.shares_memory(refit.inverse_gram, array)
    assert np.shares_memory(unordered.data, values)
    # Where there is nothing to put in order scipy writes nothing.
    unordered.sum_duplicates()
    np.testing.assert_array_equal(unordered.indices, ordered.indices)
    np.testing.assert_array_equal(
        (unordered.T @ unordered + unordered).todense(), (ordered.T @ ordered + ordered).todense()
    )


def test_a_frame_that_answers_to_every_name_is_no_sparse_matrix():
    class Frame:
        def __getattr__(self, name):
            return [name]

    frame = Frame()
    held = {"frame": frame}
    hold(held)
    assert held["frame"] is frame
    assert not vars(frame)
