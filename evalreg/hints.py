"""Help at the prompt: logs taken for rows, names of other packages told in ours, frames that print every column."""

from __future__ import annotations

import copy
import functools
import inspect
import numbers
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as resolved_hints

import pandas as pd

from evalreg.checks import listed, nearest, visible
from evalreg.choices import COVS
from evalreg.errors import ArgumentTypeError, EvalregError

P = ParamSpec("P")
T = TypeVar("T")


def _by_word(meanings: Mapping[str, str]) -> dict[str, str]:
    return {word: ours for ours, words in meanings.items() for word in words.split()}


MODELS = "models model model_col system by"
# What statsmodels, pyfixest, linearmodels, Stata, R and people's logs say, by keywords here: the first of them that a
# function has is meant.
_KEYWORDS = {
    "groups": "cluster clusters clustervar cluster_col cluster_var cluster_id cluster_by",
    "groups by": "group groupby group_col id cov_kwds prompt passage",
    "cov": "vcov cov_type se_type vcov_type vce se covariance robust",
    "ssc adjust": "small_sample use_correction df_correction correction",
    "dof": "df_resid df_denom ddof df_method use_t",
    "by model left": MODELS,
    "item key": "question questions items item_id question_id doc_id",
    "sample": "samples repeat repeats epoch epochs trial run",
    "weights": "weight sampling_weights sample_weight pweights var_weights aweights",
    "score formula": "y scores value values metric endog score_col",
    "winner score": "outcome verdict verdicts preference result",
    "left pair": "model_a model_1 a first",
    "right pair": "model_b model_2 b second",
    "strata by": "stratum stratify subject category",
    "adjust": "p_adjust multiple multipletests adjustment",
    "baseline": "reference control versus",
    "reference": "baseline anchor base",
    "missing": "na dropna nan_policy na_action",
    "data": "df frame dataframe table log",
    "seed": "random_state rng random_seed",
    "draws": "n_boot reps n_resamples iterations n_draws",
    "delta": "effect mde difference",
}
KEYWORDS = {word: tuple(ours.split()) for word, ours in _by_word(_KEYWORDS).items()}
# What is asked of the result and not of the estimate.
LATER = _by_word(
    {
        "`results.conf_int(alpha=0.05)`": "alpha level confidence conf_level ci",
        "`results.equivalence(margin)`": "margin tost",
        "`er.bootstrap(results)` or `results.wild_test()`": "bootstrap wild",
    }
)
# What results of other packages have under names of their own, by how it is asked for here.
ATTRIBUTES = _by_word(
    {
        "params": "coef coefs coef_ coefficients estimates",
        "bse": "se std_error std_errors stderr standard_errors",
        "tvalues": "tstat tstats t_stats zvalues zstats",
        "pvalues": "pvalue p_value p_values pval pvals",
        "cov_params()": "vcov cov_matrix normalized_cov_params",
        "conf_int()": "confint conf_ints ci confidence_interval",
        "dof": "df_resid df df_t",
        "nobs": "n_obs n",
        "to_frame()": "tidy to_df to_pandas to_dataframe dataframe table design_effect n_eff deff rectification",
        "dependence()": "icc",
        "contrast(matrix, names)": "linear lincom",
        "leaderboard()": "letters tiers",
        "ranks()": "tau_best",
        'plot("predictions", by=...)': "plot_predictions",
        'methods(markup="bibtex")': "bibliography",
        "summary().as_html()": "to_html",
        "summary().as_markdown()": "to_markdown",
        "to_latex()": "caption",
        "er.plan.separate(results, model, other)": "plan",
        "er.posterior(results)": "posterior",
        "to_frame().to_csv(path)": "to_csv",
        "summary()": "summary2 summary_frame",
        "wald_test(hypotheses)": "f_test wald linear_hypothesis",
        "wald_test_terms()": "anova",
        "pairwise()": "t_test_pairwise pairs",
        "avg_slopes()": "get_margeff margins marginal_effects",
        "avg_predictions(variable)": "emmeans marginal_means",
        "predict(rows)": "get_prediction",
        "with_cov(groups=...)": "get_robustcov_results vcov_cluster",
        "wild_test(hypothesis)": "wildboottest wild_bootstrap",
        "to_json()": "save to_pickle",
        "statsmodels": "rsquared rsquared_adj fvalue f_pvalue aic bic llf resid fittedvalues df_model mse_resid scale "
        "ssr model",
    }
)
# Covariances by the names of others.
COVARIANCES = _by_word(
    {
        'Name the clusters in `groups`; that is cov="CR1".': "cluster clustered crv1 stata",
        'For independent rows that is "HC1".': "robust hetero white",
        'Errors of one variance for all rows are not offered; "HC1" allows for rows of different variance.': (
            "nonrobust iid classical unadjusted homoskedastic"
        ),
        "Dependence that fades with time or distance is not offered; name in `groups` the clusters within which rows "
        "depend.": "hac nw newey-west neweywest kernel dk driscoll-kraay conley",
        'That is cov="CR3", up to the factor (G-1)/G.': "crv3",
        'That is cov="CR2".': "crv2",
    }
)
# Families by the names of links, distributions and other packages.
FAMILIES = {
    "binomial": ("logit", "logistic", "logistic regression", "bernoulli", "binary", "quasibinomial"),
    "gaussian": ("normal", "ols", "linear", "identity", "gauss"),
    "poisson": ("count", "counts", "log", "quasipoisson", "ppml"),
}
_LINKS = {"probit": "Probit", "cloglog": "CLogLog"}


