"""What every estimator promises, checked on each line of `cases.py`."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import importlib.util
import pickle
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from engines.lazy import LAZY

import evalreg as er
from evalreg.errors import NestedClustersWarning
from evalreg.estimate import rows_behind
from evalreg.inference.simultaneous import block_stream
from evalreg.resampling.draws import boot_chunks


def _load_cases():
    # Under --import-mode=importlib a neighbour is no module that can be imported by name.
    name = "contract_cases"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("cases.py"))
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


cases = _load_cases()

# Few clusters of unequal sizes are what these frames are made of; the warnings have their own tests.
pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def of_cases(applies):
    """Mark a check as one of the cases for which `applies` is true; it is collected for no others."""

    def mark(check):
        @functools.wraps(check)
        def checked(case, *arguments, **options):
            assert applies(case), "this check says nothing of this case"
            check(case, *arguments, **options)

        checked.applies = applies
        return checked

    return mark


def checked_cases(check, among=cases.CASES):
    """The cases that a check is of."""
    return [case for case in among if getattr(check, "applies", lambda _: True)(case)]


def under(*clusterings, covs=(), engines=()):
    """Mark a check as one under each clustering that a case's rows have, each covariance there, and in each engine."""

    def mark(check):
        check.clusterings, check.covs, check.engines = clusterings, covs, engines
        return check

    return mark


def by_family(also=lambda _: False, spare=lambda _: False):
    """Mark a check of what an estimator does whatever its options: of cases that are like another, it is slow.

    `also` says which of their parameters are not, and `spare` which of other cases are slow as well.
    """

    def mark(check):
        check.also, check.spare = also, spare
        return check

    return mark


def _mark(check, row):
    """The parameters of one test, slow where another case stands for its own."""
    if hasattr(check, "also"):
        spared = not check.also(row) if row["case"].like else check.spare(row)
    else:
        spared = False
    return pytest.param(*row.values(), marks=[pytest.mark.slow] if spared else [])


def parametrize(metafunc, among=cases.CASES):
    """Collect a check for its cases, and for each of its clusterings that they have."""
    found = checked_cases(metafunc.function, among)
    check = metafunc.function
    clusterings = getattr(check, "clusterings", None)
    if clusterings is None:
        cases_of_it = [_mark(check, {"case": case}) for case in found]
        metafunc.parametrize("case", cases_of_it, ids=[case.name for case in found])
        return
    # Answers to one question have several judges, so that what is averaged before has none.
    rows = [
        {"case": case, "groups": groups}
        for case in found
        for groups in clusterings
        if case.row == "row" or "judge" not in str(groups)
    ]
    if covs := check.covs:
        rows = [row | {"cov": cov} for row in rows for cov in (covs if row["groups"] else ["naive"])]
    if engines := check.engines:
        rows = [row | {"engine": engine} for row in rows for engine in engines]
    ids = ["-".join([row["case"].name, *(str(row[name]) for name in list(row)[1:])]) for row in rows]
    metafunc.parametrize(list(rows[0]), [_mark(check, row) for row in rows], ids=ids)


def pytest_generate_tests(metafunc):
    parametrize(metafunc)


# Sums in another order: some hundred roundings, and one more Newton step of an iterated fit.
REORDERED = 1e-12
# The same sums by another route of the code.
SAME = 1e-11
# Solved again from other sums, and iterated fits that stop elsewhere.
SOLVED = 1e-8
# Central differences with this step leave its square, and rounding over it.
STEP = 1e-4
DERIVATIVE = 1e-6
# Columns of influence sum to zero up to rounding; an iterated fit stops when its scores do to about this.
ZERO_SUM = 1e-10
# Nothing may move by more where columns are in other units.
UNITS = 1e-9
# An engine sums in another order, in blocks and in parallel.
ENGINE = 1e-10

CLUSTERINGS = ["passage", ("passage", "judge")]


def _pickled(results):
    return pickle.loads(pickle.dumps(results))


def _run(case, frame=None, groups="passage", weights=None):
    return case.fit(case.frame() if frame is None else frame, groups, weights)


@functools.cache
def _fit(case, groups="passage"):
    """Results on the case's own frame, fitted once for all checks: none of them may change a result."""
    return _run(case, groups=list(groups) if isinstance(groups, tuple) else groups)


@functools.cache
def _under(case, cov, groups="passage"):
    """The same under a covariance by name."""
    return _fit(case, groups).with_cov(cov=cov)


@functools.cache
def _limits(case, groups):
    """Its 95% intervals."""
    return _fit(case, groups).conf_int().to_numpy()


@functools.cache
def _nested(case, groups):
    """Results under passages and the questions inside them, which is told."""
    with pytest.warns(NestedClustersWarning, match='"question" lies inside "passage"'):
        return _run(case, groups=list(groups) if isinstance(groups, tuple) else groups)


