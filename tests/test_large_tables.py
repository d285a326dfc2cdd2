"""Tables, large and odd: what stands in the frame is what stands in the file."""

from __future__ import annotations

import csv
import io
import json
import random

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evalreg as er
from evalreg.errors import ArgumentError, LogFormatError, MissingColumnError
from evalreg.logs import records
from evalreg.logs.tables import read_table

SMALL = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)


def _plain(frame):
    return {name: [None if _is_missing(value) else value for value in frame[name].tolist()] for name in frame}


def _is_missing(value):
    return not isinstance(value, list | dict) and pd.isna(value)


def _as_column(values):
    """What the docstring of `read_table` says of values of JSON: a slow, obvious version."""
    values = [None if value is None or value != value else value for value in values]
    kinds = {type(value) for value in values} - {type(None)}
    if kinds & {dict, list}:
        return values
    if kinds <= {int, float} and all(abs(value) < 2**63 for value in values if type(value) is int):
        return [value if value is None or (kinds == {int} and None not in values) else float(value) for value in values]
    if kinds <= {bool}:
        return values
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 3),
    st.floats(allow_nan=True, allow_infinity=False),
    st.sampled_from(["", "a", "é\n", "NA", '"b"']),
    st.just([1]),
)
COLUMNS = st.sampled_from(
    [VALUES, st.integers(0, 3), st.sampled_from([1, 0.5, None]), st.sampled_from(["x", "y", None])]
)


@SMALL
@given(data=st.data(), kinds=st.lists(COLUMNS, min_size=1, max_size=3), n=st.integers(1, 12))
def test_columns_of_json_lines_are_those_of_the_whole_file(tmp_path, data, kinds, n):
    names = ["a", "b", "c"][: len(kinds)]
    rows = [
        {name: data.draw(kind) for name, kind in zip(names, kinds, strict=True) if data.draw(st.booleans())}
        for _ in range(n)
    ] + [dict.fromkeys(names)]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=data.draw(st.booleans())) for row in rows), encoding="utf-8")
    expected = {name: _as_column([row.get(name) for row in rows]) for name in names}
    whole = read_table(path)
    assert _plain(whole) == {name: expected[name] for name in whole}
    assert _plain(read_table(path, keep=[*names, "absent"])) == expected
    assert _plain(read_table(path, columns=names[:1])) == {names[0]: expected[names[0]]}


def test_a_key_given_twice_matters_where_it_is_read(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n{"a": 1, "b": 2, "b": 3}\n{"a": 5, "n": {"a": 3}}\n')
    assert read_table(path, keep=["a"])["a"].tolist() == [1, 1, 5]
    with pytest.raises(LogFormatError, match=r'line 2 .* more than one "b"'):
        read_table(path, keep=["a", "b"])


def test_nested_fields_are_kept_by_their_dots_and_must_mean_one_field(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [{"score": 1, "doc": {"passage": f"p{i}", "deep": {"er": i}}, "answer": "x" * 300} for i in range(5)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = read_table(path, keep=["score", "doc.passage", "doc.deep.er"])
    assert _plain(frame) == {
        "score": [1] * 5,
        "doc.passage": [f"p{i}" for i in range(5)],
        "doc.deep.er": list(range(5)),
    }
    with path.open("a") as file:
        file.write('{"score": 1, "doc.passage": "q", "doc": {"passage": "p"}}\n')
    with pytest.raises(ArgumentError, match='doc > passage" in line 6'):
        read_table(path, keep=["score", "doc.passage"])
    assert len(read_table(path, keep=["score"])) == 6


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('{"item": "9", "sco', "It is the last and was cut off"),
        ("[1, 2]", r"is \[1, 2\]"),
        ('{"item": "\\ud83d", "score": 1}', "half a surrogate pair"),
        ('{"item": "\xe9", "score": 1}'.encode("latin-1"), "byte 0xe9, which is not UTF-8"),
        ('{"item": "9", "score": 1, "score": 0}', 'more than one "score"'),
    ],
)
def test_a_broken_line_is_named_or_left_out_and_counted(tmp_path, line, shown):
    path = tmp_path / "log.jsonl"
    good = b"".join(b'{"item": "%d", "score": %d}\n' % (i, i % 2) for i in range(8))
    path.write_bytes(good + b"\n" + (line if isinstance(line, bytes) else line.encode()))
    with pytest.raises(LogFormatError, match=f"line 10 of .*{shown}") as caught:
        er.read_log(path)
    assert caught.value.rows == [8]
    log = er.read_log(path, broken="skip")
    assert len(log.frame) == 8
    assert log.left_out.to_dict() == {"broken": 1}


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "LONGEST_LINE", 1 << 21)
    path = tmp_path / "log.jsonl"
    long = json.dumps({"score": 1, "answer": "x" * (3 << 20)})
    path.write_text(f'{{"score": 0}}\n{long}\n{{"score": 1}}\n{long}')
    with pytest.raises(LogFormatError, match=r"line 2 of .* is longer than 2 MiB"):
        er.read_log(path)
    log = er.read_log(path, broken="skip")
    assert log.frame["score"].tolist() == [0, 1]
    assert log.left_out["broken"] == 2


