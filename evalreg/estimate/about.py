"""What is said of an estimate in a summary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.numerics.matrices import Matrix, dense

# The outcome of an estimate that was made elsewhere.
NOT_GIVEN = "not given"


@dataclass(frozen=True)
class About:
    """What is said of an estimate in a summary."""

    model: str = "estimate"  # what was estimated, "OLS" say
    outcome: str = "score"  # the score's name
    formula: str = ""  # where there is one
    # how intervals are built by standard errors, where they are
    interval: Literal["wald", "logit"] = "wald"
    lines: tuple[str, ...] = ()  # further sentences
    n_models: int = 0  # how many of the first parameters are models, which can be ranked
    unit: bool = False  # whether the scores lie in [0, 1]
    one_board: bool = False  # whether these are all the models of one leaderboard, whose differences the log is about
    subset: str = ""  # the filter of `subset`, and how many rows it kept of how many
    null: float = 0.0  # what t and p test each parameter against
    # whether these are levels of scores that all lie on one side of 0, so that a test against 0 tells nothing
    levels: bool = False
    contrast: bool = False  # whether the parameters are contrasts of those that `model` names
    subject: str = ""  # of what the score is, as a log names it: "gpt-x on gsm8k (exact_match)"
    icc: float | None = None  # what unweighted means in [0, 1] grant to failures not seen, in their score interval

    def linear(self, C: Matrix) -> About:
        """What is said of C theta: the same of some of the parameters, otherwise of contrasts."""
        if selects(C):
            places = np.argmax(dense(C) != 0, axis=1)
            others = np.flatnonzero(places >= self.n_models)
            return replace(self, n_models=int(others[0]) if others.size else places.size, one_board=False)
        model = self.model if self.contrast else f"Contrast of {self.model}"
        return replace(
            self,
            model=model,
            contrast=True,
            interval="wald",
            lines=(),
            n_models=0,
            one_board=False,
            null=0.0,
            levels=False,
        )

    def transform(self, J: FloatArray) -> About:
        """What is said of a function of theta; models stay models where each value is of one parameter, in order."""
        own = J.shape[0] == J.shape[1] and np.count_nonzero(J - np.diag(np.diag(J))) == 0
        n_models = self.n_models if own else 0
        said = replace(self, model=f"Function of {self.model}", contrast=False, lines=(), one_board=False)
        return replace(said, interval="wald", n_models=n_models, null=0.0, levels=False)

    def beside(self, other: About, n_params: tuple[int, int]) -> About:
        """What is said of two estimates side by side."""
        words = {
            name: " and ".join(dict.fromkeys(filter(None, (getattr(self, name), getattr(other, name)))))
            for name in ("model", "outcome", "formula", "subset")
        }
        alike = (self.model, self.outcome, self.formula) == (other.model, other.outcome, other.formula)
        # Models of two boards are one list to be ranked only where the boards are of the same thing.
        first = self.n_models + (other.n_models if self.n_models == n_params[0] else 0)
        return About(
            model=words["model"],
            outcome=words["outcome"],
            formula=words["formula"],
            subset=words["subset"],
            interval=self.interval if self.interval == other.interval else "wald",
            lines=tuple(line for line in self.lines if line in other.lines),
            n_models=first if alike else 0,
            unit=self.unit and other.unit,
            one_board=False,
            null=self.null if self.null == other.null else 0.0,
            levels=self.levels and other.levels,
            contrast=self.contrast,
        )


def on_one_side(low: FloatArray, high: FloatArray) -> bool:
    """Whether no value is below 0, or none above."""
    return bool(np.min(low) >= 0 or np.max(high) <= 0)


def selects(C: Matrix) -> bool:
    """Whether every row of C picks one parameter."""
    rows = dense(C)
    picks: BoolArray = (np.count_nonzero(rows, axis=1) == 1) & (rows.sum(axis=1) == 1)
    return bool(picks.all())
