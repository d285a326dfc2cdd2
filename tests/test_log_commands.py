"""Logs on the command line: files as they are, roles without names, what was left out, and fields by their dots."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_inspect_log import accuracy, header, summary, write_eval, write_json
from test_lm_eval_log import one, two_filters, write
from test_promptfoo_log import document, results

import evalreg as er
from evalreg.errors import ArgumentError, DataError, LogFormatError, TooFewClustersError
from evalreg.results import reporting

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
ROUNDING = 1e-12


@dataclass(frozen=True)
class Run:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(call: Callable[..., tuple[int, str, str]]) -> Callable[..., Run]:
    """Runs a command in this process."""
    return lambda *arguments: Run(*call(*arguments))


def samples(seed: int, share: float) -> list[dict[str, Any]]:
    """40 questions in 10 passages with two answers each, and one sample in error."""
    draws = np.random.default_rng(seed).random((40, 2)) < share
    found = [
        summary(f"q{i:02d}", epoch, {"match": "C" if draws[i, epoch - 1] else "I"}, metadata={"passage": f"p{i // 4}"})
        for i in range(40)
        for epoch in (1, 2)
    ]
    found[0] |= {"scores": {}, "error": "timeout"}
    return found


@pytest.fixture(scope="module")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one task by two models."""
    folder = tmp_path_factory.mktemp("logs") / "evals"
    folder.mkdir()
    for name, share in (("one", 0.8), ("two", 0.4)):
        head = header(model=f"m/{name}", run_id=name, eval_id=name, config={"epochs": 2}, results=None)
        write_eval(folder / f"{name}.eval", head, samples(len(name) + int(share * 10), share))
    return folder


def test_the_three_questions_are_one_command_each_on_raw_logs(command, evals):
    log = er.read_log(evals)
    mean = command("mean", evals, "--groups", "passage", "--format", "json")
    document = json.loads(mean.out)
    expected = log.mean(groups="metadata.passage")
    assert mean.status == 0
    assert [row["estimate"] for row in document["parameters"]] == pytest.approx(expected.params.tolist(), rel=ROUNDING)
    assert [row["se"] for row in document["parameters"]] == pytest.approx(expected.bse.tolist(), rel=ROUNDING)
    assert (document["options"]["item"], document["options"]["sample"], document["options"]["by"]) == (
        *("item", "sample"),
        ["model"],
    )
    compared = command("compare", *sorted(evals.iterdir()), "--format", "json", "--gate", "m/one - m/two > 0")
    assert compared.status == 0
    assert json.loads(compared.out)["gate"]["n"] == 40
    board = command("leaderboard", evals / "*.eval", "--format", "csv")
    assert (board.status, board.out.splitlines()[1].split(",")[0]) == (0, "m/one")


@pytest.mark.parametrize("format", ["text", "md", "latex", "html", "csv", "json"])
def test_what_was_left_out_is_said_in_every_format(command, evals, format):
    run = command("mean", evals, "--format", format)
    said = run.err if format == "csv" else run.out
    assert re.search(r"left\s+out: 2\s+errored" if format != "json" else r'"errored": 2', said)
    if format == "json":
        log = json.loads(run.out)["log"]
        assert (log["format"], log["rows"], [found["model"] for found in log["runs"]]) == (
            *("inspect", 158),
            ["m/one", "m/two"],
        )


def test_a_choice_that_a_log_asks_for_is_made_by_an_option(command, tmp_path):
    both = [summary(i, 1, {"match": "C", "judge": "I"}) for i in range(6)]
    scorers = [accuracy(1.0), accuracy(0.0, "judge", "judge")]
    head = header(results={"total_samples": 6, "completed_samples": 6, "scores": scorers})
    path = write_json(tmp_path / "both.json", head, both)
    refused = command("mean", path)
    assert refused.status == 3
    assert "pass --scorer match." in refused.err
    assert command("mean", path, *advised(refused.err, "--scorer")).status == 0
    assert "--failed must be" in command("mean", path, "--failed", "no").err
    assert "--log-format must be" in command("mean", path, "--log-format", "no").err


def test_options_of_logs_are_refused_for_tables_and_those_of_pairs_for_scores(command, evals, tmp_path):
    (tmp_path / "a.csv").write_text("model,item,score\na,1,1\na,2,0\n")
    assert "a.csv is a table" in command("mean", tmp_path / "a.csv", "--metric", "x").err
    assert "--labels go with comparisons" in command("leaderboard", evals, "--labels", "A=left").err
    assert "read alone" in command("mean", "-", tmp_path / "a.csv").err


def test_several_tables_are_read_one_below_the_other(command, tmp_path):
    frame = er.datasets.paired(n_passages=12, seed=1)
    frame[frame["model"] == frame["model"].iloc[0]].to_csv(tmp_path / "a.csv", index=False)
    frame[frame["model"] != frame["model"].iloc[0]].to_csv(tmp_path / "b.csv", index=False)
    run = command("compare", tmp_path / "a.csv", tmp_path / "b.csv", "--item", "question", "--format", "json")
    expected = er.compare(frame, item="question").table["se"].iloc[0]
    assert json.loads(run.out)["parameters"][0]["se"] == pytest.approx(expected, rel=ROUNDING)
    assert "log" not in json.loads(run.out)


