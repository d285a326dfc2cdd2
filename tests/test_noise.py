"""The noise of an eval: against loops over all answers, published figures, and simulated truth."""

from __future__ import annotations

import functools
import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import statsmodels.stats.contingency_tables as tables
from scipy import stats

import evalreg as er
from evalreg.data.answers import NOBODY, AnswerTable
from evalreg.noise.noise import noise_parts

mpl.use("Agg")
TIGHT = 1e-12  # sums in another order


def answers(n_models: int = 4, n_questions: int = 40, seed: int = 1, missing: float = 0.0) -> pd.DataFrame:
    """A log of its own of those that are drawn once."""
    return drawn_answers(n_models, n_questions, seed, missing).copy()


@functools.cache
def drawn_answers(n_models: int, n_questions: int, seed: int, missing: float) -> pd.DataFrame:
    """0/1 answers, 2 to 6 of a model to a question, in passages of 4 questions; some questions not answered."""
    rng = np.random.default_rng(seed)
    rows = []
    hard = rng.normal(size=n_questions)
    for m, q in itertools.product(range(n_models), range(n_questions)):
        if rng.random() < missing:
            continue
        p = 1 / (1 + np.exp(-(0.4 * m + 1.5 * hard[q] + 0.5 * rng.normal())))
        k = int(rng.integers(2, 7))
        rows += [(f"model-{m}", f"q{q}", f"p{q // 4}", i, float(rng.random() < p)) for i in range(k)]
    log = pd.DataFrame(rows, columns=["model", "item", "passage", "sample", "score"])
    return log.sample(frac=1, random_state=seed)


def by_hand(log: pd.DataFrame, models: tuple[str, ...], passages: bool = False) -> dict[str, float]:
    """The law of total variance by loops over questions and answers, with signs +1 and -1 of the models."""
    own = {name: part.groupby("item")["score"].apply(list).to_dict() for name, part in log.groupby("model")}
    shared = sorted(set.intersection(*(set(own[name]) for name in models)))
    passage = dict(zip(log["item"], log["passage"], strict=True))
    signs = (1.0, -1.0)[: len(models)]
    x, noise, sigma2 = [], 0.0, 0.0
    for question in shared:
        mean = 0.0
        for name, sign in zip(models, signs, strict=True):
            scores = own[name][question]
            centre = sum(scores) / len(scores)
            spread = sum((score - centre) ** 2 for score in scores) / (len(scores) - 1)
            mean += sign * centre
            noise += spread / len(scores)
            sigma2 += spread
        x.append(mean)
    n, centre = len(x), sum(x) / len(x)
    if passages:
        total = 0.0
        for label in {passage[question] for question in shared}:
            inside = [v - centre for v, question in zip(x, shared, strict=True) if passage[question] == label]
            total += sum(inside) ** 2 / (1 - len(inside) / n) / n**2
    else:
        total = sum((v - centre) ** 2 for v in x) / (n - 1) / n
    wins, losses = sum(v > 0 for v in x), sum(v < 0 for v in x)
    return {
        "estimate": centre,
        "se_total": total**0.5,
        "se_prediction": noise**0.5 / n,
        "data_variance": total - noise / n**2,
        "prediction_share": noise / n**2 / total,
        "sigma2": sigma2 / n,
        "n": n,
        "wins": wins,
        "losses": losses,
    }


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("groups", [None, "passage"])
def test_every_part_is_that_of_loops_over_all_answers(missing, groups):
    log = answers(missing=missing)
    found = er.noise(log, sample="sample", groups=groups)
    for frame, score in ((found.models, "score"), (found.pairs, "difference")):
        for name, row in frame.iterrows():
            models = (name,) if isinstance(name, str) else name
            expected = by_hand(log, models, passages=groups is not None)
            expected[score] = expected.pop("estimate")
            columns = [column for column in expected if column in frame]
            assert {score, "se_total", "se_prediction", "data_variance", "sigma2", "n"} <= set(columns)
            np.testing.assert_allclose([row[c] for c in columns], [expected[c] for c in columns], rtol=1e-10)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("groups", [None, "passage", "passage + shelf"])
