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


def test_every_column_and_the_whole_name_are_shown(log):
    results = er.mean(log, by="model", item="item")
    comparison = er.compare(log, item="item")
    with pd.option_context("display.width", 40, "display.max_columns", 2, "display.max_colwidth", 10):
        texts = [
            (repr(results), results.to_frame()),
            (repr(er.read_results(results.to_json())), results.to_frame()),
            (repr(comparison), comparison.table),
        ]
    for text, frame in texts:
        assert set(frame.columns) | set(NAMES) <= shown(text)
        assert "..." not in text


def test_of_many_models_the_first_and_last_are_shown(log):
    rng = np.random.default_rng(2)
    rows = [{"model": f"m{i:02d}", "item": j, "score": rng.random()} for i in range(60) for j in range(20)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = repr(er.mean(pd.DataFrame(rows), by="model", item="item"))
    assert {"m00", "m59"} <= shown(text)
    assert "m30" not in shown(text)


def test_a_label_cannot_steer_the_terminal(log):
    log["model"] = log["model"].where(log["model"] != NAMES[0], "red\x1b[31m")
    text = repr(er.mean(log, by="model", item="item"))
    assert "\x1b" not in text
    assert r"\x1b[31m" in text
