"""How good splits of variance and plans made from them are, in the worlds that the guide names; no timing.

python -m benchmarks.plans NAME --logs 200     one of the tables, with fewer logs than it has
python -m benchmarks.plans                     all of them, half an hour

noise         intervals of the share of noise (docs/guide/planning.md)
components    intervals of variance components (`evalreg.components`)
board         errors planned with the components of a board over those that came out (docs/guide/planning.md)
grids         power of plans of `plan.board` (docs/decisions)
crossed       power of plans made from pilots with few judges (docs/guide/planning.md)
seen          power of plans for the difference that was seen (docs/guide/planning.md)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

import evalreg as er
from benchmarks.intervals import run, shown
from evalreg.covariance.crossed import sums_of
from evalreg.data.answers import NOBODY
from evalreg.data.clusters import Codes
from evalreg.noise.parts import AnswerTable, noise_parts
from evalreg.numerics.student import t_quantile
from evalreg.planning.pilot import Pilot, enough_units
from evalreg.planning.power import fewest
from evalreg.planning.separation import DIMS, CrossedDesign, CrossedPilot, crossed_power, split

# Questions, answers to each (0: 2 to 8), the beta distribution of their rates, questions of a passage and their ICC.
ANSWERED = (
    (30, 2, 1, 1, 1, 0),
    (30, 10, 1, 1, 1, 0),
    (30, 5, 0.3, 0.3, 1, 0),
    (30, 5, 2, 0.3, 1, 0),
    (30, 4, 20, 20, 1, 0),
    (100, 2, 1, 1, 1, 0),
    (100, 10, 0.3, 0.3, 1, 0),
    (100, 5, 3, 0.2, 1, 0),
    (100, 4, 20, 20, 1, 0),
    (100, 0, 1, 1, 1, 0),
    (800, 10, 0.2, 0.4, 1, 0),
    (800, 2, 1, 1, 1, 0),
    (200, 4, 1, 1, 10, 0.4),
    (200, 4, 1, 1, 5, 0.4),
    (800, 4, 1, 1, 8, 0.3),
    (15, 4, 0.3, 2, 1, 0),
    (30, 4, 0.2, 4, 1, 0),
    (100, 4, 0.1, 5, 1, 0),
    (100, 4, 0.2, 3, 10, 0.4),
    (800, 2, 0.05, 2, 1, 0),
)


def noise(n_logs: int) -> None:
    """Intervals of the share of noise, among logs that have one: logs stand in for models of one table."""
    rng = np.random.default_rng(5)
    for n, K, a, b, m, rho in ANSWERED:
        rate, passages = rng.beta(a, b, (n_logs, n)), None
        if rho:
            passages = Codes(np.repeat(np.arange(n // m), m), n // m)
            common = rng.beta(a, b, (n_logs, n // m)).repeat(m, axis=1)
            rate = np.where(rng.random((n_logs, n)) < np.sqrt(rho), common, rate)
        k = np.broadcast_to(rng.integers(2, 9, n), (n_logs, n)) if K == 0 else np.full((n_logs, n), K)
        score = rng.binomial(k, rate) / k
        mean = a / (a + b)
        between = a * b / ((a + b) ** 2 * (a + b + 1))
        own = (mean - between - mean**2) * np.mean(1 / k[0])
        truth = own / (own + between * (1 + (m - 1) * rho))
        table = AnswerTable(score, k, k * score * (1 - score))
        low, high = noise_parts(table, np.arange(n_logs), np.full(n_logs, NOBODY), passages).shares(0.05).T
        known = np.isfinite(low)
        held = (low <= truth)[known] & (truth <= high)[known]
        said = {"truth": truth, "held": held.mean(), "none": np.mean(~known)}
        print(f"{n} questions in passages of {m}, {K or '2 to 8'} answers, score {mean:.2f}:", shown(said), flush=True)


Draw = Callable[[np.random.Generator, int, int, np.ndarray, np.ndarray], np.ndarray]
"""Scores from a generator, numbers of items and judges, and codes of both by row."""


def normal(item_sd: float, judge_sd: float, rest_sd: float, tail: float = np.inf) -> tuple[Draw, np.ndarray]:
    """Scores with normal effects, or t with so many degrees of freedom; and their components."""

    def draw(rng: np.random.Generator, n_items: int, n_judges: int, item: np.ndarray, judge: np.ndarray) -> np.ndarray:
        def effect(size: int) -> np.ndarray:
            if np.isinf(tail):
                return rng.normal(size=size)
            return rng.standard_t(tail, size) / np.sqrt(tail / (tail - 2))

        rest = rest_sd * effect(item.size)
        return item_sd * effect(n_items)[item] + judge_sd * effect(n_judges)[judge] + rest

    return draw, np.array([item_sd, judge_sd, rest_sd]) ** 2


def easy_or_hard() -> tuple[Draw, np.ndarray]:
    """Scores of 0 and 1 of items that are mostly easy or hard."""

    def draw(rng: np.random.Generator, n_items: int, n_judges: int, item: np.ndarray, judge: np.ndarray) -> np.ndarray:
        rate = 0.1 + 0.8 * rng.beta(0.5, 0.5, n_items)[item] + rng.uniform(-0.1, 0.1, n_judges)[judge]
        return (rng.random(item.size) < rate).astype(float)

    items, judges = 0.64 / 8, 0.01 / 3
    return draw, np.array([items, judges, 0.25 - items - judges])


COMPONENTS: dict[str, tuple[tuple[Draw, np.ndarray], tuple[tuple[int, int, float], ...]]] = {
    "normal": (normal(0.3, 0.1, 0.3), ((50, 3, 1.0), (100, 10, 1.0), (200, 10, 1.0), (50, 3, 0.6), (100, 10, 0.6))),
    "normal, many missing": (normal(0.3, 0.1, 0.22), ((100, 6, 0.2),)),
    "normal, judges alike": (normal(0.3, 0.0, 0.2), ((50, 3, 1.0), (100, 10, 1.0), (50, 3, 0.6), (100, 10, 0.6))),
    "0/1": (easy_or_hard(), ((100, 3, 1.0), (200, 10, 1.0), (100, 5, 0.7))),
    "t, 5": (normal(0.3, 0.1, 0.2, 5), ((100, 3, 1.0), (200, 10, 1.0), (100, 5, 0.7))),
    "t, 3": (normal(0.3, 0.1, 0.2, 3), ((100, 3, 1.0), (200, 10, 1.0))),
}


def components(n_logs: int) -> None:
    """Intervals of components of items x judges, with so much of the combinations."""
    for name, ((draw, truth), designs) in COMPONENTS.items():
        for n_items, n_judges, share in designs:
            rng, hits = np.random.default_rng(5), []
            item, judge = np.indices((n_items, n_judges)).reshape(2, -1)
            for seed in range(n_logs):
                kept = rng.random(item.size) < share
                i, j = item[kept], judge[kept]
                log = pd.DataFrame({"item": i, "judge": j, "score": draw(rng, n_items, n_judges, i, j)})
                table = er.components(log, facets="item x judge", seed=seed).table
                hits.append((table["lower"] <= truth) & (truth <= table["upper"]))
            print(f"{name}, {n_items} x {n_judges}, {share:.0%}:", shown(np.mean(hits, axis=0)), flush=True)


def board(n_logs: int) -> None:
    """Boards of 2, 4 and 6 models: the error planned with their components over the spread of differences."""
    for K, P, J, judge_sd, position in ((2, 60, 6, 0.5, 0.0), (4, 40, 6, 0.4, 0.5), (6, 40, 4, 0.6, 0.0)):
        parts, differences = [], []
        for seed in range(n_logs):
            log = er.datasets.judge_log(
                n_models=K, n_prompts=P, n_judges=J, judge_sd=judge_sd, position_effect=position, spread=0.2, seed=seed
            )
            made = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")
            found = made.judges().for_board()
            parts.append((found["model_prompt"], found["model_judge"], found["residual"]))
            differences.append(made.params.iloc[0] - made.params.iloc[-1])
        a, b, c = np.mean(parts, axis=0)
        planned = np.sqrt(2 * (a / P + b / J + c / (P * J)))
        print(f"{K} models:", shown({"planned over found": planned / np.std(differences, ddof=1)}), flush=True)


def crossed_terms(
    rng: np.random.Generator, P: int, J: int, parts: tuple[float, ...], n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means of normal scores on a grid, and the variances by prompt, by judge and by combination, shape (3, n)."""
    sd = np.sqrt(parts)
    score = sd[0] * rng.normal(size=(n, P, 1)) + sd[1] * rng.normal(size=(n, 1, J)) + sd[2] * rng.normal(size=(n, P, J))
    mean = score.mean(axis=(1, 2))
    score -= mean[:, None, None]
    squares = ((score.mean(axis=axis) ** 2).sum(axis=1) / k / (k - 1) for axis, k in ((2, P), (1, J)))
    return mean, np.array([*squares, (score**2).sum(axis=(1, 2)) / (P * J) / (P * J - 1)])