def test_totals_and_p_values_are_those_of_compare_and_mean(groups):
    log = answers(missing=0.1)
    log["shelf"] = log["item"].map(lambda name: f"s{int(name[1:]) % 5}")
    found = er.noise(log, sample="sample", groups=groups)
    comparison = er.compare(log, item="item", sample="sample", groups=groups).to_frame()
    mean = er.mean(log, by="model", item="item", sample="sample", groups=groups)
    pd.testing.assert_series_equal(found.pairs["se_total"], comparison["se"], check_names=False, rtol=TIGHT)
    pd.testing.assert_series_equal(found.pairs["p_value"], comparison["p_value"], rtol=TIGHT)
    pd.testing.assert_series_equal(
        found.models["se_total"].sort_index(), mean.bse.sort_index(), check_names=False, rtol=TIGHT
    )
    assert found.pairs["share_lower"].isna().all() == (groups == "passage + shelf")
    signs = er.compare(log, item="item", sample="sample", groups=groups).sign_test()
    column = "p_value" if groups is None else "clustered_p_value"
    np.testing.assert_allclose(found.pairs["sign_p_value"], signs[column], rtol=1e-9)
    np.testing.assert_array_equal(found.pairs["wins"], signs["wins"])


def test_the_sign_test_is_mcnemars_exact_one_of_statsmodels():
    found = er.noise(answers(), sample="sample").pairs
    for row in found.to_dict("records"):
        expected = tables.mcnemar([[0, row["wins"]], [row["losses"], 0]], exact=True).pvalue
        assert row["sign_p_value"] == pytest.approx(min(expected, 1.0), rel=1e-9)


def test_the_published_error_of_codellama_on_cruxeval_comes_out(shared):
    """.342125 and .0157703 as the noise study prints them: its variances divide by n, ours by n - 1."""
    rows = pd.read_csv(shared / "data" / "cruxeval_codellama7b_samples.csv.gz")
    output = rows[rows["task"] == "output"]
    found = er.noise(output, "correct", model=None, item="question_id", sample="sample").models.loc["mean"]
    assert found["score"] == pytest.approx(0.342125, abs=5e-7)
    assert round(found["se_total"] * np.sqrt(799 / 800), 7) == 0.0157703
    assert found["prediction_share"] == pytest.approx(0.01456, abs=5e-6)
    # The study's unbiased parts, by numpy on the table of answers.
    A = output.pivot(index="question_id", columns="sample", values="correct").to_numpy(dtype=float)
    noise = A.var(axis=1).mean() * 10 / 9
    assert found["sigma2"] == pytest.approx(noise, rel=1e-12)
    assert (found["data_variance"] + noise / 8000) * 799 == pytest.approx(A.mean(axis=1).var(), rel=1e-12)


def test_parts_are_unbiased_whatever_the_numbers_of_answers():
    """8,000 logs of 12 questions with 2 to 7 answers: means of the estimates within 4 standard errors of the truth."""
    rng, runs, n = np.random.default_rng(8), 8000, 12
    k = np.tile(np.array([2, 2, 3, 7, 5, 2, 4, 2, 6, 3, 2, 2]), (runs, 1))
    x = rng.beta(1.0, 2.0, (runs, n))
    score = rng.binomial(k, x) / k
    table = AnswerTable(score, k, k * score * (1 - score))
    parts = noise_parts(table, np.arange(runs), np.full(runs, NOBODY), None)
    omega2 = 1 * 2 / (9 * 4)
    sigma2 = 1 / 3 * 2 / 3 - omega2
    prediction = sigma2 * (1 / k[0]).mean() / n
    data = parts.prediction / np.where(parts.share > 0, parts.share, np.nan) - parts.prediction
    for estimate, truth in ((parts.sigma2, sigma2), (parts.prediction, prediction), (data, omega2 / n)):
        known = estimate[np.isfinite(estimate)]
        assert known.size > 0.99 * runs
        assert abs(known.mean() - truth) < 4 * known.std() / np.sqrt(known.size)


