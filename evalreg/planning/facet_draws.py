"""How far sums of squares scatter on designs too large for exact products: simulated logs, in the order of labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Codes, joint
from evalreg.planning.facets import FacetEffect

# Logs are drawn, so many at a time, until roots of variances are known to this share of themselves, or so many.
PRECISION, LOGS, MOST_LOGS = 0.005, 100, 1000


def drawn_variances(
    effects: Sequence[FacetEffect],
    combinations: FloatArray,
    factors: Sequence[FloatArray],
    variance: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    """What `variances_of_forms` computes, from simulated logs; and the standard error of their roots as a share.

    With V the covariance of scores y of such a log, tr(A V A V) = E|R'Ay|^2 for any root R of V. So a log has to vary
    as a whole only, not square by square: where all effects have hundreds of levels, a hundred logs give it to 1%. Logs
    are drawn cell by cell in the order of labels, so that rows may come in any order.
    """
    cell = joint([effect.codes for effect in effects])
    order = np.lexsort([_ranks(facet)[facet.codes[cell.first]] for facet in _facets(effects)])
    counts, n = cell.counts[order], float(cell.counts.sum())
    root, designs, forms = np.sqrt(counts), [], []
    for effect, factor in zip(effects, factors, strict=True):
        level, labels = pd.factorize(effect.codes.codes[cell.first][order])
        Z = sparse.csr_array((root, level, np.arange(root.size + 1)), shape=(root.size, labels.size))
        designs.append(Z)
        forms.append(sparse.csr_array(Z * np.sqrt(factor[labels])))
    m, sd = root / np.sqrt(n), np.sqrt(variance)
    found: list[FloatArray] = []
    while True:
        for _ in range(LOGS):
            y = sd[-1] * rng.normal(size=root.size)
            y += sum(of * (Z @ rng.normal(size=Z.shape[1])) for Z, of in zip(designs, sd[:-1], strict=True))
            y -= m * (m @ y)
            Ay = np.column_stack([*(L @ (L.T @ y) for L in forms), y]) @ combinations.T
            Ay -= np.outer(m, m @ Ay)
            squares = [of**2 * np.sum((Z.T @ Ay) ** 2, axis=0) for Z, of in zip(designs, sd[:-1], strict=True)]
            found.append(sum(squares) + sd[-1] ** 2 * np.sum(Ay**2, axis=0))
        drawn = np.array(found)
        mean = drawn.mean(axis=0)
        share = float(np.max(drawn.std(axis=0, ddof=1) / np.where(mean > 0, mean, np.inf)) / 2.0 / np.sqrt(len(found)))
        if share <= PRECISION or len(found) >= MOST_LOGS:
            break
    within = (n - root.size) * (combinations[:, -1] * variance[-1]) ** 2
    return 2.0 * (mean + within), share


def _facets(effects: Sequence[FacetEffect]) -> list[Codes]:
    """Codes of the facets themselves, each once."""
    found: dict[int, Codes] = {}
    for effect in effects:
        found |= {id(part): part for part in effect.codes.parts or (effect.codes,)}
    return list(found.values())


def _ranks(facet: Codes) -> IntArray:
    """Place of each label in the order of their text."""
    ranks = np.empty(facet.n_clusters, dtype=np.intp)
    ranks[np.argsort([facet.label(code) for code in range(facet.n_clusters)], kind="stable")] = np.arange(
        facet.n_clusters
    )
    return ranks
