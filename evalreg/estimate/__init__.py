"""The immutable Estimate, params + scores + bread, its algebra, and what it holds."""

from evalreg.estimate.about import About
from evalreg.estimate.absorbed import Absorbed
from evalreg.estimate.cells import Cells
from evalreg.estimate.estimate import PLAIN, Estimate, Family, Inverted, Limits, Monotone, same_questions
from evalreg.estimate.population import Population, Samples
from evalreg.estimate.refit import LeaveOut, Ratings, Refit
from evalreg.estimate.scales import NET_BENEFIT, ODDS, Scale

__all__ = [
    "NET_BENEFIT",
    "ODDS",
    "PLAIN",
    "About",
    "Absorbed",
    "Cells",
    "Estimate",
    "Family",
    "Inverted",
    "LeaveOut",
    "Limits",
    "Monotone",
    "Population",
    "Ratings",
    "Refit",
    "Samples",
    "Scale",
    "same_questions",
]
