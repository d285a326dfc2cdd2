"""What the commands compute: a public function on what was read, and further questions put to its result."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import evalreg as er
from evalreg.checks import accessing, counted, issue, muted, passed
from evalreg.cli.commands import Command, common_options
from evalreg.cli.options import Option, options_of, typed_value, words
from evalreg.cli.reading import Rows, defaults, named_files, read, reading_options, with_hint
from evalreg.data.clusters import known_column
from evalreg.data.where import as_name
from evalreg.errors import ArgumentError, EvalregError, LogFormatError, NotAvailableError
from evalreg.logs.files import Source
from evalreg.logs.log import log_of, unread_runs, within
from evalreg.logs.reading import ROLES
from evalreg.logs.tables import holds_results

# Options that ask the result, and the method that answers.
LATER = {"ranks": "leaderboard", "best": "winner", "joint": "joint_test", "wild": "wild_test"}
METHODS = {"win-rate": "win_rate", "bradley-terry": "bradley_terry", "controlled": "controlled_win_rate"}
# What the end of a file says of the format in it.
SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".tex": "latex", ".json": "json"}
SUFFIXES |= {".csv": "csv", ".parquet": "parquet", ".txt": "text", ".log": "text", "": "text"}


@dataclass(frozen=True, eq=False)
class Reply:
    """What a command replies, before it is printed."""

    result: Any  # with `summary`, `to_frame` and the like; a text is printed as it is
    rows: Rows | None = None
    more: Mapping[str, Any] = field(default_factory=dict)  # further answers by name, printed below
    gate: Any = None
    sentence: str = ""  # an answer in words, below the tables
    beside: Mapping[str, Rows] = field(default_factory=dict)  # rows of several results, by their names


@dataclass(frozen=True, eq=False)
class Request:
    """The options of a command line that were given."""

    command: Command
    options: Mapping[str, Any]
    files: Sequence[str] = ()
    typed: str = ""  # the whole command, as a shell takes it
    form: Any = "text"  # the format of what is printed

    def of(self, function: str) -> dict[str, Any]:
        """Those that are parameters of a function of the command."""
        names = self.command.names[function]
        return {name: value for name, value in self.options.items() if name in names}

    def among(self, *names: str) -> dict[str, Any]:
        """Those of these names."""
        return {name: self.options[name] for name in names if name in self.options}

    def refuse_others(self, function: str, besides: Sequence[str] = ()) -> None:
        """Refuse options of the command's other functions: they would have no effect."""
        every = frozenset({"method"}).union(*self.command.names.values())
        of_board = {"method"} if function in METHODS.values() else set()
        used = {*self.command.names[function], *of_board, *besides, "alpha", "seed"}
        lost = [name for name in self.options if name in every - used]
        if lost:
            raise ArgumentError(
                f"`{lost[0]}` does not go with what is estimated here ({function.replace('_', ' ')}). Leave it out.",
                parameter=lost[0],
            )

    def read(self, rows: Rows) -> list[str]:
        """What was read and kept for this command, and what is taken together."""
        is_doctor = self.command.name == "doctor"
        lines = [] if is_doctor else rows.read
        lines += [f"Rows kept: {rows.filter_note}."] if rows.filter_note else []
        has_by = any("by" in names for names in self.command.names.values())
        return [*lines, *rows.pooled(self.options, has_by, is_doctor)]

    def reading(self, besides: Sequence[str] = (), more: Iterable[Option] = ()) -> list[str]:
        """The options of every command, and `more`, that were given and change a number, as they are typed."""
        chosen = self.options.keys() - {"format", "details", "spreadsheet", "summary"}
        options = (option for option in (*common_options(self.command), *more) if option.name in chosen)
        pairs = ((option.flag, typed_value(self.options[option.name])) for option in options)
        return [word for flag, value in pairs if flag not in besides for word in (flag, value)]

    def instead(self, verb: str, function: str) -> str:
        """Another command on what was read here, with the options that its function has too."""
        return shlex.join(["evalreg", verb, *self.files, *self.reading(more=options_of(function))])

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option, or its default."""
        return self.options.get(name, default)

    @property
    def alpha(self) -> float:
        """The level."""
        return float(self.get("alpha", 0.05))


@contextmanager
def explained(rows: Rows) -> Iterator[None]:
    """Say of an error what the rows it counts are, and which column may be meant."""
    try:
        yield
    except EvalregError as error:
        with_hint(error, rows)
        if error.rows:
            error.add_note(f"(Row 0 is the first below the header{' of those kept' if rows.filter_note else ''}.)")
        raise


@contextmanager
def _of_option(name: str, **others: str) -> Iterator[None]:
    """Let an error that names no parameter name this option; `others` are options for parameters of other names."""
    try:
        yield
    except EvalregError as error:
        error.parameter = name if error.parameter is None else others.get(error.parameter, error.parameter)
        raise


def call(function: str, rows: Rows, options: Mapping[str, Any]) -> Any:
    """A public function of the log of a harness, or of other rows with the roles that columns have."""
    with explained(rows):
        for option in options_of(function):
            if option.required and option.name not in {"data", *ROLES, *options}:
                raise ArgumentError(f"`{option.name}` must be named: {option.summary}", parameter=option.name)
        data = rows.wide if rows.log is None else rows.log
        return getattr(er, function)(data=data, **defaults(rows, function, options), **options)


def refuse_pairs(rows: Rows, request: Request) -> None:
    """Refuse verdicts on two models in the place of scores of single ones."""
    if rows.pairs and "score" not in request.options:
        rule = "the rows compare two models, and have no scores of single ones"
        raise ArgumentError(f"{rule}. Their board: {request.instead('leaderboard', 'win_rate')}")


def estimated(request: Request) -> Reply:
    """A command whose line names one function."""
    (function,) = request.command.functions
    if "~" not in request.get("formula", "~") and any("~" in file for file in request.files):
        raise ArgumentError("the formula comes before the file.", parameter="formula")
    rows = read(request.files, request.options)
    if function in ("mean", "compare", "noise"):
        refuse_pairs(rows, request)
    options = request.of(function)
    if function == "summarise":
        return _summed(request, rows, options)
    result = call(function, rows, options)
    result = result if function == "fit" else subject_of(result, rows)
    sentence = ""
    if function == "components" and request.get("design"):
        error = result.standard_error(**request.get("design"))
        sentence = f"Standard error of the mean of that design: {error:.6g}"
    return _with_later(Reply(result, rows, sentence=sentence), request)


def _summed(request: Request, rows: Rows, options: dict[str, Any]) -> Reply:
    output = request.get("output")
    if output in (None, "-"):
        raise ArgumentError("sums go to a file: name it by --output, such as -o monday.parquet.", parameter="output")
    sums = call("summarise", rows, options | {"path": output})
    lines = [f"Wrote {output}: sums of {counted(sums.n_rows, 'row')}.", *request.read(rows)]
    return Reply("\n".join(lines) + "\n")


def subject_of(result: Any, rows: Rows) -> Any:
    """The result with the names of what one model's score is of: model, task, scorer."""
    estimate = getattr(result, "estimate", None)
    if estimate is None or rows.harness is None:
        return result
    model = rows.only("model") or _alike(run.model for run in rows.harness.runs)
    task = rows.only("task") or _alike(run.task for run in rows.harness.runs)
    scorer = rows.only("metric") or _alike(str(run.details.get("scorer", "")) for run in rows.harness.runs)
    name = " on ".join(filter(None, (model, task))) + (f" ({scorer})" if scorer else "")
    return replace(result, estimate=replace(estimate, about=replace(estimate.about, subject=name))) if name else result


