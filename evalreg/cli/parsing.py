"""What the command line is made of: a parser, commands and what they print. It loads no data frames."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from evalreg.errors import ArgumentError


@dataclass(frozen=True)
class Output:
    """What a command prints, and the status that it leaves with."""

    text: str  # for standard output or the file of ``--output``
    status: int = 0  # 0, the default, when results were printed; a gate has more to say
    messages: tuple[str, ...] = ()  # lines for standard error, of what a table in this format does not hold


class Command(Protocol):
    """What the file of a command holds."""

    EPILOG: str

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Describe the command and add its options."""

    def run(self, options: argparse.Namespace) -> str | Output:
        """What the command prints, with a status where that is not 0."""


def offering(action: argparse.Action, values: Iterable[str]) -> None:
    """Say which values a shell may offer for an option that takes others too, or checks them where it uses them."""
    vars(action)["offered"] = tuple(values)


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are errors like any other."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving with status 2."""
        commands = [
            own for action in self._actions if isinstance(action.choices, dict) for own in action.choices.values()
        ]
        known = {name for own in commands for name in own._option_string_actions}
        # What a command left over is told by the parser of all, which has that one only.
        asked = commands[0].prog if len(commands) == 1 else self.prog
        hint = _hint(message, known)
        if asked.endswith("plan precision") and re.match("unrecognized arguments: [^-]", message):
            hint = " It plans from numbers and reads no file: of a pilot, evalreg mean prints the rate and the deff."
        raise ArgumentError(f"{message}.{hint} See: {asked} --help")


def _hint(message: str, known: set[str]) -> str:
    """What the first unknown option is called here, as a sentence after a space; empty where that is not `known`."""
    from evalreg.hints import KEYWORDS  # which loads numpy, that a command line in order does not need

    found = re.match("unrecognized arguments: --([a-z_-]+)", message)
    ours = KEYWORDS.get(found[1].replace("-", "_"), ()) if found else ()
    name = f"--{ours[0].replace('_', '-')}" if len(ours) == 1 else ""
    return f" It is called {name} here." if name in known else ""
