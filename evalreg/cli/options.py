"""The options of a command: names, types, choices and help of the public functions' own parameters.

Signatures and docstrings are read from the source and not imported: a page of help loads no data frames.
"""

from __future__ import annotations

import ast
import csv
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import evalreg
from evalreg import choices
from evalreg.errors import ArgumentError

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Option:
    """One parameter of a function, or what only the command line has."""

    name: str
    annotation: str  # with aliases written out
    default: Any = None
    required: bool = False
    help: str = ""
    choices: tuple[str, ...] = ()
    needs: str = ""  # the option without which it has no effect

    @property
    def flag(self) -> str:
        """How it is typed; a flag that is on by default is switched off."""
        flag = self.name.replace("_", "-")
        return f"--no-{flag}" if self.annotation == "bool" and self.default is True else f"--{flag}"

    @property
    def is_number(self) -> bool:
        """Whether it takes numbers."""
        return bool(re.search(r"\b(float|int)\b", self.annotation))

    @property
    def is_list(self) -> bool:
        """Whether commas separate several values."""
        return bool(re.search(r"list\[|Sequence|Iterable", self.annotation))

    @property
    def summary(self) -> str:
        """The first sentence of its help."""
        return re.split(r"(?<=\.)\s", self.help, maxsplit=1)[0]

    def read(self, text: str) -> Any:
        """The value that a text stands for, by the annotation."""
        if text in self.choices:
            return text
        if self.choices and "Mapping" not in self.annotation and "float" not in self.annotation:
            raise refused(self, text)
        if text.lower() in ("true", "false") and "bool" in self.annotation:
            return text.lower() == "true"
        if text.lower() == "none" and (self.annotation == "Any" or "None" in self.annotation):
            return None
        if "Mapping" in self.annotation and "=" in text:
            pairs = mapping(text)
            has_none = "None]" in self.annotation
            return {name: None if has_none and str(v).lower() in ("none", "null") else v for name, v in pairs.items()}
        if not (self.is_list or self.is_number):
            return text
        values = [number(part) if self.is_number else part for part in (words(text) if self.is_list else [text])]
        has_text = re.search(r"\b(str|Any)\b", self.annotation)
        for value in values:
            if isinstance(value, str) and not has_text:
                raise refused(self, value)
        is_one = not self.is_list or (len(values) == 1 and re.search(r"\bstr \|", self.annotation))
        return values[0] if is_one else values


def refused(option: Option, text: str) -> ArgumentError:
    """The refusal of a value, with those that there are."""
    several = f"one of {', '.join(option.choices)}{' or a number' * option.is_number}"
    rule = f"be {several if option.choices else 'a number'}"
    from evalreg.checks import nearest  # loads numpy, which a command line in order does not need

    hint = nearest(text, option.choices)
    return ArgumentError(f'`{option.name}` must {rule}; got "{text}".{hint}', parameter=option.name)


