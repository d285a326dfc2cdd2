"""The summary of results: the answer first, or all that a careful reader asks, in tables and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg import errors
from evalreg.checks import FloatArray, counted, listed, passed
from evalreg.choices import RepairName
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.special import MATTERS
from evalreg.data.clusters import Axis, axis_name
from evalreg.data.formula import short_name
from evalreg.errors import NotAvailableError, Note
from evalreg.estimate import Estimate, cluster_sizes, rows_behind
from evalreg.inference.dependence import clusters_behind, design_effect, effective_rows, intraclass_correlation
from evalreg.inference.intervals import against_null, intervals, score_interval_of_intercept, tested_against
from evalreg.inference.rectification import human_labels, rectification_table
from evalreg.numerics.limits import EQUAL
from evalreg.report.sentences import axis_counts, best_first, in_clusters, named, reference_text
from evalreg.report.tables import (
    NO_LIMIT,
    UNKNOWN,
    Grid,
    Summary,
    dof_texts,
    ends_text,
    fixed,
    level_text,
    limits,
    number,
    p_value,
    span,
)
from evalreg.scores.score_interval import FEW_EXPECTED, NullVariance

# What `bradley_terry` calls its model.
RATINGS = "Bradley-Terry"

# Of a difference with a smaller p-value nobody asks whether another test would show it too.
CLEAR = 0.01


def covariance_text(cov: Covariance) -> str:
    """Covariance and clustering in a few words, such as "CR2 by passage"."""
    names = " + ".join(axis_name(axis) for axis in cov.axes)
    return f"{cov.options.cov} by {names}" if names else f"{cov.options.cov} (rows independent)"


def few_seen(cov: Covariance) -> str:
    """How few rows tell, of the estimate with the fewest, where Cochran's rule asks for more; else empty."""
    scored = cov.widths().scored
    if scored is None:
        return ""
    null = scored.null
    fewest = int(np.argmin(null.rarer / null.design_effect))
    if null.rarer[fewest] >= FEW_EXPECTED * null.design_effect[fewest]:
        return ""
    return f"{cov.names[scored.rows[fewest]]}: {tells(null, fewest)}."


def score_kinds(null: NullVariance) -> list[str]:
    """Whose score intervals parameters have."""
    kinds = {"Wilson": ~null.signed, "Tango": null.signed & ~null.apart, "Miettinen and Nurminen": null.apart}
    return [name for name, which in kinds.items() if which.any()]


def score_text(cov: Covariance) -> str:
    """What score intervals are, and what they grant to what was not seen; empty where there are none."""
    scored = cov.widths().scored
    if scored is None:
        return ""
    null, names = scored.null, [cov.names[row] for row in scored.rows]
    sentences = [f"Score intervals ({' and '.join(score_kinds(null))}): the variance grows towards the value tested."]
    sentences += filter(None, [few_seen(cov)])
    granted = null.effect / null.design_effect
    most = int(np.argmax(granted))
    if granted[most] > LITTLE_DEPENDENCE:
        is_paired = null.signed[most] and not null.apart[most]
        source = cov.paired if is_paired else cov.single
        assert source is not None
        sentences.append(
            f"What clusters did not show is taken to go together (icc = {source.icc:g}), which multiplies that growth "
            f"by up to {null.effect[most]:.1f} ({names[most]})."
        )
        if source.scores.of_means and not source.scores.mapped:  # Neither ratios nor boards take `icc`.
            sentences.append(f"`icc` in `{'compare' if is_paired else 'mean'}` takes another value.")
    return " ".join(sentences)


def not_allowed_for(cov: Covariance, what: str = "The wild test", consequence: str | None = None) -> str:
    """What is said of a test of differences that few questions tell of, which is no score test; else empty."""
    widths = cov.widths()
    scored = widths.scored
    if scored is None:
        return ""
    null, distance = scored.null, np.zeros(widths.variance.size)
    distance[scored.rows] = null.theta * scored.scale
    # The score test of no difference has a standard error that is a tenth larger, and is not clear itself.
    grows = null.signed & (null.at(0.0) > MATTERS**2 * null.seen) & (widths.pvalues(distance)[scored.rows] > CLEAR)
    few = np.flatnonzero((null.rarer < FEW_EXPECTED) | grows)
    if not few.size:
        return ""
    each = [f"{cov.names[scored.rows[i]]}: {tells(null, int(i))}" for i in few]
    if consequence is None:
        consequence = "its interval may be too short; `to_frame` has score intervals"
    return (
        f"{'; '.join(each[:MOST_SHOWN])}{'; and others' if len(each) > MOST_SHOWN else ''}. {what} is no score test, "
        f"and {consequence}."
    )


