"""Logs that are damaged, strange, too large or made to harm: the same words from `read_log`, `mean` and `doctor`."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from test_inspect_log import header, summary, write_eval, write_json
from test_lm_eval_log import line, write
from test_promptfoo_log import document, lines, results

import evalreg as er
from evalreg.cli.main import main
from evalreg.errors import EvalregError
from evalreg.logs import inspect_log
from evalreg.logs import records as records_module

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

TABLE = "model,item,score\nmodèle,1,1\nmodèle,2,0\nmodèle,3,1\n"
SAMPLES = "samples_quiz_2025-06-01T10-20-30.123456.jsonl"
ANSWERS = [summary(i, epoch, {"match": "CI"[i % 2]}) for i in range(6) for epoch in (1, 2)]
OTHERS = [sample | {"input": "another"} for sample in ANSWERS]
QUIZ = [line(i, "quiz", exact_match=float(i % 2)) for i in range(8)]
GIB = 1 << 30


def text(name: str, content: str | bytes, encoding: str = "utf-8") -> Callable[[Path], Path]:
    def write_text(folder: Path) -> Path:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return folder / name

    return write_text


def inspect_json(folder: Path) -> Path:
    return write_json(folder / "a.json", header(), ANSWERS)


def recoded(make: Callable[[Path], Path], encoding: str) -> Callable[[Path], Path]:
    """The same file in another encoding, with a letter that tells."""

    def again(folder: Path) -> Path:
        path = make(folder)
        whole = path.read_text("utf-8").replace("question 1", "questión 1").replace("quiz 1?", "¿quiz 1?")
        path.write_bytes(json.dumps(json.loads(whole), ensure_ascii=False).encode(encoding))
        return path

    return again


def cut(make: Callable[[Path], Path], at: int) -> Callable[[Path], Path]:
    """The file without its end."""

    def shorter(folder: Path) -> Path:
        path = make(folder)
        path.write_bytes(path.read_bytes()[:at])
        return path

    return shorter


def lm_eval(folder: Path) -> Path:
    return write(folder / "run", {"quiz": QUIZ}) / SAMPLES


def latin_lines(folder: Path) -> Path:
    path = lm_eval(folder)
    rows = [json.dumps(row | {"target": "é"}, ensure_ascii=False) for row in QUIZ]
    path.write_bytes("\n".join(rows).encode("latin-1"))
    return path


def two_contents(folder: Path) -> Path:
    write_eval(folder / "a.eval", header(), ANSWERS)
    write_eval(folder / "b.eval", header(model="m/two"), OTHERS)
    return folder


def two_hashes(folder: Path) -> Path:
    write(folder / "a", {"quiz": QUIZ}, model="a")
    write(folder / "b", {"quiz": [row | {"doc_hash": "0" + row["doc_hash"]} for row in QUIZ]}, model="b")
    return folder


def mixed(folder: Path) -> Path:
    inspect_json(folder)
    document(folder / "p.json", results(2))
    document(folder / "q.json", results(2))
    return folder


def link(folder: Path) -> Path:
    (folder / "t.csv").write_text(TABLE)
    (folder / "l.csv").symlink_to(folder / "t.csv")
    return folder / "l.csv"


def links_only(folder: Path) -> Path:
    (folder / "logs").mkdir()
    (folder / "logs" / "l.csv").symlink_to(link(folder))
    return folder / "logs"


def sparse(make: Callable[[Path], Path], cut_off: int = 1) -> Callable[[Path], Path]:
    """The file without its last bytes, and then zeros without an end of line: 10 GiB that take no room on disk."""

    def larger(folder: Path) -> Path:
        path = make(folder)
        with path.open("rb+") as file:
            file.truncate(path.stat().st_size - cut_off)
            file.truncate(10 * GIB)
        return path

    return larger


def promptfoo(folder: Path) -> Path:
    return document(folder / "p.json", results(2))


def promptfoo_lines(folder: Path) -> Path:
    return lines(folder / "p.jsonl", results(2)[:1])


def newer_promptfoo(folder: Path) -> Path:
    whole = {"evalId": "e", "results": {"version": 4, "prompts": [], "outputs": []}}
    (folder / "p.json").write_text(json.dumps(whole))
    return folder / "p.json"


def newer_inspect(folder: Path) -> Path:
    return write_json(folder / "a.json", {**header(), "version": 9}, [{"name": 1}])


# What is written, and words of the error.
CASES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "empty": (text("a.eval", b""), "empty"),
    "blank": (text("a.jsonl", b"\n \n"), "empty"),
    "empty, packed": (text("a.json.gz", gzip.compress(b"")), "empty"),
    "table in Latin-1": (text("a.csv", TABLE, "latin-1"), "byte 0xe8, which is not"),
    "table in UTF-16": (text("a.csv", TABLE, "utf-16"), "UTF-16"),
    "table in UTF-32": (text("a.csv", TABLE, "utf-32"), "UTF-32"),
    "table in UTF-16 without a mark": (text("a.csv", TABLE, "utf-16-le"), "zero byte"),
    "Inspect in Latin-1": (recoded(inspect_json, "latin-1"), "is 0xf3, which is not. Save it as UTF-8"),
    "promptfoo in Latin-1": (recoded(promptfoo, "latin-1"), "is 0xf3, which is not. Save it as UTF-8"),
    "lm-eval in Latin-1": (latin_lines, "byte 0xe9, which is not UTF-8"),
    "Inspect in UTF-16": (recoded(inspect_json, "utf-16"), "UTF-16"),
    "Inspect cut off": (cut(inspect_json, 900), "still being written"),
    "zip cut off": (cut(lambda f: write_eval(f / "a.eval", header(), ANSWERS), 500), "still being written"),
    "promptfoo cut off": (cut(promptfoo, 4000), "still being written"),
    "lm-eval cut off": (cut(lm_eval, 900), "is the run still writing it"),
    "two contents, Inspect": (two_contents, "differ under one id"),
    "two contents, lm-eval": (two_hashes, "8 of 8 differ"),
    "mixed": (mixed, r"inspect (1 file), promptfoo (2 files)"),
    "link": (link, "links are not followed. Name that"),
    "links only": (links_only, "1 link and no file, and links are not followed"),
    "newer promptfoo": (newer_promptfoo, "It has version 4; the newest known is 3"),
    "newer Inspect": (newer_inspect, "version 9, read as 2, the newest known"),
}


@pytest.mark.parametrize(("make", "words"), CASES.values(), ids=CASES)
def test_a_bad_log_is_refused_in_the_same_words_everywhere(tmp_path, capsys, make, words):
    path = make(tmp_path)
    with pytest.raises(EvalregError) as error:
        er.read_log(path)
    assert words in " ".join([str(error.value), *getattr(error.value, "__notes__", ())])
    # What doctor can tell of the rest, it tells.
    for command, status in (("mean", {3}), ("doctor", {0, 3})):
        assert main([command, str(path)]) in status
        assert words in " ".join("".join(capsys.readouterr()).split())


LARGE = {
    "table": sparse(text("a.jsonl", '{"model": "a", "item": 1, "score": 1}')),
    "CSV": sparse(text("a.csv", TABLE)),
    "Inspect": sparse(inspect_json),
    "zip": sparse(lambda folder: write_eval(folder / "a.eval", header(), ANSWERS), 30),
    "lm-eval": sparse(lm_eval, 10),
    "promptfoo": sparse(promptfoo, 9),
    "promptfoo lines": sparse(promptfoo_lines, 9),
}


def bomb(path: Path, members: dict[str, int]) -> Path:
    """A log with members of so many MiB of spaces."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", "{}")
        archive.writestr("header.json", json.dumps(header()))
        for name, size in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                for _ in range(size):
                    member.write(b" " * (1 << 20))
    return path


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"summaries.json": 5}, "may expand to 4 MB"),
        ({f"_journal/summaries/{i}.json": 3 for i in range(6)}, "-fold, to 18 MB"),
        ({f"samples/{i}_epoch_1.json": 3 for i in range(6)}, "-fold, to 18 MB"),
    ],
)
def test_a_zip_file_that_is_made_to_expand_is_refused_before_it_does(tmp_path, monkeypatch, members, words):
    monkeypatch.setattr(inspect_log, "LIMIT", 1 << 22)
    with pytest.raises(EvalregError, match=words):
        er.read_log(bomb(tmp_path / "a.eval", members))


