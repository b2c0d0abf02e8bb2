"""Typed errors, and their form on the wire: RFC 9457 problem details.

Every error has a fault (`detail`), a place (`where`: a path such as ``terms[0].units``, a
resource or a site) and a remedy (`remedy`). The class shows whose fault it was and fixes the
HTTP status, the stable `code` and the exit code of the command line. An error never carries a secret
or another user's data.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

PROBLEM_TYPE_PREFIX = "urn:kalends:problem:"

SHOWN_MAX = 8
"""Refusals in the text of an error; all of them are in `KalendsError.refusals`."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Problem details (RFC 9457) as sent to clients; `code` is stable, `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    where: str = ""
    remedy: str = ""
    request_id: str = ""
    retry_after_s: float = 0.0
    refusals: tuple[Refusal, ...] = ()


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reason why one resource (or site) refused: the rule, never the data behind it."""

    where: str
    """The resource ``site/name``, or the site."""
    code: str
    """Stable: see `RefusalCode`."""
    detail: str
    rule: str = ""
    """The owner's name of the rule that refused, if a rule did."""

    @property
    def why(self) -> str:
        """Return the detail, with the owner's rule unless the detail names it."""
        if not self.rule or f"rule {self.rule} " in self.detail:
            return self.detail
        return f"{self.detail} (rule {self.rule})"


class KalendsError(Exception):
    """Base of all errors of kalends; catching it catches every error this package raises on purpose."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    title: ClassVar[str] = "Internal error"

    def __init__(
        self,
        detail: str,
        *,
        where: str = "",
        remedy: str = "",
        request_id: str = "",
        retry_after_s: float = 0.0,
        refusals: tuple[Refusal, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.where = where
        self.remedy = remedy
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.refusals = refusals

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        refused = "".join(f"; {each.where}: {each.why}" for each in self.refusals[:SHOWN_MAX])
        more = len(self.refusals) - SHOWN_MAX
        rest = f"; and {more} more refusals" if more > 0 else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{where}{self.detail}{refused}{rest}{remedy}"

    def to_problem(self) -> Problem:
        return Problem(
            type=PROBLEM_TYPE_PREFIX + self.code,
            title=self.title,
            status=self.status,
            detail=self.detail,
            code=self.code,
            where=self.where,
            remedy=self.remedy,
            request_id=self.request_id,
            retry_after_s=self.retry_after_s,
            refusals=self.refusals,
        )


class InvalidInput(KalendsError):
    """The caller's fault: the input cannot be understood, or can never be right."""

    code = "invalid-input"
    status = 400
    exit_code = 2
    title = "Invalid input"


class TooLarge(KalendsError):
    """The caller's fault: a body, list or frame beyond its limit."""

    code = "too-large"
    status = 413
    exit_code = 2
    title = "Too large"


class KeyReused(KalendsError):
    """The caller's fault: the key was used before with another body. Nothing was done."""

    code = "key-reused"
    status = 422
    exit_code = 2
    title = "Key reused with another body"


class NotAuthenticated(KalendsError):
    """The token is missing, expired, for another server, or not signed by a trusted key."""

    code = "not-authenticated"
    status = 401
    exit_code = 4
    title = "Not authenticated"


class NotAllowed(KalendsError):
    """An owner's rule refuses the call; the refusal names the rule."""

    code = "not-allowed"
    status = 403
    exit_code = 4
    title = "Not allowed"


class NotFound(KalendsError):
    """The object does not exist, or this user may not see it."""

    code = "not-found"
    status = 404
    exit_code = 1
    title = "Not found"


class Conflict(KalendsError):
    """The object is not in the state that the call needs; repeating the call alone will not help."""

    code = "conflict"
    status = 409
    exit_code = 1
    title = "Conflict"


class NoCommonTime(KalendsError):
    """No start in the window suits every resource; `refusals` say which resource refused and why."""

    code = "no-common-time"
    status = 409
    exit_code = 5
    title = "No common time"


class LostRace(KalendsError):
    """Another user took the slot between looking and locking, on every try. Nothing is held."""

    code = "lost-race"
    status = 409
    exit_code = 6
    title = "Lost a race"


class Expired(KalendsError):
    """A hold or a deadline ran out. Nothing is held."""

    code = "expired"
    status = 410
    exit_code = 7
    title = "Expired"


class LimitExceeded(KalendsError):
    """A limit on rates, holds or open requests; `retry_after_s` is the time to wait, if waiting helps."""

    code = "limit-exceeded"
    status = 429
    exit_code = 75
    title = "Limit exceeded"


