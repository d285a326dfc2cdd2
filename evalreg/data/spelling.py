"""Labels that differ by blanks, case or the encoding of letters alone, and seem to be two spellings of one name."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable


def spelled_alike(labels: Iterable[object]) -> list[tuple[str, str]]:
    """Pairs of an earlier label and a later one that is spelled alike; only texts are looked at."""
    first: dict[str, str] = {}
    found = []
    for label in labels:
        if isinstance(label, str):
            one = first.setdefault("".join(unicodedata.normalize("NFKC", label).casefold().split()), label)
            if one != label:
                found.append((one, label))
    return found


def quoted_pair(pair: tuple[str, str]) -> str:
    """The two spellings, in quotes: "p0" and "p0 "."""
    return " and ".join(json.dumps(label, ensure_ascii=False) for label in pair)
