"""Arguments checked once, at the door; the tables of options; messages in one voice."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from evalreg.elsewhere import covariance_hint
from evalreg.errors import ArgumentError, ArgumentTypeError, MissingColumnError

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

CovName: TypeAlias = Literal["naive", "CR0", "CR1", "CR2", "CR3", "jackknife"]
SscName: TypeAlias = Literal["statsmodels", "fixest", "sandwich", "G", "none"]
DofName: TypeAlias = Literal["satterthwaite", "min", "normal"]
RepairName: TypeAlias = Literal["max", "eigen", "two-term", "none"]
MissingName: TypeAlias = Literal["drop", "raise"]
OpponentsName: TypeAlias = Literal["uniform", "as_sampled"]
TiesName: TypeAlias = Literal["half", "davidson"]
ScaleName: TypeAlias = Literal["logit", "elo"]
IntervalName: TypeAlias = Literal["wald", "logit", "wilson", "clopper-pearson", "jeffreys"]
FamilyName: TypeAlias = Literal["gaussian", "binomial", "poisson"]
StrataWeightsName: TypeAlias = Literal["micro", "macro", "as_sampled"]
QuestionsName: TypeAlias = Literal["own", "shared"]

COVS: tuple[CovName, ...] = get_args(CovName)
SSCS: tuple[SscName, ...] = get_args(SscName)
DOFS: tuple[DofName, ...] = get_args(DofName)
REPAIRS: tuple[RepairName, ...] = get_args(RepairName)
MISSING: tuple[MissingName, ...] = get_args(MissingName)
OPPONENTS: tuple[OpponentsName, ...] = get_args(OpponentsName)
TIES: tuple[TiesName, ...] = get_args(TiesName)
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)
INTERVALS: tuple[IntervalName, ...] = get_args(IntervalName)
FAMILIES: tuple[FamilyName, ...] = get_args(FamilyName)
STRATA_WEIGHTS: tuple[StrataWeightsName, ...] = get_args(StrataWeightsName)
QUESTIONS: tuple[QuestionsName, ...] = get_args(QuestionsName)

# A message lists at most this many rows, names or values.
MOST_LISTED = 5


def nearest(name: object, options: Iterable[object]) -> str:
    """Return ``' Did you mean "x"?'`` for the options nearest to `name`, or an empty string."""
    candidates = list(dict.fromkeys(str(option) for option in options))
    close = difflib.get_close_matches(str(name), candidates, n=2, cutoff=0.6)
    if not close:
        lower = {candidate.lower(): candidate for candidate in candidates}
        close = [lower[str(name).lower()]] if str(name).lower() in lower else []
    return f" Did you mean {listed(close, joiner=' or ')}?" if close else ""


def listed(values: Iterable[object], joiner: str = ", ") -> str:
    """Return the first few values for a message, with the number of those left out."""
    values = list(values)
    shown = [f'"{value}"' if isinstance(value, str) else str(value) for value in values[:MOST_LISTED]]
    more = len(values) - len(shown)
    return joiner.join(shown) + (f" and {more} more" if more else "")


def row_list(where: npt.ArrayLike) -> tuple[list[int], int]:
    """Return the positions (at most five) and the number of the rows where a mask is true."""
    rows = np.flatnonzero(np.asarray(where))
    return [int(row) for row in rows[:MOST_LISTED]], int(rows.size)


def rows_text(rows: Sequence[int], count: int) -> str:
    """Return ``'row 3'`` or ``'rows 3, 7, 9 and 12 more'`` for a message."""
    text = ", ".join(str(row) for row in rows)
    more = count - len(rows)
    return f"row{'s' if count > 1 else ''} {text}" + (f" and {more} more" if more else "")


def pointed(text: str, place: int) -> str:
    """Return the line of a text with a caret under a place, both indented."""
    start = text.rfind("\n", 0, place) + 1
    line = text[start:].split("\n", 1)[0].expandtabs(1)
    wide = (2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line[: place - start])
    return f"    {line}\n    {' ' * sum(wide)}^"


def option(name: str, value: object, options: Sequence[Any], hint: str = "") -> Any:
    """Return `value` if it is one of `options`; otherwise raise with the list of them, and a hint or the nearest."""
    if isinstance(value, str) and value in options:
        return value
    known = ", ".join(f'"{known}"' for known in options)
    raise ArgumentError(f"`{name}` must be one of {known}; got {value!r}.{hint or nearest(value, options)}")


def fraction(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise ArgumentTypeError(f"`{name}` must be a number between 0 and 1; got {value!r}.")
    if not 0.0 < float(value) < 1.0:
        raise ArgumentError(f"`{name}` must lie strictly between 0 and 1; got {value!r}.")
    if name == "alpha" and float(value) > 0.5:
        raise ArgumentError(
            f"`alpha` is the share of intervals that may miss, 0.05 for 95% intervals; got {value!r}, which is an "
            f"interval of {1 - float(value):.4g}. For {float(value):.4g} pass alpha={1 - float(value):.4g}."
        )
    return float(value)


def known_column(name: object, columns: Sequence[str], argument: str) -> str:
    """Return `name` if it is a column; otherwise raise with the nearest names."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"`{argument}` must be the name of a column; got {type(name).__name__}.")
    if name not in columns:
        hint = nearest(name, columns) or f" The columns are {listed(columns)}."
        raise MissingColumnError(f'`{argument}` names "{name}", which is not a column.{hint}', column=name)
    return name


