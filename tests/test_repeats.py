"""Repeats of a question: found, told apart from other questions under one id, and joined where ids start anew."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.data.clusters import joint_parts
from evalreg.errors import DuplicateRowsError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# The advice is followed to the same sums in another order.
ROUNDING = 1e-12


def real(shared, name):
    return pd.read_csv(shared / "data" / f"{name}.csv.gz")


def tasks_of(n_tasks=27, n_questions=60):
    """Two prompting methods on tasks of unlike difficulty and length, whose questions are numbered anew in each."""
    rng = np.random.default_rng(21)
    index = pd.DataFrame(np.argwhere(np.ones((n_tasks, n_questions))), columns=["task", "question_index"])
    index = index[index["question_index"] < rng.integers(n_questions // 2, n_questions + 1, n_tasks)[index["task"]]]
    easy = rng.normal(size=n_tasks)[index["task"]] + 0.5 * rng.normal(size=len(index))
    return pd.concat(
        [
            index.assign(method=name, correct=(easy + shift + rng.normal(size=len(index)) > 0).astype(int))
            for name, shift in (("cot", 0.6), ("direct", 0.0))
        ],
        ignore_index=True,
    ).assign(task=lambda log: "task " + log["task"].astype(str))


@pytest.fixture(scope="module")
def tasks():
    return tasks_of()


# Advice, followed

QUESTIONS = {"item": "question_id", "sample": "sample"}


def test_ids_that_start_anew_in_each_task_are_joined_and_the_advice_gives_the_error_of_the_joined_column(tasks):
    with pytest.raises(DuplicateRowsError, match="start anew in each 'task'") as caught:
        er.mean(tasks, "correct", by="method", item="question_index")
    item = re.search(r'item="([^"]+)"', str(caught.value)).group(1)
    followed = er.mean(tasks, "correct", by="method", item=item, groups="task")
    by_hand = tasks.assign(q=tasks["task"] + "/" + tasks["question_index"].astype(str))
    expected = er.mean(by_hand, "correct", by="method", item="q", groups="task")
    assert followed.nobs == expected.nobs == len(by_hand)
    assert followed.bse.to_numpy() == pytest.approx(expected.bse.to_numpy(), rel=ROUNDING)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("matharena_aime2025_II_scores", {"score": "correct", "by": "model"} | QUESTIONS),
        ("cruxeval_codellama7b_samples", {"score": "correct", "by": "task"} | QUESTIONS),
        ("tau_bench_airline_gpt4o_trials", {"score": "reward", "item": "task_id", "sample": "trial"}),
        ("mtbench_enko_single", {"score": "score", "by": "model", "item": "question_id", "sample": "judge"}),
    ],
)
def test_answers_to_the_same_questions_of_real_logs_are_averaged_and_known_as_such(shared, name, options):
    log = real(shared, name)
    if name == "mtbench_enko_single":
        log = log.query("language == 'en' and turn == 1 and graded_with_reference == 0")
    check_averaged(log, options)


@pytest.mark.parametrize(("n_questions", "n_samples", "n_models"), [(40, 4, 2), (50, 5, 1), (300, 10, 2), (80, 3, 2)])
def test_answers_to_the_same_questions_are_averaged_and_known_as_such(n_questions, n_samples, n_models):
    log = er.datasets.sampled(n_questions=n_questions, n_samples=n_samples, n_models=n_models, seed=6)
    check_averaged(log, {"by": "model", "item": "question", "sample": "sample"})


def check_averaged(log, options):
    er.mean(log, **options)
    without = {argument: value for argument, value in options.items() if argument != "sample"}
    with pytest.raises(DuplicateRowsError, match=f'answers to the same questions: sample="{options["sample"]}"'):
        er.mean(log, **without)


def test_where_the_scores_cannot_tell_both_readings_are_offered(rng):
    log = pd.DataFrame({"q": [1, 2] * 2, "part": ["a", "a", "b", "b"], "score": rng.random(4)})
    with pytest.raises(DuplicateRowsError) as caught:
        er.mean(log, item="q")
    assert 'item="part:q"' in str(caught.value)
    assert 'sample="part"' in str(caught.value)
    # Joined with the day of each run, models would have no question in common.
    runs = pd.DataFrame({"model": [*"aaaabbbb"], "q": [1, 2, 3, 1] * 2, "day": [1, 1, 1, 2, 3, 3, 3, 4], "score": 1})
    with pytest.raises(DuplicateRowsError, match=r"'day' tells them apart\. Where they are answers"):
        er.compare(runs, item="q")


@pytest.mark.parametrize("repeat", [{"run": [1, 2] * 2}, {"run": [0.1, 0.2] * 2}])
def test_functions_that_average_nothing_do_not_send_to_an_argument_that_they_lack(repeat):
    log = {"model": [*"aabb"], "item": [1] * 4, "score": [0, 1] * 2, **repeat}
    with pytest.raises(DuplicateRowsError, match="verage") as caught:
        er.wins(log)
    assert not re.search("sample|copies", str(caught.value))  # their scores differ


def test_two_columns_may_be_needed(tasks):
    with pytest.raises(DuplicateRowsError) as caught:
        er.mean(tasks, "correct", item="question_index")
    assert re.search("'task' and 'method' tell them apart together.*item=.task:question_index", str(caught.value))
    er.mean(tasks, "correct", item="task:question_index", by="method")
    turns = pd.concat([tasks.assign(turn=turn) for turn in (1, 2)])
    with pytest.raises(DuplicateRowsError, match=r"'method' and 'turn' tell .*sample=.method:turn"):
        er.mean(turns, "correct", item="question_index")
    er.mean(turns, "correct", item="task:question_index", sample="method:turn")


# Every size by default, scores of either kind at a small and a large one.


# Joint ids in every role


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(4)
    index = [np.arange(2), np.arange(3), np.arange(12), np.arange(2), np.arange(2)]
    org, task, number, seed, trial = (part.ravel() for part in np.meshgrid(*index, indexing="ij"))
    hard = rng.normal(size=(3, 12))[task, number]
    frame = pd.DataFrame({"org": org, "family": "m", "task": task, "n:o": number, "seed": seed, "trial": trial})
    frame["score"] = (hard + 0.3 * org + rng.normal(size=len(frame)) > 0).astype(int)
    frame["label"] = np.where(rng.random(len(frame)) < 0.8, frame["score"], 1 - frame["score"])
    joined = {"model": ["org", "family"], "question": ["task", "n:o"], "sample": ["seed", "trial"]}
    for name, parts in joined.items():
        frame[name] = frame[parts].astype(str).agg(":".join, axis=1)
    return frame


JOINT = {"model": "org:family", "question": "task:`n:o`", "sample": "seed:trial"}


@pytest.mark.parametrize(
    "call",
    [
        lambda d, n: er.mean(d, by=n["model"], item=n["question"], sample=n["sample"]),
        lambda d, n: er.mean(d, by=[n["model"]], item=n["question"], sample=n["sample"], strata="task"),
        lambda d, n: er.compare(d, model=n["model"], item=n["question"], sample=n["sample"]).results,
        lambda d, n: er.pass_at_k(d, by=n["model"], item=n["question"], sample=n["sample"], k=2),
        lambda d, n: er.ratio(d, "score", "label", by=n["model"], groups="task"),
        lambda d, n: er.quantile(d.assign(score=np.arange(len(d)) % 97 * 1.0), by=n["model"], q=0.5),
    ],
    ids=["mean", "mean in strata", "compare", "pass@k", "ratio", "quantile"],
)
def test_a_joint_id_is_the_column_that_it_stands_for(log, call):
    by_hand = call(log, {name: name for name in JOINT})
    joint = call(log, JOINT)
    assert list(joint.params.index) == list(by_hand.params.index)
    assert joint.params.to_numpy() == pytest.approx(by_hand.params.to_numpy(), rel=ROUNDING)
    assert joint.bse.to_numpy() == pytest.approx(by_hand.bse.to_numpy(), rel=ROUNDING)


def test_joint_ids_of_a_pilot_and_of_a_sequence(log):
    for names in (JOINT, {name: name for name in JOINT}):
        found = er.plan.components(log, model=names["model"], item=names["question"], sample=names["sample"])
        assert found.attrs["models"] == ("0:m", "1:m")
        assert found["n"].tolist() == [36, 36]
    first, second = (
        er.confidence_sequence(log.sort_values("question"), groups="question", model=name, pair=("1:m", "0:m"))
        for name in (JOINT["model"], "model")
    )
    assert first.frame.equals(second.frame) if hasattr(first, "frame") else str(first) == str(second)


def test_joint_ids_of_a_board():
    log = er.datasets.judge_log(n_models=4, n_prompts=40, seed=2)
    parts = log.assign(**{f"{side}_{i}": log[side].str.split("-").str[i] for side in ("left", "right") for i in (0, 1)})
    parts, roles = parts.drop(columns=["left", "right"]), {"winner": "winner", "groups": "prompt"}
    board = er.win_rate(parts, left="left_0:left_1", right="right_0:right_1", **roles)
    expected = er.win_rate(log, left="left", right="right", **roles)
    assert board.bse.to_numpy() == pytest.approx(expected.bse.to_numpy(), rel=ROUNDING)
    assert list(board.params.index) == [name.replace("-", ":") for name in expected.params.index]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ()),
        ("a:b", ("a", "b")),
        ("a : b", ("a", "b")),
        ("`a:b`", ("a:b",)),
        ("`a:b`:c:`d e`", ("a:b", "c", "d e")),
        ("a:", ()),
        (":a", ()),
        ("a::b", ()),
        ("`a", ()),
        (3, ()),
    ],
)
def test_parts_of_a_joint_id(text, parts):
    assert joint_parts(text) == parts
