"""Formats of scored answers in one file a run: where cases and their scores stand, and what their words mean."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import pandas as pd

from evalreg.checks import passed
from evalreg.errors import LogFormatError
from evalreg.logs.files import Source
from evalreg.logs.reading import (
    Answer,
    BadRecordError,
    Choice,
    Failed,
    Format,
    Marks,
    Minor,
    Part,
    Reason,
    Record,
    Run,
    Unknown,
)
from evalreg.logs.records import (
    as_score,
    at,
    digest,
    document,
    first_text,
    label,
    needed,
    number_at,
    numeric,
    numeric_items,
    objects,
    places,
    printable,
    records,
    short,
    typed,
    unfit,
)

LONGEST_NAME = 80

# SWE-bench: lists of the instances that were resolved, and of those that were not, by reason

# An empty patch is an answer, which resolves nothing.
_OUTCOMES: dict[str, float | Failed] = {"resolved": 1.0, "unresolved": 0.0, "empty_patch": 0.0}
_OUTCOMES |= {"error": Failed(), "incomplete": Failed(reason="cancelled")}


def _swe_bench_run(whole: Record, source: Source, choice: Choice) -> Part:
    """The run of a report, whose lists and counts must agree; model and run are in the file's name."""
    counts = {name.removesuffix("_instances"): n for name, n in whole.items() if name.endswith("_instances")}
    for outcome in _OUTCOMES:
        if not isinstance(names := whole.get(f"{outcome}_ids"), list):  # a rate without it has another denominator
            raise BadRecordError(f"has no list {outcome}_ids. Make the report again")
        if (count := counts.get(outcome, len(names))) != len(names) and choice.broken == "raise":
            raise BadRecordError(
                f"counts {count} as {outcome} and lists {len(names)}. Make the report again, or pass "
                f"{passed(broken='skip')} to read the lists"
            )
    model, dot, run = source.stem.rpartition(".")
    model = (model if dot else run).replace("__", "/")
    reported = {f"{name}_instances": count for name, count in counts.items()}
    if (resolved := numeric(counts.get("resolved"))) is not None and (total := numeric(counts.get("total"))):
        reported["rate"] = resolved / total
    details = {"schema_version": whole.get("schema_version"), "reported": reported}
    return Part(source, model, id=run if dot else model, details=details)


def _swe_bench(record: Record, part: Part) -> Iterator[Answer]:
    name, outcome = label(record, "#value"), record["#list"].removesuffix("_ids")
    row = {"item": name, "repo": name.rpartition("-")[0].replace("__", "/"), "outcome": outcome}
    yield Answer(row, {"": _OUTCOMES[outcome]}, record)


SWE_BENCH = Format(
    "swe_bench",
    "reports of SWE-bench",
    Marks(rb"\{", (b'"resolved_instances"', b'"total_instances"')),
    _swe_bench,
    rows=tuple(f"{outcome}_ids" for outcome in _OUTCOMES),
    run=_swe_bench_run,
    same=("item",),
    figure=lambda reported, score: ("rate",),
    empty="all lists are empty.",
    notes=("Models are named by the files: a report does not name its model.",),
)

# EvalPlus and BigCodeBench: several solutions of a task, each with what its tests said

# What a status is worth; time that ran out is a failure.
_STATUS = {"pass": 1.0, "fail": 0.0, "timeout": 0.0}


def _evalplus_run(whole: Record, source: Source, choice: Choice) -> Part:
    model = source.stem.removesuffix("eval_results").rstrip("_-.") or source.place.resolve().parent.name
    return Part(source, model, details={"reported": at(whole, "pass_at_k") or {}, "date": at(whole, "date")})


def _evalplus(record: Record, part: Part) -> Iterator[Answer]:
    """Each solution of a task."""
    solutions = record.get("#value")
    if not isinstance(solutions, list) or not all(isinstance(solution, dict) for solution in solutions):
        raise BadRecordError("holds no list of its solutions")
    for number, solution in enumerate(solutions, start=1):
        kinds = {"base": "base_status", "plus": "plus_status", "pass": "status"}
        status = {name: solution[key] for name, key in kinds.items() if solution.get(key)}
        values: Record = {name: _STATUS.get(word, Unknown(word)) for name, word in status.items()}
        # Plus means that the base tests were passed too, as EvalPlus counts.
        if all(isinstance(values.get(name), float) for name in ("base", "plus")):
            values["plus"] = min(values["base"], values["plus"])
        yield Answer({"item": record["#name"], "sample": number}, values or {"base": None})


