"""Plans from a pilot."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
import scipy

from evalreg.checks import IntArray, fraction, listed, passed
from evalreg.choices import MissingName
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import t_quantile
from evalreg.covariance.options import CovOptions, resolve_cov
from evalreg.covariance.terms import assemble
from evalreg.data.answers import AnswerTable, clusters_of_questions, read_single_answers
from evalreg.data.clusters import Codes, axis_name, joint
from evalreg.data.frame import rows_in_memory
from evalreg.data.rows import ReadRows, Roles, cells_of
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    EmptyDataError,
    MissingColumnError,
    TooFewClustersError,
)
from evalreg.estimate import Estimate, rows_behind
from evalreg.inference.posterior import refuse_population
from evalreg.numerics.limits import EQUAL, ROUNDING
from evalreg.numerics.matrices import compressed
from evalreg.planning.power import (
    checked_delta,
    fewest,
    least_differences,
    normal_units,
    score_power,
    t_power,
    t_shift,
    unit_variance,
)
from evalreg.scores.score_interval import NullVariance


def is_estimated(results: Any) -> bool:
    """Whether these are results with their estimate and covariance, as those that are read from a file are not."""
    parts = ("estimate", Estimate), ("cov", Covariance)
    return all(isinstance(getattr(results, name, None), kind) for name, kind in parts)


@dataclass(frozen=True)
class Pilot:
    """What a pilot says about the variance of a difference, and what follows for other numbers of its clusters."""

    variance: float  # variance of the difference times the number of questions, at the numbers of answers planned
    published: float  # the same as eq. 9 takes it, without a factor for the number of clusters
    dof: float  # degrees of freedom of a t test on the pilot's own clusters
    variance_dof: float  # degrees of freedom of the estimated variance
    n: int  # questions, and clusters of them
    n_clusters: int
    null: NullVariance | None = None  # of a mean, or of a difference of two models, that has a score interval
    larger: float = 1.0  # what multiplies the variance that is planned with

    @property
    def few(self) -> NullVariance | None:
        """That of a difference, where few questions differ; a mean is planned for by its standard error."""
        return None if self.null is None or not self.null.signed[0] else self.null

    @property
    def size(self) -> float:
        """Mean number of questions of a cluster."""
        return self.n / self.n_clusters

    def at_limit(self, assurance: float | None) -> Pilot:
        """The pilot whose variance is known to be the upper confidence limit d/chi2 of this one's."""
        if assurance is None:
            return self
        shape = self.variance_dof / 2
        larger = shape / float(scipy.special.gammaincinv(shape, 1 - assurance))
        return replace(self, larger=larger, variance_dof=np.inf)

    def dof_at(self, n_clusters: float) -> float:
        """Degrees of freedom on another number of clusters of the same mix of sizes; one less than equal clusters."""
        return max((self.dof + 1) * n_clusters / self.n_clusters - 1, EQUAL)

    def null_at(self, n_clusters: float) -> NullVariance:
        """What the score interval on so many clusters takes."""
        null = cast(NullVariance, self.null).grown(n_clusters / self.n_clusters)
        return replace(null, seen=null.seen * self.larger, base=null.base * self.larger)

    def variance_at(self, delta: float) -> float:
        """Variance of the difference times the number of questions, if the true difference is `delta`."""
        if self.few is None:
            return self.variance * self.larger
        return float(self.few.if_true(delta).seen[0]) * self.larger * self.n

    def power(self, n_clusters: float, delta: float, alpha: float) -> float:
        """Power of the test on so many clusters, averaged over the error of the variance."""
        dof = self.dof_at(n_clusters)
        if self.few is None:
            each = self.variance_at(delta) / self.size
            return t_power(delta / math.sqrt(each / n_clusters), dof, alpha, self.variance_dof)
        expected = self.few.if_true(delta).grown(n_clusters / self.n_clusters)
        critical = t_quantile(alpha, np.array([dof]))
        return float(score_power(expected, 0.0, critical, self.variance_dof, larger=self.larger)[0])

    def detected(self, alpha: float, power: float) -> float:
        """The difference that as many clusters detect."""
        if self.few is None:
            return t_shift(self.dof, alpha, power, self.variance_dof) * math.sqrt(self.variance * self.larger / self.n)
        error = {"pilot_dof": self.variance_dof, "larger": self.larger}
        dof = np.array([self.dof_at(self.n_clusters)])
        return float(least_differences(self.few, dof, alpha, power, **error)[0])

    def enough(self, delta: float, alpha: float, power: float) -> tuple[int, int]:
        """Questions, and clusters of them, at which the power is reached."""
        least = max(2, normal_units(self.variance_at(delta) / self.size, delta, alpha, power))
        units = fewest(lambda units: self.power(units, delta, alpha) >= power - EQUAL, least)
        return math.ceil(units * self.size * (1 - ROUNDING)), units


