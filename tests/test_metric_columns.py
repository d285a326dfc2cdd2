"""Frames with a column for each metric: results of ragas, evaluation tables of MLflow."""

from __future__ import annotations

import csv
import io
import json

import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import main
from evalreg.errors import ArgumentError, LogFormatError, MissingColumnError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

FAITHFUL = [1.0, 0.5, None, 1.0, 0.0, 0.25]


def ragas_frame():
    return pd.DataFrame(
        {
            "user_input": [f"question {i}" for i in range(6)],
            "retrieved_contexts": [["a context"]] * 6,
            "response": "short",
            "reference": "yes",
            "faithfulness": FAITHFUL,
            "relevancy": [0.1 * i for i in range(6)],
            "passage": [f"p{i // 2}" for i in range(6)],
        }
    )


def mlflow_table(path, **columns):
    """A table as `mlflow.log_table` writes it."""
    table = {"inputs": [f"q{i}" for i in range(6)], "passage": [f"p{i // 2}" for i in range(6)], "outputs": ["a"] * 6}
    table |= {"judge/v1/score": FAITHFUL, "judge/v1/justification": ["because"] * 6} | columns
    path.parent.mkdir(exist_ok=True)
    rows = list(map(list, zip(*table.values(), strict=True)))
    path.write_text(json.dumps({"columns": list(table), "data": rows}).replace("/", r"\/"))
    return path


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=path.stem == "indexed")
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("name", ["plain.csv", "indexed.csv", "lines.jsonl"])
def test_a_metric_of_ragas_is_chosen_and_nan_is_one_that_failed(tmp_path, name):
    path = write(ragas_frame(), tmp_path / name)
    with pytest.raises(ArgumentError, match=r"2 scores: 'faithfulness' \(5\), 'relevancy' \(6\)"):
        er.read_log(path)
    log = er.read_log(path, metric="faithfulness")
    assert (log.format, log.left_out.to_dict(), log.runs[0].model) == ("ragas", {"errored": 1}, path.stem)
    assert list(log.frame) == ["model", "item", "score", "passage"]
    # The figure that ragas itself prints: the mean without NaN.
    assert log.mean().params.iloc[0] == pytest.approx(ragas_frame()["faithfulness"].mean())
    assert er.read_log(path, metric="faithfulness", failed="zero").mean().params.iloc[0] == pytest.approx(2.75 / 6)


def test_frames_of_older_ragas_are_read(tmp_path):
    frame = ragas_frame().rename(columns={"user_input": "question", "response": "answer"})
    frame = frame.rename(columns={"retrieved_contexts": "contexts", "reference": "ground_truth"})
    assert er.read_log(write(frame, tmp_path / "a.csv"), metric="relevancy").format == "ragas"


def test_two_files_are_two_models_and_a_column_of_models_counts(tmp_path):
    write(ragas_frame(), tmp_path / "old.csv")
    write(ragas_frame().assign(faithfulness=1.0), tmp_path / "new.csv")
    found = er.read_log(tmp_path, metric="faithfulness").compare(baseline="old").table
    assert (found["n"].iloc[0], found["difference"].iloc[0]) == (5, pytest.approx(1 - 0.55))
    both = pd.concat([ragas_frame().assign(model="a"), ragas_frame().assign(model="b")])
    assert set(er.read_log(write(both, tmp_path / "both.jsonl"), metric="relevancy").frame["model"]) == {"a", "b"}


def test_answers_to_one_question_are_not_averaged_unasked(tmp_path):
    both = pd.concat([ragas_frame().assign(system="a"), ragas_frame().assign(system="b")])
    with pytest.raises(LogFormatError, match=r'6 occur again.*Add a column "sample".*or a column "model"'):
        er.read_log(write(both, tmp_path / "a.csv"), metric="relevancy")
    both["sample"] = [1] * 6 + [2] * 6
    assert er.read_log(write(both, tmp_path / "b.csv"), metric="relevancy").frame["sample"].max() == 2


