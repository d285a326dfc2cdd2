"""Tables in folders such as model=ada, and several tables whose columns are of other types."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import LogFormatError

HIVE = "__HIVE_DEFAULT_PARTITION__"
ROUNDING = 1e-12


def answers(seed: int = 3) -> pd.DataFrame:
    """Answers of two models to the same 60 questions in 20 passages."""
    rng = np.random.default_rng(seed)
    questions = np.arange(60)
    parts = [
        pd.DataFrame(
            {"model": m, "item": questions, "passage": questions // 3, "score": (rng.random(60) < p).astype(int)}
        )
        for m, p in (("ada one", 0.7), ("bob", 0.5))
    ]
    return pd.concat(parts, ignore_index=True)


def save(frame: pd.DataFrame, path: Path) -> Path:
    """A table in the format of its ending, in folders made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture(params=["parquet", "csv", "jsonl"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The answers, those of each model in a folder of its own."""
    for model, rows in answers().groupby("model"):
        save(rows.drop(columns="model"), tmp_path / f"model={model.replace(' ', '%20')}" / f"part-0.{request.param}")
    return tmp_path


@pytest.fixture
def own(folder: Path) -> list[Path]:
    """The files one by one."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def test_files_that_describe_the_others_are_left_out(tmp_path, call):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table, collected = pa.Table.from_pandas(answers(), preserve_index=False), []
    pq.write_to_dataset(table, tmp_path, partition_cols=["model"], metadata_collector=collected)
    written = table.drop(["model"]).schema
    pq.write_metadata(written, tmp_path / "_common_metadata")
    pq.write_metadata(written, tmp_path / "_metadata", metadata_collector=collected)
    files = sorted(file for file in tmp_path.rglob("*") if file.is_file())
    assert {"_common_metadata", "_metadata"} < {file.name for file in files}
    expected = er.mean(answers(), by="model", item="item", groups="passage").bse
    for path in (tmp_path, files, str(tmp_path / "**" / "*")):
        log = er.read_log(path)
        assert log.notes == er.read_log(files[2:]).notes
        np.testing.assert_allclose(log.mean(groups="passage").bse[expected.index], expected, rtol=ROUNDING)
    assert call("mean", tmp_path, "--by", "model", "--item", "item")[0] == 0
    with pytest.raises(LogFormatError, match="_common_metadata has none"):
        er.read_log(tmp_path / "_common_metadata")


def test_folders_are_a_column_in_python_and_in_commands(folder, own, call):
    expected = er.mean(answers(), by="model", item="item", groups="passage").bse
    for path in (folder, own, str(folder / "*" / "part-0.*")):
        found = er.read_log(path).mean(groups="passage").bse
        np.testing.assert_allclose(found[expected.index], expected, rtol=ROUNDING)
    for files in ([folder], own, [folder / "*" / "part-0.*"]):
        asked = ("--by", "model", "--item", "item", "--groups", "passage", "--format", "json")
        status, out, err = call("mean", *files, *asked)
        assert (status, err) == (0, "")
        got = {one["parameter"]: one["se"] for one in json.loads(out)["parameters"]}
        assert got == pytest.approx(expected.to_dict(), rel=ROUNDING)


def test_values_are_those_that_pyarrow_and_duckdb_read(tmp_path):
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    for i, value in enumerate(["05", "a%2Fb", HIVE, "x%3Dy", "%C3%A9"]):
        save(pd.DataFrame({"item": [i], "score": [1]}), tmp_path / f"k=1/run={value}" / "p.parquet")
    found = er.read_log(tmp_path).frame.sort_values("item")["run"].tolist()
    assert [None if pd.isna(value) else value for value in found] == ["05", "a/b", None, "x=y", "é"]
    text = dataset.partitioning(flavor="hive", schema=pa.schema([("k", pa.string()), ("run", pa.string())]))
    table = dataset.dataset(tmp_path, partitioning=text).to_table().to_pandas().sort_values("item")
    pattern = f"{tmp_path}/*/*/*.parquet"
    query = f"select item, run from read_parquet('{pattern}', hive_partitioning=true, hive_types_autocast=false)"
    for other in (table, duckdb.sql(query).df().sort_values("item")):
        # DuckDB before version 2 keeps the name of what is missing.
        read = [None if pd.isna(value) or value == HIVE else value for value in other["run"]]
        assert read == [None if pd.isna(value) else value for value in found]


def test_a_column_that_a_file_has_too_stays_where_it_agrees_and_is_refused_where_not(tmp_path, call):
    frame = pd.DataFrame({"item": [1, 2, 3], "seed": [5, 5, 5], "score": [1, 0, 1]})
    agreeing = er.read_table(save(frame, tmp_path / "seed=05" / "p.parquet"))
    pd.testing.assert_frame_equal(agreeing, frame)
    wrong = save(frame.assign(seed=[5, 6, 6]), tmp_path / "seed=5" / "p.parquet")
    with pytest.raises(
        LogFormatError, match=r'"seed" the folder of .* says "5".* in 2 of its 3 rows, such as 6'
    ) as caught:
        er.read_log(wrong)
    assert (caught.value.column, caught.value.rows, caught.value.count) == ("seed", [1, 2], 2)
    status, _, err = call("mean", wrong, "--by", "seed")
    assert (status, "seed=5/p.parquet" in err) == (3, True)
    assert "2 of its 3 rows" in err
    missing = save(frame.astype({"seed": float}).assign(seed=[5, np.nan, 5]), tmp_path / f"seed={HIVE}" / "p.parquet")
    with pytest.raises(LogFormatError, match=r"says a missing value.* in 2 of its 3 rows"):
        er.read_table(missing)


@pytest.mark.parametrize(
    ("value", "own", "same"),
    [
        ("true", True, True),
        ("false", True, False),
        ("0.50", 0.5, True),
        ("2026-01-02", pd.Timestamp("2026-01-02"), True),
        ("2026-01-03", pd.Timestamp("2026-01-02"), False),
        ("9007199254740993", 9007199254740992, False),
        ("x", 1, False),
        ("x", ["x"], False),
    ],
)
def test_a_file_and_its_folder_agree_by_value(tmp_path, value, own, same):
    path = save(pd.DataFrame({"k": [own, own], "score": [0, 1]}), tmp_path / f"k={value}" / "p.parquet")
    if same:
        assert er.read_table(path)["k"].tolist() == [own, own]
    else:
        with pytest.raises(LogFormatError, match="something else in 2 of its 2 rows"):
            er.read_table(path)
