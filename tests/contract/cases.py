"""The estimators under contract, one line each; `test_contract.py` runs the same checks on all of them.

A case is a callable from (data, groups, weights) to Results, and the frame of its data. The weights that it is given
multiply its own: they are the "one more copy of this row" by whose derivative an influence is checked. The data may
come in any data frame or engine: what is to be done in pandas first stands in `prepare`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

import evalreg as er

Run: TypeAlias = Callable[[Any, Any, Any], er.Results]

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
        Takes data of any kind, groups and weights (or None), returns Results.
    frame : callable
        Makes the data anew.
    prepare : callable, optional
        What is done to the frame before `run` has it.
    row : str
        Column that tells the rows of the estimate apart (questions, where answers are averaged first).
    per_row : int
        Rows of the estimate for each such row; the two sides of a comparison may be scored apart.
    weighted : callable, optional
        The same point with whatever the estimator holds fixed really held fixed, as a function of weights. None where
        weights cannot express it.
    no_weights : str
        Why not.
    no_split : str
        Why a row in two parts, whose weights add up to its own, is not the row itself.
    cells : tuple of str
        Columns whose values are the cells, each with its own n/(n - 1) in the naive covariance.
    tuned : bool
        Whether the estimate itself depends on the clustering asked for, which another covariance then keeps.
    ordered : bool
        Whether the names of models may change only so that their order stays (a factor's reference is its first level).
    without : callable, optional
        The estimate from the rows that are left, with what it holds fixed from the whole frame.
    covariate : str
        Column that only covariates are made of, whose unit is its coefficient's; empty where there is none.
    outcome : tuple of str
        Columns in whose unit all parameters are; empty where there are none.
    lazy : bool
        Whether it takes rows that live in an engine. Others refuse, and say their name.
    refuses : str
        What it says of a model that has rows in one cluster only, where it refuses to estimate it.
    pandas_only : str
        Why the data can be a frame of pandas with numbers as numbers only; empty where it can be any.
    like : str
        Name of the case that stands for this one in checks of what its estimator does whatever its options; empty where
        it stands for itself.
    """

    name: str
    run: Run
    frame: Callable[[], pd.DataFrame]
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    row: str = "row"
    per_row: int = 1
    weighted: Run | None = None
    no_weights: str = ""
    no_split: str = ""
    cells: tuple[str, ...] = ()
    tuned: bool = False
    ordered: bool = False
    without: Callable[[pd.DataFrame, pd.DataFrame], er.Results] | None = None
    covariate: str = ""
    outcome: tuple[str, ...] = ()
    lazy: bool = False
    refuses: str = ""
    pandas_only: str = ""
    like: str = ""

    def fit(self, frame: pd.DataFrame, groups: Any, weights: Any = None) -> er.Results:
        """Results of a frame that `frame` made."""
        return self.run(self.prepare(frame), groups, weights)

    def fit_held(self, frame: pd.DataFrame, groups: Any, weights: Any) -> er.Results:
        """The same by `weighted`."""
        assert self.weighted is not None
        return self.weighted(self.prepare(frame), groups, weights)


def made_once(make: Callable[[], pd.DataFrame]) -> Callable[[], pd.DataFrame]:
    """A maker of frames that works once; every call gets a copy of its own."""
    kept = functools.cache(make)
    return functools.wraps(make)(lambda: kept().copy(deep=True))


@made_once
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


@made_once
def answers() -> pd.DataFrame:
    """Two to four answers to each question, in the order in which they came."""
    one = log().query("model == 'ada'")
    copies = one.loc[one.index.repeat(2 + np.arange(len(one)) % 3)]
    rng = np.random.default_rng(12)
    sample = copies.groupby("question").cumcount()
    return copies.assign(sample=sample, score=rng.uniform(size=len(copies))).reset_index(drop=True)


