"""The sockets of the kernel: what it asks of its wings, and tells them.

A wing that every site has is handed in. For one that a site may do without, something that does nothing
stands in its socket.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import NamedTuple, Protocol

from kalends.calendars.profiles import Step
from kalends.contract import messages as m
from kalends.contract.costs import NOT_TOLD, Cost, Pays
from kalends.contract.fields import Want
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.bills import Bill
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.earmarks import Stretch
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.parts import Plug


class Wing(Protocol):
    """Parts that stand and fall together, behind one name."""

    @property
    def plugs(self) -> tuple[Plug, ...]: ...


class Consent(Wing, Protocol):
    """Consent before a promise: it may take days, and slots that wait for it are held meanwhile."""

    def needed(
        self, rid: str, principal: Principal, wants: Sequence[Want], replaces: str = ""
    ) -> tuple[Want, ...]:
        """Return those of `wants` that need consent."""

    def lacking(self, stake: Stake, named: Container[int] | None = None) -> tuple[Want, ...]:
        """Return what `stake` claims, or what the `named` holds are, and cannot be promised yet."""

    def only_held(self, visit: m.Visit) -> m.Visit:
        """Return `visit` as one that holds, where what it wants may not be promised at once."""

    def why_over(self, rid: str) -> tuple[Refusal, ...]:
        """Return why the request can no longer get consent."""

    def why_not(self, stake: Stake, named: Container[int]) -> tuple[Refusal, ...]:
        """Return why the `named` holds are not promised."""

    def why_not_again(self, relock: m.Relock) -> str:
        """Return why what a register says was committed is not locked again, or ""."""


class Rulings(Wing, Protocol):
    """Owners' scripts, which decide on a visit before anything is held for it."""

    @property
    def decides(self) -> bool:
        """Whether any resource has a script: if not, nothing of the rest is called."""

    def look(self) -> None:
        """Take notice of the scripts that calendars have now."""

    def awaits(
        self, visit: m.Visit | m.Dispatch, wants: Sequence[tuple[Want, int]], now: Moment,
        resume: Callable[[Moment], None],
    ) -> bool:  # fmt: skip
        """Have scripts decide on `wants`, each with its common start (0: all go together).

        False when there is nothing to decide, or all is decided. True when a script runs: then `resume` is
        called once, at the end of the last run. A repeated visit waits for nothing more.
        """

    def refusals(
        self, rid: str, principal: Principal, wants: Sequence[Want]
    ) -> tuple[Refusal, ...]:
        """Return why scripts refuse some of `wants`."""

    def why_not_slot(self, rid: str, principal: Principal, want: Want) -> Refusal | None:
        """Return why a slot that an agent has chosen is not held: ruled out, or not decided on."""

    def asks_owner(self, rid: str, principal: Principal, want: Want) -> bool:
        """Whether a script leaves the decision about this slot to its owner."""

    def why_not_promise(self, stake: Stake, named: Container[int]) -> tuple[Refusal, ...]:
        """Return why the `named` holds are not promised: no script that holds now has allowed them."""


class Unruled:
    """A site whose owners have no scripts."""

    decides = False
    plugs: tuple[Plug, ...] = ()

    def __init__(self, base: object) -> None:
        """Make it of nothing."""

    def look(self) -> None: ...

    def awaits(
        self, visit: m.Visit | m.Dispatch, wants: Sequence[tuple[Want, int]], now: Moment,
        resume: Callable[[Moment], None],
    ) -> bool:  # fmt: skip
        return False

    def refusals(
        self, rid: str, principal: Principal, wants: Sequence[Want]
    ) -> tuple[Refusal, ...]:
        return ()

    def why_not_slot(self, rid: str, principal: Principal, want: Want) -> Refusal | None:
        return None

    def asks_owner(self, rid: str, principal: Principal, want: Want) -> bool:
        return False

    def why_not_promise(self, stake: Stake, named: Container[int]) -> tuple[Refusal, ...]:
        return ()


