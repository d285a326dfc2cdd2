"""How many questions, and how many answers to each: power, and the variance components it needs of a pilot."""

from evalreg.planning.components import components
from evalreg.planning.power import mde, sample_size

__all__ = ["sample_size", "mde", "components"]
