"""Worlds that answer one question each: a log is drawn, the public functions are asked, and the truth is known.

A share of rejections is that of logs whose "interval" does not hold 0, with `rejects`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import betaincinv, betaln, expit, ndtr

import evalreg as er
from benchmarks.simulations.worlds import FloatArray, IntArray

Rng: TypeAlias = np.random.Generator
Ends: TypeAlias = Mapping[str, tuple[float, float]]
"""Interval by what it is about."""


@dataclass(frozen=True)
class Question:
    """What is drawn and asked, and the truth of each interval."""

    ask: Callable[[Rng], Ends]
    truth: Mapping[str, float]


def ends(results: er.Results, **options: object) -> dict[str, tuple[float, float]]:
    """Intervals by parameter."""
    return {str(name): (low, high) for name, low, high in results.conf_int(**options).itertuples()}


def last(results: er.Results, **options: object) -> tuple[float, float]:
    """The interval of the last parameter."""
    return list(ends(results, **options).values())[-1]


def rejects(p: float) -> tuple[float, float]:
    """An interval that holds 0 where a test at 5% does not reject."""
    return (float(p < 0.05), 1.0)


# Independent rows, and many small clusters


def rows(n: int) -> Question:
    """A slope on a skewed covariate with which the error grows."""
    kinds = ("HC0", "HC1", "HC2", "HC3")

    def ask(rng: Rng) -> Ends:
        x = rng.exponential(size=n)
        fitted = er.fit("score ~ x", pd.DataFrame({"x": x, "score": rng.normal(size=n) * (0.2 + x)}))
        return {kind: last(fitted.with_cov(cov=kind)) for kind in kinds}

    return Question(ask, dict.fromkeys(kinds, 0.0))


def own_clusters(n_models: int, n_clusters: int) -> Question:
    """Models that have clusters of their own, each cluster a normal mean."""

    def ask(rng: Rng) -> Ends:
        model = np.repeat(np.arange(n_models), n_clusters)
        log = pd.DataFrame({"model": model, "cluster": np.arange(model.size), "score": rng.normal(size=model.size)})
        means = er.mean(log, by="model", groups="cluster")
        return {"CR2": last(means), "CR1": last(means.with_cov(cov="CR1"))}

    return Question(ask, {"CR2": 0.0, "CR1": 0.0})


def equal_models(n_models: int, n_clusters: int) -> Question:
    """Equal models near 1 in a few clusters of 20 rows, whose means happen to agree: no rank is settled."""

    def ask(rng: Rng) -> Ends:
        model, cluster, _ = np.indices((n_models, n_clusters, 20)).reshape(3, -1)
        score = rng.random(model.size) < rng.beta(8.1, 0.9, n_models * n_clusters).repeat(20)
        ranks = er.mean({"score": score, "model": model, "cluster": cluster}, by="model", groups="cluster").ranks()
        return {"none false": (float(ranks["lower"].max() > 1), 1.0)}

    return Question(ask, {"none false": 0.0})


def few_treated(treated: int) -> Question:
    """A dummy that is 1 in so many of 30 clusters of 8 rows, each cluster with a mean of its own."""
    cluster = np.repeat(np.arange(30), 8)
    log = pd.DataFrame({"cluster": cluster, "treated": (cluster < treated).astype(float)})
    kinds = ("CR2", "CR1", "CR3")

    def ask(rng: Rng) -> Ends:
        score = rng.normal(size=30)[cluster] + rng.normal(size=cluster.size)
        fitted = er.fit("score ~ treated", log.assign(score=score), groups="cluster")
        return {kind: last(fitted.with_cov(cov=kind)) for kind in kinds}

    return Question(ask, dict.fromkeys(kinds, 0.0))


def joint(G: int, unequal: bool, binary: bool) -> Question:
    """Four models that are equally good on passages that differ, each in its own way for each model."""
    hypotheses = np.hstack([np.eye(3), -np.ones((3, 1))])
    sizes = np.geomspace(1, 40, G).round().astype(int) if unequal else np.full(G, 8)
    passage = np.arange(G).repeat(sizes)
    log = pd.DataFrame({"question": np.tile(np.arange(passage.size), 4), "passage": np.tile(passage, 4)})
    log["model"] = np.repeat(list("abcd"), passage.size)

    def ask(rng: Rng) -> Ends:
        ease = rng.normal(size=G)[passage] + 0.6 * rng.normal(size=(4, G))[:, passage]
        score = ease + rng.normal(size=ease.shape)
        scores = ((score < 0.7).astype(float) if binary else score).ravel()
        means = er.mean(log.assign(score=scores), by="model", item="question", groups="passage")
        tests = {"HTZ": means, "F(3, G - 1)": means.with_cov(cov="CR1")}
        return {name: rejects(float(one.wald_test(hypotheses).pvalue)) for name, one in tests.items()}

    return Question(ask, {"HTZ": 0.0, "F(3, G - 1)": 0.0})


def strata(sizes: tuple[int, ...], rates: tuple[float, ...], icc: float, shares: str, cluster: int = 5) -> Question:
    """0/1 scores of strata, in clusters of some rows where the intraclass correlation is not 0."""
    stratum = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([np.arange(size) // cluster for size in sizes])
    codes = np.unique(np.column_stack([stratum, place]), axis=0, return_inverse=True)[1].ravel()
    of_cluster = np.array(rates)[stratum[np.unique(codes, return_index=True)[1]]]
    weights = np.full(len(sizes), 1 / len(sizes)) if shares == "macro" else np.array(sizes) / sum(sizes)

    def ask(rng: Rng) -> Ends:
        k = 1 / icc - 1 if icc else np.inf
        p = rng.beta(of_cluster * k, (1 - of_cluster) * k)[codes] if icc else np.array(rates)[stratum]
        score = (rng.random(codes.size) < p).astype(float)
        log = pd.DataFrame({"item": np.arange(codes.size), "subject": stratum, "passage": codes, "score": score})
        groups = "passage" if icc else None
        mean = er.mean(log, item="item", groups=groups, strata="subject", strata_weights=shares)
        return {"default": last(mean), "logit": last(mean, method="logit")}

    truth = float(weights @ rates)
    return Question(ask, {"default": truth, "logit": truth})


def independent(G: int, size: int, rate: float) -> Question:
    """Independent 0/1 scores in clusters that mean nothing: what is granted to dependence that is not there."""
    codes = np.repeat(np.arange(G), size)

    def ask(rng: Rng) -> Ends:
        mean = er.mean(
            pd.DataFrame({"passage": codes, "score": (rng.random(codes.size) < rate) * 1.0}), groups="passage"
        )
        return {"default": last(mean), "logit": last(mean, method="logit")}

    return Question(ask, {"default": rate, "logit": rate})


# Differences of two models


def failed() -> Question:
    """Two models of one true rate on 200 questions, of which one loses three in ten of its wrong answers."""

    def ask(rng: Rng) -> Ends:
        score = (rng.random((2, 200)) < 0.6) * 1.0
        lost = np.concatenate([np.zeros(200, dtype=bool), (score[1] == 0) & (rng.random(200) < 0.3)])
        model, question = np.indices(score.shape).reshape(2, -1)
        log = pd.DataFrame({"model": model, "question": question, "score": score.ravel()})
        logs = {"left out": log[~lost], "scored 0": log}
        return {name: last(er.compare(part, item="question").results) for name, part in logs.items()}

    return Question(ask, {"left out": 0.0, "scored 0": 0.0})


def one_sided(shared: int, alone: int, rate: float) -> Question:
    """Equal models of which each answered questions that the other did not."""
    n = shared + 2 * alone

    def ask(rng: Rng) -> Ends:
        hard = rng.normal(size=n)
        score = (np.sqrt(0.5) * (hard + rng.normal(size=(2, n))) < stats.norm.ppf(rate)) * 1.0
        model, question = np.indices(score.shape).reshape(2, -1)
        log = pd.DataFrame({"model": model, "question": question, "score": score.ravel()})
        first, second = question < shared + alone, (question < shared) | (question >= shared + alone)
        log = log[np.where(model == 0, first, second)]
        pairs = {"paired": True, "unpaired": False}
        return {name: last(er.compare(log, item="question", paired=paired).results) for name, paired in pairs.items()}

    return Question(ask, {"paired": 0.0, "unpaired": 0.0})


def unpaired(
    rates: tuple[float, float], first: tuple[int, int], second: tuple[int, int], icc: float, same: bool = False
) -> Question:
    """Two models in so many clusters of a size: by default, as seen, and from both intervals (Newcombe 1998).

    In the `same` clusters what is easy for one model is for the other.
    """
    G, sizes = np.array([first, second]).T
    place, model = np.repeat(np.arange(G.sum()), np.repeat(sizes, G)), np.repeat(["a", "b"], G * sizes)
    cluster = place % G[0] if same else place
    precision, centre = 1 / icc - 1, np.repeat(rates, G)
    more, less = centre * precision, np.maximum((1 - centre) * precision, np.finfo(float).tiny)

    def ask(rng: Rng) -> Ends:
        ease = betaincinv(more, less, np.tile(rng.random(G[0]), 2)) if same else rng.beta(more, less)
        score = (rng.random(place.size) < ease[place]) * 1.0
        return of_two_means(pd.DataFrame({"model": model, "cluster": cluster, "score": score}))

    return Question(ask, dict.fromkeys(("default", "as seen", "Newcombe"), rates[0] - rates[1]))


def of_two_means(log: pd.DataFrame) -> Ends:
    """Of the difference of two means: by default, as seen, and from both intervals."""
    means, seen = (er.mean(log, by="model", groups="cluster", icc=granted) for granted in (0.2, None))
    (a, b), (low, high) = means.params, means.conf_int().to_numpy().T
    below, above = np.hypot(a - low[0], high[1] - b), np.hypot(high[0] - a, b - low[1])
    default, as_seen = (last(results.contrast("a - b")) for results in (means, seen))
    return {"default": default, "as seen": as_seen, "Newcombe": (a - b - below, a - b + above)}


def agreeing(G: int, size: int, differ: float, icc: float, gains: float) -> Question:
    """Two models that answer alike but for a share, of which the first gains some; nothing tells the questions."""
    cluster, precision = np.repeat(np.arange(G), size), 1 / icc - 1

    def ask(rng: Rng) -> Ends:
        share = rng.beta(differ * precision, (1 - differ) * precision, G)[cluster]
        ease = rng.beta(0.8 * 4, 0.2 * 4, G)[cluster]
        alike, gain, both = (
            rng.random(cluster.size) >= share,
            rng.random(cluster.size) < gains,
            rng.random(cluster.size),
        )
        first, second = (np.where(alike, both < ease, won) for won in (gain, ~gain))
        parts = [
            pd.DataFrame({"model": m, "cluster": cluster, "score": 1.0 * y}) for m, y in (("a", first), ("b", second))
        ]
        return of_two_means(pd.concat(parts))

    return Question(ask, dict.fromkeys(("default", "as seen", "Newcombe"), differ * (2 * gains - 1)))


def combined(
    rates: tuple[float, ...], G: int, size: int, icc: float, weights: tuple[float, ...], shared: bool = True
) -> Question:
    """A combination of means of models over the same questions, which are easy or hard for all, or over others."""
    log, names = eval_of(rates, G, size, icc, shared), dict(zip("abcde", weights, strict=False))

    def ask(rng: Rng) -> Ends:
        of = er.mean(log(rng), by="model", item="item", groups="cluster").contrast(names)
        return {"default": last(of), "t": last(of, method="wald")}

    return Question(ask, dict.fromkeys(("default", "t"), float(np.dot(rates, weights))))


def eval_of(
    rates: tuple[float, ...], G: int, size: int, icc: float, shared: bool = True
) -> Callable[[Rng], pd.DataFrame]:
    """Draws of an eval of models a, b, ..., each of a rate."""
    cluster, n = np.repeat(np.arange(G), size), len(rates)
    precision, model = 1 / max(icc, 1e-9) - 1, np.repeat(list("abcde")[:n], G * size)
    of_model = np.zeros(model.size, dtype=int) if shared else np.repeat(np.arange(n), G * size) * G
    item = np.tile(np.arange(G * size), n) + of_model * size

    def draw(rng: Rng) -> pd.DataFrame:
        chance = np.tile(rng.random(G), (n, 1)) if shared else rng.random((n, G))
        ease = [
            betaincinv(p * precision, (1 - p) * precision, u) if icc else u * 0 + p
            for p, u in zip(rates, chance, strict=True)
        ]
        right = rng.random((n, G * size)) < np.array(ease)[:, cluster]
        score = right.ravel().astype(float)
        return pd.DataFrame({"model": model, "item": item, "cluster": np.tile(cluster, n) + of_model, "score": score})

    return draw


def averaged(evals: tuple[tuple[float, int, int, float], ...]) -> Question:
    """The average of a model over evals of a rate, so many clusters of a size, and an intraclass correlation."""
    logs = [eval_of((rate, max(rate - 0.1, 0.1)), *of) for rate, *of in evals]

    def ask(rng: Rng) -> Ends:
        means = {
            f"eval {k}": er.mean(log(rng), by="model", item="item", groups="cluster") for k, log in enumerate(logs)
        }
        line = er.join_evals(means).average().table.loc["a"]
        half = stats.t.isf(0.025, line["dof"]) * line["se"]
        default = (float(line["lower"]), float(line["upper"]))
        return {"default": default, "t": (line["estimate"] - half, line["estimate"] + half)}

    return Question(ask, dict.fromkeys(("default", "t"), float(np.mean([rate for rate, *_ in evals]))))


def too_sure(kind: str) -> Question:
    """Worlds in which a default is known to be too sure."""
    cluster = np.repeat(np.arange(30), 10)

    def hard(rng: Rng) -> Ends:
        ease = rng.normal(size=30)
        g = np.repeat(np.arange(30), np.maximum(rng.poisson(np.exp(1.5 - 0.8 * ease)), 1))
        score = (rng.random(g.size) < expit(2.5 + 1.2 * ease[g])) * 1.0
        return {"default": last(er.mean(pd.DataFrame({"g": g, "score": score}), groups="g"))}

    def rare(rng: Rng) -> Ends:
        score = (rng.random(300) < rng.beta(0.4, 3.6, 30)[cluster]) * 1.0
        log = pd.DataFrame({"g": cluster, "score": score, "cost": np.exp(0.8 * rng.normal(size=300) - 0.32)})
        return {"default": last(er.ratio(log, "score", "cost", groups="g"))}

    def ties(rng: Rng) -> Ends:
        win = rng.dirichlet(np.array([0.005, 0.95, 0.045]) * 7 / 3, 12).cumsum(axis=1)[np.repeat(np.arange(12), 10)]
        score = 1 - (win < rng.random(120)[:, None]).sum(axis=1) / 2
        log = pd.DataFrame({"left": "a", "right": "b", "score": score, "g": np.repeat(np.arange(12), 10)})
        board = er.win_rate(log, left="left", right="right", score="score", groups="g")
        return {"default": ends(board)["a"]}

    ease, weight = (part for part in np.polynomial.hermite_e.hermegauss(80))
    mean_size = np.exp(1.5 - 0.8 * ease) + np.exp(-np.exp(1.5 - 0.8 * ease))
    of_rows = float(np.sum(weight * mean_size * expit(2.5 + 1.2 * ease)) / np.sum(weight * mean_size))
    ask, truth = {"hard": (hard, of_rows), "rare": (rare, 0.1), "ties": (ties, 0.48)}[kind]
    return Question(ask, {"default": truth})


def weighted(kind: str, G: int, size: int, rate: float, icc: float) -> Question:
    """0/1 scores in clusters with lognormal weights (sigma 1) of rows or of clusters, or over lengths of answers."""
    codes, precision = np.repeat(np.arange(G), size), 1 / icc - 1

    def ask(rng: Rng) -> Ends:
        ease = rng.beta(rate * precision, (1 - rate) * precision, G)
        score = (rng.random(codes.size) < ease[codes]).astype(float)
        weight = np.exp(rng.normal(size=G)[codes] if kind == "cluster" else rng.normal(size=codes.size))
        log = pd.DataFrame({"cluster": codes, "score": score, "weight": weight})
        if kind == "length":
            length = np.ceil(20 * weight)
            fit = er.ratio(log.assign(right=score * length, length=length), "right", "length", groups="cluster")
        else:
            fit = er.mean(log, weights="weight", groups="cluster")
        return {"default": last(fit), "logit": last(fit, method="logit")}

    return Question(ask, {"default": rate, "logit": rate})


def three_judges(rate: float, taste: float) -> Question:
    """Equal models on 60 prompts under three judges, whose verdicts differ on few of them."""
    prompt, judge = np.indices((60, 3)).reshape(2, -1)

    def ask(rng: Rng) -> Ends:
        ease = rng.normal(size=60)[prompt]
        parts = []
        for model in "ab":
            edge = 0.5 * rng.normal(size=60)[prompt] + taste * rng.normal(size=3)[judge] + 0.5 * rng.normal(size=180)
            score = (ease + edge < stats.norm.ppf(rate) * np.sqrt(1.5 + taste**2)) * 1.0
            item = np.arange(180)
            parts.append(pd.DataFrame({"model": model, "item": item, "prompt": prompt, "judge": judge, "score": score}))
        return {"default": last(er.compare(pd.concat(parts), item="item", groups="prompt + judge").results)}

    return Question(ask, {"default": 0.0})


def near_one(models: int, prompts: int, repeats: int, rate: float) -> Question:
    """The win rate of a model that beats equal others; half of the latent variance of a verdict is the prompt's."""
    first, second = np.triu_indices(models, 1)
    labels = np.array(["a", "b", "c", "d", "e"][:models])

    def ask(rng: Rng) -> Ends:
        answer = 0.5 * rng.normal(size=(prompts, models)) + np.eye(models)[0] * stats.norm.ppf(rate)
        prompt, pair, _ = np.indices((prompts, first.size, repeats)).reshape(3, -1)
        edge = answer[prompt, first[pair]] - answer[prompt, second[pair]]
        won = (edge + np.sqrt(0.5) * rng.normal(size=prompt.size) > 0) * 1.0
        log = pd.DataFrame({"left": labels[first[pair]], "right": labels[second[pair]], "score": won, "prompt": prompt})
        board = er.win_rate(log, left="left", right="right", score="score", groups="prompt")
        return {"default": tuple(board.conf_int().loc["a"]), "logit": tuple(board.conf_int(method="logit").loc["a"])}

    return Question(ask, {"default": rate, "logit": rate})


