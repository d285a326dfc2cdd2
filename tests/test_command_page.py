"""The page of the command line is made of the parsers: each command and each option is on it, in lines that fit."""

from __future__ import annotations

import argparse
import importlib.util
import re
from pathlib import Path

import pytest

from evalreg.cli.main import COMMANDS, build_parser

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def commands():
    spec = importlib.util.spec_from_file_location("commands", DOCS / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(commands):
    return commands.page((DOCS / "command_line.md").read_text(encoding="utf-8"))


def _section(page: str, name: str) -> str:
    return page.split(f"\n## {name}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_section_and_explained_once(page, name):
    chosen = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    own, shared = _section(page, name), _section(page, "Shared options")
    for action in chosen.choices[name]._actions:
        for word in action.option_strings:
            if word in ("-h", "--help"):
                continue
            assert re.search(rf"`{word}[` ]", own), word
            defined = [bool(re.search(rf"^`[^:]*{word}[` ].*\n: \S", part, re.M)) for part in (own, shared)]
            assert any(defined), word


def test_shared_options_have_one_meaning_each(page):
    terms = re.findall(r"^(`.*)\n: ", _section(page, "Shared options"), re.M)
    assert len(terms) == len(set(terms)) > 15


def test_usage_and_examples_fit_a_page(page):
    blocks = re.findall(r"^```\w+\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) > len(COMMANDS)
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 80


def test_the_table_of_the_page_links_every_command(page):
    table = page.split("## What all commands")[0]
    for name in COMMANDS:
        assert f"[`{name}`](#command-{name.replace(' ', '-')})" in table


def test_markup_in_help_stays_text(commands):
    assert commands.plain("a_b < c | [d] `x_y`") == r"a\_b \< c \| \[d\] `x_y`"
