"""The numbers that README and the docs quote from simulations: each sentence, and the lines of the table it is made of.

A claim holds if its sentence, with the numbers of the published table put in, stands on its page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
Frame = pd.DataFrame


@dataclass(frozen=True)
class Claim:
    """A sentence of a page with a place for each number, and the numbers as they are printed."""

    page: str
    sentence: str
    numbers: Callable[[Frame], tuple[object, ...]]


def share(value: float, digits: int = 3) -> str:
    """A share without the zero in front."""
    return f"{value:.{digits}f}".replace("0.", ".", 1)


def two(value: float) -> str:
    """The same with two digits."""
    return share(value, 2)


def bounded(table: Frame, method: str = "default") -> Frame:
    """Means of scores in [0, 1]."""
    some = table["scores"].isin(("binary", "fraction")) & (table["family"] == "means")
    return table[some & (table["method"] == method)]


def grid(table: Frame, family: str, method: str = "default") -> Frame:
    """One method in a family of worlds."""
    return table[(table["family"] == family) & (table["method"] == method)]


def mean_and_worst(table: Frame) -> tuple[str, str]:
    """Mean coverage and that of the worst world."""
    return share(table["coverage"].mean()), share(table["coverage"].min())


def row_of(lines: Frame, *, worlds: bool = True) -> tuple[object, ...]:
    """Number of worlds, mean coverage and worst, for a line of the page's table."""
    return (*((len(lines),) if worlds else ()), *mean_and_worst(lines))


def crossed(table: Frame, method: str = "default", scores: tuple[str, ...] = ("normal", "binary")) -> Frame:
    """Means of prompts crossed with judges, but those of prompts of very different sizes."""
    lines = grid(table, "crossed", method)
    return lines[lines["scores"].isin(scores) & (lines["grid"] != "unequal")]


def boards(table: Frame, method: str = "single intervals", **levels: object) -> Frame:
    """One method on leaderboards."""
    lines = grid(table, "boards", method)
    for name, level in levels.items():
        lines = lines[lines[name] == level]
    return lines


def sparse(table: Frame, name: str) -> Frame:
    """One covariance on sparse boards clustered by prompt."""
    return boards(table, f"single intervals, {name}", estimator="win_rate", schedule="sparse", judges=1)


def given(lines: Frame) -> Frame:
    """Coverage over the intervals that there are: sparse logs of which no ratings exist are refused."""
    return lines.assign(coverage=lines["coverage"] / (1 - lines["missing"]))


def question(table: Frame, world: str, method: str = "default", value: str = "coverage") -> float:
    """A figure of a world that answers one question."""
    (found,) = table.loc[(table["of"] == world) & (table["method"] == method), value]
    return float(found)


def unbounded(table: Frame, method: str) -> Frame:
    """Means of scores without bounds."""
    lines = grid(table, "means", method)
    return lines[lines["scores"].isin(("normal", "skewed"))]


def percent(lines: Frame, others: Frame) -> int:
    """By how much intervals are wider than others of the same worlds, in the mean of logarithms."""
    ratio = lines.set_index("world")["width"] / others.set_index("world")["width"]
    return round(100 * (float(np.exp(np.log(ratio).mean())) - 1))


def wider(table: Frame, world: str) -> float:
    """Width of the default over that of the logit interval."""
    return question(table, world, value="width") / question(table, world, "logit", "width")


def by_shares(table: Frame, shares: str) -> str:
    """The same in worlds of strata with these shares, the least and the most."""
    names = [name for name in worlds(table, "strata of", "default")["of"] if name.endswith(shares)]
    ratios = [wider(table, name) for name in names]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def worlds(table: Frame, words: str, method: str) -> Frame:
    """Lines of the questions whose names begin with these words."""
    return table[table["of"].str.startswith(words, na=False) & (table["method"] == method)]


def found(table: Frame, family: str, **levels: object) -> Frame:
    """Pairs of models under few judges, by Holm."""
    lines = grid(table, family, "Holm")
    for name, level in levels.items():
        lines = lines[lines[name] == level]
    return lines


