"""Joint ids, "task:question", name the same labels in an engine and in sums as in memory, with the same numbers."""

from __future__ import annotations

import datetime
import functools

import numpy as np
import pandas as pd
import pytest
from engines.lazy import LAZY, in_engines

import evalreg as er
from evalreg.errors import ArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

JOINT = "task:question"


def log() -> pd.DataFrame:
    """A copy of a log that is made once."""
    return _log().copy(deep=True)


@functools.cache
def _log() -> pd.DataFrame:
    """Two sizes of a family on questions whose numbers start anew in each task; two answers each, with holes."""
    rng = np.random.default_rng(15)
    question = np.tile(np.arange(120), 4)
    size, attempt = np.repeat([7, 70], 240), np.tile(np.repeat([0, 1], 120), 2)
    frame = pd.DataFrame(
        {
            "family": "ada",
            "size": size,
            "task": np.array(["law", "math:hard", "math"])[question // 40],
            "question": question % 40,
            "long": question % 3 == 0,
            "day": [datetime.date(2024, 1, 1 + i % 4) for i in question],
            "attempt": attempt,
            "passage": [f"p{i // 7}" for i in question],
            "words": rng.integers(1, 30, 480),
            "score": (rng.uniform(size=480) < 0.5 + 0.002 * size).astype(float),
        }
    )
    frame["family"] = frame["family"].astype(object).where(frame.index != 3, None)
    frame["task"] = frame["task"].astype(object).where(frame.index != 5, None)
    return frame


@functools.cache
def duels() -> pd.DataFrame:
    rng = np.random.default_rng(6)
    n, names = 600, np.array(["a", "b", "c"])
    left = rng.integers(0, 3, n)
    right = (left + rng.integers(1, 3, n)) % 3
    return pd.DataFrame(
        {
            "maker_1": np.where(left == 0, "x", "y"),
            "name_1": names[left],
            "maker_2": np.where(right == 0, "x", "y"),
            "name_2": names[right],
            "language": rng.choice(["de", "en"], n),
            "level": rng.integers(1, 3, n),
            "prompt": rng.integers(0, 40, n),
            "points": rng.choice([0.0, 0.5, 1.0], n),
        }
    )


SIDES = {"left": "maker_1:name_1", "right": "maker_2:name_2", "score": "points"}
FIRST = {"item": JOINT, "by": "family:size"}
CALLS = {
    "items": lambda data: er.mean(data, item=JOINT, sample="attempt", by="size"),
    "items and models": lambda data: er.mean(data, **FIRST, sample="attempt", groups="passage"),
    "shared questions": lambda data: er.mean(data, **FIRST, sample="attempt", questions="shared"),
    "models of truth values and days": lambda data: er.mean(data, by=["long:size", "day:family"], groups="passage"),
    "strata": lambda data: er.mean(data, by="size", strata="task:long", groups="passage"),
    "clusters of items": lambda data: er.mean(data, **FIRST, sample="attempt", groups=JOINT),
    "compare": lambda data: er.compare(data, model="family:size", item=JOINT, sample="attempt"),
    "pass at k": lambda data: er.pass_at_k(data, k=1, item=JOINT, sample="attempt", by="family:size"),
    "ratio": lambda data: er.ratio(data, "score", "words", by="family:size", groups="passage"),
}
BOARDS = {
    "win rates": lambda data: er.win_rate(data, **SIDES, groups="prompt"),
    "win rates by strata": lambda data: er.win_rate(data, **SIDES, groups="prompt", by="language:level"),
    "ratings": lambda data: er.bradley_terry(data, **SIDES, groups="prompt"),
}


def same(found, expected, told=None):
    if hasattr(expected, "table"):
        pd.testing.assert_frame_equal(found.table, expected.table, rtol=1e-10)
        found, expected = found.results, expected.results
    assert list(found.params.index) == list(expected.params.index)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=1e-10, atol=1e-16)
    assert (found.n_clusters, found.nobs) == (expected.n_clusters, expected.nobs)
    assert found.dropped.to_dict() == expected.dropped.to_dict()
    assert found.notes == expected.notes
    assert str(found.summary()) == (told or str(expected.summary()))


IN_PANDAS = {}  # results and what they tell, made once for all engines
# In which columns are joined that others join too.
LIKE_OTHERS = ("items", "shared questions", "pass at k", "win rates", "ratings")


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        pytest.param(make, name, id=f"{engine}-{name}", marks=[pytest.mark.slow] if slow else [])
        for engine, make in LAZY.items()
        for name in [*CALLS, *BOARDS]
        for slow in [engine == "duckdb" and name in LIKE_OTHERS]
    ],
)
def test_joint_ids_give_the_labels_and_numbers_of_pandas(engine, name):
    call, frame = (CALLS[name], log()) if name in CALLS else (BOARDS[name], duels())
    if name not in IN_PANDAS:
        made = call(frame)
        IN_PANDAS[name] = made, str(getattr(made, "results", made).summary())
    same(call(engine(frame)), *IN_PANDAS[name])


@in_engines
def test_joint_ids_that_read_alike_or_differ_between_engines_are_refused(engine):
    frame = pd.DataFrame(
        {"a": ["x:y", "x", "x"], "b": ["z", "y:z", "w"], "score": [0.0, 1.0, 1.0], "c": [0.5, 1.5, 2.5]}
    )
    with pytest.raises(ArgumentError, match=r"would read alike, such as 'x:y:z'. Replace the colons"):
        er.mean(engine(frame), item="a:b")
    # In memory the values are told apart.
    assert er.mean(frame, item="a:b").n_clusters == {"a:b": 3}
    with pytest.raises(ArgumentError, match="column 'c' is Float64, whose text differs between engines"):
        er.mean(engine(frame), item="a:c")
    # Colons in one column, or in two whose joint values still differ, are fine.
    fine = frame.assign(b=["z", "y:w", "w"])
    same(er.mean(engine(fine), item="a:b"), er.mean(fine, item="a:b"))


@in_engines
def test_sums_of_engines_have_joint_ids(engine):
    pytest.importorskip("pyarrow")
    frame = log()[lambda rows: rows["attempt"] == 0]
    roles = {"by": "family:size", "item": JOINT, "groups": "passage"}
    sums, of_rows = (er.summarise(data, **roles) for data in (engine(frame), frame))
    pd.testing.assert_frame_equal(sums.lines, of_rows.lines, rtol=1e-12)
    found = er.mean(sums, by="family:size", groups="passage")
    expected = er.mean(frame, by="family:size", item=JOINT, groups="passage")
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=1e-10)
