"""What is refused: each call, the class of its error, and what the error says of column, rows and count.

The table is text, so that a reader sees calls as one writes them. Every one is made of a frame of pandas, of polars and
of an engine: the class is the same, unless rows that stay in an engine are refused for that.
"""

from __future__ import annotations

import inspect
import math
import re
import warnings
from typing import Any

import frames
import numpy as np
import pandas as pd
import polars as pl
import pytest
from engines.lazy import LAZY
from frames import DUELS, LOG, PLAYERS, SCORES, VERDICTS, with_value

import evalreg as er
from evalreg import errors
from evalreg.checks import muted


def shares(value: Any, index: list[str] | None = None, columns: list[str] | None = None) -> pd.DataFrame:
    """A table of weights of opponents."""
    return pd.DataFrame(value, index=index or PLAYERS, columns=columns or PLAYERS)


def words_of(make: Any) -> dict[str, Any]:
    """The words of the calls, with frames as an engine holds them."""
    stranger = DUELS[(DUELS["lang"] == "en") | ((DUELS["left"] != "dan") & (DUELS["right"] != "dan"))]
    called = lambda name: DUELS.replace({"left": {"ada": name}, "right": {"ada": name}})  # noqa: E731
    return {
        **vars(frames),
        "er": er,
        "pl": pl,
        "shares": shares,
        "sides": VERDICTS,
        "scores": SCORES,
        "log": make(LOG),
        "log_of": lambda n: make(LOG[:n]),
        "put": lambda **columns: make(LOG.assign(**columns)),
        "at": lambda *where, **more: make(with_value(LOG, *where, **more)),
        "ratings": make(LOG.assign(score=np.arange(40) % 10 + 1)),
        "doubled": make(pd.concat([LOG.assign(run=1)] * 2, ignore_index=True)),
        "means": er.mean(LOG, by="model", groups="passage"),
        "crossed_means": er.mean(LOG, by="model", groups="passage + judge"),
        "fitted": er.fit("score ~ x + C(judge)", LOG, groups="passage"),
        "duels": lambda **columns: make(DUELS.assign(**columns)),
        "duels_of": lambda n: make(DUELS[:n]),
        "duels_at": lambda *where: make(with_value(DUELS, *where)),
        "said": lambda **words: make(DUELS.assign(winner=DUELS["winner"].replace(words))),
        "called": lambda name: make(called(name)),
        "stranger": make(stranger.reset_index(drop=True)),
        "repeated": make(pd.concat([DUELS, DUELS.iloc[[3, 7]]], ignore_index=True)),
        "twice": pd.concat([LOG, LOG[["score"]]], axis=1),
    }


