"""What a board says about models that meet under few clusters: its sparsity, and what its ranks rest on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from evalreg.covariance.covariance import Covariance
from evalreg.covariance.special import TOO_FEW_EFFECTIVE, sparsity
from evalreg.data.clusters import find_axis
from evalreg.errors import NotAvailableError
from evalreg.results.multiple_models import Together
from evalreg.results.results import Results


def sparsity_table(board: Results, dimension: str | None) -> pd.DataFrame:
    """The table of `Board.sparsity`, one row a parameter."""
    axes = board.cov.axes or board.axes
    if board.estimate.cells is None or not axes:
        raise NotAvailableError("`sparsity` is of win rates with `groups`: it tells how prompts share the comparisons.")
    axis = max(axes, key=board.estimate.scores.n_clusters) if dimension is None else find_axis(dimension, axes)
    found = sparsity(board.estimate, axis)
    columns = {
        "concentration": found.concentration,
        "effective_clusters": found.effective,
        "largest_share": found.largest_share,
        "single": found.single,
    }
    return pd.DataFrame(columns, index=list(board.estimate.names))


def of_models(board: Results, cov: Covariance) -> Together:
    """Parameters of the models alone, without covariates, and their covariance."""
    names, n_models = board.estimate.names, board.estimate.about.n_models
    if n_models in (0, len(names)):
        return board.params, cov
    return board.params.iloc[:n_models], cov.linear(np.eye(len(names))[:n_models], names[:n_models])


def ranked_cov(board: Results, cov: Covariance) -> Covariance:
    """The covariance from which ranks are told, that of bands; unknown for models that rest on too few clusters."""
    estimate = board.estimate
    if not cov.axes or estimate.cells is None or estimate.coefficient_map is None:
        return cov
    finest = max(cov.axes, key=estimate.scores.n_clusters)
    few = sparsity(estimate, finest).effective < TOO_FEW_EFFECTIVE
    known = np.zeros(estimate.n_params, dtype=bool) if cov.withheld is None else cov.withheld
    return replace(cov, withheld=known | few) if few.any() else cov
