"""``evalreg randomise``: the exact test of an assigned treatment on the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture
def command(call: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    return partial(call, NAME)


NAME = "randomise"


def log() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    passage = np.repeat(np.arange(10), 6)
    return pd.DataFrame(
        {
            "passage": passage,
            "prompt": np.where(passage < 4, "new", "old"),
            "score": rng.normal(0, 1, 10)[passage] + 1.2 * (passage < 4) + rng.normal(0, 1, 60),
        }
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    log().to_csv(tmp_path / "log.csv", index=False)
    return tmp_path / "log.csv"


def test_the_p_value_is_the_share_of_all_assignments(command, file):
    means = log().groupby("passage")["score"].mean().to_numpy()
    gaps = [means[list(chosen)].mean() - np.delete(means, list(chosen)).mean() for chosen in combinations(range(10), 4)]
    p = np.mean(np.abs(gaps) >= np.abs(gaps[0]) - 1e-12)  # the first four are treated
    asked = (file, "--treatment", "prompt", "--groups", "passage", "--levels", "new,old", "--statistic", "difference")
    document = json.loads(command(*asked, "--format", "json")[1])
    assert document["test"]["p_value"] == pytest.approx(p)
    assert document["test"]["enumerated"] is True
    row = pd.read_csv(io.StringIO(command(*asked, "--format", "csv")[1])).iloc[0]
    assert row["p_value"] == pytest.approx(p)
    assert (row["treated_clusters"], row["reference_rows"]) == (4, 36)
    for name in ("text", "md", "latex", "html"):
        assert "new - old" in command(*asked, "--format", name)[1]


def test_two_labels_are_needed_and_a_treatment_within_clusters_is_refused(command, file, tmp_path):
    asked = ("--treatment", "prompt", "--groups", "passage")
    assert "must be two labels" in command(file, *asked, "--levels", "new")[2]
    log().assign(prompt=lambda rows: np.where(rows.index % 2, "new", "old")).to_csv(tmp_path / "b.csv", index=False)
    status, _, err = command(tmp_path / "b.csv", *asked)
    assert status == 3
    assert "passage" in err
    drawn = json.loads(command(file, *asked, "--draws", "99", "--seed", "3", "--format", "json")[1])
    assert (drawn["seed"], drawn["test"]["draws"]) == (3, 99)
