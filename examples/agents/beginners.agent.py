"""An owner's rules: beginners book by day, and whoever has had much of the week asks the owner."""

MORNING = clock("09:00")
EVENING = clock("17:00")


def decide(request, calendar, usage):
    """Beginners book by day; more than 20 hours a week need the owner's approval."""
    for slot in request["slots"]:
        begins = time_of_day(slot["start"], calendar["zone"])
        ends = begins + (slot["end"] - slot["start"]) // minutes(1)
        if "beginners" in request["groups"] and (begins < MORNING or ends > EVENING):
            return "beginners book from 9:00 to 17:00"
    if usage["user"]["week_hours"] > 20:
        return {"ask": True}
    return True
