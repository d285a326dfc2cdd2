"""Facets of a design, crossed or nested: what their names say, and the random effects that they make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from evalreg.checks import FloatArray, IntArray, listed, nearest
from evalreg.data.clusters import Codes, joint
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError, MissingColumnError

CROSS = " x "
MOST_FACETS = 5


@dataclass(frozen=True)
class Facet:
    """A source of error, such as the judges; `within` are the facets that it is nested in."""

    name: str
    within: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Name in a design: "judge:item" is judges of their own for each item."""
        return ":".join((self.name, *self.within))

    @property
    def columns(self) -> frozenset[str]:
        """Columns whose joint values are its levels."""
        return frozenset((self.name, *self.within))


@dataclass(frozen=True, eq=False)
class FacetEffect:
    """A random effect: a facet, or an interaction of several."""

    name: str
    facets: tuple[str, ...]
    columns: frozenset[str]
    codes: Codes


def parse_facets(facets: object, columns: Sequence[str]) -> tuple[Facet, ...]:
    """The facets of a text such as "item x judge:item x template"; those that others are nested in are first."""
    if not isinstance(facets, str):
        raise ArgumentTypeError(
            f'`facets` must be a text such as "item x judge"; got {type(facets).__name__}. Columns are joined by " x " '
            'where they are crossed, and by a colon where the first is nested in the second, as in "item x judge:item".'
        )
    found = []
    for part in re.split(r"\s+[x×]\s+|\s*[*+]\s*", facets.strip()):
        names = tuple(name.strip() for name in part.split(":"))
        for name in names:
            _refuse_unknown(name, facets, columns)
        if len(set(names)) < len(names):
            raise ArgumentError(f'`facets` must not nest a column in itself; got "{part}" in "{facets}".')
        found.append(Facet(names[0], names[1:]))
    _refuse_unfit(found, facets)
    known = {facet.name: facet for facet in found}
    closed = [Facet(facet.name, tuple(_outer(facet, known))) for facet in found]
    return tuple(sorted(closed, key=lambda facet: len(facet.within)))


def _refuse_unknown(name: str, facets: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise MissingColumnError(
            f'`facets` must name columns, crossed by " x " (blanks around it) or nested by ":"; {name!r} in "{facets}" '
            f"is none of {listed(columns)}.{nearest(name, columns)}",
            column=name,
        )


def _refuse_unfit(found: list[Facet], facets: str) -> None:
    names = [facet.name for facet in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f'`facets` must name each facet once; {listed(twice)} occurs more than once in "{facets}".')
    if not len(names) <= MOST_FACETS:
        raise ArgumentError(f"`facets` must be at most {MOST_FACETS}; got {len(names)}. Leave out what varies least.")
    for facet in found:
        outside = [name for name in facet.within if name not in names]
        if outside:
            raise ArgumentError(
                f'`facets` must hold what another is nested in; {listed(outside)} of "{facet.text}" is missing. Write '
                f'"{CROSS.join((*outside, facets))}".'
            )


def _outer(facet: Facet, known: dict[str, Facet], seen: tuple[str, ...] = ()) -> list[str]:
    """All facets that one is nested in, through others too."""
    if facet.name in seen:
        raise ArgumentError(f"`facets` must not be nested in each other; {listed((*seen, facet.name))} are.")
    found: list[str] = []
    for name in facet.within:
        found += [name, *_outer(known[name], known, (*seen, facet.name))]
    return list(dict.fromkeys(found))


def refuse_misspelt(facets: Sequence[Facet], codes: dict[str, Codes]) -> None:
    """Refuse facets with one level, and facets that are nested though written as crossed."""
    for facet in facets:
        if codes[facet.name].n_clusters < 2:
            raise DataError(
                f"a facet needs at least 2 levels; column {facet.name!r} has 1 ({codes[facet.name].label(0)!r}). "
                f"Leave it "
                "out of `facets`: the components then hold for this level alone.",
                column=facet.name,
                count=1,
            )
    for inner, outer in permutations(facets, 2):
        if outer.name in inner.within or inner.name in outer.within:
            continue
        levels = joint([codes[name] for name in sorted(inner.columns)]).n_clusters
        if joint([codes[name] for name in sorted(inner.columns | outer.columns)]).n_clusters > levels:
            continue
        _refuse_nested(inner, outer, levels, facets, codes)


def _refuse_nested(inner: Facet, outer: Facet, levels: int, facets: Sequence[Facet], codes: dict[str, Codes]) -> None:
    both = joint([codes[name] for name in sorted(outer.columns)]).n_clusters == levels
    if both:
        raise DataError(
            f"facets must vary by themselves; {inner.text!r} and {outer.text!r} have the same {levels} levels in all "
            "rows, so that nothing tells them apart. Name one of them.",
            column=inner.name,
            count=levels,
        )
    nested = Facet(inner.name, (*inner.within, outer.name)).text
    spelled = CROSS.join(nested if facet is inner else facet.text for facet in facets)
    raise DataError(
        f"facets that are written as crossed must meet in several ways; each of the {levels} levels of {inner.text!r} "
        f'occurs with one {outer.name!r} only, so that it is nested. Write facets="{spelled}".',
        column=inner.name,
        count=levels,
    )


def effects_of(facets: Sequence[Facet], codes: dict[str, Codes]) -> list[FacetEffect]:
    """The random effects of a design: every set of facets that are not nested in each other, small ones first."""
    found = []
    for size in range(1, len(facets) + 1):
        for chosen in combinations(facets, size):
            names = {facet.name for facet in chosen}
            if any(names & set(facet.within) for facet in chosen):
                continue
            columns = frozenset().union(*(facet.columns for facet in chosen))
            of = joint([codes[facet.name] for facet in facets if facet.name in columns])
            found.append(
                FacetEffect(CROSS.join(facet.text for facet in chosen), tuple(f.name for f in chosen), columns, of)
            )
    return sorted(found, key=lambda effect: len(effect.columns))


def between(effects: Sequence[FacetEffect]) -> FloatArray:
    """Combinations of quadratic forms that are the sums of squares of an analysis of variance, the last of rows.

    That of an effect is its form less those of all effects inside it: W of shape (n_effects + 1, n_effects + 1).
    """
    size = len(effects)
    W = np.eye(size + 1)
    for c, effect in enumerate(effects):
        for d in range(c):
            if effects[d].columns < effect.columns:
                W[c] -= W[d]
    W[size, :size] = -W[:size, :size].sum(axis=0)
    return W


def n_levels(effects: Sequence[FacetEffect]) -> IntArray:
    """Levels of each effect that occur."""
    return np.array([effect.codes.n_clusters for effect in effects])


def balanced(effects: Sequence[FacetEffect], n: int) -> bool:
    """Whether all combinations of crossed facets occur, each equally often, so that sums of squares are orthogonal."""
    levels = {effect.columns: effect.codes.n_clusters for effect in effects} | {frozenset(): 1}
    if any(np.ptp(effect.codes.counts) > 0 for effect in effects):
        return False
    for one, other in combinations(effects, 2):
        both, common = one.columns | other.columns, one.columns & other.columns
        met = levels.get(both, n)
        if common not in levels or met * levels[common] != levels[one.columns] * levels[other.columns]:
            return False
    return True
