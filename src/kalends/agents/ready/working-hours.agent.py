"""Hold slots within working hours: not at lunch, not at night, not on Saturday or Sunday.

Arguments: from="09:00", to="17:00", lunch="12:00-13:00" ("" for none), zone="Europe/Zurich" (without
it: the resource's). Earliest first; what lies partly outside comes behind, the least outside first.
"""


def choose(view, request):
    given = request["arguments"]
    begin, close = clock(given.get("from", "09:00")), clock(given.get("to", "17:00"))
    if begin >= close:
        raise ValueError("the argument from is to be earlier in the day than the argument to")
    lunch = str(given.get("lunch", "12:00-13:00")).partition("-")
    work = [(begin, close)]
    if lunch[0]:
        work = [(begin, min(clock(lunch[0]), close)), (max(clock(lunch[2]), begin), close)]

    def outside(slots):
        seconds = 0
        for slot in slots:
            zone = given.get("zone", view["resources"][slot["resource"]]["zone"])
            seconds += slot["end"] - slot["start"] - worked(slot, work, zone)
        return (seconds, slots[0]["common"])

    return ids(sorted(together(view, request), key=outside))


def worked(slot, work, zone):
    """The seconds of the slot that are working time, day by day: noon tells where a day is."""
    seconds = 0
    midnight = slot["start"] - slot["start"] % 60 - minutes(time_of_day(slot["start"], zone))
    noon = midnight + hours(12)
    while noon < slot["end"] + hours(13):
        noon -= minutes(time_of_day(noon, zone) - 12 * 60)
        for begin, close in work if weekday(noon, zone) < 5 else []:
            first = max(slot["start"], noon + minutes(begin - 12 * 60))
            seconds += max(0, min(slot["end"], noon + minutes(close - 12 * 60)) - first)
        noon += days(1)
    return seconds


def recall(slot, asker, view):
    """Give back what another common start here can replace."""
    spare = [other for other in view["slots"] if other["common"] != slot["common"]]
    return slot["term"] in [other["term"] for other in spare]
