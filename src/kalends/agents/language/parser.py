"""Parsing of any text to a syntax tree of bounded size.

Python's parser gives up on hostile text with any of four exceptions; each becomes a violation here. Syntax
that only later Pythons read is refused, so that a script is read alike at all sites: until Python 3.12
(PEP 701), the braces of an f-string held neither its quotation mark nor backslashes and comments, and a
format within a format held no braces.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from typing import Final

from kalends.agents.language import limits
from kalends.agents.language.rules import RuleViolation, violation

OLDEST: Final = (3, 11)
"""The Python whose syntax the language takes."""

_LINE_END: Final = re.compile("\r\n|\r|\n")
_START, _MIDDLE, _END = (
    getattr(tokenize, f"FSTRING_{part}", -1) for part in ("START", "MIDDLE", "END")
)
"""Tokens of f-strings, which are one token until Python 3.12."""


SCRIPT_FILE: Final = "<agent>"
"""The script's name in tracebacks."""

_LOOPS: Final = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class ParsedScript:
    """A script's text, for places in it: the parser counts columns in bytes, people in characters."""

    def __init__(self, text: str) -> None:
        self._lines = [line.encode("utf-8", "replace") for line in _LINE_END.split(text)]

    def violation(self, node: ast.AST, rule: str, wrong: str) -> RuleViolation:
        """Return a violation of `rule` at `node`."""
        line = max(1, getattr(node, "lineno", 1))
        before_bytes = getattr(node, "col_offset", 0)
        text = self._lines[line - 1] if line <= len(self._lines) else b""
        before = text[: max(0, before_bytes)].decode("utf-8", "ignore")
        return violation(line, len(before) + 1, rule, wrong)


def parse(source: str) -> ast.Module | RuleViolation:
    """Return the tree of `source`, or why there is none: characters, size, syntax or nesting."""
    try:
        size_bytes = len(source.encode())
    except UnicodeEncodeError as error:
        return _at(source, error.start, "bad-character", "half of a surrogate pair")
    if size_bytes > limits.SOURCE_BYTES_MAX:
        return violation(1, 1, "too-long", f"the source has {size_bytes:,} bytes")
    if "\0" in source:
        return _at(source, source.index("\0"), "bad-character", "a null byte")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, SCRIPT_FILE, feature_version=OLDEST)
            newer = newer_format(source, tree)
    except SyntaxError as error:
        return syntax_violation(error)
    except (RecursionError, MemoryError):
        return violation(1, 1, "too-deep", "Python's parser gives up on such nesting")
    except ValueError as error:
        return violation(1, 1, "syntax", str(error)[:100])
    return newer or _bounded(source, tree)


def compiles(tree: ast.Module) -> RuleViolation | None:
    """Check what Python finds only when it compiles, such as a `break` outside of a loop."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, SCRIPT_FILE, "exec", dont_inherit=True, optimize=0)
    except SyntaxError as error:
        return syntax_violation(error)
    except (RecursionError, MemoryError):
        return violation(1, 1, "too-deep", "Python's compiler gives up on such nesting")
    except ValueError as error:
        return violation(1, 1, "syntax", str(error)[:100])
    return None


def syntax_violation(error: SyntaxError) -> RuleViolation:
    message = "".join(c if c.isprintable() else "?" for c in str(error.msg))[:150]
    rule = "syntax"
    if "integer string conversion" in message:
        rule, message = "big-number", "an integer of thousands of digits"
    return violation(error.lineno or 1, error.offset or 1, rule, message)


def _bounded(source: str, tree: ast.Module) -> ast.Module | RuleViolation:
    """Walk without recursion, because the tree may be deeper than Python's stack."""
    level: list[tuple[ast.AST, int]] = [(tree, 0)]
    count = depth = 0
    while level:
        count += len(level)
        depth += 1
        if count > limits.NODES_MAX:
            return violation(1, 1, "too-large", f"more than {limits.NODES_MAX:,} nodes")
        if depth > limits.SYNTAX_DEPTH_MAX:
            deepest = next((node for node, _ in level if hasattr(node, "lineno")), tree)
            return ParsedScript(source).violation(deepest, "too-deep", "this is nested too deep")
        for node, loops in level:
            if loops > limits.LOOPS_DEPTH_MAX:
                wrong = f"a loop inside {limits.LOOPS_DEPTH_MAX} others"
                return ParsedScript(source).violation(node, "too-deep", wrong)
        level = [
            (child, loops + isinstance(child, _LOOPS))
            for node, loops in level
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.expr_context)
        ]
    return tree


def _at(source: str, index: int, rule: str, wrong: str) -> RuleViolation:
    before = _LINE_END.split(source[:index])
    return violation(len(before), len(before[-1]) + 1, rule, wrong)


def newer_format(source: str, tree: ast.Module) -> RuleViolation | None:
    """Return where `source`, which is read as `tree` here, has an f-string that the oldest cannot read."""
    if sys.version_info < (3, 12):
        return None
    formats = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    for node in (value for each in formats for value in each.values):
        if any(_values_in(value) for value in _values_in(node)):
            return violation(node.lineno, 1, "syntax", "braces in a format within a format")
    try:
        return _newer_token(source) if formats else None
    except tokenize.TokenError as error:
        return violation(1, 1, "syntax", str(error.args[0])[:100])


def _newer_token(source: str) -> RuleViolation | None:
    marks: list[str] = []  # Of the f-strings around a token, the outermost first.
    last_row = 0
    for token in tokenize.generate_tokens(io.StringIO(_LINE_END.sub("\n", source)).readline):
        around = marks[:-1] if token.type == _MIDDLE else marks
        if token.type == _END:
            marks.pop()
        elif around and (token.start[0] > last_row or not _was_allowed(token, around)):
            wrong = "within the braces of an f-string: its own quotation mark, a backslash, or a comment"
            return violation(token.start[0], token.start[1] + 1, "syntax", wrong)
        elif token.type == _START:
            marks.append(token.string.lstrip("fFrR"))
        last_row = token.end[0] + (token.type in (tokenize.NL, tokenize.NEWLINE))
    return None


def _values_in(node: ast.AST) -> list[ast.FormattedValue]:
    """Return the values in braces that are in the format of this value."""
    if not isinstance(node, ast.FormattedValue) or not isinstance(node.format_spec, ast.JoinedStr):
        return []
    return [one for one in node.format_spec.values if isinstance(one, ast.FormattedValue)]


def _was_allowed(token: tokenize.TokenInfo, marks: list[str]) -> bool:
    if token.type in (tokenize.NL, tokenize.NEWLINE):
        return all(len(mark) == 3 for mark in marks)
    if token.type == tokenize.COMMENT or "\\" in token.string:
        return False
    return not any(mark in token.string for mark in marks)
