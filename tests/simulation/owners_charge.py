"""Owners whose slots cost credit, and a judge with its own books.

The books are made of what sites have voted and what the register has decided, and of nothing else. In the
end each site must have charged just that. On the way no account may owe more than its owner allows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from kalends.broker.coordination.record.decision_record import Recover
from kalends.broker.reconciliation.comparison import Ours, compare
from kalends.calendars import OwnerRules, PriceRule, Prices, ResourceCalendar
from kalends.contract import messages as m
from kalends.contract.costs import Cost, PaidPiece, SlotCost
from kalends.core.errors import Conflict
from kalends.core.identifiers import machine_of
from kalends.core.money import CREDIT, CancelRule
from kalends.resource_servers.journal.contract import Loaded
from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
    StakeStored,
    decode_stake,
)
from kalends.resource_servers.participation.credits.accounts import PayingAccount, PayingAccounts
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.credits.entries import JOB, CreditEntry, decode_entry
from kalends.resource_servers.participation.credits.ledger import Lot
from kalends.resource_servers.participation.effects import (
    EntriesFolded,
    EntryStored,
    ParticipantEffects,
    SiteFact,
)
from tests.simulation.auditor import COMMITTED
from tests.simulation.clocks import EPOCH_S
from tests.simulation.hostile import HostileSite
from tests.simulation.kernel import Violation
from tests.simulation.nodes import Node, SiteNode
from tests.simulation.restores import stores_put_back
from tests.simulation.schedule import FAULTS_MS
from tests.simulation.workload import Size

if TYPE_CHECKING:
    from tests.simulation.line_books import Waiter
    from tests.simulation.world import World

RATES: Final = (4_000, 10_000, 25_000)
"""What a unit may cost in an hour, in thousandths of a credit: each owner changes it now and then."""

MACHINE_RATES: Final = (100_000, 400_000, 1_000_000)
"""The same for a node of a machine: so much that seconds of jobs count beside hours of bookings."""

DEBT: Final = 5 * CREDIT

USERS: Final = ("ann", "bob", "cyd", "eve")

MONEY: Final = ("credit", "credit-promised", "price", "payer")
"""What is refused for lack of money."""

CLAMP_S: Final = 120
"""A cancel that takes longer than this to come may count as later than it was decided."""

CHARGED: Final = Size(
    sites=3, clients=8, sagas=5, hours=3, pause_ms=4_000,
    kinds=(40, 20, 15, 5, 15, 5), patience=(30, 50, 20), uses=(25, 35, 40), second_thoughts=0.2,
)  # fmt: skip
"""Much is changed and cancelled."""

CHARGED_RUNNING: Final = CHARGED._replace(
    hours=2, begin_s=60, slot_s=120, pause_ms=8_000, kinds=(60, 20, 10, 5, 0, 5), uses=(20, 25, 55)
)
"""The same with slots that run: what is paid back for them changes with each second."""


class ChargesJudge:
    """What sites must have charged, and whether they have."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.charged = self.paid_back = self.refused = self.folded = 0
        self.honest = {*world.site_names}
        self._votes: defaultdict[tuple[str, str], set[Cost]] = defaultdict(set)
        self._entries: defaultdict[str, dict[str, CreditEntry]] = defaultdict(dict)
        self._folded: defaultdict[str, dict[CreditEntry, dict[str, CreditEntry]]] = defaultdict(
            dict
        )
        """By site what each carried entry that there ever was stands for."""
        self._after: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """By site what the account of each entry had after it, in the order in which they were stored."""
        self._stakes: defaultdict[str, dict[str, Stake]] = defaultdict(dict)
        self._wants: dict[tuple[str, str, int], m.Visit] = {}
        self._reclaims: set[tuple[str, str]] = set()
        """Sites that have taken slots back, and of which requests."""
        self._heard_at: dict[tuple[str, str], int] = {}
        self._lots_before: dict[tuple[str, str], list[tuple[Lot, int]]] = {}
        """By site and account, what each lot had left when the last step was over."""
        self._lots: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
        """For each site the slot time at which its first lot ends, and what was granted in both, by
        account."""

    def attach(self) -> None:
        auditor = self._world.auditor
        stored, opened, sent = auditor.site_stored, auditor.site_opened, auditor.sent

        def storing(site: str, facts: Sequence[SiteFact]) -> None:
            stored(site, facts)
            self._stored(site, facts)

        def opening(node: SiteNode, loaded: Loaded, epoch: int) -> None:
            opened(node, loaded, epoch)
            self.opened(node, loaded)

        def sending(node: Node, to: str, message: m.Message) -> None:
            sent(node, to, message)
            self._sent(node.name, to, message)

        auditor.site_stored = storing  # type: ignore[method-assign]
        auditor.site_opened = opening  # type: ignore[method-assign]
        auditor.sent = sending  # type: ignore[method-assign]
        for site in self._world.sites:
            self._listen(site)
        self._world.judges.append(self)

    def opened(self, node: SiteNode, loaded: Loaded) -> None:
        """A life of a site begins, with what is stored: with each entry in its place."""
        after, before = _balances(loaded.credits), self._after[node.name]
        moved = {key for key, parts in after.items() if before.get(key, parts) != parts}
        if moved and not self._world.forgetful:
            raise Violation(
                f"{node.name} reads entries in another order than it has made them: {moved}"
            )
        self._after[node.name] = after
        self._entries[node.name] = {each.key: each for each in loaded.credits}
        self._stakes[node.name] = {stake.rid: stake for stake in loaded.stakes}

    def grant(self, site: SiteNode, border: int, amounts: dict[str, tuple[int, int]]) -> None:
        """The owner grants this, again after each start: a repeat adds nothing."""
        self._lots[site.name] = border, amounts
        boot = site.boot

        def booting() -> None:
            boot()
            site.enter(granting)

        def granting() -> None:
            paying = site.participant.wing(Credits)
            for account, (first, second) in amounts.items():
                try:
                    paying.grant(f"first:{account}", account, first, site.now(), until=border)
                except Conflict:
                    if paying.ledger.folded_until < border:
                        raise
                paying.grant(f"second:{account}", account, second, site.now(), start=border)
            site._carry_out()

        site.boot = booting  # type: ignore[method-assign]

    # On the way

    def _listen(self, site: SiteNode) -> None:
        stepped = site.stepped

        def stepping(effects: ParticipantEffects) -> None:
            stepped(effects)
            self._stepped(site, effects)

        site.stepped = stepping  # type: ignore[method-assign]

    def _stepped(self, site: SiteNode, effects: ParticipantEffects) -> None:
        participant = site.participant
        paying = participant.wing(Credits)
        if not participant.recovery.recovering:
            paying.check(debts=not self._world.forgetful)
        for send in effects.sends:
            message = send.message
            if isinstance(message, m.Visited | m.Voted) and message.refusals:
                self._refused(site, paying, message)
            if isinstance(message, m.Voted) and message.refusals:
                self._approved(site, message)
        for account in paying.ledger.accounts():
            self._lots_before[site.name, account] = paying.ledger.lots(account)

    def _refused(self, site: SiteNode, paying: Credits, message: m.Visited | m.Voted) -> None:
        """Who has credit for any price that there ever was is not refused for lack of it."""
        visit = self._wants.get((site.name, message.rid, message.att))
        if visit is None or message.refusals[0].code != "credit" or visit.replaces:
            return
        self.refused += 1
        account = f"user:{visit.principal.user}"
        if paying.ledger.lots(account) != self._lots_before.get((site.name, account)):
            return  # What came in one frame with the visit has changed them, before it or after.
        border, _ = self._lots[site.name]
        need = [0, 0]
        for want in visit.wants:
            early = max(0, min(want.end, border) - want.start)
            need[0] += early * want.units * max(RATES)
            need[1] += (want.end - want.start - early) * want.units * max(RATES)
        has = {lot.key: left for lot, left in paying.ledger.lots(account)}
        first, second = (has.get(f"grant:{each}:{account}", 0) for each in ("first", "second"))
        if need[0] <= first and need[1] <= second:
            raise Violation(f"{site.name} refuses {message.rid} for credit: {account} has {has}")

    def _approved(self, site: SiteNode, message: m.Voted) -> None:
        """What an owner has approved, and is held since, can be paid."""
        stake = site.participant.book.stakes.peek(message.rid)
        petition = stake.petition if stake is not None else None
        code = message.refusals[0].code
        if petition is None or petition.state != "approved" or code not in MONEY:
            return
        assert stake is not None
        held = tuple(claim.hold_id for claim in stake.claims)
        if stake.att == message.att and held == petition.hold_ids and not self._world.forgetful:
            raise Violation(f"{site.name} has approved {message.rid}, and refuses it for {code}")

    def _sent(self, name: str, to: str, message: m.Message) -> None:
        match message:
            case m.Visit():
                self._wants[to, message.rid, message.att] = message
            case m.Reclaim():
                self._reclaims.add((name, message.rid))
            case m.Visited() | m.Voted() if message.vote == "yes" and message.cost is not None:
                self._votes[name, message.rid].add(message.cost)
            case _:
                pass

    def _stored(self, site: str, facts: Sequence[SiteFact]) -> None:
        entries = [decode_entry(each.body) for each in facts if isinstance(each, EntryStored)]
        for fact in facts:
            if isinstance(fact, StakeStored):
                self._stakes[site][fact.rid] = decode_stake(fact.body)
        for entry in entries:
            if entry.key in self._entries[site] or entry.key in self._carried(site):
                raise Violation(f"{site} stores {entry.key} twice")
            self._after[site][entry.key] = entry.amount + sum(
                each.amount
                for each in self._entries[site].values()
                if each.account == entry.account
            )
            self._entries[site][entry.key] = entry
            of_account = sum(each.amount for each in entry.shares if each.account == entry.account)
            if of_account != entry.amount:
                raise Violation(f"{site} enters {entry.amount}, of which lots have {of_account}")
            stake = self._stakes[site].get(entry.about)
            self._enters(site, entry)
            locked = stake is not None and (stake.has("locked") or stake.chosen)
            locked = bool(locked) or entry.key.startswith(JOB)
            if entry.kind == "charge" and not locked and not self._recovers(site):
                raise Violation(f"{site} charges {entry.about}, and has not locked it")
            self.charged += entry.kind == "charge"
            self.paid_back += entry.kind == "refund"
            if entry.kind == "refund":
                self._heard_at[site, entry.about] = self._world.auditor.true_s()
        for fact in facts:
            if isinstance(fact, EntriesFolded):
                self._fold(site, fact)
        if not self._recovers(site):
            self._in_debt(site)
            self._all_charged(site, [each.rid for each in facts if isinstance(each, StakeStored)])

    def _enters(self, site: str, entry: CreditEntry) -> None:
        """Whoever judges jobs looks at their charges."""

    def _reserved_beside(self, site: str) -> Counter[str]:
        """What is reserved on each account for anything but promises."""
        return Counter()

    def _fold(self, site: str, fact: EntriesFolded) -> None:
        """What is carried is the sum of what is gone, and nothing of that is still to be decided."""
        entries, before = self._entries[site], self._sums(site)
        gone = {key: entries.pop(key) for key in fact.keys}
        carried = [decode_entry(each.body) for each in fact.carried]
        entries.update((each.key, each) for each in carried)
        self._after[site] = _balances(sorted(entries.values(), key=lambda each: each.number))
        if self._sums(site) != before:
            raise Violation(f"{site} folds {[*gone]}, and has {self._sums(site)}, not {before}")
        for entry in gone.values():
            stake = self._stakes[site].get(entry.about)
            open_ = stake is not None and (stake.has("prepared") or stake.has("locked"))
            if stake is not None and open_ and self._world.auditor.true_s() < stake.ends_at:
                raise Violation(f"{site} folds {entry.key}, and its slots have not ended")
        self.folded += len(gone)
        for each in carried:
            known = {key: entry for key, entry in gone.items() if entry.account == each.account}
            before_it = gone.get(each.key)
            if before_it is not None:
                known |= self._folded[site][before_it]
            self._folded[site][each] = known

    def _sums(self, site: str) -> dict[str, int]:
        """What each account has, its budgets not among them."""
        left: Counter[str] = Counter()
        for entry in self._entries[site].values():
            for share in entry.shares:
                left[share.account] += share.amount
        return {account: parts for account, parts in left.items() if parts}

    def _carried(self, site: str) -> dict[str, CreditEntry]:
        """Return the entries that are folded, as they were."""
        return {
            key: entry
            for each in self._entries[site].values()
            if each.kind == "carried"
            for key, entry in self._folded[site][each].items()
        }

    def _all_charged(self, site: str, rids: Iterable[str]) -> None:
        """What is locked is charged by the same step."""
        for stake in (self._stakes[site][rid] for rid in rids):
            charged = (
                f"charge:{stake.rid}" in self._entries[site].keys() | self._carried(site).keys()
            )
            if stake.has("locked") and stake.bill is not None and not charged:
                raise Violation(f"{site} has locked {stake.rid}, and not charged it")

    def _recovers(self, site: str) -> bool:
        node = next(each for each in self._world.sites if each.name == site)
        return not node.up or node.participant.recovery.recovering or self._world.forgetful

    def _in_debt(self, site: str) -> None:
        """No account owes more than it may, also if all that is promised is committed."""
        left: Counter[str] = Counter()
        for entry in self._entries[site].values():
            left[entry.account] += entry.amount
        for stake in self._stakes[site].values():
            if stake.has("prepared") and stake.bill is not None:
                left[stake.bill.account] -= max(0, stake.bill.charge - stake.bill.back)
        left.subtract(self._reserved_beside(site))
        for account, parts in left.items():
            if parts < -DEBT:
                raise Violation(f"{site}: {account} has {parts}")

    def can_pay(self, site: str, waiter: Waiter) -> bool:
        """Whether it has the credit, and may spend it, at the highest price that there ever is."""
        node = next(each for each in self._world.sites if each.name == site)
        row = self._world.auditor.rows.get(waiter.visit.rid)
        if not node.up or row is None:
            return False
        need = sum(want.units for want in waiter.visit.wants) * waiter.length_s * max(RATES)
        most = (row.body["spec"]["request"].get("at_most") or {}).get(site, need)
        paying, account = node.participant.wing(Credits), f"user:{waiter.visit.principal.user}"
        left = min(parts for _, parts in paying.ledger.lots(account)) - paying.reserved(account)
        return need <= min(most, left)

    # The end

    def finish(self) -> Iterable[str]:
        """Compare the ledger of each site with what was voted, committed, cancelled and replaced."""
        world = self._world
        rows = world.auditor.rows
        changes = {
            row.body["replaces"]: rid
            for rid, row in rows.items()
            if row.state in COMMITTED and row.body.get("replaces")
        }
        for rid, row in rows.items():
            if row.state in COMMITTED:
                yield from _overcharged(rid, row.body)
        for site in world.sites:
            if site.name not in self.honest:
                continue
            expected: dict[str, set[int]] = {}
            for rid, row in rows.items():
                told = (row.body.get("costs") or {}).get(site.name)
                if row.state not in COMMITTED or told is None:
                    continue
                cost = next((each for each in self._votes[site.name, rid] if _is(each, told)), None)
                if cost is None:
                    yield f"{rid} is committed at {site.name} at a cost that was not voted: {told}"
                    continue
                budget = (row.body["spec"]["request"].get("at_most") or {}).get(site.name)
                if budget is not None and cost.charge - cost.back > budget:
                    yield f"{rid} costs {cost.charge} at {site.name}, and its user allows {budget}"
                expected[f"charge:{rid}"] = {-cost.charge}
                if row.state == "cancelled":
                    expected[f"refund:{rid}"] = self._refunds(site.name, rid, cost, row.body)
                elif row.state == "replaced":
                    by = rows[changes[rid]].body["costs"].get(site.name)
                    expected[f"refund:{rid}"] = {by["back"] if by and "back" in by else 0}
            found = {
                key: entry.amount
                for key, entry in (
                    *site.participant.wing(Credits).ledger.entries.items(),
                    *self._carried(site.name).items(),
                )
                if entry.kind in ("charge", "refund") and not key.startswith(JOB)
            }
            for key in sorted(expected.keys() | found.keys()):
                if found.get(key) not in expected.get(key, set()):
                    yield f"{site.name} has {key} {found.get(key)}, not {expected.get(key)}"
            for account in site.participant.wing(Credits).ledger.accounts():
                if reserved := site.participant.wing(Credits).reserved(account):
                    yield f"{site.name} keeps {reserved} of {account} reserved when all is quiet"
            yield from self._told_again(site)
            stored = {each.key for each in self._entries[site.name].values()}
            if stored != site.participant.wing(Credits).ledger.entries.keys():
                yield f"{site.name} has stored other entries than it has"

    def _told_again(self, site: SiteNode) -> Iterable[str]:
        """A register that has forgotten everything hears of each cost, as it was voted."""
        ours = Ours(self._world.register.reads.secret, {}, ())
        for rid, stake in sorted(site.participant.book.stakes.items()):
            row = self._world.auditor.rows.get(rid)
            told = (row.body.get("costs") or {}).get(site.name) if row is not None else None
            if row is None or row.state != "commit" or told is None or not stake.has("locked"):
                continue
            kept = site.participant.comparison.kept(stake, "locked")
            found = compare(site.name, m.Compared(kept=(kept,)), (), ours, 1)
            costs = [each.record.costs for each in found.operations if isinstance(each, Recover)]
            if [each[site.name].proof for each in costs if site.name in each] != [told["proof"]]:
                yield f"a restored register would not hear from {site.name} what {rid} costs"

    def _refunds(self, site: str, rid: str, cost: Cost, body: dict[str, Any]) -> set[int]:
        """What may be paid back for a cancel: by when it was decided; later, if it took long to come."""
        key = f"refund:{rid}"
        entry = self._entries[site].get(key) or self._carried(site).get(key)
        told = body["cancelled_at"]
        # Nothing was decided after now, by the site's own clock.
        at = min(told, entry.at) if entry is not None else told
        heard = self._heard_at.get((site, rid), at)
        times = {told, at, *range(at, max(at, heard - CLAMP_S // 2) + 1, 10)}
        if (site, rid) in self._reclaims:
            # All of it, if the site still needs it when it hears of the end.
            paid = set() if body.get("reclaimed") else self._paid(cost, times)
            return {cost.charge, *paid}
        if body.get("reclaimed"):
            slots = [replace(slot, free_until_s=0, fee=0, unused=100) for slot in cost.slots]
            return self._paid(replace(cost, slots=tuple(slots)), times)
        return self._paid(cost, times)

    def _paid(self, cost: Cost, times: Iterable[int]) -> set[int]:
        return {sum(_refund(slot, time) for slot in cost.slots) for time in times}


def _balances(entries: Iterable[CreditEntry]) -> dict[str, int]:
    """Return what the account of each entry has after it, in this order."""
    left: Counter[str] = Counter()
    found = {}
    for each in entries:
        left[each.account] += each.amount
        found[each.key] = left[each.account]
    return found


def _overcharged(rid: str, body: dict[str, Any]) -> Iterable[str]:
    """Whatever a site says, nobody pays for more than was asked for, or more than is allowed."""
    wants, caps = body["wants"], body["spec"]["request"].get("at_most") or {}
    for site, cost in (body.get("costs") or {}).items():
        if cost["account"] != f"user:{body['user']}":
            yield f"{rid} of {body['user']} is paid by {cost['account']} at {site}"
        slots, charge = cost.get("slots", []), 0
        if any(slots.count(each) > wants.count(each["want"]) for each in slots):
            yield f"{rid} pays {slots} at {site} for {wants}"
        for slot in slots:
            want, seconds = slot["want"], 0
            for piece in slot["pieces"]:
                inside = want["start"] <= piece["start"] <= piece["end"] <= want["end"]
                seconds += (piece["end"] - piece["start"]) * piece["units"] if inside else 1 << 60
                charge += (piece["end"] - piece["start"]) * piece["units"] * piece["rate"]
            if seconds > (want["end"] - want["start"]) * want["units"]:
                yield f"{rid} pays at {site} for more than {want}: {slot['pieces']}"
        for_owner = body.get("replaces") and body["spec"].get("by_others")
        most = 0 if for_owner else caps.get(site, charge)
        if charge - cost.get("back", 0) > most:
            yield f"{rid} pays {charge} at {site}, of which its user allows {most}"


def _is(cost: Cost, told: dict[str, Any]) -> bool:
    return cost.proof == told.get("proof")


def _refund(slot: SlotCost, at: int) -> int:
    """The cancel rule once more, second by second of nothing but its words."""
    charge = sum((each.end - each.start) * each.units * each.rate for each in slot.pieces)
    if at <= slot.want.start - slot.free_until_s:
        return charge
    if at < slot.want.start:
        return charge - charge * slot.fee // 100
    rest = sum(
        max(0, each.end - max(at, each.start)) * each.units * each.rate for each in slot.pieces
    )
    return rest - rest * (100 - slot.unused) // 100


def owners_charge(
    world: World,
    slots: Sequence[int] = (8, 80),
    judging: Callable[[World], ChargesJudge] = ChargesJudge,
) -> ChargesJudge:
    """Every owner has prices, which change at each start; most cancels of some hour cost a fee from now on.

    Users have credit for fewer of the dearest `slots`.
    """
    random = world.kernel.random
    world.accounts = PayingAccounts([PayingAccount("everyone", debt=DEBT)])
    judge = judging(world)
    judge.attach()
    world.can_pay = judge.can_pay
    size = world.clients[0]._size
    for site in world.sites:
        hour = random.randrange(size.hours)
        until_s = size.begin_s + hour * size.slot_s - random.randrange(5, 85)
        rule = CancelRule(max(0, until_s), random.choice((30, 50, 100)), 50)
        site._calendars = _priced(world, site, site._calendars, rule)
        border = EPOCH_S + size.begin_s + size.slot_s
        amounts = {
            f"user:{user}": (_amount(world, size, slots), _amount(world, size, slots))
            for user in USERS
        }
        judge.grant(site, border, amounts)
        _reprice(world, site, rule)
    for number, client in enumerate(world.clients):
        # Several programs of one user want the same credit.
        client._user = USERS[number % 2]
        _budget(world, client)
    return judge


def _amount(world: World, size: Size, slots: Sequence[int]) -> int:
    """What a user has for a few of the dearest slots, or for a few dozen."""
    random = world.kernel.random
    return random.randrange(1, random.choice(slots)) * 10 * CREDIT * size.slot_s // 3_600


def _rules(world: World, rule: CancelRule, calendar: ResourceCalendar) -> OwnerRules:
    """Return the rules for a resource or a machine; a place in a queue costs nothing by itself."""
    if machine_of(calendar.info.name):
        return calendar.rules
    is_machine = calendar.info.attributes.get("kind") == "machine"
    rate = world.kernel.random.choice(MACHINE_RATES if is_machine else RATES)
    prices = Prices([PriceRule("all", "everyone", rate)])
    return OwnerRules(calendar.rules.limits, prices=prices, cancel=rule)


def _priced(
    world: World, site: SiteNode, make: Callable[[], dict[str, ResourceCalendar]], rule: CancelRule
) -> Callable[[], dict[str, ResourceCalendar]]:
    def priced() -> dict[str, ResourceCalendar]:
        return {
            name: ResourceCalendar(each.info, each.access, (), _rules(world, rule, each))
            for name, each in make().items()
        }

    return priced


def _reprice(world: World, site: SiteNode, rule: CancelRule) -> None:
    """The owner changes prices while the site runs."""

    def change() -> None:
        for calendar in site.participant.book.calendars.values():
            calendar.rules = _rules(world, rule, calendar)
        site.participant.payments.look()

    def again() -> None:
        site.enter(change)
        if world.kernel.now_ms < FAULTS_MS:
            world.kernel.after(world.kernel.random.randrange(2_000, 20_000), again)

    world.kernel.after(world.kernel.random.randrange(2_000, 20_000), again)


def _budget(world: World, client: Any) -> None:
    """Some requests allow each owner so much, and no more."""
    named = client._named

    def budgeted(*, fixed: bool, hold: bool) -> Any:
        spec = named(fixed=fixed, hold=hold)
        if world.kernel.random.random() < 0.6:
            return spec
        most = {site: world.kernel.random.randrange(5, 60) * CREDIT for site in world.site_names}
        return replace(spec, request=replace(spec.request, at_most=most))

    client._named = budgeted


class Overcharging(HostileSite):
    """A site that says of what it promises that it costs anything else."""

    def _send_to(self, to: str, messages: list[Any]) -> None:
        super()._send_to(to, [self._dearer(each) for each in messages])

    def _dearer(self, message: Any) -> Any:
        random = self.kernel.random
        promised = isinstance(message, m.Visited | m.Voted) and message.vote == "yes"
        cost = message.cost if promised else None
        if cost is None or not cost.slots or random.random() < 0.5:
            return message
        slot, piece = cost.slots[0], PaidPiece(0, 1, 1, 1)
        if slot.pieces:
            piece = slot.pieces[0]
        lie = random.choice(
            (
                replace(cost, account=f"user:{random.choice(USERS)}"),
                replace(cost, account="project:dna"),
                replace(cost, back=cost.back + CREDIT),
                replace(cost, slots=cost.slots * 2),
                *[replace(cost, slots=(_of_rate(slot, rate),)) for rate in (100, 500, 2_500)],
                replace(cost, slots=(replace(slot, want=replace(slot.want, units=3)),)),
                replace(cost, slots=(replace(slot, pieces=(replace(piece, units=9),)),)),
                replace(cost, slots=(replace(slot, pieces=(replace(piece, end=piece.end + 60),)),)),
            )
        )
        return self._count("overcharged", replace(message, cost=lie))


def _of_rate(slot: SlotCost, rate: int) -> SlotCost:
    return replace(slot, pieces=tuple(replace(each, rate=rate * 1_000) for each in slot.pieces))


def owner_overcharges(world: World) -> ChargesJudge:
    """Owners charge, and one of them says of some promises what cannot be."""
    judge = owners_charge(world)
    judge.honest = {site.name for site in world.sites if site not in world.hostile}
    return judge


def charges_folded(world: World) -> ChargesJudge:
    """The same, and entries stay for no longer than the records of their requests."""
    judge = owners_charge(world)
    for site in world.sites:
        _fold_soon(site)
    return judge


def _fold_soon(site: SiteNode) -> None:
    boot = site.boot

    def booting() -> None:
        boot()
        paying = site.participant.wing(Credits)
        paying.kept_s = paying.fold_every_s = 0

    site.boot = booting  # type: ignore[method-assign]


def charges_restored(world: World) -> ChargesJudge:
    """The same, and stores of some sites are put back."""
    judge = owners_charge(world)
    stores_put_back(world, FAULTS_MS)
    return judge
