"""Paired differences of scores in [0, 1] when few questions differ: the variance of the differences not seen.

Where a margin of 0.01 is tested on 300 questions of which one differs, the variance of what was seen says next to
nothing. The value that is tested says how many more questions might have differed, and their variance is added.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, held_property
from evalreg.numerics.roots import crossings

# Correlation of differences not seen within a cluster.
ICC = 0.5
# From so many questions that differ on, times their design effect, the variance of what was seen is trusted alone,
# and not before they are so many times the dependence granted to those not seen.
ENOUGH, ENOUGH_CLUSTERED = 100.0, 10.0
# All of it is added up to this share of enough.
FULL = 0.2
# Where nearly all questions differ, none are left to differ; from this share of them down (one in ROOM) less is added.
ROOM = 4.0
# Of questions in clusters without any that differ, from this share of them down (one in SILENT) less is added.
SILENT = 2.0
# From the first number of questions that differ on, what counts is whether all clusters have some; from the second
# on, nothing else does.
CLUSTERS_UNKNOWN, CLUSTERS_KNOWN = 5.0, 15.0
# Questions that differ, over the design effect granted, up to which their size is not known, and from which on it is.
SIZES_UNKNOWN, SIZES_KNOWN = 5.0, 25.0
# A standard error so many times as large is worth a word.
MATTERS = 1.1
# Ends of intervals are as good as this, and found for so many differences at a time.
WIDTH, AT_ONCE = 1e-14, 1 << 12


@dataclass(frozen=True, eq=False)
class Unseen:
    """Mean differences of two models on the same questions, and the variance of what was not seen of them.

    All arrays have shape (m,), one entry a difference. Tango (1998), Statistics in Medicine 17, 891-908: for
    independent questions the variance is that of his score test, in Poisson form.
    """

    # Mean of d.
    theta: FloatArray
    # Variance of theta in use; 0 where there is none.
    variance: FloatArray
    # Means of the size of d and of d^2; for scores of 0 and 1 both are the share of questions that differ.
    size: FloatArray
    square: FloatArray
    # Shares of questions that differ at all, and that differ by 1.
    differ: FloatArray
    whole: FloatArray
    # Shares of questions in clusters none of whose questions differ, and all of whose questions differ by 1; for
    # independent questions 1 - `differ` and `whole`.
    silent: FloatArray
    silent_whole: FloatArray
    n: FloatArray
    # The largest of the variance in use, of that of independent questions, and of that which the intraclass correlation
    # and the sizes of the clusters imply.
    spread: FloatArray
    # Design effect granted to differences not seen.
    dependence: FloatArray
    # Questions that must differ for the variance in use to be trusted alone.
    wanted: FloatArray

    @held_property
    def jump(self) -> FloatArray:
        """How much a difference not seen counts for: as those seen, where these are enough to know their size."""
        known = self.square / np.where(self.size > 0, self.size, 1.0)
        careful = (self.n * self.square + 2) / (self.n * self.size + 2)
        differ = self.n * self.differ / self.dependence
        few = np.clip((SIZES_KNOWN - differ) / (SIZES_KNOWN - SIZES_UNKNOWN), 0.0, 1.0)
        return np.asarray(few * careful + (1 - few) * known)

    @held_property
    def n_differing(self) -> FloatArray:
        """Questions that differ; fewer where some differ by much and many by little."""
        return self.n * self.size**2 / np.where(self.square > 0, self.square, 1.0)

    @held_property
    def share(self) -> FloatArray:
        """1 where few questions differ, 0 where many do or (nearly) all clusters have some: V is then trusted alone."""
        return self._part(self.n_differing, 1 - self.differ, self.silent)

    @held_property
    def share_equal(self) -> FloatArray:
        """The same where few questions do not differ by 1, theta being nearly 1 or -1."""
        return self._part(self.n * (1 - np.abs(self.theta)), self.whole, self.silent_whole)

    def _part(self, count: FloatArray, room: FloatArray, silent: FloatArray) -> FloatArray:
        few = np.clip((1 - count / self.wanted) / (1 - FULL), 0.0, 1.0)
        # Of clusters that all have questions that differ, the variance in use has seen how these go together.
        spread = np.clip((count - CLUSTERS_UNKNOWN) / (CLUSTERS_KNOWN - CLUSTERS_UNKNOWN), 0.0, 1.0)
        spread = spread * (self.variance > 0)
        part = (1 - spread) * np.minimum(ROOM * room, 1.0) + spread * np.minimum(SILENT * silent, 1.0)
        return np.asarray(few * part)

    def grown(self, factor: float) -> Unseen:
        """The same rates on so many times the questions, in so many times the clusters."""
        variance, n, spread = self.variance / factor, self.n * factor, self.spread / factor
        return replace(self, variance=variance, n=n, spread=spread)

    def if_true(self, difference: float | FloatArray, deff: FloatArray) -> Unseen:
        """What a log of these sizes would show were that the true difference, and its rate the likeliest.

        Its variance is `deff` times that of independent questions.
        """
        root = np.sqrt(np.maximum(self.size**2 + 4 * difference * (difference - self.theta), 0.0))
        room = (1 - self.differ) / self.jump
        size = np.minimum(np.maximum((self.size + root) / 2, np.abs(difference)), self.size + np.maximum(room, 0.0))
        square = np.maximum(self.square + self.jump * (size - self.size), difference**2)
        differ = np.clip(self.differ + size - self.size, 0.0, 1.0)
        whole = np.clip(self.whole + (differ - self.differ), 0.0, differ)
        naive = np.maximum(square - difference**2, 0.0) / np.maximum(self.n - 1, 1)
        return replace(
            self,
            theta=np.full_like(self.theta, difference),
            variance=deff * naive,
            size=size,
            square=square,
            differ=differ,
            whole=whole,
            silent=np.minimum(self.silent, 1 - differ),
            silent_whole=np.minimum(self.silent_whole, whole),
            spread=deff * naive,
            wanted=enough(deff, self.dependence),
        )

    def chosen(self, which: IntArray) -> Unseen:
        """Some of the differences."""
        return Unseen(*(getattr(self, one.name)[which] for one in fields(self)))

    @property
    def active(self) -> BoolArray:
        """Whether anything is added to the variance."""
        return np.asarray((self.share > 0) | (self.share_equal > 0))

    @property
    def matters(self) -> BoolArray:
        """Whether what is added is worth a word: it widens the interval of two standard errors by a tenth."""
        ends = self.theta + np.array([[-2.0], [2.0]]) * np.sqrt(self.variance)
        widest = np.max([self.at(end) for end in ends], axis=0)
        return np.asarray((widest > MATTERS**2 * self.variance) | (self.variance == 0))

    def at(self, bound: float | FloatArray) -> FloatArray:
        """The variance if the difference were `bound` in truth, shape (m,)."""
        theta, square, n = self.theta, self.square, self.n
        # The likeliest rate of wins and losses with that difference; only questions that do not differ are left for it.
        root = np.sqrt(np.maximum(self.size**2 + 4 * bound * (bound - theta), 0.0))
        jump, room = self.jump, 1 - self.differ
        rate = np.minimum(jump * (self.size + root) / 2, square + room)
        extra = np.maximum(rate - square - np.maximum(bound**2 - theta**2, 0.0), 0.0)
        more = self.spread - self.variance + self.dependence * (extra + jump**2 * room / (2 * n)) / n
        rest, jump, most = self._near_one
        left = np.minimum(1 - np.where((rest < 0.5) & (theta * bound < 0), 0.0, np.abs(bound)), most)
        least = self.share_equal * self.dependence * (jump * left - left**2) / n
        return np.asarray(np.maximum(self.variance + self.share * more, least))

    @held_property
    def _near_one(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """1 - |theta|, how much a missing difference counts for near a difference of 1, and the most that is added."""
        # Near a difference of 1 the questions without one are few: 1 - d takes the place of d.
        rest = 1 - np.abs(self.theta)
        jump = (self.n * (2 * rest - 1 + self.square) + 2) / (self.n * rest + 2)
        # Of a model that wins most, the variance does not fall again on the way to no difference, and beyond.
        return rest, jump, np.where(rest < 0.5, jump / 2, 2.0)

    def statistic(self, bound: float | FloatArray) -> FloatArray:
        """Distance from `bound` (any number of rows) in standard errors; beyond zero at least as far as zero."""
        t = self._plain(bound)
        beyond = self.theta * bound < 0
        if not np.any(beyond):
            return t
        return np.where(beyond, np.copysign(np.maximum(np.abs(t), self._from_zero), t), t)

    @held_property
    def _from_zero(self) -> FloatArray:
        return np.abs(self._plain(0.0))

    def _plain(self, bound: float | FloatArray) -> FloatArray:
        distance, variance = self.theta - bound, self.at(bound)
        # All questions differ by 1: at that value there is neither a distance nor a variance.
        none = (distance == 0) & (variance == 0)
        return np.asarray(np.where(none, 0.0, distance / np.sqrt(np.where(variance > 0, variance, np.nan))))

    def limits(self, critical: FloatArray) -> FloatArray:
        """Values that are not further from theta than `critical` standard errors, shape (m, 2), in [-1, 1]."""
        # So many at a time as stay in a cache of the processor.
        parts = np.array_split(np.arange(self.theta.size), self.theta.size // AT_ONCE + 1)
        if len(parts) > 1:
            return np.concatenate([self.chosen(part).limits(critical[part]) for part in parts])
        far = np.array([[-1.0], [1.0]])  # both ends at once, a row each
        inside = np.broadcast_to(self.theta, (2, self.theta.size))
        outside = np.broadcast_to(far, inside.shape)
        excess, at_inside = np.abs(self.statistic(outside)) - critical, np.broadcast_to(-critical, inside.shape)
        reached = excess > 0
        # Zero first, so that an interval holds it just where a test of no difference does not reject.
        zero, beyond = self._from_zero - critical, self.theta * far < 0
        out, within = beyond & (zero > 0), beyond & (zero <= 0)
        outside, excess = np.where(out, 0.0, outside), np.where(out, zero, excess)
        inside, at_inside = np.where(within, 0.0, inside), np.where(within, zero, at_inside)
        ends = crossings(
            lambda bound: np.abs(self.statistic(bound)) - critical, inside, outside, at_inside, excess, WIDTH
        )
        return np.where(reached, ends, far).T


def dependence_granted(n: FloatArray, clusters: FloatArray, icc: float = ICC) -> FloatArray:
    """Design effect of differences not seen, 1 + icc (n/G* - 1), with G* Kish's effective number of clusters."""
    return 1 + icc * (np.maximum(n / clusters, 1.0) - 1)


