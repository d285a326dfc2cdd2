"""Tables already computed, drawn with matplotlib: estimates, pairs, inflation, dependence, predictions, curves."""

from evalreg.report.axes import curve_axes as curve_axes
from evalreg.report.axes import dependence_axes as dependence_axes
from evalreg.report.axes import estimates_axes as estimates_axes
from evalreg.report.axes import inflation_axes as inflation_axes
from evalreg.report.axes import pairs_axes as pairs_axes
from evalreg.report.axes import predictions_axes as predictions_axes

__all__ = ["curve_axes", "dependence_axes", "estimates_axes", "inflation_axes", "pairs_axes", "predictions_axes"]
