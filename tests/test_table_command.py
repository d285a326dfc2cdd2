"""``evalreg table``: several results side by side."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture
def command(call: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    return partial(call, NAME)


NAME = "table"
FORMULAS = ("score ~ 1", "score ~ n_words", "score ~ n_words + C(subject)")


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)


@pytest.fixture
def file(log: pd.DataFrame, tmp_path: Path) -> Path:
    log.to_csv(tmp_path / "log.csv", index=False)
    return tmp_path / "log.csv"


def formulas() -> list[str]:
    return [word for formula in FORMULAS for word in ("--formula", formula)]


def test_a_column_for_each_formula_is_the_table_of_python(command, log, file):
    expected = er.table([er.fit(formula, log, groups="passage") for formula in FORMULAS], names=list(FORMULAS))
    asked = (file, "--groups", "passage", *formulas())
    status, out, err = command(*asked)
    assert (status, err) == (0, "")
    assert out.strip() == str(expected).strip()
    for name, text in (("md", expected.to_markdown()), ("latex", expected.to_latex()), ("html", expected.to_html())):
        assert command(*asked, "--format", name)[1].strip() == text.strip()
    frame = pd.read_csv(io.StringIO(command(*asked, "--format", "csv")[1]), index_col=["result", "parameter"])
    pd.testing.assert_frame_equal(frame, expected.to_frame(), check_exact=False, rtol=1e-12)
    document = json.loads(command(*asked, "--format", "json")[1])
    assert document["columns"] == list(FORMULAS)
    assert document["facts"]["Rows"] == dict.fromkeys(FORMULAS, "200")
    assert document["coefficients"][1]["estimate"] == pytest.approx(expected.to_frame()["estimate"].iloc[1])


def test_stars_only_where_they_are_asked_for(command, file):
    asked = (file, "--groups", "passage", *formulas())
    assert "*" not in command(*asked)[1]
    assert "***" in command(*asked, "--stars")[1]
    kept = command(*asked, "--keep", "n_words", "--beneath", "interval", "--names", "a,b,c")[1]
    assert "Intercept" not in kept
    assert "95% intervals in brackets" in kept
    assert "other parameters are estimated and not shown" in " ".join(kept.split())


def test_a_column_for_each_log_holds_its_means(command, log, tmp_path):
    for folder, seed in (("old", 3), ("new", 4)):
        (tmp_path / folder).mkdir()
        er.datasets.passages(n_passages=40, seed=seed).to_csv(tmp_path / folder / "log.csv", index=False)
    files = [tmp_path / folder / "log.csv" for folder in ("old", "new")]
    status, out, _ = command(*files, "--groups", "passage", "--by", "subject", "--format", "csv")
    found = pd.read_csv(io.StringIO(out), index_col=["result", "parameter"])
    assert status == 0
    for name, seed in (("old/log.csv", 3), ("new/log.csv", 4)):
        rows = er.datasets.passages(n_passages=40, seed=seed)
        own = er.mean(rows, by="subject", groups="passage")
        assert found.loc[name, "se"].to_dict() == pytest.approx(own.bse.to_dict())
    both = command(*files, "--groups", "passage", "--formula", "score ~ 1", "--formula", "score ~ n_words")[1]
    assert "old/log.csv: score ~ 1" in " ".join(both.split())


def test_what_a_column_cannot_hold_is_refused_and_the_column_named(command, file):
    assert "the same one is named twice" in command(file, file)[2]
    twice = command(file, "--formula", "score ~ 1", "--formula", "score ~ 1")
    assert "the same one is given twice" in twice[2]
    status, _, err = command(file, "--formula", "score ~ 1", "--formula", "score ~ words")
    assert status == 3
    assert "'score ~ words' of the table" in err
    assert "exclude each other" in command(file, "--formula", "score ~ 1", "--by", "subject")[2]
    assert "goes with --formula" in command(file, "--family", "binomial")[2]
    assert "must be 1 names" in command(file, "--names", "a,b")[2]


def test_the_filter_is_said_with_what_it_kept(command, file):
    out = command(file, "--formula", "score ~ 1", "--where", 'subject == "law"')[1]
    assert 'subject == "law"' in out
    assert "of 200 rows" in out
