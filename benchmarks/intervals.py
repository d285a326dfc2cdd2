"""How often 95% intervals and tests hold in the worlds that the guide names; no timing.

python -m benchmarks.intervals NAME --logs 500     one of the tables, with fewer logs than it has
python -m benchmarks.intervals                     all of them, an hour of a processor

rows          HC0 to HC3 of a slope (docs/conventions.md)
population    a score of a finite benchmark (docs/guide/clusters.md)
samples       differences of two models that were asked different samples of one (docs/guide/clusters.md)
answers       the same with answers that are drawn, and with strata (docs/guide/clusters.md)
dependence    intraclass correlations (docs/guide/clusters.md)
absorbed      a model effect within questions (docs/guide/regression.md)
skewed        CR1 and CR2 of a number that few clusters carry (docs/guide/engines.md)
lost          differences of two equal models, where one lost all (docs/decisions)
lots          randomisation tests at 5%: rejections (docs/guide/resampling.md)
evals         averages over evals, of these tasks and of tasks in general (docs/guide/several_evals.md)
ends          averages over evals with true scores near 1 (docs/guide/several_evals.md)
"""

from __future__ import annotations

import argparse
import functools
import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

import evalreg as er
from evalreg.numerics.moments import ClusterSums, icc_interval
from evalreg.numerics.student import t_quantile
from evalreg.suites.average import Averaged, drawn, drawn_alike, weighted

ROW_COVARIANCES: tuple[Literal["HC0", "HC1", "HC2", "HC3"], ...] = ("HC0", "HC1", "HC2", "HC3")


def shown(values: Mapping[str, float] | np.ndarray) -> str:
    """Shares in one line, by name where they have names."""
    if isinstance(values, np.ndarray):
        return ", ".join(f"{value:.3f}" for value in values)
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


def holds(results: er.Results, truth: float) -> bool:
    """Whether the first interval holds the truth."""
    low, high = results.conf_int().iloc[0]
    return bool(low <= truth <= high)


def rows(n_logs: int) -> None:
    """A slope on a skewed covariate with which the error grows, through `fit`."""
    for n in (15, 30, 100):
        rng = np.random.default_rng(n)
        hits = []
        for _ in range(n_logs):
            x = rng.exponential(size=n)
            log = pd.DataFrame({"x": x, "score": rng.normal(size=n) * (0.2 + x)})
            fitted = er.fit("score ~ x", log)
            found = (fitted.with_cov(cov=name) for name in ROW_COVARIANCES)
            hits.append([abs(one.tvalues["x"]) <= stats.t.ppf(0.975, n - 2) for one in found])
        print(f"{n} rows:", shown(dict(zip(ROW_COVARIANCES, np.mean(hits, axis=0), strict=True))), flush=True)


def population(n_logs: int) -> None:
    """Draws from benchmarks of 800 questions on 160 passages, with `target` and without."""
    rng, G, m = np.random.default_rng(11), 160, 5
    passage = np.repeat(np.arange(G), m)
    for share, how in itertools.product((0.5, 0.1), ("passages", "questions", "questions, groups")):
        hits = []
        for _ in range(n_logs):
            ease = np.sqrt(0.4) * rng.normal(size=G)[passage] + np.sqrt(0.6) * rng.normal(size=G * m)
            score = (ease < 0.6).astype(float)
            kept, size = np.zeros(G * m, dtype=bool), G * m
            if how == "passages":
                kept, size = np.isin(passage, rng.choice(G, int(G * share), replace=False)), {"passage": G}
            else:
                kept[rng.choice(G * m, int(G * m * share), replace=False)] = True
            log = pd.DataFrame({"score": score[kept], "passage": passage[kept]})
            groups = None if how == "questions" else "passage"
            whole = er.mean(log, groups=groups, target="the full benchmark", n_population=size)
            hits.append([holds(one, score.mean()) for one in (whole, er.mean(log, groups=groups))])
        held = dict(zip(("with", "without"), np.mean(hits, axis=0), strict=True))
        print(f"{how}, {share:g}:", shown(held), flush=True)


