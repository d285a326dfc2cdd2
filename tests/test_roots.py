"""Where functions change their sign: known roots, brackets either way round, and what is NaN or never crossed."""

from __future__ import annotations

import numpy as np

from evalreg.numerics.roots import crossings


def test_roots_of_many_shapes_are_found_from_either_side():
    root = np.array([0.3, 1e-6, 0.999, 0.5])

    def function(x):  # a line, a steep cube, a step, a kink
        return np.stack(
            [
                x[0] - root[0],
                1e9 * (x[1] - root[1]) ** 3,
                np.sign(x[2] - root[2]),
                np.where(x[3] > 0.5, 1e3, 1e-3) * (x[3] - 0.5),
            ]
        )

    low, high = np.zeros(4), np.ones(4)
    found = crossings(function, low, high, function(low), function(high), 1e-12)
    np.testing.assert_allclose(found, root, rtol=0, atol=1e-12)
    assert (function(found) > 0).all()
    mirrored = crossings(lambda x: function(1 - x), high, low, function(low), function(high), 1e-12)
    np.testing.assert_allclose(mirrored, 1 - root, rtol=0, atol=1e-12)


def test_nan_counts_as_not_above():
    found = crossings(
        lambda x: np.where(x < 0.7, np.nan, x - 0.5),
        np.zeros(1),
        np.ones(1),
        np.array([np.nan]),
        np.array([0.5]),
        1e-12,
    )
    np.testing.assert_allclose(found, 0.7, atol=1e-12)
