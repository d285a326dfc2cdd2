"""Comparisons of LLMFAO: CSV files of a crowd and of models as judges, sides in the order shown."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from evalreg.data.names import known_column
from evalreg.logs.judged import Unknown, VerdictRows, file_runs, reading, refuse_choices, verdict
from evalreg.logs.reading import Choice, Reading, Source
from evalreg.logs.table import read_table

NAME, TITLE = "llmfao", "LLMFAO comparisons"
_COLUMNS = ("id", "prompt", "model_x", "model_y", "winner", "left", "right")
_VERDICTS = {"left": "left", "right": "right", "tie": "tie"}


def recognises(source: Source) -> bool:
    """Whether its header has LLMFAO's columns."""
    header = source.head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].strip().split(b",")
    return set(header) - {b"worker"} == {name.encode() for name in _COLUMNS}


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A comparison for each row; the judge is the worker, or what the file is called after."""
    refuse_choices(choice, TITLE)
    gathered = VerdictRows(choice)
    for source in sources:
        table = read_table(source.path, text_columns=[*_COLUMNS, "worker"])
        for name in _COLUMNS:
            known_column(name, list(table.columns), "format")
        people = "worker" in table
        stem = source.path.name.partition("-comparisons")[0].partition(".csv")[0]
        judges = "worker " + table["worker"].astype("string").fillna("?") if people else [stem] * len(table)
        kept = [name for name in choice.columns or () if name in table]
        for judge, row in zip(judges, table.to_dict("records"), strict=True):
            gathered.n_records += 1
            if pd.isna(row["winner"]):
                gathered.left_out["unparsed"] += 1
                continue
            found = verdict(row["winner"], _VERDICTS)
            if isinstance(found, Unknown):
                gathered.unknown[found.text] += 1
                continue
            sides = {"left": row["left"], "right": row["right"], "winner": found, "prompt": row["prompt"]}
            sides |= {"judge": judge, "judge.kind": "person" if people else "model", "id": row["id"]}
            gathered.rows.append(sides | {name: row[name] for name in kept})
    notes = ["The left answer was shown on the left. A prompt has many comparisons, and most pairs met on few prompts."]
    frame = gathered.frame("left, right or tie")
    return reading(NAME, gathered, frame, file_runs(sources, "llmfao"), notes)
