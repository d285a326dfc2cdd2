"""Which functions of statsmodels run beneath plain calls: a profile follows them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalreg as er


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"prompt": np.repeat(np.arange(40), 12), "judge": np.tile(np.arange(12), 40)})
    frame["model"] = np.array(["a", "b", "c"])[rng.integers(0, 3, len(frame))]
    frame["x"], frame["w"] = rng.normal(size=len(frame)), rng.uniform(1, 2, size=len(frame))
    frame["score"] = (rng.random(len(frame)) < 0.6).astype(float)
    return frame


def of_statsmodels(call: Callable[[], Any]) -> Counter[str]:
    """How often each function of statsmodels ran in a call."""
    ran: Counter[str] = Counter()

    def follow(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("statsmodels."):
            ran[frame.f_code.co_qualname] += 1

    call()  # what is imported by the first call is not what runs in it
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
    return ran


def test_a_mean_under_cr1_squares_totals_by_statsmodels(log: pd.DataFrame) -> None:
    assert of_statsmodels(lambda: er.fit("score ~ 1", log, groups="prompt", cov="CR1"))["S_white_simple"] == 1


def test_a_crossed_mean_takes_every_term_of_the_inclusion_exclusion_from_statsmodels(log: pd.DataFrame) -> None:
    assert of_statsmodels(lambda: er.fit("score ~ 1", log, groups="prompt + judge", cov="CR1"))["S_white_simple"] == 3


def test_a_regression_is_a_fit_of_statsmodels_on_compressed_rows_and_its_sandwich_of_totals(log: pd.DataFrame) -> None:
    ran = of_statsmodels(lambda: er.fit("score ~ x + C(model)", log, groups="prompt", cov="CR1"))
    assert ran["RegressionModel.fit"] == 1
    assert ran["S_white_simple"] >= 1


def test_a_regression_of_rows_sums_and_squares_them_by_statsmodels(log: pd.DataFrame) -> None:
    far = "score ~ x + I((x + 300) ** 2)"  # too near to collinear for sums of products
    ran = of_statsmodels(lambda: er.fit(far, log, groups="prompt + judge", weights="w", cov="CR0"))
    assert ran["RegressionModel.fit"] == 1
    assert ran["S_crosssection"] == ran["group_sums"] == 3


def test_a_logistic_regression_is_a_glm_of_statsmodels(log: pd.DataFrame) -> None:
    ran = of_statsmodels(lambda: er.fit("score ~ x", log, groups="prompt", family="binomial", cov="CR1"))
    assert ran["GLM.fit"] == ran["S_crosssection"] == 1
    by_model = of_statsmodels(lambda: er.fit("score ~ C(model)", log, groups="prompt", family="binomial", cov="CR1"))
    assert by_model["GLM.fit"] == 1


def test_contrasts_and_tables_are_those_of_statsmodels(log: pd.DataFrame) -> None:
    results = er.fit("score ~ x", log, groups="prompt")
    assert of_statsmodels(lambda: results.t_test("x = 0"))["ContrastResults.__init__"] == 1
    assert results.t_test(([0, 1], [0.5])).tvalue == results.t_test("x = 0.5").tvalue
    assert of_statsmodels(lambda: results.summary().as_html())["SimpleTable.__init__"] >= 1
