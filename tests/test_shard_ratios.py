"""Sums of numerators and denominators in shards give the ratios of the rows, through Python and the command line."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg import errors
from evalreg.cli.main import main

pytest.importorskip("pyarrow")

quiet = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
N_SHARDS = 3


def log(n: int = 1200) -> pd.DataFrame:
    """A copy of a log that is made once."""
    return _log(n).copy(deep=True)


@functools.cache
def _log(n: int) -> pd.DataFrame:
    """Errors in words of three models on 30 passages, with rows of no words, and holes."""
    rng = np.random.default_rng(6)
    words = rng.integers(0, 40, n).astype(float)
    frame = pd.DataFrame(
        {
            "model": np.array(["ada", "bob", "cyd"])[np.arange(n) % 3],
            "question": [f"q{i // 3:03d}" for i in range(n)],
            "passage": [f"p{i // 3 % 30:02d}" for i in range(n)],
            "judge": rng.choice(["x", "y", "z", "v", "w"], n),
            "words": words,
            "errors": rng.poisson(1 + words / 9).astype(float),
            "right": np.floor(words * rng.random(n)),
            "weight": rng.uniform(0.5, 2, n),
        }
    )
    frame.loc[[4, 9], ["errors", "right"]] = np.nan
    frame.loc[[4, 60], "words"] = np.nan
    return frame


def shards(frame, folder, top="errors", *, n=N_SHARDS, weights=None, each=None, **roles):
    """Files of the sums of parts of the questions, so that clusters are split."""
    part = pd.factorize(frame["question"])[0] % n
    files = [folder / f"{top}{weights or ''}{i}.parquet" for i in range(n)]
    roles = {"by": "model", "item": "question", "groups": "passage + judge"} | roles
    for i, path in enumerate(files):
        rows = frame[part == i] if each is None else each(frame[part == i])
        er.summarise(rows, numerator=top, denominator="words", weights=weights, path=path, **roles)
    return files


ROLES = {
    "one": {},
    "clustered": {"groups": "passage"},
    "by": {"by": "model", "groups": "passage"},
    "crossed": {"by": "model", "groups": "passage + judge"},
    "CR3": {"by": ["model", "judge"], "groups": "passage", "cov": "CR3"},
    "CR0": {"by": "model", "groups": "judge", "cov": "CR0"},
    "jackknife": {"by": "model", "groups": "passage", "cov": "jackknife"},
    "independent": {"by": "model"},
    "HC1": {"by": "model", "cov": "HC1"},
}


SUMMED = [("errors", None), ("right", "weight")]


def same(found, expected):
    for name in ("params", "bse", "pvalues"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, err_msg=name)
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=1e-10, atol=1e-18)
    np.testing.assert_allclose(found.dof, expected.dof, rtol=1e-8)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=1e-9)
    assert (found.nobs, found.n_clusters) == (expected.nobs, expected.n_clusters)
    assert found.dropped.to_dict() == expected.dropped.to_dict()
    assert found.notes == expected.notes


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    """Shards merged, by numerator and weights; without questions, which `ratio` of rows does not ask for either."""
    folder = tmp_path_factory.mktemp("shards")
    return {
        (top, weights): er.merged(shards(log(), folder, top, weights=weights, item=None), n_shards=N_SHARDS)
        for top, weights in SUMMED
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Shards with the hashes of their questions."""
    return shards(log(), tmp_path_factory.mktemp("hashed"))


# Weights change the sums, whatever is made of them.
OF_WEIGHTS = ("clustered", "crossed", "jackknife", "independent")


@quiet
@pytest.mark.parametrize(
    ("roles", "top", "weights"),
    [
        pytest.param(roles, top, weights, id=f"{name}-{top}", marks=[pytest.mark.slow] if slow else [])
        for name, roles in ROLES.items()
        for top, weights in SUMMED
        for slow in [weights and name not in OF_WEIGHTS]
    ],
)
def test_shards_give_the_ratios_of_the_rows(wholes, roles, top, weights):
    whole = wholes[top, weights]
    found, expected = (er.ratio(data, top, "words", weights=weights, **roles) for data in (whole, log()))
    same(found, expected)
    assert expected.dropped.sum() > 0
    np.testing.assert_allclose(found.n_eff(), expected.n_eff(), rtol=1e-9)
    np.testing.assert_allclose(found.icc(), expected.icc(), rtol=1e-7)
    if top == "errors":
        assert str(found.summary()) == str(expected.summary())
    if "groups" in roles:
        by_judge = [one.with_cov(groups="judge", cov="CR1").bse for one in (found, expected)]
        np.testing.assert_allclose(*by_judge, rtol=1e-10)
        tables = [
            one.diagnostics()[["effective_clusters", "largest_share", "max_leverage"]] for one in (found, expected)
        ]
        np.testing.assert_allclose(*tables, rtol=1e-9)
        pd.testing.assert_frame_equal(found.dependence(), expected.dependence(), rtol=1e-7)