REFUSED = {
    "MissingColumnError": """
        er.fit("scor ~ 1", log)  # column="scor"
        er.fit("score ~ C(modle)", log)  # column="modle"
        er.fit("score ~ x", log, groups="pasage")  # column="pasage"
        er.mean(log, groups="passage + jugde")  # column="jugde"
        er.mean(log, groups="passage:jugde")  # column="jugde"
        er.mean(log, groups=["passage", "jugde"])  # column="jugde"
        er.mean(log).with_cov(groups="pasage")  # column="pasage"
        er.mean(log, "scor")  # column="scor"
        er.mean(log, "grade")  # column="grade"
        er.mean(log, by="modle")  # column="modle"
        er.mean(log, by="model", item="qestion")  # column="qestion"
        er.mean(log, item="question", sample="anwser")  # column="anwser"
        er.mean(log, strata="subjet")  # column="subjet"
        er.mean(log, weights="W")  # column="W"
        er.fit("score ~ Q('no such')", log)  # column="no such"
        er.ratio(log, "x", "ww")  # column="ww"
        er.quantile(log, "scor")  # column="scor"
        er.compare(log, model="modle", item="answer")  # column="modle"
        er.pass_at_k(log, k=1, item="question", sample="anwser")  # column="anwser"
        er.mean(log, groups="passage").influence("pasage")  # column="pasage"
        er.mean(log).gate("zz > 0")  # column="zz"
        fitted.contrast("Intercpt - x")  # column="Intercpt"
        fitted.t_test("x - C(judge)[T.j7]")  # column="C(judge)[T.j7]"
        fitted.wald_test({"Intercpt": 1})  # column="Intercpt"
        fitted.contrast({"zzz": 1})  # column="zzz"
        fitted.gate("zzz > 0")  # column="zzz"
        er.win_rate(duels(), **sides, key=["prompt", "judg"])  # column="judg"
        er.win_rate(duels(), **sides | {"left": "lft"})  # column="lft"
        er.win_rate(duels(), **sides, by="langs")  # column="langs"
        er.bradley_terry(duels(), **sides, reference="eve")
        er.bradley_terry(duels(), **scores, formula="length")  # column="length"
        er.fit("score ~ x | questoin", log)  # column="questoin"
        er.bootstrap(LOG, np.size, groups="passages")  # column="passages"
        fitted.wild_test({"z": 1})  # column="z"
        er.compare(log, item="question", sample="answer", baseline="alfa")  # column="model"
        fitted.avg_comparisons({"judge": ("j0", "j9")})  # column="judge"
        fitted.avg_comparisons("weight")  # column="weight"
        fitted.predict(LOG[["w"]])  # column="x"
        er.components(LOG, facets="question x jduge")  # column="jduge"
        er.frontier(log, {"score": "max", "usd": "min"})  # column="usd"
        er.horizon(LOG, success="score", minutes="hours", model="model")  # column="hours"
        er.panel(LOG, judges=["score", "rate"], human="x")  # column="rate"
        er.mean(log, over="subjects", item="question")  # column="subjects"
        er.plan.components(LOG, "score", item="question")  # column="sample"
        er.rectified_mean(put(human=LOG["score"]), judge="rated", human="human")  # column="rated"
        er.rectified_win_rate(duels(), left="left", right="right", judge="score", human="human")  # column="human"
        er.classification(log, truth="score", predicted="gues")  # column="gues"
        er.confidence_sequence(LOG, "scor", groups="passage")  # column="scor"
        er.wins(log)  # column="item"
        er.wins(log, model="modell", item="answer")  # column="modell"
        er.win_rate(duels(), **sides | {"groups": "prompt + judge"}).judges("judg")  # column="judg"
        er.summarise(log, "scor", groups="passage")  # column="scor"
    """,
    "ArgumentTypeError": """
        er.compare(log, item=None)
        means.gate(0.9)
        er.mean(log, by=5)
        er.mean(log, 5)
        er.mean(log, item=["question"])
        er.mean(log, groups=pd.MultiIndex.from_frame(LOG[["passage", "judge"]]))
        er.mean(log, groups=np.zeros((40, 2)))
        er.mean(log, groups=5)
        er.mean(put(id=2.0**53 + np.arange(40)), groups="id")  # column="id"
        er.mean(log, groups={"passage"})
        er.mean(log, groups={"a": "passage"})
        er.mean(log, weights=np.ones((40, 2)))
        er.mean(log, weights=5)
        er.mean(log, groups=[LOG["passage"], LOG["judge"]])
        er.fit(log, "score ~ 1")
        er.fit("score ~ 1", np.ones((3, 2)))
        er.mean(LOG["score"])
        er.mean("log.csv")
        er.covariance(er.mean(log), "passage")
        er.mean(log, alpha=0.1)
        er.mean(log, startaa="x")
        er.fit("score ~ 1", log, by="model")
        er.fit("score ~ 1", log, cluster="passage")
        er.fit("score ~ 1", log, vcov="iid")
        er.win_rate(duels(), **sides, labels=["left"])
        er.win_rate(duels(), **sides | {"left": None})
        er.win_rate(duels(), **sides, opponents=np.ones((4, 4)))
        er.win_rate(duels(), **sides, opponents=shares("x"))
        er.win_rate(duels(), **sides, by="lang", standardise=[1, 2])
        er.win_rate(duels(), **sides, by="lang", standardise={"de": "half", "en": 1})
        er.mean(log, strata="subject", strata_weights={"law": "x", "math": 1.0})
        er.bootstrap(LOG, np.size, groups="passage", draws="many")
        er.bootstrap(LOG, np.size, groups="passage", seed=None)
        fitted.wild_test(draws=99.5)
        er.compare(log, item="question", sample="answer", paired="no")
        er.pass_at_k(put(run=np.arange(40)), k=1.5, item="question", sample="run")
        er.plan.labels(prevalence=0.2, sensitivity="high", specificity=0.9, n=100)
        er.plan.separate({}, "new", "old")
        means.simultaneous(seed="x")
        er.from_influence([0.5], ["a"] * 40)
        er.summarise(log, "score", groups=None)
        er.rank_sets(np.array([1j, 1.0]), np.eye(2))
        er.rank_sets([1.0, 2.0], np.eye(2) * (1 + 1j))
        er.from_influence([1.0], (np.arange(40) - 19.5 + 0j)[:, None])
        er.bootstrap(LOG, lambda rows: rows["score"].mean() + 1j, groups="passage")
    """,
    "ArgumentError": """
        er.plan.gate(score=0.9, n=10**30, margin=0.03)
        er.plan.labels(prevalence=0.5, sensitivity=0.9, specificity=0.9, n=10**30)
        er.bootstrap(LOG, np.size, groups="passage", draws=10**30)
        er.compare(log, item="question", sample="answer").wild_test(10**400)
        means.transform(lambda p: p * 1j)
        means.transform(lambda p: p, derivative=np.eye(2) * (1 + 1j))
        means.t_test(np.array([1j, 1.0]))
        means.cov.variance(np.array([1j, 1.0]))
        er.mean(log, by=["model", "model"])  # column="model"
        er.ability(LOG.assign(left=LOG["passage"]), item="question", groups="left")  # column="left"
        means.gate("alpha > 0.5", alpha=0.4)
        er.mean(log, by="question", item="question")  # column="question"
        er.mean(twice)
        er.mean(pl.from_pandas(LOG).to_arrow().append_column("score", [[0.0] * 40]))
        er.quantile(log, "x", 1.5)
        er.mean(log, groups="")
        er.mean(log, groups={})
        er.mean(log, groups="passage +")
        er.mean(log, groups="`passage")
        er.mean(log, groups="passage + passage")
        er.mean(log, groups="passage:judge + judge:passage")
        er.mean(log, groups="passage:passage")
        er.mean(log, groups="passage", cov="stata")
        er.mean(log, dof=-1)
        er.mean(log, dof=True)
        er.mean(log, groups="passage", cov="CR2", ssc="G")
        er.fit("score ~ x", log, cov="CR2")
        er.mean(log, dof="satterthwaite")
        er.mean(log, groups="passage + judge", cov="jackknife", repair="eigen")
        er.mean(log).conf_int(0)
        fitted.t_test([[1, 0, 0, 0], [1]])
        er.mean(log, weights=np.r_[-1.0, -2.0, np.ones(38)])  # column="weights", rows=[0, 1], count=2
        er.fit("score ~ x", log, weights=np.r_[0.0, np.ones(39)])  # column="weights", rows=[0], count=1
        er.fit("score ~ x", put(w=0.0), weights="w")  # column="w", rows=[0, 1, 2, 3, 4], count=40
        er.mean(log, sample="answer")
        er.mean(log, strata="subject", strata_weights={"law": 1.0, "math": 1.0, "art": 1.0})
        er.mean(log, strata="subject", strata_weights={"law": 1.0})
        er.mean(log, strata="subject", strata_weights={"law": -1.0, "math": 1.0})
        er.mean(log, strata="subject", strata_weights="equal")
        er.mean(log, strata_weights="macro")
        fitted.t_test([0, 0, 0, 0])
        fitted.contrast({"x": 0})
        fitted.wald_test({})
        fitted.contrast([1, 0])
        fitted.contrast(np.ones((1, 1, 4)))
        fitted.t_test({"x": "a"})
        fitted.contrast(["x", "Intercept"])
        fitted.wald_test([0, np.inf, 0, 0])
        fitted.contrast(None)
        fitted.contrast("x = 3")
        fitted.t_test(0.3)
        fitted.wald_test("x = 0, 2 * x = 0")
        fitted.equivalence(margin=0)
        fitted.equivalence(margin=(0.1, 0.2))
        fitted.bootstrap(draws=0)
        er.win_rate(duels(), **sides, labels={"tie": "Tie"})
        er.win_rate(duels(), **sides, labels={"left": 1, "right": 0})
        er.win_rate(duels(), **sides, labels={"left": "left", "right": "left"})
        er.win_rate(duels_at("winner", TIES, None), **sides, labels={"left": "left", None: "tie"})
        er.win_rate(duels(), **scores, labels={"A": "left"})
        er.win_rate(duels(), **sides, score="score")
        er.win_rate(duels(), left="left", right="right")
        er.win_rate(duels(), **sides | {"right": "left"})  # column="left"
        er.win_rate(duels_at("weight", [3], 0.0), **sides, weights="weight")  # column="weight", rows=[3], count=1
        er.win_rate(duels(), **sides, opponents="Uniform")
        er.win_rate(duels(), **sides, opponents=shares(1.0, columns=["ada", "bobby", "cyd", "dan"]))  # count=1
        er.win_rate(duels(), **sides, opponents=shares(1.0, index=["ada", "bob"]))  # count=2
        er.win_rate(duels(), **sides, opponents=shares(1.0, index=[*PLAYERS, "cyd"]))  # count=1
        er.win_rate(duels(), **sides, opponents=shares(-0.5))  # count=12
        er.win_rate(duels(), **sides, opponents=shares(np.nan))  # count=12
        er.win_rate(duels(), **sides, opponents=shares(0.0))  # count=4
        er.win_rate(duels(), **sides, by="lang", opponents="as_sampled")
        er.win_rate(duels(), **sides, standardise="uniform")
        er.win_rate(duels(), **sides, by="lang", standardise={"de": 1, "en": 1, "fr": 1})
        er.win_rate(duels(), **sides, by="lang", standardise={"de": 1})
        er.win_rate(duels(), **sides, by="lang", standardise={"de": -1, "en": 2})
        er.bradley_terry(duels(score=0.5), **scores, ties="davidson")  # count=120
        er.win_rate(duels(), **sides | {"groups": "prompt + judge"}, alike="judge", cov="CR1")
        er.win_rate(duels(), **sides | {"groups": None}, alike="judge")
        means.contrast([[1.0, -1.0]], ["a", "b"])
        means.stack(er.mean(LOG[:20], groups="passage"))
        er.bootstrap(LOG, np.size, groups="passage", kind="BCa")
        er.bootstrap(LOG, np.size, groups="passage", draws=38)  # count=38
        er.mean(log).bootstrap()
        fitted.wild_test(seed=-1)
        er.fit("score ~ x", LOG).wild_test()
        er.fit("score ~ x", LOG, groups="judge").wild_test(np.eye(2)[[0, 1, 1]])
        er.compare(log, item="question", sample="question")  # column="question"
        er.compare(log, item="question", sample="answer", cov="HC1")
        fitted.avg_comparisons({"x": 0})
        fitted.avg_slopes(["x", "x"])
        er.mean(ratings, icc=0.9)
        er.compare(ratings, item="question", sample="answer", icc=0.9)
        fitted.avg_predictions(variables="x")
        er.components(LOG, facets="question x question")
        er.components(LOG, facets="judge:question")
        er.frontier(log, {"score": "max"})
        er.frontier(log, {"score": "max", "w": ["low"]})
        er.horizon(LOG, success="score", minutes="w", model="model", p=0.0)
        er.panel(LOG, judges=["score"], human="score")
        er.panel(LOG, judges=["score", "score"], human="x")  # column="score"
        er.noise(LOG, passes="answer")
        er.mean(log, over="subject")
        er.mean(log, over="subject", item="question", target="the full benchmark")
        er.mean(log, q=0.5)
        er.pass_at_k(put(run=np.arange(40)), k=[2, 2], item="question", sample="run")
        er.pass_at_k(put(run=np.arange(40)), k=[], item="question", sample="run")
        er.pass_at_k(put(run=np.arange(40)), k=0, item="question", sample="run")
        er.plan.sample_size(delta=0, omega2=0.1)
        fitted.cov.variance(np.eye(3))
        er.plan.sample_size(delta=1e-200, omega2=0.1)
        er.plan.sample_size(delta=0.03, omega2=-0.1)
        er.plan.sample_size(delta=0.03, omega2=0.1, cluster_size=0.5)
        er.plan.mde(n=1, omega2=0.1)
        er.plan.power(delta=0.1, omega2=0.1, cluster_sizes=[5, 5], icc=0.5, draws=0)
        er.plan.answers(delta=0.1, omega2=0.1, sigma2_a=0.1, sigma2_b=0.1, cost_question=-1, cost_a=1, cost_b=1)
        er.plan.gate(score=1.2, n=10, margin=0.1)
        er.plan.from_pilot(means, delta=0.05)
        er.plan.from_pilot(LOG, delta=0.05)
        er.plan.from_pilot(means.contrast("alpha - beta"), delta=0.05, k_a=3)
        er.plan.from_pilot(means.contrast("alpha - beta"), delta=0.05, assurance=1.0)
        er.plan.components(LOG, "score", model=None, item="question", sample="answer", baseline="alpha")
        er.plan.separate(crossed_means, "alpha")
        er.plan.separate(crossed_means, "alpha", "nobody")
        er.plan.separate(crossed_means, "alpha", "beta", judges=[1])
        er.plan.separate(crossed_means, "alpha", "beta", judge="rater")
        er.plan.separate(crossed_means.with_cov(cov="CR1"), "alpha", "beta")
        er.posterior(er.mean(log, groups="passage"), prior=(0, 1))
        er.posterior(er.mean(log, groups="passage"), prior=3)
        er.randomisation_test(LOG, "score", treatment="judge", groups="passage")
        means.pairwise(adjust="tukey")
        er.mean(log).winner()
        er.classification(log, truth="score", predicted="score", average="median")
        er.confidence_sequence(LOG, "score", groups="passage", t0=0)
        er.sign_test(-1, 2)
        er.mean(log, target="the full benchmark")
        er.mean(log, n_population=400)
        er.mean(log, target="the full benchmark", n_population=40)
        er.mean(log, groups="passage", target="the full benchmark", n_population={"passage": 5})
        er.win_rate(duels(), **sides | {"groups": "prompt + judge"}).judges(min_shared=0)
        er.from_influence([0.5], np.ones((40, 2)))
        er.from_influence([], np.ones((40, 0)))
        er.fit("score ~ x", log, groups="passage").t_test("x = 1e400")
    """,
    "DataError": """
        er.mean(put(left=["a:b", "a"] * 20, right=["c", "b:c"] * 20), by=["left", "right"], item="answer")  # count=1
        er.components(LOG.assign(judge=np.arange(40)), facets="judge")  # column="judge"
        er.components(LOG.assign(score=0.7), facets="question")  # column="score"
        er.horizon(LOG.assign(w=2.0), success="score", minutes="w", model="model")  # column="model", count=1
        er.panel(LOG.assign(a=LOG["x"] + 0.1), judges=["score", "a"], human="x")  # column="a", count=1
        er.components(LOG[:3].assign(question=range(3), judge=range(3)), facets="question x judge:question")  # count=1
        er.fit("score ~ x + w + C(judge)", log_of(3))  # count=3
        er.classification(log, truth="score", predicted="x")  # column="x"
        er.pass_at_k(put(run=np.arange(40)), k=3, item="question", sample="run")  # column="score", count=20
        er.mean(put(half=["first"] * 20 + ["second"] * 20), by="model", strata="half", strata_weights="macro")  #
            count=1
        er.mean(LOG.assign(name=pd.Series([1, "1"] * 20, dtype=object)), by="name", item="answer")  # column="name",
            count=1
        er.compare(log_of(20), item="answer")  # column="model", count=1
        er.win_rate(called("left"), **sides)  # column="winner", count=1
        er.win_rate(called("tie"), **sides)  # column="winner", count=1
        er.win_rate(duels(left=DUELS["left"].map({"ada": 0, "bob": 1, "cyd": 2, "dan": 3})), **scores)  # column="right"
        er.win_rate(stranger, **sides, by="lang", standardise="uniform")  # count=1
        er.randomisation_test(LOG, "score", treatment="model", groups="passage")  # column="model", count=10
        er.from_influence([0.5], np.ones((40, 1)))  # column="theta0"
    """,
    "EmptyDataError": """
        er.mean(log_of(0))
        er.fit("score ~ x", log_of(0))
        er.mean(put(score=np.nan))  # count=40
        er.fit("score ~ x", at("score", range(20), np.nan, passage=(range(30, 40), None), x=(range(20, 30), np.nan)),
            groups="passage")  # count=40
        er.rectified_mean(put(human=np.nan), judge="score", human="human")  # column="human", count=0
        er.win_rate(duels_of(0), **sides)
        er.win_rate(duels(winner=None), **sides)  # count=120
        er.fit("score ~ x | answer", log)  # count=40
    """,
    "TooFewClustersError": """
        er.mean(put(passage="only"), groups="passage")  # column="passage", count=1
        er.fit("score ~ 1", put(passage="only"), groups="passage")  # column="passage", count=1
        er.fit("score ~ x", put(passage="only"), groups="passage", cov="CR0")  # column="passage", count=1
        er.mean(put(passage="only")).with_cov(groups="passage")  # column="passage", count=1
        er.mean(put(judge="only"), groups="question + judge")  # column="judge", count=1
        er.fit("score ~ x", put(judge="only"), groups="judge + question")  # column="judge", count=1
        er.mean(put(judge="only"), groups="passage + judge + model")  # column="judge", count=1
        er.mean(put(passage=np.where(LOG["subject"] == "law", "only", LOG["passage"])), strata="subject",
            groups="passage")  # column="passage", count=1
        er.mean(put(subject=["rare", *["law"] * 39]), strata="subject")  # count=1
        er.win_rate(duels(judge="j0"), **sides | {"groups": "prompt + judge"})  # column="judge", count=1
        er.win_rate(duels(prompt="p0"), **sides)  # column="prompt", count=1
    """,
    "NonFiniteError": """
        er.mean(at("score", [3, 5], np.inf))  # column="score", rows=[3, 5], count=2
        er.fit("score ~ 1", at("score", [3, 5], np.inf))  # column="score", rows=[3, 5], count=2
        er.fit("score ~ x", at("score", [3, 5], -np.inf))  # column="score", rows=[3, 5], count=2
        er.mean(at("score", [3, 5], np.nan), missing="raise")  # column="score", rows=[3, 5], count=2
        er.fit("score ~ 1", at("score", [3, 5], np.nan), missing="raise")  # column="score", rows=[3, 5], count=2
        er.fit("score ~ x", at("x", [7], np.nan), missing="raise")  # column="x", rows=[7], count=1
        er.mean(at("passage", [7], None), groups="passage", missing="raise")  # column="passage", rows=[7], count=1
        er.mean(at("w", [7], np.nan), weights="w", missing="raise")  # column="w", rows=[7], count=1
        er.mean(at("model", [7], None), by="model", item="answer", missing="raise")  # column="model", rows=[7], count=1
        er.fit("score ~ x", at("x", [3], np.inf))  # column="x", rows=[3], count=1
        er.fit("score ~ x", at("x", [3], -np.inf), family="binomial")  # column="x", rows=[3], count=1
        er.fit("score ~ np.log(x)", log)  # column="np.log(x)", rows=[1, 4, 5, 6, 7], count=21
        er.fit("score ~ np.log(x)", log, family="binomial")  # column="np.log(x)", rows=[1, 4, 5, 6, 7], count=21
        er.fit("score ~ np.log(score)", log)  # column="np.log(score)", rows=[0, 4, 5, 8, 9], count=22
        er.fit("np.log(x) ~ w", log)  # column="np.log(x)", rows=[1, 4, 5, 6, 7], count=21
        er.fit("w ~ I(1 / score)", log)  # column="I(1 / score)", rows=[0, 4, 5, 8, 9], count=22
        er.mean(log, weights=np.r_[np.inf, np.ones(39)])  # column="weights", rows=[0], count=1
        er.fit("score ~ x", at("w", [0], np.inf), weights="w")  # column="w", rows=[0], count=1
        er.win_rate(with_value(DUELS, "score", [4], np.inf), **scores)  # column="score", rows=[4], count=1
        er.win_rate(duels_at("winner", [2], None), **sides, missing="raise")  # column="winner", rows=[2], count=1
        er.win_rate(duels_at("right", [2, 6], None), **sides, missing="raise")  # column="right", rows=[2, 6], count=2
        er.win_rate(duels_at("weight", [5], np.nan), **sides, weights="weight", missing="raise")  # column="weight",
            rows=[5], count=1
    """,
    "MissingLabelsError": """
        er.mean(at("passage", [1, 2], None)).with_cov(groups="passage")  # column="passage", rows=[1, 2], count=2
        er.fit("score ~ x", at("passage", [1, 2], None)).with_cov(groups="passage")  # column="passage", rows=[1, 2],
            count=2
        er.bootstrap(at("passage", [3], None), np.size, groups="passage")  # column="passage", rows=[3], count=1
    """,
    "NonNumericError": """
        er.mean(put(score="good"))  # column="score", rows=[0, 1, 2, 3, 4], count=40
        er.mean(pl.DataFrame({"score": [{"a": 1.0}, {"a": 0.0}]}))  # column="score", rows=[0, 1], count=2
        er.fit("score ~ x", put(score=LOG["score"].astype(int).astype(str)))  # column="score", rows=[0, 1, 2, 3, 4],
            count=40
        er.mean(put(score=pd.Timestamp("2024-01-01")))  # column="score", rows=[0, 1, 2, 3, 4], count=40
        er.mean(log, weights=np.array(["a"] * 40))  # column="weights"
        er.win_rate(duels(score=DUELS["winner"]), **scores)  # column="score", rows=[0, 1, 2, 3, 4], count=120
        er.judge_corrected(LOG, judge="score", human="subject", calibration=LOG)  # column="subject", rows=[0, 1, 2, 3,
            4], count=40
        er.rectified_mean(put(human=LOG["score"], rated="x"), judge="rated", human="human")  # column="rated", rows=[0,
            1, 2, 3, 4], count=40
        er.fit("score ~ v", LOG.assign(v=pd.Series(["none" if i in (3, 9) else i for i in range(40)], dtype=object)))  #
            column="v", rows=[3, 9], count=2
    """,
    "ConstantScoreError": """
        er.mean(put(score=7.0), groups="passage")  # column="score", count=1
        er.fit("score ~ 1", put(score=7.0), groups="passage")  # column="score", count=1
        er.fit("score ~ x", put(score=1.0), groups="passage")  # column="score"
        er.mean(put(score=np.r_[np.full(20, 7.0), np.arange(20.0)]), by="model", item="answer")  # column="score",
            count=1
        er.fit("score ~ x", put(score=2 * LOG["x"] + 3), groups="passage")  # column="score"
        er.fit("score ~ x", put(score=1.0), family="binomial")  # column="score"
        er.fit("score ~ x", put(score=0.0), family="poisson")  # column="score"
    """,
    "CollinearityError": """
        er.fit("score ~ x + twice", put(twice=2 * LOG["x"] + 1))  # column="twice", count=1
        er.fit("score ~ x + twice", put(twice=2 * LOG["x"] + 1), family="binomial")  # column="twice", count=1
        er.fit("score ~ x + z", put(z=0.0))  # column="z", count=1
        er.fit("score ~ cr(x, df=4)", log)  # column="cr(x, df=4)[3]", count=1
        er.fit("score ~ C(model) * C(kind)", put(kind=["u"] * 20 + ["u", "v"] * 10))  #
            column="C(model)[T.beta]:C(kind)[T.v]", count=1
    """,
    "ConvergenceError": """
        er.fit("score ~ z", put(z=LOG["score"] * 2 - 1 + 0.01 * LOG["x"]), family="binomial")
        er.fit("score ~ C(z)", put(z=np.where(LOG["score"] == 1, np.arange(40) % 2, 0)), family="binomial")
        er.fit("score ~ C(model)", put(score=np.r_[np.zeros(20), np.arange(20) % 3]), family="poisson")
    """,
    "ScoreRangeError": """
        er.mean(ratings, groups="passage").conf_int(method="wilson")
        er.fit("score ~ 1", ratings).conf_int(method="clopper-pearson")
        er.mean(ratings).conf_int(method="logit")
        er.mean(log, by="model", item="answer").contrast("alpha - beta").conf_int(method="wilson")
        er.fit("score ~ x", ratings, family="binomial")  # column="score", rows=[1, 2, 3, 4, 5], count=36
        er.mean(put(score=LOG["score"] + 1e15), groups="passage")  # column="score"
        er.fit("score ~ x", put(score=LOG["score"] + 1e12))  # column="score"
        er.fit("I(score * 2) ~ x", log, family="binomial")  # column="I(score * 2)", rows=[1, 2, 3, 6, 7], count=18
        er.fit("score ~ x", at("score", [3], -1.0), family="poisson")  # column="score", rows=[3], count=1
        er.ratio(put(w=-LOG["w"]), "x", "w")  # column="w", rows=[0, 1, 2, 3, 4], count=40
        er.pass_at_k(put(run=np.arange(40), score=0.5), k=1, item="question", sample="run")  # column="score", rows=[0,
            1, 2, 3, 4], count=40
        er.win_rate(duels_at("score", [2, 5], 7.5), **scores)  # column="score", rows=[2, 5], count=2
        er.win_rate(duels(score=DUELS["score"] + 1), **scores)  # column="score", rows=[0, 1, 3, 5, 7], count=76
        er.bradley_terry(duels_at("score", [3], 0.7), **scores, ties="davidson")  # rows=[3], count=1
        er.horizon(LOG, success="x", minutes="w", model="model")  # column="x", rows=[1, 2, 3, 4, 5], count=25
        er.judge_corrected(LOG, judge="x", human="score", calibration=LOG)  # column="x", rows=[0, 1, 2, 3, 4], count=40
        er.noise(LOG, passes="answer", n_samples="w", item="question")  # column="w", rows=[0, 1, 2, 3, 4], count=40
        er.posterior(er.mean(put(score=LOG["x"]), groups="passage"))  # column="score", rows=[0, 1, 2, 3, 4], count=40
        er.ability(put(score=LOG["score"] / 2), item="question")  # column="score", rows=[1, 2, 3, 6, 7], count=18
        er.mean(put(score=LOG["score"] * 1e160), groups="passage")  # column="score"
        er.fit("score ~ x", put(x=LOG["x"] * 1e300), groups="passage")  # column="x"
    """,
    "DuplicateRowsError": """
        er.pass_at_k(put(run=1), k=1, item="question", sample="run")  # column="question", rows=[20, 21, 22, 23, 24],
            count=20
        er.mean(log, by="model", item="passage")  # column="passage", rows=[10, 11, 12, 13, 14], count=20
        er.mean(doubled, by="model", item="answer", sample="run")  # column="answer", rows=[40, 41, 42, 43, 44],
            count=40
        er.compare(log, item="passage")  # column="passage", rows=[10, 11, 12, 13, 14], count=20
        er.win_rate(repeated, **sides, key=["prompt", "judge"])  # column="prompt", rows=[120, 121], count=2
        er.win_rate(duels(), **sides, key="lang")  # column="lang", rows=[12, 13, 14, 15, 16], count=108
    """,
    "AlignmentError": """
        er.mean(log, groups=np.arange(7))  # column="groups", count=7
        er.fit("score ~ x", log, groups=np.arange(7))  # column="groups", count=7
        er.mean(log).with_cov(groups=np.arange(7))  # column="groups", count=7
        er.mean(LOG, groups=BY_INDEX[:-3])  # column="groups", rows=[37, 38, 39], count=3
        er.fit("score ~ x", LOG, groups=BY_INDEX.set_axis([0] * 40))  # column="groups"
        er.mean(pl.from_pandas(LOG), groups=BY_INDEX.sample(frac=1.0, random_state=1))  # column="groups"
        er.mean(log, weights=np.ones(7))  # column="weights", count=7
        er.fit("score ~ x", log, weights=np.ones(7))  # column="weights", count=7
        er.mean(put(run=np.arange(40)), item="question", sample="run", groups="judge")  # column="judge", rows=[20, 21,
            22, 23, 24], count=20
        er.mean(put(run=np.arange(40)), item="question", sample="run").with_cov(groups="judge")  # column="judge",
            rows=[20, 21, 22, 23, 24], count=20
        er.mean(put(run=np.arange(40)), item="question", sample="run", strata="judge")  # column="judge", rows=[20, 21,
            22, 23, 24], count=20
        er.mean(put(run=np.arange(40)), item="question", sample="run", weights="w")  # column="weights", rows=[20, 21,
            22, 23, 24], count=20
        er.mean({"score": [1, 0], "x": [1]})
        er.win_rate(duels(), **sides, weights=[1.0, 2.0])  # column="weights", count=2
        er.infer(er.from_influence([0.5], np.tile([1.0, -1.0], 20)[:, None], data=LOG[:20]), groups="passage")  #
            count=20
    """,
    "FormulaError": """
        er.fit("score ~ logg(x)", log)
        er.fit("score ~ np.logg(x)", log)
        er.fit("score ~ pd.cut(x, 3)", log)
        er.fit("score ~ x +* 2", log)
        er.fit("score ~ (x", log)
        er.fit("score ~ x ~ w", log)
        er.fit("score ~ ", log)
        er.fit("score ~ x w", log)
        er.fit("score ~ x if", log)
        er.fit("~ x", log)
        er.fit("", log)
        er.fit("score + x ~ 1", log)
        er.fit("score ~ 0", log)
        er.fit("score ~ i(model)", log)
        er.fit("score ~ factor(model) + x", log)
        er.fit("score ~ x | judge^model", log)
        er.fit("score ~ offset(x)", log)
        er.fit("score ~ poly(x, 2)", log)
        er.fit("score ~ x + (1 | judge)", log)
        er.fit("score ~ bs(x, df=2)", log)
        fitted.contrast("x -")
        fitted.t_test("x*x")
        fitted.wald_test("x - x")
        fitted.contrast("")
        fitted.gate("x > ")
        er.fit("score ~ 1 | question", log)
        er.fit("score ~ 0 + x | question", log)
        er.fit("score ~ x |", log)
        er.fit("score ~ x | question | judge", log)
        er.fit("score ~ x | C(question)", log)
        er.fit("score ~ x | question[x]", log)
        er.fit("score ~ x | question + question", log)
        fitted.wild_test("x =")
        means.simultaneous(contrasts="all")
    """,
    "UnknownLabelError": """
        er.win_rate(duels_at("winner", TIES, "unsure"), **sides)  # column="winner", rows=[0, 9, 18, 27, 36], count=14
        er.win_rate(said(tie="Tie"), **sides)  # column="winner", rows=[0, 9, 18, 27, 36], count=14
        er.win_rate(said(left="model_a", right="model_b", tie="tie (bothbad)"), **sides)  # column="winner", rows=[0, 1,
            2, 3, 4], count=120
        er.win_rate(duels(winner=DUELS["winner"] == "left"), **sides)  # column="winner", rows=[0, 1, 2, 3, 4],
            count=120
        er.win_rate(duels(winner=np.where(DUELS["winner"] == "tie", "ada", DUELS["left"])), **sides)  # column="winner",
            rows=[9, 27, 45, 63, 81], count=7
        er.win_rate(duels(), **sides, labels={"A": "left", "B": "right"})  # column="winner", count=2
    """,
    "SelfComparisonError": """
        er.win_rate(duels(right=DUELS["right"].where(~DUELS.index.isin([4, 8]), DUELS["left"])), **sides)  #
            column="right", rows=[4, 8], count=2
    """,
    "DisconnectedError": """
        er.bradley_terry(duels(score=(DUELS["left"] < DUELS["right"]) * 1.0), **scores)  # count=3
    """,
    "NotAvailableError": """
        er.win_rate(duels(), **sides).contrast("ada - bob").head_to_head()
        er.fit("score ~ x | question", log, family="binomial")
        er.fit("score ~ x | question", LOG).predict()
        er.fit("score ~ x | question", LOG, groups="judge").wild_test()
        er.win_rate(duels(), **sides, alike="rater")
        er.win_rate(duels(), **sides, alike="judge")
        er.mean(log, groups="passage + judge").with_cov(alike="judge")
        means.transform(np.log).with_cov(cov="jackknife")
        er.bootstrap(LOG, np.size, groups="passage", kind="studentized")
        er.fit("score ~ x", LOG, groups="passage", family="binomial").bootstrap()
        er.mean(log, strata="subject", groups="judge").bootstrap()
        er.fit("score ~ x", LOG, groups="passage", family="binomial").wild_test()
        er.mean(log, strata="subject", groups="judge").wild_test("mean = 0")
        er.mean(log, weights="w", target="the full benchmark", n_population=400)
        er.mean(log, groups="passage + judge", target="the full benchmark", n_population=400)
        er.posterior(er.mean(LOG, groups="passage", target="the full benchmark", n_population={"passage": 80}))
        er.mean(LOG, groups="passage", target="the full benchmark", n_population={"passage": 80}).wild_test("mean =
            0.5")
        er.infer(er.from_influence([0.5], np.tile([1.0, -1.0], 20)[:, None], data=LOG), groups="passage", cov="CR2")
    """,
}
# What an error of a kind always says: the rule, or where to look for what was meant.
SAYS = {
    "MissingColumnError": r"Did you mean|The (columns|parameters|models) are|The only|has no level|not a covariate",
    "TooFewClustersError": r"at least 2",
    "DuplicateRowsError": r"one row for each .* repeat",
    "NonFiniteError": r"must be finite|may be missing",
    "NonNumericError": r"numbers",
    "EmptyDataError": r"no row|some rows|nothing is left",
    "UnknownLabelError": r"`labels`",
    "CollinearityError": r"must not determine",
    "ConvergenceError": r"separate",
}
# What is said of rows that stay in an engine, where arrays have no row to belong to.
NOT_IN_ENGINES = (errors.NotAvailableError, errors.ArgumentError, errors.ArgumentTypeError)


