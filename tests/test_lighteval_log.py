"""Details of lighteval: structs, as its releases write them, and columns, as those before did."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, LogFormatError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

N = 12
DATE = "2025-01-02T03-04-05.678901"
TASK = "lighteval|quiz|0"
LAYOUTS = ("structs", "metrics")


def rows(layout, scores, questions="q"):
    """Rows of details: structs (present), or a struct of metrics beside columns."""
    for i, score in enumerate(scores):
        question = f"{questions}{i}"
        if layout == "structs":
            doc = {"query": question, "id": str(i), "choices": ["a", "b"], "specific": {"topic": f"t{i // 3}"}}
            yield {"doc": doc, "metric": score, "model_response": {"text": ["a"], "input_tokens": [1, 2]}}
        else:
            old = {"example": question, "full_prompt": question, "predictions": ["a"], "specifics": {"topic": f"t{i}"}}
            yield old | {"metrics": score, "num_asked_few_shots": 0}


def write(folder, layout="structs", *, model="org/a", scores=None, date=DATE, task=TASK, seeds=1, **options):
    """Details and results as lighteval places them on disk."""
    scores = [{"acc": float(i % 3 > 0)} for i in range(N)] if scores is None else scores
    path = folder / "details" / model / date / f"details_{task}_{date}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(list(rows(layout, scores, **options))), path)
    values = [score["acc"] for score in scores if isinstance(score.get("acc"), float)]
    own = {task: {"acc": float(np.mean(values)) if values else None, "acc_stderr": 0.1}}
    general = {"lighteval_sha": "x", "model_name": model, "num_fewshot_seeds": seeds}
    results = folder / "results" / model / f"results_{date}.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps({"config_general": general, "results": own, "versions": {task: 1}}, indent=2))
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_details_read_to_the_figure_of_lighteval(layout, tmp_path):
    write(tmp_path, layout)
    log = er.read_log(tmp_path)
    assert (log.format, log.roles) == ("lighteval", ("model", "task", "item", "score"))
    run = log.runs[0]
    assert (run.model, run.task, run.id, run.details["task_version"]) == ("org/a", TASK, DATE, 1)
    assert log.mean().params.iloc[0] == pytest.approx(run.details["reported"]["acc"])
    assert log.frame["score"].tolist() == [float(i % 3 > 0) for i in range(N)]
    assert {"structs": "doc.specific.topic", "metrics": "specifics.topic"}[layout] in log.frame
    assert not log.notes


def test_an_example_that_is_written_once_for_each_kind_of_request_counts_once(tmp_path):
    path = write(tmp_path, scores=[{"acc": float(i % 2), "em": None} for i in range(N)])
    table = pa.Table.from_pylist(list(rows("structs", [{"acc": None, "em": 1.0 if i else None} for i in range(N)])))
    parquet.write_table(pa.concat_tables([parquet.read_table(path), table], promote_options="permissive"), path)
    log = er.read_log(path, metric="acc")
    assert (len(log.frame), log.left_out.to_dict(), log.notes) == (N, {}, ())
    other = er.read_log(path, metric="em")
    assert (len(other.frame), other.left_out.to_dict()) == (N - 1, {"unscored": 1})


def test_draws_of_few_shots_are_samples_of_a_question(tmp_path):
    scores = [{"acc": float(i % 2)} for i in range(4)]
    path = write(tmp_path, "metrics", scores=scores, seeds=3)
    one = parquet.read_table(path)
    parquet.write_table(pa.concat_tables([one] * 3), path)
    log = er.read_log(path)
    assert log.frame["sample"].tolist() == [1] * 4 + [2] * 4 + [3] * 4
    assert log.mean().n_clusters == {"item": 4}
    assert "3 draws" in log.notes[0]


def test_on_the_hub_the_folders_name_the_model(tmp_path):
    path = write(tmp_path)
    folder = tmp_path / "hub" / "details_org__model-7b_private" / DATE
    folder.mkdir(parents=True)
    path = path.rename(folder / path.name)
    log = er.read_log(path)
    assert (log.runs[0].model, log.runs[0].task) == ("org/model-7b", TASK)


def test_values_that_are_no_numbers_are_refused(tmp_path):
    path = write(tmp_path, scores=[{"acc": 1.0, "f1": [1, 2], "word": "yes"}] * N)
    assert any("Not read" in note for note in er.read_log(path).notes)
    for metric in ("f1", "word"):
        with pytest.raises(ArgumentError, match="must name a number for each answer"):
            er.read_log(path, metric=metric)
    for metrics in ("{'acc': 1.0}", "acc=1.0"):
        row = {"example": ["q"], "full_prompt": ["q"], "predictions": [["a"]], "metrics": [metrics]}
        parquet.write_table(pa.table(row), path)
        if metrics[0] == "{":  # a struct as text
            assert er.read_log(path).frame["score"].tolist() == [1.0]
    with pytest.raises(LogFormatError, match=r"row 0 of .* no struct.*Write each metric as a column.* roles="):
        er.read_log(path)
    flat = {"example": ["q1", "q2"], "full_prompt": ["a", "b"], "predictions": [["a"], ["b"]], "acc": [1.0, 0.0]}
    parquet.write_table(pa.table(flat), path)
    with pytest.raises(LogFormatError, match="are tables: name the file and its columns by `roles`"):
        er.read_log(tmp_path)
    assert er.read_log(path, roles={"item": "example", "score": "acc"}).frame["score"].tolist() == [1, 0]
