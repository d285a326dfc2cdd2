"""What the command line is made of: a parser, commands and what they print. It loads no data frames."""

from __future__ import annotations

import argparse
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


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are errors like any other."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving with status 2."""
        raise ArgumentError(f"{message}. See: {self.prog} --help")
