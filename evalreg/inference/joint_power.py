"""What a joint test with few degrees of freedom can show, and how often it rejects where there is nothing."""

from __future__ import annotations

import numpy as np
from scipy import special

from evalreg.checks import FloatArray
from evalreg.covariance.covariance import Covariance

ALPHA = 0.05
# Effects that a test with many clusters shows in this share of logs.
MANY = 0.8
# A test that shows less than this share of them is warned of.
LITTLE = 0.5
# A test at 5% that rejects more often than this where there is nothing is warned of.
FALSELY = 0.1


def critical_value(q: int, dof: float, alpha: float) -> float:
    """The F from which a test of q contrasts rejects; with an infinite dof that of chi-squared over q."""
    return float(special.chdtri(q, alpha) / q if np.isinf(dof) else special.fdtri(q, dof, 1 - alpha))


def share_shown(q: int, dof: float, alpha: float = ALPHA) -> float:
    """How often F(q, dof) rejects where chi-squared(q) does in 80%: effects of that noncentrality, by noncentral F."""
    if np.isinf(dof):
        return MANY
    noncentrality = float(special.chndtrinc(float(special.chdtri(q, alpha)), q, 1 - MANY))
    return float(1 - special.ncfdtr(q, dof, noncentrality, critical_value(q, dof, alpha)))


def falsely_shown(q: int, dof: float, cluster_dof: float, alpha: float = ALPHA) -> float:
    """How often F(q, dof) rejects where there is nothing, with variances and covariances from equal normal clusters.

    (v - q + 1)/(v q) W of v = `cluster_dof` is then F(q, v - q + 1) (Hotelling, 1931).
    """
    left = cluster_dof - q + 1
    return float(special.fdtrc(q, left, critical_value(q, dof, alpha) * left / cluster_dof)) if left > 0 else 1.0


def thin_axis(cov: Covariance, C: FloatArray) -> str:
    """The axis that has the fewest degrees of freedom for some contrasts, as in "5 judge clusters"."""
    if not cov.axes:
        return "independent rows"
    own = cov.options.dof == "satterthwaite"
    found = min(cov.one_way, key=lambda term: term.hotelling(C) if own else term.n_clusters)
    return f"{found.n_clusters} {found.name} cluster{'' if found.n_clusters == 1 else 's'}"


def too_sure(q: int, dof: float, cluster_dof: float, axis: str) -> str:
    """What a joint test that takes the covariance for known does with so few clusters."""
    return (
        f"the joint test of {q} contrasts takes their covariance for known, but it is estimated from {axis}. At 5% it "
        f"rejects about {falsely_shown(q, dof, cluster_dof):.0%} of the time where there is nothing, and more often "
        f'where clusters are of unlike size. Use cov="CR2" with dof="satterthwaite", or test fewer contrasts.'
    )


def little_shown(q: int, dof: float, axis: str) -> str:
    """What a joint test with so few degrees of freedom on an axis cannot tell."""
    what = "one contrast" if q == 1 else f"{q} contrasts jointly"
    degrees = f"{dof:.3g} degree{'' if f'{dof:.3g}' == '1' else 's'}"
    return (
        f"{axis} leave {degrees} of freedom to test {what}. The test rejects at 5% from F = "
        f"{critical_value(q, dof, ALPHA):.3g}; with the same error bars from many clusters it would reject from "
        f"{critical_value(q, np.inf, ALPHA):.3g}. Effects that it would then find {MANY:.0%} of the time, it now finds "
        f"{share_shown(q, dof):.0%} of the time. Without a rejection it cannot tell no effect from a large one. "
        f"{'Add' if q == 1 else 'Test fewer contrasts, or add'} clusters."
    )
