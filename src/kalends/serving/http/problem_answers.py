"""Problems as answers over HTTP (RFC 9457), in the form that the caller accepts."""

from __future__ import annotations

import math
from typing import Final

import msgspec
from aiohttp import web

from kalends.contract.paths import WHY_HEADER
from kalends.core.errors import KalendsError, Problem
from kalends.serving.http import bodies
from kalends.serving.http.problems import HttpRefusal

ANSWER_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Answers belong to their caller: no cache keeps them, no browser guesses their type."""


def problem_answer(request: web.Request, problem: Problem) -> web.Response:
    """Return `problem` in the form that the caller accepts, JSON if that is unknown."""
    try:
        form = bodies.form_of_answer(request.headers.get("Accept", ""))
    except HttpRefusal:
        form = "json"
    headers = dict(ANSWER_HEADERS)
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after_s:
        headers["Retry-After"] = str(math.ceil(problem.retry_after_s))
    response = web.Response(
        status=problem.status,
        body=bodies.encode(problem, form),
        content_type=bodies.PROBLEM_TYPE[form],
        headers=headers,
    )
    if problem.status in (408, 413):
        response.force_close()  # The rest of the body is not read.
    return response


def refused_session(error: KalendsError) -> web.Response:
    """Return a refusal with the reason also in a header, because clients of sessions read no body."""
    problem = error.to_problem()
    words = problem.detail.encode("ascii", "replace").decode()
    headers = {WHY_HEADER: words}
    if problem.retry_after_s:
        headers["Retry-After"] = str(math.ceil(problem.retry_after_s))
    return web.Response(
        status=problem.status,
        body=msgspec.json.encode(problem),
        content_type="application/problem+json",
        headers=headers,
    )


async def expected(request: web.Request) -> web.StreamResponse | None:
    """Answer ``Expect: 100-continue``; any other expectation is a problem (417)."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        if request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None
    refusal = HttpRefusal(
        417, "only 100-continue can be expected", where="Expect", remedy="leave the header out"
    )
    return problem_answer(request, refusal.to_problem())


def no_method_answer(request: web.Request, error: web.HTTPMethodNotAllowed) -> web.Response:
    """Answer a call of a path by a method that it does not have."""
    problem = HttpRefusal(
        405,
        f"{ascii(request.method[:20])[1:-1]} is not a method of this path",
        where="method",
        remedy=f"use {', '.join(sorted(error.allowed_methods))}",
    ).to_problem()
    response = problem_answer(request, problem)
    response.headers["Allow"] = error.headers["Allow"]
    return response