def covariance_hint(cov: object) -> str:
    """What a covariance of another package is here, as a sentence after a space; nothing for an unknown one."""
    kind = str(next(iter(cov), "") if isinstance(cov, dict) else cov)
    for name in COVS:
        if kind.upper() == name.upper():
            return f' Write cov="{name}".'
    hint = COVARIANCES.get("cluster" if kind.startswith("~") else kind.lower())
    return f" {hint}" if hint else ""


def family_hint(family: str) -> str:
    """What a family of another package is here, as a sentence after a space; nothing for an unknown one."""
    name = family.lower()
    if name in _LINKS:
        return f" Write family=sm.families.Binomial(link=sm.families.links.{_LINKS[name]}())."
    return next((f' Write family="{ours}".' for ours, others in FAMILIES.items() if name in others), "")


def keyword_hint(name: str, value: object, function: str, known: Sequence[str]) -> str:
    """The message for a keyword that a function with the parameters `known` does not have."""
    start = f"`{function}` has no keyword `{name}`"
    lower, formula = name.lower(), "formula" in known
    meant = next((ours for ours in KEYWORDS.get(lower, ()) if ours in known), None)
    if name in ("freq_weights", "fweights", "frequency_weights") and "weights" in known:
        return (
            f"{start}; `weights` here are sampling weights, and a row is one observation whatever its weight. Write "
            f'out each row as many times as it occurred: data.loc[data.index.repeat(data["{value}"])].'
        )
    if name == "family_link" or (name == "link" and "family" in known):
        return f"{start}; the link is part of the family: family=sm.families.Binomial(link=sm.families.links.Probit())."
    if meant is not None:
        return f"{start}; it is called `{meant}` here.{covariance_hint(value) if meant == 'cov' else ''}"
    if lower in LATER:
        return f"{start}; ask the result: {LATER[lower]}."
    if formula and name in ("target", "n_population"):
        return (
            f"{start}; which questions a result is about is asked of means: `er.mean(data, score, target=...)`. A "
            "regression is about rows like these."
        )
    if formula and lower in MODELS.split():
        return f'{start}; models go into the formula, as in "score ~ C({name})".'
    return f"{start}.{nearest(name, known) or f' It has {listed(known)}.'}"


def with_hints(function: Callable[P, T], logs: bool = False) -> Callable[P, T]:
    """The same function, which says of an unknown keyword what it is called here, and which argument is of no use.

    With `logs` its `data` may be a log, or a mapping of names to logs.
    """
    signature = inspect.signature(function)
    known = [name for name in signature.parameters if name != "self"]
    place = known.index("data") if logs and "data" in known else None
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in kwargs.items():
            if name not in known:
                raise ArgumentTypeError(keyword_hint(name, value, called, known))
        try:
            data: Any = None if place is None else kwargs.get("data", args[place] if len(args) > place else None)
            log = None if data is None else log_of_data(data)
            if log is None:
                return function(*args, **kwargs)
            named = signature.bind_partial(*args, **kwargs).arguments
            del named["data"]
            return cast(T, sys.modules["evalreg.logs.log"].ask(log, function, named))
        except EvalregError:
            raise
        except Exception as error:
            reason = _misfit(signature, getattr(function, "__globals__", {}), args, kwargs)
            if not reason:
                raise
            raise ArgumentTypeError(f"{reason}, in `{called}({', '.join(known)})`.") from error

    return checked


