"""Every check of the project, run in an environment made for it.

`python tests/check.py` needs Python 3.11 or newer and pip, nothing else. It makes the environment `.venv` in the
checkout (or updates it, when pyproject.toml has changed since), installs the checkout there with what the checks
need, and runs them there side by side, the tests on every core. It goes on after a failure and ends with a table; the
exit status is 1 when a check failed.

    python tests/check.py                        everything but long simulations, on the newest releases
    python tests/check.py --quick                lint, types and a core of the tests, in `.venv-quick`, under a minute
    python tests/check.py --floors               the contract, two cases of each other test and the examples, on the
                                                 lowest supported releases
    python tests/check.py --only ruff,mypy       some of the checks
    python tests/check.py --only simulations     all tests marked slow, as `.ci/simulations` runs them
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
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STAMP = "evalreg-check.txt"
# Beside the floors of the package itself, the newest of what the tests run on. Without linters and documentation.
# The lowest narwhals imports a module that DuckDB has deprecated since.
FLOOR_COMPANIONS = (
    "pytest",
    "hypothesis",
    "polars",
    "pyarrow",
    "duckdb<1.4",
    "matplotlib",
    "zstandard",
    "jinja2",
)
# What `--quick` runs, and what it runs on: a third of the whole environment.
QUICK_COMPANIONS = ("pytest>=8", "hypothesis", "ruff", "mypy", "pandas-stubs", "scipy-stubs", "jinja2", "orjson")
# More threads than cores make small matrix products slower by a factor of ten and more.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# How a Python module is run as a program. Python looks for cycles in its garbage after every 700 new objects; tables
# and pages of documentation are made of many more, and have few.
RUN = """
import gc, runpy, sys
gc.set_threshold(50_000)
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

# Leaves with 0 where there is a pip that can install into another environment: every one from 23 on.
INSTALLS_ELSEWHERE = 'import pip; raise SystemExit(int(pip.__version__.split(".")[0]) < 23)'


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
    # The pip outside can install into it. To give it one of its own takes longer than all else that is made here.
    outside = subprocess.run([base, "-c", INSTALLS_ELSEWHERE], capture_output=True, check=False).returncode == 0
    if not Path(python).exists():
        bare = ["--without-pip"] if outside else []
        subprocess.run([base, "-m", "venv", *bare, str(environment)], check=True)
    return [base, "-m", "pip", "--python", python] if outside else [python, "-m", "pip"]


def wanted_by(kind: str) -> list[str]:
    """What pip installs into an environment: the newest of all, the lowest supported, or what `--quick` needs."""
    if kind == "floors":
        return ["-e", str(ROOT), *floor_pins(), *FLOOR_COMPANIONS]
    return ["-e", str(ROOT), *QUICK_COMPANIONS] if kind == "quick" else ["-e", f"{ROOT}[test,docs]"]


