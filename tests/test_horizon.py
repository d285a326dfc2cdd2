"""Time horizons: an own logit and delta method, Fieller's ends, coverage over redrawn tasks, trends, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er
from evalreg.errors import ArgumentError, ArgumentTypeError, MissingColumnError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

MODELS = ("m0", "m1", "m2")
# log2 minutes that each solves with probability a half.
TRUTH = {"m0": 2.0, "m1": 4.0, "m2": 5.0}


def runs(rng: np.random.Generator, n_families: int = 40, per: int = 3, slope: float = 0.8) -> pd.DataFrame:
    """Runs of three models on the same tasks, in families whose tasks are alike in what makes them hard."""
    family = np.repeat(np.arange(n_families), per)
    length = rng.uniform(-1, 8, family.size)
    # Symmetric about 0, so that the population's curve is one half at the same length.
    hard = 0.7 * rng.normal(size=n_families)[family]
    parts = []
    for model in MODELS:
        chance = 1 / (1 + np.exp(-(slope * (TRUTH[model] - length) + hard)))
        success = (rng.uniform(size=family.size) < chance).astype(int)
        parts.append(pd.DataFrame({"model": model, "family": family, "minutes": 2**length, "success": success}))
    return pd.concat(parts, ignore_index=True)


def logit(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Intercept and slope by Newton's method, and the influence of each row."""
    X, w, b = np.column_stack([np.ones(x.size), x]), np.ones(x.size) if weights is None else weights, np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-X @ b))
        H = (X * (w * p * (1 - p))[:, None]).T @ X
        b = b + np.linalg.solve(H, X.T @ (w * (y - p)))
    p = 1 / (1 + np.exp(-X @ b))
    return b, X * (w * (y - p))[:, None] @ np.linalg.inv(H)


def by_hand(log: pd.DataFrame, p: float = 0.5, weights: str | None = None) -> tuple[np.ndarray, np.ndarray, list]:
    """Horizons, influence of each row on each, and intercept, slope and their influences."""
    value, influence, parts = [], np.zeros((len(log), len(MODELS))), []
    for k, model in enumerate(MODELS):
        own = (log["model"] == model).to_numpy()
        x, y = np.log2(log.loc[own, "minutes"].to_numpy()), log.loc[own, "success"].to_numpy()
        b, u = logit(x, y, None if weights is None else log.loc[own, weights].to_numpy())
        h = (np.log(p / (1 - p)) - b[0]) / b[1]
        value.append(h)
        influence[own, k] = u @ np.array([-1 / b[1], -h / b[1]])
        whole = np.zeros((len(log), 2))
        whole[own] = u
        parts.append((b, whole))
    return np.array(value), influence, parts


