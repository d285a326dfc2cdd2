"""The command line: the numbers of the library, on the right stream, in the right format, with the right status."""

from __future__ import annotations

import csv
import functools
import gzip
import html.parser
import io
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import evalreg as er
import evalreg.__main__ as entry
from evalreg.cli import demonstration as demo
from evalreg.cli import fit as fit_command
from evalreg.cli import main as cli
from evalreg.cli import selection
from evalreg.errors import EvalregWarning
from evalreg.results import reporting

WIDTH = 80
# The same sums in another order.
ROUNDING = 1e-12
# p-values this small amplify the rounding of t.
ROUNDING_OF_P = 1e-9


@dataclass(frozen=True)
class Run:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The output, which must be strict JSON."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        return json.loads(self.out, parse_constant=refuse)

    @property
    def only(self) -> dict[str, Any]:
        """The one parameter of the JSON output."""
        (parameter,) = self.json["parameters"]
        return parameter


Command = Callable[..., Run]


@pytest.fixture
def command(call: Callable[..., tuple[int, str, str]]) -> Command:
    """Runs a command in this process."""
    return lambda *arguments: Run(*call(*arguments))


def process(*arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
    )


def streamed(*arguments: object, stdin: bytes = b"", encoding: str = "utf-8") -> tuple[int, bytes, bytes]:
    """Status and what was written, of a command in this process on streams of bytes."""
    read, out, err = io.TextIOWrapper(io.BytesIO(stdin)), *(io.TextIOWrapper(io.BytesIO(), encoding) for _ in "oe")
    with pytest.MonkeyPatch.context() as patch:
        for name, stream in (("stdin", read), ("stdout", out), ("stderr", err)):
            patch.setattr(sys, name, stream)
        status = cli.main([str(argument) for argument in arguments])
    return status, *(stream.buffer.getvalue() for stream in (out, err))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the simulated logs of the demonstration."""
    folder = tmp_path_factory.mktemp("demo") / "logs"
    assert cli.main(["demo", "--write", str(folder)]) == 0
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a table and returns its path."""

    def written(content: str) -> Path:
        path = tmp_path / "table.csv"
        path.write_text(content, encoding="utf-8")
        return path

    return written


