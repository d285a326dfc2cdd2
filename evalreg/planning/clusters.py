"""Number of clusters of a given size, and tables of what designs detect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.planning.checked_numbers import checked_at_least, checked_count, checked_delta, checked_number
from evalreg.planning.power import mde, unit_variance
from evalreg.planning.t_power import t_units


def clusters(
    *,
    delta: float,
    cluster_size: float,
    omega2: float,
    icc: float = 0.0,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k_a: float = 1,
    k_b: float = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int:
    """Number of clusters of a given size at which a paired test of two models detects a difference.

    The test is t on the clusters' means, with one degree of freedom less than there are clusters.

    Parameters
    ----------
    delta : float
        True difference of the mean scores that should be detected, above 0.
    cluster_size : float
        Questions of each cluster, at least 1.
    omega2 : float
        Variance over questions of the difference of the two models' expected scores, above 0: the plain one, of single
        questions, where `icc` is given; the clustered one, for clusters of this size, where `icc` is left at 0.
    icc : float, optional
        Intraclass correlation of the expected differences within clusters, from 0, the default, to 1. That of observed
        differences is smaller by the factor omega2/(omega2 + sigma2_a/k_a + sigma2_b/k_b).
    sigma2_a, sigma2_b : float, optional
        Variance of one answer about its question's expected score; 0 by default. It is taken to be independent
        between questions.
    k_a, k_b : float, optional
        Answers to each question, at least 1, the default.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default. Above alpha.

    Returns
    -------
    int
        Clusters, at least 2.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    References
    ----------
    Kish (1965), Survey Sampling, section 5.4 (design effect 1 + (m - 1) icc); Miller (2024), arXiv:2411.00640, eq. 9.

    Examples
    --------
    >>> import evalreg as er
    >>> for size in (1, 5, 20):
    ...     print(size, er.plan.clusters(delta=0.05, cluster_size=size, omega2=1 / 9, icc=0.3))
    1 351
    5 156
    20 119
    """
    size = checked_at_least("cluster_size", cluster_size, 1, "the questions of each cluster")
    rho = checked_number("icc", icc)
    if not 0 <= rho <= 1:
        raise ArgumentError(
            f"`icc` must lie between 0 and 1; got {rho:g}. A negative estimate says that clusters are no more alike "
            "than chance: plan with 0."
        )
    noise = unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b) - omega2
    per_cluster = (omega2 * (1 + (size - 1) * rho) + noise) / size
    return t_units(per_cluster, checked_delta(delta), alpha, power)


def curve(
    *,
    n: Iterable[int],
    omega2: float,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k: Iterable[int] = (1, 2, 5, 10),
    cluster_size: int | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> pd.DataFrame:
    """Detectable differences by number of questions and of answers to each.

    Parameters
    ----------
    n : iterable of int
        Numbers of questions.
    omega2 : float
        As in `mde`.
    sigma2_a, sigma2_b : float, optional
        As in `mde`; 0 by default.
    k : iterable of int, optional
        Answers to each question, the same of both models; 1, 2, 5 and 10 by default.
    cluster_size : int, optional
        Questions of each cluster. With it the test is t with the degrees of freedom of as many whole clusters as n
        questions make. None, the default, is eq. 10 with normal quantiles.
    alpha, power : float, optional
        As in `mde`.

    Returns
    -------
    pandas.DataFrame
        Indexed by n, one column for each K, in units of the score: what `mde` gives for each.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range; fewer than two clusters are among these.

    References
    ----------
    Miller (2024), arXiv:2411.00640, eq. 10.

    Examples
    --------
    >>> import evalreg as er
    >>> table = er.plan.curve(n=[198, 1000], omega2=1 / 9, sigma2_a=1 / 6, sigma2_b=1 / 6, k=[1, 10])
    >>> print(table.round(4).to_string())
    k          1       10
    n
    198   0.1327  0.0757
    1000  0.0591  0.0337
    """
    sizes, answers = (_several(name, values) for name, values in (("n", n), ("k", k)))
    if cluster_size is not None:
        checked_count("cluster_size", cluster_size, 1, "questions")
    rows = [
        [
            mde(
                n=size,
                omega2=omega2,
                sigma2_a=sigma2_a,
                sigma2_b=sigma2_b,
                k_a=times,
                k_b=times,
                n_clusters=None if cluster_size is None else size // cluster_size,
                alpha=alpha,
                power=power,
            )
            for times in answers
        ]
        for size in sizes
    ]
    return pd.DataFrame(rows, index=pd.Index(sizes, name="n"), columns=pd.Index(answers, name="k"))


def _several(name: str, values: Any) -> list[int]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ArgumentTypeError(f"`{name}` must be a list of whole numbers; got {values!r}.")
    found = [checked_count(name, value, 1, "questions" if name == "n" else "answers") for value in values]
    if not found:
        raise ArgumentError(f"`{name}` must name at least one number; got an empty list.")
    return found