def tested(rng: np.random.Generator, P: int, J: int, parts: tuple[float, ...], delta: float, n: int) -> float:
    """How often the default test under prompt + judge finds a difference of `delta` in n logs of a full grid."""
    mean, V = crossed_terms(rng, P, J, parts, n)
    t = t_quantile(0.05, np.array([P - 1.0, J - 1.0, P * J - 1.0]))
    H = np.sqrt(np.max(sums_of(DIMS, "max") @ (t[:, None] ** 2 * V), axis=0))
    return float(np.mean(np.abs(mean + delta) > H))


def grids(n_logs: int) -> None:
    """Power of the plans of `plan.board` for a difference of .2 where .80 was asked."""
    rng = np.random.default_rng(2)
    for model_judge in (0.0005, 0.001, 0.0015):
        names = ("model_prompt", "model_judge", "residual")
        parts = (0.05, model_judge, 0.1)
        table = er.plan.board(delta=0.2, judges=[3, 5, 10], **dict(zip(names, parts, strict=True)))
        for J, P in table["prompts"].items():
            # A difference has the components of both models.
            power = tested(rng, int(P), int(J), tuple(2 * part for part in parts), 0.2, n_logs)
            print(f"judges' part {model_judge:g}, {J} judges, {P} prompts:", shown({"power": power}), flush=True)


