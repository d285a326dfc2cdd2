"""Lint, types, docstrings and the examples of the pages: what holds of the project as a whole."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(
    "command", [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)], ids=" ".join
)
def test_linters_and_types_have_nothing_to_say(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def fenced_blocks(page: str) -> Iterator[tuple[str, int, list[str]]]:
    """Language, number of the first line (from 0) and lines of each block between ``` marks."""
    language, first, lines = "", -1, page.splitlines()
    for number, line in enumerate(lines):
        if first < 0 and line.startswith("```"):
            language, first = line[3:].strip(), number + 1
        elif first >= 0 and line.rstrip() == "```":
            yield language, first, lines[first:number]
            first = -1


def as_doctest(page: str) -> str:
    """The examples of a Markdown page as the text of a doctest, each on the line where the page has it.

    Two forms are examples: a block with prompts, and a `python` block right above a `text` block that holds what it
    prints. Other blocks are left out. The namespace is shared over the page.
    """
    out: list[str] = []
    source = page.splitlines()
    program: list[str] = []
    program_first = program_end = 0
    for language, first, lines in fenced_blocks(page):
        if any(line.startswith(">>> ") for line in lines):
            out += [""] * (first - len(out)) + lines + [""]
        elif language == "python":
            program, program_first, program_end = lines, first, first + len(lines) + 1
        elif language == "text" and program and not any(source[program_end : first - 1]):
            # One compound statement, so that all it prints is compared at its end.
            out += [""] * (program_first - len(out)) + [">>> if True:"]
            out += [f"...     {line}".rstrip() for line in program]
            out += [line or "<BLANKLINE>" for line in lines] + [""]
            program = []
    return "\n".join(out).rstrip()


def test_examples_are_read_in_both_forms():
    fence = "`" * 3
    page = f"Prose.\n{fence}python\nprint(1 + 1)\n{fence}\n\n{fence}text\n2\n{fence}\n"
    assert as_doctest(page).splitlines() == ["", "", ">>> if True:", "...     print(1 + 1)", "2"]
    assert as_doctest("No code.") == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_the_pages_print_what_they_say(page, tmp_path, monkeypatch):
    # An example that writes a file leaves the checkout as it was.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    test = doctest.DocTestParser().get_doctest(
        as_doctest(page.read_text(encoding="utf-8")), {}, page.name, str(page), 0
    )
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert not report, "".join(report)


def public_names() -> Iterator[tuple[str, Any, bool]]:
    """Name, object and whether it is a member of a class, for all that evalreg promises."""
    package = importlib.import_module("evalreg")
    promised = {f"evalreg.{name}": getattr(package, name) for name in package.__all__}
    promised["evalreg.errors"] = importlib.import_module("evalreg.errors")
    # Classes that functions return, in their modules.
    for home, name in re.findall(r"^   (\w+\.\w+)\.(\w+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE):
        promised[f"evalreg.{home}.{name}"] = getattr(importlib.import_module(f"evalreg.{home}"), name)
    for name, thing in promised.items():
        if inspect.ismodule(thing):
            for inner in exported(thing):
                yield from with_members(f"{name}.{inner}", getattr(thing, inner))
        elif not name.endswith("__"):  # `__version__` is a string
            yield from with_members(name, thing)


def exported(module: Any) -> list[str]:
    """Names that a module promises: its `__all__`, or the exceptions and warnings defined in it."""
    return list(getattr(module, "__all__", [name for name, thing in vars(module).items() if is_exception(thing)]))


def is_exception(thing: Any) -> bool:
    """Whether an object is a class that can be raised."""
    return inspect.isclass(thing) and issubclass(thing, BaseException)


def with_members(name: str, thing: Any) -> Iterator[tuple[str, Any, bool]]:
    """A public object, followed by the public methods and properties when it is a class, inherited ones among them."""
    yield name, thing, False
    if inspect.isclass(thing):
        homes = [home for home in reversed(thing.__mro__) if home.__module__.startswith("evalreg")]
        for member, value in {name: value for home in homes for name, value in vars(home).items()}.items():
            if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
                yield f"{name}.{member}", getattr(thing, member), True


def waived(thing: Any, is_member: bool) -> set[str]:
    """The numpydoc checks that say nothing about an object of this kind."""
    codes = set()
    # A class shows its methods at work in the example of its own docstring, and an error is met, not called.
    if is_member or is_exception(thing):
        codes.add("EX01")
    # Inherited parameters are documented where they are defined.
    if inspect.isclass(thing) and "__init__" not in vars(thing):
        codes.add("PR01")
    return codes


def test_docstrings_of_public_names_are_whole_and_the_reference_lists_each():
    from numpydoc.docscrape import get_doc_object
    from numpydoc.hooks.validate_docstrings import parse_config
    from numpydoc.validate import validate

    checks = parse_config(ROOT)["checks"]
    listed = set(re.findall(r"[\w.]+", REFERENCE.read_text(encoding="utf-8")))
    problems = []
    for name, thing, is_member in public_names():
        errors = validate(get_doc_object(thing))["errors"]
        problems += [f"{name}: {code} {text}" for code, text in errors if code in checks - waived(thing, is_member)]
        if not is_member and name.removeprefix("evalreg.") not in listed:
            problems.append(f"{name}: docs/reference.md does not list it")
    assert not problems, "\n".join(problems)