def tells(null: NullVariance, at: int) -> str:
    """How many rows tell: "3 of 300 questions differ", or "3 of 300 scores are of the rarer kind"."""
    count, n = null.rarer[at], null.n[at]
    if null.apart[at]:
        rarer = f"{counted(round(count), 'score')} of the rarer kind" if count >= 0.5 else "scores that are all alike"
        return f"one of the two means has {rarer}"
    if not null.signed[at]:
        if not np.isclose(null.spread[at], null.theta[at] * (1 - null.theta[at])):  # averages, and parts of points
            return f"about {count:.0f} of {n:.0f} scores tell"
        part = f"{count:.0f}" if count >= 1 - EQUAL or count == 0 else "less than 1"
        return f"{part} of {n:.0f} scores are of the rarer kind"
    if np.isclose(null.size[at], null.square[at]) and null.size[at] <= 0.5:
        return f"{count:.0f} of {n:.0f} questions differ"
    return f"about {count:.0f} of {n:.0f} questions tell"


def combined(cov: Covariance) -> RepairName:
    """How the variances of crossed clusterings make one: the repair; those taken to differ alike are two terms."""
    return cov.options.repair if cov.options.alike is None else "two-term"


def reference_fact(cov: Covariance) -> str:
    """What intervals and tests are read against, as a fact of a summary."""
    rule, dofs = cov.options.dof, cov.dof()
    if np.all(np.isnan(dofs)):
        return "t, without degrees of freedom"
    if np.all(np.isinf(dofs)):
        return "normal"
    ends = (np.nanmin(dofs), np.nanmax(dofs))
    spread = span(*(f"{end:.4g}" if end < 1000 or np.isinf(end) else f"{end:.0f}" for end in ends))
    if cov.summed:  # These dof are those of 95%.
        # Banerjee's sum, under the largest of MacKinnon, Nielsen and Webb; other repairs have one variance.
        widths = {"max": "sum of t^2 V, max rule", "two-term": "sum of t^2 V"}
        return f"{widths.get(combined(cov), 'V times the mean t^2 of the clusterings')} (as t {spread})"
    words = {"satterthwaite": "Satterthwaite", "min": "G - 1" if cov.axes else cov.pieces[0].dof_name}
    return f"t, dof {spread} ({words.get(str(rule), 'given')})"


INDEPENDENT = "Rows are treated as independent; if they share passages, prompts or judges, name them in `groups`."
# What stands in the table of human labels.
HUMAN_COLUMNS = (
    "lambda is the weight of the judge's scores, from 0 (human labels alone) to 1, tuned to the clustering first asked "
    "for and then held fixed. human mean and human SE are from the human labels alone; eff. labels is how many human "
    "labels alone would give the standard error above."
)
# A design effect below this is not worth a sentence.
LITTLE_DEPENDENCE = 1.1
# Differences that are named one by one.
MOST_SHOWN = 3
# Of two models the better one's interval is hardly too sure: .942 to .959 of 95% in simulated logs.
CHOSEN_FROM = 3
# Why rows were dropped, where it is not what they are without.
DROPPED_WORDS = {
    "covariate": "without a label, weight or covariate",
    "unshared": "on questions not shared",
    "singleton": "alone in an absorbed level",
    "subset": "left out by subset",
}
# Fewer clusters are warned of; more are as many as rules of thumb ask for.
RATHER_FEW = (10, 29)


def coefficient_frame(
    estimate: Estimate, cov: Covariance, alpha: float, counts: FloatArray | None = None
) -> pd.DataFrame:
    """Estimates, standard errors, tests and intervals, one row a parameter; n from `counts`, the rows behind each."""
    interval = intervals(estimate, cov, alpha, None)
    se = np.sqrt(cov.variance())
    t, p = against_null(estimate, cov)
    columns = {
        "estimate": estimate.params,
        "se": se,
        "naive_se": np.sqrt(np.diag(cov.naive)),
        "t": t,
        "dof": cov.dof(),
        "p_value": p,
        "lower": interval[:, 0],
        "upper": interval[:, 1],
    }
    if counts is not None:
        columns["n"] = counts.astype(np.intp)
    return pd.DataFrame(columns, index=list(estimate.names))