def number(text: str) -> int | float | str:
    """A text as a number where it is one."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def words(text: str) -> list[str]:
    """Names separated by commas; one that holds a comma, or has blanks around it, stands in double quotes."""
    try:
        read = next(csv.reader([text], skipinitialspace=True, strict=True), []) if set(text) & {",", '"'} else [text]
    except csv.Error:
        read = []
    names = [name if name == text or _quoted(name) in text else name.strip() for name in read]
    if not all(map(str.strip, names)) or not names:
        raise ArgumentError(
            f'names are separated by commas, as in "a,b"; one with a comma stands in double quotes; got "{text}".'
        )
    return names


def mapping(text: str) -> dict[str, Any]:
    """Pairs such as ``law=1,math=2`` or ``A=left,error=``, where nothing is None."""
    pairs: dict[str, Any] = {}
    for part in words(text):
        name, sign, value = part.rpartition("=")
        if not sign or not name or name in pairs:
            raise ArgumentError(f'pairs must read like "a=1,b=2", each name once; got "{text}".')
        pairs[name] = number(value) if value else None
    return pairs


def typed_value(value: Any) -> str:
    """A value as it is typed: what `mapping` reads, of a mapping; what `words` reads, of a list."""
    if isinstance(value, dict):
        value = [f"{key}={'none' if entry is None else entry}" for key, entry in value.items()]
    if not isinstance(value, list):
        return "none" if value is None else str(value)
    plain = re.compile(r'(?!\s)[^,"]*(?<!\s)')
    return ",".join(name if plain.fullmatch(name) else _quoted(name) for name in map(str, value))


def _quoted(name: str) -> str:
    """A name between double quotes, those in it twice."""
    return '"' + name.replace('"', '""') + '"'


# From the source of a function

# The end of what begins in the first column: a line that is neither indented nor a closing bracket.
_END = r"(?=^[^\s)\]}]|\Z)"


@cache
def _head(path: Path) -> ast.Module:
    """The imports and the aliases of types of a module; to parse all of it takes ten times as long."""
    text = path.read_text(encoding="utf-8") + "\n@"
    head, _, rest = re.split(r"^(def|class|@)", text, maxsplit=1, flags=re.MULTILINE)
    return ast.parse("".join([head, *re.findall(rf"^\w+: TypeAlias = .*?{_END}", rest, re.DOTALL | re.MULTILINE)]))


def _file_of(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split("."))
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"


@cache
def options_of(function: str) -> tuple[Option, ...]:
    """The options of a public function, "mean" or "plan.precision", as its source has them."""
    room, _, name = function.rpartition(".")
    home = _imported_from(_file_of(evalreg._HOMES[room]), name) if room else evalreg._HOMES[name]
    path = _file_of(home)
    text = path.read_text(encoding="utf-8")
    # Of overloads the last is the function.
    written = re.findall(rf"^def {name}\(.*?{_END}", text, re.DOTALL | re.MULTILINE)
    (node,) = ast.parse(written[-1]).body
    assert isinstance(node, ast.FunctionDef)
    return tuple(_read(node, _head(path)))


def _imported_from(path: Path, name: str) -> str:
    """The module of evalreg that a file takes a name from: several may have a function of that name."""
    for node in _head(path).body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return str(node.module).removeprefix("evalreg.")
    raise LookupError(name)


def _read(node: ast.FunctionDef, tree: ast.Module) -> Iterator[Option]:
    described = parameters(inspect.cleandoc(ast.get_docstring(node) or ""))
    plain = [*node.args.posonlyargs, *node.args.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(node.args.defaults))
    defaults = [*missing, *node.args.defaults, *node.args.kw_defaults]
    arguments = [(*pair, tree) for pair in zip([*plain, *node.args.kwonlyargs], defaults, strict=True)]
    if node.args.kwarg is not None:  # stars stand for what estimators share: rows to choose, and what comes last
        at = [argument.arg for argument, *_ in arguments].index("missing")
        subset, *last = _shared(ast.unparse(node.args.kwarg).partition("Unpack[")[2].rstrip("]"))
        arguments = [*arguments[:at], subset, *arguments[at:], *last]
    for argument, default, home in arguments:
        annotation = _written_out(argument.annotation, home)
        yield Option(
            argument.arg,
            annotation,
            None if default is None else _literal(default),
            default is None,
            re.sub(r'(?<!: )\{"[^{}]*\}', _as_typed, described.get(argument.arg, "")),
            tuple(re.findall(r"'([^']*)'", " ".join(re.findall(r"Literal\[([^\]]*)\]", annotation)))),
        )


def _shared(kind: str) -> list[tuple[ast.arg, ast.expr | None, ast.Module]]:
    """The options of a record of `choices`, None where left out."""
    hints, home = getattr(choices, kind).__annotations__, _head(_file_of("choices"))
    written = {name: ast.parse(hint.__forward_arg__, mode="eval").body for name, hint in hints.items()}
    return [(ast.arg(name, annotation), ast.Constant(None), home) for name, annotation in written.items()]


def _as_typed(written: re.Match[str]) -> str:
    """A dict in a docstring, as it is typed."""
    return typed_value(ast.literal_eval(written[0]))


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:  # a constant's name
        return ast.unparse(node)


def _written_out(annotation: ast.expr | None, tree: ast.Module, depth: int = 3) -> str:
    """An annotation with the aliases of evalreg in it replaced by what they stand for."""
    if annotation is None:
        return ""
    text = ast.unparse(annotation)
    for name in dict.fromkeys(re.findall(r"\b[A-Z]\w+\b", re.sub(r"'[^']*'", "", text))):
        meaning = _alias(name, tree, depth)
        if meaning:
            text = meaning.join(re.split(rf"\b{name}\b", text))
    return text


def _alias(name: str, tree: ast.Module, depth: int) -> str:
    for node in tree.body if depth else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return _written_out(node.value, tree, depth - 1)
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            module = node.module or ""
            home = module.removeprefix("evalreg.")
            return _alias(name, _head(_file_of(home)), depth) if home != module else ""
    return ""


def parameters(docstring: str) -> dict[str, str]:
    """What a numpydoc docstring says of each parameter."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    descriptions: dict[str, str] = {}
    for entry in re.finditer(
        r"^(\w[\w, ]*?) :[^\n]*\n((?:[ ]+[^\n]*\n?|\n)*)", section[1] if section else "", re.MULTILINE
    ):
        text = " ".join(entry[2].split()).replace("``", "").replace("`", "")
        descriptions |= dict.fromkeys((name.strip() for name in entry[1].split(",")), text)
    return descriptions
