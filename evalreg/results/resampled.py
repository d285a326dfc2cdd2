"""What results say besides their covariance, where clusters are few: bootstraps and posteriors."""

from __future__ import annotations

from typing import Any

from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Axis
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate
from evalreg.inference.posterior import Posterior, posterior_of
from evalreg.inference.simultaneous import Seed
from evalreg.resampling.bootstrap import Bootstrap, KindName, bootstrap_results
from evalreg.resampling.draws import BootWeightsName, WildWeightsName
from evalreg.resampling.wild import WildTest, wild_test


class Resampled:
    """Methods that draw clusters or signs again, or put a prior in their place."""

    estimate: Estimate
    cov: Covariance
    axes: tuple[Axis, ...]

    def posterior(
        self, *, prior: tuple[float, float] = (1.0, 1.0), icc_prior: tuple[float, float] = (1.0, 1.0)
    ) -> Posterior:
        """Beta-binomial posteriors of means of 0/1 scores, for evals of few clusters.

        Each cluster has a success rate of its own, drawn from a Beta distribution with mean mu and intraclass
        correlation rho; its rows are independent given the rate. Without groups this is the Beta posterior. Computed by
        quadrature, so that nothing is drawn at random.

        Parameters
        ----------
        prior : (float, float), optional
            Beta prior of mu; (1, 1), the default, is uniform, (0.5, 0.5) Jeffreys'.
        icc_prior : (float, float), optional
            Beta prior of rho; uniform by default.

        Returns
        -------
        Posterior
            `mean`, `median`, `interval()`, `probability(above)`, `icc` and `to_frame()`, for each mean by itself.

        Raises
        ------
        ScoreRangeError
            If scores are not all 0 or 1.
        NotAvailableError
            If clusterings are crossed, rows are weighted, the parameters are not plain means of rows, or they are of a
            finite benchmark.
        ArgumentError
            If a prior is not two numbers of at least 0.5.

        References
        ----------
        Bowyer, Aitchison and Ivanova (2025), arXiv:2503.01747, whose model of clustered evals this is, with another
        prior; Skellam (1948), JRSS B 10(2), 257-261.
        """
        _refuse_population(self.estimate, "`posterior`")
        return posterior_of(self.estimate, self.cov.axes, prior, icc_prior)

    def wild_test(
        self,
        null: str | dict[str, float] | Any = "Intercept = 0",
        draws: int = 9999,
        weights: WildWeightsName = "auto",
        impose_null: bool = True,
        alpha: float = 0.05,
        seed: Seed = 0,
    ) -> WildTest:
        """A wild cluster bootstrap test, for few clusters or unequal ones, with the interval that it gives.

        Parameters
        ----------
        null : str, dict or array_like, optional
            Hypotheses as in `t_test`: "A - B = 0.1", or several with commas between them.
        draws : int, optional
            Weight vectors to draw; all are taken, once each, where there are no more.
        weights : {"auto", "rademacher", "webb", "mammen"}, optional
            "auto" is Webb's six points for 12 clusters or fewer, Rademacher's two otherwise.
        impose_null : bool, optional
            Whether residuals satisfy the null.
        alpha : float, optional
            One minus the level of the interval.
        seed : int or Generator, optional
            Of the draws.

        Returns
        -------
        WildTest
            Statistic (the CR1 t, whatever `cov` is), p-values and interval.

        Raises
        ------
        NotAvailableError
            If the estimate is not of means or least squares, or of a finite benchmark.
        ArgumentError
            If rows are taken as independent, or an option is unknown.

        References
        ----------
        Cameron, Gelbach and Miller (2008), REStat 90(3); MacKinnon, Nielsen and Webb (2023), J. Applied Econometrics
        38.
        """
        _refuse_population(self.estimate, "`wild_test`")
        return wild_test(
            self.estimate,
            self.axes,
            null,
            draws=draws,
            weights=weights,
            impose_null=impose_null,
            alpha=alpha,
            seed=seed,
            ssc=self.cov.options.ssc,
        )

    def bootstrap(
        self,
        draws: int = 1999,
        kind: KindName = "percentile",
        weights: BootWeightsName = "multinomial",
        alpha: float = 0.05,
        seed: Seed = 0,
    ) -> Bootstrap:
        """Estimates solved again from whole clusters drawn with replacement, with the intervals that they give.

        Parameters
        ----------
        draws : int, optional
            How many.
        kind : {"percentile", "basic", "bca", "studentized"}, optional
            Interval; the last two for one clustering.
        weights : {"multinomial", "bayesian"}, optional
            Whole clusters with replacement, or exponential weights of all clusters (the Bayesian bootstrap).
        alpha : float, optional
            One minus the level of the intervals.
        seed : int or Generator, optional
            Of the draws.

        Returns
        -------
        Bootstrap
            `draws`, `bse` and `conf_int()`. Crossed clusterings are drawn independently of each other (pigeonhole).

        Raises
        ------
        NotAvailableError
            If the estimate is not of means, ratings or least squares (`evalreg.bootstrap` takes any function), if it is
            a function of them (which is to be taken of `draws`), or of a finite benchmark.
        ArgumentError
            If rows are taken as independent, or an option is unknown.

        References
        ----------
        Cameron, Gelbach and Miller (2008), REStat 90(3); Owen (2007), Annals of Applied Statistics 1(2).
        """
        _refuse_population(self.estimate, "`bootstrap`")
        return bootstrap_results(
            self.estimate, self.axes, draws=draws, kind=kind, weights=weights, alpha=alpha, seed=seed
        )


def _refuse_population(estimate: Estimate, method: str) -> None:
    """What knows nothing of a finite population would contradict the error bar that does."""
    if estimate.population is not None:
        raise NotAvailableError(
            f'{method} takes clusters from a population without end, and these results are about "the full benchmark". '
            "Take results without `target` for it."
        )
