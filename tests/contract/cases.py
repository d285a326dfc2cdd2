"""The estimators under contract, one line each; `test_contract.py` runs the same checks on all of them.

A case is a callable from (frame, groups, weights) to Results, and its frame. The weights that it is given multiply its
own: they are the "one more copy of this row" by whose derivative an influence is checked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

import evalreg as er

Run: TypeAlias = Callable[[pd.DataFrame, Any, Any], er.Results]

MODELS = ("ada", "bob", "cyd")
MACRO = {"strata": "subject", "strata_weights": "macro"}


@dataclass(frozen=True)
class Case:
    """An estimator under contract.

    Parameters
    ----------
    name : str
        What it is called in the report of a run.
    run : callable
        Takes a frame, groups and weights (or None), returns Results.
    frame : callable
        Makes the data anew.
    row : str
        Column that tells the rows of the estimate apart (questions, where answers are averaged first).
    weighted : callable, optional
        The same point with whatever the estimator holds fixed really held fixed, as a function of weights. None where
        weights cannot express it.
    no_weights : str
        Why not.
    cells : tuple of str
        Columns whose values are the cells, each with its own n/(n - 1) in the naive covariance.
    tuned : bool
        Whether the estimate itself depends on the clustering asked for, which another covariance then keeps.
    ordered : bool
        Whether the names of models may change only so that their order stays (a factor's reference is its first level).
    covariate : str
        Column that only covariates are made of, whose unit is its coefficient's; empty where there is none.
    """

    name: str
    run: Run
    frame: Callable[[], pd.DataFrame]
    row: str = "row"
    weighted: Run | None = None
    no_weights: str = ""
    cells: tuple[str, ...] = ()
    tuned: bool = False
    ordered: bool = False
    without: Callable[[pd.DataFrame, pd.DataFrame], er.Results] | None = None
    covariate: str = ""


def log() -> pd.DataFrame:
    """Three models on the questions of nine unequal passages, with two judges, subjects, weights and covariates."""
    rng = np.random.default_rng(11)
    sizes = np.array([1, 2, 2, 3, 3, 4, 2, 1, 4])
    passage = np.repeat(np.arange(sizes.size), sizes)
    question = np.arange(passage.size)
    n = question.size * len(MODELS)
    of = np.tile(question, len(MODELS))
    effect = rng.normal(size=sizes.size)[passage[of]]
    words = rng.normal(size=sizes.size)[passage[of]] + rng.normal(size=n)
    latent = 0.6 * effect + rng.normal(size=n) + 0.4 * words
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "model": np.repeat(MODELS, question.size),
            "question": [f"q{i:02d}" for i in of],
            "passage": [f"p{i}" for i in passage[of]],
            "judge": rng.choice(["j1", "j2", "j3", "j4"], n),
            "subject": np.where(passage[of] % 3 == 0, "law", "math"),
            "weight": rng.uniform(0.5, 2.0, n),
            "words": words,
            "score": 1 / (1 + np.exp(-latent)),
            "right": (latent > 0).astype(float),
            "count": rng.poisson(np.exp(0.4 + 0.3 * words)).astype(float),
        }
    ).sample(frac=1, random_state=5, ignore_index=True)


def answers() -> pd.DataFrame:
    """Two to four answers to each question, in the order in which they came."""
    one = log().query("model == 'ada'")
    copies = one.loc[one.index.repeat(2 + np.arange(len(one)) % 3)]
    rng = np.random.default_rng(12)
    sample = copies.groupby("question").cumcount()
    return copies.assign(sample=sample, score=rng.uniform(size=len(copies))).reset_index(drop=True)


def labelled() -> pd.DataFrame:
    """The log with a judge's rating of every answer, and a human label of two in five."""
    frame, rng = log(), np.random.default_rng(13)
    rated = 0.2 + 0.6 * frame["score"] + 0.1 * rng.normal(size=len(frame))
    part = np.where(frame["row"] % 5 < 2, "labelled", "rest")
    return frame.assign(rated=rated, part=part, human=frame["score"].where(part == "labelled"))


def _rectified(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    del weights  # It takes none.
    return er.rectified_mean(frame, judge="rated", human="human", by="model", groups=groups)


def _rectified_held(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    """Weighted means of y - lambda f and of f, put together with lambda as it is without weights."""
    held = _rectified(frame, groups, None).rectification()["lambda"]
    own = frame["model"].map(held).to_numpy()
    values = np.where(frame["part"] == "labelled", frame["human"] - own * frame["rated"], frame["rated"])
    means = er.mean(frame.assign(values=values), "values", by=["model", "part"], groups=groups, weights=weights)
    C = [
        [float(f"{m}:labelled" == name) + held[m] * float(f"{m}:rest" == name) for name in means.params.index]
        for m in held.index
    ]
    return means.contrast(np.array(C))


def matches() -> pd.DataFrame:
    """Comparisons of the three models on the same questions, with their two sides in either order.

    `model` is the left model. The right one is named by what it was called at first, as `was` names the left one, so
    that the models of a frame whose `model` was renamed are all renamed.
    """
    frame = log()
    rng = np.random.default_rng(13)
    right = [rng.choice([name for name in MODELS if name != left]) for left in frame["model"]]
    return frame.assign(was=frame["model"], against=right, score=frame["score"].round(2))


def _sides(frame: pd.DataFrame) -> pd.DataFrame:
    called = dict(zip(frame["was"], frame["model"], strict=True))
    return frame.assign(right=frame["against"].map(called))


def verdicts() -> pd.DataFrame:
    """The same comparisons with verdicts, ties among them, for scores."""
    frame = matches()
    return frame.assign(score=np.select([frame["score"] < 0.35, frame["score"] > 0.65], [0.0, 1.0], 0.5))


def _pairwise(estimator: Callable[..., er.Board], **roles: Any) -> Run:
    return lambda frame, groups, weights: estimator(
        _sides(frame), left="model", right="right", score="score", groups=groups, weights=weights, **roles
    )


def _win_rate(**roles: Any) -> Run:
    return _pairwise(er.win_rate, **roles)


def _given_opponents(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    called = dict(zip(frame["was"], frame["model"], strict=True))
    names = [called[name] for name in MODELS]
    table = pd.DataFrame([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 5.0, 0.0]], names, names)
    return _win_rate(opponents=table)(frame, groups, weights)


def right_answers() -> pd.DataFrame:
    """Answers that are right or wrong."""
    return answers().assign(score=lambda frame: (frame["score"] > 0.4).astype(float))


def _own(frame: pd.DataFrame, weights: Any) -> Any:
    return frame["weight"].to_numpy() * (1.0 if weights is None else weights)


def _shares(frame: pd.DataFrame) -> dict[str, float]:
    return {str(name): float(share) for name, share in frame["subject"].value_counts(normalize=True).items()}


def _logit(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    import statsmodels.formula.api as smf

    assert weights is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = smf.logit("right ~ words + C(model)", frame).fit(disp=False, method="newton", tol=1e-12)
    return er.infer(er.from_statsmodels(fitted), groups=groups)


def _mean(**roles: Any) -> Run:
    return lambda frame, groups, weights: er.mean(frame, groups=groups, weights=weights, **roles)


def _weighted_mean(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    return er.mean(frame, groups=groups, weights=_own(frame, weights))


def _ratio(**roles: Any) -> Run:
    return lambda frame, groups, weights: er.ratio(frame, "count", "weight", groups=groups, weights=weights, **roles)


def _classified(**roles: Any) -> Run:
    def run(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
        guessed = frame.assign(guess=(frame["words"] > 0).astype(float))
        return er.classification(guessed, truth="right", predicted="guess", groups=groups, weights=weights, **roles)

    return run


def _pass(**roles: Any) -> Run:
    def run(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
        return er.pass_at_k(frame, item="question", sample="sample", k=2, groups=groups, weights=weights, **roles)

    return run


def _quantile(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    return er.quantile(frame, "words", 0.6, by="model", groups=groups, weights=weights)


def _fit(formula: str, **options: Any) -> Run:
    return lambda frame, groups, weights: er.fit(formula, frame, groups=groups, weights=weights, **options)


def _wls(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    return er.fit("score ~ words + C(model)", frame, groups=groups, weights=_own(frame, weights))


def _compare(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    assert weights is None
    results = er.compare(frame, item="question", groups=groups).results
    return results if groups is not None else results.with_cov(groups=None)


def _same(name: str, run: Run, **facts: Any) -> Case:
    """A case whose own weights express the influence of a row."""
    return Case(name, run, facts.pop("frame", log), weighted=run, **facts)


def _micro_held(frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
    return er.mean(frame, strata="subject", strata_weights=_shares(frame), groups=groups, weights=weights)


def _shares_held(frame: pd.DataFrame, rest: pd.DataFrame) -> er.Results:
    return er.mean(rest, strata="subject", strata_weights=_shares(frame), groups="passage")


def _wide(formula: str, **options: Any) -> dict[str, Any]:
    return {"run": _fit(formula, **options), "ordered": True, "covariate": "words"}


CASES = [
    _same("mean", _mean()),
    _same("mean by model with item", _mean(by="model", item="question"), cells=("model",)),
    Case(
        "mean with strata, micro",
        _mean(strata="subject"),
        log,
        weighted=_micro_held,
        cells=("subject",),
        without=_shares_held,
    ),
    _same("mean with strata, macro", _mean(**MACRO), cells=("subject",)),
    _same("mean by model with strata", _mean(by="model", **MACRO), cells=("model", "subject")),
    _same("weighted mean", _weighted_mean),
    _same("sampled and averaged mean", _mean(item="question", sample="sample"), frame=answers, row="question"),
    _same("ratio", _ratio()),
    _same("ratio by model", _ratio(by="model"), cells=("model",)),
    _same("accuracy", _classified(metric="accuracy")),
    _same("macro F1 by model", _classified(average="macro", by="model"), cells=("model",)),
    _same("pass@2", _pass(), frame=right_answers, row="question"),
    _same("pass^2", _pass(require="all"), frame=right_answers, row="question"),
    Case("quantile by model", _quantile, log, no_weights="a sample quantile jumps with the weights", cells=("model",)),
    _same("fit on a constant", _fit("score ~ 1")),
    _same("OLS with covariate and factor", **_wide("score ~ words + C(model)")),
    _same("WLS", _wls, ordered=True, covariate="words"),
    _same("GLM binomial", **_wide("right ~ words + C(model)", family="binomial")),
    _same("GLM Poisson", **_wide("count ~ words + C(model)", family="poisson")),
    Case(
        "rectified mean by model",
        _rectified,
        labelled,
        weighted=_rectified_held,
        cells=("model", "part"),
        tuned=True,
    ),
    _same("win rate", _win_rate(), frame=matches),
    _same("win rate as sampled", _win_rate(opponents="as_sampled"), frame=matches),
    _same("win rate with given opponents", _given_opponents, frame=matches),
    _same("win rate by strata", _win_rate(by="subject"), frame=matches),
    _same("Bradley-Terry", _pairwise(er.bradley_terry), frame=matches),
    _same(
        "Bradley-Terry with position, Elo",
        _pairwise(er.bradley_terry, formula="words", scale="elo"),
        frame=matches,
        covariate="words",
    ),
    _same("Bradley-Terry by Davidson", _pairwise(er.bradley_terry, ties="davidson"), frame=verdicts),
    _same(
        "Davidson with position",
        _pairwise(er.bradley_terry, ties="davidson", formula="words"),
        frame=verdicts,
        covariate="words",
    ),
    _same("controlled win rate", _pairwise(er.controlled_win_rate, formula="words"), frame=matches, covariate="words"),
    _same("win rate standardised", _win_rate(by="subject", standardise={"law": 1, "math": 2}), frame=matches),
    Case("paired differences", _compare, log, row="question", no_weights="differences of models take no weights"),
    Case(
        "statsmodels Logit",
        _logit,
        log,
        no_weights="statsmodels' Logit takes no weights",
        ordered=True,
        covariate="words",
    ),
]
