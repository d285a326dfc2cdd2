"""Interleaved timing, peak memory of fresh processes, and the table of figures."""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20

# A script finds its folder first among the places of imports, and there the package `coverage`, which some peers take
# for the one of that name that they may use.
sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]


@dataclass(frozen=True)
class Contender:
    """One way to compute the figures of a case.

    Parameters
    ----------
    run : callable
        Takes what `prepare` returned; the time of this call is what counts.
    prepare : callable, optional
        Untimed, called anew before each repetition.
    """

    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Target:
    """A bound on a quotient of medians, or on one median in seconds.

    Parameters
    ----------
    name : str
        Contender that is to be fast.
    bound : float
        Largest quotient, or number of seconds where `over` is None.
    over : str, optional
        Contender in the denominator.
    """

    name: str
    bound: float
    over: str | None = None


def interleaved(contenders: Mapping[str, Contender], repeat: int) -> dict[str, list[float]]:
    """Seconds of each contender, one round after another, so that a busy moment of the machine meets all of them.

    Parameters
    ----------
    contenders : mapping of str to Contender
        Run in this order in every round; one round before the first warms up and is not counted.
    repeat : int
        Number of rounds.

    Returns
    -------
    dict of str to list of float
        `repeat` figures each.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for counted in range(-1, repeat):
        for name, contender in contenders.items():
            prepared = contender.prepare()
            gc.collect()
            start = time.perf_counter()
            contender.run(prepared)
            elapsed = time.perf_counter() - start
            if counted >= 0:
                seconds[name].append(elapsed)
    return seconds


def resident() -> int:
    """Bytes of memory that this process holds now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def peak(process: int | str = "self") -> int:
    """The most memory that a process has held since it began, or since `forget_peak`, in bytes; by default this one."""
    try:
        # Not getrusage, whose peak on Linux begins at that of the process which started this one.
        with open(f"/proc/{process}/status", encoding="ascii") as file:
            # A process that has ended holds none.
            return 1024 * next((int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0)
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak() -> None:
    """Let the peak begin at what is held now (Linux); elsewhere the peak of making the data stays in it."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def peak_of(contender: Contender) -> dict[str, int]:
    """Peak of one call in this process: in all, and beyond what was held before it, in bytes.

    Parameters
    ----------
    contender : Contender
        Called once; packages that it imports should have been imported before.

    Returns
    -------
    dict of str to int
        "total" and "extra".
    """
    prepared = contender.prepare()
    gc.collect()
    forget_peak()
    before = resident() or peak()
    contender.run(prepared)
    return {"total": peak(), "extra": peak() - before}


def first_seconds(contender: Contender) -> float:
    """Seconds of one call in this process, with what it is the first to load."""
    prepared = contender.prepare()
    gc.collect()
    start = time.perf_counter()
    contender.run(prepared)
    return time.perf_counter() - start


def fresh_process(arguments: Sequence[str], *, frugal: bool = True) -> Any:
    """What a new Python process prints last, read as JSON.

    Parameters
    ----------
    arguments : sequence of str
        After the name of the interpreter.
    frugal : bool, optional
        Whether memory that it frees goes back to the system at once, which takes time.

    Returns
    -------
    object
        The value printed.
    """
    # glibc would otherwise keep freed arrays below 32 MiB, and hand them out again unseen by the peak.
    back = {"MALLOC_MMAP_THRESHOLD_": str(MIB), "MALLOC_TRIM_THRESHOLD_": str(MIB)} if frugal else {}
    done = subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, env=os.environ | back
    )
    return json.loads(done.stdout.splitlines()[-1])


def process_seconds(statement: str, bytecode: str) -> float:
    """Seconds from the start to the end of a new process that runs one statement.

    Parameters
    ----------
    statement : str
        Python.
    bytecode : str
        Folder for compiled modules, so that a first run compiles and later ones do not, as in an installed package.

    Returns
    -------
    float
        Seconds.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
    return time.perf_counter() - start


def table(seconds: Mapping[str, Sequence[float]], reference: str, memory: Mapping[str, Mapping[str, int]]) -> str:
    """The figures of a case as text.

    Parameters
    ----------
    seconds : mapping of str to sequence of float
        From `interleaved`.
    reference : str
        Contender that the quotients are over.
    memory : mapping of str to mapping
        From `peak_of`, for some or all contenders.

    Returns
    -------
    str
        One line a contender.
    """
    width = max(map(len, [*seconds, "peak extra"]))
    lines = [
        f"  {'':{width}}  {'median s':>9}  {'fastest':>9}  {'/ ' + reference:>14}  {'extra MiB':>9}  {'in all':>7}"
    ]
    base = statistics.median(seconds[reference])
    for name, figures in seconds.items():
        middle = statistics.median(figures)
        held = memory.get(name)
        extra, total = ("", "") if held is None else (f"{held['extra'] / MIB:.0f}", f"{held['total'] / MIB:.0f}")
        lines.append(
            f"  {name:{width}}  {middle:9.4f}  {min(figures):9.4f}  {middle / base:14.3f}  {extra:>9}  {total:>7}"
        )
    return "\n".join(lines)


def verdict(seconds: Mapping[str, Sequence[float]], target: Target) -> str:
    """Whether a target is met, in a line."""
    top = statistics.median(seconds[target.name])
    if target.over is None:
        value, what = top, f"{target.name} in seconds"
    else:
        value, what = top / statistics.median(seconds[target.over]), f"{target.name} / {target.over}"
    return f"  target: {what} at most {target.bound:g}: {value:.3f}, {'met' if value <= target.bound else 'NOT MET'}"
