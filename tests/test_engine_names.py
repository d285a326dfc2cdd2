"""A column in two roles, and columns called as those that an engine makes: the number of pandas, or a refusal."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from engines.lazy import in_duckdb, in_one_engine, in_polars

import evalreg as er
from evalreg.data.clusters import names_are_parsed
from evalreg.errors import ArgumentError, EngineError, EvalregError, MissingColumnError, NotAvailableError

pytest.importorskip("polars")
pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
SAME = 1e-9


@functools.cache
def answers() -> pd.DataFrame:
    """Three models on 24 questions of eight clusters and two subjects, two answers to each."""
    rng = np.random.default_rng(1)
    m, q, t = (place.ravel() for place in np.indices((3, 24, 2)))
    columns = {"m": np.array(["a", "b", "c"])[m], "q": np.char.add("q", (q + 10).astype(str)).astype(object)}
    columns |= {"c": np.char.add("p", (q // 3).astype(str)).astype(object), "j": np.array(["law", "math"])[q % 2]}
    numbers = {"s": (rng.random(m.size) < 0.6).astype(int), "w": rng.integers(1, 4, m.size) * 1.0}
    return pd.DataFrame({**columns, "t": t + 1, **numbers, "x": rng.random(m.size) + 0.2})


@functools.cache
def single() -> pd.DataFrame:
    """The first answer to each question."""
    return answers()[answers()["t"] == 1].reset_index(drop=True)


@functools.cache
def comparisons() -> pd.DataFrame:
    """Four comparisons of three models on each of 30 prompts, by four judges, in two languages."""
    rng = np.random.default_rng(2)
    pairs = np.tile([("a", "b"), ("b", "c"), ("c", "a"), ("b", "a")], (30, 1))
    q, n = np.repeat(np.arange(30), 4), 120
    score = (rng.random(n) < 0.6).astype(float)
    frame = pd.DataFrame(
        {"l": pairs[:, 0], "r": pairs[:, 1], "q": [f"q{i:02d}" for i in q], "j": [f"j{i}" for i in q % 4]}
    )
    winner = np.where(score == 1, frame["l"], frame["r"])
    return frame.assign(u=np.where(q % 2, "de", "en"), s=score, v=winner, w=rng.integers(1, 4, n) * 1.0)


# What is asked, of which data, and which column plays each role; every one of them may play another, too.
Ask = tuple[Callable[..., er.Results], Callable[[], pd.DataFrame], dict[str, str]]
ASKED: dict[str, Ask] = {
    "mean": (er.mean, single, {"score": "s", "by": "m", "item": "q", "groups": "c", "strata": "j"}),
    "weighted mean": (er.mean, single, {"score": "s", "by": "m", "groups": "c", "strata": "j", "weights": "w"}),
    "mean of answers": (
        er.mean,
        answers,
        {"score": "s", "by": "m", "item": "q", "groups": "c", "strata": "j", "sample": "t"},
    ),
    "ratio": (er.ratio, single, {"numerator": "s", "denominator": "x", "by": "m", "groups": "c", "weights": "w"}),
    "compare": (
        lambda data, **roles: er.compare(data, **roles).results,
        answers,
        {"score": "s", "model": "m", "item": "q", "groups": "c", "strata": "j", "sample": "t"},
    ),
    "pass at k": (
        lambda data, **roles: er.pass_at_k(data, k=1, **roles),
        answers,
        {"score": "s", "by": "m", "item": "q", "sample": "t", "groups": "c"},
    ),
    "win rate": (
        er.win_rate,
        comparisons,
        {"left": "l", "right": "r", "score": "s", "key": "q", "groups": "j", "weights": "w", "by": "u"},
    ),
    "verdicts": (
        er.win_rate,
        comparisons,
        {"left": "l", "right": "r", "winner": "v", "key": "q", "groups": "j", "by": "u"},
    ),
    "ratings": (
        er.bradley_terry,
        comparisons,
        {"left": "l", "right": "r", "score": "s", "groups": "j", "weights": "w"},
    ),
    "fit": (
        lambda data, score, factor, number, **roles: er.fit(f"{score} ~ C({factor}) + {number}", data, **roles),
        single,
        {"score": "s", "factor": "m", "number": "x", "groups": "c", "weights": "w"},
    ),
    "sums": (
        lambda data, score, **roles: er.mean(
            er.summarise(data, score, **roles), score, by=roles["by"], groups=roles["groups"]
        ),
        single,
        {"score": "s", "by": "m", "item": "q", "groups": "c"},
    ),
    "sums of ratios": (
        lambda data, groups, **roles: er.ratio(er.summarise(data, groups=groups, **roles), **roles, groups=groups),
        single,
        {"numerator": "s", "denominator": "x", "by": "m", "groups": "c"},
    ),
    "sums of comparisons": (
        lambda data, **roles: er.win_rate(er.summarise(data, **roles), **roles),
        comparisons,
        {"left": "l", "right": "r", "score": "s", "groups": "j"},
    ),
}


# What engines call the columns that they make.
NAMES_OF_SUMS = frozenset(
    [*("n", "s", "t", "b", "e", "ed", "ee", "dd", "wd", "ww", "lo", "hi", "low", "high"), "total", "weight", "squares"]
)


def found(ask: Callable[..., er.Results], data: object, roles: dict[str, str]) -> er.Results | EvalregError:
    """The numbers, or what was refused; any other error fails."""
    try:
        return ask(data, **roles)
    except EvalregError as error:
        return error


def same(one: er.Results | EvalregError, other: er.Results | EvalregError) -> bool:
    """Whether both are the same numbers, or refusals of one kind; an engine may refuse what it has not."""
    if isinstance(other, NotAvailableError):
        return True
    if isinstance(one, EvalregError) or isinstance(other, EvalregError):
        return type(one) is type(other) and not isinstance(other, EngineError)
    pairs = ((one.params, other.params), (one.bse, other.bse))
    return dict(one.dropped) == dict(other.dropped) and all(
        len(a) == len(b) and np.allclose(a, b, rtol=SAME, atol=SAME, equal_nan=True) for a, b in pairs
    )


@pytest.mark.parametrize("name", ASKED)
@in_one_engine
def test_further_columns_called_as_those_of_an_engine_change_nothing(engine, name):
    ask, make, roles = ASKED[name]
    frame = make()
    more = {text: np.arange(len(frame)) % 7 for text in sorted(NAMES_OF_SUMS - set(frame.columns))}
    crowded = pd.concat([frame, pd.DataFrame(more)], axis=1)
    assert same(ask(frame, **roles), found(ask, engine(crowded), roles))


@pytest.mark.parametrize("name", ASKED)
@in_one_engine
def test_a_role_that_has_a_name_of_an_engine_is_refused_by_that_name(engine, name):
    ask, make, roles = ASKED[name]
    for role, column in roles.items():
        for data in (engine(make().rename(columns={column: "__sum0"})), make().rename(columns={column: "__sum0"})):
            there = found(ask, data, {**roles, role: "__sum0"})
            if isinstance(data, pd.DataFrame) and not name.startswith("sums"):
                assert isinstance(there, er.Results), (role, there)
                continue
            assert isinstance(there, MissingColumnError | ArgumentError), (role, there)
            assert '"__sum0"' in str(there), (role, there)
            assert "rename" in str(there), (role, there)


@pytest.mark.parametrize("name", ["meta.model", 'the "model"', 'a"b'])
def test_a_name_with_a_dot_or_a_quote_is_taken_or_refused_by_that_name(name, monkeypatch):
    frame = single().rename(columns={"m": name, "x": "meta.x"})
    expected = er.mean(frame, "s", by=[name], groups="c").bse
    if not names_are_parsed():
        np.testing.assert_allclose(er.mean(in_duckdb(frame), "s", by=[name], groups="c").bse, expected, rtol=SAME)
    monkeypatch.setattr("duckdb.__version__", "1.4.1")
    plain = er.mean(in_duckdb(frame), "s", groups="c")  # the other columns are there
    np.testing.assert_allclose(plain.bse, er.mean(frame, "s", groups="c").bse, rtol=SAME)
    with pytest.raises(MissingColumnError, match=rf'"{name}".* DuckDB before version 2 .*upgrade, or rename'):
        er.mean(in_duckdb(frame), "s", by=[name], groups="c")
    np.testing.assert_allclose(er.mean(in_polars(frame), "s", by=[name], groups="c").bse, expected, rtol=SAME)
