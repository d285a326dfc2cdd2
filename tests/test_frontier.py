"""Score against cost: means and covariance by hand, states of clear cases, the familywise level, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

METRICS = {"score": "max", "usd": "min"}


def log_of(rng: np.random.Generator, means: dict[str, tuple[float, float]], n_items: int = 200) -> pd.DataFrame:
    """Scores and costs of models with these means, on items that are alike in fours."""
    item = np.arange(n_items)
    hard = 0.5 * rng.normal(size=n_items // 4 + 1)[item // 4]
    parts = []
    for model, (score, usd) in means.items():
        scores = {"score": score + hard + rng.normal(size=n_items)}
        scores["usd"] = usd + 0.2 * hard + 0.3 * rng.normal(size=n_items)
        parts.append(pd.DataFrame({"model": model, "item": item, "suite": item // 4} | scores))
    return pd.concat(parts, ignore_index=True)


def test_means_and_their_covariance_are_those_of_the_influence_by_hand(rng):
    log = log_of(rng, {"a": (1, 1), "b": (0, 2)}, 60)
    found = er.frontier(log, METRICS, groups="suite", cov="CR0")
    assert found.params.index.tolist() == ["a:score", "a:usd", "b:score", "b:usd"]
    table = log.pivot(index="item", columns="model", values=["score", "usd"]).swaplevel(axis=1).sort_index(axis=1)
    assert found.params.to_numpy() == pytest.approx(table.mean().to_numpy())
    T = ((table - table.mean()) / len(table)).groupby(table.index // 4).sum().to_numpy()
    assert found.cov_params().to_numpy() == pytest.approx(T.T @ T, rel=1e-10, abs=1e-14)
    sums = found.influence().groupby(log["suite"].to_numpy()).sum().to_numpy()
    assert sums.T @ sums == pytest.approx(T.T @ T, rel=1e-10, abs=1e-14)
    alone = er.mean(log, by="model", item="item", groups="suite")
    assert found.with_cov(cov=None).bse[["a:score", "b:score"]].to_numpy() == pytest.approx(alone.bse.to_numpy())


def test_states_of_clear_cases(rng):
    means = {"good": (2.0, 1.0), "cheap": (0.0, 0.2), "bad": (-1.0, 3.0), "twin": (2.0, 1.0)}
    states = er.frontier(log_of(rng, means, 400), METRICS, groups="suite").states
    assert states.to_dict() == {"bad": "dominated", "cheap": "frontier", "good": "open", "twin": "open"}
    assert type(er.frontier(log_of(rng, means), METRICS).contrast("`good:usd` - `bad:usd`")) is er.Results
    page = str(er.frontier(log_of(rng, means, 400), METRICS, groups="suite").summary())
    assert 'Frontier: "cheap"; dominated: "bad"; open: "good", "twin"' in " ".join(page.split())
    other = er.frontier(log_of(rng, means, 400), {"score": "min", "usd": "max"}, groups="suite").states
    assert other["bad"] == "frontier"
    assert er.frontier(log_of(rng, means, 12), METRICS, groups="suite", alpha=0.001).states["good"] == "open"


def test_prices_that_do_not_vary_are_known_after_some_clusters(rng):
    log = log_of(rng, {"a": (2, 0), "b": (0, 0)})
    priced = log.assign(usd=log["model"].map({"a": 30.0, "b": 2.0}))
    assert er.frontier(priced, METRICS, groups="suite").states.to_dict() == {"a": "frontier", "b": "frontier"}
    with pytest.raises(er.errors.MissingColumnError, match="`metrics` names"):
        er.frontier(priced, {"score": "max", "cost": "min"}, groups="suite")
    few = priced[priced["suite"] < 3]
    assert er.frontier(few, METRICS, groups="suite").states["b"] == "open"
