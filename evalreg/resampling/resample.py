"""The cluster bootstrap of estimates that are solved again from sums within clusters, and what to warn of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, listed, option
from evalreg.covariance.one_way import naive_term
from evalreg.covariance.options import check_two_clusters, drop_nested
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import ArgumentError, EvalregWarning, FewClustersWarning, NotAvailableError, Note, issue
from evalreg.estimate import Estimate
from evalreg.inference.multiplicity import base_seed
from evalreg.inference.simultaneous import Seed
from evalreg.numerics.matrices import dense
from evalreg.numerics.progress import Progress
from evalreg.resampling.boot_sums import meetings, solver_of
from evalreg.resampling.bootstrap import FEW_DRAWS, KINDS, Bootstrap, KindName, refuse_few
from evalreg.resampling.draws import BOOT_WEIGHTS, BootWeightsName, boot_chunks, run_blocks, whole_number

# Below this many clusters the draws are too much alike, and their spread is too small.
FEW_CLUSTERS = 10
# Fewer draws than this outside an end, and it depends on the seed; what is advised instead.
FEW_OUTSIDE = 2.5
# Models that a note names.
MOST_NAMED = 5
# Entries of the (draws, meetings) array that is held at a time.
MOST_ENTRIES = 1 << 23


@dataclass(frozen=True)
class Asked:
    """Options of a bootstrap, checked."""

    draws: int  # how many
    kind: KindName  # interval
    weights: BootWeightsName  # how clusters are drawn
    alpha: float  # one minus the level
    base: int  # root of the random streams
    seed: int | None  # to print


def check_options(draws: Any, kind: Any, weights: Any, alpha: Any, seed: Any) -> Asked:
    """Options of a bootstrap as passed by the user, checked."""
    option("kind", kind, KINDS)
    option("weights", weights, BOOT_WEIGHTS)
    base, printed = base_seed(seed)
    draws, alpha = whole_number("draws", draws), fraction("alpha", alpha)
    refuse_few(draws, alpha)
    return Asked(draws, kind, weights, alpha, base, printed)


def check_crossed(kind: KindName, n_axes: int) -> None:
    """Raise if an interval for one clustering is asked of several."""
    if n_axes > 1 and kind in ("bca", "studentized"):
        raise NotAvailableError(
            f'the "{kind}" interval is available for one clustering; got {n_axes} crossed ones. Use kind="percentile" '
            'or "basic".'
        )


def bootstrap_results(
    estimate: Estimate,
    axes: tuple[Axis, ...],
    *,
    draws: int = 1999,
    kind: KindName = "percentile",
    weights: BootWeightsName = "multinomial",
    alpha: float = 0.05,
    seed: Seed = 0,
) -> Bootstrap:
    """Cluster bootstrap of means or a least-squares regression, solved again from sums within clusters.

    Cameron, Gelbach and Miller (2008), REStat 90(3), for whole clusters; Owen (2007), Annals of Applied Statistics
    1(2), for crossed ones.
    """
    asked = check_options(draws, kind, weights, alpha, seed)
    if not axes:
        raise ArgumentError(
            "a cluster bootstrap needs clusters; this result takes rows as independent. Pass `groups=` to the "
            "estimator, or use `evalreg.bootstrap` with a function, which draws rows where `groups` is None."
        )
    for axis in axes:
        check_two_clusters(estimate, axis, axes)
    axes = drop_nested(estimate.scores, axes)[0]
    check_crossed(kind, len(axes))
    by, codes, n_clusters = meetings(estimate, axes)
    solver = solver_of(estimate, by)

    def work(first: int, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        found, errors = [], []
        for V in _products(boot_chunks(weights, n_clusters, n, rng), codes):
            found.append(solver.solve(V))
            errors.append(solver.errors(V) if kind == "studentized" else found[-1])
            progress.advance(V.shape[0])
        return np.concatenate(found), np.concatenate(errors)

    with Progress(asked.draws) as progress:
        parts = run_blocks(asked.draws, asked.base, work)
    flat, found = _flat(estimate), np.concatenate([part[0] for part in parts])
    # What is left of draws that are all alike is rounding.
    found[:, flat] = np.nan
    one = np.ones((1, codes[0].size))
    studentized = kind == "studentized"
    return assembled(
        estimate.names,
        np.array(estimate.params),
        found,
        asked,
        {axis_name(axis): n for axis, n in zip(axes, n_clusters, strict=True)},
        solver.without() if kind == "bca" else None,
        solver.errors(one)[0] if studentized else None,
        np.concatenate([part[1] for part in parts]) if studentized else None,
        flat,
    )


def _flat(estimate: Estimate) -> BoolArray:
    """Parameters that are alike in every draw because their scores do not vary, shape (n_params,)."""
    known = np.zeros(estimate.n_params, dtype=bool)
    if estimate.coefficient_map is not None:
        known = ~np.any(dense(estimate.coefficient_map) != 0, axis=1)
    return np.asarray((np.diag(naive_term(estimate).matrix) <= 0) & ~known)


def _products(chunks: Iterator[list[FloatArray]], codes: list[IntArray]) -> Iterator[FloatArray]:
    """Weights of the joint values of the axes, as many at a time as are held."""
    held = max(1, MOST_ENTRIES // codes[0].size)
    for each in chunks:
        for rows in (slice(first, first + held) for first in range(0, each[0].shape[0], held)):
            if len(each) == 1:
                yield each[0][rows]
            else:
                yield np.prod([one[rows][:, code] for one, code in zip(each, codes, strict=True)], axis=0)


def _draw_notes(names: tuple[str, ...], draws: FloatArray, asked: Asked, flat: BoolArray | None) -> list[Note]:
    """What to say about few draws, about draws without a value or all alike, and about infinite ones."""
    alpha = asked.alpha
    notes: list[Note] = []
    n = draws.shape[0]
    outside = (n + 1) * alpha / 2
    if outside < FEW_OUTSIDE:
        text = (
            f"{n} draws are few for a {1 - alpha:.4g} interval: its ends are the draws at place {outside:.3g} from "
            f"either side, and another seed moves them. Take {FEW_DRAWS} or more."
        )
        notes.append((EvalregWarning, text))
    flat = np.zeros(len(names), dtype=bool) if flat is None else flat
    if flat.any():
        alike = listed([name for name, is_flat in zip(names, flat, strict=True) if is_flat])
        text = (
            f"the scores behind {alike} do not vary, so that every draw would be alike: there is no standard error and "
            "no interval by drawing clusters again."
        )
        notes.append((EvalregWarning, text))
    failed = np.count_nonzero(np.isnan(draws), axis=0) * ~flat
    if failed.any():
        worst = int(np.argmax(failed))
        text = (
            f"{failed[worst]} of {n} draws have no value of {listed([names[worst]])} and are left out of its standard "
            "error and interval, which speak of the other draws only."
        )
        notes.append((EvalregWarning, text))
    lost = np.count_nonzero(np.isinf(draws), axis=0)
    if lost.any():
        worst = int(np.argmax(lost))
        low, high = (int(np.count_nonzero(draws[:, worst] == side)) for side in (-np.inf, np.inf))
        text = (
            f"{lost[worst]} of {n} draws of {listed([names[worst]])} are infinite ({low} below, {high} above). They "
            "count as the most extreme draws in its interval; its standard error is infinite."
        )
        notes.append((EvalregWarning, text))
    return notes


def _jackknife_notes(names: tuple[str, ...], jackknife: FloatArray | None) -> list[Note]:
    """Which estimates have no BCa interval, because they do not exist without some cluster."""
    if jackknife is None or np.isfinite(jackknife).all():
        return []
    lost = [name for name, left in zip(names, jackknife.T, strict=True) if not np.isfinite(left).all()]
    text = f'no "bca" interval of {listed(lost)}: without one of the clusters there is no finite estimate. '
    return [(EvalregWarning, text + 'Use kind="percentile".')]


def assembled(
    names: tuple[str, ...],
    values: FloatArray,
    draws: FloatArray,
    asked: Asked,
    n_clusters: dict[str, int],
    jackknife: FloatArray | None = None,
    se: FloatArray | None = None,
    draws_se: FloatArray | None = None,
    flat: BoolArray | None = None,
) -> Bootstrap:
    """Put a bootstrap together, and issue its warnings."""
    notes: list[Note] = []
    for name, n in n_clusters.items():
        if n < FEW_CLUSTERS:
            text = f"{n} {name} clusters: the draws are much alike, and their spread is too small. Prefer `wild_test`"
            notes.append((FewClustersWarning, text + " or CR2 where they are available."))
    notes += _draw_notes(names, draws, asked, flat)
    notes += _jackknife_notes(names, jackknife)
    issue(notes)
    return Bootstrap(
        names=names,
        values=values,
        draws=draws,
        kind=asked.kind,
        weights=asked.weights,
        alpha=asked.alpha,
        seed=asked.seed,
        n_clusters=n_clusters,
        jackknife=jackknife,
        se=se,
        draws_se=draws_se,
        notes=tuple(notes),
    )