def dropped_text(dropped: Mapping[str, int]) -> str:
    """Rows left out by reason: "3 without score, 1 left out by subset"; empty where there are none."""
    return ", ".join(
        f"{count:,} {DROPPED_WORDS.get(reason, f'without {reason}')}" for reason, count in dropped.items() if count
    )


def summarize(results: Any, alpha: float) -> Summary:
    """Everything that a summary of results tells."""
    estimate, cov, counts = results.estimate, results.cov, results._counts
    about, clusterings = estimate.about, cov.axes or results.axes
    dropped = {reason: count for reason, count in estimate.dropped.items() if reason != "subset" or not about.subset}
    left, repair = dropped_text(dropped), "alike" if cov.options.alike is not None else cov.options.repair
    facts = {
        "Score": about.outcome,
        "Rows": f"{estimate.n_rows}",
        "Model": about.model,
        "Subset": about.subset,
        "Formula": about.formula,
        "Covariance": covariance_text(cov),
        "Reference": reference_fact(cov),
        "Factor": cov.options.factor_words,
        "Absorbed": "" if estimate.absorbed is None else estimate.absorbed.text,
        "Rows dropped": f"{sum(dropped.values()):,} ({left})" if left else "none",
        "Repair": f"{repair}: {cov.change or 'nothing changed'}" if cov.crossed else "",
    }
    # How many rows there are of each is a question where there are several models.
    frame = coefficient_frame(estimate, cov, alpha, counts if about.n_models > 1 else None)
    # The rows of each model stand in the second table where there is one: the first is full.
    first = frame.drop(columns="n", errors="ignore") if clusterings else frame
    grids, icc = [estimate_grid(estimate, first, alpha)], np.full(estimate.n_params, np.nan)
    if human_labels(estimate) is not None:
        grids.append(_human_grid(rectification_table(estimate, cov).iloc[best_first(estimate)]))
    if clusterings:
        with suppress(NotAvailableError):  # A copy without its rows may not know it; all else stands.
            icc = intraclass_correlation(estimate, clusterings[0])
        grids += [_dependence_grid(frame, estimate, cov, icc, counts), _cluster_grid(estimate, clusterings)]
    said = [
        results._verdict(),
        limit_sentence(grids),
        *_sentences(estimate, cov, alpha, clusterings, icc),
        choice_sentence(estimate),
    ]
    sentences = (*filter(None, said), *(text for _, text in results.notes))
    return Summary("evalreg results", tuple(fact for fact in facts.items() if fact[1]), tuple(grids), sentences)


def choice_sentence(estimate: Estimate) -> str:
    """What to say about the first place of three models or more; empty for fewer."""
    n = estimate.about.n_models
    if n < CHOSEN_FROM:
        return ""
    corrects = passed("`winner()`", best=True)
    return f"The best of {n} was also lucky, so its estimate is too high on average: {corrects} corrects for it."


def rating_reach(estimate: Estimate) -> float:
    """How far from a rating a limit is still one: there the odds are a million to one. Infinite but for ratings."""
    if estimate.about.model != RATINGS:
        return np.inf
    elo = any("Elo points" in line for line in estimate.about.lines)
    return float(np.log(1e6) * (400 / np.log(10) if elo else 1.0))


def limit_sentence(grids: Iterable[Grid]) -> str:
    """What "no limit" means, where a table says so."""
    if not any(NO_LIMIT in row for grid in grids for row in grid.rows):
        return ""
    return f"{NO_LIMIT}: the interval reaches beyond odds of a million to one, where a limit tells nothing more."


def estimate_grid(estimate: Estimate, frame: pd.DataFrame, alpha: float, effect: FloatArray | None = None) -> Grid:
    """A line an estimate, models from the best down; `effect` adds design effects, and "n" in the frame the rows.

    t and p stand where they tell something.
    """
    order = best_first(estimate)
    table = frame.iloc[order]
    reach = np.where(np.array(order) < estimate.about.n_models, rating_reach(estimate), np.inf)
    ends = [limits(*row) for row in zip(table["lower"], table["upper"], table["estimate"], reach, strict=True)]
    columns: dict[str, Iterable[str]] = {
        "": (short_name(str(name)) for name in table.index),
        "coef": map(number, table["estimate"]),
        "std err": map(number, table["se"]),
    }
    if tested_against(estimate) is not None:
        columns |= {"t": (fixed(t, 2) for t in table["t"]), "P>|t|": (p_value(p, alpha) for p in table["p_value"])}
    columns |= {f"[{alpha / 2:.3g}": (low for low, _ in ends), f"{1 - alpha / 2:.3g}]": (high for _, high in ends)}
    columns["dof"] = dof_texts(table["dof"], whole=False)
    columns |= {} if effect is None else {"deff": (fixed(value, 2) for value in effect[order])}
    return Grid.of(columns | _counted(table), spare=("dof", "n"))


