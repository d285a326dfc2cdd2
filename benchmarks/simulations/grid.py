"""The declared grid: every cell is a world, a number of logs drawn from it, and a seed that follows from its name."""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.simulations.questions import WORLDS

# The Monte-Carlo standard error of a coverage of .95 in one cell is .007 with 1,000 logs.
FULL_LOGS = 1000
SHORT_LOGS = 400
# Boards are refitted log by log.
SLOW_LOGS = 100
SLOWEST_LOGS = 50
ODDS_LOGS = 200

CLUSTERS = (5, 8, 10, 20, 50, 200)
SIZES = ("balanced", "unequal", "dominant")
ICC = (0.05, 0.2, 0.4, 0.6)
MEANS = (0.5, 0.7, 0.9, 0.98)
LARGE = ("25", "100", "500")


@dataclass(frozen=True)
class Cell:
    """One world and how often it is drawn.

    Parameters
    ----------
    family : str
        Which estimate: a key of `families.FAMILIES`.
    parameters : tuple of (str, value)
        The world.
    n_logs : int
        Simulated logs.
    """

    family: str
    parameters: tuple[tuple[str, Any], ...]
    n_logs: int

    @property
    def name(self) -> str:
        """Family and parameters, as in "means G=5 sizes=balanced"."""
        return " ".join([self.family, *(f"{key}={_text(value)}" for key, value in self.parameters)])

    @property
    def seed(self) -> int:
        """A number that depends on the name alone, so that cells can be added and left out."""
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big")

    @property
    def key(self) -> str:
        """Name of the cell's file."""
        return f"{self.family}-{hashlib.sha256(f'{self.name} {self.n_logs}'.encode()).hexdigest()[:16]}"

    def __getitem__(self, parameter: str) -> Any:
        return dict(self.parameters)[parameter]


