"""Differences between models on the questions that they share, from reading to results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, Unpack

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, IntArray, adjustment, check_target, few_of, listed, option
from evalreg.choices import EstimatorOptions, MissingName, TargetName
from evalreg.covariance.options import clustered_by_items, requested_options
from evalreg.data.answers import NOBODY, Answers, ModelPairs, answers_of, compared_pairs, in_use
from evalreg.data.clusters import Axis, Groups, quoted_pair, refuse_same, spelled_alike, with_roles
from evalreg.data.engine import Query
from evalreg.data.engine_rows import read_answers
from evalreg.data.frame import open_frame
from evalreg.data.rows import CellRows, Roles, read_cells
from evalreg.data.sums import SummedLog, lines_as_rows, lines_of
from evalreg.errors import ArgumentTypeError, FewCarriersWarning, IndependenceWarning, NotAvailableError, Note
from evalreg.estimate import PLAIN, About, Estimate, Family, ScoredFamily, of_means, same_questions
from evalreg.estimators.cells import estimate_read, single_means
from evalreg.estimators.comparison import Comparison, Facts, facts_of
from evalreg.estimators.mean import solve as solve_means
from evalreg.estimators.targets import PopulationSize, counts_clusters, noise_of_differences, of_benchmark
from evalreg.inference.questions import mixed_scales
from evalreg.inference.simultaneous import PAIR_ADJUSTMENTS, PairAdjustName
from evalreg.numerics.limits import CONSTANT
from evalreg.numerics.matrices import Matrix, compressed, identity
from evalreg.report.tables import span
from evalreg.results.results import estimator, results_of
from evalreg.scores.differences import PairScores, pair_sums, paired_differences
from evalreg.scores.score_interval import FEW_EXPECTED, ICC_DIFFERENCE, ICC_MEAN, checked_icc, refuse_idle_icc


def paired_estimate(answers: Answers, facts: Facts, about: About, icc: float | None) -> Estimate:
    """Differences over shared questions; of models that share none, two means in columns of their own."""
    columns, coefficients, stratum = _columns(answers, facts)
    cells = pair_sums(answers.values, columns)
    largest = np.abs(answers.values).max(axis=1)
    scale = np.maximum(largest[columns.left], np.where(columns.right == NOBODY, 0.0, largest[columns.right]))
    # Alike but for rounding.
    flat = cells.high - cells.low <= CONSTANT * scale
    strata = () if answers.stratum is None else tuple(str(name) for name in answers.stratum.labels)
    mean, squares = np.where(flat, cells.low, cells.mean), np.where(flat, 0.0, cells.squares)
    high = np.where(flat, cells.low, cells.high)
    cells = replace(cells, mean=mean, squares=squares, high=high, stratum=stratum, strata=strata)
    scores = PairScores(answers.values, columns, cells.mean, answers.labels, flat)
    estimate = of_means(facts.names, coefficients, cells, scores, dropped=answers.dropped, about=about)
    paired = paired_differences(estimate, icc, facts.pairs, facts.paired)
    alone = _of_means_alone(estimate, columns.right == NOBODY)
    scored = replace(alone, paired=paired) if isinstance(alone, ScoredFamily) else same_questions(paired, None, alone)
    return replace(estimate, family=scored)


def _of_means_alone(estimate: Estimate, alone: BoolArray) -> Family:
    """What differences of models that share no question know of the models' means, which are columns of their own."""
    cells, A = estimate.cells, compressed(estimate.coefficient_map)
    if cells is None or cells.stratum is not None or not (alone.any() and estimate.about.unit):
        return PLAIN
    names = tuple(map(str, np.flatnonzero(alone)))
    means = of_means(names, identity(alone.size)[alone], cells, estimate.scores, bounded=True, about=estimate.about)
    return same_questions(None, single_means(means)).linear(means, A[:, np.flatnonzero(alone)])


def _columns(answers: Answers, facts: Facts) -> tuple[ModelPairs, Matrix, IntArray | None]:
    """Columns of the scores, the differences as a linear function of their means, and the stratum of each column."""
    pairs, stratum = facts.pairs, answers.stratum
    if facts.paired.all() and stratum is None:
        return pairs, sparse.eye_array(pairs.n_columns, format="csr"), None
    present = answers.present
    codes = np.zeros(present.shape[1], dtype=np.intp) if stratum is None else stratum.codes
    # Numbers of the columns and of their sets of questions, by what they are.
    columns: dict[tuple[int, int, int], int] = {}
    sets: dict[bytes, tuple[int, BoolArray]] = {}
    entries: list[tuple[int, int, float]] = []
    for p, (left, right) in enumerate(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)):
        sides = [(left, right, present[left] & present[right], 1.0)]
        if not facts.paired[p]:
            sides = [(left, NOBODY, present[left], 1.0), (right, NOBODY, present[right], -1.0)]
        for first, second, member, sign in sides:
            for s in np.unique(codes[member]):
                # The strata weigh as many questions as they have among those of the pair.
                inside = member & (codes == s)
                place, _ = sets.setdefault(inside.tobytes(), (len(sets), inside))
                column = columns.setdefault((first, second, place), len(columns))
                entries.append((p, column, sign * inside.sum() / member.sum()))
    firsts, seconds, places = np.array(list(columns), dtype=np.intp).T
    members = [inside for _, inside in sets.values()]
    of_stratum = None if stratum is None else np.array([codes[inside][0] for inside in members])[places]
    row, col, weight = (np.array(part) for part in zip(*entries, strict=True))
    coefficients = sparse.csr_array((weight, (row, col)), shape=(pairs.n_columns, len(columns)))
    return ModelPairs(firsts, seconds, places, tuple(None if m.all() else m for m in members)), coefficients, of_stratum


