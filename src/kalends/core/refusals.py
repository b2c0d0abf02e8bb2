"""Errors with remedies for users, made from the refusals of resources and sites."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kalends.core.errors import (
    Conflict,
    Expired,
    InvalidInput,
    KalendsError,
    LimitExceeded,
    NoCommonTime,
    NotAllowed,
    NotFound,
    Refusal,
    RefusalCode,
    Unavailable,
)

TRY_LATER: Final = "try again later"

_ERRORS: Final[tuple[tuple[str, type[KalendsError], str, str], ...]] = (
    (RefusalCode.UNKNOWN_RESOURCE, NotFound, "no such resource",
     "see `kalends resources`"),
    (RefusalCode.NOT_ALLOWED, NotAllowed, "an owner's access list does not allow this",
     "choose within the rules (`kalends resources NAME` lists them), or choose another resource"),
    (RefusalCode.DECLINED, NotAllowed, "an owner has declined it; nothing was booked",
     "ask the owner, or choose another time or resource"),
    (RefusalCode.RULED_OUT, NotAllowed, "an owner's own rules do not allow it; nothing was booked",
     "see the reason, and choose another time or ask for less"),
    (RefusalCode.UNANSWERED, Expired, "an owner did not answer in time; nothing was booked",
     "ask the owner, then book it again"),
    (RefusalCode.NO_ACCOUNT, NotAllowed, "you have no account in the batch system of the resource",
     "ask its owner for one, or choose another resource"),
    (RefusalCode.PAYER, NotAllowed, "an owner does not let you charge this project; nothing was booked",
     "ask the owner who may charge it, or pay from your own account"),
    (RefusalCode.CREDIT, LimitExceeded, "you have too little credit at an owner; nothing was booked",
     "choose a cheaper time or ask for less; the owner grants credit"),
    (RefusalCode.PRICE, NoCommonTime, "the price is above your limit; nothing was booked",
     "allow more with --at-most, or choose a cheaper time"),
    (RefusalCode.CREDIT_PROMISED, NoCommonTime, "your other requests have reserved the credit at an owner",
     "try again once they are decided"),
    (RefusalCode.ADVISORY, InvalidInput, "this resource takes jobs only; its slots cannot be reserved",
     "submit a job to it: kalends submit NAME -- PROGRAM"),
    (RefusalCode.NO_PLACE, InvalidInput, "no machine takes such a job",
     "see why each machine refuses, and ask for less"),
    (RefusalCode.OFF_GRAIN, InvalidInput, "the times do not fit the resource's grain",
     "choose a start and a length in whole steps of the grain, which `kalends resources` lists"),
    (RefusalCode.PAST, InvalidInput, "the last possible start has passed",
     "give a later time; for a window, a later end or a shorter duration"),
    (RefusalCode.BEYOND_HORIZON, InvalidInput, "further ahead than the owner accepts bookings",
     "give an earlier time"),
    (RefusalCode.TOO_MUCH, InvalidInput, "more units than the resource has", "ask for fewer units"),
    (RefusalCode.TOO_LONG, InvalidInput, "longer than the owner lets you book at a time",
     "ask for a shorter time; `kalends resources NAME` shows what you may book"),
    (RefusalCode.TOO_SHORT, InvalidInput, "shorter than the owner lets you book at a time",
     "ask for a longer time; `kalends resources NAME` shows what you may book"),
    (RefusalCode.INCOMPLETE, InvalidInput, "a resource comes only together with another one",
     "name both, for the same time: camera + table"),
    (RefusalCode.BEING_CHANGED, Conflict, "the reservation cannot be changed now",
     "look at it with `kalends show`, then try again"),
    (RefusalCode.LEAD_TIME, NoCommonTime, "an owner requires longer notice",
     "choose a later time; `kalends resources` shows the owner's rules"),
    (RefusalCode.SHARE, LimitExceeded, "your share of that week is used up",
     "choose another week, or cancel a later booking in that week"),
    (RefusalCode.LIMIT, LimitExceeded, "a limit of the owner is reached",
     "ask for less, or first release a hold or cancel a reservation that has not ended"),
    (RefusalCode.DRAINED, Unavailable, "a site accepts no new bookings at present", TRY_LATER),
    (RefusalCode.OLDER_VERSION, Conflict, "a site runs an older kalends, without a feature of this request",
     "leave the feature out or choose another resource, until the site's owner has upgraded it"),
    (RefusalCode.BAD_ANSWER, Unavailable, "a site gave an invalid answer; nothing was booked",
     "choose other resources, and inform the owner of that site"),
    (RefusalCode.SITE_UNUSABLE, Conflict, "this broker cannot use a site; nothing was booked",
     "ask the operator of the broker to fix it; or choose another resource"),
    (RefusalCode.SITE_DOWN, Unavailable, "a site cannot be reached, or is not ready yet; nothing was booked",
     TRY_LATER),
    (RefusalCode.TOO_LATE, NoCommonTime, "no machine can end the job in time",
     "give a later end, ask for less, or try again later"),
    (RefusalCode.CLOSED_HOURS, NoCommonTime, "a resource is closed at that time",
     "choose a time within its opening hours; `kalends find` lists common times"),
    (RefusalCode.BLACKOUT, NoCommonTime, "an owner has closed a resource at that time",
     "choose another time; `kalends find` lists common times"),
)  # fmt: skip


def error_of(refusals: Iterable[Refusal]) -> KalendsError:
    """Return the error for the most serious of `refusals`, with all of them."""
    all_of = tuple(dict.fromkeys(refusals))
    codes = {refusal.code for refusal in all_of}
    for code, kind, detail, remedy in _ERRORS:
        if code in codes:
            return kind(detail, remedy=remedy, refusals=all_of)
    return NoCommonTime(
        "no common start for all parts",
        remedy="give a wider window, or see `kalends find`",
        refusals=all_of,
    )
