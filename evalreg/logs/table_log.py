"""Tables as logs: CSV, JSON lines and Parquet whose columns have roles, by their names or as a team says."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_numeric_dtype, is_string_dtype

from evalreg.checks import MOST_LISTED, accessing, listed, nearest, passed
from evalreg.data.clusters import known_column
from evalreg.errors import ArgumentError, DataError, LogFormatError
from evalreg.logs.files import Source
from evalreg.logs.reader import refuse_unknown_task
from evalreg.logs.reading import JUDGED, ROLES, SCORED, BrokenName, Choice, Format, Reading, Reason, TableRoles
from evalreg.logs.tables import DELIMITERS, TableRequest, table

# Ids are text, unchanged.
IDS = tuple(role for role in ROLES if role not in ("score", "sample"))
_EXAMPLE = 'model = "system", score = "correct"'
# How tables often call what has a role here; a message proposes them, and nothing else reads them.
_ITEM = "item_id question_id question task_id instance_id example_id doc_id prompt_id problem_id scenario_id"
_ITEM += " question_index item_index id"
_USUAL = {
    "model": "model_name model_id system system_name llm agent method",
    "item": _ITEM,
    "sample": "epoch trial attempt repeat",
    "score": "accuracy acc correct is_correct passed pass success resolved reward rating exact_match points grade"
    " value",
    "left": "model_a model_1 model_left model_first left_model first_model",
    "right": "model_b model_2 model_right model_second right_model second_model",
    "winner": "verdict preference preferred",
    "prompt": f"prompt_id question_id question item {_ITEM}",
}
# Names of counts and lengths, which are neither scores nor clusters.
_COUNT = re.compile(
    r"(?i)(n|num|number|count|len|length)[_. ]|(.*[_. ])?(counts?|len|length|words|tokens|chars|messages|turns)$"
)
# What stands before the line that makes a wide table long.
LONG = " To make it long: "
BATTLES = {"model_a": "left", "model_b": "right", "tie": "tie", "tie (bothbad)": "tie", "both_bad": "tie"}


def recognises(source: Source) -> bool:
    """Whether it may be a table: Parquet, Arrow, JSON lines, or text with a header."""
    start = source.start
    if re.match(rb"PAR1|ARROW1|\{|\[\s*\{|(%s)\r?\n" % "|".join(ROLES).encode(), start):
        return True
    if source.head.startswith((b"\xff\xfe", b"\xfe\xff")):  # text in UTF-16, which is refused by that name
        return True
    first = start.split(b"\n", 1)[0]
    return (
        not start.startswith((b"[", b"PK"))
        and b"\0" not in source.head
        and any(sign.encode() in first for sign in DELIMITERS)
    )


TABLE = Format("table", "a table (CSV, TSV, JSON lines, Parquet, Arrow)", recognises)


def read_tables(sources: Sequence[Source], choice: Choice) -> Reading:
    """The rows of tables, one below the other, the columns of roles under the roles' names too."""
    roles = choice.roles or TableRoles({})
    text = (*IDS, *(column for role, column in roles.columns.items() if role in IDS), *roles.key, *choice.text_columns)
    # Of nested objects all short fields, where none is named.
    named = None if choice.columns is None else (*roles.columns.values(), *roles.key, *choice.columns)
    frame, n_broken = rows_of(sources, text, named, choice.broken)
    frame = with_roles(frame, roles.columns, "roles")
    _refuse_without_outcome(frame, sources[0])
    for column in (*roles.key, *(choice.columns or ())):
        known_column(column, [str(name) for name in frame.columns], "key" if column in roles.key else "columns")
    if choice.columns is not None:
        columns = {*ROLES, *roles.key, *choice.columns}
        frame = frame[[column for column in frame.columns if column in columns]]
    if choice.task is not None:
        tasks = frame["task"] if "task" in frame else pd.Series(index=frame.index, dtype=object)
        for task in choice.task:
            refuse_unknown_task(task, set(tasks.dropna()))
        frame = frame[tasks.isin(choice.task)].reset_index(drop=True)
    _refuse_unnamed_runs(frame, sources)
    frame, n_silent = with_meanings(frame, roles)
    counts: dict[Reason, int] = {"unparsed": n_silent, "broken": n_broken}
    left_out = {reason: count for reason, count in counts.items() if count}
    pooled = len(sources) > 1 and not {"model", "left"} & set(frame)
    notes = (f"Rows of {len(sources)} files are taken together.",) if pooled else ()
    return Reading("table", frame, left_out=left_out, notes=notes, key=roles.key)


