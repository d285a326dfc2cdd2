"""Figures: what each mark stands for, names and notes as they are, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.checks import muted
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    EmptyDataError,
    MissingColumnError,
    NotAvailableError,
)
from evalreg.plots import pairs_axes

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def board():
    log = er.datasets.judge_log(n_models=5, n_prompts=50, n_judges=6, seed=0)
    return er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")


def table(n: int) -> pd.DataFrame:
    estimate = np.linspace(0.8, 0.2, n)
    return pd.DataFrame(
        {"estimate": estimate, "lower": estimate - 0.1, "upper": estimate + 0.1}, index=[f"m{i}" for i in range(n)]
    )


def drawn(ax) -> None:
    """Lay the figure out, as saving does."""
    ax.figure.canvas.draw()


@pytest.mark.parametrize("n", [1, 2, 25, 93, 300])
def test_each_row_has_its_estimate_and_interval_at_its_height(n):
    ax = er.plots.estimates_axes(table(n))
    drawn(ax)
    points = np.concatenate([line.get_xydata() for line in ax.get_lines() if line.get_marker() == "o"])
    assert points[:, 0].tolist() == pytest.approx(table(n)["estimate"].tolist())
    assert points[:, 1].tolist() == list(range(n))
    (bars,) = [collection.get_segments() for collection in ax.collections]
    assert np.array([[bar[0][0], bar[1][0]] for bar in bars]) == pytest.approx(table(n)[["lower", "upper"]].to_numpy())


def test_a_figure_of_a_board_shows_its_leaderboard(board):
    ax = board.plot()
    leaders = board.leaderboard()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(leaders.index)
    assert ax.get_xlabel() == "Win rate"
    ranks = [text.get_text() for text in ax.texts if text.get_gid() == "rank"]
    wanted = [
        f"{low}" if low == high else f"{low}-{high}" for low, high in leaders[["rank_lower", "rank_upper"]].values
    ]
    assert ranks == wanted
    joint, own = (np.array(bars.get_segments())[:, :, 0] for bars in ax.collections)
    assert own == pytest.approx(leaders[["lower", "upper"]].to_numpy())
    assert joint == pytest.approx(leaders[["joint_lower", "joint_upper"]].to_numpy())


def test_infinite_ends_are_arrows_and_rows_without_interval_are_hollow():
    rows = table(3)
    rows.loc["m0", "upper"], rows.loc["m1", ["lower", "upper"]] = np.inf, np.nan
    ax = er.plots.estimates_axes(rows)
    assert [line.get_ydata().tolist() for line in ax.get_lines() if line.get_marker() == ">"] == [[0]]
    hollow = [line for line in ax.get_lines() if line.get_marker() == "o" and line.get_markerfacecolor() == "white"]
    assert hollow[0].get_ydata().tolist() == [1]


def test_pairs_are_row_minus_column_with_a_dot_where_they_are_told_apart(board):
    pairs, ax = board.pairwise("holm"), board.plot("pairs", adjust="holm")
    names = [label.get_text() for label in ax.get_yticklabels()]
    values = ax.images[0].get_array()
    for (left, right), row in pairs.iterrows():
        i, j = names.index(left), names.index(right)
        assert values[i, j] == pytest.approx(row["difference"])
        assert values[j, i] == pytest.approx(-row["difference"])
    (dots,) = [collection for collection in ax.collections if collection.get_gid() == "marked"]
    assert len(dots.get_offsets()) == 2 * int((pairs["p_adjusted"] < 0.05).sum())


def test_the_line_of_dependence_is_what_a_correlation_implies():
    log = er.datasets.passages(n_passages=50, questions_per_passage=20, icc=0.1, seed=1)
    lines = er.mean(log, groups="passage").plot("dependence").lines
    ((x, y),) = (line.get_data() for line in lines if len(line.get_xdata()) > 2)
    np.testing.assert_allclose(y**2, np.maximum(1 + 19 * x, 0), atol=1e-12)


def test_inflation_is_the_ratio_of_standard_errors(board):
    ax = board.plot("inflation")
    ratio = board.bse / board.with_cov(groups=None).bse
    (line,) = [line for line in ax.get_lines() if line.get_label() == "prompt"]
    wanted = [ratio[label.get_text()] for label in ax.get_yticklabels()]
    assert line.get_xdata().tolist() == pytest.approx(wanted, rel=1e-9)


def test_curves_are_named_at_their_ends():
    n = np.array([100, 200, 400])
    ax = er.plots.curve_axes(pd.DataFrame({"a": 1 / n, "b": 2 / n}, index=n), log="xy", xlabel="n")
    drawn(ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["b", "a"]
    with pytest.raises(ArgumentError):
        er.plots.curve_axes(pd.DataFrame({"a": 1 / n}, index=n), log="z")


def test_long_names_are_cut_at_40_and_stay_apart_and_dollars_stay_text():
    names = ["a" * 50 + "b" * 50, "$x$ & _y_", "\x1b[31mred"]
    labels = [label.get_text() for label in er.plots.estimates_axes(table(3).set_axis(names)).get_yticklabels()]
    assert len(labels[0]) == 40
    assert labels[1:] == ["$x$ & _y_", "\\x1b[31mred"]
    alike = ["a" * 30 + str(i) + "a" * 30 for i in range(3)]
    labels = [label.get_text() for label in er.plots.estimates_axes(table(3).set_axis(alike)).get_yticklabels()]
    assert len(set(labels)) == 3
    drawn(er.plots.estimates_axes(table(3).set_axis(names)))


def test_the_note_stands_below_and_the_size_is_the_one_asked_for():
    ax = er.plots.estimates_axes(table(2), note="Bars: 95% intervals.", figsize=(3.3, 2.0))
    drawn(ax)
    assert ax.figure.get_size_inches().tolist() == [3.3, 2.0]
    assert ax.figure.get_supxlabel() == "Bars: 95% intervals."
    _, own = plt.subplots()
    assert er.plots.estimates_axes(table(2), ax=own) is own


def test_settings_of_matplotlib_come_back(board):
    before = dict(plt.rcParams)
    board.plot()
    assert dict(plt.rcParams) == before


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"figsize": 1}, ArgumentError),
        ({"figsize": "wide"}, ArgumentError),
        ({"figsize": (3, 0)}, ArgumentError),
        ({"ax": "axes"}, ArgumentTypeError),
        ({"ranks": pd.DataFrame({"lower": [1], "upper": [2]})}, AlignmentError),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, error):
    with pytest.raises(error):
        er.plots.estimates_axes(table(2), **options)


def test_tables_without_rows_or_columns_are_refused(board):
    with pytest.raises(EmptyDataError):
        er.plots.estimates_axes(table(2)[:0])
    with pytest.raises(MissingColumnError):
        er.plots.estimates_axes(table(2).drop(columns="lower"))
    with pytest.raises(ArgumentError):
        board.plot("estimates", adjust="holm")
    with pytest.raises(NotAvailableError):
        board.with_cov(groups=None).plot("inflation")


def test_the_same_figure_is_the_same_image_in_any_locale(board):
    from evalreg.report.axes import as_image

    assert as_image(board.plot()) == as_image(board.plot())


@pytest.mark.parametrize("kind", ["estimates", "pairs", "differences"])
def test_long_names_stand_inside_a_narrow_figure_and_can_be_told_apart(kind):
    log = er.datasets.paired(n_passages=12, seed=1)
    parts = [log, log[log["model"] == "old"].assign(model="other", score=lambda rows: 1 - rows["score"])]
    log = pd.concat(parts).assign(
        model=lambda rows: "organisation/" + rows["model"] + "-instruct-with-a-long-name-2025"
    )
    roles = {"item": "question", "groups": "passage"}
    with muted():
        means, pairs = er.mean(log, by="model", **roles), er.compare(log, **roles)
        ax = pairs.plot(figsize=3.3) if kind == "differences" else means.plot(kind, figsize=3.3)
    ax.figure.canvas.draw()
    labels = [label for label in ax.get_yticklabels() if label.get_text()]
    assert len({label.get_text() for label in labels}) == len(labels) == 3
    assert min(label.get_window_extent().x0 for label in labels) >= 0
    plt.close(ax.figure)


def test_pairs_that_never_met_are_hatched_in_vector_figures(tmp_path):
    pairs = pd.MultiIndex.from_tuples([("a", "b"), ("b", "c")])
    ax = pairs_axes(pd.DataFrame({"difference": [0.1, 0.3], "p_value": [0.6, 0.01]}, index=pairs))
    ax.figure.savefig(tmp_path / "pairs.svg")
    assert "<pattern" in (tmp_path / "pairs.svg").read_text()
