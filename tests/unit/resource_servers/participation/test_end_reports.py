"""What a site tells brokers of jobs that have ended: again until it is noted, and to their own only."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.protocol_support import REGISTER as ITS_REGISTER
from tests.protocol_support import T0, Site, rid, secret_of
from tests.unit.resource_servers.participation.test_site_places import bid, locked

from kalends.contract import messages as m
from kalends.contract.calls import PlacedEnd
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.placed_jobs import end_reports
from kalends.resource_servers.participation.placed_jobs.end_reports import (
    SAY_AGAIN_MS,
    SAY_AGAIN_MS_MAX,
)

END = PlacedEnd(at=T0 + 9, end="exit", status=3, ran_s=7)
EVERYBODY = f"{REGISTER}{ITS_REGISTER}"


def told(number: int) -> tuple[str, m.Message]:
    ended = m.EndOfJob(rid=rid(number), att=1, end="exit", status=3, at=T0 + 9, ran_s=7)
    return EVERYBODY, ended


def end(site: Site, number: int) -> list[tuple[str, m.Message]]:
    site.call(lambda participant, now: site.jobs.ends.ended(rid(number), END, now))
    return taken(site)


def taken(site: Site) -> list[tuple[str, m.Message]]:
    sent = [(send.to, send.message) for send in site.unsent]
    site.unsent.clear()
    return sent


def advanced(site: Site, ms: int) -> list[tuple[str, m.Message]]:
    return [(send.to, send.message) for send in site.advance(ms).sends]


def noted(number: int) -> m.EndNoted:
    return m.EndNoted(rid=rid(number), att=1, secret=secret_of(rid(number)))


def test_an_end_is_told_at_once_and_less_and_less_often_until_it_is_noted(site: Site) -> None:
    locked(site, 1)
    assert end(site, 1) == [told(1)]
    assert advanced(site, SAY_AGAIN_MS - 1) == []
    assert advanced(site, 1) == [told(1)]
    assert advanced(site, SAY_AGAIN_MS) == []
    assert advanced(site, SAY_AGAIN_MS) == [told(1)]
    for _ in range(20):
        advanced(site, SAY_AGAIN_MS_MAX)
    assert advanced(site, SAY_AGAIN_MS_MAX) == [told(1)]
    site.receive(noted(1))
    assert told(1) not in advanced(site, SAY_AGAIN_MS_MAX)


def test_only_the_broker_of_a_job_can_note_its_end(site: Site) -> None:
    locked(site, 1)
    end(site, 1)
    forged = structs.replace(noted(1), secret="s" * 32)
    assert site.receive(forged, "stranger").alarms
    assert advanced(site, SAY_AGAIN_MS) == [told(1)]


def test_a_broker_that_comes_back_hears_at_once_of_its_own_jobs_alone(site: Site) -> None:
    locked(site, 1)
    end(site, 1)
    for register, expected in ((ITS_REGISTER, [told(1)]), ("0" * 32, [])):
        site.call(
            lambda participant, now, register=register: site.jobs.ends.met(register)  # type: ignore[misc]
        )
        assert taken(site) == expected


def test_of_what_is_not_locked_here_nothing_is_told(site: Site) -> None:
    bid(site, 1)
    assert end(site, 1) == []
    assert end(site, 2) == []
    assert site.jobs.ends.next_deadline_ms() is None


def test_of_too_many_the_oldest_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_reports, "UNTOLD_MAX", 1)
    site = Site()
    for number in (1, 2):
        locked(site, number)
        assert end(site, number) == [told(number)]
    assert advanced(site, SAY_AGAIN_MS) == [told(2)]
