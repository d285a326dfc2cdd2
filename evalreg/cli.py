"""The command line: a table and a formula in, estimates with error bars out."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TextIO

from evalreg import demo
from evalreg.checks import (
    COVS,
    DOFS,
    FAMILIES,
    MISSING,
    REPAIRS,
    SSCS,
    STRATA_WEIGHTS,
    check_cov_options,
    fraction,
    option,
)
from evalreg.errors import ArgumentError, EvalregError
from evalreg.estimators.formula import parse_formula
from evalreg.estimators.mean import mean
from evalreg.estimators.regression import fit
from evalreg.results import Results
from evalreg.selection import Outcome, Rows, counting, formula_names, group_names, read_rows, split_names, with_score
from evalreg.tables import Summary

__all__ = ["main"]

FINE, BAD_INPUT, INTERNAL_ERROR, INTERRUPTED = 0, 3, 4, 130
SCHEMA_VERSION = 1
PACKAGES = ("evalreg", "narwhals", "numpy", "pandas", "patsy", "scipy", "statsmodels")

_EPILOG = """\
Exit status: 0 when results were printed, 3 for bad input or usage, 4 for an
error inside evalreg. Results go to standard output, warnings and errors to
standard error.

Examples, on simulated data:

  evalreg demo
  evalreg demo --write logs
  evalreg fit "score ~ 1" logs/passages.csv --groups passage
  evalreg mean logs/passages.csv --by subject --groups passage
"""

_FIT_EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg fit "score ~ 1" logs/passages.csv --groups passage
  evalreg fit "score ~ n_words" logs/passages.csv --groups passage --format json
  evalreg fit "score ~ C(subject)" logs/passages.csv --groups passage --cov CR1
  evalreg fit "score ~ 1" logs/judge_log.csv --score best_score \\
      --groups "prompt + judge" --where 'best_score != missing'
  gzip -c logs/passages.csv | evalreg fit "score ~ 1" - --groups passage
"""

_MEAN_EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg mean logs/passages.csv --groups passage
  evalreg mean logs/passages.csv --by subject --groups passage
  evalreg mean logs/passages.csv --strata subject --strata-weights macro \\
      --groups passage
  evalreg mean logs/judge_log.csv --score best_score --groups "prompt + judge" \\
      --where 'left == "model-01" or right == "model-01"'
