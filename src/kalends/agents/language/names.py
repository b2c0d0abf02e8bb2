"""Names that a piece of a script binds, by Python's rules of scope."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def parameters(function: ast.FunctionDef | ast.Lambda | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return every parameter, starred ones too."""
    arguments = function.args
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return found + [star for star in (arguments.vararg, arguments.kwarg) if star is not None]


def bound_in(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that `body` binds in its own scope: assigned, looped over, or defined."""
    return {name for node in body for name in _bound(node, in_comprehension=False)}


def targets_of(generators: Iterable[ast.comprehension]) -> set[str]:
    """Return the names that exist only within a comprehension."""
    return {
        node.id
        for generator in generators
        for node in ast.walk(generator.target)
        if isinstance(node, ast.Name)
    }


def _bound(node: ast.AST, *, in_comprehension: bool) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and not in_comprehension:
        yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.ExceptHandler) and node.name is not None:
        yield node.name
    inside = in_comprehension or isinstance(node, _COMPREHENSIONS)
    for child in ast.iter_child_nodes(node):
        yield from _bound(child, in_comprehension=inside)
