"""Comparisons of a broker with its sites: what one side may have forgotten, and the other remembers.

What differs is mended (`reconciler`), or only told to an auditor (`audits`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from kalends.broker.coordination.record.decision_record import Operation
from kalends.broker.planning.directory import Directory
from kalends.broker.reconciliation.audit import Audits
from kalends.broker.reconciliation.recognition import Recognition
from kalends.broker.reconciliation.reconciler import ROWS_MAX, ComparedRows, Reconciler
from kalends.broker.register.writes import MadeGood, PutBack, Result, Write
from kalends.broker.replica import store_errors
from kalends.broker.replica.replica import Incarnation, Replica
from kalends.contract import messages as m
from kalends.contract.calls import Reconciled
from kalends.core.errors import LostRace, Unavailable
from kalends.serving.alarms import Alarms
from kalends.serving.logs import Logger
from kalends.stores.group_commit import StoreFailed

PUT_BACK: Final = "register"
"""What alarms about a register that was put back are about."""

PROMOTED: Final = "failover of the register"


class Comparisons:
    """All comparisons of one replica.

    `step` gives something to the coordinator, `stir` has what was said sent, `written` writes; `certain` and
    `wake` are those of the heartbeat.
    """

    def __init__(
        self,
        directory: Directory,
        coords: tuple[str, ...],
        replica: Replica,
        logger: Logger,
        *,
        alarms: Alarms,
        step: Callable[[Callable[[], object]], None],
        stir: Callable[[], None],
        written: Callable[[Sequence[Write]], Coroutine[Any, Any, Sequence[Result]]],
        certain: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._replica = replica
        self._logger = logger
        self._alarms = alarms
        self._step = step
        self._stir = stir
        self._written = written
        self._certain = certain
        self._wake = wake
        self._audits = Audits(lambda: replica.store.secret)
        self._reconciler = Reconciler(
            directory.peer_urls,
            coords,
            lambda: replica.store.secret,
        )
        self._reconciled = asyncio.Event()
        self._believing: asyncio.Task[None] | None = None

    def _name_unheard(self) -> None:
        """After a failover of the database, name the sites that have not confirmed what they know of it."""
        current = self._replica.current
        if current is None or not current.recognition.has_listened(
            self._replica.moment().monotonic_ms
        ):
            return
        unheard = current.recognition.unheard() if current.recognition.promoted else []
        self._alarms.report(PROMOTED, store_errors.promoted(unheard).detail if unheard else "")

    def _believe_if_all_are_heard(self, current: Incarnation) -> None:
        recognition = current.recognition
        if recognition.promoted and not (recognition.put_back or recognition.unheard()):
            self._believe(current)

    def _believe(self, current: Incarnation) -> None:
        current.recognition.promoted = False
        self._alarms.settle(PROMOTED)
        self._believing = asyncio.create_task(self._stored_belief(current))

    async def _stored_belief(self, current: Incarnation) -> None:
        """If this fails, the next incarnation listens again."""
        with contextlib.suppress(Unavailable, StoreFailed):
            await current.store.believe()

    def beat(self) -> None:
        self._reconciler.beat()
        self._name_unheard()

    def take(self) -> tuple[list[tuple[str, m.Message]], list[Operation]]:
        """Return messages for sites, and corrections of the register."""
        sends, mending = self._reconciler.take()
        return sends + self._audits.take(), mending

    def lost(self, site: str) -> None:
        """`site` is not connected any more."""
        self._reconciler.lost(site)
        self._audits.lost(site)
        self._reconciled.set()

    async def known(self, site: str, known: m.Known) -> None:
        """Compare the site's past with our memory of it, and ours with the site's memory."""
        current = self._replica.current
        if current is None:
            return
        if known.behind:
            self._alarms.tell(
                f"{site} may have forgotten promises, and is being compared", _about(site)
            )
        try:
            outlook = await self._replica.read(
                lambda store: store.look([mark.life for mark in known.marks])
            )
        except Unavailable as error:
            if self._replica.current is current:
                self._replica.fail(error)
            return
        now = self._replica.moment()
        includes_all = current.recognition.hear(site, known.marks, outlook.lives)
        if not includes_all and not current.recognition.put_back:
            self._alarms.tell(
                f"this broker's register was restored to an earlier state: {site} knows more of its"
                " decisions. The broker takes no new requests until it has been compared with all sites",
                PUT_BACK,
            )
            current.store.writer.submit((PutBack(),), lambda _: None, self._replica.fail)
            self._replica.fail(store_errors.put_back())
            return
        if known.forgotten:
            self._step(lambda: current.coordinator.site_forgot(site, now))
        if known.behind or known.forgotten or current.recognition.put_back:
            self._begin_comparison(site, again=True)
            self._stir()
        self._believe_if_all_are_heard(current)
        if current.recognition.has_listened(now.monotonic_ms):
            self._certain()

    async def compared(self, site: str, message: m.Compared | m.Relocked) -> None:
        current = self._replica.current
        if current is None:
            return
        try:
            rows = await self._rows(current, site, message)
            if rows is None or self._replica.current is not current:
                return
            comparing = self._reconciler.running(site)
            now_ms = self._replica.moment().wall_ms
            if isinstance(message, m.Compared) and self._audits.running(site):
                self._audits.receive(site, message, rows, now_ms)
                self._reconciled.set()
                return
            self._reconciler.receive(site, message, rows, now_ms)
        except Exception as error:
            # The boundary of one comparison: the next one begins anew.
            self._alarms.tell(f"the comparison with {site} broke off: {error!r}", _about(site))
            self._reconciler.lost(site)
            self._audits.lost(site)
            self._reconciled.set()
            return
        if (report := self._reconciler.reports.get(site)) and not self._reconciler.running(site):
            self._alarms.settle(_about(site))
            if comparing:
                self._logger.info(
                    "site_compared", site=site, compared=report.compared, locked_again=report.relocked,
                    freed=report.cancelled, recovered=report.recovered, lost=len(report.lost),
                )  # fmt: skip
            for lost in report.lost:
                self._alarms.tell(
                    f"{lost.id} of {lost.user} cannot be restored at {site}:"
                    f" {', '.join(lost.blockers)}",
                    _about(site),
                )
            current.recognition.settle(site)
            if current.recognition.put_back and not current.recognition.unsettled():
                write = _made_good(current.recognition)
                current.store.writer.submit((write,), self._go_on, self._replica.fail)
            self._reconciled.set()

    async def _rows(
        self, current: Incarnation, site: str, message: m.Compared | m.Relocked
    ) -> ComparedRows | None:
        """The rows of the register for a page, or None if it was not asked for; raises `Unavailable`."""
        if isinstance(message, m.Relocked):
            return ComparedRows((), {})
        if not (self._audits.awaits(site, message) or self._reconciler.awaits(site, message)):
            return None
        rids = [each.rid for each in message.kept]
        return await current.store.compared(message.after, message.until, rids, ROWS_MAX)

    def _go_on(self, results: Sequence[Result]) -> None:
        """The restored register has been made good."""
        current = self._replica.current
        if current is None:
            return
        current.recognition.put_back = False
        self._alarms.settle(PUT_BACK)
        self._believe_if_all_are_heard(current)
        if isinstance(results[0], int):
            if results[0]:
                self._alarms.tell(
                    f"{results[0]} requests that were open when it was restored have failed",
                    PUT_BACK,
                )
            self._logger.info("register_made_good", failed=results[0])
            # A site that was settled early may lack what a later one has reminded us of: that is named.
            for site in (name for name, site in self._directory.sites.items() if site.up):
                self._begin_comparison(site)
            self._stir()
        self._wake()

    def _begin_comparison(self, site: str, *, again: bool = False) -> None:
        """What differs is mended: whoever only looks has nothing to look at."""
        self._audits.lost(site)
        self._reconciler.begin(site, again=again)

    async def differences(self, wait_s: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """In what the register and the sites differ, and the sites that were not looked at within `wait_s`.

        Nothing is mended: that is `reconcile`'s.
        """
        reached = [name for name, site in self._directory.sites.items() if site.up]
        reached = [name for name in reached if not self._reconciler.running(name)]
        for site in reached:
            self._audits.begin(site)
        self._stir()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while any(map(self._audits.running, reached)):
                    self._reconciled.clear()
                    await self._reconciled.wait()
        found = {name: self._audits.differences.get(name) for name in reached}
        differences = tuple(each for of_one in found.values() for each in of_one or ())
        return differences, tuple(name for name in self._directory.sites if found.get(name) is None)

    async def reconcile(self, wait_s: float, go_on: bool) -> Reconciled:
        """Compare with all sites that are connected; what has ended within `wait_s`, and how.

        `go_on`: a restored register takes new requests again without the sites that are missing, and one
        whose database failed over believes what it has.
        """
        reached = [name for name, site in self._directory.sites.items() if site.up]
        for site in reached:
            self._begin_comparison(site)
        self._stir()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._until_compared(reached)
                if self._replica.current is not None and self._replica.current.recognition.put_back:
                    # That it is made good may be on its way to the disk; then all is compared once more.
                    await self._written(())
                    await self._until_compared(reached)
        reports = dict(self._reconciler.reports)
        comparing = {
            site: self._reconciler.compared(site)
            for site in reached
            if self._reconciler.running(site)
        }
        current = self._replica.current
        if go_on and current is not None and current.recognition.promoted:
            self._believe(current)
        if go_on and current is not None and current.recognition.put_back:
            self._go_on(await self._written((_made_good(current.recognition),)))
        return Reconciled(
            sites=tuple(reports[site] for site in reached if site in reports),
            comparing=comparing,
            unreached=tuple(
                site
                for site in self._directory.sites
                if site not in reports and site not in comparing
            ),
            recovering=self._replica.current is not None
            and self._replica.current.recognition.put_back,
        )

    async def _until_compared(self, sites: Sequence[str]) -> None:
        while any(map(self._reconciler.running, sites)):
            self._reconciled.clear()
            await self._reconciled.wait()


def _about(site: str) -> str:
    """Return what alarms about a comparison with `site` are about: the next one that ends settles them."""
    return f"comparison with {site}"


def _made_good(recognition: Recognition) -> MadeGood:
    problem = LostRace(
        "the broker's register was restored to an earlier state while this was open",
        remedy="ask again with a new key",
    ).to_problem()
    return MadeGood(tuple(recognition.accounted()), problem)
