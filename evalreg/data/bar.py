"""What is behind the bar of a formula, as in "score ~ x | question": the factors to absorb."""

from __future__ import annotations

from collections.abc import Sequence

from evalreg.data.clusters import Axis
from evalreg.data.groups import parse_groups
from evalreg.errors import ArgumentError, FormulaError, MissingColumnError

_OPEN, _CLOSE, _QUOTES = "([{", ")]}", "\"'`"
_LIKE = '"score ~ x | question", "| question + judge" for two factors, or "| language:question" for their joint levels'


def split_bar(formula: str) -> tuple[str, str]:
    """The formula before the bar, and what is behind it; empty where there is none. Brackets and quotes are closed."""
    bars = _bars(formula)
    if not bars:
        return formula, ""
    if len(bars) > 1 and "~" in formula[bars[-1] :]:
        raise FormulaError(
            '`formula` holds no instruments (the part behind a second bar, "| x ~ z"). Fit them elsewhere, and pass '
            "the coefficients and the influence of each row to `er.from_influence`."
        )
    if len(bars) > 1:
        raise FormulaError(
            f"`formula` has {len(bars)} bars; write one, before the factors to absorb, as in {_LIKE}. Put a "
            "logical 'or' in brackets, as in I((a > 1) | (b > 1))."
        )
    before, behind = formula[: bars[0]].strip(), formula[bars[0] + 1 :].strip()
    if not behind:
        raise FormulaError(f"`formula` names no factor behind the bar; got {formula!r}. Write {_LIKE}.")
    if "~" not in before:
        raise FormulaError(f'`formula` absorbs factors behind "~" only; got {formula!r}. Write {_LIKE}.')
    return before, behind


def _bars(formula: str) -> list[int]:
    found, depth, quote = [], 0, ""
    for place, character in enumerate(formula):
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character == "|" and depth == 0:
            found.append(place)
    return found


def absorbed_factors(behind: str, columns: Sequence[str]) -> tuple[Axis, ...]:
    """Columns of each factor behind the bar."""
    if "(" in behind and behind not in columns and "`" not in behind:
        raise FormulaError(
            f"`formula` absorbs columns, each value a level; got {behind!r}. Write their names alone, as in "
            f"{_LIKE}. Put computed values into a column first."
        )
    if "^" in behind and behind not in columns and "`" not in behind:
        raise FormulaError(
            f"`formula` absorbs joint levels of columns joined by a colon; got {behind!r}. Write "
            f'"| {behind.replace("^", ":")}".'
        )
    if "[" in behind and behind not in columns and "`" not in behind:
        raise FormulaError(
            f"`formula` absorbs levels, not slopes by level; got {behind!r}. Write C(question):x among the covariates."
        )
    try:
        return parse_groups(behind, columns)
    except MissingColumnError as error:
        text = str(error).replace("`groups` names", "`formula` absorbs", 1)
        raise MissingColumnError(text, column=error.column) from None
    except ArgumentError as error:
        raise FormulaError(f"`formula` absorbs {behind!r}: {str(error).replace('`groups`', 'it', 1)}") from None
