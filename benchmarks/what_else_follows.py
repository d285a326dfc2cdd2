"""How often the intervals of `docs/guide/what_else_follows.md` hold the truth: python -m benchmarks.what_else_follows.

A world is a function that draws a log of G clusters of unequal sizes; its truth is known, or that of a log of 400,000
clusters. Printed are coverage of 95% intervals, or the share of false statements of a frontier, by clusters.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaln, expit, ndtr

import evalreg as er

Draw = Callable[[np.random.Generator, int], Any]
MODELS = ("m0", "m1", "m2")


@dataclass(frozen=True)
class World:
    """What is drawn, what is asked of it, the truth of each value, and numbers of clusters."""

    draw: Draw
    ask: Callable[[Any], pd.DataFrame]
    truth: dict[str, float]
    clusters: tuple[int, ...] = (10, 50)


def clusters_of(rng: np.random.Generator, n: int) -> np.ndarray:
    """Cluster of each row: sizes 1 to 9, a few rows in most."""
    return np.repeat(np.arange(n), 1 + rng.poisson(2, n).clip(0, 8))


def runs(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Runs of three models on tasks whose families share what makes them hard, symmetric about 0."""
    family = clusters_of(rng, n)
    length, hard = rng.uniform(-1, 8, family.size), 0.7 * rng.normal(size=n)[family]
    parts = [
        pd.DataFrame(
            {
                "model": model,
                "group": family,
                "minutes": 2**length,
                "success": (rng.uniform(size=family.size) < expit(0.8 * (2 + 1.5 * k - length) + hard)).astype(int),
            }
        )
        for k, model in enumerate(MODELS)
    ]
    return pd.concat(parts, ignore_index=True)