def nested(path: Path, extra: dict[str, Any] | None = None) -> Path:
    """JSON lines with a passage inside a document."""
    rng = np.random.default_rng(3)
    lines = [
        {"model": m, "id": q, "doc": {"passage": q // 4}, "m": {"acc": int(rng.random() < 0.6)}} | (extra or {})
        for m in "ab"
        for q in range(40)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def test_fields_of_nested_objects_are_named_by_their_dots(command, tmp_path):
    path = nested(tmp_path / "n.jsonl")
    asked = ("--score", "m.acc", "--by", "model", "--groups", "doc.passage", "--where", 'doc.passage != "3"')
    run = command("mean", path, *asked, "--format", "json")
    frame = pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    flat = frame.assign(passage=frame["doc"].map(lambda doc: doc["passage"]), acc=frame["m"].map(lambda m: m["acc"]))
    expected = er.mean(flat[flat["passage"] != 3], "acc", by="model", groups="passage")
    assert [row["se"] for row in json.loads(run.out)["parameters"]] == pytest.approx(expected.bse.tolist())
    twice = nested(tmp_path / "twice.jsonl", {"doc.passage": 1})
    refused = command("mean", twice, "--score", "m.acc", "--groups", "doc.passage")
    assert refused.status == 3
    assert '"doc.passage" is "doc.passage" and "doc > passage"' in refused.err


def test_a_short_name_that_may_be_two_fields_is_refused_and_lists_them(command, tmp_path):
    rows = er.datasets.paired(n_passages=10, seed=1)
    log = er.Log(rows.assign(**{"doc.part": rows["passage"], "metadata.part": rows["passage"]}), item="question")
    with pytest.raises(ArgumentError, match=r'"part" may be "doc.part" or "metadata.part"'):
        log.mean(groups="part")
    path = tmp_path / "n.jsonl"
    nested(path, {"metadata": {"passage": 1}, "score": 1, "item": 3})
    run = command("mean", path, "--log-format", "table", "--groups", "passage")
    assert '"passage" may be "doc.passage" or "metadata.passage"' in run.err


# A mapping file


def test_a_mapping_file_gives_the_columns_their_roles(command, tmp_path):
    path = nested(tmp_path / "n.jsonl")
    roles = tmp_path / "roles.toml"
    roles.write_text('model = "model"\nitem = "id"\nscore = "m.acc"\n')
    log = er.read_log(path, roles=roles)
    assert log.roles == ("model", "item", "score")
    run = command("compare", path, "--roles", roles, "--groups", "passage", "--format", "json")
    expected = log.compare(groups="doc.passage").table["se"].iloc[0]
    assert json.loads(run.out)["parameters"][0]["se"] == pytest.approx(expected, rel=ROUNDING)
    same = er.read_log(path, roles={"model": "model", "item": "id", "score": "m.acc"})
    pd.testing.assert_frame_equal(same.frame, log.frame)


def plain(tmp_path: Path) -> tuple[Path, pd.DataFrame]:
    """Scores of two models under names that are no roles, and the same under those of roles."""
    frame = er.datasets.paired(n_passages=12, seed=1)
    path = tmp_path / "plain.csv"
    frame.rename(columns={"model": "system", "question": "question_id", "score": "correct"}).to_csv(path, index=False)
    return path, frame


def advised(said: str, option: str) -> list[str]:
    """An option and its value, as a message spells them for a shell."""
    words = shlex.split(said[said.rindex(option) :].splitlines()[0].replace(".)", " "))
    return [words[0], words[1].rstrip(".")]


def test_the_roles_that_a_message_proposes_give_the_numbers(command, tmp_path):
    path, frame = plain(tmp_path)
    roles = ["--roles", "model=system,item=question_id,score=correct"]
    for verb in ("doctor", "leaderboard"):
        assert advised(command(verb, path).err, "--roles") == roles
    assert command("doctor", path, *roles).out.count("--roles model=system") > 0
    run = command("compare", path, *roles, "--groups", "passage", "--format", "json")
    expected = er.compare(frame, item="question", groups="passage").table["se"].iloc[0]
    assert json.loads(run.out)["parameters"][0]["se"] == pytest.approx(expected, rel=ROUNDING)


def test_the_column_of_scores_that_a_message_proposes_is_one(command, tmp_path):
    path, frame = plain(tmp_path)
    for verb in ("mean", "report", "noise"):
        refused = command(verb, path)
        assert refused.status == 3
        assert advised(refused.err, "--score")[1].rstrip(",") == "correct"
    run = command("mean", path, "--score", "correct", "--format", "json")
    assert json.loads(run.out)["parameters"][0]["estimate"] == pytest.approx(frame["score"].mean(), rel=ROUNDING)


def test_a_column_of_text_is_not_proposed_for_scores(command, tmp_path):
    (tmp_path / "a.csv").write_text("id,correct\n1,yes\n2,no\n")
    assert "--score NAME" in command("mean", tmp_path / "a.csv").err


@pytest.mark.parametrize("text", ["item=", "=a,score=b", "item=a,item=b,score=c", "score"])
def test_roles_that_are_neither_pairs_nor_a_file_are_refused(command, tmp_path, text):
    refused = command("doctor", plain(tmp_path)[0], "--roles", text)
    assert refused.status == 3
    assert "--roles" in refused.err


def test_battles_are_told_by_their_verdicts_and_read_as_such(command, tmp_path):
    frame = er.datasets.judge_log(n_prompts=20, n_judges=3, seed=2)
    sides = {"left": "model_a", "right": "model_b"}
    path = tmp_path / "battles.csv"
    frame.assign(winner=frame["winner"].replace(sides)).rename(columns={**sides, "prompt": "question_id"}).to_csv(path)
    for verb in ("doctor", "mean", "leaderboard"):
        assert advised(command(verb, path).err, "--log-format") == ["--log-format", "chatbot_arena"]
    board = json.loads(command("leaderboard", path, "--log-format", "chatbot_arena", "--format", "json").out)
    expected = er.win_rate(frame, left="left", right="right", winner="winner", groups="prompt + judge")
    found = {row["parameter"]: row["estimate"] for row in board["parameters"]}
    assert found == pytest.approx(expected.params.to_dict(), rel=ROUNDING)


@pytest.mark.parametrize("door", ["roles", "ragas", "battles"])
def test_a_table_read_by_a_door_of_its_own_keeps_the_columns_that_are_named(command, tmp_path, door):
    frame = er.datasets.passages(n_passages=24, questions_per_passage=4, seed=4)
    # Ids to the letter: passage 01 is not passage 1. One is longer than what a reader keeps unasked.
    ids = pd.Series([f"{k // 2:0{1 + k % 2}d}" for k in range(23)] + ["9" * 300])
    frame["passage"] = ids[frame["passage"].astype("category").cat.codes].to_numpy()
    frame = frame.assign(w=1.0 + frame.index % 3)[["question", "passage", "w", "score"]]
    asked, cleared = (
        ("--groups", "passage", "--weights", "w", "--where", "w < 3", "--format", "json"),
        frame.query("w < 3"),
    )
    expected, path = er.mean(cleared, groups="passage", weights="w"), tmp_path / "table.csv"
    if door == "roles":
        frame.rename(columns={"score": "correct"}).to_csv(path, index=False)
        out = command("mean", path, "--roles", "score=correct,item=question", *asked).out
    elif door == "ragas":
        frame.rename(columns={"score": "faithfulness", "question": "user_input"}).assign(response="x").to_csv(
            path, index=False
        )
        out = command("mean", path, "--metric", "faithfulness", *asked).out
    else:
        won = frame["score"].map({1.0: "model_a", 0.0: "model_b"})
        frame.assign(model_a="a", model_b="b", winner=won).drop(columns=["question", "score"]).to_csv(path, index=False)
        out = command("leaderboard", path, "--log-format", "chatbot_arena", *asked).out
    found = json.loads(out)
    assert found["parameters"][0]["se"] == pytest.approx(expected.bse.iloc[0], rel=ROUNDING)
    assert found["n_clusters"] == {"passage": cleared["passage"].nunique()}


def test_verdicts_on_sides_by_other_names_are_answered_with_the_columns(command, tmp_path):
    frame = er.datasets.judge_log(n_prompts=20, n_judges=3, seed=2)
    path = tmp_path / "verdicts.csv"
    frame.rename(columns={"left": "model_1", "right": "model_2"}).to_csv(path, index=False)
    said = command("leaderboard", path).err
    options = shlex.split(said.split("FILE")[1].splitlines()[0].rstrip("."))
    assert options == ["--left", "model_1", "--right", "model_2", "--winner", "winner"]
    assert command("leaderboard", path, *options).status == 0


def test_labels_and_the_key_of_a_mapping_file_are_used(command, tmp_path):
    verdicts = er.datasets.judge_log(n_prompts=20, n_judges=3, seed=2)
    written = verdicts.assign(winner=verdicts["winner"].map({"left": "A", "right": "B", "tie": "C"}))
    written.loc[:3, "winner"] = "error"
    path, roles = tmp_path / "v.csv", tmp_path / "roles.toml"
    written.rename(columns={"left": "first", "winner": "verdict"}).to_csv(path, index=False)
    text = 'left = "first"\nwinner = "verdict"\nkey = ["prompt", "judge"]\n'
    roles.write_text(text + '[labels]\nA = "left"\nB = "right"\nC = "tie"\nerror = ""\n')
    log = er.read_log(path, roles=roles)
    assert log.left_out.to_dict() == {"unparsed": 4}
    assert log.key == ["prompt", "judge"]
    expected = er.win_rate(verdicts[4:], left="left", right="right", winner="winner", groups="prompt + judge")
    pd.testing.assert_series_equal(log.win_rate().params, expected.params)
    board = json.loads(command("leaderboard", path, "--roles", roles, "--format", "json").out)
    assert board["options"]["key"] == ["prompt", "judge"]
    assert board["log"]["left_out"] == {"unparsed": 4}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("score = ", "must be a TOML file"),
        ('scores = "x"', '"scores" is not a role'),
        ("score = 3", "score is 3"),
        ('score = "x"\nkey = "a"', "key is 'a'"),
        ('score = "x"\n[labels]\nA = 1', "labels is not a table of texts"),
        ('score = "x"\n[labels]\nA = "left"', "no winner is named"),
    ],
)
def test_mapping_files_that_say_nothing_clear_are_refused(tmp_path, text, problem):
    (tmp_path / "roles.toml").write_text(text)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ArgumentError, match=problem):
        er.read_log(tmp_path / "a.csv", roles=tmp_path / "roles.toml")
    with pytest.raises(ArgumentError, match="cannot"):
        er.read_log(tmp_path / "a.csv", roles=tmp_path / "none.toml")


