"""Calls whose numbers are frozen: estimators under clusterings, covariances and options, through public names alone.

`python tests/frozen/make.py` writes what they return to numbers.json; `tests/test_frozen.py` makes them again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

import evalreg as er

MODELS = ("ada", "bob", "cyd", "dot")
Call: TypeAlias = Callable[[Any], Any]

ONE_WAY: dict[str, Any] = {"": None, "passage": "passage", "subject:judge": "subject:judge"}
CROSSED: dict[str, Any] = {"passage + judge": "passage + judge", "three axes": ["passage", "judge", "rater"]}
# Options of the covariance: of independent rows, of one clustering, and of crossed ones.
OF_ROWS: dict[str, dict[str, Any]] = {"": {}, "HC0": {"cov": "HC0"}, "HC1": {"cov": "HC1"}, "HC3": {"cov": "HC3"}}
CLUSTERED: dict[str, dict[str, Any]] = {
    "": {},
    **{cov: {"cov": cov} for cov in ("CR0", "CR1", "CR2", "CR3")},
    "CR1 fixest": {"cov": "CR1", "ssc": "fixest"},
    "min": {"dof": "min"},
}
OF_CROSSED: dict[str, dict[str, Any]] = {
    "": {},
    **{f"{cov} {repair}": {"cov": cov, "repair": repair} for cov in ("CR1", "CR3") for repair in ("max", "none")},
    "eigen": {"repair": "eigen"},
    "two-term": {"repair": "two-term"},
}
JACKKNIFE: dict[str, dict[str, Any]] = {"": {}, "CR1": {"cov": "CR1"}, "jackknife": {"cov": "jackknife"}}


@functools.cache
def _complete() -> pd.DataFrame:
    rng = np.random.default_rng(2024)
    passage = np.repeat(np.arange(14), [1, 2, 2, 3, 3, 4, 2, 1, 4, 6, 5, 3, 8, 4])
    n = passage.size
    frames = []
    for model, skill in zip(MODELS, (0.0, 0.3, 0.9, -0.2), strict=True):
        for attempt in (0, 1):
            words = rng.normal(size=n)
            latent = skill + 0.7 * rng.normal(size=14)[passage] + rng.normal(size=n) + 0.3 * words
            columns = {
                "model": model,
                "question": [f"q{i:03d}" for i in range(n)],
                "attempt": attempt,
                "passage": [f"p{i:02d}" for i in passage],
                "judge": rng.choice(["j1", "j2", "j3", "j4", "j5"], n),
                "rater": rng.choice(["r1", "r2", "r3", "r4", "r5", "r6", "r7"], n),
                "subject": np.where(passage % 3 == 0, "law", "math"),
                "weight": rng.uniform(0.5, 2.0, n),
                "words": words,
                "level": rng.integers(0, 4, n),
                "score": 1 / (1 + np.exp(-latent)),
                "right": (latent > -0.4).astype(float),
                "count": rng.poisson(np.exp(0.4 + 0.3 * words)).astype(float),
            }
            frames.append(pd.DataFrame(columns))
    frame = pd.concat(frames).sample(frac=1, random_state=3, ignore_index=True)
    frame["rated"] = 0.2 + 0.6 * frame["score"] + 0.1 * rng.normal(size=len(frame))
    frame["human"] = frame["score"].where(rng.uniform(size=len(frame)) < 0.4)
    frame["guess"] = (frame["words"] > 0).astype(float)
    return frame


@functools.cache
def _answers() -> pd.DataFrame:
    """The same with holes."""
    frame = _complete().copy(deep=True)
    for column, rows in {"score": [0, 7, 11], "right": [0, 7], "words": [13]}.items():
        frame.loc[rows, column] = np.nan
    for column, rows in {"passage": [7, 20, 21], "judge": [22], "rater": [23], "question": [34]}.items():
        frame[column] = frame[column].astype(object).where(~frame.index.isin(rows), None)
    return frame


@functools.cache
def _first() -> pd.DataFrame:
    """One answer of each model to each question."""
    return _answers().query("attempt == 0").reset_index(drop=True)


@functools.cache
def _duels() -> pd.DataFrame:
    rng = np.random.default_rng(77)
    n, names = 900, np.array(MODELS)
    left = rng.integers(0, 4, n)
    right = (left + rng.integers(1, 4, n)) % 4
    passage = np.minimum(rng.geometric(0.06, n), 40)
    better = rng.normal(size=n) + (left - right) * (0.15 + 0.1 * rng.normal(size=41)[passage])
    rated = np.clip(0.5 + 0.2 * better + 0.1 * rng.normal(size=n), 0, 1)
    score = np.select([better < -0.3, better > 0.3], [0.0, 1.0], 0.5)
    frame = pd.DataFrame(
        {
            "left": names[left],
            "right": names[right],
            "passage": [f"p{i:02d}" for i in passage],
            "judge": rng.choice(["j1", "j2", "j3", "j4", "j5"], n),
            "rater": rng.choice(["r1", "r2", "r3", "r4", "r5", "r6", "r7"], n),
            "subject": np.where(passage % 3 == 0, "law", "math"),
            "weight": rng.uniform(0.5, 2, n),
            "words": rng.normal(size=n) + 0.2 * better,
            "score": score,
            "points": 1 / (1 + np.exp(-better)),
            "winner": np.select([score == 0, score == 1], ["b", "a"], "tie"),
            "rated": rated,
            "human": np.where(rng.uniform(size=n) < 0.4, score, np.nan),
        }
    )
    for name in ("left", "passage", "judge", "winner"):
        frame[name] = frame[name].astype(object).where(rng.uniform(size=n) > 0.01, None)
    return frame


FRAMES: dict[str, Callable[[], pd.DataFrame]] = {
    "complete": _complete,
    "answers": _answers,
    "first": _first,
    "duels": _duels,
}


def frame(name: str) -> pd.DataFrame:
    """A new copy of a frame."""
    return FRAMES[name]().copy(deep=True)


SIDES = {"left": "left", "right": "right"}
LABELS = {"a": "left", "b": "right", "tie": "tie"}
OPPONENTS = pd.DataFrame(
    [[0.0, 1.0, 3.0, 1.0], [2.0, 0.0, 1.0, 1.0], [1.0, 5.0, 0.0, 1.0], [1.0, 1.0, 2.0, 0.0]], MODELS, MODELS
)

# By name the frame, the call, whether its rows may stay in an engine, and the clusterings and covariances it has.
Family: TypeAlias = tuple[str, Callable[..., Any], bool, tuple[dict[str, Any], ...]]
EVERYWHERE = (ONE_WAY, CROSSED)
FAMILIES: dict[str, Family] = {
    "mean": ("answers", lambda d, **o: er.mean(d, "score", **o), True, EVERYWHERE),
    "mean by model": ("answers", lambda d, **o: er.mean(d, "score", by="model", **o), True, EVERYWHERE),
    "mean of right by model": ("first", lambda d, **o: er.mean(d, "right", by="model", **o), True, EVERYWHERE),
    "weighted mean by model": (
        "answers",
        lambda d, **o: er.mean(d, "score", by="model", weights="weight", **o),
        True,
        EVERYWHERE,
    ),
    "mean over strata": ("answers", lambda d, **o: er.mean(d, "score", strata="subject", **o), True, (ONE_WAY,)),
    "macro mean over strata": (
        "answers",
        lambda d, **o: er.mean(d, "score", by="model", strata="subject", strata_weights="macro", **o),
        True,
        (ONE_WAY,),
    ),
    "mean of averaged answers": (
        "answers",
        lambda d, **o: er.mean(d, "score", by="model", item="question", sample="attempt", **o),
        True,
        ({"": None, "passage": "passage", "subject": "subject"},),
    ),
    "ratio": ("answers", lambda d, **o: er.ratio(d, "count", "weight", **o), True, EVERYWHERE),
    "ratio by model": ("answers", lambda d, **o: er.ratio(d, "right", "score", by="model", **o), True, EVERYWHERE),
    "accuracy": (
        "answers",
        lambda d, **o: er.classification(d, truth="right", predicted="guess", **o),
        False,
        EVERYWHERE,
    ),
    "macro F1 by model": (
        "answers",
        lambda d, **o: er.classification(d, truth="right", predicted="guess", average="macro", by="model", **o),
        False,
        (ONE_WAY,),
    ),
    "pass@2": (
        "complete",
        lambda d, **o: er.pass_at_k(d, "right", k=2, item="question", sample="attempt", by="model", **o),
        True,
        ({"": None, "passage": "passage"},),
    ),
    "pass^2": (
        "complete",
        lambda d, **o: er.pass_at_k(d, "right", k=2, item="question", sample="attempt", require="all", by="model", **o),
        True,
        ({"": None, "passage": "passage"},),
    ),
    "quantile": ("answers", lambda d, **o: er.quantile(d, "words", 0.6, by="model", **o), False, EVERYWHERE),
    "fit on a constant": ("answers", lambda d, **o: er.fit("score ~ 1", d, **o), True, EVERYWHERE),
    "fit on a covariate": ("answers", lambda d, **o: er.fit("score ~ words", d, **o), True, EVERYWHERE),
    "fit on factors": ("answers", lambda d, **o: er.fit("score ~ C(model) + subject", d, **o), True, EVERYWHERE),
    "fit on a factor and covariates": (
        "answers",
        lambda d, **o: er.fit("score ~ C(model) * words + level", d, **o),
        True,
        EVERYWHERE,
    ),
    "weighted fit": (
        "answers",
        lambda d, **o: er.fit("score ~ words + C(model)", d, weights="weight", **o),
        True,
        EVERYWHERE,
    ),
    "absorbed passage": (
        "answers",
        lambda d, **o: er.fit("score ~ words + C(model) | passage", d, **o),
        False,
        ({"passage": "passage"}, CROSSED),
    ),
    "absorbed judge and rater": (
        "answers",
        lambda d, **o: er.fit("score ~ words + C(model) | judge + rater", d, **o),
        False,
        (ONE_WAY,),
    ),
    "logit": (
        "answers",
        lambda d, **o: er.fit("right ~ words + C(model)", d, family="binomial", **o),
        False,
        EVERYWHERE,
    ),
    "Poisson": (
        "answers",
        lambda d, **o: er.fit("count ~ words + C(model)", d, family="poisson", **o),
        False,
        (ONE_WAY,),
    ),
    "rectified mean": (
        "answers",
        lambda d, **o: er.rectified_mean(d, judge="rated", human="human", by="model", **o),
        False,
        ({"passage": "passage"}, CROSSED),
    ),
    "rectified win rate": (
        "duels",
        lambda d, **o: er.rectified_win_rate(d, **SIDES, judge="rated", human="human", **o),
        False,
        ({"passage": "passage"},),
    ),
    "win rate": (
        "duels",
        lambda d, **o: er.win_rate(d, **SIDES, winner="winner", labels=LABELS, **o),
        True,
        EVERYWHERE,
    ),
    "win rate of points": ("duels", lambda d, **o: er.win_rate(d, **SIDES, score="points", **o), True, EVERYWHERE),
    "win rate as sampled": (
        "duels",
        lambda d, **o: er.win_rate(d, **SIDES, score="score", opponents="as_sampled", weights="weight", **o),
        True,
        EVERYWHERE,
    ),
    "win rate over a table of opponents": (
        "duels",
        lambda d, **o: er.win_rate(d, **SIDES, score="score", opponents=OPPONENTS, **o),
        True,
        (ONE_WAY,),
    ),
    "win rate by strata": (
        "duels",
        lambda d, **o: er.win_rate(d, **SIDES, score="score", by="subject", **o),
        True,
        (ONE_WAY,),
    ),
    "ratings": ("duels", lambda d, **o: er.bradley_terry(d, **SIDES, score="score", **o), True, EVERYWHERE),
    "Elo with a covariate": (
        "duels",
        lambda d, **o: er.bradley_terry(d, **SIDES, score="score", formula="words", scale="elo", **o),
        False,
        EVERYWHERE,
    ),
    "Davidson": (
        "duels",
        lambda d, **o: er.bradley_terry(d, **SIDES, score="score", ties="davidson", **o),
        False,
        (ONE_WAY,),
    ),
    "controlled win rate": (
        "duels",
        lambda d, **o: er.controlled_win_rate(d, **SIDES, score="score", formula="words", **o),
        False,
        (ONE_WAY,),
    ),
    "paired differences": (
        "first",
        lambda d, **o: er.compare(d, "score", item="question", **o).results,
        True,
        ({"": None, "passage": "passage", "subject": "subject"},),
    ),
    "differences of averaged answers": (
        "answers",
        lambda d, **o: er.compare(d, "score", item="question", sample="attempt", **o).results,
        True,
        ({"": None, "passage": "passage"},),
    ),
}
RANKED = {"mean by model", "win rate", "ratings"}


# What `summarise` is told of families that take files of sums.
SUMMED: dict[str, dict[str, Any]] = {
    "mean": {"score": "score"},
    "mean by model": {"score": "score", "by": "model"},
    "mean of right by model": {"score": "right", "by": "model"},
    "mean over strata": {"score": "score", "strata": "subject"},
    "macro mean over strata": {"score": "score", "by": "model", "strata": "subject"},
    "ratio": {"numerator": "count", "denominator": "weight"},
    "ratio by model": {"numerator": "right", "denominator": "score", "by": "model"},
    "win rate of points": {**SIDES, "score": "points"},
    "ratings": {**SIDES, "score": "score"},
}


def _options(clustering: str, groups: Any, family: str) -> dict[str, dict[str, Any]]:
    if groups is None:
        return OF_ROWS if family.startswith("fit") else {"": {}}
    if family == "paired differences" and clustering == "subject":
        return {"": {}}
    if clustering in CROSSED:
        return OF_CROSSED
    return CLUSTERED | (JACKKNIFE if family.startswith(("mean", "fit", "win rate", "ratings")) else {})


def clustered(family: str) -> Iterator[tuple[str, Any, dict[str, dict[str, Any]]]]:
    """Name, groups and options by name of each clustering of a family."""
    for clustering, groups in {name: by for some in FAMILIES[family][3] for name, by in some.items()}.items():
        yield clustering, groups, _options(clustering, groups, family)


def calls() -> Iterator[tuple[str, str, Call]]:
    """Name, frame and call of each entry."""
    for family, (of, run, _, _) in FAMILIES.items():
        for clustering, groups, options in clustered(family):
            for name, chosen in options.items():
                yield f"{family} | {clustering} | {name}", of, functools.partial(run, groups=groups, **chosen)


def numbers(results: Any, ranked: bool = False) -> dict[str, Any]:
    """What a result says in numbers."""
    said: dict[str, Any] = {"names": [str(name) for name in results.params.index]}
    for part in ("params", "bse", "dof", "pvalues"):
        said[part] = np.asarray(getattr(results, part), dtype=float)
    said["ends"] = np.asarray(results.conf_int(), dtype=float).ravel()
    said["counts"] = {"rows": int(results.nobs), **{str(k): int(v) for k, v in dict(results.n_clusters).items()}}
    said["dropped"] = {str(reason): int(n) for reason, n in dict(results.dropped).items() if n}
    if ranked:
        said["ranks"] = results.ranks()[["lower", "upper"]].to_numpy().ravel().tolist()
    return said


def made(call: Call, data: Any, ranked: bool = False) -> dict[str, Any]:
    """The numbers of a call, or the name of the error that it raises."""
    try:
        return numbers(call(data), ranked)
    except er.errors.EvalregError as error:
        return {"error": type(error).__name__}
