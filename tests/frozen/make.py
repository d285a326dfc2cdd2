"""Write the frozen numbers anew: `python tests/frozen/make.py`. A change in the file is a change in what users get."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from frozen.calls import RANKED, calls, frame, made

FILE = Path(__file__).with_name("numbers.json")
DIGITS = 12


def _rounded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [None if not np.isfinite(x) else float(f"{x:.{DIGITS}g}") for x in value.tolist()]
    return value


def main() -> None:
    """One line an entry, so that a change reads well."""
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, of, call in calls():
            ranked = name.split(" | ")[0] in RANKED and name.endswith("| ")
            entry = {key: _rounded(value) for key, value in made(call, frame(of), ranked).items()}
            lines.append(f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(lines)} entries, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
