"""Whoever reads an error, a story or an echo reads it in their own time zone, wherever the owner is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import kalends
from kalends.cli import cli
from kalends.core.errors import InvalidInput, KalendsError
from kalends.testing import LocalFacility

OWNERS = "America/Los_Angeles"


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalFacility]:
    scope = {"zone": OWNERS, "grain": "15m", "horizon": "30d"}
    with LocalFacility({"lab": {"scope": scope}}, now="2027-03-01T10:00Z") as servers:
        yield servers


@pytest.fixture
def ann(lab: LocalFacility) -> Iterator[kalends.SyncClient]:
    with lab.sync_client("ann", zone="Europe/Berlin") as client:
        yield client


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("tomorrow 09:07", "Tue 2027-03-02 09:15:00 CET (UTC+01:00)"),
        ("yesterday 09:00", "it is already Mon 2027-03-01 11:0"),
        ("tomorrow 09:00:20", "Tue 2027-03-02 09:15:00 CET (UTC+01:00)"),
        ("2027-06-01 09:00", "CEST (UTC+02:00)"),
    ],
)
def test_a_refusal_is_told_in_the_users_zone(ann: kalends.SyncClient, at: str, told: str) -> None:
    with pytest.raises(KalendsError) as refused:
        ann.book("lab/scope", duration="1h", at=at)
    details = " ".join(each.detail for each in refused.value.refusals)
    assert told in details
    assert "PST" not in details
    assert "PDT" not in details
    story = ann.why(refused.value.request_id) if refused.value.request_id else None
    assert story is None or "PST" not in repr([each.refusals for each in story.events])


@pytest.mark.parametrize(
    ("length", "window", "told"),
    [
        (
            "3h",
            ("today 10:00", "today 13:05"),
            "3h no longer fit before Mon 2027-03-01 13:05:00 CET",
        ),
        (
            "30m",
            ("today 09:00", "today 10:40"),
            "30m no longer fit before Mon 2027-03-01 10:40:00 CET",
        ),
        ("3h", ("today 10:00", "today 13:00"), "it would start at Mon 2027-03-01 10:00:00 CET"),
    ],
)
def test_a_booking_that_no_longer_fits_into_its_window_is_told_so_and_what_to_do(
    length: str, window: tuple[str, str], told: str
) -> None:
    with (
        LocalFacility({"lab": {"scope": {"zone": OWNERS}}}, now="2027-03-01T10:01Z") as servers,
        servers.sync_client("ann", zone="Europe/Berlin") as ann,
    ):
        with pytest.raises(InvalidInput, match="the last possible start has passed") as refused:
            ann.book("lab/scope", duration=length, window=window)
        (refusal,) = refused.value.refusals
        assert told in refusal.detail
        assert "it is already Mon 2027-03-01 11:01" in refusal.detail
        assert "for a window, a later end or a shorter duration" in refused.value.remedy
        assert ann.book("lab/scope", duration="1h", window=(window[0], "today 14:30"))


def test_a_window_that_ends_before_it_begins_is_refused_with_both_ends_as_they_were_read(
    ann: kalends.SyncClient,
) -> None:
    with pytest.raises(KalendsError) as refused:
        ann.find("lab/scope", duration="1h", window=("tomorrow", "today"))
    assert "Mon 2027-03-01 00:00:00 CET" in refused.value.detail
    assert "Tue 2027-03-02 00:00:00 CET" in refused.value.detail


def test_a_window_too_short_is_refused_with_both_its_ends(ann: kalends.SyncClient) -> None:
    with pytest.raises(KalendsError) as refused:
        ann.find("lab/scope", duration="9h", window=("09:00", "17:00"))
    assert "Tue 2027-03-02 09:00:00 CET" in refused.value.detail
    assert "Tue 2027-03-02 17:00:00 CET" in refused.value.detail


def test_the_times_of_a_working_day_are_those_of_the_next_one_once_it_has_begun(
    ann: kalends.SyncClient,
) -> None:
    found = ann.find("lab/scope", duration="1h", window=("09:00", "17:00"), count=1)
    start = kalends.as_datetime(found.candidates[0].start, "Europe/Berlin")
    assert f"{start:%Y-%m-%d %H:%M}" == "2027-03-02 09:00"


def test_a_search_from_a_time_that_has_passed_finds_no_start_in_the_past() -> None:
    week = {"zone": "UTC", "grain": "15m", "horizon": "7d"}
    with LocalFacility({"lab": {"scope": week}}, now="2027-03-01T10:07Z") as servers:
        with servers.sync_client("ann", zone="UTC") as ann:
            found = ann.find("lab/scope", duration="1h", window=("today 09:00", None))
            booked = ann.book("lab/scope", duration="1h", window=("today 09:00", "today 17:00"))
            asked = ann.move(booked.id, "today 10:00")
        words = (
            "--broker",
            servers.url("broker"),
            "--user",
            "bob",
            "--zone",
            "UTC",
            "find",
            "lab/scope",
        )
        run = CliRunner().invoke(cli, [*words, "--for", "1h", "--after", "yesterday 09:00"])
    starts = [each.start % 86_400 // 60 for each in (found.candidates[0], booked, asked)]
    assert starts == [615, 615, 600]
    assert ", which has passed: from now on" in run.stderr


def test_a_day_alone_is_no_start_unless_whole_days_are_booked_or_moved(
    ann: kalends.SyncClient,
) -> None:
    with pytest.raises(KalendsError, match="without a time of day"):
        ann.book("lab/scope", duration="1h", at="next tuesday")
    booked = ann.book("lab/scope", duration="1d", at="next tuesday")
    moved = ann.move(booked.id, "next wednesday")
    assert moved.start == booked.start + 86_400
    ann.cancel(booked.id)
    hour = ann.book("lab/scope", duration="1h", at="next tuesday 00:00")
    with pytest.raises(KalendsError, match="without a time of day"):
        ann.move(hour.id, "next wednesday")
    ann.cancel(hour.id)


@pytest.mark.parametrize("zone", ["EST", "CET", "PST"])
def test_an_abbreviation_is_no_zone_of_a_client(lab: LocalFacility, zone: str) -> None:
    with pytest.raises(KalendsError, match=r"(America|Europe)/"):
        kalends.connect(lab.url("broker"), zone=zone)
