"""An owner's buffers, as they are configured, and faults in them at their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalends.core.errors import InvalidInput, RefusalCode
from kalends.core.principals import Principal
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.resource_servers.setup.bookable import is_bookable
from kalends.serving.configuration import SiteConfiguration, load_configuration

SITE = '[site]\nname = "lab"\nstore = "s"\n'
ROOM = '[[site.resources]]\nname = "room"\n'
HOUR = 3_600
NOW = 20_000 * 86_400


def site_of(text: str) -> SiteConfiguration:
    site = load_configuration(SITE + text, Path()).site
    assert site is not None
    return site


def test_users_are_told_of_a_buffer_in_words() -> None:
    buffer = '[site.resources.buffer]\nbefore = "10m"\nafter = "20m"\nshared = true\ngap = "30m"\n'
    info = calendars_of(site_of(ROOM + buffer))["lab/room"].info
    assert info.gap_s == 1_800
    assert info.rules == (
        "10m set-up before and 20m clearing after each booking, shared by neighbours,"
        " at least 30m between bookings",
    )


def test_the_sites_buffer_holds_for_resources_without_one_and_without_jobs() -> None:
    default = '[site.defaults.buffer]\nafter = "20m"\n'
    own = '[[site.resources]]\nname = "own"\nbuffer = { gap = "1h" }\n'
    box = '[[site.resources]]\nname = "box"\n[[site.machines]]\nresource = "box"\n'
    none = '[[site.resources]]\nname = "none"\nbuffer = {}\n'
    found = calendars_of(site_of(ROOM + own + none + box + default))
    gaps = {name: each.gap_s for name, each in found.items()}
    assert gaps == {"lab/room": 1_200, "lab/own": 3_600, "lab/none": 0, "lab/box": 0}


@pytest.mark.parametrize(
    ("buffer", "where", "words"),
    [
        ('before = "-5m"', "site.resources[0].buffer.before", ""),
        ('after = "8d"', "site.resources[0].buffer.after", "7d"),
        ('gap = "30d"', "site.resources[0].buffer.gap", "7d"),
        ('after = "5m"\nshared = true', "site.resources[0].buffer.shared", "missing"),
        ("after = 5", "site.resources[0].buffer.after", ""),
        ('around = "5m"', "site.resources[0].buffer", "around"),
    ],
)
def test_a_buffer_that_cannot_be_is_an_error_at_its_place(
    buffer: str, where: str, words: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        calendars_of(site_of(f"{ROOM}[site.resources.buffer]\n{buffer}\n"))
    assert where in raised.value.where
    assert words in str(raised.value)


def test_a_buffer_where_jobs_run_is_an_error_at_its_place() -> None:
    text = f'{ROOM}buffer = {{ after = "5m" }}\n[[site.machines]]\nresource = "room"\n'
    with pytest.raises(InvalidInput, match="jobs run") as raised:
        calendars_of(site_of(text))
    assert raised.value.where == "site.resources[0].buffer"


def test_set_up_that_is_longer_than_the_horizon_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="set-up takes 2d"):
        calendars_of(site_of(f'{ROOM}horizon = "1d"\nbuffer = {{ before = "2d" }}\n'))


def shortest(text: str) -> str:
    return f'{ROOM}[[site.resources.limits]]\nname = "long"\nwho = "everyone"\n{text}\n'


def test_a_booking_that_is_too_short_names_the_limit_and_a_change_may_give_back_time() -> None:
    room = calendars_of(site_of(shortest('shortest = "1h"')))["lab/room"]
    ann = Principal("ann")
    found = room.refusal(ann, ("hold", "lock"), NOW, NOW + 1_800, 1, NOW)
    assert found is not None
    assert (found.code, found.rule) == (RefusalCode.TOO_SHORT, "long")
    assert "at least 1h" in found.detail
    assert room.refusal(ann, ("hold", "lock"), NOW, NOW + HOUR, 1, NOW) is None
    assert room.earliest_fit(ann, 1, 1_800, NOW, NOW + 9 * HOUR, NOW) is None
    assert room.earliest_fit(ann, 1, HOUR, NOW, NOW + 9 * HOUR, NOW) == NOW
    assert is_bookable(room, NOW)


def test_lengths_that_no_booking_has_are_an_error_at_their_place() -> None:
    with pytest.raises(InvalidInput, match="no booking is both") as raised:
        calendars_of(site_of(shortest('shortest = "2h"\nlongest = "1h"')))
    assert raised.value.where == "site.resources[0].limits[0].shortest"


def together(*pairs: tuple[str, str]) -> str:
    return "".join(
        f'[[site.resources]]\nname = "{name}"\nwith = [{also}]\n' for name, also in pairs
    )


def test_resources_that_come_together_are_told_to_users() -> None:
    found = calendars_of(
        site_of(together(("camera", '"table", "key"'), ("table", ""), ("key", "")))
    )
    assert found["lab/camera"].info.companions == ("lab/table", "lab/key")
    assert found["lab/camera"].info.rules == ("always together with table, key",)
    assert found["lab/table"].info.companions == ()


@pytest.mark.parametrize(
    ("pairs", "where", "words"),
    [
        ((("a", '"b", "c"'), ("b", "")), "site.resources[0].with[1]", "no resource c"),
        ((("a", '"a"'),), "site.resources[0].with[0]", "with itself"),
        ((("a", '"b"'), ("b", '"c"'), ("c", '"a"')), "site.resources[0].with[0]", "with itself"),
        ((("z", '"a"'), ("a", '"b"'), ("b", '"a"')), "site.resources[1].with[0]", "with itself"),
    ],
)
def test_a_companion_that_does_not_exist_or_comes_with_itself_is_an_error_at_its_place(
    pairs: tuple[tuple[str, str], ...], where: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as raised:
        site_of(together(*pairs))
    assert raised.value.where == where