# The doctor


def commands_in(text: str) -> list[list[str]]:
    """Arguments of the commands that are advised."""
    joined = text.split("What to ask next:")[1].replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in joined.splitlines() if line.strip().startswith("evalreg ")]


def test_the_doctor_counts_finds_clusters_and_advises_commands_that_run(command, evals, tmp_path, monkeypatch):
    run = command("doctor", evals)
    assert run.status == 0
    assert max(map(len, run.out.splitlines())) <= 80 or str(evals) in run.out
    found = json.loads(command("doctor", evals, "--format", "json").out)
    assert found["counts"] == {
        "format": "inspect",
        "rows": 158,
        "runs": 2,
        "models": 2,
        "tasks": 1,
        "items": 40,
        "samples": 2,
    }
    assert found["left_out"] == {"errored": 2}
    (passage,) = [row for row in found["clusters"] if row["column"] == "metadata.passage"]
    effect = er.read_log(evals).mean(groups="metadata.passage").design_effect()
    assert (passage["clusters"], passage["largest_design_effect"]) == (10, pytest.approx(effect.max(), rel=ROUNDING))
    advised = commands_in(run.out)
    assert [arguments[0] for arguments in advised] == ["mean", "compare", "leaderboard", "report"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reporting, "_can_draw", lambda missing: False)  # the figures of reports are tested elsewhere
    for arguments in advised:
        assert command(*arguments).status == 0, arguments
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "```sh\nevalreg mean " in command("doctor", evals, "--format", "md").out


def test_the_doctor_gives_a_question_by_its_name_its_role_and_what_it_then_advises_runs(command, tmp_path, monkeypatch):
    log = er.datasets.paired(n_passages=20, seed=1).rename(columns={"question": "question_id"})
    log.to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.chdir(tmp_path)
    run = command("doctor", "a.csv")
    assert '"question_id" is it' in " ".join(run.out.split())
    first, *others = commands_in(run.out)
    assert first == ["doctor", "a.csv", "--roles", "model=model,score=score,item=question_id"]
    assert [arguments[0] for arguments in others] == ["mean", "fit", "mean", "report"]
    assert all(arguments[-2:] != ["--by", "question_id"] for arguments in others)
    log.drop(columns="passage").to_csv("bare.csv", index=False)
    assert "--by" not in command("doctor", "bare.csv").out
    again = command(*first)
    assert "role of the question" not in again.out
    advised = commands_in(again.out)
    assert [arguments[0] for arguments in advised] == ["mean", "compare", "leaderboard", "report"]
    monkeypatch.setattr(reporting, "_can_draw", lambda missing: False)
    for arguments in [*others, *advised]:
        assert command(*arguments).status == 0, arguments
    document = json.loads(command(*advised[1], "--format", "json").out)
    wanted = er.compare(log, item="question_id", groups="passage").table
    assert document["parameters"][0]["difference"] == pytest.approx(wanted["difference"].iloc[0], rel=ROUNDING)


