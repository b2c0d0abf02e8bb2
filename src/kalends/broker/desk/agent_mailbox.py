"""A client's words to the agent of an open request: messages, or another agent in its place."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec

from kalends.broker.coordination.agents.agent_dispatch import ClientWord
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.record.plain_data import plain_data
from kalends.broker.coordination.record.refusal_errors import key_reused
from kalends.broker.desk.request_queries import Records
from kalends.broker.desk.scripts import Scripts
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.core.errors import Conflict, InvalidInput, Unavailable
from kalends.serving.auth.callers import Caller

TRIES_MAX: Final = 8
"""A request is between two attempts for one write of the register: a few of them are enough."""


@dataclass(frozen=True, eq=False)
class AgentMailbox:
    """The call ``agent_tell``; durable when it is answered."""

    service: BrokerService
    records: Records
    scripts: Scripts

    async def tell(self, caller: Caller, body: calls.TellAgent) -> calls.RequestView:
        """Repeating a call answers with the request as it is then.

        Raises `Conflict` for a request that is decided, `InvalidInput` for what is no message and for
        a request without an agent, `LimitExceeded` when too many messages wait.
        """
        if not body.message and not body.agent:
            raise InvalidInput(
                "the message and the agent are missing",
                where="message",
                remedy="give a message, or name the agent that is to continue",
            )
        if body.message:
            plain_data(body.message, "message")
        digest = _digest(body)
        service = self.service
        for _ in range(TRIES_MAX):
            current = service.replica.in_use()
            seen = await self.records.to_end(caller, body.id)
            if self._told(seen.record, body.key, digest):
                return self.records.view(seen)
            word = await self._word(seen.record, body, digest)
            service.replica.check_still(current)
            self._leave(seen.record, word)
            await service.settle()
        raise Unavailable(
            "the request is busy",
            remedy="try again",
            retry_after_s=0.5,
        )

    def _told(self, record: Record, key: str, digest: str) -> bool:
        """Whether this very call has been carried out already."""
        for each, told in record.agent.calls:
            if each == key:
                if told != digest:
                    raise key_reused(key)
                return True
        return False

    def _leave(self, record: Record, word: ClientWord) -> None:
        now = self.service.moment()
        self.service.runner.asked(lambda this: this.calls.tell_agent(record, word, now))

    async def _word(self, record: Record, body: calls.TellAgent, digest: str) -> ClientWord:
        """Return the message for the agent of `record`; raises as `tell`."""
        if record.state != "open":
            raise Conflict(
                f"it is {record.public_state}: its agent has ended",
                remedy="see `kalends show` for the outcome of the request",
                request_id=record.reservation,
            )
        if not record.spec.script:
            raise InvalidInput(
                "this request was made without an agent",
                where="id",
                remedy="book with an agent to have one to talk to",
                request_id=record.reservation,
            )
        word = ClientWord(body.key, digest, body.message)
        if not body.agent:
            return word
        # Its owner's scripts: who may see a request of others may not book with their own.
        resolved = await self.scripts.resolve(record.user, body.agent, "agent")
        spec = msgspec.structs.replace(record.spec, agent=resolved.agent, script=resolved.script)
        return word._replace(spec=spec, source=resolved.source)


def _digest(body: calls.TellAgent) -> str:
    asked = msgspec.msgpack.encode((body.message, body.agent))
    return hashlib.blake2b(asked, digest_size=16).hexdigest()
