"""The table of commands: a line each, with its functions, what its first page of help shows, and its examples.

Everything else (options, types, choices, help) is read from the functions named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from evalreg.cli.options import Option, options_of

TEXT, FLAG, NUMBER = "str | None", "bool", "int"


@dataclass(frozen=True)
class Command:
    """A line of the table."""

    name: str
    purpose: str
    functions: tuple[str, ...] = ()  # public functions whose parameters are its options
    page: str = ""  # the options that the first page of help shows, besides those of all
    extra_options: tuple[Option, ...] = ()  # options that no function has
    first: tuple[str, ...] = ()  # arguments before the files
    without: tuple[str, ...] = ()  # parameters of its functions that are no options
    verb: str = "estimated"  # the function of `verbs` that runs it
    reads: bool = True  # whether it reads logs
    examples: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the options on the first page."""
        return (*self.page.split(), *(option.name for option in self.extra_options), *SHOWN)

    def options(self) -> Iterator[Option]:
        """The options of its functions and its own."""
        hidden = {*HIDDEN, *self.without, *map(str.lower, self.first), *(option.name for option in self.extra_options)}
        for function in self.functions:
            for option in options_of(function):
                if option.name not in hidden:
                    yield replace(option, help=SHARED.get(option.name, option.help))
        yield from self.extra_options

    @cached_property
    def names(self) -> dict[str, frozenset[str]]:
        """The parameters of each of its functions."""
        return {function: frozenset(option.name for option in options_of(function)) for function in self.functions}


# What is no option: rows are files, results are what the command computes.
HIDDEN = ("data", "path", "paths", "results", "evals", "pilot", "subset")
SHOWN = ("groups", "where", "alpha", "format", "details")
FORMATS = ("text", "json", "csv", "md", "latex", "html")

WHERE = Option(
    "where",
    TEXT,
    help="keep the rows for which this is true, such as 'model == \"a\" and turn in [1, 2]'; 'score == missing' finds "
    "empty fields.",
)
SCORE_LABELS = Option(
    "score_labels",
    "Mapping[str, float | None]",
    help='what words of scores count, as in "correct=1,incorrect=0,error=".',
)
COMMON = (
    Option("alpha", "float", 0.05, help="0.05, the default, gives 95% intervals."),
    Option("format", f"Literal{list(FORMATS)}", "text", choices=FORMATS, help="what is printed (default: text)."),
    Option("details", FLAG, False, help="everything that is known, not the answer alone."),
    Option("spreadsheet", FLAG, False, help="CSV whose names no spreadsheet program computes as formulas."),
)
GATE = Option(
    "gate",
    TEXT,
    help='a claim such as "mean > 0.9" or "new - old > -0.05": status 0 if shown, 1 if shown to fail, 2 if neither.',
)
FIGURE = Option("figure", TEXT, help="draw it there (.png, .svg, .pdf).")
SUMMARY = Option("summary", TEXT, help="append the result to this file too, as Markdown.")
SEED = Option("seed", NUMBER, 0, help="seed of draws (default: 0).")
RANKS = (
    Option("ranks", FLAG, False, help="of several models: also the ranks that are not excluded."),
    Option("best", FLAG, False, help="also the estimate of the best, corrected for the luck of coming first."),
)
# What means the same in every command, said once.
SHARED = {
    "groups": 'clusters, whose rows may depend on each other in any way: "prompt" is a column, "prompt + judge" '
    'crosses two, "language:question" joins two; backticks go around other names.',
    "cov": "the covariance (default: CR2 with --groups, naive without).",
    "ssc": "the factor of CR1.",
    "dof": "degrees of freedom, by rule or as a number.",
    "repair": "what is done to a crossed covariance that is not positive semi-definite.",
    "alike": "of two crossed clusterings the one whose few clusters are taken to differ alike over models.",
}
# Arguments of `read_log` and of `merged` that every command has.
READING = ("read_log", "merged")
_NOT_OF_LOGS = ("path", "paths", "questions")

