"""Differences between models: paired over the questions that both answered, unpaired where they share none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import (
    MISSING,
    BoolArray,
    CovName,
    DofName,
    IntArray,
    MissingName,
    RepairName,
    SscName,
    known_column,
    listed,
    nearest,
    option,
)
from evalreg.covariance.documented import documented
from evalreg.covariance.options import check_cov_options
from evalreg.data.answers import Answers, answers_of
from evalreg.data.cells import CellRows, read_cells
from evalreg.data.clusters import Axis
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table, open_frame
from evalreg.data.groups import Groups
from evalreg.data.joint_ids import names_of, with_joint_ids
from evalreg.data.rows import Roles
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    IndependenceWarning,
    MissingColumnError,
    Note,
)
from evalreg.estimate import About, Cells, Estimate, Refit
from evalreg.estimators.cells import estimate_read
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.mean import solve as solve_means
from evalreg.estimators.pair_tables import Facts, correlations
from evalreg.inference.ranks import PAIR_ADJUSTMENTS, PairAdjustName
from evalreg.numerics.matrices import Matrix
from evalreg.results.results import results_of
from evalreg.scores.differences import NOBODY, ModelPairs, PairScores, chosen, pair_sums
from evalreg.scores.paired import checked_icc, paired_differences
from evalreg.scores.sums import CellSums
from evalreg.scores.unseen import ICC

Notes: TypeAlias = tuple[Note, ...]

# A range of differences below this fraction of the largest score is rounding.
ROUNDING = 1e-13


@documented
def compare(
    data: Any,
    score: str = "score",
    *,
    model: str = "model",
    item: str = "item",
    sample: str | None = None,
    groups: Groups = None,
    strata: str | None = None,
    baseline: str | None = None,
    paired: bool = True,
    adjust: PairAdjustName | None = None,
    icc: float | None = ICC,
    missing: MissingName = "drop",
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
) -> Comparison:
    """Differences between models over the questions that both answered, with error bars that use the pairing.

    Each pair of models is compared on its own shared questions. Two models that share none are compared as samples of
    different questions. Questions in different clusters are taken to be independent.

    Parameters
    ----------
    data : data frame
        One row for each answer (model, item), in memory: pandas, polars, pyarrow, or a dict of arrays.
    score : str
        Column of scores; higher is better.
    model : str, optional
        Column of the models.
    item : str, optional
        Column of the questions; "task:question" joins two columns into one id.
    sample : str, optional
        Column of repeated answers, which are averaged within (model, item) first.
    groups : str, list of str, array, Series or dict, optional
        Clusters of the questions, as in `fit`; the questions themselves by default. The same for all answers to a
        question.
    strata : str, optional
        Column of a fixed list of subjects: only questions within subjects are sampled.
    baseline : str, optional
        Compare all others with this model; all pairs by default.
    paired : bool, optional
        False ignores that the questions are the same, as for models that saw different samples of questions.
    adjust : {"holm", "fdr_bh", "bonferroni", "single-step"}, optional
        How p-values allow for the number of pairs; not at all by default. "single-step" (Hothorn, Bretz and Westfall
        2008) also makes the intervals hold together.
    icc : float, optional
        Correlation, within a cluster, of differences that were not seen, from 0 to 1. It matters where scores lie in
        [0, 1] and few questions differ; 0.5 by default, which is careful: of subjects about 0.02 is usual, of passages
        of two questions 0.4. None allows for nothing but what was seen, as the paired t test of other packages.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score or label is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default.
    <ssc>
    <dof>
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    <repair>

    Returns
    -------
    Comparison
        `table` is indexed by (model, baseline); without a baseline each pair stands once, the better model first.
        `results` has the differences as `Results`, named "model - baseline".

    Raises
    ------
    MissingColumnError
        If a column or the baseline is not there; the message has the nearest names.
    DuplicateRowsError
        If a model answered a question twice and `sample` is not given.
    DataError
        If there is only one model.
    AlignmentError
        If a cluster differs between the answers to one question.
    ArgumentError
        If an option is unknown, or the rows live in an engine.

    References
    ----------
    Miller (2024), arXiv:2411.00640, eq. 5, 7 and 8; Bell and McCaffrey (2002), Survey Methodology 28.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, questions_per_passage=5, difference=0.05, seed=1)
    >>> comparison = er.compare(log, item="question", groups="passage")
    >>> comparison.table[["difference", "se", "correlation"]].round(3).loc[("new", "old")].to_dict()
    {'difference': 0.055, 'se': 0.037, 'correlation': 0.31}
    """
    asked = check_cov_options(cov, ssc, dof, repair)
    option("missing", missing, MISSING)
    if adjust is not None:
        option("adjust", adjust, PAIR_ADJUSTMENTS)
    icc = checked_icc(icc)
    if not isinstance(paired, bool | np.bool_):
        raise ArgumentTypeError(f"`paired` must be True or False; got {paired!r}.")
    table = open_frame(data)
    if isinstance(table, LazyTable):
        raise ArgumentError(
            "`compare` needs rows in memory, to match the questions of the models: collect the frame first."
        )
    table = with_joint_ids(table, model=model, item=item, sample=sample, strata=strata)
    named = {"score": score, "model": model, "item": item, "sample": sample, "strata": strata}
    _check_columns(table, named)
    groups = item if groups is None else groups
    roles = Roles(score, (model,), item, sample, strata, None, missing)
    read = read_cells(table, roles, groups)
    answers = answers_of(read, roles)
    left, right = _asked_pairs(answers, model, baseline)
    pairs = _oriented(answers, left, right, swap=paired and baseline is None)
    answers, facts = _facts(answers, pairs, paired)
    lines, notes = _lines_and_notes(answers, facts, named, paired)
    unit = bool(np.min(answers.values) >= 0 and np.max(answers.values) <= 1)
    about = About(model="Difference", outcome=score, lines=lines, unit=unit)
    axes: tuple[Axis, ...] | None = answers.axes
    if paired:
        estimate = _paired_estimate(answers, facts, about, icc)
    else:
        estimate, axes = _unpaired_estimate(read, roles, facts, about)
    estimate = replace(estimate, item=(item,))
    return Comparison(results_of(estimate, axes, asked, notes), facts, adjust)


def _check_columns(table: Table, named: dict[str, str | None]) -> None:
    taken: dict[str, str] = {}
    for argument, name in named.items():
        if name is None:
            continue
        known_column(name, table.columns if argument == "score" else names_of(table), argument)
        if name in taken:
            raise ArgumentError(
                f'`{taken[name]}` and `{argument}` must be different columns; both name "{name}".', column=name
            )
        taken[name] = argument


def _asked_pairs(answers: Answers, model: str, baseline: str | None) -> tuple[IntArray, IntArray]:
    """Models of each pair, the better one by its own mean first."""
    order = answers.order
    if baseline is None:
        first, second = np.triu_indices(len(order), 1)
        ranked = np.array(order)
        return ranked[first], ranked[second]
    if str(baseline) not in answers.models:
        hint = nearest(baseline, answers.models) or f" The models are {listed(answers.models)}."
        raise MissingColumnError(
            f'`baseline` must be a model in column {model!r}; "{baseline}" is not.{hint}', column=model
        )
    against = answers.models.index(str(baseline))
    others = np.array([i for i in order if i != against])
    return others, np.full(others.size, against)


def _oriented(answers: Answers, left: IntArray, right: IntArray, *, swap: bool) -> ModelPairs:
    """The pairs with their shared questions; on request the better model on those first, and sorted."""
    sets, of_set = _shared(answers.present, left, right)
    if not swap:
        return ModelPairs(left, right, of_set, sets)
    totals = np.array([chosen(answers.values, member).sum(axis=1) for member in sets])
    worse = totals[of_set, left] < totals[of_set, right]
    left, right = np.where(worse, right, left), np.where(worse, left, right)
    rank = np.empty(len(answers.models), dtype=np.intp)
    rank[answers.order] = np.arange(rank.size)
    order = np.lexsort((rank[right], rank[left]))
    return ModelPairs(left[order], right[order], of_set[order], sets)


def _shared(present: BoolArray, left: IntArray, right: IntArray) -> tuple[tuple[BoolArray | None, ...], IntArray]:
    """Distinct sets of questions that both of a pair answered, and the set of each pair."""
    if present.all():
        return (None,), np.zeros(left.size, dtype=np.intp)
    kind, kinds = pd.factorize(np.array([row.tobytes() for row in np.packbits(present, axis=1)], dtype=object))
    n_kinds = len(kinds)
    low, high = np.minimum(kind[left], kind[right]), np.maximum(kind[left], kind[right])
    _, first, of_set = np.unique(low * n_kinds + high, return_index=True, return_inverse=True)
    members = [present[left[i]] & present[right[i]] for i in first]
    return tuple(None if member.all() else member for member in members), of_set.ravel()


def _facts(answers: Answers, pairs: ModelPairs, paired: bool) -> tuple[Answers, Facts]:
    """What is known of the pairs; and the answers to the questions that some difference is over."""
    present = answers.present.astype(np.float64)
    shared = (present @ present.T)[pairs.left, pairs.right].round().astype(np.intp)
    own = answers.present.sum(axis=1)
    either, is_paired = own[pairs.left] + own[pairs.right], (shared > 0) & paired
    if paired:
        answers, pairs = _in_use(answers, pairs, is_paired)
    r, saved = correlations(answers.values, pairs)
    names = [[answers.models[i] for i in side] for side in (pairs.left, pairs.right)]
    facts = Facts(
        index=pd.MultiIndex.from_arrays(names, names=["model", "baseline"]),
        n=np.where(is_paired, shared, either),
        n_unpaired=either - 2 * shared,
        paired=is_paired,
        correlation=r,
        variance_saved=np.where(is_paired, saved, np.nan),
        values=answers.values,
        pairs=pairs,
    )
    return answers, facts


def _in_use(answers: Answers, pairs: ModelPairs, is_paired: BoolArray) -> tuple[Answers, ModelPairs]:
    """Answers and pairs without the questions that no difference is over; the unpaired use all of both models."""
    apart = np.append(pairs.left[~is_paired], pairs.right[~is_paired])
    used = np.asarray(answers.present[apart].any(axis=0), dtype=bool)
    for member in pairs.sets:
        used = used | True if member is None else used | member
    if used.all():
        return answers, pairs
    sets = tuple(member if member is None else member[used] for member in pairs.sets)
    return answers.only(used), replace(pairs, sets=sets)


def _paired_estimate(answers: Answers, facts: Facts, about: About, icc: float | None) -> Estimate:
    """Differences over shared questions; of models that share none, two means in columns of their own."""
    columns, coefficients, stratum = _columns(answers, facts)
    sums, flat = _sums(answers, columns)
    mean = np.where(flat, sums.low, sums.total / sums.weight)
    estimate = Estimate(
        names=_names(facts),
        params=np.asarray(coefficients @ mean),
        scores=PairScores(answers.values, columns, mean, answers.labels, flat),
        bread=(coefficients @ sparse.diags_array(1.0 / sums.weight)).T.tocsr(),
        kind="mean",
        coefficient_map=coefficients,
        refit=Refit(1.0 / sums.weight),
        cells=Cells(
            count=sums.count,
            weight=sums.weight,
            mean=mean,
            squares=sums.squares,
            low=sums.low,
            high=sums.high,
            stratum=stratum,
            strata=() if answers.stratum is None else tuple(str(name) for name in answers.stratum.labels),
        ),
        dropped=answers.dropped,
        about=about,
    )
    return replace(estimate, paired=paired_differences(estimate, icc, facts.pairs, facts.paired))


def _names(facts: Facts) -> tuple[str, ...]:
    names = tuple(f"{model} - {baseline}" for model, baseline in facts.index)
    alike = [name for i, name in enumerate(names) if name in names[:i]] if len(set(names)) < len(names) else []
    if alike:
        raise DataError(
            f"differences need distinct names; {listed(alike)} stands for two pairs of models. Rename models that have "
            '" - " in their names.',
            count=len(alike),
        )
    return names


def _sums(answers: Answers, columns: ModelPairs) -> tuple[CellSums, BoolArray]:
    """Sums of the differences, and whether they are all alike but for rounding."""
    sums = pair_sums(answers.values, columns)
    largest = np.abs(answers.values).max(axis=1)
    scale = np.maximum(largest[columns.left], np.where(columns.right == NOBODY, 0.0, largest[columns.right]))
    flat = sums.high - sums.low <= ROUNDING * scale
    high = np.where(flat, sums.low, sums.high)
    return replace(sums, squares=np.where(flat, 0.0, sums.squares), high=high), flat


def _columns(answers: Answers, facts: Facts) -> tuple[ModelPairs, Matrix, IntArray | None]:
    """Columns of the scores, the differences as a linear function of their means, and the stratum of each column."""
    pairs, stratum = facts.pairs, answers.stratum
    if facts.paired.all() and stratum is None:
        return pairs, sparse.eye_array(pairs.n_columns, format="csr"), None
    number: dict[tuple[int, int, int], int] = {}
    sets: dict[tuple[int, int], tuple[int, BoolArray]] = {}
    entries: list[tuple[int, int, float]] = []
    every = np.ones(answers.values.shape[1], dtype=bool)
    for p, (left, right, of_set) in enumerate(zip(pairs.left, pairs.right, pairs.of_set, strict=True)):
        shared = pairs.sets[of_set]
        sides = [(left, right, of_set, every if shared is None else shared, 1.0)]
        if not facts.paired[p]:
            alone = ((left, 1.0), (right, -1.0))
            sides = [(one, NOBODY, NOBODY - 1 - one, answers.present[one], sign) for one, sign in alone]
        for first, second, name, member, sign in sides:
            counts = [member.sum()] if stratum is None else np.bincount(stratum.codes[member], minlength=1)
            for s in np.flatnonzero(counts):
                # The strata weigh as many questions as they have among those of the pair.
                inside = member if stratum is None else member & (stratum.codes == s)
                place = sets.setdefault((int(name), int(s)), (len(sets), inside))[0]
                column = number.setdefault((int(first), int(second), place), len(number))
                entries.append((p, column, sign * float(counts[s]) / float(member.sum())))
    firsts, seconds, places = np.array(list(number), dtype=np.intp).T
    members = tuple(None if member.all() else member for _, member in sets.values())
    row, col, weight = (np.array(part) for part in zip(*entries, strict=True))
    coefficients = sparse.csr_array((weight, (row, col)), shape=(pairs.n_columns, len(number)))
    of_stratum = np.array([s for _, s in sets], dtype=np.intp)[places]
    return ModelPairs(firsts, seconds, places, members), coefficients, None if stratum is None else of_stratum


def _unpaired_estimate(
    read: CellRows, roles: Roles, facts: Facts, about: About
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """Differences of the models' own means; clusters of two models are different clusters."""
    weights: Any = None if roles.strata is None else "micro"
    estimate, axes = estimate_read(
        read, roles, lambda keys, sums: solve_means(keys, sums, n_by=1, strata_weights=weights), about
    )
    contrasts = np.zeros((facts.n.size, estimate.n_params))
    for side, sign in ((facts.pairs.left, 1.0), (facts.pairs.right, -1.0)):
        contrasts[np.arange(facts.n.size), side] += sign
    own = None if axes is None else tuple((*axis, *roles.by) if roles.by[0] not in axis else axis for axis in axes)
    # Clusters of two models are different ones: nothing is paired.
    return replace(estimate.linear(contrasts, _names(facts)), about=estimate.about, paired=None), own


