"""Names of what is ours in a batch system.

A reservation is ``kal.SITE.LIFE-NUMBER``, never used again. The life of the site is in it because an older
image of its store, put back, counts its numbers anew; and because another site may have been given the same
name: what that one has made is not ours.

What an attempt of a job runs in is ``kal.SITE/RESOURCE.LIFE-JOB.ATTEMPT``. Its life is the first one of the
site's store: an attempt is looked for by its name in later lives, too, and an older image of the store, put
back, is to find what it has forgotten, and to end it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from kalends.backends.records import PREFIX

LIFE_CHARACTERS: Final = 8

TOLD_MAX: Final = 5
"""Names that a message tells."""

NO_LIFE: Final = "0" * LIFE_CHARACTERS
"""In names of reservations that are made to be deleted again, to see whether they can be made."""

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
    """What the name of an allocation says: whose it is, and the attempt that it was made for.

    `life` is "" where it does not say: names once were ``kal.SITE/RESOURCE.JOB.ATTEMPT``.
    """

    life: str
    attempt: str


def allocation_name(machine: str, first_life: str, attempt: str) -> str:
    """Return the name of what an attempt of a job on `machine` (``SITE/RESOURCE``) runs in."""
    return f"{PREFIX}.{machine}.{first_life[:LIFE_CHARACTERS]}-{attempt}"


def allocated(machine: str, name: str) -> Allocated | None:
    """Return what the name of an allocation for a `machine` of this name says; None for any other name."""
    head = f"{PREFIX}.{machine}."
    found = _ALLOCATED.fullmatch(name.removeprefix(head)) if name.startswith(head) else None
    return found and Allocated(found[1] or "", found[2])


def some_of(names: Iterable[str]) -> str:
    """Return the first of `names`, of nodes, say, as a message tells them."""
    listed = sorted(names)
    return ", ".join(listed[:TOLD_MAX]) + (", ..." if len(listed) > TOLD_MAX else "")


class OwnNames:
    """Which names are those of a site with these `lives`; all others are never touched."""

    def __init__(self, site: str, lives: Iterable[str]) -> None:
        self.site = site
        self._lives = {NO_LIFE, *(each[:LIFE_CHARACTERS] for each in lives)}

    def __contains__(self, name: str) -> bool:
        """Whether one of the lives of the site has made the reservation of this name."""
        return life_in(self.site, name) in self._lives

    def of_another(self, name: str) -> bool:
        """Whether a site of this name has made it, in a life that is none of this one's."""
        life = life_in(self.site, name)
        return life is not None and life not in self._lives

    def remember(self, lives: Iterable[str]) -> None:
        """Have these lives too, which were the site's own and are forgotten."""
        self._lives.update(each[:LIFE_CHARACTERS] for each in lives)