def test_summaries_that_expand_less_are_bounded_together(tmp_path, monkeypatch):
    monkeypatch.setattr(inspect_log, "LIMIT", 1000)
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("header.json", json.dumps(header()))
        for i in range(5):
            archive.writestr(f"_journal/summaries/{i}.json", json.dumps([ANSWERS[0]] * 3))
    with pytest.raises(EvalregError, match="together"):
        er.read_log(tmp_path / "a.eval")


def test_documents_are_bounded_packed_or_not(tmp_path, monkeypatch):
    path = promptfoo(tmp_path)
    packed = tmp_path / "p.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(er.read_log(packed).frame) == 16
    monkeypatch.setattr(records_module, "LARGEST_DOCUMENT", 1000)
    for one in (path, packed):
        with pytest.raises(EvalregError, match="has more"):
            er.read_log(one)


def test_names_of_open_streams_are_no_links(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(TABLE)
    before = os.dup(0)
    try:
        with (tmp_path / "t.csv").open() as file:
            os.dup2(file.fileno(), 0)
        status = main(["mean", "/dev/stdin", "--score", "score", "--format", "json"])
    finally:
        os.dup2(before, 0)
        os.close(before)
    said = capsys.readouterr()
    assert status == 0, said.err
    assert json.loads(said.out)["parameters"][0]["estimate"] == pytest.approx(2 / 3)


# One process for what takes away its rights and bounds its time, so that evalreg is imported once. Its peak never
# falls: the last line bounds every file.
ALONE = """
import importlib.metadata, json, os, resource, sys
fine, asked, most, large = json.loads(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CPU, (most, most))
# The files of the environment may be closed to others too.
importlib.metadata.version = lambda name: "0"
import evalreg as er
from evalreg.cli.main import main
from evalreg.errors import EvalregError
# Everything is imported before the rights are given up.
assert main(["mean", fine, "--score", "score"]) == main(["doctor", fine]) == 0
own = os.geteuid()
for folder, what in asked:
    print("asked for", what, file=sys.stderr)
    os.chdir(folder)
    own or os.seteuid(65534)
    try:
        er.read_log(what)
    except EvalregError as error:
        print(error, file=sys.stderr)
        assert main(["mean", what, "--score", "score"]) == main(["doctor", what]) == 3
    os.seteuid(own)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("large")
for path in large:
    print(path, flush=True)
    try:
        er.read_log(path)
    except EvalregError:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, flush=True)
"""
MOST_KIB = 400 * 1024
MOST_SECONDS = 60


def test_what_may_not_be_read_and_ten_gibibytes_without_an_end_of_line_are_refused(tmp_path):
    """No file is passed over, and the large ones are refused soon and in little memory."""
    large = []
    for name, make in LARGE.items():
        (tmp_path / name).mkdir()
        large.append(str(make(tmp_path / name)))
    fine, asked = tmp_path / "fine.csv", []
    fine.write_text(TABLE)
    for number, what in enumerate(["t.csv", "closed", "."]):
        folder = tmp_path / str(number)
        (folder / "closed").mkdir(parents=True)
        for path in (folder / "t.csv", folder / "closed" / "u.csv"):
            path.write_text(TABLE)
        folder.chmod(0o755)
        for name in ("t.csv", "closed") if what != "." else ("closed",):
            (folder / name).chmod(0)
        asked.append((str(folder), what))
    try:
        # By relative names, since the folders above may be closed to others.
        command = [sys.executable, "-c", ALONE, json.dumps([str(fine), asked, MOST_SECONDS, large])]
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=4 * MOST_SECONDS)
    finally:
        for folder, _ in asked:
            Path(folder, "closed").chmod(0o755)
    assert run.returncode == 0, run.stdout + run.stderr
    told = run.stderr.split("asked for ")[1:]
    assert [part.count("Permission denied") for part in told] == [3, 3, 3], run.stderr
    told = run.stdout.splitlines()
    told = told[told.index("large") + 1 :]
    assert told[::2] == large, "a line of memory follows each file that was refused"
    assert all(int(kib) < MOST_KIB for kib in told[1::2]), run.stdout


