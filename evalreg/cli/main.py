"""The entry of the command line: parse, compute, print; errors become messages and a status."""

from __future__ import annotations

import argparse
import errno
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO

import evalreg
from evalreg.cli.commands import BY_NAME, COMMANDS, EPILOG, known_options
from evalreg.cli.options import Option, typed_value
from evalreg.errors import ArgumentError, EvalregError

__all__ = ["main"]

# Columns in which a page of help is laid out.
HELP_WIDTH = 100
# Options that have another name than the argument they stand for.
PARAMETERS = {"claim": "gate", "subset": "where", "name": "show", "standard_error": "design"}
FINE, BAD_INPUT, INTERNAL_ERROR, INTERRUPTED = 0, 3, 4, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status of a command: 0 fine, 3 bad input or usage, 4 internal error; a gate adds 1 and 2."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except BrokenPipeError:
        # Whoever reads has seen enough, as `head` does.
        _discard(sys.stdout)
        return FINE
    except OSError as error:  # a full disk, say
        _discard(sys.stdout)
        return _fail(f"reading or writing failed: {error.strerror or error}.")


def _run(arguments: list[str]) -> int:
    if arguments[:2] == ["plan", "precision"]:
        arguments = ["plan precision", *arguments[2:]]
    try:
        if not arguments:  # a script whose words got lost must not pass for a gate that held
            _complain(build_parser().format_help())
            return BAD_INPUT
        options = build_parser(arguments).parse_args(arguments)
        options.typed = shlex.join(["evalreg", *arguments])
        # Values are read here: argparse would reword what they refuse.
        for name, option in options.known.items():
            if isinstance(getattr(options, name, None), str):
                setattr(options, name, option.read(getattr(options, name)))
        return _computed(options)
    except EvalregError as error:
        return _fail("\n".join([_message(error, arguments), *getattr(error, "__notes__", [])]))
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


