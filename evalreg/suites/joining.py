"""Several evals put together: from results of each, or from the rows of one log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import adjustment, listed, option
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    MissingColumnError,
    MissingLabelsError,
    Note,
    UnlikeScalesWarning,
    issue,
)
from evalreg.estimators.comparison import Comparison
from evalreg.results.results import Results
from evalreg.suites.averages import SUITE_ADJUSTMENTS
from evalreg.suites.comparisons import Comparisons
from evalreg.suites.evals import FORMS, Evals, FormName

# Scores of evals that differ by this factor are hardly on one scale.
UNLIKE = 10.0


@overload
def join_evals(evals: Mapping[str, Comparison], *, adjust: Any = None) -> Comparisons: ...
@overload
def join_evals(evals: Mapping[str, Results], *, form: FormName | None = None) -> Evals: ...
def join_evals(evals: Mapping[str, Any], *, form: FormName | None = None, adjust: Any = None) -> Evals | Comparisons:
    """Several evals in one table: scores of models, or differences between them; nothing is pooled.

    Parameters
    ----------
    evals : dict of str to Results or Comparison
        By the name of the eval: means by model, or what `compare` returns.
    form : {"counts", "scores", "clustered"}, optional
        Of scores: "counts", the default, prints models by evals with questions and clusters below; "scores" leaves
        these out; "clustered" puts clustered beside naive standard errors, with their ratio.
    adjust : {"fdr_bh", "fdr_by", "holm", "bonferroni"}, optional
        Of differences: how `p_adjusted` allows for all differences on all evals. By default each comparison keeps its
        own. "fdr_bh" (or "bh") and "fdr_by" bound the expected share of false discoveries, "fdr_by" under any
        dependence; the others bound the chance of a single one.

    Returns
    -------
    Evals or Comparisons
        With `table`, `summary()` and `average()`. The table of differences is indexed by (eval, model, baseline).

    Raises
    ------
    ArgumentTypeError, ArgumentError
        If it is not a dict of such results, is empty, mixes scores and differences, or an option does not fit.

    Warns
    -----
    UnlikeScalesWarning
        If the scores of the evals are not on one scale.

    References
    ----------
    Miller (2024), arXiv:2411.00640, tables 2 to 5. Benjamini and Hochberg (1995), JRSS B 57, 289-300; Benjamini and
    Yekutieli (2001), Annals of Statistics 29, 1165-1188.

    Examples
    --------
    >>> import evalreg as er
    >>> logs = {name: er.datasets.paired(n_passages=20, seed=i) for i, name in enumerate(["reading", "maths"])}
    >>> evals = er.join_evals({name: er.compare(log, item="question") for name, log in logs.items()})
    >>> evals.table["n"].to_dict()
    {('reading', 'new', 'old'): 100, ('maths', 'new', 'old'): 100}
    """
    parts = _checked(evals)
    if all(isinstance(part, Comparison) for part in parts.values()):
        if form is not None:
            raise ArgumentError(f"`form` is for scores; differences have one form. Got {form!r}; leave it out.")
        return Comparisons(parts, _suite_adjust(parts, adjust))
    if adjust is not None:
        raise ArgumentError("`adjust` is for differences, of which `compare` makes p-values; these are scores.")
    notes = tuple(_scale_notes(parts))
    issue(notes)
    return Evals(parts, "counts" if form is None else option("form", form, FORMS), notes)


def _checked(evals: Any) -> dict[str, Any]:
    """Evals by name, all scores or all differences."""
    if not isinstance(evals, Mapping):
        raise ArgumentTypeError('`evals` must be a dict by eval of what `mean` or `compare` return: {"MATH": ...}.')
    if not evals:
        raise ArgumentError("`evals` must hold at least one eval; got an empty dict.")
    parts = {str(name): part for name, part in evals.items()}
    if len(parts) < len(evals):
        raise ArgumentError(f"the names of evals must differ as text; got {listed(evals)}.")
    kinds = {Comparison if isinstance(part, Comparison) else Results for part in parts.values()}
    for name, part in parts.items():
        if isinstance(part, Comparison):
            continue
        if not isinstance(part, Results) or part.estimate.about.n_models != part.estimate.n_params:
            what = "results without models" if isinstance(part, Results) else type(part).__name__
            raise ArgumentTypeError(
                f'`evals` must hold what `compare` returns, or scores by model as er.mean(..., by="model") returns; '
                f"{name!r} is {what}."
            )
    if len(kinds) > 1:
        raise ArgumentError("`evals` must be all scores or all differences; got both. Join them in two calls.")
    return parts


def _suite_adjust(parts: Mapping[str, Comparison], adjust: Any) -> Any:
    """The adjustment over all evals, for comparisons that are not adjusted each by itself."""
    if adjust is None:
        return None
    own = [name for name, part in parts.items() if part.adjust]
    if own:
        raise ArgumentError(f"`adjust` is over all evals; {listed(own)} is already adjusted. Compare without `adjust`.")
    return adjustment("adjust", adjust, SUITE_ADJUSTMENTS)


def _scale_notes(parts: Mapping[str, Results]) -> list[Note]:
    """Whether the evals seem to be on scales of their own."""
    unit = [name for name, part in parts.items() if part.estimate.about.unit]
    other = [name for name in parts if name not in unit]
    if unit and other:
        text = f"Scores of {listed(unit)} lie in [0, 1], those of {listed(other)} do not"
    else:
        size = {name: float(np.max(np.abs(part.estimate.params))) for name, part in parts.items()}
        low, high = min(size, key=lambda name: size[name]), max(size, key=lambda name: size[name])
        if unit or size[high] < UNLIKE * size[low]:
            return []
        text = f"Scores of {high} reach {size[high]:.4g}, those of {low} {size[low]:.4g}"
    return [
        (UnlikeScalesWarning, f"{text}: an average over unlike scales means little. Bring them to one scale first.")
    ]


def by_eval(
    function: Callable[..., Any],
    data: Any,
    options: Mapping[str, Any],
    *,
    column: str = "eval",
    each: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """One result for each eval of a long frame, side by side.

    Parameters
    ----------
    function : callable
        What is done with each eval: `er.mean` (with `by`), `er.compare`, `er.pass_at_k` and the like.
    data : frame
        Rows of all evals, in memory; anything that narwhals reads.
    options : dict
        Arguments of `function`, such as `{"by": "model", "item": "question"}`.
    column : str, optional
        The column that says which eval a row is of; "eval" by default.
    each : dict of str to dict, optional
        Options of single evals, such as `{"DROP": {"groups": "passage"}}`; they take the place of `options`.

    Returns
    -------
    Evals or Comparisons
        What `join_evals` makes of the results, in the order in which evals first appear.

    Raises
    ------
    MissingColumnError
        If there is no such column, or `each` names an eval that is not there.
    MissingLabelsError
        If a row does not say its eval.

    Examples
    --------
    >>> import evalreg as er, pandas as pd
    >>> logs = {name: er.datasets.paired(n_passages=20, seed=i) for i, name in enumerate(["reading", "maths"])}
    >>> frame = pd.concat([log.assign(eval=name) for name, log in logs.items()])
    >>> evals = er.by_eval(
    ...     er.mean, frame, {"by": "model", "item": "question"}, each={"reading": {"groups": "passage"}}
    ... )
    >>> evals.table["n_clusters"].to_dict()
    {('reading', 'new'): 20, ('reading', 'old'): 20, ('maths', 'new'): 100, ('maths', 'old'): 100}
    """
    if not isinstance(options, Mapping):
        raise ArgumentTypeError(f'`options` must be a dict such as {{"by": "model", "item": "id"}}; got {options!r}.')
    frame = nw.from_native(data, eager_only=True)
    if column not in frame.columns:
        raise MissingColumnError(
            f"`column` must be a column; {column!r} is not. The columns are {listed(frame.columns)}."
        )
    labels, missing = frame[column], int(frame[column].is_null().sum())
    if missing:
        raise MissingLabelsError(f"every row must say its eval; {missing} of column {column!r} do not.", column=column)
    names = labels.unique(maintain_order=True).to_list()
    given = {str(name): dict(more) for name, more in (each or {}).items()}
    unknown = [name for name in given if name not in map(str, names)]
    if unknown:
        raise MissingColumnError(f"`each` must name evals; {listed(unknown)} is none. The evals are {listed(names)}.")
    parts = {
        name: function(frame.filter(labels == name).drop(column).to_native(), **{**options, **given.get(str(name), {})})
        for name in names
    }
    return join_evals(parts)
