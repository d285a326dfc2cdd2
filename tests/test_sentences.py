"""Sentences and captions: the numbers of the table, no rounding that changes what is said, no markup of a label."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import evalreg as er
from evalreg.report.sentences import PERCENT, PLAIN, POINTS, printed


@pytest.fixture
def passages():
    return er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)


def test_a_regression_says_the_interval_of_statsmodels(passages):
    # Equal clusters: CR2 is CR1 with t(G - 1), which statsmodels computes by itself, up to its factor (n - 1)/(n - k).
    fit = smf.ols("score ~ 1", passages).fit(
        cov_type="cluster", cov_kwds={"groups": pd.factorize(passages["passage"])[0]}, use_t=True
    )
    low, high = 100 * fit.conf_int().to_numpy()[0]
    said = er.fit("score ~ 1", passages, groups="passage").sentence()
    assert f"{100 * fit.params.iloc[0]:.1f}% (95% CI {low:.1f}% to {high:.1f}%;" in said
    assert "200 rows in 40 passage clusters; CR2, t with 39 degrees of freedom)." in said


def test_a_mean_of_one_has_an_interval_and_says_whose(passages):
    # x = 1 - t^2 E (x - x^2)/n with E = 1 + 0.2 (5 - 1) for 200 scores in 40 passages.
    k = stats.t.ppf(0.975, 39) ** 2 * 1.8 / 200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = er.mean(passages.assign(score=1.0), groups="passage").sentence()
    assert said.startswith(f"Mean of score: 100.0% (95% CI {100 / (1 + k):.1f}% to 100.0%;")
    assert "the scores do not vary" in said
    assert "degrees of freedom" not in said


def test_no_error_bar_is_said_in_words(passages):
    lone = passages.assign(model=np.where(passages["passage"] == "passage-001", "lone", "rest"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = er.mean(lone, by="model", groups="passage").sentence("lone")
    assert "(no error bar; 5 rows in 1 passage cluster; it rests on a single cluster)." in said
    assert "nan" not in said
    assert "CI" not in said


def test_ratings_say_their_scale_and_the_reference_has_no_interval():
    log = er.datasets.judge_log(n_models=3, n_prompts=40, seed=2)
    roles = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = er.bradley_terry(log, **roles, scale="elo", reference="model-02")
    said = results.sentence()
    assert "model-02: Bradley-Terry rating 0, which the others are relative to." in said
    assert said.splitlines()[-1].startswith("Ratings in Elo points")
    assert "%" not in said.replace("95% CI", "")


def test_a_difference_says_who_is_higher_as_its_p_value_decides():
    log = er.datasets.paired(n_passages=60, difference=0.1, seed=4)
    third = log[log["model"] == "old"].assign(model="twin")
    log = pd.concat([log, third], ignore_index=True)
    for adjust in (None, "holm", "single-step"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            comparison = er.compare(log, item="question", groups="passage", adjust=adjust)
        table = comparison.to_frame()
        lines = comparison.sentence().splitlines()
        assert len(lines) == len(table) + (adjust is None)
        for line, (pair, row) in zip(lines, table.iterrows(), strict=False):
            decided = row.get("p_adjusted", row["p_value"]) <= 0.05
            side = "higher" if row["difference"] > 0 else "lower"
            assert (f"{pair[0]} has the {side} score" in line) == decided
            assert ("not settled" in line) != decided
            assert f"{100 * row['difference']:.1f} percentage points (95% " in line
            assert ("joint CI" in line) == (adjust == "single-step")


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ((0.71458, 0.64346, 0.77645), PERCENT, ["71.5%", "64.3%", "77.6%"]),
        ((0.9979, 0.9847, 0.99997), PERCENT, ["99.790%", "98.470%", "99.997%"]),
        ((0.95810566, 0.00001146, 0.99999998), PERCENT, ["95.8%", "under 0.1%", "over 99.9%"]),
        ((0.3, 0.0, 0.99999998), PERCENT, ["30.0%", "0.0%", "over 99.9%"]),
        ((0.99999, 0.9, 1.0), PERCENT, ["99.999%", "90.000%", "100.000%"]),
        ((0.7, 0.50004, 0.9999999), PERCENT, ["70.000%", "50.004%", "over 99.999%"]),
        ((0.52, 0.50004, 0.54), PERCENT, ["52.000%", "50.004%", "54.000%"]),
        ((0.02, 0.00003, 0.04), POINTS, ["2.000", "0.003", "4.000"]),
        ((1234.0, 1100.0, 1368.0), PLAIN, ["1,234", "1,100", "1,368"]),
        ((0.0, 0.0, 0.0), PLAIN, ["0", "0", "0"]),
        ((1.0, -np.inf, 3.0), PLAIN, ["1.000", "-infinity", "3.000"]),
    ],
)
def test_rounding_never_moves_a_number_onto_a_line(values, unit, texts):
    assert printed(values, unit) == texts


@pytest.mark.parametrize(
    ("markup", "whole"), [("latex", r"a\_1\% \$x\$"), ("html", "&lt;b&gt;"), ("markdown", r"\*\*bold\*\*")]
)
def test_labels_are_escaped(passages, markup, whole):
    labels = {"latex": "a_1% $x$", "html": "<b>", "markdown": "**bold**"}
    even = np.arange(len(passages)) % 2 == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = er.mean(passages.assign(model=np.where(even, labels[markup], "x\n2")), by="model", groups="passage")
    said = results.sentence(markup=markup)
    assert whole in said
    assert len(said.splitlines()) == 2  # the end of a line in a label is spelled out


def test_what_is_one_is_counted_in_the_singular(passages, tmp_path):
    log = passages.assign(score=passages["score"].where(passages.index != passages.index[0]))
    results = er.mean(log, groups="passage")
    report = results.report(tmp_path / "report.html") or (tmp_path / "report.html").read_text(encoding="utf-8")
    for text in (str(results), str(results.summary()), results.sentence(), str(report)):
        assert not re.search(r"\b1 (?!is |has |was )[a-z]+s\b", text)
    assert "1 row dropped (1 without score)" in str(results)
