"""A weekly course in a room of one owner, with a camera of another: booked, moved, ended early."""

import kalends
from kalends.testing import LocalFacility

SITES = {"campus": {"room": 1}, "media": {"camera": 1}}
COURSE = {"duration": "90m", "at": "2027-03-02 14:00", "every": "week on tue,thu", "times": 10}


def show(series) -> None:
    for each in series.occurrences:
        why = f": {each.problem.detail}" if each.problem else ""
        near = (
            f"; free at {kalends.as_datetime(each.nearest, series.zone):%H:%M}"
            if each.nearest
            else ""
        )
        stays = (
            f": stays, for {each.unchanged.refusals[0].where} is taken" if each.unchanged else ""
        )
        print(f"  {each.name}  {each.state}{why}{near}{stays}")


def show_hours(series) -> None:
    """Print when each occurrence begins by the local clock, which changes on 28 March."""
    starts = (kalends.as_datetime(each.start, series.zone) for each in series.occurrences)
    print(" ", ", ".join(f"{start:%d.%m. %H:%M}" for start in starts))


with (
    LocalFacility(SITES, now="2027-02-01T09:00Z") as servers,
    servers.sync_client("ann", zone="Europe/Berlin") as ann,
    servers.sync_client("bob", zone="Europe/Berlin") as bob,
):
    taken = bob.book("media/camera", duration="3h", at="2027-03-18 13:00")

    print("All or none, and the camera is taken on 18 March:")
    show(ann.book_series("campus/room + media/camera", **COURSE))

    print("As many as possible:")
    series = ann.book_series("campus/room + media/camera", mode="as-many", **COURSE)
    show(series)

    print("Each may begin up to two hours earlier or later:")
    give_way = ann.book_series("campus/room", give="2h", **COURSE)
    print(" ", sum(each.start != each.nominal for each in give_way.occurrences), "moved")
    ann.cancel_series(give_way.id)

    print("Bob cancels, and what was missed is booked, too:")
    bob.cancel(taken.id)
    show(ann.retry_series(series.id))

    print("From 16 March on, it begins an hour later:")
    show_hours(ann.move_series(series.id, "2027-03-16T14:00", by="1h", following=True))

    print("Half an hour more each time, but Bob has the camera after one of them:")
    bob.book("media/camera", duration="1h", at="2027-03-23 16:30")
    show(ann.extend_series(series.id, by="30m"))

    print("The course ends early, from 25 March on:")
    show(ann.cancel_series(series.id, "2027-03-25T14:00", following=True))
