"""Syntax that only later Pythons read: refused, so that a script is read alike at all sites.

Until Python 3.12 (PEP 701), what stands within the braces of an f-string held neither its quotation mark nor
backslashes and comments, and a format within a format held no braces.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from typing import Final

from kalends.agents.language.rules import RuleViolation, violation

OLDEST: Final = (3, 11)
"""The Python whose syntax the language takes."""

_LINE_END: Final = re.compile("\r\n|\r")
_START, _MIDDLE, _END = (
    getattr(tokenize, f"FSTRING_{part}", -1) for part in ("START", "MIDDLE", "END")
)
"""Tokens of f-strings, which are one token until Python 3.12."""


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
