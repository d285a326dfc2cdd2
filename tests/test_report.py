"""Reports: what they say, in which order, and that nothing in a log can act in them."""

import functools
import html
import html.parser
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import main
from evalreg.errors import NotAvailableError
from evalreg.results import reporting

pytest.importorskip("jinja2")

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "</style><style>*{display:none}</style>",
    "\u202egnp.exe\u2066 a|b | c",
    "\\input{/etc/passwd}\\write18{id} $x_1^2$ % & # ~ {",
    "`code` ![x](http://evil.example/x.png) [y](javascript:alert(4)) @everyone #12 <!-- ]]> -->",
    "{{ 7 * 7 }} {% raw %} (((7*7))) ((* if *))",
    "nul\x00 bell\x07 esc\x1b[31m\nnext line",
)
FORMS = ("html", "md", "json")


def hostile_frame():
    rng = np.random.default_rng(4)
    n = len(HOSTILE)
    return pd.DataFrame(
        {
            HOSTILE[4]: np.tile(np.array(HOSTILE, dtype=object), 40),
            HOSTILE[1]: np.repeat([f"{HOSTILE[i % n]} {i}" for i in range(40)], n),
            HOSTILE[0]: (rng.random(40 * n) < np.tile(np.linspace(0.2, 0.9, n), 40)).astype(float),
        }
    )


@pytest.fixture(scope="module")
def hostile():
    return er.mean(hostile_frame(), HOSTILE[0], by=HOSTILE[4], groups=[HOSTILE[1]])


@pytest.fixture(scope="module")
def board():
    log = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    return er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")


def written(results, form="html"):
    """A report, drawn once for all tests that read it: results do not change."""
    return _written(results, form)


@functools.cache
def _written(results, form):
    return results.report(format=form)


