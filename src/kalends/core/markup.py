"""Safe HTML for notebooks from any text: markup in the text is shown, and has no effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from html import escape

from kalends.core.full_times import date_and_time

_CELL = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"


class Markup(str):
    """HTML that is safe to show; `safe` makes it from any text."""

    __slots__ = ()


def safe(text: object) -> Markup:
    """Return `text` as HTML that shows exactly this text; `Markup` stays as it is.

    Invisible characters, and those that change the reading direction (such as U+202E), become their numbers.
    """
    if isinstance(text, Markup):
        return text
    return Markup(escape(visible(str(text))))


def visible(text: str) -> str:
    r"""Return `text` in one line, with a number such as ``\u202e`` for every invisible character."""
    return "".join(sign if sign.isprintable() else _number(sign) for sign in text)


def element(name: str, *inside: object, **attributes: object) -> Markup:
    """Return ``<name ...>inside</name>``; an underscore in an attribute's name stands for a hyphen."""
    said = "".join(
        f' {each.replace("_", "-")}="{safe(value)}"' for each, value in attributes.items()
    )
    return Markup(f"<{name}{said}>{''.join(map(safe, inside))}</{name}>")


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table; markup in cells that are texts has no effect."""
    heads = element("tr", *(element("th", each, style=_CELL) for each in header))
    body = [element("tr", *(element("td", each, style=_CELL) for each in row)) for row in rows]
    return element("table", element("thead", heads), element("tbody", *body))


def local_time(time_s: int, zone: tzinfo | None) -> datetime:
    """Return a time in `zone` (None: this computer's), or the nearest time that the calendar has."""
    bounded_s = min(max(time_s, 0), _LATEST_S)
    return datetime.fromtimestamp(bounded_s, UTC).astimezone(zone)


def time_element(time_s: int, zone: tzinfo | None) -> Markup:
    """Return a readable time, with its exact form as an attribute for programs; "" for 0."""
    if not time_s:
        return Markup("")
    local = local_time(time_s, zone)
    return element(
        "time",
        f"{local:%a} {date_and_time(local)} {local:%Z}",
        datetime=local.isoformat(timespec="seconds"),
    )


_LATEST_S = int(datetime(3000, 1, 1, tzinfo=UTC).timestamp())


def _number(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) <= 0xFFFF else f"\\U{ord(sign):08x}"
