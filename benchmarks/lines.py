"""JSON lines with long answers and with short records: the readers, and parsers on the same generated file.

python benchmarks/lines.py
python benchmarks/lines.py --quick
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import evalreg as er
from benchmarks._measure import MIB, Contender, interleaved, peak_of, table
from evalreg.logs import lines
from evalreg.logs.table import read_table


def write(path: Path, n_rows: int) -> None:
    """A samples file, some 9 kB a line: answers with line breaks, quotes and letters beyond ASCII."""
    rng = random.Random(1)
    words = ["the", "answer", "is", "\n", '"quoted"', "forty", "two", "because", "é", "model", "thought"]
    texts = [" ".join(rng.choices(words, k=700)) for _ in range(50)]
    with path.open("w", encoding="utf-8") as file:
        for i in range(n_rows):
            line = {
                "doc_id": i,
                "doc": {"question": texts[i % 50][:400], "subject": f"s{i % 7}"},
                "arguments": {"gen_args_0": {"arg_0": texts[7 * i % 50]}},
                "resps": [[texts[3 * i % 50]]],
                "filtered_resps": ["4"],
                "filter": "none",
                "metrics": ["exact_match"],
                "doc_hash": f"{i:064x}",
                "prompt_hash": f"{i:064x}",
                "exact_match": float(i % 2),
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def write_short(path: Path, n_rows: int) -> None:
    """A table in JSON lines, some 160 bytes a line."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(n_rows):
            line = {
                "item": f"question-{i % 5000:05d}",
                "model": f"vendor/model-{i % 20}-instruct",
                "score": float(i % 3 == 0),
                "passage": f"passage {i % 700}",
                "time": "2025-06-01T10:20:30Z",
                "meta": {"subject": f"s{i % 7}"},
            }
            file.write(json.dumps(line) + "\n")


def short_records(folder: Path, n_rows: int, repeat: int) -> None:
    """Print the table of short records, of which two columns are kept."""
    import orjson

    path = folder / "short.jsonl"
    write_short(path, n_rows)
    contenders = {
        "json": Contender(lambda _: parse_all(path, json.loads)),
        "orjson": Contender(lambda _: parse_all(path, orjson.loads)),
        "read_table": Contender(lambda _: read_table(path, keep=["score", "passage"])),
    }
    size = os.path.getsize(path) / 1e6
    print(f"short records, {size:.0f} MB")
    seconds = interleaved(contenders, repeat)
    print(table(seconds, "json", {"read_table": peak_of(contenders["read_table"])}))
    for name, figures in seconds.items():
        print(f"  {name}: {size / min(figures):.0f} MB/s at best")


def with_arrow(path: Path) -> None:
    """The fields in use by pyarrow, whose schema must be known and whose lines are all of one shape."""
    import pyarrow as pa
    from pyarrow import json as reader

    document = pa.struct([("subject", pa.string())])
    schema = pa.schema(
        [("doc_id", pa.int64()), ("filter", pa.string()), ("exact_match", pa.float64()), ("doc", document)]
    )
    reader.read_json(
        str(path),
        read_options=reader.ReadOptions(use_threads=False, block_size=8 * MIB),
        parse_options=reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def parse_all(path: Path, parse: object) -> None:
    """Every line as an object, nothing kept."""
    with path.open("rb", buffering=lines.BUFFER) as file:
        for line in file:
            parse(line)  # type: ignore[operator]


def read(path: Path, fast: bool) -> None:
    """The reader of evalreg, with orjson or as if it were not installed."""
    with mock.patch.object(lines, "fast_loads", lines.fast_loads if fast else lambda: None):
        er.read_log(path)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    import orjson

    with tempfile.TemporaryDirectory() as folder:
        short_records(Path(folder), 100_000 if quick else 1_000_000, 3 if quick else 5)
        path = Path(folder) / "samples_sums_2025-06-01T10-20-30.jsonl"
        write(path, 2_000 if quick else 20_000)
        contenders = {
            "json": Contender(lambda _: parse_all(path, json.loads)),
            "orjson": Contender(lambda _: parse_all(path, orjson.loads)),
            "pyarrow": Contender(lambda _: with_arrow(path)),
            "read_log, json": Contender(lambda _: read(path, fast=False)),
            "read_log, orjson": Contender(lambda _: read(path, fast=True)),
        }
        seconds = interleaved(contenders, 3 if quick else 7)
        memory = {name: peak_of(contenders[name]) for name in ("read_log, orjson", "pyarrow")}
        size = os.path.getsize(path) / 1e6
        print(f"{size:.0f} MB")
        print(table(seconds, "json", memory))
        for name, figures in seconds.items():
            print(f"  {name}: {size / min(figures):.0f} MB/s at best")


if __name__ == "__main__":
    main()