def samples(n_logs: int) -> None:
    """Differences of two models, correlated .8, with a factor for each sample and with one for all."""
    worlds = {"60, and 30 of these": (60, 30, 30), "50 and 50, by chance": (50, 50, -1)}
    worlds |= {f"50 and 50, {common} in common": (50, 50, common) for common in (0, 1, 5)}
    worlds |= {"24 and 12 of these, of 40 clusters of three": (24, 12, 12)}
    for name, (n_a, n_b, common) in worlds.items():
        rng, hits, each = np.random.default_rng(14), [], 3 if "clusters" in name else 1
        N = 40 if each == 3 else 100
        for _ in range(n_logs):
            y = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=(N, each))
            y += rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=(N, 1)) if each == 3 else 0.0
            mixed = rng.permutation(N)
            first, other = mixed[:n_a], mixed[n_a - common : n_a - common + n_b]
            other = rng.choice(N, n_b, replace=False) if common < 0 else other
            parts = []
            for model, units in enumerate((first, other)):
                unit = np.repeat(units, each)
                question = each * unit + np.tile(np.arange(each), units.size)
                score = y[units, :, model].ravel()
                parts.append(pd.DataFrame({"model": "ab"[model], "unit": unit, "question": question, "score": score}))
            log, truth = pd.concat(parts), float(np.mean(y[..., 0] - y[..., 1]))
            asked = {"by": "model", "item": "question", "groups": "unit" if each == 3 else None}
            size = {"unit": N} if each == 3 else N
            own = er.mean(log, **asked, target="the full benchmark", n_population=size).contrast("a - b")
            plain = er.mean(log, **asked).contrast("a - b")
            away = abs(plain.params.iloc[0] - truth)
            reach = (plain.conf_int().iloc[0, 1] - plain.params.iloc[0]) * np.sqrt(1 - min(n_a, n_b) / N)
            hits.append([holds(own, truth), away <= reach])
        held = dict(zip(("own factors", "one for all"), np.mean(hits, axis=0), strict=True))
        print(f"{name}:", shown(held), flush=True)


def answers(n_logs: int) -> None:
    """The same benchmarks with sampled answers, and with subjects of which unlike shares are drawn."""
    rng, G, m = np.random.default_rng(12), 160, 5
    passage = np.repeat(np.arange(G), m)
    subject = np.array(["algebra", "law", "history", "physics"])[np.searchsorted([20, 60, 100], passage, side="right")]
    drawn_of = {"algebra": 90, "law": 60, "history": 30, "physics": 240}
    worlds = [(share, how, k) for share in (0.9, 0.5, 0.1) for how in ("questions", "passages") for k in (2, 10)]
    for share, how, k in [*worlds, (0.5, "subjects", 1), (0.5, "subjects", 5)]:
        hits = []
        for _ in range(n_logs):
            ease = np.sqrt(0.4) * rng.normal(size=G)[passage] + np.sqrt(0.6) * rng.normal(size=G * m)
            rate = stats.norm.cdf(1.2 * ease + 0.6 * (subject == "law") - 0.6 * (subject == "physics") + 0.4)
            size: int | dict[str, int] = G * m
            if how == "passages":
                kept, size = np.isin(passage, rng.choice(G, int(G * share), replace=False)), {"passage": G}
            elif how == "questions":
                kept = np.isin(np.arange(G * m), rng.choice(G * m, int(G * m * share), replace=False))
            else:
                some = [rng.choice(np.flatnonzero(subject == name), n, replace=False) for name, n in drawn_of.items()]
                kept = np.isin(np.arange(G * m), np.concatenate(some))
                size = {name: int(np.sum(subject == name)) for name in drawn_of}
            question = np.repeat(np.flatnonzero(kept), k)
            score = (rng.random(question.size) < rate[question]).astype(float) if k > 1 else rate[question]
            log = pd.DataFrame({"score": score, "question": question, "answer": np.arange(question.size) % k})
            log = log.assign(passage=passage[question], subject=subject[question])
            asked = {"item": "question", **({"sample": "answer"} if k > 1 else {})}
            asked |= {"groups": "passage"} if how == "passages" else {}
            asked |= {"strata": "subject"} if how == "subjects" else {}
            found = [er.mean(log, **asked, target="the full benchmark", n_population=size)]
            if k > 1:
                means = log.groupby("question", as_index=False)[["score", "passage", "subject"]].agg("first")
                means["score"] = log.groupby("question")["score"].mean().to_numpy()
                asked.pop("sample")
                found.append(er.mean(means, **asked, target="the full benchmark", n_population=size))
            hits.append([holds(one, rate.mean()) for one in found])
        held = dict(zip(("with", "answers as they came"), np.mean(hits, axis=0), strict=False))
        print(f"{how}, {share:g}, {k} answers:", shown(held), flush=True)


