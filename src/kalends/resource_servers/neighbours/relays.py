"""Passing an agent's visit on to a near site, as its owner lists it: one question, one answer."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.agreement import HeardVersions
from kalends.contract.paths import VISITS_PATH
from kalends.contract.versions import ServerVersion
from kalends.core import limits
from kalends.core.errors import InvalidInput, KalendsError, Unavailable
from kalends.core.features import Feature
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.effects import Relay
from kalends.resource_servers.participation.visits.visit_handler import RELAY_MS_MAX
from kalends.rim.proxies import proxy_url
from kalends.serving.auth.peer_auth import server_proofs, trust_for
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.logs import Logger


class RelayCalls:
    """The near sites of the site of `configuration`, which is of this `version`.

    Raises `InvalidInput` for a key or an authority's file that cannot be used.
    """

    def __init__(
        self,
        configuration: SiteConfiguration,
        version: ServerVersion,
        moment: Callable[[], Moment],
        logger: Logger,
    ) -> None:
        site = configuration.name
        self._near = {
            each.name: (
                each.url.rstrip("/") + VISITS_PATH,
                server_proofs(
                    each.key, user=site, issuer=site, now_s=lambda: moment().wall_s, scope="near"
                )(each.name),
                trust_for(configuration.calls, each.ca, f"site.near.{each.name}.ca"),
            )
            for each in configuration.near
        }
        self._versions = HeardVersions(version)
        self._logger = logger
        self._http: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=RELAY_MS_MAX / 1000)
        self._http = aiohttp.ClientSession(timeout=timeout)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def visit(self, relay: Relay) -> m.SiteReport | None:
        """The near site's own report; None when it gives none in time, whatever the reason."""
        try:
            report = await self._post(relay)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KalendsError) as error:
            self._logger.info(
                "near_site_silent", near=relay.site, rid=relay.dispatch.rid, reason=repr(error)
            )
            return None
        about = (report.rid, report.att) == (relay.dispatch.rid, relay.dispatch.att)
        return report.sites[0] if about else None

    async def _post(self, relay: Relay) -> m.Report:
        if self._http is None or self._http.closed:
            raise Unavailable("the site is stopping")
        url, proof, tls = self._near[relay.site]
        said = self._versions.fitted(url, relay.dispatch)
        if isinstance(said, Feature):
            raise InvalidInput(f"the near site knows nothing of {said.words}")
        async with self._http.post(
            url,
            data=codec.encode_msgpack(said),
            headers={
                "Content-Type": codec.MSGPACK,
                "Accept": codec.MSGPACK,
                **proof.headers(),
                **self._versions.ours.headers(),
            },
            ssl=tls,
            proxy=proxy_url(url),
            allow_redirects=False,
        ) as response:
            self._versions.heard(url, response.status, response.headers)
            if response.status == 401:
                proof.refused(response.headers.get("Date", ""))
            if response.status != 200:
                raise InvalidInput(f"the near site answered with status {response.status}")
            body = b""
            async for chunk in response.content.iter_any():
                body += chunk
                codec.check_size(body, limits.FRAME_BYTES_MAX)
        return codec.decode_msgpack(body, m.Report, bytes_max=limits.FRAME_BYTES_MAX)