@pytest.mark.parametrize(("n", "a", "b", "k"), [(100, 1.0, 1.0, 2), (100, 0.3, 0.3, 10), (30, 20.0, 20.0, 4)])
def test_intervals_of_the_share_hold_the_truth(n, a, b, k):
    rng, runs = np.random.default_rng(9), 2000
    score = rng.binomial(k, rng.beta(a, b, (runs, n))) / k
    table = AnswerTable(score, np.full((runs, n), k), k * score * (1 - score))
    parts = noise_parts(table, np.arange(runs), np.full(runs, NOBODY), None)
    omega2 = a * b / ((a + b) ** 2 * (a + b + 1))
    noise = (a / (a + b) * b / (a + b) - omega2) / k
    truth = noise / (noise + omega2)
    low, high = parts.shares(0.05).T
    covered = int(((low <= truth) & (truth <= high)).sum())
    assert covered >= stats.binom.ppf(0.001, runs, 0.94)


@pytest.mark.parametrize(("n", "a", "b", "k", "least"), [(100, 3.0, 0.2, 5, 0.93), (30, 2.0, 0.3, 5, 0.93)])
def test_intervals_of_the_share_are_not_too_sure_where_nearly_all_answers_are_right(n, a, b, k, least):
    rng, runs = np.random.default_rng(10), 2000
    score = rng.binomial(k, rng.beta(a, b, (runs, n))) / k
    table = AnswerTable(score, np.full((runs, n), k), k * score * (1 - score))
    parts = noise_parts(table, np.arange(runs), np.full(runs, NOBODY), None)
    between = a * b / ((a + b) ** 2 * (a + b + 1))
    noise = (a / (a + b) * b / (a + b) - between) / k
    low, high = parts.shares(0.05).T
    known = np.isfinite(low)
    covered = int(((low <= noise / (noise + between)) & (noise / (noise + between) <= high))[known].sum())
    assert known.mean() > 0.8
    assert covered >= stats.binom.ppf(0.001, int(known.sum()), least)


def test_a_share_that_rests_on_seven_questions_has_no_interval_and_eight_have():
    """Of 15 questions all are answered wrong but for some, whose answers differ."""
    for n_apart in (1, 7, 8):
        right = np.where(np.arange(15) < n_apart, 1 + np.arange(15) % 3, 0)
        counts = pd.DataFrame({"model": "one", "item": np.arange(15), "right": right, "answers": 4})
        found = er.noise(counts, passes="right", n_samples="answers")
        row = found.models.iloc[0]
        assert row["prediction_share"] > 0
        assert np.isfinite(row[["share_lower", "share_upper", "enough_lower"]].astype(float)).all() == (n_apart == 8)
        assert ("has no interval" in found.summary().as_text(1000)) == (n_apart < 8)


def test_enough_answers_invert_the_share():
    log = er.datasets.sampled(n_questions=300, n_samples=4, n_models=2, correlation=0.5, seed=2)
    found = er.noise(log, item="question", sample="sample")
    components = er.plan.components(log, item="question").loc["plain"]
    pair = found.pairs.iloc[0]
    assert pair["data_variance"] * 300 == pytest.approx(components["omega2"], rel=1e-9)
    assert pair["sigma2"] == pytest.approx(components["sigma2_a"] + components["sigma2_b"], rel=1e-9)
    # From this number on, answers are at most .05 of the variance.
    assert pair["enough_answers"] == np.ceil(19 * pair["sigma2"] / components["omega2"])
    # The score test's variance differs a little under no difference and under this one.
    shift, critical = pair["detectable"] / pair["se_total"], stats.t.ppf(0.975, 299)
    assert stats.nct.sf(critical, 299, shift) == pytest.approx(0.8, abs=0.01)
    assert pair["enough_lower"] < pair["enough_answers"] < pair["enough_upper"]


