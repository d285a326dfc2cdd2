"""What every engine is asked, and the answers of pandas to it."""

from __future__ import annotations

import datetime
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

import evalreg as er
from evalreg import errors
from evalreg.data import engine

# An engine sums in another order, in blocks and in parallel.
SAME = 1e-10
Make = Callable[[pd.DataFrame], Any]
WORDS = {"first": "left", "second": "right", "draw": "tie", "error": None}


def answers() -> pd.DataFrame:
    """Three models on 60 questions of 15 unequal passages, two answers each, shuffled, with holes."""
    rng = np.random.default_rng(8)
    passage = np.repeat(np.arange(15), rng.integers(1, 9, 15))
    n = passage.size
    author = rng.integers(0, 7, n)
    frames = []
    for model, skill in (("ada", 0.0), ("bob", 0.4), ("Bob", -0.3)):
        for attempt in (0, 1):
            latent = skill + rng.normal(size=15)[passage] + rng.normal(size=n)
            columns = {
                "model": model,
                "question": [f"q{i:03d}" for i in range(n)],
                "attempt": attempt,
                "passage": [f"p{i:02d}" for i in passage],
                "author": [f"a{i}" for i in author],
                "judge": rng.choice(["x", "y", "z", "w"], n),
                "subject": np.where(passage % 3 == 0, "law", "math"),
                "weight": rng.uniform(0.5, 2.0, n),
                "score": 1 / (1 + np.exp(-latent)),
                "right": (latent > 0).astype(float),
            }
            frames.append(pd.DataFrame(columns))
    frame = pd.concat(frames).sample(frac=1, random_state=1, ignore_index=True)
    for column, rows in {"score": [0, 7, 11], "right": [0, 7], "weight": [20, 32]}.items():
        frame.loc[rows, column] = np.nan
    for column, rows in {"passage": [7, 20, 21], "judge": [22], "model": [30], "question": [34]}.items():
        frame[column] = frame[column].astype(object).where(~frame.index.isin(rows), None)
    return frame