@quiet
def test_the_error_is_that_of_a_plain_linearization_of_the_lines(tmp_path):
    """Cochran's formula on sums by passage, in pandas: no code of the estimator."""
    whole = er.merged(shards(log(), tmp_path, n=2, by=None, item=None))
    lines = whole.lines.groupby("passage")[["numerator", "denominator"]].sum()
    R = lines["numerator"].sum() / lines["denominator"].sum()
    error = np.sqrt(((lines["numerator"] - R * lines["denominator"]) ** 2).sum()) / lines["denominator"].sum()
    found = er.ratio(whole, "errors", "words", groups="passage", cov="CR0")
    assert found.params["ratio"] == pytest.approx(R, rel=1e-12)
    assert found.bse["ratio"] == pytest.approx(error, rel=1e-10)


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    """One file of all rows, with weights."""
    return shards(log(), tmp_path_factory.mktemp("rows"), n=1, weights="weight")


@pytest.fixture(scope="module")
def of_rows(weighted):
    return er.merged(weighted)


@quiet
@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_engines_summarise_as_pandas_does(engine, of_rows, tmp_path):
    library = pytest.importorskip(engine)
    if engine == "duckdb":
        er_frame = library.from_df
        try:
            er.mean(er_frame(log().dropna()), "words")
        except ModuleNotFoundError as error:
            pytest.skip(f"narwhals cannot read relations of this DuckDB: {error}")
    else:

        def er_frame(rows):
            return library.from_pandas(rows).lazy()

    found = er.merged(shards(log(), tmp_path, n=2, weights="weight", each=er_frame))
    pd.testing.assert_frame_equal(found.lines, of_rows.lines, rtol=1e-9)
    assert found.dropped == of_rows.dropped


@quiet
@pytest.mark.parametrize(
    ("column", "weights"),
    [
        ("errors", "weight"),
        ("words", None),
        pytest.param("errors", None, marks=pytest.mark.slow),
        pytest.param("words", "weight", marks=pytest.mark.slow),
    ],
)
def test_models_that_differ_by_orders_of_magnitude_lose_no_digits(column, weights, tmp_path):
    rng, frame = np.random.default_rng(2), log().dropna()
    frame = frame[frame["words"] > 0].copy()
    frame["errors"] = 0.5 * frame["words"] * (1 + rng.normal(0, 0.01, len(frame)))
    frame[column] *= frame["model"].map({"ada": 1.0, "bob": 1e7, "cyd": 1e12})
    whole = er.merged(shards(frame, tmp_path, n=2, weights=weights, item=None, groups="passage"))
    for roles in ({}, {"groups": "passage"}):
        found, expected = (
            er.ratio(data, "errors", "words", by="model", weights=weights, **roles) for data in (whole, frame)
        )
        np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-8)
        np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=1e-8)


@quiet
def test_a_model_without_variation_or_without_words_is_refused_as_in_memory(tmp_path):
    frame = log().dropna()
    flat = frame.assign(errors=np.where(frame["model"] == "bob", 3.1 * frame["words"], frame["errors"]))
    empty = frame.assign(words=np.where(frame["model"] == "bob", 0.0, frame["words"]))
    for rows, kind in ((flat, errors.ConstantScoreError), (empty, errors.DataError)):
        whole = er.merged(shards(rows, tmp_path, n=2))
        said = []
        for data in (whole, rows):
            with pytest.raises(kind) as caught:
                er.ratio(data, "errors", "words", by="model", groups="passage")
            said.append(str(caught.value))
        assert said[0] == said[1]
        # The others are estimated where all models are taken together.
        same(*(er.ratio(data, "errors", "words", groups="passage") for data in (whole, rows)))
    negative = frame.assign(words=frame["words"] - 20)
    with pytest.raises(errors.ScoreRangeError, match="must not be negative"):
        shards(negative, tmp_path, n=2)
    with pytest.raises(errors.NonFiniteError, match="must be finite"):
        shards(frame.assign(words=np.where(frame["judge"] == "x", np.inf, frame["words"])), tmp_path)


