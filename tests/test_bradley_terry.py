"""Bradley-Terry ratings and controlled win rates: R, statsmodels, a general optimiser, and logs that have no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy
import statsmodels.api as sm

import evalreg as er
from evalreg.errors import DisconnectedError
from evalreg.resampling.draws import solver_of

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

SIDES: dict[str, Any] = {"left": "left", "right": "right", "score": "score"}


@pytest.fixture(params=["d5_judges3", "d5_judges12"])
def reference(request: pytest.FixtureRequest, golden: Any) -> Any:
    return golden(request.param)


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    frame = er.datasets.judge_log(n_models=5, n_prompts=30, n_judges=2, position_effect=0.5, ties=0.25, seed=3)
    rng = np.random.default_rng(0)
    return frame.assign(
        score=frame["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0}),
        length=rng.normal(size=len(frame)),
        weight=rng.uniform(0.5, 2, len(frame)),
    )


def dummies(frame: pd.DataFrame) -> np.ndarray:
    """One for the left model, minus one for the right, without the first model."""
    names = sorted({*frame["left"], *frame["right"]})
    X = np.zeros((len(frame), len(names)))
    rows = np.arange(len(frame))
    X[rows, [names.index(name) for name in frame["left"]]] = 1
    X[rows, [names.index(name) for name in frame["right"]]] -= 1
    return X[:, 1:]


def test_ratings_and_their_covariances_are_those_of_r(reference: Any) -> None:
    sides = {"left": "model_a", "right": "model_b", "score": "score_a"}
    first = sorted({*reference.frame["model_a"], *reference.frame["model_b"]})[0]
    board = er.bradley_terry(reference.frame, **sides, groups="prompt", reference=first, cov="CR0")
    n = len(reference.frame)

    def free(results: Any) -> np.ndarray:
        return np.asarray(results.cov.raw[1:, 1:])

    reference.check("bt.theta", board.params.to_numpy()[1:])
    reference.check("bt.cov_prompt", free(board))
    reference.check("bt.cov_prompt_G1", free(board.with_cov(cov="CR1")))
    reference.check("bt.cov_judge", free(board.with_cov(groups="judge")))
    reference.check("bt.cov_rows_HC0", free(board.with_cov(groups=None)) * (n - 1) / n)
    crossed = {"groups": "prompt + judge", "repair": "none"}
    reference.check("bt.cov_twoway", free(board.with_cov(**crossed)))
    reference.check("bt.cov_twoway_own", free(board.with_cov(**crossed, cov="CR1")))
    assert board.estimate.refit is not None
    reference.check("bt.cov_model", board.estimate.refit.inverse_gram)
    assert board.params.iloc[0] == 0
    assert board.bse.iloc[0] == 0
    assert np.isnan(board.pvalues.iloc[0])


# statsmodels says that it does not fully support clusters with weights; its sandwich is the one wanted here.
@pytest.mark.filterwarnings("ignore:cov_type not fully supported")
@pytest.mark.parametrize("weights", [None, "weight"])
def test_position_and_covariates_are_those_of_a_logistic_regression(log: pd.DataFrame, weights: str | None) -> None:
    board = er.bradley_terry(log, **SIDES, groups="prompt", formula="length", weights=weights, cov="CR0")
    X = np.column_stack([dummies(log), np.ones(len(log)), log["length"]])
    model = sm.GLM(
        log["score"], X, family=sm.families.Binomial(), var_weights=None if weights is None else log[weights]
    )
    kept = {"groups": pd.factorize(log["prompt"])[0], "use_correction": False}
    fitted = model.fit(cov_type="cluster", cov_kwds=kept, tol=1e-14)
    theta = np.concatenate([[0.0], np.asarray(fitted.params)[:4]])
    np.testing.assert_allclose(board.params.iloc[:5], theta - theta.mean(), rtol=1e-8)
    np.testing.assert_allclose(board.params[["position", "length"]], np.asarray(fitted.params)[4:], rtol=1e-8)
    np.testing.assert_allclose(board.bse[["position", "length"]], np.asarray(fitted.bse)[4:], rtol=1e-7)
    difference = board.contrast({"model-02": 1, "model-03": -1}).params.iloc[0]
    assert difference == pytest.approx(theta[1] - theta[2])


def test_davidsons_model_is_the_maximum_of_its_likelihood(log: pd.DataFrame) -> None:
    board = er.bradley_terry(log, **SIDES, groups="prompt", ties="davidson", reference="model-01")
    X, score = dummies(log), log["score"].to_numpy()

    def minus_likelihood(b: np.ndarray) -> float:
        d = X @ b[:-1]
        weights = np.stack([d / 2, np.full(len(d), b[-1]), -d / 2])
        own = np.where(score == 1, weights[0], np.where(score == 0, weights[2], weights[1]))
        return float(np.sum(np.logaddexp.reduce(weights, axis=0) - own))

    found = scipy.optimize.minimize(minus_likelihood, np.zeros(5), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(board.params.iloc[1:], found.x, atol=1e-5)
    assert board.params.index[-1] == "log_tie"
    assert "log_tie" not in board.ranks().index
    # The share of ties that the model expects is the one there is: the equation of log nu.
    d, nu = X @ found.x[:-1], np.exp(board.params["log_tie"])
    expected = nu / (nu + 2 * np.cosh(d / 2))
    assert expected.mean() == pytest.approx((score == 0.5).mean(), rel=1e-4)


def test_scales_and_references_change_only_the_units(log: pd.DataFrame) -> None:
    centred = er.bradley_terry(log, **SIDES, groups="prompt")
    elo = er.bradley_terry(log, **SIDES, groups="prompt", scale="elo")
    anchored = er.bradley_terry(log, **SIDES, groups="prompt", reference="model-03")
    unit = 400 / np.log(10)
    assert centred.params.sum() == pytest.approx(0, abs=1e-10)
    np.testing.assert_allclose(elo.params, unit * centred.params, rtol=1e-10)
    np.testing.assert_allclose(elo.bse, unit * centred.bse, rtol=1e-10)
    np.testing.assert_allclose(anchored.params, centred.params - centred.params["model-03"], atol=1e-10)
    both = er.bradley_terry(log, **SIDES, groups="prompt", scale="elo", reference="model-03")
    for cov in ("CR2", "jackknife"):
        one, other = (board.with_cov(cov=cov) for board in (both, anchored))
        np.testing.assert_allclose(one.params, unit * other.params, atol=1e-8)
        np.testing.assert_allclose(one.bse, unit * other.bse, rtol=1e-8, atol=1e-10)
    for board in (elo, anchored, both):
        assert board.ranks().equals(centred.ranks())
        np.testing.assert_allclose(board.pairwise()["p_value"], centred.pairwise()["p_value"], rtol=1e-8)


def test_cr3_is_one_newton_step_without_each_prompt(log: pd.DataFrame) -> None:
    board = er.bradley_terry(log, **SIDES, groups="prompt", cov="CR3", reference="model-01")
    X, p = dummies(log), scipy.special.expit(dummies(log) @ board.params.to_numpy()[1:])
    H = X.T @ (X * (p * (1 - p))[:, None])
    change = []
    for rows in log.reset_index(drop=True).groupby("prompt").indices.values():
        H_g = X[rows].T @ (X[rows] * (p * (1 - p))[rows, None])
        change.append(np.linalg.solve(H - H_g, X[rows].T @ (log["score"].to_numpy() - p)[rows]))
    G = len(change)
    expected = (G - 1) / G * np.asarray(change).T @ np.asarray(change)
    np.testing.assert_allclose(board.cov.raw[1:, 1:], expected, rtol=1e-8)


def test_controlled_win_rates_are_average_predictions_at_zero_difference(log: pd.DataFrame) -> None:
    board = er.controlled_win_rate(log, **SIDES, groups="prompt", formula="length")
    ratings = er.bradley_terry(log, **SIDES, groups="prompt", formula="length").params
    rates = []
    for name in board.params.index:
        own = log[(log["left"] == name) | (log["right"] == name)]
        other = own["right"].where(own["left"] == name, own["left"])
        rates.append(scipy.special.expit(ratings[name] - ratings[other].to_numpy()).mean())
    np.testing.assert_allclose(board.params, rates, rtol=1e-10)
    ends = board.conf_int()
    assert ((ends[0] < board.params) & (board.params < ends[1])).all()
    assert board.ranks()["rank"].tolist() == board.params.rank(ascending=False).astype(int).tolist()


def row(left: str, right: str, score: float, prompt: str = "p0") -> dict[str, Any]:
    return {"left": left, "right": right, "score": score, "prompt": prompt}


def balanced(*names: str) -> list[dict[str, Any]]:
    """Each of the models beats each other one once."""
    return [row(a, b, 1.0, f"p{i}") for i, a in enumerate(names) for b in names if a != b]


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        ([row("ada", "eve", 1.0), row("bob", "eve", 1.0)], ['"eve" never won against the others']),
        ([row("eve", "ada", 1.0)], ['"eve" never lost to the others']),
        ([row("eve", "fay", 0.5)], ['"eve", "fay" met none of the others']),
    ],
)
def test_models_without_a_finite_rating_are_named(more: list[dict[str, Any]], parts: list[str]) -> None:
    frame = pd.DataFrame([*balanced("ada", "bob", "cyd"), *more])
    for estimate, options in ((er.bradley_terry, {}), (er.controlled_win_rate, {"formula": "1"})):
        with pytest.raises(DisconnectedError) as caught:
            estimate(frame, **SIDES, groups="prompt", **options)
        for part in [*parts, "`win_rate`, which needs no link"]:
            assert part in str(caught.value)
        assert caught.value.count == len(
            {name for row in more for name in (row["left"], row["right"])} & {"eve", "fay"}
        )


# Solved again without a cluster, or under other weights of clusters

MODELS: dict[str, dict[str, Any]] = {
    "halves": {},
    "davidson": {"ties": "davidson"},
    "position and a covariate": {"formula": "1 + length"},
    "davidson, position, weights": {"ties": "davidson", "formula": "1", "weights": "weight"},
}


@pytest.mark.parametrize("kind", list(MODELS))
def test_the_jackknife_of_ratings_is_one_newton_step_without_each_prompt(log: pd.DataFrame, kind: str) -> None:
    options = SIDES | MODELS[kind]
    board = er.bradley_terry(log, **options, groups="prompt", cov="jackknife")
    np.testing.assert_allclose(board.cov_params(), board.with_cov(cov="CR3").cov_params(), rtol=1e-12, atol=1e-16)
    moved = []
    for prompt in log["prompt"].unique():
        without = er.bradley_terry(log[log["prompt"] != prompt], **options)
        moved.append((without.params - board.params).to_numpy())
    D, G = np.array(moved), len(moved)
    # Near the fits to the other prompts.
    np.testing.assert_allclose(board.bse**2, (G - 1) / G * np.sum(D**2, axis=0), rtol=0.2)


def test_the_crossed_jackknife_is_made_of_its_pieces(log: pd.DataFrame) -> None:
    board = er.bradley_terry(log, **SIDES, groups="prompt + judge", cov="jackknife")
    alone = [board.with_cov(groups=axis).cov_params().to_numpy() for axis in ("prompt", "judge", "prompt:judge")]
    three_terms = alone[0] + alone[1] - alone[2]
    largest = np.max([np.diag(three_terms), np.diag(alone[0]), np.diag(alone[1])], axis=0)
    np.testing.assert_allclose(board.bse**2, largest, rtol=1e-10)
    gap = board.contrast("model-01 - model-03")
    c = np.array([1, 0, -1, 0, 0])
    np.testing.assert_allclose(
        gap.bse.iloc[0] ** 2, max(c @ three_terms @ c, c @ alone[0] @ c, c @ alone[1] @ c), rtol=1e-10
    )


def one_step(log: pd.DataFrame, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Centred ratings a Newton step away from others, under weights of the rows; models sorted."""
    models = np.unique(log[["left", "right"]])
    X = (log["left"].to_numpy()[:, None] == models).astype(float) - (log["right"].to_numpy()[:, None] == models)
    p = 1 / (1 + np.exp(-X @ theta))
    H = (X.T * (weight * p * (1 - p))) @ X + np.ones((models.size, models.size))
    moved = theta + np.linalg.solve(H, X.T @ (weight * (log["score"].to_numpy() - p)))
    return np.asarray(moved - moved.mean())