@pytest.mark.parametrize("weights", [None, "weight"])
@pytest.mark.parametrize("p", [0.5, 0.8])
def test_horizons_and_their_joint_covariance_are_an_own_logits(rng, p, weights):
    log = runs(rng).assign(weight=lambda log: 1 / (1 + log["family"] % 3))
    found = er.horizon(log, p=p, groups="family", weights=weights, cov="CR0")
    value, influence, _ = by_hand(log, p, weights)
    T = pd.DataFrame(influence).groupby(log["family"].to_numpy()).sum().to_numpy()
    assert (found.params.index.tolist(), found.gate("m1 > 0").n) == (list(MODELS), len(log) // len(MODELS))
    assert found.params.to_numpy() == pytest.approx(value, abs=1e-6)
    assert found.cov_params().to_numpy() == pytest.approx(T.T @ T, rel=1e-4, abs=1e-7)


def test_several_chances_are_in_one_covariance(rng):
    log = runs(rng)
    both = er.horizon(log.rename(columns={"family": "log2 minutes"}), p=[0.5, 0.8], groups="log2 minutes")
    assert both.params.index.tolist() == [f"{model}:{p}" for model in MODELS for p in (0.5, 0.8)]
    for p in (0.5, 0.8):
        alone = er.horizon(log, p=p, groups="family")
        own = [f"{model}:{p}" for model in MODELS]
        assert both.params[own].to_numpy() == pytest.approx(alone.params.to_numpy())
        assert both.bse[own].to_numpy() == pytest.approx(alone.bse.to_numpy())
        assert both.conf_int().loc[own].to_numpy() == pytest.approx(alone.conf_int().to_numpy())


@pytest.mark.parametrize("cov", ["CR0", "CR2"])
def test_intervals_are_fiellers_with_the_covariance_and_the_degrees_of_freedom_in_force(rng, cov):
    log = runs(rng, 25)
    found = er.horizon(log, groups="family", cov=cov)
    _, _, parts = by_hand(log)
    formula = "success ~ 0 + C(model) + C(model):np.log2(minutes)"
    base = er.fit(formula, log, groups="family", family="binomial", cov=cov)
    V = base.cov_params().to_numpy()
    if cov == "CR0":
        u = np.hstack([np.array([part[1][:, j] for part in parts]).T for j in (0, 1)])
        T = pd.DataFrame(u).groupby(log["family"].to_numpy()).sum().to_numpy()
        assert pytest.approx(T.T @ T, rel=1e-5, abs=1e-8) == V
    ends = found.conf_int()
    for k, model in enumerate(MODELS):
        (b0, b1), t2 = parts[k][0], stats.t.ppf(0.975, found.dof[model]) ** 2
        v00, v01, v11 = V[k, k], V[k, k + 3], V[k + 3, k + 3]
        # (b0 + h b1)^2 = t^2 (v00 + 2 h v01 + h^2 v11)
        roots = np.sort(np.roots([b1**2 - t2 * v11, 2 * (b0 * b1 - t2 * v01), b0**2 - t2 * v00]))
        assert ends.loc[model].to_numpy() == pytest.approx(roots, rel=1e-4)
    half = stats.t.ppf(0.975, found.dof) * found.bse
    assert found.conf_int(method="wald")[0].to_numpy() == pytest.approx((found.params - half).to_numpy())
    minutes = found.minutes()
    assert minutes.columns.tolist() == ["estimate", "lower", "upper"]
    assert minutes.to_numpy() == pytest.approx(2 ** np.column_stack([found.params, ends]))


def test_a_slope_that_may_be_0_bounds_nothing(rng):
    log = runs(rng, 8, 1, 0.05)
    log = log[log["model"] == "m1"]
    if log["success"].nunique() == 1:
        log.loc[log.index[0], "success"] = 1 - log["success"].iloc[0]
    assert np.isinf(er.horizon(log, groups="family").conf_int().loc["m1"]).any()


def test_doublings_a_year_are_the_slope_on_the_dates_with_the_noise_of_the_tasks(rng):
    found = er.horizon(runs(rng), groups="family")
    years = np.array([2022.0, 2023.5, 2024.25])
    expected = np.polyfit(years, found.params.to_numpy(), 1)[0]
    c = (years - years.mean()) / np.sum((years - years.mean()) ** 2)
    trend = found.trend(dict(zip(MODELS, years, strict=True)))
    assert trend.params.to_dict() == pytest.approx({"doublings a year": expected})
    assert trend.bse.iloc[0] == pytest.approx(np.sqrt(c @ found.cov_params().to_numpy() @ c))
    dates = pd.Series(["2022-01-01", "2023-07-02", "2024-04-01"], index=list(MODELS))
    days = pd.to_datetime(dates)
    slope = np.polyfit((days - days.iloc[0]) / pd.Timedelta(days=365.25), found.params.to_numpy(), 1)[0]
    assert found.trend(dates).params.iloc[0] == pytest.approx(slope)
    for several, named in ((found, "'m2'|\"m2\""), (er.horizon(runs(rng), p=[0.5, 0.8]), "one `p`")):
        with pytest.raises(MissingColumnError, match=named):
            several.trend({"m0": 2022, "m1": 2023} | ({} if several is found else {"m2": 2024}))
    for last, error in ((2022, ArgumentError), ("soon", ArgumentTypeError), (np.nan, ArgumentTypeError)):
        with pytest.raises(error, match="dates"):
            found.trend(dict.fromkeys(MODELS, 2022) | {"m2": last})
