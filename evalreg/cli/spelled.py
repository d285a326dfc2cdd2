"""Sentences in the words of the command line: an option where Python has a keyword."""

from __future__ import annotations

import argparse
import re

# What is no keyword of Python: the parts of the command itself.
_OWN = {"command", "file", "format", "output", "run", "words"}
# What corrects the best model, by command; elsewhere the command that has the option is named.
_BEST = {"mean": "--best", "leaderboard": "--best"}


def spelled(text: str, options: argparse.Namespace) -> str:
    """A sentence that names options as they are typed; what the command has no option for stays as it is."""
    names = set(vars(options)) - _OWN
    command = getattr(options, "command", "")
    if "`winner()`" in text:
        text = text.replace("`winner()`", _BEST.get(command, "--best of evalreg mean and leaderboard"))
    text = text.replace("`icc` in `compare`", "`icc`" if "icc" in names else "--icc of evalreg compare")
    if "wild" in names:
        text = text.replace("`wild_test`", "`wild`")

    def option(name: str) -> str:
        return f"--{name.replace('_', '-')}"

    def valued(found: re.Match[str]) -> str:
        if found[1] not in names:
            return found[0]
        value = found[2] if re.fullmatch(r"[\w.-]+", found[2]) else f'"{found[2]}"'
        return f"{option(found[1])} {value}"

    text = re.sub(r'`?\b(\w+)="([^"]*)"`?', valued, text)
    return re.sub(r"`(\w+)`", lambda found: option(found[1]) if found[1] in names else found[0], text)
