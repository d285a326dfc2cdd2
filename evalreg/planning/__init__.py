"""How many questions, how many answers to each, how many clusters and judges; power, and what it needs of a pilot."""

from evalreg.planning.pilot import components, from_pilot
from evalreg.planning.power import answers, clusters, mde, power, sample_size
from evalreg.planning.precision import gate, labels, precision
from evalreg.planning.separation import separate

__all__ = [
    "sample_size",
    "mde",
    "clusters",
    "components",
    "from_pilot",
    "answers",
    "precision",
    "separate",
    "power",
    "gate",
    "labels",
]
