"""What is refused says the right word, and following it works."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import evalreg as er
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    CollinearityError,
    FormulaError,
    MissingColumnError,
    UnknownLabelError,
)
from evalreg.hints import ATTRIBUTES, COVARIANCES

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

LOG = er.datasets.paired(n_passages=20, questions_per_passage=4, seed=1)
BOARD = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)


@pytest.mark.parametrize(
    ("call", "ours"),
    [
        (lambda **k: er.fit("score ~ 1", LOG, **k), {"cluster": "groups", "vcov": "cov", "cov_type": "cov"}),
        (lambda **k: er.fit("score ~ 1", LOG, **k), {"cluster_col": "groups", "se_type": "cov", "weight": "weights"}),
        (lambda **k: er.mean(LOG, **k), {"clusters": "groups", "models": "by", "question": "item", "ddof": "dof"}),
        (lambda **k: er.compare(LOG, **k), {"cluster": "groups", "models": "model", "by": "model", "epoch": "sample"}),
        (
            lambda **k: er.win_rate(BOARD, left="left", right="right", **k),
            {"cluster": "groups", "outcome": "winner", "model_a": "left"},
        ),
        (lambda **k: er.bradley_terry(BOARD, left="left", right="right", **k), {"baseline": "reference"}),
        (lambda **k: er.covariance(er.mean(LOG).estimate, "passage", **k), {"cov_type": "cov"}),
        (lambda **k: er.plan.sample_size(**k), {"mde": "delta"}),
    ],
)
def test_a_keyword_of_another_package_is_named_as_it_is_here(call, ours):
    for theirs, name in ours.items():
        with pytest.raises(TypeError, match=f"no keyword `{theirs}`; it is called `{name}` here") as caught:
            call(**{theirs: "x"})
        assert isinstance(caught.value, ArgumentTypeError)


def test_other_keywords_say_where_to_go():
    with pytest.raises(TypeError, match=re.escape("results.conf_int(alpha=0.05)")):
        er.mean(LOG, alpha=0.1)
    with pytest.raises(TypeError, match='models go into the formula, as in "score ~ C'):
        er.fit("score ~ 1", LOG, by="model")
    with pytest.raises(TypeError, match='Did you mean "strata"'):
        er.mean(LOG, startaa="x")
    with pytest.raises(TypeError, match="It has"):
        er.mean(LOG, zzz="x")


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


def test_what_has_no_counterpart_says_so():
    with pytest.raises(TypeError, match="Errors of one variance for all rows are not offered"):
        er.fit("score ~ 1", LOG, vcov="iid")
    with pytest.raises(TypeError, match=re.escape('data.loc[data.index.repeat(data["w"])]')):
        er.fit("score ~ 1", LOG, freq_weights="w")
    with pytest.raises(TypeError, match="it is called `weights` here"):
        er.fit("score ~ 1", LOG, var_weights="w")
    for theirs in ({"vcov": {"CRV1": "passage"}}, {"vcov": "~passage"}, {"cov_type": "cluster"}):
        with pytest.raises(TypeError, match=r'is called `cov` here\. Name the clusters in `groups`; that is cov="CR1"'):
            er.fit("score ~ 1", LOG, **theirs)
    with pytest.raises(ArgumentError, match='Name the clusters in `groups`; that is cov="CR1"'):
        er.fit("score ~ 1", LOG, cov={"CRV1": "passage"})
    with pytest.raises(TypeError, match="the link is part of the family"):
        er.fit("score ~ 1", LOG, link="probit")
    with pytest.raises(TypeError, match=r'`with_cov` has no keyword `zzz`\. It has "groups"'):
        er.mean(LOG).with_cov(zzz=1)
    with pytest.raises(TypeError, match="it is called `groups` here"):
        er.compare(LOG, item="question").with_cov(cluster="passage")


def test_a_number_is_no_contrast_and_a_confidence_no_alpha():
    results = er.mean(LOG, by="model", item="question")
    for value in (0.3, 1, np.float64(0.3)):
        with pytest.raises(ArgumentError, match='To test a value write "new = '):
            results.t_test(value)
    advice = re.search(r'write "([^"]+)"', str(_raised(lambda: results.t_test(0.3)))).group(1)
    assert results.t_test(advice).effect[0] == pytest.approx(results.params["new"])
    for alpha in (0.9, 0.95):
        for call in (results.conf_int, results.summary, results.simultaneous, lambda alpha: results.ranks(alpha=alpha)):
            with pytest.raises(ArgumentError, match=f"pass alpha={1 - alpha:.4g}"):
                call(alpha=alpha)


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


@pytest.mark.parametrize("formula", ["length", "1", "length + other"])
@pytest.mark.parametrize("function", [er.bradley_terry, er.controlled_win_rate])
def test_a_star_without_a_position_in_the_formula_says_whose_it_is(function, formula):
    rng = np.random.default_rng(3)
    star = pd.DataFrame(
        {
            "model": np.repeat(["a", "b", "c"], 60),
            "base": "z",
            "prompt": np.tile(np.arange(60), 3),
            "score": rng.integers(0, 2, 180),
            "length": rng.normal(size=180),
            "other": rng.normal(size=180),
        }
    )
    sides = {"left": "model", "right": "base", "score": "score", "groups": "prompt"}
    with pytest.raises(CollinearityError, match="unless it says 0") as caught:
        function(star, **sides, formula=formula)
    found = re.search('formula="([^"]+)"', str(caught.value))
    if formula == "1":
        assert "Leave out `formula`" in str(caught.value)
    else:
        assert function(star, **sides, formula=found.group(1)).params.notna().all()


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
    ("family", "ours"), [("logit", "binomial"), ("Bernoulli", "binomial"), ("ols", "gaussian"), ("ppml", "poisson")]
)
def test_families_by_other_names_say_which_to_write(family, ours):
    log = agent()
    with pytest.raises(ArgumentError, match=f'Write family="{ours}"'):
        er.fit("reward ~ x", log, groups="task", family=family)
    er.fit("reward ~ x", log, groups="task", family=ours)


def test_a_probit_is_a_family_of_statsmodels():
    import statsmodels.api as sm

    log = agent()
    with pytest.raises(ArgumentError) as caught:
        er.fit("reward ~ x", log, groups="task", family="probit")
    code = re.search(r"Write family=(.+)\.$", str(caught.value)).group(1)
    found = er.fit("reward ~ x", log, groups="task", family=eval(code, {"sm": sm}))
    np.testing.assert_allclose(found.params, smf.probit("reward ~ x", log).fit(disp=0).params, rtol=1e-6)


@pytest.mark.parametrize("keyword", ["se_type", "vcov", "cov_type"])
def test_our_own_covariance_under_a_foreign_keyword_is_kept(keyword):
    error = _raised(lambda: er.fit("reward ~ x", agent(), groups="task", **{keyword: "cr2"}))
    assert 'Write cov="CR2"' in str(error)
    error = _raised(lambda: er.fit("reward ~ x", agent(), **{keyword: "HAC"}))
    assert "name in `groups` the clusters within which rows depend" in str(error)


def test_a_population_is_asked_of_means():
    error = _raised(lambda: er.fit("reward ~ x", agent(), target="the full benchmark", n_population=400))
    assert "`er.mean(data, score, target=...)`" in str(error)


@pytest.mark.parametrize(
    ("formula", "what"),
    [
        ("reward ~ i(kind)", r"Write C\(kind\)"),
        ("reward ~ factor(kind) + x", r"Write C\(kind\)"),
        ("reward ~ x | lot^kind", r'Write "\| lot:kind"'),
        ("reward ~ offset(x)", "er.from_statsmodels"),
        ("reward ~ csw(x, lot)", "er.table"),
        ("reward ~ 1 | lot | x ~ trial", "er.from_influence"),
    ],
)
def test_formulas_of_fixest_and_r_say_what_to_write(formula, what):
    log = agent()
    with pytest.raises(FormulaError, match=what):
        er.fit(formula, log, groups="task")
    assert er.fit("reward ~ x | lot:kind", log, groups="task").params.index.tolist() == ["x"]


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


def test_an_offset_is_brought_from_statsmodels():
    import statsmodels.api as sm

    log = agent()
    fitted = smf.glm("reward ~ x", log, family=sm.families.Poisson(), offset=log["trial"] / 9).fit()
    expected = smf.glm("reward ~ x", log, family=sm.families.Poisson(), offset=log["trial"] / 9).fit(
        cov_type="cluster", cov_kwds={"groups": log["task"]}
    )
    found = er.infer(er.from_statsmodels(fitted), groups=log["task"], cov="CR1")
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-8)


def test_a_log_of_one_model_says_how_it_is_read():
    log = agent()
    for call in (er.noise, er.plan.components):
        with pytest.raises(MissingColumnError, match="If all rows are of one model, write model=None"):
            call(log, "reward", item="task", sample="trial")
        call(log, "reward", model=None, item="task", sample="trial")
        with pytest.raises(MissingColumnError, match=r'`item` names "question", which is not a column[^N]*$'):
            call(log, "reward", model=None, item="question", sample="trial")


def test_prompts_of_judges_are_the_other_clustering_of_the_board():
    log = er.datasets.judge_log(n_models=4, n_prompts=30, seed=1)
    sides = {"left": "left", "right": "right", "winner": "winner"}
    board = er.win_rate(log, **sides, groups="prompt + judge")
    renamed = log.rename(columns={"prompt": "question"})
    found = er.win_rate(renamed, **sides, groups="question + judge").judges()
    pd.testing.assert_frame_equal(found.variance, board.judges().variance)
    assert found.prompt == "question"
    with pytest.raises(MissingColumnError, match='`prompt` names "prompt"'):
        er.win_rate(renamed, **sides, groups="judge").judges()


def test_an_influence_without_an_outcome_is_not_of_anything():
    found = er.infer(er.from_influence([0.0], np.array([[1.0], [-1.0]]) / 2))
    assert "not given" not in repr(found)


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


def test_a_comparison_says_what_its_results_have():
    comparison = er.compare(er.datasets.paired(n_passages=20, seed=1), item="question", groups="passage")
    for name in ("conf_int", "params", "bse", "pvalues", "t_test", "pairwise"):
        with pytest.raises(AttributeError, match=rf"it is `comparison\.results\.{name}` here"):
            getattr(comparison, name)
    with pytest.raises(AttributeError, match=r"it is `comparison\.results\.params` here"):
        _ = comparison.coef
    with pytest.raises(AttributeError, match=r"it is `comparison\.to_frame\(\)\.to_csv\(path\)` here"):
        _ = comparison.to_csv
    assert copy.copy(comparison).table.equals(comparison.table)
    assert copy.deepcopy(comparison.results).params.equals(comparison.results.params)
    assert pickle.loads(pickle.dumps(comparison)).table.equals(comparison.table)
