"""Power and variance components: reference values, loops that are slow and obvious, simulated truth, bad input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalreg import datasets
from evalreg.errors import ArgumentError
from evalreg.planning import mde, sample_size
from evalreg.planning.pilot import components

# Sums of a few hundred terms in another order.
SAME = 1e-11
# The paper prints percentages that it cuts off after one decimal.
PRINTED = 0.001
# Simulated means are held to this many standard errors: fixed seeds, so a failure is a change and not chance.
SIGMAS = 4


# --- power: eq. 9 and 10 ----------------------------------------------------------------------------------------------

ONE_NINTH = {"omega2": 1 / 9}
WITH_NOISE = {"omega2": 1 / 9, "sigma2_a": 1 / 6, "sigma2_b": 1 / 6}
UNEVEN = {"omega2": 0.2, "sigma2_a": 0.1, "sigma2_b": 0.15, "k_a": 2, "k_b": 5, "alpha": 0.01, "power": 0.9}


@pytest.mark.parametrize(("k", "printed"), [(1, 0.132), (10, 0.075)])
def test_the_worked_examples_of_eq_10_are_those_printed_before_rounding(golden, k, printed):
    found = mde(n=198, k_a=k, k_b=k, **WITH_NOISE)
    golden("scalars").check(f"eq10_mde_K{k}", found)
    assert printed <= found < printed + PRINTED


@pytest.mark.parametrize(
    ("key", "n", "options"),
    [
        ("eq10.w0.111111_sa0.166667_sb0.166667_K1_1_a0.05_b0.2_n198", 198, WITH_NOISE),
        ("eq10.w0.2_sa0.1_sb0.15_K2_5_a0.01_b0.1_n1000", 1000, UNEVEN),
    ],
)
def test_detectable_differences_are_the_reference_ones(golden, key, n, options):
    golden("scalars").check(key, mde(n=n, **options))


@pytest.mark.parametrize(
    ("key", "delta", "options"),
    [
        ("eq9_n", 0.03, ONE_NINTH),
        ("eq9.w0.111111_sa0.166667_sb0.166667_K1_1_a0.05_b0.2_d0.05", 0.05, WITH_NOISE),
        ("eq9.w0.2_sa0.1_sb0.15_K2_5_a0.01_b0.1_d0.03", 0.03, UNEVEN),
    ],
)
def test_sample_sizes_are_the_reference_ones_rounded_up(golden, key, delta, options):
    assert sample_size(delta=delta, **options) == math.ceil(golden("scalars").value(key))


@pytest.mark.parametrize("score", ["bin", "cont"])
@pytest.mark.parametrize(("row", "omega2"), [("clustered", "omega2_clustered"), ("plain", "omega2_naive")])
@pytest.mark.parametrize(("k_a", "k_b"), [(1, 1), (4, 4), (2, 7)])
def test_components_plug_into_eq_9_and_10(golden, score, row, omega2, k_a, k_b):
    data = golden("d2_paired")
    name = "clustered" if row == "clustered" else "unclustered_naive"
    found = components(long_form(data, score), item="question", sample="k", groups="passage").loc[row]
    plan = {"omega2": found["omega2_uncorrected"], "sigma2_a": found["sigma2_a"], "sigma2_b": found["sigma2_b"]}
    plan |= {"k_a": k_a, "k_b": k_b}
    key = f"{score}.components.n_eq9_{name}_K{k_a}_{k_b}_delta0.04"
    assert sample_size(delta=0.04, **plan) == math.ceil(data.value(key))
    data.check(f"{score}.components.mde_eq10_{name}_K{k_a}_{k_b}_n500", mde(n=500, **plan))


# --- components: reference values -------------------------------------------------------------------------------------


def long_form(data: Any, score: str) -> pd.DataFrame:
    """The reference data with one row for each answer of models a and b."""
    kept = data.frame[["question", "passage", "k", f"a_{score}", f"b_{score}"]]
    tall = kept.melt(["question", "passage", "k"], var_name="model", value_name="score")
    return tall.assign(model=tall["model"].str[0])


@pytest.mark.parametrize("score", ["bin", "cont"])
def test_components_are_the_reference_ones(golden, score):
    data = golden("d2_paired")
    found = components(long_form(data, score), item="question", sample="k", groups="passage")
    keys = {
        ("plain", "omega2"): "omega2_debiased",
        ("plain", "omega2_uncorrected"): "omega2_naive",
        ("plain", "sigma2_a"): "sigma2_a",
        ("plain", "sigma2_b"): "sigma2_b",
        ("clustered", "omega2"): "omega2_clustered_debiased",
        ("clustered", "omega2_uncorrected"): "omega2_clustered",
        ("clustered", "sigma2_a"): "sigma2_clustered_a",
        ("clustered", "sigma2_b"): "sigma2_clustered_b",
    }
    for place, key in keys.items():
        data.check(f"{score}.components.{key}", found.loc[place])
    assert (found[["k_a", "k_b"]] == data.facts["K"]).all(axis=None)
    assert found["n"].tolist() == [data.facts["n_questions"]] * 2
    assert found["n_clusters"].tolist() == [data.facts["n_questions"], data.facts["n_passages"]]


@pytest.mark.parametrize("score", ["bin", "cont"])
def test_variances_of_the_models_are_the_reference_ones(golden, score):
    data, options = golden("d2_paired"), {"item": "question", "sample": "k", "groups": "passage"}
    log = long_form(data, score)
    for name, rows in zip("ab", (rows for _, rows in log.groupby("model")), strict=True):
        found = components(rows, model=None, **options)["omega2_uncorrected"]
        data.check(f"{score}.components.var_x{name}", found["plain"])
        data.check(f"{score}.components.var_clustered_x{name}", found["clustered"])


def test_an_omega2_below_zero_is_reported_as_it_is_and_refused_in_eq_9(golden):
    found = components(long_form(golden("d2_paired"), "bin"), item="question", sample="k").loc["plain"]
    assert found["omega2"] < 0
    with pytest.raises(ArgumentError, match="plan with its `omega2_uncorrected`"):
        sample_size(delta=0.04, omega2=found["omega2"], sigma2_a=found["sigma2_a"])


# --- components: slow and obvious versions ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Slow:
    """Components of a small frame by loops over questions, answers and pairs of questions."""

    answers: dict[str, dict[str, dict[str, float]]]
    cluster: dict[str, str]

    @classmethod
    def of(cls, frame: pd.DataFrame, groups: str | None) -> Slow:
        answers: dict[str, dict[str, dict[str, float]]] = {}
        cluster = {}
        for row in frame.to_dict("records"):
            answers.setdefault(row["model"], {}).setdefault(row["item"], {})[row["sample"]] = row["score"]
            cluster[row["item"]] = row[groups or "item"]
        return cls(answers, cluster)

    @property
    def models(self) -> list[str]:
        return sorted(self.answers)

    @property
    def questions(self) -> list[str]:
        a, b = self.models
        return [question for question in self.answers[a] if question in self.answers[b]]

    def differences(self) -> list[float]:
        a, b = self.models
        means = {m: [np.mean(list(self.answers[m][q].values())) for q in self.questions] for m in (a, b)}
        return [x - y for x, y in zip(means[a], means[b], strict=True)]

    def noise(self, model: str, clustered: bool, of_means: bool) -> float:
        total = 0.0
        for i in self.questions:
            for j in self.questions:
                together = self.cluster[i] == self.cluster[j] if clustered else i == j
                total += self.product(model, i, j, of_means) if together else 0.0
        return total / len(self.questions)

    def product(self, model: str, i: str, j: str, of_means: bool) -> float:
        first, second = self.answers[model][i], self.answers[model][j]
        mean_i, mean_j = np.mean(list(first.values())), np.mean(list(second.values()))
        total = sum((first[k] - mean_i) * (second[k] - mean_j) for k in first if k in second)
        scale = (len(first) - 1) * (len(second) - 1) * (len(first) * len(second) if of_means else 1)
        return total / math.sqrt(scale)

    def uncorrected(self, clustered: bool) -> float:
        d, questions = self.differences(), self.questions
        if not clustered:
            return float(np.var(d, ddof=1))
        total, mean = 0.0, np.mean(d)
        for i, x in zip(questions, d, strict=True):
            for j, y in zip(questions, d, strict=True):
                total += (x - mean) * (y - mean) if self.cluster[i] == self.cluster[j] else 0.0
        return total / len(d)

    def harmonic(self, model: str) -> float:
        return len(self.questions) / sum(1 / len(self.answers[model][q]) for q in self.questions)

    def row(self, clustered: bool) -> list[float]:
        a, b = self.models
        uncorrected = self.uncorrected(clustered)
        return [
            uncorrected - self.noise(a, clustered, True) - self.noise(b, clustered, True),
            uncorrected,
            self.noise(a, clustered, False),
            self.noise(b, clustered, False),
            self.harmonic(a),
            self.harmonic(b),
            len(self.questions),
            len({self.cluster[q] for q in self.questions}) if clustered else len(self.questions),
        ]


@st.composite
def pilots(draw: st.DrawFn) -> pd.DataFrame:
    """Two models, a few questions in clusters, unequal numbers of answers, some questions of one model only."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_clusters, most = draw(st.integers(2, 8)), draw(st.integers(2, 4)), draw(st.integers(2, 5))
    binary, one_sided = draw(st.booleans()), draw(st.integers(0, 2))
    rows = []
    for question in range(n + one_sided):
        # The first two questions have clusters of their own number, so that there are two at least.
        cluster = f"c{question if question < 2 else rng.integers(n_clusters)}"
        for model in ("left", "right"):
            if question >= n and model == ("left", "right")[question % 2]:
                continue
            for sample in rng.permutation(most)[: rng.integers(2, most + 1)]:
                score = float(rng.integers(0, 2)) if binary else float(rng.normal())
                rows.append((model, f"q{question}", f"s{sample}", cluster, score))
    frame = pd.DataFrame(rows, columns=["model", "item", "sample", "passage", "score"])
    return frame.sample(frac=1, random_state=int(rng.integers(2**31)), ignore_index=True)


