"""``evalreg components``: variance components on the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture
def command(call: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    return partial(call, NAME)


NAME = "components"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    log().to_csv(tmp_path / "log.csv", index=False)
    return tmp_path / "log.csv"


def log() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    item, judge = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
    score = rng.normal(0, 0.3, 40)[item] + rng.normal(0, 0.1, 5)[judge] + rng.normal(0, 0.2, 200)
    return pd.DataFrame({"item": item, "judge": judge, "score": score, "x": judge})


def by_mean_squares(rows: pd.DataFrame) -> list[float]:
    """Components of items, judges and the rest of a balanced table, from its mean squares (Brennan, table 3.1)."""
    table = rows.pivot_table(index="item", columns="judge", values="score").to_numpy()
    n, k = table.shape
    of_items, of_judges = table.mean(axis=1), table.mean(axis=0)
    rest = table - of_items[:, None] - of_judges + table.mean()
    error = (rest**2).sum() / ((n - 1) * (k - 1))
    return [of_items.var(ddof=1) - error / k, of_judges.var(ddof=1) - error / n, error]


def test_the_components_are_those_of_mean_squares_in_every_format(command, file):
    expected = by_mean_squares(log())
    found = er.components(log(), facets="item x judge")
    asked = (file, "--facets", "item x judge")
    assert command(*asked)[1].strip() == str(found).strip()
    document = json.loads(command(*asked, "--format", "json")[1])
    assert [row["variance"] for row in document["components"]] == pytest.approx(expected)
    frame = pd.read_csv(io.StringIO(command(*asked, "--format", "csv")[1]), index_col="component")
    assert frame["variance"].tolist() == pytest.approx(expected)
    for name, text in (("md", "| item |"), ("latex", "tabular"), ("html", "<table")):
        assert text in command(*asked, "--format", name)[1]


def test_designs_have_the_standard_error_of_their_mean(command, file):
    items, judges, error = by_mean_squares(log())
    designs = ("--design", "item=400,judge=3", "--design", "item=40,judge=10")
    document = json.loads(command(file, "--facets", "item x judge", *designs, "--format", "json")[1])
    expected = [np.sqrt(items / n + judges / k + error / (n * k)) for n, k in ((400, 3), (40, 10))]
    assert [row["standard_error"] for row in document["designs"]] == pytest.approx(expected)
    assert f"{expected[0]:.4f}" in command(file, "--facets", "item x judge", *designs)[1]
    for wrong in ("item", "item=4.5,judge=3", "item=4,item=5"):
        status, _, err = command(file, "--facets", "item x judge", "--design", wrong)
        assert status == 3
        assert "`--design`" in err
    assert "needs a number of levels" in command(file, "--facets", "item x judge", "--design", "item=4")[2]


def test_a_column_called_x_may_be_a_facet(command, file):
    document = json.loads(command(file, "--facets", "item x x", "--format", "json")[1])
    assert [row["variance"] for row in document["components"]] == pytest.approx(by_mean_squares(log()))


def test_several_models_of_a_log_are_a_facet_or_refused(command, tmp_path):
    rows = er.datasets.paired(n_passages=10, seed=1).rename(columns={"question": "item"})
    rows.to_csv(tmp_path / "log.csv", index=False)
    refused = command(tmp_path / "log.csv", "--log-format", "table", "--facets", "item x passage")
    assert refused[0] == 3
    assert "The log has 2 models" in refused[2]
    assert command(tmp_path / "log.csv", "--log-format", "table", "--facets", "model x item")[0] == 0