def rows_of_the_table() -> list[Any]:
    """Class, call and fields of each refusal."""
    table = []
    for kind, text in REFUSED.items():
        for line in re.sub(r"\n {12}", " ", text).strip().splitlines():
            call, _, fields = line.strip().partition("  # ")
            table.append(pytest.param(kind, call, eval(f"dict({fields})"), id=call))
    return table


MAKERS = {"pandas": lambda frame: frame, "polars": pl.from_pandas, **LAZY}


# In memory and in an engine by default; that the other library and the other engine say the same is slow.
@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[] if name in ("pandas", "polars lazy") else [pytest.mark.slow]) for name in MAKERS
    ],
)
def engine(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """An engine, and the words of calls with its frames."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return request.param, words_of(MAKERS[request.param])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "call", "fields"), rows_of_the_table())
def test_a_refusal_is_of_its_class_and_names_column_rows_and_count(engine, kind, call, fields):
    name, words = engine
    with pytest.raises(errors.EvalregError) as caught:
        eval(call, words)
    error = caught.value
    if name in LAZY and type(error) in NOT_IN_ENGINES:
        return
    assert type(error).__name__ == kind
    told = {field: getattr(error, field) for field in ("column", "rows", "count")}
    if name not in LAZY:
        assert {field: value for field, value in told.items() if value is not None} == fields
    assert told["column"] in (None, fields.get("column"))
    assert isinstance(error, ValueError | TypeError | KeyError | RuntimeError)
    text = str(error)
    assert re.search(SAYS.get(kind, "."), text), text
    assert text == error.message
    # A message in full sentences, without what Python or another package would show.
    assert text[-1] in ".?^)" or re.search("does not parse|cannot be evaluated", text), text
    assert not re.search(
        r"Traceback|File \"|object at 0x|<class|np\.(float64|str_|int64)\(|dtype\(|\b1 (rows|labels|clusters)\b", text
    )
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    # Five rows at most, and how many more there are.
    rows, count = error.rows or [], error.count or 0
    assert len(rows) <= 5
    assert not rows or count >= len(rows)
    assert len(rows) in (0, count) or f"and {count - len(rows)} more" in text


def doors() -> list[Any]:
    """Functions, and methods, each once however many classes share it."""
    with muted():
        means, board = er.mean(LOG, by="model", groups="passage"), er.win_rate(DUELS, **VERDICTS)
        things = [er.fit("score ~ x", LOG, groups="passage"), board, er.compare(LOG, item="question", sample="answer")]
        things += [er.join_evals({"a": means, "b": er.mean(LOG, "x", by="model", groups="passage")}), er.table(means)]
        things += [er.noise(LOG, item="question"), er.components(LOG, facets="question x judge")]
        things += [er.posterior(er.mean(LOG)), er.Log(LOG, score="score", item="question", model="model")]
    functions = [getattr(er, name) for name in er.__all__] + [getattr(er.plan, name) for name in er.plan.__all__]
    calls = {function: (function.__name__, function) for function in functions if inspect.isfunction(function)}
    for thing in things:
        for name, method in inspect.getmembers(thing, inspect.ismethod):
            calls.setdefault(method.__func__, (f"{type(thing).__name__}.{name}", method))
    return [pytest.param(call, id=name) for name, call in calls.values() if "._" not in name]


# What they cannot do without besides the first argument.
NEEDS = {"fit": [LOG], "rank_sets": [np.eye(2)], "simultaneous": [np.eye(2)], "sign_test": [2], "by_eval": [LOG, {}]}
NEEDS |= {"bootstrap": [len], "from_influence": [np.ones((40, 1))], "covariance": ["passage"], "frontier": [{}]}
THINGS = [3, None, "text", [], {1: 2}, 1j, len, math, object(), pd.Series([1.0, 2.0]), LOG, LOG[:0], er.mean(LOG)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", doors())
def test_a_first_argument_of_another_kind_is_refused_in_words_of_our_own(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # text is a path to some, which they write to
    first = next(iter(inspect.signature(call).parameters.values()), None)
    for thing in THINGS if first is not None else []:
        named = {first.name: thing} if first.kind is first.KEYWORD_ONLY else {}
        try:
            call(*([] if named else [thing, *NEEDS.get(call.__qualname__, [])]), **named)
        except errors.EvalregError as error:
            assert str(error)
