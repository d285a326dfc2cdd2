"""What joint tests with few clusters say of themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er
from evalreg.errors import FewClustersWarning
from evalreg.inference.wald import falsely_shown

REFERENCE = Path(__file__).parent / "reference"


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("n_passages", [6, 12, 30])
def test_means_differences_and_regressions_have_clubsandwichs_joint_test(n_passages: int) -> None:
    """Wald_test(test = "HTZ") of four models over few unequal passages; see reference/joint.R."""
    expected = json.loads((REFERENCE / "joint.json").read_text())
    log = pd.read_csv(REFERENCE / "joint.csv").query(f"n_passages == {n_passages}")
    asked: dict[str, Any] = {"item": "question", "groups": "passage"}
    means = er.mean(log, by="model", **asked)
    differences = er.compare(log, baseline="d", **asked).results
    tests = {
        "means": (means.wald_test("a = d, b = d, c = d"), differences.wald_test(np.eye(3))),
        "regression": (er.fit("score ~ model + x", log, groups="passage").wald_test(np.eye(5)[1:4]),),
    }
    for name, ours in tests.items():
        theirs = expected[f"{name} {n_passages}"]
        for test in ours:
            assert test.df_num == theirs["df_num"]
            assert test.df_denom == pytest.approx(theirs["df_denom"], rel=1e-9)
            assert test.fvalue == pytest.approx(theirs["F"], rel=1e-9)
            assert float(test.pvalue) == pytest.approx(theirs["p"], rel=1e-9)


@pytest.mark.parametrize(("q", "G"), [(2, 6), (3, 6), (5, 50), (10, 50)])
def test_a_covariance_taken_for_known_rejects_as_often_as_normal_clusters_do(q: int, G: int) -> None:
    rng, n = np.random.default_rng(7), 4000
    scores = rng.normal(size=(n, G, q))
    mean = scores.mean(axis=1)
    left = scores - mean[:, None]
    covariance = np.swapaxes(left, 1, 2) @ left / (G * (G - 1))
    F = np.einsum("ni,ni->n", mean, np.linalg.solve(covariance, mean[..., None])[..., 0]) / q
    share = falsely_shown(q, G - 1, G - 1)
    assert abs(np.mean(stats.f.isf(0.05, q, G - 1) < F) - share) < 3.5 * np.sqrt(share * (1 - share) / n)
    # Chi-squared over q does so more often still, and no test is possible with as many contrasts as clusters.
    assert falsely_shown(q, np.inf, G - 1) > share
    assert falsely_shown(G, G - 1, G - 1) == 1.0


def test_a_covariance_taken_for_known_is_told_where_clusters_are_few() -> None:
    log = er.datasets.passages(n_passages=6, questions_per_passage=20, seed=3)
    log["part"] = np.arange(len(log)) % 4
    with pytest.warns(FewClustersWarning):
        few = er.fit("score ~ C(part)", log, groups="passage", cov="CR1")
    parts = "C(part)[T.1] = 0, C(part)[T.2] = 0, C(part)[T.3] = 0"
    match = r"joint test of 3 contrasts .* estimated from 6 passage clusters. At 5% it rejects about 18% of the time"
    with pytest.warns(FewClustersWarning, match=match) as caught:
        test = few.wald_test(parts)
    assert [str(each.message) for each in caught] == [test.note]
    with pytest.warns(FewClustersWarning, match=r'term "C\(part\)": the joint test of 3 contrasts'):
        few.wald_test_terms()
    with pytest.warns(FewClustersWarning):
        normal, own = few.with_cov(dof="normal"), few.with_cov(cov="CR2", dof="satterthwaite")
    with pytest.warns(FewClustersWarning, match="estimated from 6 passage clusters. At 5% it rejects about 36%"):
        normal.wald_test(parts)
    # The advice leads to a test that holds its level.
    with pytest.warns(FewClustersWarning, match="leave 3 degrees of freedom"):
        advised = own.wald_test(parts)
    assert "taken for known" not in advised.note
    assert advised.pvalue > test.pvalue
