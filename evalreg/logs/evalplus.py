"""Results of EvalPlus and BigCodeBench: several solutions of a task, each with what its tests said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from evalreg.errors import LogFormatError
from evalreg.logs.judged import chosen, refuse_choices
from evalreg.logs.reading import Choice, Reading, Run, Source
from evalreg.logs.records import document, dotted

NAME, TITLE = "evalplus", "EvalPlus and BigCodeBench results"
_PASSED = {"pass", "success"}  # the second in old files


def recognises(source: Source) -> bool:
    """Whether it has the results of tasks under "eval"."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    marks = (b'"base_status"', b'"nfiles"', b'"status"')
    return head.startswith(b"{") and b'"eval"' in head and b'"date"' in head and any(mark in head for mark in marks)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each solution: whether it passed the tests that were chosen, base or plus."""
    refuse_choices(choice, TITLE, metric="tests")
    rows: list[dict[str, Any]] = []
    runs: list[Run] = []
    for source in sources:
        whole, model = document(source), _model(source)
        if any(model == other.model for other in runs):
            raise LogFormatError(f"A model has one file of results; {model!r} has several. Name one of them.")
        tasks = dotted(whole, "eval")
        if not isinstance(tasks, dict):
            raise LogFormatError(f"Results of EvalPlus hold tasks under 'eval'; {source.path} has none.")
        for task, solutions in tasks.items():
            for number, statuses in enumerate(_solutions(solutions, task, source), start=1):
                rows.append({"model": model, "item": task, "sample": number} | statuses)
        details = {"reported": dotted(whole, "pass_at_k") or {}, "date": dotted(whole, "date")}
        runs.append(Run(str(source.path), model, "evalplus", str(source.path), details))
    if not rows:
        raise LogFormatError("Results of EvalPlus must hold a solution; there is none.", count=0)
    frame = pd.DataFrame(rows)
    kinds = {name: int(frame[name].notna().sum()) for name in ("base", "plus", "pass") if name in frame}
    metric = chosen("metric", choice.metric, {name: count for name, count in kinds.items() if count}, "kinds of tests")
    missing = frame[metric].isna()
    scored = frame.loc[~missing, ["model", "item", "sample"]].assign(score=frame[metric].astype(float))
    note = "Models are named by the files; plus means that the base tests were passed too, as EvalPlus counts."
    return Reading(NAME, scored.reset_index(drop=True), tuple(runs), {"unscored": int(missing.sum())}, (note,))


def _model(source: Source) -> str:
    """The name of the file, or of the folder where the file is called eval_results.json."""
    stem = source.path.name.removesuffix(".gz").removesuffix(".json").removesuffix("eval_results").rstrip("_-.")
    return stem or source.path.resolve().parent.name


def _solutions(found: Any, task: str, source: Source) -> Iterator[dict[str, bool | None]]:
    """What the tests said of each solution, from the present layout or from the old one."""
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        for one in found:
            if "status" in one:
                yield {"pass": _passed(one["status"])}
            else:
                yield _both(one.get("base_status"), one.get("plus_status"))
        return
    base, plus = dotted(found, "base"), dotted(found, "plus") or []
    if not isinstance(base, list) or not isinstance(plus, list) or (plus and len(plus) != len(base)):
        raise LogFormatError(f"A task holds its solutions as a list; {task!r} in {source.path} does not.")
    for number, first in enumerate(base):
        yield _both(_first(first), _first(plus[number]) if plus else None)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, list) and result else result


def _both(base: Any, plus: Any) -> dict[str, bool | None]:
    passed, further = _passed(base), _passed(plus)
    return {"base": passed, "plus": None if further is None else bool(passed) and further}


def _passed(status: Any) -> bool | None:
    """Whether a status is a pass; None where there is none. Time that ran out is a failure."""
    return status in _PASSED if isinstance(status, str) else None
