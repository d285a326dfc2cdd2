"""MT-Bench judgements: pairs of answers in both orders, or single grades; FastChat's files and those of its kin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd

from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.judged import (
    Row,
    Unknown,
    VerdictRows,
    chosen,
    counts_of,
    file_runs,
    reading,
    refuse_choices,
    verdict,
)
from evalreg.logs.reading import Choice, Reading, Reason, Source
from evalreg.logs.records import BadRecordError, cell, extra_columns, field, label, numeric

NAME, TITLE = "mt_bench", "MT-Bench judgements"
_USUAL = ("category",)
_GRADE = (b'"user_prompt"', b'"judgment"', b'"score"', b'"tstamp"', b'"question_id"')
# Of each game: its field, and what each verdict means there. FastChat names the model, others the place.
_NAMED = (
    ("g1_winner", {"model_1": "left", "model_2": "right", "tie": "tie"}),
    ("g2_winner", {"model_2": "left", "model_1": "right", "tie": "tie"}),
)
_PLACED = tuple((name, {"A": "left", "B": "right", "tie": "tie"}) for name in ("winner_ab", "winner_ba"))


def recognises(source: Source) -> bool:
    """Whether it has the games of a pair or the grades of an answer."""
    head = source.head
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")) or b'"games"' in head:
        return False
    found = any(name in head for name in (b'"g1_winner"', b'"winner_ab"', b'"score_turn1"'))
    return found or all(name in head for name in _GRADE)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """Two comparisons for each pair, one an order; or a grade for each answer."""
    gathered = VerdictRows(choice)
    gathered.read(sources, partial(_parse, columns=extra_columns(choice.columns, _USUAL)))
    pairs = sum("left" in row for row in gathered.rows)
    if 0 < pairs < len(gathered.rows):
        raise LogFormatError(
            f"Pairs and single grades are two logs; found {pairs} comparisons and {len(gathered.rows) - pairs} grades. "
            "Name the files of one kind."
        )
    return _pairs(sources, choice, gathered) if pairs or not gathered.rows else _grades(sources, choice, gathered)


def _parse(record: Row, source: Source, columns: tuple[str, ...]) -> Iterator[Row | Reason | Unknown]:
    """Rows of one judgement, whichever kind it is."""
    kept = {name: cell(record, name) for name in columns}
    if "g1_winner" in record:
        yield from _games(record, ("model_1", "model_2"), _NAMED, kept)
    elif "winner_ab" in record:
        yield from _games(record, ("model_a", "model_b"), _PLACED, kept)
    elif "score_turn1" in record:
        for turn in (1, 2):
            if f"score_turn{turn}" in record:
                yield _grade(record, "model_id", f"score_turn{turn}", f"judgment_turn{turn}", str(turn)) | kept
    elif "score" in record:
        yield _grade(record, "model", "score", "judgment", label(record, "turn")) | kept
    else:
        raise BadRecordError("has neither verdicts (g1_winner, winner_ab) nor a score")


def _judge(record: Row) -> dict[str, str]:
    """Name of the judge, and of its template where the log has one."""
    if "judge_id" in record:
        return {"judge": label(record, "judge_id")}
    judge = field(record, "judge")
    parts = judge if isinstance(judge, list) else [judge]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise BadRecordError(f"has {str(judge)[:40]!r} as 'judge', where a name is needed")
    return {"judge": parts[0]} | ({"judge.template": parts[1]} if len(parts) > 1 else {})


def _games(record: Row, names: tuple[str, str], games: Any, kept: Row) -> Iterator[Row | Reason | Unknown]:
    """The two games of a pair; the left model is the one shown first."""
    first, second = (label(record, name) for name in names)
    shared = {"prompt": label(record, "question_id")} | _judge(record)
    if "turn" in record:
        kept = {"turn": label(record, "turn")} | kept
    for order, (name, meanings) in enumerate(games, start=1):
        raw = field(record, name)
        if raw == "error" or raw is None:
            yield "unparsed"
            continue
        found = verdict(raw, meanings)
        left, right = (first, second) if order == 1 else (second, first)
        if isinstance(found, Unknown):
            yield found
        else:
            yield {"left": left, "right": right, "winner": found} | shared | {"order": order} | kept


def _grade(record: Row, model: str, score: str, judgment: str, turn: str) -> Row:
    """The grade of one turn; none where it is -1, null or NaN."""
    raw = field(record, score)
    number = numeric(raw)
    if isinstance(raw, bool) or (number is None and raw is not None and raw == raw):
        raise BadRecordError(f"has {str(raw)[:40]!r} as {score!r}, where a number is needed")
    missing = number is None or number == -1
    # Without a judgement the turn was not graded at all.
    reason = ("unparsed" if record.get(judgment) else "unscored") if missing else None
    grade = {"model": label(record, model), "item": label(record, "question_id"), "turn": turn}
    return grade | {"score": None if missing else number, "reason": reason} | _judge(record)


def _pairs(sources: Sequence[Source], choice: Choice, gathered: VerdictRows) -> Reading:
    refuse_choices(choice, "MT-Bench pairs")
    frame = gathered.frame("one of the two models or places, tie, or error")
    notes = ["The left answer was shown first; each pair is there in both orders, as two rows."]
    return reading(NAME, gathered, frame, file_runs(sources, "mt_bench"), notes)


def _grades(sources: Sequence[Source], choice: Choice, gathered: VerdictRows) -> Reading:
    """Grades of one judge and one turn, or their average over turns."""
    refuse_choices(choice, "MT-Bench grades", metric="turn", scorer="judge")
    frame = pd.DataFrame(gathered.rows)
    judge = chosen("scorer", choice.scorer, counts_of(frame["judge"]), "judges")
    frame = frame[frame["judge"] == judge]
    key = ["model", "item", "turn"]
    again = frame.duplicated(key)
    if (again & ~frame.duplicated([*key, "score"])).any() and choice.broken == "raise":
        first = frame[again & ~frame.duplicated([*key, "score"])].iloc[0]
        raise LogFormatError(
            f"An answer has one grade; model {first['model']!r}, question {first['item']!r}, turn {first['turn']} "
            'occurs again with another one. Name the files of one run, or pass broken="skip" to keep the first.'
        )
    gathered.left_out["duplicate"] += int(again.sum())
    return reading(NAME, gathered, _of_turns(frame[~again], choice, gathered), file_runs(sources, "mt_bench"), [])


def _of_turns(frame: pd.DataFrame, choice: Choice, gathered: VerdictRows) -> pd.DataFrame:
    """One score a question: of the turn that was chosen, or the mean of all turns where each has one."""
    counts = {f"turn {turn}": int(count) for turn, count in frame.groupby("turn")["score"].count().items()}
    counts = {name: count for name, count in counts.items() if count} or counts
    key, reasons = ["model", "item"], Counter[Reason]()
    if len(counts) > 1:
        each = frame.groupby(key)["score"]
        counts["average"] = int((each.count() == each.size()).sum())
    metric = chosen("metric", choice.metric, counts, "metrics")
    if metric == "average":
        reasons.update(frame.loc[frame["reason"].notna()].drop_duplicates(key)["reason"])
        mean = frame.groupby(key, sort=False)["score"].agg(lambda values: values.mean(skipna=False)).reset_index()
        rest = frame.drop(columns=["score", "turn", "reason"]).drop_duplicates(key)
        frame = mean.merge(rest, on=key, how="left")
    else:
        frame = frame[frame["turn"] == metric.removeprefix("turn ")]
        reasons.update(frame["reason"].dropna())
        frame = frame.drop(columns=["turn", "reason"])
    gathered.left_out.update(reasons)
    if frame["score"].isna().all():
        raise ArgumentError(f"`metric` must have scores; {metric!r} has none in {len(frame)} records.")
    return frame[frame["score"].notna()].astype({"score": float}).reset_index(drop=True)