def lines(rows: Sequence[Sequence[object]], header: str) -> str:
    """A table as CSV."""
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def quietly(function: Callable[..., er.Results], *arguments: Any, **options: Any) -> er.Results:
    """Results of the library without its warnings."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalregWarning)
        return function(*arguments, **options)


# Results


def test_the_installed_command_is_main():
    (script,) = (entry for entry in entry_points(group="console_scripts") if entry.name == "evalreg")
    # An installation in place that is older than the sources may still name the second.
    assert script.load() in (entry.main, cli.main)


def test_fit_prints_the_summary_of_the_library_and_nothing_else(command, logs):
    run = command("fit", "score ~ n_words", logs / "passages.csv", "--groups", "passage", "--alpha", "0.1")
    results = er.fit("score ~ n_words", pd.read_csv(logs / "passages.csv"), groups="passage")
    assert (run.status, run.out) == (0, results.summary(0.1).as_text() + "\n")


def test_options_of_the_covariance_reach_the_library(command, logs):
    judges = pd.read_csv(logs / "judge_log.csv").dropna()
    options = {"cov": "CR1", "ssc": "fixest", "dof": 7.5, "repair": "two-term"}
    expected = quietly(er.fit, "best_score ~ 1", judges, groups="prompt + judge", **options)
    asked = [part for name, value in options.items() for part in (f"--{name}", value)]
    run = command(
        "fit", "best_score ~ 1", logs / "judge_log.csv", "--groups", "prompt + judge", *asked, "--format", "json"
    )
    assert run.only["se"] == pytest.approx(expected.bse.iloc[0], rel=ROUNDING)
    assert {name: run.json["options"][name] for name in options} == options
    assert run.json["dropped"] == {"score": 1800, "covariate": 0, "group": 0}


def test_options_that_were_left_out_are_reported_as_resolved_and_those_without_bearing_as_null(command, logs):
    names = ("cov", "dof", "repair", "ssc")
    found = {}
    for groups in ([], ["--groups", "prompt"], ["--groups", "prompt + judge"]):
        run = command("fit", "best_score ~ 1", logs / "judge_log.csv", *groups, "--format", "json")
        found[groups[-1] if groups else ""] = [run.json["options"][name] for name in names]
    assert found == {
        "": ["naive", "min", None, None],
        "prompt": ["CR2", "satterthwaite", None, None],
        "prompt + judge": ["CR2", "satterthwaite", "max", None],
    }


@pytest.mark.parametrize("dof", ["normal", "min", "satterthwaite"])
def test_degrees_of_freedom_may_be_named(command, logs, dof):
    run = command("mean", logs / "passages.csv", "--groups", "passage", "--dof", dof, "--format", "json")
    expected = er.mean(pd.read_csv(logs / "passages.csv"), groups="passage", dof=dof).dof["mean"]
    assert run.json["options"]["dof"] == dof
    assert run.only["dof"] == ("inf" if np.isinf(expected) else pytest.approx(expected, rel=ROUNDING))


def test_mean_takes_the_roles_of_the_library(command, table):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        [(m, q, s, q % 3, rng.integers(0, 2), 1 + q % 2) for m in "ab" for q in range(12) for s in range(3)],
        columns=["model", "question", "try", "subject", "right", "w"],
    )
    path = table(frame.to_csv(index=False))
    roles = {"by": "model", "item": "question", "sample": "try", "strata": "subject"}
    options = [part for name, value in roles.items() for part in (f"--{name}", value)]
    run = command("mean", path, "--score", "right", *options, "--strata-weights", "0=1,1=2,2=3.5", "--format", "json")
    expected = er.mean(frame, "right", **roles, strata_weights={"0": 1, "1": 2, "2": 3.5})
    assert [row["estimate"] for row in run.json["parameters"]] == pytest.approx(expected.params.tolist(), rel=ROUNDING)
    assert [row["se"] for row in run.json["parameters"]] == pytest.approx(expected.bse.tolist(), rel=ROUNDING)
    assert run.json["options"]["groups"] == "question", "the clusters that the library took are not reported"
    run = command("mean", path, "--score", "right", "--by", "model,subject", "--weights", "w", "--format", "json")
    expected = quietly(er.mean, frame, "right", by=["model", "subject"], weights="w")
    assert {row["parameter"]: row["estimate"] for row in run.json["parameters"]} == pytest.approx(
        expected.params.to_dict(), rel=ROUNDING
    )


def test_family_and_weights_reach_the_library(command, table):
    rows = [(i % 5, i % 2, 1 + i % 3, (7 * i) % 4) for i in range(40)]
    path = table(lines(rows, "passage,score,w,x"))
    run = command(
        *("fit", "score ~ x", path, "--groups", "passage", "--family", "binomial", "--weights", "w"),
        *("--format", "json"),
    )
    frame = pd.DataFrame(rows, columns=["passage", "score", "w", "x"])
    expected = quietly(er.fit, "score ~ x", frame, groups="passage", family="binomial", weights="w")
    assert [row["se"] for row in run.json["parameters"]] == pytest.approx(expected.bse.tolist(), rel=ROUNDING)


# What `score` means


def test_score_names_the_column_that_score_means_and_the_summary_shows_its_name(command, logs):
    run = command("fit", "score ~ 1", logs / "judge_log.csv", "--score", "best_score", "--groups", "prompt")
    assert "Score: best_score" in run.out
    assert "Formula: best_score ~ 1" in run.out


def test_the_option_wins_over_a_column_called_score(command, table):
    path = table(lines([(i % 4, i % 2, 5 + i % 3) for i in range(24)], "passage,score,other"))
    means = [
        command("fit", formula, path, *option, "--groups", "passage", "--format", "json").only["estimate"]
        for formula, option in [("score ~ 1", []), ("score ~ 1", ["--score", "other"])]
    ]
    assert means == [0.5, 6.0]


@pytest.mark.parametrize(
    ("formula", "column", "rewritten"),
    [
        ("score ~ 1", "correct", "correct ~ 1"),
        (" np.log(score)~C(x)", "correct", "np.log(correct)~C(x)"),
        ("score ~ scores + my_score + C(score)", "y", "y ~ scores + my_score + C(y)"),
        ("score ~ x.score + f(score=score == 1)", "y", "y ~ x.score + f(score=y == 1)"),
        ('Q("score") ~ score', "y", 'Q("score") ~ y'),
        ("score ~ 1", "exact match", 'Q("exact match") ~ 1'),
        ("score ~ 1", 'say "so"', 'Q("say \\"so\\"") ~ 1'),
        ("score ~ 1", "class", 'Q("class") ~ 1'),
        ("é + score ~\n1", "점수", "é + 점수 ~ 1"),
    ],
)
def test_only_the_name_score_is_replaced(formula, column, rewritten):
    assert selection.with_score(formula, column) == rewritten


def test_a_score_whose_name_is_no_python_name_can_be_fitted(command, table):
    path = table(lines([(i % 4, i % 2) for i in range(24)], "passage,exact match"))
    run = command("fit", "score ~ 1", path, "--score", "exact match", "--groups", "passage", "--format", "json")
    assert run.only["estimate"] == pytest.approx(0.5, rel=ROUNDING)


def test_score_without_a_score_in_the_formula_is_an_error(command, logs):
    run = command("fit", "n_words ~ 1", logs / "passages.csv", "--score", "score")
    assert run.status == 3
    assert "does not say" in run.err


# Which columns are text


def test_clusters_are_told_apart_to_the_letter_and_only_empty_ones_are_missing(command, table):
    labels = ["7", "007", "NA", "nan", "7.0", ""]
    path = table(lines([(label, i % 2) for i, label in enumerate(labels * 4)], "model,score"))
    run = command("fit", "score ~ 1", path, "--groups", "model", "--format", "json")
    assert run.json["n_clusters"] == {"model": 5}
    assert run.json["dropped"]["group"] == 4


@pytest.mark.parametrize("groups", ["a+b + model", "`a:b`+model", "model:a+b"])
def test_every_column_of_the_groups_is_text_however_it_is_quoted(command, table, groups):
    header = "model,a+b,a:b,score"
    rows = [(f"00{i % 3}" if i % 2 else i % 3, f"0{i % 4}", f"0{i % 4}", (i * i) % 5) for i in range(60)]
    path = table(lines(rows, header))
    if groups == "a+b + model":
        groups = "`a+b` + model"
    if groups == "model:a+b":
        groups = "model:`a+b`"
    run = command("fit", "score ~ 1", path, "--groups", groups, "--format", "json")
    frame = pd.read_csv(path, dtype={"model": str, "a+b": str, "a:b": str})
    assert run.json["n_clusters"] == quietly(er.fit, "score ~ 1", frame, groups=groups).n_clusters
    assert frame["model"].nunique() == 6, "the example does not tell text from numbers"


def test_labels_of_by_are_text(command, table):
    path = table(lines([(label, i % 3) for i, label in enumerate(["7", "007"] * 6)], "model,score"))
    run = command("mean", path, "--by", "model", "--format", "json")
    assert [row["parameter"] for row in run.json["parameters"]] == ["007", "7"]


def names_of(run: Run) -> list[str]:
    return [row["parameter"] for row in run.json["parameters"]]


def test_a_factor_is_text_and_a_covariate_is_a_number(command, table):
    path = table(lines([(f"0{1 + i % 3}", (i * i) % 7) for i in range(30)], "turn,score"))
    factor = ["Intercept", "C(turn)[T.02]", "C(turn)[T.03]"]
    assert names_of(command("fit", "score ~ C(turn)", path, "--format", "json")) == factor
    assert names_of(command("fit", "score ~ turn", path, "--format", "json")) == ["Intercept", "turn"]
    # A column cannot be both; the number is not taken away from a formula that needs it.
    run = command("fit", "score ~ turn", path, "--groups", "turn", "--format", "json")
    assert (names_of(run), run.json["n_clusters"]) == (["Intercept", "turn"], {"turn": 3})
    assert names_of(command("fit", "score ~ turn", path, "--text", "turn", "--format", "json")) == [
        "Intercept",
        "turn[T.02]",
        "turn[T.03]",
    ]


def test_a_reference_level_means_what_it_says(command, table):
    path = table(lines([(1 + i % 3, (i * i) % 7) for i in range(30)], "turn,score"))
    frame = pd.read_csv(path)
    expected = er.fit("score ~ C(turn, Treatment(2))", frame).params.tolist()
    for reference in ("2", '"2"'):
        run = command("fit", f"score ~ C(turn, Treatment({reference}))", path, "--format", "json")
        assert [row["estimate"] for row in run.json["parameters"]] == pytest.approx(expected, rel=ROUNDING)
        assert names_of(run)[1].endswith("[T.1]")


# Filters


def test_where_keeps_the_rows_for_which_it_is_true_and_says_how_many(command, logs):
    run = command("fit", "score ~ 1", logs / "passages.csv", "--where", 'subject == "law" and n_words > 300')
    frame = pd.read_csv(logs / "passages.csv").query("subject == 'law' and n_words > 300")
    assert 0 < len(frame) < 300
    assert f"Rows: {len(frame)}\n" in run.out
    assert f"({len(frame)} of 517 rows)" in " ".join(run.out.split())
    run = command("mean", logs / "passages.csv", "--where", 'subject == "law" and n_words > 300', "--format", "json")
    assert run.only["estimate"] == pytest.approx(frame["score"].mean(), rel=ROUNDING)
    assert (run.json["rows_read"], run.json["rows_kept"], run.json["nobs"]) == (517, len(frame), len(frame))


def test_a_column_that_only_the_filter_names_is_typed_by_content_and_one_with_a_role_is_text(command, table):
    path = table(lines([(1 + i % 2, i % 5, i % 3) for i in range(30)], "turn,passage,score"))
    assert command("fit", "score ~ 1", path, "--where", "turn == 1").status == 0
    assert command("fit", "score ~ 1", path, "--where", 'turn == "1"', "--groups", "turn:passage").status == 0
    run = command("fit", "score ~ 1", path, "--where", "turn == 1", "--groups", "turn:passage")
    assert run.status == 3
    assert 'Write turn == "1"' in run.err


def test_a_filter_that_keeps_nothing_says_how_many_rows_there_were_and_what_may_have_been_meant(command, logs):
    run = command("fit", "score ~ 1", logs / "passages.csv", "--where", 'n_words > 1 and subject == "histori"')
    assert run.status == 3
    assert "none of the 517 rows" in run.err
    assert 'Did you mean "history"?' in run.err
    assert run.out == ""


def test_rows_in_a_message_are_said_to_be_counted_after_the_filter(command, table):
    path = table("x,score\n1,1\n2,1\n3,0\n3,a\n")
    assert "(Row 0 is the first below the header.)" in command("fit", "score ~ 1", path).err
    run = command("fit", "score ~ 1", path, "--where", "x == 3")
    assert "(Row 0 is the first of those that --where keeps.)" in run.err
    # Here the message itself says what it counts.
    path = table("item,score\n1,\n1,1\n2,1\n2,0\n")
    run = command("mean", path, "--item", "item")
    assert "row 2 of those in use" in run.err
    assert "Row 0" not in run.err


# Formats


def test_json_is_strict_sorted_ascii_and_says_how_the_numbers_were_made(command, logs):
    arguments = ("--groups", "passage", "--cov", "CR1", "--dof", "normal", "--alpha", "0.1", "--format", "json")
    run = command("fit", "score ~ C(subject)", logs / "passages.csv", *arguments)
    document = run.json
    assert run.out.isascii()
    assert list(document) == sorted(document)
    assert list(document["parameters"][0]) == sorted(document["parameters"][0])
    assert (document["schema_version"], document["seed"], document["nobs"]) == (1, None, 517)
    assert document["n_clusters"] == {"passage": 60}
    assert document["versions"] == {name: version(name) for name in document["versions"]}
    assert set(document["versions"]) == {"evalreg", "narwhals", "numpy", "pandas", "patsy", "scipy", "statsmodels"}
    assert document["options"] == {
        "alpha": 0.1,
        "command": "fit",
        "cov": "CR1",
        "dof": "normal",
        "family": "gaussian",
        "file": str(logs / "passages.csv"),
        "formula": "score ~ C(subject)",
        "groups": "passage",
        "missing": "drop",
        "repair": None,
        "score": None,
        "ssc": "statsmodels",
        "text": None,
        "weights": None,
        "where": None,
    }
    results = er.fit(
        "score ~ C(subject)", pd.read_csv(logs / "passages.csv"), groups="passage", cov="CR1", dof="normal"
    )
    frame = results.to_frame(0.1).assign(design_effect=results.design_effect(), n_eff=results.n_eff())
    assert names_of(run) == frame.index.tolist()
    for row, (_, expected) in zip(document["parameters"], frame.iterrows(), strict=True):
        assert row.pop("dof") == "inf"
        assert row == {"parameter": expected.name, **expected.drop("dof").to_dict()}
    assert [note["text"] for note in document["notes"]] == list(results.summary(0.1).sentences)


def test_a_number_that_is_not_there_is_null_in_json_and_empty_in_csv(command, table):
    path = table(lines([(i % 4, 1) for i in range(20)], "passage,score"))
    run = command("mean", path, "--groups", "passage", "--format", "json")
    assert (run.only["se"], run.only["t"], run.only["p_value"]) == (0.0, None, None)
    (note,) = (note for note in run.json["notes"] if note["warning"] == "ZeroVarianceWarning")
    assert f"warning: {note['text']}" in run.err.splitlines()
    (row,) = csv.DictReader(io.StringIO(command("mean", path, "--groups", "passage", "--format", "csv").out))
    assert (row["parameter"], row["se"]) == ("mean", "0.0")


@pytest.mark.parametrize("score", ["score", "gain"])
def test_csv_is_the_frame_of_the_results_to_the_last_bit(command, logs, table, score):
    log = pd.read_csv(logs / "passages.csv").eval("gain = score - 0.5")
    path = table(log.to_csv(index=False))
    run = command("mean", path, "--score", score, "--by", "subject", "--groups", "passage", "--format", "csv")
    header, *rows = csv.reader(io.StringIO(run.out))
    expected = er.mean(log, score, by="subject", groups="passage").to_frame()
    if score == "score":  # whose test against 0 tells nothing
        expected = expected.drop(columns=["t", "p_value"])
    assert header == ["parameter", *expected.columns]
    assert [row[0] for row in rows] == expected.index.tolist()
    assert [[float(field) for field in row[1:]] for row in rows] == expected.to_numpy().tolist()


@pytest.mark.parametrize(("name", "method"), [("md", "as_markdown"), ("latex", "as_latex"), ("html", "as_html")])
def test_other_formats_are_those_of_the_summary(command, logs, name, method):
    run = command("fit", "score ~ 1", logs / "passages.csv", "--groups", "passage", "--format", name)
    results = er.fit("score ~ 1", pd.read_csv(logs / "passages.csv"), groups="passage")
    assert run.out.rstrip("\n") == getattr(results.summary(), method)().rstrip("\n")


def test_the_filter_is_escaped_in_html(command, logs):
    where = 'subject == "law" or n_words < 200'
    run = command("fit", "score ~ 1", logs / "passages.csv", "--where", where, "--format", "html")
    seen: list[str] = []
    parser = html.parser.HTMLParser()
    parser.handle_data = seen.append  # type: ignore[method-assign]
    parser.feed(run.out)
    assert where in "".join(seen)


# Streams and files


def test_results_go_to_standard_output_and_warnings_to_standard_error_one_line_each(command, logs):
    done = command("fit", "best_score ~ 1", logs / "judge_log.csv", "--groups", "judge + left")
    assert done.status == 0
    with pytest.warns(EvalregWarning) as caught:
        results = er.fit("best_score ~ 1", pd.read_csv(logs / "judge_log.csv"), groups="judge + left")
    assert len(caught) >= 2, "the example does not warn more than once"
    assert done.err.splitlines() == [f"warning: {warning.message}" for warning in caught]
    assert done.out.splitlines() == results.summary().as_text().splitlines()


def test_standard_input_may_be_compressed(logs):
    content = (logs / "passages.csv").read_bytes()
    arguments = ("fit", "score ~ 1", "-", "--groups", "passage")
    plain, compressed = streamed(*arguments, stdin=content), streamed(*arguments, stdin=gzip.compress(content))
    assert plain == compressed
    assert plain[0] == 0
    assert b"Rows: 517" in plain[1]
    status, out, err = streamed(*arguments)
    assert (status, out) == (3, b"")
    assert err.startswith(b"evalreg: error: ")
    assert b"standard input is empty" in err


def test_a_reader_that_stops_reading_is_no_error(logs, monkeypatch, capsys):
    # A process, for what Python itself writes at its end.
    command = [sys.executable, "-m", "evalreg", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()  # before anything was written
        assert (running.stderr.read(), running.wait()) == (b"", 0)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        assert cli.main(["fit", "score ~ 1", str(logs / "passages.csv")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error_in_one_line(logs, monkeypatch, capsys):
    said = r"evalreg: error: .*No space left on device\.\n"
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "evalreg", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert re.fullmatch(said, done.stderr)
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["fit", "score ~ 1", str(logs / "passages.csv")]) == 3
    assert re.fullmatch(said, capsys.readouterr().err)


def test_a_light_start_and_a_terminal_without_the_letters_shows_question_marks_and_says_so(table):
    path = table(lines([(label, i % 2, i) for i, label in enumerate(["모델", "b"] * 6)], "model,score,item"))
    arguments = ("mean", path, "--by", "model", "--groups", "item")
    # The command line loads nothing heavy before it has to, nor the reader of tables that of Parquet.
    code = (
        "import sys, pandas; before = set(sys.modules)\n"
        "import evalreg.cli.main as cli, evalreg.logs.table; cli.build_parser()\n"
        "heavy = {'statsmodels', 'patsy', 'matplotlib', 'scipy.stats', 'scipy.optimize'} & set(sys.modules)\n"
        "heavy |= {name for name in set(sys.modules) - before if name.startswith('pyarrow')}\n"
        "sys.exit(f'loaded {heavy}' if heavy else cli.main(sys.argv[1:]))"
    )
    done = process("-c", code, *arguments, LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert b"\n?? " in done.stdout
    assert done.stderr.count(b'standard output is in ascii, which lacks some letters of these names; "?" stands') == 1
    assert streamed(*arguments, encoding="ascii") == (0, done.stdout, done.stderr)
    _, whole, said = streamed(*arguments)
    assert "\n모델" in whole.decode("utf-8")
    assert b"standard output" not in said
    status, out, err = streamed("mean", path, "--score", "model", encoding="ascii")
    assert (status, out) == (3, b"")
    assert b"??" in err
    document = json.loads(streamed(*arguments, "--format", "json", encoding="ascii")[1])
    assert [row["parameter"] for row in document["parameters"]] == ["b", "모델"], "JSON lost letters"


def test_results_do_not_mix_with_warnings_where_standard_error_is_closed(logs, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    status = cli.main(["fit", "score ~ 1", str(logs / "passages.csv"), "--groups", "subject", "--format", "csv"])
    assert (status, len(capsys.readouterr().out.splitlines())) == (0, 2)


def test_output_names_a_file_in_utf_8(command, table, tmp_path):
    path = table(lines([(label, i % 2) for i, label in enumerate(["모델", "b"] * 6)], "model,score"))
    arguments = ("mean", path, "--by", "model", "--format", "csv")
    run, printed = command(*arguments, "-o", tmp_path / "out.csv"), command(*arguments, "-o", "-")
    assert (run.status, run.out, run.err) == (0, "", printed.err)
    assert (tmp_path / "out.csv").read_bytes() == printed.out.encode()
    assert "모델" in printed.out


def test_output_never_replaces_the_file_that_is_read(command, table):
    content = lines([(i % 4, i % 2) for i in range(20)], "passage,score")
    path = table(content)
    run = command("fit", "score ~ 1", path, "-o", path.parent / "." / path.name)
    assert (run.status, path.read_text()) == (3, content)


def test_output_to_a_place_that_is_not_there_is_an_error(command, logs, tmp_path):
    run = command("fit", "score ~ 1", logs / "passages.csv", "-o", tmp_path / "no" / "out.txt")
    assert (run.status, run.out) == (3, "")
    assert "`--output`" in run.err


@pytest.mark.parametrize(
    ("option", "said"), [("--output", "write to"), ("--figure", "draw to"), ("--summary", "write to")]
)
def test_where_nothing_can_be_written_is_said_before_the_log_is_read(option, said, logs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("evalreg.cli.compare.read_rows", lambda *_: pytest.fail("the log was read"))
    log = str(logs / "models.csv")
    for place in (tmp_path / "no" / "file.svg", tmp_path):
        assert cli.main(["compare", log, "--item", "question", option, str(place)]) == 3
        assert f"`{option}` must be a file to {said}" in capsys.readouterr().err
    assert cli.main(["compare", log, "--item", "question", option, log]) == 3
    assert "must not be the file that is read" in capsys.readouterr().err


# Errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["fits"],
        ["--vers"],
        ["fit"],
        ["fit", "score ~ 1"],
        ["fit", "score ~ 1", "passages.csv", "more"],
        ["fit", "score ~ 1", "no.csv"],
        ["fit", "score ~ 1", "."],
        ["fit", "score ~ 1 +", "passages.csv"],
        ["fit", "score ~ length", "passages.csv"],
        ["fit", "score ~ 1", "passages.csv", "--groups", "passages"],
        ["fit", "score ~ 1", "passages.csv", "--groups", ""],
        ["fit", "score ~ 1", "passages.csv", "--where", "subject = 'law'"],
        ["fit", "score ~ 1", "passages.csv", "--where", "topic == 'law'"],
        ["fit", "score ~ 1", "passages.csv", "--text", "topic"],
        ["fit", "score ~ 1", "passages.csv", "--text", "subject,"],
        ["fit", "score ~ 1", "passages.csv", "--text", "score"],
        ["fit", "score ~ 1", "passages.csv", "--score", "points"],
        ["fit", "score ~ 1", "passages.csv", "--weights", "points"],
        ["fit", "score ~ 1", "passages.csv", "--cov", "cr2"],
        ["fit", "score ~ 1", "passages.csv", "--cov", "CR2"],
        ["fit", "score ~ 1", "passages.csv", "--ssc", "G"],
        ["fit", "score ~ 1", "passages.csv", "--dof", "-3"],
        ["fit", "score ~ 1", "passages.csv", "--dof", "nan"],
        ["fit", "score ~ 1", "passages.csv", "--repair", "maximum"],
        ["fit", "score ~ 1", "passages.csv", "--missing", "ignore"],
        ["fit", "score ~ 1", "passages.csv", "--family", "normal"],
        ["fit", "score ~ 1", "passages.csv", "--alpha", "95"],
        ["fit", "score ~ 1", "passages.csv", "--alpha", "five"],
        ["fit", "score ~ 1", "passages.csv", "--format", "pdf"],
        ["fit", "score ~ 1", "passages.csv", "--form", "json"],
        ["fit", "best_score ~ 1", "judge_log.csv", "--missing", "raise"],
        ["mean", "passages.csv", "--by", "topic"],
        ["mean", "passages.csv", "--by", ""],
        ["mean", "passages.csv", "--by", '"subject'],
        ["mean", "passages.csv", "--sample", "question"],
        ["mean", "passages.csv", "--item", "passage"],
        ["mean", "passages.csv", "--strata", "subject", "--strata-weights", "even"],
        ["mean", "passages.csv", "--strata", "subject", "--strata-weights", "law=1,history=x"],
        ["mean", "passages.csv", "--strata", "subject", "--strata-weights", "law=1"],
        ["demo", "--seed", "-1"],
        ["demo", "--seed", "one"],
        ["demo", "--write", "passages.csv"],
    ],
    ids=" ".join,
)
def test_bad_input_and_usage_leave_with_status_3_and_a_message(command, logs, monkeypatch, arguments):
    monkeypatch.chdir(logs)
    run = command(*arguments)
    assert (run.status, run.out) == (3, "")
    assert run.err.startswith("evalreg: error: ")
    assert "Traceback" not in run.err
    assert ".py" not in run.err


def test_wrong_usage_names_the_help_and_the_version_is_that_installed(logs):
    # That the process leaves with the status of `main` is seen where the disk is full.
    status, out, err = streamed("fit", "score ~ 1", logs / "passages.csv", "--format", "pdf")
    assert (status, out) == (3, b"")
    assert err.startswith(b"evalreg: error: argument --format: invalid choice")
    assert err.endswith(b"See: evalreg fit --help\n")
    assert streamed("--version") == (0, f"evalreg {version('evalreg')}\n".encode(), b"")


def test_an_error_inside_evalreg_is_status_4_with_a_traceback_and_a_request(command, logs, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(fit_command, "fit", broken)
    run = command("fit", "score ~ 1", logs / "passages.csv")
    assert (run.status, run.out) == (4, "")
    *trace, request = run.err.splitlines()
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "ZeroDivisionError: a bug"
    assert "please report it" in request


def test_an_interrupt_leaves_without_a_traceback(command, logs, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_command, "fit", interrupted)
    assert command("fit", "score ~ 1", logs / "passages.csv") == Run(130, "", "evalreg: interrupted\n")


def test_warning_filters_are_left_as_they_were(command, logs):
    import warnings

    before = warnings.filters[:], warnings.showwarning
    command("fit", "score ~ 1", logs / "passages.csv", "--groups", "subject")
    assert (warnings.filters[:], warnings.showwarning) == before


# Help and the demonstration


@pytest.fixture
def few_trials(monkeypatch):
    """The demonstration on fewer further logs, where it does not matter how many."""
    monkeypatch.setattr(demo, "trials", functools.partial(demo.trials, n=5))


@pytest.fixture(scope="module")
def shown():
    """What the demonstration shows, made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "trials", functools.partial(demo.trials, n=5))
        return demo.text(0)


