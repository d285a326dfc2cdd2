"""Lines of Stata and R that give the standard errors of results; the calls are those of tests/reference/again.R."""

import numpy as np
import pytest

import evalreg as er

LOG = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
LOG["judge"] = np.arange(len(LOG)) % 9
FIT = "fit <- lm(score ~ {}, data = log)\n"
CL = "lmtest::coeftest(fit, vcov = sandwich::vcovCL(fit, cluster = ~ {}, type = {}), df = {})"
CR = 'clubSandwich::coef_test(fit, vcov = "{}", cluster = with(log, passage), test = "{}")'
LINES = {
    "a mean": (
        {"groups": "passage"},
        None,
        "regress score, vce(hc2 passage, dfadjust)",
        FIT.format("1") + CR.format("CR2", "Satterthwaite"),
    ),
    "degrees of freedom by counting clusters": (
        {"groups": "passage", "dof": "min"},
        "score ~ 1",
        "regress score, vce(hc2 passage)",
        FIT.format("1") + CR.format("CR2", "naive-t"),
    ),
    "a regression": (
        {"groups": "passage", "cov": "CR1", "dof": "normal"},
        "score ~ n_words",
        "regress score n_words, vce(cluster passage)",
        FIT.format("n_words") + CL.format("passage", '"HC1"', "Inf"),
    ),
    "labels": (
        {"groups": "passage", "cov": "CR3"},
        "score ~ subject",
        "egen subject_code = group(subject), label\nregress score i.subject_code, vce(jackknife, mse cluster(passage))",
        FIT.format("factor(subject)") + CL.format("passage", '"HC3", cadjust = FALSE', 39),
    ),
    "crossed": (
        {"groups": "subject + judge", "cov": "CR1", "repair": "none"},
        "score ~ n_words",
        "vcemway regress score n_words, cluster(subject judge)",
        FIT.format("n_words") + CL.format("subject + judge", '"HC1"', 3),
    ),
    "rows": (
        {"cov": "HC3"},
        "score ~ n_words",
        "regress score n_words, vce(hc3)",
        FIT.format("n_words") + 'lmtest::coeftest(fit, vcov = sandwich::vcovHC(fit, "HC3"))',
    ),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_the_line_of_another_program_is_the_call_that_its_reference_values_come_from(name):
    options, formula, stata, r = LINES[name]
    results = er.mean(LOG, **options) if formula is None else er.fit(formula, LOG, **options)
    assert results.to_stata() == stata
    assert results.to_r() == r


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_where_no_line_gives_a_number_a_sentence_says_why():
    for results, why in (
        (er.fit("score ~ np.log(n_words)", LOG, groups="passage"), "written otherwise there"),
        (er.mean(LOG, groups="passage + judge"), "no command has CR2 by passage + judge"),
        (er.mean(LOG, weights="n_words"), "weighted"),
        (er.mean(LOG, item="passage", sample="question"), "put together"),
        (er.mean(LOG, subset="n_words > 200"), "subset"),
    ):
        for said in (results.to_stata(), results.to_r()):
            assert said.startswith("No line of")
            assert why in said
