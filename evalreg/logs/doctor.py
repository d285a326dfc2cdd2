"""What a log holds and what may be wrong with it: counts, candidate clusters, remarks, and what to ask next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

from evalreg.checks import counted, listed, muted
from evalreg.data.clusters import quoted_pair, spelled_alike
from evalreg.errors import EvalregError, UnknownLabelError
from evalreg.logs.reading import ARGUMENTS, ROLES
from evalreg.logs.table_log import columns_of_numbers, if_wide, is_count, likely_prompt, likely_roles
from evalreg.report.summaries import MOST_NOTES
from evalreg.report.tables import Grid, Summary, show

# A `Log`, whose module imports this one.
AnyLog: TypeAlias = Any
# A verb of the command line with its options; in Python a method, its arguments, and what is asked of the result.
Question: TypeAlias = tuple[str, str, dict[str, str], str]

# More columns than these are no longer looked at.
MOST_COLUMNS = 20
# Of so many columns of numbers each has a command that takes it for the score.
MOST_CHOICES = 5
# With fewer clusters an interval is rough, and their variance says little: none is proposed.
FEW_CLUSTERS = 10
# A field is named where it raises the variance by more than so many standard errors of a variance, and an advantage of
# the left side where it is as many away from none.
TELLING = 3.0
_HEADERS = {"largest_share": "largest", "design_effect": "deff", "largest_design_effect": "largest deff"}


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What a log holds, what may be wrong with it, and what to ask of it next; it prints as tables.

    Parameters
    ----------
    counts : dict
        Format, runs, and how many values each role has.
    left_out : dict
        Records that are not a score, by reason.
    remarks : tuple of str
        What may be wrong.
    commands : tuple of str
        Questions that make sense next, a report at the end.
    models : DataFrame
        Indexed by model: rows, items (prompts), missing scores, and the mean or the win rate.
    clusters : DataFrame
        Indexed by column: clusters, largest_share, and over models the median of the icc and of the design_effect of
        the mean score, and largest_design_effect.
    choices : DataFrame
        Where a log holds several scores: a row for each task, filter, scorer and metric, with n and mean.

    See Also
    --------
    Log.doctor : The diagnosis of a log.
    """

    counts: dict[str, int | str]
    left_out: dict[str, int]
    remarks: tuple[str, ...]
    commands: tuple[str, ...]
    models: pd.DataFrame = field(default_factory=pd.DataFrame)
    clusters: pd.DataFrame = field(default_factory=pd.DataFrame)
    choices: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __str__(self) -> str:
        """The tables as text, 80 columns wide, and the commands, to be copied."""
        return "\n\n".join([self.summary().as_text(), *self.next_steps("text")])

    def next_steps(self, form: str) -> tuple[str, ...]:
        """The commands as a block of text or Markdown; none where there are none, or in another form."""
        blocks = {
            "text": "What to ask next:\n\n" + "\n".join(f"  {command}" for command in self.commands),
            "md": "\n".join(["What to ask next:", "", "```sh", *self.commands, "```"]),
        }
        return (blocks[form],) if self.commands and form in blocks else ()

    def summary(self, *, details: bool = False) -> Summary:
        """Tables and remarks, without the commands.

        Parameters
        ----------
        details : bool, default False
            All rows; of long tables the first and the last by default.

        Returns
        -------
        Summary
            With `as_text`, `as_markdown`, `as_html` and `as_latex`.
        """
        left_out = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
        facts = ((name.capitalize(), str(value)) for name, value in self.counts.items())
        tables = {"scores": self.choices, "model": self.models, "clusters by": self.clusters}
        grids = []
        for first, table in tables.items():
            headers = (_HEADERS.get(name, name.replace("_", " ")) for name in table.columns)
            for grid in show(table).grids[: len(table)]:  # a dash where there is no number
                grid = Grid((first, *headers), tuple(tuple(cell or "-" for cell in row) for row in grid.rows))
                grids.append(grid if details else grid.ends())
        return Summary("evalreg doctor", (*facts, ("Left out", left_out or "none")), tuple(grids), self.remarks)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON.

        Returns
        -------
        dict
            Of plain values; tables are lists of rows.
        """
        tables = {"choices": "measure", "clusters": "column", "models": "model"}
        rows = {name: getattr(self, name).rename_axis(first).reset_index() for name, first in tables.items()}
        plain = {"commands": list(self.commands), "counts": self.counts, "left_out": self.left_out}
        return {name: table.to_dict("records") for name, table in rows.items()} | plain | {"remarks": [*self.remarks]}


def diagnose(log: AnyLog, say: Callable[[str, list[Any]], str] | None = None) -> Diagnosis:
    """The diagnosis of a log; `say` words a question with its arguments as a command, by default they are Python."""
    frame, clusters, ids, unnamed = log._reading.frame, candidate_clusters(log), question(log), unnamed_roles(log)
    questions = [
        (request, *_tried(partial(getattr(log, request[1]), **request[2])))
        for request in _next_questions(log, clusters)
    ]
    refusal = questions[0][-1]
    # A regression would pool what a mean refuses.
    commands = [
        _worded(request, say)
        for request, _, error in questions
        if error is None and (refusal is None or request[1] != "fit")
    ]
    if unnamed:
        python = f"er.Log(log.frame, {', '.join(f'{role}={column!r}' for role, column in unnamed.items())}).doctor()"
        commands.insert(0, say("doctor", ["--roles", unnamed]) if say else python)
    # What an estimate says of the log is said by it alone.
    notes = next(([text for _, text in result.notes[:MOST_NOTES]] for _, result, error in questions if not error), [])
    if len(frame) and not commands[len(unnamed) > 0 :]:
        notes = [f"No estimate can be had before this is settled: {refusal}"]
        if isinstance(refusal, UnknownLabelError) and refusal.labels:
            python = f"log.win_rate(labels={refusal.labels!r}).leaderboard()"
            commands.append(say("leaderboard", ["--labels", refusal.labels]) if say else python)
    remarks = [*log.notes, *_remarks(log, clusters.index.tolist()), *notes]
    remarks += [*_read(clusters, len(frame[ids].dropna().drop_duplicates()) if ids else 0), *_alike(log, clusters)]
    return Diagnosis(
        counts=_counts(log),
        left_out={str(reason): int(count) for reason, count in log.left_out.items()},
        models=_models(log),
        clusters=clusters,
        remarks=tuple(remarks),
        commands=tuple(dict.fromkeys(commands)),
    )


def columns_that_may_be_scores(
    frame: pd.DataFrame, roles: Mapping[str, str], say: Callable[..., str], file: str
) -> Diagnosis:
    """A line for each column of numbers of a table whose scores are not named, and how to name one of them, or all."""
    numbers = [name for name in columns_of_numbers(frame) if name not in roles.values()]
    values, wide = frame[numbers], if_wide(frame, file)
    table = pd.DataFrame(
        {"scores": values.count(), "without": values.isna().sum(), "mean": values.mean().astype(float)}
    )
    remark = (
        f"No column has the role of the score; the columns are {', '.join(map(str, frame.columns))}. Say which by "
        "--roles model=COLUMN,item=COLUMN,score=COLUMN; of verdicts on two models, "
        "left=COLUMN,right=COLUMN,winner=COLUMN."
    )
    commands = [say("doctor", ["--roles", {**roles, "score": name}]) for name in numbers[:MOST_CHOICES]]
    if wide:
        long = [wide[1], say("doctor", ["--roles", roles] if roles else [], ["long.csv"])]
        # Beside models the columns may be metrics, of which one is read.
        commands, remark = [*commands, *long] if "model" in {*roles, *frame} else long, f"{wide[0]} {remark}"
    return Diagnosis({"format": "table", "rows": len(frame)}, {}, (remark,), tuple(commands), choices=table)


def _worded(request: Question, say: Callable[[str, list[Any]], str] | None) -> str:
    """A question as a command, or as a line of Python."""
    (verb, *options), method, arguments, further = request[0].split(), *request[1:]
    if say is None:
        words = ", ".join(f'"{text}"' if name == "formula" else f'{name}="{text}"' for name, text in arguments.items())
        return f"log.{method}({words}){further}"
    for name, text in arguments.items():
        options += [text] if name == "formula" else [f"--{name}", text]
    return say(verb, [*options, *(["-o", "report.html"] if verb == "report" else [])])


def _tried(ask: Callable[[], Any]) -> tuple[Any, EvalregError | None]:
    """An answer without its warnings, or why evalreg refuses to give one."""
    with muted():
        try:
            return ask(), None
        except EvalregError as error:
            return None, error


def question(log: AnyLog) -> list[str]:
    """Columns that tell questions apart: of several tasks, task and item."""
    if "item" in log.roles:
        return ["task", "item"] if log._several("task") else ["item"]
    return ["prompt"] if "prompt" in log.roles else []


def unnamed_roles(log: AnyLog) -> dict[str, str]:
    """Columns of a table that are called like those of models, questions or prompts, where none has that role."""
    if log.format not in ("table", "frame") or "prompt" in log.roles:
        return {}
    frame = log._reading.frame
    if "left" in log.roles:
        return likely_prompt(frame)
    likely = likely_roles(frame, ("model", "item"))
    return {role: column for role, column in likely.items() if role == "item" or frame[column].nunique() > 1}


def _counts(log: AnyLog) -> dict[str, int | str]:
    """Format, rows, and how many values each role has."""
    frame, roles = log._reading.frame, log.roles
    counts: dict[str, int | str] = {"format": log.format, "rows": len(frame)}
    counts |= {"runs": len(log.runs)} if log.runs else {}
    named = ("model", "task", "prompt", "judge", "sample")
    counts |= {f"{role}s": int(frame[role].nunique()) for role in named if role in roles}
    if "left" in roles:
        counts["models"] = len(pd.unique(pd.concat([frame["left"], frame["right"]]).dropna()))
    if "item" in roles:
        counts["items"] = len(frame[question(log)].dropna().drop_duplicates())
    return counts


def _models(log: AnyLog) -> pd.DataFrame:
    """A row for each model: how much there is of it, and its mean or win rate."""
    frame, pairs, ids = log._reading.frame, "left" in log.roles, question(log)
    if pairs:
        frame = pd.concat([frame.assign(model=frame[side]) for side in ("left", "right")], ignore_index=True)
    elif "model" not in log.roles:
        frame = frame.assign(model="all")

    def by(columns: pd.DataFrame) -> Any:
        return columns.groupby("model", sort=True, observed=True)

    table = pd.DataFrame({"rows": by(frame).size()})
    if ids:
        answered = frame.dropna(subset=ids).drop_duplicates(["model", *ids])
        table["prompts" if "prompt" in ids else "items"] = by(answered).size()
    outcome = "winner" if "winner" in log.roles else "score"
    table["missing"] = by(frame[[outcome]].isna().assign(model=frame["model"]))[outcome].sum()
    if pairs:
        rates, _ = _tried(lambda: log.win_rate(groups="prompt" if ids else None).params)
        return table if rates is None else table.assign(win_rate=rates.reindex(table.index))
    if is_numeric_dtype(frame["score"]):
        if "sample" in log.roles:  # of several answers to a question the mean counts as one
            frame = frame.groupby(["model", *ids], observed=True)[["score"]].mean()
        table["mean"] = by(frame)["score"].mean().astype(float)
    return table


# Clusters


def candidates(frame: pd.DataFrame, ids: list[str]) -> Iterator[str]:
    """Columns that may be clusters: several values, fewer than questions, the same in all rows of a question.

    A column that holds a role itself, under its name in the table, is none.
    """
    roles = [frame[role].astype(object) for role in ROLES if role in frame.columns]
    n_questions = len(frame[ids].dropna().drop_duplicates()) if ids else len(frame)
    for column in [str(column) for column in frame.columns if column not in (*ROLES, *ARGUMENTS)][:MOST_COLUMNS]:
        values = frame[column]
        present = values.dropna()
        if is_float_dtype(values) and len(present) < len(values) and not (present % 1).any():
            present = present.astype(int)  # whole numbers of which some are missing
        plain = all(isinstance(value, str | int | np.generic) for value in present.head(100))
        if (
            not plain
            or is_float_dtype(present)
            or is_count(column)
            or column.startswith("judge.")
            or not 2 <= present.nunique() < n_questions
        ):
            continue
        within = bool(ids) and frame[[*ids, column]].dropna().drop_duplicates().duplicated(ids).any()
        if not within and not any((values.eq(role) | values.isna()).all() for role in roles):
            yield column


def candidate_clusters(log: AnyLog) -> pd.DataFrame:
    """Columns that hold several questions a value, with what they would do to the error bars."""
    frame, rows, pairs = log._reading.frame, {}, "left" in log.roles
    judged = [role for role in ("prompt", "judge") if pairs and log._several(role)]
    # The rows of a question that nobody named may be several answers to it, and alike.
    unnamed = [unnamed_roles(log)["item"]] if "item" in unnamed_roles(log) else []
    for column in [*judged, *candidates(frame, unnamed or question(log)), *unnamed]:
        results, _ = _tried(partial(log.win_rate if pairs else log.mean, groups=_named(log, column)))
        depends = None if results is None else _tried(results.dependence)[0]
        icc = pd.Series([] if depends is None else depends["icc"], dtype=float)
        effects = pd.Series([] if results is None else results.to_frame()["design_effect"], dtype=float)
        icc, effects = icc[np.isfinite(icc)], effects[np.isfinite(effects)]
        sizes = frame[[*(["task"] if _named(log, column).startswith("task:") else []), column]].value_counts()
        rows[column] = (len(sizes), sizes.iloc[0] / sizes.sum(), icc.median(), effects.median(), effects.max())
    columns = ["clusters", "largest_share", "icc", "design_effect", "largest_design_effect"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.sort_values("design_effect", ascending=False, kind="stable", na_position="last")


def _named(log: AnyLog, column: str) -> str:
    """A column as `groups` takes it; questions that nobody named may be numbered anew in each task."""
    name = f"`{column}`" if set("+: ") & set(column) else column
    return f"task:{name}" if column == unnamed_roles(log).get("item") and log._several("task") else name


def _read(clusters: pd.DataFrame, n_questions: int) -> Iterator[str]:
    """How the table of clusters is to be read."""
    if not clusters["design_effect"].notna().any():
        return
    yield (
        "deff: how many times as large the variance of an estimate is with such clusters, for the middle model and for "
        "the one where it is largest. A column well above 1 belongs in `groups`, if its values were drawn and others "
        "could have taken their place."
    )
    kinds = clusters["clusters"].drop([*ROLES], errors="ignore")
    few = [str(name) for name, n in kinds.items() if n < FEW_CLUSTERS < n_questions]
    if few:
        yield (
            f"{listed(few, joiner=' and ')} {'have' if len(few) > 1 else 'has'} few values. Kinds of questions, which "
            "another draw of the benchmark would have again, are strata: name them in `strata`, or in `by` for an "
            "estimate of each."
        )


def _widest(clusters: pd.DataFrame, surely: bool = True) -> pd.DataFrame:
    """The field that widens the error bars most; `surely` only where it does so by more than chance, for some model.

    Chance moves the variance of G clusters by sqrt(2/(G - 1)).
    """
    many = clusters[clusters["clusters"] >= FEW_CLUSTERS]
    chance = np.sqrt(2 / (many["clusters"] - 1))
    beyond = many["largest_design_effect"] > 1 + TELLING * chance
    widest: pd.DataFrame = many[beyond if surely else beyond | (many["design_effect"] > 1)].head(1)
    return widest


def _alike(log: AnyLog, clusters: pd.DataFrame) -> Iterator[str]:
    """That questions are alike in some field, where they are taken to be independent."""
    if "item" not in log.roles or "left" in log.roles:
        return
    for column, row in _widest(clusters).iterrows():
        of = "" if row["design_effect"] == row["largest_design_effect"] else " of one model"
        yield (
            f'Questions are taken to be independent, but those with one value of "{column}" are alike: clustered by it '
            f"({row['clusters']:.0f} values) standard errors{of} are "
            f"{np.sqrt(row['largest_design_effect']):.2f} times as large. "
            "Name it in `groups`, or in `strata` if its values are all there are."
        )


# Remarks


def _remarks(log: AnyLog, clusters: Sequence[str]) -> Iterator[str]:
    """Sentences on what may be wrong with a log; none where nothing is."""
    frame, roles, unnamed = log._reading.frame, log.roles, unnamed_roles(log)
    seems = {role: f' "{column}" seems to be it: see the first command.' for role, column in unnamed.items()}
    named = (role for role in ("model", "left", "right", "item", "prompt", "task", "judge") if role in roles)
    for column in dict.fromkeys((*named, *clusters)):
        if without := int(frame[column].isna().sum()):
            rows = counted(len(frame), "row")
            yield f'{without:,} of {rows} have no "{column}": an estimate that needs it leaves them out.'
        if alike := spelled_alike(frame[column].dropna().unique()):
            yield (
                f'Column "{column}": values that differ by blanks, case, zeros or the encoding of letters alone '
                f"({len(alike)}), first {quoted_pair(alike[0])}. They count as different ones. Give them one spelling "
                "if they are the same."
            )
    if "left" in roles:
        ids = ["left", "right", *(log.key or [role for role in ("prompt", "judge", "order") if role in roles])]
        again = frame[ids][frame.duplicated(ids)]
        if "prompt" in seems:
            yield (
                "No column has the role of the prompt: comparisons on one prompt would be taken as independent."
                f"{seems['prompt']}"
            )
        elif len(again):
            rows = "1 row repeats" if len(again) == 1 else f"{len(again)} rows repeat"
            first = " ".join(map(str, again.iloc[0]))
            yield f"{rows} {listed(ids, joiner=' and ')} of a row above, first {first}."
        yield from (*_position(frame), *_sparse(frame))
        return
    if "model" in seems:
        yield f"No column has the role of the model: rows of all are taken together.{seems['model']}"
    if "item" not in roles:
        yield (
            "No column has the role of the question (item): models cannot be compared on the same questions."
            f"{seems.get('item', '')}"
        )
        return
    yield from _within(frame, [*question(log), *(["prompt"] if "prompt" in roles else [])])
    if not clusters and len(frame) > 1:
        yield "No field groups several questions: questions are the clusters."


def _within(frame: pd.DataFrame, ids: list[str]) -> Iterator[str]:
    """Answers of unequal number, and fields that differ within a question."""
    if "model" in frame and "sample" in frame:
        count = frame.groupby(["model", *ids], observed=True).size()
        if count.min() < count.max():
            yield f"Questions have {count.min()} to {count.max()} answers of a model; each question weighs the same."
    keys = frame.groupby(ids, sort=False, observed=True, dropna=False).ngroup()
    for column in map(str, frame.columns):
        nested = "." in column and not column.startswith(("model.", "prompt.", "judge."))
        if nested and all(isinstance(value, str | int | float | None) for value in frame[column].head(100)):
            different = frame[column].groupby(keys).nunique()
            if n_other := int((different > 1).sum()):
                yield f"{n_other} of {len(different)} questions differ in {column} within: one id, two contents?"


def _position(frame: pd.DataFrame) -> Iterator[str]:
    """How often the left side wins, and by how many standard errors that is more than half."""
    from evalreg.estimators.mean import mean

    won = frame.get("score")
    if "winner" in frame:
        winner, left, right = (frame[name].astype(object) for name in ("winner", "left", "right"))
        winner = winner.mask(winner == left, "left").mask(winner == right, "right")
        won = winner.map({"left": 1.0, "tie": 0.5, "right": 0.0})
        if won.count() < winner.count():  # a verdict of another kind, which an estimate refuses
            return
    results, _ = _tried(lambda: mean(frame.assign(won=won), "won", groups="prompt" if "prompt" in frame else None))
    if results is None:
        return
    pairs = frame[["left", "right"]].drop_duplicates()
    if pairs.merge(pairs, left_on=["left", "right"], right_on=["right", "left"]).empty:
        yield "No pair was shown in both orders: an advantage of the left side cannot be told from the models' own."
        return
    share, se = float(results.params.iloc[0]), float(results.bse.iloc[0])
    far = abs(share - 0.5) > TELLING * se > 0
    advice = " Position matters: `--method bradley-terry --formula 1` takes it out." if far else ""
    yield f"The left side wins {share:.1%} of the comparisons, ties as halves (SE {se:.1%}).{advice}"


def _sparse(frame: pd.DataFrame) -> Iterator[str]:
    """Pairs of models that never met, or met on one prompt only; and a judge alone."""
    frame = frame.dropna(subset=["left", "right"])
    pairs = pd.DataFrame(np.sort(frame[["left", "right"]].astype(str), axis=1), frame.index, ["first", "second"])
    by_pair = frame.groupby([pairs["first"], pairs["second"]])
    prompts = by_pair["prompt"].nunique() if "prompt" in frame else by_pair.size()
    models = pd.unique(pairs.to_numpy().ravel())
    possible = len(models) * (len(models) - 1) // 2
    centre = [name for name in models if (pairs == name).any(axis=1).all()]
    if centre and len(models) > 2:
        yield f"Every comparison is with {centre[0]}: other models never met, and share its answers."
    elif len(prompts) < possible:
        yield f"{possible - len(prompts)} of {possible} pairs of models never met."
    if alone := int((prompts == 1).sum()):
        yield f"{alone} of {len(prompts)} pairs met on a single prompt: their own error bars say little."
    if "judge" in frame and frame["judge"].nunique() == 1:
        yield "There is one judge: what others would say is not known."


# What to ask next


def _next_questions(log: AnyLog, clusters: pd.DataFrame) -> Iterator[Question]:
    """Questions that make sense next, a report at the end; groups are those that widen the error bars most."""
    # To cluster where there is nothing costs little; not to, where there is something, makes error bars too short.
    by = next((_named(log, str(column)) for column in _widest(clusters, surely=False).index), None)
    groups, board = {} if by is None else {"groups": by}, ".leaderboard()"
    unnamed = unnamed_roles(log)
    by_model = {"by": unnamed["model"]} if "model" in unnamed else {}
    if "left" in log.roles:
        groups = {}
        yield "leaderboard", "win_rate", {}, board
        if log._several("judge"):
            yield "leaderboard", "win_rate", {"groups": "prompt"}, board
        yield "leaderboard --method bradley-terry", "bradley_terry", {}, board
    else:
        yield "mean", "mean", by_model | groups, ""
        if log._several("model") and "item" in log.roles:
            yield "compare", "compare", groups, ""
        # A board ranks models, over all tasks; means are those of each task.
        by_model |= {"by": "model"} if log._several("model") and log._several("task") else {}
        if by_model or log._several("model"):
            yield "leaderboard", "mean", by_model | groups, board
        elif not log._several("task") and "sample" not in log.roles:  # of answers a regression counts each
            joint = by or ":".join(question(log))
            yield "fit", "fit", {"formula": "score ~ 1"} | ({"groups": joint} if joint else {}), ""
    yield "report", "win_rate" if "left" in log.roles else "mean", by_model | groups, '.report("report.html")'