def _alike(values: Iterator[str]) -> str:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


def _with_later(reply: Reply, request: Request) -> Reply:
    """What further options ask of the result: ranks, the best, tests, a gate, a figure."""
    result, alpha, more = reply.result, request.alpha, dict(reply.more)
    answers = {"leaderboard": more["board"]} if "board" in more else {}
    several = getattr(getattr(getattr(result, "estimate", None), "about", None), "n_models", 2)
    for name, method in LATER.items():
        if not request.get(name):
            continue
        if several < 2 and name in ("ranks", "best"):
            raise ArgumentError(
                f"`{name}` is for two or more models; here is one. Name the column of the models.", parameter=name
            )
        options: dict[str, Any] = {} if method == "joint_test" else {"alpha": alpha, "seed": request.get("seed", 0)}
        options |= {"draws": request.get("draws", 9999)} if method == "wild_test" else {}
        if method not in answers:
            with _of_option(name):
                answers[method] = getattr(result, method)(**options)
        more[name] = answers[method]
    gate = result.gate(request.get("gate"), alpha=alpha) if request.get("gate") is not None else None
    if request.get("figure"):
        draw(lambda: result.plot(alpha=alpha), request.get("figure"))
    return replace(reply, more=more, gate=gate)


def draw(plotted: Callable[[], Any], path: str) -> None:
    """A figure in the file that --figure names."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise NotAvailableError('`figure` needs matplotlib: pip install "evalreg[plot]".', parameter="figure") from None
    matplotlib.use("agg")
    with accessing("figure", path):
        plotted().figure.savefig(Path(path), dpi=150)


def doctor(request: Request) -> Reply:
    """What a log holds and what may be wrong with it, with commands; of several scores, a line for each."""
    from evalreg.logs.doctor import columns_that_may_be_scores, diagnose
    from evalreg.logs.read import survey_of
    from evalreg.logs.table_log import likely_prompt, likely_roles, likely_sides

    roles: dict[str, str] = {}

    def command(verb: str, more: list[Any], files: Sequence[str] = ()) -> str:
        formula, rest = (more[:1], more[1:]) if verb == "fit" else ([], more)
        named = ["--roles", roles] if roles else []
        if more[:1] == ["--roles"]:  # more of them
            known = request.get("roles", {})
            named, rest = [], ["--roles", {**known, **more[1]} if isinstance(known, Mapping) else known]
        options = [*request.reading(more), *map(typed_value, [*named, *rest])]
        return shlex.join(["evalreg", verb, *formula, *(files or request.files), *options])

    try:
        rows = read(request.files, request.options)
    except EvalregError as error:
        named, plain = named_files(request.files)
        options = reading_options(request.options)
        survey = survey_of([*named.values(), *plain], error, command, **options)
        if survey is not None:
            return Reply(survey)
        if isinstance(error, LogFormatError) and "broken" not in request.options:
            with suppress(EvalregError):  # what can be read without the broken records
                reply = doctor(replace(request, options={**request.options, "broken": "skip"}))
                if reply.rows is None or len(reply.rows.frame):
                    return replace(reply, result=replace(reply.result, remarks=(str(error), *reply.result.remarks)))
        raise
    log = rows.log
    if log is None:
        sides = likely_sides(rows.frame)
        roles |= sides | likely_prompt(rows.frame) if sides else likely_roles(rows.frame)
        if not {*roles, *rows.frame} & {"score", "winner"}:
            (file, *more) = request.files
            return Reply(columns_that_may_be_scores(rows.frame, roles, command, "" if more else file), rows)
        log = log_of(replace(er.Log(rows.frame, **roles)._reading, format="table"))
    return Reply(diagnose(log, command), rows)


def board_call(request: Request, rows: Rows) -> tuple[str, dict[str, Any]]:
    """What ranks models, verdicts on pairs or means of scores: the function, and its arguments that were given."""
    scores = rows.has("score") or "score" in request.options
    named = {"left", "right"} | (set() if scores else {"winner", "key"})  # what only a board has a use for
    if rows.pairs or named & set(request.options):
        function = METHODS[request.get("method", "win-rate")]
        request.refuse_others(function)
        return function, request.of(function)
    request.refuse_others("mean")
    if "by" not in request.options and rows.several("model") and rows.several("task"):
        tasks = rows.frame["task"].dropna().unique().tolist()
        one = passed(subset=f"task == {json.dumps(tasks[0], ensure_ascii=False)}")
        rule = f"a board ranks models on one task, or on all taken together; here are {len(tasks)} tasks"
        raise ArgumentError(f"{rule}. Pass {passed(by='model')}, or {one} for one of them.", parameter="by")
    return "mean", request.of("mean")


def board(request: Request, rows: Rows) -> Any:
    """Models ranked: by verdicts on pairs, or by means of scores."""
    function, options = board_call(request, rows)
    return call(function, rows, options)


def leaderboard(request: Request) -> Reply:
    """The board with its ranks."""
    rows = read(request.files, request.options)
    result = board(request, rows)
    if result.estimate.about.n_models < 2:
        unread = "" if rows.log is None else unread_runs(rows.log)
        alone = unread or f"Its mean: {request.instead('mean', 'mean')}"
        raise ArgumentError(f"a leaderboard is for two or more models; here is one. {alone}")
    ranks = result.leaderboard(request.alpha, request.get("seed", 0))
    return _with_later(Reply(result, rows, {"board": ranks}), request)


def side_by_side(request: Request) -> Reply:
    """A table of results: each file and each formula is a column."""
    named, plain = named_files(request.files)
    files = named or {Path(file).name if len(request.files) > 1 else file: file for file in plain}
    formulas = [text.strip() for text in str(request.get("formulas", "")).split(";") if text.strip()]
    function, beside = "fit" if formulas else "mean", ("names", "beneath", "stars", "keep")
    request.refuse_others(function, beside)
    columns: dict[str, Any] = {}
    columns |= {name: er.read_results(file) for name, file in files.items() if holds_results(Source.of(file))}
    parts = {name: read([file], request.options) for name, file in files.items() if name not in columns}
    if not parts:
        request.refuse_others("table")
        for name in request.among("formulas", "where"):
            raise ArgumentError(f"`{name}` has no effect on results as stored. Leave it out.", parameter=name)
    for name, rows in parts.items():
        for formula in formulas or [""]:
            header = ": ".join(filter(None, (name if len(files) > 1 or not formula else "", formula)))
            columns[header] = call(function, rows, request.of(function) | ({"formula": formula} if formula else {}))
    if len(columns) < len(files) - len(parts) + len(parts) * max(len(formulas), 1):
        raise ArgumentError("columns need names that differ: write NAME=FILE.", parameter="files")
    names = words(request.options["names"]) if isinstance(request.get("names"), str) else request.get("names")
    table = er.table(list(columns.values()), names or list(columns), **request.among(*beside[1:]))
    return Reply(table, beside=parts)


def evals(request: Request) -> Reply:
    """Several evals side by side: of the values of a column, of a log's tasks, or of files."""
    from evalreg.suites.evals import said_once

    named, plain = named_files(request.files)
    if (named or len(plain) > 1) and "eval" not in request.options:
        files = named or {Path(file).stem: file for file in plain}
        parts = beside = {name: read([file], request.options) for name, file in files.items()}
    else:
        rows = read(request.files, request.options)
        beside = {", ".join(request.files): rows}
        column = request.get("eval", "task")
        labels = rows.wide[known_column(column, list(map(str, rows.wide.columns)), "eval")]
        if labels.isna().any():
            raise ArgumentError(f"every row must say its eval; {int(labels.isna().sum())} do not.", parameter="eval")
        parts = {str(name): Rows(rows.frame[labels == name]) for name in labels.unique()}
    function = "compare" if "baseline" in request.options else "mean"
    request.refuse_others(function, ("adjust",))
    results, options = {}, {name: value for name, value in request.of(function).items() if name != "adjust"}
    if function == "mean":
        options = {"by": "model"} | options
    for name, part in parts.items():
        frame = part.frame if function == "compare" or part.has("model") else part.frame.assign(model="model")
        with within(name), muted():
            results[name] = call(function, replace(part, data=frame, log=None), options)
    if request.form in ("csv", "latex", "json"):  # which have no place for notes
        issue(said_once(results))
    suite = er.join_evals(results, **request.among("form", "adjust"))
    more: dict[str, Any] = {}
    if request.get("average"):
        with _of_option("average", weights="eval_weights"):
            more["average"] = suite.average(request.get("eval_weights"), tasks=request.get("tasks", "fixed"))
    if request.get("figure"):
        show, average = request.get("show"), more.get("average", False)
        draw(lambda: suite.plot(show, average=average, alpha=request.alpha), request.get("figure"))
    return Reply(suite, more=more, beside=beside)