def unpaired_estimate(
    read: CellRows, roles: Roles, facts: Facts, about: About
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """Differences of the models' own means; clusters of two models are different clusters, and nothing is paired."""
    weights: Any = None if roles.strata is None else "micro"
    estimate, axes = estimate_read(read, roles, partial(solve_means, n_by=1, strata_weights=weights), about)
    unit = np.eye(estimate.n_params)
    contrasts = unit[facts.pairs.left] - unit[facts.pairs.right]
    differences = estimate.linear(contrasts, facts.names)
    family = same_questions(None, single_means(estimate)).linear(estimate, contrasts)
    if axes is not None:
        axes = tuple((*axis, *roles.by) if roles.by[0] not in axis else axis for axis in axes)
    return replace(differences, about=replace(estimate.about, levels=False), family=family, apart=roles.by), axes


@estimator
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
    icc: float | None = ICC_DIFFERENCE,
    target: TargetName = "questions like these",
    n_population: PopulationSize | None = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Comparison:
    """Differences between models over the questions that both answered, with error bars that use the pairing.

    Each pair of models is compared on its own shared questions. Two models that share none are compared as samples of
    different questions. Questions in different clusters are taken to be independent.

    Parameters
    ----------
    data : data frame
        One row for each answer (model, item): pandas, polars, pyarrow, or a dict of arrays; a polars LazyFrame or a
        DuckDB relation, of which one line for each model and question is read; or sums by question (`summarise`).
    score : str, default "score"
        Column of scores; higher is better.
    model : str, default "model"
        Column of the models.
    item : str, default "item"
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
    paired : bool, default True
        False ignores that the questions are the same, as for models that saw different samples of questions.
    adjust : {"holm", "fdr_bh", "bonferroni", "single-step"}, optional
        How p-values allow for the number of pairs; not at all by default. "bh" is "fdr_bh". "single-step" (Hothorn,
        Bretz and Westfall 2008) also makes the intervals joint.
    icc : float, optional
        Correlation, within a cluster, of differences that were not seen, from 0 to 1. It matters where scores lie in
        [0, 1] and few questions differ; 0.5 by default, which is careful: of subjects about 0.02 is usual, of passages
        of two questions 0.4. None allows for nothing but what was seen, as the t tests of other packages; another
        number is refused where there is no such interval. Models that share no question have that of `mean`, 0.2.
    target : {"questions like these", "the full benchmark"}, optional
        Which questions the differences are about, as in `mean`.
    n_population : int or dict, optional
        For "the full benchmark": how many questions it has, or clusters as {"passage": 896}, as in `mean`; the noise of
        answers (`sample`) stays whole. What is
        allowed for differences that were not seen is not made smaller by it.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
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
        `table` is indexed by (model, baseline); without a baseline each pair is listed once, the better model first.
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
    ArgumentError, ArgumentTypeError
        If an option is unknown, or of another type.
    NotAvailableError
        If `target` leaves nothing to pair, or differences of a finite benchmark are not paired.

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
    requested = requested_options(options)
    adjust = adjustment("adjust", adjust, PAIR_ADJUSTMENTS)
    icc = checked_icc(icc)
    if not isinstance(paired, bool | np.bool_):
        raise ArgumentTypeError(f"`paired` must be True or False; got {paired!r}.")
    option("target", target, TargetName)
    by_stratum = "`strata` in `compare`: use `mean` with `by`, `item` and `strata`, and `pairwise()`."
    check_target(target, n_population, None if strata is None else by_stratum)
    dropped = data.dropped if isinstance(data, SummedLog) else None
    if isinstance(data, SummedLog):
        lines_of(data, "scores", score, {"sample": sample})
        data = lines_as_rows(data, model, item)
    labels = {"model": model, "item": item, "sample": sample, "strata": strata}
    table, _ = with_roles(open_frame(data), {"score": score}, **labels)
    if item is None:
        raise ArgumentTypeError("`item` must be the name of the column of the questions that models share; got None.")
    refuse_same({"score": score, **labels})
    items = item if groups is None else None
    groups = item if groups is None else groups
    roles = Roles(score, (model,), item, sample, strata, None, missing, has_by=False)
    read = read_answers(table, roles, groups) if isinstance(table, Query) else read_cells(table, roles, groups)
    answers = answers_of(read, roles)
    pairs = compared_pairs(answers, model, baseline, paired=bool(paired))
    facts = facts_of(answers, pairs, bool(paired))
    noise = None if n_population is None or sample is None else noise_of_differences(read, roles, pairs)
    if paired:
        answers, pairs = in_use(answers, pairs, facts.paired)
        facts = replace(facts, values=answers.values, pairs=pairs)
    unit = bool(np.min(answers.values) >= 0 and np.max(answers.values) <= 1)
    low = np.min(answers.values, axis=1, where=answers.present, initial=np.inf)
    high = np.max(answers.values, axis=1, where=answers.present, initial=-np.inf)
    notes = () if unit else (*mixed_scales(answers.models, low, high), *_few_differ(facts))
    about = About(model="Difference", outcome=score, lines=_lines(answers, facts, roles, bool(paired)), unit=unit)
    about = replace(about, icc=None if icc is None else ICC_MEAN)
    if paired:
        notes = (*_unpaired_notes(facts, read, item), *notes)
        axes: tuple[Axis, ...] | None = answers.axes
        estimate = paired_estimate(answers, facts, about, icc)
    else:
        estimate, axes = unpaired_estimate(read, roles, facts, about)
    estimate = replace(estimate, item=(item,), dropped=estimate.dropped if dropped is None else dropped)
    if n_population is not None:
        if not facts.paired.all():
            raise NotAvailableError(
                f'`target="{target}"` is defined for models that answered the same questions; '
                f"{int(np.sum(~facts.paired))} of {len(facts.paired)} differences are not paired. Leave them out."
            )
        drawn: dict[str, Any] = {"item": item, "sample": sample, "noise": noise}
        whole = counts_clusters(n_population, groups, strata)
        estimate = of_benchmark(estimate, axes, n_population, **drawn, whole=whole)
    with clustered_by_items(estimate, items):
        results = results_of(estimate, axes, requested, notes)
    refuse_idle_icc(icc, ICC_DIFFERENCE, results.cov.paired, "paired differences")
    return Comparison(results, facts, adjust)


def _few_differ(facts: Facts) -> tuple[Note, ...]:
    """A warning where hardly any questions differ, and scores without bounds have no score interval."""
    differ = facts.outcomes[["wins", "losses"]].to_numpy().sum(axis=1)
    few = facts.paired & (differ > 0) & (differ < FEW_EXPECTED) & (2 * differ < facts.n)
    if not few.any():
        return ()
    least = int(np.argmin(np.where(few, differ, np.inf)))
    text = (
        f"{few_of(list(compress(facts.names, few)))}: hardly any questions differ ({differ[least]:.0f} of "
        f"{facts.n[least]}). The t interval allows for no difference that was not seen, and may be far too short. The "
        "score interval of scores in [0, 1] does: divide percentages by 100, and rescale scores whose range is known."
    )
    return ((FewCarriersWarning, text),)


def _unpaired_notes(facts: Facts, read: CellRows, item: str) -> tuple[Note, ...]:
    """Pairs of models that share no question."""
    apart = [name for name, paired in zip(facts.names, facts.paired, strict=True) if not paired]
    if not apart:
        return ()
    text = (
        f"{listed(apart)}: no question in common, so that the difference is unpaired. If they answered the same "
        f"questions, their ids in {item!r} must be the same."
    )
    alike = [] if read.item is None or read.item.labels is None else spelled_alike(read.item.labels)
    if alike:
        text += f" {quoted_pair(alike[0])} differ by blanks or case alone, and count as two."
    return ((IndependenceWarning, text),)


def _lines(answers: Answers, facts: Facts, roles: Roles, paired: bool) -> tuple[str, ...]:
    """What the summary says of the questions, strata and answers."""
    lines = []
    if not paired:
        lines.append(
            "Not paired: each mean is over the model's own questions, and the models are taken to be independent."
        )
    elif facts.paired.any():
        lines.append(_paired_line(facts))
    if roles.strata is not None:
        lines.append(
            f"Strata: the values of {roles.strata!r} are a fixed list; only questions within them are sampled."
        )
    if answers.absent:
        lines.append(f"Of {listed(answers.absent)} no row is in use, so that no difference is taken with it.")
    if answers.samples is not None:
        many = span(*map(str, answers.samples))
        lines.append(f"Answers ({roles.sample}, {many} of a model to a question) were averaged first.")
    return tuple(lines)


def _paired_line(facts: Facts) -> str:
    n, left_out = facts.n[facts.paired], facts.n_unpaired[facts.paired]
    many = span(f"{np.min(n)}", f"{np.max(n)}")
    if not left_out.any():
        return f"Paired: the two models of each difference answered the same {many} questions."
    pair = np.array(facts.names)[facts.paired][np.argmax(left_out)]
    which = f"{left_out[0]}" if n.size == 1 else f"up to {np.max(left_out)} ({pair})"
    return (
        f"Paired: each difference is over the {many} questions that both models answered; {which} that only one of "
        "the two answered say nothing about it and are left out. Where an answer is missing because it failed (a "
        "time-out, a refusal), score it 0: without it the failing model looks better, and no interval knows."
    )