def _lines_and_notes(
    answers: Answers, facts: Facts, named: dict[str, str | None], asked: bool
) -> tuple[tuple[str, ...], Notes]:
    """Sentences for the summary, and warnings."""
    lines: list[str] = []
    notes: list[Note] = []
    if not asked:
        lines.append(
            "Not paired: each mean is over the model's own questions, and the models are taken to be independent."
        )
    apart = [f"{model} - {baseline}" for model, baseline in facts.index[~facts.paired]] if asked else []
    if apart:
        text = (
            f"{listed(apart)}: no question in common, so that the difference is unpaired. If they answered the same "
            f"questions, their ids in {named['item']!r} must be the same."
        )
        notes.append((IndependenceWarning, text))
    left_out = facts.n_unpaired[facts.paired]
    if asked and facts.paired.any():
        lines.append(_paired_line(facts, left_out))
    if named["strata"] is not None:
        lines.append(
            f"Strata: the values of {named['strata']!r} are a fixed list; only questions within them are sampled."
        )
    if answers.absent:
        lines.append(f"Of {listed(answers.absent)} no row is in use, so that no difference is taken with it.")
    if answers.samples is not None:
        low, high = answers.samples
        many = f"{low}" if low == high else f"{low} to {high}"
        lines.append(f"Answers ({named['sample']}, {many} of a model to a question) were averaged first.")
    return tuple(lines), tuple(notes)


def _paired_line(facts: Facts, left_out: IntArray) -> str:
    n = facts.n[facts.paired]
    many = f"{np.min(n)}" if np.min(n) == np.max(n) else f"{np.min(n)} to {np.max(n)}"
    if not left_out.any():
        return f"Paired: the two models of each difference answered the same {many} questions."
    most = int(np.argmax(left_out))
    pair = " - ".join(map(str, facts.index[facts.paired][most]))
    which = f"{left_out[0]}" if n.size == 1 else f"up to {np.max(left_out)} ({pair})"
    return (
        f"Paired: each difference is over the {many} questions that both models answered; {which} that only one of "
        "the two answered say nothing of it and are left out."
    )