def installed_by_pip(pip: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether pip installed the newest of what is wanted."""
    newest = ["--upgrade", "--upgrade-strategy", "eager"]
    # Python compiles the modules that are imported, on their first import: a small part of all that are installed.
    command = [*pip, "install", "--quiet", "--no-compile", "--disable-pip-version-check", *newest, *wanted]
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0


def uv_of(pip: Sequence[str], python: Path) -> list[str]:
    """The command of uv: the one that is here already, or one that pip installs; empty where there is neither."""
    found = shutil.which("uv")
    # What stands on the path may be a launcher with nothing behind it.
    if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return [found]
    return [str(python), "-m", "uv"] if installed_by_pip(pip, ["uv"]) else []


def installed_by_uv(pip: Sequence[str], python: Path, wanted: Sequence[str]) -> bool:
    """Whether uv installed it, faster than pip does. Where uv cannot be had or fails, pip is used.

    uv does not read the configuration of pip; where that names an index of its own, uv is told. It installs pip too,
    for whoever works in the environment.
    """
    uv = uv_of(pip, python)
    if not uv:
        return False
    settings = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    index = re.search(r"^(?:global|site|user|install|:env:)\.index-url='(.+)'$", settings, re.MULTILINE)
    own = {"UV_DEFAULT_INDEX": index[1]} if index else {}
    newest = ["pip", "install", "--quiet", "--python", str(python), "--upgrade", "pip", *wanted]
    return subprocess.run([*uv, *newest], stdin=subprocess.DEVNULL, env=own | os.environ, check=False).returncode == 0


def prepared(environment: Path, kind: str) -> Path:
    """The Python of an environment that holds this checkout and what the checks need."""
    base = floor_interpreter() if kind == "floors" else sys.executable
    wanted = wanted_by(kind)
    text = "\n".join([kind, *wanted, (ROOT / "pyproject.toml").read_text("utf-8")])
    state = hashlib.sha256(text.encode()).hexdigest()
    stamp = environment / STAMP
    python = interpreter_of(environment)
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == state:
        return python
    start = time.perf_counter()
    print(f"preparing {environment}", flush=True)
    pip = make_environment(environment, base)
    if not (installed_by_uv(pip, python, wanted) or installed_by_pip(pip, wanted)):
        raise SystemExit(f"pip could not install what the checks need into {environment}")
    stamp.write_text(state, encoding="utf-8")
    print(f"prepared in {time.perf_counter() - start:.0f} s", flush=True)
    return python


# The checks. Each returns its exit status and a note for the table.


@dataclass(frozen=True)
class Options:
    """What the command line asks of a check, and where what it prints goes."""

    stop: bool
    pytest_arguments: Sequence[str]
    quick: bool = False
    floors: bool = False
    part: str = ""
    say: Callable[[str], None] = print
    # Programs under way, so that the first failure can end them.
    running: list[subprocess.Popen[str]] = field(default_factory=list)


Outcome = tuple[int, str]


def call(*arguments: str, options: Options, cwd: Path = ROOT) -> tuple[int, list[str]]:
    """The exit status of a Python module run as a program, and its lines."""
    lines = []
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        options.running.append(process)
        for line in process.stdout or ():
            lines.append(line.rstrip("\n"))
            options.say(lines[-1])
    return process.returncode, lines


def call_pytest(*arguments: str, options: Options, cwd: Path = ROOT) -> Outcome:
    """Run pytest; its closing line is the note. A run that collects nothing fails, with pytest's status 5."""
    status, lines = call("pytest", *(["-x"] if options.stop else []), *arguments, options=options, cwd=cwd)
    words = r"\b(passed|failed|skipped|deselected|errors?|no tests ran)\b.* in [0-9.]+s"
    return status, next((line.strip("= ") for line in reversed(lines) if re.search(words, line)), "")


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parts(names: Sequence[str]) -> list[str]:
    """Names of checks, those of the tests in as many parts as there are cores: "pytest 1/2", "mypy", "pytest 2/2"."""
    n = n_cores()
    each = {name: [f"{name} {k}/{n}" for k in range(1, n + 1)] for name in ("pytest", "simulations")}
    parts = [part for name in names for part in each.get(name, [name])]
    # In a new environment parts that start at once would each compile the packages that both import. mypy needs few.
    if parts[0] not in names and "mypy" in parts:
        parts.insert(1, parts.pop(parts.index("mypy")))
    return parts


def check_ruff(options: Options) -> Outcome:
    """Lint."""
    return call("ruff", "check", ".", options=options)[0], ""


def check_format(options: Options) -> Outcome:
    """Layout of the code."""
    return call("ruff", "format", "--check", ".", options=options)[0], ""


def check_mypy(options: Options) -> Outcome:
    """Types, in strict mode."""
    os.environ["MYPY_NUM_WORKERS"] = str(n_cores())  # releases that have no workers pass over it
    return call("mypy", options=options)[0], ""


def check_pytest(options: Options) -> Outcome:
    """The tests, all but the simulations; with arguments of one's own, those they choose of all."""
    if options.quick:
        return call_pytest("-q", "-m", "not slow", *QUICK, *options.pytest_arguments, options=options)
    # Code that an old release breaks is met by any case; which values are right was asked on the newest.
    fewer = ["--first-and-last", *(f"--ignore={file}" for file in NOT_ON_FLOORS)] if options.floors else []
    chosen = ["-q", "-m", "not slow", *fewer, *in_part(options)]
    return call_pytest(*(options.pytest_arguments or chosen), options=options)


def check_simulations(options: Options) -> Outcome:
    """The tests that simulate for long, and what a covering set leaves out of a product of parameters."""
    return call_pytest("-q", "-m", "slow", *in_part(options), *options.pytest_arguments, options=options)


def in_part(options: Options) -> list[str]:
    """The arguments that choose a part of the files. Parts run side by side would write one cache."""
    return ["-p", "no:cacheprovider", "--part", options.part] if options.part else []


def check_doctest(options: Options) -> Outcome:
    """The examples in the docstrings."""
    return call_pytest("-q", "--doctest-modules", "evalreg", "tests/check.py", options=options)


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
        return call_pytest("-q", "-c", config, "--doctest-glob=*.md", ".", options=options, cwd=Path(folder))


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
    for problem in problems:
        options.say(problem)
    return bool(problems), f"{n_names} names, {len(problems)} problems"


def check_docs(options: Options) -> Outcome:
    """The documentation, built from a copy so that no page of an earlier build is taken in."""
    with tempfile.TemporaryDirectory() as folder:
        source, pages = Path(folder) / "docs", Path(folder) / "html"
        shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("_build", "generated"))
        build = ("sphinx", "-W", "--keep-going", "-q", "-t", "check", "-b", "html", str(source), str(pages))
        failed = call(*build, options=options)[0]
        lost = [] if failed else members_without_place(source / "reference.md", pages)
        for name in lost:
            options.say(f"docs/reference.md speaks of {name}, which the page of its class does not list")
        return failed or bool(lost), ""


