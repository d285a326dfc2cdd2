"""Bad input: one row a case, with the type and the words of its error; and the right answer where there is one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.proportion import proportion_confint

import evalreg as er
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    CollinearityError,
    ConstantScoreError,
    ConvergenceError,
    DataError,
    DuplicateRowsError,
    EmptyDataError,
    EvalregError,
    FewClustersWarning,
    FormulaError,
    MissingColumnError,
    MissingLabelsError,
    NonFiniteError,
    NonNumericError,
    NotAvailableError,
    ScoreRangeError,
    TooFewClustersError,
    ZeroVarianceWarning,
)

N = 40
# Rounding of sums in another order; nothing here is ill-conditioned.
SAME = 1e-12


def make_log() -> pd.DataFrame:
    """Forty answers: questions lie inside passages, judges cross them."""
    rng = np.random.default_rng(1)
    row = np.arange(N)
    return pd.DataFrame(
        {
            "score": rng.integers(0, 2, N).astype(float),
            "x": rng.normal(size=N),
            "w": rng.uniform(1, 2, N),
            "passage": [f"p{i}" for i in row % 10],
            "question": [f"q{i}" for i in row % 20],
            "judge": [f"j{i}" for i in row % 3],
            "model": np.where(row < 20, "alpha", "beta"),
            "subject": np.where(row % 2, "law", "math"),
            "answer": row,
        }
    )


LOG = make_log()
BY_INDEX = pd.Series(LOG["passage"].to_numpy(), index=LOG.index)
BY_LABEL = BY_INDEX.set_axis([f"row {i}" for i in range(N)])


def put(**columns: Any) -> pd.DataFrame:
    """The log with other columns."""
    return LOG.assign(**columns)


def at(column: str, rows: list[int], value: Any, frame: pd.DataFrame = LOG) -> pd.DataFrame:
    """The log with one value in some rows of a column."""
    changed = frame[column].astype(object) if isinstance(value, str) or value is None else frame[column].copy()
    changed.iloc[rows] = value
    return frame.assign(**{column: changed})


def weighted(first: float) -> np.ndarray:
    return np.r_[first, np.ones(N - 1)]


ENGINES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
}
ANY = ("pandas", "polars")
EVERY = ("pandas", "polars", "lazy")
PANDAS = ("pandas",)

Errors = type[EvalregError] | tuple[type[EvalregError], ...]
# Which of these an unusable argument is, is for the code to say.
ANY_ERROR = (ArgumentError, ArgumentTypeError, DataError)


@dataclass(frozen=True)
class Case:
    """A call that must raise: of which type, in which words, with which attributes."""

    name: str
    call: Callable[[Any], Any]
    error: Errors
    words: tuple[str, ...]
    frame: pd.DataFrame = field(default_factory=lambda: LOG)
    column: str | None = None
    rows: list[int] | None = None
    count: int | None = None
    engines: tuple[str, ...] = ANY


CASES: list[Case] = []


def refuse(name: str, call: Callable[[Any], Any], error: Errors, *words: str, **more: Any) -> None:
    CASES.append(Case(name, call, error, words, **more))


# --- columns that are not there ---------------------------------------------------------------------------------------

for _name, _call, _argument, _wrong, _right in (
    ("formula left", lambda d: er.fit("scor ~ 1", d), "formula", "scor", "score"),
    ("formula left, covariates", lambda d: er.fit("scor ~ x", d), "formula", "scor", "score"),
    ("formula right", lambda d: er.fit("score ~ C(modle)", d), "formula", "modle", "model"),
    ("fit groups", lambda d: er.fit("score ~ 1", d, groups="pasage"), "groups", "pasage", "passage"),
    ("fit groups, covariates", lambda d: er.fit("score ~ x", d, groups="pasage"), "groups", "pasage", "passage"),
    ("crossed groups", lambda d: er.mean(d, groups="passage + jugde"), "groups", "jugde", "judge"),
    ("joint groups", lambda d: er.mean(d, groups="passage:jugde"), "groups", "jugde", "judge"),
    ("list of groups", lambda d: er.mean(d, groups=["passage", "jugde"]), "groups", "jugde", "judge"),
    ("with_cov groups", lambda d: er.mean(d).with_cov(groups="pasage"), "groups", "pasage", "passage"),
    ("score", lambda d: er.mean(d, "scor"), "score", "scor", "score"),
    ("by", lambda d: er.mean(d, by="modle"), "by", "modle", "model"),
    ("item", lambda d: er.mean(d, by="model", item="qestion"), "item", "qestion", "question"),
    ("sample", lambda d: er.mean(d, item="question", sample="anwser"), "sample", "anwser", "answer"),
    ("strata", lambda d: er.mean(d, strata="subjet"), "strata", "subjet", "subject"),
    ("fit weights", lambda d: er.fit("score ~ x", d, weights="W"), "weights", "W", "w"),
    ("mean weights", lambda d: er.mean(d, weights="W"), "weights", "W", "w"),
):
    refuse(
        f"missing column, {_name}",
        _call,
        MissingColumnError,
        f'^`{_argument}` names "{_wrong}", which is (not|neither) a column',
        f'Did you mean "{_right}"',
        column=_wrong,
    )
refuse(
    "missing column, nothing near",
    lambda d: er.mean(d, "grade"),
    MissingColumnError,
    '"grade"',
    'The columns are "score", "x", "w", "passage", "question" and 4 more',
    column="grade",
    engines=EVERY,
)
refuse(
    "missing column, engine",
    lambda d: er.mean(d, groups="pasage"),
    MissingColumnError,
    'Did you mean "passage"',
    column="pasage",
    engines=("lazy",),
)
refuse(
    "formula, an unknown function",
    lambda d: er.fit("score ~ logg(x)", d),
    FormulaError,
    "^`formula`",
    r"a call of logg\(\.\.\.\)",
    'Did you mean "np.log"',
    "make a column of anything else first",
)
refuse(
    "by is a number",
    lambda d: er.mean(d, by=5),
    ArgumentTypeError,
    "^`by` must be",
    "int",
)
refuse("score is a number", lambda d: er.mean(d, 5), ArgumentTypeError, "^`score` must be the name of a column", "int")
refuse("item is a list", lambda d: er.mean(d, item=["question"]), ArgumentTypeError, "^`item` must be", "list")
refuse("by twice", lambda d: er.mean(d, by=["model", "model"]), ArgumentError, "^`by`", '"model"', "twice")
refuse(
    "by is item", lambda d: er.mean(d, by="question", item="question"), ArgumentError, "`by`", "`item`", '"question"'
)

# --- no data ----------------------------------------------------------------------------------------------------------

refuse("empty, mean", lambda d: er.mean(d), EmptyDataError, "`data` has no rows", frame=LOG[:0], engines=EVERY)
refuse("empty, fit", lambda d: er.fit("score ~ x", d), EmptyDataError, "`data` has no rows", frame=LOG[:0])
refuse(
    "all dropped, mean",
    lambda d: er.mean(d),
    EmptyDataError,
    "no row is left",
    "all 40",
    "40 without a score",
    frame=put(score=np.nan),
    count=N,
)
refuse(
    "all dropped, fit",
    lambda d: er.fit("score ~ x", d, groups="passage"),
    EmptyDataError,
    "20 without a score",
    "10 without a covariate",
    "10 without a group",
    frame=at(
        "passage", list(range(30, 40)), None, at("x", list(range(20, 30)), np.nan, at("score", list(range(20)), np.nan))
    ),
    count=N,
)
refuse(
    "all dropped, engine", lambda d: er.mean(d), EmptyDataError, "no row", frame=put(score=np.nan), engines=("lazy",)
)
refuse(
    "more coefficients than rows",
    lambda d: er.fit("score ~ x + w + C(judge)", d),
    DataError,
    "more rows than coefficients",
    "3 rows and 5 coefficients",
    frame=LOG[:3],
    count=3,
)

# --- one cluster ------------------------------------------------------------------------------------------------------

for _name, _call in (
    ("mean", lambda d: er.mean(d, groups="passage")),
    ("fit, mean", lambda d: er.fit("score ~ 1", d, groups="passage")),
    ("fit", lambda d: er.fit("score ~ x", d, groups="passage")),
    ("with_cov", lambda d: er.mean(d).with_cov(groups="passage")),
    ("CR0", lambda d: er.mean(d, groups="passage", cov="CR0")),
):
    refuse(
        f"one cluster, {_name}",
        _call,
        TooFewClustersError,
        '^`groups="passage"` has 1 distinct value; at least 2 are needed',
        "groups=None",
        frame=put(passage="only"),
        column="passage",
        count=1,
    )
refuse(
    "one cluster, engine",
    lambda d: er.mean(d, groups="passage"),
    TooFewClustersError,
    '`groups="passage"` has 1 distinct value',
    frame=put(passage="only"),
    column="passage",
    count=1,
    engines=("lazy",),
)
for _name, _call, _other in (
    ("mean", lambda d: er.mean(d, groups="question + judge"), "question"),
    ("fit", lambda d: er.fit("score ~ x", d, groups="judge + question"), "question"),
    ("three", lambda d: er.mean(d, groups="passage + judge + model"), r"passage \+ model"),
):
    # One judge contains every prompt, but that is no nesting to be silent about.
    refuse(
        f"one judge in a crossed design, {_name}",
        _call,
        TooFewClustersError,
        '`groups="judge"` has 1 distinct value',
        f'[Uu]se groups="{_other}"',
        frame=put(judge="only"),
        column="judge",
        count=1,
        engines=EVERY if _name == "mean" else ANY,
    )

# --- infinite and missing values --------------------------------------------------------------------------------------

for _name, _call in (
    ("mean", er.mean),
    ("fit, mean", lambda d, **options: er.fit("score ~ 1", d, **options)),
    ("fit", lambda d, **options: er.fit("score ~ x", d, **options)),
):
    refuse(
        f"infinite score, {_name}",
        _call,
        NonFiniteError,
        "`score` must be finite",
        "rows 3, 5",
        frame=at("score", [3, 5], np.inf),
        column="score",
        rows=[3, 5],
        count=2,
    )
    refuse(
        f"missing score under raise, {_name}",
        lambda d, call=_call: call(d, missing="raise"),
        NonFiniteError,
        "may be missing",
        'missing="raise"',
        "rows 3, 5",
        'missing="drop"',
        frame=at("score", [3, 5], np.nan),
        column="score",
        rows=[3, 5],
        count=2,
    )
refuse(
    "infinite score, engine",
    lambda d: er.mean(d),
    NonFiniteError,
    "`score` must be finite",
    column="score",
    frame=at("score", [3], -np.inf),
    engines=("lazy",),
)
refuse(
    "missing score under raise, engine",
    lambda d: er.mean(d, missing="raise"),
    NonFiniteError,
    'missing="raise"',
    frame=at("score", [3], np.nan),
    count=1,
    engines=("lazy",),
)
for _name, _value in (("plus", np.inf), ("minus", -np.inf)):
    for _family in ("gaussian", "binomial"):
        refuse(
            f"covariate {_name} infinity, {_family}",
            lambda d, family=_family: er.fit("score ~ x", d, family=family),
            NonFiniteError,
            "must be finite",
            "x",
            "row 3",
            frame=at("x", [3], _value),
            column="x",
            rows=[3],
            count=1,
        )
for _name, _column, _call in (
    ("covariate", "x", lambda d: er.fit("score ~ x", d, missing="raise")),
    ("group", "passage", lambda d: er.mean(d, groups="passage", missing="raise")),
    ("weight", "w", lambda d: er.mean(d, weights="w", missing="raise")),
    ("label", "model", lambda d: er.mean(d, by="model", item="answer", missing="raise")),
):
    refuse(
        f"missing {_name} under raise",
        _call,
        NonFiniteError,
        'missing="raise"',
        "row 7",
        frame=at(_column, [7], None if _name in ("group", "label") else np.nan),
        column=_column,
        rows=[7],
        count=1,
    )
for _name, _call in (
    ("mean", lambda d: er.mean(d).with_cov(groups="passage")),
    ("fit", lambda d: er.fit("score ~ x", d).with_cov(groups="passage")),
):
    refuse(
        f"with_cov to a column with missing ids, {_name}",
        _call,
        MissingLabelsError,
        '`groups="passage"` must give an id to every row in use',
        "2 of 40",
        "rows 1, 2",
        "Fit again",
        frame=at("passage", [1, 2], None),
        column="passage",
        rows=[1, 2],
        count=2,
    )
refuse(
    "with_cov to a column with missing ids, engine",
    lambda d: er.mean(d).with_cov(groups="passage"),
    MissingLabelsError,
    "must give an id to every row in use",
    "Fit again",
    frame=at("passage", [1, 2], None),
    column="passage",
    engines=("lazy",),
)

# --- scores that are not numbers --------------------------------------------------------------------------------------

for _name, _call in (
    ("mean", lambda d: er.mean(d)),
    ("fit, mean", lambda d: er.fit("score ~ 1", d)),
    ("fit", lambda d: er.fit("score ~ x", d)),
):
    refuse(
        f"text score, {_name}",
        _call,
        NonNumericError,
        "`score` must hold numbers",
        '"good"',
        "rows 0, 1, 2, 3, 4 and 35 more",
        frame=put(score="good"),
        column="score",
        rows=[0, 1, 2, 3, 4],
        count=N,
    )
    refuse(
        f"numbers as text, {_name}",
        _call,
        NonNumericError,
        "`score` must hold numbers",
        '"1"',
        "Convert",
        frame=put(score=LOG["score"].astype(int).astype(str)),
        column="score",
        count=N,
    )
    refuse(
        f"numbers and text, {_name}",
        _call,
        NonNumericError,
        '"fail" in row 3',
        frame=at("score", [3], "fail"),
        column="score",
        rows=[3],
        count=1,
        engines=PANDAS,
    )
refuse(
    "dates for scores",
    lambda d: er.mean(d),
    NonNumericError,
    "`score` must hold numbers",
    column="score",
    frame=put(score=pd.Timestamp("2024-01-01")),
)
refuse(
    "text score, engine",
    lambda d: er.mean(d),
    NonNumericError,
    "`score` must hold numbers",
    column="score",
    frame=put(score="good"),
    engines=("lazy",),
)

# --- constant scores, collinear covariates ----------------------------------------------------------------------------

for _name, _call in (
    ("mean", lambda d: er.mean(d, groups="passage")),
    ("fit, mean", lambda d: er.fit("score ~ 1", d, groups="passage")),
    ("fit", lambda d: er.fit("score ~ x", d, groups="passage")),
):
    refuse(
        f"constant score, {_name}",
        _call,
        ConstantScoreError,
        "`score` must vary",
        "7 in every row",
        frame=put(score=7.0),
        column="score",
    )
refuse(
    "constant score of one model",
    lambda d: er.mean(d, by="model", item="answer"),
    ConstantScoreError,
    "7 in every row of",
    '"alpha"',
    frame=put(score=np.r_[np.full(20, 7.0), np.arange(20.0)]),
    column="score",
    count=1,
)
refuse(
    "constant bounded score with covariates",
    lambda d: er.fit("score ~ x", d, groups="passage"),
    ConstantScoreError,
    "1 in every row",
    frame=put(score=1.0),
    column="score",
)
refuse(
    "score determined by covariates",
    lambda d: er.fit("score ~ x", d, groups="passage"),
    ConstantScoreError,
    "determined by the covariates",
    frame=put(score=2 * LOG["x"] + 3),
    column="score",
)
for _family in ("gaussian", "binomial"):
    refuse(
        f"collinear covariates, {_family}",
        lambda d, family=_family: er.fit("score ~ x + twice", d, family=family),
        CollinearityError,
        "must not determine each other",
        '"twice"',
        "[Dd]rop",
        frame=put(twice=2 * LOG["x"] + 1),
        column="twice",
        count=1,
    )
refuse(
    "covariate of zeros",
    lambda d: er.fit("score ~ x + z", d),
    CollinearityError,
    '"z"',
    frame=put(z=0.0),
    column="z",
    count=1,
)
refuse(
    "interaction without rows",
    lambda d: er.fit("score ~ C(model) * C(kind)", d),
    CollinearityError,
    "beta.*:.*v",
    "[Dd]rop",
    frame=put(kind=["u"] * 20 + ["u", "v"] * 10),
    count=1,
)

# --- groups that are not labels of rows -------------------------------------------------------------------------------

refuse(
    "MultiIndex",
    lambda d: er.mean(d, groups=pd.MultiIndex.from_frame(LOG[["passage", "judge"]])),
    ArgumentTypeError,
    "one label a row",
    "MultiIndex holds several",
    "get_level_values",
)
refuse(
    "two-dimensional",
    lambda d: er.mean(d, groups=np.zeros((N, 2))),
    ArgumentTypeError,
    "one-dimensional",
    "2 dimensions",
)
for _name, _call in (
    ("mean", lambda d: er.mean(d, groups=np.arange(7))),
    ("fit", lambda d: er.fit("score ~ x", d, groups=np.arange(7))),
    ("with_cov", lambda d: er.mean(d).with_cov(groups=np.arange(7))),
):
    refuse(f"wrong length, {_name}", _call, AlignmentError, "one label for each row", "7 labels for 40 rows", count=7)
refuse(
    "Series that lacks rows",
    lambda d: er.mean(d, groups=BY_INDEX[:-3]),
    AlignmentError,
    "aligned by index",
    "rows 37, 38, 39",
    rows=[37, 38, 39],
    count=3,
    engines=PANDAS,
)
refuse(
    "Series with repeats in another index",
    lambda d: er.fit("score ~ x", d, groups=BY_INDEX.set_axis([0] * N)),
    AlignmentError,
    "index",
    "repeats",
    "array",
    engines=PANDAS,
)
refuse(
    "shuffled Series for a frame without an index",
    lambda d: er.mean(d, groups=BY_INDEX.sample(frac=1.0, random_state=1)),
    AlignmentError,
    "index",
    "array",
    engines=("polars",),
)
refuse("a number", lambda d: er.mean(d, groups=5), ArgumentTypeError, "`groups` must", "int")
refuse("a function", lambda d: er.mean(d, groups=len), ArgumentTypeError, "`groups` must", "function")
refuse(
    "a generator", lambda d: er.mean(d, groups=(i for i in range(N))), ArgumentTypeError, "`groups` must", "generator"
)
refuse("a set", lambda d: er.mean(d, groups={"passage"}), ArgumentTypeError, "`groups` must", "set")
refuse("a dict of names", lambda d: er.mean(d, groups={"a": "passage"}), ArgumentTypeError, "`groups`", "label", "str")
refuse("an empty text", lambda d: er.mean(d, groups=""), ArgumentError, "`groups`", '"prompt \\+ judge"')
refuse("an empty dict", lambda d: er.mean(d, groups={}), ArgumentError, "empty dict", "groups=None")
refuse(
    "an empty list",
    lambda d: er.fit("score ~ x", d, groups=[]),
    (ArgumentError, ArgumentTypeError),
    "empty list",
    "groups=None",
)
refuse("a plus at the end", lambda d: er.mean(d, groups="passage +"), ArgumentError, '"passage \\+"')
refuse("an open backtick", lambda d: er.mean(d, groups="`passage"), ArgumentError, '"`passage"')
for _name, _groups in (
    ("text", "passage + passage"),
    ("list", ["passage", "passage"]),
    ("joint", "passage:judge + judge:passage"),
    ("within a joint id", "passage:passage"),
):
    refuse(
        f"the same column twice, {_name}",
        lambda d, groups=_groups: er.mean(d, groups=groups),
        ArgumentError,
        "`groups`",
        "twice",
        "passage",
    )
refuse(
    "arrays for an engine",
    lambda d: er.mean(d, groups=np.arange(N)),
    (ArgumentTypeError, NotAvailableError),
    "column",
    engines=("lazy",),
)

# --- options ----------------------------------------------------------------------------------------------------------

OPTIONS = {
    "cov": ("naive", "HC0", "HC1", "HC2", "HC3", "CR0", "CR1", "CR2", "CR3", "jackknife"),
    "ssc": ("statsmodels", "fixest", "sandwich", "G", "none"),
    "dof": ("satterthwaite", "min", "normal"),
    "repair": ("max", "eigen", "two-term", "none"),
    "missing": ("drop", "raise"),
}
for _option, _values in OPTIONS.items():
    for _name, _call in (
        ("mean", lambda d, option=_option: er.mean(d, groups="passage", **{option: "stata"})),
        ("fit", lambda d, option=_option: er.fit("score ~ x", d, groups="passage", **{option: "stata"})),
    ):
        refuse(
            f"unknown {_option}, {_name}",
            _call,
            ArgumentError,
            f"^`{_option}` must be one of",
            "'stata'",
            *(f'"{value}"' for value in _values),
        )
refuse(
    "unknown family",
    lambda d: er.fit("score ~ x", d, family="normal"),
    ArgumentError,
    "`family` must be one of",
    '"gaussian", "binomial", "poisson"',
    "'normal'",
)
refuse(
    "unknown method",
    lambda d: er.mean(d).conf_int(method="wils"),
    ArgumentError,
    "`method` must be one of",
    '"clopper-pearson"',
    "'wils'",
    'Did you mean "wilson"',
)
refuse("cov in lower case", lambda d: er.mean(d, groups="passage", cov="cr2"), ArgumentError, 'Did you mean "CR2"')
refuse("unknown option in with_cov", lambda d: er.mean(d).with_cov(cov="HC9"), ArgumentError, "`cov` must be one of")
for _dof in (-1, 0, float("nan"), True):
    refuse(
        f"dof {_dof}",
        lambda d, dof=_dof: er.mean(d, dof=dof),
        ArgumentError,
        "`dof` must be",
        "positive number",
        f"got {_dof}",
    )
refuse("ssc with CR2", lambda d: er.mean(d, groups="passage", cov="CR2", ssc="G"), ArgumentError, "`ssc`", 'cov="CR1"')
refuse("ssc without cov", lambda d: er.mean(d, groups="passage", ssc="G"), ArgumentError, "`ssc`", 'Pass cov="CR1"')
refuse("CR2 without groups", lambda d: er.fit("score ~ x", d, cov="CR2"), ArgumentError, "needs clusters", "groups=")
refuse(
    "Satterthwaite without groups",
    lambda d: er.mean(d, dof="satterthwaite"),
    ArgumentError,
    "satterthwaite",
    'dof="min"',
)
refuse(
    "jackknife with eigen",
    lambda d: er.mean(d, groups="passage + judge", cov="jackknife", repair="eigen"),
    ArgumentError,
    'cov="jackknife"',
    'repair="max"',
    "eigen",
)
for _alpha, _error in (
    (0, ArgumentError),
    (1, ArgumentError),
    (5, ArgumentError),
    (float("nan"), ArgumentError),
    ("0.05", ArgumentTypeError),
    (None, ArgumentTypeError),
):
    for _name in ("conf_int", "summary", "to_frame"):
        refuse(
            f"alpha {_alpha!r}, {_name}",
            lambda d, name=_name, alpha=_alpha: getattr(er.mean(d), name)(alpha),
            _error,
            "`alpha` must",
            "between 0 and 1",
            f"got {_alpha!r}",
            engines=PANDAS,
        )

# --- weights ----------------------------------------------------------------------------------------------------------

for _name, _values, _rows, _count in (
    ("negative", np.r_[-1.0, -2.0, np.ones(N - 2)], [0, 1], 2),
    ("zero", weighted(0.0), [0], 1),
    ("all zero", np.zeros(N), [0, 1, 2, 3, 4], N),
):
    for _how, _call in (
        ("mean, array", lambda d, values=_values: er.mean(d, weights=values)),
        ("fit, array", lambda d, values=_values: er.fit("score ~ x", d, weights=values)),
        ("fit, column", lambda d: er.fit("score ~ x", d, weights="weight")),
    ):
        refuse(
            f"{_name} weights, {_how}",
            _call,
            ArgumentError,
            "^`weights` must be positive",
            "rows? 0",
            frame=put(weight=_values),
            column="weight" if "column" in _how else "weights",
            rows=_rows,
            count=_count,
        )
for _how, _call in (
    ("mean, array", lambda d: er.mean(d, weights=weighted(np.inf))),
    ("fit, array", lambda d: er.fit("score ~ x", d, weights=weighted(np.inf))),
    ("fit, column", lambda d: er.fit("score ~ x", d, weights="weight")),
):
    refuse(
        f"infinite weight, {_how}",
        _call,
        NonFiniteError,
        "`weights` must be finite",
        "row 0",
        frame=put(weight=weighted(np.inf)),
        rows=[0],
        count=1,
    )
for _how, _call in (
    ("mean", lambda d: er.mean(d, weights=np.ones(7))),
    ("fit", lambda d: er.fit("score ~ x", d, weights=np.ones(7))),
):
    refuse(
        f"weights of another length, {_how}",
        _call,
        AlignmentError,
        "^`weights` must have one",
        "got 7",
        "40 rows",
        count=7,
    )
refuse(
    "weights of text", lambda d: er.mean(d, weights=np.array(["a"] * N)), NonNumericError, "`weights` must", "numbers"
)
refuse(
    "weights of two dimensions",
    lambda d: er.mean(d, weights=np.ones((N, 2))),
    ArgumentTypeError,
    "`weights` must",
    "one-dimensional",
)
refuse("one number for weights", lambda d: er.mean(d, weights=5), ArgumentTypeError, "`weights` must", "int")
refuse(
    "negative weights, engine",
    lambda d: er.mean(d, weights="w"),
    ArgumentError,
    "`weights` must be positive",
    frame=put(w=-LOG["w"]),
    column="w",
    engines=("lazy",),
)
refuse(
    "infinite weights, engine",
    lambda d: er.mean(d, weights="w"),
    NonFiniteError,
    "`weights` must be finite",
    frame=at("w", [0], np.inf),
    column="w",
    engines=("lazy",),
)

# --- scores outside [0, 1] --------------------------------------------------------------------------------------------

RATINGS = put(score=np.arange(N) % 10 + 1)
for _method in ("wilson", "clopper-pearson", "jeffreys", "logit"):
    for _name, _call in (
        ("mean", lambda d, method=_method: er.mean(d, groups="passage").conf_int(method=method)),
        ("fit", lambda d, method=_method: er.fit("score ~ 1", d).conf_int(method=method)),
    ):
        refuse(
            f"{_method} of ratings, {_name}",
            _call,
            ScoreRangeError,
            f'`method="{_method}"`',
            r"\[0, 1\]",
            'method="wald"',
            frame=RATINGS,
        )
refuse(
    "wilson of a difference",
    lambda d: er.mean(d, by="model", item="answer").contrast("alpha - beta").conf_int(method="wilson"),
    ScoreRangeError,
    '`method="wilson"`',
    'method="wald"',
)
for _formula in ("score ~ x", "score ~ 1"):
    refuse(
        f"binomial of ratings, {_formula}",
        lambda d, formula=_formula: er.fit(formula, d, family="binomial"),
        ScoreRangeError,
        r"lie in \[0, 1\]",
        "'score' is 2",
        frame=RATINGS,
        column="score",
        count=36,
        rows=[1, 2, 3, 4, 5],
    )
refuse(
    "binomial of transformed ratings",
    lambda d: er.fit("I(score * 2) ~ x", d, family="binomial"),
    ScoreRangeError,
    r"lie in \[0, 1\]",
)
refuse(
    "poisson of negative scores",
    lambda d: er.fit("score ~ x", d, family="poisson"),
    ScoreRangeError,
    'family="poisson"',
    "negative",
    "row 3",
    frame=at("score", [3], -1.0),
    column="score",
    rows=[3],
    count=1,
)

# --- formulas ---------------------------------------------------------------------------------------------------------

for _name, _formula, _caret in (
    ("operators", "score ~ x +* 2", "\n    score ~ x \\+\\* 2\n +\\^"),
    ("bracket", "score ~ (x", "\n    score ~ \\(x\n +\\^"),
    ("open call", "score ~ np.log(x", "\n    score ~ np.log\\(x\n +\\^"),
    ("two tildes", "score ~ x ~ w", "\\^"),
    ("no right side", "score ~ ", "\\^"),
):
    refuse(
        f"formula syntax, {_name}", lambda d, formula=_formula: er.fit(formula, d), FormulaError, "`formula`", _caret
    )
refuse("formula syntax, two names", lambda d: er.fit("score ~ x w", d), FormulaError, "`formula`", "x w")
refuse("formula syntax, half a condition", lambda d: er.fit("score ~ x if", d), FormulaError, "`formula`", "x if")
for _name, _formula in (
    ("tilde", "~ x"),
    ("no tilde", "x"),
    ("empty", ""),
    ("a number", "1 ~ x"),
    ("two", "score + x ~ 1"),
):
    refuse(
        f"formula without one left side, {_name}",
        lambda d, formula=_formula: er.fit(formula, d),
        FormulaError,
        'one score on the left of "~"',
        re.escape(repr(_formula)),
        'Write "score ~ 1"',
    )
refuse("formula without a right side", lambda d: er.fit("score ~ 0", d), FormulaError, 'right of "~"')
refuse(
    "formula with an unknown function of numpy",
    lambda d: er.fit("score ~ np.logg(x)", d),
    FormulaError,
    "logg",
    "np.log",
)
refuse("formula with pandas", lambda d: er.fit("score ~ pd.cut(x, 3)", d), FormulaError, "pd.cut", "make a column")
refuse("Q of no column", lambda d: er.fit("score ~ Q('no such')", d), MissingColumnError, '"no such"', column="no such")
for _family in ("gaussian", "binomial"):
    refuse(
        f"log of negative numbers, {_family}",
        lambda d, family=_family: er.fit("score ~ np.log(x)", d, family=family),
        NonFiniteError,
        r"np\.log\(x\)",
        "rows? \\d",
        column="np.log(x)",
        count=int((LOG["x"] < 0).sum()),
    )
refuse(
    "log of zero",
    lambda d: er.fit("score ~ np.log(score)", d),
    NonFiniteError,
    r"np\.log\(score\)",
    "finite",
    column="np.log(score)",
    count=int((LOG["score"] == 0).sum()),
)
refuse(
    "log of negative scores",
    lambda d: er.fit("np.log(x) ~ w", d),
    NonFiniteError,
    r"np\.log\(x\)",
    column="np.log(x)",
    count=int((LOG["x"] < 0).sum()),
)
refuse(
    "division by zero",
    lambda d: er.fit("w ~ I(1 / score)", d),
    NonFiniteError,
    r"I\(1 / score\)",
    "finite",
    count=int((LOG["score"] == 0).sum()),
)
for _value in (5, None, ["score ~ 1"]):
    refuse(
        f"formula {_value!r}",
        lambda d, value=_value: er.fit(value, d),
        ArgumentTypeError,
        "`formula` must be a string",
        type(_value).__name__,
    )
refuse("formula and data swapped", lambda d: er.fit(d, "score ~ 1"), ArgumentTypeError, "`formula`", "DataFrame")
refuse(
    "a spline in an engine",
    lambda d: er.fit("score ~ bs(x, df=4)", d),
    NotAvailableError,
    "Make the column in the engine first and name it, or collect the columns",
    engines=("lazy",),
)

# --- items, samples, strata -------------------------------------------------------------------------------------------

SAMPLED = put(run=np.arange(N))
refuse(
    "repeats without sample",
    lambda d: er.mean(d, by="model", item="passage"),
    DuplicateRowsError,
    "one row for each 'model' and 'passage'",
    "20 rows repeat",
    "rows 10, 11, 12, 13, 14",
    "`sample`",
    column="passage",
    rows=[10, 11, 12, 13, 14],
    count=20,
)
refuse(
    "one repeat",
    lambda d: er.mean(d, by="model", item="answer"),
    DuplicateRowsError,
    "1 row repeats",
    frame=pd.concat([LOG, LOG[:1]], ignore_index=True),
    rows=[40],
    count=1,
)
refuse(
    "repeats, engine",
    lambda d: er.mean(d, by="model", item="passage"),
    DuplicateRowsError,
    "20 rows repeat",
    column="passage",
    count=20,
    engines=("lazy",),
)
refuse("sample without item", lambda d: er.mean(d, sample="answer"), ArgumentError, "`sample`", "`item`")
refuse(
    "repeats of a sample",
    lambda d: er.mean(d, by="model", item="answer", sample="run"),
    DuplicateRowsError,
    "'model'",
    "'answer'",
    "'run'",
    "40 rows repeat",
    "own sample id",
    frame=pd.concat([put(run=1)] * 2, ignore_index=True),
    rows=[40, 41, 42, 43, 44],
    count=40,
)
for _name, _call in (
    ("groups", lambda d: er.mean(d, item="question", sample="run", groups="judge")),
    ("with_cov", lambda d: er.mean(d, item="question", sample="run").with_cov(groups="judge")),
    ("strata", lambda d: er.mean(d, item="question", sample="run", strata="judge")),
):
    refuse(
        f"labels that differ within an item, {_name}",
        _call,
        AlignmentError,
        "averaged",
        "'judge' must be the same",
        "rows 20, 21, 22, 23, 24 and 15 more",
        frame=SAMPLED,
        column="judge",
        rows=[20, 21, 22, 23, 24],
        count=20,
    )
refuse(
    "weights that differ within an item",
    lambda d: er.mean(d, item="question", sample="run", weights="w"),
    AlignmentError,
    "averaged",
    "must be the same",
    frame=SAMPLED,
    count=20,
)
ONE_PASSAGE = put(passage=np.where(LOG["subject"] == "law", "only", LOG["passage"]))
for _cov in (None, "CR0", "CR1", "CR2", "CR3"):
    refuse(
        f"a stratum of one cluster, {_cov}",
        lambda d, cov=_cov: er.mean(d, strata="subject", groups="passage", cov=cov),
        TooFewClustersError,
        "every stratum",
        '"law"',
        "at least 2",
        frame=ONE_PASSAGE,
        column="passage",
        count=1,
    )
refuse(
    "a stratum of one row",
    lambda d: er.mean(d, strata="subject"),
    TooFewClustersError,
    '"rare"',
    "at least 2",
    frame=put(subject=["rare", *["law"] * (N - 1)]),
    count=1,
)
EQUAL = {"law": 1.0, "math": 1.0}
refuse(
    "strata_weights, unknown stratum",
    lambda d: er.mean(d, strata="subject", strata_weights=EQUAL | {"art": 1.0}),
    ArgumentError,
    "`strata_weights`",
    '"law", "math"',
    '"art"',
)
refuse(
    "strata_weights, missing stratum",
    lambda d: er.mean(d, strata="subject", strata_weights={"law": 1.0}),
    ArgumentError,
    "`strata_weights`",
    '"math" has no weight\\.$',
)
refuse(
    "strata_weights, misspelt stratum",
    lambda d: er.mean(d, strata="subject", strata_weights={"law": 1, "maths": 1}),
    ArgumentError,
    "`strata_weights`",
    '"maths"',
)
refuse(
    "strata_weights, negative",
    lambda d: er.mean(d, strata="subject", strata_weights=EQUAL | {"law": -1.0}),
    ArgumentError,
    "`strata_weights` must be positive",
    "law",
)
refuse(
    "strata_weights, text",
    lambda d: er.mean(d, strata="subject", strata_weights=EQUAL | {"law": "x"}),
    (ArgumentError, ArgumentTypeError),
    "`strata_weights`",
    "law|'x'",
)
for _value in (3, None):
    refuse(
        f"strata_weights {_value}",
        lambda d, value=_value: er.mean(d, strata="subject", strata_weights=value),
        (ArgumentError, ArgumentTypeError),
        "`strata_weights` must be",
        "micro",
        "macro",
    )
refuse(
    "strata_weights, unknown name",
    lambda d: er.mean(d, strata="subject", strata_weights="equal"),
    ArgumentError,
    "`strata_weights` must be",
    '"micro", "macro"',
    "'equal'",
)
for _value in (EQUAL, "macro"):
    refuse(
        f"strata_weights {_value} without strata",
        lambda d, value=_value: er.mean(d, strata_weights=value),
        ArgumentError,
        "`strata_weights` needs `strata`",
    )
refuse(
    "macro with an absent stratum",
    lambda d: er.mean(d, by="model", strata="half", strata_weights="macro"),
    DataError,
    "every stratum",
    "'alpha' has none",
    '"second"',
    "micro",
    frame=put(half=["first"] * 20 + ["second"] * 20),
)
refuse(
    "models whose joint names collide",
    lambda d: er.mean(d, by=["left", "right"], item="answer"),
    (ArgumentError, DataError),
    "distinct|alike",
    "a:b:c",
    frame=put(left=["a:b", "a"] * 20, right=["c", "b:c"] * 20),
    engines=EVERY,
)
refuse(
    "models that print alike",
    lambda d: er.mean(d, by="name", item="answer"),
    (ArgumentError, DataError),
    "distinct|alike",
    '"1"',
    frame=put(name=pd.Series([1, "1"] * 20, dtype=object)),
    engines=PANDAS,
)

# --- data -------------------------------------------------------------------------------------------------------------

TWICE = pd.concat([LOG, LOG[["score"]]], axis=1)
for _name, _call in (("mean", lambda d: er.mean(d)), ("fit", lambda d: er.fit("score ~ x", d))):
    refuse(
        f"duplicate column names, {_name}",
        _call,
        ANY_ERROR,
        "distinct column names",
        '"score"',
        frame=TWICE,
        engines=PANDAS,
    )
for _value in ([1, 0], None, np.ones((3, 2)), b"log.csv", LOG["score"]):
    for _name, _call in (("mean", er.mean), ("fit", lambda d: er.fit("score ~ 1", d))):
        refuse(
            f"not a data frame, {type(_value).__name__}, {_name}",
            lambda d, call=_call, value=_value: call(value),
            ArgumentTypeError,
            "`data` must be a data frame",
            f"got {type(_value).__name__}",
            engines=PANDAS,
        )
for _name, _call in (("mean", er.mean), ("fit", lambda d: er.fit("score ~ 1", d))):
    refuse(
        f"a path, {_name}",
        lambda d, call=_call: call("log.csv"),
        ANY_ERROR,
        "`data` must be rows",
        "er.read_log",
        "log.csv",
        engines=PANDAS,
    )
refuse(
    "a dict of unequal columns",
    lambda d: er.mean({"score": [1, 0], "x": [1]}),
    ANY_ERROR,
    "`data`",
    "length",
    engines=PANDAS,
)
refuse("a dict of numbers", lambda d: er.mean({"score": 1}), ANY_ERROR, "`data`", "array", engines=PANDAS)
refuse(
    "infer of a number",
    lambda d: er.infer(5),
    ArgumentTypeError,
    "`estimate` must be an Estimate",
    "int",
    engines=PANDAS,
)
refuse(
    "covariance of results",
    lambda d: er.covariance(er.mean(d), "passage"),
    ArgumentTypeError,
    "`estimate` must be an Estimate",
    "Results",
    r"\.estimate",
    engines=PANDAS,
)
refuse(
    "from_statsmodels of a number",
    lambda d: er.from_statsmodels(5),
    ArgumentTypeError,
    "fitted statsmodels model",
    "int",
    engines=PANDAS,
)

# --- contrasts --------------------------------------------------------------------------------------------------------


def regression() -> er.Results:
    return er.fit("score ~ x + C(judge)", LOG, groups="passage")


for _method in ("contrast", "t_test", "wald_test"):

    def _ask(d: Any, value: Any, method: str = _method) -> Any:
        return getattr(regression(), method)(value)

    for _name, _value, _error, _words in (
        ("unknown parameter in text", "Intercpt - x", MissingColumnError, ('"Intercpt"', 'Did you mean "Intercept"')),
        (
            "unknown level in text",
            "x - C(judge)[T.j7]",
            MissingColumnError,
            ('"C\\(judge\\)\\[T.j7\\]"', "Did you mean"),
        ),
        (
            "unknown parameter in a dict",
            {"Intercpt": 1},
            MissingColumnError,
            ('"Intercpt"', 'Did you mean "Intercept"'),
        ),
        (
            "nothing near",
            {"zzz": 1},
            MissingColumnError,
            ('"zzz" is not a parameter', 'The parameters are "Intercept"'),
        ),
        ("half a text", "x -", FormulaError, ("does not parse", "\\^", "The parameters are")),
        ("not linear", "x*x", FormulaError, ("does not parse", "\\^")),
        ("text that cancels", "x - x", FormulaError, ("\\^",)),
        ("an empty text", "", (FormulaError, ArgumentError), ("contrast", "empty|some parameter")),
        ("zeros", [0, 0, 0, 0], ArgumentError, ("must involve some parameter",)),
        ("zeros in a dict", {"x": 0}, ArgumentError, ("must involve some parameter",)),
        ("an empty dict", {}, ArgumentError, ("must involve some parameter",)),
        ("wrong length", [1, 0], ArgumentError, ("one column for each of the 4 parameters",)),
        ("wrong shape", np.ones((1, 1, 4)), ArgumentError, ("shape \\(1, 1, 4\\)",)),
        ("text for a coefficient", {"x": "a"}, (ArgumentError, ArgumentTypeError), ("contrast", "number")),
        ("a list of texts", ["x", "Intercept"], (ArgumentError, ArgumentTypeError), ("contrast", "number")),
        ("a missing coefficient", {"x": np.nan}, (ArgumentError, NonFiniteError), ("contrast", "finite")),
        ("an infinite coefficient", [0, np.inf, 0, 0], (ArgumentError, NonFiniteError), ("contrast", "finite")),
        ("nothing", None, (ArgumentError, ArgumentTypeError), ("contrast",)),
    ):
        refuse(f"{_method}, {_name}", lambda d, value=_value, ask=_ask: ask(d, value), _error, *_words, engines=PANDAS)
refuse("contrast with a number", lambda d: regression().contrast("x = 3"), ArgumentError, "`t_test`", engines=PANDAS)
for _name, _value in (("text", "x = 0, 2 * x = 0"), ("matrix", [[0, 1, 0, 0], [0, 2, 0, 0]])):
    refuse(
        f"dependent hypotheses, {_name}",
        lambda d, value=_value: regression().wald_test(value),
        ArgumentError,
        "hypotheses",
        "must not follow from each other",
        engines=PANDAS,
    )
refuse(
    "icc of an unknown clustering",
    lambda d: er.mean(d, groups="passage").icc("pasage"),
    MissingColumnError,
    '"pasage"',
    'Did you mean "passage"',
    column="pasage",
    engines=PANDAS,
)
refuse(
    "influence by an unknown column",
    lambda d: er.mean(d, groups="passage").influence("pasage"),
    MissingColumnError,
    '"pasage"',
    'Did you mean "passage"',
    column="pasage",
    engines=PANDAS,
)

# --- fits that do not converge ----------------------------------------------------------------------------------------

refuse(
    "perfect separation",
    lambda d: er.fit("score ~ z", d, family="binomial", groups="passage"),
    ConvergenceError,
    "separate",
    "perfectly",
    "[Dd]rop",
    frame=put(z=LOG["score"] * 2 - 1 + 0.01 * LOG["x"]),
)
refuse(
    "separation by one level",
    lambda d: er.fit("score ~ C(z)", d, family="binomial", groups="passage"),
    ConvergenceError,
    "separate",
    frame=put(z=np.where(LOG["score"] == 1, np.arange(N) % 2, 0)),
)
for _family, _score in (("binomial", 1.0), ("binomial", 0.0), ("binomial", 0.5), ("poisson", 0.0)):
    refuse(
        f"constant scores, {_family}, {_score}",
        lambda d, family=_family: er.fit("score ~ x", d, family=family),
        ConstantScoreError,
        f"{_score:g} in every row",
        frame=put(score=_score),
        column="score",
    )
refuse(
    "separated counts",
    lambda d: er.fit("score ~ C(model)", d, family="poisson"),
    ConvergenceError,
    "separate",
    frame=put(score=np.r_[np.zeros(20), np.arange(20) % 3]),
)

NAMED = [(case, engine) for case in CASES for engine in case.engines]


@cache
def _raised(name: str, engine: str) -> BaseException | None:
    case = next(case for case in CASES if case.name == name)
    data = ENGINES[engine](case.frame)
    try:
        with warnings.catch_warnings():
            # Fragile results may warn before the error; what other packages warn of would be noise.
            warnings.simplefilter("ignore", er.errors.EvalregWarning)
            case.call(data)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(("case", "engine"), NAMED, ids=[f"{case.name} [{engine}]" for case, engine in NAMED])
def test_bad_input_raises_its_type_in_these_words(case: Case, engine: str) -> None:
    error = _raised(case.name, engine)
    assert error is not None, "nothing was raised"
    assert isinstance(error, case.error), repr(error)
    for words in case.words:
        assert re.search(words, str(error)), f"{words!r} is not in: {error}"
    for name in ("column", "rows", "count"):
        expected = getattr(case, name)
        if expected is not None:
            assert getattr(error, name) == expected


@pytest.mark.parametrize(("case", "engine"), NAMED, ids=[f"{case.name} [{engine}]" for case, engine in NAMED])
def test_every_error_is_of_two_families_and_reads_as_a_message(case: Case, engine: str) -> None:
    error = _raised(case.name, engine)
    assert isinstance(error, EvalregError), repr(error)
    assert isinstance(error, ValueError | TypeError | KeyError | RuntimeError)
    text = str(error)
    assert text == error.message
    assert text[0] not in "'\"" or text[-1] != text[0]
    for noise in ("Traceback", 'File "', "object at 0x", "<class", "np.float64(", "np.str_(", "dtype("):
        assert noise not in text
    # What another package raised is told, not shown.
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    # A full stop, a question ("Did you mean ...?"), or patsy's caret under the place.
    assert text[-1] in ".?^", text
    assert "\n" not in text or "^" in text
    assert not re.search(r"\b1 (rows|labels|clusters|hypotheses|coefficients|values|degrees)\b", text), text
    for run in re.findall(r"rows? (\d+(?:, \d+)*)", text):
        assert run.count(",") < 5
    if error.rows is not None:
        assert len(error.rows) <= 5
        assert error.count is not None
        assert error.count >= len(error.rows)
        assert error.count == len(error.rows) or f"and {error.count - len(error.rows)} more" in text


def test_case_names_are_distinct() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


# --- bad input with a right answer ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["pandas", "polars"])
def test_missing_values_are_dropped_and_counted_once_in_order(engine: str) -> None:
    frame = at("passage", [3, 4, 5, 6], None, at("x", [2, 3], np.nan, at("score", [0, 1, 2], np.nan)))
    results = er.fit("score ~ x", ENGINES[engine](frame), groups="passage")
    assert results.dropped.to_dict() == {"score": 3, "covariate": 1, "group": 3}
    assert results.nobs == N - 7
    kept = er.fit("score ~ x", ENGINES[engine](LOG[7:]), groups="passage")
    np.testing.assert_allclose(results.to_frame(), kept.to_frame(), rtol=SAME)


@pytest.mark.parametrize("engine", ["pandas", "polars", "lazy"])
def test_rows_without_a_score_or_a_cluster_are_dropped_and_counted(engine: str) -> None:
    frame = at("passage", [1, 2, 3], None, at("score", [0, 1], np.nan))
    results = er.mean(ENGINES[engine](frame), groups="passage")
    assert results.dropped.to_dict() == {"score": 2, "covariate": 0, "group": 2}
    np.testing.assert_allclose(results.to_frame(), er.mean(LOG[4:], groups="passage").to_frame(), rtol=SAME)


def test_none_nan_and_na_are_all_missing() -> None:
    scores = LOG["score"].astype(object)
    scores.iloc[[0, 1, 2]] = [None, np.nan, pd.NA]
    results = er.mean(put(score=scores), groups="passage")
    assert results.dropped["score"] == 3
    np.testing.assert_allclose(results.to_frame(), er.mean(LOG[3:], groups="passage").to_frame(), rtol=SAME)


def test_rows_without_a_weight_are_dropped_and_counted() -> None:
    results = er.fit("score ~ x", LOG, weights=weighted(np.nan))
    assert results.dropped.to_dict() == {"score": 0, "covariate": 1, "group": 0}


TRUE = LOG["score"] == 1
BOOLEANS: dict[str, Callable[[], Any]] = {
    "numpy": lambda: put(score=TRUE),
    "nullable": lambda: put(score=TRUE.astype("boolean")),
    "nullable with NA": lambda: at("score", [3], pd.NA, put(score=TRUE.astype("boolean"))),
    "objects": lambda: put(score=TRUE.astype(object)),
    "objects with None": lambda: at("score", [3], None, put(score=TRUE)),
    "polars": lambda: pl.from_pandas(put(score=TRUE)),
    "polars with null": lambda: pl.from_pandas(at("score", [3], pd.NA, put(score=TRUE.astype("boolean")))),
}


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize(
    "estimate",
    [
        lambda data: er.mean(data, groups="passage"),
        lambda data: er.fit("score ~ 1", data, groups="passage"),
        lambda data: er.fit("score ~ x", data, groups="passage"),
    ],
    ids=["mean", "fit, mean", "fit"],
)
def test_boolean_scores_are_zero_and_one(name: str, estimate: Callable[[Any], er.Results]) -> None:
    missing = "with" in name
    expected = estimate(at("score", [3], np.nan) if missing else LOG)
    results = estimate(BOOLEANS[name]())
    pd.testing.assert_frame_equal(results.to_frame(), expected.to_frame(), rtol=SAME)
    assert results.dropped["score"] == (1 if missing else 0)


@pytest.mark.parametrize(
    "with_labels",
    [
        lambda labels: er.mean(LOG, groups=labels),
        lambda labels: er.fit("score ~ 1", LOG, groups=labels),
        lambda labels: er.mean(LOG).with_cov(groups=labels),
        lambda labels: er.mean(LOG, groups={"passage": labels}),
        lambda labels: er.infer(er.from_statsmodels(smf.ols("score ~ 1", LOG).fit()), groups=labels),
    ],
    ids=["mean", "fit", "with_cov", "dict", "infer"],
)
def test_a_series_is_aligned_by_its_index(with_labels: Callable[[Any], er.Results]) -> None:
    shuffled = BY_INDEX.sample(frac=1.0, random_state=1)
    assert shuffled.to_list() != BY_INDEX.to_list()
    expected = er.mean(LOG, groups="passage").bse.iloc[0]
    assert with_labels(shuffled).bse.iloc[0] == pytest.approx(expected, rel=SAME)
    assert with_labels(shuffled.to_numpy()).bse.iloc[0] != pytest.approx(expected, rel=1e-3)


def test_a_series_of_weights_is_aligned_by_its_index() -> None:
    shuffled = LOG["w"].sample(frac=1.0, random_state=1)
    np.testing.assert_allclose(
        er.mean(LOG, weights=shuffled).to_frame(), er.mean(LOG, weights="w").to_frame(), rtol=SAME
    )


def test_labels_in_an_index_of_text_are_aligned_too() -> None:
    frame = LOG.set_axis(BY_LABEL.index)
    shuffled = BY_LABEL.sample(frac=1.0, random_state=1)
    assert er.mean(frame, groups=shuffled).bse.iloc[0] == pytest.approx(
        er.mean(LOG, groups="passage").bse.iloc[0], rel=SAME
    )


def test_an_equal_index_with_repeats_is_taken_as_it_stands() -> None:
    frame = LOG.set_axis([0] * N)
    results = er.mean(frame, groups=pd.Series(LOG["passage"].to_numpy(), index=frame.index))
    assert results.bse.iloc[0] == pytest.approx(er.mean(LOG, groups="passage").bse.iloc[0], rel=SAME)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("separator", ["_", ":", "\x1f", ""])
@pytest.mark.parametrize("groups", ["left + right", ["left", "right"], "left:right"])
def test_ids_that_collide_when_joined_stay_apart(separator: str, groups: Any) -> None:
    left = [f"a{separator}b", "a", "a", f"a{separator}b"]
    right = ["c", f"b{separator}c", "c", f"b{separator}c"]
    frame = pd.DataFrame({"score": np.arange(16.0) % 3, "left": left * 4, "right": right * 4})
    plain = frame.assign(left=[0, 1, 1, 0] * 4, right=[0, 1, 0, 1] * 4)
    results, expected = er.mean(frame, groups=groups), er.mean(plain, groups=groups)
    assert results.n_clusters["left:right"] == 4
    assert results.n_clusters == expected.n_clusters
    np.testing.assert_allclose(results.to_frame(), expected.to_frame(), rtol=SAME)


def test_unused_categories_are_neither_clusters_nor_columns() -> None:
    passages = pd.Categorical(LOG["passage"], categories=["never", *LOG["passage"].unique(), "nor this"])
    judges = pd.Categorical(LOG["judge"], categories=["j0", "never", "j1", "j2"])
    results = er.fit("score ~ judge", put(passage=passages, judge=judges), groups="passage")
    assert results.n_clusters == {"passage": 10}
    assert list(results.params.index) == ["Intercept", "judge[T.j1]", "judge[T.j2]"]
    assert er.mean(put(passage=passages), groups="passage").n_clusters == {"passage": 10}


def test_a_level_whose_rows_were_dropped_is_not_a_column() -> None:
    frame = at("score", list(np.flatnonzero(LOG["judge"] == "j1")), np.nan)
    assert list(er.fit("score ~ judge", frame).params.index) == ["Intercept", "judge[T.j2]"]


@pytest.mark.parametrize(("score", "low", "high"), [(1.0, 0.5, 1.0), (0.0, 0.0, 0.5), (0.5, 0.1, 0.9)])
@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (lambda data: er.mean(data, groups="passage"), "no standard error.*do not vary.*by the score test alone"),
        (
            lambda data: er.fit("score ~ 1", data, groups="passage"),
            "do not vary.*standard error is 0.*Clopper-Pearson",
        ),
    ],
    ids=["mean", "fit"],
)
def test_constant_bounded_scores_have_no_p_value_but_a_real_interval(
    estimate: Callable[[Any], er.Results], words: str, score: float, low: float, high: float
) -> None:
    with pytest.warns(ZeroVarianceWarning, match=words):
        results = estimate(put(score=score))
    assert results.bse.tolist() == [0.0]
    assert np.isnan(results.pvalues).all()
    assert np.isnan(results.tvalues).all()
    interval = results.conf_int().iloc[0]
    assert low <= interval[0] < interval[1] <= high
    # Wilson's of as many rows, were they independent.
    alone = proportion_confint(score * N, N, method="wilson")
    assert interval[1] - interval[0] > alone[1] - alone[0]


def few_clusters(**options: Any) -> er.Results:
    """Five coefficients, four clusters."""
    frame = put(passage=np.where(LOG["passage"] < "p3", LOG["passage"], "p3"))
    with pytest.warns(FewClustersWarning, match="4 passage clusters for 5 coefficients.*singular") as record:
        results = er.fit("score ~ x + w + C(judge)", frame, groups="passage", **options)
    assert any("4 passage clusters: " in str(one.message) for one in record)
    return results


@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3"])
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_fewer_clusters_than_coefficients_gives_finite_t_tests_or_a_reason(cov: Any) -> None:
    results = few_clusters(cov=cov)
    known = results.bse > 0
    assert known.any()
    assert np.isfinite(results.pvalues[known]).all()
    notes = " ".join(text for _, text in results.notes)
    for name in results.params.index[~known]:
        assert name in notes


@pytest.mark.parametrize("options", [{"cov": "CR1"}, {"cov": "CR1", "dof": "normal"}, {"cov": "CR3"}], ids=str)
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_joint_test_of_more_hypotheses_than_clusters_less_one_is_refused(options: dict[str, Any]) -> None:
    results = few_clusters(**options)
    with pytest.raises(TooFewClustersError, match=r"4 hypotheses.*3 ") as caught:
        results.wald_test(np.eye(5)[1:])
    assert caught.value.count == 4


@pytest.mark.parametrize(
    ("options", "n_hypotheses"), [({}, 3), ({}, 4), ({"cov": "CR0", "dof": "satterthwaite"}, 4)], ids=str
)
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_joint_test_without_degrees_of_freedom_is_missing_with_its_reason(
    options: dict[str, Any], n_hypotheses: int
) -> None:
    test = few_clusters(**options).wald_test(np.eye(5)[-n_hypotheses:])
    assert np.isnan(test.pvalue)
    assert f"degrees of freedom cannot test {n_hypotheses} contrasts" in test.reason


def test_a_factor_with_one_level_is_the_mean() -> None:
    one = er.fit("score ~ C(kind)", put(kind="only"), groups="passage")
    np.testing.assert_allclose(one.to_frame(), er.fit("score ~ 1", LOG, groups="passage").to_frame(), rtol=SAME)


def test_joint_names_of_models_that_do_not_collide_are_fine() -> None:
    frame = put(left=["a", "b"] * 20, right=["c", "c", "d", "d"] * 10)
    assert list(er.mean(frame, by=["left", "right"], item="answer").params.index) == ["a:c", "a:d", "b:c", "b:d"]
