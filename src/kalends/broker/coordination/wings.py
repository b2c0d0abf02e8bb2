"""The socket for wings: what the coordinator hands out to one, and what it takes from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart
from kalends.broker.coordination.record.decision_record import Registered
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.trust.answer_checks import AnswerChecks
from kalends.broker.coordination.trust.credentials import Credentials, Identity
from kalends.broker.coordination.user_calls import UserCalls
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.broker.planning.directory import Directory
from kalends.core.intervals import Moment


class Ground(NamedTuple):
    """The parts of the kernel on which a wing stands, and the surroundings of the coordinator."""

    identity: Identity
    directory: Directory
    table: TransactionTable
    outbox: CoordinatorOutbox
    log: EventLog
    credentials: Credentials
    deadlines: Deadlines
    checks: AnswerChecks
    prepare: PreparePhase
    calls: UserCalls
    jitter: Callable[[], float]
    certain: Callable[[], bool]
    owner_alive: Callable[[str], bool]
    registered: Callable[[Registered, Moment], None]
    """Hears of a result of the register, as if it were that of an operation of its own."""


class Wing(Protocol):
    """Parts that stand and fall together, behind one name."""

    @property
    def parts(self) -> Sequence[CoordinatorPart]: ...
