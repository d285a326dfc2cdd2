"""What a log holds and what may be wrong with it: counts, candidate clusters, remarks, and what to ask next."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import listed
from evalreg.errors import EvalregError, muted
from evalreg.logs.overlooked import FEW_CLUSTERS, candidates, is_called_kind, is_kind, overlooked
from evalreg.logs.remarks import remarks
from evalreg.logs.table_log import likely_roles
from evalreg.report.tables import Grid, Summary, number

# A `Log`, whose module imports this one.
AnyLog: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What a log holds, what may be wrong with it, and what to ask of it next; it prints as tables.

    Parameters
    ----------
    counts : dict
        Format, runs, and how many values each role has.
    left_out : dict
        Records that are not a score, by reason.
    models : DataFrame
        Indexed by model: rows, items (prompts), missing scores, and the mean or the win rate.
    clusters : DataFrame
        Indexed by column: clusters, largest_share, and over models the median of the icc and of the design_effect of
        the mean score, and largest_design_effect.
    remarks : tuple of str
        What may be wrong.
    commands : tuple of str
        Questions that make sense next, a report at the end.

    See Also
    --------
    Log.doctor : The diagnosis of a log.
    """

    counts: dict[str, int | str]
    left_out: dict[str, int]
    models: pd.DataFrame
    clusters: pd.DataFrame
    remarks: tuple[str, ...]
    commands: tuple[str, ...]

    def __str__(self) -> str:
        """The tables as text, 80 columns wide, and the commands, to be copied."""
        lines = [f"  {line}" for command in self.commands for line in _broken(command)]
        return "\n".join([self.summary().as_text(), *(["", "What to ask next:", "", *lines] if lines else [])])

    def as_markdown(self) -> str:
        """The same as Markdown.

        Returns
        -------
        str
            Tables, a list of remarks, and the commands as a block of code.
        """
        block = ["", "What to ask next:", "", "```sh", *self.commands, "```"] if self.commands else []
        return "\n".join([self.summary().as_markdown(), *block])

    def summary(self) -> Summary:
        """Tables and remarks, without the commands.

        Returns
        -------
        Summary
            With `as_text`, `as_markdown`, `as_html` and `as_latex`.
        """
        left_out = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
        facts = (
            *((name.capitalize(), str(value)) for name, value in self.counts.items()),
            ("Left out", left_out or "none"),
        )
        grids = [_grid(self.models, "model"), *([_grid(self.clusters, "clusters by")] if len(self.clusters) else [])]
        return Summary("evalreg doctor", facts, tuple(grids), self.remarks)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON.

        Returns
        -------
        dict
            Of plain values; tables are lists of rows.
        """
        return {
            "clusters": self.clusters.rename_axis("column").reset_index().to_dict("records"),
            "commands": list(self.commands),
            "counts": self.counts,
            "left_out": self.left_out,
            "models": self.models.rename_axis("model").reset_index().to_dict("records"),
            "remarks": list(self.remarks),
        }


def _broken(command: str, width: int = 76) -> Iterator[str]:
    """A command on lines of that width, which a shell joins again; words in quotes and options stay whole."""
    line = ""
    for word in re.findall(r"-[\w-]+ (?:'[^']*'|[^-' ][^ ]*)|'[^']*'|[^ ]+", command):
        if line and len(line) + 1 + len(word) > width - 2:
            yield f"{line} \\"
            line = f"    {word}"
        else:
            line = f"{line} {word}" if line else word
    yield line


def _grid(table: pd.DataFrame, first: str) -> Grid:
    """A table with its numbers as summaries print them."""
    headers = {"largest_share": "largest", "design_effect": "deff", "largest_design_effect": "largest deff"}
    rows = [
        (str(name), *(_cell(value) for value in row))
        for name, row in zip(table.index, table.itertuples(index=False), strict=True)
    ]
    return Grid((first, *(headers.get(column, column.replace("_", " ")) for column in table.columns)), tuple(rows))


def _cell(value: Any) -> str:
    if isinstance(value, int | np.integer):
        return str(value)
    return "-" if np.isnan(value) else number(float(value))


def diagnose(log: AnyLog, say: Callable[[str, list[str]], str] | None = None) -> Diagnosis:
    """The diagnosis of a log; `say` words a question with its arguments as a command."""
    frame = log._reading.frame
    clusters = candidate_clusters(log)
    asked = list(_asked(log, clusters))
    commands = tuple(_next(log, asked, say or partial(_python, "left" in log.roles)))
    return Diagnosis(
        counts=_counts(log),
        left_out={str(reason): int(count) for reason, count in log.left_out.items()},
        models=_models(log),
        clusters=clusters,
        remarks=(
            *log.notes,
            *remarks(frame, log.roles, clusters.index.tolist(), unnamed_question(log)),
            *_told(clusters, kinds(log, clusters)),
            *_alike(log),
            *_refused(frame, asked[0][2], commands),
        ),
        commands=commands,
    )


def _alike(log: AnyLog) -> Iterator[str]:
    """The field that widens the error bars of a mean most, where questions are taken to be independent."""
    if "item" in log.roles and "left" not in log.roles:
        results = _quietly(log.mean)
        if results is not None:
            yield from (text for _, text in overlooked(results, candidates(log._reading.frame, question(log))))


def _counts(log: AnyLog) -> dict[str, int | str]:
    """Format, rows, and how many values each role has."""
    frame, found = log._reading.frame, {"format": log.format}
    counts: dict[str, int | str] = {**found, "rows": len(frame)}
    if log.runs:
        counts["runs"] = len(log.runs)
    for role, name in (("model", "models"), ("task", "tasks"), ("prompt", "prompts"), ("judge", "judges")):
        if role in log.roles:
            counts[name] = int(frame[role].nunique())
    if "left" in log.roles:
        counts["models"] = len(pd.unique(pd.concat([frame["left"], frame["right"]]).dropna()))
    if "item" in log.roles:
        counts["items"] = len(frame[question(log)].drop_duplicates())
    if "sample" in log.roles:
        counts["samples"] = int(frame["sample"].nunique())
    return counts


def question(log: AnyLog) -> list[str]:
    """Columns that tell questions apart: of several tasks, task and item."""
    if "item" in log.roles:
        return ["task", "item"] if log._several("task") else ["item"]
    return ["prompt"] if "prompt" in log.roles else []


def unnamed_question(log: AnyLog) -> str | None:
    """The column of a table that is called like one of questions, where none has that role."""
    if log.format not in ("table", "frame") or {"item", "left", "prompt"} & set(log.roles):
        return None
    return likely_roles(log._reading.frame, ("item",)).get("item")


def _models(log: AnyLog) -> pd.DataFrame:
    """A row for each model: how much there is of it, and its mean or win rate."""
    frame = log._reading.frame
    if "left" in log.roles:
        sides = [frame.assign(model=frame[side]) for side in ("left", "right")]
        frame = pd.concat(sides, ignore_index=True)
    elif "model" not in log.roles:
        frame = frame.assign(model="all")
    by = frame.groupby("model", sort=True, observed=True)
    outcome = "winner" if "winner" in log.roles else "score"
    table = pd.DataFrame({"rows": by.size()})
    if question(log):
        table["prompts" if "prompt" in question(log) else "items"] = (
            frame.drop_duplicates(["model", *question(log)]).groupby("model", sort=True, observed=True).size()
        )
    table["missing"] = frame[outcome].isna().groupby(frame["model"], observed=True).sum()
    if "left" not in log.roles and pd.api.types.is_numeric_dtype(frame["score"]):
        table["mean"] = by["score"].mean().astype(float)
    elif "left" in log.roles:
        rates = _quietly(lambda: log.win_rate(groups=None if not question(log) else "prompt").params)
        if rates is not None:
            table["win_rate"] = rates.reindex(table.index)
    return table


def _quietly(ask: Callable[[], Any]) -> Any:
    """An answer without its warnings; None where evalreg refuses to give one."""
    with muted():
        try:
            return ask()
        except EvalregError:
            return None


def candidate_clusters(log: AnyLog) -> pd.DataFrame:
    """Columns that hold several questions a value, with what they would do to the error bars."""
    rows = {}
    for column in _candidates(log):
        results = _quietly(partial(_clustered, log, column))
        size = log._reading.frame[column].value_counts()
        effect = np.full(1, np.nan) if results is None else results.design_effect().to_numpy(dtype=float)
        icc = None if results is None else _quietly(results.icc)
        rows[column] = {
            "clusters": len(size),
            "largest_share": float(size.iloc[0] / size.sum()),
            "icc": _median(np.array([np.nan]) if icc is None else icc.to_numpy(dtype=float)),
            "design_effect": _median(effect),
            "largest_design_effect": float(np.nanmax(effect)) if np.isfinite(effect).any() else np.nan,
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    if not len(table):
        return pd.DataFrame(columns=["clusters", "largest_share", "icc", "design_effect", "largest_design_effect"])
    table = table.sort_values("design_effect", ascending=False, kind="stable", na_position="last")
    # Kinds of questions stand last: what they would do as clusters is not what they are.
    of_kind = table.index.isin(kinds(log, table))
    return pd.concat([table[~of_kind], table[of_kind]])


def kinds(log: AnyLog, clusters: pd.DataFrame) -> list[str]:
    """Columns that seem to say of which kind a question is; of comparisons none is known to."""
    if "left" in log.roles:
        return []
    asked = log._reading.frame[question(log)].drop_duplicates() if question(log) else log._reading.frame
    return [str(name) for name in clusters.index if is_kind(str(name), int(clusters["clusters"][name]), len(asked))]


def _told(clusters: pd.DataFrame, of_kind: Sequence[str]) -> Iterator[str]:
    """What the table of clusters says, where there is one with numbers."""
    if not clusters["design_effect"].notna().any():
        return
    yield (
        "deff: how many times as large the variance of an estimate is with such clusters, for the middle model and for "
        "the one where it is largest. A column well above 1 belongs in `groups`"
        f"{', unless it is a kind of question' if of_kind else ''}."
    )
    named = [name for name in of_kind if is_called_kind(name)]
    for name in (name for name in of_kind if name not in named):
        yield (
            f'"{name}" has few values ({clusters["clusters"][name]}) with many questions each, and its name does not '
            "tell what they are. Kinds of questions, which another draw of the benchmark would have again, are strata: "
            "name them in `strata`, or in `by` for an estimate of each. Clusters that others could have taken the "
            "place of, such as sites or sources that happened to be asked, belong in `groups`. The commands below take "
            "them for kinds."
        )
    if named:
        many = len(named) > 1
        yield (
            f"{listed(named, joiner=' and ')} {'seem' if many else 'seems'} to say of which kind a question is: few "
            "values with many questions each, which the benchmark would have again. Such a column is a stratum, not a "
            "cluster that was drawn: name it in `strata`, or in `by` for an estimate of each. Only if its values are a "
            "sample of others, and the result is about those too, it belongs in `groups`."
        )


def _clustered(log: AnyLog, column: str) -> Any:
    quoted = f"`{column}`"
    return log.win_rate(groups=quoted) if "left" in log.roles else log.mean(groups=quoted)


def _median(values: Any) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else np.nan


def _candidates(log: AnyLog) -> Iterator[str]:
    """Prompts and judges of comparisons, and the fields that may be clusters."""
    if "left" in log.roles:
        yield from (role for role in ("prompt", "judge") if log._several(role))
    yield from candidates(log._reading.frame, question(log))


def _asked(log: AnyLog, clusters: pd.DataFrame) -> Iterator[Question]:
    """Questions that make sense next, a report at the end; groups are those that widen the error bars most."""
    asked = list(_of_pairs(log) if "left" in log.roles else _of_scores(log, clusters))
    yield from asked
    _, options, ask = asked[0]
    yield "report", [*options, *_one_prompt(log), "-o", "report.html"], ask


def _refused(frame: pd.DataFrame, ask: Callable[[], Any], commands: Sequence[str]) -> Iterator[str]:
    """Why no estimate can be had yet, and what to do: the error that the first question ends in."""
    if len(frame) < 2 or any(command for command in commands if "doctor" not in command):
        return
    try:
        with muted():
            ask()
    except EvalregError as error:
        yield f"No estimate can be had before this is settled: {error}"


def _next(log: AnyLog, asked: list[Question], say: Callable[[str, list[str]], str]) -> Iterator[str]:
    """The questions that have an answer."""
    item = unnamed_question(log)
    if item is not None:
        named = {role: role for role in log.roles} | {"item": item}
        yield say("doctor", ["--roles", ",".join(f"{role}={column}" for role, column in named.items())])
    answer = cache(_quietly)  # the report asks the first question again
    found = [say(verb, options) for verb, options, ask in asked if answer(ask) is not None]
    yield from dict.fromkeys(found)


Question: TypeAlias = tuple[str, list[str], Callable[[], Any]]


def _of_pairs(log: AnyLog) -> Iterator[Question]:
    yield "leaderboard", [], lambda: log.win_rate().leaderboard()
    if "prompt" in log.roles:
        yield "leaderboard", ["--groups", "prompt"], lambda: log.win_rate(groups="prompt").leaderboard()
    yield "leaderboard", ["--method", "bradley-terry"], lambda: log.bradley_terry().leaderboard()


def _of_scores(log: AnyLog, clusters: pd.DataFrame) -> Iterator[Question]:
    drawn = [name for name in clusters.index if name not in kinds(log, clusters)]
    wide = [name for name in drawn if clusters["clusters"][name] >= FEW_CLUSTERS]
    wide = [name for name in wide if clusters["design_effect"][name] > 1] or wide
    by = _quoted(str(wide[0])) if wide else None
    groups = [] if by is None else ["--groups", by]
    yield "mean", groups, lambda: log.mean(groups=by)
    if log._several("model") and "item" in log.roles:
        kept = _one_prompt(log)
        one = log._kept({"subset": kept[1]}) if kept else log
        yield "compare", [*groups, *kept], lambda: one.compare(groups=by)
        yield "leaderboard", [*groups, *kept], lambda: one.mean(by="model", groups=by).leaderboard()
        return
    own = by or ":".join(question(log)) or None
    yield "fit", ["score ~ 1", *([] if own is None else ["--groups", own])], lambda: log.fit("score ~ 1", groups=own)
    # A mean of each question is no answer to anything.
    unnamed = unnamed_question(log)
    parts = [name for name in clusters.index if name != unnamed]
    if parts:
        part = str(clusters["clusters"][parts].idxmin())
        # A mean of one cluster has no error bar: there questions are the clusters.
        own, groups = (None, []) if part == (wide[0] if wide else None) else (by, groups)
        yield "mean", ["--by", part, *groups], lambda: log.mean(by=part, groups=own)
    else:
        yield "mean", ["--format", "json"], log.mean


def _one_prompt(log: AnyLog) -> list[str]:
    """The option that keeps one prompt where there are scores of several, over which nothing is averaged unasked."""
    if "left" in log.roles or not log._several("prompt"):
        return []
    first = log._reading.frame["prompt"].dropna().iloc[0]
    return ["--where", f"prompt == {json.dumps(str(first), ensure_ascii=False)}"]


def _quoted(name: str) -> str:
    return f"`{name}`" if set("+: ") & set(name) else name


def _python(pairs: bool, verb: str, options: list[str]) -> str:
    """The question as Python, for a log that was made from a frame; of comparisons where `pairs`."""
    values = dict(pairwise(options))
    if verb == "doctor":
        named = (part.split("=", 1) for part in values["--roles"].split(","))
        roles = ", ".join(f'{role}="{column}"' for role, column in named if role != column)
        return f"er.Log(log.frame, {roles}).doctor()"
    words = [f'{name}="{values[f"--{name}"]}"' for name in ("by", "groups") if f"--{name}" in values]
    words += [f"subset={values['--where']!r}"] if "--where" in values else []
    if verb == "fit":
        words = ['"score ~ 1"', *words]
    if verb == "report":
        return f'log.{"win_rate" if pairs else "mean"}({", ".join(words)}).report("report.html")'
    if verb != "leaderboard":
        return f"log.{verb}({', '.join(words)})"
    if "--method" in values:
        return f"log.bradley_terry({', '.join(words)}).leaderboard()"
    return f"log.{'win_rate' if pairs else 'mean'}({', '.join(words)}).leaderboard()"
