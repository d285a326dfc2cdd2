"""Several results in one table, as papers print regressions: coefficients, what is below them, and the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import fraction, keeps, listed, nearest, option
from evalreg.data.formula import short_name
from evalreg.errors import ArgumentError, ArgumentTypeError, MissingColumnError, NotAvailableError
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.comparison_page import by_part
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import Grid, Printed, Summary, error_text, interval_text, number, span
from evalreg.results.document import StoredResults
from evalreg.results.results import Results

BeneathName: TypeAlias = Literal["se", "interval"]
STARS = (0.05, 0.01, 0.001)
Tabled: TypeAlias = Results | Comparison | StoredResults
"""What a column of a table can be made of."""


@keeps("parts")
@dataclass(frozen=True, eq=False, repr=False)
class ResultsTable(Printed):
    """Several results side by side; made by `table`, immutable.

    Parameters
    ----------
    parts : dict of str to Results, Comparison or StoredResults
        By the header of the column.
    beneath : {"se", "interval"}
        What is below each coefficient.
    stars : tuple of float
        Levels of the stars, falling; empty for none.
    keep : tuple of str
        Parameters shown; empty for all.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> results = er.fit("score ~ n_words", log, groups="passage")
    >>> er.table({"CR2": results, "CR1": results.with_cov(cov="CR1")}).to_frame().index.names
    FrozenList(['result', 'parameter'])
    """

    parts: dict[str, Tabled]
    beneath: BeneathName = "se"
    stars: tuple[float, ...] = ()
    keep: tuple[str, ...] = ()

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """All coefficients, one row each.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals.

        Returns
        -------
        DataFrame
            Indexed by (result, parameter); columns estimate, se, dof, p_value (adjusted where a comparison adjusts),
            lower and upper.
        """
        frames = {name: _coefficients(part, alpha) for name, part in self.parts.items()}
        return pd.concat(frames, names=["result", "parameter"])

    def summary(self, alpha: float = 0.05) -> Summary:
        """Coefficients with standard errors or intervals below them, one column a result, and facts of each result.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals, where these stand below the coefficients.

        Returns
        -------
        Summary
            Prints as text of 80 columns, in blocks of columns where they are wider; also `as_text(width)`,
            `as_markdown()`, `as_latex()` and `as_html()`.
        """
        fraction("alpha", alpha)
        frames = {name: _coefficients(part, alpha).to_dict("index") for name, part in self.parts.items()}
        labels = list(dict.fromkeys(label for frame in frames.values() for label in frame))
        shown = [label for label in labels if not self.keep or label in self.keep]
        facts, ranked, warned = zip(*map(_told, self.parts.values()), strict=True)
        bare = list(compress(self.parts, ranked))
        rows = [line for label in shown for line in self._lines(label, frames, bare)]
        below = sorted(dict.fromkeys(chain(*facts)), key=lambda label: _ORDER.index(label.partition(":")[0]))
        every = (*rows, *((label, *(fact.get(label, "") for fact in facts)) for label in below))
        said = self._sentences(alpha, len(labels) - len(shown), bare)
        said += by_part(dict(zip(self.parts, warned, strict=True)))
        grid = Grid(("", *self.parts), every, blocks=True, rule=len(rows))
        return Summary("results side by side", (), (grid,), tuple(said))

    def _lines(
        self, label: Any, frames: Mapping[str, dict[Any, dict[Any, Any]]], bare: list[str]
    ) -> list[tuple[str, ...]]:
        """A coefficient and what is below it, in all columns; without stars in the `bare` ones."""
        above, below = [short_name(label)], [""]
        for name, frame in frames.items():
            if label not in frame:
                above.append("")
                below.append("")
                continue
            row = frame[label]
            marks = "" if name in bare else "*" * sum(row["p_value"] < level for level in self.stars)
            above.append(number(row["estimate"]) + marks)
            ends = interval_text(row["lower"], row["upper"], row["estimate"])
            below.append(f"({error_text(row['se'])})" if self.beneath == "se" else ends)
        return [tuple(above), tuple(below)]

    def _sentences(self, alpha: float, n_left_out: int, bare: list[str]) -> list[str]:
        """What the table says and does not say."""
        intervals = f"{100 * (1 - alpha):g}% intervals in brackets."
        sentences = ["Standard errors in parentheses." if self.beneath == "se" else intervals]
        if n_left_out:
            many = "parameters are" if n_left_out > 1 else "parameter is"
            sentences.append(f"{n_left_out} other {many} estimated and not shown.")
        if self.stars:
            levels = [f"{'*' * (i + 1)} p < {level:g}".replace("0.", ".") for i, level in enumerate(self.stars)]
            sentences.append(f"Stars: {', '.join(levels)}, each against 0{self._adjusted()}.")
            if bare:
                sentences.append(f"No stars for {listed(bare)}: knowing that a score is not 0 tells nothing.")
        return sentences

    def _adjusted(self) -> str:
        plain = [name for name, part in self.parts.items() if not getattr(part, "adjust", None)]
        if len(plain) == len(self.parts):
            return " and by itself"
        return " and by itself, except in columns whose p-values are adjusted" if plain else ", p-values adjusted"


def table(
    results: Mapping[str, Tabled] | Sequence[Tabled],
    names: Sequence[str] | None = None,
    *,
    beneath: BeneathName = "se",
    stars: bool | Sequence[float] = False,
    keep: Sequence[str] | None = None,
) -> ResultsTable:
    """Several results in one table: coefficients with standard errors beneath, one column a result.

    Below the coefficients stand the rows in use, the clusters of each axis, the covariance, the degrees of freedom (the
    smallest and the largest where they differ) and R-squared where there is one. Each column keeps its own covariance.

    Parameters
    ----------
    results : dict or list of Results, Comparison or StoredResults
        What `fit`, `mean`, `compare`, `win_rate` and the others return, or `read_results` has read. The keys of a dict
        are the headers.
    names : list of str, optional
        Headers of a list; "(1)", "(2)" and so on by default.
    beneath : {"se", "interval"}, optional
        What is below each coefficient: the standard error in parentheses (default), or the interval in brackets.
    stars : bool or list of float, optional
        Whether small p-values are marked; False by default. True is one star below .05, two below .01, three below
        .001; a list gives other levels. Means by model and win rates get none, since their p-values are against 0.
    keep : list of str, optional
        Parameters shown, of all by default; the note says how many others there are.

    Returns
    -------
    ResultsTable
        Prints as text; also `summary(alpha)`, `to_frame(alpha)` and `to_latex()`.

    Raises
    ------
    ArgumentTypeError
        If something is not results.
    ArgumentError
        If there are no results, names do not fit them or occur twice, or levels are not between 0 and 1.
    MissingColumnError
        If no result has a parameter of `keep`.

    Notes
    -----
    The form is that of statsmodels' `summary_col`, whose numbers are the same for the same results. It is not used,
    since it has no place for degrees of freedom that differ by coefficient or for clusters, prints small standard
    errors as 0.0000, and does not escape names in HTML.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> plain, words = er.fit("score ~ 1", log, groups="passage"), er.fit("score ~ n_words", log, groups="passage")
    >>> print(er.table([plain, words]))
    results side by side
    <BLANKLINE>
                                   (1)             (2)
    --------------------------------------------------
    Intercept                   0.6850          0.6648
                              (0.0429)        (0.1026)
    n_words                                   5.60e-05
                                            (2.44e-04)
    --------------------------------------------------
    Score                        score           score
    Model                          OLS             OLS
    Rows                           200             200
    Clusters: passage               40              40
    Covariance          CR2 by passage  CR2 by passage
    Degrees of freedom              39    19.7 to 25.6
    R-squared                                   0.0003
    <BLANKLINE>
    [1] Standard errors in parentheses.
    """
    parts = _named(results, names)
    option("beneath", beneath, BeneathName)
    wanted = () if keep is None else tuple(map(str, [keep] if isinstance(keep, str) else keep))
    known = [label for part in parts.values() for label in _names(part)]
    for label in wanted:
        if label not in known:
            raise MissingColumnError(f"`keep` must name parameters; {label!r} is in no result.{nearest(label, known)}")
    return ResultsTable(parts, beneath, _levels(stars), wanted)


def _named(results: Any, names: Sequence[str] | None) -> dict[str, Tabled]:
    """The results by the headers of their columns."""
    if isinstance(results, Mapping):
        if names is not None:
            raise ArgumentError("`names` are for a list of results; the keys of a dict are names. Leave them out.")
        labels, parts = [str(key) for key in results], list(results.values())
    else:
        parts = [results] if isinstance(results, Tabled) else list(results)
        labels = [f"({i + 1})" for i in range(len(parts))] if names is None else [str(name) for name in names]
    for part in parts:
        if not isinstance(part, Tabled):
            raise ArgumentTypeError(
                "`results` must hold what `fit`, `mean`, `compare` and the like return; got "
                f"{type(part).__name__}. A statsmodels result goes through er.infer(er.from_statsmodels(result))."
            )
    if not parts:
        raise ArgumentError("`results` must hold at least one result; got none.")
    if isinstance(names, str) or len(labels) != len(parts):
        raise ArgumentError(f"`names` must be a list of {len(parts)}, one for each result; got {names!r}.")
    twice = [label for label in dict.fromkeys(labels) if labels.count(label) > 1]
    if twice:
        raise ArgumentError(f"`names` must differ from each other; {listed(twice)} occurs twice.")
    return dict(zip(labels, parts, strict=True))


def _levels(stars: Any) -> tuple[float, ...]:
    """Levels of the stars, falling."""
    if isinstance(stars, bool | np.bool_):
        return STARS if stars else ()
    if isinstance(stars, str) or not hasattr(stars, "__iter__"):
        raise ArgumentTypeError(f"`stars` must be True, False or a list of levels such as [0.1, 0.05]; got {stars!r}.")
    levels = tuple(fraction("stars", level) for level in stars)
    if len(set(levels)) < len(levels):
        raise ArgumentError(f"`stars` must hold levels that differ; got {stars!r}.")
    return tuple(sorted(levels, reverse=True))


def _results(part: Tabled) -> Results | StoredResults:
    """The results behind a comparison."""
    return part.results if isinstance(part, Comparison) else part


def _coefficients(part: Tabled, alpha: float) -> pd.DataFrame:
    """Coefficients by name; differences have adjusted p-values, and intervals that hold together where they do."""
    frame = _results(part).to_frame(alpha)[["estimate", "se", "dof", "p_value", "lower", "upper"]]
    if not isinstance(part, Results) and part.adjust:
        table = part.to_frame(alpha) if isinstance(part, Comparison) else part.table
        frame["p_value"] = table["p_adjusted"].to_numpy()
        if isinstance(part, Comparison) or alpha == part.alphas[0]:
            frame[["lower", "upper"]] = table[["lower", "upper"]].to_numpy()
        elif part.adjust == "single-step":
            raise NotAvailableError(f"joint intervals are stored at alpha={part.alphas[0]:g} only; got {alpha:g}.")
    return frame.set_axis(_names(part))


def _names(part: Tabled) -> pd.Index[str]:
    return _results(part).params.index.astype(str)


_ORDER = ("Score", "Model", "Rows", "Clusters", "Covariance", "Degrees of freedom", "R-squared")


def _told(part: Tabled) -> tuple[dict[str, str], bool, list[str]]:
    """What is said of a column below its coefficients, whether these are not to be tested against 0, and its warnings.

    Scores and win rates of models are not: such tests say nothing.
    """
    results, facts, squared = _results(part), dict[str, str](), dict[str, str]()
    if isinstance(results, StoredResults):
        held, groups = results._held, results.options["groups"]
        model, axes = str(held["model"]), str(groups or "").split(" + ")
        cov = f"{results.options['cov']} {f'by {groups}' if groups else '(rows independent)'}"
        coefficients = bool(held["formula"]) or model.startswith(("Contrast", "OLS", "WLS", "GLM"))
        ranked = held.get("tested_against", 0) is None or not (coefficients or results.kind == "comparison")
        warned = [str(note["text"]) for note in held["notes"] if note["warning"]]
        facts["Score"] = str(held["score"])
    else:
        about, warned = results.estimate.about, [text for _, text in results.notes]
        ranked = about.levels or about.n_models > 0 or (about.interval != "wald" and not about.contrast)
        axes, cov = [term.name for term in results.cov.one_way if term.by], covariance_text(results.cov)
        if results.estimate.r_squared is not None:
            share, about_mean = results.estimate.r_squared
            # About 0 where there is no intercept, as in statsmodels.
            squared["R-squared"] = f"{share:.4f}" + ("" if about_mean else " (uncentred)")
        facts["Score"], model = about.outcome, about.model
    facts |= {"Model": model, "Rows": str(results.nobs)}
    facts |= {f"Clusters: {axis}": str(results.n_clusters[axis]) for axis in axes if axis in results.n_clusters}
    dof = _dof_text(results.dof.to_numpy())
    return facts | {"Covariance": cov, "Degrees of freedom": dof} | squared, ranked, warned


def _dof_text(dof: Any) -> str:
    """One number, or the smallest and the largest; "normal" where there are none."""
    known = dof[~np.isnan(dof)]
    if not known.size:
        return "none"
    ends = (
        "normal" if np.isinf(end) else f"{end:.0f}" if end >= 1000 else f"{end:.1f}".removesuffix(".0")
        for end in (known.min(), known.max())
    )
    return span(*ends)
