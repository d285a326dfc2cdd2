"""Logs summed where they lie, and their sums added up: nightly logs, and logs that may not leave a machine."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal

from evalreg.checks import MISSING, MissingName, option
from evalreg.data.joint_ids import with_roles
from evalreg.data.opening import open_frame
from evalreg.data.rows import Roles
from evalreg.data.shard_files import Expected, merge, write_sums
from evalreg.data.summed import SummedLog, summarised
from evalreg.errors import ArgumentError
from evalreg.report.documents import versions


def summarise(
    data: Any,
    score: str = "score",
    *,
    by: str | list[str] | None = None,
    item: str | None = None,
    strata: str | None = None,
    groups: str | list[str],
    missing: MissingName = "drop",
    path: str | PathLike[str] | None = None,
) -> SummedLog:
    """Sums of a log by cluster and model, which add up over shards and hold no row.

    Parameters
    ----------
    data : data frame
        pandas, polars, pyarrow, a polars LazyFrame or a DuckDB relation; or a dict of arrays. One row for each answer.
    score : str
        Column of scores; booleans count as 0 and 1.
    by : str or list of str, optional
        Columns of the models.
    item : str, optional
        Column of the questions. Each (by, item) may have one row then, and the sums hold a hash of the questions, which
        tells later whether models have the same ones, and whether some were lost or counted twice. The ids themselves
        are read, and stay out of the sums unless `groups` names them.
    strata : str, optional
        Column of a fixed list of subjects.
    groups : str or list of str
        Clusters, as in `mean`; several may be crossed later, all that are named here.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score or label is missing; dropped rows are counted.
    path : str or path, optional
        A file of Parquet to write the sums to, for `merged`.

    Returns
    -------
    SummedLog
        A line for each joint value of the groups and `by`.

    Raises
    ------
    ArgumentError
        If labels are neither text, whole numbers, Booleans nor dates, or the file cannot be written.
    MissingColumnError, NonNumericError, NonFiniteError, DuplicateRowsError, EmptyDataError
        If the data break another rule.
    NotAvailableError
        If a file is asked for and pyarrow is not installed.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, questions_per_passage=5, seed=1)
    >>> sums = er.summarise(log, by="model", item="question", groups="passage")
    >>> er.mean(sums, by="model", groups="passage").n_clusters
    {'passage': 40}
    """
    option("missing", missing, MISSING)
    table, by_columns = with_roles(open_frame(data), {"score": score}, by=by, item=item, strata=strata)
    sums = summarised(table, missing, Roles(score, by_columns, item, None, strata, None, missing), groups)
    if path is not None:
        write_sums(sums, path, versions())
    return sums


def merged(
    paths: Sequence[str | PathLike[str]],
    *,
    cells: Literal["same", "any"] = "same",
    n_shards: int | None = None,
    questions: int | str | None = None,
) -> SummedLog:
    """Files of sums added up; clusters and models may be split over them.

    Parameters
    ----------
    paths : list of str or path
        Files that `summarise` wrote.
    cells : {"same", "any"}, optional
        Whether every shard must have the same models and strata.
    n_shards : int, optional
        How many shards there are: a missing one is refused.
    questions : int or str, optional
        How many questions each model has in all, or their hash (`questions` of a `SummedLog`): a lost shard is refused.

    Returns
    -------
    SummedLog
        The sums of all rows; `mean` and `compare` take it like a data frame.

    Raises
    ------
    LogFormatError
        If a file was cut off or changed, holds no sums, or has those of a newer version.
    ArgumentError, ArgumentTypeError
        If shards have other roles or kinds of labels.
    DataError
        If shards have other models, labels that differ by case or blanks, or questions are lost.
    DuplicateRowsError
        If a shard is there twice, or the questions of a line are.

    Examples
    --------
    >>> import tempfile, evalreg as er
    >>> log = er.datasets.paired(n_passages=40, questions_per_passage=5, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [f"{folder}/monday.parquet", f"{folder}/tuesday.parquet"]
    ...     for path, rows in zip(files, (log[:150], log[150:])):
    ...         sums = er.summarise(rows, by="model", item="question", groups="passage", path=path)
    ...     whole = er.merged(files, cells="any", n_shards=2)
    >>> whole.n_rows
    400
    """
    if cells not in ("same", "any"):
        raise ArgumentError(f'`cells` must be "same" or "any"; got {cells!r}.')
    return merge(paths, Expected(cells, n_shards, questions))
