"""All attacks on a live site, shuffled, eight at a time: it stays what it was, and serves the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Final

import aiohttp
import msgpack
import msgspec
import pytest

from kalends.agents.world.visible_calendar import Shown
from kalends.agents.world.zones import zones_of
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.core.scripts import Ask, Starts
from tests.process_tree import descendants
from tests.processes.servers import until
from tests.processes.site_process import SECRET, Broker, SiteProcess, connected, new_rid

from . import world
from .corpus import ATTACKS, KINDS
from .corpus.kinds import Attack, choosing
from .judging import Canary
from .siege import (
    HOUR_S,
    START,
    attacked,
    dispatch,
    hash_of,
    honest_visit,
    lane,
    reported,
    resident_bytes,
    sendable,
    shuffled,
    write_configuration,
)

LANES: Final = 8
GROWTH_BYTES_MAX: Final = 20_000_000
POOL_MAX: Final = 1 + 3 * (os.cpu_count() or 1)
"""The zygote, spare workers, and those that run."""

SENDABLE: Final = [
    (kind, attack) for kind, attacks in KINDS.items() for attack in attacks if sendable(attack)
]


@pytest.fixture
def site(canary: Canary) -> Iterator[SiteProcess]:
    with SiteProcess(write_configuration(canary.directory, canary), as_by_users=True) as running:
        yield running


@contextlib.asynccontextmanager
async def brokers(site: SiteProcess, count: int) -> AsyncIterator[list[Broker]]:
    """Open this many sessions with the site, each as another broker."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            (await stack.enter_async_context(connected(site.url, source=f"npaci{number}")))[0]
            for number in range(count)
        ]


def unharmed(site: SiteProcess, canary: Canary) -> list[str]:
    """What is wrong with the site afterwards: its process, its claims, its alarms, its log."""
    problems = [] if site.process.poll() is None else ["the server has ended"]
    # A release is not answered, so the last may be under way; that they are done shows in `until`.
    problems += [f"still claimed: {claim}" for claim in site.claims()]
    for line in site.log().splitlines():
        entry = json.loads(line)
        if entry["level"] in ("error", "critical"):
            problems.append(f"logged: {line}")
    problems += [f"the log holds {what}" for what in canary.seen_in(site.log())]
    return problems


async def settled(site: SiteProcess) -> None:
    """Return once nothing is claimed, and no more processes are there than the pool may have."""

    async def at_rest() -> bool:
        return not site.claims() and len(descendants(site.process.pid)) <= POOL_MAX

    await until(at_rest, "nothing is claimed or running")


async def test_a_live_site_is_the_same_after_all_attacks(
    site: SiteProcess, canary: Canary, capsys: pytest.CaptureFixture[str]
) -> None:
    attacks = shuffled(SENDABLE, seed=4)
    pid = site.process.pid
    async with brokers(site, LANES) as sessions:
        problems: list[str] = []
        sizes = []
        for part in (attacks[::10], attacks):
            told = await asyncio.gather(
                *(
                    lane(broker, part[number::LANES], f"olga-{number}", canary)
                    for number, broker in enumerate(sessions)
                )
            )
            problems += [problem for each in told for problem in each]
            await settled(site)
            sizes.append(resident_bytes(pid))
    assert not problems, "\n".join(problems)
    assert unharmed(site, canary) == []
    assert site.process.pid == pid
    with capsys.disabled():
        print(
            f"\n{len(attacks)} attacks on a live site, {LANES} at a time: it has"
            f" {sizes[1] / 1e6:.1f} MB, {(sizes[1] - sizes[0]) / 1e6:+.1f} MB since it was warm,"
            f" and {len(descendants(pid))} processes below it"
        )
    assert sizes[1] - sizes[0] < GROWTH_BYTES_MAX


