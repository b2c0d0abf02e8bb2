"""Reminders of reservations that begin soon: when each is due, and whether it is still right.

A reminder is due as long before its reservation begins as its address asks. There is none of a
reservation that was made, or moved, later than that: its user has just dealt with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kalends.broker.coordination.record.decision_notices import reminder
from kalends.broker.coordination.record.decision_record import Record, Unreadable
from kalends.broker.register.contract import DueReminder
from kalends.broker.register.writes import NoticeAddress, Remind
from kalends.notices.delivery import Delivery
from kalends.notices.request_notice import RequestNotice


def posted(due: Sequence[DueReminder], count_max: int) -> tuple[Remind, ...]:
    """Return the writes that post `due` reminders, one for each address.

    They are ordered by that time, and then by address. With `count_max` of them there may be others for the
    last address at the same time: all of these wait for the next look.
    """
    more = len(due) == count_max
    whole = [each for each in due if not more or each[:2] != due[-1][:2]]
    of_address: dict[NoticeAddress, list[DueReminder]] = {}
    # Of more than that for one address at one second, some are not reminded of.
    for each in whole or due:
        of_address.setdefault(each.address, []).append(each)
    return tuple(
        Remind(address, found[-1].due_s, tuple(_notices(found)))
        for address, found in of_address.items()
    )


def _notices(found: Iterable[DueReminder]) -> Iterator[tuple[str, RequestNotice]]:
    for due_s, address, record in found:
        if record.created_ms // 1_000 <= due_s:
            yield record.rid, reminder(record, due_s, address.receiver)


def is_ahead(current: Record | Unreadable, delivery: Delivery, now_s: int) -> bool:
    """Return whether the reservation of a reminder still is its user's, at that time, and has not begun."""
    return (
        isinstance(current, Record)
        and current.state == "commit"
        and current.user == delivery.user
        and current.begins == min(slot["start"] for slot in delivery.facts["slots"])
        and current.begins > now_s
    )
