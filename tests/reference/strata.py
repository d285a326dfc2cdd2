"""Writes the log that `strata.R` reads, from a simulated dataset of the package: python tests/reference/strata.py."""

from pathlib import Path

import pandas as pd

import evalreg as er

if __name__ == "__main__":
    means = {"history": 0.9, "law": 0.55, "physics": 0.2}
    parts = []
    for seed, (subject, mean) in enumerate(means.items()):
        part = er.datasets.passages(
            n_passages=12 + 4 * seed, questions_per_passage=5, unequal=True, mean=mean, icc=0.1, seed=seed
        )
        parts.append(part.assign(subject=subject, passage=subject + " " + part["passage"]))
    log = pd.concat(parts, ignore_index=True)
    log["weight"] = 1 + log["n_words"] / log["n_words"].max()
    log.to_csv(Path(__file__).with_suffix(".csv"), index=False)
