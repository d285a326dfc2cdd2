"""Tables of MLflow's evaluations (`eval_results_table.json`): a column for the scores of each metric."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evalreg.checks import listed
from evalreg.errors import LogFormatError
from evalreg.logs.judged import refuse_choices
from evalreg.logs.metric_columns import MetricColumns
from evalreg.logs.reading import Choice, Reading, Source
from evalreg.logs.records import document, dotted

NAME, TITLE = "mlflow", "evaluation tables of MLflow"
_START = re.compile(rb'\s*\{\s*"columns"\s*:\s*\[')
_SCORE = "/score"
# Metrics that MLflow writes without "/score", and what may hold the questions.
_MEASURES = ("token_count", "latency")
_ITEMS = ("inputs", "input", "question", "prompt", "query", "request")
_ANSWERS = ("outputs", "output", "predictions", "prediction", "targets", "target", "ground_truth", "expected")


def recognises(source: Source) -> bool:
    """Whether it has columns apart from the rows, and scores among them."""
    head = source.head.removeprefix(b"\xef\xbb\xbf")
    marks = (b'/score"', *(f'"{name}"'.encode() for name in _MEASURES))
    return bool(_START.match(head)) and b'"data"' in head and any(mark in head for mark in marks)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each question, by the metric that was chosen."""
    refuse_choices(choice, TITLE, metric="metric")
    found = MetricColumns(choice, TITLE)
    for source in sources:
        whole = document(source)
        columns, data = dotted(whole, "columns"), dotted(whole, "data")
        if not (isinstance(columns, list) and all(isinstance(one, str) for one in columns) and isinstance(data, list)):
            raise LogFormatError(
                f"Evaluation tables of MLflow hold lists 'columns' and 'data'; {source.path} does not."
            )
        if len(set(columns)) < len(columns):
            raise LogFormatError(
                f"Columns of a table differ; {source.path} has one name twice among {listed(columns)}."
            )
        item = next((name for name in _ITEMS if name in columns), None)
        if item is None:
            raise LogFormatError(
                f"Evaluation tables of MLflow have a column of questions ({listed(_ITEMS, joiner=' or ')}); "
                f"{source.path} has {listed(columns)}. Make er.Log(pandas.read_json(file, orient='split'), item=..., "
                "score=...)."
            )
        metrics = {name.removesuffix(_SCORE): name for name in columns if name.endswith(_SCORE) or name in _MEASURES}
        inner = (*_ANSWERS, *(name for name in columns if name.endswith("/justification")))
        # A row that is not as long as the header is no record.
        records = (
            dict(zip(columns, row, strict=True)) if isinstance(row, list) and len(row) == len(columns) else None
            for row in data
        )
        found.take(source, _model(source), records, metrics, item, inner)
    found.cases.notes += found.notes()
    return found.cases.reading(NAME, TITLE)


def _model(source: Source) -> str:
    """The name of the file, or of the folder where the file has the name that MLflow gives it."""
    stem = source.path.name.removesuffix(".gz").removesuffix(".json").removesuffix("eval_results_table").rstrip("_-.")
    return stem or source.path.resolve().parent.name or "model"
