"""Choice among the common starts if all of them make too many slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence


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
