"""The filter grammar: what it keeps is held against a plain evaluator that goes row by row."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalreg.data.frame import open_frame
from evalreg.data.where import mask as mask_of
from evalreg.data.where import open_subset, parse
from evalreg.errors import ArgumentError
from evalreg.logs.tables import read_table

COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def mask(found: Any, frame: pd.DataFrame) -> np.ndarray:
    """True for the rows that a filter keeps."""
    if not len(frame):
        return np.zeros(0, dtype=bool)
    return mask_of(found, open_frame(frame))


def kept(text: str, frame: pd.DataFrame) -> list[int]:
    """Positions of the rows that a filter keeps."""
    return np.flatnonzero(mask(parse(text), frame)).tolist()


@pytest.fixture
def log() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": ["gpt-4", "NA", "007", None, 'say "hi"'],
            "question_id": ["81", "82", "100", "81", "9"],
            "score": [1.0, 0.5, np.nan, 0.0, 1.0],
            "turn": [1, 2, 3, 4, 5],
            "correct": pd.Series([True, False, None, True, True], dtype="boolean"),
            "metadata.level": [1, 1, 2, 2, 2],
            "answer length": [10, 20, 30, 40, 50],
            "a`b": [0, 0, 0, 0, 1],
        }
    )


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('model == "gpt-4"', [0]),
        ("model == 'gpt-4'", [0]),
        ('model == "NA"', [1]),
        ('model != "NA"', [0, 2, 4]),
        ("model == missing", [3]),
        ("model != missing", [0, 1, 2, 4]),
        ("not model == missing", [0, 1, 2, 4]),
        ("not model != MISSING", [3]),
        (r'model == "say \"hi\""', [4]),
        (r"model == 'say \"hi\"'", [4]),
        ("model == 'say \"hi\"'", [4]),
        ('model in ["gpt-4", "007", "absent"]', [0, 2]),
        ('model in ("gpt-4")', [0]),
        ('model not in ["gpt-4", "007"]', [1, 4]),
        ('not model in ["gpt-4", "007"]', [1, 4]),
        ('model > "N"', [0, 1, 4]),
        ('question_id >= "81"', [0, 1, 3, 4]),
        ("turn > 3", [3, 4]),
        ("turn >= 3.5", [3, 4]),
        ("turn<2", [0]),
        ("turn != -1", [0, 1, 2, 3, 4]),
        ("turn in [1, 2.0, +3e0, .4e1]", [0, 1, 2, 3]),
        ("score == 0.5", [1]),
        ("score != 1", [1, 3]),
        ("score not in (0, 1)", [1]),
        ("not (score == 1)", [1, 3]),
        ("not not score == 1", [0, 4]),
        ("score == 1 or score == missing", [0, 2, 4]),
        ("correct == true", [0, 3, 4]),
        ("correct != TRUE", [1]),
        ("correct in [False]", [1]),
        ("metadata.level == 2 and turn < 4", [2]),
        ("`answer length` == 30", [2]),
        ("`a``b` == 1", [4]),
        ("`turn` == 1", [0]),
        ("turn == 1 OR turn == 2 AND score == 0", [0]),
        ("(turn == 1 or turn == 2) and score == 0.5", [1]),
        ("turn == 1\n  or turn == 5", [0, 4]),
        ("turn == 12345678901234567890123", []),
        ("turn < 12345678901234567890123", [0, 1, 2, 3, 4]),
    ],
)
def test_a_filter_keeps_the_rows_that_it_says(log, text, rows):
    assert kept(text, log) == rows


@pytest.mark.parametrize(
    ("values", "dtype", "text", "rows"),
    [
        ([1, None, 3], "Int64", "x >= 2", [2]),
        ([1.5, None, 3.5], "Float64", "not x > 2", [0]),
        ([1.5, 2.5, 0.1], "float32", "x == 0.1", [2]),
        ([True, False, True], "bool", "x == false", [1]),
        (["a", None, "b"], "string", 'x != "a"', [2]),
        (["a", None, "b"], "object", 'x != "a"', [2]),
        (["a", None, "b"], "category", 'x > "a"', [2]),
        ([1, None, 2], "category", "x < 2", [0]),
        ([True, None, False], "object", "x == false", [2]),
        ([1, None, 2.5], "object", "x > 2", [2]),
        ([2**53 + 1, 2**53, 0], "int64", f"x == {2**53 + 1}", [0]),
        ([255, 0, 7], "uint8", "x > -1", [0, 1, 2]),
    ],
)
def test_every_dtype_of_numbers_text_and_truth_is_understood(values, dtype, text, rows):
    assert kept(text, pd.DataFrame({"x": pd.Series(values, dtype=dtype)})) == rows


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("question_id == 81", 'Write question_id == "81".'),
        ("question_id in ['81', 82]", 'Write question_id in ["82", ...].'),
        ('turn == "one"', "It holds, for example, 1, 2, 3."),
        ("turn == true", "is a truth value"),
        ("correct == 1", "holds truth values, and 1 is a number"),
        ("correct > 0", "which have no order"),
    ],
)
def test_a_value_of_another_kind_than_its_column_is_an_error_that_says_what_to_write(log, text, shown):
    with pytest.raises(ArgumentError) as caught:
        mask(parse(text), log)
    assert shown in str(caught.value)
    assert caught.value.column == parse(text).columns[0]


@pytest.mark.parametrize(
    ("text", "place", "shown"),
    [
        ("", 0, "it is empty"),
        ("model == gpt", 9, 'text goes in quotes: "gpt"'),
        ("model = 'a'", 6, "Equality is written =="),
        ("a == 1 | b == 2", 0, "one comparison at a time"),
        ("a in [missing]", 6, "text goes in quotes"),
        ("a in []", 5, "has values"),
        ("a < missing", 4, "only == and != go with `missing`"),
        ("3 < a", 0, "begins with a column"),
        ("a < b < 3", 0, "one comparison at a time"),
        ("a == 1e999", 5, "64-bit float"),
        ("language == 'a' and\nb == c", 25, 'text goes in quotes: "c"'),
    ],
)
def test_a_mistake_is_shown_with_a_caret_under_its_place(text, place, shown):
    with pytest.raises(ArgumentError) as caught:
        parse(text)
    message = str(caught.value)
    assert shown in message
    _, line, caret = message.split("\n")[:3]
    column = place - (text.rfind("\n", 0, place) + 1)
    assert line == "    " + text.split("\n")[text.count("\n", 0, place)]
    assert caret == "    " + " " * column + "^"


# Random filters. A tree is ("and" | "or", left, right), ("not", operand) or (column, operator, literal).

TEXTS = ["a", "b", "", "NA", "10", "9", 'q"\\', "it's", "언어"]
NUMBERS = [-1, 0, 1, 2, 0.5, 1e-3]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.sampled_from([*TEXTS, None]),
            "x.1": st.sampled_from([*NUMBERS, None]),
            "a `flag`": st.sampled_from([True, False, None]),
        }
    ),
    max_size=6,
)


def conditions(column: str, values: list[Any], orders: tuple[str, ...]) -> st.SearchStrategy[Any]:
    one = st.tuples(st.just(column), st.sampled_from(["==", "!=", *orders]), st.sampled_from(values))
    missing = st.tuples(st.just(column), st.sampled_from(["==", "!="]), st.none())
    several = st.lists(st.sampled_from(values), min_size=1, max_size=3)
    return one | missing | st.tuples(st.just(column), st.sampled_from(["in", "not in"]), several)


ORDERED = ("<", "<=", ">", ">=")
LEAVES = (
    conditions("text", TEXTS, ORDERED) | conditions("x.1", NUMBERS, ORDERED) | conditions("a `flag`", [True, False], ())
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.just("not"), inner) | st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    max_leaves=8,
)


def spelled(value: Any, quote: str = '"') -> str:
    if isinstance(value, list):
        return "[" + ", ".join(spelled(entry, quote) for entry in value) + "]"
    if isinstance(value, str):
        return quote + value.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote
    return "missing" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def written(tree: Any, quote: str) -> str:
    if tree[0] == "not":
        return f"not ({written(tree[1], quote)})"
    if tree[0] in ("and", "or"):
        return f"({written(tree[1], quote)}) {tree[0]} ({written(tree[2], quote)})"
    column, sign, value = tree
    name = "`" + column.replace("`", "``") + "`" if " " in column else column
    return f"{name} {sign} {spelled(value, quote)}"


def truth(tree: Any, row: dict[str, Any]) -> bool | None:
    """SQL's truth of a tree on one row, None being unknown."""
    if tree[0] == "not":
        inner = truth(tree[1], row)
        return None if inner is None else not inner
    if tree[0] in ("and", "or"):
        sides, decisive = {truth(tree[1], row), truth(tree[2], row)}, tree[0] == "or"
        return decisive if decisive in sides else None if None in sides else not decisive
    column, sign, value = tree
    if value is None:
        return (row[column] is None) == (sign == "==")
    if row[column] is None:
        return None
    if sign in ("in", "not in"):
        return (row[column] in value) == (sign == "in")
    return bool(COMPARE[sign](row[column], value))


