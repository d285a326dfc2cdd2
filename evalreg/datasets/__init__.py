"""Simulated evaluation logs whose true values are known.

Every function returns a tidy pandas DataFrame with two attributes: `.attrs["truth"]`, a plain dict of the true values
of the world that was drawn from, and `.attrs["seed"]`, the seed (None when a Generator was passed). The data are
simulated: no real model, judge or benchmark is in them. An estimate can be compared with its truth, which no real
log allows.
"""

from evalreg.datasets.simulated import judge_log, paired, passages, published_design, sampled

__all__ = ["judge_log", "paired", "published_design", "passages", "sampled"]
