"""Metadata of model cards, read back by the hub's own package: both forms are whole, and hostile names stay text."""

from __future__ import annotations

import huggingface_hub as hub
import yaml
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results

import evalreg as er

HOSTILE = 'a: "b"\n- c # \\ \x07 \u202e {d} ± 😀'
CARD = {"dataset": "me/reading", "task": "text-generation", "form": "model-index", "metric": "accuracy"}


def main() -> None:
    """Fail where something is lost on the way."""
    results = er.mean(er.datasets.paired(n_passages=20, seed=1), groups="passage")
    text = results.hub_metadata(dataset=HOSTILE, task="t", source_url="https://a.org", source_name=HOSTILE)
    (entry,) = hub.parse_eval_result_entries(yaml.safe_load(text))
    assert entry.value == results.params.iloc[0]
    assert entry.notes == results.sentence()
    assert entry.dataset_id == entry.source_name
    assert entry.dataset_id.startswith('a: "b"\\n- c # \\ \\x07')
    assert entry.dataset_id.endswith("😀")
    index = yaml.safe_load(results.hub_metadata(**CARD, model=HOSTILE))["model-index"]
    model, found = model_index_to_eval_results(index)
    assert model.endswith("😀")
    assert found[0].metric_value.partition(" ± ")[1]
    assert eval_results_to_model_index(model, found) == index
    print(f"huggingface_hub {hub.__version__}: both forms come back as they were written")


if __name__ == "__main__":
    main()
