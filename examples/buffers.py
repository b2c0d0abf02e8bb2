"""An owner's buffers: time for set-up and clearing around each booking, and what users are shown of it."""

from __future__ import annotations

import kalends
from kalends.core.times import format_time
from kalends.testing import LocalFacility

NOW, DAY = "2027-03-01T09:00Z", "2027-03-02T"
MICROSCOPE = {
    "buffer": {"before": "10m", "after": "20m"},
    "limits": [{"name": "all", "who": "everyone", "shortest": "30m", "locked_max": 1}],
}


def main() -> None:
    with (
        LocalFacility(
            {"emlab": {"microscope": MICROSCOPE}, "sdsc": {"sp2": 64}}, now=NOW
        ) as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("bob") as bob,
    ):
        microscope = next(e for e in ann.resources().resources if e.name == "emlab/microscope")
        print(*microscope.rules, sep="\n")
        wish = "emlab/microscope + sdsc/sp2:8"
        ann.book(wish, duration="2h", at=DAY + "10:00Z")
        view = bob.calendar("emlab/microscope", start=DAY + "09:00Z", end=DAY + "18:00Z")
        for slot in view.slots:
            print("taken", *map(clock, (slot.start, slot.end)), slot.before_s, slot.after_s)
        for start, end, _ in view.free:
            print("free", clock(start), clock(end))

        for at, length in (("12:10", "1h"), ("13:00", "10m")):
            try:
                bob.book("emlab/microscope", duration=length, at=f"{DAY}{at}Z")
            except kalends.KalendsError as error:
                print(error.refusals[0].code, error.refusals[0].detail)
        after = bob.book(wish, duration="1h", window=(DAY + "10:00Z", DAY + "18:00Z"))
        print("bob has it from", clock(after.start))
        try:
            bob.book("emlab/microscope", duration="1h", at=DAY + "15:00Z")
        except kalends.LimitExceeded as error:
            print(error.refusals[0].code, error.refusals[0].detail)


def clock(time_s: int) -> str:
    return format_time(time_s, "UTC")[15:20]


if __name__ == "__main__":
    main()
