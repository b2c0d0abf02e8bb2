"""The common starts to consider: the visit's grid, those that no grid has, and a choice if they are too many.

A window of years in steps of seconds has more starts than anybody can look at. They are counted, not
made: only as many are removed as leaves enough for a choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kalends.agents.world.feasible_starts import FeasibleStarts, count, evenly_of, sampled
from kalends.agents.world.visible_calendar import Shown
from kalends.core.progressions import Beat
from kalends.core.progressions import joint as joint_beat
from kalends.core.scripts import Starts
from kalends.core.spans import Range, in_all, union

_SLACK: Final = 2
"""Factor of slots examined over slots shown, before the thinning decides."""


def on_grid(servings: Sequence[FeasibleStarts], starts: Starts, count_max: int) -> set[int]:
    """Return starts of the grid at which something could be served: all, or an even choice.

    Where there are more than `count_max` slots at them, those come first that are on everyone's grain
    at once: few others become a reservation.
    """
    beats = _beats(servings, starts)
    hitting = [(serving, beat) for serving, beat in beats if beat is not None]
    found: set[int] = set()
    if sum(count(beat, serving.ranges) for serving, beat in hitting) > count_max:
        joint = joint_beat(beat for _, beat in beats)
        if joint is not None:
            found.update(sampled(joint, union(each.ranges for each in servings), count_max))
        if len(found) >= count_max:
            return found
    for serving, beat in hitting:
        found.update(sampled(beat, serving.ranges, count_max))
    return found


def whole_on_grid(servings: Sequence[FeasibleStarts], starts: Starts, count_max: int) -> list[int]:
    """Return starts of the grid, on every grain, at which each term is served: at most `count_max`."""
    joint = joint_beat(beat for _, beat in _beats(servings, starts))
    if joint is None:
        return []
    return sampled(joint, _served_together(servings), count_max)


def earliest(servings: Iterable[FeasibleStarts], count_max: int) -> list[int]:
    """Return the first start on the grain in every free stretch; evenly fewer where they are too many."""
    found = {
        start
        for serving in servings
        for first, last in serving.ranges
        if (start := serving.beat.next(first)) <= last
    }
    return evenly_of(sorted(found), _SLACK * count_max)


def beside_own(shown: Mapping[str, Shown], servings: Iterable[FeasibleStarts]) -> list[int]:
    """Return starts that put a slot right after or before one of the user's own, on any resource."""
    own = [slot for here in shown.values() for slot in here.taken if here.is_mine(slot)]
    starts, ends = {slot.start for slot in own}, {slot.end for slot in own}
    candidates: dict[tuple[Beat, int, int], list[int]] = {}
    found: set[int] = set()
    for serving in servings:
        beat, length_s, offset_s = serving.beat, serving.ask.length_s, serving.ask.offset_s
        if (beat, length_s, offset_s) not in candidates:
            latest = (start - length_s - offset_s for start in starts)
            before = {beat.next(common + 1 - beat.modulus) for common in latest}
            behind = {beat.next(end - offset_s) for end in ends}
            candidates[beat, length_s, offset_s] = sorted(before | behind)
        found.update(serving.fitting(candidates[beat, length_s, offset_s]))
    return sorted(found)


def bounded(
    commons: Sequence[int], servings: Iterable[FeasibleStarts], count_max: int
) -> list[int]:
    """Return `commons` (sorted), or an even choice if they make many times `count_max` slots."""
    slots = _slots_at(commons, servings)
    if slots <= _SLACK * count_max:
        return list(commons)
    fewer = max(2, len(commons) * _SLACK * count_max // slots)
    return evenly_of(commons, fewer)


def _slots_at(commons: Sequence[int], servings: Iterable[FeasibleStarts]) -> int:
    on_beat: dict[Beat, list[int]] = {}
    slots = 0
    for serving in servings:
        if serving.beat not in on_beat:
            on_beat[serving.beat] = [each for each in commons if serving.beat.hits(each)]
        slots += serving.fitting_count(on_beat[serving.beat])
    return slots


def _beats(
    servings: Iterable[FeasibleStarts], starts: Starts
) -> list[tuple[FeasibleStarts, Beat | None]]:
    """Return for each serving the starts of the grid that are on its grain."""
    grid = Beat(starts.step_s, starts.first % starts.step_s)
    return [(serving, grid.both(serving.beat)) for serving in servings]


def _served_together(servings: Iterable[FeasibleStarts]) -> list[Range]:
    """Return where every term that is asked for here has a resource that could serve it."""
    by_term: dict[int, list[FeasibleStarts]] = {}
    for serving in servings:
        by_term.setdefault(serving.ask.term, []).append(serving)
    served: list[Iterable[Range]] = [
        union(each.ranges for each in several) for several in by_term.values()
    ]
    return list(in_all(served)) if served else []


def kept(
    sizes: Mapping[int, int], terms: Mapping[int, int], beside: Iterable[int], slots_max: int
) -> list[int]:
    """Return the common starts that stay, in order; their `sizes` add up to at most `slots_max`.

    The exception is a first one that is too large alone: it stays. All stay where there is room. Else
    first the earliest, the last and those `beside` the user's own slots, then, by the number of
    `terms` that they serve, an even choice of the others.
    """
    commons = sorted(sizes)
    if sum(sizes.values()) <= slots_max:
        return commons
    terms_max = max(terms.values())
    fullest = [common for common in commons if terms[common] == terms_max]
    wanted = [fullest[0], commons[0], fullest[-1], commons[-1], *beside]
    chosen: set[int] = set()
    left = slots_max
    for common in wanted:
        size = sizes.get(common, 0)
        if common not in chosen and 0 < size <= left:
            chosen.add(common)
            left -= size
    for number in range(terms_max, 0, -1):
        rest = [each for each in commons if terms[each] == number and each not in chosen]
        taken = list(_spread(rest, sizes, left))
        chosen.update(taken)
        left -= sum(sizes[common] for common in taken)
        if len(taken) < len(rest):
            break
    return sorted(chosen) or fullest[:1]


def _spread(commons: Sequence[int], sizes: Mapping[int, int], slots_max: int) -> Iterator[int]:
    """Yield some of `commons`, evenly by weight, as error diffusion places dots in print.

    (R. W. Floyd, L. Steinberg, An adaptive algorithm for spatial greyscale, 1976.)
    """
    whole = sum(sizes[common] for common in commons)
    share, debt = min(slots_max, whole), 0
    for common in commons:
        debt += sizes[common] * share
        if debt >= sizes[common] * whole:
            debt -= sizes[common] * whole
            yield common
