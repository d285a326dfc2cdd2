"""Every format with two of what may be averaged over: an error that lists both with counts, or columns that tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_evalplus_log import results as solutions
from test_helm_log import N as HELM
from test_helm_log import run as run_of_helm
from test_inspect_log import header, summary, write_eval
from test_judge_logs import annotation, array, battle, board, compared, games, grade, item, lines, pair
from test_lighteval_log import N as LIGHTEVAL
from test_lighteval_log import write as lighteval
from test_lm_eval_log import line
from test_lm_eval_log import write as lm_eval
from test_openai_evals_log import N as EVALS
from test_openai_evals_log import event, log_lines
from test_openai_evals_log import write as openai_evals
from test_opencompass_log import RIGHT
from test_opencompass_log import results as opencompass
from test_promptfoo_log import document
from test_promptfoo_log import results as answers
from test_scored_logs import case_of_deepeval, deepeval_run, evals_case, evals_report
from test_swe_bench_log import report

import evalreg as er
from evalreg.cli.main import main
from evalreg.errors import EvalregError
from evalreg.logs.read import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@dataclass(frozen=True)
class Refused:
    """An error that has every one of `listed`; `choices` are arguments with the number of rows that each reads."""

    write: Callable[[Path], Any]
    listed: tuple[str, ...]
    choices: tuple[tuple[dict[str, str], int], ...] = ()


@dataclass(frozen=True)
class Told:
    """Rows that `column` tells apart; `keys` and it name one row."""

    write: Callable[[Path], Any]
    column: str
    values: int = 2
    keys: tuple[str, ...] = ("model", "item")
    read: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Counted:
    """The same records once more, which are left out and counted."""

    write: Callable[[Path], Any]
    duplicates: int


def offered(write: Callable[[Path], Any], argument: str, rows: dict[str, int]) -> Refused:
    """An error that lists the values of an argument with the rows that each reads."""
    listed = tuple(rf"'{re.escape(value)}' \({n}\)" for value, n in rows.items())
    return Refused(write, listed, tuple(({argument: value}, n) for value, n in rows.items()))


# Writers of what no other test has.


def samples(scores: Callable[[int], dict[str, Any]], epochs: int = 1) -> list[dict[str, Any]]:
    return [summary(f"q{i}", epoch, scores(i)) for i in range(6) for epoch in range(1, epochs + 1)]


def inspect(folder: Path, scores: Callable[[int], dict[str, Any]] = lambda i: {"match": "CI"[i % 2]}, n: int = 1):
    return write_eval(folder / "a.eval", header(), samples(scores, n))


def inspect_twice(folder: Path, **other: Any) -> None:
    inspect(folder)
    write_eval(folder / "b.eval", header(**other), samples(lambda i: {"match": "C"}))


def documents(*filters: str, **scores: float) -> list[dict[str, Any]]:
    return [line(i, "quiz", name, **(scores or {"exact_match": float(i % 2)})) for i in range(8) for name in filters]


def lm_eval_twice(folder: Path, **other: Any) -> None:
    lm_eval(folder / "a", {"quiz": documents("none")})
    lm_eval(folder / "b", {"quiz": documents("none")}, time="2025-06-02T10-20-30.123456", **other)


def lm_eval_appended(folder: Path) -> None:
    changed = [row | {"exact_match": 1.0, "resps": [["other"]]} for row in documents("none")]
    lm_eval(folder, {"quiz": documents("none") + changed})


def twice(write: Callable[[Path, Any], Any], first: Any, second: Any) -> Callable[[Path], None]:
    """Two files of one kind."""

    def both(folder: Path) -> None:
        write(folder / "a.json", first)
        write(folder / "b.json", second)

    return both


def write_items(folder: Path) -> None:
    array(folder / "testset-v1.json", [item(i, 1 + i % 2, 0) for i in range(4)])


def arena(folder: Path) -> None:
    lines(folder / "b.jsonl", [battle(i, "model_a", anony=i < 5) for i in range(9)])


def comparisons(first: str, second: str) -> Callable[[Path], None]:
    """Two files of LLMFAO with the same comparisons."""

    def both(folder: Path) -> None:
        for name, winner in (("a-comparisons", first), ("b-comparisons", second)):
            rows = [f"{i},{i},x,y,1,2,{winner}" for i in range(4)]
            head = "id,prompt,left,right,model_x,model_y,winner"
            (folder / f"{name}.csv").write_text("\n".join([head, *rows]))

    return both


def two_scores_of_evals(folder: Path) -> None:
    other = [event(1000 + i, f"quiz.dev.{i}", "metrics", {"f1_score": 0.5}) for i in range(EVALS)]
    openai_evals(folder / "a.jsonl", [*log_lines(report=False), *other])


def two_events_of_evals(folder: Path) -> None:
    more = [event(1000 + i, f"quiz.dev.{i}", "match", {"correct": True}) for i in range(EVALS)]
    openai_evals(folder / "a.jsonl", [*log_lines(report=False), *more])


def attempts(**detectors: list[float | None]) -> list[dict[str, Any]]:
    setup = {"entry_type": "start_run setup", "run.eval_threshold": 0.5, "plugins.target_name": "m"}
    attempt = {"entry_type": "attempt", "uuid": "u", "status": 2, "probe_classname": "p.A"}
    asked = [attempt | {"prompt": prompt, "detector_results": detectors} for prompt in ("say it", "say that")]
    return [setup, {"entry_type": "init", "garak_version": "0.13"}, *asked]


def table(folder: Path, frame: pd.DataFrame) -> None:
    frame.to_csv(folder / "t.csv", index=False)


def rows(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"model": "a", "item": [f"q{i % 4}" for i in range(8)], "score": [0, 1] * 4} | columns)


TWO_DICT = {"match": {"a": 1, "b": 0}}

PLANTS: dict[str, dict[str, Refused | Told | Counted]] = {
    "inspect": {
        "scorers": offered(lambda f: inspect(f, lambda i: {"match": "C", "f1": 0.5}), "scorer", {"match": 6, "f1": 6}),
        "metrics": offered(
            lambda f: inspect(f, lambda i: {"match": {"value": TWO_DICT["match"]}}), "metric", {"a": 6, "b": 6}
        ),
        "versions": Refused(lambda f: inspect_twice(f, task_version=2, model="m/two"), ("version 1:", "version 2:")),
        "runs": Refused(lambda f: inspect_twice(f, eval_id="e2"), (r"e1.*\(6 scores\)", r"e2.*\(6 scores\)")),
        "settings": Told(lambda f: inspect_twice(f, task_args={"shots": 5}), "model"),
        "repeats": Told(lambda f: inspect(f, n=2), "sample"),
    },
    "lm_eval": {
        "metrics": offered(
            lambda f: lm_eval(f, {"quiz": documents("none", acc=1.0, acc_norm=0.5)}),
            "metric",
            {"acc": 8, "acc_norm": 8},
        ),
        "filters": offered(
            lambda f: lm_eval(f, {"quiz": documents("strict", "flexible")}), "filter", {"strict": 8, "flexible": 8}
        ),
        "versions": Refused(
            lambda f: lm_eval_twice(f, model="org/two", versions={"quiz": 2.0}), ("version 1.0:", "version 2.0:")
        ),
        "runs": Refused(lm_eval_twice, ("2025-06-01", "2025-06-02")),
        "repeats": Refused(lm_eval_appended, ("8 occur again",)),
    },
    "promptfoo": {
        "metrics": offered(
            lambda f: document(f / "a.json", answers(4, (0,), (0,), lambda i, *_: {"score": 0.5 * (i % 2)})),
            "metric",
            {"score": 8, "success": 8},
        ),
        "filters": Told(lambda f: document(f / "a.json", answers(4, (0,))), "prompt", keys=("model", "item", "sample")),
        "repeats": Told(lambda f: document(f / "a.json", answers(4, (0,), (0,))), "sample"),
        "runs": Refused(
            twice(document, answers(4), [row | {"id": "other" + row["id"]} for row in answers(4)]),
            (r"a\.json", r"b\.json"),
        ),
    },
    "alpaca_eval": {
        "scorers": offered(
            lambda f: array(f / "a.json", [annotation(i, 1, annotator=f"j{i % 2}") for i in range(9)]),
            "scorer",
            {"j0": 5, "j1": 4},
        ),
        "runs": Refused(
            twice(array, [annotation(i, 1) for i in range(4)], [annotation(i, 2) for i in range(4)]), ("4 occur again",)
        ),
        "repeats": Counted(twice(array, *[[annotation(i, 1) for i in range(4)]] * 2), 4),
    },
    "arena_hard": {
        "scorers": Told(
            lambda f: lines(f / "a.jsonl", [games(i, "A>B", "B>A", judge=j) for i in range(4) for j in "xy"]),
            "judge",
            keys=("left", "right", "prompt"),
        ),
        "runs": Refused(
            twice(lines, [games(i, "A>B", "B>A") for i in range(4)], [games(i, "B>A", "A>B") for i in range(4)]),
            ("8 occur again",),
        ),
        "repeats": Counted(twice(lines, *[[games(i, "A>B", "B>A") for i in range(4)]] * 2), 8),
    },
    "mt_bench": {
        "metrics": offered(
            lambda f: lines(f / "a.jsonl", [grade(i, 5, turn=turn) for i in range(4) for turn in (1, 2)]),
            "metric",
            {"turn 1": 4, "turn 2": 4, "average": 4},
        ),
        "scorers": offered(
            lambda f: lines(f / "a.jsonl", [grade(i, 5, judge=[j, "v1"]) for i in range(4) for j in "xy"]),
            "scorer",
            {"x": 4, "y": 4},
        ),
        "runs": Refused(
            twice(lines, [pair(i, "model_1", "tie") for i in range(4)], [pair(i, "tie", "tie") for i in range(4)]),
            ("4 occur again",),
        ),
        "grades": Refused(
            twice(lines, [grade(i, 5) for i in range(4)], [grade(i, 6) for i in range(4)]), (r"a\.json", r"b\.json")
        ),
        "repeats": Counted(twice(lines, *[[pair(i, "model_1", "tie") for i in range(4)]] * 2), 8),
    },
    "eqbench3": {
        "runs": Refused(
            twice(board, *[[compared(i, k, "forward") for i in range(4)] for k in (0, 1)]), ("4 occur again",)
        ),
        "repeats": Counted(twice(board, *[[compared(i, 1, "forward") for i in range(4)]] * 2), 4),
    },
    "pandalm": {
        "scorers": Told(write_items, "judge", keys=("left", "right", "prompt")),
        "runs": Counted(twice(array, *[[item(i, 1) for i in range(4)]] * 2), 4),
    },
    "llmfao": {"scorers": Told(comparisons("left", "right"), "judge", keys=("left", "right", "prompt"))},
    "chatbot_arena": {
        "filters": offered(arena, "filter", {"anonymous": 5, "named": 4}),
        "runs": Counted(twice(lines, *[[battle(i, "tie") for i in range(4)]] * 2), 4),
        "repeats": Refused(
            twice(lines, *[[battle(i, verdict) for i in range(4)] for verdict in ("tie", "model_a")]),
            ("4 occur again",),
        ),
    },
    "swe_bench": {"runs": Refused(lambda f: [report(f / f"m.{run}.json") for run in ("r1", "r2")], ("'m' has 2",))},
    "evalplus": {
        "metrics": offered(lambda f: solutions(f / "a_eval_results.json", "present"), "metric", {"base": 6, "plus": 6}),
        "repeats": Told(lambda f: solutions(f / "a_eval_results.json", "present"), "sample", read={"metric": "base"}),
        "runs": Refused(
            lambda f: [solutions((f / run / "a_eval_results.json"), "status") for run in "xy" if not (f / run).mkdir()],
            ("'a' has 2",),
        ),
    },
    "pydantic_evals": {
        "metrics": offered(
            lambda f: evals_report(f / "a.json", [evals_case(i, 0.5, True) for i in range(4)]),
            "metric",
            {"closeness": 4, "equal": 4},
        ),
        "repeats": Told(
            lambda f: evals_report(f / "a.json", [evals_case(i, 0.5, True, run) for i in range(4) for run in (1, 2)]),
            "sample",
            read={"metric": "equal"},
        ),
        "runs": Told(
            twice(evals_report, *[[evals_case(i, 0.5, True) for i in range(4)]] * 2), "model", read={"metric": "equal"}
        ),
    },
    "deepeval": {
        "metrics": offered(
            lambda f: deepeval_run(f / "a.json", [case_of_deepeval(i, {"m": 0.2, "n": 0.9}) for i in range(4)]),
            "metric",
            {"m": 4, "n": 4},
        ),
        "repeats": Told(
            lambda f: deepeval_run(f / "a.json", [case_of_deepeval(i % 4, {"m": 1.0}) for i in range(8)]), "sample"
        ),
        "runs": Told(
            lambda f: [
                deepeval_run(f / f"{run}.json", [case_of_deepeval(i, {"m": 1.0}) for i in range(4)], "m-1")
                for run in "xy"
            ],
            "model",
        ),
    },
    "helm": {
        "metrics": offered(lambda f: run_of_helm(f / "r"), "metric", {"exact_match": HELM, "f1_score": HELM}),
        "perturbations": offered(
            lambda f: run_of_helm(f / "r", perturbed=True, metrics=("exact_match",)),
            "filter",
            {"original": HELM, "typos": HELM},
        ),
        "repeats": Told(lambda f: run_of_helm(f / "r", trials=2, metrics=("exact_match",)), "sample"),
        "runs": Refused(
            lambda f: [run_of_helm(f / run, metrics=("exact_match",)) for run in "xy"],
            (rf"\({HELM} scores\).*\({HELM} scores\)",),
        ),
    },
    "openai_evals": {
        "metrics": offered(two_scores_of_evals, "metric", {"correct": EVALS, "f1_score": EVALS}),
        "repeats": Told(two_events_of_evals, "sample"),
        "runs": Refused(
            twice(openai_evals, log_lines(), log_lines(seed=2)), (rf"\({EVALS} scores\).*\({EVALS} scores\)",)
        ),
    },
    "garak": {
        "scorers": offered(
            lambda f: lines(f / "a.jsonl", attempts(d=[1.0, 0.0], e=[0.0, 0.0])), "scorer", {"d": 4, "e": 4}
        ),
        "repeats": Told(lambda f: lines(f / "a.jsonl", attempts(d=[1.0, 0.0])), "sample"),
        "runs": Refused(twice(lines, attempts(d=[1.0]), attempts(d=[0.0])), (r"\(2 scores\).*\(2 scores\)",)),
    },
    "lighteval": {
        "metrics": offered(
            lambda f: lighteval(f, scores=[{"acc": 1.0, "em": 0.0} for _ in range(LIGHTEVAL)]),
            "metric",
            {"acc": LIGHTEVAL, "em": LIGHTEVAL},
        ),
        "runs": Refused(
            lambda f: [lighteval(f, date=date) for date in ("2025-01-02T03-04-05.6", "2025-02-02T03-04-05.6")],
            (rf"\({LIGHTEVAL} scores\).*\({LIGHTEVAL} scores\)",),
        ),
    },
    "opencompass": {
        "metrics": offered(lambda f: opencompass(f, "repeats"), "metric", {"G-Pass@4_0.5": 16, "correct": 16}),
        "repeats": Told(lambda f: opencompass(f, "repeats"), "sample", 4, read={"metric": "correct"}),
        "runs": Refused(
            lambda f: [opencompass(f, "list", run=run) for run in ("20240101_000000", "20240202_000000")],
            (rf"\({len(RIGHT)} scores\).*\({len(RIGHT)} scores\)",),
        ),
    },
    "table": {
        "repeats": Refused(lambda f: table(f, rows()), ("sample",)),
        "filters": Refused(
            lambda f: table(f, rows(filter=["s"] * 4 + ["f"] * 4)), ("'filter' tells them .* still one",)
        ),
        "metrics": Refused(lambda f: table(f, rows(metric=["m"] * 4 + ["n"] * 4)), (r"\bm\b.*4", r"\bn\b.*4")),
    },
}
CASES = [(name, kind, plant) for name, kinds in PLANTS.items() for kind, plant in kinds.items()]


def ask(log: er.Log) -> er.Results:
    return log.win_rate() if "left" in log.roles else log.mean()


@pytest.mark.parametrize(("name", "kind", "plant"), CASES, ids=[f"{name}-{kind}" for name, kind, _ in CASES])
def test_no_reader_averages_unasked(tmp_path, capsys, name, kind, plant):
    plant.write(tmp_path)
    if isinstance(plant, Refused):
        check_refused(tmp_path, name, plant, capsys)
    elif isinstance(plant, Counted):
        log = er.read_log(tmp_path)
        assert (log.format, log.left_out.to_dict()) == (name, {"duplicate": plant.duplicates})
    else:
        log = er.read_log(tmp_path, **plant.read)
        assert log.format == name
        assert log.frame[plant.column].nunique() == plant.values
        own = [*plant.keys, plant.column, *({"order", "turn", "metric"} & set(log.frame))]
        assert not log.frame.duplicated(own).any()
        if plant.column == "sample":
            # As many clusters as there are questions: repeats are no further evidence on other questions.
            assert ask(log).n_clusters == {"item": log.frame["item"].nunique()}


def check_refused(folder: Path, name: str, plant: Refused, capsys: pytest.CaptureFixture[str]) -> None:
    """The error lists the alternatives, on the command line too, and what it offers works."""
    with pytest.raises(EvalregError) as error:
        ask(er.read_log(folder))
    said = " ".join([str(error.value), *getattr(error.value, "__notes__", ())])
    assert all(re.search(one, said) for one in plant.listed), said
    assert main(["mean", str(folder), "--log-format", name]) == 3
    shown = capsys.readouterr().err
    # Of a table the command line reads the columns of roles alone, so that it knows of no other.
    assert name == "table" or all(re.search(one, shown) for one in plant.listed), shown
    for choice, n_rows in plant.choices:
        log = er.read_log(folder, **choice)
        assert (log.format, len(log.frame)) == (name, n_rows)


def test_every_reader_has_plants():
    assert set(PLANTS) == set(FORMATS), "plant two of what a reader could average over"
    # Two runs of one model can be in any folder; files of LLMFAO and tables name no runs.
    assert {name for name in PLANTS if "runs" not in PLANTS[name]} == {"llmfao", "table"}
    assert all(len(kinds) > 1 for name, kinds in PLANTS.items() if name not in ("swe_bench", "llmfao"))
