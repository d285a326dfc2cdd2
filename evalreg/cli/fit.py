"""``evalreg fit``: a regression of scores by a formula."""

from __future__ import annotations

import argparse

from evalreg.checks import FAMILIES, option
from evalreg.cli.parsing import Output
from evalreg.cli.selection import counting, formula_names, group_names, read_rows, with_score
from evalreg.cli.shared import add_shared, check_shared, covariance_options, listed, rendered
from evalreg.data.formula import parse_formula
from evalreg.estimators.regression import fit

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg fit "score ~ 1" logs/passages.csv --groups passage
  evalreg fit "score ~ n_words" logs/passages.csv --groups passage --format json
  evalreg fit "score ~ C(subject)" logs/passages.csv --groups passage --cov CR1
  evalreg fit "score ~ C(model) | question" logs/models.csv --groups passage
  evalreg fit "score ~ 1" logs/judge_log.csv --score best_score \\
      --groups "prompt + judge" --where 'best_score != missing'
  gzip -c logs/passages.csv | evalreg fit "score ~ 1" - --groups passage
"""

_FORMULA_HELP = """\
a patsy formula, such as "score ~ 1" for the mean, of columns, numbers, arithmetic, comparisons, patsy's functions and
numpy's as np.log; nothing else is run. Factors to absorb go behind a bar, as in "score ~ x | question + judge".
Columns go by their names, or by Q("a name") where those are not Python names. The column in C(turn) or
C(turn, Treatment("1")) is read as text; that in C(turn, Treatment(1)) is not"""


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
    parser.add_argument(
        "--family",
        default="gaussian",
        metavar="NAME",
        help=f"{listed(FAMILIES)}: least squares (the default), or a GLM with its canonical link",
    )
    add_shared(parser)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg fit`` prints."""
    check_shared(options)
    option("family", options.family, FAMILIES)
    parse_formula(options.formula)
    formula = options.formula if options.score is None else with_score(options.formula, options.score)
    factors, plain = formula_names(formula)
    numbers = {*plain, options.weights}
    rows = read_rows(options, {*factors, *group_names(options.groups)} - numbers, numbers)
    if "score" in factors | plain:
        rows.refuse_verdicts("score")
    rows.one_metric(formula)
    with counting(rows):
        results = fit(
            formula,
            rows.frame,
            groups=options.groups,
            weights=options.weights,
            family=options.family,
            missing=options.missing,
            **covariance_options(options),
        )
    asked = {"formula": formula, "family": options.family, "groups": options.groups, "score": options.score}
    return rendered(results, rows, options, asked)
