"""Completion in bash, zsh and fish: the scripts are loaded by the shells themselves and asked what they complete."""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evalreg.cli import completion
from evalreg.cli.main import COMMANDS, build_parser

# Seconds, on a machine that does other work as well.
PATIENCE = 60.0
SHELLS = tuple(completion.SHELLS)
# What a person types, and the words that must be offered, or (after a space) what must not be.
OFFERED = {
    "evalreg ": ["compare", "leaderboard", "plan", "completion"],
    "evalreg comp": ["compare", "components", "completion"],
    "evalreg completion ": ["bash", "fish", "zsh"],
    "evalreg plan ": ["precision", "separate", "roles.toml", "my log.csv"],
    "evalreg plan precision --ha": ["--half-width"],
    "evalreg mean roles.toml --cov C": ["CR0", "CR1", "CR2", "CR3"],
    "evalreg mean --str": ["--strata", "--strata-weights"],
    "evalreg mean --format ": ["csv", "html", "json", "latex", "md", "text"],
    "evalreg report --format ": ["html", "json", "md", "tex"],
    "evalreg compare --adjust ": ["bonferroni", "fdr_bh", "holm", "single-step"],
    "evalreg --v": ["--version"],
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script for each shell, as the command prints it."""
    folder = tmp_path_factory.mktemp("scripts")
    for shell in SHELLS:
        options = build_parser(["completion", shell]).parse_args(["completion", shell])
        (folder / shell).write_text(options.run(options), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files whose names may be completed, one with a space."""
    folder = tmp_path_factory.mktemp("work")
    for name in ("roles.toml", "my log.csv"):
        (folder / name).touch()
    (folder / "runs").mkdir()
    return folder


def bash(scripts: Path, work: Path, typed: list[list[str]]) -> list[list[str]]:
    """What bash has to offer for each line of words, the last of which is being typed."""
    lines = [
        f"COMP_WORDS=({' '.join(map(quoted, words))}); COMP_CWORD={len(words) - 1}; _evalreg; "
        'printf "%s\\x1f" "${COMPREPLY[@]}"; printf "\\x1e"'
        for words in typed
    ]
    code = "\n".join([f"source {quoted(str(scripts / 'bash'))}", *lines])
    done = subprocess.run(["bash", "-c", code], cwd=work, capture_output=True, text=True, check=True)
    assert not done.stderr
    return [[word for word in found.split("\x1f") if word] for found in done.stdout.split("\x1e")[:-1]]


def quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself_finds_the_script_in_order(shell, scripts):
    needs(shell)
    done = subprocess.run([shell, "-n", str(scripts / shell)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("line", OFFERED)
def test_bash_offers_what_may_come_next(line, scripts, work):
    needs("bash")
    (found,) = bash(scripts, work, [line.split(" ")])
    assert set(OFFERED[line]) <= set(found)
    if set(OFFERED[line]) != {"compare", "leaderboard", "plan", "completion"}:
        assert {word for word in found if not Path(work / word).exists()} <= set(OFFERED[line])


@pytest.mark.parametrize("line", OFFERED)
def test_fish_offers_what_may_come_next(line, scripts, work):
    needs("fish")
    # A description is behind a tab; fish quotes a name with a space when it puts it in.
    found = {word.split("\t")[0].replace("\\ ", " ") for word in fish(scripts, work, line)}
    assert set(OFFERED[line]) <= found
    if line != "evalreg ":
        assert {word for word in found if not Path(work / word).exists()} <= set(OFFERED[line])


def fish(scripts: Path, work: Path, line: str) -> list[str]:
    code = f"source {quoted(str(scripts / 'fish'))}; complete -C {quoted(line)}"
    environment = {**os.environ, "HOME": str(work), "XDG_CONFIG_HOME": str(work / ".config")}
    done = subprocess.run(
        ["fish", "--no-config", "-c", code], cwd=work, capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.splitlines()


def options_of(name: str) -> list[argparse.Action]:
    commands = next(action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return commands.choices[name]._actions


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_and_every_choice_is_offered(name, scripts, work):
    needs("bash")
    words = ["evalreg", *name.split()]
    actions = [action for action in options_of(name) if action.option_strings]
    typed = [[*words, "-"], *([*words, action.option_strings[-1], ""] for action in actions if action.nargs != 0)]
    options, *values = bash(scripts, work, typed)
    assert set(options) == {word for action in actions for word in action.option_strings}
    for action, found in zip((action for action in actions if action.nargs != 0), values, strict=True):
        assert set(found) == {*(action.choices or ()), *vars(action).get("offered", ())}, action.option_strings


def test_what_follows_a_sign_of_equality_is_completed_too(scripts, work):
    needs("bash")
    assert bash(scripts, work, [["evalreg", "mean", "--format", "=", "j"]]) == [["json"]]
    assert set(bash(scripts, work, [["evalreg", "mean", "--missing", "="]])[0]) == {"drop", "raise"}


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("fit", ("score ~ 1", "no.csv")),
        ("mean", ("no.csv",)),
        ("compare", ("no.csv",)),
        ("leaderboard", ("no.csv",)),
    ],
)
def test_values_that_are_offered_are_those_that_a_wrong_one_is_refused_for(command, rest, call):
    free = {"--standardise", "--strata-weights", "--dof"}  # which take numbers as well
    for action in options_of(command):
        values = vars(action).get("offered")
        if values is None or free & set(action.option_strings):
            continue
        method = ["--method", "bradley-terry"] if action.dest in ("ties", "scale") else []
        status, _, said = call(command, *rest, *method, action.option_strings[-1], "nonsense")
        assert status == 3
        assert set(values) <= set(re.findall(r'"([^"]+)"', said)), said


# In a terminal, by the tab key.


@pytest.fixture(scope="module")
def terminal(work: Path) -> Iterator[Callable[..., list[str]]]:
    """Types a line and the tab key into an interactive shell, and gives back the words that it made of it.

    A shell that has loaded the script takes one line after the other.
    """
    pty = pytest.importorskip("pty")
    shells: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    def started(arguments: list[str], load: str) -> tuple[subprocess.Popen[bytes], int]:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "HOME": str(work), "PS1": "", "COLUMNS": "400"}
        process = subprocess.Popen(
            arguments, stdin=theirs, stdout=theirs, stderr=theirs, cwd=work, env=environment, start_new_session=True
        )
        os.close(theirs)
        # What is typed is shown too, so the words that are waited for are written in two parts.
        os.write(ours, f"{load}; bind 'set bell-style none' 2> /dev/null; echo rea''dy\n".encode())
        read_until(ours, "ready")
        return process, ours

    def typed(arguments: list[str], load: str, line: str) -> list[str]:
        if load not in shells:
            shells[load] = started(arguments, load)
        _, ours = shells[load]
        os.write(ours, f"{line}\t".encode())
        # To the start of the line, where a command that prints its words goes.
        os.write(ours, b"\x01printf '<%s>' \x05; echo do''ne\n")
        shown = read_until(ours, "done")
        return re.findall(r"<([^<>]*)>", shown.rsplit("<evalreg>", 1)[1])

    yield typed
    for process, ours in shells.values():
        process.kill()
        process.wait()
        os.close(ours)


def read_until(stream: int, word: str) -> str:
    """What is shown until a word comes."""
    shown, end = b"", time.monotonic() + PATIENCE
    while word.encode() not in shown:
        assert time.monotonic() < end, f"waited for {word!r} and saw {shown!r}"
        if select.select([stream], [], [], 1)[0]:
            shown += os.read(stream, 65536)
    return shown.decode("utf-8", "replace")


IN_A_TERMINAL = {
    "mean rol": ["mean", "roles.toml"],
    "mean my": ["mean", "my log.csv"],
    "mean --cov ja": ["mean", "--cov", "jackknife"],
    "mean --cov=ja": ["mean", "--cov=jackknife"],
    "fit score my": ["fit", "score", "my log.csv"],
    "mean --roles rol": ["mean", "--roles", "roles.toml"],
    "plan sep": ["plan", "separate"],
    "plan rol": ["plan", "roles.toml"],
    "plan precision --ha": ["plan", "precision", "--half-width"],
    "demo --write ru": ["demo", "--write", "runs/"],
    # A column is not guessed, nor is a file where none is due.
    "mean --groups rol": ["mean", "--groups", "rol"],
    "fit rol": ["fit", "rol"],
    "demo --write rol": ["demo", "--write", "rol"],
}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("line", IN_A_TERMINAL)
def test_the_tab_key_completes(shell, line, scripts, terminal):
    needs(shell)
    start = {
        "bash": (["bash", "--norc", "--noprofile", "-i"], f"source {scripts / 'bash'}"),
        "zsh": (["zsh", "-f", "-i"], f"autoload -U compinit; compinit -D; source {scripts / 'zsh'}"),
    }
    found = terminal(*start[shell], f"evalreg {line}")
    assert [word.removesuffix("/") for word in found] == [word.removesuffix("/") for word in IN_A_TERMINAL[line]]


def test_zsh_finds_the_script_by_its_name_in_fpath(scripts, tmp_path, terminal):
    needs("zsh")
    shutil.copy(scripts / "zsh", tmp_path / "_evalreg")
    load = f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -D"
    found = terminal(["zsh", "-f", "-i"], load, "evalreg plan precision --ha")
    assert found == ["plan", "precision", "--half-width"]


def test_the_command_prints_the_script_and_refuses_another_shell(scripts, call):
    assert call("completion", "fish")[1] == (scripts / "fish").read_text(encoding="utf-8")
    status, out, said = call("completion", "tcsh")
    assert (status, out) == (3, "")
    assert all(shell in said for shell in SHELLS)


def test_descriptions_hold_whatever_a_help_may_say():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--odd", metavar="A:B", help='it\'s "a" [b]: $c `d` \\ e %% f')
    taken = completion.Taken("it's", completion.arguments_of(parser), [], {})
    own = {"": taken, "one": taken, "one two": taken}
    scripts = {shell: make(own) for shell, make in completion.SHELLS.items()}
    for shell, script in scripts.items():
        if shutil.which(shell) is not None:
            done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, ""), json.dumps([shell, script])
