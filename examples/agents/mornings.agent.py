"""Slots on working days, the nearest to a time of day first: kalends book ... --argument at=09:30"""


def minutes_away(slot, view, wanted):
    zone = view["resources"][slot["resource"]]["zone"]
    return abs(time_of_day(slot["start"], zone) - wanted)


def on_working_day(slot, view):
    return weekday(slot["start"], view["resources"][slot["resource"]]["zone"]) < 5


def choose(view, request):
    wanted = clock(request["arguments"].get("at", "09:30"))
    fitting = [slot for slot in view["slots"] if on_working_day(slot, view)]
    send({"offered": len(view["slots"]), "fitting": len(fitting)})
    nearest = sorted(fitting, key=lambda slot: (minutes_away(slot, view, wanted), slot["start"]))
    return [slot["id"] for slot in nearest][: view["held_max"]]
