"""Calls about agents: brokers keep a user's scripts, sites the records of their runs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Key, RequestId
from kalends.core import identifiers as ids
from kalends.core.scripts import AgentMessage, RunCode, ScriptHash, ScriptName, ScriptSource


class UploadAgent(Body, frozen=True, kw_only=True):
    """Store `source` under `name`, for the caller alone; a new source replaces the old one.

    Raises `InvalidInput` for a script that breaks rules of the language: `refusals` has all of them.
    """

    name: ScriptName
    source: ScriptSource


class AgentRef(Body, frozen=True, kw_only=True):
    """A script of the caller by its name, or by its whole hash."""

    name: Annotated[str, Meta(pattern=ids.whole(ids.SCRIPT_PATTERN))]


class ListAgents(Body, frozen=True, kw_only=True):
    pass


class AgentView(Answer, frozen=True, kw_only=True):
    """A script as its owner sees it; `source` only if one script was requested."""

    name: str
    script: ScriptHash
    size_bytes: int
    uploaded_at: int
    functions: tuple[str, ...] = ()
    """The functions that the script defines: ``choose``, ``recall``."""
    source: str = ""


class Agents(Answer, frozen=True, kw_only=True):
    agents: tuple[AgentView, ...]


class TellAgent(Body, frozen=True, kw_only=True):
    """Leave `value` for the agent of an open request, or replace the agent by `agent` from the next round on.

    `key` makes the call repeatable.
    """

    id: RequestId
    key: Key
    message: AgentMessage = ""
    """Plain data as JSON text; "" leaves none."""
    agent: Annotated[str, Meta(max_length=128)] = ""


class ListRuns(Body, frozen=True, kw_only=True):
    """List records of the caller's runs at this site, newest first; with `id`, of one request."""

    id: RequestId | Literal[""] = ""
    count: Annotated[int, Meta(ge=1, le=1_000)] = 50


class RunRef(Body, frozen=True, kw_only=True):
    run: Annotated[str, Meta(pattern=ids.whole(ids.RUN_PATTERN))]


class RunView(Answer, frozen=True, kw_only=True):
    """One run of a script at a site; `record` is the input of `kalends agent replay`, in MessagePack."""

    run: str
    at_ms: int
    id: str
    user: str
    script: ScriptHash
    function: str
    code: RunCode
    detail: str = ""
    line: int = 0
    steps: int = 0
    cpu_us: int = 0
    wall_us: int = 0
    engine: str = ""
    view_hash: str = ""
    chosen: int = 0
    """Slots that the script chose."""
    record: bytes = b""


class Runs(Answer, frozen=True, kw_only=True):
    runs: tuple[RunView, ...]
