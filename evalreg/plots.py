"""Tables already computed, drawn with matplotlib: estimates, pairs, inflation, dependence, predictions, curves."""

from evalreg.report.plots import *  # noqa: F403 - what it offers is in its `__all__`
from evalreg.report.plots import __all__ as _all
from evalreg.report.predicted import predictions_axes as predictions_axes
from evalreg.report.scatter import dependence_axes as dependence_axes

__all__ = ["dependence_axes", "predictions_axes", *_all]
