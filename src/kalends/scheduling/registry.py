"""All policies by their names on the command line, in the simulator and in live queues."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.core.near_names import near
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policy import Policy
from kalends.scheduling.watched import WatchedPolicy

GEHRING = "Gehring, Ramme 1996"
JONES = "Jones, Pang 2003"
KAY_LAUDER = "Kay, Lauder 1988"
KONURU = "Konuru, Moreira, Naik 1996"


class PolicyInfo(msgspec.Struct, frozen=True):
    """One policy, or one family with a number: its class and a one-line summary."""

    name: str
    at: str
    """The class as ``module:Class`` of `policies`, called with the cluster, and the number if any."""
    summary: str
    paper: str
    number: str = ""
    """The part of the name after the colon, in capitals: ``easy-slack:PERCENT``."""
    optional: bool = False
    """Whether the number may be omitted; the class then has a default for it."""
    by_priority: bool = False
    """Whether it uses the priorities of jobs."""

    @property
    def where(self) -> str:
        """The class as a user names one."""
        return f"kalends.scheduling.policies.{self.at}"

    @property
    def shown(self) -> str:
        """The name as a user writes it, with the placeholder of the number."""
        if self.optional:
            return f"{self.name}[:{self.number}]"
        return f"{self.name}:{self.number}" if self.number else self.name


POLICIES: Final[tuple[PolicyInfo, ...]] = (
    PolicyInfo("fcfs", "ordered.fcfs:Fcfs", "In order of submission; nothing overtakes.", JONES),
    PolicyInfo(
        "fcfs-scan", "ordered.scan:FcfsScan", "Any job that fits, in order of submission.", JONES
    ),
    PolicyInfo("sjf", "ordered.ranked:Sjf", "The shortest requested time first.", JONES),
    PolicyInfo("sjf-scan", "ordered.scan:SjfScan", "Any job that fits, the shortest first.", JONES),
    PolicyInfo("ljf", "ordered.ranked:Ljf", "The longest requested time first.", JONES),
    PolicyInfo("ljf-scan", "ordered.scan:LjfScan", "Any job that fits, the longest first.", JONES),
    PolicyInfo("smjf", "ordered.ranked:Smjf", "The fewest nodes first.", JONES),
    PolicyInfo("swjf", "ordered.ranked:Swjf", "The least nodes x requested time first.", JONES),
    PolicyInfo(
        "swjf-scan", "ordered.scan:SwjfScan", "Any job that fits, the least nodes x requested time first.",
        JONES,
    ),
    PolicyInfo("bjf", "ordered.ranked:Bjf", "The most nodes first.", JONES),
    PolicyInfo(
        "bjf-scan", "ordered.scan:BjfScan", "Any job that fits, the most nodes first.", JONES
    ),
    PolicyInfo(
        "priority", "ordered.priority:Priority",
        "The highest priority first; a level is worth AGE_S of waiting.", JONES, number="AGE_S",
        optional=True, by_priority=True,
    ),
    PolicyInfo(
        "priority-scan", "ordered.priority:PriorityScan",
        "Any job that fits, the highest priority first; a level is worth AGE_S of waiting.", JONES,
        number="AGE_S", optional=True, by_priority=True,
    ),
    PolicyInfo(
        "preemptive", "ordered.priority:Preemptive",
        "By priority; less urgent jobs are stopped for urgent ones, and continue later.", JONES,
        number="AGE_S", optional=True, by_priority=True,
    ),
    PolicyInfo(
        "easy", "backfill.easy:Easy", "Jobs go before the head of the queue if they do not delay it.",
        f"Lifka 1995; {JONES}",
    ),
    PolicyInfo(
        "easy-priority", "backfill.easy_priority:EasyPriority",
        "EASY, the highest priority first; a level is worth AGE_S of waiting.", f"Lifka 1995; {JONES}",
        number="AGE_S", optional=True, by_priority=True,
    ),
    PolicyInfo(
        "easy-sjbf", "backfill.easy:EasySjbf",
        "EASY, the shortest first among jobs that go before the head.", "Tsafrir, Etzion, Feitelson 2007",
    ),
    PolicyInfo(
        "conservative", "backfill.conservative:conservative",
        "Every job is promised a start when it is submitted, which never gets later.",
        "Mu'alem, Feitelson 2001",
    ),
    PolicyInfo(
        "easy-slack", "backfill.slack:EasySlack",
        "EASY that may delay the head by at most PERCENT of its requested time.", JONES, number="PERCENT",
    ),
    PolicyInfo(
        "fair-share", "backfill.fair_share:FairShare",
        "EASY, the account with the least use for its share first; use halves in HALF_LIFE_S.", KAY_LAUDER,
        number="HALF_LIFE_S", optional=True, by_priority=True,
    ),
    PolicyInfo(
        "no-starvation", "ordered.hops:NoStarvation",
        "Any job that fits, in order of submission; no job is overtaken more than HOPS times.", JONES,
        number="HOPS",
    ),
    PolicyInfo(
        "ffdh", "levels.packing:Ffdh", "Levels, the longest first.", GEHRING, by_priority=True
    ),
    PolicyInfo(
        "ffih", "levels.packing:Ffih", "Levels, the shortest first.", GEHRING, by_priority=True
    ),
    PolicyInfo(
        "ffdh*", "levels.packing:FfdhStar",
        "Levels, the longest first, on top of one another; new jobs fill gaps.", GEHRING, by_priority=True,
    ),
    PolicyInfo(
        "ffih*", "levels.packing:FfihStar", "Levels, the shortest first; new jobs fill gaps.", GEHRING,
        by_priority=True,
    ),
    PolicyInfo(
        "fcfs*", "levels.packing:FcfsStar", "In order of submission, each at the earliest time with room.",
        GEHRING, by_priority=True,
    ),
    PolicyInfo(
        "ivs", "levels.voting:Ivs",
        "fcfs* while there is room, then ffdh* for batch jobs, ffih* for interactive ones.", GEHRING,
        by_priority=True,
    ),
    PolicyInfo(
        "ivs-autonomous", "levels.voting:AutonomousIvs", "ivs that never asks the mapper before a start.",
        GEHRING, by_priority=True,
    ),
    PolicyInfo(
        "lazy", "moldable.moldable:Lazy", "The first job that fits, on as many nodes as it can take (LS).",
        KONURU,
    ),
    PolicyInfo(
        "adaptive", "moldable.moldable:Adaptive",
        "As many as fit on their fewest nodes, then shares out the rest (AS).", KONURU,
    ),
    PolicyInfo(
        "reconfigurable", "moldable.reconfigurable:Reconfigurable",
        "As adaptive; running jobs shrink for waiting jobs, and expand when none wait (RS).", KONURU,
    ),
)  # fmt: skip

BY_NAME: Final = {info.name: info for info in POLICIES}


def is_own(text: str) -> bool:
    """Return whether `text` names a class that is not one of ours: ``module:Class``, with any parameters."""
    name, _, rest = text.partition(":")
    return bool(rest) and name not in BY_NAME


def looks_at_priorities(text: str) -> bool:
    """Return whether the policy named `text` uses the priorities of jobs; a user's class may."""
    return is_own(text) or BY_NAME[text.partition(":")[0]].by_priority


