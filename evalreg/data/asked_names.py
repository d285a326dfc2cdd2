"""Which columns roles, clusters and formulas name, before it is known which columns there are."""

from __future__ import annotations

import ast
import re

from evalreg.data.bar import split_bar
from evalreg.data.grammar import without_backticks
from evalreg.data.joint_ids import joint_parts


def group_names(groups: str | None) -> set[str]:
    """Names in a text for ``--groups``, before it is known which columns there are."""
    if groups is None:
        return set()
    axes = [piece.strip() for piece in re.findall(r"(?:`[^`]*`|[^`+])+", groups)]
    parts = [piece.strip() for piece in re.findall(r"(?:`[^`]*`|[^`+:])+", groups)]
    return {groups, *axes, *parts, *(part[1:-1] for part in parts if part.startswith("`") and part.endswith("`"))}


def role_names(*names: str | None) -> set[str]:
    """Names of roles, and of the columns that joint ids among them join."""
    return {part for name in names if name is not None for part in (name, *joint_parts(name))}


def formula_names(formula: str) -> tuple[set[str], set[str]]:
    """Names that a formula uses as factors, directly inside C(...), and in any other way."""
    import patsy

    before, absorbed = split_bar(formula)
    description = patsy.ModelDesc.from_formula(without_backticks(before))
    terms = (*description.lhs_termlist, *description.rhs_termlist)
    factors: set[str] = set(group_names(absorbed or None))
    plain: set[str] = set()
    for code in {factor.code for term in terms for factor in term.factors}:
        _sort_names(ast.parse(code, mode="eval").body, factors, plain)
    return factors, plain


def _sort_names(node: ast.AST, factors: set[str], plain: set[str]) -> None:
    """Add the names below a node of a formula's code to the factors or to the others."""
    name = _column_of(node)
    if name is not None:
        plain.add(name)
        return
    inner = list(ast.iter_child_nodes(node))
    factor = _factor_of(node)
    if factor is not None:
        factors.add(factor)
        inner = inner[2:]  # after C itself and the column
    for child in inner:
        _sort_names(child, factors, plain)


def _factor_of(node: ast.AST) -> str | None:
    """The column of C(column), or of C(column, ...) where what follows speaks of text.

    Treatment(1) means the level 1 where levels are numbers, and the second level where they are text; Poly takes the
    levels in their order. Such a column keeps its numbers.
    """
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C" and node.args):
        return None
    rest = [*node.args[1:], *node.keywords]
    constants = [leaf.value for part in rest for leaf in ast.walk(part) if isinstance(leaf, ast.Constant)]
    return None if rest and not any(isinstance(value, str) for value in constants) else _column_of(node.args[0])


def _column_of(node: ast.AST) -> str | None:
    """The name that a node is, bare or as Q("name")."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q" and len(node.args) == 1:
        argument = node.args[0]
        return str(argument.value) if isinstance(argument, ast.Constant) else None
    return None