@functools.cache
def _shuffled(case, groups):
    """The same from the rows in another order: with their index, or numbered anew where clusters are crossed."""
    frame = case.frame().sample(frac=1, random_state=7, ignore_index=isinstance(groups, tuple))
    return _run(case, frame, list(groups) if isinstance(groups, tuple) else groups)


def _in_one_passage(case):
    """The same where the third model has rows in one passage only."""
    frame = case.frame()
    columns = [name for name in ("model", "against") if name in frame]
    inside = ~np.any([frame[name] == "cyd" for name in columns], axis=0) | (frame["passage"] == "p5")
    return _run(case, frame[inside].reset_index(drop=True))


def _as_said(name):
    """A parameter as tables name it: `model=bob` for `C(model)[T.bob]` and `model[T.bob]`."""
    return re.sub(r"(?:C\()?(\w+)\)?\[T\.(\w+)\]", r"\1=\2", " ".join(str(name).split()))


def _weighted(case, unit):
    """Results under passages and the weights of the frame, in a unit."""
    frame = case.frame()
    if case.row == "row":
        weights = frame["weight"].to_numpy()
    else:
        weights = frame.groupby(case.row)["weight"].transform("first").to_numpy()
    return case.fit_held(frame, "passage", weights * unit)


@functools.cache
def _without_each_passage(case):
    """What `_without_each` finds on the case's own frame."""
    return _without_each(case, case.frame())


