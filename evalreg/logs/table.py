"""Tables as they come: CSV, TSV, JSON lines, Parquet and Arrow, told apart by content and not by name."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pandas as pd

from evalreg.errors import LogFormatError
from evalreg.logs.arrow_table import MAGIC, read_arrow
from evalreg.logs.content import Content
from evalreg.logs.csv_table import decoded, read_csv
from evalreg.logs.json_table import JsonTable
from evalreg.logs.partitions import partitions, with_partitions
from evalreg.logs.reading import BrokenName
from evalreg.logs.tabular import TableRequest, chosen, names

__all__ = ["read_bytes", "read_table"]

TABLES = "CSV, JSON lines, Parquet or Arrow"
# First bytes of what is not a table, and what to call it.
_FOREIGN = {
    b"PK\x03\x04": "a zip archive (as .zip, .xlsx and .eval files are)",
    b"\x28\xb5\x2f\xfd": "compressed by zstandard",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"BZh": "compressed by bzip2",
    b"\xff\xfe\0\0": "text in UTF-32",
    b"\0\0\xfe\xff": "text in UTF-32",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
_HEAD = 1 << 16


def read_table(
    path: str | os.PathLike[str],
    *,
    text_columns: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    fields: Sequence[str] | None = (),
    keep: Sequence[str] | None = None,
) -> pd.DataFrame:
    r"""The rows of a plain table as a data frame, in the order of the file.

    The format is recognised by content: Parquet, Arrow files (Feather), JSON lines (one object per line), otherwise
    CSV, whose delimiter is the comma or tab of its header; each may be compressed by gzip. Text is UTF-8. In CSV only
    the empty field is missing, quoted or not, and blank lines do not count: a model may be called NA or 007. A column
    becomes numbers if every field that is not empty is a number, true or false if all are that, and text otherwise.
    JSON lines, Parquet and Arrow have types of their own; there, null and NaN are missing, and JSON values of several
    kinds become text.

    Folders called "name=value" above a file are columns of text, as in Hive: logs/model=ada/part-0.parquet has a column
    `model`. Each such folder of the path counts, as it is given; "%20" in its name is a blank, and
    __HIVE_DEFAULT_PARTITION__ is a missing value. Where the file has the column as well, both must say the same.

    Estimators take a path in the place of `data` and read it so, with the columns of labels (models, questions,
    clusters and the like) as text. `read_log` reads the logs of harnesses.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard input.
    text_columns : list of str, optional
        Read as text, to the letter, whatever they hold; names that the file does not have are passed over.
    columns : list of str, optional
        Those to read, in the order wanted; all by default.
    fields : list of str or None, optional
        Names of which those with dots may stand for fields of nested objects ("doc.passage"; structs in Parquet), which
        become columns of that name; so may names of the other lists. Other names are passed over. None takes all short
        fields in place of the objects.
    keep : list of str, optional
        Those to read where the file has them; the others are left in the file and take no memory.

    Returns
    -------
    DataFrame
        One row a line or object.

    Raises
    ------
    LogFormatError
        If the file is no table, or its folders say something else than its columns. The message gives lines of the
        file, counted from 1; the attribute `rows` gives positions below the header, from 0.
    MissingColumnError
        If one of `columns` is not there.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import evalreg as er
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text("model,item,score\n007,1,1\n007,2,0\nNA,1,1\nNA,2,1\n")
    >>> er.read_table(path, text_columns=["model"])["model"].tolist()
    ['007', '007', 'NA', 'NA']
    >>> log = er.datasets.passages(seed=1)
    >>> log.to_csv(path, index=False)
    >>> bool(er.fit("score ~ 1", path, groups="passage").bse.equals(er.fit("score ~ 1", log, groups="passage").bse))
    True
    """
    frame, _ = table_and_broken(path, text_columns=text_columns, columns=columns, fields=fields, keep=keep)
    return frame


def table_and_broken(
    path: str | os.PathLike[str] | Content,
    *,
    text_columns: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    fields: Sequence[str] | None = (),
    keep: Sequence[str] | None = None,
    broken: BrokenName = "raise",
) -> tuple[pd.DataFrame, int]:
    """The same rows, and how many lines of JSON were broken and left out."""
    text = names("text_columns", text_columns)
    wanted = None if columns is None else names("columns", columns)
    kept = None if keep is None else names("keep", keep)
    named = [] if fields is None else names("fields", fields)
    nested = [name for name in dict.fromkeys([*text, *(wanted or ()), *named]) if "." in name]
    content = path if isinstance(path, Content) else Content(path)
    given = partitions(content.path)

    def read(columns: list[str] | None, keep: list[str] | None) -> tuple[pd.DataFrame, int]:
        flat = fields is None and columns is None and keep is None
        return _own_columns(content, TableRequest(text, columns, keep, nested, flat), broken)

    if wanted is None or not set(wanted) & set(given):
        frame, n_broken = read(wanted, kept)
        return with_partitions(frame, given, content.name, kept if wanted is None else []), n_broken
    frame, n_broken = read(None, wanted)
    frame = with_partitions(frame, given, content.name, wanted)
    if missing := [name for name in wanted if name not in frame.columns]:
        read(missing, None)  # the error names the columns of the file
    return frame[wanted], n_broken


def _own_columns(content: Content, asked: TableRequest, broken: BrokenName) -> tuple[pd.DataFrame, int]:
    """The rows of a file with the columns that stand in it, and how many lines were broken."""
    head = content.head(_HEAD)
    if head.startswith(tuple(MAGIC)):
        return read_arrow(content, head, asked), 0
    _check_text(head, content.name)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return _json_lines(content, asked, broken)
    if start.startswith(b"[") and start[1:].lstrip()[:1] in tuple(b'[{"'[i : i + 1] for i in range(3)):
        raise LogFormatError(f"A table is {TABLES}; {content.name} is one JSON array. Write one object a line.")
    return read_csv(content, head, asked), 0


def _check_text(head: bytes, name: str) -> None:
    """Refuse what is not text in UTF-8 by its beginning."""
    for start, what in _FOREIGN.items():
        if head.startswith(start):
            raise LogFormatError(f"A table is {TABLES}, text in UTF-8; {name} is {what}. Convert it first.")
    if head.startswith(b"{\n") and (b'"contrast_dof"' in head[:400] or b'"kind": "comparisons"' in head[:400]):
        raise LogFormatError(
            f"A log holds scores or verdicts; {name} holds results, as `to_json` and --format json write them. "
            "Read it by er.read_results, or name the log that it was made from."
        )
    if not head.strip() or b"\0" in head:
        decoded(head.decode("utf-8", "replace").encode(), name)


def _json_lines(content: Content, asked: TableRequest, broken: BrokenName) -> tuple[pd.DataFrame, int]:
    """Columns of the objects of JSON lines."""
    names = asked.columns if asked.columns is not None else asked.keep
    table = JsonTable(content, names, asked.nested, asked.flat, broken)
    if not table.names:
        raise LogFormatError(
            f"In JSON lines the keys of the objects are the columns; those of {content.name} have no keys."
        )
    found = chosen(asked.columns, table.names, content.name)
    if asked.columns is None and asked.keep is not None:
        found = [name for name in found if name in asked.keep]
    index = pd.RangeIndex(table.n_rows)
    columns = {name: table.series(name, name in asked.text) for name in found}
    return pd.DataFrame(columns, index=index, copy=False), table.n_broken


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file ("-" is standard input), uncompressed if its first bytes say that it is gzip."""
    with Content(path).stream() as file:
        return file.read()
