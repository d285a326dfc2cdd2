"""Every check of the project, run in an environment made for it.

`python tests/check.py` needs Python 3.11 or newer and pip, nothing else. It makes the environment `.venv` in the
checkout (or updates it, when pyproject.toml has changed since), installs the checkout there with what the checks
need, and runs them there one after another. It goes on after a failure and ends with a table; the exit status is 1
when a check failed.

    python tests/check.py                        everything, on the newest releases
    python tests/check.py --floors               quick tests and examples on the lowest supported releases
    python tests/check.py --only ruff,mypy       some of the checks
    python tests/check.py -x -- -k golden        stop at the first failure; pass the rest on to pytest
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.metadata
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STAMP = "evalreg-check.txt"
# Beside the floors of the package itself, the newest of what the tests run on. Without linters and documentation.
# The lowest narwhals imports a module that DuckDB has deprecated since.
FLOOR_COMPANIONS = ("pytest", "hypothesis", "polars", "pyarrow", "duckdb<1.4", "matplotlib")
# More threads than cores make small matrix products slower by a factor of ten and more.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


# The environment


def project() -> dict[str, Any]:
    """The [project] table of pyproject.toml."""
    import tomllib  # not at the top: an older Python should reach the message in main

    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def floor_pins() -> list[str]:
    """Exact requirements at the lower bounds that pyproject.toml states, so that the two cannot drift apart."""
    pins = []
    for requirement in project()["dependencies"]:
        bound = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)", requirement)
        if bound is None:
            raise SystemExit(f"pyproject.toml: write {requirement!r} as 'name>=version'; --floors installs the bound")
        pins.append(f"{bound[1]}=={bound[2]}")
    return pins


def floor_interpreter() -> str:
    """The lowest supported Python where there is one: the floor releases have no wheels for the newest."""
    lowest = project()["requires-python"].removeprefix(">=")
    if "{}.{}".format(*sys.version_info) == lowest:
        return sys.executable
    found = shutil.which(f"python{lowest}")
    # What stands on the path may be a launcher without an interpreter behind it.
    if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return found
    print(f"No Python {lowest} found; trying the floor releases on {sys.version.split()[0]}.", flush=True)
    return sys.executable


def interpreter_of(environment: Path) -> Path:
    """The Python inside a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_environment(environment: Path, base: str) -> list[str]:
    """The pip command that installs into a virtual environment, made here unless it exists."""
    python = str(interpreter_of(environment))
    if not Path(python).exists():
        made = subprocess.run([base, "-m", "venv", str(environment)], capture_output=True, text=True, check=False)
        if made.returncode:
            # Some systems ship Python without ensurepip: leave pip out and let the one outside install.
            subprocess.run([base, "-m", "venv", "--clear", "--without-pip", str(environment)], check=True)
    own_pip = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    return [python, "-m", "pip"] if own_pip else [base, "-m", "pip", "--python", python]