def _assert_close(found, expected, rtol):
    """Elementwise, relative to the largest element: a covariance of zero has no relative error of its own."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    np.testing.assert_allclose(
        found, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0)
    )


def _assert_same(found, expected, rtol):
    _assert_close(found.params, expected.params, rtol)
    _assert_close(found.cov_params(), expected.cov_params(), rtol)
    _assert_close(found.dof, expected.dof, rtol)


@of_cases(lambda case: case.weighted is not None)
def test_influence_is_the_derivative_with_respect_to_row_weight(case):
    frame = case.frame()
    influence = _fit(case, None).influence()
    # Along one direction of no meaning, in which every row has its own share: what is wrong in any row is wrong there.
    codes = pd.factorize(frame[case.row])[0]
    direction = np.random.default_rng(3).uniform(-1, 1, codes.max() + 1)[codes]
    ends = [case.fit_held(frame, None, 1.0 + step * direction).params.to_numpy() for step in (STEP, -STEP)]
    derivative = (ends[0] - ends[1]) / (2 * STEP)
    largest = np.abs(influence.to_numpy()).max()
    along = direction[influence.index] @ influence.to_numpy()
    np.testing.assert_allclose(along, derivative, atol=DERIVATIVE * largest, rtol=0)


@of_cases(lambda case: not case.tuned)
@by_family()
def test_an_axis_of_noise_adds_no_certainty(case):
    """No interval is narrower and no p-value smaller for a second clustering that has nothing to say."""
    frame = case.frame()
    codes = pd.factorize(frame[case.row])[0]
    frame["noise"] = np.random.default_rng(5).integers(0, 9, codes.max() + 1)[codes]
    alone, crossed = _fit(case), _run(case, frame, groups=["passage", "noise"])
    assert crossed.cov.crossed
    np.testing.assert_allclose(crossed.params, alone.params, rtol=UNITS)
    for level in (0.1, 0.05, 1e-4):
        one, both = alone.cov.half_width(alpha=level), crossed.cov.half_width(alpha=level)
        assert np.all(both >= one * (1 - SAME))
    known = alone.pvalues.notna()
    assert np.all(crossed.pvalues[known] >= alone.pvalues[known] * (1 - 1e-8) - 1e-300)


@of_cases(lambda case: case.weighted is not None)
def test_weights_of_one_change_nothing(case):
    frame = case.frame()
    found, expected = case.fit_held(frame, "passage", np.ones(len(frame))), _fit(case)
    _assert_close(found.params, expected.params, SAME)
    _assert_close(found.cov_params(), expected.cov_params(), SAME)
    # What is tuned counts its parts by their variances, of which means that were put together know nothing.
    if not case.tuned:
        _assert_close(found.dof, expected.dof, SAME)


# What counts rows where it should add up weights is found by the options that are made of such sums.
@of_cases(lambda case: not (case.no_weights or case.no_split))
@by_family(also=lambda row: re.search("micro|weighted|WLS|sampled", row["case"].name) is not None)
def test_splitting_rows_changes_nothing(case):
    """A row in two parts, of a quarter and three quarters of its weight, is the row itself."""
    frame = case.frame()
    some = pd.factorize(frame[case.row])[0] % 3 == 0
    parts = frame[some].assign(row=frame["row"] + 1000, question=frame["question"] + "b")
    weights = np.concatenate([np.where(some, 0.25, 1.0), np.full(len(parts), 0.75)])
    found, expected = _run(case, pd.concat([frame, parts], ignore_index=True), weights=weights), _fit(case)
    _assert_close(found.params, expected.params, SAME)
    # Each of these sees sums within clusters only; how CR2 adjusts depends on the variances of rows.
    for cov in ("CR0", "CR3"):
        _assert_close(found.with_cov(cov=cov).cov_params(), _under(case, cov).cov_params(), SOLVED)


def test_influence_sums_to_zero(case):
    for results in (_fit(case), _fit(case, None)):
        for by in (None, "passage"):
            influence = results.influence(by).to_numpy()
            assert np.all(np.abs(influence.sum(axis=0)) <= ZERO_SUM * np.abs(influence).sum(axis=0))


def test_row_influence_names_positions_in_the_data(case):
    frame = case.frame()
    influence = _fit(case).influence()
    assert (frame[case.row].iloc[influence.index].value_counts() == case.per_row).all()
    assert set(frame[case.row].iloc[influence.index]) == set(frame[case.row])


@pytest.mark.parametrize("groups", ["passage", "question"])
@by_family()
def test_outer_products_of_cluster_influence_add_up_to_cr0(case, groups):
    results = _fit(case, groups)
    totals = results.influence(by=groups).to_numpy()
    cr0 = results.with_cov(cov="CR0")
    _assert_close(cr0.cov_params(), totals.T @ totals, SAME)
    # The same from the rows, summed here.
    rows = results.influence()
    ids = case.frame()[groups].to_numpy()[rows.index]
    sums = rows.groupby(ids).sum().to_numpy()
    _assert_close(cr0.cov_params(), sums.T @ sums, SAME)


@pytest.mark.pairwise
@under(*CLUSTERINGS, covs=["CR1", "CR2", "CR3"])
@by_family()
def test_row_order_changes_nothing(case, groups, cov):
    _assert_same(_shuffled(case, groups).with_cov(cov=cov), _under(case, cov, groups), REORDERED)


@by_family()
def test_relabelling_clusters_changes_nothing(case):
    frame = case.frame()
    labels = {name: (i * 7919) % 101 - 50 for i, name in enumerate(frame["passage"].unique())}
    relabelled = frame.assign(passage=frame["passage"].map(labels))
    found, expected = _run(case, relabelled), _fit(case)
    _assert_same(found, expected, REORDERED)
    assert list(found.params.index) == list(expected.params.index)
    assert found.n_clusters == expected.n_clusters


@by_family(also=lambda row: "given" in row["case"].name)
def test_relabelling_models_changes_nothing_but_names(case):
    frame = case.frame()
    new = ("neo", "oak", "pip") if case.ordered else ("zed", "yak", "xis")
    names = dict(zip(cases.MODELS, new, strict=True))
    found, expected = _run(case, frame.assign(model=frame["model"].map(names))), _fit(case)
    renamed = []
    for name in expected.params.index:
        for old, label in names.items():
            name = name.replace(old, label)
        renamed.append(name)
    assert sorted(found.params.index) == sorted(renamed)
    _assert_close(found.params[renamed], expected.params, REORDERED)
    _assert_close(found.cov_params().loc[renamed, renamed], expected.cov_params(), REORDERED)
    _assert_close(found.dof[renamed], expected.dof, REORDERED)


@of_cases(lambda case: case.per_row == 1)
def test_each_row_its_own_cluster_is_the_naive_covariance(case):
    naive = _fit(case, None).with_cov(groups=None, cov="naive")
    by_row = naive.with_cov(groups=case.row, cov="CR1")
    rows = naive.influence().to_numpy()
    _assert_close(by_row.with_cov(cov="CR0").cov_params(), rows.T @ rows, SAME)
    # The factor is n/(n - k) in a regression; a mean of several cells has each cell's own n/(n - 1).
    factor = np.full(naive.nobs, naive.nobs / (naive.nobs - naive.estimate.n_coefficients))
    if case.cells:
        cell = case.frame().iloc[naive.influence().index].groupby(list(case.cells))["row"]
        count = cell.transform("size").to_numpy()
        factor = count / (count - 1)
    _assert_close(naive.cov_params(), (rows.T * factor) @ rows, SAME)
    if not case.cells or "model" not in case.cells:
        _assert_close(by_row.cov_params(), naive.cov_params(), SAME)
    assert naive.with_cov(groups=case.row, cov="naive").bse.tolist() == naive.bse.tolist()


@pytest.mark.pairwise
@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3"])
@pytest.mark.parametrize("nesting", [("passage", "question"), "question + passage"], ids=str)
@by_family()
def test_a_nested_clustering_changes_nothing_and_warns(case, nesting, cov):
    results, nested = _under(case, cov), _nested(case, nesting).with_cov(cov=cov)
    _assert_same(nested, results, REORDERED)
    assert nested.n_clusters == results.n_clusters


@by_family()
def test_arguments_stay_as_they_are(case):
    frame, groups = case.prepare(case.frame()), ["passage", "question"]
    before = frame.copy(deep=True)
    weights = None if case.weighted is None else np.linspace(1, 2, len(frame))
    if weights is not None and case.row != "row":
        weights = frame.groupby(case.row)["weight"].transform("first").to_numpy().copy()
    kept = None if weights is None else weights.copy()
    results = case.run(frame, groups, weights)
    results.summary()
    # What is given back may be written to, or refuses; the result stays as it is either way.
    for given in (results.params, results.bse, results.cov_params(), results.influence()):
        with contextlib.suppress(ValueError):
            given.iloc[0] = -1e9
    pd.testing.assert_frame_equal(frame, before)
    assert groups == ["passage", "question"]
    if weights is not None:
        assert weights.flags.writeable
        np.testing.assert_array_equal(weights, kept)
    assert results.params.iloc[0] != -1e9
    assert results.cov_params().iloc[0, 0] > 0
    assert results.influence().abs().max().max() < 1e9


@pytest.mark.pairwise
@under(None, *CLUSTERINGS)
@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
@by_family()
def test_summaries_come_in_every_format_and_fit_the_terminal(case, groups, form):
    results = _fit(case, groups)
    if form == "text":
        text = str(results.summary())
        assert max(map(len, text.splitlines())) <= 80
        assert all(name in text or len(name) > 12 for name in results.params.index)
    elif form == "markdown":
        markdown = results.summary().as_markdown()
        assert "| " in markdown
        assert all(_as_said(name) in markdown for name in results.params.index)
    elif form == "latex":
        assert "tabular" in results.to_latex()
    else:
        assert "<table" in results._repr_html_()
        assert max(map(len, repr(results).splitlines())) <= 80


@by_family()
def test_long_names_are_cut_to_fit_the_terminal(case):
    names = {name: f"organisation/{name}-instruct-with-a-long-name-2025-10-22-preview" for name in cases.MODELS}
    frame = case.frame()
    results = _run(case, frame.assign(model=frame["model"].map(names), passage="the " + frame["passage"]))
    assert max(map(len, str(results.summary()).splitlines())) <= 80


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, _pickled])
@by_family()
def test_copies_and_pickles_give_the_same_numbers(case, again):
    results = _fit(case)
    twin = again(results)
    pd.testing.assert_series_equal(twin.params, results.params)
    pd.testing.assert_frame_equal(twin.cov_params(), results.cov_params())
    pd.testing.assert_series_equal(twin.dof, results.dof)
    pd.testing.assert_frame_equal(twin.conf_int(), results.conf_int())
    if again is _pickled:
        assert str(twin.summary()) == str(_fit(case).summary())
    for own in (twin.estimate, twin.estimate.scores, twin.estimate.cells, twin.estimate.refit):
        held = [] if own is None else [getattr(own, one.name) for one in dataclasses.fields(own)]
        assert not any(array.flags.writeable for array in held if isinstance(array, np.ndarray))
    # The clustering in use is held.
    _assert_same(twin.with_cov(cov="CR3"), _under(case, "CR3"), 0.0)


@by_family()
def test_copies_say_that_other_clusterings_need_another_fit(case):
    results = _fit(case)
    for twin in (copy.copy(results), _pickled(results)):
        with pytest.raises(er.errors.NotAvailableError, match="fit again"):
            twin.with_cov(groups="subject" if case.row == "row" else "weight")
    # What was copied still has its source.
    assert results.with_cov(groups=case.row).n_clusters == {case.row: results.nobs // case.per_row}


@of_cases(lambda case: not case.tuned)
@by_family()
def test_another_covariance_is_the_one_of_another_fit(case):
    results = _fit(case)
    for groups in (None, "question", *([list(CLUSTERINGS[1])] if case.row == "row" else [])):
        _assert_same(results.with_cov(groups=groups), _run(case, groups=groups).with_cov(groups=groups), REORDERED)
    assert results.n_clusters == {"passage": 9}


@by_family()
def test_groups_by_array_series_and_dict_are_the_column(case):
    frame = case.frame()
    by_name = _fit(case)
    labels = frame["passage"]
    for groups in (labels.to_numpy(), labels.iloc[::-1], {"passage": labels}):
        _assert_same(_run(case, frame, groups), by_name, 0.0)


def _written_through(frame):
    for name in ("score", "passage", "subject", "judge", "question", "words"):
        with contextlib.suppress(ValueError):  # Under copy-on-write such arrays are read-only.
            frame[name].values[:] = frame[name].to_numpy()[::-1].copy()


def _overwritten(frame):
    for name in ("score", "subject", "judge"):
        frame[name] = frame[name].to_numpy()[::-1].copy()


# What a caller may do to the frame after the fit: rows and values as they were must still be those of the result. Each
# list is done one after another to the frame of one fit, first what writes into the arrays that were read.
CHANGES = [
    [
        _written_through,
        lambda frame: frame.loc.__setitem__((slice(0, 20), ["subject", "judge", "score"]), ["law", "j1", 0.5]),
        lambda frame: frame.sort_values("words", inplace=True),
        lambda frame: frame.rename(columns={"subject": "topic", "judge": "rater"}, inplace=True),
    ],
    [
        lambda frame: frame.sort_values("words", inplace=True, ignore_index=True),
        _overwritten,
        lambda frame: frame.drop(index=frame.index[:7], inplace=True),
    ],
]


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@by_family()
def test_changes_of_the_frame_after_the_fit_change_nothing(case, monkeypatch):
    import evalreg.data.frame

    given, named = [], evalreg.data.frame._named_by_text

    def recorded(data):
        given.append(named(data))
        return given[-1]

    monkeypatch.setattr(evalreg.data.frame, "_named_by_text", recorded)
    others = ("question", "judge" if case.row == "row" else "subject")
    expected = {groups: _fit(case).with_cov(groups=groups, cov="CR1") for groups in others}
    for changes in CHANGES:
        given.clear()
        frame = case.frame()
        results = _run(case, frame)
        first = results.with_cov(groups="question", cov="CR1")
        read_from = [frame, *(data for data in given if data is not frame)]
        for change in changes:
            for data in read_from:
                change(data)
        _assert_same(first, expected["question"], 0.0)
        for held, groups in zip((first, results), others, strict=True):
            _assert_same(held.with_cov(groups=groups, cov="CR1"), expected[groups], 0.0)


@of_cases(lambda case: not case.pandas_only)
@by_family()
def test_numbers_as_objects_are_numbers(case):
    frame = case.frame()
    numbers = frame.select_dtypes("number").columns
    _assert_same(_run(case, frame.astype(dict.fromkeys(numbers, object))), _fit(case), REORDERED)


@pytest.mark.pairwise
@of_cases(lambda case: case.covariate)
@by_family()
@under(None, *CLUSTERINGS)
@pytest.mark.parametrize("unit", [1e-12, *(pytest.param(unit, marks=pytest.mark.slow) for unit in (1e-7, 1e8)), 1e12])
def test_units_of_covariates_change_nothing(case, groups, unit):
    frame = case.frame()
    other = frame.assign(**{case.covariate: frame[case.covariate] * unit})
    try:
        expected, found = _fit(case, groups), _run(case, other, list(groups) if isinstance(groups, tuple) else groups)
    except er.errors.ConvergenceError as error:
        # A fit of statsmodels' own stops short in such units, which is told.
        assert case.pandas_only
        assert "Logit did not converge" in str(error)
        return
    scale = np.where(expected.params.index == case.covariate, unit, 1.0)
    np.testing.assert_allclose(found.params * scale, expected.params, rtol=UNITS)
    for named in ("naive", *(("CR0", "CR1", "CR2", "CR3") if groups else ())):
        # The largest one-way piece is found contrast by contrast; cutting eigenvalues depends on the units.
        repair = {"repair": "max"} if isinstance(groups, tuple) and named != "naive" else {}
        one, two = (results.with_cov(cov=named, **repair) for results in (expected, found))
        np.testing.assert_allclose(two.bse * scale, one.bse, rtol=UNITS)
        np.testing.assert_allclose(two.dof, one.dof, rtol=UNITS)
        np.testing.assert_allclose(two.pvalues, one.pvalues, rtol=1e3 * UNITS, atol=1e-300)
    if groups == "passage" and "Bradley" not in case.name and case.name != "Davidson with position":
        both = [f"{name} = 0" for name in expected.params.index[-2:]]
        tests = [results.wald_test(", ".join(both)) if len(both) > 1 else None for results in (expected, found)]
        np.testing.assert_allclose(float(tests[1].pvalue), float(tests[0].pvalue), rtol=1e3 * UNITS)


@of_cases(lambda case: case.outcome)
@by_family()
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_another_unit_of_the_outcome_is_that_of_the_parameters(case, unit):
    frame = case.frame()
    other = frame.assign(**{name: frame[name] * unit for name in case.outcome})
    for groups in (None, "passage"):
        expected, found = _fit(case, groups), _run(case, other, groups)
        _assert_close(found.params, expected.params * unit, UNITS)
        _assert_close(found.bse, expected.bse * unit, UNITS)
        _assert_close(found.dof, expected.dof, UNITS)


@of_cases(lambda case: case.weighted is not None)
@by_family()
def test_the_sum_of_weights_changes_nothing(case):
    small, large = (_weighted(case, unit) for unit in (1e-12, 1e12))
    for groups in ("passage", None):
        one, other = (results.with_cov(groups=groups) for results in (small, large))
        np.testing.assert_allclose(one.params, other.params, rtol=UNITS)
        np.testing.assert_allclose(one.bse, other.bse, rtol=UNITS)
        np.testing.assert_allclose(one.dof, other.dof, rtol=UNITS)


def _in_one_engine(row):
    """One test of a case that is like another: whatever its options, its rows may come from an engine."""
    groups = CLUSTERINGS[1] if row["case"].row == "row" else "passage"
    return (row["engine"], row["groups"]) == ("duckdb", groups)


def _of_two_libraries(row):
    """One of two libraries whose frames are read alike, in turn: a case needs one of them."""
    return (
        row["engine"] == ("polars", "pyarrow")[cases.CASES.index(row["case"]) % 2 if row["case"] in cases.CASES else 0]
    )


def _engine(name, frame):
    """The frame in another library or engine."""
    if name == "pyarrow":
        return pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)
    if name in LAZY:
        return LAZY[name](frame)
    return pytest.importorskip("polars").from_pandas(frame)


@pytest.mark.pairwise
@of_cases(lambda case: not case.pandas_only)
@by_family(also=_in_one_engine, spare=_of_two_libraries)
@under(None, *CLUSTERINGS, engines=["polars", "pyarrow", "polars lazy", "duckdb"])
def test_every_engine_gives_the_numbers_of_pandas_or_is_refused(case, groups, engine):
    data = _engine(engine, case.prepare(case.frame()))
    given = list(groups) if isinstance(groups, tuple) else groups
    if engine in ("polars lazy", "duckdb") and not case.lazy:
        with pytest.raises((er.errors.NotAvailableError, er.errors.ArgumentError), match=r"in memory|in an engine"):
            case.run(data, given, None)
        return
    found = case.run(data, given, None)
    expected = _fit(case, groups)
    assert list(found.params.index) == list(expected.params.index)
    assert (found.nobs, found.n_clusters) == (expected.nobs, expected.n_clusters)
    assert found.dropped.equals(expected.dropped)
    columns = ["design_effect", "n_eff"]
    _assert_close(found.to_frame()[columns], expected.to_frame()[columns], ENGINE)
    if groups:
        _assert_close(found.dependence()["icc"], expected.dependence()["icc"], ENGINE)
    for cov in ("CR1", "CR2", "CR3") if groups else ("naive",):
        _assert_same(found.with_cov(cov=cov), _under(case, cov, groups), ENGINE)
    if groups and case.lazy:  # A copy holds no rows, and needs none for these clusters.
        _assert_same(_pickled(found).with_cov(cov="CR1"), _under(case, "CR1", groups), ENGINE)
    _assert_close(found.conf_int(), _limits(case, groups), ENGINE)


@by_family()
def test_rows_without_a_cluster_are_dropped_and_counted(case):
    """In memory and in an engine: the results are those of the other rows, and the lost ones are told."""
    frame = case.frame()
    gone = frame["passage"] == "p2"
    rest, holes = frame[~gone].reset_index(drop=True), frame.assign(passage=frame["passage"].where(~gone, None))
    if case.pandas_only:
        with pytest.raises(er.errors.MissingLabelsError, match="passage"):
            _run(case, holes)
        return
    expected = _run(case, rest)
    for make in (lambda data: data, *(LAZY.values() if case.lazy else ())):
        found = case.run(make(case.prepare(holes)), "passage", None)
        _assert_same(found, expected, ENGINE)
        assert found.dropped.sum() == gone.sum()


def test_a_column_that_is_not_there_is_named_with_the_nearest(case):
    with pytest.raises(er.errors.MissingColumnError) as caught:
        _run(case, groups="pasage")
    assert caught.value.column == "pasage"


def test_one_cluster_is_refused(case):
    with pytest.raises(er.errors.TooFewClustersError, match="passage"):
        _run(case, case.frame().assign(passage="p0"))


@by_family()
def test_threads_do_not_meet(case):
    """Fits of two frames, several at a time, are those of one after another."""
    whole, shared = case.frame(), _fit(case)
    frames = [whole, whole[whole["passage"] != "p0"].reset_index(drop=True), whole.copy()]
    expected = [shared, _run(case, frames[1]), shared]
    with ThreadPoolExecutor(4) as pool:
        fits = [pool.submit(_run, case, frame) for frame in frames]
        others = [pool.submit(shared.with_cov, groups=None) for _ in frames]
    for found, right in zip(fits, expected, strict=True):
        _assert_same(found.result(), right, 0.0)
    alone = shared.with_cov(groups=None)
    for found in others:
        _assert_same(found.result(), alone, 0.0)


# Boards have ways of their own to average pairs, and an absorbed level may be of one cluster too.
@by_family(also=lambda row: re.search("win rate|absorbed", row["case"].name) is not None)
def test_what_one_cluster_alone_tells_has_no_error_bar(case):
    """The third model in one passage: without that passage there is no estimate of it, so that nothing is known."""
    if case.refuses:
        with pytest.raises((er.errors.DataError, er.errors.NotAvailableError), match=case.refuses):
            _in_one_passage(case)
        return
    results = _in_one_passage(case)
    for cov in ("CR0", "CR1", "CR2", "CR3"):
        _assert_nothing_is_known_of_the_third(case, results.with_cov(cov=cov))


def _assert_nothing_is_known_of_the_third(case, results):
    alone = [name for name in results.params.index if "cyd" in name]
    if not alone:
        # One number of all models still has the other passages.
        assert len(results.params) == 1
        assert results.bse.iloc[0] > 0
        return
    assert results.bse[alone].isna().all()
    assert results.pvalues[alone].isna().all()
    assert any(
        issubclass(kind, er.errors.ZeroVarianceWarning) and "single cluster" in text for kind, text in results.notes
    )
    others = [name for name in results.params.index if "bob" in name and "cyd" not in name]
    if case.name.startswith(("Bradley", "Davidson")):
        # Ratings are measured from the mean of all; the difference of the two others is not.
        assert results.bse[["ada", "bob"]].isna().all()
        assert results.contrast("ada - bob").bse.iloc[0] > 0
    elif "rate" not in case.name:
        assert (results.bse[others] > 0).all()


def _without_each(case, frame, dimension="passage"):
    """Parameters of the case on the rows without each cluster; NaN where there is no estimate."""
    names = _fit(case).params.index
    found = {}
    for label in sorted(frame[dimension].unique()):
        rest = frame[frame[dimension] != label].reset_index(drop=True)
        try:
            params = (case.without or (lambda _, rest: _run(case, rest)))(frame, rest).params
        except er.errors.EvalregError:
            params = pd.Series(dtype=float)
        # The better model comes first, which may be the other one there.
        turned = {" - ".join(reversed(name.split(" - "))): -value for name, value in params.items()}
        found[label] = pd.Series(turned | dict(params)).reindex(names)
    return pd.DataFrame(found).T


def _check_jackknife_of_one_step(results):
    """CR3's where one Newton step stands for solving again, as for boards; else it is refused."""
    if isinstance(results, er.Board):
        _assert_close(results.with_cov(cov="jackknife").bse, results.with_cov(cov="CR3").bse, SAME)
        return
    with pytest.raises(er.errors.NotAvailableError, match="jackknife"):
        results.with_cov(cov="jackknife")


