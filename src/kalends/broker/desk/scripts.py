"""Users' scripts: uploaded, listed, shown, deleted, and found again by those who book with them.

A script belongs to the user who uploaded it; nobody else can name it, not even by its hash. It is
checked where it would run: in the sandbox.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from kalends.agents import ready
from kalends.agents.language.vocabulary import ENTRIES
from kalends.broker.desk.script_checks import ScriptChecks, accepted
from kalends.broker.register.contract import Script
from kalends.broker.register.writes import ForgetScript, KeepScript, Named
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.core import limits
from kalends.core.errors import InvalidInput, KalendsError, LimitExceeded, NotFound
from kalends.core.scripts import script_hash
from kalends.serving.auth.callers import Caller

NAMES_MAX: Final = 100
"""Scripts of one user."""

READY: Final = "ready:"


class Resolved(NamedTuple):
    """An agent as it was named, and the script that this means now."""

    agent: str
    script: str
    source: str


class Scripts:
    """The calls about scripts; `checks` says whether a script may be kept."""

    def __init__(self, service: BrokerService, checks: ScriptChecks) -> None:
        self._service = service
        self._checks = checks

    # Calls

    async def upload(self, caller: Caller, body: calls.UploadAgent) -> calls.AgentView:
        source = body.source
        user = caller.principal.user
        size_bytes = _size_bytes(source)
        checked = await self._checks.check(source, user)
        self._service.measures.agent_checks.labels(checked.code).inc()
        functions = accepted(checked).functions
        named = Named(
            body.name, script_hash(source), size_bytes, functions, self._service.moment().wall_ms
        )
        (kept,) = await self._service.runner.stored((KeepScript(user, named, source, NAMES_MAX),))
        if not isinstance(kept, tuple) or not kept:
            raise LimitExceeded(
                f"{NAMES_MAX} of your scripts are stored, the maximum",
                where="name",
                remedy="delete one, or upload under an existing name",
            )
        return _view(kept[0])

    async def list(self, caller: Caller, body: calls.ListAgents) -> calls.Agents:
        found = await self._own(caller.principal.user)
        return calls.Agents(agents=tuple(_view(each) for each in found))

    async def show(self, caller: Caller, body: calls.AgentRef) -> calls.AgentView:
        found = await self._found(caller.principal.user, body.name)
        if found is None:
            raise await self._not_found(caller.principal.user, body.name)
        return _view(found.named, found.source)

    async def delete(self, caller: Caller, body: calls.AgentRef) -> calls.AgentView:
        """By a hash: every name of it. A script deleted long ago gives the same answer."""
        user = caller.principal.user
        (deleted,) = await self._service.runner.stored((ForgetScript(user, body.name),))
        if not isinstance(deleted, tuple) or not deleted:
            raise await self._not_found(user, body.name)
        return _view(deleted[0])

    # For those who book

    async def resolve(self, user: str, agent: str, where: str) -> Resolved:
        """The script that `user` means by `agent`; raises `InvalidInput` when there is none."""
        if agent.startswith(READY):
            name = agent.removeprefix(READY)
            if name not in ready.names():
                raise await self._unknown(user, agent, where)
            source = ready.source(name)
            return Resolved(agent, script_hash(source), source)
        found = await self._found(user, agent)
        if found is None or not found.source:
            raise await self._unknown(user, agent, where)
        if "choose" not in found.named.functions:
            raise InvalidInput(
                f"the script {agent!r} does not define choose(view, request)",
                where=where,
                remedy="upload it with that function, or name another script",
            )
        return Resolved(agent, found.named.script, found.source)

    async def check_order(self, user: str, source: str, where: Literal["pick", "rank"]) -> None:
        """Raise `InvalidInput` unless this script may run, and orders bids, or a site's schedules."""
        _size_bytes(source)
        try:
            checked = accepted(await self._checks.check(source, user))
        except KalendsError as error:
            error.where = where
            raise
        if where not in checked.functions:
            ordered = "machines of bids" if where == "pick" else "ways of schedules"
            raise InvalidInput(
                f"the script does not define {where}({', '.join(ENTRIES[where])})",
                where=where,
                remedy=f"define it to return the {ordered} in the order of your choice",
            )

    async def _own(self, user: str) -> Sequence[Named]:
        return await self._service.replica.read(lambda store: store.scripts(user))

    async def _found(self, user: str, reference: str) -> Script | None:
        return await self._service.replica.read(lambda store: store.script(user, reference))

    async def _unknown(self, user: str, agent: str, where: str) -> InvalidInput:
        remedy = await self._suggestion(user, agent)
        return InvalidInput(f"you have no script {agent!r}", where=where, remedy=remedy)

    async def _not_found(self, user: str, name: str) -> NotFound:
        remedy = await self._suggestion(user, name)
        return NotFound(f"you have no script {name!r}", where="name", remedy=remedy)

    async def _suggestion(self, user: str, name: str) -> str:
        own = [each.name for each in await self._own(user)]
        known = [*own, *(READY + each for each in ready.names())]
        near = difflib.get_close_matches(name, known, n=3) or difflib.get_close_matches(
            READY + name, known, n=3, cutoff=0.8
        )
        if near:
            return f"did you mean {' or '.join(near)}?"
        return "upload it with `kalends agent upload`; `kalends agent list` lists yours"


def _size_bytes(source: str) -> int:
    try:
        size_bytes = len(source.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "the source contains a lone surrogate",
            where="source",
            remedy="write it in UTF-8",
        ) from error
    if size_bytes > limits.SCRIPT_BYTES_MAX:
        raise InvalidInput(
            f"the source has {size_bytes} bytes, more than {limits.SCRIPT_BYTES_MAX}",
            where="source",
            remedy="make it shorter",
        )
    return size_bytes


def _view(named: Named, source: str = "") -> calls.AgentView:
    return calls.AgentView(
        name=named.name,
        script=named.script,
        size_bytes=named.size_bytes,
        uploaded_at=named.uploaded_ms // 1000,
        functions=named.functions,
        source=source,
    )
