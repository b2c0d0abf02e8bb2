"""Hold the earliest slots.

Takes no arguments. All terms of a visit are held at the same common start.
"""


def choose(view, request):
    return ids(together(view, request))


def recall(slot, asker, view):
    """Give a slot back where an earlier one is still held."""
    spare = [other for other in view["slots"] if other["common"] < slot["common"]]
    return slot["term"] in [other["term"] for other in spare]


def together(view, request):
    """The slots of each common start that serves every term; of every start, if none does."""
    found = {}
    for slot in view["slots"]:
        found.setdefault(slot["common"], []).append(slot)
    wanted = len({ask["term"]: True for ask in request["terms"]})
    whole = [
        slots for slots in found.values() if len({slot["term"]: True for slot in slots}) == wanted
    ]
    return whole or list(found.values())


def ids(groups):
    return [slot["id"] for slots in groups for slot in slots]
