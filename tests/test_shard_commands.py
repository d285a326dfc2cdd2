"""`evalreg summarise`, and the commands that take its files: what they print is what the rows give."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import main

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders with files of sums and their rows, each made once by one test and read by others."""
    return {name: tmp_path_factory.mktemp(name) for name in ("scores", "boards")}


def run(capsys, *words: str) -> str:
    status = main([*words])
    found = capsys.readouterr()
    assert status == 0, found.err
    return found.out


def refused(capsys, *words: str) -> str:
    assert main([*words]) == 3
    return " ".join(capsys.readouterr().err.split())


FILES = ["night0.parquet", "night1.parquet"]


@pytest.fixture
def score_files(folders, capsys, monkeypatch) -> list[str]:
    """A log of two models as a table, and files of sums of its halves by question, in the folder at hand."""
    monkeypatch.chdir(folders["scores"])
    if not Path(FILES[1]).exists():
        assert scores_in_shards(capsys) == FILES
    return FILES


@pytest.fixture
def board_files(folders, capsys, monkeypatch) -> list[str]:
    """The same of a log of verdicts."""
    monkeypatch.chdir(folders["boards"])
    if not Path(FILES[1]).exists():
        assert boards_in_shards(capsys) == FILES
    return FILES


def scores_in_shards(capsys) -> list[str]:
    log = er.datasets.paired(n_passages=40, questions_per_passage=4, seed=3)
    log.to_csv("log.csv", index=False)
    files = []
    for night in (0, 1):
        log[log["question"].factorize()[0] % 2 == night].to_csv(f"night{night}.csv", index=False)
        files.append(f"night{night}.parquet")
        roles = ("--by", "model", "--item", "question", "--groups", "passage + question")
        run(capsys, "summarise", f"night{night}.csv", *roles, "-o", files[-1])
    return files


def boards_in_shards(capsys) -> list[str]:
    log = er.datasets.judge_log(n_models=4, n_prompts=40, seed=3, position_effect=0.4)
    log = log.assign(run=np.arange(len(log)), w=1.0 + np.arange(len(log)) % 3)
    log.to_csv("log.csv", index=False)
    files = []
    for night in (0, 1):
        log[log["run"] % 2 == night].to_csv(f"night{night}.csv", index=False)
        files.append(f"night{night}.parquet")
        roles = ("--winner", "winner", "--key", "run", "--groups", "prompt + judge", "--weights", "w")
        run(capsys, "summarise", f"night{night}.csv", *roles, "-o", files[-1])
    return files


def numbers(text: str) -> pd.DataFrame:
    return pd.read_csv(StringIO(text))


def test_means_and_comparisons_of_files_are_those_of_the_rows(capsys, score_files):
    files = score_files
    found = run(capsys, "mean", *files, "--groups", "passage", "--format", "csv", "--n-questions", "160")
    expected = run(capsys, "mean", "log.csv", "--by", "model", "--groups", "passage", "--format", "csv")
    pd.testing.assert_frame_equal(numbers(found), numbers(expected), rtol=1e-10)
    again = found
    found = run(capsys, "compare", *files, "--groups", "passage", "--format", "csv")
    expected = run(capsys, "compare", "log.csv", "--item", "question", "--groups", "passage", "--format", "csv")
    pd.testing.assert_frame_equal(numbers(found), numbers(expected), rtol=1e-10)
    board = numbers(run(capsys, "leaderboard", *files, "--groups", "passage", "--format", "csv"))
    expected = er.mean(pd.read_csv("log.csv"), by="model", groups="passage").leaderboard()
    np.testing.assert_allclose(board.set_index("model")["estimate"], expected["estimate"], rtol=1e-10)
    # A pattern and a folder stand for their files.
    for name in ("night*.parquet", "."):
        assert run(capsys, "mean", name, "--groups", "passage", "--format", "csv") == again
    assert main(["compare", *files, "--groups", "passage", "--gate", "new - old > -0.5"]) == 0


@pytest.mark.parametrize(
    "method",
    [
        ("--method", "win-rate"),
        ("--method", "win-rate", "--cov", "CR1"),
        ("--method", "bradley-terry", "--ties", "davidson", "--formula", "1", "--scale", "elo"),
    ],
    ids=["win rates", "CR1", "ratings"],
)
def test_boards_of_files_are_those_of_the_rows(capsys, board_files, method):
    files = board_files
    rows = ("log.csv", "--winner", "winner", "--key", "run", "--weights", "w", "--groups", "prompt + judge")
    # Without options a file says itself what it was summed of, and by.
    found = numbers(run(capsys, "leaderboard", *files, *method, "--format", "csv"))
    expected = numbers(run(capsys, "leaderboard", *rows, *method, "--format", "csv"))
    # Joint intervals are drawn, to three digits.
    drawn = ["joint_lower", "joint_upper"]
    pd.testing.assert_frame_equal(found.drop(columns=drawn), expected.drop(columns=drawn), rtol=1e-9)
    np.testing.assert_allclose(found[drawn], expected[drawn], rtol=1e-2)
    document = json.loads(run(capsys, "leaderboard", *files, *method, "--format", "json"))
    assert document["sums"]["shards"] == files
    assert document["sums"]["rows"] == document["rows_kept"] == len(pd.read_csv("log.csv"))
    assert document["options"]["groups"] == "judge + prompt"
    text = run(capsys, "leaderboard", *files, *method)
    assert "read from 2 files of sums" in " ".join(text.split())


