"""Hold the earliest slots, and of several resources at one time first those that are used least.

Arguments: of="mine" counts only my own slots, of="all" (without it) everybody's. Use it for terms
such as "3 of {kind=sgi}", so that the load is spread over all of them.
"""


def choose(view, request):
    mine_only = request["arguments"].get("of", "all") == "mine"
    used = {}
    for slot in view["taken"]:
        if slot["mine"] or not mine_only:
            seconds = slot["units"] * (slot["end"] - slot["start"])
            used[slot["resource"]] = used.get(slot["resource"], 0) + seconds

    def load(slot):
        capacity = view["resources"][slot["resource"]]["capacity"]
        return (used.get(slot["resource"], 0) / capacity, slot["term"], slot["resource"])

    return ids([sorted(slots, key=load) for slots in together(view, request)])


def recall(slot, asker, view):
    """Give back what another common start here can replace."""
    spare = [other for other in view["slots"] if other["common"] != slot["common"]]
    return slot["term"] in [other["term"] for other in spare]
