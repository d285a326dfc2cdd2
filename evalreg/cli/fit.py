"""``evalreg fit``: a regression of scores by a formula."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import asdict

from evalreg.checks import FAMILIES, option
from evalreg.cli.logs import file_list
from evalreg.cli.parsing import Output, offering
from evalreg.cli.selection import Rows, counting, formula_names, group_names, read_rows, with_score
from evalreg.cli.shared import add_shared, check_shared, covariance_options, listed, rendered
from evalreg.data.formula import parse_formula
from evalreg.errors import AlignmentError, ArgumentError
from evalreg.estimators.regression import fit
from evalreg.hints import family_hint
from evalreg.results.nested import ftest
from evalreg.results.results import Results

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg fit "score ~ 1" logs/passages.csv --groups passage
  evalreg fit "score ~ n_words" logs/passages.csv --groups passage --format json
  evalreg fit "score ~ C(subject)" logs/passages.csv --groups passage --cov CR1
  evalreg fit "score ~ C(model) | question" logs/models.csv --groups passage
  evalreg fit "score ~ n_words + C(subject)" logs/passages.csv \\
      --groups passage --against "score ~ n_words"
  evalreg fit "score ~ 1" logs/judge_log.csv --score best_score \\
      --groups "prompt + judge" --where 'best_score != missing'
  gzip -c logs/passages.csv | evalreg fit "score ~ 1" - --groups passage
"""

_FORMULA_HELP = """\
a patsy formula, such as "score ~ 1" for the mean, of columns, numbers, arithmetic, comparisons, patsy's functions and
numpy's as np.log; nothing else is run. Factors to absorb go behind a bar, as in "score ~ x | question + judge".
Columns go by their names, or by Q("a name") where those are not Python names. The column in C(turn) or
C(turn, Treatment("1")) is read as text; that in C(turn, Treatment(1)) is not"""


_AGAINST_HELP = """\
a smaller formula, such as "score ~ 1": what it leaves out is tested jointly, beside the F test for independent rows,
and csv holds the tests"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Regression of scores, with errors that hold when rows in a cluster are alike."
    parser.add_argument("formula", metavar="FORMULA", help=_FORMULA_HELP)
    parser.add_argument(
        "--score",
        metavar="X",
        help='the column that "score" means in the formula, also where the file has a column of that name '
        '(which is then Q("score"))',
    )
    offering(
        parser.add_argument(
            "--family",
            default="gaussian",
            metavar="NAME",
            help=f"{listed(FAMILIES)}: least squares (the default), or a GLM with its canonical link",
        ),
        FAMILIES,
    )
    parser.add_argument("--against", metavar="FORMULA", help=_AGAINST_HELP)
    add_shared(parser)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg fit`` prints."""
    check_shared(options)
    if options.against is None:
        results, rows, asked = fitted(options)
        return rendered(results, rows, options, asked)
    (results, restricted), rows, asked = fitted_all([options.formula, options.against], options)
    try:
        test = ftest(results, restricted)
    except AlignmentError as error:
        error.add_note("(On the command line: --where 'x != missing', for each covariate x of either formula.)")
        raise
    summary = test.summary(options.alpha)
    asked["against"] = test.restricted
    return rendered(
        results,
        rows,
        options,
        asked,
        first=summary.grids,
        frame=test.to_frame(options.alpha).rename_axis("test"),
        more={"against": asdict(test)},
        said=(f"F: {test.full}, against {test.restricted}.", *summary.sentences),
    )


def fitted(options: argparse.Namespace) -> tuple[Results, Rows, dict[str, object]]:
    """The regression of the options, the rows that were read, and what was asked."""
    results, rows, asked = fitted_all([options.formula], options)
    return results[0], rows, asked


def _check_order(options: argparse.Namespace) -> None:
    """Refuse a file in the place of the formula, whose words would say nothing of it."""
    behind = next((file for file in file_list(options) if "~" in file and not os.path.exists(file)), None)
    if "~" not in options.formula and behind is not None:
        raise ArgumentError(
            f"the formula comes before the file: evalreg fit {shlex.quote(behind)} {shlex.quote(options.formula)}"
        )


def fitted_all(formulas: list[str], options: argparse.Namespace) -> tuple[list[Results], Rows, dict[str, object]]:
    """Regressions by several formulas of the same rows, and what was asked of the first."""
    option("family", options.family, FAMILIES, family_hint(options.family, code=False))
    _check_order(options)
    for formula in formulas:
        parse_formula(formula)
    if options.score is not None:
        formulas = [with_score(formula, options.score) for formula in formulas]
    names = [formula_names(formula) for formula in formulas]
    numbers = {options.weights}.union(*(plain for _, plain in names))
    factors = group_names(options.groups).union(*(own for own, _ in names))
    rows = read_rows(options, factors - numbers, numbers)
    if "score" in factors | numbers:
        rows.refuse_verdicts("score")
    for formula in formulas:
        rows.one_metric(formula)
    with counting(rows):
        results = [
            fit(
                formula,
                rows.frame,
                groups=options.groups,
                weights=options.weights,
                family=options.family,
                missing=options.missing,
                **covariance_options(options),
            )
            for formula in formulas
        ]
    asked = {"formula": formulas[0], "family": options.family, "groups": options.groups, "score": options.score}
    return results, rows, asked