def known_columns(names: object, columns: Sequence[str], argument: str) -> tuple[str, ...]:
    """Return one name or a list of distinct names as a tuple, if they are columns; none for None."""
    if names is None:
        return ()
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not names:
        raise ArgumentTypeError(
            f"`{argument}` must be the name of a column or a list of names; got {type(names).__name__} {names!r}."
        )
    found = tuple(known_column(name, columns, argument) for name in names)
    twice = [name for i, name in enumerate(found) if name in found[:i]]
    if twice:
        raise ArgumentError(f"`{argument}` names {listed(twice)} twice; each column once.", column=twice[0])
    return found


def frozen(array: npt.ArrayLike, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """Return a read-only view (or converted copy) of an array; the caller's array stays as it is."""
    view = np.asarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class CovOptions:
    """What was asked of the covariance, before defaults are filled in.

    Parameters
    ----------
    cov, ssc, dof, repair : str, float or None
        As in `evalreg.fit`; None is "not asked".
    alike : str or None
        As in `evalreg.win_rate`.
    """

    cov: CovName | None = None
    ssc: SscName | None = None
    dof: DofName | float | None = None
    repair: RepairName | None = None
    alike: str | None = None


@dataclass(frozen=True)
class ResolvedCov:
    """What is computed: every option filled in.

    Parameters
    ----------
    cov, ssc, dof, repair : str or float
        As in `evalreg.fit`.
    stand_in : bool
        Whether cells that rest on a single cluster take the estimate's stand-in, where it has one.
    alike : str or None
        The axis whose clusters are taken to differ alike over models.
    """

    cov: CovName
    ssc: SscName
    dof: DofName | float
    repair: RepairName
    stand_in: bool = False
    alike: str | None = None


def check_cov_options(cov: Any, ssc: Any, dof: Any, repair: Any, alike: Any = None) -> CovOptions:
    """Check the covariance keywords against their tables.

    Parameters
    ----------
    cov, ssc, dof, repair : str, float or None
        As passed by the user.
    alike : str or None
        Name of a clustering, on boards.

    Returns
    -------
    CovOptions
        The same values, checked.

    Raises
    ------
    ArgumentError
        If a value is not an option, `ssc` comes with another `cov` than "CR1", or `alike` with any of the others.
    """
    if cov is not None:
        option("cov", cov, COVS, covariance_hint(cov))
    if ssc is not None:
        option("ssc", ssc, SSCS)
        if cov != "CR1":
            raise ArgumentError(
                f'`ssc` is a factor of `cov="CR1"`; got ssc={ssc!r} with cov={cov!r}. '
                'Pass cov="CR1", or leave out `ssc`.'
            )
    if repair is not None:
        option("repair", repair, REPAIRS)
    others = {"cov": cov, "ssc": ssc, "dof": dof, "repair": repair}
    _check_alike(alike, {name: value for name, value in others.items() if value is not None})
    return CovOptions(cov, ssc, _check_dof(dof), repair, alike)


def _check_alike(alike: Any, others: dict[str, Any]) -> None:
    if alike is None:
        return
    if not isinstance(alike, str):
        raise ArgumentTypeError(
            f'`alike` must be the name of a clustering, such as "judge", or None; got {type(alike).__name__}.'
        )
    if others:
        got = " and ".join(f"{name}={value!r}" for name, value in others.items())
        raise ArgumentError(
            f'`alike="{alike}"` has a variance, degrees of freedom and a sum of pieces of its own (CR2); got {got}. '
            "Leave these out, or `alike`."
        )


def _check_dof(dof: Any) -> DofName | float | None:
    if dof is None or (isinstance(dof, str) and dof in DOFS):
        return dof
    if isinstance(dof, int | float | np.integer | np.floating) and not isinstance(dof, bool) and float(dof) > 0:
        return float(dof)
    raise ArgumentError(f"`dof` must be one of {listed(DOFS)} or a positive number; got {dof!r}.")


def resolve_cov(asked: CovOptions, clustered: bool, default: CovName = "CR2") -> ResolvedCov:
    """Fill in the defaults: CR2 with Satterthwaite dof for clusters, naive without.

    Parameters
    ----------
    asked : CovOptions
        What was asked.
    clustered : bool
        Whether there are groups.
    default : {"CR2", "CR1"}
        Covariance where there are groups and none is named.

    Returns
    -------
    ResolvedCov
        What is computed. `dof` stays None-free: "satterthwaite" under CR2, "min" otherwise.
    """
    cov = asked.cov or (default if clustered else "naive")
    if cov != "naive" and not clustered:
        raise ArgumentError(
            f'`cov="{cov}"` needs clusters; got no `groups`. Pass groups="column", or cov="naive" for independent rows.'
        )
    dof = asked.dof if asked.dof is not None else ("satterthwaite" if cov == "CR2" else "min")
    if dof == "satterthwaite" and cov in ("naive", "jackknife"):
        raise ArgumentError(f'`dof="satterthwaite"` goes with cov "CR0" to "CR3"; got cov="{cov}". Use dof="min".')
    default_repair: RepairName = "max" if asked.cov is None or cov == "jackknife" else "eigen"
    if asked.alike is not None and not clustered:
        raise ArgumentError(
            f'`alike="{asked.alike}"` goes with two clusterings that cross; got no `groups`. Pass '
            f'groups="prompt + {asked.alike}", say, or leave `alike` out.'
        )
    if cov == "jackknife" and asked.repair not in (None, "max"):
        raise ArgumentError(
            f'`cov="jackknife"` goes with repair="max" only, since its three-term form can be negative; got '
            f'repair="{asked.repair}". Leave out `repair`.'
        )
    return ResolvedCov(
        cov, asked.ssc or "statsmodels", dof, asked.repair or default_repair, asked.cov is None, asked.alike
    )
