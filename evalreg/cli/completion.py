"""``evalreg completion``: a script by which a shell completes commands, options, values and names of files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from evalreg.cli.shared import listed

EPILOG = """\
Write the script once, and again after an update, where the shell finds it:

  evalreg completion bash \\
      > ~/.local/share/bash-completion/completions/evalreg
  evalreg completion zsh > ~/.zfunc/_evalreg
  evalreg completion fish > ~/.config/fish/completions/evalreg.fish

The folder has to exist. For bash without the package bash-completion, write the
file anywhere and put `source FILE` into ~/.bashrc. For zsh, put this into
~/.zshrc before compinit is called: fpath=(~/.zfunc $fpath)
"""

# What may stand in a place: one of some words, a file, a folder, or a text that nothing is known of.
Kind = Literal["words", "file", "folder", "text"]
# Longer descriptions would fill the screen with a few options.
LONGEST = 72


@dataclass(frozen=True)
class Argument:
    """An option, or an argument that is known by its place."""

    names: tuple[str, ...]  # of an option, such as -o and --output; none of an argument
    meaning: str
    value: str  # what its help calls the value; empty for an option without one
    kind: Kind
    words: tuple[str, ...]  # the values that are known
    many: bool  # whether it may be given again


@dataclass(frozen=True)
class Taken:
    """What a command takes."""

    purpose: str
    options: list[Argument]
    places: list[Argument]
    further: dict[str, str]  # the second words of commands that begin alike, as plan precision, and their purposes


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its argument."""
    parser.description = "A script by which bash, zsh or fish completes what is typed after evalreg."
    parser.add_argument("shell", choices=list(SHELLS), help="the shell that completes")


def run(options: argparse.Namespace) -> str:
    """What ``evalreg completion`` prints."""
    return SHELLS[options.shell](commands())


