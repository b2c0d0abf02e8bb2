"""Shares of a reservation; a hand-over ends them all, for its new holder to decide."""

from __future__ import annotations

from kalends.broker.register.rows import Rows
from kalends.broker.register.writes import ForgetShare, KeepShare, ShareRow


def keep_share(rows: Rows, op: KeepShare) -> int:
    share = op.share
    shares = rows.shares_of(share.reservation)
    if any(each.may == "hold" and each.party != f"holder:{share.user}" for each in shares):
        return -1
    others = [each for each in shares if each.party != share.party]
    alone = [each for each in others if share.may in ("take", "read") and each.may == share.may]
    if len(others) - len(alone) >= op.count_max:
        return 0
    for each in alone:
        rows.shares.pop((each.reservation, each.party), None)
    rows.shares[share.reservation, share.party] = share
    return 1


def forget_share(rows: Rows, op: ForgetShare) -> int:
    known = rows.shares.get((op.reservation, op.party)) is not None
    rows.shares.pop((op.reservation, op.party), None)
    return int(known)


def is_offered(rows: Rows, reservation: str, user: str) -> bool:
    """Whether `user` may still take the reservation over: its holder has not withdrawn it."""
    return rows.shares.get((reservation, f"heir:{user}")) is not None


def hand_over(rows: Rows, reservation: str, user: str, giver: str, at: int) -> None:
    """Write down that `user` holds the reservation; all its shares end."""
    for each in [*rows.shares_of(reservation)]:
        rows.shares.pop((each.reservation, each.party), None)
    party = f"holder:{user}"
    rows.shares[reservation, party] = ShareRow(reservation, party, "hold", giver, at)
