"""What is known of each pair of models, which of two wins more questions, and the tables of both."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, few_of, fraction, listed
from evalreg.data.answers import NOBODY, ModelPairs, Overlap
from evalreg.data.clusters import EXACT, Codes, as_codes, axis_name, joint
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    EvalregError,
    FewCarriersWarning,
    NotAvailableError,
    ScoreRangeError,
    issue,
)
from evalreg.inference.ranks import PairAdjustName, unadjusted_text
from evalreg.inference.simultaneous import adjust_pvalues, base_seed, family_of
from evalreg.inference.wald import Contrasts, t_pvalues
from evalreg.numerics.matrices import dense
from evalreg.report.answer import MOST_NOTES, few, notes_of, rests_on, rule_text, value_text
from evalreg.report.summaries import covariance_text, few_seen, not_allowed_for, rather_few, score_text
from evalreg.report.tables import UNKNOWN, Grid, Summary, dof_texts, error_text, fixed, interval_text, number, p_value
from evalreg.results.results import Results
from evalreg.scores.differences import by_set, chunks, differences, paired_differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from evalreg.data.answers import Answers
    from evalreg.scores.score_interval import Paired


@dataclass(frozen=True)
class SignTest:
    """What `sign_test` found.

    Parameters
    ----------
    statistic : int
        Wins.
    p_value : float
        Two-sided, exact.
    n : int
        Wins and losses; ties are not among them.
    """

    statistic: int
    p_value: float
    n: int

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that n allows, 2^(1 - n): above 0.05 where n is below 6."""
        return 2.0 ** min(1 - self.n, 0)


def sign_test(wins: int, losses: int) -> SignTest:
    """Exact two-sided test that a win is as likely as a loss.

    Wins are the questions (or comparisons) that went to one model, losses those that went to the other; where they
    did equally well they say nothing and are left out. For scores of 0 and 1 on the same questions this is the exact
    form of McNemar's test. Wins and losses are taken to be independent of each other: questions of one passage are
    not, and the clustered interval of the difference is then the better guide.

    Parameters
    ----------
    wins, losses : int
        Counts, from 0 to 2^53.

    Returns
    -------
    SignTest
        With `statistic` (the wins), `p_value`, `n`, and `smallest_p`, below which no p-value of n can fall: five wins
        and no loss have 0.0625. The p-value is Pr[X <= min or X >= max] for X binomial with n trials of probability
        1/2, and so 1 where wins equal losses.

    Raises
    ------
    ArgumentError
        If a count is negative, not whole or above 2^53.
    ArgumentTypeError
        If a count is not a number.

    References
    ----------
    McNemar (1947), Psychometrika 12, 153-157; Dixon and Mood (1946), Journal of the American Statistical Association
    41, 557-566.

    Examples
    --------
    >>> import evalreg as er
    >>> er.sign_test(8, 2)
    SignTest(statistic=8, p_value=0.109375, n=10)
    """
    wins, losses = _count("wins", wins), _count("losses", losses)
    return SignTest(wins, float(sign_pvalues(wins, losses)), wins + losses)


def sign_pvalues(wins: Any, losses: Any) -> FloatArray:
    """Exact two-sided p-values of as many wins as losses, 1 where there are none.

    Twice the smaller tail: both are equal at 1/2. By the incomplete beta function, which takes any counts.
    """
    from scipy import special

    fewer, n = np.minimum(wins, losses), np.add(wins, losses)
    tail = special.betainc(np.maximum(n - fewer, 1), fewer + 1.0, 0.5)
    return np.where(np.equal(wins, losses), 1.0, np.minimum(1.0, 2 * tail))


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"`{name}` must be a count; got {type(value).__name__} {value!r}.")
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if not 0 <= number <= EXACT or number != int(number):
        raise ArgumentError(
            f"`{name}` must be a whole number from 0 to 2**53; got {value!r}. Ties count as neither wins nor losses."
        )
    return int(number)


@dataclass(frozen=True)
class ClusteredSign:
    """The sign test of questions in clusters."""

    statistic: float  # (wins - losses)^2 over its variance under the null; NaN where there is none
    p_value: float  # two-sided, from t with the smallest number of clusters less one


