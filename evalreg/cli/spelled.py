"""Sentences in the words of the command line: an option for a keyword of Python, a command for a function."""

from __future__ import annotations

import argparse
import re

# What is no keyword of Python: the parts of the command itself.
_OWN = {"command", "file", "format", "output", "run", "words"}
# What corrects the best model, by command; elsewhere the command that has the option is named.
_BEST = {"mean": "--best", "leaderboard": "--best"}
# The command of a function of Python.
_COMMANDS = {name: name for name in ("mean", "compare", "fit", "ratio", "noise", "components", "table")}
_COMMANDS |= {"win_rate": "leaderboard", "bradley_terry": "leaderboard"}
# The command that has an option, for those that lack it.
_ELSEWHERE = {
    **dict.fromkeys(("by", "item", "sample", "questions", "strata", "strata_weights", "population"), "mean"),
    **dict.fromkeys(("weights", "groups", "where", "cov", "dof", "repair"), "mean"),
    **dict.fromkeys(("adjust", "baseline", "icc", "model"), "compare"),
    **dict.fromkeys(("alike", "key", "labels"), "leaderboard"),
    "formula": "fit",
    "statistic": "randomise",
    "tasks": "evals",
    "facets": "components",
}
# Commands of scores of models on questions, whose differences `compare --wild` tests.
_OF_SCORES = {"mean", "noise", "evals", "table", "report", "plan"}
# What an option is called here, where that is not the keyword with hyphens.
_CALLED = {"format": "log_format", "subset": "where", "n_population": "population"}
# Methods and attributes of results that no command has.
_METHODS = "t_test|wild_test|pairwise|average|agreement|position|boards|effects|min_shared|conf_int|avg_comparisons"
_ONLY_PYTHON = re.compile(rf"(`?(?:results\.)?\b(?:{_METHODS})\b(?:\([^()]*\)`?|`))(?! in Python)")


def spelled(text: str, options: argparse.Namespace) -> str:
    """A sentence that names options and commands as they are typed; of what no command has it says so."""
    names, command = set(vars(options)) - _OWN, getattr(options, "command", "")
    text = text.replace("`winner()`", _BEST.get(command, "--best of evalreg mean and leaderboard"))
    text = text.replace("`icc` in `compare`", "`icc`").replace("`to_frame` has", "the table has")
    if "wild" in names or command in _OF_SCORES:
        text = text.replace("`wild_test`", "--wild" if "wild" in names else "--wild of evalreg compare")
    # Every other part is a call of a method, whose arguments are no options.
    parts = _ONLY_PYTHON.split(text)
    return "".join(f"{part} in Python" if i % 2 else _with_options(part, names) for i, part in enumerate(parts))


def _with_options(text: str, names: set[str]) -> str:
    """The text with options where it has keywords, and commands where it has functions."""

    def option(name: str, value: str = "") -> str | None:
        name = _CALLED.get(name, name)
        if name not in names and name not in _ELSEWHERE:
            return None
        typed = f"--{name.replace('_', '-')}{value and f' {value}'}"
        return typed if name in names else f"{typed} of evalreg {_ELSEWHERE[name]}"

    def valued(found: re.Match[str]) -> str:
        value = found[2] if re.fullmatch(r"[\w.-]+", found[2]) else f'"{found[2]}"'
        return option(found[1], value) or found[0]

    def sizes(found: re.Match[str]) -> str:
        return option("population", re.sub(r'[{}" ]', "", found[1]).replace(":", "=")) or found[0]

    def named(found: re.Match[str]) -> str:
        return option(found[1]) or (f"evalreg {_COMMANDS[found[1]]}" if found[1] in _COMMANDS else found[0])

    text = re.sub(r"n_population=(\{[^{}]*\})", sizes, text)
    text = re.sub(r"(?>`?\ber\.(\w+)\b(\([^()]*\))?`?)(?! in Python)", _function, text)
    text = re.sub(r'`?\b(\w+)="([^"]*)"`?', valued, text)
    text = re.sub(r"(?<!column )`(\w+)`", named, text)
    return re.sub(r"\b(evalreg [a-z]+) and \1\b", r"\1", text)


def _function(found: re.Match[str]) -> str:
    """The command of a function, or the function as one of Python."""
    return f"evalreg {_COMMANDS[found[1]]}" if found[1] in _COMMANDS else f"{found[0]} in Python"
