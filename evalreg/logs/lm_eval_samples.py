"""One samples file of lm-evaluation-harness: scores of its documents by filter, and fields that may be clusters."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray
from evalreg.errors import LogFormatError
from evalreg.logs.lines import JsonLines, parse_json
from evalreg.logs.reading import Choice

# Keys of a line that are not scores; files from before the key "metrics" have every other key as one.
KEYS = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash")
OTHER_KEYS = frozenset({*KEYS, "prompt_hash", "target_hash", "task", "idx"})
LONGEST_LABEL, DEEPEST, MOST_FIELDS = 80, 3, 50
# After so many rows a field with more distinct values than this share of them is not a cluster, and is no longer kept.
PROBATION, MOST_DISTINCT = 1000, 0.9


class Part:
    """Documents of a file as one filter read their answers; columns grow by a row at a time."""

    def __init__(self, filter: str) -> None:
        self.filter = filter
        self.items: list[Any] = []
        self.docs, self.prompts, self.lines = array("q"), array("q"), array("q")
        self.scores: dict[str, array[float]] = {}
        self.kinds: dict[str, Counter[str]] = {}
        self.fields: dict[str, list[Any]] = {}
        self.dropped: set[str] = set()
        self.texts: dict[str, str] = {}  # equal labels share one text
        self.n_answers = 1

    def add(self, record: dict[str, Any], line: bytes, choice: Choice) -> None:
        """One more document."""
        before = len(self.items)
        self.items.append(record["doc_id"])
        self.docs.append(hash(str(record.get("doc_hash"))))
        self.prompts.append(hash(str(record.get("prompt_hash"))))
        # The end of a line holds the hashes and the scores.
        self.lines.append(hash((len(line), line[-2048:])))
        for name in _metric_names(record):
            if name not in self.scores:
                self.scores[name], self.kinds[name] = array("d", [math.nan]) * before, Counter()
        for name, column in self.scores.items():
            number, kind = _number(record.get(name))
            column.append(number)
            self.kinds[name][kind] += 1
        answers = record.get("resps")
        if isinstance(answers, list) and answers and isinstance(answers[0], list):
            self.n_answers = max(self.n_answers, len(answers[0]))
        self._add_fields(_fields(record, choice.columns), before, choice.columns is None)

    def _add_fields(self, found: Mapping[str, Any], before: int, trial: bool) -> None:
        for name in found:
            if name in self.fields or name in self.dropped:
                continue
            if len(self.fields) < MOST_FIELDS or not trial:
                self.fields[name] = [None] * before
        for name, column in self.fields.items():
            value = found.get(name)
            column.append(self.texts.setdefault(value, value) if isinstance(value, str) else value)
        if trial and before + 1 == PROBATION:
            useless = {name for name, column in self.fields.items() if len(set(column)) > MOST_DISTINCT * PROBATION}
            self.dropped |= useless
            self.fields = {name: column for name, column in self.fields.items() if name not in useless}

    def values(self, metric: str) -> FloatArray:
        """Scores by a metric, NaN where a document has none."""
        return np.frombuffer(self.scores[metric], dtype=np.float64)

    def item_column(self) -> pd.Series[Any]:
        """Ids of the documents: integers where all are, text otherwise."""
        plain = all(type(item) is int and abs(item) < 2**63 for item in self.items)
        return pd.Series(self.items if plain else [str(item) for item in self.items])

    def readable(self) -> list[str]:
        """Metrics that have a number for some document."""
        return [name for name, kinds in self.kinds.items() if kinds["number"]]


def read_samples(path: Path, choice: Choice) -> tuple[list[Part], int]:
    """Parts of a samples file, one a filter, and the number of lines that were broken."""
    parts: dict[str, Part] = {}
    lines = JsonLines(path, choice.broken, unique=("doc_id", *((choice.metric,) if choice.metric else ())))
    n_strange = 0
    for number, line, record in lines:
        if isinstance(record.get("doc_id"), float):
            record = parse_json(line)  # a number beyond 64 bits, unless it is a fraction
        if not isinstance(record.get("doc_id"), int | str):
            if choice.broken == "raise":
                raise LogFormatError(
                    f"Every line of a samples file has a `doc_id`, a number or text; line {number} "
                    f'of {path} has {record.get("doc_id")!r}. Remove that line, or pass broken="skip".',
                    rows=[number - 1],
                )
            n_strange += 1
            continue
        name = str(record.get("filter", ""))
        parts.setdefault(name, Part(name)).add(record, line, choice)
    return list(parts.values()), lines.n_broken + n_strange


def _metric_names(record: Mapping[str, Any]) -> list[str]:
    names = record.get("metrics")
    if isinstance(names, list):
        return [str(name) for name in names]
    return [key for key in record if key not in OTHER_KEYS]


def _number(value: Any) -> tuple[float, str]:
    """A value as a number, NaN where it is none, and what it is."""
    if isinstance(value, bool | int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number, "number"
        return math.nan, "infinite" if math.isinf(number) else "missing"
    if value is None:
        return math.nan, "missing"
    if isinstance(value, list):
        return math.nan, f"a list of {len(value)}"
    return math.nan, "text" if isinstance(value, str) else "an object"


def _fields(record: Mapping[str, Any], asked: tuple[str, ...] | None) -> dict[str, Any]:
    """Fields of a record by dotted names: those asked for, or what is short in its document."""
    if asked is not None:
        return {name: value for name in asked if (value := _named(record, name)) is not None}
    document = record.get("doc")
    return dict(_short(document, "doc", DEEPEST)) if isinstance(document, dict) else {}


def _short(document: Mapping[str, Any], above: str, depth: int) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in document.items():
        if isinstance(value, str):
            found.append((f"{above}.{key}", label(value)))
        elif isinstance(value, int):
            found.append((f"{above}.{key}", str(value) if abs(value) >= 2**63 else value))
        elif isinstance(value, dict) and depth > 1:
            found += _short(value, f"{above}.{key}", depth - 1)
    return found


def label(text: str) -> str:
    """A text as a label: itself where it is short, else its beginning with a digest that tells it from others."""
    if len(text) <= LONGEST_LABEL:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{text[:40]}... ({digest})"


def _named(record: Any, name: str) -> Any:
    """The value under a dotted name; a key may hold dots itself, and two readings of one name are an error."""
    found = list(_readings(record, name))
    if len(found) > 1:
        ways = " and ".join(" > ".join(keys) for keys, _ in found)
        raise LogFormatError(f'A name must mean one field; "{name}" may be {ways}. Leave it out of `columns`.')
    value = found[0][1] if found else None
    if isinstance(value, dict | list):
        raise LogFormatError(
            f'A field of `columns` holds one value; "{name}" holds '
            + (
                f"an object with the keys {', '.join(map(str, list(value)[:5]))}."
                if isinstance(value, dict)
                else "a list."
            )
        )
    return value


def _readings(record: Any, name: str) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(record, dict):
        return []
    found: list[tuple[tuple[str, ...], Any]] = [((name,), record[name])] if name in record else []
    places = [place for place, sign in enumerate(name) if sign == "."]
    for place in places:
        if name[:place] in record:
            below = _readings(record[name[:place]], name[place + 1 :])
            found += [((name[:place], *keys), value) for keys, value in below]
    return found
