"""Each call on real logs, beside a number that did not come from evalreg: R, statsmodels, or plain numpy and pandas.

The numbers of R stand in `tests/reference/real_logs.json`, which `real_logs.R` writes from the same logs.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import optimize, special, stats

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

SAME = 1e-9
# Of numbers that another program found by iteration.
ITERATED = 1e-6
BROKEN = "Claude 3.7 Sonnet (20250219)"
WINNER = {"first": "left", "second": "right", "tie": "tie", "error": None}


@pytest.fixture(scope="module")
def of_r():
    """What R finds on the same logs."""
    return json.loads((Path(__file__).parent / "reference" / "real_logs.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tau(shared):
    """Four trials of an agent at each of 50 tasks of 34 users."""
    return pd.read_csv(shared / "data" / "tau_bench_airline_gpt4o_trials.csv.gz")


@pytest.fixture(scope="module")
def hard(shared):
    """One model with two prompting methods on the same questions of 27 tasks."""
    log = pd.read_csv(shared / "data" / "bbh_codex_cot_vs_direct.csv.gz")
    return log.assign(question=log["task"] + ":" + log["question_index"].astype(str))


@pytest.fixture(scope="module")
def issues(shared):
    """24 models on 500 issues of 12 repositories."""
    log = pd.read_csv(shared / "data" / "swebench_verified_minisweagent.csv.gz")
    return log[log["model"] != BROKEN]


@pytest.fixture(scope="module")
def sampled(shared):
    """Ten answers of one model to each of 800 questions, for two tasks."""
    return pd.read_csv(shared / "data" / "cruxeval_codellama7b_samples.csv.gz")


@pytest.fixture(scope="module")
def judged(shared):
    """Six models compared in English by six judges on 80 questions."""
    log = pd.read_csv(shared / "data" / "mtbench_enko_pairs.csv.gz")
    return log[log["language"] == "en"]


@pytest.fixture(scope="module")
def board(judged):
    sides = {"left": "model_first", "right": "model_second", "winner": "winner", "labels": WINNER}
    return er.win_rate(judged, **sides, groups="question_id + judge")


def clustered(influence, *by):
    """Variance of a sum of influences by its sums within joint clusters, with G/(G - 1)."""
    total = influence.groupby(list(by))["u"].sum()
    return float((total**2).sum() * len(total) / (len(total) - 1))


# Regressions


def test_absorbed_effects_are_those_of_dummies_in_r(tau, of_r):
    found, r = er.fit("reward ~ n_messages | task_id", tau, groups="user_id"), of_r["within_tasks"]
    assert found.params["n_messages"] == pytest.approx(r["coef"], rel=SAME)
    assert found.bse["n_messages"] == pytest.approx(r["se"], rel=SAME)
    assert found.dof["n_messages"] == pytest.approx(r["dof"], rel=ITERATED)
    dummies = er.fit("reward ~ n_messages + C(task_id)", tau, groups="user_id")
    assert dummies.bse["n_messages"] == pytest.approx(r["se"], rel=SAME)


def test_two_absorbed_factors_are_those_of_dummies_in_statsmodels(issues):
    log = issues[issues["instance_id"].isin(issues["instance_id"].unique()[::10])]
    asked = {"groups": "instance_id", "cov": "CR1"}
    found = er.fit("cost_usd ~ api_calls | model + instance_id", log, **asked)
    codes = {"groups": log["instance_id"].factorize()[0]}
    dummies = smf.ols("cost_usd ~ api_calls + C(model) + C(instance_id)", log).fit(cov_type="cluster", cov_kwds=codes)
    assert found.params["api_calls"] == pytest.approx(dummies.params["api_calls"], rel=SAME)
    assert found.bse["api_calls"] == pytest.approx(dummies.bse["api_calls"], rel=SAME)


def test_predictions_and_comparisons_are_means_of_rows(hard, tau):
    fitted = er.fit("correct ~ method", hard, groups="task", cov="CR1")
    means = hard.groupby("method")["correct"].mean()
    predicted = fitted.avg_predictions(by="method")
    np.testing.assert_allclose(predicted.params, means, rtol=SAME)
    compared = fitted.avg_comparisons("method")
    assert compared.params.iloc[0] == pytest.approx(means["direct"] - means["cot"], rel=SAME)
    # Both methods have all questions: the difference is one number for each.
    codes = {"groups": hard["task"].factorize()[0]}
    of_statsmodels = smf.ols("correct ~ method", hard).fit(cov_type="cluster", cov_kwds=codes)
    assert compared.bse.iloc[0] == pytest.approx(of_statsmodels.bse["method[T.direct]"], rel=SAME)
    assert compared.dof.iloc[0] == fitted.dof["method[T.direct]"]
    # The slope of a logit is the mean of p(1 - p) times its coefficient.
    logit = er.fit("reward ~ n_messages", tau, groups="user_id", family="binomial")
    p = logit.predict(tau).iloc[:, 0]
    by_hand = float((p * (1 - p)).mean() * logit.params["n_messages"])
    assert logit.avg_slopes().params["n_messages"] == pytest.approx(by_hand, rel=SAME)
    margins = smf.logit("reward ~ n_messages", tau).fit(disp=0).get_margeff().margeff[0]
    assert by_hand == pytest.approx(margins, rel=ITERATED)


def test_joint_tests_are_wald_tests_by_hand(issues):
    few = list(issues["model"].unique()[:3])
    log = issues[issues["model"].isin(few)]
    fitted = er.fit("resolved ~ model", log, groups="instance_id", cov="CR1")
    row = fitted.wald_test_terms().loc["model"]
    b, V = fitted.params.to_numpy()[1:], fitted.cov_params().to_numpy()[1:, 1:]
    assert row["F"] == pytest.approx(b @ np.linalg.solve(V, b) / 2, rel=SAME)
    assert row["p_value"] == pytest.approx(stats.f.sf(row["F"], 2, 499), rel=1e-6)


def test_a_randomisation_test_counts_all_assignments(tau):
    # Which users had the longer conversations, as if by lot: six users, all 20 ways to choose three of them.
    users = tau["user_id"].value_counts().index[:6]
    log = tau[tau["user_id"].isin(users)]
    log = log.assign(arm=np.where(log["user_id"].isin(users[:3]), "a", "b"))
    found = er.randomisation_test(log, "reward", treatment="arm", groups="user_id")

    def t(some):
        inside = log["user_id"].isin(some)
        arms, variance = [log[inside], log[~inside]], 0.0
        for arm in arms:
            left = (arm["reward"] - arm["reward"].mean()).groupby(arm["user_id"]).sum()
            variance += 3 / 2 * (left**2).sum() / len(arm) ** 2
        return abs(arms[0]["reward"].mean() - arms[1]["reward"].mean()) / np.sqrt(variance)

    seen = np.array([t(some) for some in itertools.combinations(users, 3)])
    assert found.p_value == pytest.approx(np.mean(seen >= t(users[:3]) * (1 - SAME)), rel=SAME)


def test_a_wild_test_counts_all_sign_vectors(shared):
    # By hand: differences of question means between models, all 2^6 signs of judges, CR1 t with the null imposed.
    log = pd.read_csv(shared / "data" / "mtbench_enko_single.csv.gz")
    log = log[(log["language"] == "en") & (log["graded_with_reference"] == 0) & log["score"].notna()]
    log["answer"] = log["question_id"].astype(str) + "/" + log["turn"].astype(str) + "/" + log["judge"]
    found = er.compare(log, item="answer", groups="judge", baseline="gemma-2-9b-it", icc=None)
    tests = found.wild_test(weights="rademacher")
    wide = log.pivot(index="answer", columns="model", values="score")
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=6)))
    for (model, baseline), line in tests.iterrows():
        d = (wide[model] - wide[baseline]).dropna()
        judge = d.index.str.split("/").str[-1].factorize()[0]

        def t(values, judge=judge):
            total = np.bincount(judge, values - values.mean(), 6)
            return values.mean() * len(values) / np.sqrt(6 / 5 * (total**2).sum())

        drawn = np.abs([t(d.to_numpy() * sign[judge]) for sign in signs])
        assert line["statistic"] == pytest.approx(t(d.to_numpy()), rel=1e-9)
        assert line["p_value"] == np.mean(drawn >= abs(line["statistic"]) * (1 - 1e-9))
        assert (line["draws"], line["enumerated"]) == (64, True)


# Tables


def test_tables_of_several_evals_have_clustered_and_naive_errors(issues, tau):
    some = issues[issues["model"].isin(issues["model"].unique()[:2])]
    of_issues = er.mean(some, "resolved", by="model", item="instance_id", groups="instance_id")
    by_repo = er.mean(some, "resolved", by="model", item="instance_id", groups="repo", cov="CR1")
    evals = er.join_evals({"issues": of_issues, "repos": by_repo}, form="clustered")
    table = evals.table
    for model, rows in some.groupby("model"):
        n, p = len(rows), rows["resolved"].mean()
        naive = np.sqrt(p * (1 - p) / (n - 1))
        u = ((rows["resolved"] - p) / n).to_frame("u").assign(repo=rows["repo"])
        by_hand = np.sqrt(clustered(u, "repo"))
        line = table.loc[("repos", model)]
        assert line["se"] == pytest.approx(by_hand, rel=SAME)
        assert line["naive_se"] == pytest.approx(naive, rel=SAME)
        assert f"{by_hand / naive:.2f}" in str(evals)
        assert table.loc[("issues", model), "se"] == pytest.approx(naive, rel=SAME)


# The other two hold the same cells: every format of these commands has tests of its own.


# Noise, components, plans, populations


def test_components_are_those_of_lme4(shared, of_r):
    log = pd.read_csv(shared / "data" / "mtbench_enko_single.csv.gz")
    kept = (log["language"] == "en") & (log["turn"] == 1) & (log["graded_with_reference"] == 0)
    one = log[kept & (log["model"] == "EEVE-Korean-Instruct-10.8B")]
    whole = one.groupby("question_id")["score"].count()
    one = one[one["question_id"].isin(whole.index[whole == 6])]
    found = er.components(one, "score", facets="question_id x judge").table["variance"]
    np.testing.assert_allclose(found.to_numpy(), list(of_r["components"].values()), rtol=ITERATED)


def test_a_plan_from_a_board_rests_on_the_variance_parts_of_its_difference(board, judged):
    first, second = board.params.sort_values(ascending=False).index[:2]
    plan = er.plan.separate(board, first, second, judges=[3, 6, 10])
    assert plan.table.equals(er.plan.separate(board, first, second, judges=[3, 6, 10]).table)
    # By hand: the influence of a verdict on the difference of two win rates over uniform opponents, and the expected
    # CR1 terms of a grid of P x J (CR2's h is 1/P or 1/J in each cell, which makes the same factors).
    log = judged[judged["winner"] != "error"]
    score = log["winner"].map({"first": 1.0, "second": 0.0, "tie": 0.5}).to_numpy()
    left, right = log["model_first"].to_numpy(), log["model_second"].to_numpy()
    models = sorted(set(left) | set(right))
    influence = np.zeros(len(log))
    for one, sign in ((first, 1.0), (second, -1.0)):
        for other in models:
            a, b = (left == one) & (right == other), (left == other) & (right == one)
            if one == other or not (a | b).any():
                continue
            mine = np.where(a, score, 1 - score)
            here = a | b
            influence[here] += sign * (mine[here] - mine[here].mean()) / here.sum() / (len(models) - 1)
    u = log[["question_id", "judge"]].assign(u=influence)
    P, J = 80, 6
    terms = [clustered(u[["u", *by]], *by) for by in (["question_id"], ["judge"], ["question_id", "judge"])]
    assert plan.se == pytest.approx(np.sqrt(terms[0] + terms[1] - terms[2]), rel=0.01)
    rest = (terms[2] * (P * J - 1) - (P - 1) * terms[0] - (J - 1) * terms[1]) / ((P - 1) * (J - 1)) * P * J
    by_hand = [P * terms[0] - rest / J, J * terms[1] - rest / P, rest]
    np.testing.assert_allclose(list(plan.parts.values()), by_hand, rtol=0.02)
    assert 0 < plan.power_now < 1


def test_a_sample_of_answers_and_questions_has_the_error_of_survey(sampled, of_r):
    out = sampled[sampled["task"] == "output"]
    asked = {"item": "question_id", "sample": "sample"}
    full = er.mean(out, "correct", **asked, target="the full benchmark", n_population=2000)
    assert full.bse.iloc[0] == pytest.approx(of_r["two_stage_se"], rel=SAME)
    these = er.mean(out, "correct", strata="question_id", strata_weights="macro")
    noise = out.groupby("question_id")["correct"].var() / 10
    assert these.bse.iloc[0] == pytest.approx(np.sqrt(noise.sum()) / 800, rel=SAME)


def test_strata_of_a_benchmark_have_the_error_of_survey(shared, of_r):
    log = pd.read_csv(
        shared / "data" / "mmlu_pro_scores.csv.gz", usecols=["question_id", "category", "model", "correct"]
    )
    log = log[log["model"] == "Mistral-7B-Instruct-v0.2"]
    sizes = log["category"].value_counts().to_dict()
    some = log[log["question_id"] % np.where(log["category"] < "h", 3, 7) == 0]
    found = er.mean(some, "correct", strata="category", target="the full benchmark", n_population=sizes)
    assert found.params["mean"] == pytest.approx(of_r["strata_mean"], rel=SAME)
    assert found.bse["mean"] == pytest.approx(of_r["strata_se"], rel=SAME)
    # The score of the whole benchmark is known.
    low, high = found.conf_int().loc["mean"]
    assert low < log["correct"].mean() < high


def test_the_winner_is_corrected_as_a_truncated_normal_says(issues):
    means = er.mean(issues, "resolved", by="model", item="instance_id")
    found = means.winner(method="conditional")
    # On the logit scale: the winner's normal, from where it would have been overtaken.
    p, V = means.params.to_numpy(), means.cov_params().to_numpy()
    best = int(np.argmax(p))
    y, V = special.logit(p), V / np.outer(p * (1 - p), p * (1 - p))
    se, share = np.sqrt(V[best, best]), np.delete(V[:, best] / V[best, best], best)
    assert (share < 1).all()
    low = np.max((np.delete(y, best) - share * y[best]) / (1 - share))

    def above(mu):
        """Chance of more than was seen, of a normal around mu that came first, less one half."""
        return np.exp(stats.norm.logsf((y[best] - mu) / se) - stats.norm.logsf((low - mu) / se)) - 0.5

    by_hand = special.expit(optimize.brentq(above, y[best] - 20 * se, y[best] + se, xtol=1e-14))
    assert found.name == means.params.index[best]
    assert found.corrected == pytest.approx(by_hand, rel=ITERATED)
    assert found.corrected < found.estimate == pytest.approx(p[best], rel=SAME)


def test_the_published_design_inflates_naive_errors_of_win_rates():
    log = er.datasets.published_design(n_prompts=120)
    found = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    # By hand, of one model: sums within prompts of what its verdicts lie above their pair's mean.
    model = found.params.index[0]
    score = log["winner"].map({"left": 1.0, "right": 0.0, "tie": 0.5})
    mine = log[(log["left"] == model) | (log["right"] == model)]
    own = score[mine.index].where(mine["left"] == model, 1 - score[mine.index])
    other = mine["right"].where(mine["left"] == model, mine["left"])
    pair = own.groupby(other)
    u = (own - pair.transform("mean")) / pair.transform("size") / other.nunique()
    by_hand = clustered(u.to_frame("u").assign(prompt=mine["prompt"]), "prompt")
    assert found.with_cov(cov="CR1").bse[model] ** 2 == pytest.approx(by_hand, rel=SAME)
    assert found.to_frame()["design_effect"][model] > 4
