"""Hold the latest slots: the last that there are, then the one before, and so on.

Takes no arguments. All terms of a visit are held at the same common start.
"""


def choose(view, request):
    return ids(reversed(together(view, request)))


def recall(slot, asker, view):
    """Give a slot back where a later one is still held."""
    spare = [other for other in view["slots"] if other["common"] > slot["common"]]
    return slot["term"] in [other["term"] for other in spare]