def _refuse_unnamed_runs(frame: pd.DataFrame, sources: Sequence[Source]) -> None:
    """Refuse files that hold the same questions and name no models: nothing tells their answers apart."""
    key = [role for role in ("task", "item", "sample") if role in frame]
    if len(sources) < 2 or "item" not in key or {"model", "left"} & set(frame) or not frame.duplicated(key).any():
        return
    stems = {source.stem for source in sources}
    names = (s.stem if len(stems) == len(sources) else s.place.parent.name.rpartition("=")[2] for s in sources)
    paths = dict(zip(names, (source.name for source in sources), strict=True))
    typed = " ".join(shlex.quote(f"{name}={path}") for name, path in paths.items())
    raise ArgumentError(
        f"Files of one log without a column of models hold each question once; of {frame['item'].nunique()} questions "
        f"in {len(sources)} files some are there again. If each file is a model, name them: "
        f"{passed(f'er.read_log({json.dumps(paths)})', files=typed)}."
    )


def _refuse_without_outcome(frame: pd.DataFrame, source: Source) -> None:
    """Refuse a table without scores or verdicts, and say what seems to be which."""
    if not {"score", "winner"} & set(frame.columns):
        likely = likely_roles(frame)
        raise LogFormatError(
            f"A table read as a log has a column 'score' or 'winner'; {source.name} has {listed(frame.columns)}. "
            "Name the columns that have roles, for instance by "
            f"{_as_python(likely if 'score' in likely else {'score': 'COLUMN'})} or by a file such as roles.toml with "
            f"such lines. {LONG.join(if_wide(frame, source.name))}".strip()
        )
    missing = [side for side in ("left", "right") if side not in frame.columns]
    if missing and "score" not in frame.columns:
        likely = {"left": "model_a", "right": "model_b"} | likely_roles(frame, ("left", "right"))
        example = _as_python(likely | {"winner": "winner"})
        advice = f"For instance pass {example} or a file such as roles.toml with such lines."
        if are_battles(frame):
            battles = passed('format="chatbot_arena"', log_format="chatbot_arena")
            advice = f"Its verdicts are those of battles as Chatbot Arena writes them: pass {battles}."
        raise LogFormatError(
            f"A table of verdicts (column 'winner') has the two models in columns 'left' and 'right'; "
            f"{source.name} has no {' and no '.join(map(repr, missing))}, but {listed(frame.columns)}. {advice}"
        )


def _as_python(roles: Mapping[str, str]) -> str:
    return f"roles={{{', '.join(f'{json.dumps(role)}: {json.dumps(name)}' for role, name in roles.items())}}}"


def rows_of(
    sources: Sequence[Source], text: Sequence[str], named: Sequence[str] | None = None, broken: BrokenName = "raise"
) -> tuple[pd.DataFrame, int]:
    """The rows of tables, of their columns those named and those of roles, and how many lines were broken."""
    roles = () if named is None else (*SCORED, *JUDGED, *named)
    wanted = TableRequest(text, None if named is None else roles, named or (), named is None, broken)

    def read(source: Source, wanted: TableRequest) -> tuple[pd.DataFrame, int]:
        try:
            frame, n = table(source, wanted)
        except LogFormatError as error:
            if len(sources) > 1:
                error.add_note("(It is read as a part of the log. If it is none, name the other files alone.)")
            raise
        if named is not None and (set(named) - set(frame.columns) or not {"score", "winner"} & set(frame.columns)):
            # What is missing is told with the names of all columns.
            return table(source, replace(wanted, names=None))
        return frame, n

    tables = [read(source, wanted) for source in sources]
    # Columns that are text in one table and something else in another, so that 1 and "1" would be two values.
    texts: dict[str, set[bool]] = {}
    for frame, _ in tables:
        for column in frame.columns[frame.notna().any()]:
            texts.setdefault(column, set()).add(is_text(frame[column]))
    if unlike := [column for column, kinds in texts.items() if len(kinds) > 1]:
        tables = [read(source, replace(wanted, text=(*text, *unlike))) for source in sources]
    return _joined(sources, [frame for frame, _ in tables]), sum(n for _, n in tables)


