"""Metadata of model cards: no key that the hub does not know, numbers of the results, texts that stay texts."""

from __future__ import annotations

import re

import pytest

import evalreg as er
from evalreg.errors import ArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# The keys of huggingface_hub 2.4: `EvalResultEntry` and `EvalResult`, as they are written.
NEWER = {"dataset", "id", "task_id", "revision", "value", "date", "source", "url", "name", "notes"}
OLDER = {"model-index", "name", "results", "task", "type", "dataset", "config", "split", "revision", "metrics", "value"}
OLDER |= {"source", "url"}
CARD = {"dataset": "me/reading", "task": "text-generation", "form": "model-index", "model": "M", "metric": "accuracy"}


def _results(**options):
    return er.mean(er.datasets.paired(n_passages=20, seed=1), groups="passage", **options)


def _keys(text):
    return set(re.findall(r"^[ -]*([\w-]+):", text, re.MULTILINE))


def test_the_newer_form_has_the_estimate_and_the_sentence():
    results = _results()
    more = {"revision": "abc", "date": "2026-01-02", "source_url": "https://a.org", "source_name": "logs"}
    text = results.hub_metadata(dataset="me/reading", task="default", **more)
    assert _keys(text) == NEWER
    assert f"value: {float(results.params.iloc[0])!r}\n" in text
    assert f'notes: "{results.sentence()}"\n' in text
    assert _keys(results.hub_metadata(dataset="me/reading", task="default")) < NEWER


def test_the_older_form_says_what_its_value_is():
    results = _results()
    more = {"config": "en", "split": "test", "revision": "abc", "source_url": "https://a.org", "source_name": "logs"}
    text = results.hub_metadata(**CARD, **more)
    assert _keys(text) == OLDER
    value, error = re.search(r'value: "([\d.]+) ± ([\d.]+)"', text).groups()
    assert float(value) == pytest.approx(100 * results.params.iloc[0], abs=0.06)
    assert float(error) == pytest.approx(100 * results.bse.iloc[0], abs=0.06)
    assert "accuracy in %, ± one standard error (95% CI " in text
    assert results.sentence().split("(")[1].split(";")[0] in text


def test_plain_scores_have_no_percentage_and_a_lone_cluster_value_no_error():
    log = er.datasets.paired(n_passages=20, seed=1).assign(cost=lambda rows: 2000 + 3 * rows["score"])
    text = er.mean(log, "cost", groups="passage").hub_metadata(**{**CARD, "metric": "cost"})
    assert "%," not in text
    assert re.search(r'value: "200[\d.]+ ± 0\.\d+"', text)
    text = er.mean(log.assign(score=1.0), groups="passage").hub_metadata(**CARD)
    assert 'value: "100.0"' in text
    assert "±" not in text


def test_what_is_missing_or_has_no_place_is_refused():
    several = _results(by="model", item="question")
    with pytest.raises(ArgumentError, match="`name` must be one of"):
        several.hub_metadata(dataset="a", task="b")
    assert "old: mean of score" in several.hub_metadata("old", dataset="a", task="b")
    for asked, said in (
        ({**CARD, "model": None}, "needs `model`"),
        ({**CARD, "metric": " "}, "`metric` must be a text"),
        ({**CARD, "date": "2026-01-01"}, "no place for `date`"),
        ({"dataset": "a", "task": "b", "split": "test"}, "no place for `split`"),
        ({"dataset": "a", "task": "b", "source_name": "x"}, "`source_url`, which is missing"),
        ({"dataset": "a", "task": "b", "form": "yaml"}, "`form`"),
    ):
        with pytest.raises(ArgumentError, match=said):
            _results().hub_metadata(**asked)