def rejections(table: Frame, passages: int, size: str, scores: str) -> tuple[str, str]:
    """Rejections of a true joint hypothesis, by HTZ and by CR1."""
    name = f"joint test, {passages} passages of {size}, {scores}"
    return tuple(share(1 - question(table, name, kind)) for kind in ("HTZ", "F(3, G - 1)"))


def of_size(table: Frame, size: str) -> tuple[object, ...]:
    """Worlds of 0/1 scores in clusters of so many rows: below .93 and lowest, by the score interval and the logit."""
    by = {}
    for method in ("default", "CR2 logit"):
        lines = bounded(table, method)
        lines = lines[(lines["scores"] == "binary") & (lines["sizes"] == size) & lines["G"].isin((10, 20, 40, 50))]
        lines = lines[lines["icc"].isin((0.05, 0.2)) & lines["mean"].isin((0.7, 0.9, 0.98))]
        by[method] = lines.set_index("world")
    score, logit = by["default"], by["CR2 logit"]
    ratio = score["width"] / logit["width"].loc[score.index]
    below = [(lines["coverage"] < 0.93).sum() for lines in (score, logit)]
    lowest = [share(lines["coverage"].min()) for lines in (score, logit)]
    return (*below, len(score), *lowest, f"{ratio.median():.2f}", f"{ratio.quantile(0.9):.2f}")


def of_two(table: Frame, world: str) -> tuple[str, ...]:
    """Misses of unpaired differences on the worse side by three rules, and the default's width over that as seen."""
    worse, width = sides(table, world)
    ratio = width["default"] / width["as seen"]
    return (*(share(worse[rule]) for rule in ("as seen", "default", "Newcombe")), f"{ratio:.2f}")


def sides(table: Frame, world: str) -> tuple[pd.Series, pd.Series]:
    """Misses on the worse side, and widths, by method."""
    lines = table[table["of"] == world].set_index("method")
    too_low = 1 - lines["coverage"] - lines["too_high"] - lines["missing"]
    return np.maximum(lines["too_high"], too_low), lines["width"]


def of_combinations(table: Frame, starts: str | tuple[str, ...]) -> tuple[str, ...]:
    """Misses on the worse side in the worst world by t and by default, and the ratios of their widths."""
    names = [name for name in table["of"].dropna().unique() if name.startswith(starts)]
    each = [sides(table, name) for name in names]
    worst = [share(max(worse[rule] for worse, _ in each)) for rule in ("t", "default")]
    ratios = sorted(f"{width['default'] / width['t']:.2f}" for _, width in each)
    return (*worst, " to ".join(dict.fromkeys((ratios[0], ratios[-1]))))


def by_weights(table: Frame, kind: str, size: int) -> tuple[str, ...]:
    """Misses on the worse side by default and on the logit scale by rate, and the least and largest ratio of widths."""
    rates = ("0.8", "0.95", "0.98", "0.995")
    each = [sides(table, f"weighted by {kind}, {rate} in 15 clusters of {size}") for rate in rates]
    ratios = [width["default"] / width["logit"] for _, width in each]
    misses = [f"{share(worse['default'])}, {share(worse['logit'])}" for worse, _ in each]
    return (*misses, f"{min(ratios):.2f} to {max(ratios):.2f}")


def near_one(table: Frame, models: int) -> tuple[str, ...]:
    """Misses on the worse side in the worst world of win rates, by default and on the logit scale; ratios of widths."""
    rates = (0.9, 0.95, 0.99)
    names = [worlds(table, f"win rate {rate:g} of {models} models", "default")["of"] for rate in rates]
    each = [[sides(table, name) for name in of_rate] for of_rate in names]
    worst = [[share(max(worse[m] for worse, _ in of_rate)) for m in ("default", "logit")] for of_rate in each]
    ratios = [width["default"] / width["logit"] for of_rate in each for _, width in of_rate]
    return (*(", ".join(both) for both in worst), f"{min(ratios):.2f} to {max(ratios):.2f}")


def by_judges(table: Frame, method: str) -> tuple[str, ...]:
    """Coverage by number of judges, the worst world, and the width over the default's."""
    lines, default = crossed(table, method).set_index("world"), crossed(table).set_index("world")
    means = [share(lines.loc[lines["judges"] == n, "coverage"].mean()) for n in (3, 5, 10, 20)]
    width = (lines["width"] / default["width"]).mean()
    return (*means, share(lines["coverage"].min()), f"{width:.2f}")


