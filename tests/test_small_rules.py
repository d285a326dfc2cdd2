"""Rules of a line each, which nothing else would miss at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.covariance.options import drop_nested
from evalreg.errors import NotAvailableError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def test_two_axes_whose_totals_do_not_vary_give_no_variance_of_zero():
    prompt, judge = (axis.ravel() for axis in np.indices((6, 6)))
    board = pd.DataFrame({"prompt": prompt, "judge": judge, "score": (prompt + judge) % 2})
    crossed = er.mean(board, groups="prompt + judge")
    # What lies along neither axis is there, so that nothing says the mean is known without error.
    assert np.isnan(crossed.cov.variance()).all()
    assert np.isnan(crossed.bse).all()
    # Of one axis the bounds of the scores give an interval in place of a standard error.
    assert er.mean(board, groups="prompt").cov.variance().tolist() == [0.0]


class _Counted:
    """Clusters of axes by the number of joint values, with what was asked for."""

    def __init__(self, frame):
        self.frame, self.asked = frame, []

    def n_clusters(self, by):
        self.asked.append(by)
        return len(self.frame[list(by)].drop_duplicates())


@pytest.mark.parametrize("axes", [("a", "b", "c"), ("b", "a", "c"), ("c", "b", "a")])
def test_of_axes_that_are_the_same_the_first_is_kept(axes):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": np.repeat(np.arange(10), 6), "c": rng.integers(0, 5, 60)})
    frame["b"] = 9 - frame["a"]
    scores = _Counted(frame)
    kept, notes = drop_nested(scores, tuple((name,) for name in axes))
    first, last = (name for name in axes if name != "c")
    assert kept == tuple((name,) for name in axes if name != last)
    assert [text for _, text in notes] == [f'"{last}" and "{first}" are the same 10 clusters; one is used.']
    # Joint labels are asked for in the order of the axes, as the pieces of a covariance ask: numbered once, not twice.
    assert all(list(by) == sorted(by, key=axes.index) for by in scores.asked)


@pytest.mark.parametrize("turned", [False, True])
def test_a_jackknife_side_by_side_is_refused_unless_both_are_exact(turned):
    rng = np.random.default_rng(1)
    log = pd.DataFrame({"g": np.repeat(np.arange(12), 5), "score": rng.random(60), "size": rng.integers(1, 9, 60)})
    mean, median = er.mean(log).estimate, er.quantile(log, "score", q=0.5).estimate
    both = median.stack(mean) if turned else mean.stack(median)
    assert not both.refit.exact
    assert mean.stack(er.ratio(log, "score", "size").estimate).refit.exact
    with pytest.raises(NotAvailableError, match="one Newton step"):
        er.covariance(both, "g", cov="jackknife")
