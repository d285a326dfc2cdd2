"""What names of other packages are called here: hints for keywords and options that do not exist."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar, cast

from evalreg.checks import COVS, CovName, FamilyName, listed, nearest
from evalreg.errors import ArgumentTypeError

P = ParamSpec("P")
T = TypeVar("T")

MODELS = ("models", "model", "model_col", "system", "by")
# From what statsmodels, pyfixest, linearmodels, Stata, R and people's logs say, to keywords here: the first of them
# that a function has is meant.
KEYWORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("cluster", "clusters", "clustervar", "cluster_col", "cluster_var", "cluster_id", "cluster_by"), ("groups",)
    ),
    **dict.fromkeys(("group", "groupby", "group_col", "id", "cov_kwds", "prompt", "passage"), ("groups", "by")),
    **dict.fromkeys(("vcov", "cov_type", "se_type", "vcov_type", "vce", "se", "covariance"), ("cov",)),
    **dict.fromkeys(("small_sample", "use_correction", "df_correction", "correction"), ("ssc", "adjust")),
    **dict.fromkeys(("df_resid", "df_denom", "ddof", "df_method", "use_t"), ("dof",)),
    **dict.fromkeys(MODELS, ("by", "model", "left")),
    **dict.fromkeys(("question", "questions", "items", "item_id", "question_id", "doc_id"), ("item", "key")),
    **dict.fromkeys(("samples", "repeat", "repeats", "epoch", "epochs", "trial", "run"), ("sample",)),
    **dict.fromkeys(
        ("weight", "sampling_weights", "sample_weight", "pweights", "var_weights", "aweights"), ("weights",)
    ),
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
# What results of other packages have under names of their own, as it is asked for here.
ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(("coef", "coefs", "coef_", "coefficients", "estimates"), "params"),
    **dict.fromkeys(("se", "std_error", "std_errors", "stderr", "standard_errors"), "bse"),
    **dict.fromkeys(("tstat", "tstats", "t_stats", "zvalues", "zstats"), "tvalues"),
    **dict.fromkeys(("pvalue", "p_value", "p_values", "pval", "pvals"), "pvalues"),
    **dict.fromkeys(("vcov", "cov_matrix", "normalized_cov_params"), "cov_params()"),
    **dict.fromkeys(("confint", "conf_ints", "ci", "confidence_interval"), "conf_int()"),
    **dict.fromkeys(("df_resid", "df", "df_t"), "dof"),
    **dict.fromkeys(("n_obs", "n"), "nobs"),
    **dict.fromkeys(("tidy", "to_df", "to_pandas", "to_dataframe", "dataframe", "table"), "to_frame()"),
    "to_csv": "to_frame().to_csv(path)",
    **dict.fromkeys(("summary2", "summary_frame"), "summary()"),
    **dict.fromkeys(("f_test", "wald", "linear_hypothesis"), "wald_test(hypotheses)"),
    "anova": "wald_test_terms()",
    **dict.fromkeys(("t_test_pairwise", "pairs"), "pairwise()"),
    **dict.fromkeys(("get_margeff", "margins", "marginal_effects"), "avg_slopes()"),
    **dict.fromkeys(("emmeans", "marginal_means"), "avg_predictions(variable)"),
    "get_prediction": "predict(rows)",
    **dict.fromkeys(("get_robustcov_results", "vcov_cluster"), "with_cov(groups=...)"),
    **dict.fromkeys(("wildboottest", "wild_bootstrap"), "wild_test(hypothesis)"),
    **dict.fromkeys(("save", "to_pickle"), "to_json()"),
    **dict.fromkeys(
        ("rsquared", "rsquared_adj", "fvalue", "f_pvalue", "aic", "bic", "llf", "resid", "fittedvalues", "df_model"),
        "statsmodels",
    ),
    **dict.fromkeys(("mse_resid", "scale", "ssr", "model"), "statsmodels"),
}
# Covariances by the names of others.
COVARIANCES: dict[str, str] = {
    **dict.fromkeys(("cluster", "clustered", "crv1", "stata"), 'Name the clusters in `groups`; that is cov="CR1".'),
    **dict.fromkeys(("robust", "hetero", "white"), 'For independent rows that is "HC1".'),
    **dict.fromkeys(
        ("nonrobust", "iid", "classical", "unadjusted", "homoskedastic"),
        'Errors of one variance for all rows are not offered; "HC1" allows for rows of different variance.',
    ),
    **dict.fromkeys(
        ("hac", "nw", "newey-west", "neweywest", "kernel", "dk", "driscoll-kraay", "conley"),
        "Dependence that fades with time or distance is not offered; name in `groups` the clusters within which rows "
        "depend.",
    ),
    "crv3": 'That is cov="CR3", up to the factor (G-1)/G.',
    "crv2": 'That is cov="CR2".',
}


# Families by the names of links, distributions and other packages.
FAMILY_NAMES: dict[str, FamilyName] = {
    **dict.fromkeys(("logit", "logistic", "logistic regression", "bernoulli", "binary", "quasibinomial"), "binomial"),
    **dict.fromkeys(("normal", "ols", "linear", "identity", "gauss"), "gaussian"),
    **dict.fromkeys(("count", "counts", "log", "quasipoisson", "ppml"), "poisson"),
}


# The same, as the value to write: those of clusters, and those of independent rows.
OF_CLUSTERS: dict[str, CovName] = {
    **dict.fromkeys(("cluster", "clustered", "crv1", "cv1", "stata", "robust", "cr1", "cr1s"), "CR1"),
    **dict.fromkeys(("crv3", "cv3", "cluster-crv3", "cr3"), "CR3"),
    **dict.fromkeys(("crv2", "cv2", "cr2"), "CR2"),
    "cluster-jk": "jackknife",
    "cr0": "CR0",
}
OF_ROWS: dict[str, CovName] = {
    **dict.fromkeys(("robust", "hetero", "heteroskedastic", "white", "stata", "hc1"), "HC1"),
    **{f"hc{number}": cast(CovName, f"HC{number}") for number in (0, 2, 3)},
}
# Covariances with a choice of small-sample factor.
_OURS: dict[str, CovName] = {name.upper(): name for name in COVS}
_WITH_SSC = frozenset({"CR1"})
_COV_NAMES = ("vcov", "cov_type", "se_type", "vcov_type", "vce", "covariance")
_CLUSTER_NAMES = tuple(name for name, ours in KEYWORDS.items() if ours == ("groups",))
_LINKS = {"probit": "Probit", "cloglog": "CLogLog"}
_FREQUENCIES = ("freq_weights", "fweights", "frequency_weights")


def covariance_hint(cov: object) -> str:
    """What a covariance of another package is here, as a sentence after a space; nothing for an unknown one."""
    if isinstance(cov, dict):
        call = call_to_write({"vcov": cov}, (), ("groups", "cov", "ssc"))
        return f" Write {call}." if call else ""
    hint = COVARIANCES.get(str(cov).lower())
    return f" {hint}" if hint else ""


def family_hint(family: str, *, code: bool = True) -> str:
    """What a family of another package is here, as a sentence after a space; nothing for an unknown one.

    Without `code` as an option of the command line, which has no other links.
    """
    ours = FAMILY_NAMES.get(family.lower())
    if not code:
        return f" Write --family {ours}." if ours else ""
    if family.lower() in ("probit", "cloglog"):
        return f" Write family=sm.families.Binomial(link=sm.families.links.{_LINKS[family.lower()]}())."
    return f' Write family="{ours}".' if ours else ""


def call_to_write(
    unknown: Mapping[str, object], given: Sequence[str], known: Sequence[str], data: object = None
) -> str:
    """What to write for the keywords of another package, such as 'groups="a + b", cov="CR1"'; empty where unknown.

    `given` are the keywords that were ours, `known` those that there are; labels that are a column of `data` go by its
    name.
    """
    # The columns of a lazy frame are asked of its engine.
    columns = () if "Lazy" in type(data).__name__ else tuple(map(str, getattr(data, "columns", ())))
    clustered = "groups" in given or any(name in (*_CLUSTER_NAMES, "cov_kwds") for name in unknown)
    found: dict[str, str] = {}
    for name, value in unknown.items():
        asked = _in_our_words(name.lower(), value, clustered, columns, known)
        if asked is None or not set(asked) <= set(known):
            return ""
        found = asked | found if name in _COV_NAMES else found | asked
    ordered = sorted(found, key=lambda ours: list(known).index(ours))
    call = ", ".join(f"{ours}={found[ours]}" for ours in ordered)
    return f"{call}, where the dots are the values as you gave them" if "=..." in call else call


def _in_our_words(
    name: str, value: object, clustered: bool, columns: Sequence[str], known: Sequence[str]
) -> dict[str, str] | None:
    """Our keywords, with the code of their values, for one keyword of another package."""
    if name in _COV_NAMES:
        if isinstance(value, dict) and len(value) == 1:
            ((kind, clusters),) = value.items()
            cov, groups = OF_CLUSTERS.get(str(kind).lower()), _labels(clusters, columns)
            if cov is None or groups is None:
                return None
            crossed = {"ssc": '"fixest"'} if "+" in groups and cov in _WITH_SSC else {}
            return {"groups": groups, "cov": f'"{cov}"', **crossed}
        of = OF_CLUSTERS if clustered else {**OF_ROWS, **dict.fromkeys(("cluster", "clustered", "crv1"))}
        cov = of.get(str(value).lower()) if isinstance(value, str) else None
        if cov is None and isinstance(value, str) and value.upper() in _OURS:
            cov = _OURS[value.upper()]
        if cov is None and isinstance(value, str) and value.startswith("~"):
            return {"groups": _labels(value, columns) or "", "cov": '"CR1"'}
        return None if cov is None else {"cov": f'"{cov}"'}
    if name == "robust":
        return {"cov": '"CR1"' if clustered else '"HC1"'} if value is True else None
    if name == "cov_kwds" and isinstance(value, dict) and "groups" in value:
        labels, corrected = _labels(value["groups"], columns), value.get("use_correction", True)
        return None if labels is None else {"groups": labels} | ({} if corrected else {"cov": '"CR0"'})
    ours = next((one for one in KEYWORDS.get(name, ()) if one in known), None)
    code = _labels(value, columns) if ours in ("groups", "weights", "by", "item", "model", "sample") else None
    return None if ours is None or code is None else {ours: code}


def _labels(value: object, columns: Sequence[str]) -> str | None:
    """The code for names of columns, or labels that are one; None for anything else."""
    if isinstance(value, str):
        return '"' + value.lstrip("~ ").replace("^", ":") + '"'
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) and name in columns for name in value):
        return str(list(value)).replace("'", '"')
    name = getattr(value, "name", None)
    if isinstance(name, str) and name in columns:
        return f'"{name}"'
    several = [str(column) for column in getattr(value, "columns", ())]
    if several:
        return '"' + " + ".join(several) + '"' if set(several) <= set(columns) else None
    return "..." if getattr(value, "ndim", 0) == 1 else None


def keyword_hint(
    name: str, function: str, known: Sequence[str], values: Mapping[str, object] | None = None, data: object = None
) -> str:
    """The message for a keyword that a function with the parameters `known` does not have.

    `values` are all keywords of the call; with them it says what to write, where that is known.
    """
    start = f"`{function}` has no keyword `{name}`"
    values = {} if values is None else values
    unknown = {one: value for one, value in values.items() if one not in known}
    if name in _FREQUENCIES and "weights" in known:
        return (
            f"{start}; `weights` here are sampling weights, and a row is one observation whatever its weight. Write "
            f'out each row as many times as it occurred: data.loc[data.index.repeat(data["{values.get(name)}"])].'
        )
    if name == "family_link" or (name == "link" and "family" in known):
        return f"{start}; the link is part of the family: family=sm.families.Binomial(link=sm.families.links.Probit())."
    call = (
        call_to_write(
            unknown, [one for one, value in values.items() if one in known and value is not None], known, data
        )
        if unknown
        else ""
    )
    if call and len(unknown) > 1:
        return f"{start.replace('keyword', 'keywords')} and {listed_code(list(unknown)[1:])}; write {call}."
    said = _keyword_hint(start, name, known)
    if not call:
        return said + covariance_hint(values.get(name) if name in _COV_NAMES else None)
    return f"{said.removesuffix('.')}: write {call}." if said.endswith(" here.") else f"{start}; write {call}."


def listed_code(names: Sequence[str]) -> str:
    """Names in backticks, joined by commas."""
    return ", ".join(f"`{name}`" for name in names)


def _keyword_hint(start: str, name: str, known: Sequence[str]) -> str:
    meant = next((ours for ours in KEYWORDS.get(name.lower(), ()) if ours in known), None)
    if meant is not None:
        return f"{start}; it is called `{meant}` here."
    if name.lower() in LATER:
        return f"{start}; ask the result: {LATER[name.lower()]}."
    if "formula" in known and name in ("target", "n_population"):
        return (
            f"{start}; which questions a result is about is asked of means: `er.mean(data, score, target=...)`. A "
            "regression is about rows like these."
        )
    if "formula" in known and name.lower() in MODELS:
        return f'{start}; models go into the formula, as in "score ~ C({name})".'
    return f"{start}.{nearest(name, known) or f' It has {listed(known)}.'}"


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
    ours = name if kind._inner is not None and hasattr(kind._inner, name) else ATTRIBUTES.get(name)
    if ours is None or name.startswith("_"):
        return ""
    attribute = ours.partition("(")[0].partition(".")[0]
    own = hasattr(kind, attribute)
    if not own and (kind._inner is None or not hasattr(kind._inner, attribute)):
        return ""
    rest = f".{name}" if ours == "statsmodels" else ""
    return f"; it is `{kind._called}{'' if own else '.results'}.{ours}{rest}` here."


def with_hints(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, with its signature, whose refusal of an unknown keyword says what it is called here."""
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        unknown = [name for name in kwargs if name not in known]
        if unknown:
            data = kwargs.get("data", next(iter(args[known.index("data") :]), None)) if "data" in known else None
            if data is None and args:
                data = getattr(getattr(args[0], "estimate", args[0]), "scores", None)
            raise ArgumentTypeError(keyword_hint(unknown[0], function.__name__, known, kwargs, data))
        return function(*args, **kwargs)

    return checked
