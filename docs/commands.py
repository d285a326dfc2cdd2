"""The options of every command as a page of Markdown, read from the table of commands itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evalreg.cli.commands import COMMANDS, Command, common_options
from evalreg.cli.options import Option

TABLE, MARKER = "<!-- table of commands -->", "<!-- commands -->"


def page(text: str) -> str:
    """The page with a section for each command, and one for what they share, in place of the markers."""
    table = ["| command | what it is for |", "|---|---|"]
    table += [f"| [`{command.name}`](#{anchor(command.name)}) | {plain(command.purpose)} |" for command in COMMANDS]
    sections = [line for command in COMMANDS for line in section(command)]
    shared = ["(shared-options)=", "## Shared options", "", "These mean the same in every command that has them.", ""]
    shared += [line for option in common_options(COMMANDS[1]) for line in entry(option)]
    return text.replace(TABLE, "\n".join(table)).replace(MARKER, "\n".join([*sections, *shared]))


def anchor(name: str) -> str:
    """Where the section of a command begins, whatever else is on the page."""
    return f"command-{name.replace(' ', '-')}"


def section(command: Command) -> Iterator[str]:
    """What a command does, its own options, its examples."""
    yield from (f"({anchor(command.name)})=", f"## {command.name}", "", f"{plain(command.purpose).capitalize()}.", "")
    if command.examples:
        yield from ("```sh", *(line.removeprefix("  ") for line in command.examples.splitlines()), "```", "")
    options = {option.name: option for option in reversed([*command.options()])}
    for option in command.options():
        if options.pop(option.name, None) is not None:
            yield from entry(option)


def entry(option: Option) -> tuple[str, ...]:
    """An option and what it does, as a term and its definition."""
    choices = f"{', '.join(option.choices)}. " if option.choices else ""
    value = "" if option.annotation == "bool" else " X"
    return f"`{option.flag}{value}`", f": {plain(choices + option.help)}", ""


def plain(words: str) -> str:
    """Text in which Markdown sees no markup but the code between backticks."""
    parts = re.split(r"(`[^`]+`)", words)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>|$\[\]#])", r"\\\1", part) for part in parts)
