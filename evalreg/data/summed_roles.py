"""Which columns a log was summed by, and the columns of its sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

# Columns of sums; labels stand before them. `squares` of scores is about the mean of the line.
ROWS, TOTAL, SQUARES, LOW, HIGH, QUESTIONS = "n_rows", "total", "squares", "low", "high", "questions_hash"
SUMS = (ROWS, TOTAL, SQUARES, LOW, HIGH, QUESTIONS)
# Of comparisons `total` and `squares` are of w v and w v^2, v being the left score less one half and w the weight;
# those of weighted ones also of w^2, w^2 v and w^2 v^2.
WINS, TIES, LOSSES = "wins", "ties", "losses"
WEIGHT, WEIGHT2, TOTAL2, SQUARES2, HEAVIEST = "weight", "weight2", "total2", "squares2", "heaviest"
PAIR_SUMS = (ROWS, TOTAL, SQUARES, LOW, HIGH, WINS, TIES, LOSSES, QUESTIONS)
WEIGHTED_SUMS = (*PAIR_SUMS[:-1], WEIGHT, WEIGHT2, TOTAL2, SQUARES2, HEAVIEST, QUESTIONS)
# Of ratios: sums of w n and w d, and with e = n - R d about the ratio R of the line those of w e^2, w e d, w d^2 and
# w e^2 / d; the lowest and highest n / d and n; rows that are not between 0 and their denominator, with a numerator and
# no denominator, and with neither. Those of weighted ones also of w^2, w^2 d, w^2 e^2, w^2 e d and w^2 d^2.
TOP, BOTTOM, CROSS, BOTTOM2, OWN = "numerator", "denominator", "cross", "denominator2", "own_squares"
LEAST, MOST, OUTSIDE, STRAY, IDLE = "least", "most", "outside", "stray", "idle"
WEIGHT2_BOTTOM, CROSS2, WEIGHT2_BOTTOM2 = "weight2_denominator", "cross2", "weight2_denominator2"
RATIO_SUMS = (ROWS, TOP, BOTTOM, SQUARES, CROSS, BOTTOM2, OWN, LOW, HIGH, LEAST, MOST, OUTSIDE, STRAY, IDLE, QUESTIONS)
WEIGHTED_RATIO_SUMS = (
    *RATIO_SUMS[:-1],
    WEIGHT,
    WEIGHT2,
    WEIGHT2_BOTTOM,
    SQUARES2,
    CROSS2,
    WEIGHT2_BOTTOM2,
    QUESTIONS,
)
# What is no sum of numbers: counts, and the smallest and largest of something.
COUNTS = (ROWS, WINS, TIES, LOSSES, OUTSIDE, STRAY, IDLE)
SMALLEST, LARGEST = (LOW, LEAST), (HIGH, MOST, HEAVIEST)
# What grows with the weights of rows, and what with their squares.
BY_WEIGHT = (TOTAL, SQUARES, WEIGHT, HEAVIEST), (WEIGHT2, TOTAL2, SQUARES2)
RATIOS_BY_WEIGHT = (
    (TOP, BOTTOM, SQUARES, CROSS, BOTTOM2, OWN, WEIGHT),
    (WEIGHT2, WEIGHT2_BOTTOM, SQUARES2, CROSS2, WEIGHT2_BOTTOM2),
)


@dataclass(frozen=True)
class SummedRoles:
    """Which columns a log of scores was summed by."""

    what: ClassVar[str] = "single scores"
    takers: ClassVar[str] = "`mean` and `compare` take it"
    unit: ClassVar[str] = "question"

    score: str
    by: tuple[str, ...]
    item: str | None
    strata: str | None
    groups: tuple[str, ...]

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """Columns of the cells: models, and strata where there are some."""
        return self.by if self.strata is None else (*self.by, self.strata)

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that tell lines apart."""
        return tuple(dict.fromkeys((*self.cell_columns, *self.groups)))

    @property
    def sums(self) -> tuple[str, ...]:
        """Columns of numbers."""
        return SUMS

    @property
    def outcome(self) -> str:
        """The column that was summed."""
        return self.score

    @property
    def hashed(self) -> tuple[str, ...]:
        """Columns whose joint values are hashed, the questions; none without them."""
        return () if self.item is None else (self.item,)


@dataclass(frozen=True)
class SummedPairRoles:
    """Which columns a log of comparisons was summed by."""

    what: ClassVar[str] = "comparisons of two models"
    takers: ClassVar[str] = "`win_rate` and `bradley_terry` take it"
    unit: ClassVar[str] = "comparison"

    left: str
    right: str
    score: str | None
    winner: str | None
    key: tuple[str, ...]
    strata: str | None
    weights: str | None
    groups: tuple[str, ...]

    @property
    def by(self) -> tuple[str, ...]:
        """Columns of single models: none."""
        return ()

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """Columns of the cells: both sides, and strata where there are some."""
        return (self.left, self.right) if self.strata is None else (self.left, self.right, self.strata)

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that tell lines apart."""
        return tuple(dict.fromkeys((*self.cell_columns, *self.groups)))

    @property
    def sums(self) -> tuple[str, ...]:
        """Columns of numbers."""
        return PAIR_SUMS if self.weights is None else WEIGHTED_SUMS

    @property
    def outcome(self) -> str:
        """The column that was summed."""
        return str(self.score or self.winner)

    @property
    def hashed(self) -> tuple[str, ...]:
        """Columns whose joint values are hashed, what identifies a comparison; none without a key."""
        return (self.left, self.right, *self.key) if self.key else ()


@dataclass(frozen=True)
class SummedRatioRoles:
    """Which columns a log of numerators and denominators was summed by."""

    what: ClassVar[str] = "ratios"
    takers: ClassVar[str] = "`ratio` takes it"
    unit: ClassVar[str] = "question"

    numerator: str
    denominator: str
    by: tuple[str, ...]
    item: str | None
    weights: str | None
    groups: tuple[str, ...]

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """Columns of the cells: models."""
        return self.by

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that tell lines apart."""
        return tuple(dict.fromkeys((*self.by, *self.groups)))

    @property
    def sums(self) -> tuple[str, ...]:
        """Columns of numbers."""
        return RATIO_SUMS if self.weights is None else WEIGHTED_RATIO_SUMS

    @property
    def outcome(self) -> str:
        """The columns that were summed."""
        return f"{self.numerator} / {self.denominator}"

    @property
    def hashed(self) -> tuple[str, ...]:
        """Columns whose joint values are hashed, the questions; none without them."""
        return () if self.item is None else (self.item,)


AnyRoles: TypeAlias = SummedRoles | SummedPairRoles | SummedRatioRoles