@by_family(also=lambda row: row["case"].without is not None)
def test_a_jackknife_is_that_of_the_rows_without_each_cluster(case):
    if not _fit(case).diagnostics().loc["passage"]["solved"]:
        _check_jackknife_of_one_step(_fit(case))
        return
    results = _fit(case).with_cov(cov="jackknife")
    without = _without_each_passage(case)
    change = without - results.params
    expected = np.sqrt((len(change) - 1) / len(change) * (change**2).sum(axis=0, skipna=False))
    known = expected.notna()
    assert known.any()
    assert results.bse[~known].isna().all()
    _assert_close(results.bse[known], expected[known], SOLVED)


@by_family(also=lambda row: row["case"].without is not None)
def test_parameters_without_a_cluster_are_solved_again_or_said_to_be_one_step(case):
    results = _fit(case)
    row = results.diagnostics().loc["passage"]
    if not row["solved"]:
        _check_jackknife_of_one_step(results)
        return
    without = _without_each_passage(case)
    moved = ((without - results.params).abs() / results.bse.where(results.bse > 0)).max(axis=1)
    assert row["most_influential"] == moved.idxmax()
    _assert_close(pd.Series(row["params_without"]), without.loc[row["most_influential"]], SOLVED)


@of_cases(lambda case: case.weighted is not None)
@by_family(also=lambda row: "as sampled" in row["case"].name)
def test_a_bootstrap_estimates_anew_with_the_weights_that_it_draws(case):
    # An engine has its clusters in the order of their labels.
    frame = case.frame().sort_values("passage", kind="stable", ignore_index=True)
    passage, labels = pd.factorize(frame["passage"])
    [weights] = next(boot_chunks("bayesian", [len(labels)], 3, block_stream(0, 0)))
    for engine in (None, "polars lazy") if case.lazy else (None,):
        prepared = case.prepare(frame)
        results = case.run(prepared if engine is None else LAZY[engine](prepared), "passage", None)
        try:
            drawn = results.bootstrap(draws=3, weights="bayesian", alpha=0.5).draws
        except er.errors.NotAvailableError as refusal:
            assert "bootstrap" in str(refusal)
            continue
        for found, weight in zip(drawn, weights, strict=True):
            anew = case.fit_held(frame, "passage", weight[passage]).params
            if results.estimate.refit.step:
                # One Newton step is nearer to the estimate anew than the estimate is.
                assert np.max(np.abs(found - anew)) < 0.5 * np.max(np.abs(results.params - anew))
            else:
                _assert_close(found, anew, SOLVED)


