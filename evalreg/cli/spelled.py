"""Sentences in the words of the command line: an option for a keyword of Python, a command for a function."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterable
from functools import partial

# What is no keyword of Python: the parts of the command itself, and the kind of rows that it found.
_OWN = {"command", "file", "format", "kind", "of_data", "output", "run", "words"}
# What corrects the best model, by the kind of rows, where the command itself has no such option.
_BEST = {
    "pairs": "--best of evalreg leaderboard",
    "models": "--best of evalreg mean",
    "scores": "--best of evalreg mean",
}
# The command of a function of Python.
_COMMANDS = {name: name for name in ("mean", "compare", "fit", "ratio", "noise", "components", "table")}
_COMMANDS |= {"win_rate": "leaderboard", "bradley_terry": "leaderboard"}
# The command that has an option, for those that lack it.
_ELSEWHERE = {
    **dict.fromkeys(("by", "item", "sample", "questions", "strata", "strata_weights", "population"), "mean"),
    **dict.fromkeys(("weights", "groups", "where", "cov", "dof", "repair"), "mean"),
    **dict.fromkeys(("adjust", "baseline", "icc", "model"), "compare"),
    **dict.fromkeys(("alike", "key", "labels", "opponents"), "leaderboard"),
    "formula": "fit",
    "statistic": "randomise",
    "tasks": "evals",
    "facets": "components",
    "delta": "plan separate",
}
# Commands that read comparisons of two models; of these no command of scores has an option.
_OF_PAIRS = {"leaderboard", "plan separate"}
# What an option is called here, where that is not the keyword with hyphens.
_CALLED = {"format": "log_format", "subset": "where", "n_population": "population"}
_CALLED |= {"judge": "judge_axis", "standard_error": "design"}
# Methods and attributes of results that no command has.
_METHODS = "t_test|wild_test|pairwise|average|agreement|position|boards|effects|min_shared|conf_int|avg_comparisons"
_METHODS += "|omega2"
_ONLY_PYTHON = re.compile(rf"(`?(?:results\.)?\b(?:{_METHODS})\b(?:\([^()]*\)`?|`))(?! in Python)")
# What a text quotes: a line of code above a caret, and what stands in quotes and is no value of a keyword.
_QUOTED = re.compile(
    r"^ {4}.*$|(?P<value>=(?:\"[^\"]*\"|'[^']*'|\{[^{}]*\}))|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'[^'\n]*'(?!\w)",
    re.MULTILINE,
)
# What was typed and reads like a keyword or a function of Python.
_LIKE_PYTHON = re.compile(r"\w=.|`\w+`|\ber\.\w|\w\(")
# Letters of private use, each of which stands for a part that is quoted.
_FIRST = 0xF0000


def spelled(text: str, options: argparse.Namespace, *, numbers: bool = False) -> str:
    """A sentence that names options and commands as they are typed; of what no command has it says so.

    `options.kind`, where the command knows it, is what its rows are: "pairs" of models, "models" on questions whose
    differences `evalreg compare` takes, or other "scores". What was typed (`options.words`), labels of the data
    (`options.of_data`), quoted names and lines of code stay as they are. `numbers`: whether values without quotes are
    options too, as errors advise them; in a note ``alpha=0.5`` is part of the name of a model.
    """
    text, held = _without_quoted(text, (*getattr(options, "words", ()), *getattr(options, "of_data", ())))
    text = _in_words(text, options, numbers)
    for i, part in reversed(list(enumerate(held))):  # a line of code may hold what was typed
        text = text.replace(chr(_FIRST + i), part)
    return text


def like_python(labels: Iterable[str]) -> list[str]:
    """Those of some labels that a sentence must not take for keywords or functions of Python."""
    return [label for label in labels if _LIKE_PYTHON.search(label)]


def _without_quoted(text: str, words: Iterable[str]) -> tuple[str, list[str]]:
    """The text with a letter for each part that is quoted, and these parts."""
    held: list[str] = []

    def letter(part: str) -> str:
        held.append(part)
        return chr(_FIRST + len(held) - 1)

    # Of an option and its value in one word, the value is what a message quotes.
    typed = {part for word in words for part in (word, word.partition("=")[2] if word[:1] == "-" else "")}
    for part in sorted(like_python(typed), key=len, reverse=True):
        if part in text:
            text = text.replace(part, letter(part))
    return _QUOTED.sub(lambda found: found[0] if found["value"] else letter(found[0]), text), held


def _in_words(text: str, options: argparse.Namespace, numbers: bool) -> str:
    """The text in the words of the command line, but for what it quotes."""
    names, command = set(vars(options)) - _OWN, getattr(options, "command", "")
    kind = getattr(options, "kind", "pairs" if command == "leaderboard" else "")
    text = text.replace(
        "`winner()`", "--best" if "best" in names else _BEST.get(kind, "--best of evalreg mean and leaderboard")
    )
    text = text.replace("`icc` in `compare`", "`icc`").replace("`to_frame` has", "the table has")
    text = text.replace(", or pass model=None for its own components", "")  # which no plan is of
    text = re.sub(r"\bresults\.with_cov\(([^()]*)\)", r"\1", text)
    text = re.sub(r"\b(Leave it out), or pass \w+=None\b", r"\1", text)
    if "wild" in names:
        text = text.replace("`wild_test`", "--wild")
    elif kind == "models":
        text = text.replace("`wild_test` checks a result", "--wild of evalreg compare checks differences")
    # Every other part is a call of a method, whose arguments are no options.
    parts = _ONLY_PYTHON.split(text)
    spelt = partial(_with_options, names=names, kind=kind, numbers=numbers)
    return "".join(f"{part} in Python" if i % 2 else spelt(part) for i, part in enumerate(parts))


def _with_options(text: str, names: set[str], kind: str, numbers: bool) -> str:
    """The text with options where it has keywords, and commands where it has functions."""

    def option(found: re.Match[str], value: str = "") -> str | None:
        name = found[1] if found[1] in names else _CALLED.get(found[1], found[1])
        typed = f"--{name.replace('_', '-')}{value and f' {value}'}"
        if name in names:
            return typed
        if name not in _ELSEWHERE:
            return None
        # No command of scores takes comparisons.
        takes = kind != "pairs" or _ELSEWHERE[name] in _OF_PAIRS
        return f"{typed} of evalreg {_ELSEWHERE[name]}" if takes else f"{found[0]} in Python"

    def valued(found: re.Match[str]) -> str:
        return option(found, _word(found[3])) or found[0]

    def several(found: re.Match[str]) -> str:
        return option(found, _word(_pairs(found[2]))) or found[0]

    def counted(found: re.Match[str]) -> str:
        return option(found, found[2]) or found[0] if found[1] in names else found[0]

    def left_out(found: re.Match[str]) -> str:
        return f"no {option(found)}" if found[1] in names else found[0]

    def named(found: re.Match[str]) -> str:
        return option(found) or (f"evalreg {_COMMANDS[found[1]]}" if found[1] in _COMMANDS else found[0])

    text = re.sub(r"`?\b(\w+)=(\{[^{}]*\}|\(\w+(?:, \w+)*\))`?(?! in Python)", several, text)
    text = re.sub(r"(?>`?\ber\.(\w+)\b(\([^()]*\))?`?)(?! in Python)", _function, text)
    # An argument of a function that only Python has is no option.
    text = re.sub(r"`?\b(\w+)=([\"'])((?:(?!\2).)*)\2`?(?! in Python|[^()]*\)`? in Python)", valued, text)
    if numbers:
        # A folder such as seed=05/ is no option.
        text = re.sub(r"`?\b(\w+)=(-?\d[\d.]*\d|\d)\b`?(?![\d.]*/| in Python)", counted, text)
        text = re.sub(r"`?\b(\w+)=None\b`?(?! in Python)", left_out, text)
    text = re.sub(r"`paths?`", "FILE", text)
    text = re.sub(r"(?<!column )`(\w+)`(?! in Python)", named, text)
    return re.sub(r"\b(evalreg [a-z]+) and \1\b", r"\1", text)


def _word(value: str) -> str:
    """A value as one word of a shell."""
    if re.fullmatch(r"[\w.,:=-]+", value):
        return value
    return shlex.quote(value) if set(value) & set('"$`\\!') else f'"{value}"'


def _pairs(literal: str) -> str:
    """A mapping as options take it, ``a=1,b=2`` with nothing for None; or names, ``a,b``."""
    try:
        value: dict[object, object] = ast.literal_eval(literal)
        parts = [f"{key}={'' if held is None else held}" for key, held in value.items()]
    except (ValueError, SyntaxError):
        return re.sub(r'[{}()" ]', "", literal).replace(":", "=")
    return ",".join('"' + part.replace('"', '""') + '"' if set(part) & set(',"') else part for part in parts)


def _function(found: re.Match[str]) -> str:
    """The command of a function, or the function as one of Python."""
    return f"evalreg {_COMMANDS[found[1]]}" if found[1] in _COMMANDS else f"{found[0]} in Python"