def questions(n: int = 240) -> pd.DataFrame:
    """Four models right or wrong on questions of passages: two hardly differ, one lacks some, one has others."""
    rng = np.random.default_rng(3)
    frames = []
    for model, share in (("a", 0.97), ("b", 0.96), ("c", 0.5), ("d", 0.9)):
        number = np.arange(n)
        if model in "bd":
            number = number[number % 17 != 0] if model == "b" else number[number >= n - n // 6]
        columns = {
            "model": model,
            "question": [f"{'z' if model == 'd' else 'q'}{i}" for i in number],
            "passage": [f"p{i // 4}" for i in number],
            "subject": [f"s{3 * i // n}" for i in number],
            "score": (rng.uniform(size=number.size) < share).astype(float),
        }
        frames.append(pd.DataFrame(columns))
    frame = pd.concat(frames, ignore_index=True)
    frame["question"] = frame["question"].astype(object).where(frame.index != 5, None)
    return frame


def duels(n_models: int = 5, n_prompts: int = 60, n: int = 2000) -> pd.DataFrame:
    """Models on prompts of unequal size, judged by words that are no sides, with holes in every role."""
    rng = np.random.default_rng(17)
    names = np.array([f"model-{i}" for i in range(n_models)])
    left = rng.integers(0, n_models, n)
    right = (left + rng.integers(1, n_models, n)) % n_models
    prompt = np.minimum(rng.geometric(2.5 / n_prompts, n), n_prompts)
    own = rng.normal(size=n_prompts + 1)[prompt] * (left - right) * 0.2
    better = rng.normal(size=n) + (right - left) * 0.2 + own
    words = np.select([better > 0.3, better < -0.3], ["first", "second"], "draw").astype(object)
    words[rng.uniform(size=n) < 0.02] = "error"
    named = np.select([better > 0.3, better < -0.3], [names[left], names[right]], "tie").astype(object)
    frame = pd.DataFrame(
        {
            "a": names[left],
            "b": names[right],
            "prompt": [f"prompt {i}" for i in prompt],
            "judge": rng.choice(["j1", "j2", "j3", "j4", "j5"], n),
            "language": rng.choice(["de", "en"], n),
            "number": np.arange(n),
            "weight": rng.uniform(0.5, 2, n),
            "winner": words,
            "named": named,
            "points": 1 / (1 + np.exp(-better)),
        }
    )
    for name in ("a", "b", "prompt", "judge", "winner"):
        frame[name] = frame[name].astype(object).where(rng.uniform(size=n) > 0.01, None)
    for name in ("points", "weight"):
        frame.loc[rng.uniform(size=n) < 0.01, name] = np.nan
    return frame


BOARD = {"left": "a", "right": "b"}
MEANS: dict[str, dict[str, Any]] = {
    "mean": {},
    "mean, clustered": {"groups": "passage"},
    "mean, crossed": {"groups": "passage + judge"},
    "mean, joint ids": {"groups": "subject:judge", "cov": "CR1"},
    "mean, by": {"by": "model", "groups": "passage"},
    "mean, by two columns": {"by": ["model", "subject"], "groups": "passage + judge", "cov": "CR3"},
    "mean, samples": {"by": "model", "item": "question", "sample": "attempt", "groups": "passage"},
    "mean, weighted": {"weights": "weight", "groups": "passage", "by": "model"},
    "mean, weighted, no clusters": {"weights": "weight"},
    "mean, joint items": {"by": "model:subject", "item": "subject:question", "sample": "attempt", "groups": "passage"},
    "mean, strata": {"strata": "subject", "groups": "passage"},
}
# Of comparisons, whatever holds their verdicts.
BOARDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "win rates": (er.win_rate, {}),
    "win rates, clustered": (er.win_rate, {"groups": "prompt"}),
    "win rates, crossed": (er.win_rate, {"groups": "prompt + judge"}),
    "win rates, CR1": (er.win_rate, {"groups": "prompt + judge", "cov": "CR1"}),
    "win rates, CR3": (er.win_rate, {"groups": "prompt", "cov": "CR3"}),
    "win rates, joint ids": (er.win_rate, {"groups": "language:prompt + judge"}),
    "win rates, weighted": (er.win_rate, {"groups": "prompt", "weights": "weight"}),
    "win rates, weighted, no clusters": (er.win_rate, {"weights": "weight"}),
    "win rates, as sampled": (er.win_rate, {"groups": "prompt", "opponents": "as_sampled"}),
    "win rates, as sampled, weighted, no clusters": (er.win_rate, {"opponents": "as_sampled", "weights": "weight"}),
    "win rates, strata": (er.win_rate, {"groups": "prompt", "by": "language"}),
    "win rates, key": (er.win_rate, {"groups": "prompt", "key": "number"}),
    "ratings": (er.bradley_terry, {"groups": "prompt + judge"}),
    "ratings, no clusters": (er.bradley_terry, {}),
    "ratings, weighted": (er.bradley_terry, {"weights": "weight"}),
    "ratings, jackknife, Elo": (er.bradley_terry, {"groups": "prompt", "cov": "jackknife", "scale": "elo"}),
}
VERDICTS: dict[str, dict[str, Any]] = {
    "words": {**BOARD, "winner": "winner", "labels": WORDS},
    "points": {**BOARD, "score": "points"},
    "names": {**BOARD, "winner": "named"},
}
# Boards that are asked for again with points, and with winners by name.
OTHER_VERDICTS = ("win rates, clustered", "win rates, weighted", "ratings")
FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "regression on a factor": ("score ~ model", {"groups": "passage"}),
    "regression on crossed factors": ("score ~ model * C(attempt) + subject", {"groups": "passage + judge"}),
    "regression on a number": ("score ~ weight", {"groups": "passage"}),
    "regression, no clusters": ("score ~ model + weight", {}),
    "regression, weighted": ("score ~ model + C(attempt)", {"groups": "passage", "weights": "weight"}),
    "regression on factors and numbers": (
        "score ~ model * weight + C(judge)",
        {"groups": "passage + judge", "cov": "CR1"},
    ),
    "regression, weighted, on numbers": (
        "right ~ subject + weight",
        {"groups": "passage", "weights": "weight", "cov": "CR3"},
    ),
}
FITS |= {
    "regression on a factor, HC3": ("score ~ model", {"cov": "HC3"}),
    "regression on factors and numbers, HC2": ("score ~ model * weight", {"cov": "HC2"}),
    "regression, weighted, HC3": ("score ~ model + C(attempt)", {"weights": "weight", "cov": "HC3"}),
}
RATIOS: dict[str, dict[str, Any]] = {
    "ratio": {"groups": "passage"},
    "ratio, crossed, by": {"by": "model", "groups": "passage + judge", "cov": "CR1"},
    "ratio, weighted": {"by": "subject", "groups": "passage", "weights": "weight"},
}
COMPARED: dict[str, dict[str, Any]] = {
    "compare": {"sample": "attempt"},
    "compare, clustered": {"sample": "attempt", "groups": "passage"},
    "compare, crossed": {"sample": "attempt", "groups": "passage + author", "score": "right"},
}


