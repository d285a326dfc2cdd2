"""Gates on a difference between two models: read from text, decided by one-sided tests, put into words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

import numpy as np

from evalreg.checks import listed, nearest, pointed
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import axis_name
from evalreg.errors import FormulaError, MissingColumnError
from evalreg.estimators.comparison import Comparison
from evalreg.inference.carriers import few_tell
from evalreg.inference.equivalence import (
    FAILS,
    OPEN,
    SHOWN,
    Verdict,
    multiple_to_tell,
    one_sided,
    tells_in_same_clusters,
    verdicts,
)
from evalreg.report.summaries import few_text
from evalreg.report.tables import UNKNOWN, error_text, number, p_value

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
    """A claim on the difference of two models."""

    text: str  # as written
    model: str  # the two models
    baseline: str
    operator: Literal[">", "<"]  # the side of the bound on which the difference is claimed to lie
    bound: float  # in units of the score
    places: tuple[int, int] = (0, 0)  # where the two names stand in the text


@dataclass(frozen=True)
class Decision:
    """What the data say about a gate."""

    gate: Gate  # the claim
    verdict: Verdict  # the last where neither one-sided test rejects
    difference: float  # estimate, standard error, and the p-values of the two one-sided tests
    se: float
    p_shown: float
    p_fails: float
    # one-sided bound of the difference on the side that decides: the lower one for ">", the upper one where that is
    # shown to fail
    edge: float
    edge_side: Literal["lower", "upper"]  # which of the two
    alpha: float  # level of each test
    n: int  # questions and clusters
    n_clusters: int
    # questions at which a test would tell with a power of 0.8, were the truth as estimated; None where no number
    # would do
    n_to_tell: int | None
    # by clustering of several questions each, the clusters at hand and those that `n_to_tell` questions take
    clusters_to_tell: dict[str, tuple[int, int]] = field(default_factory=dict)
    deeper: bool = True  # whether more questions in the same clusters might tell
    finite: bool = False  # whether it is about a finite benchmark, of which no number of questions is told
    # a sentence where few questions differ, or few clusters carry an unpaired difference; empty otherwise
    few: str = ""

    @property
    def status(self) -> int:
        """What the command leaves with: 0 shown, 1 shown to fail, 2 cannot tell."""
        return STATUS[self.verdict]

    @property
    def line(self) -> str:
        """The decision on one line."""
        p = self.p_fails if self.verdict == FAILS else self.p_shown
        bound = f"{100 * (1 - self.alpha):g}% {self.edge_side} bound {error_text(self.edge)}"
        difference = f"difference {number(self.difference)} (SE {error_text(self.se)})"
        clusters = f"{self.n} questions in {self.n_clusters} clusters"
        facts = f"{difference}, {bound}, one-sided p {UNKNOWN if math.isnan(p) else p_value(p, self.alpha)}, {clusters}"
        few = f" {self.few}" if self.few else ""
        return f"{WORDS[self.verdict]}: {self.gate.text}; {facts}.{few}{self._hint()}"

    def _hint(self) -> str:
        if self.verdict != OPEN:
            return ""
        if self.finite:
            return " How many more questions of the benchmark could tell is not computed."
        if self.n_to_tell is not None and self.clusters_to_tell:
            parts = [f"{wanted} clusters by {name} ({at_hand} now)" for name, (at_hand, wanted) in self._wanted]
            more = "" if self.deeper else " More questions in the same clusters would not."
            return (
                f" About {' and '.join(parts)}, {self.n_to_tell} questions in all, could tell with a power of "
                f"{POWER:g}.{more}"
            )
        if self.n_to_tell is not None:
            return f" About {self.n_to_tell} questions like these could tell, with a power of {POWER:g}."
        if math.isnan(self.p_shown):
            return " The difference does not vary, so that it has no error bar."
        return " The difference is at the bound, where no number of questions could tell."

    @property
    def _wanted(self) -> list[tuple[str, tuple[int, int]]]:
        return list(self.clusters_to_tell.items())

    def as_dict(self) -> dict[str, object]:
        """The decision for JSON."""
        tests = ("verdict", "difference", "se", "p_shown", "p_fails", "edge", "edge_side", "alpha")
        facts = (*tests, "n", "n_clusters", "n_to_tell", "few")
        more = {"clusters_to_tell": {name: wanted for name, (_, wanted) in self.clusters_to_tell.items()}}
        own = more | {name: getattr(self.gate, name) for name in ("text", "model", "baseline", "operator", "bound")}
        return own | {name: getattr(self, name) for name in facts} | {"status": self.status}


def parse_gate(text: str) -> Gate:
    """The claim that a text makes."""
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
    """Raise unless both names of a gate are models."""
    known = sorted(str(model) for model in models)
    for name, place in zip((gate.model, gate.baseline), gate.places, strict=True):
        if name not in known:
            hint = nearest(name, known) or f" The models are {listed(known)}."
            raise MissingColumnError(
                f'`--gate` names "{name}", which is not a model.{hint}\n{pointed(gate.text, place)}'
            )


def decide(gate: Gate, comparison: Comparison, alpha: float = 0.05) -> Decision:
    """What the data say about a gate.

    One-sided tests by the covariance of the comparison; the number of questions is Miller (2024), arXiv:2411.00640, eq.
    9, with t and the standard error as measured.
    """
    row: dict[Any, Any] = comparison.table.loc[[(gate.model, gate.baseline)]].to_dict("records")[0]
    here = [pair == (gate.model, gate.baseline) for pair in comparison.facts.index]
    C, names = np.array([here], dtype=np.float64), (f"{gate.model} - {gate.baseline}",)
    cov, own = comparison.results.cov.linear(C, names), comparison.results.estimate.linear(C, names)
    estimate = np.array([float(row["difference"])])
    tests = one_sided(estimate, cov, gate.bound)
    p_shown, p_fails = (tests.above, tests.below) if gate.operator == ">" else (tests.below, tests.above)
    verdict = verdicts(p_shown, p_fails, alpha)[0]
    # The end that a claim has to clear; that a failing one clears is the other.
    lower = (gate.operator == ">") != (verdict == FAILS)
    decision = Decision(
        gate=gate,
        verdict=verdict,
        difference=float(estimate[0]),
        se=float(row["se"]),
        p_shown=float(p_shown[0]),
        p_fails=float(p_fails[0]),
        edge=float(cov.limits(estimate, None, 2 * alpha)[0, 0 if lower else 1]),
        edge_side="lower" if lower else "upper",
        alpha=alpha,
        n=int(row["n"]),
        n_clusters=int(row["n_clusters"]),
        n_to_tell=None,
        few=" ".join(filter(None, [few_text(cov), few_tell(own, cov)])),
    )
    return _with_hint(decision, cov, comparison) if verdict == OPEN else decision


def _with_hint(decision: Decision, cov: Covariance, comparison: Comparison) -> Decision:
    """The decision with how much more data could tell: more clusters, where questions share them."""
    if comparison.results.estimate.population is not None:
        return replace(decision, finite=True)
    asked = (decision.difference, cov, decision.gate.bound)
    factor = multiple_to_tell(*asked, alpha=decision.alpha, power=POWER)
    if factor is None:
        return decision
    results, n = comparison.results, decision.n
    at_hand = {axis_name(axis): results.estimate.scores.n_clusters(axis) for axis in cov.axes}
    if len(cov.axes) == 1:
        at_hand = dict.fromkeys(at_hand, decision.n_clusters)
    clusters = {name: (count, math.ceil(count * factor)) for name, count in at_hand.items() if count < n}
    deeper = tells_in_same_clusters(*asked, alpha=decision.alpha, power=POWER)
    return replace(decision, n_to_tell=math.ceil(n * factor), clusters_to_tell=clusters, deeper=deeper)
