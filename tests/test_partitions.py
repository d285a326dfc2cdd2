"""A log in several files: those that writers of Parquet put beside it, and those of a model each."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import LogFormatError

ROUNDING = 1e-12
ROWS = er.datasets.paired(n_passages=20, seed=3).rename(columns={"question": "item"})


def test_files_that_describe_the_others_are_left_out(tmp_path, call):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table, collected = pa.Table.from_pandas(ROWS, preserve_index=False), []
    for n, part in enumerate((table[:50], table[50:])):
        pq.write_table(part, tmp_path / f"part-{n}.parquet", metadata_collector=collected)
        collected[-1].set_file_path(f"part-{n}.parquet")
    pq.write_metadata(table.schema, tmp_path / "_common_metadata")
    pq.write_metadata(table.schema, tmp_path / "_metadata", metadata_collector=collected)
    files = sorted(tmp_path.iterdir())
    expected = er.mean(ROWS, by="model", item="item", groups="passage").bse
    for path in (tmp_path, files, str(tmp_path / "**" / "*")):
        log = er.read_log(path)
        assert log.notes == er.read_log(files[2:]).notes
        np.testing.assert_allclose(log.mean(groups="passage").bse[expected.index], expected, rtol=ROUNDING)
    assert call("mean", tmp_path, "--by", "model", "--item", "item")[0] == 0
    with pytest.raises(LogFormatError, match="_common_metadata has"):
        er.read_log(tmp_path / "_common_metadata")


def test_files_in_a_folder_for_each_model_are_told_apart_by_the_names_of_these(tmp_path, call):
    for model, rows in ROWS.drop(columns="passage").groupby("model"):
        (tmp_path / f"model={model}").mkdir()
        rows.drop(columns="model").to_csv(tmp_path / f"model={model}" / "part-0.csv", index=False)
    status, _, error = call("mean", tmp_path)
    named = shlex.split(re.search(r"name them: (.*)\.\n", error)[1])
    assert (status, [word.partition("=")[0] for word in named]) == (3, ["new", "old"])
    assert (
        call("mean", *named)[1]
        == call("mean", "new=" + str(tmp_path / "model=new"), "old=" + str(tmp_path / "model=old"))[1]
    )
