"""Writes the logs that `joint.R` reads: python tests/reference/joint.py."""

from pathlib import Path

import numpy as np
import pandas as pd

if __name__ == "__main__":
    parts = []
    for n_passages in (6, 12, 30):
        rng = np.random.default_rng(n_passages)
        passage = np.repeat(np.arange(n_passages), rng.geometric(0.3, n_passages) + 1)
        ease = rng.normal(size=n_passages)[passage]
        for model in "abcd":
            own = 0.8 * rng.normal(size=n_passages)[passage]
            score = (ease + own + rng.normal(size=passage.size)).round(4)
            frame = pd.DataFrame({"n_passages": n_passages, "model": model, "passage": passage, "score": score})
            parts.append(frame.assign(question=np.arange(passage.size), x=rng.exponential(size=passage.size).round(4)))
    pd.concat(parts).to_csv(Path(__file__).with_suffix(".csv"), index=False)