@given(tree=TREES, rows=ROWS, quote=st.sampled_from(['"', "'"]))
@example(tree=("not", ("text", "in", ["a"])), rows=[{"text": None, "x.1": None, "a `flag`": None}], quote='"')
def test_random_filters_keep_what_a_row_by_row_evaluator_keeps(tree, rows, quote):
    frame = pd.DataFrame(
        {
            "text": pd.Series([row["text"] for row in rows], dtype="string"),
            "x.1": pd.Series([row["x.1"] for row in rows], dtype="float64"),
            "a `flag`": pd.Series([row["a `flag`"] for row in rows], dtype="boolean"),
        }
    )
    expected = [truth(tree, row) is True for row in rows]
    assert mask(parse(written(tree, quote)), frame).tolist() == expected


WORDS = st.lists(
    st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(["and", "or"])), min_size=1, max_size=8
)


@given(words=WORDS)
def test_without_parentheses_words_bind_as_they_do_in_python(words):
    text = " ".join(f"{'not ' if negated else ''}{name} == 1 {word}" for negated, name, word in words)
    text = text.rsplit(" ", 1)[0]
    grid = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    # `text` is made of the words above only; Python's own grammar is the reference.
    expected = [bool(eval(text, {}, dict(zip("abc", row, strict=True)))) for row in grid]
    assert mask(parse(text), pd.DataFrame(grid, columns=list("abc"))).tolist() == expected


