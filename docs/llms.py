"""An index of the pages for programs that read: llms.txt, and the pages as Markdown beside those in HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

HEAD = """\
# evalreg

> Error bars for language-model evals whose rows are not independent: means, paired differences, regressions and
> leaderboards, with clustered covariances, in Python and on the command line. Names are those of statsmodels.

Each page is listed with its first words. Examples of the guide are run as tests.
"""


def write(
    source: Path,
    target: Path,
    chapters: Mapping[str, list[str]],
    titles: Mapping[str, str],
    rewrite: Callable[[str, str], str],
) -> None:
    """Write llms.txt into `target`, and each page that it lists as Markdown."""
    lines = [HEAD]
    for chapter, names in chapters.items():
        lines += [f"## {chapter}", ""]
        for name in names:
            text = rewrite(name, (source / f"{name}.md").read_text(encoding="utf-8"))
            page = target / f"{name}.md"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(re.sub(r"!\[([^]]*)\]\([^)]*\)", r"*Figure: \1.*", text), encoding="utf-8")
            said = opening(text)
            lines.append(f"- [{titles[name]}]({name}.md)" + (f": {said}" if said else ""))
        lines.append("")
    (target / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def opening(page: str) -> str:
    """The first sentence of the first paragraph, without its links."""
    body = re.sub(r"```.*?```", "", page, flags=re.S)
    blocks = (" ".join(block.split()) for block in body.split("\n\n"))
    prose = next((block for block in blocks if block and block[0] not in "#|<(:!-"), "")
    return re.split(r"(?<=[.:?]) ", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose))[0].rstrip(":")
