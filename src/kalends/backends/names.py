"""Names of a site's reservations and allocations in a batch system.

A reservation is ``kal.SITE.LIFE-NUMBER``, and the name is never used again. It contains the life of the site
for two reasons. A store restored from an older backup counts from an older number again. And another site may
have the same name: its reservations are not ours.

The allocation of a job's attempt is ``kal.SITE/RESOURCE.LIFE-JOB.ATTEMPT``. Its life is the first one of the
site's store, because later lives look for the attempt by its name, too. So a site with a store restored from
an older backup finds the allocations that this store does not know, and ends them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from kalends.backends.records import PREFIX

LIFE_CHARACTERS: Final = 8

TOLD_MAX: Final = 5
"""The most names in a message."""

NO_LIFE: Final = "0" * LIFE_CHARACTERS
"""Part of the names of trial reservations, which are deleted at once."""

_LIFE: Final = rf"[0-9a-f]{{{LIFE_CHARACTERS}}}"
_TAIL: Final = re.compile(rf"({_LIFE})-[0-9]{{1,20}}")
_ALLOCATED: Final = re.compile(rf"(?:({_LIFE})-)?([0-9]+\.[0-9]+)")


def name_of(site: str, life: str, number: int) -> str:
    """Return the name of a reservation of `site`, which has this fence number in this life of it."""
    return f"{PREFIX}.{site}.{life[:LIFE_CHARACTERS]}-{number}"


def life_in(site: str, name: str) -> str | None:
    """Return the begin of the life in which a `site` of this name made a reservation; None if none did."""
    head, _, tail = name.rpartition(".")
    found = _TAIL.fullmatch(tail) if head == f"{PREFIX}.{site}" else None
    return found and found[1]


class Allocated(NamedTuple):
    """The contents of an allocation's name: the site's life, the job and the attempt.

    `life` is "" in names of the older form ``kal.SITE/RESOURCE.JOB.ATTEMPT``.
    """

    life: str
    attempt: str


def allocation_name(machine: str, first_life: str, attempt: str) -> str:
    """Return the name of the allocation for an attempt of a job on `machine` (``SITE/RESOURCE``)."""
    return f"{PREFIX}.{machine}.{first_life[:LIFE_CHARACTERS]}-{attempt}"


def allocated(machine: str, name: str) -> Allocated | None:
    """Return the contents of the name of an allocation for a `machine`; None for any other name."""
    head = f"{PREFIX}.{machine}."
    found = _ALLOCATED.fullmatch(name.removeprefix(head)) if name.startswith(head) else None
    return found and Allocated(found[1] or "", found[2])


def some_of(names: Iterable[str]) -> str:
    """Return the first of `names`, e.g. of nodes, as text for a message."""
    listed = sorted(names)
    return ", ".join(listed[:TOLD_MAX]) + (", ..." if len(listed) > TOLD_MAX else "")


class OwnNames:
    """The names that belong to a site with these `lives`; all others are never touched."""

    def __init__(self, site: str, lives: Iterable[str]) -> None:
        self.site = site
        self._lives = {NO_LIFE, *(each[:LIFE_CHARACTERS] for each in lives)}

    def __contains__(self, name: str) -> bool:
        """Whether one of the lives of the site has made the reservation of this name."""
        return life_in(self.site, name) in self._lives

    def of_another(self, name: str) -> bool:
        """Whether a site of this name has made it, in a life that is not one of this site's."""
        life = life_in(self.site, name)
        return life is not None and life not in self._lives

    def remember(self, lives: Iterable[str]) -> None:
        """Add these lives, which were the site's own and are missing in its store."""
        self._lives.update(each[:LIFE_CHARACTERS] for each in lives)
