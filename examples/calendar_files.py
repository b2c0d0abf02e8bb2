"""A reservation as a calendar file and in a feed, while it changes: all of it in this process."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from kalends.contract.calls import RequestView
from kalends.testing import LocalFacility

NOW, SLOT, LATER = "2027-03-01T09:00Z", "2027-03-02T09:00Z", "2027-03-03T13:00Z"
SHOWN = ("SEQUENCE", "DTSTART", "DTEND", "STATUS", "SUMMARY", "LOCATION")


def tell(what: str, text: str) -> None:
    print(f"{what}:")
    for line in text.splitlines():
        if line.startswith(SHOWN):
            print(f"  {line}")


def main() -> None:
    with (
        LocalFacility({"sdsc": {"sp2": 64}, "ncsa": {"cave": 1}}, now=NOW) as servers,
        servers.sync_client("ann") as ann,
        TemporaryDirectory() as directory,
    ):

        def as_file(view: RequestView) -> str:
            # Calendar programs want the line ends as they are: newline="".
            path = Path(directory) / "run.ics"
            path.write_text(ann.ics(view), newline="")
            return path.read_text()

        booked = ann.book("sdsc/sp2:64 + ncsa/cave", duration="2h", at=SLOT, note="run 7")
        tell("booked", as_file(booked))
        feed = ann.add_feed("phone")
        tell("moved", as_file(ann.move(booked.id, LATER)))
        tell("cancelled", as_file(ann.cancel(booked.id)))
        print(f"all my requests: {ann.ics(ann.list()).count('BEGIN:VEVENT')} event")
        with urllib.request.urlopen(feed.address) as answer:
            tell("read from the feed by a calendar program", answer.read().decode())
        ann.revoke_feed("phone")
        try:
            urllib.request.urlopen(feed.address)
        except urllib.error.HTTPError as refused:
            print(f"after it was revoked: status {refused.code}")


if __name__ == "__main__":
    main()
