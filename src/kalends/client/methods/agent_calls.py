"""The client's calls about agents: scripts at a broker, and the records of their runs at a site."""

from __future__ import annotations

from typing import Any

from kalends.client.inputs.scripts import Agent, NamedScript, message_text, named_script
from kalends.client.methods.listing_calls import ListingCalls
from kalends.client.transports.call_line import CallLine
from kalends.contract import calls
from kalends.core.errors import InvalidInput


class AgentCalls:
    """The part of `kalends.Client` about agents."""

    def __init__(self, line: CallLine, listing: ListingCalls) -> None:
        self._line = line
        self._settings = line.settings
        self._listing = listing

    async def upload_agent(self, name: str, source: str) -> calls.AgentView:
        """Upload the script `source` under `name`, replacing an earlier one; repeating does no harm.

        Raises `InvalidInput` for a script that breaks rules of the language: its `refusals` name
        each line, column and rule, and nothing is stored.
        """
        if not isinstance(source, str):
            raise InvalidInput(
                f"a script is a text, not {type(source).__name__}",
                where="source",
                remedy="read it from its file with read_text()",
            )
        body = calls.UploadAgent(name=name, source=source)
        return await self._line.call(body, "agent_upload", calls.AgentView)

    async def agents(self) -> tuple[calls.AgentView, ...]:
        """Return the caller's scripts, without their sources."""
        return (await self._line.call(calls.ListAgents(), "agent_list", calls.Agents)).agents

    async def agent(self, name_or_hash: str) -> calls.AgentView:
        """Return one script of the caller, with its source."""
        body = calls.AgentRef(name=name_or_hash)
        return await self._line.call(body, "agent_show", calls.AgentView)

    async def delete_agent(self, name: str) -> calls.AgentView:
        """Delete the script `name`; open requests still use it."""
        return await self._line.call(calls.AgentRef(name=name), "agent_delete", calls.AgentView)

    async def tell_agent(
        self, id: str, *, message: Any = None, agent: Agent = "", key: str = ""
    ) -> calls.RequestView:
        """Leave `message` (plain data) for the agent of open request `id`; None leaves none.

        `agent` replaces the request's agent from the next visit on; a `Path` is uploaded first. Raises
        `Conflict` if the request has been decided.
        """
        text = "" if message is None else message_text(message)
        script = named_script(agent)
        body = calls.TellAgent(
            id=await self._listing.full_id(id),
            key=key or self._settings.new_key(),
            message=text,
            agent=script.name,
        )
        await self.upload(script)
        return await self._line.call(body, "agent_tell", calls.RequestView)

    async def agent_runs(self, id: str = "", *, count: int = 50) -> tuple[calls.RunView, ...]:
        """List the runs of the caller's scripts at this site (for request `id`), newest first.

        Call it at a site, not at a broker; the views have no records.
        """
        body = calls.ListRuns(id=id, count=count)
        return (await self._line.call(body, "agent_runs", calls.Runs)).runs

    async def agent_run(self, number: str | int) -> calls.RunView:
        """Return one run at this site with its record, from which the run can be repeated elsewhere."""
        return await self._line.call(calls.RunRef(run=str(number)), "agent_run", calls.RunView)

    async def upload(self, script: NamedScript) -> None:
        """Upload the script that a request names, if it is not uploaded yet."""
        if script.source is not None:
            await self.upload_agent(script.name, script.source)
