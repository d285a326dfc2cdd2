"""Every option of a command changes what it prints, or is refused: none is silently left aside."""

import argparse
import itertools
import json

import numpy as np
import pandas as pd
import pytest

from evalreg.cli.main import build_parser

# What is printed where and how, the choices within a log of a harness, and what is known of sums: of other tests.
ASIDE = {"help", "file", "format", "spreadsheet", "output", "figure", "summary", "text", "title"}
# A value of each option that is not its default.
VALUES = {
    "score": "points",
    "weights": "w",
    "alpha": "0.2",
    "where": "w > 2",
    "missing": "raise",
    "seed": "3",
    "groups": "passage",
    "item": "question",
    "sample": "sample",
    "model": "model",
    "by": "model",
    "strata": "subject",
    "cov": "naive",
    "dof": "7",
    "ssc": "none",
    "repair": "none",
    "questions": "shared",
    "population": "400",
    "strata_weights": "macro",
    "baseline": "b",
    "adjust": "holm",
    "icc": "0.1",
    "draws": "99",
    "gate": "b - a > 0",
    "left": "other",
    "right": "other",
    "winner": "winner",
    "labels": "left=right,right=left",
    "key": "prompt,judge",
    "method": "bradley-terry",
    "opponents": "as_sampled",
    "standardise": "uniform",
    "formula": "longer",
    "ties": "davidson",
    "reference": "b",
    "scale": "elo",
    "alike": "judge",
    "judges": "3,9",
    "judge_axis": "judge",
    "delta": "0.2",
    "power": "0.9",
    "assurance": "0.9",
    "k": "2:3",
    "cost_question": "2",
    "cost_answer": "0.1",
    "design": "model=2,question=9,sample=2",
    "facets": "model x question",
    "passes": "right",
    "n_samples": "asked",
    "levels": "y,x",
    "treatment": "subject",
    "statistic": "difference",
    "eval": "subject",
    "names": "A,B",
    "form": "clustered",
    "tasks": "drawn",
    "eval_weights": "law=0.3,maths=0.7",
    "show": "a",
    "family": "poisson",
    "numerator": "w",
    "denominator": "points",
    "models": "b,c",
    "table": "pairs",
    "against": "score ~ 1",
    "metric": "x",
    "filter": "x",
    "scorer": "x",
    "failed": "zero",
    "broken": "drop",
    "log_format": "helm",
    "roles": "model=subject",
    "cells": "any",
    "n_shards": "2",
    "n_questions": "3",
    "keep": "a",
    "beneath": "interval",
}
SCORES, PAIRS = ("scores.csv", "--item", "question"), ("pairs.csv", "--winner", "winner", "--groups", "prompt")
CSV, PASSAGES = ("--format", "csv"), ("--groups", "passage")
SAMPLES = ("samples.csv", "--item", "question", "--sample", "sample")
# Of each, what has no effect there: rows that lack nothing, a seed of what is exact or not asked for, a covariance of
# one clustering with nothing to repair, the label that is last by name already.
CALLS = [
    (("mean", *SCORES, "--by", "model"), {"seed", "missing", "repair"}),
    (("mean", *SAMPLES, "--by", "model", "--ranks"), {"missing", "repair"}),
    (("compare", *SCORES), {"missing", "repair", "model", "icc"}),
    (("compare", *SCORES, "--unpaired"), {"missing", "repair", "model"}),
    (("leaderboard", *PAIRS), {"missing", "repair"}),
    (("report", *SCORES), {"missing", "repair", "model"}),
    (("report", *SCORES, "--baseline", "a"), {"missing", "repair", "model"}),
    (("report", *PAIRS), {"missing", "repair"}),
    (("evals", *SCORES, "--eval", "subject"), {"missing", "repair", "model"}),
    (("evals", *SCORES, "--eval", "subject", "--average", "--baseline", "a", *CSV), {"missing", "repair", "model"}),
    (("noise", *SAMPLES), {"missing", "model"}),
    (("randomise", "scores.csv", "--treatment", "subject", *PASSAGES), {"missing"}),
    (("components", "samples.csv", "--facets", "model x question x sample", *CSV), {"missing"}),
    (("plan", *SAMPLES, "--where", 'model != "c"', "--delta", "0.1", *CSV), {"missing", "model", "baseline"}),
    (("plan separate", *SCORES, "--model", "model", "--models", "a,b"), {"missing", "repair"}),
    (("plan separate", *PAIRS, "--models", "a,b"), {"missing", "repair", "key"}),
    (("ratio", "scores.csv", "--numerator", "score", "--denominator", "w", *PASSAGES), {"missing", "repair"}),
    (("table", *SCORES, "--by", "model"), {"missing", "repair"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    rng = np.random.default_rng(4)
    folder = tmp_path_factory.mktemp("logs")
    question = np.arange(36)
    cells = pd.DataFrame(list(itertools.product("abc", question, range(2))), columns=["model", "question", "sample"])
    level = rng.normal(size=question.size)[cells["question"]] + 0.5 * (cells["model"] == "b")
    cells["score"] = (level + rng.normal(size=len(cells)) > 0).astype(float)
    cells["points"] = level + rng.normal(size=len(cells)) + 9
    cells["passage"] = cells["question"] // 3
    cells["judge"], cells["longer"] = cells["question"] % 5, rng.normal(size=len(cells))
    cells["subject"] = np.where(cells["passage"] % 2, "law", "maths")
    cells["w"] = rng.integers(1, 4, question.size)[cells["question"]] + 0.5
    # A question that one model did not answer.
    samples = cells[(cells["model"] != "a") | (cells["question"] > 0)]
    samples.to_csv(folder / "samples.csv", index=False)
    samples[samples["sample"] == 0].drop(columns="sample").to_csv(folder / "scores.csv", index=False)
    pairs = pd.DataFrame(
        list(itertools.product([("a", "b"), ("b", "c"), ("c", "a")], range(30), range(6))),
        columns=["sides", "prompt", "judge"],
    )
    pairs["left"], pairs["right"] = pairs["sides"].str[0], pairs["sides"].str[1]
    ahead = (pairs["left"] == "a") * 0.8 + rng.normal(size=30)[pairs["prompt"]] + rng.normal(size=len(pairs))
    pairs["winner"] = np.select([ahead > 0.3, ahead < -0.3], ["left", "right"], "tie")
    pairs["w"], pairs["longer"] = rng.integers(1, 4, len(pairs)) + 0.5, rng.normal(size=len(pairs))
    pairs["points"] = rng.choice([0.0, 0.5, 1.0], len(pairs))
    pairs["model"] = np.where(pairs["prompt"] % 2, "en", "ko")
    pairs = pairs.sample(len(pairs) - 100, random_state=1)
    pairs.drop(columns="sides").to_csv(folder / "pairs.csv", index=False)
    return folder


def options_of(command: str) -> list[argparse.Action]:
    """The options of a command that are tested here."""
    parser = build_parser()
    chosen = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return [one for one in chosen.choices[command]._actions if one.option_strings and one.dest not in ASIDE]


def printed(call, words):
    """What a command finds, without the options that it repeats; None where it refuses."""
    status, out, said = call(*words)
    if status == 3:
        return None
    if "json" in words:
        out = {name: value for name, value in json.loads(out).items() if name not in ("options", "log")}
    return out, said


# A seed and a level change what is found with few draws as with many.
@pytest.mark.usefixtures("few_draws")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("words", "nothing"), CALLS, ids=[" ".join(words) for words, _ in CALLS])
def test_an_option_changes_what_is_found_or_is_refused(words, nothing, logs, call, monkeypatch):
    monkeypatch.chdir(logs)
    given = (*words[0].split(), *words[1:], *(() if "--format" in words else ("--format", "json")))
    plain, idle = printed(call, given), []
    assert plain is not None
    for option in options_of(words[0]):
        more = [option.option_strings[-1], *([] if option.nargs == 0 else [VALUES[option.dest]])]
        if option.dest.startswith("cost_"):
            more = ["--cost-question", "2", "--cost-answer", "0.1"]
        if more[0] not in words and printed(call, (*given, *more)) == plain:
            idle.append(option.dest)
    assert set(idle) == nothing, sorted(idle)
