"""Notices: stored with the decisions that they tell, made into deliveries once.

Nothing is stored for a user who is told nowhere.
"""

from __future__ import annotations

from kalends.broker.coordination.record.decision_record import Telling, decode_record
from kalends.broker.register.rows import Rows
from kalends.broker.register.writes import (
    ForgetAddress,
    KeepAddress,
    MakeDeliveries,
    PostNotice,
    Remind,
)
from kalends.notices.delivery import DeliveriesDone
from kalends.notices.request_notice import RequestNotice


def tell(rows: Rows, op: Telling) -> None:
    """Store what the request has to tell.

    That there is no other place for a job is told once, however often it is tried: tries have keys in
    common, up to their last word.
    """
    for notice in op.notices:
        if notice.occasion != "not-placed" or not rows.has_closed(*tries_of(op.body), op.rid):
            post(rows, notice)


def tries_of(body: bytes) -> tuple[str, str]:
    """Return the user of a record, and what the keys of its tries for another place have in common."""
    record = decode_record(body)
    return record.user, record.key.rpartition(" ")[0]


def post(rows: Rows, notice: RequestNotice) -> None:
    if rows.receivers(notice.user):
        rows.post(notice)


def post_notice(rows: Rows, op: PostNotice) -> None:
    post(rows, op.notice)


def make_deliveries(rows: Rows, op: MakeDeliveries) -> int:
    """All of it or nothing."""
    if not rows.take_notices(op.numbers):
        return 0
    for delivery in op.deliveries:
        rows.put_delivery(delivery)
    return 1


def end_deliveries(rows: Rows, op: DeliveriesDone) -> None:
    for id in op.ids:
        rows.drop_delivery(id)


def keep_address(rows: Rows, op: KeepAddress) -> int:
    user, receiver = op.address.user, op.address.receiver
    others = [each for each in rows.receivers(user) if each != receiver]
    if len(others) >= op.count_max:
        return 0
    address, known = op.address, rows.addresses.get((user, receiver))
    if known is not None and known.remind_s == address.remind_s:
        address = address._replace(reminded_at=known.reminded_at)
    rows.addresses[user, receiver] = address
    return 1


def remind(rows: Rows, op: Remind) -> int:
    """Post the reminders once: a replica that has read the same address posts nothing after this."""
    key = op.address.user, op.address.receiver
    if rows.addresses.get(key) != op.address:
        return 0
    rows.addresses[key] = op.address._replace(reminded_at=op.until)
    for rid, notice in op.notices:
        request = rows.requests.get(rid)
        if request is not None and request.state == "commit":
            rows.post(notice)
    return 1


def forget_address(rows: Rows, op: ForgetAddress) -> int:
    known = rows.addresses.get((op.user, op.receiver)) is not None
    rows.addresses.pop((op.user, op.receiver), None)
    return int(known)