def of_components(table: pd.DataFrame, k_a: float | None, k_b: float | None, corrected: bool) -> dict[str, Pilot]:
    """What each row of a table of components says."""
    if "sigma2" in table:  # of one model: the other side, a fixed value, adds nothing
        if k_b is not None:
            raise ArgumentError("`k_b` is of the second of two models, and these components are of one. Leave it out.")
        table = table.rename(columns={"sigma2": "sigma2_a", "k": "k_a"}).assign(sigma2_b=0.0, k_b=1.0)
    absent = [name for name in COLUMNS if name not in table.columns]
    if absent or not {"plain", "clustered"} <= set(table.index):
        raise ArgumentError(
            "`pilot` must be the table that `er.plan.components` gives, or results of one difference; this frame is "
            "neither. Pass the log to `er.plan.components` first."
        )
    rows = {}
    for name in ("plain", "clustered"):
        row = {column: float(table[column][name]) for column in COLUMNS}
        n, G = int(row["n"]), int(row["n_clusters"])
        clustered = name == "clustered"
        if clustered and n == G:
            continue
        seen, noise = row["omega2_uncorrected"], row["omega2_uncorrected"] - row["omega2"]
        omega2 = seen - noise if corrected else seen
        if omega2 <= 0:
            raise ArgumentError(
                f'`omega2` of the row "{name}" must be positive; the pilot\'s is {omega2:g} once the noise of its '
                f"answers is taken out (before: {seen:g}). The noise hides how questions differ: "
                f"add questions or answers to the pilot, or plan with {passed(corrected=False)}, which errs upwards."
            )
        k = (row["k_a"] if k_a is None else k_a, row["k_b"] if k_b is None else k_b)
        published = unit_variance(omega2, row["sigma2_a"], row["sigma2_b"], *k)
        more = seen / (G - 1) if clustered else 0.0
        # Satterthwaite: the variance seen has G - 1, the noise that is put in the place of the pilot's n (K - 1) each.
        error = (seen + more) ** 2 / (G - 1)
        for sigma2, times, planned in ((row["sigma2_a"], row["k_a"], k[0]), (row["sigma2_b"], row["k_b"], k[1])):
            change = 1 / planned - (1 / times if corrected else 0.0)
            error += (change * sigma2) ** 2 / (n * max(times - 1, 1e-3))
        rows[name] = Pilot(published + more, published, G - 1.0, (published + more) ** 2 / error, n, G)
    return rows


