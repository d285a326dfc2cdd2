"""Annotations of AlpacaEval: every model against one baseline, preferences from 1 (baseline) to 2 (model)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd

from evalreg.logs.judged import Row, Unknown, VerdictRows, chosen, counts_of, file_runs, reading, refuse_choices
from evalreg.logs.reading import Choice, Reading, Reason, Source
from evalreg.logs.records import cell, dotted, extra_columns, field, label, numeric, short, text

NAME, TITLE = "alpaca_eval", "AlpacaEval annotations"
_KNOWN = "a preference from 1 (first output) to 2 (second), 0 for a tie, or null"
_VERDICTS = {0.0: "right", 0.5: "tie", 1.0: "left"}


def recognises(source: Source) -> bool:
    """Whether it has AlpacaEval's names of the two models."""
    start = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith((b"[", b"{")) and b'"generator_1"' in source.head and b'"instruction"' in source.head


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A comparison for each annotation: the model on the left, the baseline on the right."""
    refuse_choices(choice, TITLE, scorer="annotator")
    gathered = VerdictRows(choice)
    gathered.read(
        sources, partial(_parse, columns=extra_columns(choice.columns, ("dataset",)), scorer=choice.scorer, seen={})
    )
    frame = gathered.frame(_KNOWN)
    # Annotators differ in prompt, in scale and in baseline: they are no sample of judges.
    annotator = chosen("scorer", choice.scorer, counts_of(frame["judge"]), "annotators")
    frame = frame[frame["judge"] == annotator].reset_index(drop=True)
    notes = ["The display order is not in the log: the left model is the one that was evaluated."]
    if set(frame["score"]) <= set(_VERDICTS):
        frame.insert(2, "winner", frame.pop("score").map(_VERDICTS))
    else:
        notes.append("Preferences are weighted: the score is the probability that the left answer is better.")
    return reading(NAME, gathered, frame, file_runs(sources, "alpaca_eval"), notes)


def _parse(
    record: Row, source: Source, columns: tuple[str, ...], scorer: str | None, seen: dict[str, str]
) -> Iterator[Row | Reason | Unknown]:
    """The comparison of one annotation."""
    preference = field(record, "preference")
    share = numeric(preference)
    if preference is None or (pd.api.types.is_float(preference) and preference != preference):
        if scorer in (None, record.get("annotator")):
            yield "unparsed"
        return
    # Old files write 0 where neither is preferred.
    share = 1.5 if share == 0 else share
    if share is None or isinstance(preference, bool) or not 1 <= share <= 2:
        yield Unknown(preference)
        return
    instruction = text(record, "instruction")
    row: dict[str, Any] = {"left": label(record, "generator_2"), "right": label(record, "generator_1")}
    row |= {"score": share - 1, "prompt": seen.setdefault(instruction, short(instruction))}
    row["judge"] = label(record, "annotator")
    row |= {name: cell(record, name) for name in columns}
    outputs = dotted(record, "output_2"), dotted(record, "output_1")
    if all(isinstance(output, str) for output in outputs):
        row |= {"length.left": len(outputs[0]), "length.right": len(outputs[1])}
    yield row