class Payments(Wing, Protocol):
    """Credit that pays for slots. Nothing of it is called for a stake without a bill, but `price`."""

    @property
    def charges(self) -> bool:
        """Whether slots may cost something: if not, no stake gets a bill."""

    def look(self) -> None:
        """Take notice of the prices that calendars have now."""

    def why_not(
        self, visit: m.Visit, before: Stake | None, now: Moment, *, firm: bool
    ) -> tuple[Refusal, ...]:
        """Return why `visit` cannot be paid; its request has the stake `before`.

        If it is `firm`, what others have reserved is not there for it.
        """

    def why_not_slot(
        self, rid: str, principal: Principal, want: Want, pays: Pays | None, now: Moment
    ) -> Refusal | None:
        """Return why a slot that an agent has chosen cannot be paid."""

    def why_too_dear(
        self, principal: Principal, pays: Pays, want: Want, length_s: int
    ) -> Refusal | None:
        """Return why nothing of `length_s` within `want` can be paid now, whenever it begins."""

    def price(
        self, stake: Stake, pays: Pays | None, before: Stake | None, *, considered: bool = False
    ) -> Bill | None:
        """Fix the terms of what `stake` is about to hold; what `before` held keeps its terms."""

    def paid_by(self, stake: Stake, pays: Pays) -> Bill | Refusal:
        """Return the bill of what `stake` holds as one that is paid so; or why it cannot be."""

    def why_not_promise(
        self, stake: Stake, named: Container[int], now: Moment
    ) -> tuple[Refusal, ...]:
        """Return why the `named` holds are not promised."""

    def promise(self, stake: Stake, now: Moment) -> Bill:
        """Reserve what `stake` costs, which `why_not_promise` has allowed in this step.

        It is promised, or put before its owner.
        """

    def locked(self, stake: Stake, replaced: Stake | None, now_s: int) -> Bill:
        """Charge what `stake` has locked, and pay back what it has `replaced`."""

    def locked_again(self, stake: Stake, cost: Cost, now_s: int) -> Bill | None:
        """Charge what was locked and then forgotten, whatever is left, if it is not charged.

        Nothing is charged that this site has not voted.
        """

    def why_not_again(self, relock: m.Relock) -> str:
        """Return which slot costs something and was not voted here, in words, or ""."""

    def charged_before(self, recharge: m.Recharge, now_s: int) -> None:
        """Charge what was charged and then forgotten, and pay back as much as was paid back then."""

    def cancelled(self, stake: Stake, at: int, now_s: int, *, reclaimed: bool) -> None:
        """Pay back what a cancel at `at` (seconds UTC) leaves of the charge for `stake`.

        If an owner has `reclaimed` slots of it, that is all that was not used.
        """

    def cost(self, stake: Stake) -> Cost | None:
        """Return the cost of `stake`, as brokers hear it."""

    def refund(self, rid: str) -> int:
        """Return what was paid back for `rid`; -1 if nothing is known of that."""

    def fold(self, over_s: int, closed_s: int) -> None:
        """Put entries together that are old, at a time when all that ended by `over_s` has long ended.

        No claim that ends by `closed_s` is taken any more.
        """


class Unpaid:
    """A site without prices."""

    charges = False
    plugs: tuple[Plug, ...] = ()

    def __init__(self, base: object) -> None:
        """Make it of nothing."""

    def look(self) -> None: ...

    def why_not(
        self, visit: m.Visit, before: Stake | None, now: Moment, *, firm: bool
    ) -> tuple[Refusal, ...]:
        return ()

    def why_not_slot(
        self, rid: str, principal: Principal, want: Want, pays: Pays | None, now: Moment
    ) -> Refusal | None:
        return None

    def why_too_dear(
        self, principal: Principal, pays: Pays, want: Want, length_s: int
    ) -> Refusal | None:
        return None

    def price(
        self, stake: Stake, pays: Pays | None, before: Stake | None, *, considered: bool = False
    ) -> Bill | None:
        return None

    def why_not_promise(
        self, stake: Stake, named: Container[int], now: Moment
    ) -> tuple[Refusal, ...]:
        return ()

    def promise(self, stake: Stake, now: Moment) -> Bill:
        raise AssertionError(f"{stake.rid} has a bill")

    def locked(self, stake: Stake, replaced: Stake | None, now_s: int) -> Bill:
        raise AssertionError(f"{stake.rid} has a bill")

    def locked_again(self, stake: Stake, cost: Cost, now_s: int) -> Bill | None:
        return None

    def why_not_again(self, relock: m.Relock) -> str:
        return ""

    def charged_before(self, recharge: m.Recharge, now_s: int) -> None: ...

    def cancelled(self, stake: Stake, at: int, now_s: int, *, reclaimed: bool) -> None: ...

    def cost(self, stake: Stake) -> Cost | None:
        return None

    def refund(self, rid: str) -> int:
        return NOT_TOLD

    def fold(self, over_s: int, closed_s: int) -> None: ...

    def paid_by(self, stake: Stake, pays: Pays) -> Bill | Refusal:
        raise AssertionError(f"{stake.rid} has a bill")


class Unkept(NamedTuple):
    """A promised slot of the request `rid` that a guard cannot keep, by the number of its grant."""

    number: int
    rid: str
    resource: str
    start: int
    end: int
    why: str


class Absence(NamedTuple):
    """The slot of the request `rid`, whose user did not come."""

    rid: str
    resource: str
    start: int
    end: int
    why: str


