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

from evalreg.errors import ArgumentError, ArgumentTypeError, LogFormatError, MissingColumnError
from evalreg.logs.tables import read_bytes, read_table

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
    frame = read_table(
        write(
            "whole,part,gap,flag,flaw,mixed,empty,text\n1,1,1,true,True,1,,x\n2,0.5,,FALSE,,NA,,nan\n3,1e3,3,True,false,3,,\n"
        )
    )
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
    dtypes = frame.dtypes.astype(str)
    assert dtypes[["whole", "part", "gap", "flag", "flaw", "empty"]].tolist() == [
        "int64",
        "float64",
        "float64",
        "bool",
        "boolean",
        "float64",
    ]


def test_a_column_of_numbers_with_one_word_far_down_is_text_throughout(write):
    # With eight columns pandas would otherwise decide anew after about 130,000 rows.
    path = write("score,b,c,d,e,f,g,h\n" + "1,2,3,4,5,6,7,8\n" * 150_000 + "NA,2,3,4,5,6,7,8\n")
    values = read_table(path)["score"]
    assert set(values) == {"1", "NA"}
    assert len(values) == 150_001


def test_numbers_are_the_nearest_floats(write, rng):
    values = [repr(float(value)) for value in rng.random(2_000) * 10.0 ** rng.integers(-30, 30, 2_000)]
    assert read_table(write("score\n" + "\n".join(values)))["score"].tolist() == [float(value) for value in values]


def test_numbers_too_long_for_64_bits_are_ids_and_kept_as_text(write):
    frame = read_table(write("id,score\n12345678901234567890123,1\n007,0\n,1\n"))
    assert plain(frame) == {"id": ["12345678901234567890123", "007", None], "score": [1, 0, 1]}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_line_ends_byte_order_mark_and_compression_make_no_difference(write, end, mark, pack):
    content = end.join(["model,answer,score", '언어,"a, ""b""",1', 'x,"two\nlines",0', "", "y,,1", ""])
    frame = read_table(write(pack(mark + content.encode())))
    assert plain(frame) == {"model": ["언어", "x", "y"], "answer": ['a, "b"', "two\nlines", None], "score": [1, 0, 1]}
    assert frame.index.tolist() == [0, 1, 2]


def test_the_header_says_whether_commas_or_tabs_delimit(write):
    assert plain(read_table(write("model\tscore\na,b\t1\n"))) == {"model": ["a,b"], "score": [1]}
    assert plain(read_table(write("model,score\na\tb,1\n"))) == {"model": ["a\tb"], "score": [1]}
    assert plain(read_table(write('"a,b"\tscore\nx\t1\n'))) == {"a,b": ["x"], "score": [1]}
    assert plain(read_table(write("score\n1\n0\n"))) == {"score": [1, 0]}


def test_column_names_are_kept_to_the_letter(write):
    frame = read_table(write('a b,`c`,"d\ne",Unnamed: 0,,1st\n1,2,3,4,5,6\n'))
    assert list(frame) == ["a b", "`c`", "d\ne", "Unnamed: 0", "", "1st"]


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
    ("rows", "cut"), [("1,2\n3", True), ("1,2\n3\n4,5", False), ("1,2\n3,4,5", False), ("3", True)]
)
def test_a_last_line_that_is_too_short_is_said_to_be_cut_off(write, rows, cut):
    text = str(failure(write(f"a,b\n{rows}")))
    assert ("was the file cut off" in text) == cut
    assert ("Quote the fields" in text) != cut


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
        ("a;b\n1;2\n", 'has ";". Convert it'),
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
        ('[{"a": 1}]', "one JSON array"),
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


def test_errors_of_content_can_be_caught_as_value_errors_and_carry_the_column(write):
    error = failure(write("model,model\n1,2\n"))
    assert isinstance(error, ValueError)
    assert error.column == "model"


def test_a_missing_file_is_an_error_with_the_nearest_name(tmp_path):
    (tmp_path / "scores.csv").write_text("a\n1\n")
    with pytest.raises(ArgumentError, match=r'there is no ".*score\.csv"\. Did you mean "scores\.csv"'):
        read_table(tmp_path / "score.csv")
    with pytest.raises(ArgumentError, match="working directory"):
        read_table(tmp_path / "no" / "such.csv")


def test_a_directory_is_an_error(tmp_path):
    with pytest.raises(ArgumentError, match="is a directory"):
        read_table(tmp_path)


@pytest.mark.parametrize("content", ["modal,score\nx,1\n", '{"modal": "x", "score": 1}\n'])
def test_an_unknown_name_in_columns_is_an_error_with_the_nearest_name(write, content):
    with pytest.raises(MissingColumnError, match='Did you mean "modal"') as caught:
        read_table(write(content), columns=["model"])
    assert caught.value.column == "model"