def prepared(environment: Path, *, floors: bool) -> Path:
    """The Python of an environment that holds this checkout and what the checks need."""
    base = floor_interpreter() if floors else sys.executable
    text = "\n".join([str(ROOT), "floors" if floors else "newest", (ROOT / "pyproject.toml").read_text("utf-8")])
    state = hashlib.sha256(text.encode()).hexdigest()
    stamp = environment / STAMP
    python = interpreter_of(environment)
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == state:
        return python
    start = time.perf_counter()
    print(f"preparing {environment}", flush=True)
    pip = make_environment(environment, base)
    wanted = ["-e", str(ROOT), *floor_pins(), *FLOOR_COMPANIONS] if floors else ["-e", f"{ROOT}[test,docs]"]
    newest = ["--upgrade", "--upgrade-strategy", "eager"]
    install = [*pip, "install", "--quiet", "--disable-pip-version-check", *newest, *wanted]
    if subprocess.run(install, stdin=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit(f"pip could not install what the checks need into {environment}")
    stamp.write_text(state, encoding="utf-8")
    print(f"prepared in {time.perf_counter() - start:.0f} s", flush=True)
    return python


# The checks. Each returns its exit status and a note for the table.


@dataclass(frozen=True)
class Options:
    """What the command line asks of a check."""

    stop: bool
    pytest_arguments: Sequence[str]


Outcome = tuple[int, str]


def call(*arguments: str, cwd: Path = ROOT) -> int:
    """The exit status of a Python module run as a program."""
    return subprocess.run([sys.executable, "-m", *arguments], cwd=cwd, stdin=subprocess.DEVNULL, check=False).returncode


def call_pytest(*arguments: str, options: Options, cwd: Path = ROOT) -> Outcome:
    """Run pytest; its closing line is the note. A run that collects nothing fails, with pytest's status 5."""
    command = [sys.executable, "-m", "pytest", *(["-x"] if options.stop else []), *arguments]
    closing = ""
    with subprocess.Popen(
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if re.search(r"\b(passed|failed|skipped|deselected|errors?|no tests ran)\b.* in [0-9.]+s", line):
                closing = line.strip("= \n")
    return process.returncode, closing


def check_ruff(options: Options) -> Outcome:
    """Lint."""
    return call("ruff", "check", "."), ""


def check_format(options: Options) -> Outcome:
    """Layout of the code."""
    return call("ruff", "format", "--check", "."), ""


def check_mypy(options: Options) -> Outcome:
    """Types, in strict mode."""
    return call("mypy"), ""


def check_pytest(options: Options) -> Outcome:
    """The tests."""
    return call_pytest(*options.pytest_arguments, options=options)


def check_doctest(options: Options) -> Outcome:
    """The examples in the docstrings."""
    return call_pytest("--doctest-modules", "evalreg", "tests/check.py", options=options)


def check_pages(options: Options) -> Outcome:
    """The examples in README.md and the documentation."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    with tempfile.TemporaryDirectory() as folder:
        for page in pages:
            examples = as_doctest(page.read_text(encoding="utf-8"))
            if examples:
                copy = Path(folder) / page.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(examples, encoding="utf-8")
        if not any(Path(folder).iterdir()):
            return 0, "no page has an example"
        # There, so that an example that writes a file leaves the checkout as it was.
        config = str(ROOT / "pyproject.toml")
        return call_pytest("-c", config, "--doctest-glob=*.md", ".", options=options, cwd=Path(folder))


def check_docstrings(options: Options) -> Outcome:
    """Docstrings of the public names, and a line for each name in the reference."""
    from numpydoc.docscrape import get_doc_object
    from numpydoc.hooks.validate_docstrings import parse_config
    from numpydoc.validate import validate

    checks = parse_config(ROOT)["checks"]
    listed = set(re.findall(r"[\w.]+", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")))
    problems, n_names = [], 0
    for name, thing, is_member in public_names():
        n_names += 1
        found = validate(get_doc_object(thing))["errors"]
        expected = checks - waived(thing, is_member)
        problems += [f"{name}: {code} {message}" for code, message in found if code in expected]
        if not is_member and name.removeprefix("evalreg.") not in listed:
            problems.append(f"{name}: docs/reference.md does not list it")
    print("\n".join(problems), flush=True)
    return bool(problems), f"{n_names} names, {len(problems)} problems"


def check_docs(options: Options) -> Outcome:
    """The documentation, built from a copy so that no page of an earlier build is taken in."""
    with tempfile.TemporaryDirectory() as folder:
        source, pages = Path(folder) / "docs", Path(folder) / "html"
        shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("_build", "generated"))
        return call("sphinx", "-W", "--keep-going", "-q", "-b", "html", str(source), str(pages)), ""


CHECKS: dict[str, Callable[[Options], Outcome]] = {
    "ruff": check_ruff,
    "format": check_format,
    "mypy": check_mypy,
    "pytest": check_pytest,
    "doctest": check_doctest,
    "pages": check_pages,
    "docstrings": check_docstrings,
    "docs": check_docs,
}
FLOOR_CHECKS = ("pytest", "doctest", "pages")


# What the checks look at


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
    r"""The examples of a Markdown page as the text of a doctest, each on the line where the page has it.

    Two forms are examples: a block with prompts, and a `python` block right above a `text` block that holds what it
    prints. Other blocks are left out. The namespace is shared over the page.

    Examples
    --------
    >>> fence = "`" * 3
    >>> page = f"Prose.\n{fence}python\nprint(1 + 1)\n{fence}\n\n{fence}text\n2\n{fence}\n"
    >>> as_doctest(page).splitlines()
    ['', '', '>>> if True:', '...     print(1 + 1)', '2']
    >>> as_doctest("No code.")
    ''
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


def public_names() -> Iterator[tuple[str, Any, bool]]:
    """Name, object and whether it is a member of a class, for all that evalreg promises."""
    package = importlib.import_module("evalreg")
    promised = {f"evalreg.{name}": getattr(package, name) for name in package.__all__}
    promised["evalreg.errors"] = importlib.import_module("evalreg.errors")
    for name, thing in promised.items():
        if inspect.ismodule(thing):
            for inner in exported(thing):
                yield from with_members(f"{name}.{inner}", getattr(thing, inner))
        elif not name.endswith("__"):  # `__version__` is a string
            yield from with_members(name, thing)


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


def exported(module: Any) -> list[str]:
    """Names that a module promises: its `__all__`, or the exceptions and warnings defined in it."""
    return list(getattr(module, "__all__", [name for name, thing in vars(module).items() if is_exception(thing)]))


def is_exception(thing: Any) -> bool:
    """Whether an object is a class that can be raised."""
    return inspect.isclass(thing) and issubclass(thing, BaseException)


def with_members(name: str, thing: Any) -> Iterator[tuple[str, Any, bool]]:
    """A public object, followed by the public methods and properties when it is a class."""
    yield name, thing, False
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
                yield f"{name}.{member}", getattr(thing, member), True


# The run


def run(names: Sequence[str], options: Options) -> int:
    """Exit status after the named checks, each reported in one line and all of them again in a table."""
    rows = []
    for name in names:
        start = time.perf_counter()
        try:
            status, note = CHECKS[name](options)
        except Exception as error:
            traceback.print_exc()
            status, note = 1, f"{type(error).__name__}: {error}"
        word = "FAILED" if status else "ok"
        rows.append(f"{word:<7} {name:<11} {time.perf_counter() - start:6.1f} s  {note}".rstrip())
        print(rows[-1], flush=True)
        if status and options.stop:
            break
    print("", *rows, sep="\n")
    failed = sum(row.startswith("FAILED") for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} checks passed", flush=True)
    return int(failed > 0)


def versions() -> str:
    """Python and the dependencies, as they are here."""
    names = [re.split(r"[^A-Za-z0-9_-]", requirement)[0] for requirement in project()["dependencies"]]
    return ", ".join([f"python {sys.version.split()[0]}", *(f"{n} {importlib.metadata.version(n)}" for n in names)])


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options before `--`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME[,NAME]", help=f"some of: {', '.join(CHECKS)}")
    parser.add_argument("--floors", action="store_true", help="on the lowest supported releases, in `.venv-floors`")
    parser.add_argument("--env", metavar="PATH", type=Path, help="folder for the environments, instead of the checkout")
    parser.add_argument("--here", action="store_true", help="with this interpreter as it is; nothing is installed")
    parser.add_argument("-x", dest="stop", action="store_true", help="stop at the first failure")
    options = parser.parse_args(arguments)
    offered = FLOOR_CHECKS if options.floors else tuple(CHECKS)
    options.names = options.only.split(",") if options.only else offered
    unknown = [name for name in options.names if name not in offered]
    if unknown:
        parser.error(f"--only takes {', '.join(offered)}; found {', '.join(unknown)}")
    return options


def main(arguments: Sequence[str]) -> int:
    """Exit status of the whole run."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whatever Python there is may be asked to run this file
        print("tests/check.py needs Python 3.11 or newer", file=sys.stderr)
        return 1
    cut = list(arguments).index("--") if "--" in arguments else len(arguments)
    options = parsed(arguments[:cut])
    if options.here:
        # Found without being installed, also by the programs that the checks start.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        sys.path.insert(0, str(ROOT))
        print(versions(), flush=True)
        # What simulations show does not depend on releases.
        quick = ["-m", "not slow"] if options.floors and cut == len(arguments) else []
        return run(options.names, Options(stop=options.stop, pytest_arguments=[*quick, *arguments[cut + 1 :]]))
    if options.env:
        environment = options.env.resolve() / ("floors" if options.floors else "newest")
    else:
        environment = ROOT / (".venv-floors" if options.floors else ".venv")
    python = prepared(environment, floors=options.floors)
    environ = os.environ | dict.fromkeys(ONE_THREAD, "1") | {"MPLBACKEND": "Agg"}
    command = [str(python), str(Path(__file__).resolve()), "--here", *arguments]
    return subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
