"""Every command in every format, on logs whose ranks are settled, with one model, with long names."""

from __future__ import annotations

import contextlib
import csv
import functools
import html.parser
import io
import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

LONG = "an-organisation-with-a-long-name/a-model-with-a-long-name-2024-10-22-instruct-fp8-dynamic-{}"
# What is markup somewhere: Markdown, HTML, LaTeX, formulas of a spreadsheet, terminals.
MARKUP = (
    '=HYPERLINK("http://x.test")|a_b *c* <b>&amp;',
    "-2+3\\textbf{d} $x^2$ 50% #1 ~e [y](http://y.test)",
    "@SUM(1)\x1b[2J\tone\ntwo\u202e`code`",
)
NAMES = {"settled": ("best", "middle", "worst"), "long": tuple(LONG.format(i) for i in range(3)), "markup": MARKUP}
ROUND = 60
ANSWERS = 2


def verdicts(names):
    """Three models of which the better one nearly always wins, so that every rank is settled."""
    rng = np.random.default_rng(5)
    rows = []
    for prompt in range(ROUND):
        for i, j in itertools.combinations(range(len(names)), 2):
            wins = rng.random() < 0.93
            left, right = (i, j) if rng.random() < 0.5 else (j, i)
            rows.append((f"p{prompt}", names[left], names[right], "left" if wins == (left == i) else "right"))
    return pd.DataFrame(rows, columns=["prompt", "left", "right", "winner"])


def scores(names):
    """Two answers of every model to every question, of which the better models get more right."""
    rng = np.random.default_rng(6)
    question = np.repeat(np.arange(ROUND), len(names) * ANSWERS)
    which = np.tile(np.repeat(np.arange(len(names)), ANSWERS), ROUND)
    chance = np.repeat(rng.normal(0.8 - 0.3 * np.arange(len(names)), 0.3, (ROUND, len(names))).ravel(), ANSWERS)
    return pd.DataFrame(
        {
            "passage": [f"t{q // 4}" for q in question],
            "question": [f"q{q}" for q in question],
            "model": [names[i] for i in which],
            "sample": np.tile(np.arange(ANSWERS), ROUND * len(names)),
            "score": (rng.random(which.size) < chance).astype(int),
        }
    )


@functools.cache
def written(names):
    """The files of verdicts and of scores as text, simulated once for every command and format."""
    return (verdicts(names).to_csv(index=False) if len(names) > 1 else None), scores(names).to_csv(index=False)


def arguments(command, names, folder):
    """A command on a file of its kind, written there."""
    judged, scored = folder / "judged.csv", folder / "scored.csv"
    for path, text in zip((judged, scored), written(tuple(names)), strict=True):
        if text is not None:
            path.write_text(text, encoding="utf-8", newline="")
    # What is in quotes in a filter or in backticks in a gate.
    formula = "score ~ 1" if len(names) == 1 or names == MARKUP else "score ~ 0 + C(model)"
    two = f"model in [{names[0]!r}, {names[-1]!r}]" if names != MARKUP else f"model != {names[1]!r}"
    gate = f"`{names[0]}` - `{names[min(1, len(names) - 1)]}` > -0.9"
    paired = ("--item", "question", "--sample", "sample", "--groups", "passage")
    board = ("leaderboard", judged, "--winner", "winner", "--groups", "prompt")
    return {
        "fit": ("fit", formula, scored, "--groups", "passage"),
        "mean": ("mean", scored, "--by", "model", *paired),
        "mean with a gate": ("mean", scored, "--by", "model", *paired, "--gate", gate),
        "compare": ("compare", scored, *paired),
        "compare with a baseline": ("compare", scored, *paired, "--baseline", names[0], "--adjust", "holm"),
        "compare with a gate": ("compare", scored, *paired, "--gate", gate),
        "win rate": board,
        "bradley-terry": (*board, "--method", "bradley-terry", "--formula", "1", "--scale", "elo"),
        "plan": ("plan", scored, "--where", two, *paired, "--delta", "0.05", "--k", "1,2"),
    }[command]


