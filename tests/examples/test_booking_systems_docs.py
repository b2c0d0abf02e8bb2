"""docs/coming-from-booking-systems.md: what it imports is imported, and it prints what is shown."""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from transcripts import ROOT, environment

import kalends
from kalends.demo.facility import SECOND_USER, USER, Facility

PAGE = (ROOT / "docs" / "coming-from-booking-systems.md").read_text()
BLOCKS = dict(
    re.findall(
        r"<!-- ([^:\n]+): tests/examples/test_booking_systems_docs\.py -->\n```[a-z]*\n(.*?)```\n",
        PAGE,
        re.DOTALL,
    )
)


def test_resources_and_bookings_are_imported_by_its_commands(own_facility: Facility) -> None:
    directory = Path(own_facility.directory)
    # The days of the page, Tuesday to Thursday, in the coming weeks: a Tuesday at least a week ahead.
    now = datetime.now(UTC)
    tuesday = now + timedelta(days=7 + (1 - now.weekday()) % 7)

    def dated(text: str) -> str:
        return re.sub(
            r"2027-03-0([234])",
            lambda found: f"{tuesday + timedelta(days=int(found[1]) - 2):%F}",
            text,
        )

    def run(name: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", dated(BLOCKS[name])], cwd=directory, text=True, check=False,
            env=environment({"KALENDS_BROKER": own_facility.broker_url, "KALENDS_ZONE": "UTC"}),
            capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    before = (directory / "site-ncsa.toml").read_text()
    assert run("resources").count("added") == 4
    added = (directory / "site-ncsa.toml").read_text()
    assert added.startswith(before.rstrip("\n"))
    assert "there already" in run("resources")
    assert (directory / "site-ncsa.toml").read_text() == added

    printed = run("bookings")
    assert printed.startswith(dated(BLOCKS["dry run"]))
    assert "2 booked, 1 refused, 1 not understood" in printed
    assert "2 there already, 1 refused, 1 not understood" in printed
    for user in (USER, SECOND_USER):
        with kalends.connect_sync(
            own_facility.broker_url, token=own_facility.token(user)
        ) as client:
            (view,) = client.list(state="reserved")
        assert view.user == user