def policy_maker(text: str) -> Callable[[Cluster], Policy]:
    """Return the maker of the policy named `text`: ``easy``, ``easy-slack:10``, or ``module:Class:3``.

    A user's own class is called with the cluster and the parameters of its name (`own_parameters`), and
    watched (`watched.WatchedPolicy`). Raises `InvalidInput` for an unknown name (with similar names), for
    a missing, superfluous or invalid number, and for parameters that the class does not take.
    """
    if is_own(text):
        # Imported here: most policies are not a user's.
        from kalends.scheduling.own_parameters import OwnParameters

        own = own_class(text)
        in_order, by_name = OwnParameters(own, text).given(text.split(":")[2:])
        return lambda cluster: WatchedPolicy(own, cluster, text, in_order, by_name)
    name, colon, rest = text.partition(":")
    info = BY_NAME.get(name)
    if info is None:
        raise _unknown(name)
    if not info.number:
        if colon:
            raise InvalidInput(
                f"{name} takes no number", where=f"policy {text}", remedy=f"write {name}"
            )
        return _load(info.where, text)
    make = _load(info.where, text)
    if info.optional and not colon:
        return make
    if not (rest.isascii() and rest.isdecimal()) or len(rest) > 9:
        wrong = f"{excerpt(rest)!r} is not a whole number of 1 to 9 digits"
        raise InvalidInput(
            wrong if colon else f"{name} needs a number",
            where=f"policy {excerpt(text)}",
            remedy=f"write {name}:{info.number} with a number, such as {name}:10",
        )
    return lambda cluster: make(cluster, int(rest))


def own_class(text: str) -> Callable[..., Any]:
    """Return the class that ``module:Class`` names, whatever parameters follow. Raises `InvalidInput`."""
    module_name, name, *_ = text.split(":")
    own = _load(f"{module_name}:{name}", text)
    if not isinstance(own, type | FunctionType):
        raise _no_class(text)
    return own


def _load(where: str, text: str) -> Callable[..., Any]:
    module_name, _, class_name = where.partition(":")
    try:
        module = importlib.import_module(module_name)
        found = getattr(module, class_name)
    except Exception as error:  # A user's module may raise anything while it is loaded.
        raise InvalidInput(
            f"cannot be loaded: {type(error).__name__}: {error}",
            where=f"policy {excerpt(text)}",
            remedy=f"{_near_classes(module_name, class_name)}write module:Class, "
            "with the module on PYTHONPATH",
        ) from error
    if not callable(found):
        raise _no_class(text)
    make: Callable[..., Any] = found
    return make


def _near_classes(module_name: str, class_name: str) -> str:
    """Return a hint at classes of a loaded module with a name like this one; "" without any."""
    found = vars(sys.modules[module_name]) if module_name in sys.modules else {}
    return _hint(class_name, (name for name, each in found.items() if isinstance(each, type)))


def _no_class(text: str) -> InvalidInput:
    return InvalidInput(
        "is not a class", where=f"policy {excerpt(text)}", remedy="write module:Class"
    )


def _unknown(name: str) -> InvalidInput:
    return InvalidInput(
        f"unknown policy {excerpt(name)!r}",
        where="policy",
        remedy=f"{_hint(name.lower(), BY_NAME)}see kalends policies",
    )


def _hint(name: str, known: Iterable[str]) -> str:
    found = near(name[:80], known)
    return f"{found} " if found else ""
