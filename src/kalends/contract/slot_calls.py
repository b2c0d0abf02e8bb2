"""The calls about reservations of a batch system, one by one, with their use by jobs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.job_calls import MachineName
from kalends.core import limits

SLOT_NAME_MAX = 256


class ReadSlots(Body, frozen=True, kw_only=True):
    """List reservations on `machine` in its batch system that end in ``[start, end)``, by their ends.

    Without `everyone`, the caller's own. `after_s` and `after_name` come from the previous page.
    """

    machine: MachineName
    start: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    end: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    everyone: bool = False
    count: Annotated[int, Meta(ge=1, le=limits.LISTING_MAX)] = 1_000
    after_s: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    after_name: Annotated[str, Meta(max_length=SLOT_NAME_MAX)] = ""


class SlotRow(Answer, frozen=True, kw_only=True):
    """A reservation of a batch system, by its `name` there. Times are seconds UTC.

    `end` is the time of release, if that was earlier; `nodes` are its last nodes. `used` are node-seconds of
    `jobs`, all of which have ended.
    """

    reservation: str
    name: str
    user: str
    account: str
    """The user's name in the batch system."""
    start: int
    end: int
    nodes: int
    reserved: int
    """Node-seconds, used or not."""
    jobs: int
    used: int


class SlotPage(Answer, frozen=True, kw_only=True):
    """Some reservations. `more`: there are others, on the page of `next_s` and `next_name`.

    All jobs that ended before `read_until` are known; 0: none are. `problem` is why later ones are not.
    """

    machine: str
    system: str
    rows: tuple[SlotRow, ...]
    read_until: int = 0
    problem: str = ""
    more: bool = False
    next_s: int = 0
    next_name: str = ""