def test_the_doctor_says_so_in_python_too_and_nothing_of_a_column_that_is_called_otherwise():
    log = er.datasets.paired(n_passages=20, seed=1).rename(columns={"question": "question_id"})
    found = er.Log(log).doctor()
    assert found.commands[0] == 'er.Log(log.frame, item="question_id").doctor()'
    again = eval(found.commands[0], {"er": er, "log": er.Log(log)})
    assert again.commands[1] == 'log.compare(groups="passage")'
    assert again.commands[-1] == 'log.mean(groups="passage").report("report.html")'
    other = er.Log(log.rename(columns={"question_id": "nummer"})).doctor()
    assert "does not say which question" in " ".join(other.remarks)
    assert not any("Log(" in command for command in other.commands)
    pairs = er.Log(er.datasets.judge_log(n_models=3, n_prompts=20, seed=1)).doctor()
    assert pairs.commands[-1] == 'log.win_rate().report("report.html")'


def test_the_doctor_of_verdicts_names_position_sparsity_and_judges():
    rows = er.datasets.judge_log(n_models=4, n_prompts=40, n_judges=2, position_effect=1.5, seed=1)
    rows = rows[~((rows["left"] == "model-01") & (rows["right"] == "model-02"))]
    rows = rows[~((rows["left"] == "model-02") & (rows["right"] == "model-01"))]
    said = " ".join(er.Log(rows).doctor().remarks)
    assert "Position matters" in said
    assert "1 of 6 pairs of models never met." in said
    assert "2 judges" in said


@pytest.mark.parametrize("opponent", ["aa", "zz"])
def test_the_doctor_finds_the_one_opponent_wherever_its_name_sorts(opponent):
    rows = pd.DataFrame([(opponent, f"m{k}", str(prompt)) for k in range(3) for prompt in range(4)])
    rows = rows.set_axis(["left", "right", "prompt"], axis=1).assign(winner=["left", "right", "tie"] * 4)
    assert f"Every comparison is with {opponent}" in " ".join(er.Log(rows).doctor().remarks)


def test_the_doctor_takes_kinds_of_questions_for_strata_and_passages_for_clusters(command, tmp_path):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"item": range(240), "passage": np.arange(240) // 4, "category": np.arange(240) // 20})
    effect = rng.normal(size=60)[rows["passage"]] + 2 * rng.normal(size=12)[rows["category"]]
    rows.assign(score=(effect + rng.normal(size=240) > 0).astype(int)).to_csv(tmp_path / "a.csv", index=False)
    found = json.loads(command("doctor", tmp_path / "a.csv", "--log-format", "table", "--format", "json").out)
    assert [row["column"] for row in found["clusters"]] == ["passage", "category"]
    assert found["clusters"][1]["design_effect"] > found["clusters"][0]["design_effect"] > 1
    assert "--groups passage" in found["commands"][0]
    (text,) = (text for text in found["remarks"] if text.startswith('"category" seems to say of which kind'))
    assert "name it in --strata" in text
    said = json.loads(command("mean", tmp_path / "a.csv", "--log-format", "table", "--format", "json").out)
    (text,) = (text for text in said["log"]["notes"] if 'one value of "passage" are alike' in text)
    assert text.endswith("Name it in --groups, or in --strata if its values are all there are.")


def test_the_doctor_gives_both_readings_of_few_values_with_many_questions_each(command, tmp_path):
    rows = pd.DataFrame({"item": range(1200), "site": np.arange(1200) % 8, "language": np.arange(1200) % 3})
    rows.assign(score=rows["site"] % 2).to_csv(tmp_path / "a.csv", index=False)
    found = json.loads(command("doctor", tmp_path / "a.csv", "--log-format", "table", "--format", "json").out)
    (text,) = (text for text in found["remarks"] if text.startswith('"site" has few values (8)'))
    assert "another draw of the benchmark would have again, are strata: name them in --strata" in text
    assert "others could have taken the place of, such as sites" in text
    assert "belong in --groups" in text
    assert any(text.startswith('"language" seems to say of which kind') for text in found["remarks"])


def test_the_doctor_takes_topics_of_three_questions_for_clusters(command, tmp_path):
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"item": range(120), "topic": np.arange(120) // 3})
    effect = rng.normal(size=40)[rows["topic"]]
    rows.assign(score=(effect + rng.normal(size=120) > 0).astype(int)).to_csv(tmp_path / "a.csv", index=False)
    found = json.loads(command("doctor", tmp_path / "a.csv", "--log-format", "table", "--format", "json").out)
    assert "--groups topic" in found["commands"][0]
    assert not any("of which kind" in text for text in found["remarks"])


def test_the_doctor_advises_no_means_of_one_cluster_each(command, tmp_path):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"item": range(120), "passage": np.repeat(range(12), 10)})
    hard = rng.normal(size=12)
    rows["score"] = (hard[rows["passage"]] + rng.normal(size=120) > 0).astype(int)
    rows.to_csv(tmp_path / "a.csv", index=False)
    advised = commands_in(command("doctor", tmp_path / "a.csv", "--log-format", "table").out)
    assert ["--groups" in arguments for arguments in advised] == [True, True, False, True]
    means = json.loads(command(*advised[-2], "--format", "json").out)["parameters"]
    assert len(means) == 12
    assert all(mean["se"] is not None for mean in means)