@settings(max_examples=30)
@given(pilots(), st.sampled_from(["passage", None]))
def test_components_are_those_of_loops_over_pairs_of_questions(pilot, groups):
    found, slow = components(pilot, groups=groups), Slow.of(pilot, groups)
    expected = np.array([slow.row(clustered=False), slow.row(clustered=True)])
    np.testing.assert_allclose(found.to_numpy(float), expected, rtol=SAME, atol=SAME)
    assert found.attrs["left_out"] == len(set(pilot["item"])) - len(slow.questions)


# --- components: simulated truth --------------------------------------------------------------------------------------


def many(rng: np.random.Generator, draws: int, **options: Any) -> pd.DataFrame:
    """Clustered and plain components of many small pilots, one row a pilot."""
    rows = []
    for _ in range(draws):
        log = datasets.sampled(n_models=2, seed=rng, **options)
        found = components(log, item="question", groups="passage")
        rows.append({f"{row}.{name}": found.loc[row, name] for row in found.index for name in found.columns[:4]})
    return pd.DataFrame(rows)


def assert_mean(values: pd.Series, truth: float, slack: float = 0.0) -> None:
    """Whether a mean over pilots is the truth, within its standard errors."""
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - truth) < SIGMAS * error + slack, (values.mean(), truth, error)


# The formula is exact in loops over pairs of questions and beside reference values.
@pytest.mark.parametrize("draws", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_clustered_omega2_is_n_times_the_variance_of_the_mean_difference(rng, draws):
    n, k = 300, 3
    options = {"n_questions": n, "n_samples": k, "questions_per_passage": 4, "icc": 0.5, "correlation": 0.2}
    truth = datasets.sampled(n_models=2, **options).attrs["truth"]
    found = many(rng, draws, **options)
    omega2 = n * truth["difference_standard_error"] ** 2 - 2 * truth["sigma2"] / k
    # Centring at the mean costs a share of 1/G, as always with appendix C.
    assert_mean(found["clustered.omega2"], omega2, slack=(omega2 + 2 * truth["sigma2"] / k) / (n / 4))
    assert found["plain.omega2"].mean() < 0.6 * omega2
