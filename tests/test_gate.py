"""``evalreg compare`` and its gate: every exit, what is printed, and what cannot be read."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import evalreg as er
from evalreg.cli import main as cli
from evalreg.cli.gates import Gate, check_models, decide, parse_gate
from evalreg.errors import FormulaError, MissingColumnError


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on 400 questions of 80 passages; one is 0.10 better in truth."""
    path = tmp_path_factory.mktemp("gate") / "log.csv"
    frame = er.datasets.paired(n_passages=80, difference=0.10, correlation=0.8, seed=4)
    frame.rename(columns={"question": "item"}).to_csv(path, index=False)
    return path


Here = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    """The command in this process."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        status = cli.main([str(argument) for argument in arguments])
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return run


def pair(log: Path) -> pd.Series:
    return er.compare(pd.read_csv(log), groups="passage", baseline="old").table.loc[("new", "old")]


# Exits


@pytest.mark.parametrize(
    ("claim", "status", "words"),
    [
        ("new - old > -0.01", 0, "PASS (shown)"),
        ("old - new < 0.01", 0, "PASS (shown)"),
        ("new - old > 0.3", 1, "FAIL (shown to fail)"),
        ("old - new > 0", 1, "FAIL (shown to fail)"),
        ("new - old < 0", 1, "FAIL (shown to fail)"),
        ("new - old > 0.09", 2, "UNDECIDED (cannot tell)"),
    ],
)
def test_a_gate_leaves_with_what_it_found(here: Here, log: Path, claim: str, status: int, words: str) -> None:
    # That a process leaves with it is seen where the action runs.
    done = here("compare", log, "--groups", "passage", "--gate", claim)
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith(f"{words}: {claim}; difference ")
    assert done.stdout.count("\n") == 1
    row, (model, _, baseline, operator, bound) = pair(log), claim.split()
    sign = 1 if (model, baseline) == ("new", "old") else -1
    t = (sign * row["difference"] - float(bound)) / row["se"]
    above = stats.t.sf(t, row["dof"])
    shown, fails = (above, 1 - above) if operator == ">" else (1 - above, above)
    assert status == (0 if shown < 0.05 else 1 if fails < 0.05 else 2)
    assert "400 questions in 80 clusters" in done.stdout


def test_what_cannot_be_told_says_how_many_clusters_could_tell(here: Here, log: Path) -> None:
    asked = ("compare", log, "--groups", "passage", "--gate", "new - old > 0.09", "--icc", "none")
    done, row = here(*asked, "--format", "json"), pair(log)
    decision = json.loads(done.stdout)["gate"]

    def power(factor: float) -> float:
        """Of the shifted t, on so many times the passages."""
        distance = abs(row["difference"] - 0.09) * np.sqrt(factor) / row["se"]
        return float(stats.norm.cdf(distance - stats.t.ppf(0.95, row["dof"] * factor)))

    factor = optimize.brentq(lambda f: power(f) - 0.8, 1, 1e6)
    wanted = {"n_to_tell": int(np.ceil(400 * factor)), "clusters_to_tell": {"passage": int(np.ceil(80 * factor))}}
    assert {name: decision[name] for name in wanted} == wanted
    assert (decision["status"], decision["verdict"]) == (2, "cannot tell")
    text = here(*asked).stdout
    assert f"About {wanted['clusters_to_tell']['passage']} clusters by passage (80 now)" in text


def test_questions_are_counted_where_each_is_its_own_cluster(here: Here, log: Path) -> None:
    done = here("compare", log, "--gate", "new - old > 0.09", "--icc", "none")
    assert "questions like these could tell" in done.stdout
    assert "clusters by" not in done.stdout


def test_more_questions_of_the_same_tasks_are_said_not_to_help(here: Here, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    task = np.repeat(np.arange(25), 80)
    better = rng.normal(0.2, 0.2, 25)[task]
    old = rng.random(task.size) < 0.5
    new = np.where(rng.random(task.size) < np.abs(better), better > 0, old)
    path = tmp_path / "tasks.csv"
    frame = pd.DataFrame({"task": np.tile(task, 2), "item": np.tile(np.arange(task.size), 2)})
    frame.assign(model=np.repeat(["new", "old"], task.size), score=np.append(new, old).astype(int)).to_csv(path)
    done = here("compare", path, "--groups", "task", "--gate", "new - old > 0.05")
    assert "clusters by task (25 now)" in done.stdout
    assert done.stdout.rstrip().endswith("More questions in the same clusters would not.")


@pytest.mark.parametrize(("claim", "side"), [("new - old > 0.3", "upper"), ("new - old < -0.1", "lower")])
def test_a_gate_that_fails_shows_the_bound_that_decides(here: Here, log: Path, claim: str, side: str) -> None:
    done = json.loads(here("compare", log, "--groups", "passage", "--gate", claim, "--format", "json").stdout)["gate"]
    assert (done["verdict"], done["edge_side"]) == ("shown to fail", side)
    assert done["edge"] < done["bound"] if side == "upper" else done["edge"] > done["bound"]
    ends = er.compare(pd.read_csv(log), groups="passage", baseline="old").to_frame(0.1).loc[("new", "old")]
    assert done["edge"] == pytest.approx(ends[side])
    assert f"95% {side} bound" in here("compare", log, "--groups", "passage", "--gate", claim).stdout


@pytest.mark.parametrize(("losses", "least"), [(0, 0.0490), (1, 0.123), (2, 0.25)])
def test_one_failure_does_not_pass_a_gate(here: Here, tmp_path: Path, losses: int, least: float) -> None:
    """300 questions and a margin of 0.01; the exact tests have 0.049, 0.198 and 0.42."""
    path, n = tmp_path / "losses.csv", 300
    score = np.append(np.arange(n) >= losses, np.ones(n, dtype=bool))
    frame = pd.DataFrame({"model": np.repeat(["new", "old"], n), "item": np.tile(np.arange(n), 2), "score": score})
    frame.astype({"score": int}).to_csv(path, index=False)
    done = here("compare", path, "--gate", "new - old > -0.01", "--format", "json")
    decision = json.loads(done.stdout)["gate"]
    assert (done.returncode, decision["verdict"]) == (2, "cannot tell")
    assert decision["p_shown"] > least
    assert decision["edge"] < -0.01
    assert f"{losses} of 300 questions differ" in decision["few"]


def test_identical_models_are_alike_to_the_questions_asked(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "same.csv"
    for n, status in ((30, 2), (300, 2), (400, 0)):
        rows = [f"{model},{i},{i % 2}" for model in "ab" for i in range(n)]
        path.write_text("\n".join(["model,item,score", *rows]))
        done = here("compare", path, "--gate", "a - b > -0.01")
        assert done.returncode == status
        assert f"0 of {n} questions differ" in done.stdout
    plain = here("compare", path, "--gate", "a - b > -0.01", "--icc", "none")
    assert plain.returncode == 2
    assert "does not vary, so that it has no error bar" in plain.stdout


def test_the_line_of_a_gate_names_options_as_they_are_typed(tmp_path: Path, here: Here) -> None:
    rows = [f"{model},{i},{i // 3},{int(model == 'new' or i > 2)}" for model in ("new", "old") for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["model,item,passage,score", *rows]))
    line = here(
        "compare", tmp_path / "log.csv", "--groups", "passage", "--gate", "new - old > 0.02"
    ).stdout.splitlines()[0]
    assert "--icc takes another value" in line
    assert "`" not in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["--gate", "new - old > -0.01", "--unknown"],
        ["--gate"],
        ["--format", "pdf", "--gate", "new - old > -0.01"],
        ["--gate", "new - old"],
        ["--gate", "new - older > 0"],
        ["--gate", "new - old > 0", "--item", "question"],
    ],
    ids=" ".join,
)
def test_bad_input_and_usage_are_status_3(here: Here, log: Path, arguments: list[str]) -> None:
    done = here("compare", log, *arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("evalreg: error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--alpha", "many", "--gate", "new - old > -0.01"],
        ["--alpha", "1.5", "--gate", "new - old > -0.01"],
        ["--gate", "new - old > 0", "--baseline", "new"],
        ["--gate", "new - old > 0", "--groups", "chapter"],
        ["--gate", "new - old > 0", "--model", "models"],
        ["--gate", "new - old > 0", "--where", "model == 'new'"],
        ["--gate", "new - old > 0", "--where", "model =="],
        ["--gate", "new - old > 0", "--summary", "/nowhere/at/all.md"],
        ["--gate", "new - old > 0", "--adjust", "tukey"],
        ["--gate", "new - old > 0", "--weights", "score"],
    ],
    ids=" ".join,
)
def test_other_wrong_options_are_status_3(here: Here, log: Path, arguments: list[str]) -> None:
    done = here("compare", log, *arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("evalreg: error: ")
    assert "Traceback" not in done.stderr


def test_a_missing_file_and_a_missing_command_are_status_3(here: Here) -> None:
    assert here("compare", "nothing.csv", "--gate", "a - b > 0").returncode == 3
    assert here().returncode == 3
    assert here("compare").returncode == 3
    assert here("compare", "--help").returncode == 0


def test_a_question_answered_twice_is_status_3_and_names_the_rows(
    here: Here, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log.read_text().splitlines()
    content = "\n".join([*lines, lines[3]]) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    done = here("compare", "-", "--gate", "new - old > 0")
    assert done.returncode == 3
    assert "one row for each 'model' and 'item'; 1 row repeats an earlier one (row 800" in done.stderr


def test_an_error_inside_is_status_4(here: Here, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("evalreg.cli.compare.compare", broken)
    done = here("compare", log, "--gate", "new - old > 0")
    assert (done.returncode, done.stdout) == (4, "")
    assert "ZeroDivisionError: a bug" in done.stderr
    assert "please report it" in done.stderr


# What is printed


def test_without_a_gate_the_comparison_is_printed(here: Here, log: Path) -> None:
    done = here("compare", log, "--groups", "passage")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == er.compare(pd.read_csv(log), groups="passage").summary().as_text() + "\n"


def test_the_formats_hold_the_table_of_the_library(here: Here, log: Path) -> None:
    table = er.compare(pd.read_csv(log), groups="passage").table
    csv = here("compare", log, "--groups", "passage", "--format", "csv").stdout
    assert csv == table.to_csv(lineterminator="\n")
    document = json.loads(here("compare", log, "--groups", "passage", "--format", "json").stdout)
    (row,) = document["parameters"]
    assert (row["model"], row["baseline"], row["parameter"]) == ("new", "old", "new - old")
    assert row["se"] == pytest.approx(table["se"].iloc[0])
    assert "gate" not in document
    for name, mark in (("md", "| new - old |"), ("latex", r"\begin{tabular}"), ("html", "<table")):
        assert mark in here("compare", log, "--groups", "passage", "--format", name).stdout


def test_options_reach_the_library(here: Here, log: Path) -> None:
    options = ["--cov", "CR1", "--adjust", "holm", "--baseline", "old", "--unpaired", "--alpha", "0.1"]
    found = here("compare", log, "--groups", "passage", *options, "--format", "csv").stdout
    there = er.compare(pd.read_csv(log), groups="passage", cov="CR1", adjust="holm", baseline="old", paired=False)
    assert found == there.to_frame(0.1).to_csv(lineterminator="\n")


def test_a_summary_is_added_to_what_a_file_holds(here: Here, log: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Checks\n")
    first = here("compare", log, "--groups", "passage", "--gate", "new - old > -0.01", "--summary", page)
    second = here("compare", log, "--groups", "passage", "--gate", "new - old > 0.3", "--summary", page)
    assert (first.returncode, second.returncode) == (0, 1)
    text = page.read_text()
    assert text.startswith("# Checks\n**PASS (shown): new - old > -0.01; ")
    assert text.index("PASS") < text.index("FAIL")
    assert text.count("| model - baseline |") == 2
    assert here(
        "compare", log, "--groups", "passage", "--gate", "new - old > -0.01", "--format", "md"
    ).stdout.startswith("**PASS (shown)")


def test_names_are_quoted_by_backticks_and_read_as_text(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    rows = [f"{name},{i},{(i * k) % 7 / 7}" for name, k in (("007", 2), ("gpt > 4 - mini", 3)) for i in range(40)]
    path.write_text("\n".join(["model,item,score", *rows]) + "\n")
    done = here("compare", path, "--gate", "`gpt > 4 - mini` - 007 > -1")
    assert (done.returncode, done.stderr) == (0, "")


# What a gate may say


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("new - old > -0.01", ("new", "old", ">", -0.01)),
        ("  new   -   old<1e-2 ", ("new", "old", "<", 0.01)),
        ("gpt-4o - gpt-3.5 > +.5", ("gpt-4o", "gpt-3.5", ">", 0.5)),
        ("`a b` - `c - d` > 0", ("a b", "c - d", ">", 0.0)),
        ("org/model:v1 - 007 > 0", ("org/model:v1", "007", ">", 0.0)),
    ],
)
def test_gates_are_read(text: str, parts: tuple[object, ...]) -> None:
    found = parse_gate(text)
    assert (found.model, found.baseline, found.operator, found.bound) == parts


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", 0, "expected the name of a model"),
        ("new", 3, '" - " between two models'),
        ("new-old > 0", 8, '" - " between two models'),
        ("new + old > 0", 4, '" - " between two models'),
        ("new - > 0", 6, "expected the name of a model"),
        ("new - old", 9, 'expected ">" or "<" and a number'),
        ("new - old = 0", 10, 'expected ">" or "<"'),
        ("new - old >= 0", 11, 'write ">" alone'),
        ("new - old > ", 12, "expected a number"),
        ("new - old > 1%", 12, "expected a number"),
        ("new - old > zero", 12, "expected a number"),
        ("new - old > 0 and more", 14, "expected nothing after the number"),
        ("new - new > 0", 6, '"new" is on both sides'),
        ("`new - old > 0", 0, "one on both sides"),
        ("new - old - base > 0", 10, 'expected ">" or "<"'),
    ],
)
def test_a_gate_that_cannot_be_read_has_a_caret_under_the_place(text: str, place: int, problem: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_gate(text)
    message, line, caret = str(caught.value).split("\n")
    assert problem in message
    assert line == f"    {text}"
    assert caret == " " * (4 + place) + "^"


def test_unknown_models_of_a_gate_name_the_nearest() -> None:
    with pytest.raises(MissingColumnError, match=r'"olt", which is not a model. Did you mean "old"') as caught:
        check_models(parse_gate("new - olt > 0"), ["new", "old"])
    assert str(caught.value).endswith("\n          ^")


def test_a_decision_does_not_depend_on_the_adjustment_of_the_table(log: Path) -> None:
    frame = pd.read_csv(log)
    third = frame[frame["model"] == "old"].assign(model="third", score=lambda part: part["score"].to_numpy()[::-1])
    frame = pd.concat([frame, third])
    claim = Gate("new - old > 0", "new", "old", ">", 0.0)
    plain, adjusted = (
        decide(claim, er.compare(frame, groups="passage", baseline="old", adjust=adjust))
        for adjust in (None, "single-step")
    )
    assert plain == adjusted
    ends = er.compare(pd.read_csv(log), groups="passage", baseline="old").to_frame(0.1).loc[("new", "old")]
    assert plain.edge == pytest.approx(ends["lower"])


def three_models(path: Path, name: str = "<new>&co") -> Path:
    """The third model's name is markup."""
    frame = er.datasets.paired(n_passages=40, difference=0.10, correlation=0.8, seed=4)
    third = frame[frame["model"] == "new"].assign(model=name, score=lambda rows: 1 - rows["score"])
    pd.concat([frame, third]).rename(columns={"question": "item"}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_models(tmp_path_factory.mktemp("three") / "log.csv")


@pytest.mark.parametrize("format_", ["text", "json", "csv", "md", "latex", "html"])
@pytest.mark.parametrize(("bound", "status"), [("0.99", 1), ("-0.99", 0)])
def test_every_format_lets_the_decision_be_seen(
    here: Here, marked: Path, format_: str, bound: str, status: int
) -> None:
    done = here("compare", marked, "--gate", f"`<new>&co` - old > {bound}", "--format", format_)
    word = "PASS (shown)" if status == 0 else "FAIL"
    assert done.returncode == status
    if format_ in ("csv", "latex", "html"):
        assert any(line.startswith(word) and "<new>&co" in line for line in done.stderr.splitlines())
    if format_ == "csv":
        # What a program reads stays a table.
        assert len(pd.read_csv(io.StringIO(done.stdout))) == 2
        return
    if format_ == "json":
        assert json.loads(done.stdout)["gate"]["verdict"] == ("shown" if status == 0 else "shown to fail")
        return
    assert word in done.stdout
    if format_ in ("latex", "html"):
        table = done.stdout.index("tabular" if format_ == "latex" else "simpletable")
        assert done.stdout.index(word) < table
        assert "<new>&co" not in done.stdout
        assert (r"$<$new$>$\&co" if format_ == "latex" else "&lt;new&gt;&amp;co") in done.stdout[:table]


@pytest.mark.parametrize("adjust", [None, "holm"])
def test_unadjusted_p_values_are_said_where_the_table_cannot(here: Here, tmp_path: Path, adjust: str | None) -> None:
    log, more = three_models(tmp_path / "log.csv", "third"), ["--adjust", adjust] if adjust else []
    csv = here("compare", log, "--format", "csv", *more).stderr
    field = json.loads(here("compare", log, "--format", "json", *more).stdout)["unadjusted"]
    assert ("p is of each of 3 differences by itself" in csv) == (adjust is None)
    assert (field is None) == (adjust is not None)
    assert field is None or field in csv


def test_one_difference_has_nothing_to_adjust_for(here: Here, log: Path) -> None:
    done = here("compare", log, "--groups", "passage", "--format", "json")
    assert json.loads(done.stdout)["unadjusted"] is None
