"""Priority classes: who may name which, and when a class counts at all."""

from __future__ import annotations

from kalends.batch.queue.facts import Terms
from kalends.calendars.rules.access import is_meant
from kalends.core.errors import InvalidInput, NotAllowed
from kalends.core.principals import Principal
from kalends.scheduling.registry import looks_at_priorities


def check_class(terms: Terms, principal: Principal, name: str, policy: str) -> None:
    """Raise unless `principal` may have jobs of the class `name` ("" is the default), and it has an effect.

    `InvalidInput` if there is no such class, or if `policy` does not look at classes; `NotAllowed` for a
    class that the owner keeps for others.
    """
    if name in ("", terms.default_class):
        return
    if name not in terms.classes:
        raise InvalidInput(
            f"no priority class {name}",
            where="priority",
            remedy=f"this machine has {', '.join(terms.classes)}",
        )
    if terms.handed_to or not looks_at_priorities(policy):
        raise InvalidInput(
            f"{name} has no effect: {terms.handed_to or policy} decides on this machine, and "
            "ignores priority classes",
            where="priority",
            remedy="leave the priority class out",
        )
    if not may_name(terms, principal, name):
        own = [each for each in terms.classes if may_name(terms, principal, each)]
        raise NotAllowed(
            f"you may not use the priority class {name} on this machine",
            where="priority",
            remedy=f"you may use {', '.join(own)}; the owner of the machine can allow others",
        )


def may_name(terms: Terms, principal: Principal, name: str) -> bool:
    """Return whether the owner lets `principal` name this class; above the default only if named for it."""
    if name == terms.default_class:
        return True
    members = terms.class_members.get(name)
    if members is None:
        return terms.classes[name] <= terms.classes.get(terms.default_class, 0)
    return any(is_meant(each, principal) for each in members)


def charged_class(terms: Terms, name: str, policy: str) -> str:
    """Return the class by which a job is charged: the default, if `policy` does not look at classes."""
    counts = name and not terms.handed_to and looks_at_priorities(policy)
    return name if counts else terms.default_class
