"""Sentences and captions: the numbers of the table, no rounding that changes what is said, no markup of a label."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import evalreg as er
from evalreg.errors import ArgumentError
from evalreg.report.sentences import PERCENT, PLAIN, POINTS, printed


@pytest.fixture
def passages():
    return er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)


@pytest.fixture
def board():
    log = er.datasets.judge_log(n_models=4, n_prompts=40, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")


def test_a_regression_says_the_interval_of_statsmodels(passages):
    # Equal clusters: CR2 is CR1 with t(G - 1), which statsmodels computes by itself, up to its factor (n - 1)/(n - k).
    fit = smf.ols("score ~ 1", passages).fit(
        cov_type="cluster",
        cov_kwds={"groups": pd.factorize(passages["passage"])[0]},
        use_t=True,
    )
    low, high = 100 * fit.conf_int().to_numpy()[0]
    said = er.fit("score ~ 1", passages, groups="passage").sentence()
    assert f"{100 * fit.params.iloc[0]:.1f}% (95% CI {low:.1f}% to {high:.1f}%;" in said
    assert "200 rows in 40 passage clusters; CR2, t with 39 degrees of freedom)." in said


def test_per_cent_is_for_scores_between_0_and_1_only(passages):
    results = er.mean(passages.assign(score=4 * passages["score"]), groups="passage")
    assert "%" not in results.sentence().replace("95% CI", "")


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


def test_each_model_has_the_clusters_that_it_was_scored_in(passages):
    first = passages["passage"] <= "passage-004"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = er.mean(passages.assign(model=np.where(first, "few", "many")), by="model", groups="passage")
    assert "20 rows in 4 passage clusters" in results.sentence("few")
    assert results.sentence("few").endswith("With only 4 passage clusters the interval is rough.")
    assert results.sentence("many").endswith("degrees of freedom, score interval).")


def test_crossed_clusters_are_all_named_and_few_judges_called_rough(board):
    lines = board.sentence().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("model-01: win rate ")
    for line in lines:
        assert "comparisons in 40 prompt and 3 judge clusters, crossed" in line
        assert "t with about" in line
        assert line.endswith("With only 3 judge clusters the interval is rough.")


def test_models_stand_from_the_best_down(board):
    named = [line.split(":")[0] for line in board.sentence().splitlines()]
    assert named == list(board.params.sort_values(ascending=False).index)


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


def test_rectified_means_count_human_labels_apart():
    rng = np.random.default_rng(1)
    judge = rng.integers(0, 2, 400).astype(float)
    human = np.where(np.arange(400) < 80, judge, np.nan)
    human[:10] = 1 - human[:10]
    data = pd.DataFrame({"judge": judge, "human": human})
    said = er.rectified_mean(data, judge="judge", human="human").sentence()
    assert "80 human labels and 320 rows that the judge alone scored" in said


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


def test_wrong_names_and_forms_are_refused(board):
    with pytest.raises(ArgumentError, match=r"model-01.*got 'ada'"):
        board.sentence("ada")
    with pytest.raises(ArgumentError, match="markup"):
        board.caption(markup="word")


def test_captions_say_level_clusters_and_what_was_left_out(passages):
    scores = passages.assign(score=passages["score"].where(np.arange(len(passages)) > 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = er.mean(scores, groups="passage").caption(alpha=0.1)
    assert said.startswith("Mean of score with 90% confidence intervals.")
    assert "CR2, clustered by passage (40 clusters)" in said
    assert said.endswith("197 rows; 3 left out.")


def test_the_caption_of_several_differences_says_whether_they_are_adjusted():
    log = er.datasets.paired(n_passages=30, seed=1)
    log = pd.concat([log, log[log["model"] == "old"].assign(model="third")], ignore_index=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = er.compare(log, item="question", groups="passage")
        joint = er.compare(log, item="question", groups="passage", adjust="single-step")
    assert plain.caption().endswith("p-values are not adjusted for 3 differences.")
    assert "joint 95% confidence" in joint.caption()
    assert "adjusted (single-step) for 3" in joint.caption()


def test_what_is_no_model_is_called_a_coefficient(passages):
    log = er.datasets.judge_log(n_models=3, n_prompts=40, seed=2)
    roles = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ratings = er.bradley_terry(log, **roles, formula="1")
        logit = er.fit("score ~ n_words", passages, groups="passage", family="binomial")
    last = ratings.params.index[-1]
    assert last not in ("model-01", "model-02", "model-03")
    assert f"{last}: coefficient " in ratings.sentence()
    assert "model-01: Bradley-Terry rating " in ratings.sentence()
    assert "n_words: coefficient " in logit.sentence()
