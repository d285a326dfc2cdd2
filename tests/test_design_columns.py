"""Columns of a formula that takes columns as they are, held against patsy's own to the last bit."""

import re

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.formula.api as smf

import evalreg as er
from evalreg.data.formula import parse_formula

FORMULAS = [
    "score ~ x + C(model)",
    "score ~ model * x",
    "score ~ C(model) * C(family) * x",
    "score ~ C(shots) + model:family",
    "score ~ shots:x + C(shots > 2)",
    "score ~ 0 + C(shots)",
    "score ~ 0 + model + family:x",
    "score ~ C(model, Treatment('m2')) + C(family, Sum)",
    "score ~ C(shots, Poly) * x",
    "score ~ `a name` + C(`a name`):x",
    "score ~ chosen + C(chosen):x",
    "score ~ C(model, levels=['m2', 'a', 'B', 'm10'])",
    "score ~ model / x",
    "score ~ x + (model == 'a') + C(family)",
]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 400
    made = pd.DataFrame(
        {
            "score": rng.normal(size=n),
            "x": rng.normal(size=n),
            "shots": rng.integers(0, 5, n),
            "model": rng.choice(["m10", "m2", "B", "a"], n),
            "family": rng.choice(["u", "v", "w"], n),
            "passage": rng.integers(0, 60, n),
        }
    )
    # Objects, which patsy knows how to sort, whatever type pandas gives to text.
    made[["model", "family"]] = made[["model", "family"]].astype(object)
    made["a name"] = made["family"]
    made["chosen"] = pd.Categorical(made["family"], categories=["w", "u", "v", "unused"])
    return made


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_columns_are_those_of_patsy(frame: pd.DataFrame, formula: str) -> None:
    used = frame.assign(chosen=frame["chosen"].cat.remove_unused_categories())
    right = patsy.dmatrices(parse_formula(formula).text, used, eval_env=0)[1]
    solution = np.linalg.lstsq(right, frame["score"].to_numpy(), rcond=None)[0]
    results = er.fit(formula, frame, groups="passage", cov="CR1")
    assert list(results.params.index) == right.design_info.column_names
    assert results.params.to_numpy() == pytest.approx(solution, rel=1e-10, abs=1e-12)
    np.testing.assert_array_equal(results.statsmodels.model.exog, right)


def test_patsy_walks_over_the_labels_of_no_row(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    own = patsy.NAAction.is_categorical_NA
    monkeypatch.setattr(patsy.NAAction, "is_categorical_NA", lambda self, x: calls.append(x) or own(self, x))
    er.fit("score ~ x + C(model) + family + C(shots)", frame, groups="passage", cov="CR1")
    assert not calls


@pytest.mark.parametrize("term", ["C(half)", "C(whole - 1)", "C(np.floor(half * 3))", "C(flag)", "C(half, Sum)"])
def test_levels_of_numbers_are_named_as_statsmodels_names_them(rng, term):
    log = pd.DataFrame({"score": rng.normal(size=40), "half": rng.integers(0, 3, 40) / 2, "whole": np.arange(40) % 4})
    log["flag"] = log["half"] > 0
    assert list(er.fit(f"score ~ {term}", log).params.index) == list(smf.ols(f"score ~ {term}", log).fit().params.index)


def test_a_comparison_on_the_left_is_refused_with_the_numbers_it_stands_for():
    log = er.datasets.passages(seed=1)
    log["word"] = log["score"].map({0: "no", 1: "yes"})
    for left in ('I(word == "yes")', "I(score > 0.5)", "C(word)"):
        with pytest.raises(er.errors.FormulaError, match="one column of numbers") as refused:
            er.fit(f"{left} ~ n_words", log)
        number = re.search(r"of (I\(1 \* .*\))\.$", str(refused.value))[1]
        number = number.replace("COLUMN == VALUE", "word == 'yes'")
        results = er.fit(f"{number} ~ n_words", log)
        for params in (results.params, results.statsmodels.params):
            assert params.tolist() == pytest.approx(er.fit("score ~ n_words", log).params.tolist(), abs=1e-12)