@made_once
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
    held = _rectified(frame, groups, None).to_frame()["lambda"]
    own = frame["model"].map(held).to_numpy()
    values = np.where(frame["part"] == "labelled", frame["human"] - own * frame["rated"], frame["rated"])
    means = er.mean(frame.assign(values=values), "values", by=["model", "part"], groups=groups, weights=weights)
    C = [
        [float(f"{m}:labelled" == name) + held[m] * float(f"{m}:rest" == name) for name in means.params.index]
        for m in held.index
    ]
    return means.contrast(np.array(C))


@made_once
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


@made_once
def rated_matches() -> pd.DataFrame:
    """The comparisons with a judge's score of each, and a human's of two in five."""
    frame, rng = matches(), np.random.default_rng(14)
    rated = np.clip(frame["score"] + rng.normal(scale=0.1, size=len(frame)), 0, 1)
    return frame.assign(rated=rated, human=frame["score"].where(frame["row"] % 5 < 2))


def _rectified_board(data: Any, groups: Any, weights: Any) -> er.Results:
    assert weights is None
    return er.rectified_win_rate(data, left="model", right="right", judge="rated", human="human", groups=groups)


@made_once
def verdicts() -> pd.DataFrame:
    """The same comparisons with verdicts, ties among them, for scores."""
    frame = matches()
    return frame.assign(score=np.select([frame["score"] < 0.35, frame["score"] > 0.65], [0.0, 1.0], 0.5))


def _pairwise(estimator: Callable[..., er.Board], **roles: Any) -> Run:
    return lambda data, groups, weights: estimator(
        data, left="model", right="right", score="score", groups=groups, weights=weights, **roles
    )


def _win_rate(**roles: Any) -> Run:
    return _pairwise(er.win_rate, **roles)


def _given_opponents(data: Any, groups: Any, weights: Any) -> er.Results:
    frame = nw.from_native(data).lazy().collect("pandas")
    called = dict(zip(frame["was"], frame["model"], strict=True))
    names = [called[name] for name in MODELS]
    table = pd.DataFrame([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 5.0, 0.0]], names, names)
    return _win_rate(opponents=table)(data, groups, weights)


@made_once
def right_answers() -> pd.DataFrame:
    """Answers that are right or wrong."""
    return answers().assign(score=lambda frame: (frame["score"] > 0.4).astype(float))


def _own(data: Any, weights: Any) -> Any:
    return "weight" if weights is None else data["weight"].to_numpy() * weights


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


def _guessed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(guess=(frame["words"].astype(float) > 0).astype(float))


def _classified(**roles: Any) -> Run:
    return lambda data, groups, weights: er.classification(
        data, truth="right", predicted="guess", groups=groups, weights=weights, **roles
    )


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


def _board(name: str, run: Run, **facts: Any) -> Case:
    return _same(name, run, prepare=_sides, lazy=True, **{"frame": matches, **facts})


SCORE = {"outcome": ("score",)}