def clustered_sign_test(signs: FloatArray, axes: Sequence[Codes]) -> ClusteredSign:
    """Test that wins are as likely as losses, where questions of a cluster may go together.

    With every question its own cluster, the statistic is McNemar's (wins - losses)^2/(wins + losses). McNemar (1947),
    Psychometrika 12, 153-157. In clusters, the square of the sum of the clusters' surplus of wins over the sum of their
    squares; crossed, by inclusion and exclusion, not below the largest one-way variance. Shapes: signs (n,).
    """
    n_smallest = min([codes.n_clusters for codes in axes], default=signs.size)
    together, one_way = 0.0, [] if axes else [float(signs @ signs)]
    for size in range(1, len(axes) + 1):
        for some in combinations(axes, size):
            squares = float(np.sum(np.bincount(joint(list(some)).codes, signs) ** 2))
            together -= (-1) ** size * squares
            one_way += [squares] if size == 1 else []
    variance = max([together, *one_way])
    if not variance > 0 or n_smallest < 2:
        return ClusteredSign(float("nan"), float("nan"))
    z = float(signs.sum()) / float(np.sqrt(variance))
    return ClusteredSign(z**2, float(t_pvalues(np.array([z]), np.array([n_smallest - 1.0]))[0]))


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of each pair of models whatever the covariance, one entry for each pair."""

    sides: tuple[tuple[str, ...], tuple[str, ...]]  # models and their baselines
    names: tuple[str, ...]  # of the differences
    # Questions that the difference is over, and those that one of the two answered and the other did not.
    n: IntArray
    n_unpaired: IntArray
    paired: BoolArray  # whether it is over shared questions
    values: FloatArray  # (n_models, n_questions): scores of the questions in use
    pairs: ModelPairs

    @cached_property
    def index(self) -> pd.MultiIndex:
        """Labels (model, baseline)."""
        return pd.MultiIndex.from_arrays([list(side) for side in self.sides], names=["model", "baseline"])

    @cached_property
    def correlations(self) -> tuple[FloatArray, FloatArray]:
        """Pearson's r over shared questions, and the variance that pairing saves, were they independent."""
        r, saved = correlations(self.values, self.pairs)
        return r, np.where(self.paired, saved, np.nan)

    def each_pair(self, results: Results) -> Iterator[tuple[int, int, int, int, float, tuple[float, float]]]:
        """Pairs that share questions: wins, losses, questions, sum of the first model's scores, clustered sign test."""
        scores = results.estimate.scores
        if not scores.paired:
            raise NotAvailableError(
                "a test of wins and losses needs paired questions, and this comparison was made with paired=False. "
                "Compare again without it."
            )
        labels = scores.row_labels()
        assert labels is not None
        codes = [labels.codes(axis) for axis in results.cov.axes]
        for columns, member in chunks(self.pairs, self.values.shape[1]):
            d = differences(self.values, self.pairs, columns, member)
            clusters = codes if member is None else [as_codes(one.codes[member]) for one in codes]
            for i, pair in enumerate(columns):
                if self.paired[pair]:
                    scored = self.values[self.pairs.left[pair]]
                    right = float((scored if member is None else scored[member]).sum())
                    wins, losses = int(np.sum(d[i] > 0)), int(np.sum(d[i] < 0))
                    test = clustered_sign_test(np.sign(d[i]), clusters)
                    yield int(pair), wins, losses, d.shape[1], right, (test.statistic, test.p_value)

    def family(self, estimate: Any, icc: float | None) -> Paired | None:
        """What the differences allow for that was not seen."""
        return paired_differences(estimate, icc, self.pairs, self.paired)


def facts_of(answers: Answers, pairs: ModelPairs, overlap: Overlap) -> Facts:
    """The facts of pairs, from the answers that they are over."""
    sides = tuple(answers.models[i] for i in pairs.left), tuple(answers.models[i] for i in pairs.right)
    names = difference_names(*sides)
    return Facts(sides, names, overlap.n, overlap.n_unpaired, overlap.paired, answers.values, pairs)


