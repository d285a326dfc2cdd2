"""Files of Inspect, opened without Inspect: header and samples of a `.eval` (zip) or `.json` log, within bounds."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.reading import Source
from evalreg.logs.records import decoded, whole_file
from evalreg.numerics.progress import Progress

# Bytes that a `.json` log or one member of a `.eval` may have when expanded.
LIMIT = 1 << 29
# Edits by hand stand in whole samples alone; they are looked for where these are no longer than this together.
EDITS_LIMIT = 1 << 26
LARGEST_EXPANSION = 300
ZSTD = 93

HISTORY = re.compile(rb'"history"\s*:\s*\[\s*\{')
# Fields of a whole sample that are kept; transcripts are long.
KEPT = ("id", "epoch", "input", "target", "metadata", "scores", "score", "error", "limit", "total_time", "working_time")
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, NotImplementedError)


@dataclass(frozen=True)
class InspectFile:
    """One log."""

    path: Path
    # What the log says of itself.
    header: dict[str, Any]
    # Records of samples as they stand, the last of each id and epoch.
    samples: list[Any]
    # Earlier records of samples that were run again.
    n_superseded: int = 0
    # Scores that were edited by hand; None where the log is too long to look.
    n_edited: int | None = None


Complete = Callable[[Sequence[Any]], bool]


def open_log(source: Source, complete: Complete, fields: Sequence[str] = ()) -> InspectFile:
    """The log of a file; summaries are taken where `complete` says that they hold what is asked, else whole samples."""
    if source.head.startswith(b"PK"):
        return _open_zip(source.path, complete, fields)
    log = _parsed(_json_bytes(source), str(source.path))
    if not isinstance(log, dict):
        raise LogFormatError(f"{source.path} is not a log of Inspect: it holds {type(log).__name__}. Leave it out.")
    found = log.pop("samples", None)
    samples = [_kept(sample, fields) for sample in (found if isinstance(found, list) else [])]
    return _unique(source.path, log, samples, sum(map(_n_edited, samples)))


def _json_bytes(source: Source) -> bytes:
    """All of a `.json` log, up to the limit."""
    data = whole_file(source, LIMIT)
    if data is None:
        raise LogFormatError(
            f"A `.json` log may have {LIMIT >> 20} MB; {source.path} has more. Turn it into the other format of "
            "Inspect, which is read in parts: inspect log convert --to eval --output-dir FOLDER FILE"
        )
    return data


def _open_zip(path: Path, complete: Complete, fields: Sequence[str]) -> InspectFile:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            for name in names:
                if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name):
                    raise LogFormatError(
                        f"Members of a log stay inside it; {path} has one called {name!r}. Do not use it."
                    )
            _check_size(archive, path)
            return _read_zip(archive, path, names, complete, fields)
    except DAMAGE as error:
        if isinstance(error, LogFormatError | ArgumentError):
            raise
        raise _damaged(path, error) from error


def _check_size(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse a file that is made to expand; compression of real logs is a tenth of what is refused."""
    expanded, packed = sum(info.file_size for info in archive.infolist()), max(1, path.stat().st_size)
    if expanded > LARGEST_EXPANSION * packed and expanded > 4 * LIMIT:
        raise LogFormatError(
            f"A `.eval` log of more than {4 * LIMIT >> 20} MB expands up to {LARGEST_EXPANSION}-fold; {path} says that "
            f"it expands {expanded // packed}-fold, to {expanded >> 20} MB. Do not use it."
        )


def _read_zip(
    archive: zipfile.ZipFile, path: Path, names: set[str], complete: Complete, fields: Sequence[str]
) -> InspectFile:
    """Header and samples; a log without a header is one that is still being written, or was cut off."""
    first = "header.json" if "header.json" in names else "_journal/start.json"
    if first not in names:
        raise LogFormatError(f"{path} is a zip file but no log of Inspect: it has no header.json. Leave it out.")
    header = _parsed(_member(archive, path, first), f"{first} of {path}")
    if not isinstance(header, dict):
        raise LogFormatError(f"{first} of {path} is not a JSON object. Copy the log again.")
    if first != "header.json":
        header = {"status": "started", **header}
    whole = sorted(name for name in names if name.startswith("samples/") and name.endswith(".json"))
    samples = [record for records in _summaries(archive, path, names) for record in records]
    if whole and not (samples and complete(samples)):
        with Progress(len(whole), unit="samples") as progress:
            samples = []
            for name in whole:
                samples.append(_kept(_parsed(_member(archive, path, name), f"{name} of {path}"), fields))
                progress.advance(1)
        return _unique(path, header, samples, sum(map(_n_edited, samples)))
    return _unique(path, header, samples, _edits(archive, path, whole))


