"""What names of other packages are called here: hints for keywords and options that do not exist."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentTypeError

P = ParamSpec("P")
T = TypeVar("T")

MODELS = ("models", "model", "model_col", "system", "by")
# From what statsmodels, pyfixest, linearmodels, Stata, R and people's logs say, to keywords here: the first of them
# that a function has is meant.
KEYWORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("cluster", "clusters", "cluster_col", "cluster_var", "cluster_id", "cluster_by"), ("groups",)),
    **dict.fromkeys(("group", "groupby", "group_col", "id", "cov_kwds", "prompt", "passage"), ("groups", "by")),
    **dict.fromkeys(("vcov", "cov_type", "se_type", "vcov_type", "vce", "se", "covariance"), ("cov",)),
    **dict.fromkeys(("small_sample", "use_correction", "df_correction", "correction"), ("ssc", "adjust")),
    **dict.fromkeys(("df_resid", "df_denom", "ddof", "df_method", "use_t"), ("dof",)),
    **dict.fromkeys(MODELS, ("by", "model", "left")),
    **dict.fromkeys(("question", "questions", "items", "item_id", "question_id", "doc_id"), ("item", "key")),
    **dict.fromkeys(("samples", "repeat", "repeats", "epoch", "epochs", "trial", "run"), ("sample",)),
    **dict.fromkeys(("weight", "freq_weights", "sampling_weights", "sample_weight"), ("weights",)),
    **dict.fromkeys(("y", "scores", "value", "values", "metric", "endog", "score_col"), ("score", "formula")),
    **dict.fromkeys(("outcome", "verdict", "verdicts", "preference", "result"), ("winner", "score")),
    **dict.fromkeys(("model_a", "model_1", "a", "first"), ("left", "pair")),
    **dict.fromkeys(("model_b", "model_2", "b", "second"), ("right", "pair")),
    **dict.fromkeys(("stratum", "stratify", "subject", "category"), ("strata", "by")),
    **dict.fromkeys(("p_adjust", "multiple", "multipletests", "adjustment"), ("adjust",)),
    **dict.fromkeys(("reference", "control", "versus"), ("baseline",)),
    **dict.fromkeys(("baseline", "anchor", "base"), ("reference",)),
    **dict.fromkeys(("na", "dropna", "nan_policy", "na_action"), ("missing",)),
    **dict.fromkeys(("df", "frame", "dataframe", "table", "log"), ("data",)),
    **dict.fromkeys(("random_state", "rng", "random_seed"), ("seed",)),
    **dict.fromkeys(("n_boot", "reps", "n_resamples", "iterations", "n_draws"), ("draws",)),
    **dict.fromkeys(("effect", "mde", "difference"), ("delta",)),
}
# What is asked of the result and not of the estimate.
LATER: dict[str, str] = {
    **dict.fromkeys(("alpha", "level", "confidence", "conf_level", "ci"), "`results.conf_int(alpha=0.05)`"),
    **dict.fromkeys(("margin", "tost"), "`results.equivalence(margin)`"),
    **dict.fromkeys(("bootstrap", "wild"), "`er.bootstrap(results)` or `results.wild_test()`"),
}
# Covariances by the names of others.
COVARIANCES: dict[str, str] = {
    **dict.fromkeys(("cluster", "clustered", "crv1", "stata"), 'Name the clusters in `groups`; that is cov="CR1".'),
    **dict.fromkeys(("robust", "hetero", "white"), 'For independent rows that is "HC1".'),
    **dict.fromkeys(
        ("nonrobust", "iid"),
        'Errors of one variance for all rows are not offered; "HC1" allows for rows of different variance.',
    ),
    "crv3": 'That is cov="CR3", up to the factor (G-1)/G.',
    "crv2": 'That is cov="CR2".',
}


def covariance_hint(cov: object) -> str:
    """What a covariance of another package is here, as a sentence after a space; nothing for an unknown one."""
    hint = COVARIANCES.get(str(cov).lower())
    return f" {hint}" if hint else ""


def keyword_hint(name: str, function: str, known: Sequence[str]) -> str:
    """The message for a keyword that a function with the parameters `known` does not have."""
    start = f"`{function}` has no keyword `{name}`"
    meant = next((ours for ours in KEYWORDS.get(name.lower(), ()) if ours in known), None)
    if meant is not None:
        return f"{start}; it is called `{meant}` here."
    if name.lower() in LATER:
        return f"{start}; ask the result: {LATER[name.lower()]}."
    if "formula" in known and name.lower() in MODELS:
        return f'{start}; models go into the formula, as in "score ~ C({name})".'
    return f"{start}.{nearest(name, known) or f' It has {listed(known)}.'}"


def with_hints(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, with its signature, whose refusal of an unknown keyword says what it is called here."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        unknown = [name for name in kwargs if name not in known]
        if unknown:
            raise ArgumentTypeError(keyword_hint(unknown[0], function.__name__, known))
        return function(*args, **kwargs)

    return checked
