"""The command line: a table and a formula in, estimates with error bars out."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO, cast

from evalreg.cli.parsing import Command, Output, Parser
from evalreg.cli.spelled import spelled
from evalreg.errors import ArgumentError, EvalregError
from evalreg.versions import version_of

__all__ = ["main"]

FINE, BAD_INPUT, INTERNAL_ERROR, INTERRUPTED = 0, 3, 4, 130
# What each says of itself in the list of commands; the rest of it is in the module of its name.
COMMANDS = {
    "fit": "regress scores by a formula",
    "mean": "means of scores, by model",
    "ratio": "ratios of two sums, such as errors per word, by model",
    "compare": "differences between models on the same questions, and gates",
    "evals": "several evals side by side, and their average",
    "table": "several results side by side",
    "components": "how much questions, judges and templates vary",
    "randomise": "the exact test of a treatment assigned at random",
    "noise": "how much of each error bar is answers, how much questions",
    "leaderboard": "ranks of models from a log of comparisons",
    "summarise": "sums of a log, which add up over nights and machines",
    "report": "one file with answer, tables, figures and methods",
    "doctor": "what a log holds, and what may be wrong with it",
    "plan": "from a pilot to a number of questions",
    "plan precision": "rows that the interval of one score needs",
    "plan separate": "prompts and judges until two named models come apart",
    "demo": "see it at work on simulated data",
    "completion": "a script by which your shell completes commands",
}

_EPILOG = """\
Exit status: 0 when results were printed, 3 for bad input or usage, 4 for an
error inside evalreg; a gate adds 1 and 2, see evalreg compare --help. Results
go to standard output, warnings and errors to standard error.

Examples, on simulated data:

  evalreg demo
  evalreg demo --write logs
  evalreg fit "score ~ 1" logs/passages.csv --groups passage
  evalreg mean logs/passages.csv --by subject --groups passage --ranks
  evalreg compare logs/models.csv --item question --groups passage
  evalreg leaderboard logs/judge_log.csv --winner winner --groups prompt
  evalreg report logs/models.csv --item question -o report.html
  evalreg table logs/passages.csv --formula "score ~ 1" \\
      --formula "score ~ subject"
  evalreg components logs/pilot.csv --facets "model x question"
  evalreg doctor logs/judge_log.csv
  evalreg plan logs/pilot.csv --item question --groups passage --delta 0.05
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status of a command: 0 fine, 3 bad input or usage, 4 internal error; a gate adds 1 and 2."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except BrokenPipeError:
        # Whoever reads has seen enough, as `head` does.
        _discard(sys.stdout)
        return FINE
    except OSError as error:  # a full disk, say
        _discard(sys.stdout)
        return _fail(f"reading or writing failed: {error.strerror or error}.")


def _run(arguments: Sequence[str]) -> int:
    """Parse, compute and print; errors become messages and a status."""
    if " ".join(arguments[:2]) in ("plan precision", "plan separate"):
        arguments = [" ".join(arguments[:2]), *arguments[2:]]
    if not arguments:  # a person reads what there is; a script whose words got lost must not pass for a gate that held
        _complain(build_parser(()).format_help())
        return BAD_INPUT
    options = argparse.Namespace(words=list(arguments))
    try:
        build_parser(arguments).parse_args(arguments, options)
        with warnings.catch_warnings():
            # The versions of packages are not the reader's concern; what a result rests on is.
            warnings.simplefilter("always")
            for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
                warnings.simplefilter("ignore", category)
            warnings.showwarning = partial(_show_warning, options)
            output = _as_output(options.run(options))
        _deliver(output.text.rstrip("\n") + "\n", getattr(options, "output", None))
        for line in output.messages:
            _complain(f"{_visible(line)}\n")
    except EvalregError as error:
        return _fail(spelled("\n".join([str(error), *getattr(error, "__notes__", [])]), options, numbers=True))
    except SystemExit as stop:  # --help and --version
        _write("", sys.stdout)
        return stop.code if isinstance(stop.code, int) else FINE
    except KeyboardInterrupt:
        _complain("evalreg: interrupted\n")
        return INTERRUPTED
    except MemoryError as error:
        return _fail(f"there is not enough memory ({error}). Ask for fewer models or factors at a time.")
    except OSError:
        raise
    except Exception:
        _complain(f"{traceback.format_exc()}evalreg: internal error: this is a bug in evalreg; please report it with ")
        _complain("the lines above and the command that was run.\n")
        return INTERNAL_ERROR
    return output.status


def _as_output(printed: str | Output) -> Output:
    return Output(printed) if isinstance(printed, str) else printed


def _deliver(text: str, output: str | None) -> None:
    """Put results where they were asked for: standard output, or a file in UTF-8."""
    if output is None or output == "-":
        if sys.stdout is None:
            raise ArgumentError("standard output is closed; name a file to write to in `--output`.")
        if _write(text, sys.stdout):
            _complain(
                f'warning: standard output is in {sys.stdout.encoding}, which lacks some letters of these names; "?" '
                "stands for each. Write to a file with --output, which is in UTF-8, or set PYTHONUTF8=1.\n"
            )
        return
    try:
        Path(output).write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f'`--output` must be a file to write to; "{output}" is not: {reason}.') from error


def _fail(message: str) -> int:
    _complain(f"evalreg: error: {_visible(message, keep=chr(10))}\n")
    return BAD_INPUT


def _visible(text: str, keep: str = "") -> str:
    """Text with its control characters spelled out; what does so loads data frames, so not before it is needed."""
    from evalreg.report.tables import visible

    return visible(text, keep)


def _show_warning(options: argparse.Namespace, message: Warning | str, *_: object, **__: object) -> None:
    """One warning on one line, without the place in the code; options are named as they are typed."""
    _complain(f"warning: {_visible(spelled(' '.join(str(message).split()), options))}\n")


def _complain(text: str) -> None:
    """Write to standard error; that nobody can read it there does not change the results."""
    try:
        _write(text, sys.stderr)
    except OSError:
        _discard(sys.stderr)


def _write(text: str, stream: TextIO | None) -> bool:
    """Write text, and whether question marks stand for what the stream cannot encode; None is one that is closed."""
    if stream is None:
        return False
    encoding = stream.encoding or "utf-8"
    shown = text.encode(encoding, "replace").decode(encoding)
    print(shown, end="", file=stream, flush=True)
    return shown != text


def _discard(stream: TextIO | None) -> None:
    """Send what is still buffered nowhere, or the interpreter would fail to write it once more at its end."""
    if stream is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def build_parser(arguments: Sequence[str] | None = None) -> Parser:
    """The parser of the commands.

    `arguments`: what will be parsed. Commands that are not in it are named and not loaded, so that ``--help`` is quick;
    behind a command that comes first nobody asks for the others. None, the default, loads all.
    """
    loaded = tuple(COMMANDS) if arguments is None else arguments
    first = arguments[0] if arguments else None
    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="evalreg",
        description="Error bars for language-model evals whose rows are not independent.",
        epilog=_EPILOG,
        formatter_class=plain,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"evalreg {version_of('evalreg')}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    settings: dict[str, Any] = {"formatter_class": plain, "allow_abbrev": False}
    for name, purpose in COMMANDS.items():
        if first in COMMANDS and name != first:
            continue
        own = commands.add_parser(name, help=purpose, **settings)
        if name in loaded:
            command = cast(Command, import_module(f"evalreg.cli.{name.replace(' ', '_')}"))
            own.epilog = command.EPILOG
            own.set_defaults(run=command.run)
            command.add(own)
    return parser
