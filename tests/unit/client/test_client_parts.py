"""The parts of the client that need no network: waits, access, zones, times, public names."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kalends
from kalends.client.inputs import zones
from kalends.client.inputs.request_builder import length_s, request_from, time_s
from kalends.client.transports.retry import Backoff
from kalends.client.transports.transport import Access
from kalends.core.errors import InvalidInput

NOW_S = 1_800_000_000
BERLIN = ZoneInfo("Europe/Berlin")


@given(
    tries=st.integers(1, 10_000),
    fraction=st.floats(0, 1, exclude_max=True),
    asked_s=st.floats(0, 1_000),
)
def test_a_wait_lies_between_what_was_asked_and_the_ceiling(
    tries: int, fraction: float, asked_s: float
) -> None:
    backoff = Backoff(base_s=0.1, wait_s_max=5.0)
    wait_s = backoff.wait_s(tries, fraction, asked_s)
    assert asked_s <= wait_s <= max(asked_s, 5.0)
    assert wait_s <= max(asked_s, backoff.wait_s(tries + 1, fraction))


def test_the_jitter_is_full_from_nothing_to_the_doubled_ceiling() -> None:
    backoff = Backoff(base_s=1.0, wait_s_max=100.0)
    assert [backoff.wait_s(tries, 0.0) for tries in (1, 2, 3)] == [0, 0, 0]
    assert [backoff.wait_s(tries, 0.999_999) for tries in (1, 2, 3)] == pytest.approx(
        [1, 2, 4], rel=1e-3
    )


@pytest.mark.parametrize("url", ["127.0.0.1:7100", "ftp://host", "http://", "", "/v1"])
def test_what_is_no_address_of_a_server_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="address"):
        kalends.connect(url)


@pytest.mark.parametrize(
    ("at", "later_s"),
    [(" Now", 0), ("now+30m", 1_800), ("now - 20s", 0), ("In 2h", 7_200), ("+2h", 7_200)],
)
@pytest.mark.parametrize(("now_s", "begins_s"), [(NOW_S, NOW_S), (NOW_S + 21, NOW_S + 60)])
def test_an_exact_start_that_counts_from_now_is_on_the_next_full_minute(
    at: str, later_s: int, now_s: int, begins_s: int
) -> None:
    start_s = begins_s + later_s
    request = request_from(
        "a/x", duration="1h", at=at, window=(None, None), note="", priority=0, prefer=(),
        agent="", arguments=None, agent_must_run=False, now_s=now_s, zone=BERLIN,
    )  # fmt: skip
    assert (request.not_before, request.not_after) == (start_s, start_s + 3_600)


@pytest.mark.parametrize("bad", ["a\r\nEvil: 1", "a\x00", "ä"])
def test_what_cannot_stand_in_a_header_is_refused_and_not_shown(bad: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Access(url="http://localhost", token=bad)
    assert bad not in str(refused.value)
    with pytest.raises(InvalidInput):
        Access(url="http://localhost", user=bad)


def test_groups_go_along_with_the_name_and_neither_with_a_token() -> None:
    access = Access(url="http://localhost/", user="ada", groups=("physics", "staff"))
    assert access.headers() == {"Kalends-User": "ada", "Kalends-Groups": "physics,staff"}
    assert access.address("/v1/x") == "http://localhost/v1/x"
    tokened = Access(url="http://localhost", user="ada", token="t")
    assert tokened.headers() == {"Authorization": "Bearer t"}


def test_a_file_that_holds_no_certificates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot use"):
        Access(url="https://localhost", ca=str(tmp_path / "missing.pem")).tls()
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(InvalidInput, match="cannot use"):
        Access(url="https://localhost", ca=str(tmp_path / "empty.pem")).tls()


def test_an_unknown_zone_or_transport_is_refused() -> None:
    with pytest.raises(InvalidInput, match="zone"):
        kalends.connect("http://localhost", zone="Mars/Olympus")
    with pytest.raises(InvalidInput, match="transport"):
        kalends.connect("http://localhost", transport="pigeon")  # type: ignore[arg-type]  # on purpose


def test_times_are_read_from_text_datetimes_and_seconds() -> None:
    when = datetime(2027, 1, 15, 9, 0, tzinfo=BERLIN)
    for written in ("2027-01-15 09:00", when, int(when.timestamp())):
        assert time_s(written, now_s=NOW_S, zone=BERLIN) == int(when.timestamp())
    with pytest.raises(InvalidInput, match="no time zone"):
        time_s(datetime(2027, 1, 15), now_s=NOW_S, zone=BERLIN)


def test_durations_are_read_from_text_timedeltas_and_seconds() -> None:
    assert {length_s("1h30m"), length_s(5_400), length_s(timedelta(minutes=90))} == {5_400}
    for bad in (0, -1, timedelta(seconds=0.5), "90"):
        with pytest.raises(InvalidInput):
            length_s(bad)


def test_seconds_come_back_as_aware_datetimes() -> None:
    assert kalends.as_datetime(0) == datetime(1970, 1, 1, tzinfo=UTC)
    local = kalends.as_datetime(1_782_000_000, "Europe/Berlin")
    assert local.tzinfo == BERLIN
    assert local.timestamp() == 1_782_000_000


@pytest.mark.parametrize(
    ("tz", "link", "expected"),
    [
        ("America/Los_Angeles", "", "America/Los_Angeles"),
        (":Asia/Tokyo", "", "Asia/Tokyo"),
        ("", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("no such zone", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("", "", "UTC"),
    ],
)
def test_the_local_zone_comes_from_tz_then_localtime_then_utc(
    tz: str, link: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    localtime = tmp_path / "localtime"
    if link:
        localtime.symlink_to(link)
    monkeypatch.setattr(zones, "_LOCALTIME", localtime)
    monkeypatch.setenv("TZ", tz)
    assert zones.local_zone().key == expected


def test_all_public_names_exist_and_no_other_does() -> None:
    for name in dir(kalends):
        assert getattr(kalends, name) is not None
    with pytest.raises(AttributeError):
        kalends.no_such_name  # noqa: B018


def test_the_version_is_that_of_the_distribution() -> None:
    assert kalends.__version__ == version("kalends")


SERVER_PARTS = (
    "kalends.serving", "kalends.resource_servers", "kalends.broker", "kalends.calendars",
    "sqlite3", "sortedcontainers", "jwt", "prometheus_client", "structlog", "dateutil",
)  # fmt: skip


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_else_of_it() -> None:
    loaded = loaded_by("import kalends")
    assert not loaded & {"kalends.client", "kalends.core", "asyncio", "msgspec", "aiohttp"}


def test_the_client_loads_no_part_of_a_server() -> None:
    loaded = loaded_by(
        "import kalends, kalends.client.transports.session, kalends.client.transports.http;"
        "kalends.connect_sync"
    )
    assert "kalends.client.sync" in loaded
    assert not loaded & set(SERVER_PARTS)