def _text(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


def product(family: str, n_logs: int, **levels: Sequence[Any]) -> list[Cell]:
    """All combinations of levels, as cells."""
    return [
        Cell(family, tuple(zip(levels, values, strict=True)), n_logs) for values in itertools.product(*levels.values())
    ]


def crossed(n_logs: int, *, means: Sequence[float], **levels: Sequence[Any]) -> list[Cell]:
    """Means of prompts crossed with judges: normal scores, and 0/1 scores with the given means."""
    grid = ("complete", "half")
    return [
        *product("crossed", n_logs, scores=("normal",), mean=(0.0,), **levels, grid=grid),
        *product("crossed", n_logs, scores=("binary",), mean=means, **levels, grid=grid),
    ]


def boards(
    n_logs: int,
    schedules: Sequence[str] = ("dense", "medium", "star", "sparse"),
    models: Sequence[int] = (6, 20),
    **levels: Sequence[Any],
) -> list[Cell]:
    """Leaderboards of both estimators, from dense to sparse; see `boards.schedule`."""
    return product(
        "boards", n_logs, estimator=("win_rate", "bradley_terry"), schedule=schedules, models=models, **levels
    )


def ends(n_logs: int) -> list[Cell]:
    """Means near 0 or 1 that are no 0/1 trials: rows that are independent, clusters, and clusters that are hard."""
    levels = {"low_spread": (0.01, 0.05, 0.95), "zero_inflated": (0.1, 0.03), "rare_large": (0.1, 0.03)}
    cells = []
    for scores, level in levels.items():
        world = {"scores": (scores,), "level": level}
        rows = (30, 100, 1000) if scores == "low_spread" else (100, 300, 1000)
        cells += product("ends", n_logs, **world, G=rows, sizes=("single",), icc=(0.1,))
        cells += product("ends", n_logs, **world, G=(10, 20, 50), sizes=("balanced", "unequal"), icc=(0.1, 0.4))
    hard = {"scores": ("binary", "fraction"), "level": (0.9, 0.98)}
    return [
        *cells,
        *product("ends", n_logs, **hard, G=(20, 50), sizes=("1to500",), icc=(0.05, 0.2)),
        *product("ends", n_logs, **hard, G=(3,), sizes=("balanced",), icc=(0.05, 0.2)),
    ]


def familywise() -> list[Cell]:
    """All pairs of models under few judges: no model better, then half of them; means, ratings, sparse boards."""

    def cells(n_logs: int, gaps: Sequence[float] = (0.0,), **levels: Sequence[Any]) -> list[Cell]:
        # Models stand before judges in the name, the world's other levels after them.
        order = ("estimator", "schedule", "models", "prompts", "judges", "taste")
        return product("familywise", n_logs, **{key: levels[key] for key in order}, gap=gaps)

    means = {"estimator": ("mean",), "schedule": ("all",), "prompts": (100,), "judges": (3, 4, 5, 10)}
    some = {"judges": (3, 5), "prompts": (50,), "taste": (0.0, 0.3)}
    result = [
        *cells(100, **means, models=(5,), taste=(0.0, 0.1, 0.3, 1.0)),
        *cells(50, **means, models=(5,), taste=(0.0, 0.1, 0.3), gaps=(0.5,)),
        *cells(50, **means, models=(20,), taste=(0.0, 0.3, 1.0)),
        *cells(25, **means, models=(20,), taste=(0.0, 0.1, 0.3), gaps=(0.5,)),
    ]
    for estimator, schedules in (("bradley_terry", ("dense", "sparse")), ("win_rate", ("sparse",))):
        board = {"estimator": (estimator,), "schedule": schedules, **some}
        result += cells(100, **board, models=(5,))
        result += cells(50, **board | {"taste": (0.0,)}, models=(5,), gaps=(0.5,))
        result += cells(50, **board | {"judges": (3,), "taste": (0.3,)}, models=(20,))
    # So few prompts for so many models that pairs are counted, and so many that judges alone matter.
    result += cells(100, **means | {"judges": (3, 5), "prompts": (20,)}, models=(20,), taste=(0.0, 0.3))
    result += cells(100, **means | {"judges": (3, 5), "prompts": (400,)}, models=(5,), taste=(0.1,))
    return result


def alike() -> list[Cell]:
    """Leaderboards of 5 models whose few judges are taken to differ alike, which they do, or not on the first model."""
    few = {"models": (5,), "prompts": (100,), "judges": (3, 5)}
    plain = {"estimator": ("win_rate",), "schedule": ("graded",)}
    tastes, one = {"taste": (0.1, 0.3), "first": (1,)}, {"taste": (0.3,), "first": (1,), "prompts": (50,)}
    verdicts = {"estimator": ("win_rate", "bradley_terry"), "schedule": ("dense",)}
    return [
        *product("alike", 100, **plain, **few, **tastes, gap=(0.0,)),
        *product("alike", 100, **plain, **few, **tastes, gap=(0.5,)),
        *product("alike", 100, **plain, **few, taste=(0.3,), first=(3,), gap=(0.0,)),
        *product("alike", 100, **verdicts, **few | one, gap=(0.0,)),
    ]


def odds(n_logs: int, **levels: Sequence[Any]) -> list[Cell]:
    """Odds and net benefits of two models, from prompts of four comparisons or prompts crossed with five judges."""
    return product("odds", n_logs, design=("clustered", "crossed"), **levels)


def questions() -> list[Cell]:
    """Worlds that answer one question each."""
    return [Cell("question", (("of", name),), n_logs) for name, (n_logs, *_) in WORLDS.items()]


def full() -> list[Cell]:
    """Return the grid whose tables are published."""
    n = FULL_LOGS
    one_judge = {"judges": (1,), "judge_sd": (0.0,), "together": (False,)}
    together = {"prompts": (50,), "judges": (1,), "judge_sd": (0.0,), "together": (True,)}
    uneven = {"judges": (60,), "prompts": (12,), "judge_share": (0.0, 0.1), "grid": ("unequal",)}
    crossed_boards = {"prompts": (20, 100), "judges": (3, 10), "judge_sd": (0.3, 0.0), "together": (False,)}
    return [
        *product("means", n, scores=("binary", "fraction"), G=CLUSTERS, sizes=SIZES, icc=ICC, mean=MEANS),
        *product("means", n, scores=("normal", "skewed"), G=CLUSTERS, sizes=SIZES, icc=ICC, mean=(0.0,)),
        # Large clusters, near 1: a safety eval of few categories.
        *product(
            "means", 1000, scores=("binary",), G=(10, 20, 40), sizes=LARGE, icc=(0.05, 0.2), mean=(0.7, 0.9, 0.98)
        ),
        *ends(n),
        *product(
            "regressions",
            n,
            target=("treated", "x"),
            scores=("normal", "skewed", "binary"),
            G=(5, 8, 10, 20, 50),
            sizes=SIZES,
            treated=(0.5, 0.2),
            icc=(0.1, 0.4),
        ),
        *product(
            "differences",
            n,
            scores=("binary", "normal"),
            G=(5, 10, 20, 50),
            sizes=SIZES,
            means=((0.7, 0.6), (0.95, 0.9)),
            icc=(0.1, 0.4),
        ),
        *product(
            "differences",
            1000,
            scores=("binary",),
            G=(10, 20),
            sizes=LARGE[:2],
            means=((0.9, 0.9), (0.98, 0.97)),
            icc=(0.1, 0.4),
        ),
        # Few questions differ: a gate between two good models.
        *product(
            "differences",
            n,
            scores=("binary",),
            G=(10, 20, 50),
            sizes=SIZES,
            means=((0.99, 0.99), (0.995, 0.98)),
            icc=(0.1, 0.4),
        ),
        *crossed(n, judges=(3, 5, 10, 20), prompts=(20, 100), judge_share=(0.0, 0.05, 0.3), means=(0.7, 0.9)),
        # Clusters of very unequal size, crossed with a column of noise (share 0) and with one of effects.
        *product("crossed", n, scores=("normal",), mean=(0.0,), **uneven),
        *product("crossed", n, scores=("binary",), mean=(0.7,), **uneven),
        *product("bands", SLOW_LOGS, models=(5, 20), G=(20, 50, 200), spread=(0.0, 0.2), icc=(0.2,)),
        *boards(SLOW_LOGS, ("dense", "medium", "star", "sparse", "neighbours"), prompts=(20, 200), **one_judge),
        *boards(SLOWEST_LOGS, ("dense", "sparse"), **crossed_boards),
        *boards(SLOW_LOGS, models=(6,), **together),
        *boards(SLOWEST_LOGS, models=(20,), **together),
        *familywise(),
        *alike(),
        *odds(ODDS_LOGS, prompts=(50, 200, 1000), rate=(0.5, 0.9, 0.99)),
        *questions(),
    ]


def short() -> list[Cell]:
    """Return a grid of seconds that exercises every family."""
    n = SHORT_LOGS
    return [
        *product("means", n, scores=("binary", "fraction"), G=(10, 50), sizes=SIZES, icc=(0.2,), mean=(0.7, 0.9)),
        *product("means", n, scores=("normal", "skewed"), G=(20,), sizes=SIZES, icc=(0.4,), mean=(0.0,)),
        *product("ends", n, scores=("low_spread",), level=(0.05,), G=(20,), sizes=("single", "balanced"), icc=(0.1,)),
        *product("ends", n, scores=("zero_inflated",), level=(0.1,), G=(100,), sizes=("single",), icc=(0.1,)),
        *product(
            "regressions",
            n,
            target=("treated", "x"),
            scores=("normal", "binary"),
            G=(20,),
            sizes=("balanced", "unequal"),
            treated=(0.5,),
            icc=(0.1,),
        ),
        *product("differences", n, scores=("binary",), G=(20,), sizes=SIZES, means=((0.7, 0.6),), icc=(0.1, 0.4)),
        *crossed(n, judges=(3, 10), prompts=(40,), judge_share=(0.0, 0.05), means=(0.7,)),
        *product("bands", 40, models=(5,), G=(50,), spread=(0.2,), icc=(0.2,)),
        *product(
            "boards",
            40,
            estimator=("win_rate", "bradley_terry"),
            schedule=("dense",),
            models=(6,),
            prompts=(50,),
            judges=(1,),
            judge_sd=(0.0,),
            together=(True,),
        ),
        *product(
            "familywise",
            40,
            estimator=("mean", "bradley_terry"),
            schedule=("dense",),
            models=(5,),
            prompts=(40,),
            judges=(3,),
            taste=(0.1,),
            gap=(0.0, 0.5),
        ),
        *product(
            "alike",
            20,
            estimator=("win_rate",),
            schedule=("graded",),
            models=(5,),
            prompts=(40,),
            judges=(3,),
            taste=(0.3,),
            first=(1,),
            gap=(0.0,),
        ),
        *odds(40, prompts=(50,), rate=(0.9,)),
        Cell("question", (("of", "failed answers"),), 40),
        Cell("question", (("of", "winner, 20 clusters, 5 models, lead 1, correlation 0.7"),), 40),
    ]


GRIDS = {"short": short, "full": full}


def select(cells: Iterable[Cell], pattern: str | None) -> list[Cell]:
    """Cells that have a word for every word of the pattern, in which * stands for anything: "means G=5 mean=0.9*"."""
    asked = (pattern or "").split()
    return [cell for cell in cells if all(fnmatch.filter(cell.name.split(), word) for word in asked)]