def report(request: Request) -> Reply:
    """The report of a board, of means or of differences."""
    from evalreg.results.reporting import write_report

    rows = read(request.files, request.options)
    paired = "baseline" in request.options
    if paired:
        request.refuse_others("compare")
    function, options = ("compare", request.of("compare")) if paired else board_call(request, rows)
    result, seed, form = call(function, rows, options), request.get("seed", 0), request.form
    lines, title = tuple(request.read(rows)), request.get("title")
    page = write_report(subject_of(result, rows), None, form, request.alpha, seed, title, lines, request.typed)
    return Reply(page, more={"reported": result})


def planned(request: Request) -> Reply:
    """Questions that a difference needs, from a pilot of one or two models and one or several answers to each."""
    rows = read(request.files, request.options)
    if "delta" not in request.options:
        raise ArgumentError("`delta` must be the difference of mean scores that should be detected.", parameter="delta")
    refuse_pairs(rows, request)
    options = request.among("delta", "assurance", "power") | {"alpha": request.alpha}
    roles = request.of("plan.components")
    roles = {"item": "task:item" if rows.several("task") else "item"} | roles
    roles |= {} if "model" in roles or rows.several("model") else {"model": None}
    frame, model, item = rows.frame, roles.get("model", "model"), roles["item"]
    answered = frame.columns.intersection([*str(item).split(":"), str(model)])
    names = list(dict.fromkeys(frame[str(model)].dropna())) if model in frame else []
    if len(names) > 2:
        two = passed(subset=f"{as_name(str(model))} in {json.dumps(names[:2], ensure_ascii=False)}")
        rule = f"a plan is for two models; column {model!r} holds {counted(len(names), 'model')}"
        raise ArgumentError(f"{rule}. Keep the rows of two, as {two} does.")
    with explained(rows):
        if roles.get("sample", "sample") in frame and frame.duplicated(list(answered)).any():
            pilot = er.plan.components(frame, **roles)
            table = _by_answers(pilot, request.get("k", [1, 2, 5, 10]), options | request.among("corrected"))
        else:
            for name in request.among("ssc", "corrected", "k"):
                raise ArgumentError(f"`{name}` goes with a pilot of several answers to each question; here is one.")
            if model is None:
                difference: Any = er.mean(frame, **{name: roles[name] for name in roles.keys() - {"model", "sample"}})
            else:
                difference = er.compare(frame, **roles)
            table = er.plan.from_pilot(difference, **options).rename_axis("clustering").reset_index()
    sentence = _plan_sentence(table, request, " of the mean from a fixed value" * (model is None))
    return Reply(table, rows, sentence=sentence)


