"""Means about a benchmark that the questions were drawn from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import main
from evalreg.errors import ArgumentError, NotAvailableError

FULL = "the full benchmark"


@pytest.fixture
def log():
    return er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)


@pytest.mark.parametrize(("n_population", "factor"), [({"passage": 50}, 0.2), (400, 0.5)])
@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3"])
def test_variances_are_multiplied_by_what_was_not_drawn(log, n_population, factor, cov):
    plain = er.mean(log, groups="passage", cov=cov)
    found = er.mean(log, groups="passage", cov=cov, target=FULL, n_population=n_population)
    np.testing.assert_allclose(found.bse**2, factor * plain.bse**2, rtol=1e-12)
    np.testing.assert_allclose(
        found.with_cov(cov="CR1").bse ** 2, factor * plain.with_cov(cov="CR1").bse ** 2, rtol=1e-12
    )
    assert any(FULL in sentence for sentence in found.summary().sentences)


def test_the_variance_of_clusters_drawn_whole_is_that_of_all_possible_draws():
    # Brute force: every way to draw 4 of 9 passages; the mean estimated variance is the variance of the means.
    from itertools import combinations

    rng = np.random.default_rng(1)
    passage = np.repeat(np.arange(9), 3)
    score = rng.normal(size=27) + rng.normal(size=9)[passage]
    frame = pd.DataFrame({"score": score, "passage": passage})
    means, variances = [], []
    for drawn in combinations(range(9), 4):
        part = frame[frame["passage"].isin(drawn)]
        with pytest.warns(er.errors.FewClustersWarning):
            found = er.mean(part, groups="passage", target=FULL, n_population={"passage": 9})
        means.append(found.params["mean"])
        variances.append(found.bse["mean"] ** 2)
    assert np.mean(variances) == pytest.approx(np.var(means), rel=1e-10)


def test_the_variance_of_questions_drawn_one_by_one_is_that_of_all_possible_draws():
    from itertools import combinations

    score = np.random.default_rng(2).normal(size=9)
    means, variances = [], []
    for drawn in combinations(range(9), 4):
        frame = pd.DataFrame({"score": score[list(drawn)]})
        found = er.mean(frame, target=FULL, n_population=9)
        means.append(found.params["mean"])
        variances.append(found.bse["mean"] ** 2)
    assert np.mean(variances) == pytest.approx(np.var(means), rel=1e-10)


def test_differences_have_the_same_factor():
    log = er.datasets.paired(n_passages=40, questions_per_passage=5, seed=1)
    asked = {"item": "question", "groups": "passage"}
    plain, found = er.compare(log, **asked), er.compare(log, **asked, target=FULL, n_population={"passage": 160})
    np.testing.assert_allclose(found.table["se"] ** 2, 0.75 * plain.table["se"] ** 2, rtol=1e-12)
    means = er.mean(log, by="model", **asked, target=FULL, n_population={"passage": 160})
    np.testing.assert_allclose(means.contrast("new - old").bse.iloc[0], found.table["se"].iloc[0], rtol=1e-12)


def test_only_these_questions_is_the_noise_of_the_answers():
    # By hand: the variance of the answers to each question over their number, averaged.
    log = er.datasets.sampled(n_models=2, seed=3)
    asked = {"by": "model", "item": "question", "sample": "sample"}
    found = er.mean(log, **asked, target="these questions")
    each = log.groupby(["model", "question"])["score"].agg(["var", "count"])
    by_hand = (each["var"] / each["count"]).groupby("model").sum() / 100**2
    np.testing.assert_allclose(found.bse**2, by_hand, rtol=1e-12)
    np.testing.assert_allclose(found.params, er.mean(log, **asked).params, rtol=1e-12)
    assert "Target: these questions" in found.summary().sentences[0]
    single = log.drop(log.index[(log["question"] == log["question"].iloc[0])][1:])
    with pytest.raises(NotAvailableError, match="two answers or more"):
        er.mean(single, **asked, target="these questions")
    with pytest.raises(ArgumentError, match="cannot matter"):
        er.mean(log, **asked, groups="question", target="these questions")
    with pytest.raises(ArgumentError, match="`n_population` cannot matter"):
        er.mean(log, **asked, n_population=400, target="these questions")
    with pytest.raises(ArgumentError, match="needs `item`"):
        er.mean(log, by="model", target="these questions")
    with pytest.raises(NotAvailableError, match="leaves nothing to pair"):
        er.compare(log, item="question", sample="sample", target="these questions")


@pytest.mark.parametrize("size", [200, 199, 0, -5, 400.5, True, {"passage": 40}, {"passage": "x"}])
def test_a_benchmark_that_is_no_larger_than_the_sample_is_refused(log, size):
    with pytest.raises(ArgumentError, match=r"whole number above the sample, which has (200 questions|40 passage)"):
        er.mean(log, groups="passage", target=FULL, n_population=size)


def test_what_does_not_go_together_is_refused(log):
    with pytest.raises(ArgumentError, match="go together"):
        er.mean(log, groups="passage", target=FULL)
    with pytest.raises(ArgumentError, match="go together"):
        er.mean(log, groups="passage", n_population=400)
    with pytest.raises(NotAvailableError, match="`strata`"):
        er.mean(log, strata="subject", target=FULL, n_population=400)
    answers = er.datasets.sampled(n_models=2, seed=3)
    with pytest.raises(NotAvailableError, match="average them first"):
        er.mean(answers, by="model", item="question", sample="sample", target=FULL, n_population=400)
    found = er.mean(log, groups="passage", target=FULL, n_population={"passage": 80})
    with pytest.raises(NotAvailableError, match="groups='passage'"):
        found.with_cov(groups=None)
    with pytest.raises(NotAvailableError, match="one clustering"):
        er.mean(log.assign(judge=np.arange(200) % 7), groups="passage + judge", target=FULL, n_population=400)


def test_clusters_that_do_not_matter_are_told(log):
    found = er.mean(log, groups="passage", target=FULL, n_population=400)
    assert any("leave `groups` out" in sentence for sentence in found.summary().sentences)


def test_the_commands_take_the_size_of_the_benchmark(log, tmp_path, capsys):
    log.to_csv(tmp_path / "log.csv", index=False)
    asked = ["mean", str(tmp_path / "log.csv"), "--groups", "passage", "--population"]
    assert main([*asked, "passage=80"]) == 0
    found = er.mean(log, groups="passage", target=FULL, n_population={"passage": 80})
    printed = capsys.readouterr().out
    assert f"{found.bse['mean']:.4f}" in printed
    assert FULL in printed
    assert main([*asked, "many"]) == 3
    assert "passage=896" in capsys.readouterr().err
