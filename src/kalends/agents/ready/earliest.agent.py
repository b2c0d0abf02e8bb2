"""Hold the earliest slots.

Takes no arguments. All terms of a visit are held at the same common start.
"""


def choose(view, request):
    return ids(together(view, request))


def recall(slot, asker, view):
    """Give a slot back where an earlier one is still held."""
    spare = [other for other in view["slots"] if other["common"] < slot["common"]]
    return slot["term"] in [other["term"] for other in spare]