@given(text=st.text(alphabet="ab`\"'\\ =<>!()[],.0137 einotrdmsg-+", max_size=25))
def test_any_text_is_a_filter_or_a_mistake_that_is_explained(text):
    columns, problem = (), ""
    try:
        columns = parse(text).columns
    except ArgumentError as error:
        problem = str(error)
    assert bool(columns) != ("`where` cannot be read" in problem)


FOREIGN = """f'x'|b'x'|r'x'|'x' 'y'|'x'.upper()|'x'[0]|'%s' % a|f(1)|a[0]|a()|b|`b`|lambda: 1|(b := 1)|[x for x in b]|*b
|...|{1}|{}|1 if b else 2|await b|@b|1j|1e|--1|1 + 1|2**9|~1|None|nan|inf|1;
|__import__('os')"""
ODD = ["\N{FULLWIDTH DIGIT ONE}", "\N{ARABIC-INDIC DIGIT ONE}", "1\\\n", "\0", "\ud800"]


@pytest.mark.parametrize("value", [one.strip() for one in FOREIGN.split("|")] + ODD)
@pytest.mark.parametrize("form", ["a == {}", "a in ['x', {}, 2]", "not {}", "a == 1 and {}"])
def test_what_python_would_run_is_refused(value, form):
    with pytest.raises(ArgumentError, match="`where` cannot be read"):
        parse(form.format(value))


def test_the_real_judge_log_is_filtered_to_the_documented_counts(shared):
    path = shared / "data" / "mtbench_enko_pairs.csv.gz"
    log = read_table(path, text_columns=["question_id", "judge", "model_first", "model_second"])
    assert len(kept('winner == "error"', log)) == 43
    assert len(kept('winner == "error" and language == "en"', log)) == 35
    assert len(kept('language in ["ko"] and not winner in ["first", "second", "tie"]', log)) == 8
    assert len(kept('question_id == "81"', log)) == 28_800 // 80
    with pytest.raises(ArgumentError, match='Write question_id == "81"'):
        open_subset(log, "question_id == 81")