def difference_names(models: Sequence[str], baselines: Sequence[str]) -> tuple[str, ...]:
    """Names "model - baseline", all distinct."""
    names = tuple(f"{model} - {baseline}" for model, baseline in zip(models, baselines, strict=True))
    alike = [name for i, name in enumerate(names) if name in names[:i]] if len(set(names)) < len(names) else []
    if alike:
        raise DataError(
            f"differences need distinct names; {listed(alike)} would name two pairs of models. Rename models that have "
            '" - " in their names.',
            count=len(alike),
        )
    return names


def correlations(values: FloatArray, pairs: ModelPairs) -> tuple[FloatArray, FloatArray]:
    """Correlation of the scores of each pair over its questions, and the variance that pairing saves.

    Pearson's r, and 2 Cov/(Var + Var); NaN where scores do not vary or fewer than two questions are shared. Shapes:
    values (n_models, n_questions).
    """
    r, saved = np.full(pairs.n_columns, np.nan), np.full(pairs.n_columns, np.nan)
    for columns, member in by_set(pairs):
        if not columns.size or (member is not None and np.count_nonzero(member) < 2):
            continue
        left, right = pairs.left[columns], pairs.right[columns]
        models = np.unique(np.append(left, right))
        models = models[models != NOBODY]
        shared = values[models] if member is None else values[np.ix_(models, np.flatnonzero(member))]
        shared = shared - shared.mean(axis=1, keepdims=True)
        products = dense(shared @ shared.T)
        a, b = np.searchsorted(models, left), np.searchsorted(models, right)
        size = np.diag(products)
        xx, yy, xy = size[a], size[b], products[a, b]
        # Squares below this are rounding.
        floor = 1e-24 * shared.shape[1] * np.max(np.abs(values), initial=0.0) ** 2
        varies, total = (xx > floor) & (yy > floor), xx + yy
        r[columns] = np.clip(xy / np.sqrt(np.where(varies, xx * yy, np.nan)), -1.0, 1.0)
        saved[columns] = 2 * xy / np.where(total > floor, total, np.nan)
    return r, saved


Compared: TypeAlias = tuple[Results, Facts, PairAdjustName | None]
"""Differences, what is known of their pairs, and how p-values are adjusted."""


def difference_frame(results: Results, facts: Facts, adjust: PairAdjustName | None, alpha: float) -> pd.DataFrame:
    """The table of `Comparison.to_frame`."""
    fraction("alpha", alpha)
    cov = results.cov
    theta, dof = np.array(results.estimate.params), cov.dof()
    variance = cov.variance()
    se = np.where(variance > 0, np.sqrt(variance), np.nan)
    p = cov.pvalues(None, theta)
    ends, adjusted = cov.limits(theta, None, alpha), p
    if adjust == "single-step" or adjust == "step-down":
        family, base = family_of(results.params, cov), base_seed(0)[0]
        adjusted = family.adjusted(base) if adjust == "single-step" else family.stepdown(base)
        ends = family.widths.limits(theta, family.level(alpha, base)) if adjust == "single-step" else ends
    elif adjust is not None:
        adjusted = adjust_pvalues(p, adjust)
    columns = {"difference": theta, "se": se, "lower": ends[:, 0], "upper": ends[:, 1], "p_value": p}
    columns |= {} if adjust is None else {"p_adjusted": adjusted}
    correlation, saved = facts.correlations
    columns |= {"correlation": correlation, "n": facts.n, "n_clusters": fewest_clusters(results, facts), "dof": dof}
    columns |= {"variance_saved": saved, "n_unpaired": facts.n_unpaired, "paired": facts.paired}
    table = pd.DataFrame(columns, index=facts.index)
    table.attrs = {"adjust": adjust, "alpha": alpha}
    return table


def fewest_clusters(results: Results, facts: Facts) -> IntArray:
    """Clusters of each pair, of the axis that has fewest; its questions where they are independent. At least 1."""
    estimate, axes = results.estimate, results.cov.axes
    if not axes:
        return facts.n
    A, fewest = estimate.coefficient_map, np.full(facts.n.size, np.iinfo(np.intp).max)
    for axis in axes:
        fewest = np.minimum(fewest, estimate.scores.clusters_reached(axis, A))
    return fewest


