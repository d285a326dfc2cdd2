"""Logs as sums: shards give the numbers of their rows, whoever wrote them, and say what is wrong with them."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg import errors

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
# Sums are added in another order.
SAME = 1e-10


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Three models on 400 questions of 30 passages and five judges, with words, weights and holes."""
    rng = np.random.default_rng(6)
    n = 1200
    words = rng.integers(0, 40, n).astype(float)
    frame = pd.DataFrame(
        {
            "model": np.array(["ada", "bob", "cyd"])[np.arange(n) % 3],
            "question": [f"q{i // 3:03d}" for i in range(n)],
            "passage": [f"p{i // 3 % 30:02d}" for i in range(n)],
            "judge": np.array(["x", "y", "z", "v", "w"])[rng.integers(0, 5, n // 3).repeat(3)],
            "subject": np.where(np.arange(n) // 3 % 2, "law", "math"),
            "score": 30 + rng.normal(size=n),
            "words": words,
            "errors": rng.poisson(1 + words / 9).astype(float),
            "weight": rng.uniform(0.5, 2, n),
        }
    )
    frame.loc[[4, 9], ["errors", "score"]] = np.nan
    frame.loc[[4, 60], "words"] = np.nan
    return frame


def shards(frame: pd.DataFrame, folder, n: int = 3, make=lambda rows: rows, **roles) -> list:
    """Files of the sums of parts of the questions, so that clusters are split."""
    part = pd.factorize(frame["question"])[0] % n
    files = [folder / f"{i}.parquet" for i in range(n)]
    for i, path in enumerate(files):
        er.summarise(make(frame[part == i].reset_index(drop=True)), path=path, **roles)
    return files


def assert_agree(found: er.Results, expected: er.Results) -> None:
    for part in ("params", "bse", "dof", "pvalues"):
        np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=SAME, atol=1e-12, err_msg=part)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=SAME)
    pd.testing.assert_frame_equal(found.diagnostics(), expected.diagnostics(), rtol=1e-8)
    assert dict(found.n_clusters) == dict(expected.n_clusters)
    assert (found.nobs, dict(found.dropped)) == (expected.nobs, dict(expected.dropped))


@pytest.mark.parametrize(
    "roles",
    [
        {"groups": "passage"},
        {"by": "model", "groups": "passage + judge"},
        {"groups": "passage:judge", "cov": "CR3"},
        {"by": "model", "groups": "judge", "cov": "jackknife"},
        {"by": "model", "groups": "passage", "strata": "subject"},
    ],
)
def test_means_of_shards_are_those_of_the_rows(log, tmp_path, roles):
    own = {name: roles[name] for name in ("by", "strata") if name in roles}
    whole = er.merged(shards(log, tmp_path, groups=roles["groups"], **own), n_shards=3)
    assert_agree(er.mean(whole, **roles), er.mean(log, **roles))


def test_sums_by_question_are_compared(log, tmp_path):
    whole = er.merged(shards(log, tmp_path, by="model", item="question", groups="question + passage"))
    found, expected = (er.compare(data, item="question", groups="passage").results for data in (whole, log))
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME)
    with pytest.raises(errors.NotAvailableError, match="not among the sums"):
        er.compare(er.summarise(log, by="model", groups="passage"), item="question")


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("roles", [{"score": "score"}, {"numerator": "errors", "denominator": "words"}])
def test_any_engine_writes_the_same_sums(log, engine, roles):
    library = pytest.importorskip(engine)
    lazy = library.from_pandas(log).lazy() if engine == "polars" else library.from_df(log)
    found, expected = (er.summarise(data, by="model", groups="passage", **roles) for data in (lazy, log))
    pd.testing.assert_frame_equal(found.lines, expected.lines, rtol=1e-9, check_dtype=False)
    assert found.dropped == expected.dropped


def test_means_far_from_zero_lose_no_digits(log, tmp_path):
    far = log.assign(score=log["score"] + 1e7 * (log["model"] == "bob"))
    whole = er.merged(shards(far, tmp_path, by="model", groups="passage"))
    found, expected = (er.mean(data, by="model", groups="passage") for data in (whole, far))
    # Of scores of 1e7 a spread of 1 has seven digits less.
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-8)


def test_a_day_is_one_cluster_whatever_library_summed_its_shards(tmp_path):
    polars, days = pytest.importorskip("polars"), pd.date_range("2024-03-01", periods=8).date
    frame = pd.DataFrame({"day": list(days) * 6, "score": np.arange(48.0) % 5})
    er.summarise(frame[:24], groups="day", path=tmp_path / "one.parquet")
    er.summarise(polars.from_pandas(frame[24:]).with_columns(polars.col("day").cast(polars.Date)), groups="day",
                 path=tmp_path / "two.parquet")  # fmt: skip
    whole = er.merged([tmp_path / "one.parquet", tmp_path / "two.parquet"])
    assert er.mean(whole, groups="day").n_clusters["day"] == 8


def test_damaged_files_are_refused(log, tmp_path):
    path = tmp_path / "sums.parquet"
    sums = er.summarise(log, groups="passage", path=path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(errors.LogFormatError, match="cut off"):
        er.merged([path])
    log.to_parquet(path)
    with pytest.raises(errors.LogFormatError, match="holds no sums"):
        er.merged([path])
    with pytest.raises(errors.ArgumentError, match="no file is called"):
        er.merged([tmp_path / "gone.parquet"])
    for paths in (path, [sums], []):
        with pytest.raises(errors.EvalregError, match="`paths` must"):
            er.merged(paths)


def test_a_file_is_written_whole_or_not_at_all(log, tmp_path):
    with pytest.raises(errors.ArgumentError, match="could not be written"):
        er.summarise(log, groups="passage", path=tmp_path / "none" / "sums.parquet")
    assert os.listdir(tmp_path) == []