COVERAGE, SCORE, CROSSED = "docs/coverage.md", "docs/decisions/score-interval.md", "docs/decisions/crossed-default.md"
CONVENTIONS, FOLLOWS = "docs/conventions.md", "docs/guide/what_else_follows.md"
HC = ("HC0", "HC1", "HC2", "HC3")
FRACTIONS = "scores=fraction G=10 sizes=balanced icc=0.6 mean=0.98"
UNPAIRED = {
    ".95, .95 | 60 of 10, 10 of 100": "models of 0.95 and 0.95, in 60 clusters of 10 and in 10 of 100",
    ".9, .7 | the same 15 of 10": "models of 0.9 and 0.7, both in the same 15 clusters of 10",
    ".8 agreed on .97 | the same 100 of 2": "models that differ on 0.03 of 100 clusters of 2, icc 0.1",
}
# Rows of a page, and the combinations of means, and averages over evals, that they are of.
COMBINATIONS = {
    "average of two, .95, 15 x 10": "combination, two of .95, 15 x 10",
    ".99 against two of .97, 15 x 10": "combination, one of .99 against two of .97, 15 x 10",
    "six evals of .95, 15 x 10": "averaged, six of .95, 15 x 10",
    "all 28 worlds": ("combination,", "averaged,"),
}
TOO_SURE = {
    "means of 30 clusters of which large ones are hard": "means of 30 clusters, of which large ones are hard",
    "ratios whose numerator is one in ten, 30 clusters of 10": (
        "ratio with a numerator of a tenth ones, 30 clusters of 10"
    ),
    "win rates with ties in .95 of the rows, 12 clusters of 10": "win rate with 95% ties, 12 clusters of 10",
}
SIZES = {"8": "balanced", "100": "100"}
CROSSED_ROWS = {
    "default": "default",
    "with $t(\\min G - 1)$": "max, t(min G-1)",
    "eigenvalues cut": "eigen",
    "CR1, normal (statsmodels)": "statsmodels",
    "prompts alone": "prompts only",
}
ONE_WAY_ROWS = {
    "CR1, normal": "statsmodels",
    "CR1, $t(G-1)$": "CR1 t(G-1)",
    "CR2, Satterthwaite": "CR2 Wald",
    "CR3, Satterthwaite": "CR3 Satt.",
}


def one_way(table: Frame, method: str) -> tuple[str, ...]:
    """Mean (worst) coverage of Wald intervals in four families."""
    unbounded = grid(table, "means", "default" if method == "CR2 Wald" else method)
    unbounded = unbounded[unbounded["scores"].isin(("normal", "skewed"))]
    others = [
        grid(table, "regressions", "default" if method == "CR2 Wald" else method),
        grid(table, "differences", "CR2 Satt." if method == "CR2 Wald" else method),
    ]
    parts = [bounded(table, method), unbounded, *others]
    return tuple("{} ({})".format(*mean_and_worst(lines)) for lines in parts)


def low_and_high(values: pd.Series | list[float], digits: int = 2) -> str:
    """Two numbers, or one where they print alike."""
    ends = dict.fromkeys((share(min(values), digits), share(max(values), digits)))
    return " to ".join(ends)


def follows(table: Frame, what: str, n: int, *values: str) -> str:
    """Coverage in a world of what else follows, over the values named."""
    return low_and_high([question(table, f"{what}, {n} clusters", value) for value in values])