CASES = [
    _same("mean", _mean(), lazy=True, **SCORE, like="mean by model with item"),
    _same("mean by model with item", _mean(by="model", item="question"), cells=("model",), lazy=True, **SCORE),
    Case(
        "mean with strata, micro",
        _mean(strata="subject"),
        log,
        weighted=_micro_held,
        cells=("subject",),
        without=_shares_held,
        lazy=True,
        **SCORE,
        like="mean by model with strata",
    ),
    _same(
        "mean with strata, macro",
        _mean(**MACRO),
        cells=("subject",),
        lazy=True,
        **SCORE,
        like="mean by model with strata",
    ),
    _same(
        "mean by model with strata",
        _mean(by="model", **MACRO),
        cells=("model", "subject"),
        lazy=True,
        refuses="'cyd' has none in \"law\"",
        **SCORE,
    ),
    _same("weighted mean", _weighted_mean, lazy=True, **SCORE, like="mean by model with item"),
    _same(
        "sampled and averaged mean",
        _mean(item="question", sample="sample"),
        frame=answers,
        row="question",
        lazy=True,
        **SCORE,
    ),
    _same("ratio", _ratio(), outcome=("count",), lazy=True, like="ratio by model"),
    _same("ratio by model", _ratio(by="model"), cells=("model",), outcome=("count",), lazy=True),
    _same("accuracy", _classified(metric="accuracy"), prepare=_guessed, like="macro F1 by model"),
    _same("macro F1 by model", _classified(average="macro", by="model"), prepare=_guessed, cells=("model",)),
    _same("pass@2", _pass(), frame=right_answers, row="question", lazy=True),
    _same("pass^2", _pass(require="all"), frame=right_answers, row="question", lazy=True, like="pass@2"),
    Case(
        "quantile by model",
        _quantile,
        log,
        no_weights="a sample quantile jumps with the weights",
        cells=("model",),
        outcome=("words",),
    ),
    _same("fit on a constant", _fit("score ~ 1"), lazy=True, **SCORE, like="OLS with covariate and factor"),
    _same("OLS with covariate and factor", **_wide("score ~ words + C(model)"), lazy=True, **SCORE),
    _same(
        "OLS on factors",
        _fit("score ~ C(model) + subject"),
        ordered=True,
        lazy=True,
        **SCORE,
        like="OLS with covariate and factor",
    ),
    _same("WLS", _wls, ordered=True, covariate="words", lazy=True, **SCORE, like="OLS with covariate and factor"),
    _same(
        "OLS with an absorbed factor",
        **_wide("score ~ words + C(model) | passage"),
        **SCORE,
        like="OLS with two absorbed factors",
    ),
    _same("OLS with two absorbed factors", **_wide("score ~ words + C(model) | subject + judge"), **SCORE),
    _same(
        "OLS with absorbed questions",
        **_wide("score ~ words + C(model) | question"),
        no_split="a part of a question would be a level of its own",
        **SCORE,
        like="OLS with two absorbed factors",
    ),
    _same(
        "GLM binomial",
        **_wide("right ~ words + C(model)", family="binomial"),
        refuses="separate the outcomes perfectly",
    ),
    _same("GLM Poisson", **_wide("count ~ words + C(model)", family="poisson"), like="GLM binomial"),
    Case(
        "rectified mean by model",
        _rectified,
        labelled,
        weighted=_rectified_held,
        no_split="it takes no weights",
        cells=("model", "part"),
        tuned=True,
        refuses="needs labelled rows in at least 2 clusters",
        outcome=("human", "rated"),
    ),
    Case(
        "rectified win rate",
        _rectified_board,
        rated_matches,
        _sides,
        per_row=2,
        no_weights="it takes no weights",
        tuned=True,
        refuses="needs labelled rows in at least 2 clusters",
    ),
    _board("win rate", _win_rate(), like="win rate by strata"),
    _board("win rate as sampled", _win_rate(opponents="as_sampled"), like="win rate by strata"),
    _board("win rate with given opponents", _given_opponents, like="win rate by strata"),
    _board("win rate by strata", _win_rate(by="subject")),
    _board("Bradley-Terry", _pairwise(er.bradley_terry), like="Bradley-Terry with position, Elo"),
    _board(
        "Bradley-Terry with position, Elo", _pairwise(er.bradley_terry, formula="words", scale="elo"), covariate="words"
    ),
    _board(
        "Bradley-Terry by Davidson",
        _pairwise(er.bradley_terry, ties="davidson"),
        frame=verdicts,
        like="Davidson with position",
    ),
    _board(
        "Davidson with position",
        _pairwise(er.bradley_terry, ties="davidson", formula="words"),
        frame=verdicts,
        covariate="words",
    ),
    _board("controlled win rate", _pairwise(er.controlled_win_rate, formula="words"), covariate="words"),
    _board(
        "win rate standardised",
        _win_rate(by="subject", standardise={"law": 1, "math": 2}),
        refuses="needs every model in every stratum",
        like="win rate by strata",
    ),
    Case(
        "paired differences",
        _compare,
        log,
        row="question",
        no_weights="differences of models take no weights",
        lazy=True,
        **SCORE,
    ),
    Case(
        "statsmodels Logit",
        _logit,
        log,
        no_weights="statsmodels' Logit takes no weights",
        ordered=True,
        covariate="words",
        refuses="Logit did not converge",
        pandas_only="statsmodels itself reads the frame",
    ),
]


