"""Times in everyday words, rewritten to the forms that `kalends.core.times` reads.

======================================= ========================================================
said                                    read as
======================================= ========================================================
``in 2h`` ``+3h`` ``-1d``               ``now+2h`` ``now+3h`` ``now-1d``
``9am`` ``9:30 pm`` ``noon``            ``09:00`` ``21:30`` ``12:00``
``midnight``                            ``00:00``, with which a day begins (``24:00`` ends it)
``9am tomorrow`` ``noon on friday``     ``tomorrow 09:00`` ``friday 12:00``
``30 nov`` ``nov 30th`` ``30 nov 2027`` that day; without a year the next one to come
``2026/11/30`` ``30.11.2026``           ``2026-11-30``
``this friday``                         ``friday``
``next week`` ``next month``            the first day of it: a Monday, or the 1st
======================================= ========================================================
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Final

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_YEARS_AHEAD: Final = 9
"""Years that always include a 29 February."""

_TWELVE_HOURS = re.compile(r"\b([0-9]{1,2})(?::([0-9]{2}))? ?([ap])\.?m\b\.?")
_CLOCK_FIRST = re.compile(r"([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?) (?:on )?([a-z0-9].*)")
_FROM_NOW = re.compile(r"(?:in |([+-]) ?)([0-9].*[a-z].*|p[0-9t].*)")
_YEAR_FIRST = re.compile(r"([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})(?=$| )")
_YEAR_LAST = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})(?=$| )")
_NTH = r"([0-9]{1,2})(?:st|nd|rd|th|\.)?"
_YEAR = r"(?:,? ([0-9]{4}))?(?=$| )"
_DAY_MONTH = re.compile(rf"{_NTH} (?:of )?([a-z]{{3,}}){_YEAR}")
_MONTH_DAY = re.compile(rf"([a-z]{{3,}}) {_NTH}{_YEAR}")
_NEXT = re.compile(r"next (week|month)(?=$| )")


def written(words: str, today: date) -> str:
    """Return `words` (in lower case) in the written form; unknown words stay as they are."""
    words = " ".join(words.split())
    if match := _FROM_NOW.fullmatch(words):
        return f"now{match[1] or '+'}{match[2]}"
    words = re.sub(r"^(?:on|at|this) ", "", words)
    words = _TWELVE_HOURS.sub(_of_24_hours, words)
    words = re.sub(r"\bnoon\b", "12:00", re.sub(r"\bmidnight\b", "00:00", words))
    words = re.sub(r" at (?=[0-9])", " ", words)
    if match := _CLOCK_FIRST.fullmatch(words):
        words = f"{match[2]} {match[1]}"
    return _with_day(words, today)


def _of_24_hours(match: re.Match[str]) -> str:
    hour = int(match[1])
    if not 1 <= hour <= 12:
        return match[0]
    return f"{hour % 12 + (12 if match[3] == 'p' else 0):02}:{match[2] or '00'}"


def _with_day(words: str, today: date) -> str:
    """Return `words` with the day at their beginning in ISO 8601."""
    if match := _YEAR_FIRST.match(words):
        day = _iso(int(match[1]), int(match[2]), int(match[3]))
    elif match := _YEAR_LAST.match(words):
        day = _iso(int(match[3]), int(match[2]), int(match[1]))
    elif (match := _DAY_MONTH.match(words)) and (month := _month(match[2])):
        day = _of_year(match[3], month, int(match[1]), today)
    elif (match := _MONTH_DAY.match(words)) and (month := _month(match[1])):
        day = _of_year(match[3], month, int(match[2]), today)
    elif match := _NEXT.match(words):
        day = _next(match[1], today).isoformat()
    else:
        return words
    return day + words[match.end() :]


def _next(unit: str, today: date) -> date:
    if unit == "week":
        return today + timedelta(7 - today.weekday())
    return (today.replace(day=1) + timedelta(32)).replace(day=1)


def _month(word: str) -> int:
    """Return 1 for ``jan`` or a longer beginning of ``january``, to 12; 0 for other words."""
    return next((at for at, name in enumerate(_MONTHS, 1) if name.startswith(word)), 0)


def _of_year(year: str | None, month: int, day: int, today: date) -> str:
    """Return that day of `year`, or of the first year in which it is still to come."""
    if year is not None:
        return _iso(int(year), month, day)
    for each in range(today.year, today.year + _YEARS_AHEAD):
        try:
            if date(each, month, day) >= today:
                return _iso(each, month, day)
        except ValueError:
            continue
    return _iso(today.year, month, day)


def _iso(year: int, month: int, day: int) -> str:
    return f"{year:04}-{month:02}-{day:02}"
