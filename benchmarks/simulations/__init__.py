"""Coverage of intervals in simulated logs: how often an error bar holds what it promises.

    python -m benchmarks.simulations --grid full --workers 2 --out DIR     run the cells that DIR does not hold yet
    python -m benchmarks.simulations --tables DIR                          tables of what DIR holds, as Markdown

From the root of a checkout. See benchmarks/README.md.
"""

import os

# Small matrix products, one process a core: more threads would wait for each other. Set before numpy is imported.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