def met_once(models: int, per_prompt: int) -> Question:
    """Win rates of models each pair of which met once, as many pairs a prompt as given, so that no pair has a spread.

    On the scale of logits: qualities over 2.4, and .7 normal of a model on a prompt. One of the models is drawn.
    """
    quality = np.linspace(1.2, -1.2, models)
    first, second = np.triu_indices(models, 1)
    z = np.linspace(-6, 6, 4001)
    gap = np.subtract.outer(quality, quality)
    psi = expit(gap[..., None] + 0.7 * np.sqrt(2) * z) @ (stats.norm.pdf(z) / stats.norm.pdf(z).sum())
    truth = (psi.sum(axis=1) - 0.5) / (models - 1)
    labels = np.array([f"m{k:02d}" for k in range(models)])

    def ask(rng: Rng) -> Ends:
        pair = rng.permutation(first.size)
        prompt, left, right = np.arange(pair.size) // per_prompt, first[pair], second[pair]
        strength = quality + 0.7 * rng.normal(size=(prompt.max() + 1, models))
        won = rng.random(pair.size) < expit(strength[prompt, left] - strength[prompt, right])
        log = pd.DataFrame({"left": labels[left], "right": labels[right], "score": won * 1.0, "prompt": prompt})
        board = er.win_rate(log, left="left", right="right", score="score", groups="prompt")
        k = int(rng.integers(models))
        return {"default": shifted(tuple(board.conf_int().loc[labels[k]]), truth[k])}

    return Question(ask, {"default": 0.0})


