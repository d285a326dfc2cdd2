"""Metadata of a model card: results in the two forms that a model hub reads, with no key of our own."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from evalreg.checks import fraction, listed, option
from evalreg.errors import ArgumentError
from evalreg.report.sentences import PERCENT, printed, unit_of, with_interval
from evalreg.report.tables import visible

HubFormName: TypeAlias = Literal["eval_results", "model-index"]
HUB_FORMS: tuple[HubFormName, ...] = get_args(HubFormName)


def hub_text(
    results: Any,
    name: str | None,
    form: HubFormName,
    required: dict[str, Any],
    more: dict[str, Any],
    alpha: float,
) -> str:
    """The YAML of `Results.hub_metadata`."""
    option("form", form, HUB_FORMS)
    fraction("alpha", alpha)
    names = list(results.estimate.names)
    if name is None and len(names) > 1:
        raise ArgumentError(f"a model card is that of one model: `name` must be one of {listed(names)}.")
    if name is not None and name not in names:
        raise ArgumentError(f"`name` must be one of the estimates {listed(names)}; got {name!r}.")
    place = 0 if name is None else names.index(name)
    given = {**required, **more}
    for key, value in given.items():
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise ArgumentError(f"`{key}` must be a text; got {value!r}.")
    needed = ("dataset", "task", *(("model", "metric") if form == "model-index" else ()))
    missing = [f"`{key}`" for key in needed if given.get(key) is None]
    if missing:
        raise ArgumentError(f'form="{form}" needs {" and ".join(missing)}.')
    if given.get("source_name") is not None and given.get("source_url") is None:
        raise ArgumentError("`source_name` goes with `source_url`, which is missing.")
    unused = ("model", "metric", "dataset_name", "config", "split") if form == "eval_results" else ("date",)
    extra = [f"`{key}`" for key in unused if given.get(key) is not None]
    if extra:
        raise ArgumentError(f'form="{form}" has no place for {" and ".join(extra)}. Leave it out.')
    make = _eval_results if form == "eval_results" else _model_index
    return "\n".join(_yaml(make(results, place, given, alpha))) + "\n"


def _eval_results(results: Any, place: int, given: dict[str, str | None], alpha: float) -> list[dict[str, Any]]:
    """The file of single results: the value is a number, and all that is said of it a note."""
    said = results.sentence(results.estimate.names[place], alpha=alpha).splitlines()
    entry = {
        "dataset": _known(id=given["dataset"], task_id=given["task"], revision=given["revision"]),
        "value": _finite(float(results.params.iloc[place])),
        "date": given["date"],
        "source": _known(url=given["source_url"], name=given["source_name"]),
        "notes": " ".join(said),
    }
    return [_known(**entry)]


def _model_index(results: Any, place: int, given: dict[str, str | None], alpha: float) -> dict[str, Any]:
    """The index in a card: the value is a text with the standard error, and the metric's name says what that is."""
    unit = unit_of(results.estimate)
    theta, se = float(results.params.iloc[place]), float(results.bse.iloc[place])
    ends = results.conf_int(alpha).to_numpy(dtype=np.float64)[place]
    value = printed((_finite(theta), theta - se, theta + se), unit)[0].removesuffix(unit.mark).replace(",", "")
    told = f"{with_interval(theta, ends, unit, alpha).partition(' (')[2]}"
    what = f"{given['metric']} in %" if unit is PERCENT else str(given["metric"])
    if se > 0:
        digits = len(value.partition(".")[2])
        value = f"{value} ± {unit.factor * se:.{digits}f}"
        what += ", ± one standard error"
    dataset = _known(
        name=given["dataset_name"] or given["dataset"],
        type=given["dataset"],
        config=given["config"],
        split=given["split"],
        revision=given["revision"],
    )
    result = {
        "task": {"type": given["task"]},
        "dataset": dataset,
        "metrics": [{"type": given["metric"], "value": value, "name": f"{what} ({told})"}],
        "source": _known(name=given["source_name"], url=given["source_url"]),
    }
    return {"model-index": [{"name": given["model"], "results": [_known(**result)]}]}


def _finite(value: float) -> float:
    if not np.isfinite(value):
        raise ArgumentError(f"a model card holds finite values; the estimate is {value}.")
    return value


def _known(**entries: Any) -> dict[str, Any]:
    """Entries that are there."""
    return {key: value for key, value in entries.items() if value not in (None, {})}


def _yaml(value: Any) -> list[str]:
    """Lines of YAML: texts in double quotes, escaped as in JSON, which YAML reads alike."""
    if isinstance(value, dict):
        lines = []
        for key, entry in value.items():
            below = _yaml(entry)
            if isinstance(entry, dict | list):
                lines += [f"{key}:", *(f"  {line}" for line in below)]
            else:
                lines.append(f"{key}: {below[0]}")
        return lines
    if isinstance(value, list):
        return [f"{'- ' if i == 0 else '  '}{line}" for entry in value for i, line in enumerate(_yaml(entry))]
    return [json.dumps(visible(value), ensure_ascii=False) if isinstance(value, str) else repr(value)]
