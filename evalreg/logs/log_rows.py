"""What a log holds: its rows and their roles, where they came from, and what was left out."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd

from evalreg.errors import DataError, EmptyDataError
from evalreg.logs.reading import JUDGED, REASONS, SCORED, Reading, Run, counted


class LogRows:
    """Rows with their roles, which are not changed in place."""

    _reading: Reading

    def _take(self, reading: Reading) -> None:
        if not {"score", "winner"} & set(reading.frame.columns):
            raise DataError("a log needs scores or verdicts: name their column in `score` or in `winner`.")
        object.__setattr__(self, "_reading", reading)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a log is not changed in place."""
        raise AttributeError(f"a Log cannot be changed; make another one instead of setting {name!r}")

    def __repr__(self) -> str:
        """One line: how many rows of what, and the roles."""
        what = "score" if "score" in self.roles else "verdict"
        return f"Log of {counted(len(self._reading.frame), what)}: {', '.join(self.roles)}"

    @property
    def frame(self) -> pd.DataFrame:
        """The rows, as a copy."""
        return self._reading.frame.copy()

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles that the log has, which are columns of these names."""
        return tuple(role for role in (*SCORED, *JUDGED) if role in self._reading.frame.columns)

    @property
    def format(self) -> str:
        """The format that was read; "frame" where the log was made from one."""
        return self._reading.format

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that the rows came from."""
        return self._reading.runs

    @property
    def left_out(self) -> pd.Series[int]:
        """Records that are not a score, counted by reason; reasons that did not occur are not listed."""
        counts = {reason: self._reading.left_out.get(reason, 0) for reason in REASONS}
        found = {reason: count for reason, count in counts.items() if count}
        return pd.Series(found, dtype="int64", name="left_out")

    @property
    def key(self) -> list[str]:
        """Columns that, with the two models, identify a comparison; none where the log names none."""
        return list(self._reading.key)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what a reader should know."""
        return self._reading.notes

    def _several(self, role: str) -> bool:
        return role in self.roles and self._reading.frame[role].nunique() > 1

    def _is_role(self, name: str, role: str) -> bool:
        """Whether a name is that of the role, or of the column that has it."""
        rows = self._reading.frame
        return name == role or (name in rows and rows[name].equals(rows[role]))


def as_pandas(frame: Any) -> pd.DataFrame:
    """Any data frame as pandas, the caller's own left as it is."""
    if isinstance(frame, pd.DataFrame):
        return frame.copy(deep=False)
    native = nw.from_native(frame)
    found: pd.DataFrame = (native.collect() if isinstance(native, nw.LazyFrame) else native).to_pandas()
    return found


def refuse_empty(log: LogRows) -> None:
    """Refuse a log of which every record was left out, with the reasons."""
    if len(log._reading.frame):
        return
    what = "score" if "score" in log.roles else "verdict"
    reasons = [f"{count} {reason}" for reason, count in log.left_out.items()]
    found = f"all {log.left_out.sum()} records were left out ({', '.join(reasons)})" if reasons else "it has no records"
    raise EmptyDataError(
        f"a log needs at least one {what}; {found}. `evalreg doctor` tells more; read a log that was scored.",
        count=int(log.left_out.sum()),
    )
