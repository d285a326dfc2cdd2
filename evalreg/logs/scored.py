"""Formats of scored answers in one file a run: where cases and their scores stand, and what their words mean."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from evalreg.errors import LogFormatError
from evalreg.logs.reading import (
    Answer,
    BadRecordError,
    Choice,
    Failed,
    Format,
    Marks,
    Minor,
    Name,
    Part,
    Reason,
    Record,
    Run,
    Source,
    Unknown,
)
from evalreg.logs.records import (
    at,
    digest,
    document,
    first_text,
    items,
    label,
    needed,
    number_at,
    numeric,
    numeric_items,
    places,
    printable,
    records,
    short,
    unfit,
)

LONGEST_NAME = 80


def object_of(source: Source, title: str) -> Record:
    """The JSON object that a file is."""
    whole = document(source)
    if not isinstance(whole, dict):
        raise LogFormatError(f"A file of {title} is one JSON object; {source.path} is not.")
    return whole


# SWE-bench: lists of the instances that were resolved, and of those that were not, by reason

# An empty patch is an answer, which resolves nothing.
_OUTCOMES: dict[str, float | Failed] = {"resolved": 1.0, "unresolved": 0.0, "empty_patch": 0.0}
_OUTCOMES |= {"error": Failed(), "incomplete": Failed(reason="cancelled")}


def _swe_bench_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The instances of a report, whose lists and counts must agree; model and run are in the file's name."""
    report = object_of(source, "SWE-bench")
    rows: list[Record] = []
    for outcome in _OUTCOMES:
        ids = report.get(f"{outcome}_ids")
        if not isinstance(ids, list) or not all(isinstance(name, str) and name for name in ids):
            raise LogFormatError(
                f"A report of SWE-bench (schema 2) holds lists of instances; {source.path} has no list {outcome}_ids."
            )
        count = report.get(f"{outcome}_instances", len(ids))
        if count != len(ids) and choice.broken == "raise":
            raise LogFormatError(
                f"A report's counts are those of its lists; {source.path} counts {count} as {outcome} and lists "
                f'{len(ids)}. Make it again, or pass broken="skip" to read the lists.'
            )
        rows += [{"instance": name, "outcome": outcome} for name in ids]
    times = Counter(row["instance"] for row in rows)
    if not times or max(times.values()) > 1:
        what = f"{times.most_common(1)[0][0]!r} is in several" if times else "all are empty"
        raise LogFormatError(f"An instance is in one list of a report; in {source.path} {what}. Make it again.")
    model, dot, run = source.stem.rpartition(".")
    counts = {name: value for name, value in report.items() if name.endswith("_instances")}
    details = {"schema_version": report.get("schema_version"), "reported": counts}
    name = (model if dot else run).replace("__", "/")
    part = Part(source, name, records=places(rows, "instance"), id=run if dot else name, details=details)
    n_failed = sum(isinstance(_OUTCOMES[row["outcome"]], Failed) for row in rows)
    if n_failed and choice.failed != "zero":
        part.notes.append(
            f"SWE-bench's own rate counts {n_failed} errors and instances without an answer as not resolved; "
            'failed="zero" does so too.'
        )
    yield part


def _swe_bench(record: Record, part: Part) -> Iterator[Answer]:
    repo = record["instance"].rpartition("-")[0].replace("__", "/")
    row = {"item": record["instance"], "repo": repo, "outcome": record["outcome"]}
    yield Answer(row, {("", ""): _OUTCOMES[record["outcome"]]}, record)


SWE_BENCH = Format(
    "swe_bench",
    "SWE-bench reports",
    Marks(rb"\{", (b'"resolved_instances"', b'"total_instances"')),
    _swe_bench_parts,
    _swe_bench,
    notes=("Models are named by the files: a report does not name its model.",),
)

# EvalPlus and BigCodeBench: several solutions of a task, each with what its tests said

# What a status is worth; time that ran out is a failure. "success" and "failed" are of old files.
_STATUS = {"pass": 1.0, "success": 1.0, "fail": 0.0, "failed": 0.0, "timeout": 0.0, "timed out": 0.0}


def _status(value: Any) -> Any:
    value = value[0] if isinstance(value, list) and value else value
    return None if value is None else _STATUS.get(value, Unknown(value)) if isinstance(value, str) else Unknown(value)


