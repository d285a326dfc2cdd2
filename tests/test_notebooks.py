"""The notebooks made of pages: run cell by cell, they show what the pages show."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def _module():
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = _module()


def _shown(source: str, names: dict) -> str:
    """What a cell prints, and the value of an expression at its end, as Jupyter shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                print(repr(value))
    return out.getvalue()


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_each_cell_shows_what_it_holds_when_it_is_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebooks.write(DOCS, tmp_path)
    book = json.loads((tmp_path / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    names: dict = {}
    checked = 0
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            shown = _shown(cell["source"], names)
            if cell["outputs"]:
                held = cell["outputs"][0]["text"].replace("<BLANKLINE>", "")
                assert shown.split() == held.split()
                checked += 1
    assert checked >= 8


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_links_lead_to_pages_in_html(name):
    book = notebooks.notebook((DOCS / f"{name}.md").read_text(encoding="utf-8"), name)
    text = "\n".join(cell["source"] for cell in book["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#:]+)[)#]", text)
    assert links
    assert not [link for link in links if link.endswith(".md")]
    for link in links:
        assert (DOCS / name).parent.joinpath(link).resolve().with_suffix(".md").exists()