def members_without_place(reference: Path, pages: Path) -> list[str]:
    """Methods that the reference speaks of, `Results.ranks` say, and that no built page lists."""
    written = "".join(page.read_text(encoding="utf-8") for page in (pages / "generated").glob("*.html"))
    named = re.findall(r"`([A-Z]\w+\.[a-z]\w*)`", reference.read_text(encoding="utf-8"))
    return sorted({name for name in named if f'id="evalreg.{name}"' not in written})


# The longest first: they are started in this order, as many at a time as there are cores (see also `in_parts`).
CHECKS: dict[str, Callable[[Options], Outcome]] = {
    "pytest": check_pytest,
    "simulations": check_simulations,
    "docs": check_docs,
    "mypy": check_mypy,
    "pages": check_pages,
    "doctest": check_doctest,
    "docstrings": check_docstrings,
    "ruff": check_ruff,
    "format": check_format,
}
FLOOR_CHECKS = ("pytest", "doctest", "pages")
# They ask about the project itself: its modules, its tests, its words, its scripts for shells. No release changes that.
NOT_ON_FLOORS = (
    "tests/test_action.py",
    "tests/test_command_page.py",
    "tests/test_completion.py",
    "tests/test_layers.py",
    "tests/test_left_out.py",
    "tests/test_pairwise.py",
    "tests/test_parts.py",
    "tests/test_release.py",
    "tests/test_spelled.py",
    "tests/test_start.py",
)
QUICK_CHECKS = ("pytest", "mypy", "ruff", "format")
# They decide nothing about a commit that the other tests leave open, and take as long as all of those.
BESIDE = ("simulations",)
# Of the tests: numbers of R, rules of a line each, what a formula may say, and the order of the modules.
# Each is fast, and together they meet every covariance.
QUICK = (
    "tests/test_layers.py",
    "tests/test_golden_values.py",
    "tests/test_small_rules.py",
    "tests/test_grammar.py",
)


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