def test_a_difference_of_the_detectable_size_is_found_as_often_as_promised():
    """50 pairs of models that differ by what pairs without a difference call detectable: power .8 within 3 errors."""
    rng, n, k, m = np.random.default_rng(3), 150, 3, 5
    item, name = np.tile(np.arange(n), 2 * m), np.repeat([f"{side}{i}" for i in range(m) for side in "ab"], n)
    shift, found = 0.0, []
    for batch in range(11):
        x = np.repeat(rng.uniform(0.2, 0.7, (m, n)), 2, axis=0)
        x[::2] += shift
        counts = pd.DataFrame({"model": name, "item": item, "right": rng.binomial(k, x).ravel(), "answers": k})
        pairs = er.noise(counts, passes="right", n_samples="answers").pairs
        own = pairs[[pair[0][1:] == pair[1][1:] for pair in pairs.index]]
        assert len(own) == m
        if batch == 0:
            shift = float(own["detectable"].median())
        else:
            found += (own["p_value"] < 0.05).tolist()
    assert abs(np.mean(found) - 0.8) < 3 * np.sqrt(0.16 / len(found))


def test_noise_that_is_all_there_is_leaves_no_data_error_and_no_number_of_answers():
    rng = np.random.default_rng(0)
    score = rng.integers(0, 2, (6, 60, 3)).astype(float)
    m, q, k = np.indices(score.shape)
    log = pd.DataFrame({"model": m.ravel(), "item": q.ravel(), "sample": k.ravel(), "score": score.ravel()})
    found = er.noise(log, sample="sample")
    assert "p is by the score test of `compare`, not by z" in " ".join(str(found.summary()).split())
    none = found.models["data_variance"] <= 0
    assert none.any()
    assert found.models.loc[none, "se_data"].isna().all()
    assert np.isinf(found.models.loc[none, "enough_answers"]).all()
    assert "none seen" in str(found.summary())


# Command line


def test_the_interval_of_a_share_holds_that_of_the_share_and_of_its_log_odds():
    log = answers(n_models=3, n_questions=40)
    parts = er.noise(log, sample="sample").of_models
    # Its error is that of a ratio of two sums over questions, and known as well as so many equal questions tell.
    each = log.groupby(["model", "item"])["score"].agg(["mean", "var", "size"])
    lines = zip(parts.share, parts.share_se, parts.share_dof, each.groupby("model"), strict=True)
    for share, se, dof, (_, part) in lines:
        square = (part["mean"] - part["mean"].mean()) ** 2 / (1 - 1 / len(part))
        apart = part["var"] / part["size"] - share * square
        assert se * square.sum() == pytest.approx(np.sqrt(len(part)) * apart.std(), rel=1e-10)
        equal = min((of**2).sum() ** 2 / (of**4).sum() for of in (apart, np.sqrt(square)))
        assert dof == pytest.approx(np.clip(2 * equal - 1, 1, len(part) - 1))
    t = stats.t.isf(0.05, parts.share_dof)
    share, se = parts.share, parts.share_se
    assert ((share > 0) & (share < 1)).all()
    odds = share / (1 - share)
    factor = np.exp(t * se / (share * (1 - share)))
    by_odds = [odds / factor / (1 + odds / factor), odds * factor / (1 + odds * factor)]
    low, high = np.minimum(share - t * se, by_odds[0]), np.maximum(share + t * se, by_odds[1])
    assert (by_odds[1] != high).any() or (by_odds[0] != low).any()
    np.testing.assert_allclose(parts.shares(0.1), np.column_stack([low, high]), rtol=1e-12)


def test_the_detectable_difference_has_the_power_that_is_stated(rng):
    rows = {
        "model": np.repeat(["a", "b"], 80),
        "item": np.tile(np.arange(40), 4),
        "sample": np.tile(np.repeat([0, 1], 40), 2),
    }
    log = pd.DataFrame(rows | {"score": 5 * rng.normal(size=160)})
    pair = er.noise(log, sample="sample").to_frame("pairs").iloc[0]
    critical, shift = stats.t.ppf(0.975, 39), pair["detectable"] / pair["se_total"]
    power = stats.nct.sf(critical, 39, shift) + stats.nct.cdf(-critical, 39, shift)
    assert power == pytest.approx(0.8, abs=1e-8)
