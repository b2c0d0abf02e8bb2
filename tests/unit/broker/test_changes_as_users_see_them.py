"""A change that was made, or refused, under the id and in the words that its user knows."""

from __future__ import annotations

import pytest

import kalends
from kalends.core.errors import InvalidInput
from kalends.testing import LocalFacility

NOW = "2027-03-01T09:00Z"


async def test_after_a_move_the_calendar_and_the_story_tell_of_the_reservation_that_show_knows() -> (
    None
):
    async with (
        LocalFacility({"sdsc": {"sp2": 64}}, now=NOW) as servers,
        servers.client("ann") as broker,
    ):
        booked = await broker.book("sdsc/sp2:8", duration="1h", at="2027-03-01T12:00Z")
        await broker.move(booked.id, "2027-03-01T15:00Z")
        day = ("2027-03-01T09:00Z", "2027-03-01T18:00Z")
        view = await broker.calendar("sdsc/sp2", start=day[0], end=day[1])
        assert [slot.reservation for slot in view.slots] == [booked.id]
        with pytest.raises(InvalidInput):
            await broker.move(booked.id, "2037-03-01T15:00Z")
        story = await broker.why(booked.id)
        assert [event.kind for event in story.events] == ["reserved", "changed", "refused"]
        assert "to sdsc/sp2:8 from Sun 2037-03-01 15:00" in story.events[-1].detail
        watched: list[kalends.Event] = []
        async for event in broker.watch(booked.id, after=0):
            watched.append(event)
            if len(watched) == len(story.events):
                break
        assert tuple(watched) == story.events


async def test_a_priority_above_the_grant_is_told_in_the_answer() -> None:
    async with (
        LocalFacility({"sdsc": {"sp2": 64}}, now=NOW) as servers,
        servers.client("ann") as broker,
    ):
        request = broker.request("sdsc/sp2", duration="1h", priority=50)
        booked: kalends.RequestView = await broker.book(request)
        assert booked.priority == 0