def commands() -> dict[str, Taken]:
    """What each command takes by its name; the empty name is evalreg alone."""
    from evalreg.cli.main import COMMANDS, build_parser

    whole = build_parser()
    own = next(action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    parsers = {"": ("", whole), **{name: (purpose, own.choices[name]) for name, purpose in COMMANDS.items()}}
    found = {}
    for name, (purpose, parser) in parsers.items():
        taken = arguments_of(parser)
        start = f"{name} ".lstrip()
        further = {word[len(start) :]: about for word, about in COMMANDS.items() if word.startswith(start)}
        further = {word: about for word, about in further.items() if " " not in word}
        found[name] = Taken(
            purpose, [one for one in taken if one.names], [one for one in taken if not one.names], further
        )
    return found


def arguments_of(parser: argparse.ArgumentParser) -> list[Argument]:
    """The options and the arguments of a parser, but not its commands."""
    return [_argument(action) for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]


def _argument(action: argparse.Action) -> Argument:
    words = tuple(str(word) for word in action.choices or vars(action).get("offered", ()))
    value = "" if action.nargs == 0 else str(action.metavar or action.dest)
    kinds: dict[str, Kind] = {"FILE": "file", "ROLES": "file", "DIR": "folder"}  # roles may be pairs too
    meaning = " ".join(((action.help or "") % {**vars(action), "prog": "evalreg"}).split())
    # The values are shown beside their description, which lists them too.
    meaning = meaning.removeprefix(listed(words)).lstrip(":, ") if len(words) > 1 else meaning
    if len(meaning) > LONGEST:
        meaning = meaning[: LONGEST - 3].rsplit(" ", 1)[0].rstrip(",;:(") + "..."
    kind = "words" if words else kinds.get(value, "text")
    many = action.nargs == "+" or isinstance(action, argparse._AppendAction)
    return Argument(tuple(action.option_strings), meaning, value, kind, words, many)


def _in_place(found: dict[str, Taken]) -> Iterator[tuple[str, str, Argument]]:
    """A command, "first" or "later", and the argument that is due there."""
    for name, taken in found.items():
        places = taken.places[:2]
        yield from ((name, when, place) for when, place in zip(("first", "later"), places, strict=False))
        if len(places) == 1 and places[0].many:
            yield name, "later", places[0]


_BASH = """\
# Completion of evalreg in bash, made by `evalreg completion bash`.
_evalreg() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD - 1]}" first=2
    local command="" when=later options="" kind="" words=""
    COMPREPLY=()
    # The sign in --option=value is a word of its own here.
    if [ "$word" = = ]; then word=""; elif [ "$before" = = ]; then before="${COMP_WORDS[COMP_CWORD - 2]}"; fi
    [ "$COMP_CWORD" -gt 1 ] && command="${COMP_WORDS[1]}" || first=1
    if [ "$COMP_CWORD" -gt 2 ]; then
        case "$command ${COMP_WORDS[2]}" in @TWO@) command="$command ${COMP_WORDS[2]}"; first=3 ;; esac
    fi
    [ "$COMP_CWORD" -eq "$first" ] && when=first
    case "$command" in
@OPTIONS@
    esac
    case "$command $before" in
@VALUES@
    esac
    if [ -z "$kind" ]; then
        case "$word" in -*) kind=words words="$options" ;; esac
    fi
    if [ -z "$kind" ]; then
        case "$command $when" in
@PLACES@
        esac
    fi
    [ -z "$words" ] || COMPREPLY=($(compgen -W "$words" -- "$word"))
    # Without words readline completes the names of files, which bash 3.2 cannot be told not to do.
    case "$kind" in
        file) ;;
        both)
            local IFS=$'\n'
            COMPREPLY+=($(compgen -f -- "$word"))
            compopt -o filenames 2> /dev/null
            ;;
        folder) compopt +o default -o dirnames 2> /dev/null ;;
        *) compopt +o default 2> /dev/null ;;
    esac
    return 0
}
complete -o default -F _evalreg evalreg
"""


def bash(found: dict[str, Taken]) -> str:
    """The script for bash."""
    options = [
        f'        "{name}") options="{" ".join(word for one in taken.options for word in one.names)}" ;;'
        for name, taken in found.items()
    ]
    values: dict[str, list[str]] = {}
    for name, taken in found.items():
        for one in taken.options:
            if one.value:
                values.setdefault(_setting(one), []).extend(f"{name} {word}" for word in one.names)
    places: dict[str, list[str]] = {}
    for name, when, one in _in_place(found):
        if when == "later" or not found[name].further:
            places.setdefault(_setting(one), []).append(f"{name} {when}")
    for name, taken in found.items():
        if taken.further:
            kind = "both" if taken.places else "words"
            places[f'kind={kind} words="{" ".join(taken.further)}"'] = [f"{name} first"]
    return _filled(
        _BASH,
        TWO="|".join(f'"{name}"' for name in found if " " in name),
        OPTIONS="\n".join(options),
        VALUES="\n".join(_case(wanted, setting, 8) for setting, wanted in values.items()),
        PLACES="\n".join(_case(wanted, setting, 12) for setting, wanted in places.items()),
    )


def _setting(one: Argument) -> str:
    return f'kind={one.kind} words="{" ".join(one.words)}"'


def _case(wanted: list[str], setting: str, indent: int) -> str:
    return f"{' ' * indent}{'|'.join(f'{chr(34)}{text}{chr(34)}' for text in wanted)}) {setting} ;;"


def _filled(script: str, **parts: str) -> str:
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
    return script


_ZSH = """\
#compdef evalreg
# Completion of evalreg in zsh, made by `evalreg completion zsh`.
@WITHIN@

_evalreg() {
    local command=""
    if (( CURRENT > 2 )); then
        command=$words[2]
        shift words
        (( CURRENT-- ))
    fi
    if (( CURRENT > 2 )) && [[ "$command $words[2]" == (@TWO@) ]]; then
        command="$command $words[2]"
        shift words
        (( CURRENT-- ))
    fi
    case $command in
@SPECS@
    esac
}

# Found in fpath it is called to complete; read by `source` it says what it completes.
if [[ $funcstack[1] == _evalreg ]]; then _evalreg "$@"; else compdef _evalreg evalreg; fi
"""
_ZSH_ACTIONS: dict[Kind, str] = {"file": "_files", "folder": "_path_files -/", "text": " ", "words": ""}


def zsh(found: dict[str, Taken]) -> str:
    """The script for zsh."""
    within, specs = [], []
    for name, taken in found.items():
        lines = [f"_arguments -s : {' '.join(_zsh_option(one) for one in taken.options)}"]
        for when, one in ((when, one) for own, when, one in _in_place(found) if own == name):
            lines.append(_quoted(f"{'1' if when == 'first' else '*'}:{one.value}:{_zsh_action(one)}"))
        if taken.further:
            function = f"_evalreg_{name or 'commands'}"
            lines[1:] = [_quoted(f"1:command:{function}"), *lines[2:]]
            known = " ".join(_quoted(f"{word}:{about}") for word, about in taken.further.items())
            files = "\n    _files" if taken.places else ""
            within.append(f"{function}() {{\n    local -a known=({known})\n    _describe command known{files}\n}}")
        specs.append(f'        "{name}") {" ".join(lines)} ;;')
    two = "|".join(f'"{name}"' for name in found if " " in name)
    return _filled(_ZSH, WITHIN="\n".join(within), TWO=two, SPECS="\n".join(specs))


def _zsh_option(one: Argument) -> str:
    marks = {True: "+", False: "="}
    names = [f"{name}{marks[len(name) == 2] if one.value else ''}" for name in one.names]
    about = "".join(f"\\{mark}" if mark in "[]\\" else mark for mark in one.meaning)
    value = f":{one.value.replace(':', chr(92) + ':')}:{_zsh_action(one)}" if one.value else ""
    only = "*" if one.many else f"({' '.join(one.names)})"
    return " ".join(_quoted(f"{only}{name}[{about}]{value}") for name in names)


def _zsh_action(one: Argument) -> str:
    return _ZSH_ACTIONS[one.kind] or f"({' '.join(one.words)})"


def _quoted(text: str) -> str:
    """Text in single quotes, for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


_FISH = """\
# Completion of evalreg in fish, made by `evalreg completion fish`.
function __evalreg_in --description 'Whether one of these commands is being typed; "first": its first argument'
    set -l typed (commandline -opc)
    set -l command $typed[2]
    set -l n 2
    if test (count $typed) -gt 2; and contains -- "$typed[2] $typed[3]" @TWO@
        set command "$typed[2] $typed[3]"
        set n 3
    end
    test (count $typed) -gt 1; or set n 1
    switch "$argv[1]"
        case first
            test (count $typed) -eq $n; or return 1
        case later
            test (count $typed) -gt $n; or return 1
    end
    contains -- "$command" $argv[2..-1]
end
complete -c evalreg -e
complete -c evalreg -f
@LINES@
"""
_FISH_ACTIONS: dict[Kind, str] = {"file": "-r -F", "folder": "-x -a '(__fish_complete_directories)'", "text": "-x"}


def fish(found: dict[str, Taken]) -> str:
    """The script for fish."""
    lines: list[str] = []
    options: dict[str, list[str]] = {}
    for name, taken in found.items():
        for one in taken.options:
            names = " ".join(f"-{'s' if len(word) == 2 else 'l'} {word.lstrip('-')}" for word in one.names)
            action = _FISH_ACTIONS.get(one.kind) or f"-x -a {_fish_quoted(' '.join(one.words))}"
            wanted = f"{names}{f' {action}' if one.value else ''} -d {_fish_quoted(one.meaning)}"
            options.setdefault(wanted, []).append(name)
        for word, about in taken.further.items():
            lines.append(_fish_line("first", [name], f"-a {word} -d {_fish_quoted(about)}"))
    for name, when, one in _in_place(found):
        if one.kind in ("file", "words"):
            wanted = "-F" if one.kind == "file" else f"-a {_fish_quoted(' '.join(one.words))}"
            lines.append(_fish_line(when, [name], wanted))
    lines += [_fish_line("any", names, wanted) for wanted, names in options.items()]
    two = " ".join(_fish_quoted(name) for name in found if " " in name)
    return _filled(_FISH, TWO=two, LINES="\n".join(lines))


def _fish_line(when: str, names: list[str], wanted: str) -> str:
    condition = f"__evalreg_in {when} {' '.join(chr(34) + name + chr(34) for name in names)}"
    return f"complete -c evalreg -n {_fish_quoted(condition)} {wanted}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[dict[str, Taken]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
