"""What other packages gave on simulated logs, and the call that gives it here: `docs/conventions.md`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import evalreg as er

REFERENCE = Path(__file__).parent / "reference"
THEIRS = json.loads((REFERENCE / "other_packages.json").read_text())
PAGE = (Path(__file__).parents[1] / "docs" / "conventions.md").read_text(encoding="utf-8")
# Both sides are computed in double precision, some quantiles by bisection.
SAME = 1e-9

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def told(results: er.Results, coefficient: int = 0) -> list[float]:
    """Standard error and Wald interval, as the packages have them."""
    return [results.bse.iloc[coefficient], *results.conf_int(method="wald").iloc[coefficient]]


@pytest.fixture(scope="module")
def ours() -> dict[str, float | list[float]]:
    """The same numbers by the calls that the page names."""
    log = er.datasets.passages(n_passages=30, unequal=True, mean=0.8, icc=0.3, seed=4)
    log["words"] = log["n_words"] / 100
    paired = er.datasets.paired(n_passages=60, difference=0.06, correlation=0.7, seed=3)
    answers = er.datasets.sampled(n_questions=100, n_samples=4, seed=1)
    judged = er.datasets.judge_log(n_models=4, n_prompts=60, n_judges=3, judge_sd=0.5, seed=1)
    mine = judged[judged["left"] == "model-01"]
    mine = mine.assign(score=mine["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0}))
    by_passage = er.mean(log, groups="passage", cov="CR1")
    crossed = er.fit("score ~ 1", mine, groups="prompt + judge", cov="CR1", repair="none")
    averaged = er.mean(answers, item="question", sample="sample").bse.iloc[0]
    plain = er.compare(paired, item="question", icc=None)
    clustered = er.compare(paired, item="question", groups="passage", cov="CR1", icc=None)
    mean, slope = told(by_passage), er.fit("score ~ words", log, groups="passage", cov="CR1")
    sizes = log.groupby("passage").size()
    columns = ["se", "lower", "upper", "p_value"]
    return {
        "pyfixest.mean": mean,
        "inspect.mean": mean,
        "errorbars.mean": mean,
        "pyfixest.rows": told(er.mean(log)),
        "inspect.rows": er.mean(log).bse.iloc[0],
        "errorbars.rows": told(er.mean(log, dof="normal")),
        "pyfixest.slope": told(slope, 1),
        "pyfixest.absorbed": told(
            er.fit("score ~ model | question", paired, groups="question", cov="CR1", ssc="fixest")
        ),
        "pyfixest.crossed": told(crossed.with_cov(ssc="fixest")),
        "pyfixest.crossed_own": told(crossed),
        "inspect.epochs": averaged,
        "errorbars.answers": er.mean(answers).bse.iloc[0],
        "errorbars.answers_by_question": averaged,
        "errorbars.paired": clustered.table[columns].iloc[0].tolist(),
        "errorbars.paired_rows": plain.table[columns].iloc[0].tolist(),
        "errorbars.mcnemar": plain.mcnemar()["exact_p_value"].iloc[0],
        "errorbars.icc": by_passage.dependence()["icc"].iloc[0],
        "errorbars.design_effect": 1 + (sizes.mean() - 1) * by_passage.dependence()["icc"].iloc[0],
    }


def test_every_number_of_the_other_packages_is_met(ours: dict[str, float | list[float]]) -> None:
    assert set(ours) == set(THEIRS)
    for name, theirs in THEIRS.items():
        np.testing.assert_allclose(ours[name], theirs, rtol=SAME, err_msg=name)


def test_the_page_shows_the_measured_numbers() -> None:
    """Standard errors and intervals to four digits, and errorbars' design effect."""
    for name in ("errorbars.mean", "pyfixest.mean"):
        for number in THEIRS[name]:
            assert f"{number:.4f}" in PAGE, (name, number)
    assert f"{THEIRS['errorbars.design_effect']:.2f}" in PAGE
