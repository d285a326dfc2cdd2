"""The options of every command as a page of Markdown, read from the parsers themselves."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

from evalreg.cli.main import COMMANDS, build_parser

# Blocks of code fit a page of 390 pixels when their lines are no longer.
WIDTH = 64
TABLE, MARKER = "<!-- table of commands -->", "<!-- commands -->"


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command by its name."""
    whole = build_parser()
    chosen = next(action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    return {name: chosen.choices[name] for name in COMMANDS}


def page(text: str) -> str:
    """The page with a section for each command, and one for what they share, in place of the markers."""
    found = parsers()
    shared = shared_options(found)
    sections = [line for name, parser in found.items() for line in section(name, parser, shared)]
    common = ("(shared-options)=", "## Shared options", "", "These mean the same in every command that has them.", "")
    entries = (line for words, meaning in shared for line in entry(words, meaning))
    table = (
        "| command | what it is for |",
        "|---|---|",
        *(f"| [`{n}`](#{anchor(n)}) | {plain(COMMANDS[n])} |" for n in found),
    )
    return text.replace(TABLE, "\n".join(table)).replace(MARKER, "\n".join([*sections, *common, *entries]))


def anchor(name: str) -> str:
    """Where the section of a command begins, whatever else is on the page."""
    return f"command-{name.replace(' ', '-')}"


def shared_options(found: dict[str, argparse.ArgumentParser]) -> list[tuple[str, str]]:
    """Options that five commands or more have in the same words, in the order of their first appearance."""
    times = Counter((called(action), described(action)) for parser in found.values() for action in actions_of(parser))
    return [key for key, n in times.items() if n >= 5]


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Arguments and options but --help."""
    return [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]


def section(name: str, parser: argparse.ArgumentParser, shared: list[tuple[str, str]]) -> Iterator[str]:
    """What a command does, how it is called, its own options, the names of the others, its closing words."""
    yield from (f"({anchor(name)})=", f"## {name}", "", plain(parser.description or ""), "")
    yield from ("```text", usage(parser), "```", "")
    options = [(called(action), described(action)) for action in actions_of(parser)]
    for words, meaning in options:
        if (words, meaning) not in shared:
            yield from entry(words, meaning)
    others = [words for words, meaning in options if (words, meaning) in shared]
    if others:
        yield from (f"[Shared](#shared-options): {', '.join(others)}.", "")
    yield from closing(parser.epilog or "")


def entry(words: str, meaning: str) -> tuple[str, ...]:
    """An option and what it does, as a term and its definition."""
    return words, f": {plain(meaning)}", ""


def usage(parser: argparse.ArgumentParser) -> str:
    """The usage, as `--help` has it in a narrow window."""
    with patch.dict(os.environ, {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}):
        head, *lines = parser.format_usage().rstrip().splitlines()
    return "\n".join([head.removeprefix("usage: "), *("    " + line.strip() for line in lines)])


def called(action: argparse.Action) -> str:
    """An option with its argument, or the name of an argument, as code."""
    metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    value = f" {metavar}" if action.nargs != 0 and metavar else ""
    return ", ".join(f"`{word}{value}`" for word in action.option_strings) or f"`{metavar or action.dest}`"


def described(action: argparse.Action) -> str:
    """The help of an option with its default filled in."""
    return " ".join(((action.help or "") % {**vars(action), "prog": "evalreg"}).split())


def plain(words: str) -> str:
    """Text in which Markdown sees no markup but the code between backticks."""
    parts = re.split(r"(`[^`]+`)", words)
    # What looks like an option or is quoted stays one word.
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>|$\[\]#])", r"\\\1", part) for part in parts)


def closing(words: str) -> Iterator[str]:
    """Paragraphs as text, indented lines as code."""
    for block in re.split(r"\n\s*\n", words.strip("\n")):
        lines = block.splitlines()
        if lines and all(line.startswith("  ") for line in lines):
            yield from ("```sh", *(line.removeprefix("  ") for line in lines), "```", "")
        else:
            yield from (*(plain(line) for line in lines), "")
