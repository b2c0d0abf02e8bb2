"""All policies by name: what the command line, the simulator and a live queue know them by."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policy import Policy

GEHRING = "Gehring, Ramme 1996"
JONES = "Jones, Pang 2003"
KONURU = "Konuru, Moreira, Naik 1996"


class PolicyInfo(msgspec.Struct, frozen=True):
    """One policy, or one family with a number: where it is, and what it does in one line."""

    name: str
    where: str
    """``module:Class``; the class is called with the cluster, then with the number if there is one."""
    summary: str
    paper: str
    number: str = ""
    """What stands after the colon of the name, in capitals: ``easy-slack:PERCENT``."""

    @property
    def shown(self) -> str:
        """The name as a user writes it, with what stands for the number."""
        return f"{self.name}:{self.number}" if self.number else self.name


_HERE = "kalends.scheduling.policies"

POLICIES: Final[tuple[PolicyInfo, ...]] = (
    PolicyInfo("fcfs", f"{_HERE}.fcfs:Fcfs", "In order of submission; nothing overtakes.", JONES),
    PolicyInfo(
        "easy",
        f"{_HERE}.easy:Easy",
        "Jobs go before the head of the queue if they do not delay it.",
        f"Lifka 1995; {JONES}",
    ),
    PolicyInfo(
        "easy-sjbf",
        f"{_HERE}.easy:EasySjbf",
        "EASY, the shortest first among those who go before the head.",
        "Tsafrir, Etzion, Feitelson 2007",
    ),
    PolicyInfo(
        "conservative",
        f"{_HERE}.conservative:Conservative",
        "Every job is promised a start when it is submitted, which never gets later.",
        "Mu'alem, Feitelson 2001",
    ),
)

BY_NAME: Final = {info.name: info for info in POLICIES}


def policy_maker(text: str) -> Callable[[Cluster], Policy]:
    """What makes the policy named `text` over a cluster: ``easy``, ``easy-slack:10``, or ``module:Class``.

    A user's own class is called with the cluster. Raises `InvalidInput` with near names for an unknown
    one, and for a number that is missing, too much or no number.
    """
    name, colon, rest = text.partition(":")
    info = BY_NAME.get(name)
    if info is None:
        if colon and rest:
            return _load(text, text)
        raise _unknown(name)
    if not info.number:
        if colon:
            raise InvalidInput(
                f"{name} takes no number", where=f"policy {text}", remedy=f"write {name}"
            )
        return _load(info.where, text)
    if not rest.isdecimal() or len(rest) > 9:
        raise InvalidInput(
            f"{rest[:40]!r} is not a whole number",
            where=f"policy {text[:60]}",
            remedy=f"write {info.shown} with a number, such as {name}:10",
        )
    make = _load(info.where, text)
    return lambda cluster: make(cluster, int(rest))


def _load(where: str, text: str) -> Callable[..., Any]:
    module_name, _, class_name = where.partition(":")
    try:
        module = importlib.import_module(module_name)
        found = getattr(module, class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"cannot be loaded: {error}",
            where=f"policy {text[:60]}",
            remedy="write module:Class, with the module on PYTHONPATH",
        ) from error
    if not callable(found):
        raise InvalidInput(
            "is not a class", where=f"policy {text[:60]}", remedy="write module:Class"
        )
    make: Callable[..., Any] = found
    return make


def _unknown(name: str) -> InvalidInput:
    # Imported here: a right name, which is what nearly everybody writes, needs no near ones.
    from difflib import get_close_matches

    near = get_close_matches(name, BY_NAME, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return InvalidInput(
        f"there is no policy {name[:40]!r}",
        where="policy",
        remedy=f"{hint}see kalends policies",
    )