_BOARDS = ("win_rate", "bradley_terry", "controlled_win_rate")
_METHOD = Option(
    "method", "str", "win-rate", choices=("win-rate", "bradley-terry", "controlled"), help="what is estimated."
)
_PAGE = Option("format", "str", "html", choices=("html", "md", "json"), help="what is written (default: html).")
_SIDES = "left right winner score labels key opponents by"
_MEANS = "score by item sample strata questions"

COMMANDS = (
    Command(
        "doctor",
        "what a log holds, what may be wrong with it, and what to type next",
        verb="doctor",
        examples="  evalreg doctor logs/judge_log.csv",
    ),
    Command(
        "mean",
        "means of scores, by model; a gate on one of them",
        ("mean",),
        _MEANS,
        (GATE, FIGURE, SUMMARY, *RANKS, SEED),
        examples="""\
  evalreg mean logs/passages.csv --groups passage
  evalreg mean logs/passages.csv --by subject --groups passage --ranks
  evalreg mean logs/passages.csv --groups passage --gate "mean > 0.65\"""",
    ),
    Command(
        "compare",
        "differences between models on the same questions; a gate on one of them",
        ("compare",),
        "score model item sample baseline paired adjust icc",
        (
            GATE,
            FIGURE,
            SUMMARY,
            Option("joint", FLAG, False, help="also one test of all differences at once."),
            Option("wild", FLAG, False, help="also the wild cluster bootstrap, for few or unequal clusters."),
            Option("draws", NUMBER, 9999, help="of the wild bootstrap (default: 9999).", needs="wild"),
            SEED,
        ),
        examples="""\
  evalreg compare logs/models.csv --item question --groups passage
  evalreg compare before=old.eval after=new.eval
  evalreg compare logs/models.csv --item question --groups passage \\
      --gate "new - old > -0.05\"""",
    ),
    Command(
        "leaderboard",
        "ranks of models, from verdicts on pairs or from scores",
        ("mean", *_BOARDS),
        f"{_SIDES} item sample scale formula reference",
        (_METHOD, FIGURE, *RANKS[1:], SEED),
        verb="leaderboard",
        examples="""\
  evalreg leaderboard logs/judge_log.csv --groups "prompt + judge"
  evalreg leaderboard logs/models.csv --item question --groups passage
  evalreg leaderboard logs/judge_log.csv --method bradley-terry --groups prompt""",
    ),
    Command(
        "fit",
        "a regression of scores by a formula",
        ("fit",),
        "weights family cov dof",
        (GATE, FIGURE),
        first=("FORMULA",),
        examples="""\
  evalreg fit "score ~ n_words + C(subject)" logs/passages.csv --groups passage
  evalreg fit "score ~ C(model) | question" logs/models.csv --groups passage""",
    ),
    Command(
        "plan",
        "from a pilot to a number of questions",
        ("plan.components", "plan.from_pilot"),
        "score model item sample baseline delta power assurance",
        (Option("k", "Sequence[int]", "1,2,5,10", help="answers of each model to each question."),),
        without=("k_a", "k_b"),
        verb="planned",
        examples="  evalreg plan logs/pilot.csv --item question --groups passage --delta 0.05",
    ),
    Command(
        "plan precision",
        "rows that the interval of one score needs",
        ("plan.precision",),
        "half_width rate variance deff icc cluster_size",
        verb="precision",
        reads=False,
        examples="  evalreg plan precision --half-width 0.03 --rate 0.7 --deff 2.5",
    ),
    Command(
        "report",
        "one HTML page with answer, tables, figures and methods; or Markdown",
        ("mean", "compare", *_BOARDS),
        "score by item sample baseline adjust winner key",
        (Option("title", TEXT, help="the headline."), _METHOD, SEED, _PAGE),
        verb="report",
        examples="  evalreg report logs/models.csv --item question --groups passage -o report.html",
    ),
    Command(
        "table",
        "several results side by side, one column for each log or formula",
        ("table", "mean", "fit"),
        "score by item beneath stars keep",
        (Option("formulas", TEXT, help='formulas, one column each, separated by ";".'),),
        without=("formula",),
        verb="side_by_side",
        examples="""\
  evalreg table logs/passages.csv --groups passage \\
      --formulas "score ~ 1; score ~ n_words\"""",
    ),
    Command(
        "evals",
        "several evals side by side, and their average",
        ("mean", "compare"),
        "score item sample baseline adjust",
        (
            Option("eval", TEXT, help="the column that says which eval a row is of (default: task, or the files)."),
            Option("average", FLAG, False, help="also the average over the evals."),
            Option("tasks", "str", "fixed", choices=("fixed", "drawn"), help="these, or others too.", needs="average"),
            Option("eval_weights", "str | Mapping[str, float]", help='as in "law=0.25,maths=0.75".', needs="average"),
            Option(
                "form",
                "str",
                "counts",
                choices=("counts", "scores", "clustered"),
                help="of scores: with numbers of questions and clusters, without, or beside naive errors.",
            ),
            FIGURE,
            Option("show", TEXT, help="with --figure: the model or difference that is drawn.", needs="figure"),
        ),
        verb="evals",
        examples="  evalreg evals logs/passages.csv --eval subject --groups passage --average",
    ),
    Command(
        "ratio",
        "ratios of two sums, such as errors per word, by model",
        ("ratio",),
        "numerator denominator by",
        (GATE, FIGURE),
        examples="  evalreg ratio logs/passages.csv --numerator score --denominator n_words --groups passage",
    ),
    Command(
        "noise",
        "how much of each error bar is answers, how much questions",
        ("noise",),
        "score model item sample passes n_samples",
        (Option("table", "str", "models", choices=("models", "pairs"), help="what a row of CSV is."),),
        examples="  evalreg noise logs/pilot.csv --item question --sample sample",
    ),
    Command(
        "components",
        "how much questions, judges and templates vary",
        ("components",),
        "score facets",
        (Option("design", "Mapping[str, int]", help='another log: "item=400,judge=3" has this standard error.'),),
        examples='  evalreg components logs/pilot.csv --facets "model x question"',
    ),
    Command(
        "randomise",
        "the exact test of a treatment assigned at random",
        ("randomisation_test",),
        "score treatment levels strata draws",
        examples="""\
  evalreg randomise logs/passages.csv --treatment subject --groups passage \\
      --levels medicine,history""",
    ),
    Command(
        "summarise",
        "sums of a log, which add up over nights and machines",
        ("summarise",),
        "score by item left right winner numerator denominator",
        (Option("format", "str", "parquet", choices=("parquet",), help="sums are one Parquet file."),),
        examples="""\
  evalreg summarise logs/models.csv --by model --item question \\
      --groups passage -o monday.parquet
  evalreg mean monday.parquet --groups passage""",
    ),
    Command(
        "demo",
        "see it at work on simulated data",
        extra_options=(
            SEED,
            Option("write", TEXT, help="write the simulated logs to this folder, to try commands on."),
        ),
        verb="demo",
        reads=False,
    ),
)
BY_NAME = {command.name: command for command in COMMANDS}

EPILOG = """\
Exit status: 0 when results were printed, 3 for bad input or usage, 4 for an
error inside evalreg; a gate adds 1 (shown to fail) and 2 (cannot tell).

  evalreg demo --write logs
  evalreg doctor logs/judge_log.csv
  evalreg mean logs/passages.csv --groups passage
"""


def known_options(command: Command) -> dict[str, Option]:
    """All options of a command by name; of several functions that share a name, that of the first."""
    known: dict[str, Option] = {}
    for option in (*command.options(), *common_options(command)):
        known.setdefault(option.name, option)
    return known


def common_options(command: Command) -> Iterator[Option]:
    """What every command that computes has; of those that read, also the choices among a log's contents."""
    if command.verb == "demo":
        return
    yield from COMMON
    if command.reads:
        yield from (WHERE, SCORE_LABELS)
        for option in (option for function in READING for option in options_of(function)):
            if option.name == "format":  # of what is printed, to a command
                yield Option("log_format", TEXT, help="the format, where content does not tell.")
            elif option.name not in _NOT_OF_LOGS:
                yield option
