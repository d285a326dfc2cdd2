"""Error bars for eval scores, differences between models and leaderboards whose rows are not independent."""

from importlib.metadata import version as _version
from inspect import isfunction as _is_function

from evalreg import datasets, errors, plots
from evalreg import planning as plan
from evalreg.boards import Board
from evalreg.bridge import from_statsmodels
from evalreg.choices import choice_probability
from evalreg.covariance import Covariance, covariance
from evalreg.estimate import Estimate
from evalreg.estimators.bradley_terry import bradley_terry
from evalreg.estimators.classification import classification
from evalreg.estimators.comparison import Comparison, Comparisons, join_evals
from evalreg.estimators.controlled import controlled_win_rate
from evalreg.estimators.difference import compare
from evalreg.estimators.mean import mean
from evalreg.estimators.pass_at_k import pass_at_k
from evalreg.estimators.quantile import quantile
from evalreg.estimators.ratio import ratio
from evalreg.estimators.rectified import rectified_mean
from evalreg.estimators.rectified_pairs import rectified_win_rate
from evalreg.estimators.regression import fit
from evalreg.estimators.sign import sign_test
from evalreg.estimators.win_rate import win_rate
from evalreg.inference.posterior import Posterior
from evalreg.inference.ranks import rank_sets
from evalreg.inference.simultaneous import simultaneous
from evalreg.judges.judging import Judging
from evalreg.keywords import with_hints as _with_hints
from evalreg.resampling.resample import Bootstrap
from evalreg.resampling.sampling import bootstrap
from evalreg.resampling.wild import WildTest
from evalreg.results import Results, infer
from evalreg.watching import confidence_sequence

__version__ = _version("evalreg")

__all__ = [
    "Board",
    "Bootstrap",
    "Comparison",
    "Comparisons",
    "Covariance",
    "Estimate",
    "Judging",
    "Posterior",
    "Results",
    "WildTest",
    "bootstrap",
    "bradley_terry",
    "choice_probability",
    "classification",
    "compare",
    "confidence_sequence",
    "controlled_win_rate",
    "covariance",
    "datasets",
    "errors",
    "fit",
    "from_statsmodels",
    "infer",
    "join_evals",
    "mean",
    "pass_at_k",
    "plan",
    "plots",
    "quantile",
    "rank_sets",
    "ratio",
    "rectified_mean",
    "rectified_win_rate",
    "sign_test",
    "simultaneous",
    "win_rate",
]

# What they refuse says what other packages' keywords are called here; types and examples are those of the modules.
for _name in plan.__all__:
    setattr(plan, _name, _with_hints(getattr(plan, _name)))
globals().update({name: _with_hints(globals()[name]) for name in __all__ if _is_function(globals()[name])})