FOLLOWING = {
    "horizon, p = .5": ("horizon", ("m0", "m1", "m2")),
    "corrected for a judge": ("judge_corrected", ("mean",)),
    "pass^1, pass^4": ("pass^k", ("pass^1", "pass^4")),
    "pass^1 - pass^4": ("pass^k", ("gap",)),
    "area under the curve": ("auc", ("auc",)),
    "caught at a false alarm in ten": ("tpr@fpr=0.1", ("tpr@fpr=0.1",)),
    "Brier score": ("brier", ("brier",)),
    "calibration error, none": ("ece, calibrated", ("ece",)),
    "calibration error, .1": ("ece, .1 too sure", ("ece, .1 too sure",)),
    "win rates of wins": ("wins", ("m0", "m1", "m2")),
    "ability": ("ability", ("m0", "m1", "m2")),
    "panel: number, correlation": ("panel", ("n_eff", "correlation")),
    "panel: weights": ("panel", ("weight:a",)),
    "panel: worth": ("panel", ("worth:a",)),
    "templates: mean": ("30 items", ("mean",)),
    "templates: spread": ("30 items", ("sd",)),
    "templates: median": ("30 items", ("q0.5",)),
    "templates: .9 quantile": ("30 items", ("q0.9",)),
}
MORE = ("judge_corrected", "auc", "tpr@fpr=0.1", "ece, calibrated", "ece, .1 too sure")


def following() -> list[Claim]:
    """Lines of the table of what else follows."""
    claims = []
    for label, (what, values) in FOLLOWING.items():
        few, many = (20, 60) if what in MORE else (10, 50)

        def numbers(
            t: Frame, what: str = what, values: tuple[str, ...] = values, few: int = few, many: int = many
        ) -> tuple[str, str]:
            return follows(t, what, few, *values), follows(t, what, many, *values)

        claims.append(Claim(FOLLOWS, f"| {label} | {{}} ({few}) | {{}} ({many}) |", numbers))
    return claims


# What follows under crossed clusterings, by the words of the page.
CROSSED_WORLDS = {
    "horizon, p = .5 and .8": "horizon",
    "corrected for a judge": "judge_corrected",
    "pass^1, pass^4": "pass^k",
    "area under the curve": "auc",
    "caught at a false alarm in ten": "tpr@fpr=0.1",
    "nearly all caught": "tpr near 1",
    "hardly any caught": "tpr near 0",
    "Brier score": "brier",
    "calibration error, none": "ece, calibrated",
    "calibration error, .1": "ece, .1 too sure",
    "win rates of wins": "wins",
    "ability": "ability",
    "panel": "panel",
    "templates and items": "items",
    "templates and passages": "passages",
    "a plain mean": "mean",
}


def worst_crossed(t: Frame, what: str) -> tuple[str, str, int, str]:
    """The lowest coverage, of what and with how many clusters, and how often a gate says what is not so at most."""
    lines = t[t["of"].str.startswith(f"crossed {what}, ", na=False)]
    gate = lines["method"].str.startswith("gate")
    worst = lines.loc[lines.loc[~gate, "coverage"].idxmin()]
    n_clusters = int(worst["of"].rpartition(", ")[2].removesuffix(" clusters"))
    return two(worst["coverage"]), worst["method"], n_clusters, two(1 - lines.loc[gate, "coverage"].min())


def joint_tests() -> list[Claim]:
    """Lines of the table of joint tests."""
    return [
        Claim(
            CONVENTIONS,
            f"| {G} | {size} | {scores} | {{}} | {{}} |",
            lambda t, G=G, size=size, scores=scores: rejections(t, G, size, scores),
        )
        for G in (6, 12, 30)
        for size in ("8", "1 to 40")
        for scores in ("normal", "0/1")
    ]


