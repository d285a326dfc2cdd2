"""Writes ppi.csv and ppi.json, a mean as ppi_py has it (`pip install ppi-python`): python tests/reference/ppi.py."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import ppi_py

if __name__ == "__main__":
    rng = np.random.default_rng(3)
    truth = rng.normal(size=1500)
    judge = 0.4 + 0.7 * truth + 0.7 * rng.normal(size=truth.size)
    log = pd.DataFrame({"judge": judge, "human": np.where(rng.random(truth.size) < 0.4, truth, np.nan)}).round(6)
    has = log["human"].notna()
    parts = [log["human"][has].to_numpy(), log["judge"][has].to_numpy(), log["judge"][~has].to_numpy()]
    # lambda* with the judge's variance of each part beside its own number of rows; theirs pools it over both.
    y, f, rest = parts
    lam = np.cov(y, f)[0, 1] / len(y) / (f.var(ddof=1) / len(f) + rest.var(ddof=1) / len(rest))
    ends = {"lambda": lam, "mean": ppi_py.ppi_mean_pointestimate(*parts, lam=lam)}
    ends["lower"], ends["upper"] = ppi_py.ppi_mean_ci(*parts, alpha=0.05, lam=lam)
    ends["pooled_lower"], ends["pooled_upper"] = ppi_py.ppi_mean_ci(*parts, alpha=0.05)
    found = {"ppi_py": version("ppi-python")} | {name: np.asarray(end).item() for name, end in ends.items()}
    here = Path(__file__)
    log.to_csv(here.with_suffix(".csv"), index=False)
    here.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
