"""Time of `compare` beside a pandas pivot with plain numpy, and statsmodels' stacked regression.

Every case runs its contenders in one process, in turn, on the same data, with one BLAS thread; the figures are medians.

    python benchmarks/compare.py              everything
    python benchmarks/compare.py --quick      a tenth of the rows, few repetitions: does it run?
    python benchmarks/compare.py --repeat 11  more repetitions
"""

from __future__ import annotations

import os

# Before numpy is imported: more threads than free cores make small matrix products many times slower.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from _measure import Contender, Target, interleaved, table, verdict

import evalreg as er


@dataclass(frozen=True)
class Case:
    """Contenders on the same data, the bounds that are wanted, and which of them must agree on the standard error."""

    name: str
    contenders: Mapping[str, Contender]
    targets: tuple[Target, ...]
    same: tuple[str, ...]


def board(n_models: int, n_questions: int, per_passage: int, answered: float = 1.0) -> pd.DataFrame:
    """0/1 scores of models on questions in passages, ids as text, in random order.

    Parameters
    ----------
    n_models, n_questions, per_passage : int
        Size.
    answered : float
        Share of the questions that the last tenth of the models answered.

    Returns
    -------
    DataFrame
        Columns model, item, passage, score.
    """
    rng = np.random.default_rng(1)
    model, item = np.divmod(rng.permutation(n_models * n_questions), n_questions)
    hard = rng.normal(size=n_questions // per_passage + 1)[item // per_passage]
    score = (rng.normal(size=item.size) + hard + 0.05 * model > 0).astype(float)
    frame = pd.DataFrame(
        {
            "model": np.char.add("model-", model.astype(str)),
            "item": np.char.add("question-", item.astype(str)),
            "passage": np.char.add("passage-", (item // per_passage).astype(str)),
            "score": score,
        }
    )
    lost = (model >= n_models - max(n_models // 10, 1)) & (rng.uniform(size=item.size) > answered)
    return frame[~lost] if answered < 1 else frame


def by_evalreg(frame: pd.DataFrame, **options: Any) -> Callable[[Any], pd.DataFrame]:
    """Our table, with everything in it."""
    return lambda _: er.compare(frame, **options).table


def floor(frame: pd.DataFrame) -> Callable[[Any], None]:
    """Two factorisations and a bincount: what reading text ids costs at the least."""

    def run(_: Any) -> None:
        codes = pd.factorize(frame["item"])[0]
        pd.factorize(frame["model"])
        np.bincount(codes, frame["score"].to_numpy())

    return run


def by_pivot(frame: pd.DataFrame, groups: str) -> Callable[[Any], pd.DataFrame]:
    """A pivot, then plain numpy for each pair: CR0 standard errors on complete pairs."""

    def run(_: Any) -> pd.DataFrame:
        wide = frame.pivot(index="item", columns="model", values="score")
        cluster = frame.drop_duplicates("item").set_index("item", drop=False)[groups].reindex(wide.index)
        codes, values, rows = pd.factorize(cluster)[0], wide.to_numpy(), {}
        for a in range(values.shape[1]):
            for b in range(a + 1, values.shape[1]):
                d = values[:, a] - values[:, b]
                both = ~np.isnan(d)
                d, own = d[both], codes[both]
                totals = np.bincount(own, d - d.mean())
                rows[wide.columns[a], wide.columns[b]] = d.mean(), np.sqrt(totals @ totals) / d.size
        return pd.DataFrame.from_dict(rows, orient="index", columns=["difference", "se"])

    return run


def by_covariance(frame: pd.DataFrame, groups: str) -> Callable[[Any], pd.DataFrame]:
    """The item matrix, its sums within clusters and the covariance of the models, in numpy: CR0 errors of all pairs."""

    def run(_: Any) -> pd.DataFrame:
        (model, names), (item, items) = pd.factorize(frame["model"]), pd.factorize(frame["item"])
        wide, home = np.empty((len(items), len(names))), np.empty(len(items), dtype=np.intp)
        wide[item, model], home[item] = frame["score"].to_numpy(), pd.factorize(frame[groups])[0]
        mean = wide.mean(axis=0)
        totals = np.column_stack([np.bincount(home, column) for column in (wide - mean).T])
        V = totals.T @ totals / len(items) ** 2
        a, b = np.triu_indices(len(names), 1)
        return pd.DataFrame({"difference": mean[a] - mean[b], "se": np.sqrt(V[a, a] + V[b, b] - 2 * V[a, b])})

    return run


def by_statsmodels(frame: pd.DataFrame, groups: str) -> Callable[[Any], pd.DataFrame]:
    """The stacked regression of two models, clustered, without its factor."""

    def run(_: Any) -> pd.DataFrame:
        codes = pd.factorize(frame[groups])[0]
        fitted = smf.ols("score ~ C(model)", frame).fit(
            cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False}
        )
        return pd.DataFrame({"difference": fitted.params.iloc[1:], "se": fitted.bse.iloc[1:]})

    return run


def cases(scale: float) -> list[Case]:
    """Two models on many questions, and all pairs of many models, with the same questions and without."""
    n_two, n_many = int(500_000 * scale), int(12_032 * scale)
    two = board(2, n_two, 5)
    many, unequal = board(29, n_many, 3), board(29, n_many, 3, answered=0.8)
    roles: dict[str, Any] = {"groups": "passage"}
    pairs = ("evalreg", "pivot and numpy, CR0")
    found = [
        Case(
            f"two models, {2 * n_two} rows, text ids, clustered by question",
            {
                "evalreg": Contender(by_evalreg(two)),
                "evalreg, CR0": Contender(by_evalreg(two, cov="CR0")),
                "floor": Contender(floor(two)),
                "pivot and numpy, CR0": Contender(by_pivot(two, "item")),
                "statsmodels, CR0": Contender(by_statsmodels(two, "item")),
            },
            (Target("evalreg", 4.0, "floor"), Target("evalreg", 1.0, "statsmodels, CR0")),
            ("evalreg, CR0", "pivot and numpy, CR0", "statsmodels, CR0"),
        )
    ]
    for name, frame in (("the same questions", many), ("unequal questions", unequal)):
        same = frame is many
        floor_of_all = {"covariance": Contender(by_covariance(frame, "passage"))} if same else {}
        targets = (Target("evalreg", 4.0, "covariance"),) if same else ()
        found.append(
            Case(
                f"29 models, {n_many} questions, all 406 pairs, clustered by passage, {name}",
                {
                    "evalreg": Contender(by_evalreg(frame, **roles)),
                    "evalreg, single-step": Contender(by_evalreg(frame, adjust="single-step", **roles)),
                    "evalreg, CR0": Contender(by_evalreg(frame, cov="CR0", **roles)),
                    "pivot and numpy, CR0": Contender(by_pivot(frame, "passage")),
                    **floor_of_all,
                },
                (Target("evalreg, single-step", 2.0), Target(*pairs[:1], 3.0, pairs[1]), *targets),
                ("evalreg, CR0", "pivot and numpy, CR0", *floor_of_all),
            )
        )
    return found


def check(case: Case) -> None:
    """Raise unless the contenders that compute the same agree."""
    errors = {}
    for name in case.same:
        result = case.contenders[name].run(None)
        errors[name] = np.sort(np.asarray(result["se"], dtype=float))
    first = errors[case.same[0]]
    for name, other in errors.items():
        np.testing.assert_allclose(other, first, rtol=1e-6, err_msg=name)


def main() -> None:
    """Run the cases and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for case in cases(0.1 if options.quick else 1.0):
        check(case)
        seconds = interleaved(case.contenders, 2 if options.quick else options.repeat)
        print(f"\n{case.name}\n{table(seconds, 'evalreg', {})}")
        for target in case.targets:
            print(verdict(seconds, target))


if __name__ == "__main__":
    main()
