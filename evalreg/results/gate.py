"""What is decided: a gate such as "mean > 0.9" or "new - old > -0.01"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from evalreg.checks import fraction, nearest_or_all, pointed
from evalreg.data.formula import full_name
from evalreg.errors import ArgumentError, ArgumentTypeError, FormulaError, MissingColumnError
from evalreg.inference.dependence import clusters_behind
from evalreg.inference.intervals import Verdict
from evalreg.inference.wald import POWER, difference_of
from evalreg.planning.power import multiple_to_tell
from evalreg.report.tables import error_text, number

# Of each verdict the word of a log, in the order of their statuses.
WORDS: dict[Verdict, str] = {"shown": "PASS", "shown to fail": "FAIL", "cannot tell": "UNDECIDED"}

_NAME = r"(?:`([^`]+)`|([^\s`<>=]+))"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
# As much of a claim as can be read.
_CLAIM = re.compile(rf"\s*(?:{_NAME}(?:\s+-\s+{_NAME})?\s*(?:([<>])\s*(?:({_NUMBER})\s*)?)?)?")


@dataclass(frozen=True)
class Gate:
    """What the data say about a claim on one estimate or difference.

    Parameters
    ----------
    claim : str
        As written.
    name : str
        The estimate or difference that it is about.
    operator : {">", "<"}
        On which side of the bound it is claimed to lie.
    bound : float
        In units of the score.
    estimate, se : float
        What was seen, with its standard error.
    lower, upper : float
        The interval at level 1 - 2 `alpha`, whose two ends are the one-sided bounds at `alpha`.
    alpha : float
        Level of each of the two one-sided tests.
    verdict : {"shown", "shown to fail", "cannot tell"}
        Whether that interval lies on the claimed side of the bound, on the other, or on both.
    n : int
        Rows behind the estimate, or questions of a difference.
    n_clusters : dict
        Clusters with such rows, by axis.
    wanted : dict
        Where the data cannot tell: about how many clusters (by axis) or rows ("rows") could.
    """

    claim: str
    name: str
    operator: Literal[">", "<"]
    bound: float
    estimate: float
    se: float
    lower: float
    upper: float
    alpha: float
    verdict: Verdict
    n: int
    n_clusters: Mapping[str, int]
    wanted: Mapping[str, int] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """0 where the claim is shown, 1 where it is shown to fail, 2 where the data cannot tell."""
        return list(WORDS).index(self.verdict)

    @property
    def line(self) -> str:
        """The decision on one line."""
        low_decides = (self.operator == ">") != (self.verdict == "shown to fail")
        side, end = ("lower", self.lower) if low_decides else ("upper", self.upper)
        value = f"{number(self.estimate)} (SE {error_text(self.se)})"
        decided = f"{100 * (1 - self.alpha):g}% {side} bound {error_text(end)}"
        clusters = " and ".join(f"{count:,} {axis} clusters" for axis, count in self.n_clusters.items())
        rests = f"n {self.n:,}" + (f" in {clusters}" if clusters else "")
        return f"{WORDS[self.verdict]} ({self.verdict}): {self.claim}; {value}, {decided}, {rests}.{self._advice}"

    @property
    def _advice(self) -> str:
        if not self.wanted:
            return ""
        counts = " and ".join(
            f"{count:,} {axis if axis == 'rows' else f'{axis} clusters'}" for axis, count in self.wanted.items()
        )
        return f" About {counts} like these could tell, with a power of {POWER:g}."

    def as_dict(self) -> dict[str, Any]:
        """The decision with its status, for JSON."""
        return asdict(self) | {"status": self.status}

    def __str__(self) -> str:
        return self.line


def read_claim(text: str) -> tuple[str, str | None, Literal[">", "<"], float]:
    """A claim "left > bound", or "left - right > bound"; what cannot be read is refused with the reason."""
    if not isinstance(text, str):
        raise ArgumentTypeError(f'`claim` must be a text such as "mean > 0.9"; got {text!r}.')
    match = _CLAIM.match(text)
    assert match is not None  # of an empty text an empty part
    left, right, operator, bound = match[1] or match[2], match[3] or match[4], match[5], match[6]
    place = match.end()
    if bound and place == len(text):
        if left != right and math.isfinite(float(bound)):
            return left, right, ">" if operator == ">" else "<", float(bound)
        problem = f'"{left}" is on both sides' if left == right else f"{bound} is too large for a number"
    elif text[place : place + 1] == "=":
        problem = 'write ">" or "<" alone: an estimate is never known to a point'
    else:
        expected = "a name" if not left else "a number" if operator else '">" or "<", or " - " and a name'
        problem = f"expected {'nothing more' if bound else expected} here"
    raise FormulaError(
        '`claim` must read like "mean > 0.9" or "new - old > -0.01", with backticks around a name of several words: '
        f"{problem}.\n{pointed(text, place)}",
        parameter="claim",
    )


def decided(
    results: Any, text: str, alpha: float, n_of: Callable[[str], int] | None = None, by_third: bool = False
) -> Gate:
    """The gate of `Results.gate`: the verdict is that of the interval at 1 - 2 alpha of an estimate or a contrast.

    `n_of` says how many questions are behind a difference, `by_third` that one may be by way of a third model.
    """
    if fraction("alpha", alpha) > 0.25:
        raise ArgumentError(f"`alpha` must be at most 0.25, the level of each of two one-sided tests; got {alpha!r}.")
    left, right, operator, bound = read_claim(text)
    names = results.estimate.names
    left, right = full_name(left, names), right and full_name(right, names)
    # A parameter may itself be called "new - old", and that of a contrast by a name in backticks.
    written = text[: text.rindex(operator)].strip()
    name = written if written in names else left if right is None else f"{left} - {right}"
    if name not in names:
        weights = {} if right is None else difference_of(names, left, right, by_third)
        if not weights:
            halves = {half for pair in names for half in pair.split(" - ")}
            missing = name if right is None else next((model for model in (left, right) if model not in halves), name)
            text = f'`claim` names "{missing}", which is not estimated.{nearest_or_all(missing, names)}'
            text += " Compare the two with each other." if missing == name and " - " in name else ""
            raise MissingColumnError(text, column=missing, parameter="claim")
        results = results.contrast(weights, name)
    place = results.params.index.get_loc(name)
    estimate, se, dof = (float(column.iloc[place]) for column in (results.params, results.bse, results.dof))
    lower, upper = map(float, results.conf_int(2 * alpha).iloc[place])
    above, below = lower > bound, upper < bound
    holds, fails = (above, below) if operator == ">" else (below, above)
    verdict: Verdict = "shown" if holds else "shown to fail" if fails else "cannot tell"
    n = n_of(name) if n_of else int(results.nobs if results._counts is None else results._counts[place])
    counts = {axis: int(behind[place]) for axis, behind in clusters_behind(results.estimate, results.cov).items()}
    wanted = dict[str, int]()
    if verdict == "cannot tell" and results.estimate.population is None:
        row = np.eye(len(results.params))[[place]]
        widths = results.cov.widths(row)
        factor = multiple_to_tell(estimate, widths, dof, bound, alpha, POWER)
        # Where standard errors alone would tell, the interval is by a rule that they do not scale.
        by_errors = widths.scored is not None or abs(estimate - bound) <= results.cov.half_width(row, 2 * alpha)[0]
        if 1 < factor < math.inf and by_errors:
            grouped = {axis: count for axis, count in counts.items() if count < n}
            wanted = {axis: math.ceil(count * factor) for axis, count in (grouped or {"rows": n}).items()}
    claim = " ".join(text.split())
    return Gate(claim, name, operator, bound, estimate, se, lower, upper, alpha, verdict, n, counts, wanted)
