"""Results that were written as JSON come back to the last digit, and say what they cannot do without the rows."""

from __future__ import annotations

import copy
import functools
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, EvalregError, LogFormatError, NotAvailableError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

HOSTILE = ['a "quoted" \\ name', "inf", "NaN", "</script>\x1b[31m", "line\nend [\n1\n]", "\u202edesrever", "=1+1"]


def judged() -> pd.DataFrame:
    return er.datasets.judge_log(n_models=4, n_prompts=40, seed=1)


def wins(**options: object) -> er.Board:
    return er.win_rate(judged(), left="left", right="right", winner="winner", **options)


def paired() -> pd.DataFrame:
    return er.datasets.paired(n_passages=20, seed=1)


def labelled() -> pd.DataFrame:
    return paired().assign(judge=lambda log: 0.8 * log["score"], human=lambda log: log["score"][log.index % 3 == 0])


def hostile() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frames = [pd.DataFrame({"model": name, "item": np.arange(40), "score": rng.random(40)}) for name in HOSTILE]
    return pd.concat(frames, ignore_index=True)


MAKERS = {
    "one mean": lambda: er.mean(paired(), groups="passage"),
    "means of models": lambda: er.mean(paired(), by="model", item="question", groups="passage"),
    "a regression": lambda: er.fit("score ~ model", paired(), groups="passage", cov="CR1"),
    "independent rows": lambda: er.fit("score ~ model", paired()),
    "normal reference": lambda: er.fit("score ~ model", paired(), groups="passage", cov="CR0", dof="normal"),
    "no variance": lambda: er.mean(paired().assign(score=1.0), by="model", groups="passage"),
    "a crossed board": lambda: wins(groups="prompt + judge"),
    "a sparse board": lambda: wins(groups="prompt"),
    "ratings": lambda: er.bradley_terry(judged(), left="left", right="right", winner="winner", ties="davidson"),
    "human labels": lambda: er.rectified_mean(labelled(), judge="judge", human="human", by="model", groups="passage"),
    "quantiles": lambda: er.quantile(hostile(), by="model", q=0.5),
    "hostile names": lambda: er.mean(hostile(), by="model", item="item"),
    "a contrast": lambda: er.mean(paired(), by="model", item="question").contrast("new - old"),
}


def same(found: pd.DataFrame | pd.Series, expected: pd.DataFrame | pd.Series) -> None:
    check = pd.testing.assert_frame_equal if isinstance(expected, pd.DataFrame) else pd.testing.assert_series_equal
    check(found, expected, check_exact=True)


@functools.cache
def made(name: str) -> er.Results:
    """Results by their name, made once: they do not change."""
    return MAKERS[name]()


@functools.cache
def read_back(name: str) -> Any:
    """Those that were written at two levels and read again."""
    return er.read_results(made(name).to_json(alpha=[0.05, 0.1]))


@pytest.fixture(params=list(MAKERS))
def both(request: pytest.FixtureRequest) -> tuple[er.Results, Any]:
    return made(request.param), read_back(request.param)


def test_every_number_comes_back_to_the_last_digit(both):
    results, stored = both
    for name in ("params", "bse", "dof", "tvalues", "pvalues", "dropped"):
        same(getattr(stored, name), getattr(results, name))
    same(stored.cov_params(), results.cov_params())
    for alpha in (0.05, 0.1):
        same(stored.conf_int(alpha), results.conf_int(alpha))
        same(stored.to_frame(alpha), results.to_frame(alpha))
    assert (stored.nobs, stored.n_clusters) == (results.nobs, results.n_clusters)
    assert str(stored.summary()) == str(results.summary())
    assert stored.summary().as_markdown() == results.summary().as_markdown()
    if stored.kind == "board":
        same(stored.leaderboard(), results.leaderboard())


def test_differences_of_two_are_those_of_the_results(both):
    results, stored = both
    if len(results.params) < 2:
        return
    for adjust in (None, "holm"):
        pd.testing.assert_frame_equal(stored.pairwise(adjust), results.pairwise(adjust), rtol=1e-12, atol=1e-15)


def test_all_that_results_can_do_works_or_says_that_it_needs_the_rows():
    stored = read_back("a crossed board")
    for name in {*dir(er.Board), *dir(er.Comparison)}:
        if name.startswith("_") or hasattr(type(stored), name):
            continue
        with pytest.raises(AttributeError, match="not the rows"):
            getattr(stored, name)