class PriorClaims(Wing, Protocol):
    """First calls on room: owners take time back, and guards give up promises that they cannot keep."""

    def refusals(
        self, wants: Sequence[Want], rid: str = "", replaces: str = ""
    ) -> tuple[Refusal, ...]:
        """Return why `wants` cannot have what owners have taken back in part, and have not got yet."""

    def given_up(self, rid: str) -> Sequence[Piece]:
        """Return the room of the reservation `rid` that is of no use to it any more."""

    def catch(self, freed: Sequence[Stretch]) -> None:
        """Take of what came free what lacks, before it finds other takers."""

    def let_resize(self, change: Callable[[], None]) -> None:
        """Let `change` change capacities; reclaims in units make way, and come again."""

    def give_up(self, slot: Unkept, now: Moment) -> bool:
        """Have the reservation moved that has `slot`; return False if its broker cannot be asked now."""

    def keep(self, number: int) -> None:
        """Withdraw what `give_up` has said of the grant of this number."""

    def nobody_came(self, slot: Absence, now: Moment) -> None:
        """Have the reservation cancelled that has `slot`, at all its sites."""

    def is_given_back(self, rid: str) -> bool:
        """Whether `nobody_came` was called for this request."""


class Visitors(Wing, Protocol):
    """Agents at the site, who may give back what they hold."""

    @property
    def near(self) -> tuple[str, ...]:
        """The sites to which it passes visits on."""

    def is_asking(self, rid: str, att: int) -> bool:
        """Whether this visit already waits for what agents may give back."""

    def ask_back(
        self, wanted: m.Visit, needs: Sequence[Piece], now: Moment, resume: Callable[[Moment], None]
    ) -> bool:
        """Ask for what stands in the way of `needs`; then `resume` is called, once, later.

        False when that is hopeless: nobody is asked, and `resume` is not called.
        """

    def renewed(self, rid: str, source: str) -> None:
        """Note that the broker at `source` has chosen what it keeps: no agent gives that back any more."""


Decided = Callable[[tuple[Refusal, ...], Moment], None]
"""Takes the reasons why something is not granted, or none once all is."""


class Guard(Wing, Protocol):
    """Others who have to grant what a site is about to promise.

    The vote waits for them: what it claims is `intended` until they have granted it. What they may have kept
    takes room until they have given it back. Without any, each answer is the one given here.
    """

    @property
    def resources(self) -> Collection[str]:
        """The resources of which it has to grant what is promised."""

    def why_not(self, principal: Principal, resources: Iterable[str]) -> Refusal | None:
        """Return why this user can have nothing of one of `resources`, whatever is free; or None."""
        return None

    def vote_ms(self) -> int:
        """Return for how long a vote may wait for its grants, at most."""
        return 0

    def as_of(self, resource: str) -> int:
        """Return when it last saw who has `resource` (seconds UTC); 0 where it has nothing to grant."""
        return 0

    def fragments(self, resource: str, since: int, until: int, length_s: int) -> Sequence[Step]:
        """Return when how many units are free, and would not be granted for `length_s`."""
        return ()

    def intend(self, stake: Stake, now: Moment, then: Decided) -> Refusal | None:
        """Ask for everything that `stake` claims, and has booked; `then` hears how that ends.

        Returns why it cannot be asked for: then nothing is asked for, and `then` hears nothing.
        """
        raise AssertionError(f"{stake.rid} needs no grant")

    def left(self, rid: str, claims: Iterable[Claim], *, heir: str = "") -> None:
        """Give back the grants of `claims` of `rid`, which are given up.

        Those that it shared with a change of it, the `heir`, are the own of that.
        """

    def locked(self, stake: Stake) -> None:
        """Note that all claims of `stake` are locked."""

    def take_over(self, stake: Stake, others: Iterable[Claim], replaced: Iterable[Claim]) -> None:
        """Note that `stake` is locked, and that it has given up `others` and has `replaced` older claims."""

    def make_good(self, stake: Stake) -> None:
        """Have granted what `stake` has locked, and nothing was granted for."""

    def resume(self, number: int, why: str, now: Moment) -> bool:
        """Go on with a grant that an earlier life could not keep; return False if there is none any more."""
        return False


class Unguarded(Guard):
    """A site that promises on its own."""

    plugs: tuple[Plug, ...] = ()
    resources: Collection[str] = ()

    def __init__(self, base: object) -> None:
        """Make it of nothing."""


class Queues(Protocol):
    """The questions that only the queues of machines can answer; these are the answers without any."""

    def has_job(self, rid: str) -> bool:
        """Whether a job of the request waits or runs here, however long after its time."""
        return False

    def why_not_part(self, principal: Principal, part: JobRequest) -> Refusal | None:
        """Return why a queue would not take a part of a job in step, or None."""
        return no_jobs_on(part.machine)


class NoQueues(Queues):
    """No machine of the site runs jobs."""


def no_jobs_on(resource: str) -> Refusal:
    """Return the refusal of jobs on what runs none."""
    return Refusal(where=resource, code=RefusalCode.NO_PLACE, detail="no jobs run there")