# Human labels, quantiles, lots, looks


def rectified(labelled: int) -> Question:
    """A judge's scores on 100 clusters of eight rows, with human labels of so many whole clusters."""

    def ask(rng: Rng) -> Ends:
        a, b = rng.normal(size=(2, 100))
        g = np.repeat(np.arange(100), 8)
        human = 0.6 * a[g] + rng.normal(size=g.size)
        judge = 0.3 + 0.8 * human + 0.7 * b[g] + 0.5 * rng.normal(size=g.size)
        chosen = np.isin(g, rng.choice(100, labelled, replace=False))
        log = pd.DataFrame({"cluster": g, "judge": judge, "human": np.where(chosen, human, np.nan)})
        return {"default": last(er.rectified_mean(log, judge="judge", human="human", groups="cluster"))}

    return Question(ask, {"default": 0.0})


def quantile(q: float, n: int, clustered: bool) -> Question:
    """A quantile of lognormal scores; in clusters of eight rows the intraclass correlation of the logarithms is .4."""

    def ask(rng: Rng) -> Ends:
        codes = np.repeat(np.arange(n), 8 if clustered else 1)
        effect = np.sqrt(0.4) * rng.normal(size=n)[codes] if clustered else 0.0
        score = np.exp(effect + np.sqrt(0.6 if clustered else 1.0) * rng.normal(size=codes.size))
        log = pd.DataFrame({"score": score, "passage": codes})
        return {"default": last(er.quantile(log, q=q, groups="passage" if clustered else None))}

    return Question(ask, {"default": float(np.exp(stats.norm.ppf(q)))})


def medians(n: int) -> Question:
    """The medians of two models on the same clusters, and their difference."""

    def ask(rng: Rng) -> Ends:
        codes = np.repeat(np.arange(n), 8)
        shared = np.sqrt(0.4) * rng.normal(size=n)[codes]
        parts = [
            pd.DataFrame(
                {"model": model, "passage": codes, "score": np.exp(shared + 0.8 * rng.normal(size=codes.size))}
            )
            for model in "ab"
        ]
        both = er.quantile(pd.concat(parts), q=0.5, by="model", groups="passage")
        return {"median": last(both), "difference": last(both.contrast("a - b"))}

    return Question(ask, {"median": 1.0, "difference": 0.0})