def sure(parts: tuple[float, float, float], design: CrossedDesign, delta: float) -> float:
    """Power where the parts are known: of an endless pilot, with the degrees of freedom of the test."""
    return crossed_power(CrossedPilot(design, parts, parts, (np.inf, np.inf)), design, delta, 0.05)


def crossed(n_logs: int) -> None:
    """Plans for 10 judges and a difference of .2 from 60 prompts; then computed power beside simulated tests."""
    rng, P, delta = np.random.default_rng(7), 60, 0.2
    for judges_part in (0.0, 0.002, 0.01, 0.02):
        for J in (3, 5, 10):
            parts, pilot = (0.05, judges_part, 0.1), CrossedDesign(P, J, P * J)
            reached = []
            for terms in crossed_terms(rng, P, J, parts, n_logs)[1].T:
                made = CrossedPilot(pilot, *split(terms, pilot), (P - 1.0, J - 1.0), "max")

                def chance(n: float, made: CrossedPilot = made) -> float:
                    return crossed_power(made, CrossedDesign(n, 10, 10 * n), delta, 0.05)

                n = 0 if chance(1e12) < 0.8 else fewest(lambda n: chance(n) >= 0.8, 2, 1_000_000)
                reached.append(np.nan if n == 0 else sure(parts, CrossedDesign(n, 10, 10 * n), delta))
            said = {"power": np.nanmean(reached), "none is enough": np.isnan(reached).mean()}
            print(f"judges' part {judges_part:g}, {J} judges:", shown(said), flush=True)
    for J, judges_part in ((3, 0.01), (5, 0.01), (10, 0.05)):
        parts, design = (0.05, judges_part, 0.1), CrossedDesign(P, J, P * J)
        said = {"simulated": tested(rng, P, J, parts, delta, 100 * n_logs), "computed": sure(parts, design, delta)}
        print(f"power of {P} prompts, {J} judges, judges' part {judges_part:g}:", shown(said), flush=True)


def seen(n_logs: int) -> None:
    """Plans for the difference seen in pilots of 60 clusters, by the true one in standard errors: their power."""
    rng, G = np.random.default_rng(3), 60
    for truth in (0.5, 1, 2, 3, 4):
        power = []
        for _ in range(n_logs):
            difference, variance = rng.normal(truth), rng.chisquare(G - 1) / (G - 1)
            pilot = Pilot(variance * G, variance * G, G - 1.0, G - 1.0, G, G)
            units = enough_units(pilot, max(abs(difference), 0.02), None, 0.05, 0.8)[1]
            shift = np.sign(difference) * truth * np.sqrt(units / G)
            power.append(stats.nct.sf(stats.t.ppf(0.975, units - 1), units - 1, shift) if units < 1e5 else shift > 0)
        print(f"{truth:g} standard errors:", shown({"power": np.mean(power)}), flush=True)


TABLES: dict[str, tuple[Callable[[int], None], int]] = {
    "noise": (noise, 2000),
    "components": (components, 200),
    "board": (board, 120),
    "grids": (grids, 4000),
    "crossed": (crossed, 80),
    "seen": (seen, 400),
}

if __name__ == "__main__":
    run(TABLES, __doc__)
