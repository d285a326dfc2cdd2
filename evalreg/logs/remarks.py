"""What may be wrong with a log: repeats, unequal questions, contents that differ, position, sparsity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

from evalreg.checks import listed
from evalreg.data.spelling import quoted_pair, spelled_alike
from evalreg.inference.scales import mixed_scales

# An advantage of the left side that is as many standard errors away from none is named.
TELLING = 3.0
# A smaller standard error would be printed as 0.
ROUNDED, EXACT = 5e-4, 1e-9
FEW_MODELS_SHOWN = 5
# More columns than these are not looked through for what tells repeated rows apart.
MOST_COLUMNS = 20
FEW_VERDICTS_SHOWN = 5


def remarks(
    frame: pd.DataFrame, roles: Sequence[str], clusters: Sequence[str], question: str | None = None
) -> Iterator[str]:
    """Sentences on a log; none where nothing was found. `question` is a column that is called like one of questions."""
    named = (role for role in ("model", "left", "right", "item", "prompt", "task", "judge") if role in roles)
    yield from _spelled_alike(frame, dict.fromkeys((*named, *clusters)))
    if "left" in roles:
        yield from _itself(frame)
        yield from _twice(frame, [role for role in ("left", "right", "prompt", "judge", "order") if role in roles])
        yield from _position(frame, roles)
        yield from _sparse(frame)
        yield from _few(frame, roles)
        return
    yield from _outcome(frame)
    if "item" not in roles:
        if question is None:
            yield "The log does not say which question a row is of: models cannot be compared on the same questions."
        else:
            yield (
                f"No column has the role of the question (item), without which models cannot be compared on the same "
                f'questions. By its name "{question}" is it: the first of the commands below gives it that role.'
            )
        return
    ids = ["task", "item"] if "task" in roles else ["item"]
    yield from _twice(frame, [role for role in ("model", "prompt", "task", "item", "sample") if role in roles])
    if "model" in roles:
        yield from _unequal(frame, ids)
        yield from _answers(frame, [*ids, *(["prompt"] if "prompt" in roles else [])])
    yield from _contents(frame, [*ids, *(["prompt"] if "prompt" in roles else [])])
    if not clusters:
        yield "No field groups several questions: questions are the clusters."


def _outcome(frame: pd.DataFrame) -> Iterator[str]:
    score = frame["score"]
    missing = int(score.isna().sum())
    if missing:
        have = "has" if missing == 1 else "have"
        yield f"{missing} of {len(frame)} rows {have} no score; estimates leave them out and count them."
    if is_numeric_dtype(score) and "model" in frame:
        by = score.groupby(frame["model"], observed=True)
        low, high = (ends.dropna() for ends in (by.min(), by.max()))
        unlike = mixed_scales([str(name) for name in low.index], low.to_numpy(float), high.to_numpy(float))
        if unlike:
            yield f"S{unlike[1:]}"
    if not is_numeric_dtype(score):
        yield f"Scores are text, such as {listed(score.dropna().unique()[:3].tolist())}: they need numbers."
    elif score.nunique() == 1:
        same = score.dropna().iloc[0]
        yield f"All scores are {same:g}. They do not vary, so an interval rests on their number alone."


def _twice(frame: pd.DataFrame, ids: list[str]) -> Iterator[str]:
    again = frame.duplicated(ids)
    if again.any():
        first = " ".join(map(str, frame[ids][again].iloc[0]))
        more = "" if "sample" in ids or "left" in ids else " If they are repeats, a column `sample` should say so."
        apart = _telling_apart(frame, ids)
        more = f' Column "{apart}" tells them apart.' if apart else more
        count = "1 row repeats" if again.sum() == 1 else f"{int(again.sum())} rows repeat"
        yield f"{count} {listed(ids, joiner=' and ')} of a row above, first {first}.{more}"


def _telling_apart(frame: pd.DataFrame, ids: list[str]) -> str | None:
    """The first column that, with others, no two rows share, and that is neither a number nor an outcome."""
    for column in map(str, frame.columns[:MOST_COLUMNS]):
        values = frame[column]
        if column in (*ids, "score", "winner") or is_float_dtype(values) or not all(map(_plain, values.head(100))):
            continue
        if not frame.duplicated([*ids, column]).any():
            return column
    return None


def _plain(value: object) -> bool:
    return isinstance(value, str | int | np.integer | bool)


def _spelled_alike(frame: pd.DataFrame, columns: Iterable[str]) -> Iterator[str]:
    """Ids that differ by case and blanks alone, which are as many models, questions or clusters."""
    for column in columns:
        alike = spelled_alike(frame[column].dropna().unique())
        if alike:
            has = "1 value differs from another" if len(alike) == 1 else f"{len(alike)} values differ from others"
            yield (
                f'Column "{column}": {has} by blanks, case or the encoding of letters alone, first '
                f"{quoted_pair(alike[0])}. They count as different ones. Give them one spelling if they are the same."
            )


def _unequal(frame: pd.DataFrame, ids: list[str]) -> Iterator[str]:
    """Models that answered other questions than the rest."""
    asked = frame.drop_duplicates(["model", *ids])
    per_model = asked.groupby("model", observed=True).size()
    if len(per_model) < 2:
        return
    shared = int((asked.groupby(ids, observed=True).size() == len(per_model)).sum())
    total = len(asked[ids].drop_duplicates())
    if shared < total:
        fewest = f"{per_model.idxmin()} has {per_model.min()}, {per_model.idxmax()} has {per_model.max()}"
        yield (
            f"Models have unequal questions: {shared} of {total} were answered by all ({fewest}). A comparison uses "
            "those that both answered."
        )


def _answers(frame: pd.DataFrame, ids: list[str]) -> Iterator[str]:
    if "sample" not in frame.columns:
        return
    count = frame.groupby(["model", *ids], observed=True).size()
    if count.min() < count.max():
        yield f"Questions have {count.min()} to {count.max()} answers of a model; each question weighs the same."


def _contents(frame: pd.DataFrame, ids: list[str]) -> Iterator[str]:
    """Fields of a question that differ between its rows, without those that describe the model."""
    if frame.empty:
        return
    keys = pd.MultiIndex.from_frame(frame[ids]).factorize()[0]
    for column in map(str, frame.columns):
        values = frame[column]
        if (
            "." not in column
            or column.startswith(("model.", "prompt.", "judge."))
            or not all(isinstance(value, str | int | float | None) for value in values.head(100))
        ):
            continue
        different = values.groupby(keys).nunique()
        count = int((different > 1).sum())
        if count:
            yield f"{count} of {len(different)} questions differ in {column} between their rows: one id, two contents?"


def _itself(frame: pd.DataFrame) -> Iterator[str]:
    count = int((frame["left"] == frame["right"]).sum())
    if count:
        rows = "1 row compares" if count == 1 else f"{count} rows compare"
        yield f"{rows} a model with itself; a board refuses {'it' if count == 1 else 'them'}."


def _position(frame: pd.DataFrame, roles: Sequence[str]) -> Iterator[str]:
    """How often the left side wins, and by how many standard errors that is more than half."""
    if "winner" in frame.columns and (unknown := _unknown_verdicts(frame)):
        yield unknown
        return
    won = _left_scores(frame)
    if won is None or won.notna().sum() < 2:
        return
    centred = (won - won.mean()).dropna()
    ids = frame.loc[centred.index, "prompt"] if "prompt" in roles else pd.Series(centred.index, centred.index)
    totals = centred.groupby(ids).sum().to_numpy()
    if len(totals) < 2:
        return
    factor = len(totals) / (len(totals) - 1)
    se = float(np.sqrt(factor * (totals**2).sum()) / len(centred))
    share, pairs = float(won.mean()), frame[["left", "right"]].drop_duplicates()
    swapped = pairs.merge(pairs, left_on=["left", "right"], right_on=["right", "left"])
    both = len(swapped) / max(len(pairs), 1)
    text = f"The left side wins {share:.1%} of the comparisons, ties as halves"
    by = ", by prompts" if "prompt" in roles else ""
    shown = f"{text} (SE {'under 0.1%' if se < ROUNDED else f'{se:.1%}'}{by})."
    if se <= EXACT:
        cancel = both > 0 and abs(share - 0.5) <= EXACT
        shown = f"{text}: the two orders cancel exactly." if cancel else f"{text}, the same share everywhere: no SE."
    if both == 0:
        yield "No pair was shown in both orders: an advantage of the left side cannot be told from the models' own."
    elif se > EXACT and abs(share - 0.5) > TELLING * se:
        yield f"{shown} Position matters: `--method bradley-terry --formula 1` takes it out."
    else:
        yield shown


def _sides(frame: pd.DataFrame) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Rows whose verdict is for the left side, for the right one, and a tie."""
    winner = frame["winner"]
    left, right = ((winner == side) | (winner == frame[side]) for side in ("left", "right"))
    return left, right, winner == "tie"


