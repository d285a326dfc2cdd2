"""Several evals on the command line: the numbers of `join_evals`, in every format, and the forest plot."""

from __future__ import annotations

import csv
import io
import json
import re

import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.FewClustersWarning")

NAMES = ("reading", "maths", "code")


@pytest.fixture(scope="module")
def logs() -> dict[str, pd.DataFrame]:
    return {name: er.datasets.paired(n_passages=20 + 10 * i, seed=i) for i, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def files(logs, tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("evals")
    for name, log in logs.items():
        log.to_csv(folder / f"{name}.csv", index=False)
    return [str(folder / f"{name}.csv") for name in NAMES]


@pytest.fixture(scope="module")
def long(logs, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("long") / "long.csv"
    pd.concat([log.assign(benchmark=name) for name, log in logs.items()]).to_csv(path, index=False)
    return str(path)


@pytest.fixture(scope="module")
def evals(logs) -> er.Evals:
    return er.join_evals(
        {name: er.mean(log, by="model", item="question", groups="passage") for name, log in logs.items()}
    )


ASKED = ("--item", "question", "--groups", "passage")


def table(out: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(out))


@pytest.mark.parametrize("column", [True, False])
def test_scores_are_those_of_join_evals_from_a_column_and_from_files(column, evals, files, long, call):
    source = [long, "--eval", "benchmark"] if column else [*files, "--names", ",".join(NAMES)]
    status, out, _ = call("evals", *source, *ASKED, "--format", "csv")
    assert status == 0
    pd.testing.assert_frame_equal(table(out).set_index(["eval", "model"]), evals.table, check_dtype=False, rtol=1e-12)


def test_differences_and_their_adjustment_are_those_of_join_evals(logs, files, call):
    asked = ("--names", ",".join(NAMES), "--baseline", "old", "--adjust", "bh", "--format", "csv")
    found = table(call("evals", *files, *ASKED, *asked)[1])
    parts = {name: er.compare(log, item="question", groups="passage", baseline="old") for name, log in logs.items()}
    wanted = er.join_evals(parts, adjust="fdr_bh").table.reset_index()
    for column in ("difference", "lower", "upper", "p_adjusted"):
        assert list(found[column]) == pytest.approx(list(wanted[column]), rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ((), {}),
        (("--tasks", "drawn"), {"tasks": "drawn"}),
        (("--tasks", "drawn", "--eval-weights", "precision"), {"tasks": "drawn", "weights": "precision"}),
        (
            ("--eval-weights", "reading=0.5,maths=0.25,code=0.25"),
            {"weights": {"reading": 0.5, "maths": 0.25, "code": 0.25}},
        ),
    ],
)
def test_averages_are_those_of_average(asked, options, evals, files, call):
    source = (*files, "--names", ",".join(NAMES), *ASKED, "--average")
    wanted = evals.average(**options)
    document = json.loads(call("evals", *source, *asked, "--format", "json")[1])
    assert [row["estimate"] for row in document["average"]["table"]] == list(wanted.table["estimate"])
    assert [row["upper"] for row in document["average"]["table"]] == list(wanted.table["upper"])
    assert document["average"]["tasks"] == wanted.tasks
    assert document["average"]["pairwise"][0]["difference"] == wanted.pairwise()["difference"].iloc[0]
    if not asked:
        rows = list(csv.DictReader(io.StringIO(call("evals", *source, "--format", "csv")[1])))
        assert [row["name"] for row in rows] == list(wanted.table.index)


def test_what_all_evals_share_is_said_once_and_the_covariance_as_it_was_resolved(logs, tmp_path, call):
    long, frames = tmp_path / "long.csv", [log.assign(benchmark=name) for name, log in logs.items()]
    frames[0] = frames[0][frames[0]["question"].isin(frames[0]["question"].unique()[:70])]
    pd.concat(frames).to_csv(long, index=False)
    asked = ("evals", long, "--eval", "benchmark", *ASKED, "--baseline", "old")
    out = call(*asked)[1]
    assert [out.count(word) for word in ("Score:", "Covariance:", "Rows dropped:", "Questions:")] == [1, 1, 1, 1]
    assert re.search(r"Questions: reading 70; maths \d+; code \d+", " ".join(out.split()))
    document = json.loads(call(*asked, "--format", "json")[1])
    expected = {"cov": "CR2", "dof": "satterthwaite", "repair": None, "ssc": None}
    assert {name: document["options"][name] for name in expected} == expected
    assert document["resolved"] == {name: expected | {"groups": "passage"} for name in NAMES}
    status, _, err = call(*asked[:3], "benchmrk", *asked[4:])
    assert (status, 'Did you mean "benchmark"?' in err) == (3, True)


@pytest.mark.parametrize("form", ["text", "md", "latex", "html"])
def test_every_format_has_scores_and_averages_and_names_options_as_they_are_typed(form, files, call):
    out = call("evals", *files, *ASKED, "--average", "--format", form)[1]
    assert "0.8533" in out
    assert "0.7994" in out
    assert "average()" not in out
    assert "tasks=" not in out
    if form == "text":
        assert max(map(len, out.splitlines())) <= 80
    if form in ("text", "html"):
        plain = call("evals", *files, *ASKED, "--format", form)[1]
        assert "average does that" in " ".join(plain.split())


def test_a_table_without_models_is_one_model(call, tmp_path):
    log = er.datasets.passages(n_passages=30, seed=1)
    log.to_csv(tmp_path / "log.csv", index=False)
    _, out, _ = call("evals", tmp_path / "log.csv", "--eval", "subject", "--groups", "passage", "--format", "csv")
    wanted = er.mean(log, by="subject", groups="passage")
    assert list(table(out).set_index("eval")["estimate"].sort_index()) == pytest.approx(
        list(wanted.params.sort_index())
    )


def test_the_forest_plot_has_a_row_for_each_eval(files, tmp_path, call):
    pytest.importorskip("matplotlib")
    path = tmp_path / "forest.svg"
    asked = (*files, "--names", "Reading & sense,maths,code", *ASKED, "--baseline", "old", "--figure", path)
    status, _, _ = call("evals", *asked)
    assert (status, path.exists()) == (0, True)
    before = path.read_text(encoding="utf-8")
    call("evals", *asked, "--average")
    assert len(path.read_text(encoding="utf-8")) > len(before)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--adjust", "holm"), "name a --baseline"),
        (("--baseline", "old", "--form", "scores"), "Leave out one of --form and --baseline"),
        (("--tasks", "drawn"), "add --average"),
        (("--eval-weights", "a=1"), "add --average"),
        (("--average", "--eval-weights", "a=x"), 'got "a=x"'),
        (("--show", "new"), "add --figure"),
        (("--names", "a"), "must be 3 names"),
        (("--names", "a,a,b"), "that differ"),
        (("--figure", "x.png"), '--show "new"'),
    ],
)
def test_options_that_do_not_fit_are_refused(asked, said, files, call):
    status, out, err = call("evals", *files, *ASKED, *asked)
    assert (status, out) == (3, "")
    assert said in err


