"""Links between the files of the project lead somewhere: the file is there, and so is the heading."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for folder in ("*.md", "docs/**/*.md", "benchmarks/**/*.md", "tests/**/*.md", ".github/**/*.md")
    for path in ROOT.glob(folder)
    if "_build" not in path.parts
)
# Made when the pages are built.
DRAWN, WRITTEN = re.compile(r"figures/\w+\.png"), re.compile(r"command-[a-z-]+|shared-options|term-[\w-]+")
IN_A_WEBSITE = re.compile(r"[a-z][a-z0-9+.-]*:|//")


@cache
def _anchors(path: Path) -> frozenset[str]:
    """The addresses of a page: its headings as GitHub and MyST spell them, and its own names."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ +(.*)$", text, re.M)
    spelt = (re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h)).strip().lower() for h in headings)
    return frozenset([*(h.replace(" ", "-") for h in spelt), *re.findall(r"^\(([\w-]+)\)=$", text, re.M)])


def _links(path: Path) -> list[str]:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not IN_A_WEBSITE.match(link)]


def problems(path: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in _links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists():
            found += [] if DRAWN.fullmatch(name) else [link]
        elif anchor and target.suffix == ".md" and anchor not in _anchors(target) and not WRITTEN.fullmatch(anchor):
            found.append(link)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(path):
    assert problems(path) == []


def test_a_link_to_nothing_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A word, and (more)\n\n[a](#a-word-and-more) [b](#none) [c](gone.md) [d](https://x.y) `[e](f)`\n")
    assert problems(page) == ["#none", "gone.md"]
