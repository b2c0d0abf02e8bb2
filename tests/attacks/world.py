"""The world that attacks and the honest control are shown: one site, one resource, a day of slots."""

from __future__ import annotations

from typing import Any, Final

from kalends.agents.runs import Function, ScriptRun

DAY_S: Final = 1_800_057_600
HOUR_S: Final = 3_600
SLOTS: Final = 24

HONEST_USER: Final = "olga"
HONEST_SOURCE: Final = '''"""The last three slots that have room."""

wanted = 3


def roomy(slot):
    return slot["free"] >= slot["units"]


def choose(view, request):
    found = []
    for slot in sorted(view["slots"], key=by("common"), reverse=True):
        if roomy(slot) and len(found) < wanted:
            found.append(slot)
    send(f"{len(found)} of {len(view['slots'])} for {request['user']}")
    return [slot["id"] for slot in found]
'''
HONEST_ANSWER: Final = [SLOTS - 1, SLOTS - 2, SLOTS - 3]
HONEST_MESSAGE: Final = f"3 of {SLOTS} for {HONEST_USER}"


def slots() -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "term": 0,
            "resource": "sdsc/sp2",
            "start": DAY_S + number * HOUR_S,
            "end": DAY_S + (number + 1) * HOUR_S,
            "units": 1,
            "free": 8,
            "common": DAY_S + number * HOUR_S,
        }
        for number in range(SLOTS)
    ]


def view() -> dict[str, Any]:
    return {
        "site": "sdsc",
        "now": DAY_S - HOUR_S,
        "held_max": 16,
        "resources": {
            "sdsc/sp2": {
                "capacity": 8,
                "grain": 60,
                "zone": "America/Los_Angeles",
                "attributes": {"kind": "cluster"},
                "description": "",
                "through": [],
            }
        },
        "slots": slots(),
        "taken": [
            {
                "resource": "sdsc/sp2",
                "start": DAY_S,
                "end": DAY_S + HOUR_S,
                "units": 1,
                "state": "locked",
                "mine": False,
            }
        ],
    }


def request(user: str, note: str) -> dict[str, Any]:
    return {
        "user": user,
        "text": "sdsc/sp2 for 1h",
        "round": 1,
        "arguments": {"note": note},
        "first": DAY_S,
        "last": DAY_S + (SLOTS - 1) * HOUR_S,
        "step": HOUR_S,
        "terms": [{"term": 0, "resource": "sdsc/sp2", "units": 1, "length": HOUR_S, "offset": 0}],
    }


def job(user: str, source: str, function: Function = "choose", note: str = "") -> ScriptRun:
    """A run of `source` for `user`; `note` is a value that the user gives along."""
    if function == "choose":
        arguments: tuple[Any, ...] = (view(), request(user, note))
    else:
        asker = {
            "user": "",
            "priority": 0,
            "older": True,
            "start": DAY_S,
            "end": DAY_S + HOUR_S,
            "units": 1,
        }
        arguments = (slots()[0], asker, view())
    zones = {"UTC": ((0, 0),), "America/Los_Angeles": ((0, -8 * HOUR_S),)}
    return ScriptRun(user, source, function, arguments, zones=zones)
