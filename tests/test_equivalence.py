"""Margins: two one-sided tests against statsmodels, verdicts against intervals, and the number of questions."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower, normal_sample_size_one_tail
from statsmodels.stats.weightstats import DescrStatsW

import evalreg as er
from evalreg.planning.power import multiple_to_tell


def means(rng: np.random.Generator, centres: list[float], n: int = 80) -> pd.DataFrame:
    return pd.DataFrame(
        {"model": np.repeat([f"m{i}" for i in range(len(centres))], n), "score": rng.normal(np.repeat(centres, n), 0.1)}
    )


@pytest.mark.parametrize("bounds", [(-0.03, 0.03), (-0.02, 0.05), (-0.5, 0.001)])
def test_two_one_sided_tests_are_those_of_statsmodels(rng: np.random.Generator, bounds: tuple[float, float]) -> None:
    scores = rng.normal(0.01, 0.1, 60)
    results = er.mean(pd.DataFrame({"score": scores}))
    row = results.equivalence(bounds).iloc[0]
    p, (_, p_low, _), (_, p_high, _) = DescrStatsW(scores).ttost_mean(*bounds)
    assert row["p_value"] == pytest.approx(p, rel=1e-9)
    above = results.equivalence(-bounds[0], kind="non-inferiority").iloc[0]
    assert above["p_value"] == pytest.approx(p_low, rel=1e-9)
    assert max(p_low, p_high) == pytest.approx(p)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_verdicts_are_where_the_interval_lies(rng: np.random.Generator, alpha: float) -> None:
    frame = means(rng, list(np.linspace(-0.08, 0.08, 33)))
    results = er.mean(frame.assign(item=np.tile(np.arange(80), 33)), by="model", item="item", cov="CR1")
    margin = 0.04
    table = results.equivalence(margin, alpha=alpha)
    inside = (table["lower"] > -margin) & (table["upper"] < margin)
    outside = (table["upper"] < -margin) | (table["lower"] > margin)
    expected = np.where(inside, "shown", np.where(outside, "shown to fail", "cannot tell"))
    assert table["verdict"].tolist() == expected.tolist()
    assert set(expected) == {"shown", "shown to fail", "cannot tell"}
    critical = stats.t.ppf(1 - alpha, results.dof)
    np.testing.assert_allclose(table["upper"] - table["lower"], 2 * critical * results.bse)
    one = results.equivalence(margin, kind="non-inferiority", alpha=alpha)
    expected = np.where(
        one["lower"] > -margin, "shown", np.where(one["upper"] < -margin, "shown to fail", "cannot tell")
    )
    assert one["verdict"].tolist() == expected.tolist()
    np.testing.assert_allclose(one["p_value"], stats.t.sf((results.params + margin) / results.bse, results.dof))


@pytest.mark.slow
def test_the_chance_to_show_what_is_false_is_at_most_alpha() -> None:
    # At the bound itself: 400 logs, 5%; more than 35 have a probability below 0.001.
    wrong = 0
    for seed in range(400):
        log = er.datasets.paired(n_passages=30, questions_per_passage=3, difference=-0.05, icc=0.3, seed=seed)
        comparison = er.compare(log, item="question", groups="passage", baseline="old")
        wrong += comparison.equivalence(0.05, kind="non-inferiority")["verdict"].iloc[0] == "shown"
    assert wrong <= 35


def test_the_number_of_questions_gives_the_power_that_it_promises(rng: np.random.Generator) -> None:
    n, distance, alpha = 150, 0.03, 0.05
    scores = pd.DataFrame({"score": rng.normal(0.5, 0.4, n)})
    sd, centre = scores["score"].std(), float(scores["score"].mean())

    def multiple(results: er.Results, bound: float) -> float:
        return multiple_to_tell(centre, results.cov.widths(), float(results.dof.iloc[0]), bound, alpha)

    normal, own = er.mean(scores, dof="normal"), er.mean(scores)
    for bound in (centre - distance, centre + distance):
        assert n * multiple(normal, bound) == pytest.approx(
            normal_sample_size_one_tail(distance, 0.8, alpha, sd), rel=1e-6
        )
        # The noncentral t of statsmodels is not quite the shifted one.
        exact = TTestPower().solve_power(distance / sd, alpha=alpha, power=0.8, alternative="larger")
        assert n * multiple(own, bound) == pytest.approx(exact, rel=1e-3)
    assert math.isinf(multiple(own, centre))
    assert math.isinf(multiple(own, centre + 1e-12))


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_rates_are_shown_to_be_small_where_their_interval_says_so(rng, alpha):
    for n_failures in (1, 2, 4, 8, 20):
        score = np.zeros(120)
        score[rng.choice(120, n_failures, replace=False)] = 1.0
        log = pd.DataFrame({"score": score, "passage": np.arange(120) // 3})
        for groups in (None, "passage"):
            results = er.mean(log, groups=groups)
            upper = results.conf_int(alpha=2 * alpha)[1].iloc[0]
            for margin, verdict in ((upper * 1.001, "shown"), (upper * 0.999, "cannot tell")):
                row = results.equivalence(margin, alpha=alpha).iloc[0]
                assert (row["verdict"], row["upper"]) == (verdict, upper)
                assert row["p_value"] == pytest.approx(alpha, rel=0.05)
            assert results.equivalence(1.0, alpha=alpha)["p_value"].iloc[0] == 0.0