def test_draws_of_clusters_are_a_newton_step_under_their_weights(log: pd.DataFrame) -> None:
    board = er.bradley_terry(log, **SIDES, groups="prompt")
    codes, names = pd.factorize(log["prompt"])
    V = np.random.default_rng(2).exponential(size=(3, len(names)))
    found = solver_of(board.estimate, ("prompt",)).solve(V)
    own = [one_step(log, board.params.to_numpy(), each[codes]) for each in V]
    np.testing.assert_allclose(found, own, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("cov", ["CR1", "CR2"])
@pytest.mark.parametrize("options", [{}, {"ties": "davidson"}, {"formula": "1"}])
def test_neither_reference_nor_scale_moves_the_error_of_a_pair(cov, options):
    """Where eigenvalues are cut: those of ratings that sum to zero, in log-odds."""
    log = er.datasets.judge_log(n_models=6, n_prompts=12, n_judges=3, seed=1)
    found, cut = [], []
    for reference, scale in ((None, "logit"), (None, "elo"), ("model-01", "logit"), ("model-04", "elo")):
        unit = 1.0 if scale == "logit" else 400 / np.log(10)
        board = er.bradley_terry(
            log,
            left="left",
            right="right",
            winner="winner",
            groups="prompt + judge",
            cov=cov,
            reference=reference,
            scale=scale,
            repair="eigen",
            **options,
        )
        found.append(board.pairwise()["se"].to_numpy() / unit)
        cut.append(board.cov.change)
    assert all(("negative" in text) == ("formula" in options) for text in cut)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-9)
