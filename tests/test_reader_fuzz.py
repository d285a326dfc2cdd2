"""Every reader, whatever the bytes are: evalreg's own errors, in bounded time."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_evalplus_log import results as solutions
from test_helm_log import run as run_of_helm
from test_inspect_log import header, summary, write_eval, write_json
from test_openai_evals_log import log_lines
from test_opencompass_log import results as details
from test_promptfoo_log import document
from test_promptfoo_log import results as answers_of_promptfoo
from test_scored_logs import case_of_deepeval, deepeval_run, evals_case, evals_report, failure
from test_swe_bench_log import report

import evalreg as er
from evalreg.errors import EvalregError
from evalreg.logs.files import find_files
from evalreg.logs.read import FORMATS, format_of

# Other values that a field may hold, and seconds of a processor that one small file may take.
ODD: list[Any] = [None, True, -1, 1e400, 10**30, "", "x", [], [[]], {}, {"a": None}, float("nan"), "\ud800"]
LONGEST = 5.0
PLACES = 60
LARGEST = 120_000
MOST_ROWS = 6
# Damaged files that are tried of each log; every day one in so many, and all of them beside the simulations.
MOST, MOST_REAL = 500, 150
EVERY = pytest.mark.parametrize("every", [59, pytest.param(1, marks=pytest.mark.slow)])

LM_EVAL = [
    {
        "doc_id": i,
        "doc": {"question": f"q{i}", "passage": f"p{i // 2}"},
        "target": "1",
        "arguments": {},
        "resps": [["1"]],
        "filtered_resps": ["1"],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": f"d{i}",
        "prompt_hash": f"p{i}",
        "target_hash": f"t{i}",
        "exact_match": float(i % 2),
    }
    for i in range(4)
]


GARAK = [
    {"entry_type": "start_run setup", "run.eval_threshold": 0.5, "plugins.target_name": "m"},
    {"entry_type": "init", "garak_version": "0.13", "start_time": "2026-01-01", "run": "r"},
    {"entry_type": "attempt", "uuid": "u", "status": 2, "probe_classname": "p.A", "prompt": {"turns": []}, "goal": "g",
     "outputs": [{"text": "x"}], "detector_results": {"d": [1.0, 0.0, None]}},
    {"entry_type": "eval", "probe": "p.A", "detector": "d", "passed": 1, "fails": 1, "nones": 1},
]  # fmt: skip


def seeds(folder: Path) -> None:
    """Small logs, written by hand."""
    answers = [summary(i, epoch, {"match": "C"}) for i in range(2) for epoch in (1, 2)]
    write_json(folder / "inspect.json", header(), answers)
    write_eval(folder / "inspect.eval", header(), answers)
    (folder / "samples_task_2026-01-01T00-00-00.000000.jsonl").write_text("\n".join(map(json.dumps, LM_EVAL)))
    (folder / "table.csv").write_text("model,item,score\na,1,1\na,2,0\nb,1,1\nb,2,\n")
    report(folder / "model.swe_bench.json")
    solutions(folder / "a_eval_results.json", "present")
    document(folder / "promptfoo.json", answers_of_promptfoo(2))
    cases = [evals_case(0, 0.5, True, 1), evals_case(0, None, False, 2)]
    evals_report(folder / "evals.json", cases, [failure(1, 1)])
    deepeval_run(folder / "test_run.json", [case_of_deepeval(i, {"m": 1.0 - i, "e": None}) for i in range(2)], "m-1")
    (folder / "garak.report.jsonl").write_text("\n".join(map(json.dumps, GARAK)))
    battle = {"model_a": "a", "model_b": "b", "winner": "model_a", "question_id": "q", "judge": "j", "anony": True}
    battles = [battle | {"tstamp": 1.5, "turn": 1}, battle | {"winner": "tie (bothbad)", "question_id": "r"}]
    (folder / "battles.json").write_text(json.dumps(battles))
    (folder / "battles.csv").write_text("model_a,model_b,winner,tstamp\na,b,model_b,1\nb,a,tie,2\n")
    run_of_helm(folder / "helm", perturbed=True, failed={("id1", 0)})
    (folder / "evals.jsonl").write_text("\n".join(map(json.dumps, log_lines())))
    for layout in ("list", "repeats"):
        details(folder, layout, model=layout)
    with contextlib.suppress(ImportError):
        import test_lighteval_log

        for layout in test_lighteval_log.LAYOUTS:
            test_lighteval_log.write(folder, layout, model=layout)
    rows = [{"model": "a", "item": i, "score": 1, "doc": {"passage": i, "x": {"y": 1}}} for i in range(3)]
    (folder / "table.jsonl").write_text("\n".join(map(json.dumps, rows)))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Files by format."""
    folder = tmp_path_factory.mktemp("seeds")
    seeds(folder)
    return by_format(folder)


