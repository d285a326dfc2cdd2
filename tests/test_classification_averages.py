"""Weighted averages and kappa: against their definitions, numerical derivatives and statsmodels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

import evalreg as er
from evalreg.errors import ArgumentError, DataError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# Central differences with a step of 1e-6 in one row's weight; rows of one cell of the table have one derivative.
STEP, DERIVATIVE = 1e-6, 1e-6


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(7)
    truth = rng.choice(["a", "b", "c"], 240, p=[0.6, 0.3, 0.1])
    said = np.where(rng.random(240) < 0.65, truth, rng.choice(["a", "b", "c"], 240))
    return pd.DataFrame({"truth": truth, "said": said, "passage": np.arange(240) // 6, "w": rng.uniform(0.5, 2, 240)})


def table(log, weights):
    return pd.crosstab(log["truth"], log["said"], weights, aggfunc="sum").fillna(0.0).to_numpy()


def by_hand(m, metric):
    """scikit-learn's weighted averages and Cohen's kappa, from the table of counts."""
    p, support, predicted = np.diag(m), m.sum(axis=1), m.sum(axis=0)
    if metric == "kappa":
        chance = support @ predicted / m.sum() ** 2
        return (p.sum() / m.sum() - chance) / (1 - chance)
    per_class = {"precision": p / predicted, "recall": p / support, "f1": 2 * p / (support + predicted)}[metric]
    return np.average(per_class, weights=support)


def options(metric):
    average = None if metric == "kappa" else "weighted"
    return {"truth": "truth", "predicted": "said", "metric": metric, "average": average}


@pytest.mark.parametrize("metric", ["precision", "recall", "f1", "kappa"])
@pytest.mark.parametrize("weights", [None, "w"])
def test_values_and_errors_are_those_of_the_definition_and_its_derivative(log, metric, weights):
    found = er.classification(log, weights=weights, groups="passage", cov="CR0", **options(metric))
    w = np.ones(len(log)) if weights is None else log["w"].to_numpy()
    m = table(log, w)
    assert found.params.iloc[0] == pytest.approx(by_hand(m, metric), rel=1e-12)
    slope = np.zeros(m.shape)
    for cell in np.ndindex(m.shape):
        up, down = m.copy(), m.copy()
        up[cell] += STEP
        down[cell] -= STEP
        slope[cell] = (by_hand(up, metric) - by_hand(down, metric)) / (2 * STEP)
    truth, said = (pd.factorize(log[name], sort=True)[0] for name in ("truth", "said"))
    totals = np.bincount(log["passage"], w * slope[truth, said])
    assert found.bse.iloc[0] == pytest.approx(np.sqrt(totals @ totals), rel=DERIVATIVE)


def test_kappa_of_independent_rows_has_the_error_of_statsmodels(log):
    found = er.classification(log, truth="truth", predicted="said", metric="kappa")
    other = cohens_kappa(table(log, np.ones(len(log))))
    n = len(log)
    assert found.params.iloc[0] == pytest.approx(other.kappa, rel=1e-12)
    # Ours divides by n - 1 as every naive error here, theirs by n.
    assert found.bse.iloc[0] * np.sqrt((n - 1) / n) == pytest.approx(other.std_kappa, rel=1e-10)
    assert found.conf_int().to_numpy().ravel() == pytest.approx(
        found.params.iloc[0] + np.array([-1, 1]) * found.bse.iloc[0] * 1.9699, rel=1e-3
    )


def test_weighted_recall_is_the_accuracy_with_its_error(log):
    roles = {"truth": "truth", "predicted": "said", "groups": "passage"}
    accuracy = er.classification(log, **roles, metric="accuracy")
    recall = er.classification(log, **roles, metric="recall", average="weighted")
    assert recall.params.iloc[0] == pytest.approx(accuracy.params.iloc[0], rel=1e-12)
    assert recall.bse.iloc[0] == pytest.approx(accuracy.bse.iloc[0], rel=1e-9)


def test_models_are_as_if_alone(log):
    both = pd.concat([log.assign(model="x"), log.assign(model="y", said=log["said"].to_numpy()[::-1])])
    for metric in ("f1", "kappa"):
        found = er.classification(both, by="model", groups="passage", **options(metric))
        for name, part in both.groupby("model"):
            alone = er.classification(part, groups="passage", **options(metric))
            assert found.params[name] == pytest.approx(alone.params.iloc[0], rel=1e-12)
            assert found.bse[name] == pytest.approx(alone.bse.iloc[0], rel=1e-9)


def test_what_has_no_kappa_is_refused(log):
    with pytest.raises(DataError, match="at least two classes"):
        er.classification(log.assign(truth="a", said="a"), truth="truth", predicted="said", metric="kappa")
    with pytest.raises(ArgumentError, match='`metric="kappa"` counts all classes'):
        er.classification(log, truth="truth", predicted="said", metric="kappa", average="macro")


@pytest.mark.slow
def test_coverage_of_kappa_and_weighted_f1_in_clusters():
    """Two labels that agree in clusters: 95% intervals, 400 logs; 3 binomial errors around .95 are .917 to .983."""
    rng = np.random.default_rng(8)

    def draw(n_clusters):
        easy = rng.beta(2, 1, n_clusters)[:, None] * np.ones(5)
        truth = rng.random(easy.shape) < 0.4
        said = np.where(rng.random(easy.shape) < easy, truth, rng.random(easy.shape) < 0.5)
        frame = {"truth": truth.ravel(), "said": said.ravel(), "g": np.repeat(np.arange(n_clusters), 5)}
        return pd.DataFrame(frame).astype(int)

    large = draw(200_000).rename(columns={"g": "passage"})
    for metric in ("kappa", "f1"):
        true, hits = by_hand(table(large, np.ones(len(large))), metric), 0
        for _ in range(400):
            found = er.classification(draw(40), groups="g", **options(metric))
            low, high = found.conf_int().iloc[0]
            hits += low <= true <= high
        assert 0.917 <= hits / 400 <= 0.983, metric
