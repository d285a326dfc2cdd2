"""Two small logs that tests of refusals and of odd values change in some places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def make_log() -> pd.DataFrame:
    """Forty answers: questions lie inside passages, judges cross them."""
    rng, row = np.random.default_rng(1), np.arange(40)
    columns = {
        "score": rng.integers(0, 2, 40).astype(float),
        "x": rng.normal(size=40),
        "w": rng.uniform(1, 2, 40),
        "passage": [f"p{i}" for i in row % 10],
        "question": [f"q{i}" for i in row % 20],
        "judge": [f"j{i}" for i in row % 3],
        "model": np.where(row < 20, "alpha", "beta"),
        "subject": np.where(row % 2, "law", "math"),
        "answer": row,
    }
    return pd.DataFrame(columns)


PLAYERS = ["ada", "bob", "cyd", "dan"]


def make_duels() -> pd.DataFrame:
    """Each of six pairs once on each of twenty prompts, by one of three judges; a tie in every ninth row."""
    rng, row = np.random.default_rng(4), np.arange(120)
    pairs = np.array([(a, b) for i, a in enumerate(PLAYERS) for b in PLAYERS[i + 1 :]], dtype=object)
    sides = np.where((row % 4 == 1)[:, None], pairs[row % 6, ::-1], pairs[row % 6])
    winner = np.where(row % 9 == 0, "tie", np.where(rng.random(120) < 0.6, "left", "right")).astype(object)
    columns = {
        "left": sides[:, 0],
        "right": sides[:, 1],
        "winner": winner,
        "score": pd.Series(winner).map({"left": 1.0, "right": 0.0, "tie": 0.5}),
        "prompt": [f"p{i:02d}" for i in row // 6],
        "judge": [f"j{i}" for i in rng.integers(3, size=120)],
        "lang": np.where(row // 6 % 2, "de", "en"),
        "weight": rng.uniform(1, 2, 120),
    }
    return pd.DataFrame(columns)


LOG, DUELS = make_log(), make_duels()
BY_INDEX = pd.Series(LOG["passage"].to_numpy())
TIES = np.flatnonzero(DUELS["winner"] == "tie")
VERDICTS = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
SCORES = {"left": "left", "right": "right", "score": "score", "groups": "prompt"}


def with_value(frame: pd.DataFrame, column: str, rows: Any, value: Any, **more: tuple[Any, Any]) -> pd.DataFrame:
    """A frame with one value in some rows of a column, and of others."""
    frame = frame.copy()
    for name, (places, entry) in {column: (rows, value), **more}.items():
        changed = frame[name].astype(object) if isinstance(entry, str) or entry is None else frame[name].copy()
        changed.iloc[list(places)] = entry
        frame[name] = changed
    return frame
