"""Simulated logs are what they say: reproducible, tidy, and with the truth that is stated."""

import inspect
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm

import evalreg as er
from evalreg import datasets
from evalreg.errors import ArgumentError, ArgumentTypeError, EvalregError

MAKERS = [datasets.passages, datasets.judge_log, datasets.paired, datasets.sampled]

# A mean of batches is nearly normal; one seed in 150 000 lies beyond 4.5 standard errors.
SIGMAS = 4.5
# Arithmetic on a handful of numbers.
ROUNDING = 1e-12


N_BATCHES = 60


def batches(log, by):
    """Parts of a log that share no cluster."""
    codes, clusters = pd.factorize(log[by])
    return [part for _, part in log.groupby(codes * N_BATCHES // len(clusters))]


def coded(log, *names):
    """The log with ids as numbers, in whose groups sums are fast."""
    return log.assign(**{name: pd.factorize(log[name])[0] for name in names})


def assert_mean_is(truth, estimates):
    """Independent unbiased estimates have the truth as their mean, within Monte Carlo error."""
    estimates = np.asarray(estimates, dtype=float)
    error = estimates.std(ddof=1) / math.sqrt(len(estimates))
    assert error > 0
    assert abs(estimates.mean() - truth) < SIGMAS * error, (estimates.mean(), truth, error)


def anova_iccs(score, clusters):
    """Intraclass correlation of each batch by the one-way analysis of variance (Snedecor and Cochran)."""
    codes, labels = pd.factorize(clusters)
    size, total, squares = (np.bincount(codes, values) for values in (np.ones(len(score)), score, score**2))
    batch = np.arange(len(labels)) * N_BATCHES // len(labels)
    n, n_groups = np.bincount(batch, size), np.bincount(batch)
    of_means = np.bincount(batch, total**2 / size)
    between = (of_means - np.bincount(batch, total) ** 2 / n) / (n_groups - 1)
    within = (np.bincount(batch, squares) - of_means) / (n - n_groups)
    mean_size = (n - np.bincount(batch, size**2) / n) / (n_groups - 1)
    return (between - within) / (between + (mean_size - 1) * within)


def squared_error_terms(error, clusters):
    """Terms whose mean is the variance of the mean of `error`, when clusters are independent and the truth is known."""
    totals = error.groupby(clusters).sum()
    return totals**2 * len(totals) / len(error) ** 2


def oriented(log):
    """Each comparison twice, as seen by either model: model, opponent, score, prompt, judge."""
    score = log["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0}).to_numpy()
    there = pd.DataFrame({"model": log["left"], "opponent": log["right"], "score": score})
    back = pd.DataFrame({"model": log["right"], "opponent": log["left"], "score": 1 - score})
    keys = log[["prompt", "judge"]]
    return pd.concat([there.join(keys), back.join(keys)], ignore_index=True)


def win_rates(log):
    """Mean over opponents of the mean score against each."""
    return oriented(log).groupby(["model", "opponent"])["score"].mean().groupby("model").mean()


# What all four share


@pytest.mark.parametrize("maker", MAKERS)
def test_a_seed_gives_the_same_log_again(maker):
    pd.testing.assert_frame_equal(maker(seed=5), maker(seed=5))
    assert maker(seed=5).attrs == maker(seed=5).attrs
    assert not maker(seed=5).equals(maker(seed=6))


@pytest.mark.parametrize("maker", MAKERS)
def test_a_generator_gives_the_log_of_its_seed_and_then_another(maker):
    rng = np.random.default_rng(5)
    first, second = maker(seed=rng), maker(seed=rng)
    pd.testing.assert_frame_equal(first, maker(seed=5))
    assert not second.equals(first)


@pytest.mark.parametrize("maker", MAKERS)
def test_the_seed_is_kept_when_it_is_a_number(maker):
    kept = maker(seed=np.int64(7)).attrs["seed"]
    assert kept == 7
    assert type(kept) is int
    assert maker().attrs["seed"] == 0
    assert maker(seed=np.random.default_rng(7)).attrs["seed"] is None


@pytest.mark.parametrize("maker", MAKERS)
def test_the_global_random_state_is_left_alone(maker):
    _, key, position, *_ = np.random.get_state()  # noqa: NPY002
    maker()
    _, key_after, position_after, *_ = np.random.get_state()  # noqa: NPY002
    assert position_after == position
    np.testing.assert_array_equal(key_after, key)


@pytest.mark.parametrize("maker", MAKERS)
def test_the_truth_survives_json(maker):
    attrs = maker().attrs
    assert json.loads(json.dumps(attrs)) == attrs


@pytest.mark.parametrize("maker", MAKERS)
def test_the_docstring_says_that_the_data_are_simulated(maker):
    assert "The data are simulated" in maker.__doc__


@pytest.mark.parametrize("maker", MAKERS)
def test_arguments_are_keyword_only_and_the_seed_comes_last(maker):
    parameters = list(inspect.signature(maker).parameters.values())
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert parameters[-1].name == "seed"


@pytest.mark.parametrize("maker", MAKERS)
def test_ids_are_strings_and_scores_are_floats(maker):
    log = maker()
    for name in log.columns.drop(["score", "n_words"], errors="ignore"):
        assert log[name].map(type).eq(str).all(), name
    if "score" in log:
        assert log["score"].dtype == np.float64
    assert not log.isna().any(axis=None)


def test_ids_sort_as_they_are_numbered():
    log = datasets.passages(n_passages=1200, questions_per_passage=10)
    assert log["passage"].is_monotonic_increasing
    assert log["question"].is_monotonic_increasing
    assert datasets.passages(n_passages=7)["passage"].iloc[-1] == "passage-007"


BAD_VALUES = [
    (datasets.passages, {"n_passages": 0}, "`n_passages` must be a whole number of at least 1; got 0."),
    (datasets.passages, {"n_passages": 2.5}, "`n_passages` must be a whole number of at least 1; got 2.5."),
    (datasets.passages, {"questions_per_passage": -1}, "`questions_per_passage` must be a whole number"),
    (datasets.passages, {"icc": 1.5}, "`icc` must lie in [0, 1); got 1.5."),
    (datasets.passages, {"icc": 1}, "`icc` must lie in [0, 1); got 1."),
    (datasets.passages, {"icc": -0.1}, "`icc` must lie in [0, 1); got -0.1."),
    (datasets.passages, {"icc": float("nan")}, "`icc` must lie in [0, 1); got nan."),
    (datasets.passages, {"mean": 0.0}, "`mean` must lie in (0, 1); got 0.0."),
    (datasets.passages, {"mean": 1.0}, "`mean` must lie in (0, 1); got 1.0."),
    (datasets.passages, {"seed": -1}, "`seed` must be a whole number of at least 0; got -1."),
    (datasets.judge_log, {"n_models": 1}, "`n_models` must be a whole number of at least 2; got 1."),
    (datasets.judge_log, {"n_prompts": 0}, "`n_prompts` must be a whole number of at least 1; got 0."),
    (datasets.judge_log, {"n_judges": 0}, "`n_judges` must be a whole number of at least 1; got 0."),
    (datasets.judge_log, {"spread": -1.0}, "`spread` must lie in [0, inf); got -1.0."),
    (datasets.judge_log, {"judge_sd": -0.1}, "`judge_sd` must lie in [0, inf); got -0.1."),
    (datasets.judge_log, {"prompt_sd": float("inf")}, "`prompt_sd` must lie in [0, inf); got inf."),
    (datasets.judge_log, {"ties": 1.0}, "`ties` must lie in [0, 1); got 1.0."),
    (datasets.judge_log, {"position_effect": float("inf")}, "`position_effect` must lie in (-inf, inf); got inf."),
    (
        datasets.judge_log,
        {"n_models": 4, "pairs_per_prompt": 7},
        "`pairs_per_prompt` must be a whole number from 1 to 6",
    ),
    (datasets.judge_log, {"pairs_per_prompt": 0}, "`pairs_per_prompt` must be a whole number from 1 to 15; got 0."),
    (datasets.paired, {"n_passages": 0}, "`n_passages` must be a whole number of at least 1; got 0."),
    (datasets.paired, {"questions_per_passage": 0}, "`questions_per_passage` must be a whole number of at least 1"),
    (datasets.paired, {"mean": 0.9, "difference": 0.2}, "`mean + difference` must lie in (0, 1); got 1.1."),
    (datasets.paired, {"difference": 1.0}, "`difference` must lie in (-1, 1); got 1.0."),
    (datasets.paired, {"correlation": 1.1}, "`correlation` must lie in [-1, 1]; got 1.1."),
    (datasets.paired, {"icc": 1.0}, "`icc` must lie in [0, 1); got 1.0."),
    (datasets.sampled, {"n_questions": 0}, "`n_questions` must be a whole number of at least 1; got 0."),
    (datasets.sampled, {"n_samples": 0}, "`n_samples` must be a whole number of at least 1; got 0."),
    (datasets.sampled, {"n_models": 3}, "`n_models` must be a whole number from 1 to 2; got 3."),
    (datasets.sampled, {"questions_per_passage": 0}, "`questions_per_passage` must be a whole number of at least 1"),
    (datasets.sampled, {"correlation": -1.5}, "`correlation` must lie in [-1, 1]; got -1.5."),
    (datasets.sampled, {"icc": -0.5}, "`icc` must lie in [0, 1); got -0.5."),
]


@pytest.mark.parametrize(("maker", "arguments", "message"), BAD_VALUES)
def test_a_bad_value_is_an_error_that_states_the_rule_and_the_value(maker, arguments, message):
    with pytest.raises(ArgumentError) as caught:
        maker(**arguments)
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", [None, True, "0", 1.0])
def test_a_seed_is_a_whole_number_or_a_generator(maker, seed):
    with pytest.raises(ArgumentTypeError, match="`seed` must be a whole number or a numpy"):
        maker(seed=seed)


@pytest.mark.parametrize("arguments", [{"n_passages": "60"}, {"n_passages": True}, {"mean": "0.7"}, {"icc": None}])
def test_what_is_no_number_is_an_error_of_type(arguments):
    with pytest.raises(TypeError, match="must be a number; got") as caught:
        datasets.passages(**arguments)
    assert isinstance(caught.value, EvalregError)


# passages


@pytest.mark.parametrize("unequal", [False, True])
def test_passages_are_tidy_and_nested_in_subjects(unequal):
    log = datasets.passages(unequal=unequal)
    assert list(log.columns) == ["passage", "question", "score", "n_words", "subject"]
    assert log["question"].is_unique
    assert log["passage"].nunique() == 60
    by_passage = log.groupby("passage")
    assert (by_passage["subject"].nunique() == 1).all()
    assert (by_passage["n_words"].nunique() == 1).all()
    assert log["subject"].nunique() == 4
    assert set(log["score"]) == {0.0, 1.0}
    assert set(log.attrs["truth"]["subject_means"]) == set(log["subject"])


def test_passages_are_of_one_size_unless_unequal():
    assert set(datasets.passages().groupby("passage").size()) == {8}
    sizes = datasets.passages(n_passages=20_000, unequal=True).groupby("passage").size()
    assert_mean_is(8, sizes)
    # Geometric with mean m: variance m (m - 1).
    assert_mean_is(56, (sizes - 8.0) ** 2)
    assert sizes.min() == 1


@pytest.mark.pairwise
@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("mean", "icc"), [(0.7, 0.2), (0.4, 0.6)])
def test_scores_of_passages_have_the_stated_mean_variance_and_icc(mean, icc, binary, unequal):
    log = datasets.passages(n_passages=9_000, mean=mean, icc=icc, binary=binary, unequal=unequal, seed=1)
    truth, log = log.attrs["truth"], coded(log[["passage", "score"]], "passage")
    assert log["score"].between(0, 1).all()
    assert_mean_is(mean, log["score"].groupby(log["passage"]).mean())
    batch = log["passage"] * N_BATCHES // (log["passage"].max() + 1)
    assert_mean_is(truth["variance"], ((log["score"] - mean) ** 2).groupby(batch).mean())
    assert_mean_is(icc, anova_iccs(log["score"], log["passage"]))
    assert truth["mean"] == mean
    assert truth["icc"] == icc


@pytest.mark.parametrize(
    ("binary", "unequal"),
    [
        (True, False),
        (False, True),
        pytest.param(True, True, marks=pytest.mark.slow),
        pytest.param(False, False, marks=pytest.mark.slow),
    ],
)
def test_the_standard_error_of_passages_is_that_of_the_mean(binary, unequal):
    log = datasets.passages(n_passages=30_000, unequal=unequal, binary=binary, seed=2)
    truth, log = log.attrs["truth"], coded(log, "passage")
    # In units of the stated variance, so that the spread of the terms is on the scale of 1.
    terms = squared_error_terms(log["score"] - truth["mean"], log["passage"]) / truth["standard_error"] ** 2
    if not unequal:
        assert_mean_is(1, terms)
    # The truth holds the sizes as drawn; within a size the terms are independent and identically distributed.
    sizes = log.groupby("passage").size()
    design = 1 + (sizes - 1) * truth["icc"]
    expected = sizes * design * truth["variance"] * len(sizes) / len(log) ** 2 / truth["standard_error"] ** 2
    assert expected.mean() == pytest.approx(1, rel=ROUNDING * len(sizes))
    assert_mean_is(0, terms - expected)
    inflation = (truth["standard_error"] / truth["naive_standard_error"]) ** 2
    assert inflation == pytest.approx(truth["design_effect"], rel=ROUNDING)


def test_the_design_effect_of_equal_passages_is_the_textbook_one():
    truth = datasets.passages(n_passages=50, questions_per_passage=6, mean=0.7, icc=0.3).attrs["truth"]
    assert truth["design_effect"] == pytest.approx(1 + 5 * 0.3, rel=ROUNDING)
    assert truth["naive_standard_error"] == pytest.approx(math.sqrt(0.21 / 300), rel=ROUNDING)
    assert truth["standard_error"] == pytest.approx(math.sqrt(2.5 * 0.21 / 300), rel=ROUNDING)


def test_without_icc_passages_make_no_difference():
    log = datasets.passages(n_passages=12_000, icc=0, seed=3)
    assert log.attrs["truth"]["design_effect"] == 1
    assert_mean_is(0, anova_iccs(log["score"], log["passage"]))


def test_words_and_subjects_have_no_effect_on_the_score():
    log = datasets.passages(n_passages=24_000, seed=4)
    assert log.attrs["truth"]["n_words_slope"] == 0
    slopes = [np.polyfit(part["n_words"], part["score"], 1)[0] for part in batches(log, "passage")]
    assert_mean_is(0, slopes)
    for subject, part in log.groupby("subject"):
        truth = log.attrs["truth"]["subject_means"][subject]
        assert_mean_is(truth, part["score"].groupby(part["passage"]).mean())


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("mean", "icc"), [(0.5, 1e-310), (1e-12, 0.5), (0.5, 1 - 1e-12)])
def test_extreme_but_lawful_worlds_give_lawful_scores(mean, icc, binary):
    score = datasets.passages(mean=mean, icc=icc, binary=binary)["score"]
    assert score.between(0, 1).all()


# judge_log


def test_a_judge_log_is_the_complete_grid_once():
    log = datasets.judge_log(n_models=5, n_prompts=12, n_judges=4)
    assert list(log.columns) == ["prompt", "judge", "left", "right", "winner"]
    assert len(log) == 12 * 4 * 10
    pair = log["left"].where(log["left"] < log["right"], log["right"]) + log["left"].where(
        log["left"] > log["right"], log["right"]
    )
    assert pair.nunique() == 10
    assert not pd.DataFrame({"pair": pair, "prompt": log["prompt"], "judge": log["judge"]}).duplicated().any()
    assert (log["left"] != log["right"]).all()
    assert set(log["winner"]) == {"left", "right", "tie"}


def test_pairs_per_prompt_draws_different_pairs_that_every_judge_sees():
    log = datasets.judge_log(n_models=5, n_prompts=3000, n_judges=2, pairs_per_prompt=3)
    log["pair"] = [" ".join(sorted(pair)) for pair in zip(log["left"], log["right"], strict=True)]
    seen = log.groupby(["prompt", "pair"])["judge"].nunique()
    assert (seen == 2).all()
    assert (seen.groupby("prompt").size() == 3).all()
    # Each of ten pairs is on a prompt with probability 3/10.
    drawn = seen.groupby("pair").size()
    assert len(drawn) == 10
    assert (abs(drawn - 900) < SIGMAS * math.sqrt(3000 * 0.3 * 0.7)).all()


def test_sides_are_random():
    log = datasets.judge_log(n_models=2, n_prompts=20_000, n_judges=1)
    assert_mean_is(0.5, log["left"] == "model-01")


def test_truth_of_a_judge_log_is_consistent():
    truth = datasets.judge_log(n_models=4, spread=1.5, position_effect=0.3).attrs["truth"]
    assert list(truth["theta"].values()) == pytest.approx([0.75, 0.25, -0.25, -0.75], abs=ROUNDING)
    for model, against in truth["psi"].items():
        assert truth["win_rate"][model] == pytest.approx(np.mean(list(against.values())), abs=ROUNDING)
        for opponent, psi in against.items():
            assert psi + truth["psi"][opponent][model] == pytest.approx(1, abs=ROUNDING)
    assert sorted(truth["win_rate"], key=truth["win_rate"].get, reverse=True) == list(truth["theta"])


def test_without_ties_and_position_psi_is_thurstone():
    truth = datasets.judge_log(n_models=2, spread=0.8, prompt_sd=0.5, judge_sd=0.3, ties=0).attrs["truth"]
    sd = math.sqrt(1 + 2 * 0.25 + 2 * 0.09)
    assert truth["psi"]["model-01"]["model-02"] == pytest.approx(norm.cdf(0.8 / sd), abs=ROUNDING)
    assert truth["tie_threshold"] == 0


def test_the_tie_threshold_gives_the_share_of_ties():
    truth = datasets.judge_log(n_models=2, spread=0.8, prompt_sd=0.5, judge_sd=0.3, ties=0.3).attrs["truth"]
    sd = math.sqrt(1 + 2 * 0.25 + 2 * 0.09)
    share = np.diff(norm.cdf([-truth["tie_threshold"], truth["tie_threshold"]], loc=0.8, scale=sd))[0]
    assert share == pytest.approx(0.3, abs=ROUNDING)


# Prompts alone, then judges alone: in each world the other axis has nothing to vary, so its clusters are independent.
ONE_AXIS = [
    ("prompt", {"n_prompts": 4000, "n_judges": 1, "judge_sd": 0.0, "prompt_sd": 1.0}),
    ("judge", {"n_prompts": 1, "n_judges": 4000, "judge_sd": 0.7, "prompt_sd": 0.0}),
]


@pytest.mark.parametrize(("axis", "world"), ONE_AXIS)
@pytest.mark.parametrize("position_effect", [0.0, 0.8])
def test_psi_win_rates_and_ties_are_those_of_many_independent_clusters(axis, world, position_effect):
    log = datasets.judge_log(n_models=3, ties=0.25, spread=1.2, position_effect=position_effect, seed=5, **world)
    truth, rows = log.attrs["truth"], oriented(log)
    for (model, opponent), part in rows.groupby(["model", "opponent"]):
        assert_mean_is(truth["psi"][model][opponent], part.groupby(axis)["score"].mean())
    for model, part in rows.groupby("model"):
        assert_mean_is(truth["win_rate"][model], part.groupby(axis)["score"].mean())
    assert_mean_is(truth["tie_share"], (log["winner"] == "tie").groupby(log[axis]).mean())
    left = log["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0})
    assert_mean_is(truth["left_score"], left.groupby(log[axis]).mean())
    assert (truth["left_score"] > 0.55) == (position_effect > 0)


@pytest.mark.slow
def test_win_rates_hold_over_new_prompts_and_new_judges_and_naive_errors_understate_them():
    logs = [datasets.judge_log(n_models=4, n_prompts=30, seed=seed) for seed in range(250)]
    boards = pd.DataFrame([win_rates(log) for log in logs])
    for model, truth in logs[0].attrs["truth"]["win_rate"].items():
        assert_mean_is(truth, boards[model])
    cells = [oriented(log).groupby(["model", "opponent"])["score"] for log in logs[:50]]
    naive = pd.DataFrame([(cell.var() / cell.size()).groupby("model").sum() / 9 for cell in cells]).mean()
    # 250 logs know a standard deviation to 4.5%.
    assert (boards.std() / np.sqrt(naive) > 2).all()


def test_without_answers_and_tastes_in_common_naive_errors_are_right():
    settings = {"n_models": 4, "n_prompts": 10, "prompt_sd": 0.0, "judge_sd": 0.0}
    n = 60
    logs = pd.concat({seed: oriented(datasets.judge_log(seed=seed, **settings)) for seed in range(n)}, names=["seed"])
    cells = logs.groupby(["seed", "model", "opponent"])["score"]
    boards = cells.mean().groupby(["seed", "model"]).mean().unstack("model")
    naive = (cells.var() / cells.size()).groupby(["seed", "model"]).sum().unstack("model").mean() / 9
    ratio = (boards.std() / np.sqrt(naive)).mean()
    assert abs(ratio - 1) < SIGMAS / math.sqrt(2 * n * (len(boards.columns) - 1))


def test_win_rates_of_these_judges_are_those_over_new_prompts():
    log = datasets.judge_log(
        n_models=3, n_prompts=6000, n_judges=2, judge_sd=0.8, ties=0.2, position_effect=0.4, seed=6
    )
    truth = log.attrs["truth"]
    for model, part in oriented(log).groupby("model"):
        assert_mean_is(truth["win_rate_these_judges"][model], part.groupby("prompt")["score"].mean())
    gaps = [abs(truth["win_rate_these_judges"][model] - truth["win_rate"][model]) for model in truth["theta"]]
    assert max(gaps) > 0.03


@pytest.mark.parametrize("ties", [0.0, 0.05, 0.6])
def test_the_share_of_ties_is_about_what_was_asked_for(ties):
    log = datasets.judge_log(n_prompts=400, n_judges=10, ties=ties, seed=7)
    # Over forty seeds the share has a standard deviation of at most 0.007; without a threshold there are no ties.
    assert abs((log["winner"] == "tie").mean() - ties) <= (SIGMAS * 0.007 if ties else 0)


# paired


def test_paired_models_meet_on_the_same_questions():
    log = datasets.paired(n_passages=7, questions_per_passage=3)
    assert list(log.columns) == ["model", "passage", "question", "score"]
    assert list(log["model"].unique()) == ["old", "new"]
    assert not log.duplicated(["model", "question"]).any()
    assert (log.groupby("question")["model"].nunique() == 2).all()
    assert (log.groupby("question")["passage"].nunique() == 1).all()
    assert set(log.groupby("passage")["question"].nunique()) == {3}
    assert set(log["score"]) == {0.0, 1.0}


PAIRED_WORLDS = [
    {},
    {"mean": 0.5, "difference": -0.2, "correlation": 0.9, "icc": 0.5},
    {"mean": 0.3, "difference": 0.1, "correlation": -0.6, "icc": 0.3},
]


@pytest.mark.parametrize("world", PAIRED_WORLDS)
def test_paired_scores_have_the_stated_means_correlation_icc_and_errors(world):
    log = datasets.paired(n_passages=12_000, seed=8, **world)
    truth = log.attrs["truth"]
    ids = coded(log, "passage", "question")
    scores = ids.pivot(index=["passage", "question"], columns="model", values="score").reset_index()
    passage, parts = scores["passage"], batches(scores, "passage")
    for model in ("old", "new"):
        error = scores[model] - truth["mean"][model]
        assert_mean_is(0, error.groupby(passage).mean())
        assert_mean_is(truth["icc"][model], anova_iccs(scores[model], passage))
        assert_mean_is(1, squared_error_terms(error, passage) / truth["standard_error"][model] ** 2)
    difference = scores["new"] - scores["old"] - truth["difference"]
    assert_mean_is(0, difference.groupby(passage).mean())
    assert_mean_is(1, squared_error_terms(difference, passage) / truth["difference_standard_error"] ** 2)
    assert_mean_is(truth["correlation"], [part["old"].corr(part["new"]) for part in parts])
    assert truth["mean"]["new"] - truth["mean"]["old"] == pytest.approx(truth["difference"], abs=ROUNDING)


@pytest.mark.parametrize("world", PAIRED_WORLDS)
def test_the_correlation_of_paired_scores_is_that_of_the_bivariate_normal(world):
    truth = datasets.paired(**world).attrs["truth"]
    old, new = truth["mean"]["old"], truth["mean"]["new"]

    def both(a, b, r):
        return multivariate_normal.cdf(norm.ppf([a, b]), cov=[[1, r], [r, 1]])

    spread = math.sqrt(old * (1 - old) * new * (1 - new))
    correlation = (both(old, new, truth["latent_correlation"]) - old * new) / spread
    assert truth["correlation"] == pytest.approx(correlation, abs=1e-7)  # the accuracy of scipy's cdf
    icc = (both(old, old, truth["latent_icc"]) - old**2) / (old * (1 - old))
    assert truth["icc"]["old"] == pytest.approx(icc, abs=1e-7)


def test_models_of_correlation_one_and_no_difference_agree_on_every_question():
    log = datasets.paired(correlation=1, difference=0, mean=0.6)
    new, old = (log.loc[log["model"] == model, "score"].to_numpy() for model in ("new", "old"))
    np.testing.assert_array_equal(new, old)
    assert log.attrs["truth"]["correlation"] == pytest.approx(1, abs=ROUNDING)
    assert log.attrs["truth"]["difference_standard_error"] == 0


def test_the_better_of_models_of_correlation_one_is_right_wherever_the_other_is():
    log = datasets.paired(n_passages=200, correlation=1, difference=0.1, icc=0, seed=9)
    new, old = (log.loc[log["model"] == model, "score"].to_numpy() for model in ("new", "old"))
    assert (new >= old).all()
    # Then the difference is 0 or 1, with mean 0.1.
    error = log.attrs["truth"]["difference_standard_error"]
    assert error == pytest.approx(math.sqrt(0.1 * 0.9 / 1000), rel=1e-9)


@pytest.mark.parametrize(("mean", "both"), [(0.7, 0.5), (0.3, 0.0)])
def test_models_of_correlation_minus_one_are_right_together_as_little_as_can_be(mean, both):
    log = datasets.paired(correlation=-1, mean=mean, difference=0.1, icc=0, n_passages=4000, seed=9)
    new, old = (log.loc[log["model"] == model, "score"].to_numpy() for model in ("new", "old"))
    assert abs((new * old).mean() - both) <= SIGMAS * math.sqrt(both * (1 - both) / len(new))
    old_variance, new_variance = mean * (1 - mean), (mean + 0.1) * (0.9 - mean)
    correlation = (both - mean * (mean + 0.1)) / math.sqrt(old_variance * new_variance)
    assert log.attrs["truth"]["correlation"] == pytest.approx(correlation, abs=ROUNDING)


# sampled


@pytest.mark.parametrize("n_models", [1, 2])
def test_sampled_answers_are_tidy_and_the_last_passage_takes_what_is_left(n_models):
    log = datasets.sampled(n_questions=12, n_samples=3, n_models=n_models)
    assert list(log.columns) == ["model", "question", "passage", "sample", "score"]
    assert len(log) == n_models * 36
    assert not log.duplicated(["model", "question", "sample"]).any()
    assert (log.groupby(["model", "question"])["sample"].nunique() == 3).all()
    assert (log.groupby("question")["passage"].nunique() == 1).all()
    assert log.groupby("passage")["question"].nunique().tolist() == [5, 5, 2]
    assert ("difference" in log.attrs["truth"]) == (n_models == 2)


@pytest.mark.parametrize("icc", [0.0, 0.4])
def test_sampled_answers_have_the_variances_of_miller_section_3(icc):
    log = datasets.sampled(n_questions=30_000, n_samples=4, icc=icc, seed=10)
    truth = log.attrs["truth"]
    questions = (
        coded(log, "passage", "question").groupby(["passage", "question"])["score"].agg(["mean", "var"]).reset_index()
    )
    sigma2 = questions["var"].groupby(questions["passage"]).mean()
    assert truth["sigma2"] == pytest.approx(1 / 6, rel=ROUNDING)
    assert truth["var_x"] == pytest.approx(1 / 12, rel=ROUNDING)
    assert_mean_is(1 / 6, sigma2)
    around = (questions["mean"] - 0.5) ** 2 - questions["var"] / 4
    assert_mean_is(1 / 12, around.groupby(questions["passage"]).mean())
    error = questions["mean"] - 0.5
    assert_mean_is(1, squared_error_terms(error, questions["passage"]) / truth["standard_error"]["model-1"] ** 2)


def test_x_is_uniform():
    log = datasets.sampled(n_questions=2000, n_samples=200, seed=11)
    x = log["score"].to_numpy().reshape(2000, 200).mean(axis=1)
    # Under uniform x every count of right answers from 0 to 200 is equally likely.
    observed, _ = np.histogram(x * 200, bins=np.arange(0, 202, 3) - 0.5)
    expected = 2000 * 3 / 201
    statistic = ((observed - expected) ** 2 / expected).sum()
    bins = len(observed)
    assert bins == 67
    assert abs(statistic - (bins - 1)) < SIGMAS * math.sqrt(2 * (bins - 1))


def test_more_answers_shrink_the_variance_as_miller_says():
    def variance(n_samples):
        return datasets.sampled(n_samples=n_samples).attrs["truth"]["standard_error"]["model-1"] ** 2

    for n_samples in (2, 4, 10):
        assert variance(n_samples) / variance(1) == pytest.approx((1 + 2 / n_samples) / 3, rel=ROUNDING)


def test_errors_of_sampled_answers_follow_from_the_stated_variances():
    """Law of total variance, with x that correlate by `icc` within passages of 5 and by `correlation` over models."""
    truth = datasets.sampled(n_questions=100, n_samples=4, n_models=2, correlation=0.6, icc=0.3).attrs["truth"]
    one = ((1 + 4 * 0.3) / 12 + 1 / 24) / 100
    assert truth["standard_error"]["model-2"] == pytest.approx(math.sqrt(one), rel=ROUNDING)
    truth = datasets.sampled(n_questions=100, n_samples=4, n_models=2, correlation=0.6).attrs["truth"]
    difference = (truth["omega2"] + 2 / 24) / 100
    assert truth["difference_standard_error"] == pytest.approx(math.sqrt(difference), rel=ROUNDING)
    assert truth["correlation_x"] == 0.6
    assert truth["icc_x"] == 0


@pytest.mark.parametrize(("correlation", "icc"), [(0.5, 0.0), (-0.4, 0.3), (0.8, 0.5)])
def test_two_sampled_models_correlate_as_stated(correlation, icc):
    log = datasets.sampled(n_questions=30_000, n_samples=2, n_models=2, correlation=correlation, icc=icc, seed=12)
    truth = log.attrs["truth"]
    ids = coded(log, "passage", "question")
    means = ids.pivot_table(index=["passage", "question"], columns="model", values="score").reset_index()
    passage = means["passage"]
    a, b = means["model-1"] - 0.5, means["model-2"] - 0.5
    # Answer noise is independent between models, so products see the correlation of x.
    assert_mean_is(correlation / 12, (a * b).groupby(passage).mean())
    # Miller section 5: uniform x of correlation 0.5 give omega^2 = 1/12.
    assert truth["omega2"] == pytest.approx((1 - correlation) / 6, rel=ROUNDING)
    terms = squared_error_terms(a - b, passage)
    assert_mean_is(1, terms / truth["difference_standard_error"] ** 2)
    for model, error in (("model-1", a), ("model-2", b)):
        assert_mean_is(1, squared_error_terms(error, passage) / truth["standard_error"][model] ** 2)
    if icc:
        totals = a.groupby(passage).sum() ** 2 - (a**2).groupby(passage).sum()
        assert_mean_is(icc / 12, totals / 20)


def test_the_published_design_inflates_naive_errors_fourfold_by_sums_within_prompts():
    """One model's win rate by pandas: squared sums within prompts over squared rows, both of what its rows deviate."""
    log = er.datasets.published_design(n_prompts=120)
    score = log["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0}).astype(float)
    ratios = []
    for model in ("model-01", "model-10", "model-19"):
        left, right = log["left"] == model, log["right"] == model
        own = score.where(left, 1 - score)[left | right]
        other = log["right"].where(left, log["left"])[left | right]
        residual = own - own.groupby(other.astype(str)).transform("mean")
        sums = residual.groupby(log["prompt"][left | right].astype(str)).sum()
        ratios.append(np.sqrt((sums**2).sum() / (residual**2).sum()))
    board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt", cov="CR0")
    naive = board.with_cov(groups=None, cov="naive").bse
    ours = (board.bse / naive)[["model-01", "model-10", "model-19"]]
    np.testing.assert_allclose(ours, ratios, rtol=0.01)
    assert min(ratios) > 3.5
