"""Say for each machine when it is wanted: windows and preferences of terms, in text and in Python.

Run it anywhere: it starts its own two sites and a broker, at a time that is always the same.
"""

from __future__ import annotations

import kalends
from kalends.testing import LocalFacility

ZONE = "Europe/Berlin"
SITES = {"sdsc": {"sp2": 64}, "ctc": {"sp2": 64}}
# Mornings on one machine, rather than nights on the other.
EITHER = "(sdsc/sp2:64 between 08:00 12:00 weight 2) | (ctc/sp2:64 between 20:00 06:00)"


def shown(view: kalends.RequestView) -> str:
    start, end = (kalends.as_datetime(time_s, ZONE) for time_s in (view.start, view.end))
    return f"{view.claims[0].resource} {start:%a %H:%M}-{end:%a %H:%M}"


def main() -> None:
    with (
        LocalFacility(SITES, now="2027-03-26T13:00+01:00") as facility,
        facility.sync_client("ada", zone=ZONE) as ada,
    ):
        for _ in range(3):
            print(shown(ada.book(EITHER, duration="4h", window=("now", "now+36h"))))

        night = kalends.Daily("22:00", "06:00", ZONE)
        request = kalends.Request(
            alternatives=(
                kalends.Alternative(
                    terms=(kalends.Term(resource="ctc/sp2", units=8, windows=(night,)),)
                ),
            ),
            duration_s=8 * 3_600,
            not_before=int(facility.clock.wall_s()),
        )
        # Two runs take the first night. In the second one clocks go forward, so it has only seven hours.
        for each in ada.find(request, count=3).candidates:
            start = kalends.as_datetime(each.start, ZONE)
            print(f"night of {start:%a %d %b}: from {start:%H:%M}")

        try:
            ada.book("sdsc/sp2 between 08:00 12:00", duration="6h")
        except kalends.InvalidInput as error:
            print(error)


if __name__ == "__main__":
    main()
