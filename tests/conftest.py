"""Fixtures that every test may ask for, and how hypothesis draws."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from golden import Golden, load
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# The same examples in every run, and no time limit: a slow machine is not a failure.
settings.register_profile("evalreg", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("evalreg")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that starts from the same seed in every test."""
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real logs: EVALREG_SHARED, or `shared` beside the checkout.

    A test that asks for it is skipped where there is none, and fails there under EVALREG_REQUIRE_SHARED=1.
    """
    folder = Path(os.environ.get("EVALREG_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        reason = f"the folder of real logs is not here: {folder} (set EVALREG_SHARED to its path)"
        if os.environ.get("EVALREG_REQUIRE_SHARED") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return folder.resolve()


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Golden]:
    """Reference values by name: `golden("d1_clustered").check("score.se_cr0", se)`; see tests/reference/README.md."""
    return lambda name: load(ROOT / "tests" / "reference", name)
