"""Answers to questions of other servers that come without a session: one message in, one message out."""

from __future__ import annotations

from aiohttp import web

from kalends.contract import codec
from kalends.contract.agreement import fitted
from kalends.contract.messages import Message
from kalends.contract.versions import version_in
from kalends.core.errors import Conflict
from kalends.core.features import Feature
from kalends.serving.http.application import version_of


def answer_to(request: web.Request, message: Message) -> web.Response:
    """Return `message` as the whole body, reduced to the features that the asking server knows.

    Raises `InvalidInput` if the list of its features is unclear, and `Conflict` if it lacks one that this
    answer needs.
    """
    theirs = version_in(request.headers)
    said = fitted(message, version_of(request).features & theirs.features)
    if isinstance(said, Feature):
        raise Conflict(
            f"{theirs}, the asking server, knows nothing of {said.words}",
            remedy="upgrade the server that asks",
        )
    return web.Response(body=codec.encode_msgpack(said), content_type=codec.MSGPACK)