EVALPLUS = Format(
    "evalplus",
    "EvalPlus and BigCodeBench results",
    Marks(rb"\{", (b'"eval"', b'"date"'), (b'"base_status"', b'"status"')),
    _evalplus,
    rows=("eval",),
    run=_evalplus_run,
    choose={"metric": ("", "kinds of tests")},
    known=f"one of {', '.join(_STATUS)}",
    repeats=None,
    empty="there is no solution.",
    notes=("Models are named by the files; plus means that the base tests were passed too, as EvalPlus counts.",),
)

# DeepEval: a test case is a question, and each of its metrics has a score and passes or not

_CONTENT = ("input", "expectedOutput", "scenario", "expectedOutcome", "userDescription", "context")


def _deepeval_run(whole: Record, source: Source, choice: Choice) -> Part:
    whole = whole["testRunData"] if isinstance(whole.get("testRunData"), dict) else whole
    reported: Record = {name: whole[name] for name in ("testPassed", "testFailed") if name in whole}
    for entry in typed(whole, "metricsScores", list, []):
        reported[str(at(entry, "metric"))] = {name: at(entry, name) for name in ("passes", "fails", "errors")}
    model = first_text(whole, "hyperparameters.model", "identifier") or source.stem
    details = {"hyperparameters": whole.get("hyperparameters"), "reported": reported}
    task = first_text(whole, "datasetAlias", "testFile")
    return Part(source, model, task, settings={"": source.stem}, details=details)


def _deepeval(record: Record, part: Part) -> Iterator[Answer]:
    """A test case: the score and success of each metric, and its own success, which a metric in error spoils."""
    metrics, values = typed(record, "metricsData", list, []), Record()
    names = [label(metric, "name") for metric in metrics]
    for place, (name, metric) in enumerate(zip(names, metrics, strict=True)):
        name += f" ({names[: place + 1].count(name)})" if names.count(name) > 1 else ""
        score, success = number_at(metric, "score"), _flag(metric)
        # Without a score there is nothing that could pass; DeepEval writes false.
        success = None if score is None and not metric.get("error") else success
        for called, value in ((name, score), (f"{name}.success", success)):
            values[called] = Failed(value) if metric.get("error") else value
    spoilt = any(metric.get("error") and not metric.get("flaky") for metric in metrics)
    values["success"] = Failed(_flag(record)) if spoilt else _flag(record)
    name = re.sub(r"^(conversational_)?test_case_\d+$", "", first_text(record, "name"))  # DeepEval's own numbers
    if not (item := name or first_text(record, "input", "scenario")):
        raise BadRecordError("has no name, no input and no scenario")
    content = digest(name, *(record.get(field) for field in _CONTENT))
    yield Answer({"item": short(item, LONGEST_NAME)}, values, record, content=content)


def _flag(record: Record) -> float | None:
    return None if record.get("success") is None else float(typed(record, "success", bool))


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
    _deepeval,
    rows=("testRunData.testCases|testCases", "testRunData.conversationalTestCases|conversationalTestCases"),
    run=_deepeval_run,
    fields=("metadata", "inputs"),
    choose={"metric": ("", "scores")},
    apart=True,
    repeats="number",
    alike=True,
    empty="there is no test case.",
    notes=_named_by_files,
)

# pydantic-evals: a case is a question, its runs are samples, its scores and assertions metrics


def _pydantic_run(whole: Record, source: Source, choice: Choice) -> Part:
    figures = {str(at(analysis, "title")): at(analysis, "value") for analysis in typed(whole, "analyses", list, [])}
    details = {"metadata": whole.get("experiment_metadata"), "reported": numeric_items(figures)}
    names: dict[str, set[str]] = defaultdict(set)  # of the scores that an evaluator made
    for case in typed(whole, "cases", list, []):
        with suppress(BadRecordError):
            for name, _, evaluator in _pydantic_results(case):
                names[evaluator].add(name)
    task = first_text(whole, "dataset_name")
    return Part(source, label(whole, "name"), task, settings={"": source.stem}, details=details, header=names)


