"""Dask: the numbers of pandas, from frames of memory, of Parquet and of CSV."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pandas as pd
from dask import dataframe

import evalreg as er
from evalreg import errors


def in_parts(frame: pd.DataFrame) -> Any:
    return dataframe.from_pandas(frame, npartitions=3)


def check_files(folder: Path) -> None:
    """Folders of Parquet and CSV in blocks, whose indices repeat."""
    frame = cases.answers()
    parts = folder / "parts"
    parts.mkdir()
    for part in range(4):
        frame.iloc[part::4].to_parquet(parts / f"{part}.parquet", index=False)
    frame.to_csv(folder / "log.csv", index=False)
    for data in (dataframe.read_parquet(parts), dataframe.read_csv(folder / "log.csv", blocksize=5000)):
        assert data.npartitions > 1
        cases.assert_numbers(
            er.mean(data, by="model", groups="passage + judge"), er.mean(frame, by="model", groups="passage + judge")
        )
    print("files")


def check_types() -> None:
    """Scores that pandas alone may leave out, small numbers, and ids that are categories."""
    frame = cases.answers().dropna().reset_index(drop=True)
    for kind in ("uint8", "int8", "float32", "Int64", "Float64", "boolean"):
        score = frame["right"].astype(kind)
        if kind in ("Int64", "Float64", "boolean"):
            score = score.where(frame.index % 9 != 2)
            assert score.isna().any()
        given = frame.assign(score=score)
        found, expected = (er.mean(data, by="model", groups="passage") for data in (in_parts(given), given))
        np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=cases.SAME, atol=1e-14, err_msg=kind)
        assert found.dropped.to_dict() == expected.dropped.to_dict()
    given = frame.assign(model=frame["model"].astype("category"), passage=frame["passage"].astype("category"))
    cases.assert_numbers(
        er.fit("score ~ model", in_parts(given), groups="passage"), er.fit("score ~ model", frame, groups="passage")
    )
    print("types of scores and ids")


def check_failure() -> None:
    """What goes wrong in a task is said, and so is a frame that a filter emptied."""

    def lose(part: pd.DataFrame) -> pd.DataFrame:
        raise OSError("the disk is gone")

    frame = cases.answers()
    lost = in_parts(frame).map_partitions(lose, meta=frame)
    cases.refused(errors.EngineError, "the disk is gone", lambda: er.mean(lost, by="model"))
    data = in_parts(frame)
    cases.refused(errors.EmptyDataError, "no rows", lambda: er.mean(data[data["score"] > 5], groups="passage"))
    print("failures")


def main() -> None:
    cases.prepare()
    warnings.filterwarnings("ignore", message="Dask support is moving out", category=FutureWarning)
    cases.check_numbers(in_parts, "Dask")
    cases.check_labels(in_parts)
    cases.check_scores(in_parts)
    check_files(Path(sys.argv[1]))
    check_types()
    check_failure()


if __name__ == "__main__":
    main()
