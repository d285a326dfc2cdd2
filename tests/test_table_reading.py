"""Tables read from files: what stands in the file is what stands in the frame."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import evalreg as er
from evalreg.errors import ArgumentError, LogFormatError, NonNumericError
from evalreg.logs.tables import read_table

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file whose name says nothing, and returns its path."""

    def written(content: str | bytes) -> Path:
        path = tmp_path / "log"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written


def plain(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """The columns as Python lists, missing values being None."""
    return {name: [None if pd.isna(value) else value for value in frame[name].tolist()] for name in frame}


def failure(path: Path, **options: Any) -> LogFormatError:
    with pytest.raises(LogFormatError) as caught:
        read_table(path, **options)
    return caught.value


def test_text_columns_are_kept_to_the_letter_and_only_the_empty_field_is_missing(write):
    names = ["NA", "nan", "NaN", "None", "null", "NULL", "n/a", "007", "1e3", "1.50", "True", " x ", "inf", "-"]
    path = write("model,item\n" + "".join(f"{name},{row}\n" for row, name in enumerate(names)) + ',99\n"",100\n')
    assert plain(read_table(path, text_columns=["model"]))["model"] == [*names, None, None]


def test_other_columns_become_numbers_truth_or_text_by_what_all_their_fields_are(write):
    header = "whole,part,gap,flag,flaw,mixed,empty,text"
    frame = read_table(write(f"{header}\n1,1,1,true,True,1,,x\n2,0.5,,FALSE,,NA,,nan\n3,1e3,3,True,false,3,,\n"))
    assert plain(frame) == {
        "whole": [1, 2, 3],
        "part": [1.0, 0.5, 1000.0],
        "gap": [1.0, None, 3.0],
        "flag": [True, False, True],
        "flaw": [True, None, False],
        "mixed": ["1", "NA", "3"],
        "empty": [None, None, None],
        "text": ["x", "nan", None],
    }
    dtypes = frame.drop(columns=["mixed", "text"]).dtypes.astype(str)
    assert " ".join(dtypes) == "int64 float64 float64 bool boolean float64"


def test_a_column_of_numbers_with_one_word_far_down_is_text_throughout(write):
    # With eight columns pandas would otherwise decide anew after about 130,000 rows.
    path = write("score,b,c,d,e,f,g,h\n" + "1,2,3,4,5,6,7,8\n" * 150_000 + "NA,2,3,4,5,6,7,8\n")
    assert read_table(path)["score"].value_counts().to_dict() == {"1": 150_000, "NA": 1}
    for cell, why in {"n/a?": ".", "9" * 20: ", too large to keep all digits in 64 bits."}.items():
        with pytest.raises(NonNumericError, match=re.escape(f"column 'score' holds \"{cell}\" in row 1{why}")):
            er.mean(read_table(write(f"score\n1\n{cell}\n0\n")))


def test_numbers_are_the_nearest_floats(write, rng):
    values = [repr(float(value)) for value in rng.random(2_000) * 10.0 ** rng.integers(-30, 30, 2_000)]
    assert read_table(write("score\n" + "\n".join(values)))["score"].tolist() == [float(value) for value in values]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_line_ends_byte_order_mark_and_compression_make_no_difference(write, end, mark, pack):
    content = end.join(["model,answer,score", '언어,"a, ""b""",1', 'x,"two\nlines",0', "", "y,,1", ""])
    frame = read_table(write(pack(mark + content.encode())))
    assert plain(frame) == {"model": ["언어", "x", "y"], "answer": ['a, "b"', "two\nlines", None], "score": [1, 0, 1]}
    assert frame.index.tolist() == [0, 1, 2]


def test_the_header_says_which_sign_delimits(write):
    assert plain(read_table(write("model;score\na,b;1\n"))) == {"model": ["a,b"], "score": [1]}
    assert plain(read_table(write("model\tscore\na,b\t1\n"))) == {"model": ["a,b"], "score": [1]}
    assert plain(read_table(write("model|score\na,b|1\n"))) == {"model": ["a,b"], "score": [1]}
    assert plain(read_table(write("model,score\na\tb,1\n"))) == {"model": ["a\tb"], "score": [1]}
    assert plain(read_table(write('"a,b"\tscore\nx\t1\n'))) == {"a,b": ["x"], "score": [1]}
    assert plain(read_table(write("score\n1\n0\n"))) == {"score": [1, 0]}


def test_chosen_columns_come_in_the_order_asked_for_and_rows_in_that_of_the_file(write):
    path = write("a,b,c\n3,x,1\n1,y,2\n2,z,3\n")
    frame = read_table(path, columns=["c", "a"], text_columns=["a", "b", "absent"])
    assert list(frame) == ["c", "a"]
    assert plain(frame) == {"c": [1, 2, 3], "a": ["3", "1", "2"]}


def test_a_field_longer_than_the_csv_module_allows_is_read_and_its_limit_is_left_alone(write):
    answer = "word " * 100_000
    before = csv.field_size_limit(1_000)
    try:
        assert read_table(write(f'answer,score\n"{answer}",1\n'))["answer"][0] == answer
        assert csv.field_size_limit() == 1_000
        failure(write("a,b\n1\n"))
        assert csv.field_size_limit() == 1_000
    finally:
        csv.field_size_limit(before)


FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.sampled_from(
    ["", "NA", " ", '"', ",", "\n", "\r\n", "\t", "a\r", "\ufeff", "\x1a", "\u2028"]
)


@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS, FIELDS), min_size=1, max_size=6),
    delimiter=st.sampled_from([",", "\t"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
@example(rows=[(" ", "", "")], delimiter="\t", quoting=csv.QUOTE_MINIMAL, end="\n")
def test_any_text_that_is_written_as_csv_comes_back(tmp_path_factory, rows, delimiter, quoting, end):
    # Python's writer leaves a lone carriage return unquoted in some versions, and a reader takes it for a line's end.
    assume(quoting == csv.QUOTE_ALL or not any("\r" in field for row in rows for field in row))
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerows([("a", "b", "c"), *rows])
    path = tmp_path_factory.mktemp("csv") / "log"
    path.write_bytes(buffer.getvalue().encode())
    frame = read_table(path, text_columns=["a", "b", "c"])
    assert [tuple("" if pd.isna(field) else field for field in row) for row in frame.to_numpy().tolist()] == rows


# pandas alone reads the first differently, and older versions run out of memory on the second.
@example(body='\r\n\r,1"')
@example(body='\r\r\t\t\t",1"')
@given(
    body=st.lists(st.sampled_from(['"', '""', ",", "\n", "\r", "\r\n", " ", "\t", "x", "1"]), max_size=14).map("".join)
)
def test_any_text_is_read_as_the_csv_module_reads_it_or_refused(tmp_path_factory, body):
    path = tmp_path_factory.mktemp("raw") / "log"
    path.write_bytes(f"a,b\n{body}".encode())
    try:
        expected = [row for row in csv.reader(io.StringIO(f"a,b\n{body}", newline=""), strict=True) if row][1:]
    except csv.Error:
        expected = []
    if expected and all(len(row) == 2 for row in expected):
        frame = read_table(path, text_columns=["a", "b"])
        assert [["" if pd.isna(field) else field for field in row] for row in frame.to_numpy().tolist()] == expected
    else:
        assert failure(path)


def test_blank_lines_are_no_rows_but_spaces_are_a_field(write):
    frame = read_table(write('\n\nanswer\nx\n  \n\n""\n1\n\n'))
    assert plain(frame) == {"answer": ["x", "  ", None, "1"]}


@given(
    rows=st.lists(st.lists(st.sampled_from(["x", "1", '"q"', '"two\nlines"', ""]), min_size=1, max_size=4), min_size=1)
)
def test_rows_are_refused_exactly_when_one_is_not_as_wide_as_the_header(tmp_path_factory, rows):
    assume(all(row != [""] for row in rows))  # a blank line, which is no row
    path = tmp_path_factory.mktemp("ragged") / "log"
    path.write_text("a,b\n" + "".join(",".join(row) + "\n" for row in rows), newline="")
    wrong = [position for position, row in enumerate(rows) if len(row) != 2]
    if wrong:
        error = failure(path)
        assert (error.rows, error.count) == (wrong[:5], len(wrong))
    else:
        assert len(read_table(path)) == len(rows)


def test_ragged_rows_are_named_by_the_line_on_which_they_begin(write):
    rows = ["a,b", '"x\ny",1', "", "short", "x,1"] + ["x,1,2"] * 7
    error = failure(write("\n".join(rows)))
    assert "as many fields as the header, 2" in str(error)
    assert "line 5 has 1, line 7 has 3, line 8 has 3, line 9 has 3, line 10 has 3 and 3 more" in str(error)
    assert (error.rows, error.count) == ([1, 3, 4, 5, 6], 8)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("", "is empty"),
        (" \n\t\n", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        ("a,b\n", "has a header only"),
        ("a,b\n\n\n", "has a header only"),
        ("81,gpt-4,1\n82,gpt-4,0\n", 'has "81", "1" among its names. Add a header line'),
        ("0.5\n1\n", 'has "0.5" among its names'),
        (",\n1,2\n", "is blank"),
        ("a,b,a,c,b\n1,2,3,4,5\n", 'more than one "a" and "b"'),
        ('a,b\nx,1\n"x,1\nx,1\n', "begins on or after line 3 does not"),
        ('a,b\n"x"y,1\n', "begins on or after line 2 does not"),
        ('"a,b\n1,2\n', "a quote that is not closed"),
        ("a,b\n1,\xe9\n".encode("latin-1"), "line 2 of"),
        (b"\xef\xbb\xbfa,b\n1,2\n1,\xff\n", "line 3 of"),
        ("a,b\n1,2\n".encode("utf-16"), "text in UTF-16"),
        ("a,b\n1,2\n".encode("utf-16-le"), "zero byte"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"a,b\n1,2\n3,\x004\n", "line 3 of"),
        (gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-12], "damaged or cut off"),
        (b"\x1f\x8bnot gzip", "damaged or cut off"),
        ('[{"a": 1}, 2]', "record 2 of"),
        ('{"a": 1}\n{"a": ', "line 2 of"),
        ('{"a": 1}\n\n{"a": 1} {"a": 2}', "line 3 of"),
        ('{\n  "a": 1\n}\n', "line 1 of"),
        ('{"a": 1}\n[1]', "line 2 of"),
        ("{}\n{}\n", "has no keys"),
        (b"PAR1 and no more", "begins as Parquet but cannot be read"),
    ],
)
def test_what_is_not_a_table_is_an_error_that_says_why(write, content, shown):
    if b"PAR1" in (content if isinstance(content, bytes) else content.encode()):
        pytest.importorskip("pyarrow")
    path = write(content)
    error = failure(path)
    assert shown in str(error)
    assert str(path) in str(error)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_dash_is_standard_input(monkeypatch, pack):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(b"model,score\nNA,1\n"))))
    assert plain(read_table("-", text_columns=["model"])) == {"model": ["NA"], "score": [1]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(LogFormatError, match="standard input is empty"):
        read_table("-")


def test_json_lines_keep_their_own_types(write):
    lines = [
        {"id": 7, "score": 1, "flag": True, "flaw": None, "model": "NA", "mixed": 1, "big": 2**70, "tags": ["x"]},
        {"score": 0.5, "flag": False, "flaw": True, "model": "", "mixed": "NA", "big": 1, "later": "new"},
        {"id": None, "score": float("nan"), "flag": True, "flaw": False, "model": "007", "mixed": True, "tags": None},
    ]
    frame = read_table(write("\n\n".join(json.dumps(line) for line in lines) + "\n"))
    pd.testing.assert_frame_equal(read_table(write(json.dumps(lines, indent=1))), frame)  # in one array
    assert frame["tags"][0] == ["x"]
    assert plain(frame.drop(columns="tags")) == {
        "id": [7.0, None, None],
        "score": [1.0, 0.5, None],
        "flag": [True, False, True],
        "flaw": [None, True, False],
        "model": ["NA", "", "007"],
        "mixed": ["1", "NA", "true"],
        "big": [str(2**70), "1", None],
        "later": [None, "new", None],
    }
    assert " ".join(frame[["id", "score", "flag", "flaw"]].dtypes.astype(str)) == "float64 float64 bool boolean"


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "item": pd.Series([81, None, 7], dtype="Int64"),
            "model": ["NA", None, "007"],
            "score": [1.0, np.nan, 0.5],
            "flag": pd.Series([True, None, False], dtype="boolean"),
        }
    ).set_axis(pd.Index(["r", "s", "t"], name="row"))
    path = tmp_path / "log"
    frame.to_parquet(path)
    return path


def test_parquet_is_recognised_by_content_and_keeps_its_types_and_its_index_as_a_column(parquet):
    frame = read_table(parquet)
    assert plain(frame) == {
        "item": [81.0, None, 7.0],
        "model": ["NA", None, "007"],
        "score": [1.0, None, 0.5],
        "flag": [True, None, False],
        "row": ["r", "s", "t"],
    }
    assert str(frame["flag"].dtype) == "boolean"
    assert frame.index.tolist() == [0, 1, 2]


def test_parquet_without_pyarrow_names_the_extra_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ArgumentError, match=r'pip install "evalreg\[parquet\]"'):
        read_table(write(b"PAR1"))


@pytest.mark.parametrize(
    ("line", "key"), [('{"a": 1, "b": 2, "a": 3}', '"a"'), ('{"a": 1, "x y": 2, "x y": 2}', '"x y"')]
)
def test_a_repeated_key_is_refused_as_a_repeated_column_is(tmp_path, line, key):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1, "b": 2}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(LogFormatError, match=f"line 2 of .* has more than one {key}") as caught:
        read_table(path)
    assert caught.value.rows == [1]
