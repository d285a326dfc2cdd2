"""Logs of Inspect, opened without Inspect: header and samples of a `.eval` (zip) or `.json` log, within bounds."""

from __future__ import annotations

import json
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalreg.checks import counted
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.files import Source
from evalreg.logs.reading import Answer, BadRecordError, Choice, Format, Part, Reason, Record, ScoreName, Unknown
from evalreg.logs.records import (
    at,
    digest,
    document,
    first_text,
    label,
    parsed,
    places,
    printable,
    readings,
    typed,
    unfit,
)

NEWEST_VERSION = 2
# Bytes that a `.json` log or one member of a `.eval` may have when expanded.
LIMIT = 1 << 29
# Edits by hand stand in whole samples alone; they are looked for where these are no longer than this together.
EDITS_LIMIT = 1 << 26
# Compression of real logs is a tenth of this.
LARGEST_EXPANSION = 300
ZSTD = 93

MEMBERS = (b"_journal/", b"header.json", b"samples/", b"summaries.json", b"reductions.json")
HISTORY = re.compile(rb'"history"\s*:\s*\[\s*\{')
# Fields of a whole sample that are kept; transcripts are long.
KEYS = ("id", "epoch", "input", "target", "metadata", "scores", "error", "limit", "total_time", "working_time")
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, NotImplementedError)
# What tells runs of one model on one task apart, and what else is said of a run.
SETTINGS = ("task_args", "model_args", "model_roles", "model_generate_config")
DETAILS = ("run_id", "task_id", "created", "task_version", "task_args", "model_args", "model_roles", "packages")
# Where a log declares what is its own.
HEADLINE = {"scorer": "scorer", "metric": "score"}
# What stands in a summary for a field that is too long for it.
REMOVED = "Key removed from summary (> 1k)"
# What Inspect's `value_to_float` makes of text, which it looks at in this order.
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def as_number(value: Any) -> float | None:
    """A value as `inspect_ai.scorer.value_to_float()` has it; NaN if unscored, None if not a number."""
    is_text = isinstance(value, str)
    if value is None:  # older versions wrote NaN so
        return math.nan
    try:
        number = float(LETTERS.get(value, WORDS.get(value.lower(), value)) if is_text else value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isinf(number) or (is_text and math.isnan(number)) else number


def recognises(source: Source) -> bool:
    """Whether it is a zip file that begins with a member of a log, or JSON that begins as one."""
    if source.head.startswith(b"PK\x03\x04"):
        return source.head[30:].startswith(MEMBERS)
    start = source.start
    # Tools that sort keys let it begin with what was evaluated.
    usual = re.match(rb'\s*\{\s*"version"\s*:\s*\d+\s*,', start) and b'"eval"' in start and b'"task"' in start
    is_sorted = re.match(rb'\s*\{\s*"eval"\s*:\s*\{', start) and b'"created"' in start and b'"dataset"' in start
    return bool(usual or is_sorted)


# Opening


def _parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The run of a log; summaries of samples are read where they hold what is asked, else whole samples."""
    fields = choice.columns or ()
    if source.head.startswith(b"PK"):
        header, samples, n_edited = _from_zip(source.path, fields)
    else:
        header = document(source, LIMIT)
        if not isinstance(header, dict):
            raise LogFormatError(
                f"{source.name} is not a log of Inspect: it holds {type(header).__name__}. Leave it out."
            )
        samples = header.pop("samples", None)
        samples = [_without_transcript(sample, fields) for sample in (samples if isinstance(samples, list) else [])]
        n_edited = sum(map(_n_edited, samples))
    # The last record of each id and epoch counts, as it does for Inspect: a sample may be run again.
    last: dict[Any, Any] = {}
    for position, sample in enumerate(samples):
        known = isinstance(at(sample, "id"), str | int)
        key = (str(sample["id"]), str(sample.get("epoch"))) if known else position
        last.pop(key, None)
        last[key] = sample
    part = _part(source, header, len(last), n_edited)
    part.left_out["duplicate"] += len(samples) - len(last)
    part.records = places([*last.values()], "sample")
    yield part


def _from_zip(path: Path, fields: Sequence[str]) -> tuple[Record, list[Any], int | None]:
    """Header, samples, and how many scores were edited by hand, if that can be told."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name):
                    raise LogFormatError(
                        f"Members of a log stay inside it; {path} has one called {name!r}. Do not use it."
                    )
            expanded, packed = sum(info.file_size for info in archive.infolist()), max(1, path.stat().st_size)
            if expanded > LARGEST_EXPANSION * packed and expanded > 4 * LIMIT:
                raise LogFormatError(
                    f"A `.eval` log of more than {4 * LIMIT >> 20} MB expands up to {LARGEST_EXPANSION}-fold; {path} "
                    f"says that it expands {expanded // packed}-fold, to {expanded >> 20} MB. Do not use it."
                )
            return _members(archive, path, fields)
    except DAMAGE as error:
        if isinstance(error, LogFormatError | ArgumentError):
            raise
        raise LogFormatError(f"{path} is damaged, cut off or still being written ({error}). Copy it again.") from error


def _members(archive: zipfile.ZipFile, path: Path, fields: Sequence[str]) -> tuple[Record, list[Any], int | None]:
    """The members of a log; one without a header is still being written, or was cut off."""
    sizes = {info.filename: info.file_size for info in archive.infolist()}

    def content(name: str, kind: type | None = None) -> Any:
        value = parsed(_member(archive, path, name), f"{name} of {path}")
        if kind is not None and not isinstance(value, kind):
            what = "object" if kind is dict else "array"
            raise LogFormatError(f"{name} of {path} is not a JSON {what}. Copy the log again.")
        return value

    first = "header.json" if "header.json" in sizes else "_journal/start.json"
    if first not in sizes:
        raise LogFormatError(f"{path} is a zip file but no log of Inspect: it has no header.json. Leave it out.")
    header = content(first, dict)
    if first != "header.json":
        header = {"status": "started", **header}
    samples = [record for name in _summaries(sizes, path) for record in content(name, list)]
    whole = sorted(name for name in sizes if name.startswith("samples/") and name.endswith(".json"))
    if whole and not (samples and _complete(samples, fields)):
        by_key: dict[tuple[str, str], tuple[str, Any]] = {}
        samples = [_without_transcript(content(name), fields) for name in whole]
        for name, sample in zip(whole, samples, strict=True):
            key = (str(at(sample, "id")), str(at(sample, "epoch")))
            other, before = by_key.setdefault(key, (name, sample))
            if before != sample:
                raise LogFormatError(
                    f"A sample and epoch has one record in a log; sample {key[0]!r}, epoch {key[1]} of {path} has "
                    f"two that differ, {other} and {name}. Was the archive put together by hand? Remove one."
                )
        return header, samples, sum(map(_n_edited, samples))
    if sum(sizes[name] for name in whole) > EDITS_LIMIT:
        return header, samples, None
    contents = (_member(archive, path, name) for name in whole)
    return header, samples, sum(_n_edited(parsed(data, str(path))) for data in contents if HISTORY.search(data))


def _summaries(sizes: Mapping[str, int], path: Path) -> list[str]:
    """Members with summaries of samples: one at the end of a run, numbered ones before."""
    if "summaries.json" in sizes:
        return ["summaries.json"]
    numbered = {name: re.fullmatch(r"_journal/summaries/(\d{1,9})\.json", name) for name in sizes}
    names = [name for _, name in sorted((int(match[1]), name) for name, match in numbered.items() if match)]
    if (total := sum(sizes[name] for name in names)) > 2 * LIMIT:
        raise LogFormatError(
            f"Summaries of a `.eval` log may have {2 * LIMIT >> 20} MB together; those of {path} have "
            f"{total >> 20} MB. Leave the file out."
        )
    return names


def _complete(samples: Sequence[Any], fields: Sequence[str]) -> bool:
    """Whether summaries hold what is asked: versions before 2025 left out metadata and errors, long fields are cut."""
    cut = [
        not values or any(isinstance(v, str) and (v == REMOVED or v.endswith("...")) for v in values)
        for field in fields
        for values in [[value for sample in samples for _, value in readings(sample, field)]]
    ]
    return not any(cut) and any(at(sample, "completed") is not None for sample in samples)


def _without_transcript(sample: Any, fields: Sequence[str]) -> Any:
    """A whole sample without its transcript, unless that was asked for."""
    if not isinstance(sample, dict):
        return sample
    # Versions of 2024 had one scorer, without a name.
    if "score" in sample and "scores" not in sample:
        sample = {**sample, "scores": {"score": sample["score"]} if sample["score"] is not None else None}
    return {k: value for k, value in sample.items() if k in KEYS or any(field.startswith(k) for field in fields)}


def _n_edited(sample: Any) -> int:
    scores = at(sample, "scores")
    return sum(bool(at(score, "history")) for score in scores.values()) if isinstance(scores, dict) else 0


def _member(archive: zipfile.ZipFile, path: Path, name: str) -> bytes:
    """A member expanded, never beyond the size that the directory states nor beyond the limit."""
    info = archive.getinfo(name)
    if info.file_size > LIMIT:
        raise LogFormatError(
            f"A member of a `.eval` log may expand to {LIMIT >> 20} MB; {name} of {path} says "
            f"{info.file_size >> 20} MB. Leave the file out."
        )
    if info.compress_type != ZSTD:
        with archive.open(info) as file:
            return file.read()
    # Python's own zipfile reads zstd from version 3.14 on only.
    import zstandard

    if info.flag_bits & 1:
        raise LogFormatError(f"{path} is encrypted. Save it without a password.")
    with path.open("rb") as plain:
        plain.seek(info.header_offset)
        local = plain.read(30)
        if len(local) < 30 or not local.startswith(b"PK\x03\x04"):
            raise LogFormatError(f"{info.filename} of {path} is not where the log says. Copy the log again.")
        plain.seek(int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"), 1)
        packed = plain.read(info.compress_size)
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
            data: bytes = stream.read(info.file_size + 1)
    except (zstandard.ZstdError, MemoryError) as error:
        raise zipfile.BadZipFile(str(error)) from error
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise LogFormatError(f"{info.filename} of {path} is damaged: its checksum differs. Copy the log again.")
    return data


# The run


def _part(source: Source, header: Record, n_logged: int, n_edited: int | None) -> Part:
    """The run of a log: what tells it from others, what was planned, and the figures that Inspect reports."""
    spec, path = header.get("eval"), source.place
    if not isinstance(spec, dict) or not isinstance(spec.get("model"), str) or not isinstance(spec.get("task"), str):
        raise LogFormatError(f"{source.name} names no model and task, so it is not a log of Inspect. Leave it out.")
    version = header.get("version") if isinstance(header.get("version"), int) else 1
    planned, completed = _planned(header), at(header, "results.completed_samples")
    stripped = not n_logged and isinstance(completed, int) and completed > 0
    error = printable(str(at(header, "error.message") or ""))[:200]
    n_cancelled = 0 if stripped else max(planned - n_logged, 0)
    details = {key: spec.get(key) for key in DETAILS} | {
        "status": str(header.get("status")),
        "error": error,
        "version": version,
        "epochs": at(spec, "config.epochs") or 1,
        "planned": planned,
        "logged": n_logged,
        "stripped": stripped,
        "cancelled": n_cancelled,
        "edited": n_edited,
        "reported": at(header, "results.scores"),
    }
    return Part(
        source,
        spec["model"],
        printable(spec["task"]),
        id=next((str(spec[key]) for key in ("eval_id", "task_id", "run_id") if spec.get(key)), path.stem),
        settings=dict(_settings(spec)),
        version=str(spec.get("task_version")),
        declared={name: first_text(header, f"eval.headline_metric.{key}") for name, key in HEADLINE.items()},
        details=details,
        left_out=Counter({"cancelled": n_cancelled}),
        notes=list(_notes(source.name, details)),
    )


def _figures(entries: Any, score: ScoreName) -> dict[str, float]:
    """Inspect's own figures of a scorer by name; where one name stands for several, the reducer is added."""
    figures: dict[str, float] = {}
    for entry in entries if isinstance(entries, list) else ():
        metrics = at(entry, "metrics")
        names = (score.metric, score.scorer)
        if at(entry, "scorer") != score.scorer or at(entry, "name") not in names or not isinstance(metrics, dict):
            continue
        for name, figure in metrics.items():
            value = at(figure, "value")
            name = name if name not in figures else f"{name} [{at(entry, 'reducer') or 'unreduced'}]"
            for part, number in value.items() if isinstance(value, dict) else [("", value)]:
                if isinstance(number, int | float) and not isinstance(number, bool):
                    figures[f"{name}.{part}" if part else name] = float(number)
    return figures


def _notes(path: str, details: Record) -> Iterator[str]:
    """What is unusual: a run that did not end well, samples that are not in the log, an unknown version."""
    if details["status"] != "success":
        error = f" ({details['error']})" if details["error"] else ""
        planned = counted(details["planned"], "sample") if details["planned"] else "an unknown number of samples"
        yield (
            f"The run of {path} has the status {details['status']!r}{error}: {details['logged']} of {planned} are in "
            "the log. Those that ended first may be the easy ones."
        )
    elif details["cancelled"]:
        yield f"{path} holds {details['logged']} of {counted(details['planned'], 'planned sample')}."
    if details["stripped"]:
        yield f"{path} holds results but no samples; nothing could be read from it."
    if details["version"] > NEWEST_VERSION:
        yield f"{path} has log version {details['version']}, read as {NEWEST_VERSION}, the newest known."
    if details["edited"]:
        yield f"{counted(details['edited'], 'score')} of {path} edited by hand; the latest values were read."


def _planned(header: Record) -> int:
    """Samples times epochs that the run was to have; 0 where the log does not say."""
    total, ids, epochs = (
        at(header, path) for path in ("results.total_samples", "eval.dataset.sample_ids", "eval.config.epochs")
    )
    if isinstance(total, int) and 0 < total < 1 << 40:
        return total
    return len(ids) * (epochs if isinstance(epochs, int) and epochs > 0 else 1) if isinstance(ids, list) else 0


def _settings(spec: Record) -> Iterator[tuple[str, str]]:
    """Arguments of the task and of the model, by name."""
    for part in SETTINGS:
        values = spec.get(part)
        for key, value in values.items() if isinstance(values, dict) else ():
            if part == "model_roles" and isinstance(value, dict):
                value = value.get("model", value)
            yield printable(str(key)), printable(value if isinstance(value, str) else json.dumps(value))


# Samples


def _answers(sample: Record, part: Part) -> Iterable[Answer]:
    """A sample and epoch: the value of each scorer, or of each entry where it is a dict."""
    item, epoch = label(sample, "id"), typed(sample, "epoch", int)
    if not 1 <= epoch < 1 << 31:
        raise unfit(epoch, "epoch", "a number from 1")
    values: dict[Any, Any] = {}
    why = "without a score"
    for scorer, score in typed(sample, "scores", dict, {}).items():
        if not isinstance(score, dict) or "value" not in score:
            raise BadRecordError(f"has a score {scorer!r:.60} without a value")
        value = score["value"]
        for entry, raw in value.items() if isinstance(value, dict) else [("", value)]:
            number = as_number(raw)
            values[str(scorer), str(entry)] = Unknown(raw) if number is None else None if math.isnan(number) else number
        # Versions before 2026 kept the reason among the score's metadata.
        if None in values.values():
            why = first_text(score, "reason", "metadata.unscored_reason")[:60] or "not a number (NaN)"
    error = sample.get("error")
    message = at(error, "message") if isinstance(error, dict) else error
    # A sample that ended because its run did; Inspect writes that as an error of the sample.
    cancelled = isinstance(message, str) and message.startswith("CancelledError(")
    state: Reason | None = None if error is None else "cancelled" if cancelled else "errored"
    if isinstance(sample.get("metadata"), dict):
        sample["metadata"] = {key: value for key, value in sample["metadata"].items() if value != REMOVED}
    yield Answer({"item": item, "sample": epoch}, values, sample, state, why, _content(sample))


def _content(sample: Record) -> str:
    """Beginning of the question and its target; empty where the log keeps the text elsewhere."""
    question = sample.get("input")
    if isinstance(question, list):
        question = "\n".join(str(at(message, "content")) for message in question)
    text = f"{str(question)[:1000]}\n{str(sample.get('target'))[:1000]}"
    return "" if not question or "attachment://" in text or "tc://" in text else digest(text)


INSPECT = Format(
    "inspect",
    "a log of Inspect (.eval or .json)",
    recognises,
    _answers,
    _parts,
    fields=("metadata",),
    choose={"scorer": ("", "scorers"), "metric": ("", "entries of its scores")},
    known="a number, true or false, or one of the letters C, I, P and N",
    repeats=None,
    reported=_figures,
    figure=lambda reported, score: ("accuracy", "mean"),
)