def asked() -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """By name the frame that is asked of, and the call."""
    found: dict[str, tuple[str, Callable[[Any], Any]]] = {}
    for name, roles in MEANS.items():
        found[name] = ("answers", lambda data, roles=roles: er.mean(data, **roles))
    found["fit"] = ("answers", lambda data: er.fit("score ~ 1", data, groups="passage + judge"))
    for name, (formula, roles) in FITS.items():
        found[name] = ("answers", lambda data, formula=formula, roles=roles: er.fit(formula, data, **roles))
    found["with_cov"] = (
        "answers",
        lambda data: er.mean(data, by="model", groups="passage").with_cov(groups="subject", cov="CR1"),
    )
    for verdict, sides in VERDICTS.items():
        for name, (board, options) in BOARDS.items():
            if verdict == "words" or name in OTHER_VERDICTS:
                roles = sides | options
                found[f"{name}, {verdict}"] = ("duels", lambda data, board=board, roles=roles: board(data, **roles))
    for name, roles in RATIOS.items():
        found[name] = ("answers", lambda data, roles=roles: er.ratio(data, "right", "score", **roles))
    for name, roles in COMPARED.items():
        found[name] = ("answers", lambda data, roles=roles: er.compare(data, item="question", **roles))
    found["pass_at_k"] = (
        "answers",
        lambda data: er.pass_at_k(data, "right", k=1, item="question", sample="attempt", by="model"),
    )
    return found


def assert_numbers(found: Any, expected: Any) -> None:
    """Two results hold the same estimates, errors and counts."""
    assert list(found.params.index) == list(expected.params.index)
    np.testing.assert_allclose(found.params, expected.params, rtol=SAME, atol=1e-12)
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME, atol=1e-14)
    np.testing.assert_allclose(found.dof, expected.dof, rtol=1e-8)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=1e-8)
    assert found.n_clusters == expected.n_clusters
    assert found.nobs == expected.nobs
    assert found.dropped.to_dict() == expected.dropped.to_dict()


def said(results: Any) -> str:
    """The summary, without what rows in memory alone are measured by."""
    return re.sub(r", R-squared \d\.\d+", "", " ".join(str(results.summary()).split()))


def assert_same(found: Any, expected: Any) -> float:
    """The largest relative difference of the errors of two results; all they say is alike."""
    if hasattr(expected, "table"):
        pd.testing.assert_frame_equal(found.table, expected.table, rtol=SAME, atol=1e-14)
        assert str(found.summary()) == str(expected.summary())
        found, expected = found.results, expected.results
    assert_numbers(found, expected)
    assert expected.dropped.sum() > 0
    assert said(found) == said(expected)
    # A centred rating may be near zero; errors are not.
    return float(np.max(np.abs(found.bse / expected.bse - 1)))


@contextmanager
def collected() -> Iterator[list[int]]:
    """Lines of everything that leaves an engine."""
    lines: list[int] = []

    def counted(owner: Any, name: str) -> Any:
        plain = getattr(owner, name)

        def take(*args: Any, **kwargs: Any) -> Any:
            found = plain(*args, **kwargs)
            lines.append(len(found))
            return found

        return mock.patch.object(owner, name, take)

    with counted(nw.LazyFrame, "collect"), counted(engine, "in_batches"), streamed(lines):
        yield lines


@contextmanager
def streamed(lines: list[int]) -> Iterator[None]:
    """Add the lines of each query that is read in batches."""
    plain = engine.batches

    def take(*args: Any) -> Iterator[Any]:
        lines.append(0)
        place = len(lines) - 1
        for batch in plain(*args):
            lines[place] += len(batch)
            yield batch

    with mock.patch.object(engine, "batches", take):
        yield


def check_numbers(make: Make, engine: str) -> None:
    """Every call gives the numbers of pandas; what leaves the engine is counted, and is told with the time.

    The last line is that of the engine in the table of engines, which `.ci/engines` prints.
    """
    frames = {"answers": answers(), "duels": duels()}
    held = {name: make(frame) for name, frame in frames.items()}
    failed: list[str] = []
    differences, counts, began = list[float](), list[int](), time.perf_counter()
    for name, (of, call) in asked().items():
        start = time.perf_counter()
        try:
            with collected() as lines:
                found = call(held[of])
                str(found.summary())
                n_queries = len(lines)
            worst = assert_same(found, call(frames[of]))
            assert max(lines) <= 0.95 * len(frames[of]), f"{max(lines)} lines of {len(frames[of])} rows left the engine"
            differences.append(worst)
            counts.append(n_queries)
            told = f"errors differ by {worst:.1e}, {n_queries} queries, at most {max(lines)} lines"
        except Exception as error:
            failed.append(name)
            told = f"FAILED: {type(error).__name__}: {str(error)[:1500]}"
        print(f"{name:44} {time.perf_counter() - start:6.1f} s  {told}", flush=True)
    if failed:
        raise AssertionError(f"not the numbers of pandas: {', '.join(failed)}")
    seconds = time.perf_counter() - began
    print(f"| {engine} | {len(counts)} | {max(differences):.0e} | {sum(counts)} | {seconds:.0f} |", flush=True)


