"""The rules that a source can break: a stable name each, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kalends.agents.language import limits


class RuleViolation(NamedTuple):
    """One violation and its place; lines and columns count from 1, columns in characters."""

    line: int
    column: int
    rule: str
    detail: str
    """What is wrong, and the remedy."""


REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "syntax": "write Python 3.11",
        "bad-character": "save the script as plain UTF-8 text",
        "too-long": f"keep the source below {limits.SOURCE_BYTES_MAX:,} bytes",
        "too-large": f"keep the script below {limits.NODES_MAX:,} syntax nodes",
        "too-deep": f"nest at most {limits.SYNTAX_DEPTH_MAX} levels, and {limits.LOOPS_DEPTH_MAX} loops; "
        "name parts of long expressions",
        "unknown-syntax": "use only what docs/agent-language.md lists",
        "module-level": "put statements into a function; outside are only functions and constants",
        "entry-missing": "define choose(view, request), recall(slot, asker, view), pick(bids), "
        "rank(schedules, machine), or decide(request, calendar, usage)",
        "entry-arguments": "write choose(view, request), recall(slot, asker, view), pick(bids), "
        "rank(schedules, machine), and decide(request, calendar, usage)",
        "no-import": "use the builtins and helpers; everything a script can use is there already",
        "no-class": "use dicts and functions",
        "no-try": "test before: d.get(key), `if key in d`, `if values`",
        "no-with": "call functions; there is nothing to open",
        "no-del": "use d.pop(key, None), values.pop(index), or a new list",
        "no-global": "hand values over as arguments and return them",
        "no-yield": "collect the values in a list and return it",
        "no-async": "write plain functions; nothing here waits",
        "no-match": "use if and elif",
        "no-set": "use a list, or a dict whose values are True",
        "no-literal": "use None, True, False, integers, floats or text",
        "big-number": f"integers have at most {limits.INTEGER_BITS_MAX} bits",
        "no-operator": "use + - * / // % ** << >> & | ^",
        "no-is": "compare with ==; `is` is for None, True and False alone",
        "no-annotation": "leave the type out",
        "no-decorator": "call the function where you need it",
        "no-star-args": "name every argument and every item",
        "no-dunder": "use names that do not begin with _ and hold no __",
        "ascii-name": "use letters a-z, digits and _ in names",
        "reserved-name": "use another name; exceptions are only for raise",
        "unknown-name": "define it, or use a builtin or helper that docs/agent-language.md lists",
        "no-attribute": "use d[key] for values; attributes are only for calling methods",
        "unknown-method": "use a method that docs/agent-language.md lists",
        "no-target": "assign to a name, to d[key], or to names in parentheses",
        "no-augmented-item": "write d[key] = d[key] + value",
        "no-conversion": "write {value}, without !r, !s, !a or =",
        "raise-form": "write raise ValueError(text), KeyError or Exception, with at most one text",
        "walrus-in-chain": "assign before the comparison, or join two comparisons by `and`",
        "restricted-python": "use only what docs/agent-language.md lists",
    }
)
"""Every rule, by name: what to do about it."""


def violation(line: int, column: int, rule: str, wrong: str) -> RuleViolation:
    """Return a violation of `rule` at this place: `wrong` describes it, the rule's remedy follows."""
    return RuleViolation(max(1, line), max(1, column), rule, f"{wrong[:150]}; {REMEDIES[rule]}")