def test_a_table_that_names_a_score_is_still_a_table(tmp_path):
    path = write(ragas_frame().rename(columns={"faithfulness": "score"}), tmp_path / "a.csv")
    assert er.read_log(path).format == "table"
    roles = {"score": "relevancy", "item": "user_input"}
    assert er.read_log(write(ragas_frame(), tmp_path / "b.csv"), roles=roles).format == "table"


# MLflow


def test_scores_of_an_mlflow_table_are_read_and_nan_is_counted(tmp_path):
    log = er.read_log(mlflow_table(tmp_path / "run" / "eval_results_table.json"))
    assert (log.format, log.runs[0].model, log.left_out.to_dict()) == ("mlflow", "run", {"errored": 1})
    assert list(log.frame) == ["model", "item", "score", "passage"]
    assert log.mean(groups="passage").params.iloc[0] == pytest.approx(0.55)


def test_a_metric_of_mlflow_is_chosen_from_a_list(tmp_path):
    path = mlflow_table(tmp_path / "a.json", token_count=[3] * 6)
    with pytest.raises(ArgumentError, match=r"2 scores: 'judge/v1' \(5\), 'token_count' \(6\)"):
        er.read_log(path)
    assert er.read_log(path, metric="token_count").frame["score"].tolist() == [3] * 6
    with pytest.raises(MissingColumnError):
        er.read_log(path, metric="token_count", columns=["none"])


def test_tables_that_are_wrong_say_why(tmp_path):
    path = mlflow_table(tmp_path / "a.json")
    whole = json.loads(path.read_text())
    whole["data"][2] = whole["data"][2][:-1]
    path.write_text(json.dumps(whole))
    with pytest.raises(LogFormatError, match=r"row 3 of .* is not an object"):
        er.read_log(path)
    assert er.read_log(path, broken="skip").left_out.to_dict() == {"broken": 1}
    whole["columns"][0] = "my_questions"
    path.write_text(json.dumps(whole))
    with pytest.raises(LogFormatError, match="have a column of questions"):
        er.read_log(path)


# Exports of hosted platforms, by their roles


def test_exports_of_platforms_are_tables_with_roles(tmp_path, capsys):
    rows = [{"dataset.question": f"q{i}", "feedback_scores.accuracy": i % 2, "output": "x"} for i in range(8)]
    pd.DataFrame(rows).to_csv(tmp_path / "opik.csv", index=False)
    spans = [{"input": {"question": f"q{i}"}, "scores": {"Factuality": i % 2, "Other": 1}} for i in range(8)]
    (tmp_path / "braintrust.jsonl").write_text("\n".join(map(json.dumps, spans)))
    kinds = [("accuracy", "NUMERIC", i % 2) for i in range(8)] + [("tone", "TEXT", 0)] * 5
    scores = [{"trace_id": f"t{i}", "name": n, "data_type": d, "value": v} for i, (n, d, v) in enumerate(kinds)]
    (tmp_path / "langfuse.jsonl").write_text("\n".join(map(json.dumps, scores)))
    roles = {
        "opik.csv": ("dataset.question", "feedback_scores.accuracy"),
        "braintrust.jsonl": ("input.question", "scores.Factuality"),
        "langfuse.jsonl": ("trace_id", "value"),
    }
    for name, (item, score) in roles.items():
        (tmp_path / "roles.toml").write_text(f'item = "{item}"\nscore = "{score}"\n')
        asked = ["mean", str(tmp_path / name), "--roles", str(tmp_path / "roles.toml"), "--format", "csv"]
        if name == "langfuse.jsonl":
            asked += ["--where", "name == 'accuracy' and data_type in ['NUMERIC', 'BOOLEAN']"]
        assert main(asked) == 0
        (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
        assert (float(row["estimate"]), float(row["n"])) == (0.5, 8)