def passages(n_logs: int) -> None:
    """Benchmarks of three subjects, of which so many passages of 1 to 20 questions are drawn whole."""
    rng, target = np.random.default_rng(13), "the full benchmark"
    subjects, means = np.array(["history", "law", "physics"]), np.array([0.9, 0.6, 0.3])
    worlds = {
        "3, 4 and 5 of 6, 20 and 50": ([3, 4, 5], [6, 20, 50]),
        "5 of 10 each": ([5, 5, 5], [10, 10, 10]),
        "10 of 12, 100 and 20": ([10, 10, 10], [12, 100, 20]),
        "30, 20 and 10 of 40 each": ([30, 20, 10], [40, 40, 40]),
        "all 8, 12 of 24, 20 of 200": ([8, 12, 20], [8, 24, 200]),
    }
    for (name, (drawn_of, sizes)), k in itertools.product(worlds.items(), (1, 3)):
        hits = []
        for _ in range(n_logs):
            of_passage = np.repeat(np.arange(3), sizes)
            many = np.minimum(rng.geometric(0.2, of_passage.size), 20)
            p = rng.beta(4 * means[of_passage], 4 * (1 - means[of_passage])).repeat(many)
            rate = p if k > 1 else (rng.random(p.size) < p).astype(float)
            passage = np.arange(of_passage.size).repeat(many)
            some = [rng.choice(np.flatnonzero(of_passage == s), n, replace=False) for s, n in enumerate(drawn_of)]
            question = np.flatnonzero(np.isin(passage, np.concatenate(some))).repeat(k)
            log = pd.DataFrame({"question": question, "answer": np.arange(question.size) % k})
            log = log.assign(passage=passage[question], subject=subjects[of_passage[passage[question]]])
            log["score"] = (rng.random(question.size) < rate[question]).astype(float)
            asked = {
                "strata": "subject",
                "groups": "passage",
                **({"item": "question", "sample": "answer"} if k > 1 else {}),
            }
            in_each = dict(zip(subjects.tolist(), sizes, strict=True))
            known = {s: int(many[of_passage == i].sum()) for i, s in enumerate(subjects)}
            with_size = {"target": target, "n_population": {"passage": in_each}}
            found = [er.mean(log, **asked, **with_size), er.mean(log, **asked, **with_size, strata_weights=known)]
            found.append(er.mean(log, **asked, strata_weights=known))
            hits.append([holds(one, rate.mean()) for one in found])
        held = dict(zip(("with", "and questions known", "without"), np.mean(hits, axis=0), strict=True))
        print(f"{name}, {k} answers:", shown(held), flush=True)


def joint(n_logs: int) -> None:
    """Four models that are equally good on passages that differ, each in its own way for each model."""
    hypotheses = np.hstack([np.eye(3), -np.ones((3, 1))])
    for G, sizes, scores in itertools.product((6, 12, 30), ("8 rows", "1 to 40"), ("normal", "0/1")):
        rng = np.random.default_rng(G)
        many = np.full(G, 8) if sizes == "8 rows" else np.geomspace(1, 40, G).round().astype(int)
        passage = np.arange(G).repeat(many)
        log = pd.DataFrame({"question": np.tile(np.arange(passage.size), 4), "passage": np.tile(passage, 4)})
        log["model"] = np.repeat(list("abcd"), passage.size)
        found = []
        for _ in range(n_logs):
            ease = rng.normal(size=G)[passage] + 0.6 * rng.normal(size=(4, G))[:, passage]
            score = ease + rng.normal(size=ease.shape)
            log["score"] = (score if scores == "normal" else (score < 0.7).astype(float)).ravel()
            means = er.mean(log, by="model", item="question", groups="passage")
            some = (means.wald_test(hypotheses), means.with_cov(cov="CR1").wald_test(hypotheses))
            found.append([float(test.pvalue) < 0.05 for test in some])
        held = dict(zip(("CR2, HTZ", "CR1, F(3, G - 1)"), np.mean(found, axis=0), strict=True))
        print(f"{G} passages, {sizes}, {scores}:", shown(held), flush=True)