@pytest.mark.parametrize(("word", "n"), [("NaN", 11), ("Infinity", None), ("-Infinity", None), ("1e999", None)])
def test_nan_is_no_score_and_infinity_is_refused(tmp_path, word, n):
    path = inspect_json(tmp_path)
    path.write_text(path.read_text().replace('"value": "C"', f'"value": {word}', 1))
    if n:
        log = er.read_log(path)
        assert (len(log.frame), log.left_out.to_dict()) == (n, {"unscored": 1})
        assert any("1 sample of" in note for note in log.notes)
    else:
        with pytest.raises(EvalregError, match=r"(?i)inf"):
            er.read_log(path)
    run = write(tmp_path / "run", {"quiz": QUIZ})
    samples = run / SAMPLES
    samples.write_text(samples.read_text().replace('"exact_match": 1.0', f'"exact_match": {word}', 1))
    if n:
        assert er.read_log(run).left_out.to_dict() == {"unscored": 1}
    else:
        with pytest.raises(EvalregError, match="infinite"):
            er.read_log(run)


@pytest.mark.parametrize("first", [2**63 - 2, 2**64 - 2, 2**64 + 5, 10**30])
def test_ids_of_many_digits_stay_apart(tmp_path, first):
    rows = [row | {"doc_id": first + i} for i, row in enumerate(QUIZ)]
    items = er.read_log(write(tmp_path / "run", {"quiz": rows})).frame["item"].tolist()
    assert items == [str(first + i) for i in range(len(QUIZ))]
    asked = [row | {"vars": {"seed": first + i}} for i, row in enumerate(results(4, (0,), (0,))[::2])]
    assert er.read_log(lines(tmp_path / "p.jsonl", asked)).frame["item"].nunique() == len(asked)
