"""Identifiers: requests (UUID version 7, RFC 9562), resources (``site/name``), keys made by clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kalends.core.errors import InvalidInput

NAME_PATTERN: Final = r"[a-z0-9](?:[a-z0-9._-]{0,62})"
"""Names of sites, resources, users, groups and rules: lower case, at most 63 characters."""

RESOURCE_PATTERN: Final = rf"{NAME_PATTERN}/{NAME_PATTERN}"
WAY_PATTERN: Final = rf"{NAME_PATTERN}(?:/{NAME_PATTERN}){{0,3}}"
"""A member of a virtual site, behind at most three others; see `kalends.core.limits.NESTED_MAX`."""

QUEUE_ENDING: Final = ".queue"
"""Suffix of a machine's name that makes the name of its queue, in which places are claimed."""

MEMBERS: Final = "members"
"""In the place of a resource of a virtual site: the machines of all its members."""

REQUEST_ID_PATTERN: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
ID_PART_PATTERN: Final = r"[0-9a-f-]{4,36}"
"""The beginning or the end of a request's id, or all of it."""

KEY_PATTERN: Final = r"[A-Za-z0-9._:-]{8,80}"
"""A client-made key of one call: the client chooses it before the first send and keeps it for retries."""

ATTRIBUTE_PATTERN: Final = r"[a-z][a-z0-9_.-]{0,62}"
"""Names of attributes: lower case, beginning with a letter, at most 63 characters."""

ARGUMENT_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"
"""Names of arguments of an agent: names of Python variables, in lower case."""

WHO_PATTERN: Final = r"everyone|(?:user|group):\S{1,128}"
"""The principals of an access rule."""

USER_PATTERN: Final = r"[^\s\x00-\x1f\x7f]{1,128}"
PARTY_PATTERN: Final = rf"(?:user|group):{USER_PATTERN}"
"""A user or a group with whom a reservation is shared."""

PROJECT_PATTERN: Final = r"[A-Za-z0-9_.-]{1,64}"
"""A project that pays at an owner's site."""

ACCOUNT_PATTERN: Final = rf"user:[^\x00-\x1f\x7f]{{1,128}}|project:{PROJECT_PATTERN}"
PAYER_PATTERN: Final = rf"everyone|{ACCOUNT_PATTERN}"
"""An account, or those of all users who have none of their own."""

DAY_PATTERN: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
LOCAL_PATTERN: Final = rf"{DAY_PATTERN}T[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?"
"""The name of an occurrence of a series: its nominal local start."""
"""An account at an owner's site."""

CLOCK_PATTERN: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
HASH_PATTERN: Final = r"[0-9a-f]{64}"
REGISTER_PATTERN: Final = r"[0-9a-f]{32}"
"""The identity of a register, drawn at random when its file is made."""

SCRIPT_PATTERN: Final = rf"{NAME_PATTERN}|{HASH_PATTERN}"
AGENT_PATTERN: Final = rf"(?:ready:)?{NAME_PATTERN}|{HASH_PATTERN}"
RUN_PATTERN: Final = r"[0-9]{1,19}"
UMASK_PATTERN: Final = r"0?[0-7]{3}"
VARIABLE_PATTERN: Final = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
"""The name of an environment variable (POSIX.1-2017, XBD 8.1), of limited length."""

DOMAIN_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62}){0,9}"
MAIL_PATTERN: Final = r"[A-Za-z0-9_+%=-]{1,64}(?:\.[A-Za-z0-9_+%=-]{1,64}){0,9}@" + DOMAIN_PATTERN
"""A plain mail address, without quotes, comments or other scripts: it is written to a header unchanged."""

