"""Win rates: against R's numbers, slow loops and dense regressions, and what must not change them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy
from golden import Golden
from scipy import stats
from statsmodels.stats.multitest import multipletests

import evalreg as er
from evalreg.errors import LeverageWarning, SparseBoardWarning

duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

JUDGED = ["d5_judges3", "d5_judges12"]
SIDES = {"left": "model_a", "right": "model_b", "score": "score_a"}
# The same sums by another route; elementwise relative to the largest element.
SAME = 1e-10


def close(found: Any, expected: Any, rtol: float = SAME) -> None:
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    largest = np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * largest)


# Against R


def _golden_board(g: Golden, weights: str, groups: Any, **options: Any) -> er.Board:
    given_weights = pd.DataFrame(g.value("n_ab"), g.facts["models"], g.facts["models"])
    opponents = "uniform" if weights == "uniform" else given_weights
    return er.win_rate(g.frame, **SIDES, groups=groups, opponents=opponents, **options)


@pytest.mark.parametrize("name", JUDGED)
def test_pairs_agree_with_r(golden: Callable[[str], Golden], name: str) -> None:
    g = golden(name)
    models = g.facts["models"]
    table = er.win_rate(g.frame, **SIDES, groups="prompt").head_to_head()
    psi, n = (table[column].unstack("right").reindex(index=models, columns=models) for column in ("psi", "n"))
    g.check("psi", psi.to_numpy(dtype=float))
    g.check("n_ab", n.fillna(0).to_numpy())


@pytest.mark.parametrize("weights", ["uniform", "count"])
@pytest.mark.parametrize("name", JUDGED)
def test_win_rates_and_their_covariances_agree_with_r(golden: Callable[[str], Golden], name: str, weights: str) -> None:
    g = golden(name)
    naive = _golden_board(g, weights, None)
    g.check(f"{weights}.S", naive.params.to_numpy())
    assert list(naive.params.index) == g.facts["models"]
    n = naive.nobs
    g.check(f"{weights}.cov_naive", naive.cov_params().to_numpy() * (n - 1) / n)
    influence = naive.influence()
    assert list(influence.index) == list(range(n))
    close(influence, g.table(f"{name}_influence_{weights}.csv")[g.facts["models"]])
    g.check(f"{weights}.influence_head", influence.to_numpy()[:5])

    both = ["prompt", "judge"]
    by = {"prompt": "prompt", "judge": "judge", "cell": "prompt:judge", "twoway": both}
    for key, groups in by.items():
        plain = naive.with_cov(groups=groups, cov="CR0", repair="none" if key == "twoway" else None)
        g.check(f"{weights}.cov_{key}", plain.cov.raw)
        if f"{weights}.cov_{key}_G1" in g.values:
            g.check(f"{weights}.cov_{key}_G1", plain.with_cov(cov="CR1", ssc="G").cov.raw)
            g.check(f"{weights}.cov_{key}_G1", plain.with_cov(cov="CR1").cov.raw)
        if f"{weights}.inflation_{key}" in g.values:
            # R divides by the naive errors without their factor n/(n - 1).
            g.check(f"{weights}.inflation_{key}", np.sqrt(plain.to_frame()["design_effect"].to_numpy() * n / (n - 1)))
    g.check(f"{weights}.twoway_min_eigenvalue", np.linalg.eigvalsh(plain.cov.raw)[0])
    cut = naive.with_cov(groups=both, cov="CR0", repair="eigen").cov_params().to_numpy()
    values, axes = np.linalg.eigh(g.value(f"{weights}.cov_twoway"))
    close(cut, (axes * np.clip(values, 0, None)) @ axes.T, 1e-8)


@pytest.mark.parametrize("name", JUDGED)
def test_random_schedules_agree_with_r(golden: Callable[[str], Golden], name: str) -> None:
    g = golden(name)
    sampled = er.win_rate(g.frame, **SIDES, groups="prompt", opponents="as_sampled", cov="CR0")
    g.check("count.S", sampled.params.to_numpy())
    g.check("count.cov_prompt_random_counts", sampled.cov_params().to_numpy())


@pytest.mark.pairwise
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("reference", ["z", "t"])
@pytest.mark.parametrize("weights", ["uniform", "count"])
@pytest.mark.parametrize("name", JUDGED)
def test_comparisons_of_all_pairs_agree_with_r(
    golden: Callable[[str], Golden], name: str, weights: str, reference: str
) -> None:
    g = golden(name)
    key = f"multi.{weights}_prompt.{reference}"
    dof = "normal" if reference == "z" else len(g.frame["prompt"].unique()) - 1
    board = _golden_board(g, weights, "prompt", cov="CR0", dof=dof)
    order = [tuple(pair) for pair in g.facts["pair_order"]]

    def signed(table: pd.DataFrame, column: str) -> np.ndarray:
        # The library writes the better model first; R the one that sorts first.
        return np.array([table.loc[p, column] if p in table.index else -table.loc[p[::-1], column] for p in order])

    def plain(table: pd.DataFrame, column: str) -> np.ndarray:
        return np.array([table.loc[p if p in table.index else p[::-1], column] for p in order])

    for adjust, there in (("holm", "holm"), ("fdr_bh", "bh"), ("bonferroni", "bonferroni")):
        table = board.pairwise(adjust=adjust)
        adjusted = plain(table, "p_adjusted")
        close(adjusted, multipletests(g.value(f"{key}.p_raw"), method=adjust)[1], 1e-6)
        if f"{key}.{there}" in g.values:
            g.check(f"{key}.{there}", adjusted)
    g.check(f"{key}.diff", signed(table, "difference"))
    g.check(f"{key}.se", plain(table, "se"))
    g.check(f"{key}.p_raw", plain(table, "p_value"))
    together = board.simultaneous(contrasts="pairs")
    g.check(f"{key}.crit95", together.attrs["critical_value"])
    estimates = together["estimate"].to_numpy()
    flipped = np.sign(estimates) != np.sign(g.value(f"{key}.diff"))
    low, high = together["lower"].to_numpy(), together["upper"].to_numpy()
    g.check(f"{key}.sim_ci_lo", np.where(flipped, -high, low))
    g.check(f"{key}.sim_ci_hi", np.where(flipped, -low, high))
    g.check(f"{key}.p_single_step", together["p_adjusted"].to_numpy())


# Against dense regressions and slow loops


def make_log(
    seed: int = 5, n_rows: int = 400, n_prompts: int = 25, n_judges: int = 4, sparse: bool = False
) -> pd.DataFrame:
    """A copy of a log that is made once."""
    return _make_log(seed, n_rows, n_prompts, n_judges, sparse).copy(deep=True)


@functools.cache
def _make_log(seed: int, n_rows: int, n_prompts: int, n_judges: int, sparse: bool) -> pd.DataFrame:
    """Comparisons of five models with unequal prompts, judges and languages, three scores and weights.

    A sparse log has pairs that met under a single prompt, and one pair never meets.
    """
    rng = np.random.default_rng(seed)
    names = np.array([f"m{i}" for i in range(6 if sparse else 5)])
    pairs = [pair for pair in combinations(range(names.size), 2) if pair != (0, 1)]
    if sparse:
        # Each pair has one to three prompts of its own.
        pair = rng.integers(len(pairs), size=n_rows)
        width = 1 + np.arange(len(pairs)) % 3
        prompt = (pair * 7 + rng.integers(100, size=n_rows) % width[pair]) % n_prompts
    else:
        pair = rng.integers(len(pairs), size=n_rows)
        prompt = np.minimum(rng.geometric(0.12, size=n_rows) - 1, n_prompts - 1)
    sides = np.array(pairs)[pair]
    turned = rng.random(n_rows) < 0.5
    sides[turned] = sides[turned, ::-1]
    strength = np.linspace(0.6, -0.6, names.size)
    taste = rng.normal(scale=0.8, size=(n_prompts, names.size))
    latent = strength[sides[:, 0]] - strength[sides[:, 1]] + rng.normal(size=n_rows)
    latent = latent + taste[prompt, sides[:, 0]] - taste[prompt, sides[:, 1]]
    return pd.DataFrame(
        {
            "left": names[sides[:, 0]],
            "right": names[sides[:, 1]],
            "score": np.where(latent > 0.3, 1.0, np.where(latent < -0.3, 0.0, 0.5)),
            "winner": np.where(latent > 0.3, "left", np.where(latent < -0.3, "right", "tie")),
            "prompt": [f"p{i:02d}" for i in prompt],
            "judge": [f"j{i}" for i in rng.integers(n_judges, size=n_rows)],
            "rater": [f"r{i}" for i in rng.integers(6, size=n_rows)],
            "lang": np.where(prompt % 3 == 0, "de", "en"),
            "weight": rng.uniform(0.4, 2.5, n_rows),
            "row": np.arange(n_rows),
        }
    )


SCORED = {"left": "left", "right": "right", "score": "score"}


def board_of(frame: Any, groups: Any = "prompt", **options: Any) -> er.Board:
    return er.win_rate(frame, **SCORED, groups=groups, **options)


def oriented(frame: pd.DataFrame) -> pd.DataFrame:
    """The log with the pair of each row and the score of the model that sorts first."""
    turned = (frame["left"] > frame["right"]).to_numpy()
    first = np.where(turned, frame["right"], frame["left"])
    second = np.where(turned, frame["left"], frame["right"])
    score = np.where(turned, 1 - frame["score"], frame["score"])
    return frame.assign(first=first, second=second, pair=first + "/" + second, y=score)


def weights_of_pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """The board as a matrix on the means of pairs, uniform weights over opponents met; pairs in columns."""
    pairs = oriented(frame)[["first", "second", "pair"]].drop_duplicates().sort_values("pair")
    models = sorted({*pairs["first"], *pairs["second"]})
    A = pd.DataFrame(0.0, index=models, columns=list(pairs["pair"]))
    for first, second, pair in pairs.itertuples(index=False):
        A.loc[first, pair], A.loc[second, pair] = 1.0, -1.0
    return A.div(A.abs().sum(axis=1), axis=0)


WAYS: list[Any] = ["prompt", "judge", ["prompt", "judge"], ["prompt", "judge", "rater"]]


@functools.cache
def _board_and_regression(groups: str | tuple[str, ...], weighted: bool) -> tuple[er.Board, er.Results]:
    frame, weights = make_log(), "weight" if weighted else None
    options: dict[str, Any] = {"groups": list(groups) if isinstance(groups, tuple) else groups, "weights": weights}
    return board_of(frame, **options), er.fit("y ~ 0 + C(pair)", oriented(frame), **options)


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "groups", [pytest.param(way, marks=[pytest.mark.slow] if way == "judge" else []) for way in WAYS], ids=str
)
@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3"])
def test_boards_are_maps_of_a_saturated_regression(cov: str, groups: Any, weighted: bool) -> None:
    ssc: Any = "G" if cov == "CR1" else None
    crossed = isinstance(groups, list)
    held = _board_and_regression(tuple(groups) if crossed else groups, weighted)
    whole, fitted = (results.with_cov(cov=cov, ssc=ssc, dof="satterthwaite") for results in held)
    A = weights_of_pairs(make_log())
    losses = np.where(A < 0, -A, 0).sum(axis=1)
    assert [name.split("[")[1].strip("]T.") for name in fitted.params.index] == list(A.columns)
    # Every repair of every clustering, under two of the covariances.
    repairs = ("max", "none") if cov in ("CR0", "CR2") else ("eigen", "two-term")
    for repair in repairs if crossed else (None,):
        board = whole.with_cov(repair=repair) if crossed else whole
        regression = fitted.with_cov(repair=repair) if crossed else fitted
        close(board.params, A.to_numpy() @ fitted.params + losses)
        close(board.cov.raw, A.to_numpy() @ regression.cov.raw @ A.to_numpy().T)
        C = np.vstack([np.eye(len(A)), [[1, -1, 0, 0, 0], [0, 1, 0, 0, -1], [1, 1, -2, 0, 0]]])
        if repair == "eigen":
            # Eigenvalues are cut after the map here and before it there.
            continue
        close(board.cov.variance(C), regression.cov.variance(C @ A.to_numpy()))
        close(board.cov.dof(C), regression.cov.dof(C @ A.to_numpy()))


def test_cr2_and_cr3_by_row_level_matrices() -> None:
    """(I - H_gg)^(-1/2) of the rows of each prompt, n_g by n_g, with weights."""
    frame = oriented(make_log(n_rows=150))
    A = weights_of_pairs(frame)
    root = np.sqrt(frame["weight"].to_numpy())
    X = root[:, None] * (frame["pair"].to_numpy()[:, None] == np.array(A.columns)).astype(float)
    y = root * frame["y"].to_numpy()
    M = np.linalg.inv(X.T @ X)
    e = y - X @ (M @ (X.T @ y))
    for cov, power in (("CR2", -0.5), ("CR3", -1.0)):
        V = np.zeros((A.shape[1], A.shape[1]))
        for prompt in sorted(set(frame["prompt"])):
            g = frame["prompt"].to_numpy() == prompt
            values, axes = np.linalg.eigh(np.eye(g.sum()) - X[g] @ M @ X[g].T)
            scale = np.where(values > 1e-10, np.maximum(values, 1e-10) ** power, 0.0)
            total = M @ (X[g].T @ ((axes * scale) @ axes.T @ e[g]))
            V += np.outer(total, total)
        G = frame["prompt"].nunique()
        V *= (G - 1) / G if cov == "CR3" else 1.0
        board = board_of(frame, weights="weight", cov=cov)
        expected = A.to_numpy() @ V @ A.to_numpy().T
        if cov == "CR2":
            close(board.cov_params(), expected)
        else:
            close(board.cov.raw, expected)


def drop_one(frame: pd.DataFrame, by: list[str], **options: Any) -> tuple[np.ndarray, pd.Series, set[str]]:
    """Jackknife variance by fitting again without each cluster, the estimate, and the models that vanish."""
    full = board_of(frame, None, **options).params
    changes, gone = [], set()
    keys = frame[by].apply(tuple, axis=1)
    for key in keys.unique():
        without = board_of(frame[keys != key], None, **options).params
        gone |= set(full.index) - set(without.index)
        changes.append((without.reindex(full.index) - full).to_numpy())
    D = np.nan_to_num(np.array(changes))
    G = len(changes)
    return (G - 1) / G * D.T @ D, full, gone


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weights", [None, "weight"])
def test_jackknife_is_fitting_again_without_each_prompt(sparse: bool, weights: str | None) -> None:
    frame = make_log(n_rows=90, n_prompts=12, sparse=sparse)
    V, params, gone = drop_one(frame, ["prompt"], weights=weights)
    assert not gone
    board = board_of(frame, cov="jackknife", weights=weights)
    close(board.params, params)
    close(board.cov_params(), V)
    if sparse:
        # The opponents met change too, so that CR3 with fixed weights is another number.
        cr3 = board.with_cov(cov="CR3").bse
        assert not np.allclose(cr3, board.bse, rtol=0.02, equal_nan=True)


def test_jackknife_of_crossed_clusters_is_fitting_again_for_every_piece() -> None:
    frame = make_log(n_rows=60, n_prompts=8, n_judges=3, sparse=True)
    board = board_of(frame, ["prompt", "judge"], cov="jackknife")
    (P, _, _), (J, _, _), (PJ, _, _) = (drop_one(frame, by) for by in (["prompt"], ["judge"], ["prompt", "judge"]))
    close(board.cov.raw, P + J - PJ)
    assert board.cov.options.repair == "max"
    for C in (np.eye(6), np.array([[1, -1, 0, 0, 0, 0], [0, 0, 1, 0, -1, 0]])):
        expected = np.max([np.diag(C @ V @ C.T) for V in (P, J, P + J - PJ)], axis=0)
        # A model that lost all is among them; what differences from it allow for is not the jackknife's.
        close(replace(board.cov, ends=None).variance(C), expected)


@dataclass(frozen=True)
class Adjusted:
    """Totals adjusted for leverages, by cluster and pair, of pairs that met under several clusters."""

    A: np.ndarray
    totals: np.ndarray
    h: np.ndarray
    a: np.ndarray
    W: np.ndarray

    def cov(self) -> np.ndarray:
        T = self.totals / self.W @ self.A.T
        return np.asarray(T.T @ T)


def adjusted(frame: pd.DataFrame, by: list[str], w: np.ndarray) -> Adjusted:
    A = weights_of_pairs(frame)
    y, pair = frame["y"].to_numpy(), frame["pair"].to_numpy()
    cluster = frame.groupby(by).ngroup().to_numpy()
    totals, a, h = (np.zeros((cluster.max() + 1, len(A.columns))) for _ in range(3))
    W = np.array([w[pair == k].sum() for k in A.columns])
    for g in range(cluster.max() + 1):
        for k, name in enumerate(A.columns):
            cell = (cluster == g) & (pair == name)
            h[g, k] = w[cell].sum() / W[k]
            if not np.isclose(h[g, k], 1):
                psi = np.average(y[pair == name], weights=w[pair == name])
                a[g, k] = (1 - h[g, k]) ** -0.5
                totals[g, k] = a[g, k] * (w[cell] @ (y[cell] - psi))
    return Adjusted(A.to_numpy(), totals, h, a, W)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_default_of_a_thin_board_is_the_jackknife_and_cr2_by_name_leaves_its_thin_pairs_out(weighted: bool) -> None:
    frame = oriented(make_log(n_rows=110, n_prompts=14, sparse=True))
    w = frame["weight"].to_numpy() if weighted else np.ones(len(frame))
    with pytest.warns(SparseBoardWarning, match="CR2 does not exist for such pairs, so that errors are those of the"):
        board = board_of(frame, weights="weight" if weighted else None)
    V, _, gone = drop_one(frame, ["prompt"], weights="weight" if weighted else None)
    assert not gone
    close(board.cov_params(), V)
    assert (board.dof == frame["prompt"].nunique() - 1).all()
    named = board.with_cov(cov="jackknife")
    close(named.cov_params(), V)
    close(named.conf_int(), board.conf_int())
    with pytest.warns(LeverageWarning, match="adds nothing to the variance"):
        by_name = board.with_cov(cov="CR2")
    slow = adjusted(frame, ["prompt"], w)
    close(by_name.cov_params(), slow.cov())
    _check_dof(by_name, slow)


def test_the_default_of_a_crossed_thin_board_sums_the_squares_of_its_pieces_each_with_its_own_t() -> None:
    frame = oriented(make_log(n_rows=110, n_prompts=14, n_judges=6, sparse=True))
    axes = (["prompt"], ["judge"], ["prompt", "judge"])
    P, J, PJ = (np.diag(drop_one(frame, by)[0]) for by in axes)
    board = board_of(frame, "prompt + judge")
    close(board.bse**2, np.max([P, J, P + J - PJ], axis=0))
    t2 = [stats.t.isf(0.025, len(frame.groupby(by)) - 1) ** 2 for by in axes]
    p, j, pj = (V * square for V, square in zip((P, J, PJ), t2, strict=True))
    close(board.cov.half_width(), np.sqrt(np.max([p, j, p + j - pj], axis=0)))


def _check_dof(board: er.Board, slow: Adjusted) -> None:
    """Satterthwaite's degrees of freedom from the G by G matrix of expected products of totals.

    Under independent rows of variance one over their weight.
    """
    K = len(slow.A)
    C = np.vstack([np.eye(K), np.eye(K)[0] - np.eye(K)[1]])
    expected = []
    for c in C @ slow.A:
        own = np.diag((c**2 * slow.a**2 * slow.h / slow.W).sum(axis=1))
        B = c * slow.a * slow.h / np.sqrt(slow.W)
        P = own - B @ B.T
        expected.append(np.trace(P) ** 2 / np.sum(P**2))
    close(board.cov.dof(C), expected)


# Strata, pairs, odds, cycles, dependence


ALONE: list[tuple[Any, dict[str, Any]]] = [
    ("prompt", {}),
    (["prompt", "judge"], {}),
    *((["prompt", "judge"], {"cov": "CR2", "repair": repair}) for repair in ("max", "eigen", "two-term", "none")),
    (["prompt", "judge", "rater"], {}),
]


# Without weights and with them in turn: what weights do to a pair is done before clusters are looked at.
@pytest.mark.parametrize(
    ("groups", "options", "weights"),
    [
        pytest.param(*one, weights, marks=[] if i % 2 == (weights is None) else [pytest.mark.slow])
        for i, one in enumerate(ALONE)
        for weights in (None, "weight")
    ],
)
def test_head_to_head_is_the_mean_of_each_pair_alone(groups: Any, options: dict[str, Any], weights: str | None) -> None:
    # Few judges, so that some degrees of freedom are at their floor.
    frame = oriented(make_log(4, n_rows=250, n_judges=3))
    # Every pair is checked under some of the options.
    begin = (ALONE.index((groups, options)) + 2 * (weights is None)) % 4
    options = {"groups": groups, "weights": weights, **options}
    board = board_of(frame, **options)
    assert list(board.head_to_head().columns) == ["psi", "se", "n", "n_clusters"]
    table = board.head_to_head(alpha=0.1)
    pd.testing.assert_frame_equal(board.head_to_head(), table[["psi", "se", "n", "n_clusters"]])
    assert len(table) == 2 * frame["pair"].nunique()
    for (first, second), rows in list(frame.groupby(["first", "second"]))[begin::4]:
        alone = er.mean(rows, "y", **options)
        same = [alone.bse.iloc[0], len(rows), rows["prompt"].nunique(), alone.dof.iloc[0]]
        low, high = alone.conf_int(0.1, method="logit").iloc[0]
        close(table.loc[(first, second)], [alone.params.iloc[0], *same, low, high])
        close(table.loc[(second, first)], [1 - alone.params.iloc[0], *same, 1 - high, 1 - low])
        of_two = board_of(rows, **options)
        close(of_two.conf_int().loc[first], alone.conf_int().iloc[0])
        close(of_two.pvalues[first], alone.t_test(f"`{alone.params.index[0]}` = 0.5").pvalue)


def test_odds_and_net_benefit_are_the_delta_method() -> None:
    board = board_of(make_log())
    S, V = board.params.to_numpy(), board.cov_params().to_numpy()
    odds, net = board.odds(), board.net_benefit()
    close(odds.params, S / (1 - S))
    J = np.diag((1 - S) ** -2)
    close(odds.cov_params(), J @ V @ J)
    close(net.params, 2 * S - 1)
    close(net.cov_params(), 4 * V)
    assert list(odds.params.index) == list(net.params.index) == list(board.params.index)
    close(net.conf_int(method="wald").mean(axis=1), 2 * S - 1)


def test_cycles_are_those_of_a_loop_over_triples() -> None:
    rng = np.random.default_rng(8)
    names = [f"m{i}" for i in range(7)]
    rows = []
    for a, b in combinations(range(7), 2):
        chance = rng.choice([0.15, 0.45, 0.85])
        rows += [(names[a], names[b], float(rng.random() < chance), f"p{i}") for i in range(40)]
    frame = pd.DataFrame(rows, columns=["left", "right", "score", "prompt"])
    board = board_of(frame)
    table = board.head_to_head(alpha=0.05)
    pairs = list(combinations(names, 2))
    t = np.abs([(table.loc[p, "psi"] - 0.5) / table.loc[p, "se"] for p in pairs])
    raw = 2 * scipy.stats.t.sf(t, [table.loc[p, "dof"] for p in pairs])
    adjusted = dict(zip(pairs, multipletests(raw, method="holm")[1], strict=True))
    expected = {}
    for a, b, c in permutations(names, 3):
        edges = [(a, b), (b, c), (c, a)]
        if a < b and a < c and all(table.loc[edge, "psi"] > 0.5 for edge in edges):
            expected[a, b, c] = max(adjusted[min(e), max(e)] for e in edges)
    found = board.cycles().set_index(["a", "b", "c"])
    assert len(expected) > 3
    assert {key: pytest.approx(value) for key, value in expected.items()} == found["p_adjusted"].to_dict()
    assert found["stands"].to_dict() == {key: value <= 0.05 for key, value in expected.items()}
    assert 0 < found["stands"].sum() < len(found)
    for (a, b, c), row in found.iterrows():
        close(row[["psi_ab", "psi_bc", "psi_ca"]], [table.loc[e, "psi"] for e in ((a, b), (b, c), (c, a))])


@pytest.mark.parametrize("opponents", ["uniform", "as_sampled"])
def test_icc_is_an_analysis_of_variance_of_a_models_own_comparisons(opponents: Any) -> None:
    frame = oriented(make_log())
    board = board_of(frame, opponents=opponents)
    expected = {}
    for model, S in board.params.items():
        own = frame[(frame["first"] == model) | (frame["second"] == model)]
        s = own["y"].where(own["first"] == model, 1 - own["y"])
        # About each pair's mean; about the model's own rate where the schedule is random.
        e = (s - s.groupby(own["pair"]).transform("mean")) if opponents == "uniform" else s - S
        sizes = e.groupby(own["prompt"]).size()
        means = e.groupby(own["prompt"]).mean()
        n, G = len(e), len(sizes)
        msb = (sizes * means**2).sum() / (G - 1)
        msw = ((e - means[own["prompt"]].to_numpy()) ** 2).sum() / (n - G)
        m0 = (n - (sizes**2).sum() / n) / (G - 1)
        expected[model] = (msb - msw) / (msb + (m0 - 1) * msw)
    close(board.dependence().loc["prompt", "icc"], pd.Series(expected))
