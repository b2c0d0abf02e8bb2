"""What an attack is, and the words to write one down with."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import dedent, indent
from typing import Final, NamedTuple

from kalends.agents.runs import Function
from kalends.core.scripts import RunCode

Codes = frozenset[RunCode]

REJECTED: Final[Codes] = frozenset({"rejected"})
ERROR: Final[Codes] = frozenset({"agent-error"})
BAD: Final[Codes] = frozenset({"bad-result"})
STEPS: Final[Codes] = frozenset({"limit-steps"})
RECURSION: Final[Codes] = frozenset({"limit-recursion"})
OUTPUT: Final[Codes] = frozenset({"limit-output"})
MEMORY: Final[Codes] = frozenset({"limit-memory"})
OK: Final[Codes] = frozenset({"ok"})

BY_THE_HOST: Final[Codes] = frozenset({"limit-cpu", "limit-memory", "limit-wall", "crash"})
"""Only the sandbox ends a run like this: the language alone would hang, or take the process along."""


class Attack(NamedTuple):
    """A hostile `source`, what it `tries`, and the `codes` that a run of its `function` may end with.

    A run that may end "ok" has exactly `answer`, and a site judges that answer `judged`.
    """

    name: str
    tries: str
    source: str
    codes: Codes
    function: Function = "choose"
    answer: object = None
    judged: RunCode = "ok"

    @property
    def visit_codes(self) -> Codes:
        """The codes that a site's report on it may have."""
        return (self.codes - OK) | {self.judged} if "ok" in self.codes else self.codes

    @property
    def needs_wall(self) -> bool:
        return bool(self.codes & BY_THE_HOST)


def whole(name: str, tries: str, source: str, codes: Codes = REJECTED) -> Attack:
    """An attack by its whole source; one that begins with an empty line is written indented here."""
    return Attack(name, tries, dedent(source)[1:] if source.startswith("\n") else source, codes)


def inside(name: str, tries: str, body: str, codes: Codes = REJECTED) -> Attack:
    """An attack by the body of its ``choose``."""
    return Attack(name, tries, choosing(body), codes)


def harmless(name: str, tries: str, body: str, answer: object = (0,)) -> Attack:
    """An attempt in ``choose`` that changes nothing: the run is as good as any, with this answer."""
    plain = list(answer) if isinstance(answer, tuple) else answer
    return Attack(name, tries, choosing(body), OK, answer=plain)


def forged(name: str, tries: str, expression: str, answer: object) -> Attack:
    """An answer of ``choose`` that is plain data, and which a site must refuse."""
    source = choosing(f"return {expression}")
    return Attack(name, tries, source, OK, answer=answer, judged="bad-result")


def expressions(tries: str, table: Iterable[str], codes: Codes = REJECTED) -> list[Attack]:
    """For each expression, an attack that answers with it; the expression is the name."""
    return [Attack(each, tries, choosing(f"return {each}"), codes) for each in table]


def choosing(body: str) -> str:
    return "def choose(view, request):\n" + indent(dedent(body).strip("\n"), "    ") + "\n"
