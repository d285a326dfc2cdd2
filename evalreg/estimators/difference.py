"""Differences between models: paired over the questions that both answered, unpaired where they share none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from evalreg.checks import (
    MISSING,
    TARGETS,
    CovName,
    DofName,
    IntArray,
    MissingName,
    RepairName,
    SscName,
    TargetName,
    adjustment,
    listed,
    option,
)
from evalreg.covariance.options import check_cov_options, clustered_by_items, documented
from evalreg.data.answer_noise import read_noise
from evalreg.data.answers import answers_of
from evalreg.data.cells import read_cells
from evalreg.data.engine import LazyTable
from evalreg.data.engine_answers import read_answers
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.joint_ids import with_roles
from evalreg.data.names import refuse_same
from evalreg.data.opening import open_frame
from evalreg.data.rows import Roles
from evalreg.data.spelling import quoted_pair
from evalreg.data.sums import SummedLog, lines_as_rows, lines_of
from evalreg.errors import ArgumentTypeError, IndependenceWarning, NotAvailableError, Note, UnlikeScalesWarning
from evalreg.estimate import About
from evalreg.estimators.answer_noise import noise_of_differences
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.differences import HeldCompared, compared_in_memory
from evalreg.estimators.pair_facts import Facts
from evalreg.estimators.subsets import chooses_rows
from evalreg.estimators.targets import PopulationSize, SampleFacts, check_target, with_population
from evalreg.inference.ranks import PAIR_ADJUSTMENTS, PairAdjustName
from evalreg.inference.scales import mixed_scales
from evalreg.results.results import results_of
from evalreg.scores.paired import checked_icc
from evalreg.scores.score_interval import ICC_DIFFERENCE

Notes: TypeAlias = tuple[Note, ...]


@chooses_rows()
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
    icc: float | None = ICC_DIFFERENCE,
    target: TargetName = "questions like these",
    n_population: PopulationSize | None = None,
    subset: str | None = None,
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
        One row for each answer (model, item): pandas, polars, pyarrow, or a dict of arrays; a polars LazyFrame or a
        DuckDB relation, of which one line for each model and question is read; or sums by question (`summarise`).
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
        How p-values allow for the number of pairs; not at all by default. "bh" is "fdr_bh". "single-step" (Hothorn,
        Bretz and Westfall 2008) also makes the intervals hold together.
    icc : float, optional
        Correlation, within a cluster, of differences that were not seen, from 0 to 1. It matters where scores lie in
        [0, 1] and few questions differ; 0.5 by default, which is careful: of subjects about 0.02 is usual, of passages
        of two questions 0.4. None allows for nothing but what was seen, as the paired t test of other packages.
    target : {"questions like these", "the full benchmark"}, optional
        Which questions the differences are about, as in `mean` (which has contrasts for "these questions").
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
    ArgumentError
        If an option is unknown.

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
    adjust = adjustment("adjust", adjust, PAIR_ADJUSTMENTS)
    icc = checked_icc(icc)
    if not isinstance(paired, bool | np.bool_):
        raise ArgumentTypeError(f"`paired` must be True or False; got {paired!r}.")
    option("target", target, TARGETS)
    if target == "these questions":
        raise NotAvailableError(
            'target="these questions" leaves nothing to pair, since only the answers vary: use '
            '`mean(..., by="model", sample=..., target="these questions")` and `contrast`.'
        )
    by_stratum = {"strata": "`strata` in `compare`: use `mean` with `by`, `item` and `strata`, and `pairwise()`."}
    check_target(target, n_population, {} if strata is None else by_stratum)
    dropped = data.dropped if isinstance(data, SummedLog) else None
    if isinstance(data, SummedLog):
        lines_of(data, "scores", score, {"sample": sample})
        data = lines_as_rows(data, model, item)
    labels = {"model": model, "item": item, "sample": sample, "strata": strata}
    table, _ = with_roles(open_frame(data), {"score": score}, **labels)
    named = {"score": score, **labels}
    refuse_same(named)
    items = item if groups is None else None
    groups = item if groups is None else groups
    roles = Roles(score, (model,), item, sample, strata, None, missing)
    found = _compared(table, roles, groups, baseline, bool(paired))
    noise = None
    if n_population is not None and sample is not None:
        apart = answers_of(read_noise(table, roles, groups), roles)
        noise = noise_of_differences(apart.values, found.pairs)
    facts = found.facts
    lines, notes = _lines_and_notes(found, named, paired)
    about = About(model="Difference", outcome=score, lines=lines, unit=found.unit)
    estimate, axes = found.estimate(roles, groups, about, icc)
    estimate = replace(estimate, item=(item,), dropped=estimate.dropped if dropped is None else dropped)
    if n_population is not None:
        if not facts.paired.all():
            raise NotAvailableError(
                f'target="{target}" is defined for models that answered the same questions; '
                f"{int(np.sum(~facts.paired))} of {len(facts.paired)} differences are not paired. Leave them out."
            )
        drawn = SampleFacts(item, sample, apiece="pair", noise=noise)
        estimate = with_population(estimate, axes, n_population, drawn)
    with clustered_by_items(estimate, items):
        return Comparison(results_of(estimate, axes, asked, notes), facts, adjust)


def _compared(
    table: Table | LazyTable, roles: Roles, groups: Groups, baseline: str | None, paired: bool
) -> HeldCompared:
    """The pairs of models, of rows in memory or of one line for each model and question that an engine makes."""
    if isinstance(table, LazyTable):
        return compared_in_memory(read_answers(table, roles, groups), roles, baseline, paired)
    return compared_in_memory(read_cells(table, roles, groups), roles, baseline, paired)


def _lines_and_notes(found: HeldCompared, named: dict[str, str | None], asked: bool) -> tuple[tuple[str, ...], Notes]:
    """Sentences for the summary, and warnings."""
    facts = found.facts
    lines: list[str] = []
    notes: list[Note] = []
    if not asked:
        lines.append(
            "Not paired: each mean is over the model's own questions, and the models are taken to be independent."
        )
    apart = [name for name, paired in zip(facts.names, facts.paired, strict=True) if not paired] if asked else []
    if apart:
        text = (
            f"{listed(apart)}: no question in common, so that the difference is unpaired. If they answered the same "
            f"questions, their ids in {named['item']!r} must be the same."
        )
        alike = found.spellings
        if alike:
            text += f" {quoted_pair(alike[0])} differ by blanks or case alone, and count as two."
        notes.append((IndependenceWarning, text))
    unlike = "" if found.unit else mixed_scales(*found.ranges)
    if unlike:
        notes.append((UnlikeScalesWarning, unlike))
    left_out = facts.n_unpaired[facts.paired]
    if asked and facts.paired.any():
        lines.append(_paired_line(facts, left_out))
    if named["strata"] is not None:
        lines.append(
            f"Strata: the values of {named['strata']!r} are a fixed list; only questions within them are sampled."
        )
    if found.absent:
        lines.append(f"Of {listed(found.absent)} no row is in use, so that no difference is taken with it.")
    if found.samples is not None:
        low, high = found.samples
        many = f"{low}" if low == high else f"{low} to {high}"
        lines.append(f"Answers ({named['sample']}, {many} of a model to a question) were averaged first.")
    return tuple(lines), tuple(notes)


def _paired_line(facts: Facts, left_out: IntArray) -> str:
    n = facts.n[facts.paired]
    many = f"{np.min(n)}" if np.min(n) == np.max(n) else f"{np.min(n)} to {np.max(n)}"
    if not left_out.any():
        return f"Paired: the two models of each difference answered the same {many} questions."
    most = int(np.argmax(left_out))
    pair = [name for name, paired in zip(facts.names, facts.paired, strict=True) if paired][most]
    which = f"{left_out[0]}" if n.size == 1 else f"up to {np.max(left_out)} ({pair})"
    return (
        f"Paired: each difference is over the {many} questions that both models answered; {which} that only one of "
        "the two answered say nothing about it and are left out. Where an answer is missing because it failed (a "
        "time-out, a refusal), score it 0: without it the failing model looks better, and no interval knows."
    )
