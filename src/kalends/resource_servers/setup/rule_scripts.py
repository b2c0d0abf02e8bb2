"""Owners' scripts, read from files and checked."""

from __future__ import annotations

import ast

from kalends.agents.language.policy import Rejected, compile_with_functions
from kalends.calendars import RuleScript
from kalends.core.errors import InvalidInput, TooLarge
from kalends.core.limits import TEXT_MAX
from kalends.rim.script_files import read_script
from kalends.serving.configuration import DecideConfiguration


def rule_script_of(decide: DecideConfiguration | None, where: str) -> RuleScript | None:
    """Return the script that `decide` names, checked; None without one.

    Raises `InvalidInput` with the first fault for a file that cannot be read, or is no such script.
    """
    if decide is None:
        return None
    try:
        source = read_script(decide.script)
    except (InvalidInput, TooLarge) as error:
        raise InvalidInput(
            f"{decide.script}: {error.detail}", where=f"{where}.script", remedy=error.remedy
        ) from error
    return RuleScript(source, checked_words(source, f"{where}.script"), decide.on_failure)


def checked_words(source: str, where: str) -> str:
    """Return what an owner's script says of itself: the first line of its docstring.

    Raises `InvalidInput` for a script that would be refused, or has no ``decide``.
    """
    try:
        _, functions = compile_with_functions(source)
    except Rejected as error:
        first = error.violations[0]
        raise InvalidInput(
            f"line {first.line}: {first.rule}: {first.detail}", where=where,
            remedy="correct the script: kalends admin rules check FILE lists its faults",
        ) from error  # fmt: skip
    if "decide" not in functions:
        raise InvalidInput(
            "the script defines no function decide", where=where,
            remedy="define decide(request, calendar, usage)",
        )  # fmt: skip
    tree = ast.parse(source)
    entry = next(e for e in tree.body if isinstance(e, ast.FunctionDef) and e.name == "decide")
    words = ast.get_docstring(entry) or ast.get_docstring(tree) or "see the owner"
    return words.splitlines()[0][: TEXT_MAX // 2]