def _counted(table: pd.DataFrame) -> dict[str, Iterable[str]]:
    """The column of rows, where the table has one."""
    return {"n": (f"{n:.0f}" for n in table["n"])} if "n" in table else {}


def _dependence_grid(
    frame: pd.DataFrame, estimate: Estimate, cov: Covariance, icc: FloatArray, counts: FloatArray | None
) -> Grid:
    """What clustering does to the standard error of each estimate, and how alike the rows of a cluster are."""
    order = best_first(estimate)
    table, n_eff = frame.iloc[order], dof_texts(effective_rows(estimate, cov, counts)[order], whole=False)
    columns = {"": map(short_name, map(str, table.index)), **_counted(table)}
    columns |= {"naive SE": map(number, table["naive_se"]), "clustered": map(number, table["se"])}
    columns["deff"] = (UNKNOWN if np.isnan(value) else fixed(value, 2) for value in design_effect(cov)[order])
    columns["eff. n"] = (text.replace("nan", UNKNOWN) for text in n_eff)
    if np.any(np.isfinite(icc)):
        columns["ICC"] = (UNKNOWN if np.isnan(value) else fixed(value, 3) for value in icc[order])
    return Grid.of(columns)


def _human_grid(table: pd.DataFrame) -> Grid:
    return Grid.of(
        {
            "": map(str, table.index),
            "lambda": (fixed(value, 3) for value in table["lambda"]),
            "labelled": (f"{n:.0f}" for n in table["n_labelled"]),
            "unlabelled": (f"{n:.0f}" for n in table["n_unlabelled"]),
            "human mean": map(number, table["human_mean"]),
            "human SE": map(number, table["human_se"]),
            "eff. labels": (fixed(n, 1) for n in table["effective_labels"]),
        }
    )


def _cluster_grid(estimate: Estimate, axes: tuple[Axis, ...]) -> Grid:
    sizes = [cluster_sizes(estimate, axis) for axis in axes]
    return Grid.of(
        {
            "clusters": map(axis_name, axes),
            "G": (str(size.n_clusters) for size in sizes),
            "effective G*": (f"{size.effective_clusters:.1f}" for size in sizes),
            "largest share": (f"{size.largest_share:.1%}" for size in sizes),
            "mean size": (f"{size.mean_size:.1f}" for size in sizes),
        }
    )


def _sentences(estimate: Estimate, cov: Covariance, alpha: float, axes: tuple[Axis, ...], icc: FloatArray) -> list[str]:
    about, alike, tested = estimate.about, "", ""
    if np.any(np.isfinite(icc)):
        what = "rows" if estimate.kind == "mean" else "residuals"
        alike = (
            "deff = (clustered SE / naive SE) squared. eff. n = how many independent rows would give this error bar. "
            f"ICC = how alike the {what} of one {axis_name(axes[0])} are: 0 is not at all, 1 is the same."
        )
    if estimate.bounded and about.interval == "logit" and cov.single is None:
        null = tested_against(estimate)
        said = "`t_test` tests a value, as the interval does" if null is None else f"t and p test each against {null:g}"
        tested = f"Intervals are built on the logit scale; {said}."
    elif about.null:
        tested = f"t and p test each against {about.null:g}."
    human = "" if human_labels(estimate) is None else HUMAN_COLUMNS
    clustered = [_inflation(estimate, cov), _absorbed_text(estimate), human, *about.lines, score_text(cov)]
    independent = "" if cov.axes else INDEPENDENT
    return [*clustered, independent, rather_few(estimate, cov), alike, tested, as_mean_text(estimate, cov, alpha)]


