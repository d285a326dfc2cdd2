"""The numbers of other packages on `docs/conventions.md`, of logs that evalreg simulates.

From the root, each part where its package is installed (`tables` first, where evalreg is):
`python tests/reference/other_packages.py tables|pyfixest|inspect|errorbars FOLDER`.
The last three add to `other_packages.json`.
Run with pyfixest 0.60.0, inspect_ai 0.3.285 and errorbars 0.2.4.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

Numbers = dict[str, float | list[float]]  # standard error, interval, p; or one number


def tables(folder: Path) -> Numbers:
    """The simulated logs as files; no numbers."""
    import evalreg as er

    log = er.datasets.passages(n_passages=30, unequal=True, mean=0.8, icc=0.3, seed=4)
    log.assign(words=log["n_words"] / 100).to_csv(folder / "passages.csv", index=False)
    er.datasets.paired(n_passages=60, difference=0.06, correlation=0.7, seed=3).to_csv(
        folder / "paired.csv", index=False
    )
    er.datasets.sampled(n_questions=100, n_samples=4, seed=1).to_csv(folder / "sampled.csv", index=False)
    judged = er.datasets.judge_log(n_models=4, n_prompts=60, n_judges=3, judge_sd=0.5, seed=1)
    mine = judged[judged["left"] == "model-01"]
    mine = mine.assign(score=mine["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0}))
    mine.to_csv(folder / "judged.csv", index=False)
    return {}


def pyfixest(folder: Path) -> Numbers:
    """Means, slopes, absorbed questions and two axes by `feols`."""
    import pyfixest as pf

    def feols(formula: str, log: pd.DataFrame, groups: str | None, row: int = 0, **options: Any) -> list[float]:
        table = pf.feols(formula, log, vcov="iid" if groups is None else {"CRV1": groups}, **options).tidy()
        return [float(table.iloc[row][name]) for name in ("Std. Error", "2.5%", "97.5%")]

    log, paired = pd.read_csv(folder / "passages.csv"), pd.read_csv(folder / "paired.csv")
    judged = pd.read_csv(folder / "judged.csv")
    return {
        "pyfixest.mean": feols("score ~ 1", log, "passage"),
        "pyfixest.rows": feols("score ~ 1", log, None),
        "pyfixest.slope": feols("score ~ words", log, "passage", 1),
        "pyfixest.absorbed": feols("score ~ model | question", paired, "question"),
        "pyfixest.crossed": feols("score ~ 1", judged, "prompt + judge"),
        "pyfixest.crossed_own": feols("score ~ 1", judged, "prompt + judge", ssc=pf.ssc(G_df="conventional")),
    }


def inspect(folder: Path) -> Numbers:
    """`stderr` and `ci`, and what four epochs are reduced to."""
    from inspect_ai.scorer import SampleScore, Score, ci, mean_score, stderr

    def scores(log: pd.DataFrame, cluster: str | None) -> list[SampleScore]:
        meta = [None if cluster is None else {"cluster": one} for one in log[cluster or "question"]]
        return [
            SampleScore(score=Score(value=float(v)), sample_metadata=m) for v, m in zip(log["score"], meta, strict=True)
        ]

    log, sampled = pd.read_csv(folder / "passages.csv"), pd.read_csv(folder / "sampled.csv")
    by_passage = scores(log, "passage")
    found = ci(cluster="cluster")(by_passage)
    parts = sampled.groupby("question")["score"].apply(lambda s: [Score(value=float(v)) for v in s])
    reduced = [SampleScore(score=mean_score()(part)) for part in parts]
    return {
        "inspect.mean": [float(stderr(cluster="cluster")(by_passage)), found["lower"], found["upper"]],
        "inspect.rows": float(stderr()(scores(log, None))),
        "inspect.epochs": float(stderr()(reduced)),
    }


def errorbars(folder: Path) -> Numbers:
    """`summarize` and `compare` on the command line."""
    import subprocess

    def cli(command: str, table: str, *options: str) -> dict[str, Any]:
        renamed = pd.read_csv(folder / f"{table}.csv").rename(columns={"question": "question_id"})
        renamed["of_question"] = "of " + renamed["question_id"]  # clusters named as their questions are passed over
        if "model" not in renamed:
            renamed["model"] = "one"
        renamed.to_csv(folder / "renamed.csv", index=False)
        call = [
            str(Path(sys.executable).with_name("errorbars")),
            command,
            str(folder / "renamed.csv"),
            *options,
            "--json",
        ]
        return dict(json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout))

    def interval(found: dict[str, Any], se: str, tail: str) -> list[float]:
        return [found[name] for name in (se, f"ci_low{tail}", f"ci_high{tail}")]

    one = cli("summarize", "passages", "--cluster-col", "passage")
    inner = one["clustered"]
    by_question = cli("summarize", "sampled", "--cluster-col", "of_question")["clustered"]
    pair = cli("compare", "paired", "--model-a", "new", "--model-b", "old", "--cluster-col", "passage")
    return {
        "errorbars.mean": [inner["clustered_se"], inner["clustered_ci_low"], inner["clustered_ci_high"]],
        "errorbars.rows": interval(one, "se", ""),
        "errorbars.design_effect": inner["design_effect"],
        "errorbars.icc": inner["icc"],
        "errorbars.paired": [*interval(pair, "se_clustered", "_clustered"), pair["p_value_clustered"]],
        "errorbars.paired_rows": [*interval(pair, "se_paired", ""), pair["p_value"]],
        "errorbars.mcnemar": pair["mcnemar"]["p_value"],
        "errorbars.answers": cli("summarize", "sampled")["se"],
        "errorbars.answers_by_question": by_question["clustered_se"],
    }


if __name__ == "__main__":
    part = {"tables": tables, "pyfixest": pyfixest, "inspect": inspect, "errorbars": errorbars}[sys.argv[1]]
    kept = Path(__file__).with_name("other_packages.json")
    values = json.loads(kept.read_text()) if kept.exists() else {}
    kept.write_text(json.dumps(values | part(Path(sys.argv[2])), indent=1) + "\n")