def cluster_sums(
    rng: np.random.Generator, n_logs: int, sizes: np.ndarray, rho: float, scores: float | str
) -> ClusterSums:
    """Sums within clusters of many logs, a log a column: normal scores, or 0/1 with beta rates of mean `scores`."""
    shape, n = (n_logs, sizes.size), np.broadcast_to(sizes, (n_logs, sizes.size)).astype(float)
    if isinstance(scores, str):
        each = np.sqrt(1 - rho) * rng.standard_normal((*shape, sizes.max()))
        each += np.sqrt(rho) * rng.standard_normal(shape)[..., None]
        each *= np.arange(sizes.max()) < sizes[:, None]
        total, square = each.sum(axis=2), (each**2).sum(axis=2)
    else:
        a = (1 - rho) / rho
        total = rng.binomial(sizes, rng.beta(scores * a, (1 - scores) * a, shape)).astype(float)
        square = total.copy()
    mean = (total.sum(axis=1) / n.sum(axis=1))[:, None]
    square += n * mean**2 - 2 * mean * total
    column = np.repeat(np.arange(n_logs), sizes.size)
    return ClusterSums(column, n_logs, n.ravel(), (total - n * mean).ravel(), square.ravel())


def dependence(n_logs: int) -> None:
    """Intervals of an intraclass correlation, by clusters of 10 rows and of 2 to 40; logs without one apart."""
    rng = np.random.default_rng(5)
    for scores, rho in itertools.product(("normal", 0.7, 0.95), (0.02, 0.3, 0.7)):
        for G in (5, 10, 30, 100):
            unequal = np.geomspace(2, 40, G).round().astype(int)
            for name, sizes in (("10 rows", np.full(G, 10)), ("2 to 40", unequal)):
                found = []
                while len(found) < n_logs:
                    low, high = icc_interval(cluster_sums(rng, min(1000, n_logs), sizes, rho, scores), 0.05)
                    found += [*zip(low, high, strict=True)]
                low, high = np.array(found).T
                known = np.isfinite(low)
                held = np.mean((low <= rho)[known] & (rho <= high)[known])
                print(f"{scores}, {rho:g}, {G} of {name}:", shown({"held": held, "none": np.mean(~known)}), flush=True)


def within_questions(rng: np.random.Generator, G: int, m: int, r: int, unequal: bool) -> pd.DataFrame:
    """Two models on questions of passages; the effect of the model varies by passage and is 0 in the mean."""
    question = np.repeat(np.arange(G * m), r)
    passage, model = question // m, np.tile(np.arange(r) % 2, G * m)
    slope = 0.5 * rng.normal(size=G)[passage]
    score = 2 * rng.normal(size=G * m)[question] + slope * model + rng.normal(size=question.size)
    log = pd.DataFrame({"question": question, "passage": passage, "model": model, "score": score})
    return log[(passage < 2) | (rng.random(question.size) < 0.35)] if unequal else log


def absorbed(n_logs: int) -> None:
    """The effect of a model with questions absorbed, clustered by passage."""
    rng = np.random.default_rng(3)
    for G, m, r, unequal in ((10, 4, 2, False), (10, 4, 4, True), (20, 5, 2, False), (8, 5, 4, True)):
        hits = []
        for _ in range(n_logs):
            fitted = er.fit("score ~ model | question", within_questions(rng, G, m, r, unequal), groups="passage")
            found = {
                "CR2": fitted,
                "CR1": fitted.with_cov(cov="CR1"),
                "fixest": fitted.with_cov(cov="CR1", ssc="fixest"),
                "naive": fitted.with_cov(groups=None),
            }
            hits.append({name: holds(one, 0.0) for name, one in found.items()})
        size = "two of them far larger, " if unequal else ""
        print(f"{G} passages of {m}, {size}{r} rows:", shown(pd.DataFrame(hits).mean().to_dict()), flush=True)