def as_mean_text(estimate: Estimate, cov: Covariance, alpha: float) -> str:
    """Of an intercept alone of scores in [0, 1] the score interval that the mean has; else empty."""
    ends = score_interval_of_intercept(estimate, cov, alpha)
    if ends is None:
        return ""
    return (
        "Scores lie in [0, 1]: a regression keeps its t interval; as a mean of these rows the score interval is "
        f"{ends[0]:.4f} to {ends[1]:.4f}, which grows where few failures were seen."
    )


def _inflation(estimate: Estimate, cov: Covariance) -> str:
    """Of a leaderboard by how much clustering widens the error bars, and why."""
    effect = np.sqrt(design_effect(cov)) if estimate.about.one_board and cov.axes else np.array([])
    effect = effect[np.isfinite(effect)]
    if not effect.size:
        return ""
    sizes = axis_counts(cov)
    finest = max(sizes, key=sizes.__getitem__)
    per, typical, why = estimate.n_rows / sizes[finest], np.median(effect), ""
    if per != 1:
        why = ", which share answers" + " that largely cancel within a cluster" * bool(typical < 0.9)
    if per != 1 and typical > 1.2:
        why += ", so that the effective number of comparisons is nearer to that of clusters than of rows"
    return (
        f"Standard errors are {typical:.2f} times the naive ones (from {effect.min():.2f} to {effect.max():.2f}): "
        f"the {sizes[finest]} {finest} clusters hold {counted(per, 'comparison')} each{why}."
    )


def _absorbed_text(estimate: Estimate) -> str:
    """What absorbed levels count as, and what the covariates explain beside them."""
    absorbed = estimate.absorbed
    if absorbed is None:
        return ""
    count = f"{'' if absorbed.exact else 'at most '}{absorbed.rank:,}"
    return (
        f"Coefficients compare rows within levels of what is absorbed. The covariates explain {absorbed.r2_within:.1%} "
        f"of the variation within levels (R-squared within); the levels count as {count} coefficients."
    )


def rather_few(estimate: Estimate, cov: Covariance) -> str:
    """What is done about 10 to 29 clusters, which the literature calls few; empty for other numbers."""
    low, high = RATHER_FEW
    counts = axis_counts(cov)
    few = [f"{count} {name} clusters" for name, count in counts.items() if low <= count <= high]
    if not few:
        return ""
    done = f"{passed(cov='CR2')} with its Satterthwaite degrees of freedom, the default, allows for it"
    if cov.options.kind.dof == cov.options.dof == "satterthwaite":
        done = "CR2 and its Satterthwaite degrees of freedom allow for it"
    refit, cells = estimate.refit, estimate.cells
    resolved = refit is not None and refit.linear and estimate.coefficient_map is not None
    has_wild_test = resolved and (cells is None or cells.stratum is None)
    wild = passed("`wild_test`", wild=True)
    check = f", and {wild} checks a result without them" if has_wild_test else ""
    return f"{' and '.join(few)}: fewer than the {high + 1} of a usual rule. {done}{check}."


# The answer first: one sentence, one table, the rule in a line, and at most three notes, worst first

# Notes below an answer, of which a board has room for fewer.
MOST_NOTES, MOST_BOARD_NOTES = 3, 2
# What is worse comes first; whatever is not named here comes last.
SEVERITY = (
    errors.ZeroVarianceWarning,
    errors.FewClustersWarning,
    errors.LeverageWarning,
    errors.DominantClusterWarning,
    errors.FewCarriersWarning,
    errors.UnequalQuestionsWarning,
    errors.SparseBoardWarning,
    errors.RectificationWarning,
    errors.RepairWarning,
    errors.CovarianceWarning,
    errors.IndependenceWarning,
)
# A design effect within this of 1 is printed as 1.00.
NO_EFFECT = 0.005


def rule_text(estimate: Estimate, cov: Covariance) -> str:
    """By which rule the intervals were made: "CR2 by passage, t with 31 degrees of freedom, on the logit scale"."""
    scored, null = cov.widths().scored, tested_against(estimate)
    scale = ", on the logit scale" if estimate.bounded and estimate.about.interval != "wald" else ""
    if scored is not None:
        kinds = " and ".join(f"{name}'s" for name in score_kinds(scored.null))
        scale = f", {kinds} score interval" + " with a design effect" * scored.null.multiplied
    tested = f", t and p against {null:g}" if null else ""
    repaired = f", {cov.change}" if cov.crossed and cov.change else ""
    # Crossed half-widths are not those of one t.
    reference = reference_fact(cov) if cov.summed else reference_text(cov.dof())
    return f"{covariance_text(cov)}, {reference}{scale}{tested}{repaired}"