def _by_answers(pilot: Any, k: Sequence[int], options: dict[str, Any]) -> Any:
    """A plan for each number of answers to a question."""
    import pandas as pd

    sides, tables = ("k_a", "k_b")[: max(len(pilot.attrs["models"]), 1)], []
    if min(k) < 1:
        raise ArgumentError(
            f"`k` must be numbers of answers to each question, such as 1,4; got {min(k)}.", parameter="k"
        )
    for n in k:
        table = er.plan.from_pilot(pilot, **{side: float(n) for side in sides} | options)
        tables.append(table.rename_axis("clustering").reset_index())
        tables[-1].insert(1, "answers", n)
    whole = pd.concat(tables, ignore_index=True)
    return whole.sort_values("clustering", ascending=False, kind="stable", ignore_index=True)


def _plan_sentence(table: Any, request: Request, of: str) -> str:
    """What the plan comes to: "To see 0.05 you need about 1,845 questions in 369 passages"."""
    clustered = table[table["clustering"] == "clustered"]
    rows = clustered if len(clustered) else table
    row = rows.iloc[0]
    how = f"answers to each: {row['answers']}; " if "answers" in rows else ""
    where = f" in {row['n_clusters']:,.0f} {request.get('groups')} clusters" if len(clustered) else ""
    power, assurance = request.get("power", 0.8), request.get("assurance")
    sure = f", in {assurance:g} of pilots like this one" if assurance else ""
    return (
        f"To see a difference of {request.options['delta']:g}{of} you need about {row['n']:,.0f} questions{where} "
        f"({how}power {power:g}{sure}; level {request.alpha:g})."
    )


