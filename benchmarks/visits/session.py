"""One visit at a site process, through a broker's session: asked, looked, chosen, held, answered.

Beside it a plain `Visit`, which holds a slot that is known already. Each hold is released before the
next visit, outside of the time that counts.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp

from benchmarks.facility import facility
from benchmarks.visits import runs
from benchmarks.visits.figures import spread
from benchmarks.visits.samples import CAPACITY, DAY_S, GRAIN_S, HOUR_S, UNITS
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core import identifiers, limits
from kalends.core.principals import Principal
from kalends.core.scripts import Ask, Starts, script_hash
from kalends.serving.auth.callers import USER_HEADER

RESOURCE: Final = "site0/cluster"
HOLD_MS: Final = 30_000
BROKER: Final = "bench"
REGISTER: Final = "0" * 32
_TUESDAY, _THURSDAY = 1, 3
"""Days of the week from Monday, 0; the epoch began on a Thursday."""

ENDLESS: Final = """\
def choose(view, request):
    while True:
        pass
"""
MISTAKEN: Final = """\
def choose(view, request):
    raise ValueError("nothing here suits")
"""


class Session:
    """A broker's session with the site at `url`, for one message and its answer at a time."""

    def __init__(self, url: str) -> None:
        self._address = url + "/v1/session"
        self._http = aiohttp.ClientSession(headers={USER_HEADER: BROKER})
        self._frames: Any = m.FrameToBroker

    async def __aenter__(self) -> Session:
        try:
            self._socket = await self._http.ws_connect(
                self._address, max_msg_size=limits.FRAME_BYTES_MAX
            )
            await self._heard(m.Hello)
            await self.say(m.Welcome(register=REGISTER))
        except BaseException:
            # Without `__aenter__` no `__aexit__` comes: close it here, and raise again.
            await self._http.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()
        await self._http.close()

    async def ask(self, message: m.ToSite, answer: type[m.Message]) -> m.Message:
        await self.say(message)
        return await self._heard(answer)

    async def say(self, message: m.ToSite) -> None:
        frame = m.FrameToSite(m.WIRE_VERSION, BROKER, time.time_ns() // 1_000_000, [message])
        await self._socket.send_bytes(codec.encode_msgpack(frame))

    async def _heard(self, kind: type[m.Message]) -> m.Message:
        """The next message of this kind; raises `ConnectionError` when the session ends instead."""
        while True:
            received = await self._socket.receive()
            if received.type is not aiohttp.WSMsgType.BINARY:
                raise ConnectionError(f"the site closed: {received.extra or received.data}")
            frame = codec.decode_msgpack(
                received.data, self._frames, bytes_max=limits.FRAME_BYTES_MAX
            )
            for message in frame.messages:
                if isinstance(message, kind):
                    return message


class _Asker:
    """Makes the messages of `user`'s requests, new ones each time."""

    def __init__(self, user: str, first: int) -> None:
        self._user = user
        self._first = first
        self._numbers = itertools.count()

    def visit(self) -> m.Visit:
        want = m.Want(RESOURCE, self._first, self._first + HOUR_S, UNITS)
        return m.Visit(mode="hold", wants=(want,), **self._common())

    def dispatch(self, source: str, slots: int, *, known: bool) -> m.Dispatch:
        return m.Dispatch(
            script=script_hash(source),
            source="" if known else source,
            text=f"{RESOURCE}:{UNITS}",
            starts=Starts(
                first=self._first, last=self._first + (slots - 1) * GRAIN_S, step_s=GRAIN_S
            ),
            asks=(Ask(term=0, resource=RESOURCE, length_s=HOUR_S, units=UNITS),),
            **self._common(),
        )

    def _common(self) -> dict[str, Any]:
        wall_ms = time.time_ns() // 1_000_000
        return {
            "rid": identifiers.request_id(wall_ms, secrets.randbits(74)),
            "att": 1,
            "stamp": next(self._numbers) + 1,
            "principal": Principal(self._user),
            "parts": (m.Part("site0", "http://127.0.0.1:1"),),
            "need": 1,
            "secret": "s" * 24,
            "hold_ms": HOLD_MS,
        }


def measure(count: int, failures: int) -> list[dict[str, Any]]:
    with (
        TemporaryDirectory() as directory,
        facility(
            Path(directory), 1, capacity=CAPACITY, grain=f"{GRAIN_S}s", zone="America/Los_Angeles"
        ) as running,
    ):
        return asyncio.run(_measure(running.sites[0].url, count, failures))


async def _measure(url: str, count: int, failures: int) -> list[dict[str, Any]]:
    """Each row is another user, so that no row uses up the processor time of the next."""
    first = _tuesday_morning(int(time.time()))
    askers = (_Asker(f"user{number}", first) for number in itertools.count())
    wanted = [(*named, slots, count) for named in runs.scripts().items() for slots in runs.SLOTS]
    wanted += [
        ("raises an error", MISTAKEN, runs.SLOTS[0], failures),
        ("never ends", ENDLESS, runs.SLOTS[0], failures),
    ]
    async with Session(url) as session:
        asker = next(askers)
        visits = [asker.visit() for _ in range(count)]
        rows = [await _row(session, "plain visit", 0, visits, m.Visited)]
        for name, source, slots, number in wanted:
            asker = next(askers)
            first_visit = asker.dispatch(source, slots, known=False)
            await session.ask(first_visit, m.Report)
            await session.say(
                m.Release(rid=first_visit.rid, att=first_visit.att, secret=first_visit.secret)
            )
            known = [asker.dispatch(source, slots, known=True) for _ in range(number)]
            rows.append(await _row(session, name, slots, known, m.Report))
    return rows


def _tuesday_morning(now_s: int) -> int:
    """A Tuesday at 17:00 UTC, which is in the morning in California, in two to nine days."""
    day = now_s // DAY_S + 2
    while (day + _THURSDAY) % 7 != _TUESDAY:
        day += 1
    return day * DAY_S + 17 * HOUR_S


async def _row(
    session: Session, name: str, slots: int, visits: Sequence[m.Visit | m.Dispatch],
    answer: type[m.Message],
) -> dict[str, Any]:  # fmt: skip
    """`codes` says how the runs ended, `held` how many visits have held something."""
    times_ms, codes, held = [], Counter[str](), 0
    for visit in visits:
        began_s = time.perf_counter()
        answered = await session.ask(visit, answer)
        times_ms.append((time.perf_counter() - began_s) * 1e3)
        if isinstance(answered, m.Report):
            codes.update(site.code for site in answered.sites)
            held += any(site.held for site in answered.sites)
        elif isinstance(answered, m.Visited):
            held += bool(answered.held)
        await session.say(m.Release(rid=visit.rid, att=visit.att, secret=visit.secret))
        await asyncio.sleep(runs.PAUSE_S)
    return {
        "visit": name, "slots": slots, "codes": dict(codes), "held": held,
        **spread(times_ms)._asdict(),
    }  # fmt: skip
