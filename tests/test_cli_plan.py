"""`evalreg plan`: the numbers of the library, in every format, and errors that say what to do."""

from __future__ import annotations

import io
import itertools
import json
import math
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pandas as pd
import pytest

import evalreg as er

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "pilot.csv"
    log = er.datasets.sampled(n_questions=300, n_samples=4, n_models=2, correlation=0.5, icc=0.3, seed=2)
    log.to_csv(path, index=False)
    return path


@pytest.fixture
def command(call: Command) -> Command:
    return partial(call, "plan")


CLUSTERED = ("--item", "question", "--groups", "passage", "--delta", 0.05)


@cache
def parts(pilot: Path) -> pd.DataFrame:
    """The components of the pilot, by the library."""
    return er.plan.components(pd.read_csv(pilot), item="question", groups="passage")


@cache
def expected(pilot: Path, k: tuple[float, float], **options: object) -> pd.DataFrame:
    return er.plan.from_pilot(parts(pilot), delta=0.05, k_a=k[0], k_b=k[1], **options)


def test_the_csv_is_the_table_of_the_library(command, pilot):
    status, out, err = command(pilot, *CLUSTERED, "--k", "1,2:8", "--power", 0.9, "--format", "csv")
    assert (status, err) == (0, "")
    table = pd.read_csv(io.StringIO(out))
    assert table["clustering"].tolist() == ["plain", "plain", "clustered", "clustered"]
    for k in ((1, 1), (2, 8)):
        part = table[(table["k_a"] == k[0]) & (table["k_b"] == k[1])].set_index("clustering")
        pd.testing.assert_frame_equal(
            part.drop(columns=["k_a", "k_b"]), expected(pilot, k, power=0.9), check_names=False, rtol=1e-12
        )


def test_json_carries_the_components_the_plan_and_what_was_asked(command, pilot):
    status, out, _ = command(pilot, *CLUSTERED, "--k", "4", "--uncorrected", "--format", "json")
    assert status == 0
    document = json.loads(out)
    assert document["schema_version"] == 1
    assert document["models"] == ["model-1", "model-2"]
    assert document["options"]["delta"] == 0.05
    assert document["options"]["uncorrected"] is True
    plain, clustered = document["plan"]
    assert clustered["n"] == expected(pilot, (4, 4), corrected=False).loc["clustered", "n"]
    assert plain["clustering"] == "plain"
    assert {row["clustering"] for row in document["components"]} == {"plain", "clustered"}


@pytest.mark.parametrize("name", ["text", "md", "latex", "html"])
def test_every_format_shows_the_numbers(command, pilot, name):
    status, out, _ = command(pilot, *CLUSTERED, "--format", name)
    assert status == 0
    assert str(expected(pilot, (5, 5)).loc["clustered", "n"]) in out
    if name == "text":
        assert max(map(len, out.splitlines())) <= 80
        assert "60 passage" in out


def test_costs_name_the_cheapest_plan(command, pilot):
    _, out, _ = command(pilot, *CLUSTERED, "--cost-question", 2, "--cost-answer", 0.1)
    words = " ".join(out.split())
    k, n = re.search(r"cheapest plan has (\d+) answers of A and \1 of B to each of (\d+) questions", words).groups()
    needed = {times: expected(pilot, (times, times)).loc["clustered", "n"] for times in range(1, 9)}
    assert needed[int(k)] == int(n)
    cost = {times: questions * (2 + 0.2 * times) for times, questions in needed.items()}
    # The number of answers is best for a variance that is known; the table allows for its error.
    assert cost[int(k)] <= 1.01 * min(cost.values())
    assert f"for {cost[int(k)]:.6g}; one answer each would cost {cost[1]:.6g}" in words


def test_where_noise_hides_how_questions_differ_the_cheapest_plan_is_still_the_cheapest(command, tmp_path):
    # What is left of omega2 is near 0 and uncertain: the best of known components was 3,000 times as dear as 1 answer.
    log = er.datasets.sampled(n_questions=40, n_samples=2, n_models=2, correlation=0.9, seed=37)
    log.to_csv(tmp_path / "small.csv", index=False)
    components = er.plan.components(log, item="question")
    assert 0 < components.loc["plain", "omega2"] < 0.1 * components.loc["plain", "omega2_uncorrected"]
    asked = ("--item", "question", "--delta", 0.1, "--cost-question", 2, "--cost-answer", 0.1)
    _, out, said = command(tmp_path / "small.csv", *asked, "--format", "csv")
    assert "costs" not in out
    k_a, k_b, n, price = re.search(
        r"has (\d+) answers? of A and (\d+) of B .* (\d+) questions, for (\S+);", said
    ).groups()
    cost = {}
    for k in itertools.product(range(1, 16), repeat=2):
        needed = er.plan.from_pilot(components, delta=0.1, k_a=k[0], k_b=k[1]).loc["plain", "n"]
        cost[k] = needed * (2 + 0.1 * sum(k))
    assert float(price) == pytest.approx(int(n) * (2 + 0.1 * (int(k_a) + int(k_b))))
    assert float(price) <= 1.02 * min(cost.values())


