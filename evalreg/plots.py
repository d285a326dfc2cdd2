"""Tables already computed, drawn with matplotlib: estimates, pairs, inflation, curves."""

from evalreg.report.plots import *  # noqa: F403 - what it offers is in its `__all__`
from evalreg.report.plots import __all__ as __all__
