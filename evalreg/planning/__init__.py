"""How many questions, how many answers to each, how many clusters and judges; power, and what it needs of a pilot."""

from evalreg.planning.boards import board
from evalreg.planning.clusters import clusters, curve
from evalreg.planning.components import components
from evalreg.planning.costs import answers, enough_answers
from evalreg.planning.gates import gate, labels
from evalreg.planning.half_width import precision
from evalreg.planning.pilot import from_pilot
from evalreg.planning.power import mde, sample_size
from evalreg.planning.simulation import power
from evalreg.planning.two_models import separate

__all__ = [
    "sample_size",
    "mde",
    "curve",
    "clusters",
    "components",
    "from_pilot",
    "answers",
    "enough_answers",
    "board",
    "precision",
    "separate",
    "power",
    "gate",
    "labels",
]
