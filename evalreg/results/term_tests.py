"""Joint tests of the terms of a formula."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction
from evalreg.covariance.covariance import Covariance
from evalreg.errors import NotAvailableError, TooFewClustersError, issue
from evalreg.estimate import Estimate
from evalreg.inference.wald import NO_DOF, JointTest, critical_value, few_notes, joint_test, joint_test_p
from evalreg.results.fitted import design_info

COLUMNS = ("F", "df_num", "df_denom", "p_value", "critical", "reason")


def term_tests(estimate: Estimate, cov: Covariance, alpha: float) -> pd.DataFrame:
    """The table of `wald_test_terms`: for each term the test that all its coefficients are zero."""
    fraction("alpha", alpha)
    info = None if estimate.fitted is None or estimate.absorbed is not None else design_info(estimate.fitted().model)
    if info is None:
        raise NotAvailableError(
            "tests by term need a formula and its fit: results of `fit` without absorbed factors, or of "
            "`from_statsmodels` by formula (contrasts, copies, unpickled results and fits of rows in an engine hold "
            "none). `wald_test` takes any coefficients by name."
        )
    unit = np.eye(estimate.n_params)
    tests = {name: _tested(estimate, cov, unit[part]) for name, part in info.term_name_slices.items()}
    issue([(kind, f'term "{name}": {text}') for name, test in tests.items() for kind, text in few_notes(test)])
    rows = {name: _row(test, alpha) for name, test in tests.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS))


def _tested(estimate: Estimate, cov: Covariance, C: FloatArray) -> JointTest:
    """The joint test, with the reason where clusters are too few for any."""
    try:
        return joint_test(estimate, cov, C)
    except TooFewClustersError:
        q, dof = C.shape[0], float(cov.smallest_dof)
        text = f"{dof:.3g} {NO_DOF} {q} contrasts jointly"
        return JointTest(float("nan"), q, float("nan"), text)


def _row(test: JointTest, alpha: float) -> tuple[float | int | str, ...]:
    """One row: F with its reference, its p-value, and the F from which it is significant."""
    q, dof, F = test.df_num, test.df_denom, test.statistic
    return F, q, dof, joint_test_p(test), critical_value(q, dof, alpha), test.reason
