"""pass@k, pass^k and consistency of several k at once: enumeration, intervals of one, contrasts, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

RIGHT = {"any": any, "all": all, "same": lambda answers: len(set(answers)) == 1}
NAMES = {"any": "pass@{}", "all": "pass^{}", "same": "same@{}"}
ROLES = {"item": "question", "sample": "sample"}


@pytest.fixture
def log() -> pd.DataFrame:
    """Four to six answers to each of 40 questions in 13 passages, by two models."""
    rng = np.random.default_rng(4)
    rows = [
        (model, question, question // 3, sample, float(rng.uniform() < chance))
        for model in ("new", "old")
        for question, chance in enumerate(rng.beta(1, 1, 40))
        for sample in range(4 + question % 3)
    ]
    return pd.DataFrame(rows, columns=["model", "question", "passage", "sample", "score"])


def share(answers: pd.Series, k: int, require: str) -> float:
    return float(np.mean([RIGHT[require](chosen) for chosen in itertools.combinations(answers, k)]))


@pytest.mark.parametrize("require", ["any", "all", "same"])
def test_the_curve_and_its_covariance_are_those_of_all_subsets(log, require):
    log = log[log["model"] == "new"]
    ks = [1, 2, 4]
    found = er.pass_at_k(log, **ROLES, k=ks, require=require, groups="passage")
    of_questions = np.array([[share(rows, k, require) for k in ks] for _, rows in log.groupby("question")["score"]])
    assert found.params.index.tolist() == [NAMES[require].format(k) for k in ks]
    assert found.params.to_numpy() == pytest.approx(of_questions.mean(axis=0), abs=1e-12)
    influence = pd.DataFrame((of_questions - of_questions.mean(axis=0)) / 40).groupby(np.arange(40) // 3).sum()
    expected = influence.T.to_numpy() @ influence.to_numpy()
    assert found.with_cov(cov="CR0").cov_params().to_numpy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("require", ["any", "all", "same"])
def test_each_k_has_the_interval_that_it_has_alone(log, require):
    both = er.pass_at_k(log, **ROLES, k=(2, 4), require=require, by="model", groups="passage")
    assert both.params.index.tolist() == ["new:2", "new:4", "old:2", "old:4"]
    for k, size in ((2, 2), (4, [4])):
        alone = er.pass_at_k(log, **ROLES, k=size, require=require, by="model", groups="passage")
        assert alone.params.index.tolist() == ["new", "old"]
        pairs = both.pairwise().loc[(f"new:{k}", f"old:{k}")]
        assert pairs.to_numpy() == pytest.approx(alone.pairwise().iloc[0].to_numpy(), abs=1e-9)
        own = both.conf_int().loc[[f"new:{k}", f"old:{k}"]].to_numpy()
        assert own == pytest.approx(alone.conf_int().to_numpy(), abs=1e-9)
        assert both.bse.loc[[f"new:{k}", f"old:{k}"]].to_numpy() == pytest.approx(alone.bse.to_numpy(), abs=1e-12)


def test_the_gap_is_a_contrast_wherever_the_rows_live(log):
    log, options = log[log["model"] == "new"], ROLES | {"k": range(1, 5), "require": "all", "groups": "passage"}
    curve = er.pass_at_k(log, **options)
    gap = curve.contrast("`pass^1` - `pass^4`")
    assert gap.params.iloc[0] == pytest.approx(curve.params["pass^1"] - curve.params["pass^4"])
    gaps = [curve, er.pass_at_k(pl.from_pandas(log).lazy(), **options), er.pass_at_k(log, **options, by="model")]
    for pairs in (found.pairwise().to_numpy() for found in gaps):
        assert pairs == pytest.approx(curve.pairwise().to_numpy(), abs=1e-12)
    assert gap.conf_int().to_numpy()[0] == pytest.approx(curve.pairwise()[["lower", "upper"]].to_numpy()[2], abs=1e-12)
