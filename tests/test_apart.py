"""The largest difference of two models: what is not looked at could not have been the largest."""

from __future__ import annotations

import numpy as np
import pytest

from evalreg.inference import apart
from evalreg.inference.apart import FEW_IN_BANDS, FEW_MODELS, MOST_BANDS, largest_of_pairs, pair_weights, pairs_beyond


def found(z, weight):
    weights = pair_weights(weight)
    return largest_of_pairs(z[:, weights.order], weights), weights


def slow(z, weight):
    n = z.shape[1]
    return np.max([np.abs(z[:, a] - z[:, b]) * weight[a, b] for a in range(n) for b in range(a + 1, n)], axis=0)


def of_models(rng, n_models, spread, held=1.0):
    """Weights that are one over the standard deviation of the difference of independent models."""
    variance = np.exp(2 * spread * rng.standard_normal(n_models))
    weight = np.triu(1 / np.sqrt(variance[:, None] + variance), 1)
    weight *= rng.random(weight.shape) < held  # the others are not in the family
    return np.sqrt(variance), weight + weight.T


@pytest.mark.parametrize("n_models", [2, 6, FEW_MODELS, 60, FEW_IN_BANDS])
@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0])
def test_the_largest_of_pairs_is_the_slow_obvious_one(rng, n_models, spread):
    sd, weight = of_models(rng, n_models, spread, held=0.8)
    z = rng.standard_normal((50, n_models)) * sd
    largest, weights = found(z, weight)
    np.testing.assert_array_equal(largest, slow(z, weight))
    assert len(weights.peak) <= MOST_BANDS


@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(("left", "pairs"), [(0.0, 1 << 20), (1.0, 500), (1.0, 1 << 20)])
def test_all_pairs_or_some_at_a_time_give_the_same(rng, monkeypatch, spread, left, pairs):
    monkeypatch.setattr(apart, "MOST_LEFT", left)
    monkeypatch.setattr(apart, "MOST_PAIRS", pairs)
    sd, weight = of_models(rng, FEW_IN_BANDS, spread)
    z = rng.standard_normal((50, FEW_IN_BANDS)) * sd
    np.testing.assert_array_equal(found(z, weight)[0], slow(z, weight))


def test_weights_without_a_rule_are_compared_too(rng):
    weight = np.triu(np.exp(3 * rng.standard_normal((FEW_IN_BANDS, FEW_IN_BANDS))), 1)
    z = rng.standard_normal((50, FEW_IN_BANDS))
    np.testing.assert_array_equal(found(z, weight + weight.T)[0], slow(z, weight + weight.T))


def test_models_on_a_line_are_all_as_far_apart(rng):
    place = np.sort(rng.standard_normal(FEW_IN_BANDS))
    weight = 1 / (np.abs(place[:, None] - place) + np.eye(FEW_IN_BANDS)) * (1 - np.eye(FEW_IN_BANDS))
    z = rng.standard_normal((50, 1))
    np.testing.assert_allclose(found(z * place, weight)[0], np.abs(z[:, 0]), rtol=1e-9)


def test_a_family_without_pairs_has_nothing():
    assert found(np.ones((3, 60)), np.zeros((60, 60)))[0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(("left", "pairs"), [(0.05, 1 << 20), (0.0, 1 << 20), (1.0, 500)])
def test_pairs_beyond_a_value_are_the_slow_obvious_ones(rng, monkeypatch, spread, left, pairs):
    monkeypatch.setattr(apart, "MOST_LEFT", left)
    monkeypatch.setattr(apart, "MOST_PAIRS", pairs)
    sd, weight = of_models(rng, 60, spread, held=0.8)
    z = rng.standard_normal((50, 60)) * sd
    size = np.array([np.abs(z[:, a] - z[:, b]) * weight[a, b] for a in range(60) for b in range(a + 1, 60)])
    weights = pair_weights(weight)
    for least in (1.5, np.median(size.max(axis=0)), size.max()):
        largest, number = pairs_beyond(z[:, weights.order], weights, least)
        np.testing.assert_array_equal(number, (size > least).sum(axis=0))
        some = number > 0
        np.testing.assert_array_equal(largest[some], size.max(axis=0)[some])