LABELS: dict[str, list[Any]] = {
    "text": ["a:b", "a", "b", "A", "a ", ""],
    "whole numbers beyond 2^53": [2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, -(2**53) - 2, 0],
    "booleans": [True, False, True, False, True, False],
    "days": [datetime.date(2024, 1, day) for day in range(1, 7)],
    "times": [datetime.datetime(2024, 1, 1, 12, 30, 0, micro) for micro in range(1, 7)],
}


def label_frames() -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """By kind of label a frame of them with some missing, and the same frame with plain codes for labels."""
    code = np.arange(48) * 5 % 6
    absent = np.arange(48) % 8 == 3
    score = np.random.default_rng(4).uniform(size=48) + 0.1 * code
    for kind, labels in LABELS.items():
        same = np.array([labels.index(labels[one]) for one in code])
        column = [None if gone else labels[one] for one, gone in zip(code, absent, strict=True)]
        shown = [None if gone else f"c{one}" for one, gone in zip(same, absent, strict=True)]
        item = [f"q{one}" for one in np.arange(48) % 11]
        frame = pd.DataFrame({"score": score, "item": item, "label": pd.Series(column, dtype=object)})
        yield kind, frame, frame.assign(label=pd.Series(shown, dtype=object))


def check_labels(make: Make, kinds: list[str] | None = None) -> None:
    """Ids of every kind tell the same clusters and the same cells apart."""
    for kind, frame, plain in label_frames():
        if kinds is not None and kind not in kinds:
            continue
        found, expected = er.mean(make(frame), groups="label"), er.mean(plain, groups="label")
        np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME, err_msg=kind)
        assert (found.n_clusters, found.nobs) == (expected.n_clusters, expected.nobs), kind
        # An engine is asked for the cells, and then for the clusters in them.
        cells, plainly = (er.mean(one, by="label", groups="item") for one in (make(frame), plain))
        for of in ("params", "bse"):
            np.testing.assert_allclose(
                getattr(cells, of).sort_values(), getattr(plainly, of).sort_values(), rtol=SAME, err_msg=kind
            )
        print(f"labels of {kind}: {found.n_clusters['label']} clusters", flush=True)


def check_scores(make: Make) -> None:
    """Scores of every kind that counts as a number, and those that are refused."""
    frame = answers().dropna().reset_index(drop=True)
    frame["truth"] = frame["right"].astype(bool)
    frame["whole"] = frame["right"].astype("int32")
    frame["huge"] = frame["right"].astype("int64") * (2**62) // 2**8
    data = make(frame)
    expected = er.mean(frame, "right", by="model", groups="passage")
    for name in ("truth", "whole"):
        found = er.mean(data, name, by="model", groups="passage")
        np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME, atol=1e-16, err_msg=name)
    huge = er.mean(data, "huge", by="model", groups="passage")
    np.testing.assert_allclose(huge.bse / (2**62 // 2**8), expected.bse, rtol=SAME)
    once = frame[frame["attempt"] == 0].reset_index(drop=True)
    roles = {"item": "question", "groups": "passage"}
    found, pandas = er.compare(make(once), "truth", **roles), er.compare(once, "right", **roles)
    np.testing.assert_allclose(found.table["se"], pandas.table["se"], rtol=SAME)
    bad = once.assign(score=once["score"].where(once.index != 4, np.inf))
    refused(errors.NonFiniteError, "must be finite", lambda: er.mean(make(bad)))
    refused(errors.NonFiniteError, "must be finite", lambda: er.compare(make(bad), item="question"))
    refused(errors.NonNumericError, "must hold numbers", lambda: er.mean(data, "passage"))
    refused(errors.MissingColumnError, 'Did you mean "score"', lambda: er.mean(data, "scor"))
    refused(errors.DuplicateRowsError, "repeat", lambda: er.mean(data, by="model", item="question"))
    refused(errors.NotAvailableError, "collect the columns", lambda: er.fit("score ~ center(weight)", data))
    refused(errors.NotAvailableError, "collect", lambda: er.quantile(data))
    lost = duels().assign(winner="nobody")
    refused(errors.UnknownLabelError, "nobody", lambda: er.win_rate(make(lost), **VERDICTS["words"]))
    print("scores of every kind, and refusals", flush=True)


def refused(kind: type[Exception], words: str, call: Callable[[], Any]) -> None:
    """Assert that a call raises an error that says some words."""
    try:
        call()
    except kind as error:
        assert words in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__}")


def prepare() -> None:
    """Warnings of few clusters are of no interest here, and of few questions are the first ones looked at by sample."""
    warnings.simplefilter("ignore", errors.EvalregWarning)
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
