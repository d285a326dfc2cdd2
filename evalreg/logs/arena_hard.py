"""Arena-Hard judgements: a model against a baseline, two games with the sides swapped, verdicts in five steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from evalreg.logs.judged import Row, Unknown, VerdictRows, file_runs, reading, refuse_choices
from evalreg.logs.reading import Choice, Reading, Reason, Source
from evalreg.logs.records import BadRecordError, cell, dotted, extra_columns, field, label

NAME, TITLE = "arena_hard", "Arena-Hard judgements"
_VERDICTS = {
    "A>>B": ("left", 3),
    "A>B": ("left", 1),
    "A=B": ("tie", 1),
    "B=A": ("tie", 1),
    "B>A": ("right", 1),
    "B>>A": ("right", 3),
    "A<B": ("right", 1),
    "A<<B": ("right", 3),
    "B<A": ("left", 1),
    "B<<A": ("left", 3),
}
_NAMELESS = "baseline"


def recognises(source: Source) -> bool:
    """Whether its records hold games."""
    head = source.head
    started = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    return started and all(name in head for name in (b'"games"', b'"judge"', b'"model"'))


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """Two comparisons for each question; the left answer is the one shown as A."""
    refuse_choices(choice, TITLE)
    gathered = VerdictRows(choice)
    gathered.read(sources, partial(_parse, columns=extra_columns(choice.columns, ("category",))))
    frame = gathered.frame("one of A>>B, A>B, A=B, B>A, B>>A, or null")
    notes = [
        "The left answer was shown first; each question is there in both orders, as two rows. The column weight is 3 "
        'for >> and 1 otherwise: pass weights="weight" to count as Arena-Hard does.'
    ]
    if (frame["left"].eq(_NAMELESS) | frame["right"].eq(_NAMELESS)).any():
        notes.append('The log does not name its baseline; it is called "baseline" here.')
    return reading(NAME, gathered, frame, file_runs(sources, "arena_hard"), notes)


def _parse(record: Row, source: Source, columns: tuple[str, ...]) -> Iterator[Row | Reason | Unknown]:
    """The games of one question: in the first the baseline is A, in the second the model."""
    games = field(record, "games")
    if not isinstance(games, list) or len(games) > 2:
        raise BadRecordError("has 'games' that are not a list of two")
    model = label(record, "model")
    baseline = label(record, "baseline") if "baseline" in record else _NAMELESS
    prompt = label(record, "question_id" if "question_id" in record else "uid")
    shared = {"prompt": prompt, "judge": label(record, "judge")}
    kept = {name: cell(record, name) for name in columns}
    for order, game in enumerate(games, start=1):
        raw = dotted(game, "score")
        if raw is None:
            yield "unparsed"
        elif not isinstance(raw, str) or raw not in _VERDICTS:
            yield Unknown(raw)
        else:
            left, right = (baseline, model) if order == 1 else (model, baseline)
            winner, weight = _VERDICTS[raw]
            sides = {"left": left, "right": right, "winner": winner}
            yield sides | shared | {"order": order, "verdict": raw, "weight": weight} | kept
