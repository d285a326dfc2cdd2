"""The immutable Estimate, params + scores + bread, its algebra, and what it holds."""

from evalreg.estimate.absorbed import Absorbed
from evalreg.estimate.estimate import (
    NET_BENEFIT,
    ODDS,
    PLAIN,
    About,
    Cells,
    Estimate,
    Family,
    Inverted,
    LeaveOut,
    Limits,
    Monotone,
    Ratings,
    Refit,
    Scale,
    same_questions,
)
from evalreg.estimate.population import Population, Samples

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
