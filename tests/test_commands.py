"""The command line by its table: what holds for every command and format, and the doors that people use."""

from __future__ import annotations

import io
import itertools
import json
import re
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.commands import COMMANDS, FORMATS
from evalreg.cli.main import build_parser, main

NAMES = [command.name for command in COMMANDS]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the simulated logs."""
    folder = tmp_path_factory.mktemp("commands")
    assert main(["demo", "--write", str(folder / "logs")]) == 0
    return folder


@pytest.fixture
def run(here, monkeypatch, capsys):
    """The command in this process: status, output, complaints."""
    monkeypatch.chdir(here)
    capsys.readouterr()

    def run(line: str) -> tuple[int, str, str]:
        status = main(shlex.split(line))
        return status, *capsys.readouterr()

    return run


def examples() -> list[str]:
    lines = "\n".join(command.examples for command in COMMANDS).replace("\\\n", " ").splitlines()
    return [line.strip().removeprefix("evalreg ") for line in lines if line.strip() and ".eval" not in line]


# The table


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_a_screen_and_the_whole_help_has_every_option(run, name):
    status, page, _ = run(f"{name} --help")
    assert status == 0
    assert len(page.splitlines()) <= 50
    assert max(map(len, page.splitlines())) <= 100
    whole = " ".join(run(f"{name} --help-all")[1].split())
    command = next(command for command in COMMANDS if command.name == name)
    for option in command.options():
        assert option.flag in whole
        assert option.help, f"{name} {option.flag} is not explained"


@pytest.mark.parametrize(
    "line",
    [
        "mean logs/models.csv --text-columns question --text-columns model,passage",
        "mean logs/models.csv --by model --by question",
        "mean logs/models.csv --groups passage --groups model",
        "mean logs/models.csv --where 'score >= 0' --where 'model != \"old\" or score > 0'",
        "table logs/passages.csv --formulas 'score ~ 1' --formulas 'score ~ n_words'",
        "doctor logs/models.csv --roles item=question --roles task=passage",
        "mean logs/models.csv --item question --item model",
    ],
)
def test_an_option_written_twice_is_typed_once_with_both_values(run, line):
    flag, sign, values = re.search(r"error: (--\S+) stands twice.* Write it once(: \1|\.)(.*)", run(line)[2]).groups()
    once = re.sub(rf" {flag} ('.*?'|[^ ]+)", "", line)
    assert run(f"{once} {flag}{values}")[0] == 0 or sign == "."


def test_the_examples_run_in_every_format(run):
    laid_out = set()
    for line in (*examples(), "demo"):
        status, output, error = run(line)
        assert (status, bool(output or "-o " in line)) == (0, True), (line, error)
        if line.split()[0] in ("demo", "report", "summarise", "doctor") or "monday" in line:
            continue
        for form in FORMATS[1:]:
            # JSON has each example; how a table is laid out is asked once a command.
            if form != "json" and (line.split()[0], form) in laid_out:
                continue
            laid_out.add((line.split()[0], form))
            status, output, _ = run(f"{line} --format {form}")
            assert (status, bool(output.strip())) == (0, True), (line, form)
            if form == "json":
                document = json.loads(output, parse_constant=lambda constant: pytest.fail(constant))
                assert {"schema_version", "versions", "command", "kind"} <= set(document)
            if form == "csv":
                assert len(pd.read_csv(io.StringIO(output)))


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("means logs/models.csv", '"mean"'),
        ("mean logs/models.csv --group passage", "--groups"),
        ("mean logs/models.csv --cluster passage", "--groups"),
        ("compare logs/models.csv --adjust holmes", "holm"),
        ("mean logs/models.csv --cov CR22 --groups passage", '"CR2"'),
    ],
)
def test_a_near_miss_is_told_what_was_meant(run, line, hint):
    status, output, error = run(line)
    assert (status, output, hint in error) == (3, "", True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "demo"])
def test_a_command_whose_words_got_lost_is_no_gate_that_held(run, name):
    assert [run(words)[0] for words in (name, "")] == [3, 3]


# What an error says


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ("mean logs/passages.csv --groups pasage", "--groups"),
        ("mean logs/passages.csv --alpha 2", "--alpha"),
        ("mean logs/passages.csv --where 'subject == \"none\"'", "--where"),
        ("compare logs/models.csv --item qestion", "--item"),
        ("mean logs/passages.csv --metric acc", "--metric"),
        ("mean logs/passages.csv --log-format inspct", "--log-format"),
        ("mean logs/passages.csv --gate 'mean >= 1'", "--gate"),
        ("mean logs/passages.csv --gate 'men > 1'", "--gate"),
        ("mean logs/passages.csv -o nowhere/at/all.txt", "--output"),
        ("mean logs/passages.csv -o logs/passages.csv", "--output"),
        ("components logs/pilot.csv", "--facets"),
        ("compare logs/models.csv --item question --joint", "--joint"),
        # An option without an effect is refused.
        ("compare logs/models.csv --item question --draws 99", "--draws"),
        ("plan logs/models.csv --item question --delta 0.05 --k 3", "--k"),
        ("report logs/models.csv --item question --baseline new --method controlled", "--method"),
        ("evals logs/passages.csv --eval subject --tasks drawn", "--tasks"),
        ("evals logs/models.csv logs/passages.csv --item question --average", "--average"),
        ("mean logs/models.csv --item question --best --format csv", "--best"),
        ("mean logs/passages.csv -o mean.pdf", "--output"),
        ("report logs/models.csv --item question -o page.csv", "--output"),
        ("summarise logs/judge_log.csv --groups judge -o sums.csv", "--output"),
        ("table logs/passages.csv --family binomial", "--family"),
        ("table logs/passages.csv --formulas 'score ~ 1' --by subject", "--by"),
        ("evals logs/models.csv --eval passage --item question --baseline old --weights passage", "--weights"),
        ("leaderboard logs/models.csv --reference old", "--reference"),
        ("report logs/models.csv --no-paired", "--no-paired"),
        ("report logs/models.csv --item question --baseline old --strata passage --winner model", "--winner"),
        ("table results.json --formulas 'score ~ 1'", "--formulas"),
        ("mean logs/passages.csv --failed zero", "--failed"),
    ],
)
def test_an_error_names_the_option_whose_rule_is_broken(run, line, flag):
    assert run("mean logs/passages.csv --format json -o results.json")[0] == 0
    status, output, error = run(line)
    assert (status, output, error.startswith(f"evalreg: error: {flag}: ")) == (3, "", True), error
    assert not re.search("`(claim|subset|name)`", error)  # which no option is called


def test_what_a_sentence_says_to_pass_is_typed_as_an_option_and_works(run, monkeypatch):
    mean = "mean logs/passages.csv"
    clustered = f"{mean} --groups passage"
    lines = {"--groups none": f"{clustered} --cov HC1", "--cov naive": f"{mean} --cov CR1"}
    lines |= {"--cov CR1": f"{clustered} --ssc G", "--dof min": f"{clustered} --cov jackknife --dof satterthwaite"}
    lines["--groups 'prompt + judge'"] = "leaderboard logs/judge_log.csv --groups prompt,judge"
    lines["--levels history,law"] = "randomise logs/passages.csv --treatment subject --groups passage"
    for typed, line in lines.items():
        status, _, error = run(line)
        assert (status, typed in error) == (3, True), error
        assert run(f"{re.sub(rf' {typed.split()[0]} [^ ]+', '', line)} {typed}")[0] == 0
    log = pd.read_csv("logs/models.csv")
    log.astype(object).assign(score=log["score"].astype(object).mask(log.index % 99 == 0, "error")).to_csv("words.csv")
    left_out = re.search(r"Pass (--score-labels error=none), or", run("mean words.csv")[2])[1]
    table = pd.read_csv(io.StringIO(run(f"mean words.csv {left_out} --format csv")[1])).set_index("name")["estimate"]
    assert table.to_dict() == pytest.approx(log[log.index % 99 > 0].groupby("model")["score"].mean().to_dict())
    assert "Leave it out" in run("mean logs/models.csv --score-labels x=1")[2]
    assert "--formula: `formula` must be named" in run("leaderboard logs/judge_log.csv --method controlled")[2]
    words = [("correct", "incorrect"), ("Yes", "No"), ("1", "0"), ("fully, so", "a=b"), ('"good"', "it's bad")]
    commands = ("mean {} --item question", "fit 'score ~ C(model)' {}")
    for command, (right, wrong) in itertools.product(commands, words):
        log.assign(score=log["score"].map({1: right, 0: wrong})).to_json("words.jsonl", orient="records", lines=True)
        typed = re.search(r"Pass (--score-labels .*), or name", run(command.format("words.jsonl"))[2])[1]
        typed = re.sub(r"(fully, so|good\"*)=NUMBER", r"\1=1", typed).replace("=NUMBER", "=0")
        assert run(f"{command} {typed}".format("words.jsonl"))[1] == run(command.format("logs/models.csv"))[1]
    log.assign(score=log["score"].map({1: "yes ", 0: "no "}) + (log.index % 7).astype(str)).to_csv("words.csv")
    assert "Pass --score-labels WORD=NUMBER,OTHER=NUMBER" in run("mean words.csv")[2]
    typed = ",".join(f"{word} {k}={value}" for word, value in (("yes", 1), ("no", 0)) for k in range(7))
    assert run(f"mean words.csv --score-labels '{typed}'")[1] == run("mean logs/models.csv")[1]
    rows = [{"meta": {"llm": row.model, "id": row.question}, "is": {"correct": row.score}} for row in log.itertuples()]
    Path("nested.json").write_text(json.dumps(rows))
    for command, value in (("mean", "0.8000"), ("compare", "0.0667")):
        cure = re.search(r"score: (--roles .*)", run(f"{command} nested.json")[2])[1]
        assert value in run(f"{command} nested.json {cure}")[1]
    run("mean logs/passages.csv --format json -o results.json")
    for file in ("results.json", "-"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("results.json").read_bytes())))
        proposed = re.search(rf"`evalreg (table {file})`", run(f"mean {file}")[2])[1]
        assert re.search(r"mean +0.7621\n", run(proposed)[1])
    stars = "table {}logs/passages.csv --groups passage --formulas 'score ~ n_words'{}"
    assert run(stars.format("--stars true ", ""))[1] == run(stars.format("", " --stars=true"))[1]
    assert "*** p < .001" in run(stars.format("", " --stars true"))[1]
    pilot = pd.read_csv("logs/pilot.csv")
    pilot[(pilot["model"] != "model-1") | (pilot["question"] != pilot["question"][0])].to_csv("part.csv", index=False)
    assert re.search(r"`mean` with --questions\s+shared", run("noise part.csv --item question --sample sample")[1])
    assert "`winner()`" not in run(f"{mean} --by subject --details")[1]


def test_an_error_inside_is_status_4(run, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("evalreg.cli.verbs.run", broken)
    status, output, error = run("mean logs/passages.csv")
    assert (status, output, "ZeroDivisionError: a bug" in error) == (4, "", True)


# What is read


def test_the_numbers_are_those_of_the_library(run):
    rows = pd.read_csv("logs/passages.csv", dtype={"passage": str})
    output = run("mean logs/passages.csv --groups passage --cov CR1 --alpha 0.1 --format csv")[1]
    wanted = er.mean(rows, groups="passage", cov="CR1").to_frame(0.1)
    found = pd.read_csv(io.StringIO(output), index_col=0)
    pd.testing.assert_frame_equal(found, wanted, check_names=False, check_dtype=False, rtol=1e-14)


def test_two_runs_are_compared_by_the_names_before_their_files(run, here):
    rows = pd.read_csv(here / "logs" / "models.csv").rename(columns={"question": "item"})
    for name in ("old", "new"):
        rows[rows["model"] == name].drop(columns="model").to_csv(here / f"{name}.csv", index=False)
    status, output, _ = run("compare before=old.csv after=new.csv --groups passage --format csv")
    wanted = er.compare(rows, groups="passage").table["difference"].iloc[0]
    row = pd.read_csv(io.StringIO(output)).iloc[0]
    assert (status, {row["model"], row["baseline"]}) == (0, {"before", "after"})
    assert abs(row["difference"]) == pytest.approx(abs(wanted))
    assert run("compare before=old.csv new.csv")[0] == 3
    means = pd.read_csv(io.StringIO(run("mean before=old.csv after=new.csv --format csv")[1]))
    assert sorted(means["name"]) == ["after", "before"]


def test_models_that_a_column_of_another_spelling_tells_apart_are_not_pooled_without_a_word(run, here):
    rows = pd.read_csv(here / "logs" / "models.csv").rename(columns={"model": "Model", "question": "Question ID"})
    rows.to_csv(here / "mixed.csv", index=False)
    assert ['"Model" seems' in run(f"mean mixed.csv{more}")[1] for more in ("", " --by Model")] == [True, False]
    assert "model=Model,item=Question ID" in run("doctor mixed.csv")[1]
    rows.rename(columns={"Model": "Contender", "score": "is correct?"}).to_csv(here / "odd.csv", index=False)
    assert re.search("Or --by Contender (?![^$]*fit)", run("doctor odd.csv")[1])
    rows.assign(task=rows["passage"])[3:].to_csv(here / "tasks.csv", index=False)
    assert "Name one by --where.\n" in run("fit 'score ~ 1' tasks.csv --groups passage")[1]
    sentences = r"--questions\s+shared\s+for[\s\S]*297\s+that\s+both[\s\S]*Model,task"
    assert re.search(sentences, run("mean tasks.csv --by Model --item 'Question ID'")[1])
    assert "mean logs/passages.csv --groups passage\n" in run("doctor logs/passages.csv")[1]  # no count of words


# What is written


def test_the_end_of_a_file_says_its_format_and_may_not_contradict_it(run, here):
    assert run("mean logs/passages.csv --groups passage -o mean.html")[0] == 0
    assert (here / "mean.html").read_text().lstrip().startswith("<")
    assert run("mean logs/passages.csv -o mean.json")[0] == 0
    json.loads((here / "mean.json").read_text())
    assert run("mean logs/passages.csv -o mean.html --format json")[0] == 3


def test_a_pilot_of_one_model_is_read_for_plans_and_for_the_spread_of_its_answers(run):
    """The mean of m questions with k answers each has the variance (omega2 + sigma2/k)/m, here with n - 1."""
    rows = pd.read_csv("logs/pilot.csv").query("model == 'model-1'")
    line = "plan logs/pilot.csv --where 'model == \"model-1\"' --item question --delta 0.05 --format csv"
    table = pd.read_csv(io.StringIO(run(f"{line} --k 1,4")[1])).set_index("answers")
    parts = er.plan.components(rows, model=None, item="question").loc["plain"]
    assert table["variance"].to_dict() == pytest.approx({k: parts["omega2"] + parts["sigma2"] / k for k in (1, 4)})
    assert [run(f"{line} --k {k}")[0] for k in ("0", "1,a", "1:4")] == [3, 3, 3]
    spread = run("mean logs/pilot.csv --item question --over sample --where 'model == \"model-1\"' --format csv")[1]
    assert pd.read_csv(io.StringIO(spread))["estimate"][0] == pytest.approx(rows["score"].mean())
    once = pd.read_csv(io.StringIO(run("plan logs/passages.csv --item question --delta 0.05 --format csv")[1]))
    assert once["variance"].iloc[0] == pytest.approx(pd.read_csv("logs/passages.csv")["score"].var(), rel=1e-12)


def test_a_summary_is_added_to_files_of_its_own_alone(run, here):
    line = "compare logs/models.csv --item question --gate 'new - old > -0.5' --summary page.md"
    assert run(line)[0] == run(line)[0] == 0
    assert (here / "page.md").read_text().count("PASS") == 2
    before = (here / "logs" / "passages.csv").read_bytes()
    assert run(line.replace("page.md", "logs/passages.csv"))[0] == 3
    assert (here / "logs" / "passages.csv").read_bytes() == before


@pytest.mark.parametrize(("claim", "status"), [("mean > 0.5", 0), ("mean < 0.5", 1), ("mean > 0.7621", 2)])
def test_a_gate_on_one_run_leaves_with_what_it_found(run, claim, status):
    left_with, page, _ = run(f"mean logs/passages.csv --groups passage --gate '{claim}' --format json")
    assert left_with == json.loads(page)["gate"]["status"] == status


def test_a_warning_is_said_once(run, here):
    (here / "few.csv").write_text("score,passage\n" + "".join(f"{(i * 7) % 3 % 2},{i % 4}\n" for i in range(40)))
    for command in ("mean", "report", "report --format md", "mean --format csv"):
        _, output, error = run(f"{command} few.csv --groups passage")
        assert ("4 passage clusters: t intervals" in output) != ("4 passage clusters: t intervals" in error)
    # Of several evals of which the first speaks for all; what is asked for is not pointed to.
    pages = [run(f"evals one=few.csv two=few.csv --groups passage{more}") for more in ("", " --average")]
    assert not any("clusters: t" in error for _, _, error in pages)
    assert ["--average does that" in page for _, page, _ in pages] == [True, False]


def test_shells_complete_every_option_by_shtab():
    script = pytest.importorskip("shtab").complete(build_parser(), shell="bash")
    for command in COMMANDS:  # whose first page names none that its functions do not have
        assert all(option.flag in script for option in command.options())
        assert {*command.page.split()} <= {option.name for option in command.options()}


def test_a_reader_that_stops_reading_is_no_error(run, monkeypatch):
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            raise OSError

    monkeypatch.setattr(sys, "stdout", Closed())
    assert main(["mean", "logs/passages.csv"]) == 0


def test_a_leaderboard_of_sums_is_that_of_the_log(run, monkeypatch):
    assert run('summarise logs/judge_log.csv --groups "prompt + judge" -o sums.parquet')[0] == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("sums.parquet").read_bytes())))
    options = '--groups "prompt + judge" --format csv'
    pages = (run(f"leaderboard {file} {options}")[1] for file in ("logs/judge_log.csv", "sums.parquet", "-"))
    log, *sums = (pd.read_csv(io.StringIO(page)) for page in pages)
    for board in sums:
        pd.testing.assert_frame_equal(board, log, rtol=1e-9)
    assert "standard input and sums.parquet hold the same sums" in run("leaderboard - sums.parquet")[2]


def test_what_another_command_answers_is_typed_whole(run):
    rows = "logs/judge_log.csv --groups prompt --where \"judge != 'judge-1'\""
    for words in ("mean", "compare --alpha 0.1 --model judge", "noise --item prompt", "plan --delta 0.1"):
        typed = run(f"{words} {rows}")[2].partition("board: evalreg ")[2]
        assert run(typed)[1] == run(f"leaderboard {rows} {'--alpha 0.1' * ('alpha' in words)}")[1]
    log = pd.read_csv("logs/passages.csv").rename(columns={"score": "is right", "question": "id"})
    log.to_csv("named.csv", index=False)
    for roles in ("logs/passages.csv", "named.csv --score 'is right' --item id"):
        typed = run(f"leaderboard {roles} --groups passage")[2].partition("mean: evalreg ")[2]
        assert run(typed)[1] == run(f"mean {roles} --groups passage")[1]
    log = pd.read_csv("logs/pilot.csv").rename(columns={"model": "the, model"})
    pd.concat([log, log.assign(**{"the, model": "a third"})]).to_csv("three.csv", index=False)
    for sample in ("--sample sample", ""):
        line = f"plan three.csv --item question --model 'the, model' --delta 0.1 {sample}"
        assert run(f"{line} {re.search('two, as (.*) does', run(line)[2])[1]}")[0] == 0
