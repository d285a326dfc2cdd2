"""What once led nowhere or was wrong without a word, tried through the doors that people use."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_inspect_log import header, summary, write_eval
from test_judge_logs import lines
from test_lm_eval_log import line
from test_lm_eval_log import write as lm_eval
from test_promptfoo_log import document, results

import evalreg as er
from evalreg.cli.main import main
from evalreg.errors import ArgumentError, DataError, LogFormatError, MissingColumnError, NotAvailableError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture
def folder(tmp_path):
    """Two tasks of unlike metrics and filters, as one run of lm-evaluation-harness writes them."""
    gen = [
        line(i, "gen", f, exact_match=float(i % (2 + (f == "maj"))) > 0) for i in range(12) for f in ("strict", "maj")
    ]
    choice = [line(i, "mc", "none", acc=float(i % 3 > 0), acc_norm=float(i % 2)) for i in range(12)]
    return lm_eval(tmp_path, {"gen": gen, "mc": choice})


def test_options_apply_to_the_tasks_that_have_them_and_what_was_read_is_said(folder, shared, capsys):
    with pytest.raises(ArgumentError) as error:
        er.read_log(folder)
    for word in ("'gen'", "'strict'", "'maj'", "'mc'", "'acc'", "'acc_norm'", "task="):
        assert word in str(error.value)
    assert error.value.options == {"filter": "strict", "metric": "acc"}
    assert main(["mean", str(folder)]) == 3
    options = re.search(r"For instance pass (--.*?)\. ", capsys.readouterr().err)[1]
    assert main(["mean", str(folder), *shlex.split(options)]) == 0
    with pytest.raises(ArgumentError, match=r'`metric` must.*One is read at a time: metric="acc"'):
        er.read_log(folder, metric="acc, acc_norm")
    assert main(["mean", str(folder), "--metric", "acc,acc_norm"]) == 3
    assert re.search(r"error: --metric: `metric` .* time: --metric acc\.", capsys.readouterr().err)
    for words in (["--metric", "exact_match", "--filter", "strict"], ["--metric", "acc,none"], ["--metric", "acc"]):
        assert main(["mean", str(folder), *words]) == 3
        alone = re.search(r"such as (--task \w+)\.\n", capsys.readouterr().err)[1]
        assert main(["mean", str(folder), *words, *alone.split()]) == 0
    log = er.read_log(folder, metric="acc", filter="strict")
    assert log.measures == {"gen": "exact_match under strict", "mc": "acc"}
    assert any('Read: exact_match under strict for "gen"; acc for "mc".' in note for note in log.notes)
    assert len(log.mean().params) == 2
    assert "first of 2 values of task" in str(log.mean())
    with pytest.raises(MissingColumnError, match=r'Did you mean "doc\.passage"'):
        er.read_log(folder, metric="acc", filter="strict", columns=["doc.pasage"])
    assert er.read_log(folder, task="mc", metric="acc").frame["task"].unique().tolist() == ["mc"]
    assert len(er.read_log(folder, task=["gen"], filter="maj").frame) == 12
    for path in (folder, shared / "data/original/llmfao/crowd-comparisons.csv"):
        with pytest.raises(ArgumentError, match="'mx'"):
            er.read_log(path, task="mx")
    with pytest.raises(MissingColumnError, match=r'The columns are "id", "'):  # in the order of the file
        er.read_log(path, columns=["metadata"])


@pytest.mark.parametrize("words", ["mean", "report", "table", "evals --eval metadata.subject", "leaderboard"])
def test_every_command_says_what_the_log_left_out(tmp_path, capsys, words):
    errored = {"failureReason": 2, "gradingResult": None, "score": 0, "success": False}
    rows = results(12, prompts=(0,), change=lambda question, *_: errored if question % 4 == 0 else {})
    path = str(document(tmp_path / "out.json", rows))
    for form in ["md", "html", "json"] if words == "report" else ["text", "md", "csv"]:
        assert main([words.split()[0], path, *words.split()[1:], "--format", form]) == 0
        assert "36 rows of promptfoo; left out: 12 errored" in re.sub(r"\s+", " ", "".join(capsys.readouterr()))


def test_each_way_out_of_a_refusal_to_pool_runs(folder, tmp_path_factory, capsys):
    path = document(tmp_path_factory.mktemp("one") / "out.json", results())
    for name, file, *words in (
        *(("compare", path), ("compare", path, "--model", "prompt"), ("compare", path, "--where", 'item != "x"')),
        *(("mean", path, "--by", by) for by in ("prompt", "model")),
        ("components", path, "--facets", "item", "--filter", "short"),
        ("mean", folder, "--metric", "acc", "--filter", "strict", "--by", "model"),
    ):
        assert main([name, str(file), *words]) == 3
        first, second = re.split(", or |. Or ", re.search(r"(?:Pass|them[,:]) (--.*)\.", capsys.readouterr().err)[1])
        for way in (first, second):
            typed = [*words, *shlex.split(re.split(" to [a-z]+ | for a ", way)[0])]
            last = dict(zip(typed[::2], typed[1::2], strict=True))
            assert main([name, str(file), *itertools.chain(*last.items())]) == 0


def test_two_runs_of_one_model_are_compared_by_names(tmp_path):
    for run, letters in (("old", "CIIC"), ("new", "CCIC")):
        samples = [summary(i, 1, {"match": letter}) for i, letter in enumerate(letters * 5)]
        write_eval(tmp_path / f"{run}.eval", header(eval_id=run), samples)
    with pytest.raises(ArgumentError, match="before"):
        er.read_log(tmp_path)
    logs = {run: er.read_log(tmp_path / f"{run}.eval") for run in ("old", "new")}
    named = er.read_log({run: tmp_path / f"{run}.eval" for run in ("old", "new")})
    pd.testing.assert_frame_equal(er.compare(logs).table, named.compare().table)
    assert named.compare().table["difference"].abs().tolist() == [0.25]
    assert {run.model for run in named.runs} == {"old", "new"}


def test_functions_take_a_log_and_pool_nothing_unasked():
    rows = er.datasets.paired(n_passages=20, seed=1).rename(columns={"passage": "metadata.passage"})
    log = er.Log(rows, item="question")
    pd.testing.assert_series_equal(er.mean(log, groups="passage").bse, log.mean(groups="metadata.passage").bse)
    assert er.mean(log).params.index.tolist() == ["new", "old"]
    pd.testing.assert_frame_equal(er.compare(log).table, log.compare().table)
    assert er.fit("score ~ model", log).params.size == 2
    judged = er.Log(er.datasets.judge_log(n_prompts=20, n_judges=3, seed=2))
    pd.testing.assert_series_equal(er.win_rate(judged).bse, judged.win_rate().bse)
    assert er.ratio(er.Log(rows.assign(n=1)), numerator="score", denominator="n").params.size == 2
    once = er.Log(rows.assign(sample=1), item="question")
    np.testing.assert_allclose(er.pass_at_k(once, k=1).params, log.mean().params)
    # The prompts of comparisons are their questions.
    assert er.mean(er.Log(judged.frame.assign(words=judged.frame.index)), score="words").params.size == 1
    with pytest.raises(TypeError, match=r"er\.read_log\('scores\.csv'\)"):
        er.mean("scores.csv")


def test_the_command_line_refuses_of_a_table_what_its_log_refuses(tmp_path):
    scored = er.datasets.paired(n_passages=20, seed=1).rename(columns={"question": "item"})
    judged = er.datasets.judge_log(n_prompts=20, n_judges=3, seed=2)[["prompt", "left", "right"]].assign(score=0.5)
    path = tmp_path / "table.csv"
    for rows, words, ask in (
        (scored, ["components", "--facets", "item"], lambda log: er.components(log, facets="item")),
        (judged, ["mean"], er.mean),
    ):
        rows.to_csv(path, index=False)
        with pytest.raises((ArgumentError, NotAvailableError), match=r"single models|2 models"):
            ask(er.read_log(path))
        assert main([*words, str(path)]) == 3


def test_two_records_of_one_sample_and_epoch_in_an_archive_are_refused(tmp_path):
    import zipfile

    path = write_eval(tmp_path / "a.eval", header(), [summary(i, 1, {"match": "C"}) for i in range(3)])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.startswith("summaries")}
    sample = summary(0, 1, {"match": "I"}) | {"input": "q", "target": "t"}
    members = {name: data for name, data in members.items() if "summaries" not in name}
    for number, record in enumerate([sample, sample | {"scores": {"match": {"value": "C"}}}]):
        members[f"samples/{number}.json"] = json.dumps(record).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(LogFormatError, match="two that differ"):
        er.read_log(path)


def test_a_report_of_garak_is_attack_success_by_probe_and_prompt(tmp_path):
    setup = {"entry_type": "start_run setup", "run.eval_threshold": 0.5, "plugins.target_name": "org/m"}
    init = {"entry_type": "init", "garak_version": "0.13", "run": "r1", "start_time": "2026-01-01"}

    def attempt(probe, prompt, detector, scores, status=2):
        turn = {"role": "user", "content": {"text": prompt}}
        known = {"entry_type": "attempt", "uuid": prompt, "status": status, "probe_classname": probe, "goal": "g"}
        return known | {"prompt": {"turns": [turn]}, "detector_results": {detector: scores}}

    rows = [
        setup,
        init,
        attempt("dan.A", "do it", "dan.DAN", [], status=1),
        attempt("dan.A", "do it", "dan.DAN", [1.0, 0.2, None]),
        attempt("dan.A", "do that", "dan.DAN", [0.5, 0.9]),
        attempt("lmrc.B", "say it", "lmrc.Slur", [0.0, 0.1]),
    ]
    log = er.read_log(lines(tmp_path / "garak.r1.report.jsonl", rows))
    assert (log.format, log.left_out.to_dict()) == ("garak", {"unscored": 1})
    found = log.frame[["model", "task", "item", "sample", "score"]].to_numpy().tolist()
    assert found == [
        ["org/m", "dan.A", "do it", 1, 1.0],
        ["org/m", "dan.A", "do it", 2, 0.0],
        ["org/m", "dan.A", "do that", 1, 1.0],
        ["org/m", "dan.A", "do that", 2, 1.0],
        ["org/m", "lmrc.B", "say it", 1, 0.0],
        ["org/m", "lmrc.B", "say it", 2, 0.0],
    ]
    assert log.measures == {"dan.A": "dan.DAN", "lmrc.B": "lmrc.Slur"}


def test_doctor_takes_no_measurement_of_an_answer_for_a_cluster(tmp_path, monkeypatch, capsys):
    """What differs between the answers to a question, and a count of what is in it, is no group of questions."""
    rng, question = np.random.default_rng(0), np.tile(np.arange(100), 2)
    log = pd.DataFrame({"model": np.repeat(["a", "b"], 100), "question": question, "passage": question // 5})
    log["n_steps"] = rng.integers(1, 9, 20)[log["passage"]]
    log.assign(correct=(log["n_steps"] < 5) * 1, length=rng.integers(5, 20, 200)).to_csv(tmp_path / "log.csv")
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "log.csv"]) == 0
    page = capsys.readouterr().out
    assert "passage" in page
    assert not re.search("length|n_steps", page)
    assert "\ncorrect " not in page  # the score itself


@pytest.mark.parametrize("name", ["swebench*", "langchain*", "pandalm*", "original/arena_hard/*"])
def test_commands_of_doctor_run_with_its_options_and_pool_no_models(name, shared, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--alpha", "0.1", *(["--where", "model != 'gpt-4'"] if name[0] in "sl" else [])]
    assert main(["doctor", *map(str, (shared / "data").glob(name)), *options]) == 0
    page = capsys.readouterr().out
    commands = [shlex.split(row)[1:] for row in page.splitlines() if row.startswith("  evalreg ")]
    assert (len(commands) > 0, re.search(r'\b(weights|alike|by)="', page)) == (True, None)
    for command in commands:
        assert (main(command), command[0] != "fit", {*options} <= {*command}) == (0, True, True), command


def test_refusals_of_a_table_of_verdicts_lead_to_its_board(shared, capsys):
    command = ["leaderboard", str(shared / "data" / "pandalm_pairs.csv.gz")]
    for option in ("evalreg leaderboard FILE (.*)", r"Perhaps (--labels .*)\.\n"):
        assert main(command) == 3
        command += shlex.split(re.search(option, capsys.readouterr().err)[1])
    assert main(command) == 0


@pytest.mark.parametrize(
    ("command", "cells", "estimates"),
    [
        ("leaderboard", {"left": "a", "right": "b", "prompt": range(9), "winner": [0.5, 1, 0] * 3}, [0.5, 0.5]),
        (
            "leaderboard",
            {"model_a": "a", "model_b": "b", "question_id": range(9), "winner": ["A", "B", "A"] * 3},
            [2 / 3],
        ),
        ("mean", {"item": range(9), "score": [True, 1, False] * 3}, [2 / 3]),
        ("mean", {"item": range(9), "score": ["true", "1", "n/a"] * 3}, [1.0]),
        ("mean", {"item": range(9), "score": ["error", "1", "0"] * 3}, [0.5]),
        (
            "mean",
            {"item": [*range(9), *range(9), 0], "judge": [*"jjjjjjjjjkkkkkkkkkk"], "score": [1, 0] * 9 + [1]},
            [5 / 9],
        ),
        ("leaderboard", {"model": ["a", "b", "b"] * 6, "task": ["x", "y"] * 9, "score": [1, 1, 0] * 6}, [1.0, 0.5]),
        ("compare", {"model": ["a", "b"] * 9, "question_id": sorted([*range(9)] * 2), "score": [1, 0] * 9}, [1.0]),
    ],
)
def test_two_steps_along_refusals_lead_to_the_right_number(command, cells, estimates, tmp_path, capsys):
    rows = pd.DataFrame(cells).astype(object).to_dict("records")
    words = [command, str(lines(tmp_path / "table.jsonl", rows)), "--format", "csv"]
    for _ in range(2):
        if main(words) == 0:
            break
        error = re.sub(r"error: --[\w-]+: ", "", capsys.readouterr().err)
        words += shlex.split(
            re.findall(r"(?:[:.] |Pass |aps |FILE | as )(--[a-z].*?)(?=[.,]?\n|, (?:or|if) )", error)[0]
        )
    capsys.readouterr()
    assert main(words) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    column = "difference" if command == "compare" else "estimate"
    assert table[column].tolist()[: len(estimates)] == pytest.approx(estimates)


def test_what_no_option_cures_is_said_of_the_whole_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scored = [{"item": i, "score": i % 2} for i in range(9)]
    for name in "ab":
        lines(Path(f"{name}.jsonl"), scored)
    assert main(["mean", "a.jsonl", "b.jsonl"]) == 3  # files are models, and no column names these
    named = re.search(r"name them: (.*)\.\n", capsys.readouterr().err)[1]
    assert main(["mean", *shlex.split(named)]) == 0
    for text, message in (
        ('{"item": {"0": 1, "1": 2}, "score": {"0": 1, "1": 0}}', "one object of lists or objects"),
        ('item,score\n1,"1,000"\n2,"2,500"\n', "thousands without a comma"),
        ("item,score\n1,71%\n2,30%\n", "sign of percent"),
        ("left,right,winner\na,b,1\na,b,2\na,b,0\n", "Say in `labels` what that means, by --labels 0=none"),
    ):
        Path("c").write_text(text)
        capsys.readouterr()
        assert main(["leaderboard" if "left" in text else "mean", "c"]) == 3
        assert message in capsys.readouterr().err
    Path("c").write_text("score\n1\n0\n1\n")
    assert main(["mean", "c", "--format", "csv"]) == 0
    ids = pd.DataFrame({"model": ["a", "b"], "item": ["1.0", "1"], "score": 1})
    assert any('first "1.0" and "1"' in remark for remark in er.Log(ids).doctor().remarks)


def test_doctor_takes_columns_of_any_type_and_rows_without_a_side():
    rows = er.datasets.judge_log(n_prompts=20, n_judges=3, seed=2)
    as_text, categories = (er.Log(frame).doctor() for frame in (rows, rows.astype(dict.fromkeys(rows, "category"))))
    assert categories.remarks == as_text.remarks
    assert er.Log(rows.assign(left=rows["left"].mask(rows.index < 3))).doctor().counts["rows"] == len(rows)


def test_questions_that_are_numbered_anew_in_each_task_are_clusters_with_it():
    rows = pd.MultiIndex.from_product([["a", "b", "c"], range(40), [1, 2]], names=["task", "question_index", "sample"])
    frame = rows.to_frame(index=False).assign(score=np.repeat(np.arange(120) % 7 % 2, 2))
    assert 'log.mean(groups="task:question_index")' in (diagnosis := er.Log(frame).doctor()).commands
    assert diagnosis.clusters.loc["question_index", "clusters"] == 120


def test_ratings_without_an_error_bar_have_no_degrees_of_freedom(shared):
    board = er.read_log(shared / "data/original/llmfao/crowd-comparisons.csv").bradley_terry(groups="id")
    assert board.bse.isna().all()
    assert board.dof.isna().all()


def test_doctor_has_a_line_for_each_file_and_reads_what_is_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    for run, letters in (("old", "CIIC"), ("new", "CCIC"), ("single", "C")):
        samples = [summary(i, 1, {"match": letter}) for i, letter in enumerate(letters)]
        write_eval(Path(f"runs/{run}.eval"), header(eval_id=run), samples)
    Path("cut.jsonl").write_text('{"item": 1, "score": 1}\n{"item": 2, "score": 0}\n{"item"\n')
    texts = [line(i, "text", loglikelihood=[-1.0, 3], acc=1.0, em=i % 2) for i in range(5)]
    lm_eval(Path("texts"), {"text": texts, "none": [line(i, "none", p=[1, 2], q=[1, 2]) for i in range(5)]})
    lm_eval(Path("two"), {"two": [line(i, "two", filter=name, acc=1.0, em=0) for i in range(9) for name in "ab"]})
    for words, page, commands in (
        ("runs", r"runs/old\.eval +4 +0 +0\.5", ["mean runs/new.eval", "mean runs/old.eval"]),
        ("cut.jsonl", "Left out: 1 broken", ["mean cut.jsonl --broken skip"]),
        ("texts", "none p +0 +5", [f"mean texts --metric {name} --task text" for name in ("acc", "em")]),
        ("two --metric acc", "b acc +9", [f"mean two --filter {f} --metric {m}" for f in "ab" for m in ("acc", "em")]),
    ):
        assert main(["doctor", *words.split()]) == 0
        page_of = capsys.readouterr().out
        assert re.search(rf"{page}(?![\s\S]*er\.read_log)", page_of)
        proposed = [row.strip() for row in page_of.splitlines() if row.startswith("  evalreg mean")]
        assert proposed == [f"evalreg {command}" for command in commands]
        assert all(main(shlex.split(command)) == 0 for command in commands)
    for text, status, name in (("id,score\n1,1\n2,0\n", 0, "/dev/stdin"), ("item,score\n1\n", 3, "-")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert status or main(["mean", name, "--roles", "item=id"]) == 0
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert (main(["doctor", name]), "standard input" in capsys.readouterr().err) == (status, status == 3)


def test_models_that_no_score_compares_are_named_with_what_they_have(tmp_path, capsys):
    paths = [str(tmp_path / f"{scorer}.eval") for scorer in ("match", "includes")]
    for path, model in zip(paths, ("a", "b"), strict=True):
        write_eval(Path(path), header(model=model), [summary(i, 1, {Path(path).stem: "C"}) for i in range(5)])
    by_name = [f"{name}={path}" for name, path in zip("ab", paths, strict=True)]
    for command, words, said in (
        ("compare", paths, r'match.eval has "match"; \S*includes.eval has "includes"'),
        ("compare", [*paths, "--scorer", "match"], r'includes.eval is left out: it has no score by "match", but'),
        ("leaderboard", [*paths, "--scorer", "match"], r'includes.eval is left out: it has no score by "match", but'),
        ("compare", by_name, r"was read by match and, in 'b', by includes. Choose one that all have by --scorer NAME"),
        ("compare", [*by_name, "--scorer", "match"], r"got 'match'.\n\(In 'b'.\)"),
    ):
        assert main([command, *words]) == 3
        assert re.search(said, capsys.readouterr().err)
    odd = [line(i, "odd", acc="?") for i in range(5)]
    lm_eval(tmp_path / "lm", {task: [line(i, task, acc=i % 2) for i in range(5)] for task in ("p", "q")} | {"odd": odd})
    assert main(["mean", str(tmp_path / "lm")]) == 3
    cure = re.search("or (--task p,q) to", capsys.readouterr().err)[1]
    assert main(["mean", str(tmp_path / "lm"), *cure.split()]) == 0


def test_a_log_in_a_stream_is_read_as_its_file_is(shared, tmp_path, monkeypatch, capsys):
    by_files_beside = ("gpt4-comparisons.csv", "single_grade.jsonl", "gpt-3.5-turbo-testset-v1.json")
    for path in (path for path in (shared / "data" / "original").rglob("*.*") if path.name not in by_files_beside):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        assert er.read_log("-").frame.equals(er.read_log(path).frame), path
    write_eval(tmp_path / "two.eval", header(), [summary(i, 1, {"match": "C", "includes": "I"}) for i in range(3)])
    for content, words in (((tmp_path / "two.eval").read_bytes(), "--scorer match"), (b"id,score\n1,1\n2,0\n", "")):
        pipe, end = os.pipe()
        os.write(end, content)
        os.close(end)
        assert main(["doctor", f"/dev/fd/{pipe}"]) == 0
        assert f"evalreg mean /dev/fd/{pipe} {words}".strip() in capsys.readouterr().out
        assert main(["mean", f"/dev/fd/{pipe}", *words.split()]) == 0


@pytest.mark.parametrize(
    "names", [("Model", "Item", "Is Right", "Score"), (" Model ", "Item ", 'Is, "Right" ', " Score")]
)
def test_columns_of_other_names_are_found_by_one_command(tmp_path, capsys, names):
    model, item, right, score = names
    frame = pd.DataFrame({model: ["a", "a", "b", "b"], item: [1, 2, 1, 2], right: [1, 0, 1, 1], "Cost": 0.5})
    path = str(tmp_path / "a.csv")
    frame.to_csv(path, index=False)
    assert main(["doctor", path]) == 0
    page = capsys.readouterr().out
    assert re.search(rf"{right.strip()} +4 +0 +0\.75", page)
    proposed = [shlex.split(line) for line in page.splitlines() if line[:9] == "  evalreg" and "score=" in line]
    assert len(proposed) == 2
    assert main(proposed[0][1:]) == 0
    compare = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  evalreg compare"))
    assert main(shlex.split(compare)[1:]) == 0
    frame.rename(columns={right: score}).to_csv(path, index=False)
    assert main(["mean", path, "--by", model, "--score", score, "--item", item]) == main(["compare", path]) - 3 == 0
    hint = re.search(r"seems to be the score: (.*)", capsys.readouterr().err)[1]
    assert main(["compare", path, *shlex.split(hint)]) == 0
    assert "2 questions" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("kind", ["model", "judge"])
def test_a_table_with_a_column_for_each_model_or_judge_is_called_wide_and_read_by_one_line(
    tmp_path, capsys, monkeypatch, kind
):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"question": range(8), "n_words": 7, "x 1": [1, 0] * 4, "y": [1, 1, 0, 1] * 2})
    frame = frame if kind == "model" else frame.assign(model="m")
    frame.to_csv("wide.csv", index=False)
    assert main(["doctor", "wide.csv"]) == 0
    page = capsys.readouterr().out
    assert f"wide, with a column of scores for each {kind}" in " ".join(page.split())
    made, diagnosed = (shlex.split(line) for line in page.splitlines() if "long.csv" in line)
    exec(made[2], {})  # python -c
    assert main(diagnosed[1:]) == 0
    assert main(["mean", "wide.csv"]) == 3
    assert "seems to be wide" in capsys.readouterr().err
    for ask, argument in ((er.Log, frame), (er.read_log, "wide.csv")):
        with pytest.raises((DataError, LogFormatError), match="wide") as error:
            ask(argument)
        log = eval(str(error.value).partition("To make it long: ")[2], {"er": er, "frame": frame})
        assert log.frame.groupby(kind)["score"].mean().to_dict() == {"x 1": 0.5, "y": 0.75}


def test_names_before_tables_pool_no_models(tmp_path, capsys):
    frame = pd.DataFrame({"model": ["a", "a", "b", "b"], "item": [1, 2, 1, 2], "passed": [1, 0, 1, 1]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.rename(columns={"model": "system"}).to_csv(tmp_path / "b.csv", index=False)
    for file in ("a.csv", "b.csv"):
        assert main(["mean", f"s={tmp_path / file}", "--score", "passed"]) == 3
        assert re.search(r"2 models stand in[\s\S]*--roles score=COLUMN", capsys.readouterr().err)
    assert main(["mean", f"s={tmp_path / 'a.csv'}", "--roles", "score=passed"]) == 0
    assert "s: b" in capsys.readouterr().out


def test_a_table_of_verdicts_leads_to_its_prompts_and_what_its_words_mean(tmp_path, capsys):
    pairs = [
        (q, "ab"[(q + j) % 2], "ab"[(q + j + 1) % 2], j, "XYZ"[(q + j * j) % 3]) for q in range(9) for j in range(3)
    ]
    verdicts = pd.DataFrame(pairs, columns=["question_id", "model_a", "model_b", "judge", "winner"])
    verdicts.assign(item_id=range(len(pairs))).to_csv(tmp_path / "v.csv")
    words = [str(tmp_path / "v.csv"), "--roles", "left=model_a,right=model_b"]
    assert main(["doctor", *words]) == 0
    page = capsys.readouterr().out
    assert re.search(r'Format: table[\s\S]*"question_id" seems to be it(?![\s\S]*repeat)', page)
    command = shlex.split(next(line for line in page.splitlines() if "prompt=question_id" in line))[1:]
    assert command[:4] == ["doctor", *words[:2], "left=model_a,right=model_b,prompt=question_id"]
    command[0] = "leaderboard"
    assert main(command) == 3
    assert "--labels X=none" in capsys.readouterr().err
    assert main([*command, "--labels", "{X: left}"]) == 3
    assert "such as --labels A=left,B=right,error=none; got '{X: left}'" in capsys.readouterr().err
    assert main([*command, "--labels", "X=left,Y=right,Z=None"]) == 0
    assert "9 prompt and 3 judge clusters" in " ".join(capsys.readouterr().out.split())


def test_rows_without_a_label_are_counted_and_hide_no_cluster(tmp_path, capsys):
    names = ("model", "item", "passage", "score")
    rows = [(m, i, i // 5, (i // 5 + (m == "a")) % 2) for m in "ab" for i in range(60)]
    for number, name in enumerate(names[:3]):
        table = pd.DataFrame([(*row[:number], None, *row[number + 1 :]) if row[1] == 7 else row for row in rows])
        table.set_axis(names, axis=1).to_csv(tmp_path / f"{name}.csv", index=False)
        assert main(["doctor", str(tmp_path / f"{name}.csv")]) == 0
        page = capsys.readouterr().out
        assert f'2 of 120 rows have no "{name}"' in page
        assert re.search(r"Items: (60|59)", page)[1] == ("59" if name == "item" else "60")
        command = shlex.split(next(line for line in page.splitlines() if "evalreg mean" in line))[1:]
        assert command[2:] == ["--groups", "passage"]
        for form, stream in (("text", "out"), ("csv", "err"), ("latex", "err")):
            assert main([*command, "--format", form]) == 0
            reason = "without group" if name == "passage" else "without a label, weight or covariate"
            assert f"2 rows dropped (2 {reason})" in " ".join(getattr(capsys.readouterr(), stream).split())


def test_scores_whose_words_a_filter_leaves_out_are_numbers_and_labels_stay_text(tmp_path, capsys):
    frame = pd.DataFrame({"item": range(12), "size": ["007", "08", "9"] * 4, "score": [0, 1, 1, 0] * 3})
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    assert main(["fit", "score ~ size", str(tmp_path / "a.jsonl"), "--where", "size != '1'"]) == 0
    assert "size=08" in capsys.readouterr().out
    table = tmp_path / "a.csv"
    table.write_text("item,passed\n1,1\n2,0\n3,error\n4,1\n")
    for words in (["--score", "passed"], ["--roles", "score=passed"]):
        assert main(["mean", str(table), *words, "--where", "passed != 'error'"]) == 0
        assert "0.667" in capsys.readouterr().out
        assert main(["mean", str(table), *words, "--where", "passed != '0'"]) == 3
        kept = r"\(Row 0 is the first below the header of those kept\.\)"
        assert re.search(rf'"error" in row 1\b[\s\S]*{kept}', capsys.readouterr().err)


def test_short_names_hold_in_filters_and_tables_of_the_command_line(tmp_path, capsys):
    path = write_eval(tmp_path / "a.eval", header(), [summary(i, 1, {"match": "CI"[i % 2]}) for i in range(9)])
    table = lines(tmp_path / "a.jsonl", [{"item": i, "score": i % 2, "meta": {"passage": f"p{i}"}} for i in range(9)])
    for file in (path, table):
        assert main(["mean", str(file), "--where", "passage != 'p1'", "--groups", "passage"]) == 0
        assert re.search(r"8 passage clusters[\s\S]*\(8\s+of\s+9\s+rows\)", capsys.readouterr().out)


def test_turns_of_a_pair_are_no_repeats_and_other_verdicts_on_one_are_refused(tmp_path):
    pair = {"model_1": "a", "model_2": "b", "judge": ["j", "v"], "g1_winner": "model_1", "g2_winner": "model_2"}
    rows = [{"question_id": q, "turn": turn, **pair} for q in range(9) for turn in (1, 2)]
    log = er.read_log(lines(tmp_path / "a.jsonl", rows))
    assert log.key == ["prompt", "judge", "order", "turn"]
    assert not any("repeat" in text for text in [*log.doctor().remarks, *(text for _, text in log.win_rate().notes)])
    with pytest.raises(LogFormatError, match='broken="skip" to keep'):
        er.read_log(lines(tmp_path / "b.jsonl", [*rows, rows[0] | {"g1_winner": "tie"}]))


def test_keys_in_another_order_parquet_and_tables_beside_a_log_do_not_hide_it(tmp_path):
    samples = [summary(i, 1, {"match": "C"}) for i in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(header(created="now") | {"samples": samples}, sort_keys=True))
    (tmp_path / "logs.csv").write_text("file,status\na.json,success\n")
    log = er.read_log(tmp_path)
    assert (log.format, len(log.frame)) == ("inspect", 3)
    assert "logs.csv" in " ".join(log.notes)
    battles = {"model_a": ["x"] * 3, "model_b": "y", "winner": ["model_a", "tie", "both_bad"], "tstamp": 1.0}
    pd.DataFrame(battles).to_parquet(tmp_path / "arena.parquet")
    assert er.read_log(tmp_path / "arena.parquet").frame["winner"].tolist() == ["left", "tie", "tie"]
    packed = tmp_path / "a.jsonl.zst"
    packed.write_bytes(b"\x28\xb5\x2f\xfd\0\0")
    with pytest.raises(LogFormatError, match="zstandard"):
        er.read_log(packed)
