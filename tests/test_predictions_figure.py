"""The figure of expected scores along a covariate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import evalreg as er
from evalreg.errors import ArgumentError, EvalregError, MissingColumnError

plt = pytest.importorskip("matplotlib.pyplot")
LOG = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
LOG = LOG.assign(model=np.random.default_rng(0).choice(list("abcdefg"), len(LOG)))
FORMULA = "score ~ n_words * subject"


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def test_a_line_is_the_average_that_statsmodels_predicts_with_the_intervals_of_avg_predictions() -> None:
    results = er.fit(FORMULA, LOG, groups="passage", family="binomial")
    ax = results.plot("predictions", by={"n_words": [150, 300, 450], "subject": ["law", "history"]}, alpha=0.1)
    fit = smf.glm(FORMULA, LOG, family=sm.families.Binomial()).fit(tol=1e-12)
    for line, subject in zip(ax.get_lines(), ("law", "history"), strict=True):
        brute = [fit.predict(LOG.assign(n_words=words, subject=subject)).mean() for words in (150, 300, 450)]
        np.testing.assert_allclose(line.get_ydata(), brute, rtol=1e-6)
    ends = results.avg_predictions(variables={"n_words": [150, 300, 450], "subject": ["law"]}).conf_int(0.1)
    (path,) = ax.collections[0].get_paths()
    for x, low, high in zip((150, 300, 450), ends[0], ends[1], strict=True):
        drawn = path.vertices[path.vertices[:, 0] == x][:, 1]
        assert (drawn.min(), drawn.max()) == pytest.approx((low, high))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["law", "history"]
    (note,) = [" ".join(text.get_text().split()) for text in ax.figure.texts]
    assert "90% interval" in note
    assert "avg_comparisons" in note
    assert "CR2 by passage" in note


def test_a_number_spans_its_range_and_labels_are_points() -> None:
    results = er.fit(FORMULA, LOG, groups="passage")
    x = results.plot("predictions", by="n_words").get_lines()[0].get_xdata()
    assert (x[0], x[-1], len(x)) == (LOG["n_words"].min(), LOG["n_words"].max(), 25)
    ax = results.plot("predictions", by="subject")
    assert [text.get_text() for text in ax.get_xticklabels()] == sorted(LOG["subject"].unique())
    assert ax.get_legend() is None
    mean = results.avg_predictions(variables="subject")
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), mean.params)


@pytest.mark.parametrize("n", [3, 4, 6])
def test_bands_give_way_to_bars_where_they_could_not_be_told_apart(n: int) -> None:
    results = er.fit("score ~ n_words + model", LOG, groups="passage")
    ax = results.plot("predictions", by={"n_words": [100, 200, 300, 400], "model": list("abcdef")[:n]})
    kinds = {type(one).__name__ for one in ax.collections}
    assert kinds == ({"LineCollection"} if n > 3 else {"FillBetweenPolyCollection"} & kinds or {"PolyCollection"})
    assert len(ax.get_lines()) == n


@pytest.mark.parametrize(
    ("by", "kind", "match"),
    [
        (["n_words", "model"], ArgumentError, "6 groups apart; got 7"),
        ("word", MissingColumnError, "not a covariate"),
        (["model", "n_words"], ArgumentError, "at which values of the number"),
        ([], ArgumentError, "got 0"),
        ({"n_words": []}, ArgumentError, "each once"),
    ],
)
def test_what_cannot_be_drawn_is_refused(by: Any, kind: type[EvalregError], match: str) -> None:
    with pytest.raises(kind, match=match):
        er.fit("score ~ n_words + model", LOG, groups="passage").plot("predictions", by=by)