def pilot_of(results: Any) -> dict[str, Pilot]:
    """What the results of a difference say, with independent questions and in their clusters."""
    results = getattr(results, "results", results)
    if not is_estimated(results):
        raise ArgumentTypeError(
            "`pilot` must be the table that `er.plan.components` gives, or results of one difference; got "
            f"{type(results).__name__}."
        )
    refuse_population(results.estimate, "a plan")
    if len(results.params) != 1:
        raise ArgumentError(
            f"`pilot` must have one parameter, the difference to be planned for; it has {len(results.params)}. Pass "
            'results.contrast("A - B").'
        )
    if results.cov.crossed:
        names = " + ".join(axis_name(axis) for axis in results.cov.axes)
        raise ArgumentError(
            f"`pilot` must be clustered in one way, since crossed designs have two numbers to plan; got {names}. Use "
            "`er.plan.separate`, which takes this difference too."
        )
    estimate = results.estimate
    item = estimate.item if estimate.item and set(estimate.item) <= set(estimate.scores.columns) else ()
    behind = rows_behind(estimate)
    n = touched(estimate, item) if item else estimate.n_rows if behind is None else round(float(behind[0]))
    plain = assemble(estimate, (item,), resolve_cov(CovOptions(), True, default="CR2")) if item else None
    variance = float(results.cov.naive[0, 0] if plain is None else plain.variance()[0])
    clustered = float(results.bse.iloc[0]) ** 2
    if not (variance > 0 and np.isfinite(clustered) and clustered > 0):
        raise ArgumentError("`pilot` must have a standard error above 0; this one says nothing about the variance.")
    apart = results.cov if plain is None and not results.cov.axes else plain
    rows = {"plain": Pilot(variance * n, variance * n, n - 1.0, n - 1.0, n, n, null_of(apart))}
    for axis in results.cov.axes:
        count, dof = touched(estimate, axis), float(results.dof.iloc[0])
        if count < n:
            rows["clustered"] = Pilot(
                clustered * n, clustered * n, dof, min(dof, count - 1.0), n, count, null_of(results.cov)
            )
    return rows


def null_of(cov: Covariance | None) -> NullVariance | None:
    """The variance of the one mean, or difference of two models once each, under other values.

    Which of the two is first does not matter: a plan is for a true difference in the direction that was seen.
    """
    scored = None if cov is None else cov.widths().scored
    if scored is None or not math.isclose(abs(scored.scale[0]), 1.0):
        return None
    null = scored.null
    return replace(null, theta=np.abs(null.theta)) if null.signed[0] else null


def refuse_beyond(delta: float, null: NullVariance | None) -> None:
    """Refuse a difference above 1 where scores lie in [0, 1], as those with a score interval do."""
    if null is not None and delta > 1:
        raise ArgumentError(
            f"`delta` must be at most 1, for scores in [0, 1]; got {delta:g}. 5 points of 100 are 0.05."
        )


def touched(estimate: Estimate, axis: tuple[str, ...]) -> int:
    """Clusters with rows that enter an estimate."""
    if estimate.refit is None or estimate.refit.inverse_gram.ndim > 1:
        return estimate.scores.n_clusters(axis)
    entering, count = abs(compressed(estimate.bread)).sum(axis=1) > 0, 0
    for block in estimate.scores.cells(axis):
        rows = compressed(block.gram)[:, entering]
        count += int(np.count_nonzero(rows.sum(axis=1)))
    return count


COLUMNS = ("omega2", "omega2_uncorrected", "sigma2_a", "sigma2_b", "k_a", "k_b", "n", "n_clusters")


