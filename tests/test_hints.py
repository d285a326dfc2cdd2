"""What is refused says the right word, and following it works."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.checks import ATTRIBUTES, COVARIANCES
from evalreg.errors import ArgumentError, ArgumentTypeError, FormulaError, UnknownLabelError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

LOG = er.datasets.paired(n_passages=20, questions_per_passage=4, seed=1)
BOARD = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)


@pytest.mark.parametrize(
    ("call", "ours"),
    [
        (lambda **k: er.fit("score ~ 1", LOG, **k), {"cluster": "groups", "vcov": "cov", "cov_type": "cov"}),
        (
            lambda **k: er.fit("score ~ 1", LOG, **k),
            {"cov_kwds": "groups", "se_type": "cov", "use_correction": "ssc", "use_t": "dof"},
        ),
        (lambda **k: er.mean(LOG, **k), {"clusters": "groups", "models": "by", "question": "item"}),
        (lambda **k: er.compare(LOG, **k), {"cluster": "groups", "models": "model", "by": "model", "epochs": "sample"}),
        (lambda **k: er.win_rate(BOARD, left="left", right="right", **k), {"cluster": "groups", "outcome": "winner"}),
        (lambda **k: er.covariance(er.mean(LOG).estimate, "passage", **k), {"cov_type": "cov"}),
    ],
)
def test_a_keyword_of_another_package_is_named_as_it_is_here(call, ours):
    for theirs, name in ours.items():
        with pytest.raises(TypeError, match=f"no keyword `{theirs}`; it is called `{name}` here") as caught:
            call(**{theirs: "x"})
        assert isinstance(caught.value, ArgumentTypeError)


@pytest.mark.parametrize("name", [n for n in er.__all__ if inspect.isfunction(getattr(er, n))])
def test_functions_keep_their_signatures_and_refuse_what_they_do_not_have(name):
    function = getattr(er, name)
    parameters = inspect.signature(function).parameters
    assert function.__doc__
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    with pytest.raises(ArgumentTypeError, match=f"`{name}` has no keyword `qqq`"):
        function(qqq=1)


@pytest.mark.parametrize("cov", ["cluster", "nonrobust", "robust", "CRV1"])
def test_a_covariance_of_another_package_is_explained(cov):
    for groups in (None, "passage"):
        with pytest.raises(ArgumentError) as caught:
            er.fit("score ~ 1", LOG, groups=groups, cov=cov)
        assert COVARIANCES[cov.lower()] in str(caught.value)


def _raised(call):
    with pytest.raises(er.errors.EvalregError) as caught:
        call()
    return caught.value


def test_labels_that_are_offered_name_every_verdict_and_are_taken():
    log = BOARD.assign(winner=BOARD["winner"].map({"left": "A", "right": "B", "tie": "C"}))
    log.loc[log.index[:5], "winner"] = "error"
    sides = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
    error = _raised(lambda: er.win_rate(log, **sides))
    assert isinstance(error, UnknownLabelError)
    assert error.labels == {"A": "left", "B": "right", "C": "tie", "error": None}
    assert repr(error.labels) in str(error)
    assert er.win_rate(log, **sides, labels=error.labels).dropped["score"] == 5


def agent(seed=5):
    """Trials at tasks, of which two tell the seed apart."""
    rng = np.random.default_rng(seed)
    log = pd.DataFrame({"task": np.repeat(np.arange(30), 4), "trial": np.tile(np.arange(4), 30)})
    return log.assign(
        reward=rng.integers(0, 2, 120) * 1.0,
        x=rng.normal(size=120),
        kind=rng.choice(list("abc"), 120),
        lot=log["task"] % 5,
    )


@pytest.mark.parametrize(
    "term", ["poly(x, 2)", "s(x)", "ns(x, 3)", "i.kind", "c.x", "i.kind*c.x", "factor(kind)", "(1 | lot)", "(1|lot)"]
)
def test_what_the_error_of_a_term_of_r_or_stata_says_to_write_can_be_fitted(term):
    log = agent()
    error = _raised(lambda: er.fit(f"reward ~ trial + {term}", log, groups="task"))
    assert isinstance(error, FormulaError)
    if "|" in term:
        assert "name lot in `groups`" in str(error)
        advice, formula = "", "reward ~ trial | lot"
        assert '"score ~ x | lot"' in str(error)
    else:
        found = re.search(r"Write (.*?)(?:, for instance|\. A formula| for Stata)", str(error))
        assert found is not None
        advice, formula = found[1], f"reward ~ trial + {found[1]}"
    assert er.fit(formula, log, groups="task").params.size > 1 or not advice


def test_attributes_of_other_packages_say_what_they_are_called_here():
    results = er.fit("reward ~ x + kind", agent(), groups="task")
    assert not hasattr(results, "f_test")
    for name, ours in ATTRIBUTES.items():
        if name in dir(er.Results):
            continue
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'; it is `results\.") as raised:
            getattr(results, name)
        said = re.search(r"`results\.(\w+)(?:\.(\w+))?", str(raised.value))
        assert said is not None
        found = getattr(results, said[1])
        # What statsmodels has of the fit it has under that name.
        assert ours != "statsmodels" or getattr(found, said[2]) is not None
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        _ = results.nonsense
    # A property that fails says why itself.
    with pytest.raises(AttributeError, match="exists for results of `fit`"):
        _ = er.mean(agent(), "reward", groups="task").statsmodels


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: er.quantile(LOG, score=LOG), "`score` must be str; got DataFrame"),
        (lambda: er.table(3), "`results` must be .*; got int"),
        (lambda: er.read_log(er.Log(LOG)), "`path` must be .*; got Log"),
        (lambda: er.components(LOG, facets="model x question", seed="a"), "`seed` must be int or Generator; got str"),
        (lambda: er.ratio(LOG), "missing a required argument: 'numerator'"),
        (lambda: er.Log([LOG]), "`data` must be a data frame .*; got list"),
        (lambda: er.by_eval(er.mean, LOG.itertuples(), {}), "`data` must be a data frame .*; got map"),
    ],
)
def test_an_argument_of_another_type_is_refused_by_its_name(call, words):
    with pytest.raises(ArgumentTypeError, match=words):
        call()


def test_a_comparison_says_what_its_results_have():
    comparison = er.compare(er.datasets.paired(n_passages=20, seed=1), item="question", groups="passage")
    for name in ("conf_int", "params", "bse", "pvalues", "t_test", "pairwise", "notes", "cov"):
        with pytest.raises(AttributeError, match=rf"it is `comparison\.results\.{name}` here"):
            getattr(comparison, name)
    with pytest.raises(AttributeError, match=r"it is `comparison\.results\.params` here"):
        _ = comparison.coef
    with pytest.raises(AttributeError, match=r"it is `comparison\.to_frame\(\)\.to_csv\(path\)` here"):
        _ = comparison.to_csv
    assert copy.copy(comparison).table.equals(comparison.table)
    assert copy.deepcopy(comparison.results).params.equals(comparison.results.params)
    assert pickle.loads(pickle.dumps(comparison)).table.equals(comparison.table)