def rests_on(estimate: Estimate, cov: Covariance, n: int | None = None, rows: str = "rows") -> str:
    """What an estimate rests on: "480 rows in 60 passage clusters"; of several all that they rest on together."""
    counts = axis_counts(cov)
    if estimate.n_params == 1 and n is None:
        behind = rows_behind(estimate)
        n = estimate.n_rows if behind is None else round(float(behind[0]))
        counts = {axis: int(some[0]) for axis, some in clusters_behind(estimate, cov).items()}
    where = in_clusters(counts) or ", independent"
    left_out = "".join(f"; {line[:-1]}" for line in dropped_lines(estimate.dropped))
    return f"{counted(estimate.n_rows if n is None else n, rows[:-1])}{where}{left_out}"


def dropped_lines(dropped: Mapping[str, int]) -> tuple[str, ...]:
    """A line that counts the rows left out, by reason; none where there are none."""
    parts = dropped_text(dropped)
    return (f"{counted(sum(dropped.values()), 'row')} dropped ({parts}).",) if parts else ()


def value_text(estimate: float, low: float, high: float, alpha: float) -> str:
    """An estimate with its interval: "0.715, 95% interval 0.648 to 0.781"."""
    if not np.isfinite([low, high]).all():
        return f"{number(estimate, 3)}, without an error bar"
    return f"{number(estimate, 3)}, {100 * (1 - alpha):g}% interval {number(low, 3)} to {number(high, 3)}"


def answer_text(
    estimate: Estimate, cov: Covariance, frame: pd.DataFrame, alpha: float, board: pd.DataFrame | None, rows: str
) -> str:
    """One sentence: what was found, how sure that is, and what it rests on."""
    about, rests = estimate.about, rests_on(estimate, cov, rows=rows)
    what = named(estimate)
    ends = frame[["estimate", "lower", "upper"]].to_numpy(dtype=np.float64)
    values = [value_text(float(theta), float(low), float(high), alpha) for theta, low, high in ends]
    if about.n_models > 1:
        order = np.argsort(-estimate.params[: about.n_models], kind="stable")
        first, second = order[:2]
        best = [estimate.names[i] for i in order if estimate.params[i] == estimate.params[first]]
        by = about.model.partition(" by ")[2]
        things = "models" if by in ("", "model") else f"values of {by}"
        text = f"{what}: {best[0]} is first of {about.n_models} {things} with {values[first]}; "
        text += f"{estimate.names[second]} is next with {number(estimate.params[second], 3)}."
        if len(best) > 1:
            text = f"{what}: {listed(best)} share the first place of {about.n_models} {things} with "
            text += f"{number(estimate.params[first], 3)}."
        if board is not None:
            rivals = [str(name) for name in board.index if name not in best and board.loc[name, "rank_lower"] == 1]
            shown = f"{rivals[0]} may be the best too" if len(rivals) == 1 else f"{len(rivals)} others may be the best"
            text += f" The first place is not settled: {shown}." if rivals else ""
            text += " The first place is settled." if len(best) == 1 and not rivals else ""
        return f"{text} {rests[0].upper()}{rests[1:]}."
    if estimate.n_params == 1:
        name = estimate.names[0]
        what = f"Mean of {about.outcome}" if name == "Intercept" else what
        whose = about.subject or (what if name in ("mean", "Intercept", "ratio") else f"{what}, {short_name(name)}")
        return f"{whose}: {values[0]}; {rests}."
    if about.formula:
        squared, about_mean = estimate.r_squared or (0.0, False)
        return f"{about.formula}: {rests}{f', R-squared {squared:.4f}' if about_mean else ''}."
    return f"{what}: {estimate.n_params} estimates; {rests}."


def notes_of(cov: Covariance, notes: Sequence[Note], more: Sequence[str] = ()) -> list[str]:
    """What a reader should know, worst first."""
    rank = {category: place for place, category in enumerate(SEVERITY)}
    ordered = sorted(notes, key=lambda note: rank.get(note[0], len(SEVERITY)))
    texts = [text for _, text in ordered]
    if not cov.axes:
        texts.insert(sum(rank.get(category, len(SEVERITY)) < 2 for category, _ in ordered), INDEPENDENT)
    return list(dict.fromkeys([*texts, *more]))


