"""Tables already computed, drawn with matplotlib: estimates, pairs, inflation, dependence, predictions, curves."""

from evalreg.report.curves import curve_axes as curve_axes
from evalreg.report.heat_map import pairs_axes as pairs_axes
from evalreg.report.plots import *  # noqa: F403 - what it offers is in its `__all__`
from evalreg.report.plots import __all__ as _all
from evalreg.report.predicted import predictions_axes as predictions_axes
from evalreg.report.scatter import dependence_axes as dependence_axes

__all__ = ["curve_axes", "dependence_axes", "pairs_axes", "predictions_axes", *_all]
