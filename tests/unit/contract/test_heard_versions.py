"""Servers that are asked without a session: what they are asked, by what they have said of their versions."""

from __future__ import annotations

from msgspec.structs import replace
from tests.support.pretended_features import pretended

from kalends.contract import agreement
from kalends.contract import messages as m
from kalends.contract.agreement import HeardVersions
from kalends.contract.versions import BASE, ServerVersion
from kalends.core.features import Feature, Since
from kalends.core.identifiers import request_id
from kalends.core.steps import StepPart

STEPS = Feature("steps", "jobs in step")
REGISTERS = Feature("registers", "registers by name")
NEW = ServerVersion("2.0", frozenset({"steps", "registers"}))
URL = "http://npaci.example"
ASK = m.StartAsk(rid=request_id(1, 1), att=1, site="ctc", secret="s" * 16)
IN_STEP = replace(ASK, parts=(StepPart("ctc/sp2", 1),))
PEER_ASK = m.PeerAsk(
    rid=request_id(1, 1), att=1, site="ctc", secret="s" * 16, until=0, register="0" * 32
)
FIELDS = {
    (m.StartAsk, "parts"): Since(STEPS),
    (m.PeerAsk, "register"): Since(REGISTERS, hint=True),
}


def test_a_server_is_taken_for_one_of_the_base_version_until_it_has_answered() -> None:
    with pretended(FIELDS, {}):
        known = HeardVersions(NEW)
        assert known.fitted(URL, ASK) == ASK
        assert known.fitted(URL, IN_STEP) == STEPS
        assert known.fitted(URL, PEER_ASK) == replace(PEER_ASK, register="")
        known.heard(URL, 200, NEW.headers())
        assert known.fitted(URL, IN_STEP) == IN_STEP
        assert known.fitted(URL, PEER_ASK) == PEER_ASK


def test_a_server_that_has_refused_a_question_may_have_been_put_back() -> None:
    with pretended(FIELDS, {}):
        known = HeardVersions(NEW)
        known.heard(URL, 200, NEW.headers())
        known.heard(URL, 400, NEW.headers())
        assert known.fitted(URL, IN_STEP) == STEPS
        known.heard(URL, 403, NEW.headers())
        assert known.fitted(URL, IN_STEP) == IN_STEP


def test_what_we_do_not_know_ourselves_is_asked_of_nobody() -> None:
    with pretended(FIELDS, {}):
        known = HeardVersions(BASE)
        known.heard(URL, 200, NEW.headers())
        assert known.fitted(URL, IN_STEP) == STEPS


def test_a_version_that_makes_no_sense_is_the_base_version() -> None:
    with pretended(FIELDS, {}):
        known = HeardVersions(NEW)
        known.heard(URL, 200, {"Kalends-Version": "<script>"})
        assert known.fitted(URL, IN_STEP) == STEPS


def test_only_so_many_are_remembered() -> None:
    known = HeardVersions(NEW)
    for number in range(agreement.SERVERS_MAX + 5):
        known.heard(f"http://{number}", 200, NEW.headers())
    assert len(known._heard) == agreement.SERVERS_MAX
