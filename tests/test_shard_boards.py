"""Boards from sums of comparisons: the numbers of the rows, whatever the shards, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import DataError, DuplicateRowsError, ScoreRangeError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# Sums of shards are added in another order.
SAME = 1e-10
N_SHARDS = 8
# Bytes of data that a process which summarises may hold.
LIMIT = 512 * 2**20
SIDES = {"left": "left", "right": "right", "winner": "winner"}

SUMMARISE = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
import pandas as pd
import evalreg as er
log = pd.read_parquet(sys.argv[2])
er.summarise(log, left="left", right="right", winner="winner", key="run", groups="prompt + judge", path=sys.argv[3])
"""


def comparisons(n_rows: int, n_prompts: int, n_models: int = 8, n_judges: int = 6, seed: int = 5) -> pd.DataFrame:
    """Models drawn at random, whose answers are better or worse for all judges; some verdicts are missing."""
    rng = np.random.default_rng(seed)
    left = rng.integers(0, n_models, n_rows)
    right = (left + rng.integers(1, n_models, n_rows)) % n_models
    prompt, judge = rng.integers(0, n_prompts, n_rows), rng.integers(0, n_judges, n_rows)
    answer, taste = rng.normal(size=(n_models, n_prompts)), 0.3 * rng.normal(size=(n_models, n_judges))
    better = 0.15 * (right - left) + answer[left, prompt] - answer[right, prompt] + taste[left, judge]
    better += -taste[right, judge] + 0.2 + rng.logistic(size=n_rows)
    winner = np.select([better > 0.3, better < -0.3], ["left", "right"], "tie")
    return pd.DataFrame(
        {
            "left": np.char.add("m", left.astype(str)),
            "right": np.char.add("m", right.astype(str)),
            "prompt": np.char.add("p", prompt.astype(str)),
            "judge": judge,
            "run": np.arange(n_rows),
            "language": np.where(prompt % 3 == 0, "de", "en"),
            "weight": rng.choice([0.5, 1.0, 3.0], n_rows),
            "points": np.round(1 / (1 + np.exp(-better)), 2),
            "winner": np.where(rng.uniform(size=n_rows) < 0.01, None, winner),
        }
    )


@pytest.fixture(scope="module")
def log():
    return comparisons(1200, 30, n_models=5)


def files_of(log: pd.DataFrame, folder, n: int = 3, **roles) -> list:
    """Files of sums of parts of a log, clusters split over them."""
    paths = [folder / f"{i}.parquet" for i in range(n)]
    for i, path in enumerate(paths):
        er.summarise(log[np.arange(len(log)) % n == i], **{**SIDES, "groups": "prompt + judge", **roles}, path=path)
    return paths


def assert_agree(found, expected, dependence=True):
    """Estimates, covariances, intervals, pairs, what is told first and dependence are those of the rows."""
    for name in ("params", "bse", "dof", "pvalues"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=SAME, err_msg=name)
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME, atol=1e-16)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=SAME, atol=1e-14)
    pd.testing.assert_frame_equal(found.head_to_head(0.05), expected.head_to_head(0.05), rtol=1e-9)
    assert (found.nobs, found.n_clusters) == (expected.nobs, expected.n_clusters)
    assert found.dropped.to_dict() == expected.dropped.to_dict()
    assert found.summary().sentences[:2] == expected.summary().sentences[:2]
    if dependence and found.cov.axes:
        pd.testing.assert_frame_equal(found.dependence(), expected.dependence(), rtol=1e-7)


@pytest.mark.parametrize(
    ("outcome", "weights"),
    [
        ("points", "weight"),
        ("winner", None),
        pytest.param("points", None, marks=pytest.mark.slow),
        pytest.param("winner", "weight", marks=pytest.mark.slow),
    ],
)
def test_scores_and_weights_are_summed_with_their_squares(log, tmp_path, outcome, weights):
    sides = {"left": "left", "right": "right", "score" if outcome == "points" else "winner": outcome}
    sides["weights"] = weights
    paths = files_of(log, tmp_path, **{"winner": None, "groups": "prompt", **sides})
    sums = er.merged(paths)
    more = [{"ties": "davidson"}] if outcome == "winner" else []
    for estimate, all_roles in (
        (er.win_rate, ({}, {"opponents": "as_sampled"})),
        (er.bradley_terry, ({}, {"formula": "1"}, *more)),
    ):
        for roles in all_roles:
            found, expected = (estimate(data, **sides, groups="prompt", **roles) for data in (sums, log))
            np.testing.assert_allclose(found.params, expected.params, rtol=SAME)
            if not roles:
                assert_agree(found, expected)
            for other in ({}, {"groups": None}, {"cov": "CR1"}):
                np.testing.assert_allclose(
                    found.with_cov(**other).cov_params(), expected.with_cov(**other).cov_params(), rtol=SAME, atol=1e-16
                )
    if outcome == "points":
        with pytest.raises(ScoreRangeError, match=r"needs verdicts: scores of 0, 1/2 and 1; [0-9]+ lie between"):
            er.bradley_terry(sums, **sides, ties="davidson")


def eight_processes(log: pd.DataFrame, folder) -> list:
    """Files of eight processes, each with its memory held, that summarise an eighth of the comparisons each."""
    pytest.importorskip("resource")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    running, files = [], []
    for i in range(N_SHARDS):
        source, target = folder / f"rows{i}.parquet", folder / f"shard{i}.parquet"
        log[log["run"] % N_SHARDS == i].to_parquet(source, index=False)
        command = [sys.executable, "-c", SUMMARISE, str(LIMIT), str(source), str(target)]
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        files.append(target)
    for process in running:
        _, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
    return files


@pytest.mark.slow
def test_eight_processes_make_the_board_of_half_a_million_comparisons(tmp_path):
    log = comparisons(500_000, 20_000, n_models=20)
    files = eight_processes(log, tmp_path)
    sums = er.merged(files, n_shards=N_SHARDS)
    for groups in ("prompt + judge", "prompt"):
        assert_agree(er.win_rate(sums, **SIDES, groups=groups), er.win_rate(log, **SIDES, key="run", groups=groups))
    for options in ({}, {"ties": "davidson", "cov": "CR1"}):
        given, needed = (er.bradley_terry(data, **SIDES, groups="prompt", **options) for data in (sums, log))
        np.testing.assert_allclose(given.params, needed.params, rtol=SAME)
        np.testing.assert_allclose(given.cov_params(), needed.cov_params(), rtol=SAME, atol=1e-16)
    with pytest.raises(DataError, match="`n_shards` says 8 shards; `paths` names 7"):
        er.merged(files[1:], n_shards=N_SHARDS)
    with pytest.raises(DuplicateRowsError, match="hold the same sums"):
        er.merged([*files, files[3]])