_HOST: Final = rf"(?:{DOMAIN_PATTERN}|\[[0-9A-Fa-f:.]{{2,45}}\])"
HOST_PATTERN: Final = rf"{_HOST}(?::[0-9]{{1,5}})?"
WEBHOOK_HOST_PATTERN: Final = rf"(?:\*|{HOST_PATTERN})"
PORT_PATTERN: Final = rf"{_HOST}:[0-9]{{1,5}}"
HOST_NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"
"""A host, by its public name or its name in a batch system."""
ADDRESS_PATTERN: Final = r"[!-~]{3,512}"
"""The address of a notice, mail or URL; the site's owner decides which are allowed."""

QUEUE_PATTERN: Final = r"[A-Za-z0-9_.-]{1,64}"
"""A queue, a parallel environment or a project of a batch system, or an executor of PSI/J."""

LICENCE_PATTERN: Final = r"[A-Za-z0-9_.+-]{1,128}"
"""Software licences, as a batch system names them."""

OPTION_PATTERN: Final = r"--[!-~]{1,198}"
"""A long option, with its value, of a command of a batch system."""

LINE_PATTERN: Final = r"[^\x00\n]*"
"""The value of an environment variable that an owner sets: one line."""

IN_WORDS: Final = {
    LINE_PATTERN: "a value is one line, without null characters",
    NAME_PATTERN: "a name is 1 to 63 of a-z, 0-9, '.', '_' and '-', and begins with a letter or a digit",
    RESOURCE_PATTERN: "a resource is written site/name in lower case, as `kalends resources` lists them",
    WAY_PATTERN: "a member is written as its name, after the names of the virtual sites on the way: "
    "campus/psc; four names at most",
    REQUEST_ID_PATTERN: "this is not the full id of a request",
    ID_PART_PATTERN: "an id is given whole, or by 4 or more characters of its beginning or its end",
    KEY_PATTERN: "a key is 8 to 80 letters, digits, '.', '_', ':' and '-'",
    ATTRIBUTE_PATTERN: "the name of an attribute is 1 to 63 of a-z, 0-9, '_', '.' and '-', and begins "
    "with a letter",
    ARGUMENT_PATTERN: "the name of an argument is 1 to 63 of a-z, 0-9 and '_', and begins with a letter",
    WHO_PATTERN: "write everyone, user:NAME or group:NAME",
    USER_PATTERN: "the name of a user has 1 to 128 characters, without spaces and control characters",
    PARTY_PATTERN: "write user:NAME or group:NAME",
    ACCOUNT_PATTERN: "an account is written user:NAME or project:NAME",
    PAYER_PATTERN: "write everyone, user:NAME or project:NAME",
    DAY_PATTERN: "a day is written 2027-03-09",
    LOCAL_PATTERN: "an occurrence is named by its local start, e.g. 2027-03-09T14:00",
    CLOCK_PATTERN: "a time of day is written 00:00 to 23:59",
    HASH_PATTERN: "the hash of a script has 64 digits, 0-9 and a-f",
    REGISTER_PATTERN: "the identity of a register has 32 digits, 0-9 and a-f",
    SCRIPT_PATTERN: "a script is named by its name (a-z, 0-9, '.', '_' and '-') or by its whole hash",
    AGENT_PATTERN: "an agent is the name or the whole hash of a script that you uploaded, or ready:NAME",
    RUN_PATTERN: "a run is named by its number, as `kalends agent runs` lists them",
    UMASK_PATTERN: "a umask has three octal digits, e.g. 027",
    VARIABLE_PATTERN: "the name of an environment variable is 1 to 128 letters, digits and '_', and "
    "begins with no digit",
    DOMAIN_PATTERN: "a domain is written example.org: names of letters, digits and '-', with dots between",
    MAIL_PATTERN: "a mail address is written ann@example.org, in letters, digits and '._+%=-'",
    HOST_PATTERN: "a host is written hooks.example.org, with its port if it is not 443",
    WEBHOOK_HOST_PATTERN: "a host is written hooks.example.org, with its port if it is not 443; or *",
    HOST_NAME_PATTERN: "the name of a host is 1 to 255 letters, digits, '.', '_' and '-'",
    PORT_PATTERN: "a host and its port are written relay.example.org:587",
    QUEUE_PATTERN: "names in batch systems are 1 to 64 letters, digits, '_', '.' and '-'",
    LICENCE_PATTERN: "licences are named in 1 to 128 letters, digits, '_', '.', '+' and '-'",
    OPTION_PATTERN: "an option is written --partition=kalends, in plain characters without spaces",
    ADDRESS_PATTERN: "an address is ann@example.org, or https://host/path: 3 to 512 plain characters",
}
"""The form that each pattern requires, as errors describe it."""