def skewed(n_logs: int) -> None:
    """Coefficients of a lognormal number that all rows of a cluster share, and of one that varies within clusters."""
    for G in (200, 1000, 5000):
        rng, hits, shorter, dofs = np.random.default_rng(G), [], [], []
        for _ in range(n_logs):
            cluster = np.arange(G).repeat(rng.integers(1, 41, G))
            log = pd.DataFrame({"cluster": cluster, "shared": rng.lognormal(size=G)[cluster]})
            log["varied"] = rng.normal(size=cluster.size)
            log["score"] = rng.normal(size=G)[cluster] + rng.normal(size=cluster.size)
            cr2 = er.fit("score ~ shared + varied", log, groups="cluster")
            found = {"CR1": cr2.with_cov(cov="CR1"), "CR2": cr2}
            limits = {(name, x): one.conf_int().loc[x] for name, one in found.items() for x in ("shared", "varied")}
            hits.append({f"{name} {x}": low <= 0 <= high for (name, x), (low, high) in limits.items()})
            shorter.append(1 - found["CR1"].bse / cr2.bse)
            dofs.append(cr2.dof["shared"])
        print(f"{G} clusters:", shown(pd.DataFrame(hits).mean().to_dict()))
        for x in ("shared", "varied"):
            share = shown(np.quantile([one[x] for one in shorter], [0.5, 0.95]))
            print(f"  {x}: CR1 errors below CR2 by, median and 95%: {share}")
        print("  dof of shared, 5%, median and 95%:", shown(np.quantile(dofs, [0.05, 0.5, 0.95])), flush=True)


def lost(n_logs: int) -> None:
    """Two weak and equal models against three strong ones: their difference at 5%, and one against a strong one."""
    worlds: tuple[tuple[int, float, int, float, str], ...] = (
        (10, 0.1, 0, 0.0, "as_sampled"),
        (20, 0.05, 0, 0.0, "as_sampled"),
        (20, 0.05, 0, 0.0, "uniform"),
        (40, 0.02, 0, 0.0, "as_sampled"),
        (100, 0.01, 0, 0.0, "as_sampled"),
        (20, 0.05, 2, 0.7, "as_sampled"),
        (20, 0.05, 3, 0.5, "as_sampled"),
        (20, 0.05, 3, 1.5, "as_sampled"),
        (20, 0.05, 5, 1.0, "as_sampled"),
    )
    names = np.array([f"model {i}" for i in range(5)])
    C = np.array([[0, 0, 0, 1, -1], [1, 0, 0, -1, 0]], dtype=float)
    for prompts, rate, judges, sd, opponents in worlds:
        rng, found, lost_all = np.random.default_rng(prompts), [], []
        for _ in range(n_logs):
            prompt = np.repeat(np.arange(prompts), 8)
            left, right = rng.integers(3, size=prompt.size), rng.integers(5, size=prompt.size)
            judge, taste = rng.integers(max(judges, 1), size=prompt.size), rng.normal(0, 0.7, (prompts, 5))
            severe = rng.normal(0, sd, (max(judges, 1), 5))
            odds = np.where(right > 2, np.log(1 / rate - 1), 0.0) + taste[prompt, left] - taste[prompt, right]
            odds += severe[judge, left] - severe[judge, right]
            log = pd.DataFrame({"left": names[left], "right": names[right], "prompt": prompt, "judge": judge})
            log["winner"] = np.where(rng.random(prompt.size) < 1 / (1 + np.exp(-odds)), "left", "right")
            sides = {"left": "left", "right": "right", "winner": "winner"}
            groups = "prompt + judge" if judges else "prompt"
            board = er.win_rate(log[left != right], **sides, groups=groups, opponents=opponents)
            effect = C @ board.params.to_numpy()
            p = [cov.pvalues(C, effect) for cov in (replace(board.cov, ends=None), board.cov)]
            ends = board.cov.limits(effect, C)[0]
            found.append([*(np.array(p) < 0.05).T.ravel(), ends[1] - ends[0]])
            lost_all.append(board.params.to_numpy()[3:] == 0)
        table, zero = np.array(found), np.array(lost_all)
        one, first = zero.sum(axis=1) == 1, zero[:, 0]
        world = f"{prompts} prompts, rate {rate:g}, {judges} judges ({sd:g}), {opponents}"
        print(f"{world}; one lost all in {one.sum()} of {len(zero)} logs")
        print("  equal models told apart, without and with:", np.mean(table[:, :2], axis=0), end=", ")
        print("where one lost all:", np.mean(table[one, :2], axis=0).round(3))
        print("  strong from one that lost all:", np.mean(table[first, 2:4], axis=0).round(3), end=", ")
        print("that did not:", np.mean(table[~first, 3]).round(3), end="; width: ")
        print(np.mean(table[one, 4]).round(3), "where one lost all,", np.mean(table[~zero.any(axis=1), 4]).round(3))


