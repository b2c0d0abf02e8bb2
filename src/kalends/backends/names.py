"""Names of our reservations in a batch system: ``kal.SITE.LIFE-NUMBER``, never used again.

The life of the site is in it because an older image of its store, put back, counts its numbers anew.
"""

from __future__ import annotations

import re
from typing import Final

from kalends.backends.records import PREFIX

LIFE_CHARACTERS: Final = 8

_TAIL: Final = re.compile(r"[0-9a-f]{8}-[0-9]{1,20}")


def name_of(site: str, life: str, number: int) -> str:
    """Return the name of a reservation of `site`, which has this fence number in this life of it."""
    return f"{PREFIX}.{site}.{life[:LIFE_CHARACTERS]}-{number}"


def is_ours(site: str, name: str) -> bool:
    """Whether a reservation of this name is one that `site` has made; all others are never touched."""
    head, _, number = name.rpartition(".")
    return head == f"{PREFIX}.{site}" and _TAIL.fullmatch(number) is not None