def sign_frame(results: Results, facts: Facts) -> pd.DataFrame:
    """The table of `Comparison.sign_test`."""
    columns = ("wins", "losses", "ties", "p_value", "clustered_statistic", "clustered_p_value")
    rows = {
        pair: (wins, losses, n - wins - losses, _mcnemar_of([[0, wins], [losses, 0]], exact=True)[1], *clustered)
        for pair, wins, losses, n, _, clustered in facts.each_pair(results)
    }
    return _of_pairs(rows, columns, 3, facts)


def mcnemar_frame(results: Results, facts: Facts) -> pd.DataFrame:
    """The table of `Comparison.mcnemar`; scores must be 0 or 1."""
    others = facts.values[(facts.values != 0) & (facts.values != 1)]
    if others.size:
        column = results.estimate.about.outcome
        raise ScoreRangeError(
            f"`mcnemar` needs scores of 0 and 1; {others.size} of the answers have another {column!r}, such as "
            f"{others[0]:g} (answers averaged over samples do). Use `sign_test`, which takes any scores.",
            column=column,
            count=others.size,
        )
    names = ("both", "model_only", "baseline_only", "neither", "statistic", "p_value", "corrected_statistic")
    columns = (*names, "corrected_p_value", "exact_p_value", "clustered_statistic", "clustered_p_value")
    rows = {}
    for pair, wins, losses, n, right, clustered in facts.each_pair(results):
        both = round(right) - wins
        square = [[both, wins], [losses, n - both - wins - losses]]
        tests = (*_mcnemar_of(square, exact=False), *_mcnemar_of(square, exact=False, correction=True))
        rows[pair] = (*square[0], *square[1], *tests, _mcnemar_of(square, exact=True)[1], *clustered)
    return _of_pairs(rows, columns, 4, facts)


def _of_pairs(
    rows: Mapping[int, tuple[float, ...]], columns: Sequence[str], n_counts: int, facts: Facts
) -> pd.DataFrame:
    """A row a pair, NaN where models share no questions; the first columns are counts."""
    table = pd.DataFrame.from_dict(dict(rows), orient="index", columns=list(columns)).reindex(range(len(facts.index)))
    types = dict.fromkeys(columns[:n_counts], "int64" if facts.paired.all() else "float64")
    return table.astype({**dict.fromkeys(columns, "float64"), **types}).set_index(facts.index)


def wild_frame(
    results: Results, facts: Facts, adjust: PairAdjustName | None, null: float, **asked: Any
) -> pd.DataFrame:
    """The table of `Comparison.wild_test`; `asked` is of `Results.wild_test`."""
    if adjust == "single-step":
        raise NotAvailableError(
            'the wild test has no "single-step" adjustment. Compare again with adjust="holm", or without `adjust`.'
        )
    if text := not_allowed_for(results.cov):
        issue([(FewCarriersWarning, text)])
    names, each = results.estimate.names, np.eye(len(results.estimate.names))
    tests = [
        results.wild_test(Contrasts(row[None], np.array([null]), (name,)), **asked)
        for row, name in zip(each, names, strict=True)
    ]
    names = ("statistic", "p_value", "p_equal_tailed", "draws", "enumerated", "by", "n_clusters")
    table = pd.DataFrame([{name: getattr(test, name) for name in names} for test in tests], index=facts.index)
    table.insert(0, "difference", [test.estimate for test in tests])
    for place, end in ((4, "lower"), (5, "upper")):
        table.insert(place, end, [test.interval[place - 4] if test.interval else np.nan for test in tests])
    if adjust is not None:
        table.insert(
            3, "p_adjusted", adjust_pvalues(table["p_value"].to_numpy(), "holm" if adjust == "step-down" else adjust)
        )
    first = tests[0]
    table.attrs = {"adjust": adjust, "alpha": first.alpha, "null": null, "seed": first.seed, "weights": first.weights}
    return table