def lots(G: int, treated: int, scatter: float) -> Question:
    """Lognormal clusters assigned by lot: no effect in the mean, and treated scores that scatter so much more."""

    def ask(rng: Rng) -> Ends:
        cluster = np.repeat(np.arange(G), np.maximum(2, np.exp(rng.normal(2.3, 0.9, G)).round()).astype(int))
        chosen = np.isin(np.arange(G), rng.permutation(G)[:treated])[cluster]
        score = np.sqrt(0.3) * rng.normal(size=G)[cluster] + np.sqrt(0.7) * rng.normal(size=cluster.size)
        log = pd.DataFrame({"cluster": cluster, "prompt": chosen * 1, "score": score * np.where(chosen, scatter, 1.0)})
        test = er.randomisation_test(log, treatment="prompt", groups="cluster", draws=999, seed=int(rng.integers(1e9)))
        return {"randomisation": rejects(test.p_value)}

    return Question(ask, {"randomisation": 0.0})


def daily(skewed: bool) -> Question:
    """An asymptotic confidence sequence of a mean that is looked at after each cluster from the tenth to the 300th.

    mean +- s sqrt(2 (n rho^2 + 1)/(n^2 rho^2) log(sqrt(n rho^2 + 1)/alpha)) over the means of n clusters, with rho the
    best for n = 50: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Annals of Statistics 52, theorem 2.2.
    """
    truth, n = np.exp(0.5) if skewed else 0.0, np.arange(1, 301)
    rho2 = (2 * np.log(1 / 0.05) + np.log(1 + 2 * np.log(1 / 0.05))) / 50
    reach = np.sqrt(2 * (n * rho2 + 1) / (n**2 * rho2) * np.log(np.sqrt(n * rho2 + 1) / 0.05))

    def ask(rng: Rng) -> Ends:
        scores = rng.lognormal(size=300) if skewed else rng.normal(size=300)
        mean = np.cumsum(scores) / n
        s = np.sqrt(np.maximum(np.cumsum(scores**2) / n - mean**2, 0))
        return {"asymptotic": (float((np.abs(mean - truth) > s * reach)[9:].any()), 1.0)}

    return Question(ask, {"asymptotic": 0.0})


def sequence(kind: str) -> Question:
    """A confidence sequence that is looked at after each cluster from the thirtieth to the 300th."""

    def ask(rng: Rng) -> Ends:
        size = np.full(300, 8) if kind != "unequal" else rng.geometric(1 / 8, 300)
        codes = np.repeat(np.arange(300), size)
        if kind == "lognormal":
            score, truth = rng.lognormal(size=300)[codes], np.exp(0.5)
        else:
            score, truth = (rng.random(codes.size) < rng.beta(2.8, 1.2, 300)[codes]) * 1.0, 0.7
        path = er.confidence_sequence(pd.DataFrame({"score": score, "passage": codes}), groups="passage")
        return {"default": (float(((path["lower"] > truth) | (path["upper"] < truth)).any()), 1.0)}

    return Question(ask, {"default": 0.0})


# Plans that ask for a power of .80: how often the test finds the difference


def planned_difference(delta: float, differ: float) -> Question:
    """Two models that differ on a share of the questions, as many questions as `plan.sample_size` says."""
    n = er.plan.sample_size(delta=delta, omega2=differ - delta**2)

    def ask(rng: Rng) -> Ends:
        draw, first = rng.random(n), (rng.random(n) < 0.5) * 1.0
        better, worse = draw < (differ + delta) / 2, draw > 1 - (differ - delta) / 2
        scores = np.array([np.where(better, 1.0, np.where(worse, 0.0, first)), np.where(better, 0.0, first)])
        scores[1][worse] = 1.0
        model, question = np.indices(scores.shape).reshape(2, -1)
        log = pd.DataFrame({"model": model, "question": question, "score": scores.ravel()})
        return {"power": rejects(float(er.compare(log, item="question").table["p_value"].iloc[0]))}

    return Question(ask, {"power": 0.0})


# The winner of several models, and averages over evals


def winner(G: int, K: int, lead: float, correlation: float) -> Question:
    """The best of K means of clusters, of which one leads by so many standard errors."""
    root = np.linalg.cholesky(correlation + (1 - correlation) * np.eye(K))
    mu = np.zeros(K)
    mu[0] = lead / np.sqrt(G)

    def ask(rng: Rng) -> Ends:
        scores = rng.standard_normal((G, K)) @ root.T + mu
        cluster, model = np.indices(scores.shape).reshape(2, -1)
        log = pd.DataFrame({"model": model, "item": cluster, "score": scores.ravel()})
        best = er.mean(log, by="model", item="item").winner()
        truth = mu[int(best.name)]
        usual, kept = (best.single_lower, best.single_upper), (best.lower, best.upper)
        return {"usual": shifted(usual, truth), "corrected": shifted(kept, truth)}

    return Question(ask, {"usual": 0.0, "corrected": 0.0})


def shifted(interval: tuple[float, float], truth: float) -> tuple[float, float]:
    """An interval about a truth that the log decides, moved so that it is 0."""
    return interval[0] - truth, interval[1] - truth


def suite(k: int, mean: float = 0.6) -> Question:
    """Averages of k tasks of 30 to 500 questions, read as those of tasks in general; true scores differ by .1."""
    sizes = np.resize([30, 60, 120, 500], k)
    # Normal about .6; elsewhere a Beta distribution of this mean and spread, which stays below 1.
    nu = mean * (1 - mean) / 0.1**2 - 1

    def ask(rng: Rng) -> Ends:
        parts = {}
        for place, n in enumerate(sizes):
            normal = mean + 0.1 * rng.standard_normal()
            rate = np.clip(normal, 0.01, 0.99) if mean == 0.6 else rng.beta(nu * mean, nu * (1 - mean))
            item = [f"{place}-{i}" for i in range(n)]
            log = pd.DataFrame({"model": "a", "item": item, "score": (rng.random(n) < rate) * 1.0})
            parts[str(place)] = er.mean(log, by="model", item="item")
        evals = er.join_evals(parts)
        tables = {"fixed": evals.average(), "drawn": evals.average(tasks="drawn")}
        tables |= {} if mean == 0.6 else {"precision": evals.average("precision", tasks="drawn")}
        return {name: tuple(one.to_frame().loc["a", ["lower", "upper"]]) for name, one in tables.items()}

    return Question(ask, dict.fromkeys(("fixed", "drawn") if mean == 0.6 else ("fixed", "drawn", "precision"), mean))


def published(n_prompts: int) -> Question:
    """Win rates in the design of many public leaderboards, with rows taken as independent and by prompt."""

    def log_of(rng: Rng) -> pd.DataFrame:
        return er.datasets.published_design(n_prompts=n_prompts, seed=rng)

    def ask(rng: Rng) -> Ends:
        board = er.win_rate(log_of(rng), left="left", right="right", winner="winner", groups="prompt")
        tables = {"prompt": board, "rows": board.with_cov(groups=None)}
        return {f"{name}, {model}": pair for name, one in tables.items() for model, pair in ends(one).items()}

    truth = log_of(np.random.default_rng(0)).attrs["truth"]["win_rate"]
    return Question(ask, {f"{name}, {model}": rate for name in ("prompt", "rows") for model, rate in truth.items()})


# What else follows: clusters of unequal sizes, and a truth that is known or that of a log of 400,000 clusters

MODELS = ("m0", "m1", "m2")


def clusters_of(rng: Rng, n: int) -> IntArray:
    """Cluster of each row: sizes 1 to 9, a few rows in most."""
    return np.repeat(np.arange(n), 1 + rng.poisson(2, n).clip(0, 8))


def stacked(parts: Mapping[str, Mapping[str, object]]) -> pd.DataFrame:
    """One log of the columns of each model."""
    return pd.concat([pd.DataFrame({"model": model, **columns}) for model, columns in parts.items()], ignore_index=True)