def is_text(column: pd.Series[Any]) -> bool:
    """Whether a column holds text alone."""
    if column.dtype == object:
        return infer_dtype(column, skipna=True) == "string"
    return is_string_dtype(column.dtype)


def _joined(files: Sequence[Source], tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of the same columns, in whatever order, one below the other; each comes with its file."""
    first, columns = files[0].name, [str(column) for column in tables[0].columns]
    for file, frame in zip(files, tables, strict=True):
        if set(frame.columns) != set(columns):
            raise LogFormatError(
                f"Tables of one log have the same columns; {first} has "
                f"{listed(columns)}, {file.name} has {listed(frame.columns)}. Read them one by one."
            )
    return tables[0] if len(tables) == 1 else pd.concat([frame[columns] for frame in tables], ignore_index=True)


# Roles


def as_roles(roles: Any) -> TableRoles:
    """Roles from a mapping or from a TOML file."""
    if isinstance(roles, Mapping):
        return _checked(roles, "`roles`")
    if not isinstance(roles, str | os.PathLike):
        raise ArgumentError(f"`roles` must be a TOML file or a mapping from role to column; got {roles!r}.")
    path = Path(roles)
    with accessing("roles", path, "a file that can be read"):
        text = path.read_text(encoding="utf-8")
    try:
        return _checked(tomllib.loads(text), str(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ArgumentError(f"`roles` must be a TOML file such as {_EXAMPLE}; {path} is not: {error}.") from error


def _checked(entries: Mapping[Any, Any], name: str) -> TableRoles:
    def refuse(problem: str) -> NoReturn:
        raise ArgumentError(f"{name} must hold lines such as {_EXAMPLE}, a list `key` and a table `labels`; {problem}")

    rest = dict(entries)
    labels, key = rest.pop("labels", {}), rest.pop("key", [])
    for role, column in rest.items():
        if role not in ROLES:
            refuse(f'"{role}" is not a role.{nearest(str(role), ROLES) or f" Roles are {listed(ROLES)}."}')
        if not isinstance(column, str) or not column:
            refuse(f"{role} is {column!r}, not the name of a column.")
    if not isinstance(key, list | tuple) or not all(isinstance(column, str) for column in key):
        refuse(f"key is {key!r}, not a list of names.")
    if not isinstance(labels, Mapping) or not all(isinstance(text, str | None) for text in labels.values()):
        refuse('labels is not a table of texts, such as A = "left".')
    meanings = {str(verdict): meaning or None for verdict, meaning in labels.items()}
    if meanings and "winner" not in rest:
        refuse("labels say what verdicts mean, and no winner is named.")
    sides = [meaning for meaning in meanings.values() if meaning in ("left", "right")]
    if len(sides) > 1 and len(set(sides)) == 1:
        refuse(f"labels send every word to the {sides[0]} side; one means left, another right.")
    return TableRoles(rest, meanings, tuple(key))


def likely_roles(frame: pd.DataFrame, roles: Sequence[str] = ("model", "item", "sample", "score")) -> dict[str, str]:
    """Columns that may have these roles by their names, of roles that no column is called; scores are numbers."""
    columns: dict[str, str] = {}
    every = list(map(str, frame.columns))
    # A nested field goes by its last word where no column is called so.
    ways = [*((column.rpartition(".")[2], column) for column in every), *zip(every, every, strict=True)]
    by_name = {re.sub(r"\W+", "_", name.lower()).strip("_"): column for name, column in ways}
    for role in roles:
        names = [
            by_name[name] for name in (role, *_USUAL[role].split()) if name in by_name and role not in frame.columns
        ]
        if role == "score":
            names = [name for name in names if is_numeric_dtype(frame[name])]
        if names:
            columns[role] = names[0]
    return columns


def likely_sides(frame: pd.DataFrame) -> dict[str, str]:
    """Columns that may be the two models and the verdict on them; empty where one of the three is not to be seen."""
    sides = ("left", "right", "winner")
    likely = {side: side for side in sides if side in frame.columns} | likely_roles(frame, sides)
    return likely if len(likely) == len(sides) else {}


def likely_prompt(frame: pd.DataFrame) -> dict[str, str]:
    """The column that may hold the prompts, where none is called so: what questions are called."""
    return likely_roles(frame, ("prompt",))


def is_count(name: str) -> bool:
    """Whether a column counts something, by its name."""
    return _COUNT.match(name) is not None


def columns_of_numbers(frame: pd.DataFrame) -> list[str]:
    """Columns that may be scores: numbers that are neither ids nor counts."""
    roles = likely_roles(frame, ("model", "item", "sample")).values()
    numbers = (str(name) for name in frame if is_numeric_dtype(frame[name]) and name not in roles)
    return [name for name in numbers if not is_count(name) and not re.search(r"(?i)(^|[_. ])(id|idx|index)$", name)]


def if_wide(frame: pd.DataFrame, file: str = "") -> list[str]:
    """Of a table with a column of scores for each model or judge that it is one, and what makes it long; else none."""
    likely = likely_roles(frame)
    if "score" in likely or likely_sides(frame):
        return []
    values = frame[columns_of_numbers(frame)]
    scales = (values.columns[(values.min() >= 0) & (values.max() <= most)] for most in (1, 10, 100))
    columns = next((list(each) for each in scales if len(each) > 1), [])
    if not columns:
        return []
    kind = "judge" if "model" in {*likely, *frame} else "model"
    others = json.dumps([str(name) for name in frame if name not in columns], ensure_ascii=False)
    read = f"er.read_table({json.dumps(file)})" if file else "frame"
    long = f'{read}.melt({others}, var_name="{kind}", value_name="score")'
    named = "".join(f", {role}={json.dumps(column)}" for role, column in likely.items())
    shell = shlex.join(["python", "-c", f'import evalreg as er; {long}.to_csv("long.csv", index=False)'])
    said = f"The table seems to be wide, with a column of scores for each {kind}{' or metric' * (kind == 'judge')} "
    said += f"({listed(columns)}); a log has a row for each score."
    return [said, passed(f"er.Log({long}{named})", files=shell)]


def are_battles(frame: pd.DataFrame) -> bool:
    """Whether the verdicts name the sides as Chatbot Arena does."""
    return {"model_a", "model_b", "winner"} <= set(frame.columns) and set(frame["winner"].dropna()) <= set(BATTLES)


def with_roles(frame: pd.DataFrame, named: Mapping[str, str], argument: str | None = None) -> pd.DataFrame:
    """The rows with each named column under the name of its role too.

    A column that is called like another role has its new name alone: `model = "task"` leaves no task. `argument` is
    where the names were given, if not each as the argument of its role.
    """
    columns = [str(column) for column in frame.columns]
    added, other = {}, {name for role, name in named.items() if name != role and name in ROLES and name not in named}
    for role, name in named.items():
        known_column(name, columns, argument or role)
        if name != role and role in columns:
            raise DataError(
                f'`{role}` names the column "{name}", but the frame has a column "{role}" too, which the role '
                f'would mean everywhere else. Rename or drop "{role}".',
                column=role,
            )
        if name != role:
            added[role] = frame[name]
    return frame.assign(**added).drop(columns=list(other))


def refuse_nested_roles(frame: pd.DataFrame) -> None:
    """Refuse lists and objects in the columns of roles, whose values are told apart."""
    for role in (role for role in ROLES if role in frame and frame[role].dtype == object):
        nested = frame[role].map(lambda value: isinstance(value, list | dict | np.ndarray))
        if nested.any():
            raise DataError(
                f'a column with a role has one value a row (text, numbers, days); "{role}" holds lists or objects. '
                "Make a column of text or numbers of it first.",
                column=role,
                rows=np.flatnonzero(nested)[:MOST_LISTED],
            )


def with_meanings(frame: pd.DataFrame, roles: TableRoles) -> tuple[pd.DataFrame, int]:
    """The rows with verdicts by their meaning, and how many had none."""
    if not roles.labels:
        return frame, 0
    winner = frame["winner"]
    silent = winner.isin([verdict for verdict, meaning in roles.labels.items() if meaning is None])
    decided = frame.assign(winner=winner.map(roles.labels).fillna(winner))[~silent]
    return decided.reset_index(drop=True), int(silent.sum())