def examples(text: str) -> list[list[str]]:
    """Commands that begin a line of a text, as lists of arguments."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [shlex.split(line)[1:] for line in joined.splitlines() if line.strip().startswith("evalreg ")]


@pytest.mark.parametrize(
    "name", ["", "fit", "mean", "compare", "leaderboard", "plan", "report", "demo", "table", "components", "randomise"]
)
def test_help_fits_the_terminal_and_is_ascii(command, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    run = command(*name.split(), "--help")
    assert (run.status, run.err) == (0, "")
    assert run.out.isascii()
    assert max(map(len, run.out.splitlines())) <= WIDTH


@pytest.fixture(scope="module")
def ran() -> dict[tuple[str, ...], Run]:
    """What commands beside the logs of the demonstration left behind: several texts name the same."""
    return {}


@pytest.fixture
def beside(command, logs, ran, monkeypatch, few_trials) -> Callable[[Sequence[str]], Run]:
    """Runs a command once in the folder that holds the logs of the demonstration."""
    monkeypatch.chdir(logs.parent)
    monkeypatch.setattr(reporting, "_can_draw", lambda missing: False)  # figures of reports have tests of their own
    return lambda words: ran.get(tuple(words)) or ran.setdefault(tuple(words), command(*words))


@pytest.mark.parametrize(
    "name", ["", "fit", "mean", "compare", "leaderboard", "plan", "table", "components", "randomise"]
)
def test_the_examples_of_the_help_run(command, beside, name):
    found = examples(command(*name.split(), "--help").out)
    assert len(found) >= 2
    for arguments in found:
        # A tenth of the draws is as much of an example.
        assert beside([word.replace("99999", "9999") for word in arguments]).status == 0, arguments


def test_the_demonstration_writes_logs_that_give_its_own_numbers(command, shown, beside):
    written = command("demo", "--write", "logs")
    assert written.status == 0, "what is there already is the same"
    assert len(examples(written.out)) == 7
    tables = 0
    for arguments in examples(written.out):
        run = beside(arguments)
        assert run.status == 0
        # The line that tells of the filter is all that the demonstration does not show.
        text = re.sub(r"\nWhere: .*", "", run.out)
        tables += bool(text) and text in shown
    assert tables == 2


def test_the_demonstration_replaces_no_file(command, tmp_path):
    (tmp_path / "judge_log.csv").write_text("mine")
    assert command("demo", "--write", tmp_path).status == 3
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_the_demonstration_is_the_same_for_a_seed_and_fits_the_terminal(command, shown, beside):
    run = beside(["demo"])
    assert (run.status, run.err) == (0, "")
    assert run.out == shown + "\n"
    assert shown.isascii()
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert command("demo", "--seed", 1).out != run.out


def test_what_the_demonstration_calls_true_is_the_truth_of_the_simulation(shown):
    reading, judged = demo.passage_log(0).attrs["truth"], demo.comparison_log(0).attrs["truth"]
    difference = demo.models_log(0).attrs["truth"]["difference"]
    assert re.search(rf"^mean score +[0-9.]+ +{reading['mean']:.4f}$", shown, re.MULTILINE)
    assert re.search(
        rf"^standard error, clustered by passage +[0-9.]+ +{reading['standard_error']:.4f}$", shown, re.MULTILINE
    )
    assert re.search(rf"^question by question( +[0-9.]+){{3}} +{difference:.4f} ", shown, re.MULTILINE)
    for name, rate in judged["win_rate"].items():
        assert re.search(rf"^{name} +[0-9.]+ +[0-9-]+ +[0-9.]+ to [0-9.]+ +{rate:.4f} ", shown, re.MULTILINE)


def test_the_board_of_the_demonstration_is_that_of_the_library_drawn_to_scale(shown):
    log = demo.comparison_log(0)
    board = quietly(er.win_rate, log, left="left", right="right", winner="winner", groups="prompt + judge")
    table = board.leaderboard()
    lines = {
        line.split()[0]: line for line in shown.splitlines() if re.match(r"model-.*o.*[0-9]$", line) and "=" in line
    }
    (half,) = {line.index("|") for line in lines.values() if "|" in line}
    scale = {name: lines[name].index("o", 9) - half for name in table.index}
    reach = np.array([scale[name] for name in table.index]) / (table["estimate"] - 0.5)
    # One character is a width of the range over 55 steps, and a place is rounded to half of one.
    width = (table["joint_upper"].max() - table["joint_lower"].min()) / 55
    assert np.all(np.abs(np.array(list(scale.values())) * width - (table["estimate"] - 0.5)) <= width)
    assert reach.median() > 0
    for name, row in table.iterrows():
        ends = f"{row['joint_lower']:.4f} to {row['joint_upper']:.4f}"
        assert re.search(rf"^{name} +{row['estimate']:.4f} +[0-9-]+ +{ends} ", shown, re.MULTILINE)


def test_what_the_demonstration_says_to_type_next_runs(shown, beside, logs):
    found = examples(shown[shown.index("What to type next") :])
    assert [arguments[0] for arguments in found] == ["doctor", "demo", "report"]
    for arguments in found[1:]:
        assert beside(arguments).status == 0
    assert (logs.parent / "report.html").exists()


def test_the_best_score_is_that_of_the_best_model_from_its_side():
    log = demo.comparison_log(3)
    best = max(log.attrs["truth"]["theta"], key=log.attrs["truth"]["theta"].get)
    for row in itertools.islice(log.itertuples(), 400):
        sides = {"left": row.left, "right": row.right}
        if best not in sides.values():
            assert np.isnan(row.best_score)
        elif row.winner == "tie":
            assert row.best_score == 0.5
        else:
            assert row.best_score == float(sides[row.winner] == best)


def test_trials_count_the_intervals_that_hold_the_truth():
    n = 12
    tried = demo.trials(demo.READING, 4, n)
    logs = [demo.passage_log(np.random.default_rng([4, i])) for i in range(1, n + 1)]
    naive = clustered = 0
    for log in logs:
        truth = log.attrs["truth"]["mean"]
        low, high = smf.ols("score ~ 1", log).fit().conf_int().iloc[0]
        naive += low <= truth <= high
        low, high = quietly(er.fit, "score ~ 1", log, groups="passage").conf_int().iloc[0]
        clustered += low <= truth <= high
    assert (tried.naive, tried.clustered) == (naive, clustered)
    assert tried.spread == pytest.approx(pd.Series([log["score"].mean() for log in logs]).std(), rel=ROUNDING)
    assert 0 < naive < n, "the example tells nothing"


# Real data


def data(shared: Path, name: str) -> Path:
    return shared / "data" / f"{name}.csv.gz"


def test_mmlu_pro_by_source_gives_the_numbers_of_statsmodels(command, shared):
    path = data(shared, "mmlu_pro_scores")
    arguments = ("fit", "score ~ 1", path, "--score", "correct", "--groups", "source", "--cov", "CR1")
    run = command(*arguments, "--where", 'model == "gemini-1.5-pro-002"', "--format", "json")
    frame = pd.read_csv(path)
    frame = frame[frame["model"] == "gemini-1.5-pro-002"]
    expected = smf.ols("correct ~ 1", frame).fit(
        cov_type="cluster", cov_kwds={"groups": pd.factorize(frame["source"])[0]}, use_t=True
    )
    low, high = expected.conf_int().loc["Intercept"]
    assert (run.json["nobs"], run.json["rows_read"]) == (len(frame), 347215)
    assert run.only["estimate"] == pytest.approx(expected.params["Intercept"], rel=ROUNDING)
    assert run.only["se"] == pytest.approx(expected.bse["Intercept"], rel=ROUNDING)
    assert (run.only["lower"], run.only["upper"]) == pytest.approx((low, high), rel=ROUNDING)
    assert run.only["p_value"] == pytest.approx(expected.pvalues["Intercept"], rel=ROUNDING_OF_P)
    assert run.only["naive_se"] == pytest.approx(smf.ols("correct ~ 1", frame).fit().bse["Intercept"], rel=ROUNDING)
    assert run.json["score"] == "correct"


def test_bbh_by_task_gives_the_numbers_of_statsmodels(command, shared):
    path = data(shared, "bbh_codex_cot_vs_direct")
    run = command("fit", "correct ~ C(method)", path, "--groups", "task", "--cov", "CR1", "--format", "json")
    frame = pd.read_csv(path)
    expected = smf.ols("correct ~ C(method)", frame).fit(
        cov_type="cluster", cov_kwds={"groups": pd.factorize(frame["task"])[0]}, use_t=True
    )
    assert names_of(run) == list(expected.params.index)
    assert [row["se"] for row in run.json["parameters"]] == pytest.approx(expected.bse.tolist(), rel=ROUNDING)
    assert run.json["n_clusters"] == {"task": 27}


@pytest.mark.parametrize("names", [["question_id", "judge"], ["question_id", "judge", "model"]])
def test_mt_bench_crossed_is_inclusion_and_exclusion_over_the_sets_of_clusterings(command, shared, names):
    path = data(shared, "mtbench_enko_single")
    arguments = ("--groups", " + ".join(names), "--cov", "CR1", "--ssc", "G", "--repair", "none")
    run = command("fit", "score ~ 1", path, *arguments, "--format", "json")
    frame = pd.read_csv(path)
    assert run.json["dropped"]["score"] == frame["score"].isna().sum() == 166
    frame = frame.dropna(subset=["score"])
    residual = frame["score"] - frame["score"].mean()
    variance = 0.0
    for size in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, size):
            totals = residual.groupby([frame[name] for name in chosen]).sum()
            variance -= (-1) ** size * len(totals) / (len(totals) - 1) * (totals**2).sum() / len(frame) ** 2
            assert run.json["n_clusters"][":".join(chosen)] == len(totals)
    assert run.only["estimate"] == pytest.approx(frame["score"].mean(), rel=ROUNDING)
    assert run.only["se"] == pytest.approx(np.sqrt(variance), rel=ROUNDING)


def test_what_a_formula_leaves_out_is_tested_beside_statsmodels_own_test(tmp_path, capsys):
    log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    log.to_csv(tmp_path / "log.csv", index=False)
    asked = ["fit", "score ~ n_words + C(subject)", str(tmp_path / "log.csv"), "--groups", "passage"]
    small = ["--against", "score ~ n_words"]
    assert cli.main([*asked, *small, "--format", "csv"]) == 0
    found = pd.read_csv(io.StringIO(capsys.readouterr().out), index_col="test")
    full, restricted = (smf.ols(formula, log).fit() for formula in (asked[1], small[1]))
    F, p, _ = full.compare_f_test(restricted)
    assert found.loc["independent rows", ["F", "p_value"]].tolist() == pytest.approx([F, p])
    own = er.ftest(*(er.fit(formula, log, groups="passage") for formula in (asked[1], small[1])))
    assert found.loc["as reported", ["F", "p_value"]].tolist() == pytest.approx([own.statistic, own.pvalue])
    for name in ("text", "md", "latex", "html", "json"):
        assert cli.main([*asked, *small, "--format", name]) == 0
        assert "as reported" in (out := capsys.readouterr().out) or json.loads(out)["against"]["df_num"] == 3
    assert cli.main([*asked, "--against", "score ~ C(passage)"]) == 3
    assert "must be nested" in capsys.readouterr().err


def test_means_have_ranks_and_the_corrected_best_where_they_are_asked_for(tmp_path, capsys):
    log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    log.to_csv(tmp_path / "log.csv", index=False)
    asked = ["mean", str(tmp_path / "log.csv"), "--by", "subject", "--groups", "passage"]
    board = er.mean(log, by="subject", groups="passage")
    assert cli.main([*asked, "--ranks", "--format", "csv"]) == 0
    found = pd.read_csv(io.StringIO(capsys.readouterr().out), index_col="model")
    pd.testing.assert_frame_equal(found, board.leaderboard(), check_names=False, check_dtype=False)
    assert cli.main([*asked, "--best", "--format", "json"]) == 0
    winner = board.winner()
    assert json.loads(capsys.readouterr().out)["winner"]["corrected"] == pytest.approx(winner.corrected)
    assert cli.main([*asked, "--ranks", "--best"]) == 0
    text = capsys.readouterr().out
    assert "ranks open" in text
    assert "corrected for the choice" in text
    assert cli.main(["mean", str(tmp_path / "log.csv"), "--groups", "passage", "--ranks"]) == 3
    assert "two or more models" in capsys.readouterr().err


def test_means_and_differences_are_drawn(tmp_path, capsys):
    er.datasets.paired(n_passages=10, seed=1).to_csv(tmp_path / "log.csv", index=False)
    for asked in (["mean", "--by", "model"], ["compare", "--item", "question"]):
        picture = tmp_path / f"{asked[0]}.svg"
        assert cli.main([*asked, str(tmp_path / "log.csv"), "--figure", str(picture)]) == 0
        drawn = picture.read_text(encoding="utf-8")
        assert "<svg" in drawn
        # Of differences the figure of `Comparison.plot`, which has short names and a line at zero.
        assert ("difference in score from old" in drawn) == (asked[0] == "compare")
        assert cli.main([*asked, str(tmp_path / "log.csv"), "--figure", str(tmp_path / "no" / "way.svg")]) == 3
        assert "must be a file to draw to" in capsys.readouterr().err


def test_without_a_command_the_help_is_printed(capsys):
    assert cli.main([]) == 3  # so that a script whose words got lost does not pass
    output = capsys.readouterr()
    assert output.out == ""
    assert "usage: evalreg" in output.err
    assert all(name in output.err for name in cli.COMMANDS)
