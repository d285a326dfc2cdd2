"""``evalreg leaderboard``: from a file to ranks."""

from __future__ import annotations

import io
import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture(scope="module")
def log():
    return er.datasets.judge_log(n_models=4, n_prompts=40, n_judges=5, position_effect=0.4, seed=6)


@pytest.fixture(scope="module")
def file(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    log.assign(length=np.arange(len(log)) % 7 - 3.0, topic=np.where(log["prompt"] < "prompt-021", "a", "b")).to_csv(
        path, index=False
    )
    return path


def run(capsys, *arguments):
    status = main(["leaderboard", *map(str, arguments)])
    output = capsys.readouterr()
    return status, output.out, output.err


def test_the_text_begins_with_ranks_and_goes_on_with_the_summary(log, file, capsys):
    status, out, err = run(capsys, file, "--winner", "winner", "--groups", "prompt + judge")
    board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")
    assert status == 0
    assert "warning: 5 judge clusters" in err
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if "ranks open" in line)
    shown = [line.split()[0] for line in lines[first + 2 : first + 6]]
    assert shown == board.params.sort_values(ascending=False).index.tolist()
    assert all(len(line) <= 80 for line in lines)
    for fact in board.summary().as_text().splitlines()[4:7]:
        assert fact in out
    said = " ".join(out.split())
    for words in (
        "Joint intervals hold for all models",
        "Ranks open are the ranks",
        "share a letter under groups",
    ):
        assert said.count(words) == 1
    tiers = " ".join(run(capsys, file, "--winner", "winner", "--groups", "prompt + judge", "--tiers")[1].split())
    assert tiers.count("share a letter under groups") == tiers.count("ranks that the data do not exclude") == 1


def test_csv_holds_the_leaderboard_and_json_all_of_it(log, file, capsys):
    board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt", key=["prompt", "judge"])
    expected = board.leaderboard(0.1, 3)
    arguments = (file, "--winner", "winner", "--groups", "prompt", "--key", "prompt,judge", "--alpha", "0.1")
    _, out, _ = run(capsys, *arguments, "--seed", 3, "--format", "csv", "-o", "-")
    written = pd.read_csv(io.StringIO(out), index_col="model")
    pd.testing.assert_frame_equal(written, expected, check_names=False, check_dtype=False)
    _, out, _ = run(capsys, *arguments, "--seed", 3, "--format", "json")
    document = json.loads(out)
    assert document["seed"] == 3
    assert [row["model"] for row in document["leaderboard"]] == expected.index.tolist()
    assert [row["joint_upper"] for row in document["leaderboard"]] == pytest.approx(expected["joint_upper"].tolist())
    assert document["options"]["key"] == ["prompt", "judge"]
    assert [row["parameter"] for row in document["parameters"]] == board.params.index.tolist()


def test_methods_take_their_own_options(log, file, capsys):
    _, out, _ = run(
        capsys, file, "--winner", "winner", "--groups", "prompt", "--method", "bradley-terry", "--formula", "1",
        "--scale", "elo", "--reference", "model-02", "--format", "json",
    )  # fmt: skip
    board = er.bradley_terry(
        log,
        left="left",
        right="right",
        winner="winner",
        groups="prompt",
        formula="1",
        scale="elo",
        reference="model-02",
    )
    found = {row["parameter"]: row["estimate"] for row in json.loads(out)["parameters"]}
    assert found == pytest.approx(board.params.to_dict())
    assert {row["model"] for row in json.loads(out)["leaderboard"]} == set(board.params.index) - {"position"}
    _, out, _ = run(
        capsys, file, "--winner", "winner", "--groups", "prompt", "--method", "controlled", "--formula", "length",
        "--format", "csv",
    )  # fmt: skip
    assert out.startswith("model,rank,rank_lower")


def test_strata_are_mixed_in_the_shares_given(log, file, capsys):
    _, out, _ = run(
        capsys, file, "--winner", "winner", "--groups", "prompt", "--by", "topic", "--standardise", "a=3,b=1",
        "--format", "json",
    )  # fmt: skip
    frame = pd.read_csv(file, dtype=str)
    board = er.win_rate(
        frame, left="left", right="right", winner="winner", groups="prompt", by="topic", standardise={"a": 3, "b": 1}
    )
    assert [row["estimate"] for row in json.loads(out)["parameters"]] == pytest.approx(board.params.tolist())


def test_verdicts_are_mapped_and_none_is_no_verdict(log, tmp_path, capsys):
    path = tmp_path / "verdicts.csv"
    other = log.assign(winner=log["winner"].map({"left": "A", "right": "B", "tie": "C"}))
    other.loc[other.index[:7], "winner"] = "error"
    other.to_csv(path, index=False)
    status, out, _ = run(
        capsys, path, "--winner", "winner", "--groups", "prompt", "--labels", "A=left,B=right,C=tie,error="
    )
    assert status == 0
    assert "Rows dropped: 7 (7 without score)" in out
    status, _, err = run(capsys, path, "--winner", "winner", "--groups", "prompt")
    assert status == 3
    assert "'A'" in err
    offered = shlex.split(err.split("Perhaps ")[1].split(", if ")[0])
    assert (offered[0], set(offered[1].split(","))) == ("--labels", {"A=left", "B=right", "C=tie", "error="})
    assert run(capsys, path, "--winner", "winner", "--groups", "prompt", *offered)[0] == 0


