"""The managers of virtual sites, seen from a broker: one question, one answer, or none."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import aiohttp

from kalends.broker.jobs.parts.site_managers import Referral
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.agreement import HeardVersions, since_of
from kalends.contract.paths import REFER_PATH, SPLIT_PATH
from kalends.contract.versions import ServerVersion
from kalends.core.errors import KalendsError
from kalends.core.features import Feature
from kalends.rim.proxies import proxy_url
from kalends.serving.auth.peer_auth import Proof
from kalends.serving.logs import Logger

T = TypeVar("T", m.Referred, m.Splits)

REFER_S_MAX: Final = 5.0
ANSWER_BYTES_MAX: Final = 512 * 1024
"""A thousand ways are below it."""


class ManagerCalls:
    """Calls to the managers at `urls`, keyed by virtual site; `trust` holds the certificates for https.

    `version` is the version of this broker.
    """

    def __init__(
        self,
        urls: Mapping[str, str],
        proofs: Callable[[str], Proof],
        trust: Mapping[str, ssl.SSLContext | bool],
        version: ServerVersion,
        logger: Logger,
    ) -> None:
        self._urls = {name: url.rstrip("/") for name, url in urls.items()}
        self._proofs = {name: proofs(name) for name in urls}
        self._trust = trust
        self._versions = HeardVersions(version)
        self._logger = logger
        self._http: aiohttp.ClientSession | None = None

    def begin(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def refer(self, referral: Referral) -> tuple[str, ...] | None:
        """Return the ways to the members to ask; None when the manager gives no answer."""
        question = referral.question
        answer = await self._asked(referral.virtual, REFER_PATH, question, m.Referred)
        about = answer is not None and (answer.rid, answer.att) == (question.rid, question.att)
        return answer.ways if answer is not None and about else None

    async def split(self, virtual: str, question: m.Split) -> m.Splits | None:
        """Return the splits of a job; None without an answer, e.g. of an older manager."""
        return await self._asked(virtual, SPLIT_PATH, question, m.Splits)

    async def _asked(
        self, virtual: str, path: str, question: m.Refer | m.Split, answer: type[T]
    ) -> T | None:
        try:
            return await self._post(virtual, path, question, answer)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KalendsError) as error:
            self._logger.info("manager_silent", site=virtual, reason=repr(error))
            return None

    async def _post(
        self, virtual: str, path: str, question: m.Refer | m.Split, answer: type[T]
    ) -> T | None:
        if self._http is None:
            return None
        proof, url = self._proofs[virtual], self._urls[virtual] + path
        # An older manager has no such path for what is new as a whole, and says so.
        said = question if since_of(type(question)) else self._versions.fitted(url, question)
        if isinstance(said, Feature):
            self._logger.info("manager_is_older", site=virtual, lacks=said.name)
            return None
        async with self._http.post(
            url,
            data=codec.encode_msgpack(said),
            headers={
                "Content-Type": codec.MSGPACK,
                "Accept": codec.MSGPACK,
                **proof.headers(),
                **self._versions.ours.headers(),
            },
            ssl=self._trust[virtual],
            proxy=proxy_url(url),
            timeout=aiohttp.ClientTimeout(total=REFER_S_MAX),
            allow_redirects=False,
        ) as response:
            self._versions.heard(url, response.status, response.headers)
            if response.status == 401:
                proof.refused(response.headers.get("Date", ""))
            if response.status != 200:
                self._logger.info("manager_silent", site=virtual, status=response.status)
                return None
            body = b""
            async for chunk in response.content.iter_any():
                body += chunk
                codec.check_size(body, ANSWER_BYTES_MAX)
        return codec.decode_msgpack(body, answer, bytes_max=ANSWER_BYTES_MAX)
