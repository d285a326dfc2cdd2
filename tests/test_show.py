"""What a person prints shows every column within 80 characters: frames by `show`."""

from __future__ import annotations

import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.FewCarriersWarning"
)


@pytest.fixture(scope="module")
def board():
    rows = er.datasets.judge_log(n_models=4, n_prompts=40, seed=1)
    long = {name: f"an-organisation/a-model-with-a-long-name-{name}" for name in rows["left"].unique()}
    rows = rows.assign(
        left=rows["left"].map(lambda name: long.get(name, name)), right=rows["right"].map(lambda n: long.get(n, n))
    )
    return er.win_rate(rows, left="left", right="right", winner="winner", groups="prompt")


@pytest.fixture(scope="module")
def comparison():
    return er.compare(er.datasets.paired(n_passages=20, seed=1), item="question", groups="passage")


def frames(board, comparison):
    return {
        "leaderboard": board.leaderboard(),
        "pairwise": board.pairwise(adjust="holm"),
        "estimates": board.to_frame(),
        "diagnostics": board.diagnostics(),
        "comparison": comparison.table,
        "wild": comparison.wild_test(draws=99),
        "mcnemar": comparison.mcnemar(),
        "equivalence": comparison.equivalence(0.1),
    }


def test_every_column_and_every_row_is_shown_within_80_characters(board, comparison):
    for name, frame in frames(board, comparison).items():
        text = str(er.show(frame))
        assert max(map(len, text.splitlines())) <= 80, name
        assert "..." not in text
        words = text.split()
        for column in frame.columns:
            assert column in text.replace("\n", " ") or all(part in text for part in column.split("_")), (name, column)
        for key in frame.index:
            label = key if isinstance(key, str) else key[0]
            assert label in words or label in text, (name, label)


def test_numbers_are_those_of_the_frame(comparison):
    text = str(er.show(comparison.table))
    row = comparison.table.iloc[0]
    for value in (row["difference"], row["se"], row["lower"], row["upper"]):
        assert f"{value:.4f}" in text
    assert f"{row['p_value']:.3f}" in text


@pytest.mark.parametrize("form", ["as_markdown", "as_latex", "as_html"])
def test_the_other_formats_have_all_columns_in_one_table(form, comparison):
    text = getattr(er.show(comparison.table), form)().replace("\\", "").replace("_", "")
    assert all(column.replace("_", "") in text for column in comparison.table.columns)


def test_columns_stand_below_each_other_under_letters_of_two_columns():
    log = er.datasets.paired(n_passages=20, seed=1).replace({"model": {"new": "模型"}})
    lines = er.mean(log, by="model", item="question").summary().as_text().splitlines()
    wide, plain = (next(line for line in lines if line.startswith(f"{name} ")) for name in ("模型", "old"))
    assert len(wide) + len("模型") == len(plain)


def test_models_with_one_estimate_share_the_first_place():
    answers = er.datasets.paired(n_passages=20, seed=1).query("model == 'new'")
    log = pd.concat([answers, answers.assign(model="twin")])
    assert '"new", "twin" share the first place of 2 models' in str(er.mean(log, by="model", item="question"))