def by_format(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for source in find_files(folder)[0]:
        name = format_of(source)
        if name is not None and source.path.stat().st_size < LARGEST:
            found.setdefault(name, []).append(source.path)
    return found


def damaged(data: bytes) -> Iterator[bytes]:
    """Cut off, with other bytes, and with bytes that are not UTF-8."""
    for place in range(0, len(data), max(1, len(data) // PLACES)):
        yield data[:place]
        for byte in (data[place] ^ 0x01, data[place] ^ 0x80, ord('"'), ord("{")):
            yield data[:place] + bytes([byte]) + data[place + 1 :]


def changed(value: Any) -> Iterator[Any]:
    """The value with one entry removed or of another type, at any depth."""
    keys = list(value) if isinstance(value, dict) else list(range(min(len(value), MOST_ROWS)))
    for number, key in enumerate(keys):
        without = copy.copy(value)
        del without[key]
        yield without
        for inner in (ODD[number % len(ODD)], ODD[(3 * number + 5) % len(ODD)]):
            other = copy.copy(value)
            other[key] = inner
            yield other
        if isinstance(value[key], dict | list):
            for inner in changed(value[key]):
                other = copy.copy(value)
                other[key] = inner
                yield other


def rewritten(data: bytes) -> Iterator[bytes]:
    """JSON, or JSON lines, with an entry changed."""
    try:
        yield from (json.dumps(value).encode() for value in changed(json.loads(data)))
        return
    except ValueError:
        pass
    with contextlib.suppress(ValueError):
        lines = [json.loads(line) for line in data.split(b"\n") if line.strip()][:MOST_ROWS]
        for value in changed(lines):
            yield "\n".join(map(json.dumps, value)).encode()


def check(path: Path, data: bytes, name: str) -> None:
    """Read one file: a log, which has a doctor, or an error of evalreg, soon."""
    path.write_bytes(data)
    for broken in ("raise", "skip"):
        start = time.process_time()
        with contextlib.suppress(EvalregError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                log = er.read_log(path, format=name, broken=broken)
                assert set(log.roles) & {"score", "winner"}
            except EvalregError:
                raise
            except Exception as error:
                raise AssertionError(
                    f"{name}, {broken}: {type(error).__name__} {error} from {data[:3000]!r}"
                ) from error
        assert time.process_time() - start < LONGEST, f"{name} took too long on {data[:2000]!r}"


@EVERY
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_give_errors_of_evalreg_only(written, tmp_path, name, every):
    for path in written.get(name, []):
        whole = path.read_bytes()
        for data in itertools.islice(itertools.chain(damaged(whole), rewritten(whole)), 0, MOST, every):
            check(tmp_path / path.name, data, name)


@EVERY
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_real_files_give_errors_of_evalreg_only(shared, tmp_path, name, every):
    paths = by_format(shared / "data" / "original").get(name, [])
    for path in sorted(paths, key=lambda path: path.stat().st_size)[:2]:
        whole = path.read_bytes()
        for data in itertools.islice(itertools.chain(rewritten(whole), damaged(whole)), 0, MOST_REAL, every):
            check(tmp_path / path.name, data, name)


def test_every_reader_is_among_those_that_are_fuzzed(written, shared):
    held = {*written, *by_format(shared / "data" / "original")}
    assert set(FORMATS) <= held, "write a small log of the format in `seeds`"


def test_no_reader_takes_the_files_of_another(written, shared):
    for name, paths in [*written.items(), *by_format(shared / "data" / "original").items()]:
        for source in find_files(paths)[0]:
            takes = [other for other in FORMATS if other != "table" and FORMATS[other].recognises(source)]
            # Judgments of MT-Bench in pairs have the names of a battle too; MT-Bench is asked first.
            rest = {"chatbot_arena"} if name == "mt_bench" else set()
            right = takes[:1] == [name] and set(takes[1:]) <= rest
            assert right or (takes, name) == ([], "table"), f"{takes} take {source.path} of {name}"


@pytest.mark.parametrize("data", [b"", b"\0" * 70000, b"[" * 70000, b"{" * 70000, b'{"version": 2, "eval"', b"PK\3\4"])
def test_files_that_are_next_to_nothing_are_refused_by_every_reader(tmp_path, data):
    for name in FORMATS:
        check(tmp_path / "x.json", data, name)