def _pydantic_results(case: Record) -> Iterator[tuple[str, Any, str]]:
    """Names, values and evaluators of the scores and assertions of a case; labels are no numbers."""
    names = set()
    for kind in ("scores", "assertions", "labels"):
        results = at(case, kind) or {}
        if not isinstance(results, dict) or len(objects([*results.values()])) < len(results):
            raise BadRecordError(f"has {kind!r} that are not results by name")
        for key, result in results.items():
            names.add(name := f"{kind}.{key}" if key in names else printable(key))
            value = Unknown(result.get("value")) if kind == "labels" else number_at(result, "value")
            yield name, value, first_text(result, "source.name")


def _pydantic(record: Record, part: Part) -> Iterator[Answer]:
    """A run of a case; a score that is missing because its evaluator failed is an error, not a gap."""
    row: Record = {"item": label(record, "name")}
    if record.get("source_case_name") is not None:
        repeat = re.search(r" \[(\d{1,9})/\d{1,9}\]$", row["item"])
        if repeat is None:
            raise BadRecordError(f"is called {row['item'][:40]!r}, without the number of its run")
        row = {"item": label(record, "source_case_name"), "sample": int(repeat[1])}
    failures = {first_text(failure, "source.name") for failure in typed(record, "evaluator_failures", list, [])}
    values: Record = {name: Failed() for failure in failures for name in part.header.get(failure, ())}
    values |= {name: value for name, value, _ in _pydantic_results(record)}
    content = digest(row["item"], record.get("inputs"), record.get("expected_output"))
    yield Answer(row, values, record, "errored" if record["#list"] == "failures" else None, content=content)


PYDANTIC_EVALS = Format(
    "pydantic_evals",
    "reports of pydantic-evals",
    Marks(
        rb'\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"cases"\s*:\s*\[\s*(\{\s*"name"|\])',
        among=(b'"assertions"', b'"task_duration"', b'"evaluator_failures"', b'"error_stacktrace"', b'"failures"'),
    ),
    _pydantic,
    rows=("cases", "failures"),
    run=_pydantic_run,
    fields=("metadata", "inputs"),
    choose={"metric": ("", "scores")},
    apart=True,
    empty="there is no case.",
)

# promptfoo: a question is its variables, a repeat its order among equals

_PROMPTFOO = Marks(rb'\{\s*"(evalId|results|version|config)"', (b'"prompts"',), (b'"version"', b'"evalId"'))
_PROMPTFOO_LINE = Marks(
    rb'\{(?!\s*"(evalId|results|version|config)")', (b'"gradingResult"|"promptIdx"', b'"latencyMs"|"testIdx"')
)
_PROMPTFOO_VERSION = 3
_OF_THE_RUN = ("sessionId", "_conversation")  # variables that promptfoo itself adds


