"""The check of a source: every violation of the language at once, by its syntax tree.

What is not on a list here is refused: syntax that a later Python brings is unknown until somebody
has thought about it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kalends.agents.language import limits
from kalends.agents.language.names import bound_in, parameters, targets_of
from kalends.agents.language.parser import ParsedScript, compiles, parse
from kalends.agents.language.rules import RuleViolation, violation
from kalends.agents.language.vocabulary import ENTRIES, EXCEPTIONS, METHODS, NAMES, RESERVED, words

_ALLOWED: Final = words(
    "Module FunctionDef arguments arg Lambda Return Assert Raise If For While Break Continue Pass "
    "Assign AugAssign Expr NamedExpr IfExp BoolOp And Or UnaryOp Not UAdd USub Invert BinOp Add Sub "
    "Mult Div FloorDiv Mod Pow LShift RShift BitAnd BitOr BitXor Compare Eq NotEq Lt LtE Gt GtE Is "
    "IsNot In NotIn Call keyword Constant Name Load Store List Tuple Dict ListComp DictComp "
    "GeneratorExp comprehension JoinedStr FormattedValue Subscript Slice Attribute"
)

_REFUSED: Final = {
    **dict.fromkeys(("Import", "ImportFrom", "alias"), "no-import"),
    "ClassDef": "no-class",
    **dict.fromkeys(("Try", "TryStar", "ExceptHandler"), "no-try"),
    **dict.fromkeys(("With", "withitem"), "no-with"),
    **dict.fromkeys(("Delete", "Del"), "no-del"),
    **dict.fromkeys(("Global", "Nonlocal"), "no-global"),
    **dict.fromkeys(("Yield", "YieldFrom"), "no-yield"),
    **dict.fromkeys(("AsyncFunctionDef", "AsyncFor", "AsyncWith", "Await"), "no-async"),
    **dict.fromkeys(("Match", "match_case"), "no-match"),
    **dict.fromkeys(("Set", "SetComp"), "no-set"),
    "Starred": "no-star-args",
    "MatMult": "no-operator",
    "AnnAssign": "no-annotation",
}

_AS_WRITTEN: Final = {
    "no-import": "`import`",
    "no-class": "`class`",
    "no-try": "`try`",
    "no-with": "`with`",
    "no-del": "`del`",
    "no-global": "`global` or `nonlocal`",
    "no-yield": "`yield`",
    "no-async": "`async` or `await`",
    "no-match": "`match`",
    "no-set": "a set",
    "no-star-args": "`*` before a value or a name",
    "no-operator": "the operator `@`",
    "no-annotation": "a type behind a name",
}
"""Names for what authors have written, who need not know those of Python's syntax tree."""

_SILENT: Final = frozenset({"alias", "ExceptHandler", "withitem", "Del", "match_case"})
"""Parts of refused statements: the statement is reported, once."""

_PLAIN_CONSTANTS: Final = (type(None), bool, int, float, str)
_SINGLETONS: Final = (None, True, False)


def parsed(source: str) -> tuple[ast.Module | None, tuple[RuleViolation, ...]]:
    """Return the tree of `source` (None: it has none), and the rules that it breaks, by place.

    Never raises, whatever the text is. Returns at most the first `limits.VIOLATIONS_MAX`.
    """
    tree = parse(source)
    if isinstance(tree, RuleViolation):
        return None, (tree,)
    checker = _Checker(ParsedScript(source))
    checker.check(tree)
    found = sorted(set(checker.found))
    if not found:
        late = compiles(tree)
        found = [] if late is None else [late]
    return tree, tuple(found[: limits.VIOLATIONS_MAX])


def functions_of(tree: ast.Module) -> tuple[str, ...]:
    """Return the entries that the script defines, of those that a site calls."""
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return tuple(name for name in ENTRIES if name in defined)


