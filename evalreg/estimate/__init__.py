"""The immutable Estimate, params + scores + bread, its algebra, and what it holds."""

from evalreg.estimate.about import About
from evalreg.estimate.absorbed import Absorbed
from evalreg.estimate.cells import Cells
from evalreg.estimate.estimate import PLAIN, Estimate, Family, Inverted, Limits, same_questions
from evalreg.estimate.population import Population, Samples
from evalreg.estimate.refit import AtInfinity, LeaveOut, Refit, SingleTotals

__all__ = [
    "PLAIN",
    "About",
    "Absorbed",
    "AtInfinity",
    "Cells",
    "Estimate",
    "Family",
    "Inverted",
    "LeaveOut",
    "Limits",
    "Population",
    "Refit",
    "Samples",
    "SingleTotals",
    "same_questions",
]