def components(
    data: Any,
    score: str = "score",
    *,
    model: str | None = "model",
    item: str = "item",
    sample: str = "sample",
    groups: str | None = None,
    baseline: str | None = None,
    missing: MissingName = "drop",
) -> pd.DataFrame:
    """Variance components of the difference between two models, or of one, from a pilot with repeated answers.

    In the row "plain" questions are independent: variances over questions divide by n - 1, as in eq. 1 of the paper.
    "clustered" is appendix C: sums within clusters are squared and divided by n. As published it has no small-sample
    factor, and is low by a share of 1/G: `from_pilot` multiplies by G/(G - 1), and allows for the error of so few
    clusters. Who plugs the row into `sample_size` or `mde` multiplies `omega2` by that.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each answer, of two models or of one.
    score : str, default "score"
        Column of scores; booleans count as 0 and 1.
    model, item, sample : str, optional
        Columns of the models, the questions, and the ids of the answers to a question. Each model needs at least 2
        answers to each question. `model=None` where all rows are of one model, whose score is then planned for.
    groups : str, optional
        Column of the clusters of questions, or columns joined by a colon. By default each question is its own.
    baseline : str, optional
        The model called B. By default B is the second of the two in text order.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score, label or cluster id is missing; dropped rows are counted.

    Returns
    -------
    pandas.DataFrame
        Rows "plain" and "clustered", and columns

        - `omega2`: variance over questions of the difference in expected scores, that is `omega2_uncorrected` less
          the answer noise; reported as estimated, and 0 or less where noise hides the rest.
        - `omega2_uncorrected`: the same of the observed question means, as the paper has it: too large by the noise
          of K answers.
        - `sigma2_a`, `sigma2_b`: variance of one answer within its question, averaged over questions.
        - `k_a`, `k_b`: answers to each question in the pilot; their harmonic mean where it differs.
        - `n`, `n_clusters`: questions answered by both models, and clusters of them ("plain": questions).

        Of one model the columns are `omega2`, `omega2_uncorrected`, `sigma2`, `k`, `n` and `n_clusters`; the variance
        of its mean score over n questions with k answers each is (omega2 + sigma2/k)/n.

        `.attrs["models"]` are the names of A and B (none of one model), `.attrs["left_out"]` the number of questions
        that only one of them answered, and `.attrs["dropped"]` the numbers of rows by reason.

    Raises
    ------
    DataError
        If there are not exactly two models, a question has a single answer of a model, or there is one question.
    MissingColumnError, NonNumericError, NonFiniteError, EmptyDataError, DuplicateRowsError, AlignmentError,
    TooFewClustersError
        If the data break a rule; the message says which rows.
    ArgumentError, ArgumentTypeError
        If an argument breaks its rule; crossed groups are among these.
    NotAvailableError
        If the rows live in an engine.

    Notes
    -----
    With s_i^2 the variance of the K_i answers to question i (denominator K_i - 1), plain sigma2 is the mean of s_i^2,
    and plain `omega2` subtracts the means of s_i^2/K_i of both models. The K_i may differ.

    The clustered sigma2 adds the products of deviations of answers with the same sample id to different questions of
    a cluster. This takes sample ids to mean the same thing in all questions, as one run or one seed does. Where they
    only count answers, these products are noise about 0, and the plain sigma2 says the same more precisely; the row
    "clustered" follows appendix C all the same. Ids that are different in every question leave no products. Where the
    K_i differ, a deviation counts with the weight (K_i - 1)^(-1/2), which is exact for the squares and shrinks the
    products somewhat.

    The clustered `omega2` subtracts clustered noise, a step that the paper does not take.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 3 (law of total variance), section 5 and appendix C.

    Examples
    --------
    >>> import evalreg as er
    >>> pilot = er.datasets.sampled(n_questions=400, n_samples=5, n_models=2, correlation=0.5, icc=0.2, seed=1)
    >>> parts = er.plan.components(pilot, item="question", groups="passage")
    >>> print(parts[["omega2", "omega2_uncorrected", "sigma2_a", "sigma2_b"]].round(5).to_string())
                omega2  omega2_uncorrected  sigma2_a  sigma2_b
    plain      0.07405             0.14195   0.17150     0.168
    clustered  0.09542             0.16037   0.16375     0.161
    >>> pilot.attrs["truth"]["omega2"], parts.attrs["models"]
    (0.08333333333333333, ('model-1', 'model-2'))
    """
    if model is None and baseline is not None:
        raise ArgumentError(f"`baseline` names one of two models; got {baseline!r} with model=None. Leave it out.")
    labels: dict[str, str | None] = {"model": model, "item": item, "sample": sample}
    read, roles = read_single_answers(rows_in_memory(data, "`components`"), score, labels, groups, missing)
    axis, *others = read.axes or ((item,),)
    if others:
        raise ArgumentError(
            "`groups` must name one clustering for variance components; got "
            f"{listed(map(axis_name, (axis, *others)))}. Appendix C has no crossed form: use the one that matters "
            'most, or a joint id such as "language:question".'
        )
    rows, side, models = (
        (read, np.zeros(read.n_rows, dtype=np.intp), ()) if model is None else _both(read, roles, baseline)
    )
    question, answer, values = rows.used[item], rows.used[sample], rows.values["score"]
    n, n_models = question.n_clusters, max(len(models), 1)
    if n < 2:
        raise DataError(f"variance over questions needs at least 2 questions; column {item!r} holds 1.", count=1)
    cell, cluster = side * n + question.codes, clusters_of_questions(rows, axis, item)
    sums = AnswerTable.of(cell, (n_models, n), values)
    count, mean = sums.count, sums.mean
    _refuse_single(count, question, models)
    if cluster.n_clusters < 2:
        raise TooFewClustersError(
            f"`{passed(groups=axis_name(axis))}` has 1 distinct value; at least 2 are needed. Use a finer column, or "
            f"pass {passed('`groups=None`', groups=None)} to treat questions as independent.",
            column=axis_name(axis),
            count=1,
        )
    # Of the difference itself: variances less the covariance would lose digits where the models are nearly alike.
    difference = mean[0] - mean[1:].sum(axis=0)
    difference -= difference.mean()
    k, residual = count.ravel()[cell], values - mean.ravel()[cell]
    # Harmonic means, exact where all are alike.
    least = count.min(axis=1)
    answers = least * n / (least[:, None] / count).sum(axis=1)
    sides = ("_a", "_b") if models else ("",)

    def row(codes: IntArray, G: int, factor: float) -> dict[str, float]:
        """Sums within clusters are squared: eq. 1 and section 5 where each question is its own, else appendix C."""
        totals = np.bincount(codes, difference, G)
        seen = float(totals @ totals) / n * factor
        # The same answer id of one model within one cluster: summed before squaring, the cross terms of appendix C.
        run = joint([Codes(codes[question.codes], G), answer])
        key = side * run.n_clusters + run.codes
        sigma2, noise = (
            (np.bincount(key, weighted, n_models * run.n_clusters).reshape(n_models, -1) ** 2).sum(axis=1) / n
            for weighted in residual / np.sqrt([k - 1, k * (k - 1)])
        )
        columns = {"omega2": seen - float(noise.sum()), "omega2_uncorrected": seen}
        for name, of_sides in (("sigma2", sigma2), ("k", answers)):
            columns |= {f"{name}{end}": float(value) for end, value in zip(sides, of_sides, strict=True)}
        return columns | {"n": n, "n_clusters": G}

    G = cluster.n_clusters
    table = {"plain": row(np.arange(n), n, n / (n - 1)), "clustered": row(cluster.codes, G, 1.0)}
    frame = pd.DataFrame.from_dict(table, orient="index").astype({"n": int, "n_clusters": int})
    left_out = read.used[item].n_clusters - n
    frame.attrs.update({"models": models, "left_out": left_out, "dropped": read.dropped})
    return frame


