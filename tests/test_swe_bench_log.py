"""Reports of SWE-bench: what is wrong, empty, an error or not tried."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import LogFormatError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

OUTCOMES = ("resolved", "unresolved", "empty_patch", "error", "incomplete")


def report(path, sizes=(5, 8, 2, 3, 4), **more):
    """A report of instances in three repositories, `sizes` of each outcome."""
    ids = iter(f"{name}__{name}-{1000 + i}" for i in range(100) for name in ("django", "sympy", "flask"))
    lists = {f"{name}_ids": [next(ids) for _ in range(size)] for name, size in zip(OUTCOMES, sizes, strict=True)}
    counts = {f"{name}_instances": size for name, size in zip(OUTCOMES, sizes, strict=True) if name != "incomplete"}
    whole = {"total_instances": sum(sizes), "submitted_instances": sum(sizes[:4])} | counts | lists
    path.write_text(json.dumps(whole | {"schema_version": 2} | more, indent=4))
    return path


def test_what_was_not_resolved_is_told_apart(tmp_path):
    path = report(tmp_path / "org__model.run-1.json")
    log = er.read_log(path)
    assert (log.format, log.runs[0].model, log.runs[0].id) == ("swe_bench", "org/model", "run-1")
    assert log.left_out.to_dict() == {"errored": 3, "cancelled": 4}
    assert log.mean(groups="repo").params.iloc[0] == pytest.approx(5 / 15)
    assert log.mean(groups="repo").n_clusters == {"repo": 3}
    assert set(log.frame["repo"]) == {"django/django", "sympy/sympy", "flask/flask"}
    assert 'rate 0.2273 that SWE-bench reports is that of "zero"' in log.notes[0]


def test_with_failures_as_zero_the_mean_is_the_report_s_own_rate(tmp_path):
    log = er.read_log(report(tmp_path / "m.run.json"), failed="zero")
    own = log.runs[0].details["reported"]
    assert log.mean().params.iloc[0] == pytest.approx(own["resolved_instances"] / own["total_instances"])


def test_two_reports_are_compared_over_the_instances_that_both_tried(tmp_path):
    report(tmp_path / "a.run.json")
    report(tmp_path / "b.run.json", sizes=(9, 4, 2, 3, 4))
    table = er.read_log(tmp_path).compare(groups="repo").table
    assert table["n"].iloc[0] == 15
    np.testing.assert_allclose(table["difference"].abs().iloc[0], 4 / 15)


def test_reports_that_contradict_themselves_are_refused(tmp_path):
    path = report(tmp_path / "m.run.json", resolved_instances=50)
    with pytest.raises(LogFormatError, match="counts 50 as resolved and lists 5"):
        er.read_log(path)
    assert len(er.read_log(path, broken="skip").frame) == 15
    for name in OUTCOMES:
        report(path, **{f"{name}_ids": None, f"{name}_instances": 0})
        with pytest.raises(LogFormatError, match=f"no list {name}_ids"):
            er.read_log(path, broken="skip")
    report(path, error_ids=["django__django-1000", "x-1", "x-2"])
    with pytest.raises(LogFormatError):
        er.read_log(path)