def lots(n_logs: int) -> None:
    """Lognormal clusters assigned by lot; the effect is 0 for every row, or in the mean with scatter times 3."""
    rng = np.random.default_rng(1)
    for (G, treated), scatter in itertools.product(((6, 3), (10, 5), (10, 3), (20, 10), (20, 5)), (1.0, 3.0)):
        rejected = []
        for seed in range(n_logs):
            sizes = np.maximum(2, np.exp(rng.normal(2.3, 0.9, G)).round()).astype(int)
            chosen = np.zeros(G, dtype=bool)
            chosen[rng.permutation(G)[:treated]] = True
            cluster = np.repeat(np.arange(G), sizes)
            each = np.sqrt(0.3) * rng.normal(size=G)[cluster] + np.sqrt(0.7) * rng.normal(size=cluster.size)
            score = each * np.where(chosen, scatter, 1.0)[cluster]
            log = pd.DataFrame({"cluster": cluster, "prompt": chosen[cluster].astype(int), "score": score})
            asked = {"treatment": "prompt", "groups": "cluster", "draws": 999, "seed": seed}
            found = {name: er.randomisation_test(log, statistic=name, **asked) for name in ("t", "difference")}
            p = {name: test.p_value for name, test in found.items()}
            p["CR1"] = 2 * stats.t.sf(abs(found["t"].t), G - 2)
            rejected.append({name: value <= 0.05 for name, value in p.items()})
        print(f"{G}, {treated}, scatter {scatter:g}:", shown(pd.DataFrame(rejected).mean().to_dict()), flush=True)


def suites(rng: np.random.Generator, k: int, world: str, n_logs: int) -> tuple[np.ndarray, ...]:
    """Scores, errors and true scores of k tasks, sizes, the mean of all tasks, and true scores of one task more."""
    n = np.resize([30, 60, 120, 500, 2000], k)[:, None]
    if world == "skewed":
        truth, new, mu = rng.beta(9, 1, (k, n_logs)), rng.beta(9, 1, n_logs), 0.9
    else:
        tau, mu = {"0.1": 0.1, "0.03": 0.03, "0": 0.0, "0.1, hard tasks larger": 0.1}[world], 0.6
        truth = np.clip(mu + tau * rng.standard_normal((k, n_logs)), 0.01, 0.99)
        new = np.clip(mu + tau * rng.standard_normal(n_logs), 0.01, 0.99)
    if "larger" in world:
        n = np.clip(200 * np.exp(-8 * (truth - mu)), 20, 3000).astype(int)
    solved = rng.binomial(np.broadcast_to(n, truth.shape), truth)
    score, added = solved / n, (solved + 1) / (n + 2)
    se = np.sqrt(score * (1 - score) / n)
    few = (solved < 5) | (n - solved < 5)
    return score, np.where(few, np.maximum(se, np.sqrt(added * (1 - added) / n)), se), truth, n, np.array(mu), new


