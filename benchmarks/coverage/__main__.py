"""The command line of the simulation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.coverage.grid import GRIDS, select
from benchmarks.coverage.page import page, put_into
from benchmarks.coverage.run import run_grid
from benchmarks.coverage.tables import read


def main() -> int:
    """Run cells, or print tables of what was run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--grid", choices=sorted(GRIDS), default="short", help="which grid to run; short by default")
    parser.add_argument("--only", metavar="WORDS", help='cells whose name has all these words, as in "means G=5"')
    parser.add_argument("--workers", type=int, default=1, help="processes; the results do not depend on it")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results are, or will be")
    parser.add_argument("--list", action="store_true", help="print the names of the cells, and run nothing")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="print tables of the results in DIR as Markdown")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="draw figures of the results in DIR")
    parser.add_argument("--into", type=Path, metavar="PATH", help="the page of --tables, or the folder of --figures")
    parser.add_argument("--verify-peers", action="store_true", help="hold the peers' formulas against the packages")
    options = parser.parse_args()
    if options.verify_peers:
        from benchmarks.coverage.peers import verify

        return verify()
    if options.tables is not None:
        text = page(read(options.tables))
        print(text) if options.into is None else put_into(options.into, text)
        return 0
    if options.figures is not None:
        from benchmarks.coverage.figures import draw

        if options.into is None:
            parser.error("--into FOLDER says where the figures go")
        print(*draw(read(options.figures), options.into), sep="\n")
        return 0
    cells = select(GRIDS[options.grid](), options.only)
    if options.list:
        print(*(cell.name for cell in cells), sep="\n")
        return 0
    if options.out is None:
        parser.error("--out DIR says where the results go")
    return int(run_grid(cells, options.out, options.workers) > 0)


if __name__ == "__main__":
    sys.exit(main())