@by_family(also=lambda row: "as sampled" in row["case"].name)
def test_a_bootstrap_of_a_function_is_the_function_of_its_draws_or_refused(case):
    results = _fit(case)
    C = np.random.default_rng(6).normal(size=(2, len(results.params)))
    with contextlib.suppress(er.errors.NotAvailableError):
        draws = results.bootstrap(draws=9, alpha=0.5).draws
        _assert_close(results.contrast(C, ["c", "d"]).bootstrap(draws=9, alpha=0.5).draws, draws @ C.T, SAME)
        _assert_close(results.transform(np.tanh).bootstrap(draws=9, alpha=0.5).draws, np.tanh(draws), SAME)


def test_a_constant_moves_estimates_and_intervals_alone(case):
    results, k = _fit(case), len(_fit(case).params)
    names, by = list(results.params.index), 0.25 + 0.5 * np.arange(k)
    still, moved = results.contrast(np.eye(k), names), results.contrast(np.eye(k), names, constant=by)
    # A win rate has an interval on the logit scale; a moved one that of its standard error.
    scored = results.cov.widths().scored is not None
    ends = results.conf_int(method="wald") if results.estimate.bounded and not scored else still.conf_int()
    _assert_close(moved.params, results.params + by, SAME)
    _assert_close(moved.bse, results.bse, SAME)
    _assert_close(moved.conf_int(), ends.add(by, axis=0), SAME)
    under = [each.with_cov(cov="CR1").conf_int(method="wald") for each in (moved, still)]
    _assert_close(under[0], under[1].add(by, axis=0), SAME)
    if scored:  # Whose interval any linear function has.
        turned, expected = results.contrast(-2 * np.eye(k), names, constant=1.0), 1 - 2 * results.conf_int()[[1, 0]]
        _assert_close(turned.conf_int(), expected, SAME)
        _assert_close(
            turned.with_cov(cov="CR1").conf_int(), 1 - 2 * results.with_cov(cov="CR1").conf_int()[[1, 0]], SAME
        )
        if results.estimate.bounded:
            _assert_close(results.transform(lambda p: 1 - 2 * p).conf_int(), expected, 1e-8)


