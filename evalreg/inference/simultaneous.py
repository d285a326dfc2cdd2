"""Intervals that hold for all contrasts at once, and single-step p-values (Hothorn, Bretz and Westfall 2008)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import fraction
from evalreg.inference.levels import CountedLevel, Level, critical
from evalreg.inference.make_family import make_family
from evalreg.inference.multiplicity import base_seed

Seed: TypeAlias = int | np.random.Generator


def simultaneous(
    params: Any,
    cov: Any,
    *,
    contrasts: Any = None,
    alpha: float = 0.05,
    dof: Any = np.inf,
    stepdown: bool = False,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Intervals that hold for all contrasts at once, and p-values adjusted for all of them.

    Every contrast is judged at one level, at most alpha, by its own interval and p-value; `attrs["level"]` holds it.
    The estimates are taken to be jointly normal. One number of degrees of freedom gives the multivariate t. Where each
    contrast has its own (CR2), the level is that of the largest of normals. With few clusters (an axis with less than
    50 degrees of freedom) each contrast has an uncertain denominator of its own: the level is that of the largest
    studentized statistic, whose correlation is that of the axis with the most clusters, and alpha over the number of
    contrasts where that axis has fewer than two clusters for each parameter.

    Parameters
    ----------
    params : Series or array_like, shape (n_params,)
        Estimates.
    cov : Covariance, DataFrame or array_like, shape (n_params, n_params)
        Their covariance; a matrix must be positive semi-definite.
    contrasts : None, "pairs", str, dict, DataFrame or array_like, optional
        None, the default, is the parameters themselves; "pairs" all differences left - right; otherwise contrasts as
        in `Results.contrast`.
    alpha : float, optional
        One minus the joint confidence level, 0.05 by default.
    dof : float or array_like, optional
        For a matrix, one number (the normal by default) or one for each contrast. A Covariance brings its own, and
        this is ignored.
    stepdown : bool, optional
        Whether `p_adjusted` is by free step-down, which rejects more. The intervals stay single-step.
    seed : int or Generator, optional
        Of the simulation, 0 by default.

    Returns
    -------
    DataFrame
        One row a contrast, columns `estimate se lower upper p_adjusted`. `attrs` holds `level` (of each contrast),
        `critical_value` (of t with `dof`, or of the normal where degrees of freedom differ), its `monte_carlo_error`,
        `draws` (0 where contrasts are counted), `seed`, `dof`, and `left_out`, the reason for each contrast without a
        positive variance: it is NaN and not in the family.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an option breaks its rule, or a matrix is not positive semi-definite.
    AlignmentError
        If `params`, `cov` and `contrasts` do not fit each other.

    References
    ----------
    Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), 346-363, sections 3 and 4; for crossed covariances
    MacKinnon, Nielsen and Webb (2024), arXiv:2406.08880.

    Examples
    --------
    >>> rates = pd.Series({"x": 0.71, "y": 0.66, "z": 0.60})
    >>> bands = simultaneous(rates, np.eye(3) * 0.02**2, contrasts="pairs", dof=40.0)
    >>> print(bands.round(2).to_string())
                estimate    se  lower  upper  p_adjusted
    left right
    x    y          0.05  0.03  -0.02   0.12        0.19
         z          0.11  0.03   0.04   0.18        0.00
    y    z          0.06  0.03  -0.01   0.13        0.10
    >>> round(bands.attrs["critical_value"], 2)
    2.43
    """
    alpha = fraction("alpha", alpha)
    base, printed = base_seed(seed)
    family = make_family(params, cov, contrasts, dof)
    nothing = np.full(family.effect.size, np.nan)
    level: Level = CountedLevel(1, float("nan"))
    at, p = float("nan"), nothing
    if family.inside.any():
        level = family.joint(alpha, base)
        at, p = level.level(alpha), level.adjusted(family.p_value)
        if stepdown:
            p = np.fmin(p, family.stepdown(base, level))
    estimate = family.matrix @ family.params.to_numpy()
    ends = np.where(family.inside[:, None], family.widths.limits(estimate, at), np.nan)
    columns = {"estimate": estimate, "se": family.se, "lower": ends[:, 0], "upper": ends[:, 1]}
    table = pd.DataFrame(columns | {"p_adjusted": p}, index=family.names)
    table.attrs = {
        "critical_value": critical(level, alpha) if family.inside.any() else float("nan"),
        "level": at,
        "monte_carlo_error": level.error(alpha) if family.inside.any() else float("nan"),
        "draws": level.n_draws,
        "seed": printed,
        "alpha": alpha,
        "dof": family.few_dof if family.few else None if np.isnan(family.shared_dof) else family.shared_dof,
        "left_out": dict(family.reasons),
        "n_left_out": len(family.reasons),
    }
    return table
