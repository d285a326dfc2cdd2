"""The command line of the simulations.

python -m benchmarks.simulations --grid short --workers 2 --out DIR          seconds: does it run?
python -m benchmarks.simulations --grid full --workers 2 --out DIR           all that is published
python -m benchmarks.simulations --grid full --only "means G=5" --out DIR    some cells; --list names them
python -m benchmarks.simulations --publish DIR                               the table and the figures of the docs
python -m benchmarks.simulations --claims                                    the numbers quoted in the docs
python -m benchmarks.simulations --verify-peers                              formulas against installed packages
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.simulations.grid import GRIDS, select
from benchmarks.simulations.run import run_grid

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "coverage"


def main() -> int:
    """Run cells, publish what was run, or check what is quoted; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--grid", choices=sorted(GRIDS), default="short", help="which grid to run; short by default")
    parser.add_argument("--only", metavar="WORDS", help='cells whose name has all these words, as in "means G=5"')
    parser.add_argument("--workers", type=int, default=1, help="processes; the results do not depend on it")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results are, or will be")
    parser.add_argument("--list", action="store_true", help="print the names of the cells, and run nothing")
    parser.add_argument("--publish", type=Path, metavar="DIR", help="write the table and figures of the results in DIR")
    parser.add_argument("--claims", action="store_true", help="hold the numbers quoted in the docs against the table")
    parser.add_argument("--verify-peers", action="store_true", help="hold the peers' formulas against the packages")
    options = parser.parse_args()
    if options.verify_peers:
        from benchmarks.simulations.peers import verify

        return verify()
    if options.claims:
        from benchmarks.simulations.claims import check
        from benchmarks.simulations.table import read

        return check(read(PUBLISHED / "tables.csv"))
    if options.publish is not None:
        from benchmarks.simulations import figures, table

        table.write(table.tidy(options.publish), PUBLISHED / "tables.csv")
        figures.draw(table.read(PUBLISHED / "tables.csv"), PUBLISHED)
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
