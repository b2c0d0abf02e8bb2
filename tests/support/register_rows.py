"""What a broker's register has stored of a request, as those read it who do not ask the product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

COMMITTED = ("commit", "cancelled", "replaced")


class Row(NamedTuple):
    """A row of the register, as it is durable."""

    client: str
    key: str
    att: int
    state: str
    owner: str
    done: bool
    body: Mapping[str, Any]

    @property
    def reservation(self) -> str:
        """The id that users know, which survives changes."""
        return str(self.body.get("reservation", ""))

    def committed(self, att: int) -> bool:
        return self.state in COMMITTED and self.att == att

    def dead(self, att: int) -> bool:
        """Attempt `att` can never be committed any more."""
        return (
            self.att > att or self.state == "closed" or (self.state in COMMITTED and self.att < att)
        )

    def chosen(self, site: str) -> set[int]:
        """The hold ids that it has chosen at `site`."""
        return set(self.body.get("chosen", {}).get(site, ()))
