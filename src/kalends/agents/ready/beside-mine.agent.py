"""Hold slots right before or right behind reservations that I have; else the nearest to one.

Arguments: anywhere=true also counts my slots on other resources of the site. At the same distance,
and where I have none, the earliest comes first.
"""


def choose(view, request):
    anywhere = request["arguments"].get("anywhere", False)
    mine = {}
    for slot in view["taken"]:
        if slot["mine"]:
            place = "" if anywhere else slot["resource"]
            mine.setdefault(place, []).append((slot["start"], slot["end"]))
    edges = {place: merge(slots) for place, slots in mine.items()}

    def distance(slots):
        apart = [gap(slot, edges.get("" if anywhere else slot["resource"], [])) for slot in slots]
        return (min(apart), slots[0]["common"])

    return ids(sorted(together(view, request), key=distance))


def gap(slot, mine):
    """The seconds between the slot and the nearest of my own; those that it overlaps do not count."""
    low, high = 0, len(mine)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if mine[middle][1] <= slot["start"] else (low, middle)
    before = slot["start"] - mine[low - 1][1] if low else days(4000)
    while low < len(mine) and mine[low][0] < slot["end"]:
        low += 1
    return min(before, mine[low][0] - slot["end"]) if low < len(mine) else before


def recall(slot, asker, view):
    """Give back what another common start here can replace."""
    spare = [other for other in view["slots"] if other["common"] != slot["common"]]
    return slot["term"] in [other["term"] for other in spare]