@pytest.mark.parametrize("argument", ["columns", "text_columns"])
def test_a_single_string_is_not_a_list_of_columns(write, argument):
    with pytest.raises(ArgumentTypeError, match=r'Pass \["score"\]'):
        read_table(write("score\n1\n"), **{argument: "score"})


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_dash_is_standard_input(monkeypatch, pack):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(b"model,score\nNA,1\n"))))
    assert plain(read_table("-", text_columns=["model"])) == {"model": ["NA"], "score": [1]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(LogFormatError, match="standard input is empty"):
        read_table("-")


def test_read_bytes_unpacks_gzip_whatever_the_name(tmp_path):
    (tmp_path / "plain.gz").write_bytes(b"not packed")
    (tmp_path / "packed.csv").write_bytes(gzip.compress(b"one", mtime=0) + gzip.compress(b" two"))
    assert read_bytes(tmp_path / "plain.gz") == b"not packed"
    assert read_bytes(tmp_path / "packed.csv") == b"one two"


def test_json_lines_keep_their_own_types(write):
    lines = [
        {"id": 7, "score": 1, "flag": True, "flaw": None, "model": "NA", "mixed": 1, "big": 2**70, "tags": ["x"]},
        {"score": 0.5, "flag": False, "flaw": True, "model": "", "mixed": "NA", "big": 1, "later": "new"},
        {"id": None, "score": float("nan"), "flag": True, "flaw": False, "model": "007", "mixed": True, "tags": None},
    ]
    frame = read_table(write("\n\n".join(json.dumps(line) for line in lines) + "\n"))
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
    assert frame[["id", "score", "flag", "flaw"]].dtypes.astype(str).tolist() == [
        "float64",
        "float64",
        "bool",
        "boolean",
    ]


def test_text_columns_of_json_lines_are_text(write):
    path = write('{"item": 81, "model": "7", "flag": true}\n{"item": null, "model": 0.5, "flag": false}\n')
    frame = read_table(path, text_columns=["item", "model", "flag"], columns=["model", "item", "flag"])
    assert plain(frame) == {"model": ["7", "0.5"], "item": ["81", None], "flag": ["true", "false"]}


def test_a_list_in_a_text_column_of_json_lines_is_an_error(write):
    error = failure(write('{"model": "a"}\n{"model": ["a"]}\n'), text_columns=["model"])
    assert (error.column, error.rows) == ("model", [1])


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


def test_text_columns_of_parquet_are_text(parquet):
    frame = read_table(parquet, text_columns=["item", "absent"], columns=["model", "item"])
    assert list(frame) == ["model", "item"]
    assert plain(frame) == {"model": ["NA", None, "007"], "item": ["81", None, "7"]}
    with pytest.raises(MissingColumnError, match='Did you mean "model"'):
        read_table(parquet, columns=["modle"])


def test_parquet_without_rows_is_an_error(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [1]}).head(0).to_parquet(tmp_path / "log")
    assert "must have rows" in str(failure(tmp_path / "log"))


def test_parquet_without_pyarrow_names_the_extra_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ArgumentError, match=r'pip install "evalreg\[parquet\]"'):
        read_table(write(b"PAR1"))


def documented_rows(shared: Path) -> dict[str, int]:
    """Number of rows of every table, as its README says."""
    text = (shared / "data" / "README.md").read_text(encoding="utf-8")
    return {name: int(rows.replace(",", "")) for name, rows in re.findall(r"(\w+\.csv\.gz) - ([\d,]+) rows", text)}


@pytest.mark.parametrize("largest", [60_000, pytest.param(np.inf, marks=pytest.mark.slow)])
def test_every_real_table_has_its_documented_rows_and_every_label_survives(shared, largest):
    counts = documented_rows(shared)
    assert set(counts) == {path.name for path in (shared / "data").glob("*.csv.gz")}
    chosen = {name: count for name, count in counts.items() if count <= largest}
    assert len(chosen) >= 5
    for name, count in chosen.items():
        path = shared / "data" / name
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        labels = [column for column in header if re.match(r"model|judge|baseline|winner|question_id|prompt", column)]
        frame = read_table(path, text_columns=labels)
        assert list(frame) == header
        assert len(frame) == count == len(rows)
        for column in labels:
            place = header.index(column)
            assert frame[column].fillna("").tolist() == [row[place] for row in rows], f"{name}: {column}"


def test_numbers_of_real_tables_are_read_as_numbers(shared):
    scores = read_table(shared / "data" / "mtbench_enko_single.csv.gz", text_columns=["model", "judge", "question_id"])
    assert scores["score"].isna().sum() == 166
    assert scores["turn"].dtype == np.int64
    alpaca = read_table(shared / "data" / "alpaca_eval_annotations.csv.gz", columns=["preference", "model"])
    assert list(alpaca) == ["preference", "model"]
    assert alpaca["preference"].isna().sum() == 64
    assert (alpaca["preference"] == 0).sum() == 197


def test_real_json_lines_are_read(shared):
    path = shared / "data" / "original" / "mt_bench_repro" / "pairwise_judgments.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    frame = read_table(path, text_columns=["question_id", "winner"])
    assert frame["winner"].tolist() == [record["winner"] for record in records]
    assert frame["question_id"].tolist() == [str(record["question_id"]) for record in records]


@pytest.mark.parametrize(
    ("line", "key"), [('{"a": 1, "b": 2, "a": 3}', '"a"'), ('{"a": 1, "x y": 2, "x y": 2}', '"x y"')]
)
def test_a_repeated_key_is_refused_as_a_repeated_column_is(tmp_path, line, key):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1, "b": 2}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(LogFormatError, match=f"line 2 of .* has more than one {key}") as caught:
        read_table(path)
    assert caught.value.rows == [1]


def test_a_repeated_key_further_in_is_none_of_the_table(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1, "meta": {"k": 1, "k": 2}}\n', encoding="utf-8")
    assert read_table(path)["a"].tolist() == [1]