class Unavailable(KalendsError):
    """A site, a broker or its store cannot answer now. Nothing was done, or the outcome is certain."""

    code = "unavailable"
    status = 503
    exit_code = 75
    title = "Unavailable"


class OutcomeUnknown(KalendsError):
    """The connection broke after sending, so the call may have been done. Ask by the same key to find out."""

    code = "outcome-unknown"
    status = 504
    exit_code = 75
    title = "Outcome unknown"


class StoreDamaged(KalendsError):
    """A store file is damaged, foreign, or older than its side file; it was not touched."""

    code = "store-damaged"
    status = 500
    exit_code = 1
    title = "Store refused"


class IllegalEvent(KalendsError):
    """A peer's or our own fault: an event that the transition table does not allow in this state."""

    code = "illegal-event"
    status = 500
    title = "Illegal event"


_BY_CODE: dict[str, type[KalendsError]] = {
    kind.code: kind
    for kind in (
        InvalidInput, TooLarge, KeyReused, NotAuthenticated, NotAllowed, NotFound, Conflict,
        NoCommonTime, LostRace, Expired, LimitExceeded, Unavailable, OutcomeUnknown, StoreDamaged,
        IllegalEvent,
    )
}  # fmt: skip


def error_from_problem(problem: Problem) -> KalendsError:
    """Return the typed error of a received `problem` (`KalendsError` for unknown codes)."""
    return _BY_CODE.get(problem.code, KalendsError)(
        problem.detail,
        where=problem.where,
        remedy=problem.remedy,
        request_id=problem.request_id,
        retry_after_s=problem.retry_after_s,
        refusals=problem.refusals,
    )


class RefusalCode:
    """The stable codes of `Refusal`."""

    UNKNOWN_RESOURCE = "unknown-resource"
    NOT_ALLOWED = "not-allowed"
    CLOSED_HOURS = "closed-hours"
    PAST = "past"
    BEYOND_HORIZON = "beyond-horizon"
    OFF_GRAIN = "off-grain"
    TOO_MUCH = "too-much"
    BUSY = "busy"
    """The slot is locked: it comes free only if its reservation is cancelled."""
    HELD = "held"
    """Other requests hold the slot, or wait for it: it may come free in a moment."""
    LIMIT = "limit"
    TOO_LONG = "too-long"
    """Longer than the owner allows, to all users or to this one, in one booking."""
    TOO_SHORT = "too-short"
    """Shorter than the owner allows, to all users or to this one, in one booking."""
    INCOMPLETE = "incomplete"
    """The owner gives the resource only together with another one, which the request lacks."""
    BEING_CHANGED = "being-changed"
    SITE_DOWN = "site-down"
    SITE_UNUSABLE = "site-unusable"
    """Broker and site do not agree on a name, a key or a certificate: an operator has to fix it."""
    DRAINED = "drained"
    BLACKOUT = "blackout"
    """The owner has closed that time to all users, e.g. for maintenance."""
    LEAD_TIME = "lead-time"
    """The owner requires longer notice."""
    SHARE = "share"
    """The user's, or the group's, share of that week is used up."""
    OLDER_VERSION = "older-version"
    """A server on the way runs a version of kalends that lacks a feature of the request."""
    BAD_ANSWER = "bad-answer"
    """The site's answer is impossible; it is ignored and counts as a refusal."""
    NO_ACCOUNT = "no-account"
    """The batch system behind the resource does not know the user."""
    ADVISORY = "advisory"
    """The resource takes jobs only; its batch system cannot reserve slots."""
    NO_PLACE = "no-place"
    """The machine's queue does not take such a job."""
    TOO_LATE = "too-late"
    """The job would end there after its latest end."""
    DECLINED = "declined"
    """The owner has declined this booking."""
    UNANSWERED = "unanswered"
    """The owner must approve this booking, and did not answer in time."""
    RULED_OUT = "ruled-out"
    """The owner's own script refuses this booking."""
    NOT_CHOSEN = "not-chosen"
    """The user's own agent did not choose it."""
    PRICE = "price"
    """It costs more than the user allows."""
    CREDIT = "credit"
    """The account that is to pay has too little credit left at this owner."""
    CREDIT_PROMISED = "credit-promised"
    """Other requests have been promised the credit, or hold slots for it: it may come free in a moment."""
    PAYER = "payer"
    """The owner has no such project, or this user may not charge it."""
