"""Formats of judge logs: where the verdicts of a record stand, what they mean, and who was compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pandas as pd

from evalreg.checks import passed
from evalreg.errors import LogFormatError
from evalreg.logs.files import PARQUET, Source
from evalreg.logs.reading import Answer, BadRecordError, Choice, Format, Marks, Missing, Part, Record, Unknown
from evalreg.logs.records import (
    as_score,
    at,
    cell,
    described,
    digest,
    label,
    needed,
    numeric,
    records,
    short,
    typed,
    unfit,
)
from evalreg.logs.table_log import BATTLES

# What a winner is worth for the left side.
_SHARES: dict[Any, Any] = {"left": 1.0, "tie": 0.5, "right": 0.0}
# A path such as "pair.test_model", or what is made of a record.
Where: TypeAlias = str | Callable[[Record], Any]


@dataclass(frozen=True)
class Game:
    """One comparison in a record: where its verdict and the two models stand, and what the verdict means.

    A meaning is a winner ("left", "right", "tie"), a score of the left side, or a winner with further columns.
    """

    verdict: Where
    left: Where
    right: Where
    means: Mapping[Any, Any] | Callable[[Any], Any]
    more: Mapping[str, Any] = field(default_factory=dict)


def comparisons(
    games: Sequence[Game] | Callable[[Record], Iterable[Game]], columns: Mapping[str, Where]
) -> Callable[[Record, Part], Iterator[Answer]]:
    """What makes an answer of each game of a record; models, prompt and judge are names, where they are there.

    Beside the fields of the record stands "#file", the name of its file.
    """

    def value_at(record: Record, where: Where, named: bool) -> Any:
        if callable(where):
            return where(record)
        return label(record, where) if named else at(record, where)

    def answers(logged: Record, part: Part) -> Iterator[Answer]:
        record = {**logged, "#file": part.source.place.name}
        for game in games(record) if callable(games) else games:
            raw = game.verdict(record) if callable(game.verdict) else needed(record, game.verdict)
            row = {side: str(value_at(record, getattr(game, side), True)) for side in ("left", "right")}
            for name, where in columns.items():
                if (value := value_at(record, where, name in ("prompt", "judge"))) is not None:
                    row[name] = label({name: value}, name) if name in ("prompt", "judge", "turn") else value
            meaning = _meaning(game, raw, record)
            if isinstance(meaning, Mapping):
                row |= meaning
                meaning = row.pop("winner")
            share = Unknown(raw) if meaning is None else _SHARES.get(meaning, meaning)
            yield Answer(row | dict(game.more), {"": share}, logged)

    return answers


def _meaning(game: Game, raw: Any, record: Record) -> Any:
    """What a verdict means; None where that is not known."""
    if raw is None or raw in ("", "error") or raw != raw:
        return Missing("errored" if "error" in record else "unparsed")
    if callable(game.means):
        return game.means(raw)
    return game.means.get(raw) if isinstance(raw, str | int | float) and not isinstance(raw, bool) else None


def both_orders(first: Where, second: Where, games: Sequence[tuple[Where, Mapping[Any, Any]]]) -> tuple[Game, ...]:
    """The two games of a pair, sides swapped in the second, each with the meanings of its verdicts."""
    sides = ((first, second), (second, first))
    return tuple(Game(verdict, *sides[n], means, {"order": n + 1}) for n, (verdict, means) in enumerate(games))


# AlpacaEval: every model against one baseline, preferences from 1 (baseline) to 2 (model)


def _preference(raw: Any) -> float | None:
    share = None if isinstance(raw, bool) else numeric(raw)
    share = 1.5 if share == 0 else share  # old files write 0 where neither is preferred
    return share - 1 if share is not None and 1 <= share <= 2 else None


def _alpaca_notes(frame: pd.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
    yield "The display order is not in the log: the left model is the one that was evaluated."
    if "score" in frame:
        yield "Preferences are weighted: the score is the probability that the left answer is better."


def _length(path: str) -> Where:
    return lambda record: len(record[path]) if isinstance(record.get(path), str) else None


ALPACA_EVAL = Format(
    "alpaca_eval",
    "AlpacaEval annotations",
    Marks(all=(b'"generator_1"', b'"instruction"')),
    comparisons(
        [Game("preference", "generator_2", "generator_1", _preference)],
        {
            "prompt": lambda record: short(typed(record, "instruction", str)),
            "judge": "annotator",
            "length.left": _length("output_2"),
            "length.right": _length("output_1"),
        },
    ),
    fields=("dataset",),
    # Annotators differ in prompt, in scale and in baseline: they are no sample of judges.
    choose={"scorer": ("judge", "annotators")},
    known="a preference from 1 (first output) to 2 (second), 0 for a tie, or null",
    notes=_alpaca_notes,
)

# Arena-Hard: a model against a baseline, two games with the sides swapped, verdicts in five steps

_STEPS = {"A>>B": ("left", 3), "A>B": ("left", 1), "A=B": ("tie", 1), "B>A": ("right", 1), "B>>A": ("right", 3)}
_STEPS |= {"B<<A": ("left", 3), "B<A": ("left", 1), "B=A": ("tie", 1), "A<B": ("right", 1), "A<<B": ("right", 3)}
_ARENA_STEPS = {step: {"winner": won, "verdict": step, "weight": weight} for step, (won, weight) in _STEPS.items()}


def _arena_hard_games(record: Record) -> Sequence[Game]:
    """The games of one question: in the first the baseline is A, in the second the model."""
    n_games = len(typed(record, "games", list, []))
    if n_games > 2 or "games" not in record:
        raise BadRecordError("has 'games' that are not a list of two")
    baseline: Where = "baseline" if "baseline" in record else lambda record: "baseline"
    return both_orders(baseline, "model", [(f"games.{place}.score", _ARENA_STEPS) for place in range(n_games)])


def _arena_hard_notes(frame: pd.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
    yield (
        "The left answer was shown first; each question is there in both orders, as two rows. The column weight is 3 "
        f"for >> and 1 otherwise: pass {passed(weights='weight')} to count as Arena-Hard does."
    )
    if len(frame) and (frame["left"].eq("baseline") | frame["right"].eq("baseline")).any():
        yield 'The log does not name its baseline; it is called "baseline" here.'


ARENA_HARD = Format(
    "arena_hard",
    "Arena-Hard judgements",
    Marks(all=(b'"games"', b'"judge"', b'"model"')),
    comparisons(_arena_hard_games, {"prompt": "question_id|uid", "judge": "judge"}),
    fields=("category",),
    known="one of A>>B, A>B, A=B, B>A, B>>A, or null",
    notes=_arena_hard_notes,
)

# MT-Bench: pairs of answers in both orders, or single grades; FastChat's files and those of its kin

_MODELS = ({"model_1": "left", "model_2": "right"}, {"model_2": "left", "model_1": "right"})
_NAMED = both_orders(
    "model_1", "model_2", [(f"g{n}_winner", {**sides, "tie": "tie"}) for n, sides in enumerate(_MODELS, start=1)]
)
_PLACED = both_orders(
    "model_a", "model_b", [(name, {"A": "left", "B": "right", "tie": "tie"}) for name in ("winner_ab", "winner_ba")]
)
_JUDGE = "judge_id|judge.0|judge"
_PAIRS = comparisons(
    lambda record: _NAMED if "g1_winner" in record else _PLACED,
    {"prompt": "question_id", "judge": _JUDGE, "judge.template": "judge.1", "turn": "turn"},
)


def _mt_bench(record: Record, part: Part) -> Iterator[Answer]:
    """The games of a pair, or the grades of an answer by turn; no grade is one of -1, null or NaN."""
    if "g1_winner" in record or "winner_ab" in record:
        yield from _PAIRS(record, part)
        return
    if "score_turn1" in record:
        model, turns = "model_id", {n: f"_turn{n}" for n in ("1", "2") if f"score_turn{n}" in record}
    elif "score" in record:
        model, turns = "model", {label(record, "turn"): ""}
    else:
        raise BadRecordError("has neither verdicts (g1_winner, winner_ab) nor a score")
    values: Record = {}
    for turn, ending in turns.items():
        grade = needed(record, path := f"score{ending}")
        number = as_score(grade, path)
        if isinstance(grade, bool) or (number is None and grade is not None and grade == grade):
            raise unfit(grade, path, "a finite number")
        # Without a judgement the turn was not graded at all.
        none = Missing("unparsed" if record.get(f"judgment{ending}") else "unscored")
        values[f"turn {turn}"] = none if number in (None, -1) else number
    judge, template = label(record, _JUDGE), at(record, "judge.1")
    row = {"model": label(record, model), "item": label(record, "question_id"), "judge": judge, "_judge": judge}
    yield Answer(row | ({"judge.template": template} if template else {}), values, record)


def _mt_bench_notes(frame: pd.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
    if "left" in frame:
        yield "The left answer was shown first; each pair is there in both orders, as two rows."


_IS_PAIR = Marks(among=(b'"g1_winner"', b'"winner_ab"', b'"score_turn1"'))
_IS_GRADE = Marks(all=(b'"user_prompt"', b'"judgment"', b'"score"', b'"tstamp"', b'"question_id"'))
MT_BENCH = Format(
    "mt_bench",
    "MT-Bench judgements",
    lambda source: b'"games"' not in source.head and (_IS_PAIR(source) or _IS_GRADE(source)),
    _mt_bench,
    same=("model", "item", "_judge"),
    average=True,
    fields=("category",),
    # Of pairs all judges are read.
    choose={"scorer": ("_judge", "judges"), "metric": ("", "turns")},
    known="one of the two models or places, tie, or error",
    notes=_mt_bench_notes,
)

# EQ-Bench 3: comparisons of role-plays by one judge, beside the ratings that were made of them

# Who wins where the tested model was shown first, and where it was not.
_OUTCOMES = {1: {0.0: "right", 0.5: "tie", 1.0: "left"}, 2: {0.0: "left", 0.5: "tie", 1.0: "right"}}


def _eqbench_run(whole: Record, source: Source, choice: Choice) -> Part:
    ratings = {name: value for name, value in whole.items() if name != "__metadata__" and isinstance(value, dict)}
    return Part(source, details={"reported": ratings, "updated": at(whole, "__metadata__.last_updated")})


def _eqbench_game(record: Record) -> Iterator[Game]:
    """The one game of a comparison; whose order is "A0493:test / A0488:other" or "forward"."""
    order = label(record, "order")
    first, slash, _ = order.partition("/")
    role = first.rpartition(":")[2].strip() if slash else order
    place = {"test": 1, "forward": 1, "other": 2, "reversed": 2}.get(role)
    if place is None:
        raise BadRecordError(f"has the order {order[:40]!r}, where test and other are needed")
    step = 3 - 2 * place
    left, right = ["pair.test_model", "pair.neighbor_model"][::step]
    plus = zip(("left", "right"), ["plus_for_test", "plus_for_other"][::step], strict=True)
    more = {f"plus.{side}": record[mark] for side, mark in plus if record.get(mark) is not None}
    failed = "error" in record and "outcome_for_test_model" not in record
    verdict: Where = (lambda record: None) if failed else "outcome_for_test_model"
    yield Game(verdict, left, right, _OUTCOMES[place], {"order": place, **more})


EQBENCH3 = Format(
    "eqbench3",
    "EQ-Bench 3 results",
    Marks(all=(b"__metadata__", b"global_pairwise_comparisons")),
    comparisons(_eqbench_game, {"prompt": "scenario_id", "iteration": "pair.iteration_index"}),
    rows=("__metadata__.global_pairwise_comparisons",),
    run=_eqbench_run,
    known="an outcome of 0, 0.5 or 1",
    notes=("The left answer was shown first. Opponents were chosen by rank, and there is one judge.",),
)

# PandaLM's test set: pairs of answers judged by people, and files of the verdicts of other judges on them

_PANDALM = {0: "tie", 1: "left", 2: "right", "0": "tie", "1": "left", "2": "right", "tie": "tie", "Tie": "tie"}


def _pandalm_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """Items with the verdicts of people; or verdicts of another judge, joined to the items beside them by number."""
    if b'"cmp_key"' in source.head:
        yield Part(source, records=records(source, choice.broken))
        return
    paths = (path for path in sorted(source.path.parent.glob("*.json*")) if path.is_file() and not path.is_symlink())
    test_set = next((other for other in map(Source, paths) if b'"cmp_key"' in other.head), None)
    if test_set is None:
        raise LogFormatError(
            "Verdicts on the PandaLM test set name items by number; their models are in testset-v1.json. Put that file "
            f"beside {source.name}."
        )
    by_number = {str(item.get("idx")): item for *_, item in records(test_set, choice.broken) if isinstance(item, dict)}

    def joined() -> Iterator[tuple[str, Record | None]]:
        for place, _, record in records(source, choice.broken):
            row = record if isinstance(record, dict) else {}
            verdicts = [value for key, value in row.items() if re.fullmatch(r"\w+_result", key)]
            item = by_number.get(str(row.get("idx")))
            whole = item is not None and len(verdicts) == 1
            yield place, {**(item or {}), "#verdict": verdicts[0]} if whole else None

    yield Part(source, records=joined())


def _pandalm_games(record: Record) -> Iterator[Game]:
    """A game for each annotator, which is a column of the file, or for the one judge."""
    models = label(record, "cmp_key").split("_")
    if len(models) != 2:
        raise BadRecordError(
            f"has the pair {record['cmp_key']!r}, where two models joined by one underscore are needed"
        )
    judges = {name: name for name in sorted(record) if re.fullmatch(r"annotator\d+", name)}
    if "#verdict" in record:
        judges = {"#verdict": record["#file"].partition("-testset")[0].partition(".json")[0]}
    for path, judge in judges.items():
        yield Game(path, lambda record: models[0], lambda record: models[1], _PANDALM, {"judge": judge})


PANDALM = Format(
    "pandalm",
    "the PandaLM test set",
    Marks(all=(b'"idx"',), among=(b'"cmp_key"', rb'"\w+_result"')),
    comparisons(
        _pandalm_games,
        {
            "prompt": lambda record: digest(typed(record, "instruction", str) + "\0" + typed(record, "input", str)),
            "idx": lambda record: label(record, "idx"),
        },
    ),
    _pandalm_parts,
    fields=("motivation_app",),
    known="1, 2, 0 or tie, or null",
    notes=(
        "Each pair was shown in one order only, response 1 first. An annotator is a column of the file, and need not "
        "be one person throughout.",
    ),
)

# LLMFAO: CSV files of a crowd and of models as judges, sides in the order shown

_LLMFAO_COLUMNS = {"id", "prompt", "model_x", "model_y", "winner", "left", "right"}


def _is_llmfao(source: Source) -> bool:
    header = source.start.split(b"\n", 1)[0].strip().split(b",")
    return set(header) - {b"worker"} == {name.encode() for name in _LLMFAO_COLUMNS}


def _llmfao_judge(record: Record) -> str:
    """The worker, or what the file is called after; a worker without a name is nobody, and no judge."""
    if "worker" not in record:
        return str(record["#file"]).partition("-comparisons")[0].partition(".csv")[0]
    if record["worker"] is None:
        raise BadRecordError("names no worker, and so no judge")
    return f"worker {record['worker']}"


LLMFAO = Format(
    "llmfao",
    "LLMFAO comparisons",
    _is_llmfao,
    comparisons(
        [Game("winner", "left", "right", {"left": "left", "right": "right", "tie": "tie"})],
        {
            "prompt": "prompt",
            "judge": _llmfao_judge,
            "judge.kind": lambda record: "person" if "worker" in record else "model",
            "id": "id",
        },
    ),
    text=(*_LLMFAO_COLUMNS, "worker"),
    known="left, right or tie",
    notes=("The left answer was shown on the left. A prompt has many comparisons; most pairs met on few prompts.",),
)

# Chatbot Arena: two models side by side, and what the person who asked them thought

# One of these tells battles from any table that happens to name its columns so.
_ARENA_MARKS = (b"tstamp", b"anony", b"conversation_a", b"conversation_id")
_ARENA_ROLES = ("model_a", "model_b", "winner", "judge")
_ARENA_IDS = (*_ARENA_ROLES, "question_id", "conversation_id")


def _is_arena(source: Source) -> bool:
    head = source.start if source.start.startswith((b"{", b"[")) else source.start.split(b"\n", 1)[0]
    head = described(source.path).encode() if source.head.startswith(PARQUET) else head
    sides = all(name in head for name in (b"model_a", b"model_b", b"winner"))
    return sides and b"\0" not in head and any(mark in head for mark in _ARENA_MARKS)


_BATTLE = comparisons(
    [Game("winner", "model_a", "model_b", BATTLES)],
    {
        "prompt": lambda record: at(record, "question_id|conversation_id"),
        "judge": lambda record: record.get("judge"),
        "verdict": "winner",
        "shown": lambda record: "named" if record.get("anony") is not None and not record["anony"] else "anonymous",
    },
)


def _arena(record: Record, part: Part) -> Iterator[Answer]:
    for answer in _BATTLE(record, part):
        if "prompt" not in answer.row and record.get("prompt") is not None:
            answer.row["prompt"] = cell(record["prompt"])
        answer.record = {name: value for name, value in record.items() if name not in _ARENA_ROLES and name[:1] != "_"}
        yield answer


CHATBOT_ARENA = Format(
    "chatbot_arena",
    "Chatbot Arena battles",
    _is_arena,
    _arena,
    text=_ARENA_IDS,
    fields=("",),
    # The Arena's own board counts battles alone whose names were hidden.
    choose={"filter": ("shown", "kinds of battles (names shown or not)")},
    known="model_a, model_b, tie, tie (bothbad) or both_bad",
    notes=("The left answer is model_a's.",),
)

JUDGED_FORMATS = (ALPACA_EVAL, ARENA_HARD, MT_BENCH, EQBENCH3, PANDALM, LLMFAO, CHATBOT_ARENA)