def outcome(name: str, options: Options) -> tuple[bool, str]:
    """Whether a check failed, and the line that says so."""
    start = time.perf_counter()
    try:
        check, _, part = name.partition(" ")
        status, note = CHECKS[check](replace(options, part=part))
    except Exception:
        for line in traceback.format_exc().splitlines():
            options.say(line)
        status, note = 1, "the check itself broke"
    word = "FAILED" if status else "ok"
    return bool(status), f"{word:<7} {name:<15} {time.perf_counter() - start:6.1f} s  {note}".rstrip()


def run(names: Sequence[str], options: Options) -> int:
    """Exit status after the named checks, as many at a time as there are cores.

    The first prints as it goes and the others when they have ended, so that the lines of two never mix.
    """
    rows: dict[str, tuple[bool, str]] = {}
    one_at_a_time, stopped = threading.Lock(), threading.Event()

    def one(name: str) -> None:
        if stopped.is_set():
            return
        lines: list[str] = []

        def at_once(line: str) -> None:
            with one_at_a_time:
                print(line, flush=True)

        failed, row = outcome(name, replace(options, say=at_once if name == names[0] else lines.append))
        with one_at_a_time:
            if stopped.is_set():
                return
            rows[name] = failed, row
            print(*lines, row, sep="\n", flush=True)
            if failed and options.stop:
                stopped.set()
        if stopped.is_set():
            for process in options.running:
                process.terminate()

    with ThreadPoolExecutor(max_workers=max(2, n_cores())) as pool:
        for ended in [pool.submit(one, name) for name in names]:
            ended.result()
    print("", *(rows[name][1] for name in names if name in rows), sep="\n")
    n_failed = sum(failed for failed, _ in rows.values())
    print(f"{len(rows) - n_failed} of {len(rows)} checks passed", flush=True)
    return int(n_failed > 0)


def versions() -> str:
    """Python and the dependencies, as they are here."""
    names = [re.split(r"[^A-Za-z0-9_-]", requirement)[0] for requirement in project()["dependencies"]]
    return ", ".join([f"python {sys.version.split()[0]}", *(f"{n} {importlib.metadata.version(n)}" for n in names)])


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options before `--`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME[,NAME]", help=f"some of: {', '.join(CHECKS)}")
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK_CHECKS)} only, on a core of the tests")
    parser.add_argument("--floors", action="store_true", help="on the lowest supported releases, in `.venv-floors`")
    parser.add_argument("--env", metavar="PATH", type=Path, help="folder for the environments, instead of the checkout")
    parser.add_argument("--here", action="store_true", help="with this interpreter as it is; nothing is installed")
    parser.add_argument("-x", dest="stop", action="store_true", help="stop at the first failure")
    options = parser.parse_args(arguments)
    if options.quick and (options.floors or options.only):
        parser.error("--quick is a choice of checks of its own; leave out --floors and --only")
    offered = FLOOR_CHECKS if options.floors else tuple(CHECKS)
    usual = QUICK_CHECKS if options.quick else tuple(name for name in offered if name not in BESIDE)
    options.names = options.only.split(",") if options.only else usual
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
        # Or each of the programs would compile every module anew.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        print(versions(), flush=True)
        own = arguments[cut + 1 :]
        names = options.names if own or options.quick else in_parts(options.names)
        return run(names, Options(options.stop, own, options.quick, options.floors))
    kind = "floors" if options.floors else "quick" if options.quick else "newest"
    own = ROOT / (".venv" if kind == "newest" else f".venv-{kind}")
    python = prepared(options.env.resolve() / kind if options.env else own, kind)
    environ = os.environ | dict.fromkeys(ONE_THREAD, "1") | {"MPLBACKEND": "Agg"}
    command = [str(python), str(Path(__file__).resolve()), "--here", *arguments]
    return subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