def joint_contrasts(results: Results, facts: Facts) -> FloatArray:
    """Differences that are all 0 only where every difference is: all of one baseline, or those of one model."""
    n, (left, right) = len(facts.index), (np.array(side) for side in facts.sides)
    if n < 2:
        raise ArgumentError("a joint test is of two or more differences; here is one, which the table tests by itself.")
    if len(set(right)) == 1:
        return np.eye(n)
    if facts.paired.any() and (facts.n_unpaired.any() or not facts.paired.all()):
        raise NotAvailableError(
            "a joint test of all pairs needs models that answered the same questions: here "
            f"{np.count_nonzero(facts.n_unpaired)} of {n} pairs leave some out, so that each pair is about questions "
            "of its own. Name a `baseline`, from which the others differ, or keep the questions that all answered."
        )
    # Those from one model fix all others: A - C is (A - B) - (C - B).
    chosen = np.flatnonzero((left == left[0]) | (right == left[0]))
    return np.eye(n)[chosen]


def joint_note(results: Results) -> str:
    """What is said of a joint test where few questions differ; empty where enough do."""
    return not_allowed_for(results.cov, "The joint test", "its p-value may be too small; the table allows for them")


def _mcnemar_of(square: list[list[int]], *, exact: bool, correction: bool = False) -> tuple[float, float]:
    """Statistic and p-value by statsmodels; without a question that tells the two apart 0 and 1."""
    from statsmodels.stats.contingency_tables import mcnemar

    if square[0][1] + square[1][0] == 0:
        return 0.0, 1.0
    test = mcnemar(np.array(square), exact=exact, correction=correction)
    return float(test.statistic), min(float(test.pvalue), 1.0)


def comparison_summary(
    parts: Mapping[str, Compared],
    alpha: float,
    frames: Mapping[str, pd.DataFrame] | None = None,
    together: str | None = None,
) -> Summary:
    """The summary of one comparison (under an empty name) or of several, by eval.

    `frames` are their tables, where p-values are adjusted over all of them, by `together`.
    """
    rows: list[tuple[str, ...]] = []
    facts: dict[str, dict[str, str]] = {}
    said: dict[str, list[str]] = {}
    for name, (results, pairs, adjust) in parts.items():
        lead = f"{name}: " if name else ""
        own = difference_frame(results, pairs, adjust, alpha) if frames is None else frames[name]
        rows += _printed_rows(own, lead, alpha)
        facts |= {
            label: {**facts.get(label, {}), name: value} for label, value in _printed_facts(results, pairs, adjust)
        }
        estimate, cov = results.estimate, results.cov
        few = [*filter(None, [score_text(cov)]), *rather_few(estimate, cov)]
        texts = (*results.estimate.about.lines, *few, *(text for _, text in results.notes))
        said[name] = list(texts)
    sentences = by_part(said)
    adjusted = together is not None or any(adjust for _, _, adjust in parts.values())
    n_plain = sum(len(pairs.index) for _, pairs, adjust in parts.values() if adjust is None)
    if together is not None:
        sentences.append(f"adj. p allows for all {n_plain} differences on all evals ({together}).")
    elif n_plain > 1:
        sentences.append(unadjusted_text(n_plain))
    interval = f"{100 * (1 - alpha):g}% interval"
    headers = ("model - baseline", "difference (SE)", interval, "adj. p" if adjusted else "p", "corr", "n", "G")
    sentences.append(
        "SE in parentheses. corr is the correlation of the two models' scores over the questions that both answered, n "
        "the number of questions, G that of clusters."
    )
    shown = tuple((label, _together(values, len(parts))) for label, values in facts.items())
    return Summary("evalreg comparison", shown, (Grid(headers, tuple(rows)),), tuple(sentences))