def _unknown_verdicts(frame: pd.DataFrame) -> str:
    """A sentence on verdicts of other words; without their meaning nothing is known of the sides."""
    left, right, tie = _sides(frame)
    other = frame["winner"][~(left | right | tie)].dropna().value_counts()
    if other.empty:
        return ""
    words = ", ".join(f"{verdict} ({count})" for verdict, count in other.head(FEW_VERDICTS_SHOWN).items())
    more = f" and {len(other) - FEW_VERDICTS_SHOWN} more" if len(other) > FEW_VERDICTS_SHOWN else ""
    return (
        f"Verdicts that are not left, right, tie or one of the two models: {words}{more}. A board refuses them until "
        "`labels` say what they mean."
    )


def _left_scores(frame: pd.DataFrame) -> pd.Series | None:
    """1 where the left side won, 0.5 for a tie; None where scores are no numbers."""
    if "winner" not in frame.columns:
        return frame["score"].astype(float) if is_numeric_dtype(frame["score"]) else None
    left, right, tie = _sides(frame)
    return pd.Series(np.where(left, 1.0, np.where(right, 0.0, 0.5)), frame.index).where(left | right | tie)


def _sparse(frame: pd.DataFrame) -> Iterator[str]:
    """Pairs of models that never met, or met on one prompt only."""
    first = np.minimum(frame["left"].astype(str), frame["right"].astype(str))
    second = np.maximum(frame["left"].astype(str), frame["right"].astype(str))
    models = pd.unique(pd.concat([first, second]))
    n_models = len(models)
    possible = n_models * (n_models - 1) // 2
    pairs = frame.assign(first=first, second=second).groupby(["first", "second"])
    prompts = pairs["prompt"].nunique() if "prompt" in frame.columns else pairs.size()
    star = max((((first == name) | (second == name)).all(), name) for name in models)
    if star[0] and n_models > 2:
        yield f"Every comparison is with {star[1]}: other models never met, and share its answers."
    elif len(prompts) < possible:
        yield f"{possible - len(prompts)} of {possible} pairs of models never met."
    alone = int((prompts == 1).sum())
    if alone:
        yield f"{alone} of {len(prompts)} pairs met on a single prompt: their own error bars say little."


def _few(frame: pd.DataFrame, roles: Sequence[str]) -> Iterator[str]:
    if "judge" in roles:
        n_judges = frame["judge"].nunique()
        if n_judges < FEW_MODELS_SHOWN:
            says = "One judge" if n_judges == 1 else f"{n_judges} judges"
            yield f"{says}: what holds for these judges is better known than what holds for others."