async def test_a_holder_whose_recall_is_hostile_keeps_and_harms_nobody(
    site: SiteProcess, canary: Canary
) -> None:
    hostile = [attack for attack in KINDS["answers"] if attack.function == "recall"]
    gives = Attack("gives", "", "def recall(slot, asker, view):\n    return True\n", frozenset())
    async with brokers(site, 2) as (mallory, olga):
        problems = []
        for number, attack in enumerate([*hostile, gives]):
            start = START + number * HOUR_S
            visit = dispatch(
                "mallory",
                choosing("return [0]") + attack.source,
                asks=(Ask(0, "sdsc/scope", HOUR_S),),
                starts=Starts(start, start, HOUR_S),
            )
            (held,) = await mallory.ask(visit)
            assert held.sites[0].held, held
            (visited,) = await olga.ask(older_visit(start))
            given = visited.vote == "none" and bool(visited.held)
            if given != (attack is gives):
                problems.append(f"{attack.name}: {visited}")
            problems += canary.seen_in(repr(visited))
            await mallory.frame(m.Release(rid=visit.rid, att=1))
            await olga.frame(m.Release(rid=visited.rid, att=1))
            problems += await honest_visit(olga, "olga", canary)
    assert not problems, "\n".join(problems)
    await settled(site)
    assert unharmed(site, canary) == []


def older_visit(start: int) -> m.Visit:
    return m.Visit(
        rid=new_rid(),
        att=1,
        stamp=1,
        mode="hold",
        principal=Principal("olga"),
        wants=(m.Want("sdsc/scope", start, start + HOUR_S, 1),),
        parts=(m.Part("sdsc", "http://127.0.0.1:1"),),
        need=1,
        secret=SECRET,
        hold_ms=600_000,
    )


async def test_a_source_under_the_hash_of_another_is_refused_and_poisons_nothing(
    site: SiteProcess, canary: Canary
) -> None:
    honest = hash_of(world.HONEST_SOURCE)
    async with brokers(site, 2) as (mallory, olga):
        for source in (choosing("return [0]"), choosing("return ().__class__"), "x"):
            own = await reported(mallory, dispatch("mallory", source, script=honest))
            assert (own.code, own.held) == ("rejected", ())
        own = await reported(mallory, dispatch("mallory", "", script=honest))
        assert (own.code, own.held) == ("unknown-script", ())
        assert await honest_visit(olga, "olga", canary) == []
        own = await reported(olga, dispatch("olga", "", script=honest))
        assert (own.code, len(own.held)) == ("ok", 3)
        for source in (choosing("return [0]"), "x"):
            own = await reported(mallory, dispatch("mallory", source, script=honest))
            assert (own.code, own.held) == ("rejected", ())
        assert await honest_visit(olga, "olga", canary) == []
    await settled(site)
    assert unharmed(site, canary) == []


async def test_what_a_user_may_not_see_is_not_shown_to_their_script(
    site: SiteProcess, canary: Canary
) -> None:
    telling = choosing(
        """
        for name in view["resources"]:
            send(name)
            for key, value in view["resources"][name]["attributes"].items():
                send(f"{key} {value}")
            send(view["resources"][name]["description"])
        return [slot["id"] for slot in view["slots"]][:1]
        """
    )
    asks = (Ask(0, "sdsc/sp2", HOUR_S), Ask(1, "sdsc/vault", HOUR_S))
    async with brokers(site, 1) as (mallory,):
        own = await reported(mallory, dispatch("mallory", telling, asks=asks))
        assert canary.seen_in(repr(own)) == []
        alone = await reported(mallory, dispatch("mallory", telling, asks=asks[1:]))
        assert (alone.held, canary.seen_in(repr(alone))) == ((), [])
        unknown = (Ask(1, "sdsc/nothing", HOUR_S),)
        absent = await reported(mallory, dispatch("mallory", telling, asks=unknown))
        assert repr(absent).replace("nothing", "vault") == repr(alone)
        staff = Principal("steve", ("staff",))
        seen = await reported(mallory, dispatch("steve", telling, asks=asks[1:], principal=staff))
        assert canary.seen_in(repr(seen)) == ["the canary"]
    await settled(site)


async def test_messages_that_are_no_plain_data_do_not_reach_a_script(
    site: SiteProcess, canary: Canary
) -> None:
    hostile = ("{", "[" * 4_000, "NaN", "1e999", '"\\ud800"', "9" * 4_000, "18446744073709551616")
    counting = choosing(
        """
        found = receive()
        while found is not None:
            send(found)
            found = receive()
        return [0]
        """
    )
    async with brokers(site, 1) as (mallory,):
        visit = dispatch("mallory", counting, inbox=(*hostile, '"plain"'))
        own = await reported(mallory, visit)
        assert (own.code, own.sent) == ("ok", ('"plain"',))
        assert await honest_visit(mallory, "olga", canary) == []
    await settled(site)
    assert unharmed(site, canary) == []


