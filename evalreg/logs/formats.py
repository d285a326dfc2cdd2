"""The table of formats: which file is of which, and the one format that all files of a log share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evalreg.checks import listed, option
from evalreg.errors import LogFormatError
from evalreg.logs.files import file_list
from evalreg.logs.folders import HELM, LIGHTEVAL
from evalreg.logs.inspect_log import INSPECT
from evalreg.logs.judged import JUDGED_FORMATS
from evalreg.logs.lm_eval import LM_EVAL
from evalreg.logs.reading import Format, Source
from evalreg.logs.scored import PROMPTFOO, SCORED_FORMATS
from evalreg.logs.table_log import TABLE

# In the order in which files are looked at; the last takes any table.
FORMATS: dict[str, Format] = {
    format.name: format
    for format in (INSPECT, LM_EVAL, PROMPTFOO, *JUDGED_FORMATS, *SCORED_FORMATS, HELM, LIGHTEVAL, TABLE)
}


def format_of(source: Source) -> str | None:
    """Name of the format of a file, by its content; None where none is recognised."""
    return next((name for name, format in FORMATS.items() if format.recognises(source)), None)


def sort_sources(sources: Sequence[Source], asked: str | None) -> tuple[Format, list[Source], list[Source]]:
    """The format that a log's files share, those files, and files that are not logs."""
    if asked is not None:
        option("format", asked, tuple(FORMATS))
        chosen = FORMATS[asked]
        own = [source for source in sources if len(sources) == 1 or chosen.recognises(source)]
        if not own:
            raise LogFormatError(f"None of the files is of the format {asked!r}: {file_list(sources)}.")
        return chosen, own, [source for source in sources if source not in own]
    found = [(source, format_of(source)) for source in sources]
    counts = Counter(name for _, name in found if name is not None)
    if not counts:
        raise _unknown(sources)
    if len(counts) > 1:
        several = ", ".join(f"{name} ({count} file{'s' * (count > 1)})" for name, count in counts.items())
        raise LogFormatError(
            f"All files of a log are of one format; found {several}. Name the files of one, or pass `format`.",
            count=len(counts),
        )
    (name,) = counts
    own = [source for source, other in found if other == name]
    return FORMATS[name], own, [source for source, other in found if other is None]


def _unknown(sources: Sequence[Source]) -> LogFormatError:
    """The error of files that no format takes."""
    where = file_list(sources)
    if all(not source.head.strip() for source in sources):
        what = f"{where} {'is' if len(sources) == 1 else 'are'} empty"
        return LogFormatError(f"A log holds scores; {what}. Was the run that wrote it cut off, or has it just begun?")
    if any(b"\0" in source.head for source in sources):
        advice = "It contains zero bytes: it is UTF-16, or not text. Save text as UTF-8."
    elif any(b";" in source.head.split(b"\n", 1)[0] for source in sources):
        advice = "A table has commas or tabs between its columns, and not semicolons."
    else:
        advice = "Read it with pandas and pass the frame to er.Log(frame, score=..., item=...)."
    return LogFormatError(f"A log is one of {listed(FORMATS)}; none is recognised in {where}. {advice}")