def test_the_figure_is_drawn(file, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "board.png"
    assert run(capsys, file, "--winner", "winner", "--groups", "prompt", "--figure", path)[0] == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    status, _, err = run(
        capsys, file, "--winner", "winner", "--groups", "prompt", "--figure", tmp_path / "no" / "b.png"
    )
    assert status == 3
    assert "`--figure` must be a file" in err


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["exactly one of --score", "--winner", "neither"]),
        (["--winner", "winner", "--method", "elo"], ['"win-rate", "bradley-terry", "controlled"', "'elo'"]),
        (["--winner", "winner", "--scale", "elo"], ["`--scale` goes with --method bradley-terry", "win-rate"]),
        (["--winner", "winner", "--method", "controlled"], ["needs `--formula`"]),
        (
            ["--winner", "winner", "--method", "bradley-terry", "--by", "topic"],
            ["`--by` goes with --method win-rate", "got --method bradley-terry"],
        ),
        (["--winner", "winner", "--labels", "left"], ["one meaning for each verdict", '"left" has no verdict']),
        (["--winner", "winner", "--labels", "a=left,a=tie"], ['"a=tie" appears twice']),
        (["--winner", "winner", "--by", "topic", "--standardise", "a=x"], ['got "a=x"', "one number for each stratum"]),
        (["--winner", "winner", "--key", "prompt"], ["there must be one row for each", "repeat an earlier one"]),
        (["--winner", "winner", "--groups", "model"], ['"model"', "is not a column"]),
    ],
)
def test_bad_usage_says_what_to_do(file, capsys, arguments, parts):
    status, out, err = run(capsys, file, *arguments)
    assert status == 3
    assert out == ""
    for part in parts:
        assert part in err


def test_a_real_log_end_to_end(shared, capsys):
    status, out, _ = run(
        capsys, shared / "data" / "mtbench_enko_pairs.csv.gz", "--left", "model_first", "--right", "model_second",
        "--winner", "winner", "--labels", "first=left,second=right,tie=tie,error=", "--key", "question_id,judge,order",
        "--groups", "question_id + judge", "--where", 'language == "en"', "--format", "json",
    )  # fmt: skip
    assert status == 0
    document = json.loads(out)
    assert document["dropped"]["score"] == 35
    assert document["nobs"] == 14365
    assert document["n_clusters"] == {"judge": 6, "question_id": 80, "question_id:judge": 480}
    # By hand from the file: the mean over opponents of the mean score against each.
    frame = pd.read_csv(shared / "data" / "mtbench_enko_pairs.csv.gz", dtype=str).query("language == 'en'")
    score = frame["winner"].map({"first": 1.0, "second": 0.0, "tie": 0.5})
    both = pd.concat(
        [
            pd.DataFrame({"model": frame["model_first"], "other": frame["model_second"], "score": score}),
            pd.DataFrame({"model": frame["model_second"], "other": frame["model_first"], "score": 1 - score}),
        ]
    )
    rate = both.groupby(["model", "other"])["score"].mean().groupby("model").mean()
    found = {row["parameter"]: row["estimate"] for row in document["parameters"]}
    assert found == pytest.approx(rate.to_dict(), rel=1e-12)


def words(text):
    return " ".join(re.sub(r"\[\d+\]", "", text).split())


def test_beside_the_corrected_winner_nobody_is_sent_to_python_for_it(file, capsys):
    asked = (file, "--winner", "winner", "--groups", "prompt")
    without, best = (words(run(capsys, *asked, *more)[1]) for more in ((), ("--best",)))
    assert "The best of 4 was also lucky, so its estimate is too high on average: --best corrects for it." in without
    tiers, both = (words(run(capsys, *asked, "--tiers", *more)[1]) for more in ((), ("--best",)))
    assert tiers.count("was also lucky") == 1
    assert "was also lucky" not in both
    assert "winner()" not in tiers + both
    assert "came first of 4" in best
    assert "was also lucky" not in best
    assert "winner()" not in without + best


def thin(n_prompts=12):
    """Two judges on few prompts, of which one likes the left side: hardly a limit on any strength."""
    rng = np.random.default_rng(5)
    rows = [
        {"left": left, "right": right, "prompt": f"p{prompt}", "judge": judge, "winner": side}
        for prompt in range(n_prompts)
        for left, right in [("ann", "bob"), ("bob", "cyd"), ("ann", "cyd")]
        for judge, lean in (("first", 0.9), ("second", 0.3))
        for side in [rng.choice(["left", "right"], p=[lean, 1 - lean])]
    ]
    return pd.DataFrame(rows)


def test_limits_of_strengths_that_are_far_out_are_no_limits(tmp_path, capsys):
    path = tmp_path / "thin.csv"
    thin().to_csv(path, index=False)
    asked = (path, "--winner", "winner", "--groups", "prompt + judge", "--method", "bradley-terry")
    for scale, unit in (("logit", 1.0), ("elo", 400 / np.log(10))):
        _, out, _ = run(capsys, *asked, "--scale", scale)
        _, table, _ = run(capsys, *asked, "--scale", scale, "--format", "csv")
        board = pd.read_csv(io.StringIO(table), index_col="model")
        far = (board["joint_upper"] - board["estimate"]) > np.log(1e6) * unit
        assert far.any()
        first = [line for line in out.splitlines() if line[:3] in board.index][: len(board)]
        for line in first:
            assert ("no limit" in line) == far[line[:3]], line
        assert "odds of a million to one" in words(out)
    _, out, _ = run(capsys, *asked[:-2])
    assert "e-1" not in out.split("clusters ")[0]
