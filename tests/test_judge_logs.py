"""Logs of judges: what each writer means by its verdicts, in both orders, and what is no verdict."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, LogFormatError, NotAvailableError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

QUESTIONS = 12


def lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def array(path, records):
    path.write_text(json.dumps(records, indent=1))
    return path


def annotation(i, preference, model="m", annotator="judge-1", **more):
    return {
        "instruction": f"question {i}",
        "output_1": "short",
        "generator_1": "base",
        "dataset": f"set-{i % 3}",
        "output_2": "a longer one",
        "generator_2": model,
        "annotator": annotator,
        "preference": preference,
    } | more


def pair(i, first, second, **more):
    """A pair of FastChat, the verdicts by the names of the models."""
    known = {"question_id": 80 + i, "model_1": "a", "model_2": "b", "g1_winner": first, "g2_winner": second}
    return known | {"judge": ["gpt", "pair-v2"], "turn": 1} | more


def placed(i, first, second, **more):
    """A pair whose verdicts name the place."""
    known = {"question_id": i, "model_a": "a", "model_b": "b", "judge_id": "j", "winner_ab": first, "winner_ba": second}
    return known | {"turn": 2, "category": "writing"} | more


def grade(i, score, turn=1, **more):
    known = {"question_id": i, "model": "a", "judge": ["gpt", "single-v1"], "user_prompt": "?", "judgment": "fine"}
    return known | {"score": score, "turn": turn, "tstamp": 1.5} | more


def games(i, first, second, **more):
    both = [{"user_prompt": "?", "judgment": "!", "score": score} for score in (first, second)]
    return {"question_id": f"q{i}", "model": "m", "judge": "j", "games": both} | more


def battle(i, winner, **more):
    known = {"question_id": f"q{i}", "model_a": "a", "model_b": "b", "winner": winner, "judge": f"user {i % 4}"}
    return known | {"turn": 1, "anony": True, "language": "English", "tstamp": 1.5 + i} | more


def compared(i, outcome, order, **more):
    role = {"test_model": "t", "neighbor_model": "n", "iteration_index": "1"}
    known = {"scenario_id": str(i), "pair": role, "order": order, "outcome_for_test_model": outcome}
    return known | {"plus_for_test": 5, "plus_for_other": 3} | more


def board(path, comparisons):
    meta = {"global_pairwise_comparisons": comparisons, "last_updated": "2025-01-01"}
    path.write_text(json.dumps({"__metadata__": meta, "t": {"elo": 1510.0}, "n": {"elo": 1490.0}}))
    return path


def item(i, *annotators, **more):
    known = {"idx": i, "motivation_app": f"app {i % 2}", "cmp_key": "a-1_b-2", "instruction": "do", "input": str(i)}
    return known | {f"annotator{k}": found for k, found in enumerate(annotators, start=1)} | more


# Every writer's verdicts, as winners and as win rates


def test_preferences_of_alpaca_eval_are_wins_of_the_model(tmp_path):
    log = er.read_log(array(tmp_path / "annotations.json", [annotation(i, p) for i, p in enumerate([2, 1, 0, 1.5, 2])]))
    assert log.format == "alpaca_eval"
    assert log.frame["winner"].tolist() == ["left", "right", "tie", "tie", "left"]
    assert log.frame.loc[0, ["left", "right", "length.left", "length.right"]].tolist() == ["m", "base", 12, 5]
    assert log.win_rate().params["m"] == pytest.approx(0.6)
    assert log.bradley_terry().params["m"] > 0


def test_weighted_preferences_are_scores_and_no_verdicts(tmp_path):
    preferences = [1.25, 1.75, 2.0, None, float("nan"), 1.5]
    log = er.read_log(array(tmp_path / "annotations.json", [annotation(i, p) for i, p in enumerate(preferences)]))
    assert "winner" not in log.roles
    assert log.left_out.to_dict() == {"unparsed": 2}
    assert log.win_rate().params["m"] == pytest.approx(np.mean([0.25, 0.75, 1.0, 0.5]))
    with pytest.raises(NotAvailableError, match="win_rate or bradley_terry"):
        log.mean()


@pytest.mark.parametrize("write", [pair, placed])
def test_both_orders_of_a_pair_are_rows_with_the_first_shown_on_the_left(write, tmp_path):
    # In words: a wins both, b wins both, whoever is first wins, ties, an error in one order, in both.
    named = [("a", "a"), ("b", "b"), ("a", "b"), ("tie", "tie"), ("a", "error"), ("error", "error")]
    spelt = {"a": "model_1", "b": "model_2"}
    place = ({"a": "A", "b": "B"}, {"a": "B", "b": "A"})
    rows = [
        write(i, *(spelt.get(v, v) if write is pair else place[k].get(v, v) for k, v in enumerate(both)))
        for i, both in enumerate(named)
    ]
    log = er.read_log(lines(tmp_path / "pairs.jsonl", rows))
    assert (log.format, len(log.frame), log.left_out.to_dict()) == ("mt_bench", 9, {"unparsed": 3})
    models = np.where(log.frame["winner"] == "left", log.frame["left"], log.frame["right"])
    found = np.where(log.frame["winner"] == "tie", "tie", models).tolist()
    assert found == [v for both in named for v in both if v != "error"]
    assert log.frame["order"].tolist()[:4] == [1, 2, 1, 2]
    first = log.frame[log.frame["prompt"] == log.frame["prompt"].unique()[2]]
    assert first["winner"].tolist() == ["left", "left"]
    assert log.win_rate().params["a"] == pytest.approx((2 + 0 + 1 + 1 + 1) / 9)


@pytest.mark.parametrize("score", [True, float("inf"), "nine"])
def test_a_grade_that_is_no_finite_number_is_refused(tmp_path, score):
    with pytest.raises(LogFormatError, match="score"):
        er.read_log(
            lines(tmp_path / "gpt-4_single.jsonl", [grade(i, score if i == 3 else 9) for i in range(QUESTIONS)])
        )


def test_grades_are_scores_of_one_turn_or_of_all(tmp_path):
    rows = [grade(i, 5 + i % 3) for i in range(6)] + [grade(i, (-1, 4, 3, 5, 4, 4)[i], turn=2) for i in range(6)]
    path = lines(tmp_path / "single.jsonl", rows)
    with pytest.raises(ArgumentError, match=r"'turn 1' \(6\), 'turn 2' \(5\), 'average' \(5\)"):
        er.read_log(path)
    assert er.read_log(path, metric="turn 1").mean().params.iloc[0] == 6
    second = er.read_log(path, metric="turn 2")
    assert (second.left_out.to_dict(), second.mean().params.iloc[0]) == ({"unparsed": 1}, 4)
    both = er.read_log(path, metric="average")
    assert (both.left_out.to_dict(), len(both.frame)) == ({"unparsed": 1}, 5)
    assert both.mean().params.iloc[0] == pytest.approx(
        np.mean([(5 + i % 3 + (-1, 4, 3, 5, 4, 4)[i]) / 2 for i in range(1, 6)])
    )


def test_grades_in_one_record_are_turns_and_an_empty_judgement_is_no_grade(tmp_path):
    rows = [
        {"question_id": i, "model_id": "a", "judge_id": "j", "score_turn1": 7.0, "score_turn2": -1.0, "avg_score": 7.0}
        | {"judgment_turn1": "seven", "judgment_turn2": ""}
        for i in range(3)
    ]
    path = lines(tmp_path / "single.jsonl", rows)
    assert er.read_log(path, metric="turn 1").frame["score"].tolist() == [7, 7, 7]
    again = lines(tmp_path / "two.jsonl", [row | {"judge_id": name} for name in "jk" for row in rows])
    assert len(er.read_log(again, metric="turn 1", scorer="k").frame) == 3


def test_strong_verdicts_of_arena_hard_are_one_row_with_a_weight(tmp_path):
    rows = [games(0, "A>>B", "B>>A"), games(1, "A=B", "A>>B"), games(2, "B>A", None)]
    log = er.read_log(lines(tmp_path / "m.jsonl", rows))
    assert (log.format, log.left_out.to_dict()) == ("arena_hard", {"unparsed": 1})
    assert log.frame["weight"].tolist() == [3, 3, 1, 3, 1]
    # The baseline is A in the first game, the model in the second.
    assert log.frame["left"].tolist() == ["baseline", "m", "baseline", "m", "baseline"]
    assert log.win_rate().params["m"] == pytest.approx((0 + 0 + 0.5 + 1 + 1) / 5)
    assert log.win_rate(weights="weight").params["m"] == pytest.approx((0 + 0 + 0.5 + 3 + 1) / 11)
    assert any("does not name its baseline" in note for note in log.notes)
    named = er.read_log(lines(tmp_path / "n.jsonl", [row | {"baseline": "gpt"} for row in rows]))
    assert set(named.frame["left"]) == {"gpt", "m"}


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
def test_battles_of_the_arena_count_both_bad_as_a_tie(kind, tmp_path):
    winners = ["model_a", "model_b", "tie", "tie (bothbad)", "model_a"]
    rows = [battle(i, winner) for i, winner in enumerate(winners)]
    path = tmp_path / f"battles.{kind}"
    if kind == "csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        {"json": array, "jsonl": lines}[kind](path, rows)
    log = er.read_log(path)
    assert (log.format, log.frame["winner"].tolist()) == ("chatbot_arena", ["left", "right", "tie", "tie", "left"])
    assert log.frame["verdict"].tolist() == winners
    assert log.win_rate(groups="prompt").params["a"] == pytest.approx(0.6)


def test_outcomes_of_eqbench_are_of_the_tested_model_on_either_side(tmp_path):
    rows = [
        compared(1, 1.0, "A1:test / A2:other"),
        compared(1, 1.0, "A1:other / A2:test"),
        compared(2, 0.0, "A1:test / A2:other"),
        compared(2, 0.5, "A1:other / A2:test"),
        {"scenario_id": "3", "pair": {"test_model": "t", "neighbor_model": "n"}, "order": "forward", "error": "no"},
    ]
    log = er.read_log(board(tmp_path / "elo.json", rows))
    assert (log.format, log.left_out.to_dict()) == ("eqbench3", {"errored": 1})
    assert log.frame["winner"].tolist() == ["left", "right", "right", "tie"]
    assert log.frame["left"].tolist() == ["t", "n", "t", "n"]
    assert log.frame["plus.left"].tolist() == [5, 3, 5, 3]
    assert log.win_rate().params["t"] == pytest.approx(2.5 / 4)
    assert log.runs[0].details["reported"]["t"] == {"elo": 1510.0}


def test_verdicts_of_other_judges_find_their_pair_in_the_test_set(tmp_path):
    array(tmp_path / "testset-v1.json", [item(0, 1, 1, 2), item(1, 0, 2, 2)])
    machine = array(tmp_path / "gpt-testset-v1.json", [{"idx": i, "gpt_result": found} for i, found in enumerate("1 ")])
    with pytest.raises(LogFormatError):
        er.read_log(machine)
    with pytest.raises(LogFormatError, match=r"found others: ' ' \(1\)"):
        er.read_log(tmp_path)
    array(machine, [{"idx": 0, "gpt_result": "1"}, {"idx": 1, "gpt_result": None}])
    log = er.read_log(tmp_path)
    assert (len(log.frame), log.left_out.to_dict()) == (7, {"unparsed": 1})
    assert sorted(log.frame["judge"].unique()) == ["annotator1", "annotator2", "annotator3", "gpt"]
    assert log.win_rate(groups="prompt").params["a-1"] == pytest.approx((3 + 0.5) / 7)


def test_files_of_a_crowd_and_of_a_model_are_one_log_of_two_kinds_of_judges(tmp_path):
    head = "id,prompt,model_x,model_y,{}winner,left,right\n"
    crowd = head.format("worker,") + "0,8,1,2,5,tie,A,B\n0,8,1,2,6,right,A,B\n"
    (tmp_path / "crowd-comparisons.csv").write_text(crowd)
    (tmp_path / "gpt4-comparisons.csv").write_text(head.format("") + "0,8,1,2,left,A,B\n1,9,1,2,left,B,A\n")
    log = er.read_log(tmp_path)
    assert log.frame["judge"].tolist() == ["worker 5", "worker 6", "gpt4", "gpt4"]
    assert log.frame["judge.kind"].tolist() == ["person", "person", "model", "model"]
    assert log.win_rate(groups="prompt").params["A"] == pytest.approx((0.5 + 0 + 1 + 0) / 4)


# What is refused, and that following the advice works

WRITERS = {
    "alpaca_eval": (array, [annotation(i, 1 + i % 2) for i in range(QUESTIONS)], {"preference": 3.5}),
    "mt_bench": (lines, [pair(i, "model_1", "model_2") for i in range(QUESTIONS)], {"g2_winner": "Model_2"}),
    "mt_bench by place": (lines, [placed(i, "A", "B") for i in range(QUESTIONS)], {"winner_ab": "C"}),
    "arena_hard": (lines, [games(i, "A>B", "B>>A") for i in range(QUESTIONS)], {"games": [{"score": "A>C"}] * 2}),
    "eqbench3": (board, [compared(i, 1, "x:test / y:other") for i in range(QUESTIONS)], {"outcome_for_test_model": 2}),
    "pandalm": (array, [item(i, 1, 2, 0) for i in range(QUESTIONS)], {"annotator2": 3}),
    "chatbot_arena": (lines, [battle(i, "model_a") for i in range(QUESTIONS)], {"winner": "model_c"}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_verdict_given_twice_counts_once_and_two_verdicts_are_an_error(name, tmp_path):
    write, rows, _ = WRITERS[name]
    whole = er.read_log(write(tmp_path / "log.json", rows))
    again = er.read_log(write(tmp_path / "log.json", [*rows, rows[3]]))
    assert len(again.frame) == len(whole.frame)
    assert again.left_out["duplicate"] == len(whole.frame) / len(rows)
    change = {
        "alpaca_eval": {"preference": 1.5},
        "mt_bench": {"g1_winner": "tie"},
        "mt_bench by place": {"winner_ab": "tie"},
        "arena_hard": {"games": [{"score": "A=B"}, {"score": "A=B"}]},
        "eqbench3": {"outcome_for_test_model": 0.5},
        "pandalm": {"annotator1": 0},
        "chatbot_arena": {"winner": "tie"},
    }[name]
    path = write(tmp_path / "log.json", [*rows, rows[3] | change])
    with pytest.raises(LogFormatError):
        er.read_log(path)
    assert len(er.read_log(path, broken="skip").frame) == len(whole.frame)


# Real logs


@pytest.mark.parametrize(
    ("name", "options", "rows", "left_out"),
    [
        ("alpaca_eval/LMCocktail-10.7B-v1__alpaca_eval_gpt4__annotations.json", {}, 13, {"unparsed": 2}),
        ("alpaca_eval/claude-2.1__alpaca_eval_cot_gpt4_turbo_fn__annotations.json", {}, 25, {}),
        ("alpaca_eval/claude-2.1__weighted_alpaca_eval_gpt4_turbo__annotations.json", {}, 25, {}),
        ("arena_hard/bagel-8b-v1.0.jsonl", {}, 24, {}),
        ("eqbench3/elo_results_excerpt.json", {}, 10, {"errored": 2}),
        ("fastchat_mt_bench/gpt-4_pair.jsonl", {}, 29, {"unparsed": 3}),
        ("fastchat_mt_bench/gpt-4_single.jsonl", {}, 12, {}),
        ("llmfao", {}, 80, {}),
        ("mt_bench_repro/pairwise_judgments.jsonl", {}, 66, {"unparsed": 6}),
        ("mt_bench_repro/single_grade.jsonl", {"metric": "average"}, 10, {}),
        ("pandalm", {}, 80, {}),
    ],
)
def test_real_excerpts_read_to_their_counts(name, options, rows, left_out, shared):
    log = er.read_log(shared / "data" / "original" / name, **options)
    assert (len(log.frame), log.left_out.to_dict()) == (rows, left_out)
    found = log.win_rate() if "left" in log.roles else log.mean()
    assert np.isfinite(found.params).all()


def test_real_verdicts_by_place_are_the_verdicts_of_the_log_itself(shared):
    """A pair whose two orders agree is the winner that the log names; where they differ it is inconsistent."""
    path = shared / "data" / "original" / "mt_bench_repro" / "pairwise_judgments.jsonl"
    frame = er.read_log(path).frame
    frame["won"] = frame["winner"].mask(frame["winner"] == "left", frame["left"])
    frame["won"] = frame["won"].mask(frame["winner"] == "right", frame["right"])
    frame["pair"] = [" ".join(sorted(sides)) for sides in zip(frame["left"], frame["right"], strict=True)]
    found = frame.groupby(["prompt", "judge", "pair"])["won"].agg(list)
    for record in map(json.loads, path.read_text().splitlines()):
        key = (str(record["question_id"]), record["judge_id"], " ".join(sorted((record["model_a"], record["model_b"]))))
        if record["winner"] == "error":
            assert key not in found or len(found[key]) == 1
        else:
            both = found[key]
            assert record["winner"] == (both[0] if both[0] == both[1] else "inconsistent")


def test_real_comparisons_of_eqbench_are_those_of_the_tidy_table(shared):
    frame = er.read_log(shared / "data" / "original" / "eqbench3" / "elo_results_excerpt.json").frame
    table = pd.read_csv(shared / "data" / "eqbench3_pairs.csv.gz", dtype=str, keep_default_na=False)
    first = table["shown_first"] == "model_a"
    table["left"] = table["model_a"].where(first, table["model_b"])
    table["right"] = table["model_b"].where(first, table["model_a"])
    table["won"] = (
        table["winner"].map({"model_a": True, "model_b": False}).eq(first).map({True: "left", False: "right"})
    )
    table["won"] = table["won"].mask(table["winner"] == "tie", "tie")
    known = set(zip(table["scenario_id"], table["left"], table["right"], table["won"], strict=True))
    assert set(zip(frame["prompt"], frame["left"], frame["right"], frame["winner"], strict=True)) <= known
