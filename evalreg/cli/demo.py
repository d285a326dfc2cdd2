"""``evalreg demo``: the package at work on simulated data."""

from __future__ import annotations

import argparse
from pathlib import Path

from evalreg.cli import demonstration as demo

EPILOG = ""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "An error bar, A against B and a leaderboard, of logs whose truth is known."
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the simulation (default: 0)")
    parser.add_argument("--write", metavar="DIR", help="write the logs there as CSV instead, to try commands on")


def run(options: argparse.Namespace) -> str:
    """What ``evalreg demo`` prints."""
    return demo.text(options.seed) if options.write is None else demo.write(Path(options.write), options.seed)