class Cells(html.parser.HTMLParser):
    """The texts of an HTML document, and the tags that it uses."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def read_back(text, name):
    """What a reader of that format finds; it must be well formed."""
    if name == "json":
        return json.loads(text, parse_constant=lambda value: pytest.fail(f"{value} is not JSON"))
    if name == "csv":
        rows = list(csv.reader(io.StringIO(text)))
        assert len({len(row) for row in rows}) == 1
        return rows
    if name == "html":
        cells = Cells()
        cells.feed(text)
        return cells
    if name == "latex":
        assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") >= 1
        bare = re.sub(r"\\[&%$#_{}]", "", text)
        assert bare.count("{") == bare.count("}")
        assert not set("%#_") & set(bare)
        assert all("&" not in line or line.endswith(r"\\") for line in bare.splitlines())
    if name == "text":
        assert max(map(len, text.splitlines()[1:])) <= 80
    return text


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Status, output and messages of a command on three models in a format, which several tests look at."""

    @functools.cache
    def run(command, kind, *more):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            folder = tmp_path_factory.mktemp("formats")
            status = main([*map(str, arguments(command, NAMES[kind], folder)), "--format", *more])
        return status, out.getvalue(), err.getvalue()

    return run


# Names with markup


@pytest.fixture
def shown(run):
    """Output and messages of a command on names with markup."""

    def shown(command, name, *more):
        status, *texts = run(command, "markup", name, *more)
        assert status == 0
        return texts

    return shown


@pytest.mark.parametrize("name", ["text", "md", "latex", "html"])
@pytest.mark.parametrize("command", ["mean", "compare", "win rate"])
def test_no_label_steers_a_terminal(command, name, shown):
    for text in shown(command, name):
        assert not set(text) & set("\x1b\t\r\u202e")
    if name == "md":
        assert r"@SUM(1)\\x1b[2J\\tone\\ntwo\\u202e\`code\`" in shown(command, name)[0]


@pytest.mark.parametrize("command", ["mean with a gate", "compare", "win rate"])
def test_html_holds_names_as_text(command, shown):
    out, _ = shown(command, "html")
    found = read_back(out, "html")
    assert "b" not in found.tags
    assert MARKUP[0] in "".join(found.texts)


@pytest.mark.parametrize("command", ["mean with a gate", "compare", "win rate"])
def test_markdown_holds_names_as_text(command, shown):
    out, _ = shown(command, "md")
    tables = [block.splitlines() for block in out.split("\n\n") if block.startswith("| ")]
    for rows in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    text = "\n".join(row for rows in tables for row in rows)
    assert "<b>" not in out
    assert r"a_b \*c\* &lt;b>&amp;amp;" in text
    assert r"\\textbf{d} $x^2$ 50% #1 \~e [y]\(http://y.test)" in text


@pytest.mark.parametrize("command", ["mean with a gate", "compare", "win rate", "plan"])
def test_latex_holds_names_as_text(command, shown):
    out = read_back(shown(command, "latex")[0], "latex")
    assert command == "plan" or r"textbf\{d\} \$x\textasciicircum{}2\$ 50\% \#1 \textasciitilde{}e" in out
    for table in re.findall(r"\\begin{tabular}.*?\\end{tabular}", out, flags=re.S):
        body = [line for line in table.splitlines() if line.endswith("\\\\")]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in body if "toprule" not in line}) == 1


@pytest.mark.parametrize("command", ["mean", "compare", "win rate"])
def test_csv_holds_names_to_the_letter_or_safe_for_a_spreadsheet(command, shown):
    exact = read_back(shown(command, "csv")[0], "csv")
    safe = read_back(shown(command, "csv", "--spreadsheet")[0], "csv")
    assert {name for row in exact for name in row if name in MARKUP} == set(MARKUP)
    assert safe == [[f"'{cell}" if cell in MARKUP else cell for cell in row] for row in exact]
    assert command != "compare" or any(re.fullmatch(r"-[0-9.e-]+", cell) for row in safe for cell in row)


def test_whatever_has_a_summary_has_it_in_every_format():
    log = er.datasets.paired(n_passages=12, seed=1)
    comparison = er.compare(log, item="question", groups="passage")
    verdicts = er.datasets.judge_log(n_models=3, n_prompts=20, seed=1)
    board = er.win_rate(verdicts, left="left", right="right", winner="winner", groups="prompt")
    several = er.join_evals({"one": comparison})
    for results in (er.fit("score ~ 1", log, groups="passage"), board, comparison, several):
        summary = results.summary(0.1)
        latex = results.to_latex(0.1, caption="A caption", label="tab:one")
        assert latex.count("tabular}") == 2
        assert all(mark in latex for mark in (r"\toprule", r"\caption{A caption}", r"\label{tab:one}"))
        assert results._repr_html_() == results.summary().as_html() != summary.as_html()
