"""`subset` of an estimator: its rows are chosen first, and its results say how many of how many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar, cast

from evalreg.data.where import open_subset
from evalreg.errors import EvalregError
from evalreg.results.results import Results

P = ParamSpec("P")
T = TypeVar("T")


def chooses_rows(place: int = 0) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """An estimator that takes `subset`; its data are the argument at this place."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def chosen(*args: Any, subset: Any = None, **options: Any) -> T:
            estimator: Callable[..., T] = function
            if subset is None:
                return estimator(*args, **options)
            given = list(args)
            if len(args) <= place and "data" not in options:
                return estimator(*args, **options)  # says that the data are missing
            table, said, n_others = open_subset(given[place] if len(args) > place else options["data"], subset)
            if len(args) > place:
                given[place] = table
            else:
                options["data"] = table
            with _counting():
                return cast(T, _told(estimator(*given, **options), said, n_others))

        return cast(Callable[P, T], chosen)

    return decorate


def _told(found: Any, said: str, n_others: int) -> Any:
    """The same results, or the same with results, that say how many rows were kept of how many."""
    if not isinstance(found, Results):
        return replace(found, results=_told(found.results, said, n_others))
    estimate = found.estimate
    dropped = {**estimate.dropped, "subset": n_others}
    return replace(found, estimate=replace(estimate, about=replace(estimate.about, subset=said), dropped=dropped))


@contextmanager
def _counting() -> Iterator[None]:
    """Say of errors that name rows how the rows are counted."""
    try:
        yield
    except EvalregError as error:
        if error.rows and "in use" not in str(error):
            error.add_note("(Row 0 is the first of those that `subset` keeps.)")
        raise
