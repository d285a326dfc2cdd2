"""lm-evaluation-harness with its dummy model: multiple choice, a group, repeats under two filters, local files."""

from __future__ import annotations

import json
import math
import os
import random
import sys
from pathlib import Path
from typing import Any

os.environ |= {"DISABLE_MULTIPROC": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}

CHOICE = """
task: toy_{name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: gold
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
  - {{metric: mcc, aggregation: matthews_corrcoef, higher_is_better: true}}
metadata: {{version: 1.0}}
"""
# The dummy model always answers "lol".
GENERATE = """
task: toy_words
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{ ['lol', 'l', 'no', 'none'][gold] }}}}"
repeats: 3
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
filter_list:
  - name: strict
    filter: [{{function: take_first}}]
  - name: letter
    filter: [{{function: regex, regex_pattern: "(l)"}}, {{function: majority_vote}}, {{function: take_first}}]
generation_kwargs: {{until: ["."]}}
metadata: {{version: 2.0}}
"""
GROUP = """
group: toy
task: [toy_birds, toy_rocks, toy_trees]
aggregate_metric_list:
  - {metric: acc, aggregation: mean, weight_by_size: true}
metadata: {version: 1.0}
"""
SIZES = {"birds": 30, "rocks": 18, "trees": 24}


def write_tasks(folder: Path) -> None:
    """Task files and their questions, four to a passage."""
    folder.mkdir()
    for name, size in SIZES.items():
        rng = random.Random(name)
        rows = [
            {
                "question": f"{name} {i}?",
                "choices": ["a", "bb", "ccc", "dddd"],
                "gold": rng.randrange(4),
                "passage": i // 4,
            }
            for i in range(size)
        ]
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (folder / f"{name}.yaml").write_text(CHOICE.format(name=name, file=file), encoding="utf-8")
    (folder / "words.yaml").write_text(GENERATE.format(file=folder / "birds.jsonl"), encoding="utf-8")
    (folder / "group.yaml").write_text(GROUP, encoding="utf-8")


def run(tasks: Path, output: Path) -> dict[str, Any]:
    """One run, written as the command of the harness writes it; its results."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    random.seed(4)
    tracker = EvaluationTracker(output_path=str(output))
    results = lm_eval.simple_evaluate(
        model="dummy",
        tasks=["toy", "toy_words"],
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
        log_samples=True,
        bootstrap_iters=20,
        evaluation_tracker=tracker,
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)
    return results


def same(found: float, expected: float) -> None:
    assert math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-15), (found, expected)


def check(folder: Path, results: dict[str, Any]) -> None:
    """Figures of evalreg beside those of the harness."""
    import evalreg as er
    from evalreg.errors import ArgumentError

    choice = sorted(folder.glob("*/samples_toy_[brt]*.jsonl"))
    for metric in ("acc", "acc_norm"):
        found = er.read_log(choice, metric=metric).mean()
        for name, size in SIZES.items():
            figures = results["results"][f"toy_{name}"]
            same(found.params[f"toy_{name}"], figures[f"{metric},none"])
            # The harness divides the sample standard deviation by the root of n, as the covariance by question does.
            same(found.bse[f"toy_{name}"], figures[f"{metric}_stderr,none"])
            assert figures["sample_len"] == size
    refused(ArgumentError, "must name a number for each answer", lambda: er.read_log(choice, metric="mcc"))

    # The group's own metric is acc, so that nothing need be said.
    log = er.read_log(choice)
    group = results["groups"]["toy"]
    fixed = log.mean(by="group", strata="task")
    same(fixed.params["toy"], group["acc,none"])
    # By another rule: the harness pools the variances of tasks with weights n_t - 1 and divides by all documents;
    # strata add (n_t / n)^2 se_t^2, each task with a variance of its own.
    n = sum(SIZES.values())
    ses = {name: results["results"][f"toy_{name}"]["acc_stderr,none"] for name in SIZES}
    pooled = sum((SIZES[name] - 1) * SIZES[name] * ses[name] ** 2 for name in SIZES) / (n - len(SIZES)) / n
    same(group["acc_stderr,none"], math.sqrt(pooled))
    same(fixed.bse["toy"], math.sqrt(sum((SIZES[name] / n * ses[name]) ** 2 for name in SIZES)))
    assert abs(fixed.bse["toy"] / group["acc_stderr,none"] - 1) < 0.05

    words = next(folder.glob("*/samples_toy_words*.jsonl"))
    refused(ArgumentError, "'letter' .30.", lambda: er.read_log(words))
    for name in ("strict", "letter"):
        log = er.read_log(words, filter=name)
        assert (len(log.frame), len(log.left_out)) == (30, 0)
        assert any("3 answers to each document" in note for note in log.notes)
        found, figures = log.mean(), results["results"]["toy_words"]
        same(found.params.iloc[0], figures[f"exact_match,{name}"])
        same(found.bse.iloc[0], figures[f"exact_match_stderr,{name}"])
    assert log.mean(groups="doc.passage").n_clusters == {"doc.passage": 8}
    # The name of the dummy model is made up anew in each run.
    assert set(log.frame["model"]) == {"dummy"}


def refused(error: type[Exception], pattern: str, call: Any) -> None:
    import re

    try:
        call()
    except error as found:
        assert re.search(pattern, str(found)), found
    else:
        raise AssertionError(f"not refused: {pattern}")


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["HF_HOME"] = str(folder / "cache")
    write_tasks(folder / "tasks")
    check(folder / "logs", run(folder / "tasks", folder / "logs"))


if __name__ == "__main__":
    main()
