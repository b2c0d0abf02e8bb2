"""kalends: book several resources that different people own, for the same time: all or none.

A first session with a broker (`kalends demo --keep` starts one on this computer, and says its address and
where your token is):

    >>> import kalends
    >>> broker = kalends.connect_sync("http://127.0.0.1:7100", user="ada")  # or token="..."
    >>> sorted(resource.name for resource in broker.resources().resources)
    ['caltech/onyx', 'sdsc/sp2']
    >>> wanted = "sdsc/sp2:8 + caltech/onyx"
    >>> found = broker.find(wanted, duration="2h", window="tomorrow", count=3)
    >>> len(found.candidates)
    3
    >>> booked = broker.book(wanted, duration="2h", at=found.candidates[0].start, note="run 7")
    >>> booked
    <RequestView ... reserved: sdsc/sp2:8 + caltech/onyx, ... UTC for 2h>
    >>> broker.show(booked.id[-8:]).id == booked.id
    True
    >>> for reservation in broker.reservations():
    ...     print(reservation.note, kalends.as_datetime(reservation.start, "Europe/Berlin").tzname())
    run 7 CE...
    >>> try:
    ...     broker.book("sdsc/sp2:65", duration="1h", window="tomorrow")
    ... except kalends.InvalidInput as error:
    ...     print(error.remedy)
    ...     print(error.refusals[0].where, error.refusals[0].detail)
    ask for fewer units
    sdsc/sp2 65 units are needed at one time, but it has 64
    >>> broker.cancel(booked.id).state
    'cancelled'
    >>> broker.close()

Where to go on:

    connect_sync, connect     a client that waits for answers, and one to be awaited: the same methods
    SyncClient, Client        help(kalends.SyncClient.book) tells all that a call takes
    KalendsError              the base of all errors: `detail`, `where`, `remedy`
    as_datetime, as_html      an answer's seconds as a datetime; an answer as a page of a notebook shows it
    simulate                  scheduling policies on a workload, without any server
    kalends.testing           servers for your own tests

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from kalends.version import VERSION

# As in `typing`, which takes a while to load: who types Ctrl-C meanwhile would see where the program was.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from kalends.client.client import Client as Client
    from kalends.client.connection import connect as connect
    from kalends.client.functions.job_executor import JobExecutor as JobExecutor
    from kalends.client.imports.bookings import ImportedRow as ImportedRow
    from kalends.client.imports.bookings import import_bookings as import_bookings
    from kalends.client.inputs.zones import as_datetime as as_datetime
    from kalends.client.notebooks.forms import as_html as as_html
    from kalends.client.sync import SyncClient as SyncClient
    from kalends.client.sync import connect_sync as connect_sync
    from kalends.contract.calls import AgentNote as AgentNote
    from kalends.contract.calls import AgentView as AgentView
    from kalends.contract.calls import RequestView as RequestView
    from kalends.contract.calls import RunView as RunView
    from kalends.contract.calls import Waiting as Waiting
    from kalends.contract.notice_calls import ChangeByOthers as ChangeByOthers
    from kalends.contract.notice_calls import NoticeAddressView as NoticeAddressView
    from kalends.core.errors import Conflict as Conflict
    from kalends.core.errors import Expired as Expired
    from kalends.core.errors import InvalidInput as InvalidInput
    from kalends.core.errors import KalendsError as KalendsError
    from kalends.core.errors import KeyReused as KeyReused
    from kalends.core.errors import LimitExceeded as LimitExceeded
    from kalends.core.errors import LostRace as LostRace
    from kalends.core.errors import NoCommonTime as NoCommonTime
    from kalends.core.errors import NotAllowed as NotAllowed
    from kalends.core.errors import NotAuthenticated as NotAuthenticated
    from kalends.core.errors import NotFound as NotFound
    from kalends.core.errors import OutcomeUnknown as OutcomeUnknown
    from kalends.core.errors import Refusal as Refusal
    from kalends.core.errors import TooLarge as TooLarge
    from kalends.core.errors import Unavailable as Unavailable
    from kalends.core.intervals import Interval as Interval
    from kalends.core.jobs import JobRequest as JobRequest
    from kalends.core.requests import Alternative as Alternative
    from kalends.core.requests import Attribute as Attribute
    from kalends.core.requests import Request as Request
    from kalends.core.requests import Term as Term
    from kalends.core.requests import TimePreference as TimePreference
    from kalends.core.requests import WindowPreference as WindowPreference
    from kalends.core.windows import Daily as Daily
    from kalends.rim.webhook_signatures import verify_webhook as verify_webhook
    from kalends.simulation.experiment import simulate as simulate
    from kalends.simulation.job import SimulatedJob as SimulatedJob

__version__ = VERSION

_HOME = {
    "Client": "kalends.client.client",
    "connect": "kalends.client.connection",
    "SyncClient": "kalends.client.sync",
    "connect_sync": "kalends.client.sync",
    "ImportedRow": "kalends.client.imports.bookings",
    "import_bookings": "kalends.client.imports.bookings",
    "as_datetime": "kalends.client.inputs.zones",
    "AgentNote": "kalends.contract.calls",
    "ChangeByOthers": "kalends.contract.notice_calls",
    "NoticeAddressView": "kalends.contract.notice_calls",
    "verify_webhook": "kalends.rim.webhook_signatures",
    "AgentView": "kalends.contract.calls",
    "RequestView": "kalends.contract.calls",
    "RunView": "kalends.contract.calls",
    "Waiting": "kalends.contract.calls",
    "as_html": "kalends.client.notebooks.forms",
    "Conflict": "kalends.core.errors",
    "Expired": "kalends.core.errors",
    "InvalidInput": "kalends.core.errors",
    "KalendsError": "kalends.core.errors",
    "KeyReused": "kalends.core.errors",
    "LimitExceeded": "kalends.core.errors",
    "LostRace": "kalends.core.errors",
    "NoCommonTime": "kalends.core.errors",
    "NotAllowed": "kalends.core.errors",
    "NotAuthenticated": "kalends.core.errors",
    "NotFound": "kalends.core.errors",
    "OutcomeUnknown": "kalends.core.errors",
    "Refusal": "kalends.core.errors",
    "TooLarge": "kalends.core.errors",
    "Unavailable": "kalends.core.errors",
    "JobExecutor": "kalends.client.functions.job_executor",
    "JobRequest": "kalends.core.jobs",
    "Alternative": "kalends.core.requests",
    "Attribute": "kalends.core.requests",
    "Request": "kalends.core.requests",
    "Term": "kalends.core.requests",
    "TimePreference": "kalends.core.requests",
    "WindowPreference": "kalends.core.requests",
    "Daily": "kalends.core.windows",
    "Interval": "kalends.core.intervals",
    "SimulatedJob": "kalends.simulation.job",
    "simulate": "kalends.simulation.experiment",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])