BESIDE = {
    "a regression": lambda frame: er.fit("score ~ words", frame, groups="passage"),
    "a ratio": lambda frame: er.ratio(frame, "count", "weight", groups="passage"),
}


@of_cases(lambda case: case.row == "row" and case.per_row == 1)
@by_family(also=lambda row: "ratio" in row["case"].name)
@pytest.mark.parametrize("beside", BESIDE)
def test_beside_another_estimate_dependence_is_its_own_or_not_told(case, beside):
    results, k = _fit(case), len(_fit(case).params)
    other = BESIDE[beside](case.prepare(case.frame()))
    rows, icc = results.to_frame().eval("n_eff * design_effect"), results.dependence().loc["passage", "icc"].to_numpy()
    behind = rows_behind(results.estimate)
    names = [[f"{side}: {name}" for name in each.params.index] for side, each in enumerate((results, other))]
    # As if the two were of other rows.
    below = results.concat(other, names[0] + names[1]).dependence().loc["passage", "icc"][names[0]].to_numpy()
    _assert_close(below[np.isfinite(below)], icc[np.isfinite(below)], SAME)
    for first in (True, False):
        try:
            both = results.stack(other, names[0] + names[1]) if first else other.stack(results, names[1] + names[0])
        except er.errors.NotAvailableError as refusal:
            assert "in memory" in str(refusal)
            return
        found = both.dependence().loc["passage", "icc"][names[0]].to_numpy()
        known = np.isfinite(found)
        _assert_close(found[known], icc[known], SAME)
        # Rows of a mean count by what its weights leave of them, and of anything else all.
        found = both.to_frame().eval("n_eff * design_effect")[names[0]].to_numpy()
        counted = np.full(k, float(results.nobs)) if behind is None else behind
        assert np.all(np.isclose(found, rows, rtol=SAME) | np.isclose(found, counted, rtol=SAME) | np.isnan(found))


@pytest.mark.parametrize("width", [80, 120])
@by_family()
def test_summaries_hold_whole_names_in_lines_of_the_width(case, width):
    results = _fit(case)
    text = results.summary().as_text(width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for name in results.params.index:
        assert _as_said(name) in words
    assert not re.search(r"(?<![\d.e])-0\.?0*(?![\d.])|\bNone\b", words)
