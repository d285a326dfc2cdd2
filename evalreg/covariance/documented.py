"""The parameters of a covariance in docstrings: their text is here once, and functions say where it goes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from evalreg.checks import COVS, DOFS, REPAIRS, SSCS
from evalreg.covariance.kinds import KINDS

F = TypeVar("F", bound=Callable[..., object])


def _choice(values: tuple[str, ...]) -> str:
    return "{" + ", ".join(f'"{value}"' for value in values) + "}"


ENTRIES = {
    "cov": f"cov : {_choice(COVS)}, optional",
    "cov in one step": f"cov : {_choice(tuple(c for c in COVS if not KINDS[c].needs_exact_refit))}, optional",
    "ssc": f"ssc : {_choice(SSCS)}, optional\n    Factor of CR1.",
    "dof": f"dof : {_choice(DOFS)} or float, optional",
    "repair": f"repair : {_choice(REPAIRS)}, optional\n"
    "    What is done to a crossed covariance that is not positive semi-definite.",
    "alike": "alike : str, optional\n"
    '    Of two crossed clusterings the one, "judge" say, whose few clusters are taken to differ alike over models, '
    "so\n    that they are learnt from together. Too sure for a model on which they differ more; a warning says so.",
}
_PLACE = re.compile(rf"^( *)<({'|'.join(ENTRIES)})>$", re.MULTILINE)


def documented(function: F) -> F:
    """The function, with the entries of `ENTRIES` in its docstring where lines such as ``<ssc>`` stand for them."""
    if function.__doc__ is not None:  # python -OO has none
        function.__doc__ = _PLACE.sub(lambda line: _entry(line[2], line[1]), function.__doc__)
    return function


def _entry(name: str, indent: str) -> str:
    return "\n".join(indent + line for line in ENTRIES[name].split("\n"))