def test_verdicts_are_no_scores_of_single_models_and_the_message_says_where_they_go(command, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("left,right,prompt,score,length\na,b,1,0.5,3\na,b,2,1,4\nb,c,1,0,5\nb,c,2,0.3,9\n")
    made = (path, "--log-format", "table")
    for asked in (("mean",), ("compare",), ("noise",), ("plan", "--delta", "0.1")):
        run = command(*asked[:1], *made, *asked[1:])
        assert run.status == 3
        assert "See evalreg leaderboard" in run.err
    assert command("leaderboard", *made).status == 0
    assert command("mean", *made, "--score", "length", "--by", "left", "--item", "prompt").status == 0


@pytest.fixture
def two_tasks(tmp_path: Path) -> Path:
    """A table of two models on two tasks whose ids start anew, three answers to each question."""
    return written_tasks(tmp_path)


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a column that halves the questions."""
    path = written_tasks(tmp_path_factory.mktemp("halves"))
    pd.read_csv(path).assign(half=lambda f: f["item"] % 2).to_csv(path, index=False)
    return path


def written_tasks(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        [(m, task, i, k) for task in ("law", "math") for i in range(40) for m in "ab" for k in range(3)],
        columns=["model", "task", "item", "sample"],
    )
    hard = rng.normal(0, 2, 80)[rows["item"] + 40 * (rows["task"] == "math")]
    rows["score"] = (hard + rng.normal(size=len(rows)) + (rows["model"] == "a") > 0).astype(int)
    rows.to_csv(folder / "tasks.csv", index=False)
    return folder / "tasks.csv"


@pytest.mark.parametrize(
    "asked", ["compare", "leaderboard", "noise", "plan --delta 0.1 --uncorrected", "plan separate --models a,b"]
)
def test_every_command_that_takes_tasks_together_says_so(command, two_tasks, asked):
    name, _, more = asked.partition(" --")
    run = command(*name.split(), two_tasks, "--log-format", "table", *(f"--{more}".split() if more else []))
    assert run.status == 0, run.err
    assert "Questions of 2 tasks are taken together" in " ".join(run.out.split())


@pytest.fixture(scope="module")
def heard() -> dict[str, str]:
    """What commands on the halved questions said."""
    return {}


@pytest.mark.parametrize(
    ("asked", "advice", "apart"),
    [
        ("mean --by model", "write --by model,task", "mean --by model,task"),
        ("mean --by model", "write --by model,task", "mean"),
        ("mean --by model", "write --by model,task", "mean --by model --strata task"),
        ("table --by model", "write --by model,task", "table"),
        ("fit score~C(model)", "put C(task) into the formula", "fit score~C(task)"),
        ("table --formula score~1", "put C(task) into the formula", "table --formula score~C(task)"),
        ("components", 'write --facets "task x model x item:task"', ""),
        ("randomise --treatment half", "write --strata task", "randomise --treatment half --strata task"),
    ],
)
def test_commands_that_can_keep_tasks_apart_say_where_they_do_not(command, halves, heard, asked, advice, apart):
    def said(line: str) -> str:
        if line in heard:
            return heard[line]
        name, *more = line.split()
        if name == "components":
            more = ["--facets", "model x item"]
        run = command(name, *more[: name == "fit"], halves, "--log-format", "table", *more[name == "fit" :])
        assert run.status == 0, run.err
        return heard.setdefault(line, " ".join(run.out.split()))

    assert "2 tasks are taken together" in said(asked)
    assert advice in said(asked)
    if apart:
        assert "taken together" not in said(apart)


def test_questions_of_one_name_in_two_tasks_are_counted_where_a_command_merges_them(command, halves):
    said = "40 names of questions occur in several tasks and count as one question each"
    for asked in (["components", "--facets", "model x item"], ["randomise", "--treatment", "half", "--groups", "item"]):
        run = command(asked[0], halves, "--log-format", "table", *asked[1:])
        assert said in " ".join(run.out.split()), run.err
        as_csv = command(asked[0], halves, "--log-format", "table", *asked[1:], "--format", "csv")
        assert said in " ".join(as_csv.err.split())
        document = json.loads(command(asked[0], halves, "--log-format", "table", *asked[1:], "--format", "json").out)
        assert said in " ".join(document["log"]["notes"])
    # What the message advises counts 80 questions.
    facets = ("--facets", "task x model x item:task")
    advised = command("components", halves, "--log-format", "table", *facets, "--format", "csv")
    assert "taken together" not in advised.err
    table = pd.read_csv(io.StringIO(advised.out)).set_index("component")
    assert table.loc["item:task", "levels"] == 80
    apart = command("randomise", halves, "--log-format", "table", "--treatment", "half", "--groups", "task:item")
    assert "names of questions" not in apart.out
    assert "y: 40" in apart.out or "40 (240 rows)" in apart.out


def test_a_pilot_of_several_tasks_with_one_answer_each_is_planned_by_task_and_item(command, two_tasks):
    rows = pd.read_csv(two_tasks).query("sample == 0").drop(columns="sample")
    rows.to_csv(two_tasks, index=False)
    asked = ("plan", two_tasks, "--delta", "0.1", "--format", "json")
    runs = [command(*asked, "--log-format", "table"), command(*asked, "--item", "task:item")]
    assert [run.status for run in runs] == [0, 0], [run.err for run in runs]
    expected = er.plan.from_pilot(er.compare(rows, item="task:item"), delta=0.1)
    assert [json.loads(run.out)["plan"][0]["n"] for run in runs] == [expected["n"].iloc[0]] * 2


def test_the_noise_of_one_model_needs_no_column_of_models(command, two_tasks):
    rows = pd.read_csv(two_tasks).query("model == 'a' and task == 'law'").drop(columns=["model", "task"])
    rows.to_csv(two_tasks, index=False)
    run = command("noise", two_tasks, "--log-format", "table", "--format", "json")
    expected = er.read_log(two_tasks, format="table").noise()
    assert json.loads(run.out)["models"][0]["se_total"] == pytest.approx(expected.models["se_total"].iloc[0])
    refused = command("noise", two_tasks, "--sample", "sample")
    assert refused.status == 3
    assert "--model none" in refused.err
    assert command("noise", two_tasks, "--sample", "sample", "--model", "none").status == 0


def test_options_that_a_plan_of_two_models_would_pass_over_are_refused(command, two_tasks):
    asked = ("plan", "separate", two_tasks, "--log-format", "table", "--models", "a,b")
    assert "--method" in command(*asked, "--model", "model", "--method", "bradley-terry").err
    assert "go with `--model`" in command(*asked, "--item", "item").err


def test_the_doctor_tells_repeats_unequal_questions_and_two_contents():
    rows = er.datasets.paired(n_passages=10, seed=1).rename(columns={"question": "item"})
    rows = rows.assign(**{"doc.hash": rows["item"]})
    rows.loc[0, "doc.hash"] = "other"
    said = " ".join(er.Log(pd.concat([rows[:-3], rows[:2]], ignore_index=True)).doctor().remarks)
    assert "2 rows repeat" in said
    assert "unequal questions" in said
    assert "1 of" in said
    assert "differ in doc.hash" in said


def test_a_log_without_scores_or_with_one_row_has_a_doctor_too(command, tmp_path):
    path = write_json(tmp_path / "none.json", header(), [])
    assert command("doctor", path).status == 0
    (tmp_path / "a.csv").write_text("item,score\n1,1\n")
    assert command("doctor", tmp_path / "a.csv").status == 0
    (tmp_path / "b.csv").write_text("item,points\n1,1\n")
    refused = command("doctor", tmp_path / "b.csv").err
    assert "roles.toml" in refused
    assert "--roles" in refused
    assert "standard input" in command("doctor", "-").err


def test_a_log_of_one_question_has_no_error_bar_and_says_so(command, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("item,model,sample,score\n1,a,1,1\n1,b,1,0\n")
    run = command("mean", path, "--item", "item", "--by", "model")
    assert run.status == 3
    said = " ".join(run.err.split())
    assert "all rows are of one question (--item item), so there is no error bar" in said
    assert "groups" not in said
    (tmp_path / "one.csv").write_text("item,score\n1,1\n")
    frame = pd.read_csv(path)
    for call in (
        er.read_log(tmp_path / "one.csv").mean,
        lambda: er.mean(frame, by="model", item="item"),
        lambda: er.compare(frame, model="model", item="item"),
        lambda: er.pass_at_k(frame, by="model", item="item", sample="sample", k=1),
    ):
        with pytest.raises(TooFewClustersError, match=r"all rows are of one question.*Read more questions") as caught:
            call()
        assert (caught.value.column, caught.value.count) == ("item", 1)
    with pytest.raises(TooFewClustersError, match=r'^`groups="item"` has 1 distinct value'):
        er.mean(frame, by="model", item="item", groups="item")


def test_real_logs_have_a_doctor_whose_commands_run(command, shared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reporting, "_can_draw", lambda missing: False)
    folder = shared / "data" / "original"
    for name in (
        "fastchat_mt_bench/gpt-4_pair.jsonl",
        "alpaca_eval/LMCocktail-10.7B-v1__alpaca_eval_gpt4__annotations.json",
    ):
        run = command("doctor", folder / name)
        assert run.status == 0
        for arguments in commands_in(run.out):
            assert command(*arguments).status == 0, arguments


def test_mapping_files_do_not_go_with_other_formats(evals):
    with pytest.raises(ArgumentError, match="names columns of tables"):
        er.read_log(evals, roles={"score": "x"}, format="inspect")
    with pytest.raises(LogFormatError):
        er.read_log(evals, roles={"score": "x"})


def test_prompts_of_a_log_of_scores_are_not_averaged_over(command, tmp_path):
    path = document(tmp_path / "results.json", results())
    assert command("mean", path).status == 0
    assert "The log has 2 prompts" in command("compare", path).err
    assert "The log has 2 prompts" in command("leaderboard", path).err
    assert command("compare", path, "--where", 'prompt == "short"').status == 0
    assert "rows repeat" not in command("doctor", path).out


def test_filters_and_tasks_of_a_raw_folder_are_not_averaged_over(command, tmp_path):
    two = write(tmp_path / "two", {"sums": two_filters()})
    refused = command("mean", two)
    assert refused.status == 3
    assert "pass --filter strict." in refused.err
    assert command("mean", two, "--filter", "strict").status == 0
    for name, seed in (("a", 1), ("b", 3)):
        write(tmp_path / name, {"birds": one(seed=seed), "cats": one("cats", seed + 1)}, model=f"org/{name}")
    folders = (tmp_path / "a", tmp_path / "b")
    assert len(json.loads(command("mean", *folders, "--format", "json").out)["parameters"]) == 4
    assert "2 tasks are taken together" in re.sub(r"\s+", " ", command("compare", *folders).out)


def test_a_log_of_which_everything_was_left_out_says_why(tmp_path, command):
    run = {"task": "t", "model": "m", "task_id": "1", "run_id": "1", "task_version": 0, "created": "2025-01-01"}
    samples = [{"id": k, "epoch": 1, "input": "q", "target": "a", "scores": {}, "output": {}} for k in range(3)]
    path = tmp_path / "unscored.json"
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": run, "samples": samples}), encoding="utf-8")
    log = er.read_log(path)
    for statement in (log.mean, lambda: log.fit("score ~ 1"), log.compare):
        with pytest.raises(er.errors.EmptyDataError, match=r"all 3 records were left out \(3 unscored\)") as error:
            statement()
        assert error.value.count == 3
    found = command("mean", str(path))
    assert found.status == 3
    assert "3 unscored" in found.err


def verdicts(n=12):
    log = er.datasets.judge_log(n_models=3, n_prompts=n, n_judges=1, seed=1)
    swapped = log.assign(left=log["right"], right=log["left"], winner=log["winner"].map(SWAPPED))
    return pd.concat([log.assign(order="AB"), swapped.assign(order="BA")], ignore_index=True)


SWAPPED = {"left": "right", "right": "left", "tie": "tie"}


def test_a_table_of_verdicts_is_sent_to_the_leaderboard(command, tmp_path):
    path = tmp_path / "verdicts.csv"
    verdicts().to_csv(path, index=False)
    for asked in (("fit", "score ~ 1"), ("mean",), ("compare",)):
        refused = command(*asked, path)
        assert refused.status == 3
        assert "evalreg leaderboard FILE --winner winner." in refused.err
        assert "Did you mean" not in refused.err
    verdicts().assign(win=lambda rows: (rows["winner"] == "left") * 1.0).to_csv(path, index=False)
    assert command("mean", path, "--score", "win").status == 0


def test_the_doctor_asks_for_the_two_models_of_a_table_of_verdicts(command, tmp_path):
    path = tmp_path / "verdicts.csv"
    verdicts().rename(columns={"left": "model_a", "right": "model_b"}).to_csv(path, index=False)
    refused = command("doctor", path)
    assert refused.status == 3
    assert "has no 'left' and no 'right'" in refused.err
    assert "--roles" in refused.err
    (tmp_path / "roles.toml").write_text('left = "model_a"\nright = "model_b"\nwinner = "winner"\n')
    assert command("doctor", path, "--roles", tmp_path / "roles.toml").status == 0


def test_the_doctor_says_when_swapped_orders_cancel_and_counts_one_row_as_one():
    rows = verdicts()
    said = " ".join(er.Log(rows).doctor().remarks)
    assert "wins 50.0% of the comparisons, ties as halves: the two orders cancel exactly." in said
    assert "SE" not in said
    said = " ".join(er.Log(pd.concat([rows, rows[:1]], ignore_index=True)).doctor().remarks)
    assert "1 row repeats" in said


def test_the_doctor_does_not_judge_position_by_verdicts_of_unknown_words(tmp_path, call):
    # Only the tie is known: were it alone counted, the left side would win half of the comparisons exactly.
    pairs = pd.DataFrame({"left": ["a", "b", "a", "b"], "right": ["b", "a", "b", "a"], "prompt": [1, 1, 2, 2]})
    pairs.assign(winner=["first", "first", "second", "tie"]).to_csv(tmp_path / "duels.csv", index=False)
    status, said, _ = call("doctor", tmp_path / "duels.csv")
    assert status == 0
    assert "first (2), second (1)." in " ".join(said.split())
    assert "left side wins" not in said


def test_numbers_with_decimal_commas_are_told_as_such(command, tmp_path):
    (tmp_path / "quoted.csv").write_text('model,item,score\na,1,"0,5"\na,2,"0,7"\n')
    assert "decimal points, not commas" in command("mean", tmp_path / "quoted.csv").err
    (tmp_path / "words.csv").write_text('model,item,score\na,1,"0,5"\na,2,good\n')
    assert "Convert the column first" in command("mean", tmp_path / "words.csv").err
    path = tmp_path / "semicolons.csv"
    path.write_text("model;item;score\na;1;0,5\na;2;0,7\na;3;1\n")
    said = command("mean", path).err
    assert "semicolons" in command("doctor", path).err
    advice = re.search(r"pandas\.(read_csv\(.*\))\.to_csv\(", said)
    assert advice is not None
    assert eval(f"pd.{advice[1]}")["score"].tolist() == [0.5, 0.7, 1.0]


def test_a_leaderboard_of_one_model_is_sent_to_its_mean(command, tmp_path):
    (tmp_path / "one.csv").write_text("model,item,score\na,1,1\na,2,0\n")
    said = command("leaderboard", tmp_path / "one.csv", "--log-format", "table").err
    assert "two or more models; here is one. See evalreg mean." in said


def test_a_figure_whose_font_lacks_letters_says_so_once_and_an_svg_holds_them(command, tmp_path):
    pytest.importorskip("matplotlib")
    rows = [f"{m},{i},{(i + k) % 2}" for k, m in enumerate(("模型", "a")) for i in range(12)]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["model,item,score", *rows]), encoding="utf-8")
    asked = ("mean", path, "--by", "model", "--item", "item", "--figure")
    said = command(*asked, tmp_path / "a.png").err
    assert said.count("has boxes in their place") == 1
    assert "Glyph" not in said
    assert "boxes" not in command(*asked, tmp_path / "a.svg").err
    assert "模型" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_a_report_that_was_written_says_where(command, tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    monkeypatch.setattr(reporting, "_can_draw", lambda missing: False)
    path = tmp_path / "scores.csv"
    er.datasets.paired(n_passages=12, seed=1).to_csv(path, index=False)
    run = command("report", path, "--item", "question", "-o", tmp_path / "r.html")
    assert (run.status, run.out) == (0, "")
    assert f"Wrote {tmp_path / 'r.html'} (" in run.err
    assert "Wrote" not in command("report", path, "--item", "question", "--format", "md").err


def test_of_several_prompts_the_doctor_asks_about_one_and_each_of_its_commands_runs(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reporting, "_can_draw", lambda missing: False)
    rng = np.random.default_rng(5)
    prompts = ("Answer {{q}}", 'Say "why": {{q}}')
    rows = [
        (model, prompt, f"q{i}", int(rng.random() < 0.4 + 0.1 * k))
        for k, model in enumerate(("a", "b"))
        for prompt in prompts
        for i in range(24)
    ]
    frame = pd.DataFrame(rows, columns=["model", "prompt", "item", "score"])
    frame.to_csv("scores.csv", index=False)
    document = json.loads(command("doctor", "scores.csv", "--log-format", "table", "--format", "json").out)
    asked = [shlex.split(line)[1:] for line in document["commands"]]
    assert [words[0] for words in asked] == ["mean", "compare", "leaderboard", "report"]
    assert ["--where" in words for words in asked] == [False, True, True, True]
    for words in asked:
        assert command(*words).status == 0, words
    spoken = er.Log(frame).doctor().commands
    assert "log.compare(subset='prompt == \"Answer {{q}}\"')" in spoken
    assert eval(spoken[1], {"log": er.Log(frame)}).table["n"].tolist() == [24]


def test_names_of_one_model_question_or_passage_in_two_spellings_are_told_by_the_doctor():
    log = er.datasets.paired(n_passages=20, seed=1).rename(columns={"question": "item"})
    assert not [text for text in er.Log(log).doctor().remarks if "blanks" in text]
    new = log["model"] == "new"
    trailing = log.assign(item=log["item"].where(~new, log["item"] + " "), passage=log["passage"].where(~new, " p 1"))
    trailing.loc[new, "passage"] = log["passage"][new] + " "
    said = [text for text in er.Log(trailing).doctor().remarks if "blanks" in text]
    assert said[0].startswith('Column "item": 100 values differ from others')
    assert '"question-0001" and "question-0001 "' in said[0]
    assert said[1].startswith('Column "passage": 20 values differ')
    models = log["model"].where(log.index % 2 == 0, log["model"].str.upper())
    (text,) = [text for text in er.Log(log.assign(model=models)).doctor().remarks if "blanks" in text]
    assert text.startswith('Column "model": 2 values differ')
    composed = log["model"].map({"old": "Mod\u00e8le", "new": "Mode\u0300le"})
    (text,) = [text for text in er.Log(log.assign(model=composed)).doctor().remarks if "blanks" in text]
    assert "1 value differs from another" in text


def test_columns_that_count_or_measure_are_no_clusters_to_the_doctor():
    log = er.datasets.paired(n_passages=20, seed=1).rename(columns={"question": "item", "passage": "user_id"})
    counted = pd.factorize(log["item"])[0]
    log = log.assign(n_actions=counted % 12, **{"prompt.length": counted // 2, "num": (counted % 7).astype(str)})
    # A text is a label, whatever its name.
    assert sorted(er.Log(log).doctor().clusters.index) == ["num", "user_id"]


def test_where_nothing_can_be_estimated_yet_the_doctor_says_what_to_settle(command, tmp_path):
    log = er.datasets.judge_log(n_models=3, n_prompts=20, seed=1)
    log["winner"] = log["winner"].map({"left": "first", "right": "second", "tie": "tie"})
    log = pd.concat([log.assign(language=name) for name in ("en", "ko")])
    log.to_csv(tmp_path / "verdicts.csv", index=False)
    run = command("doctor", tmp_path / "verdicts.csv")
    said = " ".join(run.out.split())
    assert "What to ask next" not in run.out
    assert 'Column "language" tells them apart.' in said
    assert "No estimate can be had before this is settled" in said
    assert "nothing for no verdict" in said
    labels = re.search(r"Perhaps (--labels \S+)\.", said)
    assert labels is not None
    asked = ("--winner", "winner", "--groups", "prompt + judge", *labels[1].split())
    assert command("leaderboard", tmp_path / "verdicts.csv", *asked).status == 0
    twice = er.datasets.paired(n_passages=9, seed=1).rename(columns={"question": "item"})
    twice = pd.concat([twice.assign(run="x"), twice.assign(run="y")])
    told = " ".join(er.Log(twice).doctor().remarks)
    assert "there must be one row for each" in told
    assert "'run' tells them apart" in told
    assert not [text for text in er.Log(twice[twice["run"] == "x"]).doctor().remarks if "settled" in text]


def test_roles_may_leave_out_what_is_called_by_its_role_and_a_column_has_one_role_alone(command, tmp_path):
    pairs = er.datasets.judge_log(n_models=3, n_prompts=20, seed=1)
    renamed = pairs.rename(columns={"left": "model_first", "right": "model_second", "prompt": "question_id"})
    renamed.to_csv(tmp_path / "pairs.csv", index=False)
    assert "left=model_first,right=model_second" in command("doctor", tmp_path / "pairs.csv").err
    roles = {"left": "model_first", "right": "model_second", "prompt": "question_id"}
    log = er.read_log(tmp_path / "pairs.csv", roles=roles)
    expected = er.win_rate(pairs, left="left", right="right", winner="winner", groups="prompt + judge")
    pd.testing.assert_series_equal(log.win_rate().params, expected.params)
    pd.testing.assert_series_equal(log.win_rate().bse, expected.bse)
    with pytest.raises(DataError, match="a log needs scores or verdicts"):
        er.Log(renamed.drop(columns="winner"), left="model_first", right="model_second")
    said = command("doctor", tmp_path / "pairs.csv", "--roles", "left=modell,right=model_second").err
    assert '--roles names "modell", which is not a column. The columns are' in said
    # The models are called "task"; they are no tasks, so that questions are the same for both.
    scores = er.datasets.paired(n_passages=20, seed=1).rename(columns={"model": "task", "question": "id"})
    scores.to_csv(tmp_path / "scores.csv", index=False)
    log = er.read_log(tmp_path / "scores.csv", roles={"model": "task", "item": "id"})
    assert "task" not in log.roles
    wanted = er.compare(scores, model="task", item="id", groups="passage").table
    pd.testing.assert_frame_equal(log.compare(groups="passage").table, wanted)


def test_what_a_comparison_says_of_unpaired_models_stands_there_once(command, tmp_path):
    log = er.datasets.paired(n_passages=20, seed=1).rename(columns={"question": "item"})
    log.assign(task=log["model"].map({"old": "t", "new": "u"})).to_csv(tmp_path / "log.csv", index=False)
    out = command("compare", tmp_path / "log.csv", "--roles", "item=item").out
    assert " ".join(out.split()).count("no question in common") == 1


def test_the_doctor_gives_advice_on_comparisons_in_options_of_the_leaderboard(command, tmp_path):
    games = [{"score": "A>>B"}, {"score": "B>A"}]
    rows = [{"question_id": f"q{i}", "model": "new", "judge": "j", "games": games} for i in range(5)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = " ".join(command("doctor", tmp_path / "a.jsonl").out.split())
    assert "pass --weights weight to count" in said


def test_who_plans_with_one_model_is_shown_what_plans_its_interval(command, tmp_path):
    log = er.datasets.paired(n_passages=20, seed=1).rename(columns={"question": "item"})
    log[log["model"] == "new"].to_csv(tmp_path / "one.csv", index=False)
    single = command("plan", tmp_path / "one.csv", "--delta", "0.05")
    assert single.status == 3
    assert "For the interval of one model: evalreg plan precision --half-width H --rate P --deff D" in single.err
    log.to_csv(tmp_path / "two.csv", index=False)
    assert command("plan", tmp_path / "two.csv", "--delta", "0.05").status == 0
    assert "interval of one model" not in command("plan", tmp_path / "two.csv", "--item", "nothing").err
    filed = command("plan", "precision", tmp_path / "one.csv", "--half-width", "0.02")
    assert filed.status == 3
    assert "reads no file: of a pilot, evalreg mean prints the rate and the deff" in filed.err
    assert "reads no file" not in command("plan", "precision", "--nothing", "1", "--half-width", "0.02").err
    assert command("plan", "precision", "--half-width", "0.02", "--rate", "0.6", "--deff", "1.5").status == 0
