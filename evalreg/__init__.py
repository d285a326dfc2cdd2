"""Error bars for eval scores, differences between models and leaderboards whose rows are not independent.

`read_log` reads the log of a harness, or pass any data frame. `mean`, `compare`, `win_rate` and `fit` estimate;
`groups` names what rows share. Results have statsmodels' names.

>>> import evalreg as er
>>> log = er.datasets.passages(seed=1)  # simulated: 60 passages with 8 questions each
>>> results = er.mean(log, groups="passage")
>>> results.params.round(3).to_dict(), results.bse.round(3).to_dict()
({'mean': 0.735}, {'mean': 0.03})
"""

import sys
from _thread import RLock
from importlib import import_module
from types import FunctionType, ModuleType

TYPE_CHECKING = False  # type checkers take it for true; `as` tells them that a name is handed on
if TYPE_CHECKING:
    from evalreg import datasets as datasets
    from evalreg import errors as errors
    from evalreg import planning
    from evalreg import plots as plots
    from evalreg.boards.board import Board as Board
    from evalreg.covariance.covariance import Covariance as Covariance
    from evalreg.covariance.terms import covariance as covariance
    from evalreg.estimate import Estimate as Estimate
    from evalreg.estimators.classification import classification as classification
    from evalreg.estimators.comparison import Comparison as Comparison
    from evalreg.estimators.comparison import sign_test as sign_test
    from evalreg.estimators.confidence_sequence import confidence_sequence as confidence_sequence
    from evalreg.estimators.difference import compare as compare
    from evalreg.estimators.judging import judge_corrected as judge_corrected
    from evalreg.estimators.judging import panel as panel
    from evalreg.estimators.judging import rectified_mean as rectified_mean
    from evalreg.estimators.judging import rectified_win_rate as rectified_win_rate
    from evalreg.estimators.mean import frontier as frontier
    from evalreg.estimators.mean import mean as mean
    from evalreg.estimators.mean import pass_at_k as pass_at_k
    from evalreg.estimators.quantile import quantile as quantile
    from evalreg.estimators.ratings import ability as ability
    from evalreg.estimators.ratings import bradley_terry as bradley_terry
    from evalreg.estimators.ratings import controlled_win_rate as controlled_win_rate
    from evalreg.estimators.ratings import wins as wins
    from evalreg.estimators.ratio import ratio as ratio
    from evalreg.estimators.regression import fit as fit
    from evalreg.estimators.regression import horizon as horizon
    from evalreg.estimators.shards import merged as merged
    from evalreg.estimators.shards import summarise as summarise
    from evalreg.estimators.win_rate import win_rate as win_rate
    from evalreg.inference.posterior import posterior as posterior
    from evalreg.inference.simultaneous import rank_sets as rank_sets
    from evalreg.inference.simultaneous import simultaneous as simultaneous
    from evalreg.logs.log import Log as Log
    from evalreg.logs.read import read_log as read_log
    from evalreg.logs.tables import read_table as read_table
    from evalreg.noise.noise import Noise as Noise
    from evalreg.noise.noise import noise as noise
    from evalreg.planning.facets import components as components
    from evalreg.report.tables import show as show
    from evalreg.resampling.bootstrap import bootstrap as bootstrap
    from evalreg.resampling.randomisation import randomisation_test as randomisation_test
    from evalreg.results.bridge import from_statsmodels as from_statsmodels
    from evalreg.results.document import read_results as read_results
    from evalreg.results.from_influence import from_influence as from_influence
    from evalreg.results.results import Results as Results
    from evalreg.results.results import infer as infer
    from evalreg.suites.average import EvalAverage as EvalAverage
    from evalreg.suites.evals import Evals as Evals
    from evalreg.suites.evals import by_eval as by_eval
    from evalreg.suites.evals import join_evals as join_evals
    from evalreg.suites.table import ResultsTable as ResultsTable
    from evalreg.suites.table import table as table

    plan = planning
    __version__: str

# The public names by the module in which they are written; it is imported when one of them is first used.
_NAMES = {
    "boards.board": "Board",
    "covariance.covariance": "Covariance",
    "covariance.terms": "covariance",
    "datasets": "datasets",
    "errors": "errors",
    "estimate": "Estimate",
    "estimators.classification": "classification",
    "estimators.comparison": "Comparison sign_test",
    "estimators.confidence_sequence": "confidence_sequence",
    "estimators.difference": "compare",
    "estimators.judging": "judge_corrected panel rectified_mean rectified_win_rate",
    "estimators.mean": "frontier mean pass_at_k",
    "estimators.quantile": "quantile",
    "estimators.ratings": "ability bradley_terry controlled_win_rate wins",
    "estimators.ratio": "ratio",
    "estimators.regression": "fit horizon",
    "estimators.shards": "merged summarise",
    "estimators.win_rate": "win_rate",
    "inference.posterior": "posterior",
    "inference.simultaneous": "rank_sets simultaneous",
    "logs.log": "Log",
    "logs.read": "read_log",
    "logs.tables": "read_table",
    "noise.noise": "Noise noise",
    "planning": "plan",
    "planning.facets": "components",
    "plots": "plots",
    "report.tables": "show",
    "resampling.bootstrap": "bootstrap",
    "resampling.randomisation": "randomisation_test",
    "results.bridge": "from_statsmodels",
    "results.from_influence": "from_influence",
    "results.results": "Results infer",
    "results.document": "read_results",
    "suites.average": "EvalAverage",
    "suites.evals": "Evals by_eval join_evals",
    "suites.table": "ResultsTable table",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
# Names that are a module, and not something in it.
_MODULES = {"datasets", "errors", "plan", "plots"}
_hinted: dict[str, object] = {}
# Two threads that import modules of one package may each be handed one that is half made.
_first_use = RLock()


def _public(name: str) -> object:
    """What a public name stands for; from then on it is an attribute like any other (PEP 562)."""
    if name == "__version__":
        attribute: object = import_module(f"{__name__}.versions").version_of("evalreg")
    elif name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        with _first_use:
            attribute = _from_module(name, import_module(f"{__name__}.{_HOMES[name]}"))
    # Of threads that come at once, all get what the first has found.
    return globals().setdefault(name, attribute)


def _from_module(name: str, module: ModuleType) -> object:
    """A public name in its module; functions say what other packages' keywords are called here."""
    if name in ("plan", "plots"):
        for function in module.__all__:
            setattr(module, function, _with_hints(f"{name}.{function}", getattr(module, function)))
    if name in _MODULES:
        return module
    attribute: object = getattr(module, name)
    return _with_hints(name, attribute) if isinstance(attribute, FunctionType) else attribute


def _with_hints(name: str, function: FunctionType) -> object:
    """The function with hints, and with logs for rows, made once; types and examples stay those of its module."""
    checks = import_module(f"{__name__}.checks")
    return _hinted.get(name) or _hinted.setdefault(name, checks.with_hints(function, logs=name != "by_eval"))


if not TYPE_CHECKING:  # or any name would pass the type checker, which takes the imports above for what is promised
    __all__ = list(_HOMES)
    __getattr__ = _public


def __dir__() -> list[str]:
    """The public names, and those that every module has."""
    return sorted({*_HOMES, "__version__", *(name for name in globals() if name.startswith("__"))})


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, except where importing a module would put it in the place of a function of its name."""
        if not isinstance(value, ModuleType) or name in _MODULES or name not in _HOMES:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