def _evalplus_parts(source: Source, choice: Choice) -> Iterator[Part]:
    whole = object_of(source, "EvalPlus")
    tasks = whole.get("eval")
    if not isinstance(tasks, dict):
        raise LogFormatError(f"Results of EvalPlus hold tasks under 'eval'; {source.path} has none.")
    model = source.stem.removesuffix("eval_results").rstrip("_-.") or source.path.resolve().parent.name
    rows = [(f"task {name!r}", {"task": name, "solutions": solutions}) for name, solutions in tasks.items()]
    yield Part(
        source, model, records=rows, details={"reported": at(whole, "pass_at_k") or {}, "date": at(whole, "date")}
    )


def _evalplus(record: Record, part: Part) -> Iterator[Answer]:
    """Each solution of a task, in the present layout or the old one."""
    solutions = record["solutions"]
    if isinstance(solutions, dict) and "base" in solutions:
        base, plus = items(solutions, "base"), items(solutions, "plus")
        if not plus or len(plus) == len(base):
            solutions = [{"base_status": b, "plus_status": plus[n] if plus else None} for n, b in enumerate(base)]
    if not isinstance(solutions, list) or not all(isinstance(solution, dict) for solution in solutions):
        raise BadRecordError("holds no list of its solutions")
    for number, solution in enumerate(solutions, start=1):
        first, further = _status(solution.get("base_status")), _status(solution.get("plus_status"))
        # Plus means that the base tests were passed too, as EvalPlus counts.
        if isinstance(first, float) and isinstance(further, float):
            further = min(first, further)
        values: dict[Name, Any] = {("", "base"): first, ("", "plus"): further}
        if "status" in solution:
            values = {("", "pass"): _status(solution["status"])}
        values = {name: value for name, value in values.items() if value is not None} or {("", "base"): None}
        yield Answer({"item": record["task"], "sample": number}, values, {})


EVALPLUS = Format(
    "evalplus",
    "EvalPlus and BigCodeBench results",
    Marks(rb"\{", (b'"eval"', b'"date"'), (b'"base_status"', b'"nfiles"', b'"status"')),
    _evalplus_parts,
    _evalplus,
    choose={"metric": ("", "kinds of tests")},
    known=f"one of {', '.join(_STATUS)}",
    repeats=None,
    empty="there is no solution.",
    notes=("Models are named by the files; plus means that the base tests were passed too, as EvalPlus counts.",),
)

# DeepEval: a test case is a question, and each of its metrics has a score and passes or not

_KINDS = ("testCases", "conversationalTestCases")
_CONTENT = ("input", "expectedOutput", "scenario", "expectedOutcome", "userDescription", "context")


def _deepeval_parts(source: Source, choice: Choice) -> Iterator[Part]:
    whole = object_of(source, "DeepEval")
    whole = whole["testRunData"] if isinstance(whole.get("testRunData"), dict) else whole
    rows = [row for kind in _KINDS for row in places(items(whole, kind), kind)]
    reported: Record = {name: whole[name] for name in ("testPassed", "testFailed") if name in whole}
    for entry in items(whole, "metricsScores"):
        reported[str(at(entry, "metric"))] = {name: at(entry, name) for name in ("passes", "fails", "errors")}
    yield Part(
        source,
        first_text(whole, "hyperparameters.model", "identifier") or source.stem,
        first_text(whole, "datasetAlias", "testFile"),
        rows,
        settings={"": source.stem},
        details={"hyperparameters": whole.get("hyperparameters"), "reported": reported},
    )


def _deepeval(record: Record, part: Part) -> Iterator[Answer]:
    """A test case: the score and success of each metric, and its own success, which a metric in error spoils."""
    metrics = items(record, "metricsData")
    names = [first_text(metric, "name") for metric in metrics]
    if "" in names:
        raise BadRecordError("has a metric without a name")
    seen, values = Counter[str](), dict[Name, Any]()
    for name, metric in zip(names, metrics, strict=True):
        seen[name] += 1
        name = f"{name} ({seen[name]})" if names.count(name) > 1 else name
        score, success = number_at(metric, "score"), _flag(metric)
        # Without a score there is nothing that could pass; DeepEval writes false.
        values["", name], values["", f"{name}.success"] = score, None if score is None else success
        if metric.get("error"):
            values["", name], values["", f"{name}.success"] = Failed(score), Failed(success)
    overall = _flag(record)
    spoilt = any(metric.get("error") and not metric.get("flaky") for metric in metrics)
    values["", "success"] = Failed(overall) if spoilt else overall
    name = first_text(record, "name")
    name = "" if re.fullmatch(r"(conversational_)?test_case_\d+", name) else name  # DeepEval's own numbers
    item = name or first_text(record, "input", "scenario")
    if not item:
        raise BadRecordError("has no name, no input and no scenario")
    content = digest(name, *(record.get(field) for field in _CONTENT))
    yield Answer({"item": short(item, LONGEST_NAME)}, values, record, content=content)