def judged(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Verdicts on answers, a tenth of them bad, and a third as many calibrated ones; errors are alike in clusters."""

    def verdicts(group: np.ndarray, share: float) -> pd.DataFrame:
        effect = rng.normal(size=group.max() + 1)[group]
        truth = ndtr(np.sqrt(0.3) * effect + np.sqrt(0.7) * rng.normal(size=group.size)) < share
        blur = ndtr(np.sqrt(0.2) * rng.normal(size=group.max() + 1)[group] + np.sqrt(0.8) * rng.normal(size=group.size))
        return pd.DataFrame(
            {"group": group, "label": truth * 1.0, "verdict": np.where(truth, blur < 0.85, blur < 0.1) * 1.0}
        )

    log = verdicts(clusters_of(rng, 3 * n), 0.1)
    own = verdicts(clusters_of(rng, n), 0.5)
    return log, own.assign(group=own["group"] + 3 * n)


def verdicts_of_three(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Errors of three judges that correlate by a half, in clusters too."""
    group = clusters_of(rng, n)
    shared = rng.normal(size=n)[group] + rng.normal(size=group.size)
    own = rng.normal(size=(n, 3))[group] + rng.normal(size=(group.size, 3))
    return pd.DataFrame(shared[:, None] + own, columns=["a", "b", "c"]).assign(group=group, label=0.0)


def solved(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """0/1 answers of three models to items whose difficulty is that of their passage and their own."""
    passage = clusters_of(rng, n)
    hard = rng.normal(size=n)[passage] + 0.7 * rng.normal(size=passage.size)
    parts = [
        pd.DataFrame(
            {
                "model": model,
                "group": passage,
                "item": np.arange(passage.size),
                "score": (rng.uniform(size=passage.size) < expit(0.7 * k - hard)) * 1.0,
            }
        )
        for k, model in enumerate(MODELS)
    ]
    return pd.concat(parts, ignore_index=True)


def monitored(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Scores of transcripts, a quarter of them bad, alike within tasks; and chances that are right."""
    task = clusters_of(rng, n)
    bad = ndtr(np.sqrt(0.3) * rng.normal(size=n)[task] + np.sqrt(0.7) * rng.normal(size=task.size)) < 0.25
    score = 1.2 * bad + 0.6 * rng.normal(size=n)[task] + rng.normal(size=task.size)
    chance = rng.uniform(0.1, 0.9, task.size)
    alike = ndtr(0.6 * rng.normal(size=n)[task] + 0.8 * rng.normal(size=task.size))
    return pd.DataFrame(
        {
            "group": task,
            "bad": bad * 1,
            "score": score,
            "chance": chance,
            "sure": (chance + 0.1).clip(0, 1),
            "came": (alike < chance) * 1,
        }
    )


def attempts(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Six answers to each question; questions of a repository share their chance, Beta(1, 1)."""
    group = clusters_of(rng, n)
    chance = rng.beta(1, 1, n)[group]
    question, sample = (part.ravel() for part in np.indices((group.size, 6)))
    score = (rng.uniform(size=question.size) < chance[question]) * 1.0
    return pd.DataFrame({"group": group[question], "item": question, "sample": sample, "score": score})


def equals(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Four equal models: skewed costs, and scores, alike within clusters."""
    group = clusters_of(rng, n)
    hard = rng.normal(size=n)[group]
    parts = [
        pd.DataFrame(
            {
                "model": f"m{k}",
                "item": np.arange(group.size),
                "group": group,
                "score": (hard + 0.5 * rng.normal(size=n)[group] + rng.normal(size=group.size) > 0) * 1.0,
                "usd": np.exp(0.5 * hard + 0.5 * rng.normal(size=n)[group] + 0.7 * rng.normal(size=group.size)),
            }
        )
        for k in range(4)
    ]
    return pd.concat(parts, ignore_index=True)


def templates(n_items: int) -> Draw:
    """Scores of items under n templates, whose means spread by .3."""

    def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
        template, item = (part.ravel() for part in np.indices((n, n_items)))
        effects = 0.3 * rng.normal(size=n)[template] + 0.5 * rng.normal(size=n_items)[item]
        return pd.DataFrame({"template": template, "item": item, "score": effects + rng.normal(size=template.size)})

    return draw


def moment(right: int, wrong: int) -> float:
    """E p^right (1 - p)^wrong of p uniform on (0, 1)."""
    return float(np.exp(betaln(1 + right, 1 + wrong)))


def win_rates(log: pd.DataFrame) -> pd.DataFrame:
    """Intervals of win rates on comparisons made of scores."""
    return er.win_rate(er.wins(log), left="left", right="right", score="score", groups="group").conf_int()


def true_win_rate(k: int) -> float:
    """Mean win rate of a model of `solved`, by integrating over difficulty."""
    hard = np.sqrt(1.49) * np.linspace(-8, 8, 4001)
    weight = np.exp(-0.5 * np.linspace(-8, 8, 4001) ** 2)
    p = [expit(0.7 * j - hard) for j in range(3)]
    rates = [0.5 + (p[k] - p[j]) / 2 for j in range(3) if j != k]
    return float(np.average(np.mean(rates, axis=0), weights=weight))


def false_states(log: pd.DataFrame) -> pd.DataFrame:
    """An interval that holds 0 where nothing false is said."""
    open_ = (er.frontier(log, {"score": "max", "usd": "min"}, groups="group").states == "open").all()
    return pd.DataFrame([[0.0 if open_ else 1.0, 1.0]], index=["none false"])


def classified(metric: str, predicted: str = "score", truth: str = "bad") -> Callable[[pd.DataFrame], pd.DataFrame]:
    """What gives the interval of a metric of scores."""
    return lambda log: er.classification(
        log, truth=truth, predicted=predicted, metric=metric, groups="group"
    ).conf_int()


def not_rejected(log: pd.DataFrame) -> pd.DataFrame:
    """An interval that holds 0 where the joint test does not reject."""
    p = er.classification(log, truth="came", predicted="chance", metric="ece", groups="group").pvalues.iloc[0]
    return pd.DataFrame([[float(p < 0.05), 1.0]], index=["not rejected"])


def of_many(metric: str, predicted: str = "score", truth: str = "bad") -> float:
    """The metric in a log of very many clusters."""
    log = monitored(np.random.default_rng(0), 400_000)
    return float(er.classification(log, truth=truth, predicted=predicted, metric=metric).params.iloc[0])


def worlds() -> dict[str, World]:
    """Every world, by what is asked of it."""
    theta = {f"{model}": 0.7 * (k - 1) for k, model in enumerate(MODELS)}
    curve = {"pass^1": moment(1, 0), "pass^4": moment(4, 0)}
    spread = {"mean": 0.0, "sd": 0.3, "q0.5": 0.0, "q0.9": 0.3 * 1.2816}

    def over(log: pd.DataFrame) -> pd.DataFrame:
        return er.mean(log, over="template", item="item", q=(0.5, 0.9)).conf_int()

    return {
        "horizon": World(
            runs, lambda log: er.horizon(log, groups="group").conf_int(), {"m0": 2.0, "m1": 3.5, "m2": 5.0}
        ),
        "judge_corrected": World(
            judged,
            lambda both: er.judge_corrected(
                both[0], calibration=both[1], judge="verdict", human="label", groups="group"
            ).conf_int(),
            {"mean": 0.1},
            (20, 60),
        ),
        "panel": World(
            verdicts_of_three,
            lambda log: er.panel(log, judges=["a", "b", "c"], human="label", groups="group").conf_int(),
            {"n_eff": 1.5, "correlation": 0.5, "weight:a": 1 / 3, "worth:a": 1 / 9},
        ),
        "ability": World(solved, lambda log: er.ability(log, groups="group").conf_int(), theta),
        "win rates of wins": World(solved, win_rates, {model: true_win_rate(k) for k, model in enumerate(MODELS)}),
        "auc": World(monitored, classified("auc"), {"auc": of_many("auc")}, (20, 60)),
        "tpr@fpr=0.1": World(monitored, classified("tpr@fpr=0.1"), {"tpr@fpr=0.1": of_many("tpr@fpr=0.1")}, (20, 60)),
        "brier": World(monitored, classified("brier", "chance", "came"), {"brier": of_many("brier", "chance", "came")}),
        "ece, calibrated": World(monitored, classified("ece", "chance", "came"), {"ece": 0.0}, (20, 60)),
        "test of calibration": World(monitored, not_rejected, {"not rejected": 0.0}, (20, 60)),
        "ece, .1 too sure": World(
            monitored, classified("ece", "sure", "came"), {"ece": of_many("ece", "sure", "came")}, (20, 60)
        ),
        "pass^k": World(
            attempts,
            lambda log: er.pass_at_k(
                log, item="item", sample="sample", k=[1, 4], require="all", groups="group"
            ).conf_int(),
            curve,
        ),
        "pass^1 - pass^4": World(
            attempts,
            lambda log: (
                er.pass_at_k(log, item="item", sample="sample", k=[1, 4], require="all", groups="group")
                .contrast("`pass^1` - `pass^4`")
                .conf_int()
            ),
            {"`pass^1` - `pass^4`": curve["pass^1"] - curve["pass^4"]},
        ),
        "frontier, nothing false": World(equals, false_states, {"none false": 0.0}),
        "mean over templates, 30 items": World(templates(30), over, spread),
        "mean over templates, 100 items": World(templates(100), over, spread),
    }


def looked_at_daily(rng: np.random.Generator, n_runs: int, skewed: bool) -> float:
    """How often an asymptotic confidence sequence ever misses a mean while clusters come one by one, from 10 to 300.

    mean +- s sqrt(2 (n rho^2 + 1)/(n^2 rho^2) log(sqrt(n rho^2 + 1)/alpha)) over the means of n clusters, with rho the
    best for n = 50: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Annals of Statistics 52, theorem 2.2.
    """
    clusters = rng.lognormal(0, 1.0, (n_runs, 300)) if skewed else rng.normal(size=(n_runs, 300))
    truth, n = np.exp(0.5) if skewed else 0.0, np.arange(1, 301)
    mean = np.cumsum(clusters, axis=1) / n
    s = np.sqrt(np.maximum(np.cumsum(clusters**2, axis=1) / n - mean**2, 0))
    rho2 = (2 * np.log(1 / 0.05) + np.log(1 + 2 * np.log(1 / 0.05))) / 50
    half = s * np.sqrt(2 * (n * rho2 + 1) / (n**2 * rho2) * np.log(np.sqrt(n * rho2 + 1) / 0.05))
    return float((np.abs(mean - truth) > half)[:, 9:].any(axis=1).mean())


def main() -> None:
    """Print a line for each world, number of clusters and value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="logs of each world and number of clusters")
    parser.add_argument("--only", default="", help="worlds whose names hold this text")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, world in worlds().items():
        if given.only not in name:
            continue
        for n in world.clusters:
            rng, held, missing = np.random.default_rng(n), dict.fromkeys(world.truth, 0), 0
            for _ in range(given.runs):
                try:
                    ends = world.ask(world.draw(rng, n))
                except er.errors.DataError:  # a judge that may be no better than chance, a model that solves nothing
                    missing += 1
                    continue
                for value, truth in world.truth.items():
                    held[value] += bool(ends.loc[value, 0] <= truth <= ends.loc[value, 1])
            share = {value: f"{count / (given.runs - missing):.3f}" for value, count in held.items()}
            print(f"{name:32} G={n:<4} {share} refused {missing}", flush=True)
    if given.only in "daily":
        for skewed in (False, True):
            print(
                "daily, skewed" if skewed else "daily, normal",
                looked_at_daily(np.random.default_rng(1), 20_000, skewed),
            )


if __name__ == "__main__":
    main()
