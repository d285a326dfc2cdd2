"""Each call on real logs, beside a number that did not come from evalreg: R, statsmodels, or plain numpy and pandas.

The numbers of R stand in `tests/reference/real_logs.json`, which `real_logs.R` writes from the same logs.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import optimize, special, stats

import evalreg as er
from evalreg.errors import ArgumentTypeError, DataError

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


def within(frame, columns, by):
    """Columns less their means within levels."""
    return frame[columns] - frame.groupby(by)[columns].transform("mean")


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


@pytest.mark.parametrize("cov", ["HC0", "HC1", "HC2", "HC3"])
def test_covariances_of_independent_rows_are_those_of_statsmodels(tau, cov):
    formula = "reward ~ n_messages + n_gold_actions"
    fitted = smf.ols(formula, tau).fit(cov_type=cov)
    np.testing.assert_allclose(er.fit(formula, tau, cov=cov).bse, fitted.bse, rtol=SAME)


@pytest.mark.parametrize(
    "foreign", [{"vcov": {"CRV1": "user_id"}}, {"cov_type": "cluster", "cov_kwds": {"groups": "user_id"}}]
)
def test_what_a_hint_says_to_write_gives_the_number_of_statsmodels(tau, foreign):
    with pytest.raises(ArgumentTypeError, match='write groups="user_id", cov="CR1"'):
        er.fit("reward ~ n_messages", tau, **foreign)
    found = er.Log(tau, score="reward", item="task_id").fit("score ~ n_messages", groups="user_id", cov="CR1")
    codes = {"groups": tau["user_id"].factorize()[0]}
    fitted = smf.ols("reward ~ n_messages", tau).fit(cov_type="cluster", cov_kwds=codes)
    np.testing.assert_allclose(found.bse, fitted.bse, rtol=SAME)


def test_a_family_of_statsmodels_and_a_subset_give_its_fit(tau):
    family = sm.families.Binomial()
    asked = {"groups": "user_id", "cov": "CR1", "subset": "n_gold_actions > 0"}
    found = er.fit("reward ~ n_messages", tau, family=family, **asked)
    some = tau[tau["n_gold_actions"] > 0]
    codes = {"groups": some["user_id"].factorize()[0]}
    fitted = smf.glm("reward ~ n_messages", some, family=family).fit(cov_type="cluster", cov_kwds=codes)
    np.testing.assert_allclose(found.params, fitted.params, rtol=ITERATED)
    np.testing.assert_allclose(found.bse, fitted.bse, rtol=ITERATED)


def test_influence_comes_out_and_goes_in_again(hard):
    means = er.mean(hard, "correct", by="method", item="question", groups="task")
    influence = means.influence()
    again = er.infer(er.from_influence(means.params, influence, data=hard), groups="task", cov="CR1")
    np.testing.assert_allclose(again.bse, means.with_cov(cov="CR1").bse, rtol=SAME)
    for method, rows in hard.groupby("method"):
        own = (rows["correct"] - rows["correct"].mean()) / len(rows)
        by_hand = clustered(own.to_frame("u").assign(task=rows["task"]), "task")
        assert again.bse[method] ** 2 == pytest.approx(by_hand, rel=SAME)


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


def test_a_figure_of_predictions_has_their_intervals(hard):
    fitted = er.fit("correct ~ method", hard, groups="task")
    ends = fitted.avg_predictions(by="method").conf_int()
    with mpl.rc_context():
        ax = fitted.plot_predictions("method")
        drawn = np.concatenate([np.ravel(path.vertices) for one in ax.collections for path in one.get_paths()])
        drawn = np.concatenate([drawn, *(np.ravel(line.get_xydata()) for line in ax.lines)])
        mpl.pyplot.close(ax.figure)
    for end in ends.to_numpy().ravel():
        assert np.min(np.abs(drawn - end)) < SAME


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
    asked = {"treatment": "arm", "groups": "user_id", "statistic": "difference"}
    found = er.randomisation_test(log, "reward", **asked)
    seen = []
    for some in itertools.combinations(users, 3):
        inside = log["user_id"].isin(some)
        seen.append(log["reward"][inside].mean() - log["reward"][~inside].mean())
    first = log["arm"] == "a"
    observed = abs(log["reward"][first].mean() - log["reward"][~first].mean())
    assert found.p_value == pytest.approx(np.mean(np.abs(seen) >= observed - 1e-12), rel=SAME)


def test_a_treatment_within_clusters_is_told_what_it_is(hard):
    with pytest.raises(DataError, match=r"`er.compare` pairs them"):
        er.randomisation_test(hard, "correct", treatment="method", groups="question")


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


def test_a_table_of_results_has_the_numbers_of_statsmodels(hard):
    pooled = er.fit("correct ~ method", hard, groups="task", cov="CR1")
    table = er.table([pooled, pooled.with_cov(groups=None)], names=["by task", "independent"])
    codes = {"groups": hard["task"].factorize()[0]}
    se = smf.ols("correct ~ method", hard).fit(cov_type="cluster", cov_kwds=codes).bse["method[T.direct]"]
    for shown in (str(table), table.summary().as_latex(), table.summary().as_markdown(), table.summary().as_html()):
        assert f"{se:.4f}" in shown
    naive = smf.ols("correct ~ method", hard).fit(cov_type="HC1").bse["method[T.direct]"]
    assert f"({naive:.4f})" in str(table)


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


def test_comparisons_of_several_evals_are_paired(issues):
    some = issues[issues["model"].isin(issues["model"].unique()[:2])]
    parts = {
        name: er.compare(rows, "resolved", item="instance_id")
        for name, rows in some.groupby(some["repo"] == "django/django")
    }
    table = er.join_evals({"django": parts[True], "others": parts[False]}).table
    for name, inside in (("django", True), ("others", False)):
        rows = some[(some["repo"] == "django/django") == inside]
        wide = rows.pivot(index="instance_id", columns="model", values="resolved")
        line = table.loc[name].iloc[0]
        left, right = table.loc[name].index[0]
        assert line["difference"] == pytest.approx((wide[left] - wide[right]).mean(), abs=1e-12)
        assert line["se"] == pytest.approx((wide[left] - wide[right]).sem(), rel=SAME)
        assert line["correlation"] == pytest.approx(wide.corr().iloc[0, 1], rel=SAME)


@pytest.fixture(scope="module")
def exams(shared):
    """Three models on three subjects, whose questions share passages."""
    columns = ["question_id", "category", "passage", "model", "correct"]
    log = pd.read_csv(shared / "data" / "mmlu_pro_scores.csv.gz", usecols=columns)
    models = ["Llama-2-13b-hf", "Llama-2-70b-hf", "Llama-2-7b-hf"]
    return log[log["model"].isin(models) & log["category"].isin(["history", "law", "physics"])]


def printed(kind, line):
    """Cells of a line in some format."""
    for mark in ("<td>", "<th>", "</td>", "</th>", "</tr>", "<tr>", "\\textbf{", "}", "\\\\", "&"):
        line = line.replace(mark, "|")
    cells = line.split("|") if kind != "text" else line.replace(" (", "_(").split()
    return [cell.strip().replace("_(", " (").strip() for cell in cells if cell.strip()]


@dataclass(frozen=True)
class OfSubjects:
    """Of one model, by subject: means, clustered and naive errors, questions and clusters."""

    means: list[float]
    errors: list[float]
    naive: list[float]
    questions: list[int]
    clusters: list[int]


@pytest.fixture(scope="module")
def by_model(exams):
    """What pandas and statsmodels say of each model."""
    found = {}
    for model in exams["model"].unique():
        rows = [exams[(exams["model"] == model) & (exams["category"] == subject)] for subject in subjects_of(exams)]
        errors = []
        for part in rows:
            codes = {"groups": part["passage"].factorize()[0], "df_correction": True}
            # statsmodels multiplies by G/(G - 1) and, for the regression, by (n - 1)/(n - 1).
            fit = smf.ols("correct ~ 1", part).fit(cov_type="cluster", cov_kwds=codes)
            errors.append(float(fit.bse.iloc[0]))
        found[model] = OfSubjects(
            means=[part["correct"].mean() for part in rows],
            errors=errors,
            naive=[part["correct"].std() / np.sqrt(len(part)) for part in rows],
            questions=[len(part) for part in rows],
            clusters=[part["passage"].nunique() for part in rows],
        )
    return found


def subjects_of(exams):
    return list(exams["category"].unique())


@pytest.fixture(scope="module")
def exam_files(exams, tmp_path_factory):
    """A file for each subject."""
    folder = tmp_path_factory.mktemp("exams")
    for subject in subjects_of(exams):
        exams[exams["category"] == subject].to_csv(folder / subject, index=False)
    return [str(folder / subject) for subject in subjects_of(exams)]


# The other two hold the same cells: every format of these commands has tests of its own.


def test_the_published_table_of_differences_holds_numbers_of_pandas_and_scipy(exams):
    # Differences from a baseline with paired errors, intervals and correlations by eval (Miller's table 5).
    baseline = "Llama-2-7b-hf"
    asked = {"score": "correct", "item": "question_id", "groups": "passage", "baseline": baseline, "cov": "CR1"}
    asked |= {"icc": None}  # t intervals, as published; the score intervals of the default have tests of their own
    found = er.by_eval(er.compare, exams, asked, column="category")
    for (subject, model, _), line in found.table.iterrows():
        part = exams[exams["category"] == subject]
        wide = part.pivot(index="question_id", columns="model", values="correct")
        passage = part.drop_duplicates("question_id").set_index("question_id")["passage"]
        d = wide[model] - wide[baseline]
        u = ((d - d.mean()) / len(d)).to_frame("u").assign(passage=passage)
        se, G = np.sqrt(clustered(u, "passage")), passage.nunique()
        reach = stats.t.ppf(0.975, G - 1) * se
        by_hand = [d.mean(), se, d.mean() - reach, d.mean() + reach, wide[model].corr(wide[baseline]), len(d), G]
        shown = line[["difference", "se", "lower", "upper", "correlation", "n", "n_clusters"]].astype(float)
        np.testing.assert_allclose(shown, by_hand, rtol=1e-8)
        assert f"{se:.4f}" in str(found.summary())
    assert set(found.table.index.get_level_values("eval")) == {"history", "law", "physics"}


def test_an_average_over_evals_adds_their_variances(hard):
    tasks = ["boolean_expressions", "navigate", "snarks"]
    parts = {task: er.mean(hard[hard["task"] == task], "correct", by="method", item="question") for task in tasks}
    found = er.join_evals(parts).average()
    each = hard[hard["task"].isin(tasks)].groupby(["method", "task"])["correct"].agg(["mean", "count"])
    p, n = each["mean"], each["count"]
    se = np.sqrt(p * (1 - p) / (n - 1))
    table = found.to_frame()
    for method in ("cot", "direct"):
        assert table.loc[method, "estimate"] == pytest.approx(p[method].mean(), rel=SAME)
        assert table.loc[method, "se"] == pytest.approx(np.sqrt((se[method] ** 2).sum()) / 3, rel=SAME)


# Noise, components, plans, populations


def test_the_noise_of_answers_is_that_of_a_two_way_table(sampled):
    out = sampled[sampled["task"] == "output"]
    found = er.noise(out, "correct", model=None, item="question_id", sample="sample").to_frame().iloc[0]
    table = out.pivot(index="question_id", columns="sample", values="correct").to_numpy()
    total, answers = table.mean(axis=1).var(ddof=1) / 800, table.var(axis=1, ddof=1).mean() / 10 / 800
    assert found["score"] == pytest.approx(0.342125, abs=1e-12)
    assert found["se_total"] ** 2 == pytest.approx(total, rel=SAME)
    # As the published noise study prints it, whose variances divide by n.
    assert round(found["se_total"] * np.sqrt(799 / 800), 7) == 0.0157703
    assert found["se_prediction"] ** 2 == pytest.approx(answers, rel=SAME)
    assert found["se_data"] ** 2 == pytest.approx(total - answers, rel=SAME)


def test_components_are_those_of_lme4(shared, of_r):
    log = pd.read_csv(shared / "data" / "mtbench_enko_single.csv.gz")
    kept = (log["language"] == "en") & (log["turn"] == 1) & (log["graded_with_reference"] == 0)
    one = log[kept & (log["model"] == "EEVE-Korean-Instruct-10.8B")]
    whole = one.groupby("question_id")["score"].count()
    one = one[one["question_id"].isin(whole.index[whole == 6])]
    found = er.components(one, "score", facets="question_id x judge").table["variance"]
    np.testing.assert_allclose(found.to_numpy(), list(of_r["components"].values()), rtol=ITERATED)


def test_the_plan_for_a_half_width_is_the_formula():
    z = stats.norm.ppf(0.975)
    assert er.plan.precision(half_width=0.03, rate=0.7, deff=2.5).n == int(np.ceil(2.5 * 0.21 * z**2 / 0.03**2))


def test_a_plan_from_a_board_rests_on_the_variance_parts_of_its_difference(board, judged):
    first, second = board.params.sort_values(ascending=False).index[:2]
    plan = board.plan(separate=(first, second), judges=[3, 6, 10])
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
    these = er.mean(out, "correct", **asked, target="these questions")
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


def test_dependence_within_tasks_is_the_ratio_of_variances(hard):
    found = er.mean(hard, "correct", by="method", item="question", groups="task", cov="CR1").dependence()
    for method, rows in hard.groupby("method"):
        sizes, n = rows.groupby("task").size(), len(rows)
        p = rows["correct"].mean()
        between = (sizes * (rows.groupby("task")["correct"].mean() - p) ** 2).sum() / 26
        inside = rows["correct"] - rows.groupby("task")["correct"].transform("mean")
        m0, error = (n - (sizes**2).sum() / n) / 26, (inside**2).sum() / (n - 27)
        icc = (between - error) / (between + (m0 - 1) * error)
        u = ((rows["correct"] - p) / n).to_frame("u").assign(task=rows["task"])
        line = found.loc[("task", method)]
        assert line["icc"] == pytest.approx(icc, rel=SAME)
        naive = p * (1 - p) / (n - 1)
        assert line["se_ratio"] == pytest.approx(np.sqrt(clustered(u, "task") / naive), rel=1e-6)


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
    assert found.design_effect()[model] > 4
