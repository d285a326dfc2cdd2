"""Bad logs of comparisons: the type and the words of each error; and what is fragile is said, not hidden."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evalreg as er
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    EmptyDataError,
    EvalregError,
    FewClustersWarning,
    LeverageWarning,
    MissingColumnError,
    NonFiniteError,
    NonNumericError,
    NotAvailableError,
    ScoreRangeError,
    SelfComparisonError,
    SparseBoardWarning,
    TooFewClustersError,
    UnknownLabelError,
)

MODELS = ["ada", "bob", "cyd", "dan"]


def make_log() -> pd.DataFrame:
    """Each of six pairs once on each of twenty prompts, by one of three judges; a tie in every ninth row."""
    rng = np.random.default_rng(4)
    pairs = [(a, b) for i, a in enumerate(MODELS) for b in MODELS[i + 1 :]]
    n = 120
    row = np.arange(n)
    sides = np.array(pairs, dtype=object)[row % 6]
    turned = row % 4 == 1
    sides[turned] = sides[turned, ::-1]
    winner = np.where(rng.random(n) < 0.6, "left", "right").astype(object)
    winner[row % 9 == 0] = "tie"
    return pd.DataFrame(
        {
            "left": sides[:, 0],
            "right": sides[:, 1],
            "winner": winner,
            "score": pd.Series(winner).map({"left": 1.0, "right": 0.0, "tie": 0.5}),
            "prompt": [f"p{i:02d}" for i in row // 6],
            "judge": [f"j{i}" for i in rng.integers(3, size=n)],
            "lang": np.where(row // 6 % 2, "de", "en"),
            "weight": rng.uniform(1, 2, n),
        }
    )


LOG = make_log()
TIES = np.flatnonzero(LOG["winner"] == "tie")
VERDICTS: dict[str, Any] = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
SCORES: dict[str, Any] = {"left": "left", "right": "right", "score": "score", "groups": "prompt"}


def at(column: str, rows: Any, value: Any) -> pd.DataFrame:
    """The log with one value in some rows of a column."""
    changed = LOG[column].astype(object) if isinstance(value, str) or value is None else LOG[column].copy()
    changed.iloc[rows] = value
    return LOG.assign(**{column: changed})


def said(verdict: dict[Any, Any]) -> pd.DataFrame:
    """The log with its verdicts written otherwise."""
    return LOG.assign(winner=LOG["winner"].map(lambda value: verdict.get(value, value)).astype(object))


def weights(value: Any = 1.0, index: list[str] | None = None, columns: list[str] | None = None) -> pd.DataFrame:
    return pd.DataFrame(value, index=index or MODELS, columns=columns or MODELS)


def negative() -> pd.DataFrame:
    table = weights()
    table.loc["ada", "cyd"] = -0.5
    return table


def one_stranger() -> pd.DataFrame:
    """Dan meets nobody in German."""
    return LOG[(LOG["lang"] == "en") | ((LOG["left"] != "dan") & (LOG["right"] != "dan"))]


TWICE = pd.concat([LOG, LOG.iloc[[3, 7]]], ignore_index=True)
BY: dict[str, Any] = {**VERDICTS, "by": "lang"}
n_ties = f"({TIES.size})"

# Frame, options, error, parts of its message. The parts are the rule, what was found, what to do.
CASES: dict[str, tuple[Any, dict[str, Any], type[EvalregError], list[str]]] = {
    "unknown verdict": (
        at("winner", TIES, "unsure"),
        VERDICTS,
        UnknownLabelError,
        [
            '`winner` must hold "left", "right", "tie"',
            f"column 'winner' also holds 'unsure' {n_ties}",
            "rows 0, 9, 18, 27, 36 and 9 more",
            "`labels`",
            "None for no verdict",
        ],
    ),
    "other case": (
        said({"tie": "Tie"}),
        VERDICTS,
        UnknownLabelError,
        [f"'Tie' {n_ties}", "Perhaps labels={'Tie': 'tie'}"],
    ),
    "upper case": (said({"left": "LEFT"}), VERDICTS, UnknownLabelError, ["'LEFT'", "Perhaps labels={'LEFT': 'left'}"]),
    "spaces": (said({"left": "left "}), VERDICTS, UnknownLabelError, ["Perhaps labels={'left ': 'left'}"]),
    "spelled as arenas do": (
        said({"left": "model_a", "right": "model_b", "tie": "tie (bothbad)"}),
        VERDICTS,
        UnknownLabelError,
        ["'model_b'", "Perhaps labels={", "'model_a': 'left'", "'model_b': 'right'", "'tie (bothbad)': 'tie'"],
    ),
    "numbers": (
        said({"left": 1, "right": 2, "tie": 0}),
        VERDICTS,
        UnknownLabelError,
        ["1: 'left'", "2: 'right'", f"0 {n_ties}"],
    ),
    "true and false": (
        LOG.assign(winner=LOG["winner"] == "left"),
        VERDICTS,
        UnknownLabelError,
        ["column 'winner' also holds False (58), True (62)"],
    ),
    "text of a null": (said({"tie": "None"}), VERDICTS, UnknownLabelError, [f"'None' {n_ties}"]),
    "empty text": (said({"tie": ""}), VERDICTS, UnknownLabelError, [f"'' {n_ties}"]),
    "many verdicts": (
        LOG.assign(winner=[f"v{i % 8}" for i in range(120)]),
        VERDICTS,
        UnknownLabelError,
        ["'v0' (15), 'v1' (15), 'v2' (15), 'v3' (15), 'v4' (15) and 3 more", "and 115 more"],
    ),
    "misspelled model": (
        said({"tie": "Ada"}),
        VERDICTS,
        UnknownLabelError,
        [f"'Ada' {n_ties}", 'Did you mean "dan" or "ada"?'],
    ),
    "winner of another row": (
        LOG.assign(winner=np.where(LOG["winner"] == "tie", "ada", LOG["left"])),
        VERDICTS,
        UnknownLabelError,
        ["must name one of the row's two", '"ada" won without being compared', "Correct the rows", "`labels`"],
    ),
    "labels to a winner of another row": (
        LOG,
        {**VERDICTS, "labels": {"tie": "ada"}},
        UnknownLabelError,
        ["must name one of the row's two", '"ada" won without being compared'],
    ),
    "a model called left": (
        LOG.replace({"left": {"ada": "left"}, "right": {"ada": "left"}}),
        VERDICTS,
        DataError,
        ['a model is called "left"', "could mean it or the side", 'labels={"left": "left"}', "rename the model"],
    ),
    "a model called tie": (
        LOG.replace({"left": {"ada": "tie"}, "right": {"ada": "tie"}}),
        VERDICTS,
        DataError,
        ['a model is called "tie"', 'the verdict "tie" could mean it or the side', "`labels`"],
    ),
    "models called left and named by verdicts": (
        LOG.replace({"left": {"ada": "left"}, "right": {"ada": "left"}}).assign(
            winner=lambda log: np.where(log["score"] == 1, log["left"], log["right"])
        ),
        VERDICTS,
        DataError,
        ['a model is called "left"', "rename the model"],
    ),
    "labels as a list": (LOG, {**VERDICTS, "labels": ["left"]}, ArgumentTypeError, ["`labels` must map", "got list"]),
    "labels to nonsense": (
        LOG,
        {**VERDICTS, "labels": {"tie": "Tie"}},
        ArgumentError,
        ['`labels` must map verdicts to "left", "right", "tie"', 'got "Tie"', 'Did you mean "tie"?'],
    ),
    "labels to numbers": (
        LOG,
        {**VERDICTS, "labels": {"left": 1, "right": 0}},
        ArgumentError,
        ["`labels` must map verdicts", "got 1, 0"],
    ),
    "labels to nothing": (LOG, {**VERDICTS, "labels": {"tie": ""}}, ArgumentError, ["`labels` must map", 'got ""']),
    "labels that are not there": (
        LOG,
        {**VERDICTS, "labels": {"A": "left", "B": "right"}},
        UnknownLabelError,
        ['`labels` names "A", "B"', "none of which is in column 'winner'", '"left"', "letter by letter"],
    ),
    "labels of a missing verdict": (
        at("winner", TIES, None),
        {**VERDICTS, "labels": {"left": "left", None: "tie"}},
        ArgumentError,
        ['missing verdict means "tie"', "dropped and counted", "Fill the column"],
    ),
    "labels of NaN": (
        at("winner", TIES, None),
        {**VERDICTS, "labels": {"left": "left", np.nan: "right"}},
        ArgumentError,
        ['missing verdict means "right"', "dropped and counted"],
    ),
    "labels of a score": (LOG, {**SCORES, "labels": {"A": "left"}}, ArgumentError, ["`labels`", "`winner`", "`score`"]),
    "both score and winner": (
        LOG,
        {**VERDICTS, "score": "score"},
        ArgumentError,
        ["exactly one of `score`", "and `winner`", "got both"],
    ),
    "neither score nor winner": (
        LOG,
        {"left": "left", "right": "right"},
        ArgumentError,
        ["exactly one of `score`", "and `winner`", "got neither"],
    ),
    "a score above one": (
        at("score", [2, 5], 7.5),
        SCORES,
        ScoreRangeError,
        ["`score` must lie in [0, 1]", "column 'score'", "rows 2, 5", "to 7.5", "Rescale"],
    ),
    "preferences from one to two": (
        LOG.assign(score=LOG["score"] + 1),
        SCORES,
        ScoreRangeError,
        ["(from 1 to 2)", "Preferences from 1 to 2 are scores once 1 is taken from them"],
    ),
    "an infinite score": (
        at("score", [4], np.inf),
        SCORES,
        NonFiniteError,
        ["`score` must be finite", "column 'score'", "row 4", "missing"],
    ),
    "verdicts as scores": (
        LOG.assign(score=LOG["winner"]),
        SCORES,
        NonNumericError,
        ["`score` must hold numbers", '"left"', "Convert"],
    ),
    "one judge among two axes": (
        LOG.assign(judge="j0"),
        {**VERDICTS, "groups": "prompt + judge"},
        TooFewClustersError,
        ['groups="judge"', "1 distinct value", "at least 2", 'groups="prompt"', "holds this judge fixed"],
    ),
    "one prompt": (
        LOG.assign(prompt="p0"),
        VERDICTS,
        TooFewClustersError,
        ['groups="prompt"', "1 distinct value", "at least 2", "finer"],
    ),
    "a model against itself": (
        LOG.assign(right=LOG["right"].where(~LOG.index.isin([4, 8]), LOG["left"])),
        VERDICTS,
        SelfComparisonError,
        ["must compare two different models", "2 rows", "rows 4, 8", "Leave such rows out"],
    ),
    "nothing but models against themselves": (
        LOG.assign(right=LOG["left"]),
        VERDICTS,
        SelfComparisonError,
        ["120 rows", '"ada", "bob", "cyd", "dan"', "and 115 more"],
    ),
    "a repeated key": (
        TWICE,
        {**VERDICTS, "key": ["prompt", "judge"]},
        DuplicateRowsError,
        ['one row for each of "left", "right", "prompt", "judge"', "2 rows repeat", "rows 120, 121", "Remove", "`key`"],
    ),
    "a key that is too coarse": (
        LOG,
        {**VERDICTS, "key": "lang"},
        DuplicateRowsError,
        ['"left", "right", "lang"', "rows repeat", "`key`"],
    ),
    "an unknown key": (
        LOG,
        {**VERDICTS, "key": ["prompt", "judg"]},
        MissingColumnError,
        ['`key` names "judg"', 'Did you mean "judge"?'],
    ),
    "an unknown side": (LOG, {**VERDICTS, "left": "lft"}, MissingColumnError, ['`left` names "lft"', '"left"']),
    "an unknown stratum": (LOG, {**VERDICTS, "by": "langs"}, MissingColumnError, ['`by` names "langs"', '"lang"']),
    "a side that is no name": (
        LOG,
        {**VERDICTS, "left": None},
        ArgumentTypeError,
        ["must be the name of a"],
    ),
    "one column for both sides": (
        LOG,
        {**VERDICTS, "right": "left"},
        ArgumentError,
        ["`left` and `right` must be different columns", 'both name "left"'],
    ),
    "numbers against text": (
        LOG.assign(left=LOG["left"].map({name: i for i, name in enumerate(MODELS)})),
        SCORES,
        DataError,
        ["of one type", "'left' holds numbers", "'right' text", "Convert one"],
    ),
    "numbers and their text": (
        LOG.assign(
            left=LOG["left"].map({"ada": 1, "bob": "1", "cyd": "c", "dan": "d"}),
            right=LOG["right"].map({"ada": 1, "bob": "1", "cyd": "c", "dan": "d"}),
        ),
        SCORES,
        DataError,
        ["distinct as text", 'all read "1"', "one type"],
    ),
    "a missing verdict where none may be": (
        at("winner", [2], None),
        {**VERDICTS, "missing": "raise"},
        NonFiniteError,
        ["nothing may be missing", "column 'winner'", "row 2", "counted"],
    ),
    "a missing model where none may be": (
        at("right", [2, 6], None),
        {**VERDICTS, "missing": "raise"},
        NonFiniteError,
        ["nothing may be missing", "'right'", "rows 2, 6"],
    ),
    "a missing judge where none may be": (
        at("judge", [5], None),
        {**VERDICTS, "groups": ["prompt", "judge"], "missing": "raise"},
        NonFiniteError,
        ["nothing may be missing", "'judge'", "row 5"],
    ),
    "a missing weight where none may be": (
        at("weight", [5], np.nan),
        {**VERDICTS, "weights": "weight", "missing": "raise"},
        NonFiniteError,
        ["nothing may be missing", "'weight'", "row 5"],
    ),
    "a weight of zero": (
        at("weight", [3], 0.0),
        {**VERDICTS, "weights": "weight"},
        ArgumentError,
        ["`weights` must be positive", "row 3", "leave it out"],
    ),
    "a negative weight": (
        at("weight", [3], -2.0),
        {**VERDICTS, "weights": "weight"},
        ArgumentError,
        ["`weights` must be positive", "row 3", "smallest -2", "signs"],
    ),
    "too few weights": (LOG, {**VERDICTS, "weights": [1.0, 2.0]}, AlignmentError, ["one weight for each row", "120"]),
    "an opponents option": (
        LOG,
        {**VERDICTS, "opponents": "Uniform"},
        ArgumentError,
        ['`opponents` must be one of "uniform", "as_sampled"', 'Did you mean "uniform"?'],
    ),
    "opponents as an array": (
        LOG,
        {**VERDICTS, "opponents": np.ones((4, 4))},
        ArgumentTypeError,
        ["`opponents` must be", "pandas DataFrame", "got a ndarray of numpy"],
    ),
    "opponents of polars": (
        LOG,
        {**VERDICTS, "opponents": pl.DataFrame({"ada": [1.0]})},
        ArgumentTypeError,
        ["pandas DataFrame of weights", "got a DataFrame of polars"],
    ),
    "opponents without a model": (
        LOG,
        {**VERDICTS, "opponents": weights(columns=["ada", "bobby", "cyd", "dan"])},
        ArgumentError,
        ["a column for every model", '"bob" has none', 'Did you mean "bobby"?'],
    ),
    "opponents without two models": (
        LOG,
        {**VERDICTS, "opponents": weights(index=["ada", "bob"])},
        ArgumentError,
        ["a row for every model", '"cyd", "dan" have none'],
    ),
    "opponents twice": (
        LOG,
        {**VERDICTS, "opponents": weights(index=[*MODELS, "cyd"])},
        ArgumentError,
        ["one row for each model", '"cyd" has more than one'],
    ),
    "negative opponents": (
        LOG,
        {**VERDICTS, "opponents": negative()},
        ArgumentError,
        ["zero or more", "'cyd' for 'ada' is -0.5", "(1 such)"],
    ),
    "missing opponents": (
        LOG,
        {**VERDICTS, "opponents": weights(np.nan)},
        ArgumentError,
        ["zero or more", "is nan", "(12 such)"],
    ),
    "opponents in words": (LOG, {**VERDICTS, "opponents": weights("x")}, ArgumentTypeError, ["must hold numbers"]),
    "opponents without weight": (
        LOG,
        {**VERDICTS, "opponents": weights(0.0)},
        ArgumentError,
        ["some weight on an opponent that it met", '"ada", "bob", "cyd", "dan" have none'],
    ),
    "random schedules in strata": (
        LOG,
        {**BY, "opponents": "as_sampled"},
        ArgumentError,
        ["`by` goes with fixed weights", 'opponents="uniform"'],
    ),
    "standardise alone": (LOG, {**VERDICTS, "standardise": "uniform"}, ArgumentError, ["`standardise` needs `by`"]),
    "standardise option": (LOG, {**BY, "standardise": "equal"}, ArgumentError, ['"uniform", "observed"', "'equal'"]),
    "standardise list": (LOG, {**BY, "standardise": [1, 2]}, ArgumentTypeError, ['"uniform", "observed"', "got list"]),
    "standardise an unknown stratum": (
        LOG,
        {**BY, "standardise": {"de": 1, "en": 1, "fr": 1}},
        ArgumentError,
        ["each stratum once", 'they are "de", "en"', '"fr" is not among them'],
    ),
    "standardise without a stratum": (
        LOG,
        {**BY, "standardise": {"de": 1}},
        ArgumentError,
        ["each stratum once", '"en" has no share'],
    ),
    "standardise with one stratum twice": (
        LOG.assign(lang=np.where(LOG["lang"] == "de", 1, 2)),
        {**BY, "standardise": {1: 1, "1": 3, 2: 1}},
        ArgumentError,
        ["each stratum once", "same as text"],
    ),
    "standardise by words": (
        LOG,
        {**BY, "standardise": {"de": "half", "en": 1}},
        ArgumentTypeError,
        ["must hold numbers", "'half'"],
    ),
    "standardise by negative shares": (
        LOG,
        {**BY, "standardise": {"de": -1, "en": 2}},
        ArgumentError,
        ["zero or more", "'de': -1"],
    ),
    "standardise by nothing": (LOG, {**BY, "standardise": {"de": 0, "en": 0}}, ArgumentError, ["not all of them zero"]),
    "standardise without a model": (
        one_stranger(),
        {**BY, "standardise": "uniform"},
        DataError,
        ["every model in every stratum", '"dan" is not', 'no comparison in "de"', "Leave out"],
    ),
    "joint names that collide": (
        LOG.replace({"left": {"ada": "bob:de"}, "right": {"ada": "bob:de"}}).assign(
            lang=np.where(LOG["lang"] == "de", "de:de", "de")
        ),
        BY,
        DataError,
        ["joint labels of model and stratum must be distinct", '"bob:de:de"', "Rename"],
    ),
    "no rows": (LOG.iloc[:0], VERDICTS, EmptyDataError, ["`data` has no rows"]),
    "no verdict at all": (
        LOG.assign(winner=None),
        VERDICTS,
        EmptyDataError,
        ["no row is left", "all 120", "120 without a score"],
    ),
    "missing option": (
        LOG,
        {**VERDICTS, "missing": "omit"},
        ArgumentError,
        ['`missing` must be one of "drop", "raise"'],
    ),
    "cov option": (LOG, {**VERDICTS, "cov": "cr2"}, ArgumentError, ["`cov` must be one of", '"CR2"']),
    "a repaired jackknife": (
        LOG,
        {**VERDICTS, "groups": "prompt + judge", "cov": "jackknife", "repair": "eigen"},
        ArgumentError,
        ['repair="max" only', "Leave out `repair`"],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_bad_logs_are_refused_in_words(name: str) -> None:
    frame, options, error, parts = CASES[name]
    with pytest.raises(error) as caught:
        er.win_rate(frame, **options)
    assert type(caught.value) is error
    text = str(caught.value)
    for part in parts:
        assert part in text, f"{part!r} is not in: {text}"
    assert text.rstrip("?)\"'")[-1] in ".}" or text.endswith(("?", "."))
    assert "np." not in text
    assert len(caught.value.rows or []) <= 5


@pytest.mark.parametrize("name", ["unknown verdict", "a score above one", "an infinite score", "a repeated key"])
def test_errors_carry_what_a_program_asks(name: str) -> None:
    frame, options, error, _ = CASES[name]
    with pytest.raises(error) as caught:
        er.win_rate(frame, **options)
    expected = {
        "unknown verdict": ("winner", [0, 9, 18, 27, 36], 14),
        "a score above one": ("score", [2, 5], 2),
        "an infinite score": ("score", [4], 1),
        "a repeated key": ("prompt", [120, 121], 2),
    }
    assert (caught.value.column, caught.value.rows, caught.value.count) == expected[name]


# What is right


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ({"tie": "Tie"}, {"Tie": "tie"}),
        ({"left": "A", "right": "B", "tie": "C"}, {"A": "left", "B": "right", "C": "tie"}),
        ({"left": 1, "right": 2, "tie": 0}, {1: "left", 2: "right", 0: "tie"}),
        ({"left": True, "right": False}, {True: "left", False: "right"}),
        ({}, {"left": "left"}),
        # Of models that this log does not have nothing is asked.
        ({}, {"X": "zed", "left": "left"}),
    ],
)
def test_declared_labels_are_read(written: dict[Any, Any], labels: dict[Any, str]) -> None:
    expected = er.win_rate(LOG, **VERDICTS)
    found = er.win_rate(said(written), **VERDICTS, labels=labels)
    assert found.params.to_dict() == expected.params.to_dict()
    assert found.bse.to_dict() == expected.bse.to_dict()


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_models_called_like_sides_are_fine_once_nothing_is_ambiguous() -> None:
    named = LOG.replace({"left": {"ada": "left"}, "right": {"ada": "left"}})
    expected = er.win_rate(LOG, **VERDICTS)
    by_score = er.win_rate(named, **SCORES)
    by_labels = er.win_rate(named, **VERDICTS, labels={"left": "left"})
    for board in (by_score, by_labels):
        assert board.params.rename({"left": "ada"})[MODELS].tolist() == pytest.approx(expected.params.tolist())


@pytest.mark.parametrize("side", ["left", "right"])
def test_whole_numbers_are_one_model_however_they_are_stored(side: str) -> None:
    number = {name: 7 * i for i, name in enumerate(MODELS)}
    frame = LOG.assign(left=LOG["left"].map(number), right=LOG["right"].map(number))
    holed = frame.assign(**{side: frame[side].where(frame.index != 3)})
    assert holed[side].dtype == float
    found, expected = er.win_rate(holed, **VERDICTS), er.win_rate(LOG.drop(index=3), **VERDICTS)
    assert list(found.params.index) == ["0", "14", "21", "7"]
    assert found.params[["0", "7", "14", "21"]].tolist() == pytest.approx(expected.params.tolist(), rel=1e-12)
    # Verdicts by name, as floats too.
    won = np.where(holed["winner"] == "left", frame["left"], frame["right"]).astype(float)
    by_name = holed.assign(winner=np.where(holed["winner"] == "tie", np.nan, won))
    same = er.win_rate(LOG.drop(index=3).query("winner != 'tie'"), **VERDICTS)
    found = er.win_rate(by_name, **VERDICTS)
    assert found.params[["0", "7", "14", "21"]].tolist() == pytest.approx(same.params.tolist(), rel=1e-12)


def test_missing_values_are_dropped_and_counted_once() -> None:
    frame = LOG.copy()
    frame.loc[[1, 2], "winner"] = None
    frame.loc[[2, 3], "left"] = None
    frame.loc[[3, 4, 5], "judge"] = None
    frame.loc[6, "weight"] = np.nan
    frame.loc[7, "lang"] = None
    options: dict[str, Any] = {"weights": "weight", "by": "lang", "cov": "CR1"}
    options |= {"left": "left", "right": "right", "winner": "winner", "groups": ["prompt", "judge"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", er.errors.EvalregWarning)
        board = er.win_rate(frame, **options)
        clean = er.win_rate(LOG.drop(index=range(1, 8)), **options)
    assert board.dropped.to_dict() == {"score": 2, "covariate": 3, "group": 2}
    assert board.nobs == 113
    assert board.params.tolist() == clean.params.tolist()
    np.testing.assert_allclose(board.cov_params(), clean.cov_params(), rtol=1e-12)
    assert board.influence().index.tolist() == [0, *range(8, 120)]
    text = "Rows dropped: 7 (2 without score, 3 without covariate, 2 without group)"
    assert text in " ".join(str(board.summary()).split())


def test_labels_may_say_that_a_verdict_is_none() -> None:
    board = er.win_rate(said({"tie": "error"}), **VERDICTS, labels={"error": None})
    assert board.dropped["score"] == TIES.size
    assert board.nobs == 120 - TIES.size


def test_rows_alike_are_counted_where_no_key_says_what_a_comparison_is() -> None:
    def sentences(frame: pd.DataFrame, **more: Any) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", er.errors.EvalregWarning)
            board = er.win_rate(frame, **{**VERDICTS, "groups": "prompt + judge"}, **more)
        return " ".join(str(board.summary()).split())

    assert "2 rows equal an earlier one" in sentences(TWICE)
    assert "`key`" in sentences(TWICE)
    assert "equal an earlier one" not in sentences(LOG)
    assert "equal an earlier one" not in sentences(LOG, key=["prompt", "judge"])


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_sides_exchanged_are_another_comparison_of_a_key() -> None:
    # Both orders of one pair on one prompt are what a careful log holds.
    both = pd.concat([LOG, LOG.rename(columns={"left": "right", "right": "left"})], ignore_index=True)
    assert er.win_rate(both, **VERDICTS, key="prompt").nobs == 240


@pytest.mark.parametrize("frame", [LOG.iloc[[0]], LOG.iloc[[1]]])
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_one_comparison_has_a_rate_and_no_error(frame: pd.DataFrame) -> None:
    board = er.win_rate(frame, **{**SCORES, "groups": None})
    assert board.params.sum() == 1
    assert board.bse.isna().all()
    assert board.head_to_head()["se"].isna().all()
    assert "rests on a single row" in " ".join(str(board.summary()).split())


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_odds_of_a_model_that_won_everything_are_refused() -> None:
    always = LOG["left"].eq("ada").astype(float) + 0.5 * (LOG["left"].ne("ada") & LOG["right"].ne("ada"))
    board = er.win_rate(LOG.assign(score=always), **SCORES)
    assert board.params["ada"] == 1
    with pytest.raises(NotAvailableError, match="infinite where a model won every comparison"):
        board.odds()
    assert board.net_benefit().params["ada"] == 1
    low, high = board.conf_int().loc["ada"]
    assert 0 < low < 1
    assert high == 1


def test_contrasts_of_a_board_have_no_pairs() -> None:
    difference = er.win_rate(LOG, **VERDICTS).contrast("ada - bob")
    assert isinstance(difference, er.Board)
    with pytest.raises(er.errors.NotAvailableError, match="contrasts of a board have no pairs"):
        difference.head_to_head()
    with pytest.raises(er.errors.NotAvailableError, match="of win rates, which these parameters are not"):
        difference.odds()


@pytest.mark.filterwarnings("ignore::evalreg.errors.SparseBoardWarning")
# Thin logs


def thin_log(n_lone: int = 1) -> pd.DataFrame:
    """The log, and a model eve that met ada and bob on one or two prompts of its own."""
    rows = [("eve", name, verdict, p) for name, verdict in (("ada", 1.0), ("bob", 1.0)) for p in range(n_lone)]
    more = pd.DataFrame(rows, columns=["left", "right", "score", "prompt"])
    more = more.loc[more.index.repeat(4)].assign(judge=["j0", "j1", "j2", "j1"] * len(rows))
    flipped = (more["judge"] == "j1") & (more["prompt"] == 0)
    more["score"] = np.where(flipped, 1 - more["score"], more["score"])
    return pd.concat([LOG, more.assign(prompt=[f"own{p}" for p in more["prompt"]])], ignore_index=True)


def warned(frame: pd.DataFrame, category: type[Warning], **options: Any) -> tuple[er.Board, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        board = er.win_rate(frame, **{**SCORES, **options})
    return board, [str(found.message) for found in caught if issubclass(found.category, category)]


@pytest.mark.parametrize("cov", ["CR0", "CR1"])
def test_fixed_weights_that_are_too_thin_are_named(cov: str) -> None:
    _, texts = warned(thin_log(), SparseBoardWarning, cov=cov)
    (text,) = [text for text in texts if "far too small" in text]
    assert re.search(
        rf'"ada", "bob", "eve": up to 100% of the weight .* single prompt .* share their prompt in up to 100% .*{cov}',
        text,
    )
    assert '"jackknife"' in text
    assert '"cyd"' not in text
    assert '"dan"' not in text


def test_thin_pairs_are_named_under_cr2_by_name_and_by_default() -> None:
    by_default, texts = warned(thin_log(), SparseBoardWarning)
    assert any('"ada", "bob", "eve"' in text and "CR2 does not exist for such pairs" in text for text in texts)
    by_name, texts = warned(thin_log(), SparseBoardWarning, cov="CR2")
    assert any('"ada", "bob", "eve"' in text and "add nothing to the variance" in text for text in texts)
    _, texts = warned(thin_log(), LeverageWarning, cov="CR2")
    assert any("adds nothing to the variance" in text for text in texts)
    # All that eve has is pairs of one prompt: that is no variance of zero.
    for board in (by_default, by_name):
        assert np.isnan(board.bse["eve"])
        assert "it rests on a single cluster" in board.cov.reasons()[-1]


def test_models_on_few_effective_prompts_are_named_and_not_ranked() -> None:
    board, texts = warned(thin_log(2), SparseBoardWarning)
    (text,) = [text for text in texts if "effective prompt clusters" in text]
    assert re.search(
        r'"eve": .* as few as 2\.0 effective .* up to 50% of it on one\. .* fewer than 3 every rank is left open', text
    )
    assert board.bse["eve"] > 0
    ranks = board.ranks()
    assert ranks.loc["eve", ["lower", "upper"]].tolist() == [1, 5]
    assert board.cov.withheld is None
    assert "eve" in board.tau_best()
    # The others are ranked among themselves, eve being anywhere.
    spread = ranks.drop("eve")["upper"] - ranks.drop("eve")["lower"]
    assert (spread >= 1).all()


def test_a_dense_log_is_not_called_thin() -> None:
    for cov in (None, "CR1", "CR2"):
        _, texts = warned(LOG, SparseBoardWarning, cov=cov)
        assert texts == []
    _, texts = warned(LOG, SparseBoardWarning, groups="prompt + judge")
    assert texts == []


def test_a_variance_that_is_not_positive_is_named_and_never_clipped() -> None:
    # Judges that cancel: within each prompt and judge rows are alike, between judges they are opposed.
    rows = [(f"p{p:02d}", f"j{j}", float((p + j) % 2)) for p in range(20) for j in range(4) for _ in range(3)]
    frame = pd.DataFrame(rows, columns=["prompt", "judge", "score"]).assign(left="ada", right="bob")
    board, _ = warned(frame, SparseBoardWarning, groups=["prompt", "judge"], cov="CR1", repair="none")
    assert board.cov.raw[0, 0] < 0
    assert board.bse.isna().all()
    assert board.pvalues.isna().all()
    text = " ".join(str(board.summary()).split())
    assert "ada, bob: no test, because the cluster totals do not vary; t and p are NaN" in text
    assert board.ranks()[["lower", "upper"]].to_numpy().tolist() == [[1, 2], [1, 2]]
    assert board.head_to_head()["se"].isna().all()


def test_few_judges_are_said() -> None:
    _, texts = warned(LOG, FewClustersWarning, groups="prompt + judge")
    (text,) = texts
    assert re.search(r"3 judge clusters: .* degrees of freedom.*without it in `groups` .* these 3 only", text)


def test_a_crossed_variance_below_zero_is_named() -> None:
    # Prompts differ a little; the tastes of a prompt's judges differ a lot and cancel.
    rows = [(p, j, (p + j) % 2) for p in range(20) for j in range(4)]
    frame = pd.DataFrame(rows, columns=["p", "j", "score"]).assign(left="ada", right="bob")
    frame = pd.concat([frame] * 3, ignore_index=True)
    frame["score"] = 0.8 * frame["score"] + np.where(frame["p"] < 9, 0.06, 0.14)
    frame["prompt"], frame["judge"] = "p" + frame["p"].astype(str), "j" + frame["j"].astype(str)
    board, _ = warned(frame, SparseBoardWarning, groups=["prompt", "judge"], cov="CR1", repair="none")
    assert board.cov.raw[0, 0] < 0
    assert board.bse.isna().all()
    text = " ".join(str(board.summary()).split())
    assert 'ada, bob: no test, because the crossed variance is not positive under repair="none"' in text
    # The default has the larger one-way variance in its place.
    with pytest.warns(FewClustersWarning):
        by_default = board.with_cov(cov=None, repair=None)
    assert (by_default.bse > 0).all()


@pytest.mark.parametrize(
    "labels", [{"left": "left", "right": "left"}, {"model_a": "right", "model_b": "right", "tie": "tie"}]
)
def test_labels_that_send_both_sides_to_one_are_refused(labels: dict[str, str]) -> None:
    words = list(labels)
    log = LOG.assign(winner=[words[i % 2] for i in range(len(LOG))])
    for board in (er.win_rate, er.bradley_terry):
        with pytest.raises(ArgumentError, match="words of both sides to one"):
            board(log, left="left", right="right", winner="winner", labels=labels, groups="prompt")
    swapped = {"left": "right", "right": "left"}
    log = LOG.assign(winner=["left" if i % 2 else "right" for i in range(len(LOG))])
    params = er.win_rate(log, left="left", right="right", winner="winner", labels=swapped, groups="prompt").params
    plain = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt").params
    np.testing.assert_allclose(params, 1 - plain)
