"""The immutable Estimate, params + scores + bread, its algebra, and what it holds."""

from evalreg.estimate.about import About
from evalreg.estimate.cells import Cells
from evalreg.estimate.estimate import Estimate, Family, Inverted, Limits
from evalreg.estimate.refit import AtInfinity, LeaveOut, Refit, SingleTotals

__all__ = [
    "About",
    "AtInfinity",
    "Cells",
    "Estimate",
    "Family",
    "Inverted",
    "LeaveOut",
    "Limits",
    "Refit",
    "SingleTotals",
]
