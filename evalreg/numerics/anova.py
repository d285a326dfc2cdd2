"""The intraclass correlation of one-way analysis of variance."""

from __future__ import annotations

import numpy as np

from evalreg.checks import FloatArray


def anova_icc(
    between: FloatArray, total: FloatArray, n: FloatArray, n_clusters: FloatArray, sum_squares: FloatArray
) -> FloatArray:
    """Intraclass correlations, shape (m,), from sums of squares; NaN where nothing varies, or nothing within clusters.

    `sum_squares` is that of cluster sizes. Snedecor and Cochran (1989), Statistical Methods, section 13.3.
    """
    defined = (n_clusters > 1) & (n > n_clusters) & (total > 0)
    G, N = np.where(defined, n_clusters, 2.0), np.where(defined, n, 4.0)
    msb, msw = between / (G - 1), np.maximum(total - between, 0.0) / (N - G)
    m0 = (N - sum_squares / N) / (G - 1)
    bottom = msb + (m0 - 1) * msw
    defined &= bottom > 0
    return np.where(defined, (msb - msw) / np.where(defined, bottom, 1.0), np.nan)
