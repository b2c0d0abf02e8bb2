"""The common parts of an owner's rules: times that recur, names, and the defaults of the site."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from kalends.calendars import Recurrence
from kalends.core.errors import InvalidInput
from kalends.serving.configuration import HoursConfiguration


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_Named)


def recurrences_of(hours: Sequence[HoursConfiguration], zone: str) -> tuple[Recurrence, ...]:
    """Return when `hours` are; raises `InvalidInput` with the path of the fault, from ``hours`` on."""
    found = []
    for number, each in enumerate(hours):
        try:
            found.append(
                Recurrence(
                    each.rrule, each.start, int(each.duration_s), each.zone or zone, each.first
                )
            )
        except InvalidInput as error:
            where = f"hours[{number}].{error.where.removesuffix('_s')}"
            raise InvalidInput(error.detail, where=where, remedy=error.remedy) from error
    return tuple(found)


def rule_name(name: str, otherwise: str) -> str:
    """The owner's name of a rule as refusals show it: ``guests at night`` is ``guests-at-night``."""
    return re.sub(r"\s+", "-", name.strip().lower()) or otherwise


def all_of(
    own: Sequence[NamedT], defaults: Sequence[NamedT], kind: str, section: str
) -> Iterator[tuple[NamedT, str, str]]:
    """Each rule with its path and the name that it has where its owner gave none."""
    taken = {each.name for each in own if each.name}
    for number, each in enumerate(own, 1):
        yield each, f"{section}[{number - 1}]", f"{kind}-{number}"
    for number, each in enumerate(defaults, 1):
        if each.name not in taken:
            yield each, f"defaults.{section}[{number - 1}]", f"site-{kind}-{number}"