def _both(rows: ReadRows, roles: Roles, baseline: object) -> tuple[ReadRows, IntArray, tuple[str, ...]]:
    """Rows of the questions that both models answered, the side of each, and the names of A and B."""
    column, question = roles.by[0], rows.used[str(roles.item)]
    keys, side = cells_of(rows.used, (column,))
    names = [name for (name,) in keys]
    if len(names) != 2 or side is None:
        remedy = (
            f"Keep the rows of two of them, such as {listed(names[:2], joiner=' and ')}."
            if len(names) > 2
            else f"Add the answers of a second model to the same questions, or pass {passed(model=None)} for its own "
            "components."
        )
        raise DataError(
            f"variance components of a difference need exactly 2 models; column {column!r} holds {len(names)} "
            f"({listed(names)}). {remedy}",
            column=column,
            count=len(names),
        )
    if baseline is not None and not isinstance(baseline, str):
        raise ArgumentTypeError(f"`baseline` must be the name of a model; got {type(baseline).__name__} {baseline!r}.")
    if baseline is not None and baseline not in names:
        raise MissingColumnError(
            f"`baseline` must be one of the two models, {listed(names, joiner=' and ')}; got {baseline!r}.",
            column=column,
        )
    if baseline == names[0]:
        names, side = names[::-1], 1 - side
    n = question.n_clusters
    answered = AnswerTable.of(side * n + question.codes, (2, n), rows.values["score"]).count > 0
    both = answered[0] & answered[1]
    if (n_both := int(both.sum())) < 2:
        counts = " and ".join(
            f"{name!r} answered {count}" for name, count in zip(names, answered.sum(axis=1), strict=True)
        )
        kind = DataError if n_both else EmptyDataError
        raise kind(
            f"at least 2 questions must have answers of both models; {n_both or 'none'} has ({counts}). A question "
            f"needs the same id in column {roles.item!r} for both.",
            column=roles.item,
            count=n_both,
        )
    chosen = both[question.codes]
    return rows.only(chosen), side[chosen], tuple(names)


