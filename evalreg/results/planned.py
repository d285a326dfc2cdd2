"""What results say of the next log: how large it must be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from evalreg.errors import ArgumentTypeError

if TYPE_CHECKING:
    from evalreg.planning.separation import Separation


class Planned:
    """Plans from results, or from a comparison."""

    def plan(
        self,
        *,
        separate: tuple[str, str] | None = None,
        judges: Iterable[int] | None = None,
        judge: str | None = None,
        delta: float | None = None,
        assurance: float | None = None,
        alpha: float = 0.05,
        power: float = 0.8,
    ) -> Separation:
        """Prompts, and judges, at which two named models come apart; and the power of the log as it is.

        The same as `er.plan.separate(results, *separate, ...)`, which says how it is computed and how far it holds.

        Parameters
        ----------
        separate : tuple of str, optional
            Names of two models. Left out, the results must be of one difference.
        judges : iterable of int, optional
            Of two crossed clusterings: the numbers of judges to plan for, at least 2 each.
        judge : str, optional
            Which of the two clusterings `judges` counts.
        delta : float, optional
            True difference that should be found, above 0; by default the difference seen.
        assurance : float, optional
            With this probability the real power is at least `power`; by default it is `power` on average.
        alpha : float, optional
            Level of the two-sided test, 0.05 by default.
        power : float, optional
            Probability of telling the two apart, 0.8 by default. Above alpha.

        Returns
        -------
        Separation
            `table` has a row for each number of judges (one row where nothing crosses); `power_now` is the power of a
            log as large as this one.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If a model is not there, a number is outside its range, or the results are not of one difference.
        NotAvailableError
            If no plan is known for the covariance, or the log has too few of the combinations of prompts and judges.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=40, difference=0.05, seed=2)
        >>> means = er.mean(log, by="model", item="question", groups="passage")
        >>> plan = means.plan(separate=("new", "old"), delta=0.05)
        >>> round(plan.power_now, 2), int(plan.table["prompts"].iloc[0])
        (0.19, 255)
        """
        from evalreg.planning.separation import separate as planned

        models = _two(separate)
        return planned(
            self, *models, judges=judges, judge=judge, delta=delta, assurance=assurance, alpha=alpha, power=power
        )


def _two(names: Any) -> tuple[str | None, str | None]:
    """The two names of `separate`, which may be left out."""
    if names is None:
        return None, None
    if not isinstance(names, tuple | list) or len(names) != 2:
        raise ArgumentTypeError(
            f'`separate` must hold the names of two models, as in separate=("A", "B"); got {names!r}.'
        )
    return names[0], names[1]