def test_an_assurance_is_planned_for(command, pilot):
    _, out, _ = command(pilot, *CLUSTERED, "--k", "1", "--assurance", 0.9, "--format", "csv")
    table = pd.read_csv(io.StringIO(out), index_col="clustering")
    assert table["n"].to_dict() == expected(pilot, (1, 1), assurance=0.9)["n"].to_dict()
    _, out, _ = command(pilot, *CLUSTERED, "--assurance", 0.9)
    assert "in 0.9 of pilots like this one the power is at least 0.8" in " ".join(out.split())
    status, _, err = command(pilot, *CLUSTERED, "--assurance", 1.2)
    assert status == 3
    assert "--assurance must lie strictly between 0 and 1" in err


def test_a_small_pilot_is_said_to_be_one(command, pilot):
    twelfth = sorted(pd.read_csv(pilot)["passage"].unique())[11]
    _, out, _ = command(pilot, *CLUSTERED, "--where", f'passage < "{twelfth}"')
    assert "11 clusters in the pilot" in " ".join(out.split())
    assert "may well be off by half" in " ".join(out.split())
    assert "Where: passage <" in out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--k", "0"), "`--k` must be whole numbers"),
        (("--k", "1:2:3"), "`--k` must be whole numbers"),
        (("--power", "1"), "--power must lie strictly between 0 and 1"),
        (("--delta", "-0.1"), "--delta must be positive"),
        (("--cost-question", "2"), "go together"),
        (("--model", "modell"), 'Did you mean "model"'),
        (("--groups", "passage + question"), "must name one clustering"),
        (("--baseline", "gpt"), "--baseline must be one of the two models"),
    ],
)
def test_wrong_options_leave_with_3_and_say_what_to_do(command, pilot, change, words):
    status, out, err = command(pilot, *CLUSTERED, *change)
    assert (status, out) == (3, "")
    assert words in err


def test_a_pilot_whose_noise_hides_the_rest_is_sent_to_the_option(command, tmp_path):
    path = tmp_path / "small.csv"
    er.datasets.sampled(n_questions=12, n_samples=2, n_models=2, correlation=0.9, seed=1).to_csv(path, index=False)
    status, _, err = command(path, "--item", "question", "--delta", 0.05)
    assert status == 3
    assert "--uncorrected" in err
    assert command(path, "--item", "question", "--delta", 0.05, "--uncorrected")[0] == 0


def test_one_answer_to_some_questions_is_refused(command, tmp_path):
    path = tmp_path / "single.csv"
    log = er.datasets.sampled(n_questions=30, n_samples=2, n_models=2, seed=1)
    log.drop(index=0).to_csv(path, index=False)
    status, _, err = command(path, "--item", "question", "--delta", 0.05)
    assert status == 3
    assert "at least 2 answers" in err


@pytest.mark.parametrize("sample", [True, False])
def test_a_pilot_without_repeats_is_planned_by_its_total_variance(command, pilot, tmp_path, sample):
    frame = pd.read_csv(pilot).drop_duplicates(["model", "question"])
    path = tmp_path / "single.csv"
    (frame if sample else frame.drop(columns="sample")).to_csv(path, index=False)
    status, out, _ = command(path, *CLUSTERED, "--format", "csv")
    assert status == 0
    table = pd.read_csv(io.StringIO(out)).set_index("clustering")
    # Eq. 9 written out, with the total variance of the differences of questions.
    wide = frame.pivot(index="question", columns="model", values="score")
    variance = (wide["model-2"] - wide["model-1"]).var(ddof=1)
    assert table.loc["plain", "n_eq9"] == math.ceil((1.959964 + 0.841621) ** 2 * variance / 0.05**2)
    wanted = er.plan.from_pilot(er.compare(frame, item="question", groups="passage"), delta=0.05)
    pd.testing.assert_frame_equal(table, wanted, check_names=False, rtol=1e-12)
    assert "one answer" in command(path, *CLUSTERED)[1]
    assert json.loads(command(path, *CLUSTERED, "--format", "json")[1])["components"] is None
    for form in ("md", "latex", "html") if sample else ():
        assert command(path, *CLUSTERED, "--format", form)[0] == 0
    assert command(path, *CLUSTERED, "--k", "4")[0] == 3


@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.parametrize("name", ["text", "md", "html"])  # tables for LaTeX have no lines above them
def test_every_plan_says_which_rows_a_filter_kept(command: Command, tmp_path: Path, name: str, answers: int) -> None:
    log = er.datasets.sampled(n_questions=60, n_samples=answers, n_models=2, seed=2)
    log.to_csv(tmp_path / "pilot.csv", index=False)
    first = log["question"].iloc[0]
    status, out, err = command(
        *(tmp_path / "pilot.csv", "--item", "question", "--delta", "0.1", "--where", f'question != "{first}"'),
        *("--format", name),
    )
    assert (status, f"({(log['question'] != first).sum()} of {len(log)} rows)" in out) == (0, True), err