@quiet
def test_a_denominator_that_is_hardly_known_warns_with_the_same_words(tmp_path):
    frame = log().dropna().head(90)
    frame["words"] = np.where(frame["passage"] == "p01", 4000.0, frame["words"])
    whole = er.merged(shards(frame, tmp_path, item=None), cells="any")
    for roles in ({"groups": "passage"}, {"by": "model", "groups": "passage"}, {}):
        found, expected = (er.ratio(data, "errors", "words", **roles).notes for data in (whole, frame))
        found, expected = (
            [note for note in notes if note[0] is errors.DenominatorWarning] for notes in (found, expected)
        )
        assert found == expected
        assert errors.DenominatorWarning in [kind for kind, _ in expected]


def test_models_with_other_questions_are_told_apart_by_hashes():
    sums = er.summarise(log(), numerator="errors", denominator="words", by="model", item="question", groups="passage")
    with pytest.warns(errors.UnequalQuestionsWarning, match="398 to 400 of them; their hashes differ"):
        er.ratio(sums, "errors", "words", by="model", groups="passage")


@quiet
def test_lost_doubled_and_other_shards_are_refused(files, weighted, tmp_path):
    whole = er.merged(files)
    assert whole.questions["n"].max() == 400
    with pytest.raises(errors.DataError, match="A shard may be lost"):
        er.merged(files[1:], questions=whole.questions["hash"].iloc[1])
    with pytest.raises(errors.DuplicateRowsError, match="hold the same sums"):
        er.merged([*files, files[0]])
    other = tmp_path / "scores.parquet"
    er.summarise(log(), "errors", by="model", item="question", groups="passage + judge", path=other)
    with pytest.raises(errors.ArgumentError, match=r"holds sums of ratios and .* those of single scores"):
        er.merged([*files, other])
    with pytest.raises(errors.ArgumentError, match="weights: 'weight' in"):
        er.merged([weighted[0], *files[1:]])
    doubled = log()[pd.factorize(log()["question"])[0] % N_SHARDS == 1].assign(errors=lambda rows: rows["errors"] + 1)
    er.summarise(
        doubled,
        numerator="errors",
        denominator="words",
        by="model",
        item="question",
        groups="passage + judge",
        path=other,
    )
    with pytest.raises(errors.DuplicateRowsError, match="a question counts once for each model"):
        er.merged([*files, other])


@quiet
def test_weights_far_from_one_are_those_of_the_rows(tmp_path):
    """Shards whose weights are rescaled by other powers of two; rows with weights near 1 say the same."""
    frame, roles = log(), {"by": "model", "groups": "passage"}
    part = pd.factorize(frame["question"])[0] % N_SHARDS
    frame["weight"] *= np.where(part == 1, 0.2, 1.0)
    files = shards(frame.assign(weight=1e-180 * frame["weight"]), tmp_path, weights="weight", item=None)
    assert len({er.merged([path]).power for path in files}) == 2
    same(
        er.ratio(er.merged(files), "errors", "words", weights="weight", **roles),
        er.ratio(frame, "errors", "words", weights="weight", **roles),
    )


@quiet
def test_what_sums_of_ratios_do_not_have_is_refused_by_name(files):
    sums = er.merged(files)
    for call, words in (
        (lambda: er.ratio(sums, "right", "words"), r"`numerator` must be as the log was summed, 'errors'; got 'right'"),
        (lambda: er.ratio(sums, "errors", "words", weights="weight"), r"`weights` must be .* leave `weights` out"),
        (lambda: er.ratio(sums, "errors", "words", by="topic"), "topic"),
        (lambda: er.ratio(sums, "errors", "words", cov="HC2"), "needs the rows in memory"),
        (lambda: er.ratio(sums, "errors", "words", groups="passage").influence(), "influence of single rows"),
        (lambda: er.mean(sums, "errors"), "holds sums of ratios, and no scores of single ones: `ratio` takes it"),
        (lambda: er.win_rate(sums, left="a", right="b", score="s"), "holds sums of ratios: `ratio` takes it"),
        (lambda: er.fit("errors ~ 1", sums), "by `ratio` where of ratios"),
        (lambda: er.ratio(er.summarise(log(), "errors", groups="passage"), "errors", "words"), "sums of single scores"),
        (lambda: er.summarise(log(), numerator="errors", groups="passage"), "needs both `numerator` and `denominator`"),
        (
            lambda: er.summarise(log(), "right", numerator="errors", denominator="words", groups="passage"),
            "`score` does not go with `numerator`",
        ),
        (lambda: er.summarise(log(), "errors", weights="weight", groups="passage"), "or with ratios: name `numerator`"),
    ):
        with pytest.raises(errors.EvalregError, match=words):
            call()


def run(capsys, *words: str) -> str:
    status = main([*words])
    found = capsys.readouterr()
    assert status == 0, found.err
    return found.out