def test_one_file_without_a_column_of_evals_says_what_to_name(files, long, call):
    assert "`--eval` must name the column" in call("evals", files[0])[2]
    assert "have its values" in call("evals", long, "--eval", "benchmark", "--names", "a,b,c")[2]


def test_an_error_says_in_which_eval_it_is(files, tmp_path, call):
    bad = tmp_path / "bad.csv"
    bad.write_text("model,question,score\nold,1,x\nnew,1,1\n", encoding="utf-8")
    status, _, err = call("evals", files[0], bad, "--item", "question")
    assert status == 3
    assert "In the eval" in err
    assert "bad.csv" in err


def test_a_filter_keeps_rows_of_each_eval(long, logs, call):
    out = call("evals", long, "--eval", "benchmark", *ASKED, "--where", 'model == "new"', "--format", "json")[1]
    assert {row["model"] for row in json.loads(out)["table"]} == {"new"}
    text = call("evals", long, "--eval", "benchmark", *ASKED, "--where", 'model == "new"')[1]
    assert f"({sum(len(log) for log in logs.values()) // 2} rows kept)" in text


def test_ranks_of_averages_read_as_on_a_leaderboard_and_nothing_is_said_twice(tmp_path, call):
    clear = er.datasets.paired(n_passages=60, seed=1)
    clear.loc[clear["model"] == "old", "score"] *= 0.2
    even = clear.assign(benchmark=["maths" if i % 2 else "reading" for i in pd.factorize(clear["passage"])[0]])
    even.to_csv(tmp_path / "long.csv", index=False)
    out = call("evals", str(tmp_path / "long.csv"), "--eval", "benchmark", *ASKED, "--average")[1]
    below = out[out.index("average over evals") :].splitlines()
    assert {line.split()[0]: line.split()[-1] for line in below[2:4]} == {"new": "1", "old": "2"}
    assert not any(" to " in line for line in below[2:4])
    assert " ".join(out.split()).count("Standard errors in parentheses.") == 1
