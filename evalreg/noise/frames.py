"""Columns of the tables of noise: standard errors, shares, answers that are enough, detectable differences."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray
from evalreg.noise.parts import Parts
from evalreg.planning.t_power import t_shift

OF_PAIRS = ("z", "p_value", "wins", "losses", "sign_p_value", "detectable", "paired")


def noise_columns(parts: Parts, variance: FloatArray, alpha: float) -> dict[str, FloatArray]:
    """Columns of both tables."""
    total = np.where(variance > 0, variance, np.nan)
    data = total - parts.prediction
    low, high = parts.shares(alpha).T
    one = data + parts.sigma2 / parts.n
    columns = {"se_prediction": np.sqrt(parts.prediction), "se_data": _root(data), "se_total": np.sqrt(total)}
    columns |= {"prediction_share": parts.share, "share_lower": np.maximum(low, 0.0), "share_upper": high}
    columns["share_upper"] = np.maximum(np.minimum(high, 1.0), columns["share_lower"])
    for name, share in (("answers", parts.share), ("lower", low), ("upper", high)):
        columns[f"enough_{name}"] = parts.enough(share)
    columns |= {"sigma2": parts.sigma2, "data_variance": data, "se_one_answer": _root(one)}
    return columns | {"n": parts.n, "n_clusters": parts.n_clusters, "n_single": parts.n_single}


def _root(variance: FloatArray) -> FloatArray:
    return np.sqrt(np.where(variance > 0, variance, np.nan))


def shifts(dof: FloatArray, alpha: float, power: float) -> FloatArray:
    """Shifts of t tests by degrees of freedom, which are rounded down to three digits where they are many."""
    known = np.isfinite(dof) & (dof > 0)
    rounded = np.where(known, dof, 1.0)
    size = 10.0 ** (np.floor(np.log10(rounded)) - 2)
    rounded = rounded if np.unique(rounded).size < 20 else np.floor(rounded / size) * size
    distinct, which = np.unique(rounded, return_inverse=True)
    found = np.array([t_shift(float(one), alpha, power) for one in distinct])[which.ravel()]
    far = np.isinf(dof)
    found = np.where(far, t_shift(np.inf, alpha, power), found) if far.any() else found
    return np.where(known | far, found, np.nan)


def middle(column: pd.Series[float]) -> float:
    """The median of what is known, the upper one where infinite values are among it; NaN where nothing is."""
    known = column.to_numpy(dtype=float)
    known = known[~np.isnan(known)]
    if not known.size:
        return float("nan")
    return float(np.quantile(known, 0.5, method="higher" if np.isinf(known).any() else "linear"))