def _curve(data: Any, groups: Any, **options: Any) -> er.Results:
    return er.pass_at_k(data, item="question", sample="sample", k=[1, 2], groups=groups, **options)


def _horizon(data: Any, groups: Any, **options: Any) -> er.Results:
    return er.horizon(data, "right", minutes="weight", model="model", groups=groups, **options)


@made_once
def _verdicts() -> pd.DataFrame:
    """The log with a judge's verdicts, which are wrong of one answer in six."""
    return log().assign(verdict=lambda frame: np.where(frame["row"] % 6 == 0, 1 - frame["right"], frame["right"]))


@made_once
def _chances() -> pd.DataFrame:
    """The log with a chance of each answer to be right."""
    return log().assign(chance=lambda frame: 1 / (1 + np.exp(-frame["words"])))


def _corrected(data: Any, groups: Any, **options: Any) -> er.Results:
    return er.judge_corrected(data, judge="verdict", human="right", calibration=data, groups=groups, **options)


def _scored(data: Any, groups: Any, **options: Any) -> er.Results:
    return er.classification(data, truth="right", predicted="chance", groups=groups, **options)


def _frontier(data: Any, groups: Any) -> er.Results:
    return er.frontier(data, {"score": "max", "words": "min"}, item="question", groups=groups)


def _over_models(data: Any, groups: Any) -> er.Results:
    return er.mean(data, over="model", item="question", q=[0.5], groups=groups)


def _combined(data: Any, groups: Any, **options: Any) -> er.Results:
    """An average of means, 1 less a mean, a sum, and a model against the average of all."""
    means = er.mean(data, "right", by="model", groups=groups, **options)
    first, second, every = *np.eye(len(means.params))[:2], np.full(len(means.params), 1 / len(means.params))
    return means.contrast([every, -first, 3 * first + second, first - every], list("abcd"), constant=[0, 1, 0, 0])


@dataclass(frozen=True)
class Derived:
    """An estimator whose estimate is made of others', with what `test_derived.py` needs to call it.

    Parameters
    ----------
    name : str
        What it is called in the report of a run.
    run : callable
        Takes a frame and groups, returns Results.
    frame : callable
        Makes the data anew.
    """

    name: str
    run: Callable[[Any, Any], er.Results]
    frame: Callable[[], pd.DataFrame] = log


DERIVED = [
    Derived("combinations of means", lambda data, groups: _combined(data, groups, item="question")),
    Derived("combinations of means of rows", _combined),
    Derived("pass@1 and pass@2", lambda data, groups: _curve(data, groups), right_answers),
    Derived("pass^1 and pass^2", lambda data, groups: _curve(data, groups, require="all"), right_answers),
    Derived("horizon", _horizon),
    Derived("horizons of two chances", lambda data, groups: _horizon(data, groups, p=[0.3, 0.6])),
    Derived("judge_corrected", lambda data, groups: _corrected(data, groups, by="model"), _verdicts),
    Derived("judge_corrected of all", lambda data, groups: _corrected(data, groups), _verdicts),
    Derived("panel", lambda data, groups: er.panel(data, judges=["words", "score"], human="right", groups=groups)),
    Derived("panel without labels", lambda data, groups: er.panel(data, judges=["words", "score"], groups=groups)),
    Derived("area under the curve", lambda data, groups: _scored(data, groups, metric="auc", by="model"), _chances),
    Derived(
        "hits at a rate of false alarms", lambda data, groups: _scored(data, groups, metric="tpr@fpr=0.2"), _chances
    ),
    Derived("Brier score", lambda data, groups: _scored(data, groups, metric="brier", by="model"), _chances),
    Derived("calibration error", lambda data, groups: _scored(data, groups, metric="ece"), _chances),
    Derived("frontier", _frontier),
    Derived("mean over templates", _over_models),
    Derived("ability", lambda data, groups: er.ability(data, "right", item="question", groups=groups)),
]