"""

_FORMULA_HELP = """\
a patsy formula, such as "score ~ 1" for the mean; columns by their names, or by Q("a name") where those are no Python
names. The column in C(turn) or C(turn, Treatment("1")) is read as text; that in C(turn, Treatment(1)) is not"""

_GROUPS_HELP = """\
clusters: rows that share a value may depend on each other in any way, rows that do not are independent. "prompt" is a
column; "prompt + judge" crosses two; "language:question" joins two into one id; backticks go around a column with + or
: in its name"""

_FORMAT_HELP = """\
"json" is strict JSON with sorted keys: a number that is not there is null, an infinity is "inf" or "-inf", and an
option that has no bearing on the result is null; "csv" is the table of the parameters (default: text)"""

_WHERE_HELP = """\
keep the rows for which this is true: columns against numbers and quoted text by == != < <= > >= `in` and `not in`,
joined by `and`, `or`, `not` and parentheses, such as 'model == "a" and turn in [1, 2]'; 'score == missing' finds empty
fields; backticks go around a column whose name is no word. Columns read as text are compared with quoted text"""


class _Parser(argparse.ArgumentParser):
    """A parser whose mistakes are errors like any other."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving with status 2."""
        raise ArgumentError(f"{message}. See: {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status of a command: 0 fine, 3 bad input or usage, 4 internal error.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the name of the program; those of the process by default.

    Returns
    -------
    int
        Results are on standard output, warnings and errors on standard error.
    """
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except BrokenPipeError:
        # Whoever reads has seen enough, as `head` does.
        _discard(sys.stdout)
        return FINE
    except OSError as error:  # a full disk, say
        _discard(sys.stdout)
        return _fail(f"reading or writing failed: {error.strerror or error}.")


def _run(arguments: Sequence[str]) -> int:
    """Parse, compute and print; errors become messages and a status."""
    try:
        options = build_parser().parse_args(arguments)
        with warnings.catch_warnings():
            # The versions of packages are not the reader's concern; what a result rests on is.
            warnings.simplefilter("always")
            for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
                warnings.simplefilter("ignore", category)
            warnings.showwarning = _show_warning
            text = options.run(options)
        _deliver(text.rstrip("\n") + "\n", getattr(options, "output", None))
    except EvalregError as error:
        return _fail("\n".join([str(error), *getattr(error, "__notes__", [])]))
    except SystemExit as stop:  # --help and --version
        _write("", sys.stdout)
        return stop.code if isinstance(stop.code, int) else FINE
    except KeyboardInterrupt:
        _complain("evalreg: interrupted\n")
        return INTERRUPTED
    except OSError:
        raise
    except Exception:
        _complain(f"{traceback.format_exc()}evalreg: internal error: this is a bug in evalreg; please report it with ")
        _complain("the lines above and the command that was run.\n")
        return INTERNAL_ERROR
    return FINE


def _deliver(text: str, output: str | None) -> None:
    """Put results where they were asked for: standard output, or a file in UTF-8."""
    if output is None or output == "-":
        if sys.stdout is None:
            raise ArgumentError("standard output is closed; name a file to write to in `--output`.")
        return _write(text, sys.stdout)
    try:
        Path(output).write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f'`--output` must be a file to write to; "{output}" is not: {reason}.') from error


def _fail(message: str) -> int:
    _complain(f"evalreg: error: {message}\n")
    return BAD_INPUT


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """One warning on one line, without the place in the code."""
    _complain(f"warning: {' '.join(str(message).split())}\n")


def _complain(text: str) -> None:
    """Write to standard error; that nobody can read it there does not change the results."""
    try:
        _write(text, sys.stderr)
    except OSError:
        _discard(sys.stderr)


def _write(text: str, stream: TextIO | None) -> None:
    """Write text, with question marks for what the stream cannot encode; None is a stream that is closed."""
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        print(text.encode(encoding, "replace").decode(encoding), end="", file=stream, flush=True)


def _discard(stream: TextIO | None) -> None:
    """Send what is still buffered nowhere, or the interpreter would fail to write it once more at its end."""
    if stream is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# Commands


def _run_fit(options: argparse.Namespace) -> str:
    """What ``evalreg fit`` prints."""
    _check_shared(options)
    option("family", options.family, FAMILIES)
    parse_formula(options.formula)
    formula = options.formula if options.score is None else with_score(options.formula, options.score)
    factors, plain = formula_names(formula)
    rows = read_rows(options, {*factors, *group_names(options.groups)} - {*plain, options.weights})
    with counting(rows):
        results = fit(
            formula,
            rows.frame,
            groups=options.groups,
            weights=options.weights,
            family=options.family,
            missing=options.missing,
            **_covariance(options),
        )
    asked = {"formula": formula, "family": options.family, "groups": options.groups, "score": options.score}
    return _rendered(results, rows, options, asked)


def _run_mean(options: argparse.Namespace) -> str:
    """What ``evalreg mean`` prints."""
    _check_shared(options)
    by = split_names(options.by, "--by") if options.by is not None else None
    strata_weights = _weights_by_name(options.strata_weights)
    if isinstance(strata_weights, str):
        option("strata_weights", strata_weights, STRATA_WEIGHTS)
    roles = {*(by or ()), options.item, options.sample, options.strata, *group_names(options.groups)}
    rows = read_rows(options, roles - {options.score, options.weights})
    with counting(rows):
        results = mean(
            rows.frame,
            options.score,
            by=by,
            item=options.item,
            sample=options.sample,
            groups=options.groups,
            strata=options.strata,
            strata_weights=strata_weights,
            weights=options.weights,
            missing=options.missing,
            **_covariance(options),
        )
    asked = {name: getattr(options, name) for name in ("item", "sample", "score", "strata")}
    asked |= {"by": by, "groups": options.item if options.groups is None else options.groups}
    asked["strata_weights"] = strata_weights if options.strata is not None else None
    return _rendered(results, rows, options, asked)


def _run_demo(options: argparse.Namespace) -> str:
    """What ``evalreg demo`` prints."""
    return demo.text(options.seed) if options.write is None else demo.write(Path(options.write), options.seed)


def _check_shared(options: argparse.Namespace) -> None:
    """Refuse wrong options before a large file is read."""
    check_cov_options(**_covariance(options))
    option("missing", options.missing, MISSING)
    fraction("alpha", options.alpha)
    if options.output not in (None, "-") and _is_one_file(options.output, options.file):
        raise ArgumentError(f'`--output` must not be the file that is read; got "{options.output}" for both.')


def _is_one_file(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def _covariance(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("cov", "ssc", "dof", "repair")}


def _rendered(results: Results, rows: Rows, options: argparse.Namespace, asked: dict[str, object]) -> str:
    """Results in the format asked for."""
    names = ("alpha", "command", "file", "missing", "text", "weights", "where")
    asked |= {name: getattr(options, name) for name in names}
    return FORMATS[options.format](Outcome(results, rows, options, asked))


def _weights_by_name(text: str) -> Any:
    """Weights of strata: a rule by its name, or a mapping from ``a=1,b=2``."""
    if "=" not in text:
        return text
    weights: dict[str, float] = {}
    for part in split_names(text, "--strata-weights"):
        name, _, value = part.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = math.nan
        if not name or math.isnan(weight) or name in weights:
            raise ArgumentError(
                f'`--strata-weights` must be "micro", "macro" or one number for each stratum, such as "law=1,math=2"; '
                f'got "{part}" in "{text}".'
            )
        weights[name] = weight
    return weights


# What is printed


def _summarized(outcome: Outcome) -> Summary:
    """The summary of the results, with what the filter kept."""
    summary, rows = outcome.results.summary(outcome.options.alpha), outcome.rows
    if outcome.options.where is None:
        return summary
    kept = f"{outcome.options.where} ({len(rows.frame)} of {rows.n_read} rows)"
    return replace(summary, facts=(*summary.facts, ("Where", kept)))


def _as_csv(outcome: Outcome) -> str:
    """The table of the parameters; a number that is not there is an empty field."""
    frame = outcome.results.to_frame(outcome.options.alpha)
    return str(frame.to_csv(index_label="parameter", lineterminator="\n"))


def _as_json(outcome: Outcome) -> str:
    """Strict JSON of everything that a program may ask of the results, in ASCII, keys sorted."""
    return json.dumps(_plain(_document(outcome)), indent=2, sort_keys=True, allow_nan=False)


def _document(outcome: Outcome) -> dict[str, object]:
    """What the JSON output says."""
    results, cov, alpha = outcome.results, outcome.results.cov, outcome.options.alpha
    resolved = {
        "cov": cov.options.cov,
        "dof": cov.options.dof,
        "repair": cov.options.repair if cov.crossed else None,
        "ssc": cov.options.ssc if cov.options.cov == "CR1" else None,
    }
    categories = {text: category.__name__ for category, text in results.notes}
    sentences = results.summary(alpha).sentences
    table = results.to_frame(alpha).assign(design_effect=results.design_effect(), n_eff=results.n_eff())
    table.insert(0, "parameter", list(results.estimate.names))
    return {
        "dropped": {str(reason): int(count) for reason, count in results.dropped.items()},
        "model": results.estimate.about.model,
        "n_clusters": results.n_clusters,
        "nobs": results.nobs,
        "notes": [{"text": text, "warning": categories.get(text)} for text in sentences],
        "options": {**outcome.asked, **resolved},
        "parameters": table.to_dict("records"),
        "rows_kept": len(outcome.rows.frame),
        "rows_read": outcome.rows.n_read,
        "schema_version": SCHEMA_VERSION,
        "score": results.estimate.about.outcome,
        "seed": None,
        "versions": {name: version(name) for name in PACKAGES},
    }


def _plain(value: Any) -> Any:
    """A value with None for NaN and text for infinities, all through."""
    if isinstance(value, float):
        return None if math.isnan(value) else str(value) if math.isinf(value) else float(value)
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


FORMATS: dict[str, Callable[[Outcome], str]] = {
    "text": lambda outcome: _summarized(outcome).as_text(),
    "json": _as_json,
    "csv": _as_csv,
    "md": lambda outcome: _summarized(outcome).as_markdown(),
    "latex": lambda outcome: _summarized(outcome).as_latex(),
    "html": lambda outcome: _summarized(outcome).as_html(),
}


# What can be asked


def build_parser() -> _Parser:
    """The parser of all commands.

    Returns
    -------
    _Parser
        The function of a command is in `run` of what it parses.
    """
    plain = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="evalreg",
        description="Error bars for language-model evals whose rows are not independent.",
        epilog=_EPILOG,
        formatter_class=plain,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"evalreg {version('evalreg')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    settings: dict[str, Any] = {"formatter_class": plain, "allow_abbrev": False}
    _add_fit(commands.add_parser("fit", help="regress scores by a formula", epilog=_FIT_EPILOG, **settings))
    _add_mean(commands.add_parser("mean", help="means of scores, by model", epilog=_MEAN_EPILOG, **settings))
    _add_demo(commands.add_parser("demo", help="see it at work on simulated data", **settings))
    return parser


def _add_fit(parser: argparse.ArgumentParser) -> None:
    parser.description = "Regression of scores, with errors that hold when rows in a cluster are alike."
    parser.set_defaults(run=_run_fit)
    parser.add_argument("formula", metavar="FORMULA", help=_FORMULA_HELP)
    parser.add_argument(
        "--score",
        metavar="X",
        help='the column that "score" means in the formula, also where the file has a column of that name '
        '(which is then Q("score"))',
    )
    parser.add_argument(
        "--family",
        default="gaussian",
        metavar="NAME",
        help=f"{_listed(FAMILIES)}: least squares (the default), or a GLM with its canonical link",
    )
    _add_shared(parser)


def _add_mean(parser: argparse.ArgumentParser) -> None:
    parser.description = "Means of scores, with errors that hold when rows in a cluster are alike."
    parser.set_defaults(run=_run_mean)
    parser.add_argument("--score", default="score", metavar="X", help="the column of the scores (default: score)")
    parser.add_argument("--by", metavar="A,B", help="columns of the models: one mean for each, with their covariance")
    parser.add_argument(
        "--item", metavar="X", help="the column of the questions; without --groups they are the clusters"
    )
    parser.add_argument(
        "--sample", metavar="X", help="the column of repeated answers, which are averaged within their question first"
    )
    parser.add_argument("--strata", metavar="X", help="the column of subjects that are a fixed list, not a sample")
    parser.add_argument(
        "--strata-weights",
        default="micro",
        metavar="W",
        help='weights of the strata: "micro", by their rows (the default); "macro", equal; or "law=1,math=2"',
    )
    _add_shared(parser)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = "Simulate a reading eval and a log of judges, estimate both, say what is true."
    parser.set_defaults(run=_run_demo)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the simulation (default: 0)")
    parser.add_argument("--write", metavar="DIR", help="write the two logs there as CSV instead, to try commands on")


def _add_shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help='CSV, TSV, JSON lines or Parquet, also compressed by gzip, told apart by content; "-" is standard input',
    )
    rows = parser.add_argument_group("rows and columns")
    rows.add_argument("--groups", metavar="GROUPS", help=_GROUPS_HELP)
    rows.add_argument("--weights", metavar="X", help="the column of sampling weights")
    rows.add_argument("--where", metavar="FILTER", help=_WHERE_HELP)
    rows.add_argument(
        "--missing",
        default="drop",
        metavar="RULE",
        help=f"{_listed(MISSING)}: rows where something is missing are dropped and counted (the default), or an error",
    )
    rows.add_argument(
        "--text",
        metavar="A,B",
        help="further columns to read as text, to the letter, as are factors and the columns of clusters, models, "
        "questions and strata, but for one that the formula uses as a number",
    )
    cov = parser.add_argument_group("covariance")
    cov.add_argument("--cov", metavar="NAME", help=f"{_listed(COVS)} (default: CR2 with --groups, naive without)")
    cov.add_argument("--ssc", metavar="NAME", help=f"factor of CR1: {_listed(SSCS)}")
    cov.add_argument(
        "--dof",
        type=_number_or_name,
        metavar="DOF",
        help=f"{_listed(DOFS)} or a number (default: satterthwaite under CR2, min otherwise)",
    )
    cov.add_argument(
        "--repair",
        metavar="NAME",
        help=f"{_listed(REPAIRS)}: what is done to a crossed covariance that is not positive semi-definite "
        "(default: max; eigen where --cov is given)",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--alpha", type=float, default=0.05, metavar="A", help="0.05, the default, gives 95%% intervals"
    )
    output.add_argument("--format", choices=list(FORMATS), default="text", help=_FORMAT_HELP)
    output.add_argument("-o", "--output", metavar="FILE", help="write there, in UTF-8, instead of standard output")


def _number_or_name(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