CLAIMS = (
    *(
        Claim(
            COVERAGE,
            f"| means of {label} | {{}} | {{}} | {{}} |",
            lambda t, kind=kind: row_of(bounded(t)[bounded(t)["scores"] == kind]),
        )
        for label, kind in {"0/1 scores": "binary", "fractions": "fraction"}.items()
    ),
    Claim(COVERAGE, "| means near 0 or 1 that are no 0/1 trials | {} | {} | {} |", lambda t: row_of(grid(t, "ends"))),
    Claim(
        COVERAGE,
        "| scores without bounds | {} | {} | {} |",
        lambda t: row_of(grid(t, "means")[grid(t, "means")["scores"].isin(("normal", "skewed"))]),
    ),
    Claim(
        COVERAGE,
        "| paired differences of 0/1 scores | {} | {} | {} |",
        lambda t: row_of(grid(t, "differences")[grid(t, "differences")["scores"] == "binary"]),
    ),
    Claim(COVERAGE, "| regressions, one clustering | {} | {} | {} |", lambda t: row_of(grid(t, "regressions"))),
    Claim(COVERAGE, "| prompts crossed with judges | {} | {} | {} |", lambda t: row_of(crossed(t))),
    Claim(COVERAGE, "| means over strata | {} | {} | {} |", lambda t: row_of(worlds(t, "strata of", "default"))),
    Claim(
        COVERAGE, "| the same on the logit scale | {} | {} | {} |", lambda t: row_of(worlds(t, "strata of", "logit"))
    ),
    Claim(
        COVERAGE,
        "| weighted means, and ratios of lengths | {} | {} | {} |",
        lambda t: row_of(worlds(t, "weighted by", "default")),
    ),
    Claim(COVERAGE, "| these on the logit scale | {} | {} | {} |", lambda t: row_of(worlds(t, "weighted by", "logit"))),
    Claim(
        COVERAGE, "| win rates, by prompt | {} | {} | {} |", lambda t: row_of(boards(t, estimator="win_rate", judges=1))
    ),
    Claim(COVERAGE, "| win rates near 1 | {} | {} | {} |", lambda t: row_of(worlds(t, "win rate 0", "default"))),
    Claim(
        COVERAGE,
        "| win rates near 1, on the logit scale | {} | {} | {} |",
        lambda t: row_of(worlds(t, "win rate 0", "logit")),
    ),
    Claim(
        COVERAGE,
        "| win rates, prompts crossed with judges | {} | {} | {} |",
        lambda t: row_of(boards(t, estimator="win_rate")[boards(t, estimator="win_rate")["judges"] > 1]),
    ),
    Claim(
        COVERAGE,
        "| ratings, where they are given | {} | {} | {} |",
        lambda t: row_of(given(boards(t, estimator="bradley_terry"))),
    ),
    Claim(
        COVERAGE,
        "| rows taken as independent, both kinds of means | {} | {} | {} |",
        lambda t: row_of(bounded(t, "rows independent")),
    ),
    Claim(
        COVERAGE,
        "| CR1 with $t(G-1)$ (pyfixest, Inspect), both kinds | {} | {} | {} |",
        lambda t: row_of(bounded(t, "pyfixest")),
    ),
    Claim(
        COVERAGE,
        "all joint intervals contain the truth in {} of the logs ({} at worst), all rank sets in {} ({})",
        lambda t: (*mean_and_worst(grid(t, "bands", "bands")), *mean_and_worst(grid(t, "bands", "rank sets"))),
    ),
    Claim(
        COVERAGE,
        "Tests find the difference in {} of the logs of plans that ask for a power of .80",
        lambda t: (low_and_high(1 - worlds(t, "planned", "power")["coverage"]),),
    ),
    Claim(
        COVERAGE,
        "Equal models are separated in {} of the logs on average at 5%, and in {} of the 100 logs of the worst world",
        lambda t: tuple(map(share, found(t, "familywise", gap=0)["false"].agg(["mean", "max"]))),
    ),
    Claim(
        COVERAGE,
        "three judges of one taste {} of differences of half the noise are found among 5 models, {} among 20",
        lambda t: tuple(
            two(found(t, "familywise", estimator="mean", gap=0.5, judges=3, taste=0, models=K)["found"].mean())
            for K in (5, 20)
        ),
    ),
    Claim(
        COVERAGE,
        "**Sparse boards.** The default by prompt covers {} on average and {} at worst",
        lambda t: mean_and_worst(boards(t, estimator="win_rate", schedule="sparse", judges=1)),
    ),
    *(
        Claim(
            SCORE, f"| {rows} | {{}}, {{}} of {{}} | {{}}, {{}} | {{}}, {{}} |", lambda t, size=size: of_size(t, size)
        )
        for rows, size in SIZES.items()
    ),
    Claim(
        SCORE,
        "fractions of .98 in ten clusters with an intraclass correlation of .6: {}, logit {}",
        lambda t: tuple(
            share(bounded(t, method).set_index("world").loc[FRACTIONS, "coverage"])
            for method in ("default", "CR2 logit")
        ),
    ),
    *(
        Claim(
            "docs/decisions/unpaired.md",
            f"| {label} | {{}} | {{}} | {{}} | {{}} |",
            lambda t, world=world: of_two(t, world),
        )
        for label, world in UNPAIRED.items()
    ),
    *(
        Claim(
            "docs/decisions/combinations.md",
            f"| {label} | {{}} | {{}} | {{}} |",
            lambda t, starts=starts: of_combinations(t, starts),
        )
        for label, starts in COMBINATIONS.items()
    ),
    *(
        Claim("docs/coverage.md", f"| {label} | {{}} |", lambda t, world=world: (share(max(sides(t, world)[0])),))
        for label, world in TOO_SURE.items()
    ),
    *(
        Claim(
            "docs/decisions/weights.md",
            f"| {kind}s | 100 | {{}} | {{}} | {{}} | {{}} | {{}} |",
            lambda t, kind=kind: by_weights(t, kind, 100),
        )
        for kind in ("row", "cluster", "length")
    ),
    Claim(
        "docs/decisions/strata.md",
        "the lowest coverage is {}, of the logit interval {}",
        lambda t: tuple(share(worlds(t, "strata of", m)["coverage"].min()) for m in ("default", "logit")),
    ),
    *(
        Claim(CROSSED, f"| {label} | {{}} | {{}} | {{}} | {{}} | {{}} | {{}} |", lambda t, m=m: by_judges(t, m))
        for label, m in CROSSED_ROWS.items()
    ),
    *(
        Claim(
            "docs/decisions/one-way-default.md",
            f"| {label} | {{}} | {{}} | {{}} | {{}} |",
            lambda t, m=m: one_way(t, m),
        )
        for label, m in ONE_WAY_ROWS.items()
    ),
    Claim(
        "docs/decisions/boards.md",
        "No world of win rates clustered by prompt covers below {}.",
        lambda t: (share(boards(t, estimator="win_rate", judges=1)["coverage"].min()),),
    ),
    *(
        Claim("docs/decisions/boards.md", f"| {n} | {{}} | {{}} | {{}} | {{}} |", lambda t, n=n: near_one(t, n))
        for n in (2, 5)
    ),
    Claim(
        "docs/decisions/boards.md",
        "In sparse boards CR1 covers {} at worst and plain CR2 {}; the jackknife covers {}, and {} where each pair met "
        "once",
        lambda t: (
            *(two(sparse(t, name)["coverage"].min()) for name in ("CR1 t(G-1)", "CR2", "jackknife")),
            low_and_high(t.loc[t["of"].str.contains("that met once", na=False), "coverage"]),
        ),
    ),
    Claim(
        "docs/decisions/boards.md",
        'By `cov="jackknife"` intervals of ratings cover {} on average ({} at worst) where there are ratings',
        lambda t: mean_and_worst(given(boards(t, "single intervals, jackknife", estimator="bradley_terry"))),
    ),
    Claim(
        CROSSED,
        "crossed with sixty others, are covered in {} on average ({} at worst)",
        lambda t: mean_and_worst(grid(t, "crossed")[grid(t, "crossed")["grid"] == "unequal"]),
    ),
    Claim(CROSSED, '"two-term" ({}% wider)', lambda t: (percent(crossed(t, "two-term"), crossed(t)),)),
    Claim(
        "docs/decisions/one-way-default.md",
        "CR3: safer, {}% wider for means without bounds and {}% for regressions",
        lambda t: tuple(
            percent(lines("CR3 Satt."), lines("default"))
            for lines in (lambda name: unbounded(t, name), lambda name: grid(t, "regressions", name))
        ),
    ),
    Claim(
        "docs/decisions/one-way-default.md",
        "a dummy that is 1 in 2 of 30 clusters is covered in {} of the logs, by default in {}",
        lambda t: tuple(two(question(t, "dummy of 2 in 30 clusters", cov)) for cov in ("CR1", "CR2")),
    ),
    Claim(
        SCORE,
        "20 x 50 independent rows of .95, .98 and .995 are {}, {} and {} times as wide",
        lambda t: tuple(
            f"{wider(t, f'independent rows of {rate:g} in 20 clusters of 50'):.1f}" for rate in (0.95, 0.98, 0.995)
        ),
    ),
    Claim(
        "docs/decisions/strata.md",
        "Widths are {} times those of logit where shares are as the rows, and {} times where strata count alike",
        lambda t: tuple(by_shares(t, shares) for shares in ("micro", "macro")),
    ),
    Claim(
        "docs/decisions/confidence-sequences.md",
        "misses at 95% in {} of 400 logs, with clusters of unequal sizes in {}. Lognormal costs (sigma 1): {}",
        lambda t: tuple(
            share(1 - question(t, f"confidence sequence, {kind}")) for kind in ("equal", "unequal", "lognormal")
        ),
    ),
    Claim(
        "docs/decisions/joint-statements.md",
        "It finds {} of the differences of half the noise among 5 models with three judges, and the default {}",
        lambda t: tuple(
            two(lines[(lines["gap"] == 0.5) & (lines["judges"] == 3) & (lines["schedule"] == "graded")]["found"].mean())
            for lines in (grid(t, "alike", "Holm"), grid(t, "alike", "Holm, judges by themselves"))
        ),
    ),
    Claim(
        "docs/decisions/joint-statements.md",
        "in two or three clusters some rank is settled in {} of 400 logs",
        lambda t: (round(400 * (1 - t[t["of"].str.startswith("ranks of", na=False)]["coverage"].min())),),
    ),
    Claim(
        "docs/decisions/joint-statements.md",
        "something false is said in {} of the logs of equal models",
        lambda t: (two(found(t, "alike", first=3)["false"].mean()),),
    ),
    Claim(
        "docs/decisions/rectified.md",
        "coverage of 95% intervals with 20, 10 and 6 labelled clusters: {}, {}, {}",
        lambda t: tuple(share(question(t, f"{n} labelled clusters")) for n in (20, 10, 6)),
    ),
    Claim(
        "docs/guide/metrics.md",
        "with 6 labelled clusters 95% intervals covered {} in a simulation, with 20 of them {}",
        lambda t: tuple(share(question(t, f"{n} labelled clusters")) for n in (6, 20)),
    ),
    Claim(
        "docs/decisions/quantiles.md",
        "The median in 60 clusters is covered in {} of the logs, differences of two medians in {}; quantiles from .25 "
        "to .9 in {} on average ({} at worst)",
        lambda t: (
            share(question(t, "medians of 60 clusters", "median")),
            share(question(t, "medians of 60 clusters", "difference")),
            *mean_and_worst(worlds(t, "quantile", "default")),
        ),
    ),
    Claim(
        "docs/decisions/strata.md",
        "15 strata of two clusters: coverage {}",
        lambda t: (share(question(t, "15 strata of two clusters")),),
    ),
    Claim(
        "docs/decisions/unequal-questions.md",
        "shared questions contained zero in {} of 500 logs, with those answers scored 0 in {}",
        lambda t: tuple(two(question(t, "failed answers", name)) for name in ("left out", "scored 0")),
    ),
    Claim(
        "docs/guide/comparing.md",
        "contained zero in {} of 500 simulated logs, and in {} with those answers scored 0",
        lambda t: tuple(two(question(t, "failed answers", name)) for name in ("left out", "scored 0")),
    ),
    Claim(
        "docs/guide/leaderboards.md",
        "contained its true value in {} on average ({} at worst), the corrected in {} ({})",
        lambda t: (*mean_and_worst(worlds(t, "winner", "usual")), *mean_and_worst(worlds(t, "winner", "corrected"))),
    ),
    Claim(
        "docs/guide/several_evals.md",
        "contained that mean in {} of simulated suites whose true scores differ by .1",
        lambda t: (low_and_high(worlds(t, "suite of", "fixed")["coverage"]),),
    ),
    Claim(
        "docs/guide/several_evals.md",
        "with six evals of true scores near .9 their 95% intervals contained the truth in {} of the suites, those of "
        "equal weights in {}",
        lambda t: tuple(two(question(t, "six tasks near .9", name)) for name in ("precision", "drawn")),
    ),
    Claim(
        "docs/guide/leaderboards.md",
        "Over 100 such logs of 200 prompts, naive 95% intervals contained the truth in {}; by prompt in {}",
        lambda t: tuple(
            share(lines[lines["method"].str.startswith(name)]["coverage"].mean())
            for lines in (t[t["of"] == "published design, 200 prompts"],)
            for name in ("rows", "prompt")
        ),
    ),
    Claim(
        "docs/guide/resampling.md",
        "where treated scores scatter three times as far, ten clusters reject in {}",
        lambda t: (two(1 - question(t, "10 clusters by lot, scatter 3", "randomisation")),),
    ),
    Claim(
        "docs/guide/resampling.md",
        "lognormal costs (sigma 1) were missed by {} of the sequences",
        lambda t: (two(1 - question(t, "confidence sequence, lognormal")),),
    ),
    Claim(
        "docs/guide/clusters.md",
        "intervals by prompt covered {} on average in simulations and {} at worst",
        lambda t: tuple(map(two, crossed(t, "prompts only")["coverage"].agg(["mean", "min"]))),
    ),
    Claim(
        "docs/guide/quickstart.md",
        "Over {} simulated worlds intervals for independent rows contained the truth in {} of the logs",
        lambda t: row_of(bounded(t, "rows independent"))[:2],
    ),
    Claim(
        "docs/alternatives.md",
        "over {} simulated worlds it covered {} on average",
        lambda t: row_of(bounded(t, "pyfixest"))[:2],
    ),
    *(
        Claim(
            CONVENTIONS,
            f"| {n} | {{}} | {{}} | {{}} | {{}} |",
            lambda t, n=n: tuple(two(question(t, f"skewed covariate, {n} rows", kind)) for kind in HC),
        )
        for n in (15, 30, 100)
    ),
    Claim(
        CONVENTIONS,
        "normal cluster means contain the truth in {} of the logs ({} with 10 clusters for each of 5 models). CR2, the "
        "default, counts the clusters of each parameter: {}",
        lambda t: (
            share(question(t, "10 models of 5 clusters each", "CR1")),
            share(question(t, "5 models of 10 clusters each", "CR1")),
            two(question(t, "10 models of 5 clusters each", "CR2")),
        ),
    ),
    *joint_tests(),
    *following(),
    *(
        Claim(FOLLOWS, f"| {label} | {{}} ({{}}, {{}}) | {{}} |", lambda t, what=what: worst_crossed(t, what))
        for label, what in CROSSED_WORLDS.items()
    ),
    Claim(
        FOLLOWS,
        "of equal models, or of two that are only cheaper, `frontier` says something false in at most {} of the logs",
        lambda t: (two(1 - t[t["of"].str.startswith("crossed frontier", na=False)]["coverage"].min()),),
    ),
    Claim(
        FOLLOWS,
        "| its test rejects calibrated chances | {} (20) | {} (60) |",
        lambda t: tuple(two(1 - question(t, f"ece, calibrated, {n} clusters", "test")) for n in (20, 60)),
    ),
    Claim(
        FOLLOWS,
        "| frontier: something false is said | {} (10) | {} (50) |",
        lambda t: tuple(two(1 - question(t, f"frontier, {n} clusters", "none false")) for n in (10, 50)),
    ),
    Claim(
        FOLLOWS,
        "its bound misses a normal mean in {} of 20,000 simulated logs at a level of .05, but a skewed one (log-normal "
        "clusters) in {}",
        lambda t: tuple(
            share(1 - question(t, f"looked at daily, {kind}", "asymptotic")) for kind in ("normal", "skewed")
        ),
    ),
)


def failing(table: Frame) -> list[str]:
    """Sentences that do not stand on their pages, with the numbers that they should have."""
    lines = []
    for claim in CLAIMS:
        page = " ".join((ROOT / claim.page).read_text().split())
        try:
            sentence = claim.sentence.format(*claim.numbers(table))
        except (KeyError, ValueError) as error:
            sentence = f"{claim.sentence} (no such worlds in the table: {error})"
        if sentence not in page:
            lines.append(f"{claim.page}: {sentence}")
    return lines


def check(table: Frame) -> int:
    """Print what fails; the exit status."""
    lines = failing(table)
    print(*lines, f"{len(CLAIMS) - len(lines)} of {len(CLAIMS)} claims hold", sep="\n")
    return int(bool(lines))
