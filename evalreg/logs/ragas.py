"""Results of ragas, the frame of `to_pandas()` as CSV or JSON lines: a column for each metric."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

import pandas as pd

from evalreg.checks import listed
from evalreg.errors import LogFormatError
from evalreg.logs.judged import refuse_choices
from evalreg.logs.metric_columns import MetricColumns
from evalreg.logs.reading import Choice, Reading, Source
from evalreg.logs.table import read_table

NAME, TITLE = "ragas", "results of ragas"
# Fields of the samples of ragas, in single and several turns; the last line are those of versions before 0.2.
_FIELDS = (
    *("user_input", "response", "retrieved_contexts", "reference", "reference_contexts", "multi_responses", "rubrics"),
    *("rubric", "reference_tool_calls", "reference_topics", "retrieved_context_ids", "reference_context_ids"),
    *("persona_name", "query_style", "query_length"),
    *("question", "answer", "contexts", "ground_truth", "ground_truths"),
)
_MARKS = ({"response", "retrieved_contexts", "reference"}, {"answer", "contexts"})
_ROLES = {"score", "winner"}
_TEXT = ("user_input", "question", "model")
_KEY = re.compile(rb'"([a-z_]+)"\s*:')


def recognises(source: Source) -> bool:
    """Whether its columns are those of ragas and none has the name of a score."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first = head.split(b"\n", 1)[0]
    if head.startswith(b"{"):
        names = {name.decode() for name in _KEY.findall(first)}
    elif head.startswith(b"[") or b"\0" in head:
        return False
    else:
        try:
            names = set(next(csv.reader([first.decode("utf-8").rstrip("\r")]), []))
        except (ValueError, csv.Error):
            return False
    new, old = _MARKS
    known = ("user_input" in names and names & new) or ("question" in names and old <= names)
    return bool(known) and not names & _ROLES


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each question, by the metric that was chosen."""
    refuse_choices(choice, TITLE, metric="metric")
    found = MetricColumns(choice, TITLE)
    for source in sources:
        lines = source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        frame = read_table(source.path, text_columns=choice.text if lines else (*_TEXT, *choice.text))
        item = next((name for name in ("user_input", "question") if name in frame), None)
        if item is None:
            raise LogFormatError(
                f"Results of ragas have a column 'user_input'; {source.path} has {listed(map(str, frame.columns))}."
            )
        other = [str(name) for name in frame.columns if name not in (*_FIELDS, "model", "sample") and str(name)]
        metrics = {name: name for name in other if pd.api.types.is_numeric_dtype(frame[name])}
        model = source.path.name.removesuffix(".gz").rpartition(".")[0] or source.path.name
        gaps = frame.isna()
        records = (
            {str(name): value for name, value, gap in zip(frame.columns, row, missing, strict=True) if not gap}
            for row, missing in zip(
                zip(*(frame[name].tolist() for name in frame), strict=True), gaps.to_numpy(), strict=True
            )
        )
        found.take(source, model, records, metrics, item, _FIELDS)
    found.cases.notes += found.notes()
    return found.cases.reading(NAME, TITLE)