def _by_csv_module(text):
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    return {name: [row[place] for row in rows[1:] if row] for place, name in enumerate(rows[0])}


def test_csv_in_chunks_is_what_the_csv_module_reads(tmp_path):
    rng = random.Random(1)
    fields = ["x", "", '"q"', '"a ""b"" c"', '"two\nlines"', '"c,d"', '""', "é", '","', '"\r\n"']
    for end in ("\n", "\r\n"):
        for trial in range(24):
            rows = [",".join(rng.choices(fields, k=3)) for _ in range(rng.randrange(1, 14))]
            text = end.join(["a,b,c", *rows]) + end * (trial % 2)
            path = tmp_path / "log.csv"
            path.write_text(text, newline="", encoding="utf-8")
            frame = read_table(path, text_columns=["a", "b", "c"])
            assert {name: frame[name].fillna("").tolist() for name in frame} == _by_csv_module(text)


@pytest.mark.parametrize("kind", ["parquet", "feather", "feather, zstd"])
def test_fields_of_structs_are_columns_by_their_dots(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    rows = [
        {"score": 1.0, "doc": {"passage": "p", "deep": {"er": 1}, "text": "x" * 300}, "tags": ["t"]},
        {"score": None, "doc": None, "tags": None},
        {"score": 0.5, "doc": {"passage": None, "deep": {"er": 7}, "text": "y"}, "tags": []},
    ]
    path, table = tmp_path / "log", pa.Table.from_pylist(rows)
    if kind == "parquet":
        parquet.write_table(table, path)
    else:
        feather.write_feather(table, path, compression="zstd" if "zstd" in kind else "uncompressed")
    expected = {"score": [1.0, None, 0.5], "doc.passage": ["p", None, None], "doc.deep.er": ["1", None, "7"]}
    names = list(expected)
    assert _plain(read_table(path, keep=[*names, "absent"], text_columns=["doc.deep.er"])) == expected
    assert _plain(read_table(path, columns=names[::-1], text_columns=["doc.deep.er"])) == expected
    assert list(read_table(path, fields=["doc.passage"])) == ["score", "doc", "tags", "doc.passage"]
    assert list(er.read_log(path).frame) == ["score", "tags", "doc.passage", "doc.deep.er"]
    assert list(er.read_log(path, columns=["doc.passage"]).frame) == ["score", "doc.passage"]
    with pytest.raises(MissingColumnError, match=r"doc\.pasage"):
        er.read_log(path, columns=["doc.pasage"])


def test_a_column_of_numbers_with_one_text_far_down_is_text_to_the_letter(tmp_path):
    path = tmp_path / "long.csv"
    rows = [f"{k:03d},{k % 2},{2**62 + k}" for k in range(300_000)]
    path.write_text("id,score,large\n" + "\n".join([*rows, "a,1,1"]))
    frame = read_table(path)
    assert [frame["id"].iloc[row] for row in (0, 1, -1)] == ["000", "001", "a"]
    assert (str(frame["score"].dtype), frame["large"].iloc[1]) == ("int64", 2**62 + 1)


def test_whole_numbers_of_more_than_64_bits_stay_ids_in_json(tmp_path):
    path = tmp_path / "ids.jsonl"
    path.write_text("".join(json.dumps({"id": 10**30 + k, "score": k}) + "\n" for k in range(3)))
    assert read_table(path)["id"].tolist() == [str(10**30 + k) for k in range(3)]