def enough(inflation: FloatArray, dependence: FloatArray) -> FloatArray:
    """Questions that differ from which on nothing is added, for a design effect as seen and as granted."""
    return np.maximum(ENOUGH * np.maximum(inflation, 1.0), ENOUGH_CLUSTERED * dependence)


def enough_at_most(
    n: FloatArray, clusters: FloatArray, variance: FloatArray, naive: FloatArray, dependence: FloatArray
) -> FloatArray:
    """What `enough` cannot exceed, whatever the intraclass correlation of the differences is."""
    inflation = np.where(naive > 0, variance / np.where(naive > 0, naive, 1.0), 1.0)
    return enough(np.maximum(inflation, n / clusters), dependence)


def unseen(
    theta: FloatArray,
    variance: FloatArray,
    size: FloatArray,
    square: FloatArray,
    differ: FloatArray,
    whole: FloatArray,
    silent: FloatArray,
    silent_whole: FloatArray,
    n: FloatArray,
    clusters: FloatArray,
    alike: FloatArray,
    icc: float = ICC,
) -> Unseen:
    """What was not seen of mean differences d of scores in [0, 1]; arguments as the fields of `Unseen`, shape (m,).

    `variance` is NaN or 0 where there is none. `clusters` is Kish's effective number, n without clusters; `alike` the
    variance that the intraclass correlation implies, 0 where it is not known; `icc` the correlation within a cluster of
    differences not seen.
    """
    variance = np.where(variance > 0, variance, 0.0)
    naive = np.maximum(square - theta**2, 0.0) / np.maximum(n - 1, 1)
    spread = np.maximum(np.maximum(variance, naive), alike)
    dependence = dependence_granted(n, clusters, icc)
    inflation = np.where(naive > 0, spread / np.where(naive > 0, naive, 1.0), 1.0)
    wanted = enough(inflation, dependence)
    return Unseen(theta, variance, size, square, differ, whole, silent, silent_whole, n, spread, dependence, wanted)
