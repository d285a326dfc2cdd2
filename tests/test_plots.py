"""Figures: what is drawn stands where the tables say, can be read at any size, and leaves matplotlib as it was."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalreg as er
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    EmptyDataError,
    EvalregWarning,
    MissingColumnError,
    NotAvailableError,
)
from evalreg.report.canvas import LEAST_WIDTH, NAME_WIDTH, ROW_NAME_WIDTH, display_names, spread
from evalreg.report.curves import curve_axes
from evalreg.report.heat_map import pairs_axes
from evalreg.report.plots import estimates_axes, inflation_axes

mpl.use("Agg")


AWKWARD = ["$\\alpha_1", "a_b^c $5 {x}", "Übung-Модель-ελ", "long/" + "x" * 190, "100% \\frac{1}", "a  b\nc"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def board_of(n, n_passages=12, **options):
    """Means of n models on the same simulated passages; names of several lengths."""
    logs = []
    for i in range(n):
        log = er.datasets.passages(
            n_passages=n_passages, questions_per_passage=3, mean=0.15 + 0.7 * i / max(n - 1, 1), seed=i
        )
        name = AWKWARD[i] if i < len(AWKWARD) else f"provider/model-{i:02d}" + "-instruct-preview" * (i % 4)
        logs.append(log.assign(model=name))
    log = pd.concat(logs, ignore_index=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", er.errors.EvalregWarning)
        return er.mean(log, by="model", item="question", groups="passage", **options)


class Boards(dict):
    """Boards by their number of models, each made when it is asked for."""

    def __missing__(self, n):
        return self.setdefault(n, board_of(n))


@pytest.fixture(scope="module")
def boards():
    return Boards()


@pytest.fixture(scope="module")
def crossed():
    judged = er.datasets.judge_log(n_models=4, n_prompts=30, n_judges=8, judge_sd=0.5, seed=2)
    mine = judged[judged["left"] == "model-01"].copy()
    mine["score"] = mine["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", er.errors.EvalregWarning)
        return er.fit("score ~ C(right)", mine, groups="prompt + judge")


def texts_of(figure):
    """Every visible text with its box in pixels."""
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    found = [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text().strip()]
    # Tick labels outside the limits are kept by matplotlib and not drawn.
    axes = figure.findobj(mpl.axes.Axes)
    hidden = {id(label) for ax in axes for label in all_ticks(ax)} - {
        id(label) for ax in axes for label in shown_ticks(ax)
    }
    # The box of an annotation would include its arrow.
    box_of = mpl.text.Text.get_window_extent
    return [(text, box_of(text, renderer)) for text in found if id(text) not in hidden]


def all_ticks(ax):
    for axis in (ax.xaxis, ax.yaxis):
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            yield from (tick.label1, tick.label2)


def shown_ticks(ax):
    for axis in (ax.xaxis, ax.yaxis):
        for tick in axis._update_ticks():
            yield from (tick.label1, tick.label2)


def assert_readable(figure):
    """All texts inside the figure, none over another, none smaller than 7 points."""
    texts, outline = texts_of(figure), figure.bbox
    assert texts
    for text, box in texts:
        what = repr(text.get_text())
        assert text.get_fontsize() >= 7, what
        assert box.x0 >= outline.x0 - 0.5, what
        assert box.x1 <= outline.x1 + 0.5, what
        assert box.y0 >= outline.y0 - 0.5, what
        assert box.y1 <= outline.y1 + 0.5, what
    left, low, right, high = np.array([box.extents for _, box in texts]).T
    across = np.minimum(right[:, None], right) - np.maximum(left[:, None], left)
    along = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
    over = np.argwhere(np.triu((across > 0.5) & (along > 0.5), 1))
    assert [(texts[i][0].get_text(), texts[j][0].get_text()) for i, j in over] == []


def labels(ax, axis="y"):
    return [label.get_text() for label in getattr(ax, f"get_{axis}ticklabels")()]


def segments(ax, width):
    """Ends of the horizontal lines of a width, by row."""
    lines = [c for c in ax.collections if c.get_linewidth()[0] == width]
    return {int(s[0][1]): (s[0][0], s[1][0]) for c in lines for s in c.get_segments()}


def points(ax, filled=True):
    """Points of the estimates, by row."""
    found = {}
    for line in ax.get_lines():
        if line.get_marker() == "o" and (line.get_color() != "white") == filled:
            found |= dict(zip(map(int, line.get_ydata()), line.get_xdata(), strict=True))
    return found


def ranks_of(ax):
    return [text.get_text() for text in ax.texts if text.get_gid() == "rank"]


# Every figure can be read


# Of more models figures are larger, and nothing else; far more rows than these are drawn from tables below.
MANY = pytest.param(93, marks=pytest.mark.slow)


@pytest.mark.parametrize("n", [2, 29, MANY])
@pytest.mark.parametrize("kind", ["estimates", "pairs", "inflation"])
def test_texts_stand_apart_and_inside_the_figure_whose_height_grows_with_the_models(boards, kind, n):
    ax = boards[n].plot(kind)
    assert len(labels(ax)) == n
    assert_readable(ax.figure)
    few = boards[6].plot(kind).figure.get_figheight()
    assert (n < 6) == (ax.figure.get_figheight() < few)


@pytest.mark.parametrize(
    ("kind", "n"), [("estimates", 29), ("pairs", 2), ("pairs", 6), ("pairs", 29), ("inflation", 6)]
)
def test_figures_as_wide_as_a_column_can_be_read(boards, kind, n):
    ax = boards[n].plot(kind, figsize=3.3)
    assert ax.figure.get_size_inches()[0] == 3.3
    assert_readable(ax.figure)


def test_figures_without_rows_can_be_read_in_a_column(boards, crossed):
    curves = pd.DataFrame({"a": [1.0, 2.0], "another that is long": [1.0, 1.5]}, index=[100, 1600])
    for ax in (
        crossed.plot("inflation", figsize=3.3),
        boards[6].plot("dependence", figsize=3.3),
        curve_axes(curves, xlabel="questions", ylabel="detectable difference", log="x", figsize=3.3),
    ):
        assert_readable(ax.figure)


@pytest.mark.parametrize("kind", ["estimates", "pairs", "inflation", "dependence"])
def test_the_narrowest_figures_leave_room_for_what_is_drawn(boards, kind):
    figure = boards[6].plot(kind, figsize=LEAST_WIDTH).figure
    figure.draw_without_rendering()  # matplotlib itself would warn that its axes collapsed
    box = figure.axes[0].get_window_extent()
    assert min(box.width, box.height) / figure.dpi > 0.6


@pytest.mark.parametrize("size", [(6, 5.5), pytest.param((12, 4), marks=pytest.mark.slow), (14, 3.5)])
def test_rows_of_a_low_matrix_are_named_as_far_as_their_names_stand_apart(boards, size):
    figure = boards[29].plot("pairs", figsize=size).figure
    figure.canvas.draw()
    shown = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert len(shown) > 1
    assert all(below.y1 <= above.y0 for above, below in pairwise(shown))


def test_numbers_of_a_narrow_matrix_are_explained_below_it(boards):
    ax = boards[29].plot("pairs", figsize=3.3)
    note = "".join(ax.figure.texts[0].get_text().split())
    best = boards[29].params.sort_values(ascending=False, kind="stable").index
    assert f".1{best[0]};2{best[1]};3" in note
    assert labels(ax) == labels(ax, "x") == [str(i) for i in range(2, 30, 2)]


def test_a_difference_is_whole_in_a_column():
    names = [f"organisation/model-{i}-70b-instruct - organisation/another-{i}-7b" for i in range(3)]
    table = pd.DataFrame({"estimate": 0.5, "lower": 0.4, "upper": 0.6}, index=names)
    ax = estimates_axes(table, figsize=3.3)
    drawn = [text.get_text() for text in ax.texts if text.get_gid() == "name"]
    assert [text.replace("\n", " ") for text in drawn] == names
    assert_readable(ax.figure)


def test_the_size_of_a_figure_is_that_which_was_asked_for(boards):
    assert tuple(boards[6].plot(figsize=(5, 3)).figure.get_size_inches()) == (5, 3)
    assert tuple(boards[6].plot("pairs", figsize=(4, 4)).figure.get_size_inches()) == (4, 4)
    for wrong in (0.5, 1.4, (1.99, 4), (3, 0.9), "3.3", (3,), (3, 4, 5), (None, 3), True, float("nan"), (3, 1e4)):
        with pytest.raises(ArgumentError, match="`figsize` must be a width in inches"):
            boards[6].plot(figsize=wrong)
    with pytest.raises(ArgumentError, match="`ax` has one"):
        boards[6].plot(figsize=3.3, ax=plt.figure().add_subplot())


@pytest.mark.parametrize("kind", ["estimates", "pairs", "inflation"])
def test_a_figure_too_low_for_its_foot_is_higher_and_says_so(boards, kind):
    with pytest.warns(EvalregWarning, match=r"a height of 1 inches leaves no room.* is [\d.]+ inches high") as said:
        figure = boards[6].plot(kind, figsize=(3, 1)).figure
    width, height = figure.get_size_inches()
    assert width == 3
    assert f"is {height:.1f} inches high" in str(said[0].message)
    figure.draw_without_rendering()  # matplotlib itself would warn that its axes collapsed
    assert figure.axes[0].get_window_extent().height / figure.dpi > 0.2


def test_crossed_regressions_can_be_read(crossed):
    for kind in ("estimates", "pairs", "inflation"):
        assert_readable(crossed.plot(kind).figure)


def test_one_parameter_can_be_read():
    results = er.mean(er.datasets.passages(seed=1), groups="passage")
    for kind in ("estimates", "inflation"):
        ax = results.plot(kind)
        assert labels(ax) == ["mean"]
        assert_readable(ax.figure)


@pytest.mark.parametrize(("n", "step"), [(250, 1), (400, 2), pytest.param(1000, 4, marks=pytest.mark.slow)])
def test_a_great_many_rows_have_one_name_in_so_many_and_say_so(n, step):
    names, value = [f"model {i}" for i in range(n)], np.linspace(0.9, 0.1, n)
    table = pd.DataFrame({"estimate": value, "lower": value - 0.1, "upper": value + 0.1}, index=names)
    ranks = pd.DataFrame({"lower": np.arange(n), "upper": np.arange(n)})
    ax = estimates_axes(table, ranks=ranks, note="Bars.")
    assert [label.get_text() for label in ax.get_yticklabels()] == names[::step]
    assert list(ax.get_yticks()) == list(range(0, n, step))
    assert [text.get_text() for text in ax.texts if text.get_gid() == "rank"] == [str(i) for i in range(0, n, step)]
    said = f"{n:,} rows, of which one in {step} is named."
    assert (said in ax.figure.texts[0].get_text()) == (step > 1)
    assert ax.figure.get_size_inches()[1] < 42
    # All points are there, whether they are named or not.
    assert len(ax.get_lines()[-1].get_xdata()) == n


def test_axes_that_are_high_enough_name_every_row():
    value = np.linspace(0.9, 0.1, 300)
    table = pd.DataFrame({"estimate": value, "lower": value, "upper": value}, index=[f"m{i}" for i in range(300)])
    for height, named in ((60, 300), (6, 30)):
        figure = plt.figure(figsize=(7, height))
        assert len(estimates_axes(table, ax=figure.add_subplot()).get_yticklabels()) == pytest.approx(named, abs=2)


def test_names_are_shown_as_they_are_written(boards):
    for kind in ("estimates", "pairs", "inflation"):
        ax = boards[6].plot(kind)
        for axis in "y":
            shown = [re.sub(r"  \d+$", "", name) for name in labels(ax, axis)]
            assert {"$\\alpha_1", "a_b^c $5 {x}", "Übung-Модель-ελ", "100% \\frac{1}", "a b c"} < set(shown)
            long = next(name for name in shown if name.startswith("long/x"))
            assert "x..." in long
            assert len(long) <= ROW_NAME_WIDTH
            assert not any(label.get_parse_math() for label in getattr(ax, f"get_{axis}ticklabels")())


@pytest.mark.parametrize("n", [2, 12, pytest.param(29, marks=pytest.mark.slow)])
def test_long_names_of_pairs_are_whole_at_the_left_and_numbered_above(n):
    names = [f"an-organisation/a-model-with-a-name-of-{'many' if i % 2 else 'more'}-letters-{i:02d}" for i in range(n)]
    pairs = pd.MultiIndex.from_tuples(list(itertools.combinations(names, 2)))
    ax = pairs_axes(pd.DataFrame({"difference": 0.1, "p_adjusted": 0.5}, index=pairs))
    assert labels(ax, "y") == [f"{name}  {i}" for i, name in enumerate(names, 1)]
    assert labels(ax, "x") == [str(i) for i in range(1, n + 1)]
    ax.figure.canvas.draw()
    left = min(label.get_window_extent().x0 for label in ax.get_yticklabels())
    assert left >= -1, "a name runs out of the figure"


def test_both_names_of_a_difference_are_whole_in_a_figure_that_is_as_wide_as_they_need():
    name = "GPT-5 mini (2025-08-07) (medium reasoning) - GPT-5 nano (2025-08-07) (medium reasoning)"
    table = pd.DataFrame({"estimate": [0.1], "lower": [0.0], "upper": [0.2]}, index=[name])
    ratios = pd.DataFrame({"prompt": [1.8]}, index=[name])
    short = estimates_axes(table.set_axis(["new - old"])).figure.get_figwidth()
    for ax in (estimates_axes(table), inflation_axes(ratios)):
        ax.figure.canvas.draw()
        assert labels(ax) == [name]
        assert ax.figure.get_figwidth() > short == 7.0
        assert ax.get_position().width * ax.figure.get_figwidth() > 2.5
    _, given = plt.subplots(figsize=(5, 3), layout="constrained")
    assert len(labels(estimates_axes(table, ax=given))[0]) == NAME_WIDTH


@settings(max_examples=25)
@given(st.lists(st.text("ab", min_size=0, max_size=60), unique=True, min_size=1, max_size=8))
def test_shortened_names_stay_distinct(names):
    shown = display_names(names, 12)
    assert len(set(shown)) == len(names)
    assert all(text == name for text, name in zip(shown, names, strict=True) if len(name) <= 12)


def test_no_text_of_the_caller_is_read_as_mathematics():
    bad = "$\\frac{1$ and \\alpha_$"  # drawing this as mathtext raises
    intervals = pd.DataFrame({"estimate": [1.0], "lower": [0.0], "upper": [2.0]}, index=[bad])
    axes = [
        estimates_axes(intervals, xlabel=bad, note=bad),
        inflation_axes(pd.DataFrame({bad: [1.5], "together": [2.0]}, index=[bad]), note=bad),
        curve_axes(pd.DataFrame({bad: [1.0, 2.0]}, index=[1, 2]), xlabel=bad, ylabel=bad, note=bad),
        estimates_axes(intervals, note=bad, ax=plt.figure().subplots()),
    ]
    for ax in axes:
        assert bad in [text.get_text() for text, _ in texts_of(ax.figure)]


def test_numbers_on_the_axes_may_be_mathematics():
    with plt.rc_context({"axes.formatter.use_mathtext": True}):
        ax = estimates_axes(pd.DataFrame({"estimate": [1e9], "lower": [5e8], "upper": [2e9]}))
        texts_of(ax.figure)
        assert all(label.get_parse_math() for label in ax.get_xticklabels())


# Estimates


@pytest.mark.parametrize("n", [2, 29])
def test_estimates_stand_at_their_values_best_first(boards, n):
    results = boards[n]
    ax = results.plot()
    order = results.params.sort_values(ascending=False, kind="stable").index
    assert [points(ax)[i] for i in range(n)] == results.params[order].tolist()
    bands, joint = results.conf_int().loc[order], results.simultaneous().loc[order]
    np.testing.assert_allclose([segments(ax, 3.4)[i] for i in range(n)], bands.to_numpy())
    np.testing.assert_allclose([segments(ax, 0.9)[i] for i in range(n)], joint[["lower", "upper"]].to_numpy())
    sets = results.ranks().loc[order]
    written = [f"{a}-{b}" if a < b else f"{a}" for a, b in zip(sets["lower"], sets["upper"], strict=True)]
    assert ranks_of(ax) == written
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # row 0 is at the top


def test_the_level_reaches_intervals_ranks_and_note(boards):
    results = boards[6]
    ax = results.plot(alpha=0.2)
    order = results.params.sort_values(ascending=False).index
    np.testing.assert_allclose([segments(ax, 3.4)[i] for i in range(6)], results.conf_int(0.2).loc[order].to_numpy())
    assert ranks_of(ax) != ranks_of(results.plot())
    note = ax.figure.texts[0].get_text().replace("\n", " ")
    assert "80% interval of each (Wilson's, with a design effect)" in note
    assert "Standard errors: CR2 by passage." in note
    assert ax.get_xlabel() == "score (mean by model)"


def test_coefficients_keep_their_order_beside_a_line_at_zero(crossed):
    ax = crossed.plot()
    assert labels(ax) == list(crossed.params.index)
    assert ranks_of(ax) == []
    assert any(list(line.get_xdata()) == [0, 0] for line in ax.get_lines())
    assert ax.get_xlabel() == "coefficient (OLS of score)"
    assert "CR2 by prompt + judge" in ax.figure.texts[0].get_text().replace("\n", " ")


def test_ranks_can_be_asked_for_and_left_out(boards, crossed):
    assert len(ranks_of(crossed.plot(ranks=True))) == 3
    ax = boards[6].plot(ranks=False)
    assert ranks_of(ax) == []
    assert labels(ax) == display_names(boards[6].params.index, ROW_NAME_WIDTH)


def test_a_contrast_is_no_board():
    board = er.mean(er.datasets.paired(n_passages=20, seed=1), by="model", item="question")
    ax = board.contrast("new - old").plot()
    assert ranks_of(ax) == []
    assert any(list(line.get_xdata()) == [0, 0] for line in ax.get_lines())


def test_estimates_without_a_standard_error_are_hollow_and_said():
    log = er.datasets.paired(n_passages=20, seed=1)
    single = log[(log["model"] == "old") & (log["passage"] == log["passage"].iloc[0])].assign(model="alone")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", er.errors.EvalregWarning)
        results = er.mean(pd.concat([log, single]), by="model", item="question", groups="passage")
    assert results.bse.isna().to_dict() == {"alone": True, "new": False, "old": False}
    ax = results.plot()
    row = labels(ax).index(f"alone (n {len(single)})")
    assert points(ax, filled=False) == {row: results.params["alone"]}
    assert row not in segments(ax, 3.4)
    note = ax.figure.texts[0].get_text().replace("\n", " ")
    assert "Hollow: no standard error can be computed." in note
    assert "No thin line where there is no positive variance: 1." in note
    assert_readable(ax.figure)
    assert "Without a mark" in " ".join(results.plot("inflation").figure.texts[0].get_text().split())


def test_infinite_ends_reach_the_margin_with_an_arrow():
    table = pd.DataFrame({"estimate": [1.0, 2.0, 3.0], "lower": [-np.inf, 1.0, 2.5], "upper": [1.5, np.inf, 3.5]})
    ax = estimates_axes(table)
    low, high = ax.get_xlim()
    assert segments(ax, 3.4) == {0: (low, 1.5), 1: (1.0, high), 2: (2.5, 3.5)}
    arrows = {line.get_marker(): list(line.get_ydata()) for line in ax.get_lines() if line.get_marker() in "<>"}
    assert arrows == {"<": [0], ">": [1]}


def test_rows_without_interval_or_estimate_are_drawn_as_such():
    nan = np.nan
    table = pd.DataFrame({"estimate": [0.5, 0.5, nan], "lower": [0.5, nan, nan], "upper": [0.5, nan, nan]})
    ax = estimates_axes(table, zero=True)
    assert points(ax)[0] == 0.5
    assert points(ax, filled=False)[1] == 0.5
    assert [text.get_text() for text in ax.texts] == ["no estimate"]
    assert_readable(ax.figure)


@pytest.mark.parametrize("value", [0.0, 0.5, -3e8])
def test_equal_estimates_without_width_get_an_axis(value):
    ax = estimates_axes(pd.DataFrame(dict.fromkeys(("estimate", "lower", "upper"), [value] * 3)))
    low, high = ax.get_xlim()
    assert low < value < high
    assert_readable(ax.figure)


# Pairs


def test_pairs_are_row_minus_column_with_dots_where_separated():
    results = board_of(6, n_passages=24)
    ax = results.plot("pairs")
    best = results.params.sort_values(ascending=False)
    np.testing.assert_allclose(ax.images[0].get_array(), best.to_numpy()[:, None] - best.to_numpy())
    low, high = ax.images[0].get_clim()
    assert low == -high
    table = results.pairwise("single-step")
    apart = {pair for pair, p in table["p_adjusted"].items() if p < 0.05}
    places = {name: i for i, name in enumerate(best.index)}
    expected = {(places[a], places[b]) for a, b in apart} | {(places[b], places[a]) for a, b in apart}
    dots = next(c for c in ax.collections if c.get_gid() == "marked").get_offsets()
    assert 0 < len(expected) < 30
    # A dot below its value, in the same cell.
    assert {(round(y - 0.3), round(x)) for x, y in np.asarray(dots)} == expected
    values = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in ax.texts if t.get_text()}
    assert len(values) == 30
    for (i, j), text in values.items():
        assert float(text.replace("−", "-")) == pytest.approx(best.iloc[i] - best.iloc[j], abs=0.0051)


def test_pairs_follow_adjustment_and_level(boards):
    results = board_of(6, n_passages=24)

    def n_dots(**options):
        ax = results.plot("pairs", **options)
        return len(next(c for c in ax.collections if c.get_gid() == "marked").get_offsets()), ax

    seen = set()
    for adjust in (None, "holm", "fdr_bh", "single-step"):
        found, ax = n_dots(adjust=adjust, alpha=0.01)
        seen.add(found)
        assert found == 2 * (results.pairwise(adjust)["p_adjusted" if adjust else "p_value"] < 0.01).sum()
        assert (adjust or "not adjusted") in ax.figure.texts[0].get_text().replace("\n", " ")
    short, ax = n_dots(adjust="bh", alpha=0.01)
    assert short == n_dots(adjust="fdr_bh", alpha=0.01)[0]
    assert "(fdr_bh)" in ax.figure.texts[0].get_text().replace("\n", " ")
    assert len(seen) == 4, "the example hardly tells adjustments apart"
    assert not [text for text in boards[29].plot("pairs").texts if text.get_text()]  # too many for values


def test_values_in_cells_have_two_digits_of_the_largest():
    index = pd.MultiIndex.from_tuples([("a", "b"), ("a", "c"), ("b", "c")])
    for scale, text in ((1.0, "0.00"), (1.0, "−0.25"), (0.01, "−0.0025"), (1000.0, "−250")):
        ax = pairs_axes(pd.DataFrame({"difference": [-0.25 * scale, 0.1 * scale, 0.0], "p_adjusted": 1.0}, index=index))
        assert text in [cell.get_text() for cell in ax.texts]


def test_pairs_that_cannot_be_judged_are_hatched_and_said():
    # Of scores in [0, 1] it is known how far differences that were not seen could go; of these it is not.
    log = er.datasets.paired(n_passages=20, seed=1).eval("score = 5 * score")
    copy = log[log["model"] == "old"].assign(model="same as old")
    board = er.mean(pd.concat([log, copy]), by="model", item="question", groups="passage")
    ax = board.plot("pairs")
    rows = labels(ax)
    hatched = {(rows[round(p.get_y() + 0.5)], rows[round(p.get_x() + 0.5)]) for p in ax.patches if p.get_hatch()}
    assert hatched == {("old", "same as old"), ("same as old", "old")}
    assert "Hatched: no standard error of the difference" in ax.figure.texts[0].get_text().replace("\n", " ")
    assert_readable(ax.figure)


def test_equal_models_make_a_white_matrix():
    index = pd.MultiIndex.from_tuples([("a", "b")])
    ax = pairs_axes(pd.DataFrame({"difference": [0.0], "p_adjusted": [1.0]}, index=index))
    assert ax.images[0].get_clim() == (-1.0, 1.0)
    assert_readable(ax.figure)


# Inflation


def test_inflation_is_each_axis_alone_over_independent_rows(crossed):
    ax = crossed.plot("inflation")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", er.errors.EvalregWarning)
        naive = crossed.with_cov(groups=None, cov="naive", dof=None, repair=None).bse
        alone = {name: crossed.with_cov(groups=name).bse / naive for name in ("prompt", "judge")}
    drawn = {line.get_label(): line.get_xdata() for line in ax.get_lines() if not line.get_label().startswith("_")}
    assert list(drawn) == ["prompt", "judge", "together"]
    for name, ratio in alone.items():
        np.testing.assert_allclose(drawn[name], ratio)
    np.testing.assert_allclose(drawn["together"], crossed.bse / naive)
    assert any(list(line.get_xdata()) == [1, 1] for line in ax.get_lines())
    assert len({line.get_marker() for line in ax.get_lines() if line.get_label() in drawn}) == 3


def test_one_axis_has_no_total(boards):
    ax = boards[6].plot("inflation")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["passage"]


# Curves


def test_lines_are_named_at_their_ends_without_overlap():
    n = np.geomspace(50, 5000, 30)
    table = pd.DataFrame({f"correlation_{k} of $x$": np.sqrt((8 - 0.01 * k) / n) for k in range(8)}, index=n)
    ax = curve_axes(table, xlabel="questions", ylabel="detectable effect", log="x", note="Power 0.8.")
    assert [text.get_text() for text in ax.texts] == list(table.columns)
    assert ax.get_xscale() == "log"
    assert {"100", "200", "500", "1,000", "2,000"} < {text.get_text() for text, _ in texts_of(ax.figure)}
    np.testing.assert_array_equal(ax.get_lines()[3].get_ydata(), table.iloc[:, 3])
    assert len({(line.get_color(), str(line.get_linestyle())) for line in ax.get_lines()[:6]}) == 6
    assert len({str(line._dash_pattern) for line in ax.get_lines()[:6]}) == 6  # told apart without colour
    assert_readable(ax.figure)


def test_a_line_that_stops_early_is_named_where_it_stops():
    table = pd.DataFrame({"whole": [1.0, 2.0, 3.0], "part": [3.0, 2.5, np.nan], "none": np.nan}, index=[1, 2, 3])
    ax = curve_axes(table)
    assert [text.get_text() for text in ax.texts] == ["whole", "part"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0.01, 0.1))
def test_spread_keeps_order_gap_and_bounds(positions, gap):
    positions = np.array(positions)
    placed = spread(positions, gap, 0.0, 1.0)
    order = np.argsort(positions, kind="stable")
    assert np.all(np.diff(placed[order]) >= gap - 1e-12)
    assert placed.min() >= -1e-12
    assert placed.max() <= 1 + 1e-12
    if np.all(np.diff(positions[order]) >= gap):
        np.testing.assert_allclose(placed, positions, atol=1e-12)


# Manners


def drawings(results):
    yield from (lambda ax, kind=kind: results.plot(kind, ax=ax) for kind in ("estimates", "pairs", "inflation"))
    yield lambda ax: curve_axes(pd.DataFrame({"y": [1.0, 2.0]}, index=[1, 2]), note="A note.", ax=ax)


def test_global_settings_stay_as_they_were(boards):
    with plt.rc_context({"font.size": 13.0, "axes.grid": True, "text.color": "red"}):
        before = dict(mpl.rcParams)
        for draw in drawings(boards[6]):
            draw(None)
        assert dict(mpl.rcParams) == before


def test_settings_of_the_user_do_not_spoil_the_figure(boards):
    with plt.style.context("dark_background"), plt.rc_context({"font.size": 20}):
        for draw in drawings(boards[6]):
            ax = draw(None)
            assert mpl.colors.to_hex(ax.figure.get_facecolor()) == "#ffffff"
            for text, _ in texts_of(ax.figure):
                assert max(mpl.colors.to_rgb(text.get_color())) < 0.2, text.get_text()
            assert_readable(ax.figure)


def test_given_axes_are_drawn_into_and_no_figure_is_made(boards):
    for draw in drawings(boards[6]):
        figure = mpl.figure.Figure(figsize=(16, 8), layout="constrained")
        ax = figure.subfigures(1, 2)[0].subplots()
        assert draw(ax) is ax
        figure.draw_without_rendering()
    assert plt.get_fignums() == []


def test_a_new_figure_belongs_to_pyplot_so_that_notebooks_show_it(boards):
    ax = boards[2].plot()
    assert plt.figure(plt.get_fignums()[0]) is ax.figure
    assert len(plt.get_fignums()) == 1


def test_arguments_are_left_as_they_are():
    index = pd.MultiIndex.from_tuples([("a", "b")])
    tables = [
        (estimates_axes, pd.DataFrame({"estimate": [1], "lower": [0], "upper": [2]}, index=["a"])),
        (pairs_axes, pd.DataFrame({"difference": [0.1], "p_adjusted": [0.5]}, index=index)),
        (inflation_axes, pd.DataFrame({"x": [1.5]}, index=["a"])),
        (curve_axes, pd.DataFrame({"x": [1.5, 1.0]}, index=[1, 2])),
    ]
    for draw, table in tables:
        before = table.copy()
        draw(table)
        pd.testing.assert_frame_equal(table, before)


# Errors


def test_without_matplotlib_the_error_names_the_extra(boards, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in drawings(boards[2]):
        with pytest.raises(NotAvailableError, match=r'pip install "evalreg\[plot\]"'):
            draw(None)


def test_an_unknown_kind_lists_the_right_ones(boards):
    with pytest.raises(
        ArgumentError, match=r'"estimates", "pairs", "inflation", "dependence"; got \'estimate\'. Did you mean'
    ):
        boards[2].plot("estimate")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "pairs", "adjust": "tukey"}, '`adjust` must be one of "holm"'),
        ({"kind": "estimates", "adjust": "holm"}, '`adjust` goes with kind="pairs"'),
        ({"kind": "pairs", "ranks": True}, '`ranks` goes with kind="estimates"'),
        ({"alpha": 1.5}, "`alpha` must lie strictly between 0 and 1"),
    ],
)
def test_options_that_do_not_fit_raise(boards, options, message):
    with pytest.raises(ArgumentError, match=message):
        boards[2].plot(**options)
    assert plt.get_fignums() == []


def test_figures_that_compare_nothing_raise():
    one = er.mean(er.datasets.passages(seed=1))
    with pytest.raises(NotAvailableError, match="at least two parameters"):
        one.plot("pairs")
    with pytest.raises(NotAvailableError, match=r"no clusters\. Pass groups="):
        one.plot("inflation")


def test_tables_that_cannot_be_drawn_raise_and_leave_no_figure():
    table = pd.DataFrame({"estimate": [1.0], "lower": [0.0], "upper": [2.0]}, index=["a"])
    with pytest.raises(EmptyDataError, match="no rows"):
        estimates_axes(table.iloc[:0])
    with pytest.raises(MissingColumnError, match='no column "upper"'):
        estimates_axes(table.drop(columns="upper"))
    with pytest.raises(AlignmentError, match=r"each of the 1 rows of the table; got 2"):
        estimates_axes(table, ranks=pd.DataFrame({"lower": [1, 2], "upper": [1, 2]}))
    with pytest.raises(MissingColumnError, match='no column "lower"'):
        estimates_axes(table, ranks=pd.DataFrame({"rank": [1]}))
    with pytest.raises(ArgumentTypeError, match="DataFrame; got list"):
        estimates_axes([1.0])
    with pytest.raises(ArgumentTypeError, match="`ax` must be matplotlib Axes or None; got int"):
        estimates_axes(table, ax=3)
    with pytest.raises(ArgumentError, match="`log` must be one of"):
        curve_axes(table, log="z")
    index = pd.MultiIndex.from_tuples([("a", "b")])
    with pytest.raises(MissingColumnError, match="'b' is missing"):
        pairs_axes(pd.DataFrame({"difference": [0.1], "p_adjusted": [0.5]}, index=index), order=["a"])
    assert plt.get_fignums() == []


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_differences_of_a_comparison_stand_beside_a_line_at_zero():
    log = er.datasets.paired(n_passages=20, seed=1)
    third = log[log["model"] == "new"].assign(model="third").eval("score = 1 - score")
    compared = er.compare(pd.concat([log, third]), item="question", groups="passage", baseline="old")
    ax = compared.plot(alpha=0.1)
    table = compared.to_frame(0.1)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(table.index.get_level_values(0))
    assert ax.get_xlabel() == "difference in score from old"
    bars = [line[:, 0] for lines in ax.collections for line in lines.get_segments()]
    for ends in table[["lower", "upper"]].to_numpy():
        assert any(np.allclose(bar, ends) for bar in bars)
    assert any(np.allclose(line.get_xdata(), 0) for line in ax.lines)
    # So do they as results of their own, and as contrasts of means.
    for results in (compared.results, er.mean(log, by="model", item="question").contrast("new - old")):
        assert any(list(line.get_xdata()) == [0, 0] for line in results.plot().lines)
    assert "90% interval of each difference by itself" in " ".join(text.get_text() for text in ax.figure.texts)
    pairs = er.compare(pd.concat([log, third]), item="question", groups="passage", adjust="single-step")
    ax = pairs.plot()
    names = [f"{model} - {baseline}" for model, baseline in pairs.table.index]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    assert "hold for all differences at once" in " ".join(text.get_text() for text in ax.figure.texts)
    plt.close("all")


def test_names_stand_above_their_rows_where_axes_leave_no_room_for_them():
    import matplotlib.pyplot as plt

    names = [f"organisation/model-{i}-70b-instruct" for i in range(4)]
    table = pd.DataFrame({"estimate": 0.5, "lower": 0.4, "upper": 0.6}, index=names)
    figure, ax = plt.subplots(figsize=(3.3, 2.4))
    er.plots.estimates_axes(table, ax=ax)
    figure.canvas.draw()
    drawn = [text for text in ax.texts if text.get_gid() == "name"]
    assert [text.get_text() for text in drawn] == names
    inside = [text.get_window_extent() for text in drawn]
    assert min(box.x0 for box in inside) >= 0
    assert max(box.x1 for box in inside) <= figure.bbox.width
    plt.close("all")
    for how in ({"layout": "constrained"}, {}):
        figure, ax = plt.subplots(figsize=(3.3, 2.4), **how)
        short = table if how else table.set_axis(list("abcd"))
        er.plots.estimates_axes(short, ax=ax)
        assert [label.get_text() for label in ax.get_yticklabels()] == list(short.index)
    plt.close("all")


def test_win_rates_have_a_line_at_a_half_and_ratings_none():
    log = er.datasets.judge_log(n_models=3, n_prompts=40, seed=1)
    for estimator, n in ((er.win_rate, 1), (er.bradley_terry, 0)):
        ax = estimator(log, left="left", right="right", winner="winner", groups="prompt").plot()
        half = [line for line in ax.get_lines() if line.get_gid() == "half"]
        assert [line.get_xdata()[0] for line in half] == [0.5] * n