def _computed(options: argparse.Namespace) -> int:
    """Compute and print what a parsed command line asks for."""
    from evalreg.checks import passing, visible
    from evalreg.cli.verbs import run

    _check_output(options)
    # A command without functions advises on all others; `questions` is advised as an option of `mean`.
    every = (option for command in COMMANDS for option in command.options())
    others = (option for option in every if not options.chosen.functions or option.name == "questions")
    known = {option.name: option for option in others} | options.known
    with (
        passing(partial(_as_option, known, getattr(options, "where", None))),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            # The versions of packages are not the reader's concern; what a result rests on is.
            warnings.simplefilter("ignore", category)
        request, reply = run(options)
        from evalreg.cli.printed import rendered

        output = rendered(request, reply)
    _deliver(output.text.rstrip("\n") + "\n", getattr(options, "output", None) if output.to_file else None)
    # What the result says itself is not said once more.
    texts = dict.fromkeys(" ".join(str(warning.message).split()) for warning in warned)
    for line in (*(f"warning: {text}" for text in texts if text not in output.said), *output.messages):
        _complain(f"{visible(line)}\n")
    return output.status


def _as_option(known: Mapping[str, Option], where: str | None, name: str, value: object) -> str:
    """An argument as it is typed, a filter with the one `where`; empty where the command has no such option."""
    option = known.get(PARAMETERS.get(name, name))
    if option is None:
        return str(value) if name == "files" else ""
    value = f"({where}) and {value}" if name == "subset" and where else value
    value = [value] if isinstance(value, str) and option.is_list else value
    return option.flag if isinstance(value, bool) else f"{option.flag} {shlex.quote(typed_value(value))}"


def _check_output(options: argparse.Namespace) -> None:
    """Refuse to write over what is read, or where nothing can be written, before a large file is read."""
    from evalreg.checks import accessing  # loads numpy, which a page of help does not need

    files = [word.partition("=")[2] if not os.path.exists(word) else word for word in getattr(options, "files", ())]
    for name in ("output", "summary", "figure"):
        path = getattr(options, name, None)
        if path in (None, "-"):
            continue
        for file in files:
            with suppress(OSError):  # one of them is not there
                if os.path.samefile(path, file):
                    raise ArgumentError(f'`{name}` must not be the file that is read; got "{path}".', parameter=name)
        folder = os.path.dirname(path) or "."
        with accessing(name, path):
            os.stat(folder)
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not os.access(path if os.path.exists(path) else folder, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _message(error: EvalregError, arguments: Sequence[str]) -> str:
    """The message of an error, after the option whose rule is broken; the message itself stays as it is."""
    if error.parameter is None:
        return str(error)
    typed = PARAMETERS.get(error.parameter, error.parameter)
    option = known_options(BY_NAME[arguments[0]]).get(typed) if arguments[0] in BY_NAME else None
    flag = option.flag if option else "--output" if typed == "output" else ""
    text = str(error).replace(f"`{error.parameter}`", f"`{typed}`") if flag else str(error)
    return f"{flag}: {text}" if flag else text


def _deliver(text: str, output: str | None) -> None:
    """Put results where they were asked for: standard output, or a file in UTF-8."""
    if output is None or output == "-":
        if sys.stdout is None:
            raise ArgumentError("standard output is closed; name a file to write to.", parameter="output")
        if _write(text, sys.stdout):
            _complain(
                f'warning: standard output is in {sys.stdout.encoding}, which lacks some letters of these names; "?" '
                "stands for each. Write to a file with --output, which is in UTF-8, or set PYTHONUTF8=1.\n"
            )
        return
    Path(output).write_text(text, encoding="utf-8", errors="replace", newline="\n")
    if output.endswith((".html", ".htm")):
        _complain(f"Wrote {output} ({max(1, len(text) // 1000):,} kB).\n")


def _fail(message: str) -> int:
    from evalreg.checks import visible  # loads numpy, which a command line in order does not need

    _complain(f"evalreg: error: {visible(message, keep=chr(10))}\n")
    return BAD_INPUT


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


# The parser


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are errors like any other, with the nearest name that there is."""

    known: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving with status 2."""
        from evalreg.checks import KEYWORDS, nearest  # loads numpy, which a command line in order does not need

        unknown = re.search(r"unrecognized arguments: (--[\w-]+)|invalid choice: '(.*?)'", message)
        name = (unknown[1] or unknown[2]) if unknown else ""
        hint = ""
        if name.startswith("--"):
            ours = [f"--{word}" for word in KEYWORDS.get(name[2:].replace("-", "_"), ())]
            hint = next((f" It is called {flag} here." for flag in ours if flag in self.known), "")
        elif name:
            message = f'there is no command "{name}"'
        raise ArgumentError(f"{message}.{hint or (name and nearest(name, self.known))} See: {self.prog} --help")


def add_option(parser: argparse._ActionsContainer, option: Option, hidden: bool, whole: bool) -> None:
    """Add an option: its first sentence on the first page, everything on the whole one."""
    text = (option.help if whole else option.summary).replace("%", "%%")
    if option.choices and not re.search(r"\{", text):
        text = f"{{{', '.join(option.choices)}}} {text}".strip()
    settings: dict[str, Any] = {"dest": option.name, "default": argparse.SUPPRESS}
    settings["help"] = argparse.SUPPRESS if hidden and not whole else text
    if option.annotation == "bool":
        parser.add_argument(option.flag, action="store_false" if option.default is True else "store_true", **settings)
        return
    metavar = "N" if re.fullmatch(r"(int|float)( \| None)?", option.annotation) else "X"
    parser.add_argument(option.flag, metavar=metavar, action=_Once, const=option, **settings)


class _Once(argparse.Action):
    def __call__(self, parser: Any, options: argparse.Namespace, value: Any, flag: str | None = None) -> None:
        if hasattr(options, self.dest):
            several = "{},{}" if re.search(r"list\[|Sequence|Mapping", self.const.annotation) else "{}"
            several = {"groups": "{} + {}", "where": "({}) and ({})", "formulas": "{}; {}"}.get(self.dest, several)
            both = shlex.quote(several.format(getattr(options, self.dest), value))
            way = "." if several == "{}" else f": {flag} {both}"
            raise ArgumentError(f"{flag} stands twice, and one would have no effect. Write it once{way}")
        setattr(options, self.dest, value)


def build_parser(arguments: Sequence[str] = ()) -> Parser:
    """The parser of what will be parsed: the command that comes first has its options, the others their names.

    Without arguments all have their options: `shtab --shell=bash evalreg.cli.main.build_parser` completes them.
    """
    whole = not arguments or "--help-all" in arguments
    layout = partial(argparse.RawDescriptionHelpFormatter, max_help_position=26, width=HELP_WIDTH)
    settings: dict[str, Any] = {"formatter_class": layout, "allow_abbrev": False}
    parser = Parser(
        prog="evalreg",
        description="Error bars for language-model evals whose rows are not independent.",
        epilog=EPILOG,
        **settings,
    )
    version = "" if "--version" not in arguments else evalreg.__version__
    parser.add_argument("--version", action="version", version=f"evalreg {version}", help="the version, and leave")
    parser.known = [command.name for command in COMMANDS]
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        if arguments and command.name != arguments[0]:
            commands.add_parser(command.name, help=command.purpose)
            continue
        usage = " ".join(filter(None, ["evalreg", command.name, *command.first, "[options]"]))
        usage += " [NAME=]FILE..." if command.reads else ""
        subparser = commands.add_parser(command.name, help=command.purpose, usage=usage, **settings)
        subparser.epilog = command.examples
        for name in command.first:
            subparser.add_argument(name.lower(), metavar=name)
        if command.reads:
            files = subparser.add_argument("files", metavar="[NAME=]FILE", nargs="+", help=FILES)
            files.complete = COMPLETED  # type: ignore[attr-defined]
        options = known_options(command)
        for option in options.values():
            add_option(subparser, option, option.name not in command.shown, whole)
        subparser.add_argument(
            "-o", "--output", default=argparse.SUPPRESS, metavar="FILE", help="write there, not to the screen"
        )
        subparser.add_argument("--help-all", action="help", help="this page with every option")
        subparser.known = [*(option.flag for option in options.values()), "--output", "--help"]
        if arguments:  # what a command left over is told by the parser of all
            parser.known, parser.prog = subparser.known, subparser.prog
        parser.set_defaults(chosen=command, known=options)
    return parser


# How shells complete files, as shtab has it: it makes their scripts of `build_parser`.
COMPLETED = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
FILES = """\
CSV, TSV, JSON lines, Parquet, Arrow ("-" is standard input), or logs of a harness: files, folders, patterns. A name
before the sign makes it a model of that name."""
