"""The order of bids by a script of the job's user: what it sees, and what of its answer is followed.

"It must also allow jobs to specify their own schedulers if they wish." (Weissman and Grimshaw 1996, section
5.) A script only orders what sites have offered: where it fails, or answers what makes no sense, the order
stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.agents.world.answers import BadResult, picked
from kalends.core.jobs import JobRequest
from kalends.federation.offered_places import OfferedPlace

PICK_MS_MAX: Final = 500
"""So long a decision waits for a script at most: the places are held meanwhile."""


@dataclass(slots=True)
class UserPick:
    """The script of one round of bids: under way, or with its end, `outcome`."""

    since_ms: int
    outcome: RunOutcome | None = None


def pick_run(
    user: str, source: str, ranked: Sequence[OfferedPlace], jobs: Mapping[str, JobRequest],
    through: Callable[[str], Sequence[str]],
) -> ScriptRun:  # fmt: skip
    """Return the call of ``pick`` with the offers, the best by the usual order first.

    `through` are the virtual sites that a site is reached by.
    """
    bids = [
        {
            "machine": each.resource,
            "site": each.site,
            "through": list(through(each.site)),
            "nodes": each.nodes,
            "start_by": each.start_by if each.firm else None,
            "late_start": int(each.counted_start),
            "runs": each.limit_s,
            "expected": each.runs_s,
            "implementation": jobs[each.resource].implementation,
            "preference": each.preference_s,
            "transport": each.transport_s,
            "price": each.cost,
            "load": each.load,
            "shared": each.shared,
        }
        for each in ranked
    ]
    return ScriptRun(user, source, "pick", (bids,))


def followed(
    pick: UserPick | None, ranked: Sequence[OfferedPlace]
) -> tuple[list[OfferedPlace], str]:
    """Return the places as the script has ordered them, and words for what became of it ("" without one).

    Those that it has not named follow in the usual order.
    """
    if pick is None:
        return list(ranked), ""
    if pick.outcome is None:
        return list(ranked), "your script did not answer in time, and was ignored; "
    if pick.outcome.code != "ok":
        why = pick.outcome.detail or pick.outcome.code
        return list(ranked), f"your script failed, and was ignored ({why}); "
    found = {each.resource: each for each in ranked}
    try:
        names = picked(pick.outcome.answer, found)
    except BadResult:
        return list(ranked), "your script did not return machines of bids, and was ignored; "
    rest = [each for each in ranked if each.resource not in names]
    return [*(found[name] for name in names), *rest], "ordered by your script; "