def evals(n_logs: int) -> None:
    """Averages of tasks of 30 to 2,000 questions."""
    rng = np.random.default_rng(1)
    for world, k in itertools.product(("0.1", "0.03", "0", "skewed", "0.1, hard tasks larger"), (2, 5, 10, 30)):
        score, se, truth, n, mu, new = suites(rng, k, world, n_logs)

        def held(found: Averaged, target: np.ndarray, error: str = "se") -> float:
            half = t_quantile(0.05, found.dof) * getattr(found, error)
            return float(np.mean(np.abs(found.estimate - target) <= half))

        alike, precise = drawn_alike(score, se), drawn(score, se)
        fixed = weighted(score, se, np.broadcast_to(n - 1.0, score.shape), np.full(k, 1 / k))
        said = {
            "drawn": held(alike, mu),
            "new task": held(alike, new, "new_se"),
            "precision": held(precise, mu),
            "its new task": held(precise, new, "new_se"),
            "fixed": held(fixed, truth.mean(axis=0)),
            "fixed, of all tasks": held(fixed, mu),
        }
        print(f"{world}, {k} tasks:", shown(said), flush=True)


def ends(n_logs: int) -> None:
    """Averages of fixed evals with true scores near 1."""
    rng = np.random.default_rng(1)

    @functools.cache
    def scored(place: int, n: int, solved: int) -> Any:
        score = [1.0] * solved + [0.0] * (n - solved)
        log = pd.DataFrame({"model": "a", "item": [f"{place}-{i}" for i in range(n)], "score": score})
        # Evals that are alike throughout are refused: each has a second model of its own.
        return er.mean(pd.concat([log, log.assign(model=f"b{place}")]), by="model", item="item")

    @functools.cache
    def interval(found: tuple[tuple[int, int], ...]) -> tuple[float, float]:
        parts = {str(place): scored(place, *one) for place, one in enumerate(found)}
        table = er.join_evals(parts).average(models=["a"]).to_frame()
        return float(table["lower"].iloc[0]), float(table["upper"].iloc[0])

    alike = itertools.product((3, 5, 8), (50, 150, 500), (0.97, 0.985, 0.995))
    worlds = [([n] * k, [truth] * k) for k, n, truth in alike]
    for sizes, truths in [*worlds, ([50, 150, 500], [0.97, 0.99, 1.0])]:
        solved = rng.binomial(sizes, truths, (n_logs, len(sizes)))
        low, high = np.array([interval(tuple(sorted(zip(sizes, row, strict=True)))) for row in solved.tolist()]).T
        held = (low <= np.mean(truths)) & (np.mean(truths) <= high)
        said = {"fixed": held.mean(), "end at 1": (high >= 1).mean()}
        print(f"{len(sizes)} of {sizes[0]} to {sizes[-1]}, true {truths[0]} to {truths[-1]}:", shown(said), flush=True)


TABLES: dict[str, tuple[Callable[[int], None], int]] = {
    "rows": (rows, 20_000),
    "population": (population, 1000),
    "samples": (samples, 400),
    "answers": (answers, 1000),
    "passages": (passages, 1000),
    "joint": (joint, 1000),
    "dependence": (dependence, 4000),
    "absorbed": (absorbed, 500),
    "skewed": (skewed, 1000),
    "lost": (lost, 400),
    "lots": (lots, 2000),
    "evals": (evals, 8000),
    "ends": (ends, 4000),
}


def run(tables: dict[str, tuple[Callable[[int], None], int]], what: str) -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(tables))
    parser.add_argument("--logs", type=int, help="logs of each world; as many as the guide has by default")
    options = parser.parse_args()
    if unknown := set(options.names) - set(tables):
        parser.error(f"no table of the name {', '.join(sorted(unknown))}; there are {', '.join(tables)}")
    warnings.simplefilter("ignore")
    for name in options.names or tables:
        table, n_logs = tables[name]
        print(f"\n{name}: {table.__doc__}")
        table(options.logs or n_logs)


if __name__ == "__main__":
    run(TABLES, __doc__)
