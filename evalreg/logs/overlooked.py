"""Fields of a log that may be clusters, and those that widen the error bars of questions taken to be independent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from evalreg.errors import EvalregError, IndependenceWarning, Note, muted
from evalreg.logs.reading import JUDGED, SCORED
from evalreg.results.results import Results

# More columns than these are no longer looked at as clusters.
MOST_COLUMNS = 20
# With fewer clusters an interval is rough, and their variance says little: none is proposed.
FEW_CLUSTERS = 10
# A field is named where it raises the variance by more than so many standard errors of a variance, 2/(G - 1) squared.
TELLING = 3.0

# What columns of kinds of questions are called: a benchmark has these kinds, and would have them again in a new draw.
KINDS = {"category", "subcategory", "subject", "topic", "domain", "discipline", "field", "area", "skill", "ability"}
KINDS |= {"difficulty", "level", "grade", "language", "lang", "subset", "split", "type", "kind", "section"}
# Words of columns of numbers that count or measure something, such as n_messages or length.left: no clusters.
MEASURES = {"n", "num", "count", "counts", "len", "length", "tokens", "chars", "words", "cost", "price", "time"}
MEASURES |= {"seconds", "duration", "latency", "steps", "calls"}
# With fewer questions on average a value is no kind, such as a topic with three: what shares it was drawn together.
SOME_QUESTIONS = 10
# With so many questions on average a value is a kind too, whatever the column is called.
MANY_QUESTIONS = 100

# How the warning of `overlooked` begins.
OVERLOOKED = "Questions are taken to be independent"


def is_kind(column: str, n_values: int, n_questions: int) -> bool:
    """Whether a column seems to say the kind of a question (a stratum), and not which cluster was drawn."""
    return n_questions >= (SOME_QUESTIONS if is_called_kind(column) else MANY_QUESTIONS) * n_values


def is_called_kind(column: str) -> bool:
    """Whether a column is called what kinds of questions are called."""
    return not KINDS.isdisjoint(re.split(r"[^a-z]+", column.rpartition(".")[2].lower()))


def _measures(column: str, values: pd.Series) -> bool:
    """Whether a column seems to count or measure something, which groups no questions."""
    words = re.split(r"[^a-z]+", column.lower())
    return pd.api.types.is_numeric_dtype(values) and not MEASURES.isdisjoint(words)


def candidates(frame: pd.DataFrame, ids: list[str]) -> Iterator[str]:
    """Columns that may be clusters: several values, fewer than questions, the same for all rows of a question."""
    questions = frame[ids].drop_duplicates() if ids else frame
    columns = [str(column) for column in frame.columns if column not in (*SCORED, *JUDGED)]
    for column in columns[:MOST_COLUMNS]:
        values = frame[column]
        if (
            pd.api.types.is_float_dtype(values)
            or _measures(column, values)
            or not all(map(_hashable, values.head(100)))
        ):
            continue
        n_values = values.nunique()
        if 2 <= n_values < len(questions) and (
            not ids or len(frame[[*ids, column]].drop_duplicates()) == len(questions)
        ):
            yield column


def _hashable(value: object) -> bool:
    return not isinstance(value, dict | list | set | np.ndarray)


def overlooked(results: Results, columns: Iterable[str]) -> tuple[Note, ...]:
    """A warning where a column groups questions that are alike, and the results take them to be independent.

    The variances are compared by their median over parameters: chance moves that of G clusters by sqrt(2/(G - 1)).
    """
    found: list[tuple[float, str, int]] = []
    for column in columns:
        with muted():
            try:
                wider = results.with_cov(groups=f"`{column}`")
            except EvalregError:
                continue
        n_clusters = min(wider.n_clusters.values(), default=0)
        ratio = np.asarray((wider.bse / results.bse) ** 2, dtype=float)
        ratio = ratio[np.isfinite(ratio)]
        if ratio.size and n_clusters >= FEW_CLUSTERS:
            middle = float(np.median(ratio))
            if middle > 1 + TELLING * np.sqrt(2 / (n_clusters - 1)):
                found.append((middle, column, n_clusters))
    if not found:
        return ()
    # A kind of question that explains more than clusters within it is still a stratum, and these come first.
    n_rows = results.estimate.n_rows // max(1, results.estimate.n_params)
    middle, column, n_clusters = max(found, key=lambda one: (not is_kind(one[1], one[2], n_rows), *one))
    text = (
        f'{OVERLOOKED}, but those with one value of "{column}" are alike: clustered by it '
        f"({n_clusters} values) standard errors are {np.sqrt(middle):.2f} times as large. Name it in `groups`, or in "
        "`strata` if its values are all there are."
    )
    return ((IndependenceWarning, text),)