def comparison_brief(results: Results, facts: Facts, adjust: PairAdjustName | None, alpha: float) -> Summary:
    """The differences as an answer: the first in words where there is one, a line each, at most three notes."""
    frame, cov = difference_frame(results, facts, adjust, alpha), results.cov
    t, outcome = results.tvalues.to_numpy(), results.estimate.about.outcome
    wins = dict[int, str]()
    if bool(facts.paired.all()):
        with suppress(EvalregError):
            each = facts.each_pair(results)
            wins = {pair: f"{won}/{lost}/{n - won - lost}" for pair, won, lost, n, *_ in each}
    baselines = frame.index.get_level_values(1).unique()
    common = len(frame) > 1 and len(baselines) == 1
    decided = frame["p_value" if adjust is None else "p_adjusted"].to_numpy(dtype=float)
    dofs, rows = dof_texts(frame["dof"], whole=False), []
    for i, ((model, baseline), row) in enumerate(zip(frame.index, frame.to_dict("records"), strict=True)):
        cells = [f"{number(row['difference'])} ({error_text(row['se'])})"]
        cells += [interval_text(row["lower"], row["upper"], row["difference"])]
        cells += [UNKNOWN if np.isnan(t[i]) else fixed(t[i], 2), dofs[i]]
        cells += [UNKNOWN if np.isnan(decided[i]) else p_value(decided[i], alpha)]
        name = str(model) if common else f"{model} - {baseline}"
        rows.append((name, *([wins.get(i, "")] if wins else []), *cells))
    level, p = f"{100 * (1 - alpha):g}%", "p" if adjust is None else "adj. p"
    headers = ("", *(("win/lose/tie",) if wins else ()), "difference (SE)", f"{level} interval", "t", "dof", p)
    rests = rests_on(results.estimate, cov, facts.values.shape[1], "questions")
    first = frame.iloc[0]
    if len(frame) == 1:
        value = value_text(first["difference"], first["lower"], first["upper"], alpha)
        answer = f"{results.estimate.names[0]} in {outcome}: {value}; {rests}."
    else:
        shown = int(np.sum(decided <= alpha))
        how = "not adjusted for their number" if adjust is None else f"adjusted by {adjust}"
        which = f"{outcome} from {baselines[0]}" if common else outcome
        answer = f"{shown} of {len(frame)} differences in {which} {'is' if shown == 1 else 'are'} shown at the "
        answer += f"{100 * alpha:g}% level ({how}); {rests}."
    notes = [few_seen(cov), *results.estimate.about.lines]
    said = few(notes_of(cov, results.notes, list(filter(None, notes))), MOST_NOTES)
    return Summary(answer, (), (Grid(headers, tuple(rows)),), said, rule=rule_text(results.estimate, cov))


def by_part(said: Mapping[str, Sequence[str]]) -> list[str]:
    """Sentences on each eval, one that is said of several once, with the names of the evals where it is not of all."""
    names = {text: [name for name, texts in said.items() if text in texts] for texts in said.values() for text in texts}
    return [text if len(own) == len(said) else f"{few_of(own)}: {text}" for text, own in names.items()]


def _together(values: Mapping[str, str], n_parts: int) -> str:
    """A fact of all evals once; where it differs, each with the name of its eval."""
    if len(values) == n_parts and len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "; ".join(f"{name} {value}" for name, value in values.items())


def _printed_facts(results: Results, pairs: Facts, adjust: PairAdjustName | None) -> list[tuple[str, str]]:
    dropped = {reason: count for reason, count in results.estimate.dropped.items() if count and reason != "subset"}
    subset = results.estimate.about.subset
    what = ", ".join(f"{count} without {reason}" for reason, count in dropped.items())
    facts = [
        ("Score", results.estimate.about.outcome),
        ("Questions", str(pairs.values.shape[1])),
        ("Covariance", covariance_text(results.cov)),
        ("Rows dropped", f"{sum(dropped.values())} ({what})" if dropped else "none"),
        *([("Subset", subset)] if subset else []),
    ]
    if results.cov.crossed:
        names = ", ".join(f"{results.n_clusters[axis_name(axis)]} {axis_name(axis)}" for axis in results.cov.axes)
        facts.append(("Clusters", names))
    if adjust is not None:
        facts.append(("Adjusted", f"{adjust}, {len(pairs.index)} differences"))
    return facts


def _printed_rows(frame: pd.DataFrame, lead: str, alpha: float) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for (model, baseline), row in zip(frame.index, frame.to_dict("records"), strict=True):
        estimate = f"{number(row['difference'])} ({error_text(row['se'])})"
        interval = interval_text(row["lower"], row["upper"], row["difference"])
        correlation = "" if np.isnan(row["correlation"]) else fixed(row["correlation"], 2)
        counts = (str(row["n"]), str(row["n_clusters"]))
        p = row.get("p_adjusted", row["p_value"])
        p = UNKNOWN if np.isnan(p) else p_value(p, alpha)
        rows.append((f"{lead}{model} - {baseline}", estimate, interval, p, correlation, *counts))
    return rows
