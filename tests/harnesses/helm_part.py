"""HELM's own metrics and records: a run of two trials, a perturbation, a failed request, and figures by HELM itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from helm.benchmark.adaptation.adapter_spec import AdapterSpec
from helm.benchmark.adaptation.request_state import RequestState
from helm.benchmark.adaptation.scenario_state import ScenarioState
from helm.benchmark.augmentations.perturbation_description import PerturbationDescription
from helm.benchmark.metrics.metric import Metric, MetricSpec
from helm.benchmark.metrics.metric_name import MetricName
from helm.benchmark.metrics.statistic import Stat
from helm.benchmark.run_spec import RunSpec
from helm.benchmark.scenarios.scenario import Input, Instance, Output, Reference, ScenarioSpec
from helm.common.general import asdict_without_nones
from helm.common.request import GeneratedOutput, Request, RequestResult

import evalreg as er
from evalreg.errors import ArgumentError

TYPOS = PerturbationDescription(name="typos", robustness=True)
MODEL = "org/model"


class ExactMatch(Metric):
    """One judgement and one measure of each answer."""

    def evaluate_generation(
        self, adapter_spec: Any, request_state: Any, metric_service: Any, eval_cache_path: str
    ) -> list[Stat]:
        text = request_state.result.completions[0].text
        right = Stat(MetricName("exact_match")).add(text == request_state.instance.references[0].output.text)
        return [right, Stat(MetricName("num_completion_tokens")).add(len(text))]


class Length(Metric):
    """A second class of metrics: HELM writes its statistics in records of their own."""

    def evaluate_generation(
        self, adapter_spec: Any, request_state: Any, metric_service: Any, eval_cache_path: str
    ) -> list[Stat]:
        return [Stat(MetricName("brevity")).add(1 / (1 + len(request_state.result.completions[0].text)))]


def run(folder: Path) -> float:
    """Write a run as HELM's runner does; HELM's own mean of exact_match without perturbation."""
    rng = np.random.default_rng(1)
    adapter = AdapterSpec(method="generation", model=MODEL, num_train_trials=2, num_outputs=1)
    instances = [
        Instance(
            Input(text=f"question {number}"),
            [Reference(Output(text=str(number % 3)), tags=["correct"])],
            split="test",
            id=f"id{number}",
            perturbation=perturbation,
        )
        for number in range(30)
        for perturbation in (None, TYPOS)
    ]
    states = []
    for trial in range(2):
        for number, instance in enumerate(instances):
            failed = trial == 1 and number in (0, 10)
            outputs = [GeneratedOutput(text="" if failed else str(rng.integers(3)), logprob=0, tokens=[])]
            result = RequestResult(success=not failed, embedding=[], completions=outputs, cached=False)
            request = Request(model=MODEL, model_deployment=MODEL, prompt=instance.input.text)
            states.append(
                RequestState(
                    instance=instance,
                    reference_index=None,
                    request_mode=None,
                    train_trial_index=trial,
                    output_mapping=None,
                    request=request,
                    result=result,
                    num_train_instances=0,
                    prompt_truncated=False,
                )
            )
    state = ScenarioState(adapter_spec=adapter, request_states=states)
    spec = RunSpec(
        name="quiz:level=easy,model=org_model",
        scenario_spec=ScenarioSpec(class_name="quiz"),
        adapter_spec=adapter,
        metric_specs=[MetricSpec(class_name="ExactMatch")],
    )
    stats, per_instance = [], []
    for metric in (ExactMatch(), Length()):
        found = metric.evaluate(state, None, str(folder), 1)
        stats += found.aggregated_stats
        per_instance += found.per_instance_stats
    files = {
        "run_spec.json": asdict_without_nones(spec),
        "scenario_state.json": asdict_without_nones(state),
        "stats.json": [asdict_without_nones(stat) for stat in stats],
        "per_instance_stats.json": [asdict_without_nones(one) for one in per_instance],
        "instances.json": [asdict_without_nones(one) for one in state.instances],
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, indent=2))
    (own,) = [s.mean for s in stats if s.name.name == "exact_match" and s.name.perturbation is None]
    return own


def main(folder: Path) -> None:
    own = run(folder)
    try:
        er.read_log(folder)
        raise AssertionError("two perturbations and two trials were read as one")
    except ArgumentError as error:
        assert "'exact_match' under 'original' (60)" in str(error), error
        assert "'brevity' under 'typos' (60)" in str(error), error
    try:
        er.read_log(folder, filter="original")
        raise AssertionError("two metrics were read as one")
    except ArgumentError as error:
        assert "'exact_match' (60), 'brevity' (60)" in str(error), error
    kept = er.read_log(folder, filter="original", metric="exact_match", failed="keep")
    assert kept.runs[0].details["reported"]["exact_match, test"] == own
    np.testing.assert_allclose(kept.frame["score"].mean(), own, rtol=1e-12)
    dropped = er.read_log(folder, filter="original", metric="exact_match")
    assert dropped.left_out.to_dict() == {"errored": 2}
    assert (kept.runs[0].model, kept.runs[0].task) == (MODEL, "quiz:level=easy")
    assert kept.frame["sample"].tolist().count(2) == 30
    print(f"HELM: {own} = {kept.frame['score'].mean()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
