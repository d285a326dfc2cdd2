"""Tests of all differences at once and by the wild bootstrap: against statsmodels, and through the command line."""

from __future__ import annotations

import csv
import io
import itertools
import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import evalreg as er
from evalreg.errors import ArgumentError, FewCarriersWarning, NotAvailableError

pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.FewCarriersWarning"
)
# The same sums in another order.
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Four models on questions in 24 unequal passages; scores are continuous."""
    rng = np.random.default_rng(5)
    passage = np.repeat(np.arange(24), rng.integers(2, 9, 24))
    hard, n = rng.normal(size=24)[passage], passage.size
    parts = [
        pd.DataFrame(
            {
                "model": name,
                "question": np.arange(n),
                "passage": passage,
                "score": gain + hard + rng.normal(size=24)[passage] + rng.normal(size=n),
            }
        )
        for name, gain in (("ada", 0.0), ("bob", 0.2), ("cyd", 0.4), ("dan", 0.9))
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def file(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("differences") / "log.csv"
    log.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def binary(log, file):
    """Files of scores of 0 and 1: few questions differ, or many do."""
    paths = {True: file.with_name("few.csv"), False: file.with_name("many.csv")}
    for few, path in paths.items():
        log.assign(score=(log["score"] > (3 if few else 0)).astype(float)).to_csv(path, index=False)
    return paths


@pytest.fixture(scope="module")
def both_tests(log):
    """The joint test and the wild test against a baseline."""
    comparison = er.compare(log, item="question", groups="passage", baseline="ada")
    return comparison.joint_test(), comparison.wild_test(draws=199, seed=3)


def f_of(test) -> tuple[float, float, float]:
    return float(np.squeeze(test.fvalue)), float(test.df_num), float(test.df_denom)


@pytest.mark.parametrize("baseline", [None, "ada", "dan"])
def test_the_joint_test_is_statsmodels_wald_test_of_the_models(log, baseline):
    # On balanced questions the coefficients of models are the paired differences, and CR0 has no factor to differ in.
    fitted = smf.ols("score ~ C(model)", log).fit(
        cov_type="cluster", cov_kwds={"groups": log["passage"], "use_correction": False}, use_t=True
    )
    wanted = fitted.wald_test(np.eye(4)[1:], scalar=True)
    comparison = er.compare(log, item="question", groups="passage", baseline=baseline, cov="CR0", dof="min")
    found = comparison.joint_test()
    F, q, dof = f_of(found)
    np.testing.assert_allclose(F, float(wanted.statistic), rtol=ROUNDING)
    assert (q, dof) == (3, 23)
    assert float(found.pvalue) == pytest.approx(float(wanted.pvalue), rel=ROUNDING)


def test_the_joint_test_does_not_depend_on_names_or_on_the_baseline(log):
    found = [er.compare(log, item="question", groups="passage", baseline=one).joint_test() for one in (None, "bob")]
    for order in itertools.islice(itertools.permutations("wxyz"), 0, 24, 7):
        renamed = log.assign(model=log["model"].map(dict(zip(["ada", "bob", "cyd", "dan"], order, strict=True))))
        found.append(er.compare(renamed, item="question", groups="passage").joint_test())
    np.testing.assert_allclose([f_of(test) for test in found], [f_of(found[0])] * len(found), rtol=1e-8)


def test_one_difference_has_no_joint_test(log):
    two = log[log["model"].isin(["ada", "bob"])]
    with pytest.raises(ArgumentError, match="two or more differences; here is one"):
        er.compare(two, item="question").joint_test()


def test_pairs_about_unlike_questions_ask_for_a_baseline_and_with_it_there_is_a_test(log):
    some = log.drop(index=log.index[-3:])
    with pytest.raises(NotAvailableError, match=r"3 of 6 pairs leave some out.*`baseline`"):
        er.compare(some, item="question", groups="passage").joint_test()
    test = er.compare(some, item="question", groups="passage", baseline="ada").joint_test()
    assert 0 < float(test.pvalue) < 1
    kept = some.groupby("question").filter(lambda part: len(part) == 4)
    assert f_of(er.compare(kept, item="question", groups="passage").joint_test())[1] == 3


def test_unpaired_differences_have_a_joint_test_whatever_was_answered(log):
    some = log.drop(index=log.index[-3:])
    free = er.compare(some, item="question", groups="passage", paired=False)
    named = er.compare(some, item="question", groups="passage", paired=False, baseline="bob")
    np.testing.assert_allclose(f_of(free.joint_test()), f_of(named.joint_test()), rtol=1e-8)


def test_few_questions_that_differ_are_named(log):
    binary = log.assign(score=(log["score"] > 3).astype(float))
    with pytest.warns(FewCarriersWarning, match=r"questions differ.*The joint test does not\s+allow"):
        er.compare(binary, item="question", groups="passage").joint_test()


# The command line


FORMATS = ("text", "md", "latex", "html")


@pytest.mark.parametrize("form", FORMATS)
def test_both_tests_are_in_every_format(form, file, both_tests, call):
    asked = ("--joint", "--wild", "--draws", "199", "--seed", "3", "--baseline", "ada", "--format", form)
    status, out, _ = call("compare", file, "--item", "question", "--groups", "passage", *asked)
    test, wild = both_tests
    assert status == 0
    shown = [
        f"{float(np.squeeze(test.fvalue)):.2f}",
        *(f"{end:.4f}" for end in wild[["lower", "upper"]].to_numpy().flat),
    ]
    for text in shown:
        assert text in out.replace("$", ""), text
    assert "joint test" in out
    assert "seed 3" in out


# Where nothing is to be said, nothing is said in any format: text and JSON stand for all.
@pytest.mark.parametrize(
    ("form", "few"),
    [
        *((form, True) for form in (*FORMATS, "json")),
        *(
            (form, False) if form in ("text", "json") else pytest.param(form, False, marks=pytest.mark.slow)
            for form in (*FORMATS, "json")
        ),
    ],
)
def test_the_output_says_that_both_tests_leave_out_what_was_not_seen(form, few, binary, call):
    asked = ("--joint", "--wild", "--draws", "99", "--format", form)
    status, out, _ = call("compare", binary[few], "--item", "question", "--groups", "passage", *asked)
    assert status == 0
    if form == "json":
        notes = [json.loads(out)[test]["note"] for test in ("joint", "wild")]
        assert [note is not None and "questions differ" in note for note in notes] == [few, few]
    else:
        said = " ".join(out.replace("\n   ", " ").split())
        assert ("It does not allow for differences that were not seen, and its p may be too small." in said) == few
        assert ("They do not allow for differences that were not seen, and may be too short." in said) == few


@pytest.mark.parametrize("form", [*FORMATS, "json"])
def test_a_joint_test_that_takes_the_covariance_for_known_is_told_in_every_format(form, tmp_path, call):
    log = pd.DataFrame({"question": np.tile(np.arange(60), 4), "model": np.repeat(["a", "b", "c", "d"], 60)})
    log = log.assign(score=np.random.default_rng(2).normal(size=240), passage=log["question"] // 10)
    log.to_csv(tmp_path / "log.csv", index=False)
    asked = ("--groups", "passage", "--cov", "CR1", "--joint", "--format", form)
    status, out, _ = call("compare", tmp_path / "log.csv", "--item", "question", *asked)
    assert (status, "rejects about 18" in " ".join(out.replace("\n   ", " ").split())) == (0, True)


def test_json_holds_both_tests_to_the_last_digit(file, log, call):
    asked = ("--joint", "--wild", "--draws", "199", "--adjust", "holm", "--format", "json")
    out = json.loads(call("compare", file, "--item", "question", "--groups", "passage", *asked)[1])
    comparison = er.compare(log, item="question", groups="passage", adjust="holm")
    test, wild = comparison.joint_test(), comparison.wild_test(draws=199)
    assert (out["joint"]["F"], out["joint"]["p_value"]) == (float(np.squeeze(test.fvalue)), float(test.pvalue))
    for row, (pair, own) in zip(out["wild"]["differences"], wild.iterrows(), strict=True):
        assert (row["model"], row["baseline"]) == pair
        assert (row["p_adjusted"], row["lower"], row["upper"]) == tuple(own[["p_adjusted", "lower", "upper"]])
    assert (out["wild"]["seed"], out["wild"]["adjust"]) == (0, "holm")


def test_csv_has_columns_of_the_wild_test_and_says_the_joint_one_beside(file, log, call):
    asked = ("--joint", "--wild", "--draws", "199", "--format", "csv")
    _, out, said = call("compare", file, "--item", "question", "--groups", "passage", *asked)
    rows = list(csv.DictReader(io.StringIO(out)))
    wild = er.compare(log, item="question", groups="passage").wild_test(draws=199)
    assert [float(row["wild_p_value"]) for row in rows] == list(wild["p_value"])
    assert "Joint test of all differences: F(3, " in said


def test_a_summary_for_a_merge_request_holds_the_tests_too(file, tmp_path, call):
    notes = tmp_path / "notes.md"
    call("compare", file, "--item", "question", "--joint", "--gate", "dan - ada > 0", "--summary", notes)
    assert "| joint test |" in notes.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--wild", "--adjust", "single-step"), "--adjust holm"),
        (("--draws", "99"), "`--draws` goes with --wild"),
        (("--seed", "2"), "`--seed` goes with --wild"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_the_file_is_read(asked, said, call):
    status, out, err = call("compare", "no-such.csv", *asked)
    assert (status, out) == (3, "")
    assert said in err


def test_degrees_of_freedom_that_are_infinite_have_a_joint_test_too(file, call):
    _, out, _ = call("compare", file, "--item", "question", "--dof", "normal", "--joint")
    assert "3, infinite" in out


@pytest.mark.parametrize("form", ["text", "md", "csv"])
def test_a_joint_test_that_cannot_be_made_says_why_and_prints_no_nan(form, log, tmp_path, call):
    log[log["passage"] < 3].to_csv(tmp_path / "log.csv", index=False)
    asked = ("--item", "question", "--groups", "passage", "--joint", "--format", form)
    status, out, said = call("compare", tmp_path / "log.csv", *asked)
    assert status == 0
    assert "The joint test cannot be made: " in " ".join(f"{out} {said}".split())
    assert "nan" not in (out + said).lower()