def _refuse_single(count: IntArray, question: Codes, models: tuple[str, ...]) -> None:
    """Answer noise cannot be told from one answer."""
    single = count < 2
    if not single.any():
        return
    side, place = (int(index[0]) for index in np.nonzero(single))
    first = f"{question.label(place)!r}"
    each, units, scores = "to each question", "questions", "the scores"
    if models:
        first = f"{models[side]!r}, {first}"
        each, units, scores = "of each model to each question", "pairs of model and question", "the paired differences"
    raise DataError(
        f"variance components need at least 2 answers {each}; {int(single.sum())} of "
        f"{single.size} {units} have 1 (the first: {first}). Sample them again or leave those questions out. With one "
        f"answer to every question, plan for k of 1 with the variance of {scores} as `omega2`, which holds the answer "
        "noise: neither part can be larger than it.",
        count=int(single.sum()),
    )


def from_pilot(
    pilot: Any,
    *,
    delta: float,
    k_a: float | None = None,
    k_b: float | None = None,
    corrected: bool = True,
    assurance: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> pd.DataFrame:
    """Number of questions that a pilot says a comparison needs, plain and clustered.

    Parameters
    ----------
    pilot : DataFrame or Results
        What `components` gives, or the results of one difference: a contrast of means by model, of ratios, of a
        regression; of one model a difference from a fixed value. Components know the answer noise, so that other
        numbers of answers can be planned; a difference is planned with as many answers as the pilot had.
    delta : float
        True difference that should be detected, above 0.
    k_a, k_b : float, optional
        Answers of each model to each question, for components only; by default those of the pilot.
    corrected : bool, optional
        Whether to take the noise of the pilot's own answers out of omega2, True by default. False plans with
        `omega2_uncorrected` as the paper does, which counts the noise twice and errs upwards.
    assurance : float, optional
        With this probability over pilots the real power is at least `power`: the plan is made with the upper confidence
        limit of the variance. By default the real power is `power` on average over pilots of this size.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default. Above alpha.

    Returns
    -------
    pandas.DataFrame
        Rows "plain" and "clustered" ("clustered" only where the pilot has clusters of several questions), and columns

        - `variance`: variance of the difference times the number of questions, at the numbers of answers planned.
          Clustered components are multiplied by G/(G - 1), which appendix C leaves out.
        - `n_eq9`: questions by eq. 9 as printed: normal quantiles, the variance taken as known, no factor.
        - `n`, `n_clusters`: questions, and clusters of the pilot's mix of sizes, by the t test that will be made,
          allowing for the error of the pilot's variance.
        - `cluster_size`: questions of a cluster in the pilot; 1 in the row "plain".
        - `mde`: difference that the pilot's own questions would detect at these numbers of answers.

        Of results, n counts the questions that enter the difference where `item` named them, and otherwise the rows
        that enter it: comparisons on a board, two rows a question in a regression on models. Without `item`, "plain" is
        the naive covariance, which takes rows as independent and so does not pair the models.

    Raises
    ------
    ArgumentError
        If a corrected omega2 is 0 or less, results have several parameters or crossed clusters, or a number is outside
        its range.
    ArgumentTypeError
        If the pilot is neither.
    NotAvailableError
        If the results are about a finite benchmark.

    Notes
    -----
    A variance from d degrees of freedom is off by a factor chi2/d. Taken as known, it gives a power that is below the
    one asked for on average: 0.74 for 0.80 from 10 clusters, 0.77 from 20. The power is therefore averaged over that
    factor, or the variance replaced by its upper limit d/chi2. d is that of Satterthwaite; for components it is G - 1,
    less where the answer noise of the pilot is most of what was seen. Clusters of unequal sizes have fewer degrees of
    freedom than G - 1, which results know and components do not: give results where sizes differ much.

    Of two models with scores in [0, 1] on the same questions, of which few differ, the test will allow for differences
    not seen, and so does the plan: with V(x) the variance that the test takes if the difference is x, the power is
    Phi((delta - t sqrt V(0))/sqrt V(delta)). The rate of questions that differ is the likeliest one at a
    difference of `delta` in the direction that the pilot shows.

    References
    ----------
    Miller (2024), arXiv:2411.00640, eq. 9 and 10, appendix C; Julious and Owen (2006), Pharmaceutical Statistics 5,
    29-37, for the average over pilots; Browne (1995), Statistics in Medicine 14, 1933-1940, for the upper limit.

    Examples
    --------
    >>> import evalreg as er
    >>> pilot = er.datasets.sampled(n_questions=400, n_samples=5, n_models=2, correlation=0.5, icc=0.2, seed=1)
    >>> parts = er.plan.components(pilot, item="question", groups="passage")
    >>> print(er.plan.from_pilot(parts, delta=0.05, k_a=10, k_b=10)[["n_eq9", "n", "n_clusters"]].to_string())
               n_eq9    n  n_clusters
    plain        340  344         344
    clustered    402  435          87
    >>> print(er.plan.from_pilot(parts, delta=0.05, k_a=10, k_b=10, assurance=0.9)[["n", "n_clusters"]].to_string())
                 n  n_clusters
    plain      387         387
    clustered  550         110
    """
    delta = checked_delta(delta)
    if assurance is not None:
        fraction("assurance", assurance)
    if isinstance(pilot, pd.DataFrame):
        rows = of_components(pilot, k_a, k_b, corrected)
    else:
        if k_a is not None or k_b is not None or not corrected:
            raise ArgumentError(
                "`k_a`, `k_b` and `corrected` need variance components, which tell answer noise from the rest; pass "
                "what `er.plan.components` gives of the pilot's single answers."
            )
        rows = pilot_of(pilot)
    table = {}
    for name, row in rows.items():
        refuse_beyond(delta, row.null)
        planned = row.at_limit(assurance)
        n, n_clusters = planned.enough(delta, alpha, power)
        n_eq9 = normal_units(row.published if row.few is None else row.variance_at(delta), delta, alpha, power)
        table[name] = (row.variance_at(delta), n_eq9, n, n_clusters, row.size, planned.detected(alpha, power))
    columns = ["variance", "n_eq9", "n", "n_clusters", "cluster_size", "mde"]
    whole = dict.fromkeys(columns[1:4], int)
    return pd.DataFrame.from_dict(table, orient="index", columns=columns).astype(whole)