_RESOURCE = re.compile(RESOURCE_PATTERN)
_SHOWN_MAX: Final = 5


def perhaps(pattern: str) -> str:
    """Return `pattern`, or the empty text."""
    return rf"(?:{pattern})?"


def whole(pattern: str) -> str:
    r"""Anchor `pattern` at both ends, for msgspec as for JSON Schema.

    A ``$`` alone also matches before a line end that closes the text (in Python, not in JSON Schema),
    and ``\Z`` means nothing in JSON Schema; this means the same in both.
    """
    return rf"^(?:{pattern})$(?!\n)"


def request_id(wall_ms: int, random_bits: int) -> str:
    """Return a UUID version 7 (RFC 9562 section 5.7) from `wall_ms` and 74 random bits.

    Pure: the caller brings time and randomness, so that a simulation replays bit for bit.
    """
    high = (wall_ms & (1 << 48) - 1) << 16 | 0x7000 | (random_bits >> 62 & 0xFFF)
    low = 0b10 << 62 | (random_bits & (1 << 62) - 1)
    digits = f"{high << 64 | low:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def minted_ms(rid: str) -> int:
    """Return when `rid` was made (milliseconds UTC), by the clock of its maker."""
    return int(rid[:8] + rid[9:13], 16)


def queue_of(machine: str) -> str:
    """Return the name by which places in the queue of `machine` are claimed."""
    return machine + QUEUE_ENDING


def members_of(virtual: str) -> str:
    """Return the name that stands in requests for the machines of all members of a virtual site."""
    return f"{virtual}/{MEMBERS}"


def is_members(resource: str) -> bool:
    """Return whether `resource` stands for the machines of all members of a virtual site."""
    return resource.endswith(f"/{MEMBERS}")


def machine_of(queue: str) -> str:
    """Return the machine of a queue; "" if `queue` is a resource of another kind."""
    return queue.removesuffix(QUEUE_ENDING) if queue.endswith(QUEUE_ENDING) else ""


def split_resource(name: str) -> tuple[str, str]:
    """Split ``"sdsc/sp2"`` into ``("sdsc", "sp2")``; raises `InvalidInput` for other texts."""
    if not _RESOURCE.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a resource name",
            where="resource",
            remedy="write site/name in lower case, as `kalends resources` lists them",
        )
    site, _, local = name.partition("/")
    return site, local


def site_of(where: str) -> str:
    """Return the site of ``"sdsc/sp2"``, or ``"sdsc"`` itself, because refusals name either."""
    return where.partition("/")[0]


def short_id(rid: str) -> str:
    """Return the last eight digits of `rid`, which commands show and accept."""
    return rid[-8:]


def is_part(said: str, rid: str) -> bool:
    """Return whether `rid`, or its shown ending, begins or ends with `said`."""
    return rid.startswith(said) or rid.endswith(said) or short_id(rid).startswith(said)


def only_one(said: str, found: Sequence[str], listing: str) -> str:
    """Return the one id in `found`; raises `InvalidInput` if `said` is part of several.

    `listing` is the command that shows the ids.
    """
    if len(found) == 1:
        return found[0]
    some = ", ".join(found[:_SHOWN_MAX])
    raise InvalidInput(
        f"{said} may be {len(found)} requests: {some}{', ...' if len(found) > _SHOWN_MAX else ''}",
        where="id",
        remedy=f"give more of its end, as `{listing}` shows it",
    )