def few(texts: Sequence[str], most: int) -> tuple[str, ...]:
    """The first of some notes, and how many more there are."""
    left = len(texts) - most
    if left <= 0:
        return tuple(texts)
    return (*texts[:most], f"{counted(left, 'more note')} with the details.")


def short(summary: Summary) -> Summary:
    """A summary without its notes, and of many rows the first and the last."""
    return replace(summary, sentences=(), grids=tuple(grid.ends() for grid in summary.grids))


def brief(results: Any, alpha: float, board: pd.DataFrame | None) -> Summary:
    """The answer, its table and at most three notes; with `board`, the table of `leaderboard`, ranks too."""
    estimate, cov = results.estimate, results.cov
    frame = coefficient_frame(estimate, cov, alpha, results._counts if estimate.about.n_models > 1 else None)
    answer = f"{answer_text(estimate, cov, frame, alpha, board, results._rows_word)} {results._verdict()}".strip()
    if board is None:
        effect = design_effect(cov) if cov.axes and tested_against(estimate) is None else np.ones(1)
        grid = estimate_grid(estimate, frame, alpha, effect if bool(np.any(np.abs(effect - 1) >= NO_EFFECT)) else None)
    else:
        grid = board_grid(board)
    lines = [f"Rows: {estimate.about.subset}."] if estimate.about.subset else []
    lines += filter(None, [few_seen(cov), as_mean_text(estimate, cov, alpha), *estimate.about.lines])
    most = MOST_NOTES if board is None else MOST_BOARD_NOTES
    said = few(notes_of(cov, results.notes, lines), most)
    if board is not None:
        level = level_text(alpha)
        said = (f"ranks: those not excluded; joint intervals: for all models at once; both {level}.", *said)
    return Summary(answer, (), (grid,), said, rule=rule_text(estimate, cov))


# Of more models, and where one would have more letters, they say no more than that hardly anything is separated.
MOST_WITH_LETTERS, MOST_LETTERS = 30, 12
LETTER_NOTE = "Models that share a letter under groups are not separated from each other."
TIER_NOTE = "Each model of a tier is separated from each model of the tiers below it."


def board_grid(board: pd.DataFrame, column: str = "") -> Grid:
    """A line a model: rank, ranks that are not excluded, estimate, its interval, the joint interval, and rows.

    `column` is a further one that says which models are separated: "letters", under the header "groups", or "tier".
    """
    reach, level = board.attrs["reach"], level_text(board.attrs["alpha"])
    single, joint = (board[[f"{kind}lower", f"{kind}upper", "estimate"]].to_numpy(float) for kind in ("", "joint_"))
    columns: dict[str, Iterable[str]] = {
        "": map(str, board.index),
        "rank": map(str, board["rank"]),
        "ranks": map(ranks_text, board.to_dict("records")),
        "estimate": map(number, board["estimate"]),
        f"{level} interval": (ends_text(low, high, value, reach) for low, high, value in single),
        "joint interval": (ends_text(low, high, value, reach) for low, high, value in joint),
    }
    columns |= {name.replace("letters", "groups"): map(str, board[name]) for name in (column, "n") if name in board}
    return Grid.of(columns, spare=("n", "joint interval"))


def ranks_text(row: pd.Series[Any] | Mapping[Any, Any]) -> str:
    """The ranks that are not excluded: "2" or "1-4"."""
    low, high = row["rank_lower"], row["rank_upper"]
    return f"{low}" if low == high else f"{low}-{high}"


def separating_column(board: pd.DataFrame) -> str:
    """Which column says what is separated: letters where they can be read, tiers where there are several, or ""."""
    if len(board) <= MOST_WITH_LETTERS and bool(board["letters"].map(len).max() <= MOST_LETTERS):
        return "letters"
    return "tier" if board["tier"].max() > 1 else ""


def ranks_sentences(board: pd.DataFrame) -> str:
    """What the columns of a leaderboard mean: joint intervals, ranks, and what is separated."""
    separation = {"letters": LETTER_NOTE, "tier": f"{TIER_NOTE} {_LEFT_OUT}", "": _LEFT_OUT}[separating_column(board)]
    return (
        "Joint intervals hold for all models at once. Ranks are those that the data do not exclude, "
        f"{level_text(board.attrs['alpha'])} for all models at once. {separation}"
    )


_LEFT_OUT = "Letters of groups are left out: there would be too many to read."