def _misfit(signature: inspect.Signature, home: dict[str, Any], args: Any, kwargs: Any) -> str:
    """Why arguments do not fit a signature: their number, or the first that is of another type; empty if they do."""
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return f"arguments must be those of the function: {error}"
    for name, value in arguments.items():
        written = str(signature.parameters[name].annotation)
        try:
            kind = resolved_hints(SimpleNamespace(__annotations__={name: written}), home)[name]
        except (NameError, AttributeError, SyntaxError):  # none, or a type that only type checkers import
            continue
        if not _is_a(value, kind):
            wanted = re.sub(r"\b[a-z_.]+\.", "", inspect.formatannotation(kind)).replace(" | ", " or ")
            return f"`{name}` must be {wanted}; got {type(value).__name__}"
    return ""


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a type as annotations write it; of types that only checkers know it is taken to be."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_is_a(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str | int) and value in parts
    origin = {float: numbers.Real, int: numbers.Integral}.get(origin, origin)
    if origin is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    items = value if isinstance(value, list | tuple) and len(parts) == 1 else ()
    return isinstance(value, origin) and all(_is_a(item, parts[0]) for item in items)


def log_of_data(data: Any) -> Any:
    """A log, if that is what the data are; readers are not loaded for rows in memory."""
    if isinstance(data, os.PathLike) or (isinstance(data, str) and "~" not in data):
        raise ArgumentTypeError(
            f"`data` must be rows: a data frame, a query or a log; got the path {os.fspath(data)!r}. Read it: "
            f"er.read_log({os.fspath(data)!r}), whose log goes in its place; er.merged reads files of sums."
        )
    module = sys.modules.get("evalreg.logs.log")
    if module is None:
        return None
    if isinstance(data, Mapping) and any(isinstance(value, module.Log) for value in data.values()):
        return module.together(data)
    return data if isinstance(data, module.Log) else None


class Hinting:
    """Results that say, of an attribute of other packages, what it is called here."""

    # How the results are called in a message, and those that can do more.
    _called: ClassVar[str] = "results"
    _inner: ClassVar[type | None] = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what an attribute is called here; of a property that failed, its own error."""
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{text}{_attribute_hint(type(self), name)}", name=name, obj=self)


def _attribute_hint(kind: type[Hinting], name: str) -> str:
    """Where an attribute is to be had; empty where it is nowhere."""
    ours = name if kind._inner is not None and _has(kind._inner, name) else ATTRIBUTES.get(name)
    if ours is None or name.startswith("_"):
        return ""
    if ours.startswith("er."):
        return f"; it is `{ours}` here."
    attribute = ours.partition("(")[0].partition(".")[0]
    has_attribute = _has(kind, attribute)
    if not has_attribute and (kind._inner is None or not _has(kind._inner, attribute)):
        return ""
    rest = f".{name}" if ours == "statsmodels" else ""
    return f"; it is `{kind._called}{'' if has_attribute else '.results'}.{ours}{rest}` here."


def _has(kind: type, name: str) -> bool:
    """Whether objects of a class have an attribute; fields without a default are none of the class itself."""
    return hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", ())


class _AnyFrame(type):
    """Every data frame counts as a `WholeFrame`: they differ in print alone, and are equal to `assert_frame_equal`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, pd.DataFrame)


class WholeFrame(pd.DataFrame, metaclass=_AnyFrame):
    """A data frame that prints every column, where pandas would leave the middle ones out.

    Columns that do not fit the width stand in blocks below each other; rows, digits and the width are as the options of
    pandas say. What is made of it (rows, columns, rounded numbers) prints so too. Pickles hold a plain data frame.
    """

    @property
    def _constructor(self) -> type[WholeFrame]:
        return WholeFrame

    def __repr__(self) -> str:
        """All columns as text."""
        with pd.option_context("display.max_columns", None):
            return visible(super().__repr__(), keep="\n")

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.max_columns", None):
            html: str | None = super()._repr_html_()  # type: ignore[misc]
        return html

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A plain frame, which opens where evalreg is not installed."""
        plain = pd.DataFrame(self)
        plain.attrs = self.attrs
        return copy.copy, (plain,)


def whole(table: pd.DataFrame) -> pd.DataFrame:
    """The same table, with its attributes, that prints every column."""
    frame = WholeFrame(table)
    frame.attrs = table.attrs
    return frame