class Reader(html.parser.HTMLParser):
    """Elements and attributes as a browser's parser meets them, and text by element."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = [], [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.open.append(tag)

    def handle_endtag(self, tag):
        self.open = self.open[:-1]

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


def document_of(page):
    return json.loads(re.search(r'<script type="application/json" id="results">(.*?)</script>', page, re.DOTALL)[1])


def test_a_hostile_log_adds_no_element_and_no_attribute_to_the_page(hostile):
    found = Reader(written(hostile))
    assert found.tags.count("script") == 2
    assert found.tags.count("style") == 1
    assert not {"iframe", "object", "base", "link", "form"} & set(found.tags)
    assert not [attribute for attribute in found.attributes if attribute[1].startswith("on")]
    links = {value for _, name, value in found.attributes if name in ("href", "src", "action")}
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in links)
    styles = " ".join(value for _, name, value in found.attributes if name == "style")
    assert "expression" not in styles
    assert "display" not in styles


@pytest.mark.parametrize("form", FORMS)
def test_no_control_character_and_no_mark_of_direction_is_written(hostile, form):
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", written(hostile, form))


def test_a_hostile_log_in_markdown_is_code_or_escaped(hostile):
    text = written(hostile, "md")
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    tags = set(re.findall(r"<[^>]*>", outside))
    assert tags <= {"<details>", "</details>", "<summary>", "</summary>", "<!-- -->"}
    assert not re.search(r"(?<!\\)\]\(|@\w|(?<!<!-- -->)//evil", outside)
    rows = [line for line in text.splitlines() if line.startswith(("| `", "|:"))]
    width = re.findall(r"(?<!\\)\|", rows[0])
    scores = text.split("\n\n")[2].splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in scores} == {len(width)}
    assert len(scores) == 2 + len(HOSTILE)


def test_templates_in_names_are_not_run(hostile):
    for form in ("html", "md", "json"):
        assert "{{ 7 * 7 }} {% raw %} (((7*7))) ((* if *))" in written(hostile, form)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_results_give_the_same_bytes(board, form):
    results = er.mean(er.datasets.passages(n_passages=30, seed=3)) if form == "html" else board
    assert results.report(format=form) == written(results, form)


def test_the_document_in_the_page_is_that_of_to_json_and_can_be_read(board):
    document = document_of(written(board))
    assert document == json.loads(written(board, "json"))
    assert document == json.loads(board.to_json())
    stored = er.read_results(written(board, "json"))
    pd.testing.assert_series_equal(stored.params, board.params)


def test_numbers_of_the_page_are_those_of_the_leaderboard(board):
    table, page = board.leaderboard(), Reader(written(board))
    cells = page.texts["td"]
    first = table.iloc[0]
    assert cells[0] == "1"
    assert cells[2] == f"{first['estimate']:.4f}"
    assert cells[3] == f"{first['lower']:.4f} to {first['upper']:.4f}"
    assert cells[4] == f"{first['joint_lower']:.4f} to {first['joint_upper']:.4f}"


def test_without_matplotlib_the_tables_say_it_and_what_is_missing(board, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = board.report()
    assert "matplotlib is not installed" in page
    assert "<svg" not in page
    assert "Differences of all pairs" in page


def test_only_html_shows_figures_and_waits_for_them(ladder, monkeypatch):
    two = ladder[ladder["model"].isin(["m0", "m1"])]

    def drawn(*arguments, **options):
        pytest.fail("a figure was drawn")

    monkeypatch.setattr(reporting, "as_image", drawn)
    for results in (er.mean(two, by="model", item="item"), er.compare(two, groups="passage", baseline="m0")):
        for form in ("md", "json"):
            assert results.report(format=form)
        with pytest.raises(pytest.fail.Exception, match="a figure was drawn"):
            results.report()


def test_without_jinja2_the_error_says_what_to_install_before_anything_is_drawn(board, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr(reporting, "as_image", lambda *_, **__: pytest.fail("a figure was drawn"))
    with pytest.raises(NotAvailableError, match=r"evalreg\[report\]"):
        board.report()
    assert board.report(format="json")


@pytest.mark.parametrize(
    "words",
    [
        """judged.csv --winner verdict --labels A=left,B=right,C=tie,D= --where 'prompt != "prompt-001"'""",
        "one=nested.jsonl two=nested.jsonl --roles score=scores.acc,item=id --groups doc.passage",
    ],
)
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_the_command_in_a_report_writes_it_again(tmp_path, monkeypatch, words):
    """Of a table as JSON lines with nested fields, and of one of verdicts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # figures are no numbers
    scores = er.datasets.passages(n_passages=20, seed=1).to_dict("records")
    rows = [{"id": r["question"], "scores": {"acc": r["score"]}, "doc": {"passage": r["passage"]}} for r in scores]
    Path("nested.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    judged = er.datasets.judge_log(n_models=4, n_prompts=40, seed=1).rename(columns={"winner": "verdict"})
    judged.replace({"verdict": {"left": "A", "right": "B", "tie": "C"}}).fillna("D").to_csv("judged.csv", index=False)
    assert main(["report", *shlex.split(words), "-o", "a.html"]) == 0
    page = Path("a.html").read_text(encoding="utf-8")
    command = re.search(r'wrote this report:</p>\n<pre tabindex="0"><code>evalreg (.*?)</code>', page, re.DOTALL)[1]
    Path("a.html").unlink()
    assert main(shlex.split(html.unescape(command))) == 0
    assert Path("a.html").read_text(encoding="utf-8") == page


@pytest.fixture(scope="module")
def ladder():
    """Five models of rising scores on questions in passages."""
    rng = np.random.default_rng(1)
    item, model = np.repeat(np.arange(160), 5), np.tile(np.arange(5), 160)
    chance = 1 / (1 + np.exp(-(rng.normal(size=160)[item] + 0.3 * model)))
    score = (rng.random(800) < chance).astype(float)
    return pd.DataFrame({"model": [f"m{k}" for k in model], "item": item, "passage": item // 4, "score": score})