def _promptfoo_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The results of a file; what the names of prompts and providers stand for is noted, to tell them apart."""
    is_document = re.match(_PROMPTFOO.start, source.start) is not None
    part = _promptfoo_document(source) if is_document else Part(source, records=[*records(source, choice.broken)])
    states: Counter[Reason | None] = Counter()
    part.header = defaultdict(set)
    for record in objects([record for *_, record in part.records]):
        prompt, model = _prompt(record), _provider(record)
        states[_promptfoo_state(record)] += choice.filter in (None, prompt[0], f"{prompt[0]} #{prompt[1][:12]}")
        part.header[prompt[0]].add(prompt[1])
        if isinstance(place := record.get("promptIdx", 0), int):
            part.header[model, *prompt].add(place)
    here = {"drop": f"here they are no scores; {passed(failed='zero')} counts them so", "zero": "as here"}
    rules: dict[str, Reason] = {
        f"errors ({states['errored']}) as failures ({here.get(choice.failed, 'here as they stand')})": "errored",
        f"results without an assertion ({states['unscored']}) as passed (here they are no scores)": "unscored",
    }
    if parts := [words for words, state in rules.items() if states[state]]:
        part.notes.append(f"promptfoo's own pass rate counts {' and '.join(parts)}.")
    yield part


def _promptfoo_document(source: Source) -> Part:
    """The results in one object, with a run for each prompt and provider."""
    whole = document(source)
    body = whole["results"] if isinstance(at(whole, "results"), dict) else whole
    version, path = at(body, "version"), source.name
    if not isinstance(at(body, "results"), list):
        newer = f" It has version {version!r:.20}; the newest known is {_PROMPTFOO_VERSION}."
        newer *= version != _PROMPTFOO_VERSION
        raise LogFormatError(f"promptfoo results hold a list 'results'; {path} has none.{newer}")
    runs = []
    for prompt in typed(body, "prompts", list, []):
        details = {"prompt": at(prompt, "label"), "prompt.id": at(prompt, "id")}
        details |= {"reported": numeric_items(at(prompt, "metrics"))}
        details |= {"version": at(whole, "metadata.promptfooVersion")}
        runs.append(Run(str(whole.get("evalId") or path), str(at(prompt, "provider") or ""), "", path, details))
    part = Part(source, records=[*places(body["results"], "result")], details={"runs": runs} if runs else {})
    if version != _PROMPTFOO_VERSION:
        part.notes.append(f"{path} has version {version!r:.20} of promptfoo's results, read as {_PROMPTFOO_VERSION}.")
    return part


def _promptfoo_state(record: Record) -> Reason | None:
    """Why a result is no score: there was no answer, or nothing was asserted."""
    reason = record.get("failureReason")  # 0 passed, 1 an assertion failed or threw, 2 no answer
    if reason == 2 or (reason is None and record.get("error") and not record.get("gradingResult")):
        return "errored"
    asserted = at(record, "testCase.assert") or at(record, "gradingResult.componentResults")
    return None if asserted or not isinstance(record.get("testCase"), dict) else "unscored"


def _prompt(record: Record) -> tuple[str, str]:
    """The name of a prompt, and what identifies it."""
    called = str(at(record, "prompt.label|prompt.raw|prompt"))
    return short(called), str(record.get("promptId") or digest(called))


def _provider(record: Record) -> str:
    return first_text(record, "provider.label", "provider.id", "provider")


def _promptfoo(record: Record, part: Part) -> Iterator[Answer]:
    """A result: score, success and named scores."""
    variables = {name: value for name, value in typed(record, "vars", dict).items() if name not in _OF_THE_RUN}
    typed(record, "prompt.label|prompt.raw|prompt", str)
    values: Record = {"score": as_score(needed(record, "score"), "score")}
    values["success"] = float(typed(record, "success", bool))
    named = typed(record, "namedScores", dict, {})
    values |= {printable(name): as_score(value, name) for name, value in named.items()} | values
    if not (model := _provider(record)):
        raise BadRecordError("has no 'provider' with a name")
    prompt, place = _prompt(record), typed({"promptIdx": 0} | record, "promptIdx", int)
    ids, columns = part.header[prompt[0]], sorted(part.header[model, *prompt])
    row = {
        "model": model + (f" ({columns.index(place) + 1})" if len(columns) > 1 else ""),
        "item": short(json.dumps(variables, sort_keys=True, ensure_ascii=False), LONGEST_NAME),
        "prompt": prompt[0] + (f" #{prompt[1][:12]}" if len(ids) > 1 else ""),
        "prompt.id": prompt[1],
    }
    content = digest(json.dumps([variables, at(record, "testCase.assert") or []], sort_keys=True))
    fields = {**record, "vars": variables, "metadata": at(record, "testCase.metadata")}
    yield Answer(row, values, fields, _promptfoo_state(record), content=content, id=str(record.get("id") or "") or None)


PROMPTFOO = Format(
    "promptfoo",
    "promptfoo results",
    lambda source: _PROMPTFOO(source) or _PROMPTFOO_LINE(source),
    _promptfoo,
    _promptfoo_parts,
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
    spec = next((record for *_, record in lines if record is not None), {}).get("spec")
    if not isinstance(spec, dict):
        raise LogFormatError(f"A log of evals begins with the specification of its run; {source.name} does not.")
    models = at(spec, "completion_fns|model_names.completions|model_name|run_config.completion_fns")
    model = ", ".join(str(name) for name in (models if isinstance(models, list) else [models]) if name)
    details = {key: spec[key] for key in ("created_at", "split", "base_eval") if spec.get(key)} | {"reported": {}}
    details |= {"seed": seed} if (seed := at(spec, "run_config.seed")) is not None else {}
    part = Part(source, model, str(at(spec, "eval_name|base_eval") or ""), id=str(spec.get("run_id") or source.name))
    part.details = details

    def events() -> Iterator[tuple[str, Record | None]]:
        for place, _, record in lines:
            if isinstance(at(record, "spec"), dict):
                raise LogFormatError(f"A log of evals is one run; {place} of {source.name} begins another. Split it.")
            details["reported"] = numeric_items(at(record, "final_report")) or details["reported"]
            if record is None or ("final_report" not in record and record.get("sample_id") is not None):
                yield place, record
        if not details["reported"]:
            part.notes.append(f"{source.name} has no final report: the run was cut off or still goes on.")

    part.records = events()
    yield part


def _openai_event(record: Record, part: Part) -> Iterator[Answer]:
    """One event of a sample: a match or metrics score it, an error fails it, others may tell its fields."""
    kind, data, values = label(record, "type"), record.get("data"), Record()
    if kind in ("match", "metrics"):
        data = typed(record, "data", dict)
        if kind == "match" and not isinstance(needed(data, "correct"), bool | int | float):
            raise unfit(data["correct"], "correct", "true or false")
        # A grade that could not be read, which evals scores as the worst.
        invalid = data.get("choice") == "__invalid__"
        for name, value in data.items():
            if isinstance(value, bool | int | float) or (value is None and name == "score"):
                values[name] = Failed(numeric(value), "unparsed") if invalid else numeric(value)
    view = {**(data if isinstance(data, dict) else {}), kind: data}
    view |= {"sample": data} if kind == "raw_sample" else {}
    row, number = {"item": label(record, "sample_id")}, record.get("event_id")
    state: Reason | None = "errored" if kind == "error" else None
    yield Answer(row, values, view, state, id=(part.source.name, number) if isinstance(number, int) else None)


OPENAI_EVALS = Format(
    "openai_evals",
    "OpenAI evals logs (JSON lines of events)",
    Marks(rb'\{\s*"spec"\s*:\s*\{', (b'"run_id"',), (b'"eval_name"', b'"base_eval"')),
    _openai_event,
    _openai_parts,
    same=("item",),
    fields=("sample",),
    figure=lambda reported, score: ("accuracy",),
    choose={"metric": ("", "scores")},
    repeats="number",
    alike=True,
    empty="there is no sample.",
)

# OpenCompass: a file for each model and data set, whose details say what was correct

_PREDICTIONS = Marks(rb'\{\s*"\d+"\s*:\s*\{\s*"(origin_prompt|prediction|in-context examples|label: )')
_DETAILS = Marks(
    rb"\{",
    (rb'"details"\s*:\s*[\[{]',),
    (b'"example_abbr"', b'"(is_|cascade_)?correct"', b'"origin_prediction"', b'"pred"'),
)
# Numbers that say which example it is, not how good the answer.
_NUMBERS = frozenset({"idx", "index", "id", "example_idx", "question_id", "dataset_replica_idx", "subdivision"})


def _opencompass_run(whole: Record, source: Source, choice: Choice) -> Part:
    """The run of a file; folders name model and run."""
    path = source.place.resolve()
    reported = {key: value for key, value in numeric_items(whole).items() if not isinstance(value, bool)}
    run = path.parent.parent.parent.name if path.parent.parent.name == "results" else source.name
    return Part(source, path.parent.name, source.stem, id=run, details={"reported": reported})


def _opencompass(record: Record, part: Part) -> Iterator[Answer]:
    """An example: one answer, or one for each of its repeats, whose fields are lists."""
    row: Record = {"item": record["#name"]}
    repeats: Record = {}
    if "example_abbr" in record:
        name = str(record["example_abbr"])
        row = {"item": name, "subdivision": name.rpartition("_")[0] or None}
        repeats = {name: value for name, value in record.items() if isinstance(value, list)}
    elif "#value" in record:
        if record["#name"] != "type":  # which says how the details were made
            raise BadRecordError("is not an object")
        return
    common = _numbers({name: value for name, value in record.items() if name not in repeats})
    target = at(record, "references|answer|answers|refr|ref|reference|gold")
    target = target[0] if repeats and isinstance(target, list) and target else target
    content = digest(json.dumps(target, sort_keys=True)) if target else ""
    for fields in zip_longest(*repeats.values()) if repeats else [()]:
        values = {**common, **_numbers(dict(zip(repeats, fields, strict=True)))}
        yield Answer(dict(row), values, record, content=content)


def _numbers(record: Mapping[str, Any], above: str = "") -> Record:
    """Numbers and truths of a detail; null only where a verdict belongs; also those one level down, by dots."""
    values: Record = {}
    for name, value in record.items():
        if name.endswith("correct") if value is None else isinstance(value, int | float) and name not in _NUMBERS:
            values[Minor(printable(above + name)) if above else printable(name)] = numeric(value)
    for name, below in record.items():
        if isinstance(below, dict) and not above:
            values |= _numbers(below, f"{name}.")
    return values


OPENCOMPASS = Format(
    "opencompass",
    "OpenCompass results with details",
    lambda source: _PREDICTIONS(source) or _DETAILS(source),
    _opencompass,
    beside=_PREDICTIONS,
    rows=("details",),
    run=_opencompass_run,
    choose={"metric": ("", "scores in the details")},
    repeats="number",
    empty="they are in the folder results of a run with --dump-eval-details.",
    notes=("OpenCompass reports percentages; scores here are those of its details.",),
)

# garak: what detectors said of each output of an attack, by probe and prompt


def _garak(record: Record, part: Part) -> Iterator[Answer]:
    """An entry of a report: the set-up with the model and what counts as a hit, an attempt, or figures of its own."""
    kind, reported = record.get("entry_type"), part.details.setdefault("reported", {})
    if kind == "start_run setup":
        names = [record.get("plugins.target_name"), record.get("plugins.model_name")]
        part.header["model"] = printable(next((name for name in names if isinstance(name, str) and name), ""))
        part.header["threshold"] = threshold = numeric(record.get("run.eval_threshold")) or 0.5
        part.notes.append(f"Attacks succeed where a detector says at least {threshold:g}, the threshold of the run.")
    elif kind == "init":
        part.details |= {"version": record.get("garak_version"), "created": record.get("start_time")}
        part.id = str(record.get("run") or part.source.name)
    elif kind == "eval":
        name = f"{record.get('probe')} {str(record.get('detector')).removeprefix('detector.')}"
        reported[name] = numeric_items(record)
    elif kind == "attempt" and record.get("status") == 2:  # one that was evaluated
        yield from _garak_attempt(record, part)


def _garak_attempt(record: Record, part: Part) -> Iterator[Answer]:
    """For each output and detector whether the attack succeeded."""
    results = record.get("detector_results")
    if not isinstance(results, dict) or not all(isinstance(scores, list) for scores in results.values()):
        raise BadRecordError("has 'detector_results' that are not lists by detector")
    prompt = first_text(record, "prompt", "prompt.text") or at(record, "prompt.turns")
    text = prompt if isinstance(prompt, str) else "\n".join(first_text(turn, "content.text") for turn in prompt or [])
    row = {"model": part.header.get("model") or part.source.stem, "task": label(record, "probe_classname")}
    row |= {"item": short(text or label(record, "uuid"), LONGEST_NAME), "goal": record.get("goal")}
    threshold = part.header.get("threshold", 0.5)
    for outputs in zip_longest(*results.values()):
        scores = zip(results, map(numeric, outputs), strict=True)
        values = {detector: None if score is None else float(score >= threshold) for detector, score in scores}
        yield Answer(dict(row), values, record, why="without a verdict of the detector")


GARAK = Format(
    "garak",
    "garak reports (JSON lines)",
    Marks(rb"\{", (b'"entry_type"',), (b'"garak_version"', b'"start_run setup"')),
    _garak,
    choose={"scorer": ("", "detectors")},
    repeats="number",
    empty="no attempt was evaluated.",
    notes=("A score of 1 is an attack that succeeded: the detector's score reached the threshold of the run.",),
)

SCORED_FORMATS = (SWE_BENCH, EVALPLUS, PYDANTIC_EVALS, DEEPEVAL, OPENAI_EVALS, OPENCOMPASS, GARAK)
