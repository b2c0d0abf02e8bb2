"""A process next to a broker that answers its `search_questions`, one after the other.

    python -m kalends.broker.searches.search_worker

It ends with its input (`child_frames`), so it never outlives its broker by more than one search.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from kalends.broker.planning.directory import Directory, SiteEntry
from kalends.broker.planning.search_budget import Work
from kalends.broker.searches.search_questions import AnyQuestion
from kalends.core.errors import KalendsError, Problem
from kalends.core.resources import ResourceInfo
from kalends.serving.child_frames import answer_all

NICENESS: Final = 5
"""Beside servers, which have 0: the broker itself goes before hard searches."""


class HardSearch(msgspec.Struct, frozen=True):
    """A question, and what the broker knows."""

    question: AnyQuestion
    sites: list[SiteEntry]
    resources: list[ResourceInfo]


class SearchAnswer(msgspec.Struct, frozen=True):
    """`answer` in MessagePack, or the problem; and how long it took the processor."""

    cpu_s: float
    answer: bytes = b""
    problem: Problem | None = None


def answered(asked: HardSearch, work: Work | None = None) -> SearchAnswer:
    """Work it out here and now, with as much `work` as one search may do."""
    began_s = os.times().user
    try:
        answer = asked.question.answer(known(asked.sites, asked.resources), work or Work())
    except KalendsError as error:
        return SearchAnswer(os.times().user - began_s, problem=error.to_problem())
    return SearchAnswer(os.times().user - began_s, msgspec.msgpack.encode(answer))


def known(sites: list[SiteEntry], resources: list[ResourceInfo]) -> Directory:
    directory = Directory({})
    directory.sites = {each.name: each for each in sites}
    directory.resources = {each.name: each for each in resources}
    return directory


def _answered(body: bytes) -> bytes:
    return msgspec.msgpack.encode(answered(msgspec.msgpack.decode(body, type=HardSearch)))


if __name__ == "__main__":
    os.nice(NICENESS)
    answer_all(_answered)
