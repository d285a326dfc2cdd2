"""``evalreg doctor``: what a log holds, what may be wrong with it, and what to ask of it next."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import replace

from evalreg.cli.logs import (
    add_files,
    add_log_options,
    check_choices,
    choices,
    file_list,
    log_document,
)
from evalreg.cli.shared import check_output
from evalreg.cli.spelled import spelled
from evalreg.errors import ArgumentError
from evalreg.logs.doctor import Diagnosis, diagnose
from evalreg.logs.log import Log
from evalreg.logs.read import read_log
from evalreg.report.documents import SCHEMA_VERSION, as_json, versions

# Options of the commands that it advises, as these have them.
_NEXT = argparse.Namespace(command="mean", **dict.fromkeys(("by", "groups", "item", "labels", "sample", "strata")))
_OF_PAIRS = argparse.Namespace(
    command="leaderboard", kind="pairs", **dict.fromkeys(("by", "groups", "key", "labels", "left", "right", "weights"))
)

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg doctor logs/judge_log.csv
  evalreg doctor logs/passages.csv --format md
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "What a log holds, what may be wrong with it, and commands that make sense next."
    add_files(parser)
    add_log_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=list(FORMATS), default="text", help="what is printed (default: text)")
    output.add_argument("-o", "--output", metavar="FILE", help="write there, in UTF-8, instead of standard output")


def run(options: argparse.Namespace) -> str:
    """What ``evalreg doctor`` prints."""
    check_output(options)
    check_choices(options)
    if "-" in file_list(options):
        raise ArgumentError(
            '`evalreg doctor` reads files; standard input ("-") cannot be read again by what it advises.'
        )
    log = read_log(file_list(options), **choices(options))
    found = diagnose(log, lambda verb, more: _command(verb, more, options, log))
    words = _OF_PAIRS if "left" in log.roles else _NEXT
    texts = (text.replace("None for no verdict", "and nothing for no verdict") for text in found.remarks)
    remarks = tuple(spelled(text, words, numbers=True) for text in texts)
    return FORMATS[options.format](replace(found, remarks=remarks), log)


def _command(verb: str, more: list[str], options: argparse.Namespace, log: Log) -> str:
    """A command on the same files, with the same choices."""
    formula, rest = (more[:1], more[1:]) if verb == "fit" else ([], more)
    made = []
    for name, value in choices(options).items():
        value = options.roles if name == "roles" else value
        made += [f"--{'log-format' if name == 'format' else name}", str(value)]
    if log.format == "table" and options.roles is None and options.log_format is None and "--roles" not in more:
        made += ["--log-format", "table"]
    files = [file if not file.startswith("-") else f"./{file}" for file in file_list(options)]
    return shlex.join(["evalreg", verb, *formula, *files, *made, *rest])


def _as_json(found: Diagnosis, log: Log) -> str:
    document = {
        **found.as_dict(),
        "log": log_document(log, log.notes),
        "kind": "doctor",
        "schema_version": SCHEMA_VERSION,
        "versions": versions(),
    }
    return as_json(document)


FORMATS: dict[str, Callable[[Diagnosis, Log], str]] = {
    "text": lambda found, log: str(found),
    "json": _as_json,
    "md": lambda found, log: found.as_markdown(),
}
