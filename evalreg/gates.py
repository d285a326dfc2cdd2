"""Gates on a difference between two models: read from text, decided by one-sided tests, put into words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from evalreg.checks import listed, nearest, pointed
from evalreg.errors import FormulaError, MissingColumnError
from evalreg.estimators.comparison import Comparison
from evalreg.inference.equivalence import FAILS, OPEN, SHOWN, Verdict, one_sided, questions_to_tell, verdicts
from evalreg.tables import number, p_value

EXAMPLE = "new - old > -0.01"
# What a gate leaves with; 3 and 4 are those of all commands.
STATUS: dict[Verdict, int] = {SHOWN: 0, FAILS: 1, OPEN: 2}
WORDS: dict[Verdict, str] = {SHOWN: "PASS (shown)", FAILS: "FAIL (shown to fail)", OPEN: "UNDECIDED (cannot tell)"}
POWER = 0.8

_BLANK = re.compile(r"\s*")
_NAME = re.compile(r"`(?P<quoted>[^`]+)`|(?P<bare>[^\s`<>=]+)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?=\s|$)")


@dataclass(frozen=True)
class Gate:
    """A claim on the difference of two models.

    Parameters
    ----------
    text : str
        As written.
    model, baseline : str
        The two models.
    operator : {">", "<"}
        The side of the bound on which the difference is claimed to lie.
    bound : float
        In units of the score.
    places : (int, int)
        Where the two names stand in the text.
    """

    text: str
    model: str
    baseline: str
    operator: Literal[">", "<"]
    bound: float
    places: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Decision:
    """What the data say of a gate.

    Parameters
    ----------
    gate : Gate
        The claim.
    verdict : {"shown", "shown to fail", "cannot tell"}
        The last where neither one-sided test rejects.
    difference, se, p_shown, p_fails : float
        Estimate, standard error, and the p-values of the two one-sided tests.
    edge : float
        One-sided bound of the difference on the side that matters: the lower one for ">".
    alpha : float
        Level of each test.
    n, n_clusters : int
        Questions and clusters.
    n_to_tell : int or None
        Questions at which a test would tell with a power of 0.8, were the truth as estimated; None where no number
        would do.
    """

    gate: Gate
    verdict: Verdict
    difference: float
    se: float
    p_shown: float
    p_fails: float
    edge: float
    alpha: float
    n: int
    n_clusters: int
    n_to_tell: int | None

    @property
    def status(self) -> int:
        """What the command leaves with: 0 shown, 1 shown to fail, 2 cannot tell."""
        return STATUS[self.verdict]

    @property
    def line(self) -> str:
        """The decision on one line."""
        side = "lower" if self.gate.operator == ">" else "upper"
        p = self.p_fails if self.verdict == FAILS else self.p_shown
        facts = (
            f"difference {number(self.difference)} (SE {number(self.se)}), {100 * (1 - self.alpha):g}% {side} bound "
            f"{number(self.edge)}, one-sided p {p_value(p, self.alpha)}, {self.n} questions in {self.n_clusters} "
            "clusters"
        )
        return f"{WORDS[self.verdict]}: {self.gate.text}; {facts}.{self._hint()}"

    def _hint(self) -> str:
        if self.verdict != OPEN:
            return ""
        if self.n_to_tell is not None:
            return f" About {self.n_to_tell} questions like these could tell, with a power of {POWER:g}."
        if math.isnan(self.se):
            return " The difference does not vary, so that it has no error bar."
        return " The difference is at the bound, where no number of questions could tell."

    def as_dict(self) -> dict[str, object]:
        """The decision for JSON."""
        facts = ("verdict", "difference", "se", "p_shown", "p_fails", "edge", "alpha", "n", "n_clusters", "n_to_tell")
        own = {name: getattr(self.gate, name) for name in ("text", "model", "baseline", "operator", "bound")}
        return own | {name: getattr(self, name) for name in facts} | {"status": self.status}


def parse_gate(text: str) -> Gate:
    """The claim that a text makes.

    Parameters
    ----------
    text : str
        Such as "new - old > -0.01"; backticks go around a name with spaces or signs.

    Returns
    -------
    Gate
        Two models, a side and a bound.

    Raises
    ------
    FormulaError
        If it does not read so; the message has a caret under the place.

    Examples
    --------
    >>> gate = parse_gate("`gpt 5` - gpt-4o > 0")
    >>> gate.model, gate.baseline, gate.operator, gate.bound
    ('gpt 5', 'gpt-4o', '>', 0.0)
    """
    model, first, place = _name(text, 0)
    place = _blank(text, place)
    if text[place : place + 1] != "-" or not text[place + 1 : place + 2].isspace():
        _refuse(text, place, 'expected " - " between two models, with spaces around the sign')
    baseline, second, place = _name(text, place + 1)
    if model == baseline:
        _refuse(text, second, f'"{model}" is on both sides')
    place = _blank(text, place)
    operator = text[place : place + 1]
    if operator not in ("<", ">"):
        _refuse(text, place, 'expected ">" or "<" and a number')
    after = place + 1
    if text[after : after + 1] == "=":
        _refuse(text, after, f'write "{operator}" alone: a difference is never known to a point')
    place = _blank(text, after)
    found = _NUMBER.match(text, place)
    if found is None:
        _refuse(text, place, "expected a number, such as -0.01")
    if _blank(text, found.end()) < len(text):
        _refuse(text, _blank(text, found.end()), "expected nothing after the number")
    return Gate(text.strip(), model, baseline, ">" if operator == ">" else "<", float(found[0]), (first, second))


def _blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return place if found is None else found.end()


def _name(text: str, place: int) -> tuple[str, int, int]:
    """A name, where it starts and where it ends."""
    start = _blank(text, place)
    found = _NAME.match(text, start)
    if found is None or found[0] == "-":
        if text[start : start + 1] == "`":
            _refuse(text, start, "a name in backticks needs one on both sides")
        _refuse(text, start, "expected the name of a model; backticks go around one with spaces or signs")
    return found["quoted"] or found["bare"], start, found.end()


def _refuse(text: str, place: int, problem: str) -> NoReturn:
    raise FormulaError(
        f'`--gate` must read like "{EXAMPLE}", the models by their names: {problem}.\n{pointed(text, place)}'
    )


def check_models(gate: Gate, models: Iterable[object]) -> None:
    """Raise unless both names of a gate are models.

    Parameters
    ----------
    gate : Gate
        The claim.
    models : iterable
        Those in the data.

    Raises
    ------
    MissingColumnError
        With the nearest names, and a caret under the place.
    """
    known = sorted(str(model) for model in models)
    for name, place in zip((gate.model, gate.baseline), gate.places, strict=True):
        if name not in known:
            hint = nearest(name, known) or f" The models are {listed(known)}."
            raise MissingColumnError(f'`--gate` names "{name}", which is no model.{hint}\n{pointed(gate.text, place)}')


def decide(gate: Gate, comparison: Comparison, alpha: float = 0.05) -> Decision:
    """What the data say of a gate.

    Parameters
    ----------
    gate : Gate
        The claim.
    comparison : Comparison
        That has the pair, in this order.
    alpha : float, optional
        Level of each one-sided test.

    Returns
    -------
    Decision
        With the verdict and what it rests on.

    References
    ----------
    One-sided t tests with the standard error and the degrees of freedom of the comparison; the number of questions is
    Miller (2024), arXiv:2411.00640, eq. 9, with the standard error as measured.
    """
    row: dict[str, Any] = comparison.table.loc[[(gate.model, gate.baseline)]].to_dict("records")[0]  # type: ignore[assignment]
    difference, se = (float(row[name]) for name in ("difference", "se"))
    here = [pair == (gate.model, gate.baseline) for pair in comparison.facts.index]
    cov = comparison.results.cov.linear(np.array([here], dtype=np.float64), ("difference",))
    tests = one_sided(np.array([difference]), cov, gate.bound)
    shown, fails = (tests.above, tests.below) if gate.operator == ">" else (tests.below, tests.above)
    half = float(cov.half_width(alpha=2 * alpha)[0])
    verdict = verdicts(shown, fails, alpha)[0]
    n, wanted = int(row["n"]), None
    if verdict == OPEN:
        wanted = questions_to_tell(difference - gate.bound, se, n, alpha=alpha, power=POWER)
    return Decision(
        gate=gate,
        verdict=verdict,
        difference=difference,
        se=se,
        p_shown=float(shown[0]),
        p_fails=float(fails[0]),
        edge=difference - half if gate.operator == ">" else difference + half,
        alpha=alpha,
        n=n,
        n_clusters=int(row["n_clusters"]),
        n_to_tell=wanted,
    )
