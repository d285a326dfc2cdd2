"""What every estimate made of others keeps, whatever it is: row order, names of clusters, copies, frames, refusals."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evalreg as er
from tests.contract.cases import DERIVED

pytestmark = [
    pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning"),
    pytest.mark.parametrize("case", DERIVED, ids=lambda case: case.name),
]

# Sums in another order; iterations from other starts.
REORDERED = 1e-7


def assert_same(found: Any, expected: Any, tolerance: float = REORDERED) -> None:
    for name in ("params", "bse"):
        pd.testing.assert_series_equal(getattr(found, name), getattr(expected, name), rtol=tolerance, atol=1e-10)
    pd.testing.assert_frame_equal(found.conf_int(), expected.conf_int(), rtol=tolerance, atol=1e-8)


def test_row_order_changes_nothing(case):
    frame = case.frame()
    assert_same(case.run(frame.sample(frac=1, random_state=3), "passage"), case.run(frame, "passage"))


def test_clusters_may_have_any_names(case):
    frame = case.frame()
    codes = pd.factorize(frame["passage"])[0]
    assert_same(case.run(frame.assign(passage=1000 - 7 * codes), "passage"), case.run(frame, "passage"))


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.Table.from_pandas, lambda frame: frame.to_dict("list")])
def test_any_frame_in_memory_gives_the_numbers_of_pandas(case, kind):
    frame = case.frame()
    assert_same(case.run(kind(frame), "passage"), case.run(frame, "passage"))


def test_the_data_stay_as_they_are_and_copies_say_the_same(case):
    frame = case.frame()
    found = case.run(frame, "passage")
    pd.testing.assert_frame_equal(frame, case.frame())
    assert_same(pickle.loads(pickle.dumps(found)), found, 0)
    pickle.loads(pickle.dumps(found)).with_cov(cov="CR1")


@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2"])
def test_another_covariance_later_is_the_one_asked_for_at_once(case, cov):
    found = case.run(case.frame(), "passage")
    later = found.with_cov(cov=cov)
    assert later.params.equals(found.params)
    assert np.sqrt(np.diag(later.cov_params())) == pytest.approx(later.bse.to_numpy(), rel=1e-10)
    assert (later.bse > 0).all()
    if cov == "CR2":
        assert_same(later, found, 1e-10)
    # Means by item are of independent rows where that is asked; a calibration error is less the noise of its clusters.
    if case.name not in ("combinations of means", "calibration error"):
        assert_same(found.with_cov(groups=None), case.run(case.frame(), None), 1e-10)


def test_everything_that_results_say_is_said(case):
    found = case.run(case.frame(), "passage")
    ends = found.conf_int()
    assert ((ends[0] <= found.params) & (found.params <= ends[1])).all()
    wider = found.conf_int(0.01)
    assert ((wider[0] <= ends[0] + 1e-12) & (wider[1] >= ends[1] - 1e-12)).all()
    first = found.params.index[0]
    assert first in str(found.summary())
    assert list(found.to_frame().index) == list(found.params.index)
    assert found.t_test(f"`{first}`").effect == pytest.approx(found.params.iloc[0])
    moved = found.transform(lambda params: params.iloc[:1] * 2)
    assert moved.bse.iloc[0] == pytest.approx(2 * found.bse.iloc[0], rel=1e-6)
    if len(found.params) > 1:
        assert len(found.pairwise()) == len(found.params) * (len(found.params) - 1) // 2
        assert found.ranks()["rank"].min() == 1


def test_one_cluster_and_names_that_are_no_columns_are_refused(case):
    frame = case.frame()
    with pytest.raises(er.errors.EvalregError, match="passage"):
        case.run(frame.assign(passage="p0"), "passage")
    with pytest.raises(er.errors.MissingColumnError, match="passge"):
        case.run(frame, "passge")
