"""Petitions to an owner: the slots that wait for a decision, and the decision."""

from __future__ import annotations

from typing import Literal

import msgspec

from kalends.contract.fields import Want

PetitionState = Literal["pending", "approved", "declined", "lapsed"]
"""lapsed: the owner has said nothing in time."""


class Petition(msgspec.Struct, frozen=True, omit_defaults=True):
    """`wants` of a request of `user` wait for the owner's word until `until_s`, or have had it (UTC seconds).

    Other slots of the same request are a new petition, with the next `revision`: no word is taken for
    slots, or for a `user`, that its owner has not seen. `reservation` is what users call the request, `note`
    what its user has written. `word` was said `by` a user at `decided_s`. `hold_ids` are the holds that are
    stored with it.
    """

    user: str
    wants: tuple[Want, ...]
    asked_s: int
    until_s: int
    revision: int = 1
    hold_ids: tuple[int, ...] = ()
    reservation: str = ""
    note: str = ""
    state: PetitionState = "pending"
    word: str = ""
    by: str = ""
    decided_s: int = 0
    first: str = ""
    """The user who has approved it, while it waits for a second one; and afterwards."""

    @property
    def stands(self) -> bool:
        """Whether it may still come to a promise: then a restart keeps what is held for it."""
        return self.state in ("pending", "approved")


def as_committed(petition: Petition | None) -> Petition | None:
    """Return what a commit says of `petition`: it was approved, by a word that is forgotten here."""
    if petition is None or petition.state == "approved":
        return petition
    return msgspec.structs.replace(petition, state="approved", word="", by="", decided_s=0)
