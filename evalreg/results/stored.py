"""Results read back from JSON: what was said of them, without the rows that would let them say more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction, keeps, listed
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.inference.contrasts import parse_contrasts
from evalreg.report.documents import read_summary
from evalreg.report.tables import Printed, Summary, whole_columns
from evalreg.report.whole import whole
from evalreg.results.stored_contrasts import combined_stored, short_summary
from evalreg.results.stored_tables import STATISTICS, PairTable, pairs_from, read_ends, read_matrix, table_from


@keeps("document")
@dataclass(frozen=True, eq=False)
class StoredResults(Printed):
    """Results that were written as JSON, without the rows of their log; made by `read_results`, immutable.

    What needs the rows, such as another clustering or a bootstrap, raises `NotAvailableError`.

    Parameters
    ----------
    document : dict
        What the file holds.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> text = er.fit("score ~ 1", log, groups="passage").to_json()
    >>> er.read_results(text).n_clusters
    {'passage': 40}
    """

    document: Mapping[str, Any]

    @property
    def _held(self) -> Mapping[str, Any]:
        """The document itself, of which `document` is a copy."""
        return vars(self)["document"]  # type: ignore[no-any-return]

    @property
    def kind(self) -> str:
        """What it is: "results", "board" (several models) or "comparison"."""
        return str(self._held["kind"])

    @property
    def params(self) -> pd.Series:
        """Estimates, by parameter."""
        return self._column("estimate")

    @property
    def bse(self) -> pd.Series:
        """Standard errors."""
        return self._column("se")

    @property
    def dof(self) -> pd.Series:
        """Degrees of freedom of t; inf where the normal is the reference."""
        return self._column("dof")

    @property
    def tvalues(self) -> pd.Series:
        """t of the tests of `pvalues`, as they were when the results were written."""
        return self._column("t")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values, as they were when the results were written."""
        return self._column("p_value")

    @property
    def nobs(self) -> int:
        """Rows that were in use."""
        return int(self._held["nobs"])

    @property
    def n_clusters(self) -> dict[str, int]:
        """Clusters by dimension."""
        return dict(self._held["n_clusters"])

    @property
    def dropped(self) -> pd.Series:
        """Rows left out by reason."""
        counts = dict.fromkeys(("score", "covariate", "group"), 0) | dict(self._held["dropped"])
        return pd.Series(counts, name="dropped", dtype="int64")

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences below the summary, warnings among them."""
        return tuple(note["text"] for note in self._held["notes"])

    @property
    def options(self) -> dict[str, Any]:
        """Options as they were resolved."""
        return dict(self.document["options"])

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that the results were made with."""
        return dict(self._held["versions"])

    @property
    def seed(self) -> Any:
        """Seed of the simulations; None where there was none."""
        return self._held["seed"]

    @property
    def alphas(self) -> tuple[float, ...]:
        """Levels whose intervals are stored; the first is that of the summary and of the tables."""
        return tuple(self._ends)

    @property
    def adjust(self) -> str | None:
        """How the p-values of a comparison allow for the number of pairs; None where they do not."""
        return self._held.get("adjust")

    @property
    def results(self) -> StoredResults:
        """These results, which a comparison holds under this name."""
        return self

    @property
    def table(self) -> pd.DataFrame:
        """Of a comparison the differences, indexed by (model, baseline), as `Comparison.to_frame` has them."""
        rows = table_from(self._held["parameters"])
        if self.kind != "comparison":
            raise NotAvailableError(f"`table` is that of a comparison; this is {_article(self.kind)}. Use `to_frame`.")
        more = [name for name in ("parameter", "naive_se", "t", "design_effect", "n_eff") if name in rows]
        return rows.drop(columns=more).set_index(["model", "baseline"])

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the parameters, both axes named.

        Returns
        -------
        DataFrame
            Its diagonal is the square of `bse`.
        """
        return pd.DataFrame(self._matrix, index=self._statistics.index, columns=self._statistics.index)

    def conf_int(self, alpha: float | None = None) -> pd.DataFrame:
        """Confidence intervals, as they were computed from the rows.

        Parameters
        ----------
        alpha : float, optional
            A level that is stored; the first of them by default.

        Returns
        -------
        DataFrame
            Columns 0 and 1, one row a parameter.

        Raises
        ------
        NotAvailableError
            If the level is not stored.
        """
        return pd.DataFrame(self._ends[self._level(alpha)].copy(), index=self._statistics.index, columns=[0, 1])

    def to_frame(self, alpha: float | None = None) -> pd.DataFrame:
        """Estimates, standard errors, tests and intervals, one row a parameter, each by itself.

        The intervals and p-values of a comparison that allow for the number of pairs are in `table`.

        Parameters
        ----------
        alpha : float, optional
            A level that is stored; the first of them by default.

        Returns
        -------
        DataFrame
            Columns as in `Results.to_frame`.
        """
        ends = self._ends[self._level(alpha)]
        table = self._statistics[list(STATISTICS)].assign(lower=ends[:, 0], upper=ends[:, 1])
        return table.assign(n=self._statistics["n"]) if "n" in self._statistics else table

    def contrast(self, contrast: str | dict[str, float] | Any) -> StoredResults:
        """Linear combinations of the parameters, where the file knows their error bars.

        Single parameters and differences of two of them are stored. Others are c'Vc with the degrees of freedom that
        all contrasts share, where they do: one clustering under `dof="min"` or a number.

        Parameters
        ----------
        contrast : str, dict or array_like
            "A - B", {"A": 1, "B": -1}, or an array with one column a parameter.

        Returns
        -------
        StoredResults
            Of the combinations.

        Raises
        ------
        NotAvailableError
            If a combination has degrees of freedom of its own, which only the rows tell.
        """
        asked = parse_contrasts(contrast, tuple(self._statistics.index))
        if np.any(asked.value != 0):
            raise ArgumentError(f"a contrast is a combination of parameters; {contrast!r} compares it with a number.")
        if any(name in asked.names[:i] for i, name in enumerate(asked.names)):
            raise ArgumentError(f"combinations need distinct names; got {listed(asked.names)}.")
        found: StoredResults = combined_stored(self, asked)
        return found

    def pairwise(self, alpha: float | None = None) -> pd.DataFrame:
        """Differences between all pairs of parameters, one by one.

        Parameters
        ----------
        alpha : float, optional
            A level that is stored; the first of them by default.

        Returns
        -------
        DataFrame
            Indexed by (left, right), columns difference, se, dof, lower, upper and p_value, not adjusted for their
            number. Each is the difference that `contrast` has; on sparse boards `Results.pairwise` may be wider.
        """
        level, pairs = self._level(alpha), self._pairs
        if pairs is None:
            raise NotAvailableError("differences of pairs are not stored: of one parameter, or of very many. " + _ROWS)
        index = [self._statistics.index[pairs.places[:, side]] for side in (0, 1)]
        table = pairs.frame[["estimate", "se", "dof"]].rename(columns={"estimate": "difference"})
        table = table.assign(
            lower=pairs.ends[level][:, 0], upper=pairs.ends[level][:, 1], p_value=pairs.frame["p_value"]
        )
        return whole(table.set_axis(pd.MultiIndex.from_arrays(index, names=["left", "right"])))

    def leaderboard(self) -> pd.DataFrame:
        """Models from the best down, as they stood at the first level.

        Returns
        -------
        DataFrame
            As `Results.leaderboard`.

        Raises
        ------
        NotAvailableError
            If none is stored.
        """
        if self._held.get("leaderboard") is None:
            raise NotAvailableError(
                "no leaderboard is stored: these are not results of several models, or they were written without "
                "their ranks. `results.to_json()` writes them; `evalreg mean` does with --ranks."
            )
        return whole(table_from(self._held["leaderboard"]).set_index("model").rename_axis(None))

    def summary(self, alpha: float | None = None) -> Summary:
        """The summary that the results had.

        Parameters
        ----------
        alpha : float, optional
            The first of the levels that are stored, the only one that has a summary.

        Returns
        -------
        Summary
            Prints as text of 80 columns.

        Raises
        ------
        NotAvailableError
            If the level is another one.
        """
        level = self._level(alpha)
        if self._held.get("summary") is None:
            return short_summary(self, level)
        if level != self.alphas[0]:
            raise NotAvailableError(f"the summary is stored at alpha={self.alphas[0]:g}; use `to_frame({level:g})`.")
        return read_summary(self._held["summary"])

    def __repr__(self) -> str:
        rows = f"{self.nobs} rows, read back from JSON"
        table = whole_columns(self.table if self.kind == "comparison" else self.to_frame())
        return f"<StoredResults: {self._held['model']} of {self._held['score']}, {rows}>\n{table}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say of what results can do, and these cannot, that it needs the rows."""
            if not name.startswith("_") and name in _offered():
                raise NotAvailableError(f"`{name}` needs the rows of the log, which a JSON file does not hold. {_ROWS}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @cached_property
    def _statistics(self) -> pd.DataFrame:
        """By parameter: estimate, se, naive_se, t, dof, p_value."""
        table = table_from(self._held["parameters"]).rename(columns={"difference": "estimate"})
        return table.set_index("parameter").rename_axis(None)

    @cached_property
    def _ends(self) -> dict[float, FloatArray]:
        """Intervals by their level."""
        return read_ends(self._held["intervals"], len(self._statistics))

    @cached_property
    def _matrix(self) -> FloatArray:
        """Covariance of the parameters."""
        return read_matrix(self._held["covariance"]["matrix"], "matrix", len(self._statistics))

    @cached_property
    def _pairs(self) -> PairTable | None:
        found = self._held.get("pairs")
        return None if found is None else pairs_from(found, len(self._statistics))

    def _column(self, name: str) -> pd.Series:
        return self._statistics[name].rename(None)

    def _level(self, alpha: float | None) -> float:
        if alpha is None:
            return self.alphas[0]
        fraction("alpha", alpha)
        for level in self.alphas:
            if np.isclose(level, alpha, rtol=1e-12, atol=0.0):
                return level
        known = ", ".join(f"{level:g}" for level in self.alphas)
        raise NotAvailableError(
            f"intervals are stored at alpha={known}, not at {alpha:g}. {_ROWS} `to_json(alpha=[0.05, {alpha:g}])` "
            "stores both."
        )


_ROWS = "Compute it from the log."
# What boards and comparisons offer beside results.
_OF_OTHERS: tuple[str, ...] = (
    "cycles",
    "duels",
    "equivalence",
    "facts",
    "head_to_head",
    "joint_test",
    "judges",
    "mcnemar",
    "net_benefit",
    "odds",
)
_OF_OTHERS += ("net_benefit", "odds", "sign_test", "sparsity")


def _offered() -> set[str]:
    """What results, boards and comparisons offer."""
    from evalreg.results.results import Results

    return {*_OF_OTHERS, *(name for name in dir(Results) if not name.startswith("_"))}


def _article(kind: str) -> str:
    return kind if kind == "results" else f"a {kind}"
