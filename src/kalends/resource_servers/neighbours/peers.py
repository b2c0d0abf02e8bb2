"""Questions of a site about decisions: to brokers, and to other sites if brokers are silent.

One message is posted, one comes back as the body of the answer; who cannot be reached says nothing,
and the participant asks again later. An answer is believed only about what was asked.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.agreement import HeardVersions
from kalends.contract.paths import INQUIRE_PATH, PEERS_PATH, START_PATH
from kalends.contract.versions import OURS, ServerVersion
from kalends.core.errors import KalendsError
from kalends.core.features import Feature
from kalends.resource_servers.setup.assembly import addresses_of
from kalends.rim.proxies import proxy_url
from kalends.serving.auth.addresses import AllowedAddresses
from kalends.serving.auth.peer_auth import trust_for
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.logs import Logger

ANSWERED: Final[Mapping[type[m.Message], tuple[str, type[m.Message]]]] = {
    m.Inquire: (INQUIRE_PATH, m.Outcome),
    m.StartAsk: (START_PATH, m.StartSays),
    m.PeerAsk: (PEERS_PATH, m.PeerSays),
}
"""Where each question is posted, and what answers it."""

ASK_S_MAX: Final = 5.0
ASKED_AT_ONCE_MAX: Final = 32
WAITING_MAX: Final = 10_000
"""Questions that wait for their turn; further ones are left out and come again."""

ANSWER_BYTES_MAX: Final = 64 * 1024
"""An outcome that chose 512 claims is below it."""


def peer_calls_of(
    configuration: SiteConfiguration,
    version: ServerVersion,
    answered: Callable[[str, m.Message], None],
    logger: Logger,
) -> PeerCalls:
    """Return the calls of a site, as it is configured; raises `InvalidInput` for files of certificates."""
    tls = trust_for(configuration.calls, None, "site.calls")
    return PeerCalls(answered, logger, addresses_of(configuration), tls, version)


class PeerCalls:
    """Questions on their way; `answered` takes ``(url, message)`` when one came back.

    They go to `allowed` addresses only; `tls` is what to trust for https, and to show. `version` is this
    site's.
    """

    def __init__(
        self,
        answered: Callable[[str, m.Message], None],
        logger: Logger,
        allowed: AllowedAddresses,
        tls: ssl.SSLContext | bool = True,
        version: ServerVersion = OURS,
    ) -> None:
        self._answered = answered
        self._logger = logger
        self._allowed = allowed
        self._tls = tls
        self._versions = HeardVersions(version)
        resolver = allowed.resolver
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=resolver) if resolver else None,
            timeout=aiohttp.ClientTimeout(total=ASK_S_MAX),
        )
        self._turns = asyncio.Semaphore(ASKED_AT_ONCE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, url: str, question: m.Message) -> None:
        """Post `question`: `Inquire` and `StartAsk` to a broker's address, `PeerAsk` to a site's."""
        if len(self._tasks) >= WAITING_MAX:
            return
        if url not in self._allowed:
            self._logger.warning("address_not_allowed", url=url, rid=getattr(question, "rid", ""))
            return
        task = asyncio.create_task(self._ask(url, question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()

    async def _ask(self, url: str, question: m.Message) -> None:
        async with self._turns:
            try:
                answer = await self._post(url, question)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KalendsError) as error:
                self._logger.info(
                    "no_answer", url=url, rid=getattr(question, "rid", ""), reason=repr(error)
                )
                return
        if answer is not None:
            self._answered(url, answer)

    async def _post(self, url: str, question: m.Message) -> m.Message | None:
        path, kind = ANSWERED[type(question)]
        said = self._versions.fitted(url, question)
        if isinstance(said, Feature):
            self._logger.info("server_is_older", url=url, lacks=said.name)
            return None
        async with self._http.post(
            url.rstrip("/") + path,
            data=codec.encode_msgpack(said),
            headers={
                "Content-Type": codec.MSGPACK,
                "Accept": codec.MSGPACK,
                **self._versions.ours.headers(),
            },
            ssl=self._tls,
            # The addresses of names are checked here: a proxy would look them up elsewhere.
            proxy=None if self._allowed.resolver else proxy_url(url),
            allow_redirects=False,
        ) as response:
            self._versions.heard(url, response.status, response.headers)
            if response.status != 200:
                self._logger.info("no_answer", url=url, status=response.status)
                return None
            body = b""
            async for chunk in response.content.iter_any():
                body += chunk
                codec.check_size(body, ANSWER_BYTES_MAX)
        answer = codec.decode_msgpack(body, kind)
        about = all(getattr(answer, each) == getattr(question, each) for each in ("rid", "att"))
        return answer if about else None
