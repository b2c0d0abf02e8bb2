"""Hold slots that leave the fewest scraps: pieces of free time too short for another such slot.

Takes no arguments. Of slots that waste as little time, those that leave fewer units idle beside them
come first, then the earliest. Pieces lie between a slot and what is taken before and behind it.
"""


def choose(view, request):
    taken = {}
    for slot in view["taken"]:
        taken.setdefault(slot["resource"], []).append((slot["start"], slot["end"]))
    busy = {resource: merge(slots) for resource, slots in taken.items()}

    def waste(slots):
        scraps = [scrap(slot, busy.get(slot["resource"], []), view["now"]) for slot in slots]
        idle = [slot["free"] - slot["units"] for slot in slots]
        return (sum(scraps), sum(idle), slots[0]["common"])

    return ids(sorted(together(view, request), key=waste))


def scrap(slot, busy, now):
    """The seconds before and behind the slot that are too short for another one like it."""
    low, high = 0, len(busy)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if busy[middle][1] <= slot["start"] else (low, middle)
    before = slot["start"] - (busy[low - 1][1] if low else now)
    while low < len(busy) and busy[low][0] < slot["end"]:
        low += 1
    behind = busy[low][0] - slot["end"] if low < len(busy) else days(4000)
    length = slot["end"] - slot["start"]
    return sum([piece for piece in (before, behind) if 0 < piece < length])


def recall(slot, asker, view):
    """Give back what another common start here can replace."""
    spare = [other for other in view["slots"] if other["common"] != slot["common"]]
    return slot["term"] in [other["term"] for other in spare]
