"""What `repr` shows of results: every column, whole names, and not a screen for each of many models."""

import warnings

import numpy as np
import pandas as pd
import pytest

import evalreg as er

NAMES = ("meta-llama/Meta-Llama-3.1-70B-Instruct", "meta-llama/Meta-Llama-3.1-70B-Instruct-Turbo")


@pytest.fixture
def log():
    rng = np.random.default_rng(1)
    rows = [{"model": name, "item": i, "score": float(rng.random() < 0.6)} for name in NAMES for i in range(60)]
    return pd.DataFrame(rows)


def shown(text):
    """Words of all lines, since columns stand in blocks."""
    return set(text.replace("\\", " ").split())


def test_the_answer_and_a_line_for_each_model_are_shown(log):
    results = er.mean(log, by="model", item="item")
    with pd.option_context("display.width", 40, "display.max_columns", 2, "display.max_colwidth", 10):
        text = repr(results)
        assert repr(er.compare(log, item="item")).count("difference (SE)") == 1
    assert set(NAMES) <= shown(text)
    for value in results.params:
        assert f"{value:.4f}" in text


def test_of_many_models_the_first_and_last_are_shown(log):
    rng = np.random.default_rng(2)
    rows = [{"model": f"m{i:02d}", "item": j, "score": rng.random()} for i in range(60) for j in range(20)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = er.mean(pd.DataFrame(rows), by="model", item="item")
        text = repr(results)
    order = results.params.sort_values(ascending=False).index
    assert {order[0], order[-1]} <= shown(text)
    assert order[30] not in shown(text)
