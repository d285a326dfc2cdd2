"""The table of `absorbed`, and pyfixest's numbers of it: python tests/reference/absorbed.py, from the root.

Run with pyfixest 0.60.0; `absorbed.R` adds clubSandwich's.
"""

import json

import numpy as np
import pandas as pd
import pyfixest as pf

N = 480
FACTORS = {"question": "question", "both": "question + judge", "joint": "question^judge"}
CLUSTERS = {"question": "question", "passage": "passage", "judge": "judge", "two": "question + judge"}


def table() -> pd.DataFrame:
    """Whole numbers of a linear congruence; the first question has one row."""
    state, drawn = 12345, []
    for _ in range(6 * N):
        state = (1103515245 * state + 12345) % 2**31
        drawn.append(state / 2**31)
    u = np.array(drawn).reshape(6, N)
    log = pd.DataFrame(
        {
            "question": np.floor(60 * u[0] ** 1.3).astype(int),
            "judge": np.floor(7 * u[1]).astype(int),
            "x": np.round(u[2] * 4, 3),
            "model": np.array(["a", "b", "c"])[np.floor(3 * u[3]).astype(int)],
        }
    )
    log["passage"] = log.question // 4
    log["w"] = np.round(0.5 + u[4], 3)
    log["score"] = np.round(
        0.3 * log.x + (log.question % 7) / 3 + (log.judge % 3) / 2 + 0.4 * (log.model == "b") + 2 * u[5], 3
    )
    log.loc[0, ["question", "passage"]] = [1000, 999]
    return log


def main() -> None:
    """Write both files."""
    log, values = table(), {}
    log.to_csv("tests/reference/absorbed.csv", index=False)
    for name, factors in FACTORS.items():
        for by, clusters in {**CLUSTERS, "rows": None}.items():
            for weights in (None, "w"):
                vcov = "hetero" if clusters is None else {"CRV1": clusters}
                fit = pf.feols(
                    f"score ~ x + model | {factors}",
                    log,
                    vcov=vcov,
                    weights=weights,
                    fixef_rm="singleton",
                    fixef_tol=1e-12,
                )
                values[f"{name}.{by}.{weights or 'plain'}"] = {
                    "coef": [float(v) for v in fit.coef()],
                    "se": [float(v) for v in fit.se()],
                    "n": int(fit._N),
                }
    with open("tests/reference/absorbed.json", "w", encoding="utf-8") as file:
        json.dump(
            {"pyfixest": pf.__version__, "coefficients": ["x", "model[T.b]", "model[T.c]"], "values": values},
            file,
            indent=1,
        )
        file.write("\n")


if __name__ == "__main__":
    main()
