"""Families of statsmodels, with their links, beside the names that there are for the usual ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evalreg.checks import FAMILIES, FamilyName, option
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import ArgumentTypeError, ConstantScoreError, ConvergenceError, NotAvailableError, ScoreRangeError
from evalreg.estimate import Estimate
from evalreg.hints import family_hint
from evalreg.numerics.fitting import MOST_STEPS, SEPARATED, STILL
from evalreg.results.bridge import from_statsmodels

if TYPE_CHECKING:
    from statsmodels.genmod.families import Family as Family
else:
    Family = Any


def named_family(family: Any) -> FamilyName | Family:
    """The name of a family, where it is one of ours with its canonical link; otherwise an instance of statsmodels'."""
    if isinstance(family, str):
        option("family", family, FAMILIES, family_hint(family))
        return family
    from statsmodels.genmod import families

    if isinstance(family, type) and issubclass(family, families.Family):
        raise ArgumentTypeError(
            f"`family` must be an instance of a statsmodels family; got the class {family.__name__}. Write "
            f"sm.families.{family.__name__}()."
        )
    if not isinstance(family, families.Family):
        raise ArgumentTypeError(
            '`family` must be "gaussian", "binomial" or "poisson", or a statsmodels family such as '
            f"sm.families.Binomial(); got {type(family).__name__}."
        )
    links = families.links
    given: Any = family
    canonical: tuple[tuple[type, type, FamilyName], ...] = (
        (families.Gaussian, links.Identity, "gaussian"),
        (families.Binomial, links.Logit, "binomial"),
        (families.Poisson, links.Log, "poisson"),
    )
    for kind, link, name in canonical:
        if type(given) is kind and type(getattr(given, "link", None)) is link:
            return name
    return family


def estimate_of_family(model: Any, formula: str) -> Estimate:
    """The Estimate of a statsmodels GLM with any family and link, fitted until it stands still."""
    family = model.family
    _check_range(model)
    try:
        with np.errstate(all="ignore"):
            result = model.fit(tol=STILL, tol_criterion="params", maxiter=MOST_STEPS)
    except (
        ValueError,
        FloatingPointError,
        np.linalg.LinAlgError,
        Warning,
    ) as error:  # where filters make errors of them
        raise ConvergenceError(f"the fit of {formula!r} with {_words(family)} failed: {error}.") from None
    weight = np.asarray(family.weights(result.fittedvalues), dtype=np.float64)
    inside = weight > SEPARATED * np.max(weight, initial=0.0)
    part = model.exog[inside] / np.max(np.abs(model.exog), axis=0)
    if not np.isfinite(weight).all() or np.linalg.matrix_rank(part) < part.shape[1]:
        raise ConvergenceError(
            f"the covariates of {formula!r} separate the outcomes perfectly, or predict some with certainty, so that "
            f"no finite estimate exists with {_words(family)}. Drop the covariate or level that separates them."
        )
    return from_statsmodels(result)


def _words(family: Any) -> str:
    return f"{type(family).__name__} and its {type(family.link).__name__.lower()} link"


def _check_range(model: Any) -> None:
    """Raise where outcomes are not in the range of the family."""
    from statsmodels.genmod import families

    values, family, name = model.endog, model.family, str(model.endog_names)
    if isinstance(family, families.Binomial):
        wrong, rule = (values < 0) | (values > 1), "lie in [0, 1]"
    elif isinstance(family, families.Gamma | families.InverseGaussian):
        wrong, rule = values <= 0, "are positive"
    elif isinstance(family, families.Poisson | families.NegativeBinomial | families.Tweedie):
        wrong, rule = values < 0, "are not negative"
    elif isinstance(family, families.Gaussian):
        wrong, rule = np.zeros(values.size, dtype=bool), ""
    else:
        raise NotAvailableError(
            f"the range of scores of {type(family).__name__} is not known; fit it with statsmodels."
        )
    if wrong.any():
        rows, count = row_list(wrong)
        raise ScoreRangeError(
            f"`family`, {type(family).__name__}, needs scores that {rule}; {name!r} is {values[rows[0]]:g} in "
            f"{rows_text(rows, count)} of those in use.",
            column=name,
            rows=rows,
            count=count,
        )
    if np.all(values == values[0]):
        raise ConstantScoreError(
            f"`score` must vary; {name!r} is {values[0]:g} in every row, so that there is no error bar.", column=name
        )