@pytest.mark.parametrize("adjust", [None, "holm", "single-step"])
def test_comparisons_come_back(adjust):
    comparison = er.compare(hostile(), item="item", baseline="inf", adjust=adjust)
    stored = er.read_results(comparison.to_json())
    pd.testing.assert_frame_equal(stored.table, comparison.table, check_exact=True)
    assert str(stored.summary()) == str(comparison.summary())
    assert repr(stored).split("\n")[1:] == repr(comparison).split("\n")[1:]
    same(stored.conf_int(), comparison.results.conf_int())
    same(stored.cov_params(), comparison.results.cov_params())
    same(stored.to_frame(), comparison.results.to_frame())


def test_several_evals_come_back():
    evals = er.join_evals({name: er.compare(paired(), item="question", groups="passage") for name in ("a", 'b "')})
    stored = er.read_results(evals.to_json())
    pd.testing.assert_frame_equal(stored.table, evals.table, check_exact=True)
    assert str(stored.summary()) == str(evals.summary())
    with pytest.raises(NotAvailableError):
        stored.summary(0.1)


def test_json_is_strict_and_says_where_it_came_from(tmp_path):
    results = made("no variance")
    text = results.to_json(tmp_path / "found.json")
    assert (tmp_path / "found.json").read_text() == text + "\n"

    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = json.loads(text, parse_constant=refuse)
    assert text.isascii()
    assert found["schema_version"] == 1
    assert found["versions"]["evalreg"] == er.__version__
    assert found["options"] == {"cov": "CR2", "dof": "satterthwaite", "groups": "passage", "repair": None, "ssc": None}
    assert [row["t"] for row in found["parameters"]] == [None, None]
    assert np.isnan(er.read_results(text).tvalues).all()
    infinite = json.loads(made("normal reference").to_json())
    assert {row["dof"] for row in infinite["parameters"]} == {"inf"}


def test_what_is_no_results_is_refused_with_what_it_is(tmp_path):
    document = json.loads(made("one mean").to_json())
    with pytest.raises(LogFormatError, match=r"schema_version 99; this evalreg reads up to 1"):
        er.read_results(json.dumps(document | {"schema_version": 99}))
    for text in ('{"a": 1}', "[1, 2]", json.dumps(document | {"kind": "doctor"})):
        with pytest.raises(LogFormatError, match="not results that evalreg wrote"):
            er.read_results(text)
    with pytest.raises(LogFormatError, match="NaN is not a JSON number"):
        er.read_results(json.dumps(document | {"nobs": math.nan}))
    with pytest.raises(ArgumentError, match="file that can be read"):
        er.read_results(tmp_path / "absent.json")
    with pytest.raises(ArgumentError, match="got int"):
        er.read_results(3)
    for bad in (0.0, [0.05, 2.0], []):
        with pytest.raises(ArgumentError, match="alpha"):
            made("one mean").to_json(alpha=bad)
    with pytest.raises(ArgumentError, match="file to write to"):
        made("one mean").to_json(tmp_path / "no" / "folder.json")


def test_damaged_files_raise_errors_of_evalreg_alone():
    text = made("means of models").to_json()
    for end in range(0, len(text) - 1, 401):
        with pytest.raises((LogFormatError, ArgumentError)):
            er.read_results("{" if end == 0 else text[:end])
    whole = json.loads(text)
    for changed in _changes(whole):
        try:
            stored = er.read_results(json.dumps(changed))
            _ = str(stored.summary()), stored.to_frame(), stored.cov_params(), stored.leaderboard(), repr(stored)
            _ = stored.pairwise(), stored.notes, stored.n_clusters, stored.dropped
        except EvalregError:
            continue


def _changes(whole, depth=0):
    """The document with one entry gone, or of another type, at up to three levels."""
    entries = whole.items() if isinstance(whole, dict) else enumerate(whole) if isinstance(whole, list) else ()
    # Entries of a list are of one kind.
    for key, value in list(entries)[: 8 if isinstance(whole, dict) else 2]:
        rest = copy.copy(whole)
        del rest[key]
        yield rest
        for other in (None, "x", -3, [], {}):
            twin = copy.copy(whole)
            twin[key] = other
            yield twin
        if depth < 1 or key in ("pairs", "intervals", "covariance"):
            for inner in _changes(value, depth + 1):
                twin = copy.copy(whole)
                twin[key] = inner
                yield twin
