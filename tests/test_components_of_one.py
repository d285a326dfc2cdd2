"""Variance components of one model's answers."""

import numpy as np
import pytest

import evalreg as er

SAME = 1e-9


@pytest.fixture
def one():
    both = er.datasets.sampled(n_questions=60, n_samples=4, n_models=2, icc=0.4, seed=1)
    return both[both["model"] == "model-1"].drop(columns="model")


def test_plain_components_are_variances_over_questions_and_answers(one):
    found = er.plan.components(one, model=None, item="question").loc["plain"]
    questions = one.groupby("question")["score"]
    sigma2 = questions.var().mean()
    assert found["sigma2"] == pytest.approx(sigma2, rel=SAME)
    assert found["omega2_uncorrected"] == pytest.approx(questions.mean().var(), rel=SAME)
    assert found["omega2"] == pytest.approx(questions.mean().var() - sigma2 / 4, rel=SAME)
    assert found[["k", "n", "n_clusters"]].tolist() == [4, 60, 60]


def test_clustered_components_square_sums_within_clusters(one):
    found = er.plan.components(one, model=None, item="question", groups="passage").loc["clustered"]
    means = one.groupby(["passage", "question"])["score"].mean()
    total = (means - means.mean()).groupby("passage").sum()
    residual = one["score"] - one.groupby("question")["score"].transform("mean")
    sigma2 = (residual.groupby([one["passage"], one["sample"]]).sum() ** 2).sum() / 3 / 60
    assert found["omega2_uncorrected"] == pytest.approx((total**2).sum() / 60, rel=SAME)
    assert found["sigma2"] == pytest.approx(sigma2, rel=SAME)
    assert found["omega2"] == pytest.approx((total**2).sum() / 60 - sigma2 / 4, rel=SAME)


def test_unequal_numbers_of_answers_count_by_their_harmonic_mean(one):
    rows = one.drop(one.index[one["sample"].eq(one["sample"].iloc[0]) & (np.arange(len(one)) % 3 == 0)])
    found = er.plan.components(rows, model=None, item="question").loc["plain"]
    k = rows.groupby("question").size()
    assert k.nunique() == 2
    noise = (rows.groupby("question")["score"].var() / k).mean()
    assert found["omega2"] == pytest.approx(rows.groupby("question")["score"].mean().var() - noise, rel=SAME)
    assert found["k"] == pytest.approx(len(k) / (1 / k).sum(), rel=SAME)
