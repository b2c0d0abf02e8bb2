"""A frame that asks for a lot is answered in turns: nobody else waits until all of it is answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.resource_servers.test_site_agent_serving import ADA, START, Running, site

from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.principals import Principal
from kalends.resource_servers.neighbours.broker_sessions import TURN_WANTS_MAX, turns_of

QUERIES = 30


def query(number: int, wants: int) -> m.Query:
    want = m.Want("sdsc/sp2", START, START + 60, 1)
    return m.Query(query_id=number, principal=Principal("ada"), wants=(want,) * wants)


async def taken(sdsc: Running) -> int:
    """How many messages of brokers the site has taken."""
    async with sdsc.http.get(sdsc.url + "/metrics", headers=ADA) as answer:
        lines = (await answer.text()).splitlines()
    (line,) = (line for line in lines if line.startswith("kalends_messages_total "))
    return int(float(line.split()[-1]))


async def test_a_caller_is_answered_while_a_long_frame_is(tmp_path: Path) -> None:
    async with site(tmp_path) as sdsc, sdsc.session() as session:
        before = await taken(sdsc)
        await session.send(*(query(number, limits.CLAIMS_MAX) for number in range(QUERIES)))
        seen = [before]
        while seen[-1] < before + QUERIES:
            seen.append(await taken(sdsc))
        assert any(before < each < before + QUERIES for each in seen)
        answers = [await session.next() for _ in range(QUERIES)]
    assert [each.query_id for each in answers if isinstance(each, m.View)] == list(range(QUERIES))


@pytest.mark.parametrize(
    ("wants", "turns"),
    [
        ([], [0]),
        ([0], [1]),
        ([limits.CLAIMS_MAX] * 3, [1, 1, 1]),
        ([1] * TURN_WANTS_MAX, [TURN_WANTS_MAX // 2] * 2),
        ([1, limits.CLAIMS_MAX, 1, 1], [1, 1, 2]),
    ],
)
def test_turns_hold_all_messages_in_order_and_few_wants(wants: list[int], turns: list[int]) -> None:
    messages = [query(number, of_one) for number, of_one in enumerate(wants)]
    made = list(turns_of(messages))
    assert [len(turn) for turn in made] == turns
    assert [message for turn in made for message in turn] == messages