def _flag(record: Record) -> float | None:
    value = record.get("success")
    if value is None or isinstance(value, bool):
        return numeric(value)
    raise unfit(value, "success", "true or false")


def _named_by_files(frame: pd.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
    if any(part.model == part.source.stem for part in parts):
        yield "Models are named by the files where a log does not name them."


DEEPEVAL = Format(
    "deepeval",
    "test runs of DeepEval",
    Marks(
        rb'\{\s*("testRunData"\s*:\s*\{\s*)?("testFile"\s*:\s*"[^"]*"\s*,\s*)?"(testCases|conversationalTestCases)"\s*:',
        among=(b'"metricsData"', b'"metricsScores"', b'"conversationalTestCases"', b'"runDuration"'),
    ),
    _deepeval_parts,
    _deepeval,
    fields=("metadata", "inputs"),
    choose={"metric": ("", "scores")},
    apart=True,
    repeats="number",
    alike=True,
    empty="there is no test case.",
    notes=_named_by_files,
)

# pydantic-evals: a case is a question, its runs are samples, its scores and assertions metrics


def _pydantic_parts(source: Source, choice: Choice) -> Iterator[Part]:
    whole = object_of(source, "pydantic-evals")
    rows = [*places(items(whole, "cases"), "case")]
    for place, record in places(items(whole, "failures"), "failure"):
        rows.append((place, {**record, "#failed": True} if isinstance(record, dict) else record))
    figures = {str(at(one, "title")): at(one, "value") for one in items(whole, "analyses")}
    details = {"metadata": whole.get("experiment_metadata"), "reported": numeric_items(figures)}
    task = first_text(whole, "dataset_name")
    part = Part(source, label(whole, "name"), task, rows, settings={"": source.stem}, details=details)
    part.header = defaultdict(set)  # the names of the scores that an evaluator made
    yield part


def _pydantic(record: Record, part: Part) -> Iterator[Answer]:
    """A run of a case: scores and assertions; labels are no numbers, and evaluators that failed leave their names."""
    name, sample = label(record, "name"), None
    if record.get("source_case_name") is not None:
        repeat = re.search(r" \[(\d{1,9})/\d{1,9}\]$", name)
        if repeat is None:
            raise BadRecordError(f"is called {name[:40]!r}, without the number of its run")
        name, sample = label(record, "source_case_name"), int(repeat[1])
    values: dict[Name, Any] = {}
    for kind in ("scores", "assertions", "labels"):
        results = record.get(kind) or {}
        if not isinstance(results, dict) or not all(isinstance(result, dict) for result in results.values()):
            raise BadRecordError(f"has {kind!r} that are not results by name")
        for key, result in results.items():
            called = ("", f"{kind}.{key}" if ("", key) in values else printable(key))
            values[called] = Unknown(result.get("value")) if kind == "labels" else number_at(result, "value")
            part.header[first_text(result, "source.name")].add(called)
    failures = {first_text(failure, "source.name") for failure in items(record, "evaluator_failures")}
    row: Record = {"item": name} | ({} if sample is None else {"sample": sample})
    content = digest(name, record.get("inputs"), record.get("expected_output"))
    state: Reason | None = "errored" if record.get("#failed") else None
    yield Answer(row, values, {**record, "#failures": failures}, state, content=content)


def _mark_failures(answers: list[Answer], part: Part) -> list[Answer]:
    """A score that is missing because its evaluator failed is an error, not a gap."""
    for answer in answers:
        failed = {name for evaluator in answer.record["#failures"] for name in part.header.get(evaluator, ())}
        answer.values = {**{name: Failed() for name in failed}, **answer.values}
    return answers


PYDANTIC_EVALS = Format(
    "pydantic_evals",
    "reports of pydantic-evals",
    Marks(
        rb'\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"cases"\s*:\s*\[\s*(\{\s*"name"|\])',
        among=(b'"assertions"', b'"task_duration"', b'"evaluator_failures"', b'"error_stacktrace"', b'"failures"'),
    ),
    _pydantic_parts,
    _pydantic,
    _mark_failures,
    fields=("metadata", "inputs"),
    choose={"metric": ("", "scores")},
    apart=True,
    empty="there is no case.",
)

# promptfoo: a question is its variables, a repeat its order among equals

_PROMPTFOO = Marks(rb'\{\s*"(evalId|results|version)"', (b'"prompts"',), (b'"version"', b'"evalId"'))
_PROMPTFOO_LINES = rb'\{(?!\s*"(evalId|results|version)")'
_PROMPTFOO_VERSION = 3
_OF_THE_RUN = ("sessionId", "_conversation")  # variables that promptfoo itself adds


def _promptfoo_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The results of a file, with a run for each prompt and provider."""
    if not re.match(_PROMPTFOO.start, source.start):
        yield Part(source, records=records(source, choice.broken))
        return
    whole = object_of(source, "promptfoo")
    body = whole["results"] if isinstance(whole.get("results"), dict) else whole
    version, runs = body.get("version"), []
    if not isinstance(body.get("results"), list):
        newer = f" It has version {version!r:.20}; the newest known is {_PROMPTFOO_VERSION}."
        raise LogFormatError(
            f"promptfoo results hold a list 'results'; {source.path} has none.{newer * (version != _PROMPTFOO_VERSION)}"
        )
    for prompt in items(body, "prompts"):
        details = {"prompt": at(prompt, "label"), "prompt.id": at(prompt, "id")}
        details["reported"] = numeric_items(at(prompt, "metrics"))
        details["version"] = at(whole, "metadata.promptfooVersion")
        run = str(whole.get("evalId") or source.path)
        runs.append(Run(run, str(at(prompt, "provider") or ""), "", str(source.path), details))
    part = Part(source, records=places(body["results"], "result"), details={"runs": runs} if runs else {})
    if version != _PROMPTFOO_VERSION:
        part.notes.append(
            f"{source.path} has version {version!r:.20} of promptfoo's results, read as {_PROMPTFOO_VERSION}."
        )
    yield part


def _promptfoo(record: Record, part: Part) -> Iterator[Answer]:
    """A result: score, success and named scores; none without an answer, or where nothing was asserted."""
    variables, provider, prompt = record.get("vars"), record.get("provider"), record.get("prompt")
    if not isinstance(variables, dict):
        raise BadRecordError("has no 'vars', which tell one question from another")
    variables = {name: value for name, value in variables.items() if name not in _OF_THE_RUN}
    called = at(prompt, "label|raw") or prompt
    if not isinstance(called, str):
        raise BadRecordError("has no 'prompt' with a label")
    if "score" not in record or not isinstance(record.get("success"), bool):
        raise BadRecordError("has no 'score' and 'success'")
    named = record.get("namedScores") or {}
    if not isinstance(named, dict):
        raise BadRecordError("has 'namedScores' that is not an object")
    scores = {**named, "score": record["score"], "success": record["success"]}
    values: dict[Name, Any] = {
        ("", printable(name)): number_at(scores, name) if "." not in name else numeric(scores[name])
        for name in dict.fromkeys(["score", "success", *named])
    }
    test = record["testCase"] if isinstance(record.get("testCase"), dict) else None
    asserted = at(test, "assert") or []
    reason = record.get("failureReason")  # 0 passed, 1 an assertion failed or threw, 2 no answer
    errored = reason == 2 or (reason is None and record.get("error") and not record.get("gradingResult"))
    untested = test is not None and not asserted and not at(record, "gradingResult.componentResults")
    row = {
        "model": label({"provider": first_text(provider, "label", "id") or provider}, "provider"),
        "item": short(json.dumps(variables, sort_keys=True, ensure_ascii=False), LONGEST_NAME),
        "prompt": short(called),
        "prompt.id": str(record.get("promptId") or digest(called)),
        "_column": record.get("promptIdx", 0),
    }
    state: Reason | None = "errored" if errored else "unscored" if untested else None
    yield Answer(
        row,
        values,
        {**record, "vars": variables, "metadata": at(test, "metadata")},
        state,
        content=digest(json.dumps([variables, asserted], sort_keys=True)),
        id=str(record["id"]) if record.get("id") else None,
    )


def _tell_providers_apart(answers: list[Answer], part: Part) -> list[Answer]:
    """Names of prompts and of providers that stand for several get a mark: the settings of two of one name differ."""
    prompts: dict[str, set[str]] = defaultdict(set)
    columns: dict[tuple[str, str], set[int]] = defaultdict(set)
    for answer in answers:
        prompts[answer.row["prompt"]].add(answer.row["prompt.id"])
    for answer in answers:
        if len(prompts[answer.row["prompt"]]) > 1:
            answer.row["prompt"] += f" #{answer.row['prompt.id'][:12]}"
        columns[answer.row["model"], answer.row["prompt"]].add(answer.row["_column"])
    for answer in answers:
        own = columns[answer.row["model"], answer.row["prompt"]]
        if len(own) > 1:
            answer.row["model"] += f" ({sorted(own).index(answer.row['_column']) + 1})"
    states = Counter(answer.state for answer in answers)
    if states["errored"] + states["unscored"]:
        part.notes.append(
            f'promptfoo\'s own pass rate counts errors ({states["errored"]}) as failures, as failed="zero" does, and '
            f"results without an assertion ({states['unscored']}) as passed; here these are not scores."
        )
    return answers


PROMPTFOO = Format(
    "promptfoo",
    "promptfoo results",
    lambda source: any(
        marks(source)
        for marks in (
            _PROMPTFOO,
            Marks(_PROMPTFOO_LINES, (b'"gradingResult"', b'"latencyMs"')),
            Marks(_PROMPTFOO_LINES, (b'"promptIdx"', b'"testIdx"')),
        )
    ),
    _promptfoo_parts,
    _promptfoo,
    _tell_providers_apart,
    fields=("vars", "metadata"),
    choose={"filter": ("prompt", "prompts"), "metric": ("", "scores")},
    every=("filter",),
    apart=True,
    repeats="number",
    alike=True,
    empty="there is no result.",
)

# OpenAI evals: a line for the run, one for each event, and one for the final report


def _openai_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The run that the first line specifies, in its present form or the old one; events of samples are records."""
    lines = records(source, choice.broken)
    spec = next((record for _, record in lines if record is not None), {}).get("spec")
    if not isinstance(spec, dict):
        raise LogFormatError(f"A log of evals begins with the specification of its run; {source.path} does not.")
    models = spec.get("completion_fns") or at(spec, "model_names.completions") or spec.get("model_name")
    models = models or at(spec, "run_config.completion_fns")
    model = ", ".join(str(name) for name in (models if isinstance(models, list) else [models]) if name)
    details = {key: spec[key] for key in ("created_at", "split", "base_eval") if spec.get(key)}
    seed = at(spec, "run_config.seed")
    details |= ({"seed": seed} if seed is not None else {}) | {"reported": {}}
    task = str(spec.get("eval_name") or spec.get("base_eval") or "")
    part = Part(source, model, task, id=str(spec.get("run_id") or source.path), details=details)

    def events() -> Iterator[tuple[str, Record | None]]:
        for place, record in lines:
            if record is not None and isinstance(record.get("spec"), dict):
                raise LogFormatError(f"A log of evals is one run; {place} of {source.path} begins another. Split it.")
            part.details["reported"] = numeric_items((record or {}).get("final_report")) or part.details["reported"]
            if record is None or ("final_report" not in record and record.get("sample_id") is not None):
                yield place, record
        if not part.details["reported"]:
            part.notes.append(f"{source.path} has no final report: the run was cut off or still goes on.")

    def figure(*_: str) -> tuple[str, float] | None:
        accuracy = numeric(part.details["reported"].get("accuracy"))
        return None if accuracy is None else ("accuracy", accuracy)

    part.records, part.figure = events(), figure
    yield part


def _openai_event(record: Record, part: Part) -> Iterator[Answer]:
    """One event of a sample: a match or metrics score it, an error fails it, others may tell its fields."""
    kind, data, values = label(record, "type"), record.get("data"), dict[Name, Any]()
    if kind in ("match", "metrics"):
        if not isinstance(data, dict):
            raise BadRecordError(f"has no 'data' with the {kind}")
        if kind == "match" and not isinstance(needed(data, "correct"), bool | int | float):
            raise unfit(data["correct"], "correct", "true or false")
        # A grade that could not be read, which evals scores as the worst.
        invalid = data.get("choice") == "__invalid__"
        for name, value in data.items():
            if isinstance(value, bool | int | float) or (value is None and name == "score"):
                values["", name] = Failed(numeric(value), "unparsed") if invalid else numeric(value)
    view = {**(data if isinstance(data, dict) else {}), kind: data}
    view |= {"sample": data} if kind == "raw_sample" else {}
    row, number = {"item": label(record, "sample_id")}, record.get("event_id")
    state: Reason | None = "errored" if kind == "error" else None
    yield Answer(row, values, view, state, id=(str(part.source.path), number) if isinstance(number, int) else None)


def _openai_samples(answers: list[Answer], part: Part) -> list[Answer]:
    """The events of a sample together: an answer for each that scores it."""
    samples: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        samples[answer.row["item"]].append(answer)
    together = []
    for events in samples.values():
        row = {name: value for event in events for name, value in event.row.items()}
        state = next((event.state for event in events if event.state), None)
        scores: dict[Name, list[Any]] = defaultdict(list)
        for event in events:
            for name, value in event.values.items():
                scores[name].append(value)
        n_answers = 1 if state else max(map(len, scores.values()), default=1)
        if n_answers > 1:
            part.notes.append(
                "Samples with several events: these are read as repeats and averaged first, while evals counts every "
                "event alike."
            )
        for number in range(n_answers):
            values = {name: own[number] for name, own in scores.items() if number < len(own)}
            together.append(Answer(dict(row), values, {}, state, place=events[0].place))
    return together


OPENAI_EVALS = Format(
    "openai_evals",
    "OpenAI evals logs (JSON lines of events)",
    Marks(rb'\{\s*"spec"\s*:\s*\{', (b'"run_id"',), (b'"eval_name"', b'"base_eval"')),
    _openai_parts,
    _openai_event,
    _openai_samples,
    fields=("sample",),
    choose={"metric": ("", "scores")},
    repeats="number",
    alike=True,
    empty="there is no sample.",
)

# OpenCompass: a file for each model and data set, whose details say what was correct

_PREDICTIONS = re.compile(rb'\{\s*"\d+"\s*:\s*\{\s*"(origin_prompt|prediction|in-context examples|label: )')
_DETAILS = Marks(
    rb"\{",
    (rb'"details"\s*:\s*[\[{]',),
    (b'"example_abbr"', b'"(is_|cascade_)?correct"', b'"origin_prediction"', b'"pred"'),
)
# Numbers that say which example it is, not how good the answer.
_NUMBERS = frozenset({"idx", "index", "id", "example_idx", "question_id", "dataset_replica_idx", "subdivision"})


def _opencompass_parts(source: Source, choice: Choice) -> Iterator[Part]:
    if _PREDICTIONS.match(source.start):
        return
    whole, path = object_of(source, "OpenCompass"), source.path.resolve()
    details = whole.get("details")
    if not isinstance(details, dict | list):
        raise LogFormatError(
            f"Results of OpenCompass are read from their details; {source.path} has none. Run the evaluation again "
            "with --dump-eval-details."
        )
    named = details.items() if isinstance(details, dict) else ((str(n), one) for n, one in enumerate(details))
    rows = [
        (f"example {name!r}", {**one, "#name": name} if isinstance(one, dict) else one)
        for name, one in named
        if not (name == "type" and isinstance(one, str))
    ]
    reported = {key: value for key, value in numeric_items(whole).items() if not isinstance(value, bool)}
    run = path.parent.parent.parent.name if path.parent.parent.name == "results" else str(source.path)
    yield Part(source, path.parent.name, source.stem, rows, id=run, details={"reported": reported})


def _opencompass(record: Record, part: Part) -> Iterator[Answer]:
    """An example: one answer, or one for each of its repeats, whose fields are lists."""
    row: Record = {"item": record.pop("#name")}
    lists: Record = {}
    if "example_abbr" in record:
        row = {"item": str(record["example_abbr"])}
        row["subdivision"] = row["item"].rpartition("_")[0] or None
        lists = {name: value for name, value in record.items() if isinstance(value, list)}
    common = _numbers({name: value for name, value in record.items() if name not in lists})
    target = at(record, "references|answer|answers|refr|ref|reference|gold")
    target = target[0] if lists and isinstance(target, list) and target else target
    content = digest(json.dumps(target, sort_keys=True)) if target else ""
    for number in range(max([len(value) for value in lists.values()], default=1)):
        one = {name: value[number] if number < len(value) else None for name, value in lists.items()}
        yield Answer(dict(row), {**common, **_numbers(one)}, record, content=content)


def _numbers(record: Mapping[str, Any]) -> dict[Name, Any]:
    """Numbers and truths of a detail; null only where a verdict belongs; also those one level down, by dots."""

    def of(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: numeric(value)
            for name, value in fields.items()
            if (name.endswith("correct") if value is None else isinstance(value, int | float) and name not in _NUMBERS)
        }

    inner = {name: of(below) for name, below in record.items() if isinstance(below, dict)}
    values: dict[Name, Any] = {("", printable(name)): value for name, value in of(record).items()}
    for name, below in inner.items():
        values |= {("", Minor(printable(f"{name}.{key}"))): value for key, value in below.items()}
    return values


OPENCOMPASS = Format(
    "opencompass",
    "OpenCompass results with details",
    lambda source: bool(_PREDICTIONS.match(source.start)) or _DETAILS(source),
    _opencompass_parts,
    _opencompass,
    choose={"metric": ("", "scores in the details")},
    repeats="number",
    empty="they are in the folder results of a run with --dump-eval-details.",
    notes=("OpenCompass reports percentages; scores here are those of its details.",),
)

# garak: what detectors said of each output of an attack, by probe and prompt


def _garak_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The attempts of a report that were evaluated; its set-up says the model, and what counts as a hit."""
    part = Part(source, header={"threshold": 0.5}, details={"reported": {}})

    def attempts() -> Iterator[tuple[str, Record | None]]:
        for place, record in records(source, choice.broken):
            kind = (record or {}).get("entry_type")
            if record is None or (kind == "attempt" and record.get("status") == 2):
                yield place, record
            elif kind == "start_run setup":
                names = [record.get("plugins.target_name"), record.get("plugins.model_name")]
                part.header["model"] = printable(next((name for name in names if isinstance(name, str) and name), ""))
                part.header["threshold"] = numeric(record.get("run.eval_threshold")) or 0.5
            elif kind == "init":
                part.details |= {"version": record.get("garak_version"), "created": record.get("start_time")}
                part.id = str(record.get("run") or source.path)
            elif kind == "eval":
                counts = ("passed", "fails", "nones", "total", "total_evaluated")
                name = f"{record.get('probe')} {str(record.get('detector')).removeprefix('detector.')}"
                part.details["reported"][name] = {count: record[count] for count in counts if count in record}

    part.records = attempts()
    yield part


def _garak(record: Record, part: Part) -> Iterator[Answer]:
    """An attempt: for each output and detector whether the attack succeeded."""
    results = record.get("detector_results")
    if not isinstance(results, dict) or not all(isinstance(scores, list) for scores in results.values()):
        raise BadRecordError("has 'detector_results' that are not lists by detector")
    prompt = first_text(record, "prompt", "prompt.text") or at(record, "prompt.turns")
    asked = prompt if isinstance(prompt, str) else "\n".join(first_text(turn, "content.text") for turn in prompt or [])
    row = {"model": part.header.get("model") or part.source.stem, "task": label(record, "probe_classname")}
    row |= {"item": short(asked or label(record, "uuid"), LONGEST_NAME), "goal": record.get("goal")}
    for place in range(max([len(scores) for scores in results.values()], default=0)):
        values: dict[Name, Any] = {}
        for detector, scores in results.items():
            score = numeric(scores[place]) if place < len(scores) else None
            values[detector, ""] = None if score is None else float(score >= part.header["threshold"])
        yield Answer(dict(row), values, record, why="without a verdict of the detector")


GARAK = Format(
    "garak",
    "garak reports (JSON lines)",
    Marks(rb"\{", (b'"entry_type"',), (b'"garak_version"', b'"start_run setup"')),
    _garak_parts,
    _garak,
    choose={"scorer": ("", "detectors")},
    repeats="number",
    empty="no attempt was evaluated.",
    notes=("A score of 1 is an attack that succeeded: the detector's score reached the threshold of the run.",),
)

SCORED_FORMATS = (SWE_BENCH, EVALPLUS, PYDANTIC_EVALS, DEEPEVAL, OPENAI_EVALS, OPENCOMPASS, GARAK)
