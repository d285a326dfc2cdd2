"""Every check of the contract finds the estimator that breaks its promise."""

from __future__ import annotations

import importlib.util
import inspect
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.estimate import About
from evalreg.estimators.cells import Linearized, linearized_estimate, split_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
]


def _load_contract():
    spec = importlib.util.spec_from_file_location("contract_checks", Path(__file__).with_name("test_contract.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


contract = _load_contract()
Case, log = contract.cases.Case, contract.cases.log
CHECKS = {name: check for name, check in vars(contract).items() if name.startswith("test_")}


def honest(data, groups, weights):
    return er.mean(data, by="model", groups=groups, weights=weights)


def geometric(data, groups, weights, *, exact):
    """Geometric means by model; without a cluster they change by more than their influence says."""
    split = split_rows(data, {"score": "score"}, "model", groups, weights, "drop", "geometric mean")
    logs = np.log(split.rows.values["score"])
    means = split.total(logs) / split.total(np.ones(split.n_rows))
    params = np.exp(means)
    influence = (params[split.codes]) * (logs - means[split.codes])
    found = Linearized(params, influence, np.ones(split.n_rows), exact=exact, bounded=False)
    estimate = linearized_estimate(split, found, About("Geometric mean by model", "score"), "score")
    return er.infer(estimate, groups=split.rows.axes and [*map(":".join, split.rows.axes)])


def falsely_exact(data, groups, weights):
    return geometric(data, groups, weights, exact=True)


def one_step(data, groups, weights):
    return geometric(data, groups, weights, exact=False)


class Forged:
    """Results some of whose attributes are put through a function, under every covariance."""

    def __init__(self, results: er.Results, forge: dict[str, Callable[[Any], Any]]) -> None:
        self._results, self._forge = results, forge

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_results", "_forge"):
            raise AttributeError(name)
        value = getattr(self._results, name)
        if name == "with_cov":
            return lambda **options: Forged(value(**options), self._forge)
        return self._forge.get(name, lambda given: given)(value)


class Uncopied(Forged):
    """Forged results whose copies are the honest ones."""

    def __reduce__(self):
        return (_given, (self._results,))


class Itself(Forged):
    """Results whose copies still hold the data."""

    def __copy__(self):
        return self


def _given(results):
    return results


def forged(kind: type[Forged] = Forged, **forge: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda data, groups, weights: kind(honest(data, groups, weights), forge)


def returning(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A method whose value is changed."""
    return lambda method: lambda *args, **options: change(method(*args, **options))


def rebuilt(**change: Callable[[er.Estimate], Any]) -> Callable[..., Any]:
    """Results of the honest estimate with some of its fields made anew."""

    def run(data, groups, weights):
        estimate = honest(data, groups, weights).estimate
        changed = replace(estimate, **{name: make(estimate) for name, make in change.items()})
        return er.infer(changed, groups=groups)

    return run


def on(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[..., Any]:
    """The honest estimate of other rows."""
    return lambda data, groups, weights: honest(change(data), groups, weights)


def _shifted(results, by):
    return Forged(results, {"params": lambda params: params + by})


def _weights_off_one(data, groups, weights):
    return _shifted(honest(data, groups, weights), 0.0 if weights is None else 1e-3)


def _sum_of_weights(data, groups, weights):
    return _shifted(honest(data, groups, weights), 0.0 if weights is None else 1e-3 * float(np.sum(weights)))


def _few_of_crossed(data, groups, weights):
    results = honest(data, groups, weights)
    return results.with_cov(cov="CR1", repair="none", dof="normal") if isinstance(groups, list) else results


def _coarsest(data, groups, weights):
    return honest(data, "passage" if groups is not None else None, weights)


def _in_place(data, groups, weights):
    results = honest(data, groups, weights)
    data["score"] = data["score"].clip(0.1, 0.9)
    return results


def _by_groups(data, groups, weights):
    return _shifted(honest(data, groups, weights), 0.0 if groups == "passage" else 1e-3)


def _other_labels(data, groups, weights):
    return honest(data, groups if isinstance(groups, str | list) else "question", weights)


def _holds_the_frame(data, groups, weights):
    return Forged(honest(data, groups, weights), {"params": lambda params: params + data["score"].iloc[0]})


def _by_type(data, groups, weights):
    return _shifted(honest(data, groups, weights), 1e-3 * (data["score"].dtype == object))


def _cut_covariate(data, groups, weights):
    return er.fit("score ~ words", data.assign(words=data["words"].clip(-9, 9)), groups=groups, weights=weights)


def _whole_covariate(data, groups, weights):
    return er.fit("score ~ words", data, groups=groups, weights=weights)


def _by_engine(data, groups, weights):
    return _shifted(honest(data, groups, weights), 1e-3 * (not isinstance(data, pd.DataFrame)))


def _without_an_id_is_a_cluster(data, groups, weights):
    return honest(data.assign(passage=data["passage"].fillna("none")), groups, weights)


def _no_such_clusters(data, groups, weights):
    return honest(data, groups if groups in data else None, weights)


def _one_cluster_is_none(data, groups, weights):
    alone = groups == "passage" and data["passage"].nunique() == 1
    return honest(data, None if alone else groups, weights)


_shared: dict[str, Any] = {}


def _left_lying_about(data, groups, weights):
    _shared["data"] = data
    time.sleep(0.02)
    return honest(_shared["data"], groups, weights)


def _clipped(data, groups, weights):
    return honest(data.assign(score=data["score"].clip(0, 1)), groups, weights)


def _blindly_split(data, groups, weights):
    """Weights are used, and every row counts as one besides."""
    results = honest(data, groups, weights)
    return _shifted(results, 1e-3 * len(data))


@dataclass(frozen=True)
class Lie:
    """An estimator that breaks a promise, and the check that has to find it."""

    check: str
    run: Callable[..., Any]
    facts: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    truth: Callable[..., Any] | None = honest

    def tell(self, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
        """Put an estimator to the check."""
        check, arguments = CHECKS[self.check], dict(self.arguments)
        if "monkeypatch" in inspect.signature(check).parameters:
            arguments["monkeypatch"] = monkeypatch
        check(Case(self.check, run, log, **{"cells": ("model",), "weighted": run, **self.facts}), **arguments)


LIES = [
    Lie("test_influence_is_the_derivative_with_respect_to_row_weight", rebuilt(bread=lambda e: 2 * e.bread)),
    Lie(
        "test_influence_is_the_derivative_with_respect_to_row_weight",
        lambda data, groups, weights: honest(data, groups, None),
    ),
    Lie("test_an_axis_of_noise_adds_no_certainty", _few_of_crossed),
    Lie("test_weights_of_one_change_nothing", _weights_off_one),
    Lie("test_splitting_rows_changes_nothing", _blindly_split),
    Lie("test_influence_sums_to_zero", rebuilt(scores=lambda e: replace(e.scores, fitted=e.scores.fitted + 0.1))),
    Lie("test_row_influence_names_positions_in_the_data", on(lambda frame: frame.iloc[3:])),
    Lie(
        "test_outer_products_of_cluster_influence_add_up_to_cr0",
        forged(cov_params=returning(lambda V: 1.01 * V)),
        arguments={"groups": "passage"},
    ),
    Lie(
        "test_row_order_changes_nothing",
        on(lambda frame: frame.iloc[:40]),
        arguments={"groups": "passage", "cov": "CR1"},
    ),
    Lie("test_relabelling_clusters_changes_nothing", on(lambda frame: frame[frame["passage"] != "p0"])),
    Lie(
        "test_relabelling_models_changes_nothing_but_names",
        on(lambda frame: frame.assign(score=frame["score"] + (frame["model"] == "ada"))),
    ),
    Lie(
        "test_each_row_its_own_cluster_is_the_naive_covariance",
        forged(cov_params=returning(lambda V: V * (1.01 if V.size else 1))),
    ),
    Lie(
        "test_a_nested_clustering_changes_nothing_and_warns",
        _coarsest,
        arguments={"nesting": "question + passage", "cov": "CR1"},
    ),
    Lie("test_arguments_stay_as_they_are", _in_place),
    Lie(
        "test_summaries_come_in_every_format_and_fit_the_terminal",
        forged(summary=returning(lambda text: "x" * 81)),
        arguments={"groups": None, "form": "text"},
    ),
    Lie("test_long_names_are_cut_to_fit_the_terminal", forged(summary=returning(lambda text: "x" * 81))),
    Lie(
        "test_copies_and_pickles_give_the_same_numbers",
        forged(Uncopied, params=lambda params: params + 1e-3),
        arguments={"again": contract._pickled},
    ),
    Lie("test_copies_say_that_other_clusterings_need_another_fit", forged(Itself)),
    Lie("test_another_covariance_is_the_one_of_another_fit", _by_groups),
    Lie("test_groups_by_array_series_and_dict_are_the_column", _other_labels),
    Lie("test_changes_of_the_frame_after_the_fit_change_nothing", _holds_the_frame),
    Lie("test_numbers_as_objects_are_numbers", _by_type),
    Lie(
        "test_units_of_covariates_change_nothing",
        _cut_covariate,
        facts={"covariate": "words", "cells": ()},
        arguments={"groups": None, "unit": 1e8},
        truth=_whole_covariate,
    ),
    Lie(
        "test_another_unit_of_the_outcome_is_that_of_the_parameters",
        _clipped,
        facts={"outcome": ("score",)},
        arguments={"unit": 1e6},
    ),
    Lie("test_the_sum_of_weights_changes_nothing", _sum_of_weights),
    Lie(
        "test_every_engine_gives_the_numbers_of_pandas_or_is_refused",
        _by_engine,
        facts={"lazy": True},
        arguments={"engine": "polars lazy", "groups": None},
    ),
    Lie(
        "test_every_engine_gives_the_numbers_of_pandas_or_is_refused",
        _by_engine,
        arguments={"engine": "pyarrow", "groups": None},
    ),
    # What says that it takes rows in memory only, and does not refuse the others.
    Lie(
        "test_every_engine_gives_the_numbers_of_pandas_or_is_refused",
        honest,
        arguments={"engine": "polars lazy", "groups": None},
        truth=None,
    ),
    Lie("test_rows_without_a_cluster_are_dropped_and_counted", _without_an_id_is_a_cluster),
    Lie("test_a_column_that_is_not_there_is_named_with_the_nearest", _no_such_clusters),
    Lie("test_one_cluster_is_refused", _one_cluster_is_none),
    Lie("test_threads_do_not_meet", _left_lying_about),
    Lie("test_what_one_cluster_alone_tells_has_no_error_bar", forged(bse=lambda bse: bse.fillna(0.0))),
    Lie("test_a_jackknife_is_that_of_the_rows_without_each_cluster", falsely_exact, truth=one_step),
    Lie("test_parameters_without_a_cluster_are_solved_again_or_said_to_be_one_step", falsely_exact, truth=one_step),
    Lie(
        "test_a_bootstrap_estimates_anew_with_the_weights_that_it_draws",
        forged(bootstrap=returning(lambda boot: replace(boot, draws=boot.draws + 0.01))),
    ),
    Lie(
        "test_a_bootstrap_of_a_function_is_the_function_of_its_draws_or_refused",
        forged(transform=lambda method: lambda function: method.__self__),
    ),
    Lie(
        "test_a_constant_moves_estimates_and_intervals_alone",
        forged(contrast=lambda method: lambda matrix, names, constant=0.0: method(matrix, names)),
    ),
    Lie(
        "test_beside_another_estimate_dependence_is_its_own_or_not_told",
        forged(dependence=returning(lambda table: table.assign(icc=table["icc"] + 0.1))),
        arguments={"beside": "a ratio"},
    ),
    Lie(
        "test_summaries_hold_whole_names_in_lines_of_the_width",
        forged(params=lambda params: params.rename(lambda name: f"{name} by another name")),
        arguments={"width": 80},
    ),
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.check.removeprefix("test_"))
def test_a_lie_is_found_and_nothing_else(lie, monkeypatch):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        lie.tell(lie.run, monkeypatch)
    if lie.truth is not None:
        # Without the lie the same check passes.
        lie.tell(lie.truth, monkeypatch)


def test_every_check_has_its_lie():
    assert {lie.check for lie in LIES} == set(CHECKS)


def _takes_data_and_gives_results(name):
    function = getattr(er, name)
    if not inspect.isfunction(function):
        return False
    signature = inspect.signature(function)
    return "data" in signature.parameters and signature.return_annotation in ("Results", "Board", "Comparison")


def test_every_public_estimator_is_under_contract():
    called = set(re.findall(r"\ber\.(\w+)", Path(contract.cases.__file__).read_text(encoding="utf-8")))
    assert {name for name in er.__all__ if _takes_data_and_gives_results(name)} - called == set()
