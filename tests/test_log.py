"""Logs made of frames and of tables: roles, what each question takes from them, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, DataError, IndependenceWarning

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture(scope="module")
def paired() -> pd.DataFrame:
    return er.datasets.paired(n_passages=15, seed=2)


@pytest.fixture(scope="module")
def verdicts() -> pd.DataFrame:
    return er.datasets.judge_log(n_prompts=25, seed=3)


def test_a_log_of_a_frame_answers_what_the_functions_answer(paired):
    log = er.Log(paired, item="question")
    groups = {"groups": "passage"}
    one = er.mean(paired, by="model", item="question", **groups)
    pd.testing.assert_series_equal(log.mean(**groups).bse, one.bse, check_names=False)
    pd.testing.assert_frame_equal(log.compare(**groups).table, er.compare(paired, item="question", **groups).table)
    pd.testing.assert_series_equal(log.fit("score ~ 1", **groups).bse, er.fit("score ~ 1", paired, **groups).bse)


def test_comparisons_are_clustered_by_prompt_and_judge_unless_told_otherwise(verdicts):
    log = er.Log(verdicts)
    names = {"left": "left", "right": "right", "winner": "winner"}
    pd.testing.assert_series_equal(log.win_rate().bse, er.win_rate(verdicts, **names, groups="prompt + judge").bse)
    alone = er.bradley_terry(verdicts, **names, groups="prompt")
    pd.testing.assert_series_equal(log.bradley_terry(groups="prompt").bse, alone.bse)
    with pytest.warns(IndependenceWarning, match="Name the prompts"):  # judges alone are no clusters of answers
        er.Log(verdicts.drop(columns="prompt")).win_rate()


def test_repeats_and_tasks_are_told_apart(paired):
    again = pd.concat([paired.assign(sample=k, score=paired["score"] * k) for k in (1, 2)])
    log = er.Log(again, item="question")
    np.testing.assert_allclose(log.mean().params, 1.5 * paired.groupby("model")["score"].mean())
    assert log.mean().n_clusters == {"item": paired["question"].nunique()}
    tasks = er.Log(pd.concat([paired.assign(task=name) for name in ("a", "b")]), item="question")
    assert len(tasks.mean().params) == 2 * paired["model"].nunique()
    assert tasks.compare().table["n"].iloc[0] == 2 * paired["question"].nunique()


def test_a_log_holds_nothing_that_the_caller_changes(paired):
    rows = paired.copy()
    log = er.Log(rows, item="question")
    rows.loc[:, "score"] = 0.0
    frame = log.frame
    frame["score"] = 1.0
    assert log.mean().params.equals(er.Log(paired, item="question").mean().params)
    with pytest.raises(AttributeError, match="cannot be changed"):
        log.frame = frame


def test_tables_are_read_as_logs(paired, tmp_path):
    rows = paired.rename(columns={"question": "item"})
    half = len(rows) // 2
    rows[:half].to_csv(tmp_path / "a.csv", index=False)
    rows[half:].to_csv(tmp_path / "b.csv", index=False)
    for path in (tmp_path, str(tmp_path / "*.csv"), [tmp_path / "a.csv", tmp_path / "b.csv"]):
        log = er.read_log(path)
        assert (log.format, len(log.frame)) == ("table", len(rows))
        np.testing.assert_allclose(log.mean().params, er.mean(rows, by="model", item="item").params)
    with pytest.raises(ArgumentError, match="`failed` must be one of"):
        er.read_log(tmp_path, failed=None)


def test_a_link_beside_its_file_adds_no_rows(tmp_path):
    (tmp_path / "real.csv").write_text("item,score\n1,1\n2,0\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert len(er.read_log(tmp_path).frame) == 2


def test_a_role_has_one_value_a_row_and_one_side_alone_is_no_role():
    rows = pd.DataFrame({"item": [[1], [2]], "score": [0, 1]})
    with pytest.raises(DataError, match="one value a row") as raised:
        er.Log(rows)
    assert (raised.value.column, raised.value.rows) == ("item", [0, 1])
    assert er.Log(rows.assign(item=["a", "b"], left="x")).roles == ("item", "score")


def test_columns_of_roles_go_by_either_name_in_every_verb():
    rows = er.datasets.paired(n_passages=20, seed=1)
    own = rows.rename(columns={"score": "correct", "question": "id", "model": "system"})
    log = er.Log(own, score="correct", item="id", model="system")
    plain = er.fit("score ~ 1", rows, groups="passage")
    for formula in ("score ~ 1", "correct ~ 1"):
        found = log.fit(formula, groups="passage")
        assert (found.params.tolist(), found.bse.tolist()) == (plain.params.tolist(), plain.bse.tolist())
    expected = er.mean(rows, by="model", item="question", groups="question").bse.tolist()
    for by, groups in (("model", "item"), ("system", "id"), ("model", "id")):
        assert log.mean(by=by, groups=groups).bse.tolist() == expected
    difference = er.compare(rows, item="question", groups="passage").table["se"].tolist()
    for options in ({}, {"model": "system", "item": "id"}, {"model": "model", "item": "item"}):
        assert log.compare(groups="passage", **options).table["se"].tolist() == difference
    judged = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=4, seed=1)
    sides = {"left": "a", "right": "b", "winner": "v", "prompt": "q", "judge": "j"}
    board = er.Log(judged.rename(columns=sides), **sides)
    one, two = (board.win_rate(groups=groups).bse.tolist() for groups in ("q + j", "prompt + judge"))
    assert one == two
