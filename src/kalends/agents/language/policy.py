"""Rewriting and compilation of a checked script, so that every piece of work passes a guard and is paid for.

A subclass of RestrictedPython's transformer: what the checker has let through is judged once more by
its rules, and whatever it does not know is an error. In place of its guards of attributes, unpacking
and iteration come our own, for a world in which nothing is lazy and no attribute is a value.
"""

# ruff: noqa: N802  # `visit_` methods bear the names of the nodes.

from __future__ import annotations

import ast
import re
import types
import warnings
from typing import Any, Final, cast

from RestrictedPython.transformer import RestrictingNodeTransformer

from kalends.agents.language import limits
from kalends.agents.language.checker import functions_of, parsed
from kalends.agents.language.parser import SCRIPT_FILE
from kalends.agents.language.rules import RuleViolation, violation

_SYMBOLS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}

GUARDS: Final = {
    "+": "_add_",
    "-": "_subtract_",
    "*": "_multiply_",
    "/": "_divide_",
    "//": "_floor_",
    "%": "_modulo_",
    "**": "_power_",
    "<<": "_left_",
    ">>": "_right_",
    "&": "_and_",
    "|": "_or_",
    "^": "_xor_",
    "==": "_equal_",
    "!=": "_unequal_",
    "<": "_less_",
    "<=": "_at_most_",
    ">": "_more_",
    ">=": "_at_least_",
    "in": "_in_",
    "not in": "_not_in_",
}
"""The guard of each operator: names that no script can say."""

_MAKES: Final = (
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.ListComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Lambda,
    ast.FunctionDef,
    ast.JoinedStr,
)


def steps_of(*parts: ast.AST) -> int:
    """Return the cost of one pass through this code, which pays for bounded work between two guards."""
    nodes = 0
    for part in parts:
        for node in ast.walk(part):
            if isinstance(node, _MAKES):
                nodes += limits.DISPLAY_NODES
            elif isinstance(node, (ast.Call, ast.Compare)):
                nodes += limits.GUARDED_NODES
            else:
                nodes += 1
    return 1 + nodes // limits.NODES_PER_STEP


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(name, ast.Load()), args=list(arguments), keywords=[])


def _placed(node: Any, like: ast.AST) -> Any:
    """Return `node` with its new parts at the place of `like`."""
    ast.copy_location(node, like)
    return ast.fix_missing_locations(node)


class ScriptRewriter(RestrictingNodeTransformer):
    """Rewrites a tree that `checking` has found no violation in."""

    # Calls, and what they cost.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        steps = ast.Constant(steps_of(*node.body))
        node = cast(ast.FunctionDef, super().visit_FunctionDef(node))
        node.body.insert(0, _placed(ast.Expr(_call("_enter_", steps)), node))
        node.body.append(_placed(ast.Return(_call("_leave_", ast.Constant(None))), node.body[-1]))
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        node = self.node_contents_visit(node)
        node.value = _placed(_call("_leave_", node.value or ast.Constant(None)), node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        steps = ast.Constant(steps_of(node.body))
        node = cast(ast.Lambda, super().visit_Lambda(node))
        node.body = _placed(_call("_lambda_", _call("_enter_", steps), node.body), node.body)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Attribute):
            return cast(ast.AST, super().visit_Call(node))
        name, value = node.func.attr, node.func.value
        node.func = _placed(ast.Name("value", ast.Load()), node.func)
        node = cast(ast.Call, super().visit_Call(node))
        node.func = ast.Name("_method_", ast.Load())
        node.args = [self.visit(value), ast.Constant(name), *node.args]
        return cast(ast.AST, _placed(node, node))

    # Loops.

    def visit_While(self, node: ast.While) -> ast.AST:
        steps = ast.Constant(steps_of(node.test, *node.body))
        node = self.node_contents_visit(node)
        node.body.insert(0, _placed(ast.Expr(_call("_tick_", steps)), node))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._guarded_loop(node, steps_of(*node.body))

    def _guarded_loop(self, node: ast.For | ast.comprehension, steps: int) -> ast.AST:
        node = self.node_contents_visit(node)
        node.iter = _placed(_call("_getiter_", node.iter, ast.Constant(steps)), node.iter)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return cast(ast.AST, self._comprehension(node, node.elt))

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """Make it a list, because chains of generators crash the interpreter and escape the step count."""
        made = self._comprehension(node, node.elt)
        return cast(ast.AST, _placed(ast.ListComp(made.elt, made.generators), node))

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        """Put the pairs into a dict when all are there, because a key costs by the size of its dict."""
        node = self._comprehension(node, node.key, node.value)
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return cast(ast.AST, _placed(_call("_made_", ast.ListComp(pair, node.generators)), node))

    def _comprehension(self, node: Any, *parts: ast.expr) -> Any:
        """Charge each turn of a loop for the whole comprehension."""
        steps = steps_of(*parts, *node.generators)
        for generator in node.generators:
            generator.steps = steps
        return self.node_contents_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        steps: int = node.steps  # type: ignore[attr-defined]  # set just before
        return self._guarded_loop(node, steps)

    # Operators.

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node = self.node_contents_visit(node)
        guard = GUARDS[_SYMBOLS[type(node.op)]]
        return cast(ast.AST, _placed(_call(guard, node.left, node.right), node))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        node = self.node_contents_visit(node)
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return node
        symbols = [_SYMBOLS[type(op)] for op in node.ops]
        if len(symbols) == 1:
            compared = _call(GUARDS[symbols[0]], node.left, node.comparators[0])
            return cast(ast.AST, _placed(compared, node))
        chain = [node.left, ast.Constant(symbols[0]), node.comparators[0]]
        for symbol, value in zip(symbols[1:], node.comparators[1:], strict=True):
            chain += [ast.Constant(symbol), _later(value)]
        return cast(ast.AST, _placed(_call("_chain_", *chain), node))

    # Values.

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        node = self.node_contents_visit(node)
        node.keys = [_placed(_call("_key_", key), key) for key in node.keys if key is not None]
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        node = self.node_contents_visit(node)
        return cast(ast.AST, _placed(_call("_joined_", *node.values), node))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node = self.node_contents_visit(node)
        specification = [] if node.format_spec is None else [node.format_spec]
        return cast(ast.AST, _placed(_call("_format_", node.value, *specification), node))

    # Statements.

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Leave it as it is: Python unpacks by itself, and only finite values."""
        return cast(ast.AST, self.node_contents_visit(node))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node = self.node_contents_visit(node)
        if node.msg is not None:
            node.msg = _placed(_call("_text_", node.msg), node.msg)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        node = self.node_contents_visit(node)
        if isinstance(node.exc, ast.Call):
            node.exc.args = [_placed(_call("_text_", one), one) for one in node.exc.args]
        return node


def _later(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(args=nothing, body=value)


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
