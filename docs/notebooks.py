"""Pages of the guide as Jupyter notebooks: their examples as cells, with the output that the pages show."""

from __future__ import annotations

import doctest
import json
import posixpath
import re
from pathlib import Path
from typing import Any

# Where people who live in notebooks start: one score, and a leaderboard.
PAGES = ("guide/first_score", "guide/leaderboards")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$\n?", re.M | re.S)


def write(source: Path, target: Path) -> None:
    """Write the notebooks beside the pages in HTML."""
    for name in PAGES:
        text = (source / f"{name}.md").read_text(encoding="utf-8")
        path = target / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook(text, name), indent=1) + "\n", encoding="utf-8")


def notebook(page: str, name: str) -> dict[str, Any]:
    """The page in the format of Jupyter, version 4.5."""
    cells: list[dict[str, Any]] = []
    end = 0
    for block in BLOCK.finditer(page):
        cells += words(page[end : block.start()], name)
        end = block.end()
        language, body = block[1], block[2]
        if language == "python":
            cells += code(body)
        elif language == "text" and cells and cells[-1]["cell_type"] == "code" and not cells[-1]["outputs"]:
            cells[-1]["outputs"] = printed(body)
        else:
            cells += words(block[0], name)
    cells += words(page[end:], name)
    for number, one in enumerate(cells):
        one["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def words(text: str, name: str) -> list[dict[str, Any]]:
    """A cell of prose, whose links to other pages lead to them in HTML; none for blank text."""
    if not text.strip():
        return []
    folder = posixpath.dirname(name)

    def page(link: re.Match[str]) -> str:
        target = posixpath.relpath(posixpath.join(folder, link[1]), folder)
        return f"]({target.removesuffix('.md')}.html{link[2] or ''})"

    text = re.sub(r"\]\(([\w./-]+\.md)(#[\w-]+)?\)", page, text.strip())
    return [{"cell_type": "markdown", "metadata": {}, "source": text}]


def code(block: str) -> list[dict[str, Any]]:
    """Cells of code: the block without its prompts, cut where it shows something, which is the output of the cell."""
    cells = [cell("")]
    for example in doctest.DocTestParser().get_examples(block):
        cells[-1]["source"] += example.source
        if example.want:
            cells[-1]["outputs"] = printed(example.want)
            cells.append(cell(""))
    found = [one for one in cells if one["source"]] or [cell(block)]
    for one in found:
        one["source"] = one["source"].rstrip()
    return found


def cell(source: str) -> dict[str, Any]:
    """A cell of code that shows nothing yet."""
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def printed(text: str) -> list[dict[str, Any]]:
    """Output as a cell shows it."""
    return [{"output_type": "stream", "name": "stdout", "text": text}]
