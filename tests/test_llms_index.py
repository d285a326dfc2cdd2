"""The index for programs that read: each page once, with its first sentence, beside the page itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def llms():
    path = Path(__file__).resolve().parents[1] / "docs" / "llms.py"
    spec = importlib.util.spec_from_file_location("llms", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_index_lists_pages_with_their_first_sentence(llms, tmp_path):
    source, target = tmp_path / "docs", tmp_path / "html"
    (source / "guide").mkdir(parents=True)
    target.mkdir()
    (source / "guide" / "one.md").write_text("# One\n\n![A figure](a.svg)\n\nA [page](two.md) on\nerror bars. More.\n")
    (source / "two.md").write_text("# Two\n\n- a list\n")
    titles = {"guide/one": "One", "two": "Two"}
    llms.write(source, target, {"Guide": ["guide/one"], "Pages": ["two"]}, titles, lambda name, text: text.upper())
    lines = (target / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert "- [One](guide/one.md): A PAGE ON ERROR BARS." in lines
    assert "- [Two](two.md)" in lines
    assert lines.index("## Guide") < lines.index("## Pages")
    assert (target / "guide" / "one.md").read_text(encoding="utf-8").startswith("# ONE")
