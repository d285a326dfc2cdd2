"""Runs of HELM: perturbations, trials and metrics are chosen, failed requests are told from wrong answers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import LogFormatError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

N = 12
TYPOS = {"name": "typos", "robustness": True, "fairness": False, "computed_on": "perturbed"}
METRICS = ("exact_match", "f1_score")


def run(
    folder,
    *,
    model="org/a",
    trials=1,
    perturbed=False,
    metrics=METRICS,
    failed=(),
    seed=1,
    subject="algebra",
    questions="q",
    splits=("test",),
):
    """Write a run as HELM does (its records were held against HELM's own in tests/harnesses); the scores by key."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"name": f"quiz:subject={subject},model={model.replace('/', '_')}", "adapter_spec": {"model": model}}
    (folder / "run_spec.json").write_text(json.dumps(spec))
    records, instances, states, scores, means = [], [], [], {}, {}
    for perturbation in (None, TYPOS) if perturbed else (None,):
        also = {} if perturbation is None else {"perturbation": perturbation}
        for i in range(N):
            split = splits[i % len(splits)]
            extra = {"topic": f"t{i // 3}"}
            instances.append({"input": {"text": f"{questions}{i}"}, "split": split, "id": f"id{i}", **also})
            instances[-1]["extra_data"] = extra
            for trial in range(trials):
                key = {"instance_id": f"id{i}", "train_trial_index": trial, **also}
                for metric in (*metrics, "num_output_tokens"):
                    value = float(rng.integers(2)) if metric != "f1_score" else float(rng.random())
                    name = {"name": metric, "split": split, **also}
                    records.append({**key, "stats": [{"name": name, "count": 1, "sum": value, "mean": value}]})
                    scores[f"id{i}", perturbation is not None, trial, metric] = value
                    means.setdefault((metric, split, perturbation is not None), []).append(value)
                states.append(
                    {
                        "instance": instances[-1],
                        "train_trial_index": trial,
                        "result": {"success": (f"id{i}", trial) not in failed},
                    }
                )
    stats = [
        {"name": {"name": m, "split": s} | ({"perturbation": TYPOS} if p else {}), "mean": float(np.mean(values))}
        for (m, s, p), values in means.items()
    ]
    files = {"per_instance_stats": records, "instances": instances, "stats": stats}
    for name, value in (files | {"scenario_state": {"adapter_spec": {}, "request_states": states}}).items():
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2))
    return scores


def test_a_run_reads_to_the_own_figure_of_helm(tmp_path):
    scores = run(tmp_path / "run")
    log = er.read_log(tmp_path / "run", metric="exact_match")
    assert (log.format, log.roles) == ("helm", ("model", "task", "item", "score"))
    assert (log.runs[0].model, log.runs[0].task) == ("org/a", "quiz:subject=algebra")
    own = log.runs[0].details["reported"]["exact_match, test"]
    assert log.mean(groups="topic").params.iloc[0] == pytest.approx(own)
    assert dict(zip(log.frame["item"], log.frame["score"], strict=True)) == {
        item: value for (item, _, _, metric), value in scores.items() if metric == "exact_match"
    }
    assert log.frame["extra_data.topic"].nunique() == 4
    assert not log.notes


def test_a_trial_before_the_first_is_refused(tmp_path):
    run(tmp_path / "run")
    path = tmp_path / "run" / "per_instance_stats.json"
    path.write_text(path.read_text().replace('"train_trial_index": 0', '"train_trial_index": -1', 1))
    with pytest.raises(LogFormatError, match="'-1' as 'train_trial_index'"):
        er.read_log(tmp_path / "run", metric="exact_match")


def test_metrics_are_chosen_and_measures_of_requests_are_not_scores(tmp_path):
    run(tmp_path / "run")
    run(tmp_path / "one", metrics=("exact_match",))
    assert er.read_log(tmp_path / "one").frame["metric"].unique().tolist() == ["exact_match"]
    assert len(er.read_log(tmp_path / "one", metric="num_output_tokens").frame) == N


def test_perturbations_are_chosen(tmp_path):
    scores = run(tmp_path / "run", perturbed=True, metrics=("exact_match",))
    log = er.read_log(tmp_path / "run", filter="typos")
    assert log.frame["perturbation"].unique().tolist() == ["typos"]
    own = log.runs[0].details["reported"]["exact_match, test, typos, perturbed"]
    assert log.frame["score"].mean() == pytest.approx(own)
    assert own == pytest.approx(np.mean([v for (_, p, _, m), v in scores.items() if p and m == "exact_match"]))


def test_trials_are_samples_with_a_word_on_what_they_share(tmp_path):
    scores = run(tmp_path / "run", trials=2, metrics=("exact_match",))
    log = er.read_log(tmp_path / "run")
    assert log.frame["sample"].value_counts().to_dict() == {1: N, 2: N}
    assert "not of others" in log.notes[-1]
    assert log.frame.query("sample == 2")["score"].mean() == pytest.approx(
        np.mean([v for (_, _, trial, m), v in scores.items() if trial == 1 and m == "exact_match"])
    )


def test_failed_requests_are_no_scores_and_kept_they_give_the_figure_of_helm(tmp_path):
    run(tmp_path / "run", failed={("id3", 0), ("id4", 0)})
    log = er.read_log(tmp_path / "run", metric="exact_match")
    assert log.left_out.to_dict() == {"errored": 2}
    assert {"id3", "id4"}.isdisjoint(log.frame["item"])
    assert "2 samples of" in log.notes[0]
    kept = er.read_log(tmp_path / "run", metric="exact_match", failed="keep")
    assert kept.frame["score"].mean() == pytest.approx(kept.runs[0].details["reported"]["exact_match, test"])
    zero = er.read_log(tmp_path / "run", metric="f1_score", failed="zero").frame.set_index("item")["score"]
    assert zero[["id3", "id4"]].tolist() == [0, 0]
    (tmp_path / "run" / "scenario_state.json").unlink()
    assert "cannot be told from wrong answers" in er.read_log(tmp_path / "run", metric="exact_match").notes[0]


def test_models_are_compared_by_instance(tmp_path):
    run(tmp_path / "a", seed=1)
    run(tmp_path / "b", model="org/b", seed=2)
    assert er.read_log(tmp_path, metric="exact_match").compare().table["n"].tolist() == [N]


def test_without_a_specification_the_folder_names_the_model(tmp_path):
    folder = tmp_path / "quiz:subject=algebra,method=joint,model=org_a"
    run(folder)
    (folder / "run_spec.json").unlink()
    found = er.read_log(folder / "per_instance_stats.json", metric="exact_match").runs[0]
    assert (found.model, found.task) == ("org_a", "quiz:subject=algebra,method=joint")


def test_a_statistic_that_contradicts_itself_is_refused_or_counted(tmp_path):
    run(tmp_path, metrics=("exact_match",))
    path = tmp_path / "per_instance_stats.json"
    records = json.loads(path.read_text())
    again = json.loads(json.dumps(records[0]))
    path.write_text(json.dumps([*records, again]))
    assert len(er.read_log(path).frame) == N
    again["stats"][0]["mean"] = 1 - again["stats"][0]["mean"]
    path.write_text(json.dumps([*records, again]))
    with pytest.raises(LogFormatError, match=r"'exact_match' of item 'id0', .* again with another value"):
        er.read_log(path)
    log = er.read_log(path, broken="skip")
    assert (len(log.frame), log.left_out.to_dict()) == (N, {"broken": 1})