def precision(request: Request) -> Reply:
    """Rows that the interval of one score needs."""
    if ("rate" in request.options) == ("variance" in request.options):
        raise ArgumentError("a plan needs one of --rate (of 0/1 scores) and --variance. --rate 0.5 is the safe side.")
    if "half_width" not in request.options:
        raise ArgumentError("`half_width` must be half of the length of the interval.", parameter="half_width")
    plan = er.plan.precision(**request.of("plan.precision"))
    clusters = "" if plan.n_clusters is None else f" in {plan.n_clusters:,} clusters"
    sentence = f"You need about {plan.n:,} rows{clusters} for an interval of +- {plan.half_width:g}."
    return Reply(plan, sentence=sentence)


def demo(request: Request) -> Reply:
    """The demonstration, or its logs as files."""
    from evalreg.cli import demo as demonstration

    seed, folder = request.get("seed", 0), request.get("write")
    return Reply(demonstration.text(seed) if folder is None else demonstration.write(Path(folder), seed))


def format_of_output(output: str | None, named: str | None, option: Option | None) -> str:
    """The format that is named, or that the end of the file says; the two may not contradict each other."""
    default, choices = ("text", ("text",)) if option is None else (option.default, option.choices)
    if output is None or output == "-":
        return str(named or default)
    meant = SUFFIXES.get(Path(output).suffix.lower())
    if (named or meant) not in choices or (named and meant not in (None, "text", named)):
        ends = ", ".join(end for end, form in SUFFIXES.items() if end and form in choices)
        rest = f"`format` is {named}" if named else f"what this command writes ends in {ends}"
        raise ArgumentError(f'`output` must end as its format does; got "{output}", and {rest}.')
    return str(named or meant)


def run(options: argparse.Namespace) -> tuple[Request, Reply]:
    """What a parsed command line asks for, and the reply to it."""
    parsed = ("command", "chosen", "files", "known", "typed")
    named = {name: value for name, value in vars(options).items() if name not in parsed}
    for option in options.known.values():
        if option.needs and option.name in named and option.needs not in named:
            other = option.needs.replace("_", "-")
            raise ArgumentError(f"`{option.name}` goes with --{other}. Name both or neither.", parameter=option.name)
    form = format_of_output(named.get("output"), named.get("format"), options.known.get("format"))
    request = Request(options.chosen, named, getattr(options, "files", ()), options.typed, form)
    reply: Reply = globals()[options.chosen.verb](request)
    return request, reply
