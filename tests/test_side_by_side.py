"""Several results in one table: statsmodels' summary_col as the source of the numbers, and pdflatex of the LaTeX."""

from __future__ import annotations

import copy
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.iolib.summary2 import summary_col

import evalreg as er
from evalreg.report.tables import Grid

HOSTILE = "a_b & 50% $x^2 {#} \\input{x} ~ <script>alert(1)</script> | `c` \u202e"


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return er.datasets.passages(n_passages=30, questions_per_passage=5, seed=3).assign(
        hundreds=lambda log: log["n_words"] / 100
    )


def test_coefficients_errors_and_r_squared_are_those_of_summary_col(log: pd.DataFrame) -> None:
    formulas = ["score ~ 1", "score ~ hundreds", "score ~ hundreds + C(kind)"]
    log = log.assign(kind=np.resize(["x", "y", "z"], len(log)))
    theirs = summary_col(
        [smf.ols(formula, log).fit(cov_type="HC1") for formula in formulas], float_format="%.4f"
    ).tables[0]
    grid = er.table([er.fit(formula, log, cov="naive") for formula in formulas]).summary().grids[0]
    ours = {row[0] or f"beneath {grid.rows[i - 1][0]}": row[1:] for i, row in enumerate(grid.rows)}
    labels = list(theirs.index)
    for name in ("Intercept", "hundreds", "kind=y", "kind=z"):
        at = labels.index(name.replace("kind=", "C(kind)[T.") + "]" * ("=" in name))
        assert ours[name] == tuple(theirs.iloc[at])
        assert ours[f"beneath {name}"] == tuple(theirs.iloc[at + 1])
    # That of a mean is 0 by definition, and not shown.
    assert ours["R-squared"] == ("", *theirs.loc["R-squared"].iloc[1:])


@pytest.mark.parametrize(
    "right", ["hundreds", "0 + hundreds", "0 + C(kind) + hundreds", "0 + hundreds + I(9 - hundreds)"]
)
@pytest.mark.parametrize("weights", [None, "weight"])
def test_r_squared_is_that_of_statsmodels_whatever_the_constant_and_in_copies(log, right, weights) -> None:
    log = log.assign(kind=np.resize(["x", "y", "z"], len(log)), weight=np.resize([1.0, 2.5], len(log)))
    theirs = smf.wls(f"score ~ {right}", log, weights=log[weights] if weights else 1.0).fit()
    shown = f"{theirs.rsquared:.4f}" + " (uncentred)" * (not theirs.k_constant)
    fitted = er.fit(f"score ~ {right}", log, groups="passage", weights=weights)
    rows = {row[0]: row[1:] for row in er.table([fitted, copy.deepcopy(fitted)]).summary().grids[0].rows}
    assert rows["R-squared"] == (shown, shown)


def test_each_column_says_its_own_clusters_covariance_and_degrees_of_freedom(log: pd.DataFrame) -> None:
    words = er.fit("score ~ hundreds", log, groups="passage")
    parts = {"CR2": words, "CR1": words.with_cov(cov="CR1"), "rows": words.with_cov(groups=None)}
    facts = {row[0]: row[1:] for row in er.table(parts).summary().grids[0].rows}
    assert facts["Clusters: passage"] == ("30", "30", "")
    assert facts["Covariance"] == ("CR2 by passage", "CR1 by passage", "naive (rows independent)")
    low, high = sorted(words.dof)
    assert facts["Degrees of freedom"] == (f"{low:.1f} to {high:.1f}".replace(".0", ""), "29", "148")
    assert facts["Rows"] == ("150",) * 3


def test_rows_stand_in_order_of_first_appearance_and_gaps_are_empty(log: pd.DataFrame) -> None:
    models = er.datasets.paired(n_passages=12, seed=1)
    means, difference = er.mean(models, by="model", item="question"), er.compare(models, item="question")
    grid = er.table([difference, means]).summary().grids[0]
    assert [row[0] for row in grid.rows[:6:2]] == ["new - old", "new", "old"]
    assert grid.rows[0][2] == grid.rows[2][1] == ""
    frame = er.table([difference, means]).to_frame(0.1)
    expected = difference.to_frame(0.1).iloc[0]
    assert frame.loc[("(1)", "new - old"), ["lower", "upper"]].tolist() == expected[["lower", "upper"]].tolist()


def test_stars_are_asked_for_and_stand_by_adjusted_p(log: pd.DataFrame) -> None:
    rng = np.random.default_rng(5)
    rows = [(f"m{m}", q, float(rng.random() < 0.5 + 0.06 * m)) for m in range(4) for q in range(120)]
    frame = pd.DataFrame(rows, columns=["model", "item", "score"])
    plain, holm, apart = er.compare(frame), er.compare(frame, adjust="holm"), er.compare(frame, paired=False)
    assert "*" not in str(er.table([plain, holm]))
    grid = er.table([plain, holm, apart], stars=[0.01, 0.05, 0.1]).summary().grids[0]
    for i, (column, p) in enumerate(((plain, "p_value"), (holm, "p_adjusted"), (apart, "p_value")), 1):
        found = [row[i].count("*") for row in grid.rows[: grid.rule : 2]]
        assert found == [int(sum(value < level for level in (0.1, 0.05, 0.01))) for value in column.table[p]]
    assert [row[1].count("*") for row in grid.rows] != [row[2].count("*") for row in grid.rows]
    means = er.table([er.mean(frame, by="model", item="item")], stars=True)
    assert all("*" not in row[1] for row in means.summary().grids[0].rows)
    assert "No stars" in str(means)


def test_columns_break_into_blocks_and_names_stay_whole(log: pd.DataFrame) -> None:
    mean = er.mean(log, groups="passage")
    names = [f"organisation/Some-Model-{i}-Instruct-with-a-rather-long-name_v{i}" for i in range(7)]
    for width in (80, 120):
        text = er.table([mean] * 7, names).summary().as_text(width)
        assert max(map(len, text.splitlines())) <= width
        assert text.count("Covariance") > 1
        assert text.count("CR2 by passage") == 7
    # The pieces of a header that goes over lines are the name.
    lines = Grid(("", names[0]), (("mean", "0.1"),), blocks=True).text(60).split("\n")
    heads = lines[: next(i for i, line in enumerate(lines) if line.startswith("---"))]
    assert len(heads) > 1
    assert "".join(head.strip() for head in heads) == names[0]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles_with_hostile_names(log: pd.DataFrame, tmp_path) -> None:
    few = er.datasets.passages(n_passages=4, seed=1)
    with pytest.warns(er.errors.EvalregWarning):
        parts = {HOSTILE: er.fit("score ~ n_words", few, groups="passage"), "[x] *": er.mean(log, groups="passage")}
    table = er.table(parts, stars=True)
    body = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + table.to_latex() + "\\end{document}\n"
    (tmp_path / "table.tex").write_text(body, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "table.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