def _summaries(archive: zipfile.ZipFile, path: Path, names: set[str]) -> Iterator[list[Any]]:
    """Summaries of samples: in one member at the end of a run, in parts before."""
    parts = ["summaries.json"]
    if parts[0] not in names:
        numbered = [(re.fullmatch(r"_journal/summaries/(\d{1,9})\.json", name), name) for name in names]
        parts = [name for _, name in sorted((int(match[1]), name) for match, name in numbered if match)]
    total = sum(archive.getinfo(name).file_size for name in parts if name in names)
    if len(parts) > 1 and total > 2 * LIMIT:
        raise LogFormatError(
            f"Summaries of a `.eval` log may have {2 * LIMIT >> 20} MB together; those of {path} have "
            f"{total >> 20} MB. Leave the file out."
        )
    with Progress(max(1, len(parts)), unit="parts") as progress:
        for name in parts:
            found = _parsed(_member(archive, path, name), f"{name} of {path}")
            if not isinstance(found, list):
                raise LogFormatError(f"{name} of {path} is not a JSON array. Copy the log again.")
            yield found
            progress.advance(1)


def _edits(archive: zipfile.ZipFile, path: Path, whole: Sequence[str]) -> int | None:
    """Edited scores, which summaries do not tell; looked for in short logs."""
    if sum(archive.getinfo(name).file_size for name in whole) > EDITS_LIMIT:
        return None
    found = (_member(archive, path, name) for name in whole)
    return sum(_n_edited(_parsed(data, str(path))) for data in found if HISTORY.search(data))


def _n_edited(sample: Any) -> int:
    scores = sample.get("scores") if isinstance(sample, dict) else None
    values = scores.values() if isinstance(scores, dict) else ()
    return sum(bool(isinstance(score, dict) and score.get("history")) for score in values)


def _kept(sample: Any, fields: Sequence[str]) -> Any:
    """A whole sample without its transcript, unless that was asked for."""
    if not isinstance(sample, dict):
        return sample
    # Versions of 2024 had one scorer, without a name.
    if "score" in sample and "scores" not in sample:
        sample = {**sample, "scores": {"score": sample["score"]} if sample["score"] is not None else None}
    keys = {*KEPT, *(field.split(".", 1)[0] for field in fields)} - {"score"}
    return {
        key: value for key, value in sample.items() if key in keys or any(field.startswith(key) for field in fields)
    }


def _unique(path: Path, header: dict[str, Any], samples: list[Any], n_edited: int | None) -> InspectFile:
    """The last record of each id and epoch counts, as it does for Inspect: a sample may be run again."""
    last: dict[Any, Any] = {}
    for position, sample in enumerate(samples):
        known = isinstance(sample, dict) and isinstance(sample.get("id"), str | int)
        key = (str(sample["id"]), str(sample.get("epoch"))) if known else position
        last.pop(key, None)
        last[key] = sample
    return InspectFile(path, header, list(last.values()), len(samples) - len(last), n_edited)


def _parsed(data: bytes, name: str) -> Any:
    """JSON, where NaN and infinities may stand for numbers."""
    try:
        return json.loads(decoded(data, name))
    except LogFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise LogFormatError(
            f"{name} is not JSON ({error}); it is damaged, cut off or still being written. Copy the log again."
        ) from error


def _member(archive: zipfile.ZipFile, path: Path, name: str) -> bytes:
    """A member expanded, never beyond the size that the directory states nor beyond the limit."""
    info = archive.getinfo(name)
    if info.file_size > LIMIT:
        raise LogFormatError(
            f"A member of a `.eval` log may expand to {LIMIT >> 20} MB; {name} of {path} says "
            f"{info.file_size >> 20} MB. Leave the file out."
        )
    if info.compress_type == ZSTD:
        return _zstd_member(archive, path, info)
    with archive.open(info) as file:
        return file.read()


def _zstd_member(archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo) -> bytes:
    """A member that is compressed with zstd, which Python's own zipfile reads from version 3.14 on only."""
    try:
        import zstandard
    except ImportError as error:
        raise ArgumentError(
            f"{path} is compressed with zstd, as newer versions of Inspect do it. Run: pip install zstandard"
        ) from error
    if info.flag_bits & 1:
        raise LogFormatError(f"{path} is encrypted. Save it without a password.")
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
        if len(local) < 30 or not local.startswith(b"PK\x03\x04"):
            raise LogFormatError(f"{info.filename} of {path} is not where the log says. Copy the log again.")
        file.seek(int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"), 1)
        packed = file.read(info.compress_size)
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
            data: bytes = stream.read(info.file_size + 1)
    except (zstandard.ZstdError, MemoryError) as error:
        raise _damaged(path, error) from error
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise LogFormatError(f"{info.filename} of {path} is damaged: its checksum differs. Copy the log again.")
    return data


def _damaged(path: Path, error: BaseException) -> LogFormatError:
    return LogFormatError(f"{path} is damaged, cut off or still being written ({error}). Copy it again.")
