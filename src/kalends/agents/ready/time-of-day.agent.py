"""Hold the slots that start nearest to a time of day; of those as near, the earliest.

Arguments: at="09:30", the time; zone="Europe/Zurich", whose clocks (without it: the resource's).
"""


def choose(view, request):
    wanted = clock(request["arguments"].get("at", "09:00"))
    zone = request["arguments"].get("zone", "")

    def away(slots):
        first = slots[0]
        here = zone or view["resources"][first["resource"]]["zone"]
        minutes_away = abs(time_of_day(first["common"], here) - wanted)
        return (min(minutes_away, 24 * 60 - minutes_away), first["common"])

    return ids(sorted(together(view, request), key=away))


def recall(slot, asker, view):
    """Give back what another common start here can replace."""
    spare = [other for other in view["slots"] if other["common"] != slot["common"]]
    return slot["term"] in [other["term"] for other in spare]