def runs(rng: Rng, n: int) -> pd.DataFrame:
    """Runs of three models on tasks whose families share what makes them hard, symmetric about 0."""
    group = clusters_of(rng, n)
    length, hard = rng.uniform(-1, 8, group.size), 0.7 * rng.normal(size=n)[group]
    tasks = {"group": group, "minutes": 2**length}
    chances = [expit(0.8 * (2 + 1.5 * k - length) + hard) for k in range(3)]
    return stacked(
        {m: tasks | {"success": (rng.uniform(size=group.size) < p) * 1} for m, p in zip(MODELS, chances, strict=True)}
    )


def judged(rng: Rng, n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Verdicts on answers, a tenth of them bad, and a third as many calibrated ones; errors are alike in clusters."""

    def verdicts(group: IntArray, share: float) -> pd.DataFrame:
        def alike(icc: float) -> FloatArray:
            shared = rng.normal(size=group.max() + 1)[group]
            return ndtr(np.sqrt(icc) * shared + np.sqrt(1 - icc) * rng.normal(size=group.size))

        truth, blur = alike(0.3) < share, alike(0.2)
        return pd.DataFrame(
            {"group": group, "label": truth * 1.0, "verdict": (blur < np.where(truth, 0.85, 0.1)) * 1.0}
        )

    log, calibration = verdicts(clusters_of(rng, 3 * n), 0.1), verdicts(clusters_of(rng, n), 0.5)
    return log, calibration.assign(group=calibration["group"] + 3 * n)


def verdicts_of_three(rng: Rng, n: int) -> pd.DataFrame:
    """Errors of three judges that correlate by a half, in clusters too."""
    group = clusters_of(rng, n)
    shared = rng.normal(size=n)[group] + rng.normal(size=group.size)
    alone = rng.normal(size=(n, 3))[group] + rng.normal(size=(group.size, 3))
    return pd.DataFrame(shared[:, None] + alone, columns=["a", "b", "c"]).assign(group=group, label=0.0)


def solved(rng: Rng, n: int) -> pd.DataFrame:
    """0/1 answers of three models to items whose difficulty is that of their passage and their own."""
    group = clusters_of(rng, n)
    hard = rng.normal(size=n)[group] + 0.7 * rng.normal(size=group.size)
    items = {"group": group, "item": np.arange(group.size)}
    return stacked(
        {
            m: items | {"score": (rng.uniform(size=group.size) < expit(0.7 * k - hard)) * 1.0}
            for k, m in enumerate(MODELS)
        }
    )


def monitored(rng: Rng, n: int) -> pd.DataFrame:
    """Scores of transcripts, a quarter of them bad, alike within tasks; and chances that are right, or .1 too high."""
    group = clusters_of(rng, n)
    bad = ndtr(np.sqrt(0.3) * rng.normal(size=n)[group] + np.sqrt(0.7) * rng.normal(size=group.size)) < 0.25
    score = 1.2 * bad + 0.6 * rng.normal(size=n)[group] + rng.normal(size=group.size)
    chance = rng.uniform(0.1, 0.9, group.size)
    alike = ndtr(0.6 * rng.normal(size=n)[group] + 0.8 * rng.normal(size=group.size))
    columns = {"bad": bad * 1, "score": score, "chance": chance, "sure": (chance + 0.1).clip(0, 1)}
    return pd.DataFrame({"group": group, **columns, "came": (alike < chance) * 1})


def attempts(rng: Rng, n: int) -> pd.DataFrame:
    """Six answers to each question; questions of a repository share their chance, Beta(1, 1)."""
    group = clusters_of(rng, n)
    chance = rng.beta(1, 1, n)[group]
    question, sample = np.indices((group.size, 6)).reshape(2, -1)
    score = (rng.uniform(size=question.size) < chance[question]) * 1.0
    return pd.DataFrame({"group": group[question], "item": question, "sample": sample, "score": score})


def equals(rng: Rng, n: int) -> pd.DataFrame:
    """Four equal models: skewed costs, and scores, alike within clusters."""
    group = clusters_of(rng, n)
    hard = rng.normal(size=n)[group]

    def mixed(scale: float, rest: float) -> FloatArray:
        return scale * rng.normal(size=n)[group] + rest * rng.normal(size=group.size)

    parts = {}
    for k in range(4):
        score, cost = (hard + mixed(0.5, 1.0) > 0) * 1.0, np.exp(0.5 * hard + mixed(0.5, 0.7))
        parts[f"m{k}"] = {"item": np.arange(group.size), "group": group, "score": score, "usd": cost}
    return stacked(parts)


def templates(rng: Rng, n: int, n_items: int) -> pd.DataFrame:
    """Scores of items under n templates, whose means spread by .3."""
    template, item = np.indices((n, n_items)).reshape(2, -1)
    effects = 0.3 * rng.normal(size=n)[template] + 0.5 * rng.normal(size=n_items)[item]
    return pd.DataFrame({"template": template, "item": item, "score": effects + rng.normal(size=template.size)})


def true_win_rate(k: int) -> float:
    """Mean win rate of a model of `solved`, by integrating over difficulty."""
    z = np.linspace(-8, 8, 4001)
    p = [expit(0.7 * j - np.sqrt(1.49) * z) for j in range(3)]
    rates = [0.5 + (p[k] - p[j]) / 2 for j in range(3) if j != k]
    return float(np.average(np.mean(rates, axis=0), weights=np.exp(-0.5 * z**2)))


def classified(log: pd.DataFrame, metric: str, predicted: str, truth: str) -> er.Results:
    """A metric of scores under clusters."""
    return er.classification(log, truth=truth, predicted=predicted, metric=metric, groups="group")


METRICS = {
    "auc": ("auc", "score", "bad"),
    "tpr@fpr=0.1": ("tpr@fpr=0.1", "score", "bad"),
    "brier": ("brier", "chance", "came"),
    "ece, .1 too sure": ("ece", "sure", "came"),
    "ece, calibrated": ("ece", "chance", "came"),
    # Rates that most logs of ten clusters show as 1 or as 0.
    "tpr near 1": ("tpr@fpr=0.1", "sharp", "bad"),
    "tpr near 0": ("tpr@fpr=0.01", "blunt", "bad"),
}


def follows(what: str, n: int) -> Question:
    """What else follows from the influence matrix, by number of clusters."""

    def horizon(rng: Rng) -> Ends:
        return ends(er.horizon(runs(rng, n), groups="group"))

    def corrected(rng: Rng) -> Ends:
        log, calibration = judged(rng, n)
        roles = {"judge": "verdict", "human": "label", "groups": "group"}
        return ends(er.judge_corrected(log, calibration=calibration, **roles))

    def panel(rng: Rng) -> Ends:
        return ends(er.panel(verdicts_of_three(rng, n), judges=["a", "b", "c"], human="label", groups="group"))

    def ability(rng: Rng) -> Ends:
        return ends(er.ability(solved(rng, n), groups="group"))

    def wins(rng: Rng) -> Ends:
        log = er.wins(solved(rng, n))
        return ends(er.win_rate(log, left="left", right="right", score="score", groups="group"))

    def curve(rng: Rng) -> Ends:
        log = attempts(rng, n)
        fit = er.pass_at_k(log, item="item", sample="sample", k=[1, 4], require="all", groups="group")
        return ends(fit) | {"gap": last(fit.contrast("`pass^1` - `pass^4`"))}

    def calibration(rng: Rng) -> Ends:
        fit = classified(monitored(rng, n), *METRICS["ece, calibrated"])
        return ends(fit) | {"test": rejects(float(fit.pvalues.iloc[0]))}

    def frontier(rng: Rng) -> Ends:
        states = er.frontier(equals(rng, n), {"score": "max", "usd": "min"}, groups="group").states
        return {"none false": (float((states != "open").any()), 1.0)}

    def over(n_items: int) -> Callable[[Rng], Ends]:
        return lambda rng: ends(er.mean(templates(rng, n, n_items), over="template", item="item", q=(0.5, 0.9)))

    def of_metric(rng: Rng) -> Ends:
        return {what: last(classified(monitored(rng, n), *METRICS[what]))}

    right = [float(np.exp(betaln(1 + k, 1))) for k in (1, 4)]
    spread = {"mean": 0.0, "sd": 0.3, "q0.5": 0.0, "q0.9": 0.3 * float(stats.norm.ppf(0.9))}
    worlds: dict[str, tuple[Callable[[Rng], Ends], Mapping[str, float]]] = {
        "horizon": (horizon, {"m0": 2.0, "m1": 3.5, "m2": 5.0}),
        "judge_corrected": (corrected, {"mean": 0.1}),
        "panel": (panel, {"n_eff": 1.5, "correlation": 0.5, "weight:a": 1 / 3, "worth:a": 1 / 9}),
        "ability": (ability, {model: 0.7 * (k - 1) for k, model in enumerate(MODELS)}),
        "wins": (wins, {model: true_win_rate(k) for k, model in enumerate(MODELS)}),
        "pass^k": (curve, {"pass^1": right[0], "pass^4": right[1], "gap": right[0] - right[1]}),
        "ece, calibrated": (calibration, {"ece": 0.0, "test": 0.0}),
        "frontier": (frontier, {"none false": 0.0}),
        "30 items": (over(30), spread),
        "100 items": (over(100), spread),
    }
    if what in METRICS and what not in worlds:
        large = classified(monitored(np.random.default_rng(0), 400_000), *METRICS[what])
        return Question(of_metric, {what: float(large.params.iloc[0])})
    return Question(*worlds[what])


# The same where rows depend along two axes that cross: prompts and judges, families and graders, templates and items

AXES, LARGE = "group + judge", 20_000


class Crossing:
    """Rows in n groups of very unequal sizes, ten on average, each of one of n judges of very unequal shares."""

    def __init__(self, rng: Rng, n: int, first: int = 0) -> None:
        sizes, share = np.exp(0.7 * rng.normal(size=(2, n)))
        group = np.repeat(np.arange(n), np.ceil(7 * sizes).astype(int))
        judge = rng.choice(n, size=group.size, p=share / share.sum())
        self.rng, self.n, self.rows, self.codes = rng, n, group.size, (group, judge)
        self.columns = {"item": first + np.arange(group.size), "group": first + group, "judge": judge}

    def normal(self, shared: float, judges: FloatArray | None = None) -> FloatArray:
        """Standard normal rows, of whose variance each axis has such a share; `judges` has the judges' part."""
        group, judge = self.rng.normal(size=(2, self.n))
        judge = judge if judges is None else judges
        along = np.sqrt(shared) * (group[self.codes[0]] + judge[self.codes[1]])
        return np.asarray(along + np.sqrt(1 - 2 * shared) * self.rng.normal(size=self.rows))

    def happens(self, chance: FloatArray) -> FloatArray:
        """0 or 1 with a chance."""
        return (self.rng.uniform(size=self.rows) < chance) * 1.0

    def log(self, effects: Callable[[int], Mapping[str, FloatArray]], models: int = 3) -> pd.DataFrame:
        """One log of what each model has."""
        return stacked({f"m{k}": self.columns | dict(effects(k)) for k in range(models)})


def crossed_horizon(rng: Rng, n: int, groups: str | None) -> er.Results:
    """Runs of three models on tasks of families that share what makes them hard, scored by graders."""
    rows = Crossing(rng, n)
    length, hard = rng.uniform(-1, 8, rows.rows), 0.8 * rows.normal(0.35)

    def effects(k: int) -> Mapping[str, FloatArray]:
        ease = 0.8 * (2 + 1.5 * k - length) + hard + 0.5 * rows.normal(0.3)
        return {"minutes": 2**length, "success": rows.happens(expit(ease))}

    return er.horizon(rows.log(effects), p=[0.5, 0.8], groups=groups)


def crossed_answers(rng: Rng, n: int) -> pd.DataFrame:
    """0/1 answers of three models to items; groups and topics are hard, and hard for some models."""
    rows = Crossing(rng, n)
    hard = rows.normal(0.3)
    return rows.log(lambda k: {"score": rows.happens(expit(0.7 * k - hard - 0.7 * rows.normal(0.3)))})


def crossed_judge_corrected(rng: Rng, n: int, groups: str | None) -> er.Results:
    """Verdicts of the same n raters on answers, a tenth of them bad, and on calibrated ones of other prompts."""
    raters = rng.normal(size=n)

    def verdicts(rows: Crossing, share: float) -> pd.DataFrame:
        truth, blur = ndtr(rows.normal(0.2)) < share, ndtr(rows.normal(0.15, raters))
        said = (blur < np.where(truth, 0.85, 0.1)) * 1.0
        return pd.DataFrame(rows.columns | {"label": truth * 1.0, "verdict": said})

    log, known = verdicts(Crossing(rng, n), 0.1), verdicts(Crossing(rng, n, first=10**7), 0.5)
    return er.judge_corrected(log, judge="verdict", calibration=known, human="label", groups=groups)


def crossed_panel(rng: Rng, n: int, groups: str | None) -> er.Results:
    """Errors of three judges that correlate by a half, along prompts and along the models that they judge."""
    rows = Crossing(rng, n)
    shared = rows.normal(0.2)
    log = pd.DataFrame(rows.columns | {name: shared + rows.normal(0.2) for name in "abc"}).assign(label=0.0)
    return er.panel(log, judges=["a", "b", "c"], human="label", groups=groups)


def crossed_classification(rng: Rng, n: int, groups: str | None, what: str = "auc") -> er.Results:
    """Scores of transcripts of tasks by attackers; and chances that are right, or .1 too high."""
    rows = Crossing(rng, n)
    bad, chance = ndtr(rows.normal(0.2)) < 0.25, rng.uniform(0.1, 0.9, rows.rows)
    came, score = ndtr(rows.normal(0.2)) < chance, 1.2 * bad + 1.2 * rows.normal(0.15)
    of = {"bad": bad * 1, "score": score, "chance": chance, "sure": (chance + 0.1).clip(0, 1), "came": came * 1}
    metric, predicted, truth = METRICS[what]
    log = pd.DataFrame(rows.columns | of | {"sharp": score + 2.3 * bad, "blunt": score - 0.7 * bad})
    return er.classification(log, truth=truth, predicted=predicted, metric=metric, groups=groups)


def crossed_pass_at_k(rng: Rng, n: int, groups: str | None) -> er.Results:
    """Six answers to each question, whose chances are uniform, alike in repositories and in languages."""
    rows = Crossing(rng, n)
    chance = np.repeat(ndtr(rows.normal(0.3)), 6)
    log = pd.DataFrame(rows.columns).loc[np.repeat(np.arange(rows.rows), 6)].reset_index(drop=True)
    log = log.assign(sample=np.tile(np.arange(6), rows.rows), score=(rng.uniform(size=chance.size) < chance) * 1.0)
    return er.pass_at_k(log, item="item", sample="sample", k=[1, 4], require="all", groups=groups)


def crossed_frontier(rng: Rng, n: int, cheaper: float) -> Ends:
    """Four models of equal scores, the first two cheaper by a factor, costs skewed: each is open."""
    rows = Crossing(rng, n)
    hard = rows.normal(0.3)

    def effects(k: int) -> Mapping[str, FloatArray]:
        cost = np.exp(0.5 * hard + 0.6 * rows.normal(0.3)) * (cheaper if k < 2 else 1.0)
        return {"score": (hard + rows.normal(0.3) > 0) * 1.0, "usd": cost}

    states = er.frontier(rows.log(effects, 4), {"score": "max", "usd": "min"}, groups=AXES).states
    return {"none false": (float((states != "open").any()), 1.0)}


def crossed_templates(rng: Rng, n: int, passages: bool) -> er.Results:
    """Scores of n items, or of items of n unequal passages, under n templates, whose means spread by .3."""
    group = np.repeat(np.arange(n), rng.choice([1, 2, 3, 9], n) if passages else 1)
    template, item = np.indices((n, group.size)).reshape(2, -1)
    hard = 0.4 * rng.normal(size=n)[group] + 0.3 * rng.normal(size=group.size)
    score = 0.3 * rng.normal(size=n)[template] + hard[item] + rng.normal(size=template.size)
    log = pd.DataFrame({"template": template, "item": item, "group": group[item], "score": score})
    groups = "template + group" if passages else None
    return er.mean(log, over="template", item="item", q=(0.1, 0.5, 0.9), groups=groups)


def wins_by(log: pd.DataFrame, groups: str | None) -> er.Results:
    """Win rates of comparisons of scores."""
    return er.win_rate(er.wins(log), left="left", right="right", score="score", groups=groups)


def with_gates(results: er.Results, truth: Mapping[str, float]) -> Ends:
    """Intervals, and whether gates at the truth of the first parameter show what is not so, at .05 on either side."""
    name, number = next(iter(truth.items()))
    shown = {side: results.gate(f"`{name}` {side} {number!r}").verdict == "shown" for side in "><"}
    return ends(results) | {f"gate {side}": (float(wrong), 1.0) for side, wrong in shown.items()}


CROSSED: Mapping[str, Callable[[Rng, int, str | None], er.Results]] = {
    "horizon": crossed_horizon,
    "judge_corrected": crossed_judge_corrected,
    "panel": crossed_panel,
    "ability": lambda rng, n, groups: er.ability(crossed_answers(rng, n), groups=groups),
    "wins": lambda rng, n, groups: wins_by(crossed_answers(rng, n), groups),
    "mean": lambda rng, n, groups: er.mean(crossed_answers(rng, n).query("model == 'm2'"), groups=groups),
    "pass^k": crossed_pass_at_k,
    **{what: partial(crossed_classification, what=what) for what in METRICS},
    "items": lambda rng, n, _: crossed_templates(rng, n, False),
    "passages": lambda rng, n, _: crossed_templates(rng, n, True),
}
SPREAD = {"mean": 0.0, "sd": 0.3} | {f"q{q}": 0.3 * float(stats.norm.ppf(q)) for q in (0.1, 0.5, 0.9)}
TRUTHS = {
    "judge_corrected": {"mean": 0.1},
    "panel": {"n_eff": 1.5, "correlation": 0.5, "weight:a": 1 / 3, "worth:a": 1 / 9},
    "pass^k": {"pass^1": 0.5, "pass^4": 0.2},
    "ece, calibrated": {"ece": 0.0},
    "items": SPREAD,
    "passages": SPREAD,
}


def crossed(what: str, n: int) -> Question:
    """What else follows, under two crossed clusterings of n clusters each; a truth not known is that of a large log."""
    if what.startswith("frontier"):
        cheaper = 0.5 if what.endswith("cheaper") else 1.0
        return Question(lambda rng: crossed_frontier(rng, n, cheaper), {"none false": 0.0})
    draw = CROSSED[what]
    truth = TRUTHS.get(what) or draw(np.random.default_rng(0), LARGE, None).params.to_dict()
    gates = dict.fromkeys(("gate >", "gate <"), 0.0)
    return Question(lambda rng: with_gates(draw(rng, n, AXES), truth), truth | gates)


# Rows, rates of strata
STRATA = (
    ((200, 200, 10), (0.9, 0.9, 0.9)),
    ((200, 200, 10), (0.9, 0.9, 0.98)),
    ((200, 200, 10), (0.7, 0.9, 0.95)),
    ((24,) * 4, (0.5, 0.97, 0.97, 0.97)),
    ((24,) * 4, (0.95,) * 4),
    ((200, 40, 20, 20), (0.6, 0.9, 0.95, 0.98)),
    ((50,) * 8, (0.8, 0.85, 0.9, 0.95, 0.98, 0.98, 0.99, 0.99)),
)
# Clusters, and rows of each
HALF, AGAINST = (0.5, 0.5), (1.0, -0.5, -0.5)
# Rates, clusters, their size, intraclass correlation, weights of the models, and whether they share the questions.
COMBINED: dict[str, tuple[object, ...]] = {
    "two of .95, 15 x 10": ((0.95, 0.95), 15, 10, 0.2, HALF),
    "two of .97, 20 x 25": ((0.97, 0.97), 20, 25, 0.1, HALF),
    "two of .9 and .8, 30 x 5": ((0.9, 0.8), 30, 5, 0.2, HALF),
    "two of .98 and .9, 12 x 20": ((0.98, 0.9), 12, 20, 0.3, HALF),
    "three of .95, .9 and .85, 20 x 10": ((0.95, 0.9, 0.85), 20, 10, 0.2, (1 / 3, 1 / 3, 1 / 3)),
    "two of .95, 60 questions": ((0.95, 0.95), 60, 1, 0.0, HALF),
    "two of .95 over other questions, 15 x 10": ((0.95, 0.95), 15, 10, 0.2, HALF, False),
    "two of .98, 10 x 50": ((0.98, 0.98), 10, 50, 0.05, HALF),
    "five of .99, 25 x 4": ((0.99,) * 5, 25, 4, 0.2, (0.2,) * 5),
    ".9 of .95 and .1 of .7, 15 x 10": ((0.95, 0.7), 15, 10, 0.2, (0.9, 0.1)),
    "two of .5 and .6, 15 x 10": ((0.5, 0.6), 15, 10, 0.2, HALF),
    "two of .7, 50 x 10": ((0.7, 0.7), 50, 10, 0.2, HALF),
    "one against two of .95, 15 x 10": ((0.95,) * 3, 15, 10, 0.2, AGAINST),
    "one of .99 against two of .97, 15 x 10": ((0.99, 0.97, 0.97), 15, 10, 0.2, AGAINST),
    "one of .9 against two of .7, 15 x 10": ((0.9, 0.7, 0.7), 15, 10, 0.2, AGAINST),
    "one against two of .95, 60 questions": ((0.95,) * 3, 60, 1, 0.0, AGAINST),
    "one against two of .97, 20 x 25": ((0.97,) * 3, 20, 25, 0.1, AGAINST),
    "one against two of .8, 40 x 5": ((0.8,) * 3, 40, 5, 0.1, AGAINST),
    "one against two of .98, 10 x 50": ((0.98,) * 3, 10, 50, 0.05, AGAINST),
    "one of .99 against two of .9 over other questions, 15 x 10": ((0.99, 0.9, 0.9), 15, 10, 0.2, AGAINST, False),
}
# Of each eval the rate of a model, clusters, their size and intraclass correlation.
AVERAGED: dict[str, tuple[tuple[float, int, int, float], ...]] = {
    ".96, 15 x 10, and .98, 12 x 10": ((0.96, 15, 10, 0.2), (0.98, 12, 10, 0.2)),
    "three of .99, 15 x 10": ((0.99, 15, 10, 0.2),) * 3,
    "six of .95, 15 x 10": ((0.95, 15, 10, 0.2),) * 6,
    "two of .95, 60 questions": ((0.95, 60, 1, 0.0),) * 2,
    ".97, 200 questions, and .7, 15 x 10": ((0.97, 200, 1, 0.0), (0.7, 15, 10, 0.2)),
    "two of .98, 10 x 50": ((0.98, 10, 50, 0.05),) * 2,
    ".5 and .6, 30 x 5": ((0.5, 30, 5, 0.2), (0.6, 30, 5, 0.2)),
    ".97, 20 x 25, and .9, 15 x 10": ((0.97, 20, 25, 0.1), (0.9, 15, 10, 0.2)),
}
TOO_SURE = {
    "means of 30 clusters, of which large ones are hard": "hard",
    "ratio with a numerator of a tenth ones, 30 clusters of 10": "rare",
    "win rate with 95% ties, 12 clusters of 10": "ties",
}
WEIGHTED = ((15, 10), (15, 100))
FOLLOWS = {
    (10, 50): ("horizon", "panel", "ability", "wins", "brier", "pass^k", "frontier", "30 items", "100 items"),
    (20, 60): ("judge_corrected", "auc", "tpr@fpr=0.1", "ece, calibrated", "ece, .1 too sure"),
}


Made: TypeAlias = tuple[int, Callable[..., Question], tuple[object, ...]]
"""Number of logs, what makes the question, and of which parameters: some truths take a second."""


def _worlds() -> Iterator[tuple[str, Made]]:
    for n in (15, 30, 100):
        yield f"skewed covariate, {n} rows", (2000, rows, (n,))
    for models, clusters in ((10, 5), (5, 10)):
        yield f"{models} models of {clusters} clusters each", (2000, own_clusters, (models, clusters))
    for models, clusters in ((20, 2), (20, 3), (50, 3)):
        yield f"ranks of {models} equal models in {clusters} clusters", (400, equal_models, (models, clusters))
    for treated in (2, 3, 4, 6, 10):
        yield f"dummy of {treated} in 30 clusters", (4000, few_treated, (treated,))
    for G, unequal, binary in product((6, 12, 30), (False, True), (False, True)):
        size, scores = "1 to 40" if unequal else "8", "0/1" if binary else "normal"
        yield f"joint test, {G} passages of {size}, {scores}", (1000, joint, (G, unequal, binary))
    for (sizes, rates), icc, shares in product(STRATA, (0.0, 0.2), ("macro", "micro")):
        yield f"strata of {sizes}, {rates}, icc {icc:g}, {shares}", (400, strata, (sizes, rates, icc, shares))
    yield "15 strata of two clusters", (2000, strata, ((16,) * 15, (0.7,) * 15, 0.2, "micro", 8))
    for rate in (0.95, 0.98, 0.995):
        yield f"independent rows of {rate:g} in 20 clusters of 50", (400, independent, (20, 50, rate))
    yield "failed answers", (500, failed, ())
    for (shared, alone), rate in product(((80, 60), (20, 100), (150, 25)), (0.6, 0.9, 0.98)):
        name = f"{shared} shared questions and {alone} of each, rate {rate:g}"
        yield name, (400, one_sided, (shared, alone, rate))
    apart = (((0.9, 0.7), 15, 10), ((0.99, 0.9), 15, 10), ((0.99, 0.97), 15, 100), ((1.0, 0.97), 10, 100))
    for rates, G, size in apart:
        name = f"models of {rates[0]:g} and {rates[1]:g}, each in {G} clusters of {size}"
        yield name, (400, unpaired, (rates, (G, size), (G, size), 0.3))
        name = f"models of {rates[0]:g} and {rates[1]:g}, both in the same {G} clusters of {size}"
        yield name, (400, unpaired, (rates, (G, size), (G, size), 0.3, True))
    for G, size, differ, icc in ((12, 10, 0.05, 0.3), (15, 10, 0.06, 0.6), (40, 25, 0.02, 0.2), (100, 2, 0.03, 0.1)):
        name = f"models that differ on {differ:g} of {G} clusters of {size}, icc {icc:g}"
        yield name, (400, agreeing, (G, size, differ, icc, 0.1))
    name = "models of 0.95 and 0.95, in 60 clusters of 10 and in 10 of 100"
    yield name, (400, unpaired, ((0.95, 0.95), (60, 10), (10, 100), 0.3))
    for what, of in COMBINED.items():
        yield f"combination, {what}", (400, combined, of)
    for what, each in AVERAGED.items():
        yield f"averaged, {what}", (400, averaged, (each,))
    for what, kind in TOO_SURE.items():
        yield what, (400, too_sure, (kind,))
    for kind, (G, size), rate in product(("row", "cluster", "length"), WEIGHTED, (0.8, 0.95, 0.98, 0.995)):
        yield f"weighted by {kind}, {rate:g} in {G} clusters of {size}", (400, weighted, (kind, G, size, rate, 0.2))
    for rate, taste in product((0.7, 0.95), (0.0, 0.3)):
        yield f"three judges, rate {rate:g}, taste {taste:g}", (400, three_judges, (rate, taste))
    for models, per_prompt in ((20, 10), (40, 20), (60, 30)):
        yield f"{models} models that met once, {per_prompt} pairs a prompt", (400, met_once, (models, per_prompt))
    for models, (prompts, repeats), rate in product((2, 5), ((10, 3), (20, 3), (20, 10), (60, 3)), (0.9, 0.95, 0.99)):
        name = f"win rate {rate:g} of {models} models, {repeats} times on {prompts} prompts"
        yield name, (400, near_one, (models, prompts, repeats, rate))
    for labelled in (6, 10, 20):
        yield f"{labelled} labelled clusters", (2000, rectified, (labelled,))
    for q, (n, clustered) in product((0.25, 0.5, 0.9), ((30, True), (100, True), (100, False), (400, False))):
        yield f"quantile {q:g} of {n} {'clusters' if clustered else 'rows'}", (400, quantile, (q, n, clustered))
    yield "medians of 60 clusters", (400, medians, (60,))
    for scatter in (1.0, 3.0):
        yield f"10 clusters by lot, scatter {scatter:g}", (500, lots, (10, 5, scatter))
    for skewed in (False, True):
        yield f"looked at daily, {'skewed' if skewed else 'normal'}", (20_000, daily, (skewed,))
    for kind in ("equal", "unequal", "lognormal"):
        yield f"confidence sequence, {kind}", (400, sequence, (kind,))
    for G, K, lead, correlation in product((5, 20, 200), (2, 5, 12), (0.0, 1.0, 3.0), (0.0, 0.7)):
        name = f"winner, {G} clusters, {K} models, lead {lead:g}, correlation {correlation:g}"
        yield name, (100, winner, (G, K, lead, correlation))
    for delta, differ in ((0.03, 0.1), (0.05, 0.2), (0.1, 0.4)):
        yield f"planned difference {delta:g}, {differ:g} differ", (400, planned_difference, (delta, differ))
    for k in (2, 5, 10, 30):
        yield f"suite of {k} tasks", (100, suite, (k,))
    yield "six tasks near .9", (400, suite, (6, 0.9))
    yield "published design, 200 prompts", (100, published, (200,))
    for numbers, names in FOLLOWS.items():
        for what, n in product(names, numbers):
            yield f"{what}, {n} clusters", (400, follows, (what, n))
    for what, n in product((*CROSSED, "frontier", "frontier, cheaper"), (10, 30, 100)):
        n_logs = {"mean": 1000, "pass^k": 1000, "horizon": 400, "judge_corrected": 400}.get(what, 200)
        yield f"crossed {what}, {n} clusters", (n_logs, crossed, (what, n))


WORLDS: Mapping[str, Made] = dict(_worlds())
