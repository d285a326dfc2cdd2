"""The paragraph on methods and its sources, in every markup."""

from __future__ import annotations

import html
import re
import sys

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.report.rendering import MARKUPS
from evalreg.results.sources import all_sources

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture
def unpictured(monkeypatch):
    """Reports have no figures, which say nothing of methods."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def _of(name):
    log = er.datasets.paired(n_passages=20, seed=1)
    if name == "mean":
        return er.mean(log, by="model", item="question", groups="passage")
    if name == "rows":
        return er.fit("score ~ model", log)
    if name == "CR3":
        return er.fit("score ~ model", log, groups="passage", cov="CR3")
    board = er.datasets.judge_log(n_models=4, n_prompts=40, seed=3)
    told = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt + judge"}
    return (er.win_rate if name == "win rate" else er.bradley_terry)(board, **told)


def _kinds():
    log = er.datasets.paired(n_passages=20, seed=1).assign(minutes=lambda frame: 1 + np.arange(len(frame)) % 90)
    board, sides = er.datasets.judge_log(n_models=3, n_prompts=40, seed=3), {"left": "left", "right": "right"}
    verdicts = {"winner": "winner", "groups": "prompt", **sides}
    chances = {"truth": "score", "predicted": "chance", "by": "model", "groups": "passage"}
    guessed = log.assign(chance=(0.3 * log["score"] + (log["minutes"] * 7 % 10) / 15).clip(0, 1))
    solved = log.assign(success=(np.arange(len(log)) * 37 % 91 > log["minutes"]) * 1)
    yield er.horizon(solved, groups="passage"), "Fieller's", "Miller"
    yield er.quantile(log, "minutes", by="model", groups="passage"), "Woodruff's", "Miller"
    yield er.classification(guessed, metric="auc", **chances), "on the logit scale", "Miller"
    yield er.classification(guessed, metric="ece", **chances), "roots of", "Miller"
    yield er.bradley_terry(board, ties="davidson", **verdicts), "model (Davidson 1970)", "half a win"
    yield er.controlled_win_rate(board, formula="1", **verdicts), "a logistic model", "Miller"


def test_intervals_ties_and_sources_are_those_that_acted(unpictured):
    for results, said, unsaid in _kinds():
        text, ends = results.methods(), results.conf_int().to_numpy()
        assert said in text
        assert unsaid not in text
        plain = np.allclose(ends.mean(axis=1), results.params)
        assert ("interval: estimate -/+ t se" in html.unescape(results.report())) == plain


@pytest.mark.parametrize("name", ["mean", "rows", "CR3", "win rate", "ratings"])
def test_all_that_is_cited_is_in_the_bibliography_and_nothing_else(name):
    results = _of(name)
    cited = [
        key for keys in re.findall(r"\\cite\{([^}]*)\}", results.methods(markup="latex")) for key in keys.split(",")
    ]
    entries = re.findall(r"^@\w+\{(\w+),$", results.methods(markup="bibtex"), re.MULTILINE)
    assert sorted(set(cited)) == sorted(entries)
    assert results.methods(markup="bibtex").count("{") == results.methods(markup="bibtex").count("}")
    text = results.methods()
    for source in all_sources().values():
        assert (source.text in text) == (source.key in entries)
        assert (f"{source.in_brackets}" in text) == (source.key in entries)


@pytest.mark.parametrize("name", ["mean", "CR3", "win rate"])
def test_the_report_says_the_same_methods(unpictured, name):
    results = _of(name)
    report = html.unescape(re.sub(r"</?bdi>", "", results.report()))
    paragraphs = re.sub(r" \([A-Z][^()]* \d{4}[^()]*\)(?=\.)", "", results.methods()).split("\n\n")
    for paragraph in paragraphs[:-1]:
        assert paragraph.partition(" Computed with evalreg")[0] in report
    for source in paragraphs[-1].splitlines():
        assert source in report


CROSSED = "passage + judge"


@pytest.mark.parametrize(
    ("options", "said", "unsaid"),
    [
        ({}, ("use t with 99 degrees", "Miller 2024; White 1980; Wilson 1927"), ("design effect", "Liang")),
        ({"cov": "HC2"}, ("White 1980; MacKinnon and White 1985",), ("Bell",)),
        ({"groups": "passage", "dof": 7}, ("use t with 7 degrees", "correlation of 0.2", "Bell"), ("less one",)),
        ({"groups": "passage", "cov": "CR3"}, ("use t with 19 degrees", "Webb 2023"), ("Satterthwaite",)),
        ({"groups": CROSSED}, ("max rule", "(inclusion-exclusion); no variance is below", "Gelbach"), ()),
        ({"groups": CROSSED, "repair": "two-term"}, ("sum of t^2 V (as", "Banerjee"), ("max rule", "subtracted")),
        ({"groups": CROSSED, "repair": "none"}, ("mean t^2", "mean of t^2"), ("max rule", "no variance is", "Webb")),
        ({"groups": CROSSED, "cov": "jackknife"}, ("number of clusters less one",), ("Satterthwaite",)),
    ],
)
def test_summaries_and_methods_say_what_acted(options, said, unsaid):
    log = er.datasets.passages(n_passages=20, questions_per_passage=5, seed=1).assign(judge=np.arange(100) % 7)
    results = er.mean(log, **options)
    cited = "; ".join(re.findall(r"(?<= \()[^()]* \d{4}(?=\))", results.methods()))
    text = f"{' '.join(str(results.summary()).split())} {results.methods()} {cited}"
    assert [part for part in said if part not in text] == [part for part in unsaid if part in text] == []


def test_a_comparison_says_how_many_p_values_and_whether_they_are_adjusted():
    log = er.datasets.paired(n_passages=20, seed=1)
    third = log[log["model"] == "new"].assign(model="third").eval("score = 1 - score")
    log = pd.concat([log, third])
    asked = {"item": "question", "groups": "passage"}
    assert "adjusted (holm) for the number of differences (3)." in er.compare(log, **asked, adjust="holm").methods()
    assert "not adjusted for the number of differences (3)." in er.compare(log, **asked).methods()
    one = er.compare(log[log["model"] != "third"], **asked)
    assert "number of differences" not in one.methods()


def test_names_of_columns_are_inert_in_every_markup():
    name = "sc_ore <script>x</script> $a | \\b"
    log = er.datasets.passages(n_passages=20, seed=1).rename(columns={"score": name, "passage": "p<b>&_"})
    results = er.mean(log, name, groups="p<b>&_")
    assert "<script>" not in results.methods(markup="html")
    assert "&lt;b&gt;" in results.methods(markup="html")
    latex = results.methods(markup="latex")
    assert r"sc\_ore $<$script$>$" in latex
    assert "\\textbackslash{}b" in latex
    assert "`p<b>&_`" in results.methods(markup="markdown")
    for markup in MARKUPS:
        assert results.methods(markup=markup)
    with pytest.raises(er.errors.ArgumentError, match="`markup`"):
        results.methods(markup="rst")
