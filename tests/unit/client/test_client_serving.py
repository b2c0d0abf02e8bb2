"""The client and the servers' own routes and sessions fit together: tokens, problems, stopping."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from client_broker import BUSY, NOW_S, Broker
from serving_support import Deeds, ManualClock, serving

import kalends
from kalends.client.client import Client
from kalends.client.connection import in_surroundings
from kalends.contract.calls import OPERATIONS
from kalends.core.errors import NoCommonTime, NotAllowed, NotAuthenticated, NotFound, OutcomeUnknown
from kalends.serving.auth.callers import Caller
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.public_keys import KeyTerms, load_trusted_keys
from kalends.serving.auth.tokens import KeyRing, mint
from kalends.serving.http.dispatch import Handler, Role
from kalends.serving.http.rate_limits import ServingLimits

TRANSPORTS = ("session", "http")


class BrokerDeeds(Deeds):
    """The test broker's calls as handlers of a real server; `stuck` ones never answer."""

    def __init__(self, *stuck: str) -> None:
        super().__init__()
        self.broker = Broker()
        self.stuck = stuck
        self.asked = asyncio.Event()

    def handlers(self, role: Role) -> dict[str, Handler]:
        return {
            operation.name: self._handler(operation.name)
            for operation in OPERATIONS
            if role in operation.roles
        }

    def _handler(self, name: str) -> Handler:
        async def never() -> Any:
            self.asked.set()
            await asyncio.Event().wait()

        def handle(caller: Caller, body: Any) -> Any:
            answer = getattr(self.broker, f"do_{name}")(caller.principal.user, body)
            return never() if name in self.stuck else answer

        return handle


def connected(url: str, transport: Any, **options: Any) -> Client:
    async def no_wait(seconds: float) -> None:
        pass

    defaults: dict[str, Any] = {"user": "ada", "zone": "UTC"}
    client = kalends.connect(url, transport=transport, **{**defaults, **options})
    return in_surroundings(client, sleep=no_wait, wall_clock=lambda: NOW_S)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_booking_is_made_changed_told_and_cancelled(transport: str) -> None:
    async with serving(BrokerDeeds()) as server, connected(server.url, transport) as client:
        booked = await client.book("sdsc/sp2:64 + caltech/onyx", duration="2h", key="my-key-01")
        assert (booked.user, await client.resolve("my-key-01")) == ("ada", booked)
        moved = await client.move(booked.id, "now+1d")
        assert await client.list() == (moved,)
        assert (await client.cancel(booked.id)).state == "cancelled"
        kinds = [event.kind for event in (await client.why(booked.id)).events]
        assert kinds == ["booked", "changed", "cancelled"]
        assert (await client.calendar("sdsc/sp2", start="now", end="now+1d")).free
        assert (await client.resources()).resources[0].name == "sdsc/sp2"
        assert (await client.health()).status == "ok"
        assert (await client.audit()).claims


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_problems_arrive_as_typed_errors_with_their_refusals(transport: str) -> None:
    async with serving(BrokerDeeds()) as server, connected(server.url, transport) as client:
        with pytest.raises(NoCommonTime) as failed:
            await client.book("caltech/onyx", duration="2d")
        assert failed.value.refusals == (BUSY,)
        with pytest.raises(NotFound, match="nothing arrived"):
            await client.resolve("never-sent")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_signed_token_lets_in_and_its_scopes_bound_what_it_may(
    transport: str, tmp_path: Path
) -> None:
    public = write_key_pair(tmp_path / "owner.key")
    trusted = load_trusted_keys(public, KeyTerms("kalends", frozenset({"use", "audit"})))
    clock = ManualClock()
    token = mint(
        load_private_key(tmp_path / "owner.key"), user="eve", groups=["physics"],
        audience=["npaci"], scopes=["use"], issuer="kalends", lifetime_s=60, now_s=clock.wall_now_s,
    )  # fmt: skip
    deeds = BrokerDeeds()
    ring = KeyRing(trusted, "npaci")
    async with serving(deeds, authenticator=ring, clock=clock) as server:
        async with connected(server.url, transport, token=token) as client:
            assert (await client.book("caltech/onyx", duration="1h")).user == "eve"
            with pytest.raises(NotAllowed):
                await client.audit()
        async with connected(server.url, transport, token=token + "x") as client:
            with pytest.raises(NotAuthenticated):
                await client.list()


async def test_more_calls_than_the_server_takes_in_flight_all_get_their_answer() -> None:
    limits = ServingLimits(calls_in_flight_max=2_000)
    async with (
        serving(BrokerDeeds(), limits=limits) as server,
        connected(server.url, "session") as client,
    ):
        views = await asyncio.gather(
            *(client.book("caltech/onyx", duration="1h") for _ in range(2_200))
        )
    assert len({view.id for view in views}) == 2_200


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_that_stops_before_it_answers_leaves_the_outcome_to_be_settled(
    transport: str,
) -> None:
    deeds = BrokerDeeds("book")
    limits = ServingLimits(drain_s_max=0.01)
    async with serving(deeds, limits=limits) as server, connected(server.url, transport) as client:
        call = asyncio.create_task(client.book("caltech/onyx", duration="1h"))
        await deeds.asked.wait()
        await server.stop()
        with pytest.raises(OutcomeUnknown) as unknown:
            await call
    deeds.stuck = ()
    async with serving(deeds) as server, connected(server.url, transport) as client:
        assert (await client.resolve(unknown.value.request_id)).state == "reserved"