class _Checker(ast.NodeVisitor):
    """One walk over a tree; `found` are the violations, in the order of the walk."""

    def __init__(self, source: ParsedScript) -> None:
        self.found: list[RuleViolation] = []
        self._source = source
        self._nearest: ast.AST = ast.Pass()  # Operators have no place of their own.
        self._scopes: list[set[str]] = [set(NAMES)]

    def check(self, tree: ast.Module) -> None:
        self._scopes.append(bound_in(tree.body))
        for number, statement in enumerate(tree.body):
            self._check_module_level(statement, first=number == 0)
            self.visit(statement)
        self._check_entries(tree)

    def refuse(self, node: ast.AST, rule: str, wrong: str) -> None:
        placed = node if hasattr(node, "lineno") else self._nearest
        self.found.append(self._source.violation(placed, rule, wrong))

    # Everything passes here first.

    def visit(self, node: ast.AST) -> None:
        if hasattr(node, "lineno"):
            self._nearest = node
        kind = type(node).__name__
        if kind not in _ALLOWED and kind not in _SILENT:
            rule = _REFUSED.get(kind, "unknown-syntax")
            self.refuse(node, rule, f"{_AS_WRITTEN.get(rule, kind)} is not in the language")
        super().visit(node)

    # The module and its entries.

    def _check_module_level(self, statement: ast.stmt, *, first: bool) -> None:
        if isinstance(statement, ast.FunctionDef):
            return
        if isinstance(statement, ast.Assign) and all(
            isinstance(target, ast.Name) for target in statement.targets
        ):
            return
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if (first and docstring) or type(statement).__name__ not in _ALLOWED:
            return
        self.refuse(statement, "module-level", "only functions and constants may stand here")

    def _check_entries(self, tree: ast.Module) -> None:
        if not functions_of(tree):
            wrong = "the script defines no function that a server calls"
            self.found.append(violation(1, 1, "entry-missing", wrong))
        for statement in tree.body:
            names = getattr(statement, "targets", [])
            if isinstance(statement, ast.FunctionDef) and statement.name in ENTRIES:
                self._check_entry(statement)
            elif any(isinstance(name, ast.Name) and name.id in ENTRIES for name in names):
                self.refuse(
                    statement,
                    "entry-arguments",
                    "an entry has to be a function, defined with `def`",
                )

    def _check_entry(self, function: ast.FunctionDef) -> None:
        expected = len(ENTRIES[function.name])
        arguments = function.args
        plain = len(arguments.posonlyargs) + len(arguments.args)
        if plain != expected or arguments.kwonlyargs:
            wrong = f"{function.name} is called with {expected} arguments, but takes {plain}"
            self.refuse(function, "entry-arguments", wrong)

    # Names.

    def check_binding(self, node: ast.AST, name: str) -> None:
        if (name.startswith("_") and name != "_") or "__" in name:
            self.refuse(node, "no-dunder", f"the name {name}")
        elif not name.isascii():
            self.refuse(node, "ascii-name", f"the name {name!a}")
        elif name in RESERVED:
            self.refuse(node, "reserved-name", f"{name} has a meaning of its own")

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.check_binding(node, node.id)
        elif (node.id.startswith("_") and node.id != "_") or "__" in node.id:
            self.refuse(node, "no-dunder", f"the name {node.id}")
        elif node.id in EXCEPTIONS:
            self.refuse(node, "reserved-name", f"{node.id} can only be raised")
        elif not any(node.id in scope for scope in self._scopes):
            self.refuse(node, "unknown-name", f"no name {ascii(node.id)[1:-1]}")

    @contextmanager
    def _scope(self, names: set[str]) -> Iterator[None]:
        self._scopes.append(names)
        yield
        self._scopes.pop()

    # Functions.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.check_binding(node, node.name)
        for decorator in node.decorator_list:
            self.refuse(decorator, "no-decorator", "a decorator")
        for annotation in [node.returns, *getattr(node, "type_params", [])]:
            if annotation is not None:
                self.refuse(annotation, "no-annotation", "a type")
        self._visit_function(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node, [node.body])

    def _visit_function(self, node: ast.FunctionDef | ast.Lambda, body: Iterable[ast.AST]) -> None:
        for argument in parameters(node):
            self.check_binding(argument, argument.arg)
            if argument.annotation is not None:
                self.refuse(argument, "no-annotation", "a type")
        for star in (node.args.vararg, node.args.kwarg):
            if star is not None:
                self.refuse(star, "no-star-args", "a starred parameter")
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        body = list(body)
        names = {argument.arg for argument in parameters(node)} | bound_in(body)
        with self._scope(names):
            for child in body:
                self.visit(child)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is None:
            self.refuse(node, "no-star-args", "starred arguments")
        else:
            self.check_binding(node, node.arg)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            self._check_method(node.func)
            self.visit(node.func.value)
        else:
            self.visit(node.func)
        for child in [*node.args, *node.keywords]:
            self.visit(child)

    def _check_method(self, node: ast.Attribute) -> None:
        if node.attr not in METHODS:
            self.refuse(node, "unknown-method", f"there is no method {ascii(node.attr)[1:-1]}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.refuse(node, "no-attribute", f"the attribute {ascii(node.attr)[1:-1]}")
        self.visit(node.value)

    # Comprehensions.

    def _visit_comprehension(
        self, generators: list[ast.comprehension], parts: list[ast.expr]
    ) -> None:
        self.visit(generators[0].iter)
        with self._scope(targets_of(generators)):
            for number, generator in enumerate(generators):
                if generator.is_async:
                    self.refuse(generator.target, "no-async", "an asynchronous comprehension")
                self._check_target(generator.target)
                self.visit(generator.target)
                for child in [*([generator.iter] if number else []), *generator.ifs]:
                    self.visit(child)
            for part in parts:
                self.visit(part)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._visit_comprehension(node.generators, [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._visit_comprehension(node.generators, [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._visit_comprehension(node.generators, [node.elt])

    def visit_DictComp(self, node: ast.DictComp) -> None:
        parts = [part for part in (node.key, node.value) if part is not None]
        self._visit_comprehension(node.generators, parts)

    # What can be assigned to.

    def _check_target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            for part in target.elts:
                self._check_target(part)
        elif isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Slice):
                self.refuse(target, "no-target", "a slice is assigned to")
        elif not isinstance(target, (ast.Name, ast.Attribute, ast.Starred)):
            self.refuse(target, "no-target", "this cannot be assigned to")

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._check_target(target)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._check_target(node.target)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.visit(node.op)
        self.visit(node.left)
        self.visit(node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "no-augmented-item", "an item is changed in place")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Tuple):
            for part in node.slice.elts:
                if isinstance(part, ast.Slice):
                    self.refuse(part, "unknown-syntax", "a slice within an index")
        self.generic_visit(node)

    # Values.

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if not isinstance(value, _PLAIN_CONSTANTS):
            self.refuse(node, "no-literal", f"a {type(value).__name__} literal")
        elif isinstance(value, int) and value.bit_length() > limits.INTEGER_BITS_MAX:
            self.refuse(node, "big-number", f"this integer has {value.bit_length():,} bits")

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.refuse(value, "no-star-args", "a starred dict")
            else:
                self.visit(key)
            self.visit(value)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        if node.conversion != -1:
            self.refuse(node.value, "no-conversion", "a conversion in an f-string")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        identity = any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
        right = node.comparators[0]
        single = isinstance(right, ast.Constant) and any(right.value is one for one in _SINGLETONS)
        if identity and not (single and len(node.ops) == 1):
            self.refuse(node, "no-is", "`is` between values")
        for later in node.comparators[1:]:
            if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(later)):
                self.refuse(later, "walrus-in-chain", "`:=` in the middle of a comparison")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        raised, arguments = node.exc, []
        if isinstance(raised, ast.Call):
            arguments = raised.args
            raised = None if raised.keywords or len(arguments) > 1 else raised.func
        known = isinstance(raised, ast.Name) and raised.id in EXCEPTIONS
        if not known or node.cause is not None:
            self.refuse(node, "raise-form", "this cannot be raised")
        for argument in arguments:
            self.visit(argument)
