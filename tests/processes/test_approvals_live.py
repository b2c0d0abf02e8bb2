"""Owners' approvals at real servers that are killed and restored: each word counts once, and for good."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.contract.calls import RequestView

from .customers import base_now_s
from .facility import GRAIN_S, Facility, connected, make_facility
from .servers import Server, running, until

pytestmark = pytest.mark.xdist_group("one-at-a-time")

TERMS = "site0/cluster:8 + site1/cluster:8"
WORD = """
[[site.resources.limits]]
name = "word"
who = "everyone"
approval = true
"""


@pytest.fixture
async def facility(tmp_path: Path) -> AsyncIterator[Facility]:
    """The owner of the second site approves each booking there."""
    made = make_facility(tmp_path, sites=2, replicas=1)
    with made.sites[1].configuration.open("a", encoding="utf-8") as guarded:
        guarded.write(WORD)
    async with running(*made.servers):
        await connected(made)
        yield made


def owner(facility: Facility) -> kalends.Client:
    return kalends.connect(facility.sites[1].url, user="owner", zone="UTC")


def ada(facility: Facility) -> kalends.Client:
    return kalends.connect(facility.brokers[0].url, user="ada", zone="UTC")


async def asked(facility: Facility) -> RequestView:
    """A request that waits for its owner's word."""
    start = base_now_s() + 20 * GRAIN_S
    async with ada(facility) as client:
        view = await client.book(TERMS, duration=GRAIN_S, at=start, wait_s=0)

        async def is_asked() -> bool:
            shown = await client.show(view.id)
            return shown.waiting is not None and shown.waiting.approval

        await until(is_asked, "the owner is asked")
    return view


async def decided(facility: Facility, id: str, *, approve: bool) -> None:
    """The owner says it again until it is answered: the site waits for its broker after a start."""
    async with owner(facility) as client:

        async def is_taken() -> bool:
            decide = client.approve if approve else client.decline
            try:
                await decide(id, word="so be it")
            except (kalends.Unavailable, kalends.OutcomeUnknown):
                return False
            return True

        await until(is_taken, "the word is taken")


async def ends(facility: Facility, id: str) -> str:
    """The state of a request once it is no longer open."""
    found = ["open"]
    async with ada(facility) as client:

        async def is_over() -> bool:
            try:
                found.append((await client.show(id)).state)
            except kalends.Unavailable:
                return False
            return found[-1] != "open"

        await until(is_over, "the request is decided")
    return found[-1]


async def locked_at(facility: Facility, id: str) -> list[bool]:
    found = []
    for site in facility.sites:
        async with kalends.connect(site.url, user="tests", zone="UTC") as client:
            claims = (await client.audit()).claims
            found.append(any(each.id == id and each.state == "locked" for each in claims))
    return found


async def killed(*servers: Server) -> None:
    for server in servers:
        await server.kill()
    for server in servers:
        await server.start()


def _files_of(name: str, folder: Path) -> dict[Path, bytes]:
    """Return the store of a site that does not run, and all that lies beside it."""
    return {file: file.read_bytes() for file in folder.glob(f"{name}.sqlite*")}


def _put_back(image: dict[Path, bytes], name: str, folder: Path) -> None:
    for file in _files_of(name, folder):
        file.unlink()
    for file, content in image.items():
        file.write_bytes(content)


@pytest.mark.parametrize(("approve", "state"), [(True, "reserved"), (False, "failed")])
async def test_a_word_counts_whichever_servers_are_killed_before_it_and_after_it(
    facility: Facility, approve: bool, state: str
) -> None:
    view = await asked(facility)
    await killed(facility.sites[1], facility.brokers[0])
    await decided(facility, view.id, approve=approve)
    await killed(*facility.brokers, *facility.sites)
    await connected(facility)
    assert await ends(facility, view.id) == state
    locked = [state == "reserved"] * 2

    async def is_so_at_all_sites() -> bool:
        return await locked_at(facility, view.id) == locked

    await until(is_so_at_all_sites, f"it is {state} at all sites")
    async with owner(facility) as client:
        assert await client.approvals() == ()


async def test_a_restored_site_takes_no_second_word_before_its_broker_has_come(
    facility: Facility, tmp_path: Path
) -> None:
    view = await asked(facility)
    guarded, (broker,) = facility.sites[1], facility.brokers
    await guarded.kill()
    image = _files_of("site1", tmp_path)
    await guarded.start()
    await decided(facility, view.id, approve=True)
    assert await ends(facility, view.id) == "reserved"
    await broker.kill()
    await guarded.kill()
    _put_back(image, "site1", tmp_path)
    await guarded.start()
    async with owner(facility) as client:
        assert [each.id for each in await client.approvals()] == [view.id]
        with pytest.raises(kalends.Unavailable, match="cannot tell yet"):
            await client.decline(view.id, word="rather not")
        await broker.start()
        await connected(facility)

        async def is_locked_again() -> bool:
            return await locked_at(facility, view.id) == [True, True]

        await until(is_locked_again, "what was approved is locked again")
        assert await client.approvals() == ()
        with pytest.raises((kalends.Conflict, kalends.Unavailable)):
            await client.decline(view.id, word="rather not")
    assert await ends(facility, view.id) == "reserved"