@pytest.mark.parametrize("form", ["text", "json", "csv", "md", "latex", "html"])
def test_what_was_summed_is_said_in_every_format(capsys, form):
    er.datasets.paired(n_passages=20, questions_per_passage=4, seed=3).to_csv("log.csv", index=False)
    roles = ("--by", "model", "--item", "question", "--groups", "passage", "-o", "sums.parquet")
    said = run(capsys, "summarise", "log.csv", *roles, "--where", 'passage != "passage-001"', "--format", form)
    hashed = er.merged(["sums.parquet"]).questions["hash"].iloc[0]
    if form == "json":
        document = json.loads(said)
        assert document["questions"][0] == {"model": "new", "n": 76, "hash": hashed}
        assert (document["kind"], document["rows_read"], document["rows_kept"]) == ("sums", 160, 152)
    elif form == "csv":
        assert numbers(said)["n_rows"].sum() == 152
    else:
        assert hashed in said
        assert "76" in said


def test_a_log_of_a_harness_says_itself_what_is_summed(capsys):
    """MT-Bench's judgements: sides, verdicts and what tells them apart need no option."""
    models = ("ada", "bob", "cyd")
    rows = [
        {
            "question_id": question,
            "model_1": left,
            "model_2": right,
            "g1_winner": "model_1" if (question + place) % 3 else "model_2",
            "g2_winner": "model_1" if (question + place) % 2 else "model_2",
            "judge": ["gpt-4", "pair-v2"],
            "user_prompt": "-",
            "g1_judgment": "-",
            "g2_judgment": "-",
            "turn": 1,
            "tstamp": 1.0,
        }
        for question in range(12)
        for place, (left, right) in enumerate((one, two) for one in models for two in models if one < two)
    ]
    Path("gpt-4_pair.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run(capsys, "summarise", "gpt-4_pair.jsonl", "--groups", "prompt", "-o", "sums.parquet")
    found = numbers(run(capsys, "leaderboard", "sums.parquet", "--format", "csv"))
    expected = numbers(run(capsys, "leaderboard", "gpt-4_pair.jsonl", "--groups", "prompt", "--format", "csv"))
    pd.testing.assert_frame_equal(found.iloc[:, :3], expected.iloc[:, :3], rtol=1e-9)
    assert list(er.merged(["sums.parquet"]).roles.key) == er.read_log("gpt-4_pair.jsonl").key


def test_wrong_files_and_options_are_refused(capsys, tmp_path, monkeypatch, score_files):
    for name in (*score_files, "night0.csv", "log.csv"):
        shutil.copy(name, tmp_path)
    files = score_files
    monkeypatch.chdir(tmp_path)
    assert "hold the same sums" in refused(capsys, "mean", files[0], files[0])
    lost = refused(capsys, "mean", files[0], "--n-questions", "160")
    assert '"new", "old" have 80, in 1 shard. A shard may be lost' in lost
    assert "--n-shards says 3 shards; FILE names 2" in refused(capsys, "mean", *files, "--n-shards", "3")
    assert "goes with files of sums" in refused(capsys, "mean", "log.csv", "--n-shards", "3")
    assert "`--where` chooses rows or columns" in refused(capsys, "mean", *files, "--where", "score == 1")
    assert "`evalreg fit` needs rows" in refused(capsys, "fit", "score ~ 1", *files)
    assert "it was cut off, or is not a file of sums" in refused(capsys, "mean", files[0], "log.csv")
    whole = Path(files[0]).read_bytes()
    Path("cut.parquet").write_bytes(whole[: len(whole) // 2])
    assert "it was cut off" in refused(capsys, "mean", files[1], "cut.parquet")
    assert "cannot be read" in refused(capsys, "mean", "cut.parquet")
    assert "`--groups` must name the clusters" in refused(capsys, "summarise", "night0.csv", "-o", "x.parquet")
    over = refused(capsys, "summarise", "night0.csv", "--groups", "passage", "-o", "night0.csv")
    assert "must not be the file that is read" in over
    beside = refused(capsys, "summarise", "night0.csv", "--groups", "passage", "--weights", "score", "-o", "x.parquet")
    assert "--weights goes with comparisons" in beside
