"""`subset`: the numbers of the frame filtered beforehand, and counts of what was kept."""

import inspect

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, ArgumentTypeError, EmptyDataError, MissingColumnError, NonNumericError

RULE = 'language == "en" and tokens < 90'


@pytest.fixture(scope="module")
def scored():
    frame = er.datasets.paired(n_passages=30, seed=1)
    rng = np.random.default_rng(1)
    question = pd.factorize(frame["question"])[0]
    frame["language"] = np.where(question % 3 == 0, "de", "en")
    frame["tokens"] = rng.integers(10, 120, question.max() + 1)[question]
    return frame.set_index(np.arange(len(frame))[::-1] + 1000)


@pytest.fixture(scope="module")
def kept(scored):
    return scored[(scored["language"] == "en") & (scored["tokens"] < 90)]


@pytest.fixture(scope="module")
def judged():
    log = er.datasets.judge_log(n_models=4, n_judges=3, n_prompts=60, seed=3)
    return log.assign(language=np.where(pd.factorize(log["prompt"])[0] % 3 == 0, "de", "en"))


def assert_same(found, expected):
    np.testing.assert_array_equal(found.params, expected.params)
    np.testing.assert_array_equal(found.cov_params(), expected.cov_params())
    assert found.nobs == expected.nobs


def test_means_are_those_of_the_filtered_frame_and_what_was_left_out_is_counted(scored, kept):
    found = er.mean(scored, by="model", item="question", groups="passage", subset=RULE)
    assert_same(found, er.mean(kept, by="model", item="question", groups="passage"))
    assert found.dropped["subset"] == len(scored) - len(kept)
    text = str(found.summary(details=True))
    assert f"Subset: {RULE} ({len(kept)} of {len(scored)} rows)" in text
    assert "Rows dropped: none" in text


@pytest.mark.parametrize("formula", ["score ~ 1", "score ~ model + tokens", "score ~ model | question"])
def test_regressions_are_those_of_the_filtered_frame(scored, kept, formula):
    assert_same(er.fit(formula, scored, groups="passage", subset=RULE), er.fit(formula, kept, groups="passage"))
    assert_same(er.fit(formula, data=scored, groups="passage", subset=RULE), er.fit(formula, kept, groups="passage"))


@pytest.mark.parametrize("estimator", [er.win_rate, er.bradley_terry])
def test_boards_are_those_of_the_filtered_frame(judged, estimator):
    roles = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
    found = estimator(judged, subset='language != "de"', **roles)
    assert_same(found, estimator(judged[judged["language"] != "de"], **roles))
    own = judged[judged["language"] != "de"]
    pd.testing.assert_frame_equal(found.head_to_head(), estimator(own, **roles).head_to_head())


@pytest.mark.parametrize("kind", ["array", "series", "shuffled"])
def test_labels_and_weights_that_are_no_column_are_those_of_all_rows(scored, kept, kind):
    rng = np.random.default_rng(5)
    passage, weight = scored["passage"], pd.Series(rng.uniform(1, 3, len(scored)), scored.index)
    make = {
        "array": lambda one: one.to_numpy(),
        "series": lambda one: one,
        "shuffled": lambda one: one.sample(frac=1, random_state=1),
    }[kind]
    weighted = kept.assign(w=weight[kept.index])
    expected = er.mean(weighted, by="model", groups="passage", weights="w")
    found = er.mean(scored, by="model", groups=make(passage), weights=make(weight), subset=RULE)
    assert_same(found, expected)
    other = er.mean(weighted, by="model", groups="question", weights="w")
    assert_same(found.with_cov(groups=make(scored["question"])), other)


def test_rows_are_told_by_their_place_in_the_whole_frame(scored, kept):
    found = er.fit("score ~ tokens", scored, groups="passage", subset=RULE)
    places = np.flatnonzero((scored["language"] == "en") & (scored["tokens"] < 90))
    assert found.influence().index.tolist() == places.tolist()


def test_what_is_left_out_may_be_anything(scored):
    broken = scored.assign(score=scored["score"].astype(object))
    broken.loc[broken["language"] == "de", "score"] = "error"
    with pytest.raises(NonNumericError):
        er.mean(broken, groups="passage")
    own = scored[scored["language"] == "en"]
    assert_same(er.mean(broken, groups="passage", subset='language == "en"'), er.mean(own, groups="passage"))


@pytest.mark.parametrize("rule", [RULE, 'not language == "en" or tokens == missing', 'model != "x" and score >= 0'])
@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_an_engine_keeps_the_same_rows(scored, engine, rule):
    library = pytest.importorskip(engine)
    lazy = library.from_pandas(scored).lazy() if engine == "polars" else library.from_df(scored)
    expected = er.mean(scored, groups="passage", subset=rule)
    assert_same(er.mean(lazy, groups="passage", subset=rule), expected)


@pytest.mark.parametrize(
    ("subset", "error", "said"),
    [
        ('language = "en"', ArgumentError, "`subset` cannot be read.*Equality is written =="),
        ('langage == "en"', MissingColumnError, '`subset` names "langage".*Did you mean "language"'),
        ('language == "fr"', EmptyDataError, 'true for none of the 300 rows. No row has fr in "language"'),
        ('tokens < "90"', ArgumentError, "`subset` compares like with like: column `tokens` holds numbers"),
        (True, ArgumentTypeError, "`subset` must be text"),
    ],
)
def test_a_mistake_says_what_to_write(scored, subset, error, said):
    with pytest.raises(error, match=said):
        er.mean(scored, by="model", item="question", subset=subset)


def test_a_log_of_several_prompts_is_compared_on_one():
    scored = er.datasets.paired(n_passages=20, seed=1)
    both = pd.concat([scored.assign(prompt="short"), scored.assign(prompt="long", score=1 - scored["score"])])
    log = er.Log(both, item="question")
    with pytest.raises(ArgumentError, match="2 prompts"):
        log.compare(groups="passage")
    found = log.compare(groups="passage", subset='prompt == "short"')
    expected = er.compare(scored, item="question", groups="passage")
    np.testing.assert_array_equal(found.table["difference"], expected.table["difference"])


@pytest.fixture(scope="module")
def marked(scored):
    """With everything that other scores need, made before rows are chosen."""
    position = np.arange(len(scored))
    return scored.assign(
        truth=1.0, judge=0.5 * scored["score"], human=np.where(position % 3 == 0, np.nan, scored["score"])
    )


TAKE_SUBSETS = [
    name
    for name in er.__all__
    if inspect.isfunction(getattr(er, name)) and "subset" in inspect.signature(getattr(er, name)).parameters
]


def test_estimators_take_subsets():
    assert {"mean", "fit", "compare", "win_rate", "ratio", "quantile", "pass_at_k"} <= set(TAKE_SUBSETS)
