"""Compilation of source to bytecode whose every piece of work is guarded."""

from __future__ import annotations

import ast
import re
import types
import warnings

from kalends.agents.language.checker import functions_of, parsed
from kalends.agents.language.parser import SCRIPT_FILE
from kalends.agents.language.policy import ScriptRewriter
from kalends.agents.language.rules import RuleViolation, violation

_PLACE = re.compile(r"Line (\d+): (.*)", re.DOTALL)


class Rejected(Exception):
    """The source breaks rules: `violations`, never empty."""

    def __init__(self, violations: tuple[RuleViolation, ...]) -> None:
        super().__init__(f"{len(violations)} rules are broken")
        self.violations = violations


def compile_script(source: str) -> types.CodeType:
    """Return the code of `source`, to be run with the guards of `environment`. Raises `Rejected`."""
    return compile_with_functions(source)[0]


def compile_with_functions(source: str) -> tuple[types.CodeType, tuple[str, ...]]:
    """Return the code, and the entries that it defines. Raises `Rejected`."""
    tree, violations = parsed(source)
    if tree is None or violations:
        raise Rejected(violations)
    functions = functions_of(tree)
    return _compiled(tree), functions


def _compiled(tree: ast.Module) -> types.CodeType:
    errors: list[str] = []
    rewritten = ScriptRewriter(errors).visit(tree)
    if errors:
        raise Rejected(tuple(_from_policy(error) for error in errors))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(rewritten, SCRIPT_FILE, "exec", dont_inherit=True, optimize=0)
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        wrong = f"Python's compiler gives up: {type(error).__name__}"
        raise Rejected((violation(1, 1, "too-deep", wrong),)) from error


def _from_policy(error: str) -> RuleViolation:
    match = _PLACE.match(error)
    line, wrong = (int(match[1]), match[2]) if match else (1, error)
    return violation(line, 1, "restricted-python", wrong)
