"""The page of the command line is made of the table of commands: each of their options is on it."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

from evalreg.cli.commands import COMMANDS
from evalreg.cli.main import build_parser

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_every_command_and_option_is_on_the_page():
    spec = importlib.util.spec_from_file_location("commands", DOCS / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.page((DOCS / "command_line.md").read_text(encoding="utf-8"))
    for command in COMMANDS:
        assert f"[`{command.name}`](#{module.anchor(command.name)})" in page
        section = page.split(f"\n## {command.name}\n")[1].split("\n## ")[0]
        for option in command.options():
            assert re.search(rf"^`{option.flag}[` ].*\n: \S", section, re.M), (command.name, option.flag)
    blocks = "".join(re.findall(r"^```\w+\n(.*?)^```", page, re.M | re.S))
    assert max(map(len, blocks.splitlines())) <= 100
    assert module.plain("a_b < c | [d] `x_y`") == r"a\_b \< c \| \[d\] `x_y`"


def test_the_commands_in_the_pages_are_such_as_the_parser_takes():
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md")))
    shell = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S))
    lines = re.findall(r"^(?:\.venv/bin/)?evalreg (.*)", shell, re.M) + re.findall(r"`evalreg ([a-z]+ [^`]*)`", text)
    for words in (shlex.split(line, comments=True) for line in lines):
        assert build_parser(words).parse_args(words).command == words[0]
    assert len(lines) > 30
