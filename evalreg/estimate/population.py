"""A finite population, of which the rows are a sample drawn without replacement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Population:
    """What was drawn, and how much of it there is.

    Parameters
    ----------
    size : float
        Units there are.
    drawn : float
        Units in the sample; of models with different numbers the smallest.
    axis : str
        The clustering whose whole clusters were drawn; empty for questions drawn one by one.
    """

    size: float
    drawn: float
    axis: str = ""

    @property
    def factor(self) -> float:
        """1 - n/N, by which the variance of a draw with replacement is multiplied; Cochran (1977), eq. 2.8."""
        return 1.0 - self.drawn / self.size
