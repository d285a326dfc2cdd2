"""What a wild cluster bootstrap test gives."""

from __future__ import annotations

from dataclasses import dataclass

from evalreg.errors import Note
from evalreg.report.tables import Summary, fixed, number, p_value
from evalreg.resampling.draws import WildWeightsName, seed_text


@dataclass(frozen=True)
class WildTest:
    """A wild cluster bootstrap test, with the interval of the values that it does not reject.

    Made by `Results.wild_test`.

    Parameters
    ----------
    statistic : float
        The CR1 t of one hypothesis; of several the Wald statistic over their number, F.
    p_value : float
        Two-sided: the share of draws at least as extreme, ties counted.
    p_equal_tailed : float
        Twice the smaller tail; NaN for several hypotheses.
    interval : tuple of float, or None
        Values of the combination of parameters whose p-value is above `alpha`; an end is infinite where p never falls
        to it. None for several hypotheses.
    draws : int
        Weight vectors used.
    enumerated : bool
        Whether these are all there are, each once.
    weights : {"rademacher", "webb", "mammen"}
        Distribution of the weights.
    null : str
        The hypothesis.
    impose_null : bool
        Whether residuals satisfied the null.
    alpha : float
        One minus the level of the interval.
    seed : int or None
        Of the draws; None for a Generator, or where nothing was drawn.
    estimate : float
        The combination of parameters; NaN for several hypotheses.
    by : str
        The clustering that carries the weights; of crossed ones that with the largest p-value.
    n_clusters : int
        Its number of clusters.
    p_by_axis : tuple of (str, float)
        The p-value with each clustering carrying the weights; `p_value` is the largest of them.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=13, questions_per_passage=6, seed=2)
    >>> test = er.fit("score ~ 1", log, groups="passage").wild_test("Intercept = 0.5")
    >>> test.draws, test.enumerated, test.weights
    (8192, True, 'rademacher')
    """

    statistic: float
    p_value: float
    p_equal_tailed: float
    interval: tuple[float, float] | None
    draws: int
    enumerated: bool
    weights: WildWeightsName
    null: str
    impose_null: bool
    alpha: float
    seed: int | None
    estimate: float
    by: str
    n_clusters: int
    p_by_axis: tuple[tuple[str, float], ...] = ()
    notes: tuple[Note, ...] = ()

    def summary(self) -> Summary:
        """The test in words.

        Returns
        -------
        Summary
            Prints as text; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        return summarize_test(self)

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return self.summary().as_text()


def summarize_test(test: WildTest) -> Summary:
    """The facts of a test."""
    how = "all vectors, each once" if test.enumerated else f"drawn, {seed_text(test.seed)}"
    facts = [("Null", test.null), ("Weights", f"{test.weights}, by {test.by} ({test.n_clusters} clusters)")]
    facts.append(("Draws", f"{test.draws} ({how})"))
    facts.append(("Residuals", "under the null" if test.impose_null else "of the fit"))
    facts.append(("t (CR1)" if test.interval else "F (CR1)", fixed(test.statistic, 3)))
    facts.append(("p", p_value(test.p_value)))
    if len(test.p_by_axis) > 1:
        facts.append(("p by axis", ", ".join(f"{name} {p_value(one)}" for name, one in test.p_by_axis)))
    if test.interval is not None:
        low, high = (number(end) for end in test.interval)
        facts.append(("p, equal-tailed", p_value(test.p_equal_tailed)))
        facts.append(("Estimate", number(test.estimate)))
        facts.append((f"{1 - test.alpha:.4g} interval", f"{low} to {high}"))
    return Summary("Wild cluster bootstrap", tuple(facts), (), tuple(text for _, text in test.notes))
