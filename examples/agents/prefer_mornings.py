"""Book the morning that suits best, by a script that each site runs next to its calendars.

Run it while `kalends demo --keep` runs, with the environment that it prints.
"""

from __future__ import annotations

import kalends

ZONE = "America/Los_Angeles"

SCRIPT = '''
"""Slots on working days, the nearest to a time of day first."""


def choose(view, request):
    wanted = clock(request["arguments"]["at"])

    def minutes_away(slot):
        zone = view["resources"][slot["resource"]]["zone"]
        return abs(time_of_day(slot["start"], zone) - wanted)

    def on_working_day(slot):
        return weekday(slot["start"], view["resources"][slot["resource"]]["zone"]) < 5

    fitting = [slot for slot in view["slots"] if on_working_day(slot)]
    send({"fitting": len(fitting)})
    nearest = sorted(fitting, key=lambda slot: (minutes_away(slot), slot["start"]))
    return [slot["id"] for slot in nearest]
'''


def main() -> None:
    with kalends.connect_sync(zone=ZONE) as broker:
        try:
            broker.upload_agent("prefer-mornings", "import datetime")
        except kalends.InvalidInput as error:
            for refusal in error.refusals:
                print(f"refused: {refusal.where}: {refusal.code}")

        uploaded = broker.upload_agent("prefer-mornings", SCRIPT)
        print(f"uploaded: {uploaded.name} defines {', '.join(uploaded.functions)}")

        booked = broker.book(
            "sdsc/sp2:64 + caltech/beamline",
            duration="2h",
            window=("next monday", "next monday 23:59"),
            agent="prefer-mornings",
            arguments={"at": "13:30"},
        )
        print(f"{booked.state}: {kalends.as_datetime(booked.start, ZONE):%a %H:%M}")
        for note in booked.notes:
            print(f"  {note.site} left {sorted(note.value)}")
        print(f"cancelled: {broker.cancel(booked.id).state}")
        print(f"deleted: {broker.delete_agent('prefer-mornings').name}")


if __name__ == "__main__":
    main()