async def test_a_visit_of_a_thousand_years_is_cut_to_what_a_request_may_ask_about(
    site: SiteProcess, canary: Canary
) -> None:
    shown = {"sdsc/sp2": Shown(ResourceInfo(name="sdsc/sp2", zone="America/Los_Angeles"), (), ())}
    tables = zones_of(shown, 0, limits.TIME_S_MAX)
    assert len(tables["America/Los_Angeles"]) < 40
    always = Starts(0, limits.TIME_S_MAX, 1)
    far = (Ask(0, "sdsc/sp2", limits.DURATION_S_MAX, 1, limits.OFFSET_S_MAX),)
    async with brokers(site, 1) as (mallory,):
        for visit in (
            dispatch("mallory", choosing("return []"), starts=always),
            dispatch("mallory", choosing("return []"), starts=always, asks=far),
        ):
            assert (await reported(mallory, visit)).code == "ok"
            assert await honest_visit(mallory, "olga", canary) == []
    await settled(site)
    assert unharmed(site, canary) == []


async def test_a_zone_that_a_user_names_is_a_zone_or_nothing(
    site: SiteProcess, canary: Canary
) -> None:
    odd = ("../../../etc/passwd", "/etc/passwd", "", "UTC\0", "America", "..", "zone.tab", "a/" * 99,
           str(canary.directory / "canary.txt"), "canary.txt", "__init__.py")  # fmt: skip
    asking = choosing("send(weekday(0, request['arguments']['zone']))\nreturn [0]")
    async with brokers(site, 1) as (mallory,):
        for zone in odd:
            own = await reported(mallory, dispatch("mallory", asking, arguments={"zone": zone}))
            assert (own.code, own.sent) == ("agent-error", ()), zone
            assert own.detail.isprintable()
        own = await reported(mallory, dispatch("mallory", asking, arguments={"zone": "Asia/Tokyo"}))
        assert (own.code, own.sent) == ("ok", ("3",))
        assert await honest_visit(mallory, "olga", canary) == []
    await settled(site)


async def test_a_source_that_no_frame_may_hold_ends_the_session_and_nothing_else(
    site: SiteProcess, canary: Canary
) -> None:
    unsendable = [attack for attack in ATTACKS if attack.source and not sendable(attack)]
    assert len(unsendable) >= 3
    async with brokers(site, 1) as (olga,):
        for attack in unsendable:
            async with connected(site.url, source="mallory") as (mallory, _):
                await mallory.socket.send_bytes(raw_frame(attack.source))
                code, reason = await mallory.end()
                assert code != aiohttp.WSCloseCode.OK
                assert canary.seen_in(reason) == []
                assert reason.isprintable()
            assert await honest_visit(olga, "olga", canary) == []
    await settled(site)
    assert site.process.poll() is None


def raw_frame(source: str) -> bytes:
    """A frame with a visit of `source`, whatever that is."""
    visit = msgspec.to_builtins(dispatch("mallory", "x"))
    frame = {"v": 2, "source": "mallory", "lc": 1, "messages": [{**visit, "source": source}]}
    packed = msgpack.packb(frame, unicode_errors="surrogatepass")
    assert isinstance(packed, bytes)
    return packed


async def test_who_floods_a_site_with_bombs_does_not_keep_others_from_it(
    site: SiteProcess, canary: Canary
) -> None:
    endless = choosing("while True:\n    pass")
    async with brokers(site, 2) as (mallory, olga):
        bombs = [dispatch("mallory", endless) for _ in range(60)]
        await mallory.frame(*bombs)
        problems = [
            problem for _ in range(5) for problem in await honest_visit(olga, "olga", canary)
        ]
        codes: list[str] = []
        while len(codes) < len(bombs):
            codes += [report.sites[0].code for report in await mallory.receive()]
        await mallory.frame(*(m.Release(rid=bomb.rid, att=1) for bomb in bombs))
        easy = KINDS["attributes"][0]
        problems += await attacked(olga, easy, "attributes", canary)
    assert not problems, "\n".join(problems)
    assert set(codes) <= {"limit-steps", "limit-cpu", "busy"}
    assert "busy" in codes
    await settled(site)
    assert unharmed(site, canary) == []
