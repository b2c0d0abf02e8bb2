"""Hostile scripts come in at the front door: uploaded to a broker by its users, who book with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

import kalends
from kalends.core.errors import InvalidInput, TooLarge
from tests.processes.facility import Facility, connected, make_facility
from tests.processes.servers import Server, running

from . import world
from .corpus import ATTACKS
from .corpus.kinds import Attack
from .judging import Canary, named
from .siege import COMMONS, HOUR_S, resident_bytes, shuffled

LANES: Final = 8
BOOKED_EVERY: Final = 12
"""One in so many of the scripts that may be uploaded is booked with, too."""

CAPACITY: Final = 1_000
REQUEST: Final = "site0/cluster"
WINDOW: Final = (COMMONS[0], COMMONS[-1] + HOUR_S)


async def test_uploads_are_refused_or_harmless_and_bookings_go_on(
    tmp_path: Path, canary: Canary, capsys: pytest.CaptureFixture[str]
) -> None:
    attacks = [attack for _, attack in shuffled([("", attack) for attack in ATTACKS], seed=5)]
    facility = make_facility(tmp_path, sites=1, replicas=1, capacity=CAPACITY)
    broker = facility.brokers[0]
    for server in facility.servers:
        # With an environment of its own each is started by its command, and shows what it shows at a user.
        server.environment = {"KALENDS_CANARY": canary.secret}
    async with running(*facility.servers):
        await connected(facility)
        pids = [server.pid for server in facility.servers]
        problems: list[str] = []
        sizes = []
        for part in (attacks[::10], attacks):
            told = await asyncio.gather(
                *(lane(broker, part[number::LANES], number, canary) for number in range(LANES))
            )
            problems += [problem for each in told for problem in each]
            sizes.append(resident_bytes(broker.pid))
        problems += await what_the_servers_say(facility, canary)
        assert not problems, "\n".join(problems)
        assert [server.pid for server in facility.servers] == pids
        assert all(server.running for server in facility.servers)
    with capsys.disabled():
        print(
            f"\n{len(attacks)} attacks uploaded, {LANES} at a time: the broker has"
            f" {sizes[1] / 1e6:.1f} MB, {(sizes[1] - sizes[0]) / 1e6:+.1f} MB since it was warm"
        )
    assert sizes[1] - sizes[0] < 20_000_000


async def lane(broker: Server, attacks: Sequence[Attack], number: int, canary: Canary) -> list[str]:
    """Upload each of `attacks`, and book with some; an honest user books after each of those."""
    problems = []
    async with (
        kalends.connect(broker.url, user=f"mallory-{number}", zone="UTC") as mallory,
        kalends.connect(broker.url, user=f"olga-{number}", zone="UTC") as olga,
    ):
        await olga.upload_agent("late", world.HONEST_SOURCE)
        for place, attack in enumerate(attacks):
            accepted, wrong = await uploaded(mallory, attack, canary)
            problems += wrong
            if accepted and place % BOOKED_EVERY == 0:
                problems += await booked(mallory, attack, canary)
                problems += await honest_booking(olga, attack, canary)
    return problems


async def uploaded(
    mallory: kalends.Client, attack: Attack, canary: Canary
) -> tuple[bool, list[str]]:
    """Whether the broker keeps the script, and what is wrong with its answer."""
    try:
        view = await mallory.upload_agent("attack", attack.source)
    except (InvalidInput, TooLarge) as error:
        told = f"{error} {error.refusals}"
        problems = canary.seen_in(told)
        if "rejected" not in attack.codes:
            problems.append(f"is refused: {told}")
        return False, named(attack, problems)
    problems = [] if "rejected" not in attack.codes else ["is not refused"]
    if not view.functions:
        problems.append("is kept, and defines nothing")
    return "choose" in view.functions, named(attack, problems)


async def booked(mallory: kalends.Client, attack: Attack, canary: Canary) -> list[str]:
    """A booking goes on whatever its script does, and says what that was."""
    view = await mallory.book(REQUEST, duration="1h", window=WINDOW, agent="attack")
    why = repr(await mallory.why(view.id))
    problems = canary.seen_in(f"{view} {why}")
    if view.state != "reserved":
        problems.append(f"ends {view.state}: {view.problem}")
    failed = attack.visit_codes - {"ok"}
    if failed and not any(code in why for code in (*failed, "limit-cpu", "busy")):
        problems.append(f"its failure is not told: {why}")
    await mallory.cancel(view.id)
    return named(attack, problems)


async def honest_booking(olga: kalends.Client, after: Attack, canary: Canary) -> list[str]:
    view = await olga.book(
        REQUEST, duration="1h", window=WINDOW, agent="late", arguments={"note": canary.secret}
    )
    await olga.cancel(view.id)
    seen = (view.state, view.start)
    if seen != ("reserved", COMMONS[-1]):
        return [f"after {after.name!a:.80} the honest booking ended so: {view}"]
    return []


async def what_the_servers_say(facility: Facility, canary: Canary) -> list[str]:
    """Problems that the servers' own audits find, alarms in their logs, and secrets there."""
    problems = []
    for server in facility.servers:
        async with kalends.connect(server.url, user="auditor", zone="UTC") as client:
            problems += (await client.audit()).problems
        log = server.log()
        problems += [
            line for line in log.splitlines() if '"level":"error"' in line.replace(" ", "")
        ]
        problems += [f"{server.name} logs {what}" for what in canary.seen_in(log)]
    return problems
