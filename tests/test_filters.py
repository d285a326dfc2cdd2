"""Per-sample files of lm-evaluation-harness: one filter at a time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evalreg as er
from evalreg.errors import DuplicateRowsError

FILTERS = ("flexible-extract", "strict-match")


@pytest.fixture(scope="module")
def lines():
    """Such a file: every document once for each filter, with the keys that version 0.4 writes."""
    rng = np.random.default_rng(2)
    return [
        {
            "doc_id": doc,
            "doc": {"question": f"{doc} + 1"},
            "target": str(doc + 1),
            "resps": [[f"The answer is {doc + 1}."]],
            "filtered_resps": [str(doc + 1)],
            "filter": name,
            "metrics": ["exact_match"],
            "doc_hash": f"{doc:064x}",
            "exact_match": float(rng.random() < 0.7),
        }
        for name in FILTERS
        for doc in range(40)
    ]


@pytest.fixture(scope="module")
def log(lines):
    return pd.DataFrame(lines).drop(columns=["doc", "resps", "filtered_resps", "metrics"])


@pytest.mark.parametrize(
    "call",
    [
        lambda d: er.mean(d, "exact_match"),
        lambda d: er.mean(d, "exact_match", item="doc_id"),
        lambda d: er.mean(pl.from_pandas(d).lazy(), "exact_match", item="doc_id"),
        lambda d: er.mean(d, "exact_match", item="doc_id", sample="filter"),
        lambda d: er.mean(d, "exact_match", item="filter:doc_id"),
        lambda d: er.fit("exact_match ~ 1", d),
        lambda d: er.fit("exact_match ~ doc_id", d),
        lambda d: er.pass_at_k(d, "exact_match", item="doc_id", sample="filter", k=1),
        lambda d: er.quantile(d.assign(exact_match=d["doc_id"] + 0.5), "exact_match", q=0.5),
    ],
)
def test_every_estimate_refuses_two_filters(log, call):
    with pytest.raises(DuplicateRowsError, match="one filter at a time"):
        call(log)


def test_filters_may_be_told_apart(log):
    by = er.mean(log, "exact_match", by="filter", item="doc_id")
    assert by.params.index.tolist() == list(FILTERS)
    assert er.compare(log, "exact_match", model="filter", item="doc_id").table["n"].tolist() == [40]
    assert len(er.fit("exact_match ~ C(filter)", log, groups="doc_id").params) == 2


def test_another_file_with_a_column_called_filter_is_left_alone(log):
    assert er.mean(log.drop(columns="doc_hash"), "exact_match").nobs == 80
    assert er.mean(log[log["filter"] == FILTERS[1]], "exact_match").nobs == 40
