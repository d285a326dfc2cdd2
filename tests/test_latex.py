"""Tables, sentences and methods in LaTeX compile, where there is a LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess

import pandas as pd
import pytest

import evalreg as er
from evalreg.results.sources import all_sources

pytestmark = [
    pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning"),
    pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX here"),
]

HOSTILE = {"new": r"a_1 & 50% #2 {x} ^~ \end{tabular} $y | <b>", "old": "[b] *2* \\\\"}


def _paired():
    return er.datasets.paired(n_passages=20, seed=1).replace({"model": HOSTILE})


def _board():
    log = er.datasets.judge_log(n_models=4, n_prompts=40, seed=3)
    return er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")


def _several():
    third = _paired().query("model == @first").assign(model="third")
    return pd.concat([_paired(), third.eval("score = 1 - score")])


first = HOSTILE["new"]
BODIES = {
    "means": lambda: er.mean(_paired(), by="model", item="question", groups="passage").to_latex(),
    "regression": lambda: er.fit("score ~ model", _paired(), groups="passage").to_latex(),
    "comparison": lambda: er.compare(_several(), item="question", groups="passage", adjust="holm").to_latex(),
    "side by side": lambda: er.table(
        {"one_1 & 2": er.fit("score ~ 1", _paired(), groups="passage"), "CR1": er.fit("score ~ model", _paired())}
    ).to_latex(),
    "board": lambda: _board().to_latex(),
    "winner": lambda: _board().winner().summary().as_latex(),
    "sentences": lambda: er.mean(_paired(), by="model", item="question").sentence(markup="latex"),
    "methods": lambda: _board().methods(markup="latex"),
}


def test_what_is_written_as_latex_compiles(tmp_path):
    head = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    # One run of LaTeX for all; its log names the line of a page that it refuses.
    text = head + "\n\\clearpage\n".join(make() for make in BODIES.values()) + "\n\\end{document}\n"
    (tmp_path / "page.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-1500:]
    assert "Missing character" not in log
    pages = re.search(r"Output written on page.pdf \((\d+) pages", log)
    assert pages is not None
    assert int(pages[1]) >= len(BODIES)


@pytest.mark.skipif(shutil.which("bibtex") is None, reason="there is no BibTeX here")
def test_the_bibliography_is_read_by_bibtex(tmp_path):
    (tmp_path / "methods.bib").write_text("\n".join(paper.entry for paper in all_sources().values()), encoding="utf-8")
    cited = "".join(f"\\citation{{{source.key}}}\n" for source in all_sources().values())
    (tmp_path / "page.aux").write_text(f"{cited}\\bibstyle{{plain}}\n\\bibdata{{methods}}\n", encoding="utf-8")
    done = subprocess.run(["bibtex", "page"], cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout.decode()
    assert b"Warning" not in done.stdout
    made = (tmp_path / "page.bbl").read_text(encoding="utf-8")
    for source in all_sources().values():
        assert f"\\bibitem{{{source.key}}}" in made
