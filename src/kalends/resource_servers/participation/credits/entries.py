"""Entries of a site's ledger, as they are stored: each has a key, and stands until it is folded.

An entry that is told again has the same key, and changes nothing. The account of a reservation is charged
by the step that locks it, and paid back by the step that cancels or replaces it. Old entries, of which
nobody asks any more, are folded into one ``carried`` entry for each account.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claims.bills import Share
from kalends.resource_servers.participation.effects import EntryStored

JOB: Final = "job:"
"""The keys of charges for jobs begin so."""

EntryKind = Literal["grant", "take", "charge", "refund", "carried"]


class CreditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """`account` has `amount` parts more, or less; `shares` say of which lots, there and in what it is a
    part of.

    A grant is a new lot: it pays for slot times in ``[start, until)``. `ends` is when the last slot of a
    reservation ends, or a job ended; 0: it is about neither. What is carried is the sum of entries whose
    slots ended by `until`, the last of which was made at `at`. `number` counts the entries of the
    site, `at` is when it was made (UTC seconds, by the site's clock), `about` is the request, `user` who
    asked for it.
    """

    key: str
    number: int
    account: str
    kind: EntryKind
    amount: int
    at: int
    shares: tuple[Share, ...] = ()
    start: int = 0
    until: int = TIME_S_MAX
    about: str = ""
    ends: int = 0
    user: str = ""
    note: str = ""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(CreditEntry)


def stored_entry(entry: CreditEntry) -> EntryStored:
    return EntryStored(entry.key, entry.number, _ENCODER.encode(entry))


def decode_entry(body: bytes) -> CreditEntry:
    """The inverse of `stored_entry`; raises `msgspec.DecodeError` for other bytes."""
    return _DECODER.decode(body)


def charge_key(rid: str) -> str:
    return f"charge:{rid}"


def refund_key(rid: str) -> str:
    return f"refund:{rid}"


def job_key(machine: str, number: int) -> str:
    return f"{JOB}{machine}/{number}"


def carried_key(account: str) -> str:
    return f"carried:{account}"


def grant_key(key: str) -> str:
    return f"grant:{key}"
