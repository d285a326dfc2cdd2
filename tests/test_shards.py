"""Sums of shards add up to the numbers of the rows, and what is lost, doubled or damaged is refused."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    LogFormatError,
    NotAvailableError,
    UnequalQuestionsWarning,
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# Sums of shards are added in another order.
SAME = 1e-10
N_SHARDS = 4
# Bytes of data that a process which summarises may hold.
LIMIT = 512 * 2**20

# Each shard in a process of its own, which has what was imported before it began.
SUMMARISE = """
import os, resource, sys
import pandas as pd
import evalreg as er
limit = int(sys.argv[1])
children = []
for source, target in zip(sys.argv[2::2], sys.argv[3::2]):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        log = pd.read_parquet(source)
        er.summarise(log, by="model", item="question", strata="subject", groups="passage + author", path=target)
        os._exit(0)
    children.append(child)
failed = [child for child in children if os.waitpid(child, 0)[1]]
sys.exit(f"{len(failed)} processes failed" if failed else 0)
"""


def big_log(n_questions: int = 1500) -> pd.DataFrame:
    """Three models on questions of passages and authors, scores that are no round numbers; some are missing."""
    rng = np.random.default_rng(11)
    passage, author = rng.integers(0, 60, n_questions), rng.integers(0, 12, n_questions)
    hard = rng.normal(size=60)[passage] + rng.normal(size=12)[author] + rng.normal(size=n_questions)
    frames = [
        pd.DataFrame(
            {
                "model": model,
                "question": [f"q{i:05d}" for i in range(n_questions)],
                "passage": [f"p{i:02d}" for i in passage],
                "author": author,
                "subject": np.where(passage % 3 == 0, "law", "math"),
                "score": 30 + skill + hard + rng.normal(size=n_questions),
            }
        )
        for model, skill in (("ada", 0.0), ("bob", 0.1), ("cyd", -0.2))
    ]
    log = pd.concat(frames, ignore_index=True)
    log["score"] = log["score"].where(~log["question"].isin(["q00001", "q00500"]))
    return log


@pytest.fixture(scope="module")
def log():
    return big_log()


@pytest.fixture(scope="module")
def shards(log, tmp_path_factory):
    """Four processes, each with its memory held, summarise a quarter of the questions; clusters are split."""
    pytest.importorskip("resource")
    folder, part = tmp_path_factory.mktemp("shards"), pd.factorize(log["question"])[0] % N_SHARDS
    files, named = [], []
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for i in range(N_SHARDS):
        source, target = folder / f"rows{i}.parquet", folder / f"shard{i}.parquet"
        log[part == i].to_parquet(source, index=False)
        files.append(target)
        named += [str(source), str(target)]
    command = [sys.executable, "-c", SUMMARISE, str(LIMIT), *named]
    run = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return files


@pytest.fixture(scope="module")
def whole(shards):
    """The sums of all shards, put together."""
    return er.merged(shards, n_shards=N_SHARDS, questions=1498)


ROLES = {
    "one mean": {"groups": "passage"},
    "models": {"by": "model", "groups": "passage"},
    "crossed": {"by": "model", "groups": "passage + author"},
    "joint": {"groups": "passage:author", "cov": "CR3"},
    "CR1": {"by": "model", "groups": "passage", "cov": "CR1"},
    "CR0": {"by": "model", "groups": "author", "cov": "CR0"},
    "jackknife": {"by": "model", "groups": "author", "cov": "jackknife"},
    "independent": {"by": "model"},
    "HC2": {"by": "model", "cov": "HC2"},
    "HC3": {"cov": "HC3"},
    "strata": {"by": "model", "strata": "subject", "strata_weights": "macro", "groups": "passage"},
    "of a subject": {"by": ["model", "subject"], "groups": "passage"},
}


# Other factors of the same sums are slow.
@pytest.mark.parametrize(
    "roles",
    [
        pytest.param(roles, id=name, marks=[pytest.mark.slow] if name in ("CR1", "HC2") else [])
        for name, roles in ROLES.items()
    ],
)
def test_four_shards_give_the_numbers_of_the_rows(log, whole, roles):
    found, expected = er.mean(whole, **roles), er.mean(log, **roles)
    for name in ("params", "bse", "dof", "pvalues"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=SAME, err_msg=name)
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME, atol=1e-18)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=SAME)
    np.testing.assert_allclose(found.icc(), expected.icc(), rtol=1e-7)
    assert (found.nobs, found.n_clusters) == (expected.nobs, expected.n_clusters)
    # A question without a score is dropped in the shard that has it.
    assert found.dropped.to_dict() == expected.dropped.to_dict()
    assert str(found.summary()) == str(expected.summary())
    if "by" in roles:
        np.testing.assert_allclose(found.pairwise()["se"], expected.pairwise()["se"], rtol=SAME)


def test_other_covariances_come_from_the_same_sums(log, shards):
    found, expected = (er.mean(data, by="model", groups="passage") for data in (er.merged(shards), log))
    for change in ({"groups": "author", "cov": "CR1"}, {"groups": None}, {"groups": "passage + author"}):
        np.testing.assert_allclose(found.with_cov(**change).bse, expected.with_cov(**change).bse, rtol=SAME)
    np.testing.assert_allclose(
        found.influence("passage").loc["p07"], expected.influence("passage").loc["p07"], rtol=1e-8
    )
    wild, of_rows = (one.wild_test("ada - bob = 0", seed=1) for one in (found, expected))
    np.testing.assert_allclose(wild.statistic, of_rows.statistic, rtol=1e-8)
    # Clusters stand in another order, so that other signs are drawn.
    assert abs(wild.p_value - of_rows.p_value) < 0.01
    with pytest.raises(NotAvailableError, match="no longer has its rows"):
        found.influence()
    with pytest.raises(NotAvailableError, match="no longer has its rows"):
        found.with_cov(groups=np.arange(len(log)))


def test_any_engine_merges_by_a_group_by(log, shards):
    """What DuckDB makes of the files is the mean and the covariance of clusters, by hand."""
    duckdb = pytest.importorskip("duckdb")
    names = ", ".join(f"'{path}'" for path in shards)
    sums = duckdb.sql(
        f"SELECT passage, sum(n_rows) AS n, sum(total) AS t FROM read_parquet([{names}]) WHERE model = 'ada' "
        "GROUP BY passage"
    ).df()
    mean = sums["t"].sum() / sums["n"].sum()
    variance = ((sums["t"] - sums["n"] * mean) ** 2).sum() / sums["n"].sum() ** 2
    found = er.mean(er.merged(shards), by="model", groups="passage", cov="CR0")
    np.testing.assert_allclose([found.params["ada"], found.bse["ada"]], [mean, np.sqrt(variance)], rtol=1e-8)


def test_a_lost_shard_is_told_by_count_hash_and_number(log, shards):
    whole = er.merged(shards)
    hashes = whole.questions["hash"].unique()
    assert len(hashes) == 1
    assert whole.questions["n"].tolist() == [1498] * 3
    er.merged(shards, questions=hashes[0])
    # Shards made of all rows at once have the same questions.
    alone = er.summarise(log, by="model", item="question", groups="passage")
    assert alone.questions["hash"].tolist() == [hashes[0]] * 3
    for asked in ({"questions": 1498}, {"questions": hashes[0]}, {"n_shards": N_SHARDS}):
        with pytest.raises(DataError, match=r"A shard may be lost|`n_shards` says 4 shards; `paths` names 3"):
            er.merged(shards[1:], **asked)


def test_a_doubled_shard_is_refused_also_when_it_was_made_anew(log, shards, tmp_path):
    with pytest.raises(DuplicateRowsError, match=r"hold the same sums. Leave one out"):
        er.merged([*shards, shards[2]])
    part = pd.factorize(log["question"])[0] % N_SHARDS == 2
    anew = log[part].sample(frac=1, random_state=1)
    roles = {"by": "model", "item": "question", "strata": "subject", "groups": "passage + author"}
    er.summarise(anew, **roles, path=tmp_path / "anew.parquet")
    with pytest.raises(DuplicateRowsError, match=r"shard2.parquet and .*anew.parquet hold the same sums"):
        er.merged([*shards, tmp_path / "anew.parquet"])
    # Other scores of the same questions, as of another night.
    er.summarise(anew.assign(score=anew["score"] + 1), **roles, path=tmp_path / "again.parquet")
    with pytest.raises(DuplicateRowsError, match=r"question counts once .* in .*shard2.parquet and .*again.parquet"):
        er.merged([*shards, tmp_path / "again.parquet"])


def _changed(path, target, change):
    table = pq.read_table(path)
    told = json.loads(table.schema.metadata[b"evalreg.sums"])
    table = change(table, told)
    pq.write_table(table.replace_schema_metadata({b"evalreg.sums": json.dumps(told).encode()}), target)


def test_damaged_files_and_newer_ones_are_refused(shards, tmp_path):
    whole = shards[0].read_bytes()
    for size in (len(whole) // 2, len(whole) - 1, 3):
        (tmp_path / "cut.parquet").write_bytes(whole[:size])
        with pytest.raises(LogFormatError, match=r"cut.parquet cannot be read as Parquet: it was cut off"):
            er.merged([tmp_path / "cut.parquet", *shards[1:]])
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(LogFormatError, match="was not written by `summarise`"):
        er.merged([tmp_path / "other.parquet"])
    _changed(shards[0], tmp_path / "less.parquet", lambda table, told: table.slice(1))
    with pytest.raises(LogFormatError, match="was changed after it was written"):
        er.merged([tmp_path / "less.parquet"])
    _changed(shards[0], tmp_path / "new.parquet", lambda table, told: (told.update(schema=5), table)[1])
    with pytest.raises(LogFormatError, match=r"schema 5, .* reads schema 4 and older. Upgrade evalreg"):
        er.merged([tmp_path / "new.parquet"])
    with pytest.raises(ArgumentError, match="no file is called"):
        er.merged([tmp_path / "none.parquet"])


@pytest.fixture
def small():
    return er.datasets.paired(n_passages=30, questions_per_passage=4, seed=2)


def _files(tmp_path, frames, **roles):
    paths = [tmp_path / f"{i}.parquet" for i in range(len(frames))]
    roles = {"by": "model", "item": "question", "groups": "passage"} | roles
    for frame, path in zip(frames, paths, strict=True):
        er.summarise(frame, **roles, path=path)
    return paths


def test_shards_of_other_roles_models_and_labels_are_refused(small, tmp_path):
    first, second = small[: len(small) // 2], small[len(small) // 2 :]
    files = _files(tmp_path, [first, second])
    er.summarise(second, by="model", groups="passage", path=files[1])
    with pytest.raises(ArgumentError, match=r"same roles .*; item: 'question' in .*0.parquet, None in .*1.parquet"):
        er.merged(files)
    halves = [small[small["model"] == name] for name in ("new", "old")]
    files = _files(tmp_path, halves)
    with pytest.raises(DataError, match=r'"new", "old" are in only one of .* say cells="any"'):
        er.merged(files)
    found, expected = (er.mean(data, by="model", groups="passage") for data in (er.merged(files, cells="any"), small))
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME)
    odd = small["question"].str[-1].isin(list("13579"))
    for spelled in (small["passage"].str.upper(), small["passage"] + " "):
        files = _files(tmp_path, [small[odd], small.assign(passage=spelled)[~odd]])
        with pytest.raises(DataError, match=r"'passage' differ by case or blanks: 'passage-0"):
            er.merged(files)
    number = small.assign(passage=pd.factorize(small["passage"])[0])
    files = _files(tmp_path, [number[odd], number.assign(passage=number["passage"].astype(str))[~odd]])
    with pytest.raises(ArgumentError, match=r"labels in 'passage': 'whole numbers' in .*, 'text' in"):
        er.merged(files)
    with pytest.raises(ArgumentError, match="holds Float64, whose text differs between engines"):
        er.summarise(number.assign(passage=number["passage"] * 1.0), groups="passage")


def test_labels_that_a_shard_tells_apart_may_differ_by_case(small, tmp_path):
    both = small.assign(passage=np.where(np.arange(len(small)) % 2, small["passage"], small["passage"].str.upper()))
    both["question"] = [f"q{i}" for i in range(len(both))]
    odd = np.arange(len(both)) // 2 % 2 == 1
    sums = er.merged(_files(tmp_path, [both[odd], both[~odd]]))
    assert er.mean(sums, groups="passage").n_clusters == {"passage": both["passage"].nunique()}


def test_a_day_is_one_cluster_whatever_library_summed_its_shards(tmp_path):
    pl = pytest.importorskip("polars")
    rng, n = np.random.default_rng(3), 120
    days = [datetime.date(2024, 1, 1 + i % 12) for i in range(n)]
    rows = pl.DataFrame({"score": rng.normal(size=n), "question": [f"q{i}" for i in range(n)], "day": days})
    parts = [rows[:60].to_arrow(), rows[60:]]
    sums = er.merged(_files(tmp_path, parts, by=None, groups="day"))
    found, expected = er.mean(sums, groups="day"), er.mean(rows, groups="day")
    assert found.n_clusters == {"day": 12}
    np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)


def test_comparisons_need_sums_by_question(small, tmp_path):
    frames = [part for _, part in small.groupby(pd.factorize(small["question"])[0] % 3)]
    files = _files(tmp_path, frames, groups="question + passage")
    found, expected = (er.compare(data, item="question", groups="passage") for data in (er.merged(files), small))
    pd.testing.assert_frame_equal(found.table, expected.table, rtol=SAME)
    pd.testing.assert_frame_equal(found.mcnemar(), expected.mcnemar())
    sums = er.merged(_files(tmp_path, frames))
    with pytest.raises(NotAvailableError, match=r"score of each question; .*whose `pairwise\(\)` needs the sums"):
        er.compare(sums, item="question")
    with pytest.raises(NotAvailableError, match="are not among the sums"):
        er.mean(sums, by="model", item="question")
    with pytest.raises(ArgumentError, match='the score that was summed, "score"'):
        er.mean(sums, "points")
    with pytest.raises(NotAvailableError, match='"weights" needs rows'):
        er.mean(sums, weights="w")
    with pytest.raises(NotAvailableError, match="must be rows here"):
        er.fit("score ~ 1", sums)


def test_models_with_other_questions_are_told_apart_by_hashes(small):
    short = small[~((small["model"] == "new") & (small["question"] == small["question"].iloc[0]))]
    sums = er.summarise(short, by="model", item="question", groups="passage")
    with pytest.warns(UnequalQuestionsWarning, match=r"119 to 120 of them; their hashes differ"):
        er.mean(sums, by="model", groups="passage")
    first = small.groupby("model")["question"].transform("min")
    others = small.assign(question=small["question"].where(small["question"] != first, "own " + small["model"]))
    with pytest.warns(UnequalQuestionsWarning, match=r"\(120 each; their hashes differ"):
        er.mean(er.summarise(others, by="model", item="question", groups="passage"), by="model", groups="passage")


def test_clusters_that_sums_were_not_made_by_are_refused_with_what_to_do(small):
    found = er.mean(er.summarise(small, by="model", groups="passage"), by="model", groups="passage")
    with pytest.raises(
        er.errors.NotAvailableError, match=r"made of sums.*of sums that were made with them in `groups`"
    ):
        found.with_cov(groups="question")
    with pytest.raises(er.errors.NotAvailableError, match='Did you mean "passage"'):
        found.with_cov(groups="pasage")


def test_hashes_of_questions_stay_as_they_are():
    """Files of different releases are merged, so that a question must keep its hash."""
    log = pd.DataFrame({"score": [0.0, 1.0, 1.0], "item": ["q1", "q2", "é"], "g": ["a", "b", "b"]})
    assert er.summarise(log, item="item", groups="g").questions["hash"].tolist() == ["7a49616e2d91e0b3"]


@pytest.mark.parametrize("roles", [{"score": "score"}, {"numerator": "score", "denominator": "words"}])
def test_rows_that_change_while_they_are_summed_are_told(roles):
    duckdb = pytest.importorskip("duckdb")
    columns = "i % 3 / 2.0 AS score, 1 + i % 5 AS words, 'p' || floor(random() * 1e6)::int AS passage"
    log = duckdb.sql(f"SELECT {columns} FROM range(200) t(i)")
    with pytest.raises(DataError, match=r"changed while they were summed.*Summarise again"):
        er.summarise(log, **roles, groups="passage")
    once = duckdb.sql("SELECT i AS question, i % 3 / 2.0 AS score, 'p' || i % 9 AS passage FROM range(200) t(i)")
    assert er.summarise(once, item="question", groups="passage").questions["n"].tolist() == [200]


def test_what_another_process_writes_to_the_same_file_is_left_alone(small, tmp_path):
    target, other = tmp_path / "sums.parquet", tmp_path / "sums.parquet.part"
    other.write_bytes(b"half of a file")
    er.summarise(small, by="model", groups="passage", path=target)
    assert er.merged([target]).n_rows == len(small)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["sums.parquet", "sums.parquet.part"]
    assert other.read_bytes() == b"half of a file"


SCORES_OF = {
    "one is far from all others": lambda score: score.where(score.index != 4, 1e15),
    "decimals": lambda score: score.map(lambda one: Decimal(str(one))),
    "text": lambda score: score.astype(str),
    "too large to be squared": lambda score: score * 1e200,
    "too small to be squared": lambda score: score * 1e-200,
    "infinite": lambda score: score.where(score.index != 4, np.inf),
    "none": lambda score: score.where(score > 5, None).astype(object),
}


@pytest.mark.parametrize("kind", SCORES_OF)
def test_scores_of_any_kind_are_summed_to_the_number_or_refused_with_the_words_of_the_rows(small, kind):
    frame = small.assign(score=SCORES_OF[kind](small["score"]))
    roles = {"by": "model", "groups": "passage"}
    try:
        expected = er.mean(frame, **roles)
    except er.errors.EvalregError as error:
        with pytest.raises(type(error)) as caught:
            er.summarise(frame, **roles)
        said = str(caught.value).split(";")[0]  # Rows are those of the frame, which sums do not name.
        assert str(error).startswith(said) or kind == "none"
        return
    for data in (frame, frame.assign(score=frame["score"].astype(float)).convert_dtypes()):
        found = er.mean(er.summarise(data, **roles), **roles)
        np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)
        # Naive errors, design effects and what counts as one row are made of squares.
        assert str(found.summary()) == str(expected.summary())


def test_sums_in_memory_are_no_files(small):
    sums = er.summarise(small, by="model", groups="passage")
    with pytest.raises(ArgumentTypeError, match=r"number 0 is of type SummedLog; write sums to a file by `path`"):
        er.merged([sums])
    with pytest.raises(ArgumentTypeError, match=r"number 1 is of type int\."):
        er.merged(["a.parquet", 3])


def test_objects_are_labels_by_what_they_hold(small):
    """In pandas days are objects, and so are numbers beside text, which would read alike."""
    code = pd.factorize(small["passage"])[0]
    days = pd.Series([datetime.date(2024, 1, 1 + one % 20) for one in code], dtype=object)
    for column, kind in {
        "dates": days,
        "whole numbers": pd.Series(code, dtype=object),
        "Booleans": pd.Series(code % 2 == 0, dtype=object),
    }.items():
        frame = small.assign(passage=kind)
        sums = er.summarise(frame, by="model", groups="passage")
        assert sums.kinds["passage"] == column
        found, expected = (er.mean(data, by="model", groups="passage", cov="CR1") for data in (sums, frame))
        np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)
    mixed = small.assign(passage=pd.Series([int(one) if one % 2 else str(one) for one in code], dtype=object))
    with pytest.raises(ArgumentError, match=r"column 'passage' holds objects \(mixed-integer\)\. Convert it to text"):
        er.summarise(mixed, by="model", groups="passage")
