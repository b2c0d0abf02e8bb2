"""Hold the slots that cost least: by the owner's prices, or without any by an attribute.

Arguments: attribute="price", the attribute to add up, times units, times length. At the same cost the
earliest comes first; without any prices, resources without the attribute come last. Of several resources for
one term the cheapest counts.
"""


def choose(view, request):
    attribute = request["arguments"].get("attribute", "price")
    priced = [slot for slot in view["slots"] if slot["price"]] != []

    def cost(slot):
        """(0, its cost), or (1, 0) if it is not known."""
        if priced:
            return (0, slot["price"])
        price = view["resources"][slot["resource"]]["attributes"].get(attribute)
        if price is None:
            return (1, 0)
        return (0, float(price) * slot["units"] * (slot["end"] - slot["start"]))

    def whole_cost(slots):
        unknown, total, terms = 0, 0, {}
        for slot in sorted(slots, key=cost):
            if slot["term"] not in terms:
                terms[slot["term"]] = True
                unknown += cost(slot)[0]
                total += cost(slot)[1]
        return (unknown, total, slots[0]["common"])

    groups = sorted(together(view, request), key=whole_cost)
    return ids([sorted(slots, key=cost) for slots in groups])


def recall(slot, asker, view):
    """Give back what another common start here can replace."""
    spare = [other for other in view["slots"] if other["common"] != slot["common"]]
    return slot["term"] in [other["term"] for other in spare]
