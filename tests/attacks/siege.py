"""A real site under attack: a server process, hostile brokers, and honest users in between."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.principals import Principal
from kalends.core.scripts import Ask, Starts
from tests.processes.site_process import SECRET, Broker, new_rid

from . import world
from .corpus.kinds import Attack
from .judging import Canary, named

HOUR_S: Final = 3_600
START: Final = (int(time.time()) // 86_400 + 2) * 86_400
SLOTS: Final = world.SLOTS
COMMONS: Final = [START + number * HOUR_S for number in range(SLOTS)]

ASKED_AGAIN_MAX: Final = 10
OVERLOADED: Final = ("busy", "limit-wall")

CONFIGURATION: Final = """
[log]
form = "json"
[site]
name = "sdsc"
listen = "127.0.0.1:0"
store = "sdsc.sqlite"
[site.agents]
held_max = 16
cpu_s_per_minute = 600.0
[site.limits]
held_per_principal_max = 1000000
[[site.resources]]
name = "sp2"
capacity = 1000
zone = "America/Los_Angeles"
[[site.resources]]
name = "scope"
[[site.resources]]
name = "vault"
description = "{secret}"
attributes = {{ secret = "{secret}" }}
access = [{{ name = "{secret}", who = "group:staff", may = "lock" }}]
"""


def write_configuration(directory: Path, canary: Canary) -> Path:
    """Write the file of a site: a resource for everyone, one with room for one, and one with a secret."""
    path = directory / "site.toml"
    path.write_text(CONFIGURATION.format(secret=canary.secret))
    return path


def hash_of(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def dispatch(user: str, source: str, **more: Any) -> m.Dispatch:
    """A visit of a user's script to every hour of a day at ``sdsc/sp2``."""
    fields: dict[str, Any] = {
        "rid": new_rid(),
        "att": 1,
        "stamp": 1_000_000,
        "principal": Principal(user),
        "source": source,
        "script": more.pop("script", None) or hash_of(source),
        "starts": Starts(COMMONS[0], COMMONS[-1], HOUR_S),
        "asks": (Ask(0, "sdsc/sp2", HOUR_S),),
        "parts": (m.Part("sdsc", "http://127.0.0.1:1"),),
        "need": 1,
        "secret": SECRET,
        "hold_ms": 600_000,
    }
    return m.Dispatch(**{**fields, **more})


async def reported(broker: Broker, visit: m.Dispatch) -> m.SiteReport:
    """What the site reports on `visit`; what it holds is given up again.

    A host that is overloaded says so, and is asked again.
    """
    for _ in range(ASKED_AGAIN_MAX):
        (report,) = await broker.ask(visit)
        assert isinstance(report, m.Report), report
        assert report.rid == visit.rid, report
        await broker.frame(m.Release(rid=visit.rid, att=visit.att))
        (own,) = report.sites
        if own.code not in OVERLOADED:
            break
        visit = msgspec.structs.replace(visit, rid=new_rid())
    return own


def sendable(attack: Attack) -> bool:
    """Whether a frame can hold the source: it is text, and not too long.

    An empty one means another thing: that the site has seen the source.
    """
    if not attack.source:
        return False
    try:
        attack.source.encode()
    except UnicodeEncodeError:
        return False
    return len(attack.source) <= limits.SCRIPT_BYTES_MAX


async def attacked(broker: Broker, attack: Attack, kind: str, canary: Canary) -> list[str]:
    """All that is not as it must be when `attack` visits the site."""
    own = await reported(broker, dispatch(f"mallory-{hash_of(attack.name)[:16]}", attack.source))
    # On a slow host the time of a bomb may be over before its steps are.
    slow = {"limit-cpu"} if kind.startswith("bombs") else set()
    if attack.function == "recall" and "rejected" not in attack.codes:
        expected = {"agent-error"}  # There is no ``choose`` in it.
    else:
        expected = set(attack.visit_codes) | slow
    problems = []
    if own.code not in expected:
        problems.append(f"is reported {own.code} ({own.detail}), not {sorted(expected)}")
    commons = [slot.common for slot in own.held]
    if own.code != "ok" and (commons != COMMONS[: len(commons)] or not commons or own.sent):
        problems.append(f"instead of the default {commons} are held, and {own.sent} is sent")
    if own.code == "ok" and len(commons) != min(len(attack.answer or ()), 16):  # type: ignore[arg-type]  # an "ok" answer is a list
        problems.append(f"{len(commons)} slots are held for the answer {attack.answer}")
    if not own.detail.isprintable():
        problems.append(f"the detail does not print: {own.detail!a}")
    return named(attack, [*problems, *canary.seen_in(repr(own))])


async def honest_visit(broker: Broker, user: str, canary: Canary) -> list[str]:
    """How an honest visit is not as if it were alone: nothing may be missing, and nothing else held.

    It carries a secret, in all the places where it can.
    """
    visit = dispatch(
        user,
        world.HONEST_SOURCE,
        text=canary.secret,
        arguments={"note": canary.secret},
        inbox=(f'"{canary.secret}"',),
    )
    own = await reported(broker, visit)
    seen = (own.code, [slot.common for slot in own.held], own.sent)
    wanted = ("ok", COMMONS[:-4:-1], (f'"3 of {SLOTS} for {user}"',))
    return [] if seen == wanted else [f"the honest visit of {user} ended so: {own}"]


async def lane(
    broker: Broker, attacks: Sequence[tuple[str, Attack]], user: str, canary: Canary
) -> list[str]:
    """Each of `attacks` by its kind, and the visit of an honest `user` right after it."""
    problems: list[str] = []
    for kind, attack in attacks:
        problems += await attacked(broker, attack, kind, canary)
        after = await honest_visit(broker, user, canary)
        problems += [f"after {attack.name!a:.80}: {problem}" for problem in after]
    return problems


def shuffled(attacks: Sequence[tuple[str, Attack]], seed: int) -> list[tuple[str, Attack]]:
    return random.Random(seed).sample(attacks, len(attacks))


def resident_bytes(pid: int) -> int:
    """Resident memory of a process (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no resident memory")
