"""What an editor and `help` show of the client: the same for both kinds, every option by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from client_broker import Broker

import kalends
from kalends.client.client import Client
from kalends.client.sync import SyncClient, SyncJobTerminal
from kalends.client.terminals.job_terminal import JobTerminal
from kalends.client.transports.retry import Backoff

OWN_WAYS = {"__aenter__", "__aexit__", "__enter__", "__exit__", "__init__", "join"}
"""How each kind is entered and made; `join` is the first part of `attach`."""

CHANCES = {"clock", "wall_clock", "sleep", "fraction", "new_key", "random", "now"}


def public(kind: type) -> dict[str, Callable[..., Any]]:
    found = inspect.getmembers(kind, callable)
    return {name: each for name, each in found if name[0] != "_" and name not in OWN_WAYS}


def awaited(signature: inspect.Signature) -> inspect.Signature:
    """The signature of a method of the other kind: iterators and terminals are those of this one."""
    told = str(signature.return_annotation)
    told = told.replace("AsyncIterator", "Iterator").replace("SyncJobTerminal", "JobTerminal")
    told = told.replace("SyncClient", "Client")
    return signature.replace(return_annotation=told)


@pytest.mark.parametrize(
    ("one", "other"),
    [(Client, SyncClient), (JobTerminal, SyncJobTerminal)],
    ids=["client", "terminal"],
)
def test_both_kinds_have_the_same_methods_with_the_same_signatures(one: type, other: type) -> None:
    assert public(one).keys() == public(other).keys()
    for name, method in public(one).items():
        mine = inspect.signature(getattr(other, name))
        assert awaited(mine) == awaited(inspect.signature(method)), name


@pytest.mark.parametrize(
    "called",
    [
        *public(Client).values(),
        kalends.connect,
        kalends.connect_sync,
        kalends.simulate,
        kalends.as_html,
    ],
    ids=lambda called: called.__name__,
)
def test_every_option_is_named_has_a_type_and_is_no_chance_of_a_test(
    called: Callable[..., Any],
) -> None:
    signature = inspect.signature(called)
    for name, parameter in signature.parameters.items():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL), name
        assert name == "self" or parameter.annotation is not parameter.empty, name
        assert name not in CHANCES
    assert signature.return_annotation is not signature.empty
    assert inspect.getdoc(called)


ODD: list[Any] = [
    None, True, 0, -1, float("inf"), float("nan"), 10**30, "", "x", "\x00", "9" * 5_000, [], {}, (),
    object(), b"x", ("a",), {"a": 1}, "\ud800", Path("/nowhere"),
]  # fmt: skip
USUAL: dict[str, Any] = {
    "request": "sdsc/sp2", "id": "673ba8f8-d9a3-7be9-9394-4080cc7feafa", "count": 1, "duration": "1h",
    "start": "now", "end": "now+1h", "at": "now+1h", "to": "now+1h", "key": "a-key-of-mine", "number": 1,
    "nodes": 1, "starts": ["now"], "what": "drain", "name": "mine", "name_or_hash": "mine",
    "source": "def choose(view, request):\n    return []\n", "message": "plain", "policy": "easy",
    "job": kalends.JobRequest(machine="sdsc/sp2", limit_s=60, command=("true",)),
}  # fmt: skip
LASTING = {"attach", "close", "watch", "watch_job", "watch_jobs", "follow_output", "job_news"}
"""What ends the client, goes on for ever, or begins with an earlier answer."""
OF_OURS = {"known", "after", "on_progress", "message"}
"""What only an earlier answer can be, a function, and what may be anything."""


def test_whatever_is_given_errors_are_those_of_kalends(broker: Broker) -> None:
    with kalends.connect_sync(
        broker.url, user="ada", transport="http", backoff=Backoff(tries_max=1), timeout_s=5
    ) as client:
        for name in public(SyncClient).keys() - LASTING:
            method = getattr(client, name)
            parameters = inspect.signature(method).parameters
            usual = {
                each.name: USUAL.get(each.name, "sdsc/sp2")
                for each in parameters.values()
                if each.default is each.empty or each.name == "duration"
            }
            for option in parameters.keys() - OF_OURS:
                for odd in ODD:
                    if (option, odd) == ("wait_s", None):
                        continue  # That is to wait without limit.
                    broker.courses.clear()
                    # Whatever else is raised fails the test.
                    with suppress(kalends.KalendsError):
                        answer = method(**{**usual, option: odd})
                        if inspect.isgenerator(answer):
                            list(islice(answer, 2))


@pytest.mark.parametrize("word", ["hold_s", "hold", "further", "numbers", "now_s", "zone", "on"])
def test_a_word_that_is_no_option_is_refused_before_anything_is_sent(
    broker: Broker, word: str
) -> None:
    with kalends.connect_sync(broker.url, user="ada") as client:
        for call in (client.book, client.hold, client.submit_in_step, client.request):
            with pytest.raises(TypeError, match=word):
                call("sdsc/sp2", duration="1h", **{word: 5})
    assert not broker.frames


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("option", ["url", "token", "user", "groups", "ca", "zone", "transport"])
def test_what_no_client_can_be_made_with_is_refused_with_what_to_do(option: str, odd: Any) -> None:
    given = {"url": "http://localhost", "user": "ada", option: odd}
    # Whatever else is raised fails the test.
    with suppress(kalends.InvalidInput):
        kalends.connect(**given)


BAD_PATHS = ("\x00", "\ud800")
BAD_NUMBERS = (float("nan"), float("inf"), -1, 10**30)


@pytest.mark.parametrize(
    ("option", "odd"),
    [(option, odd) for option in ("workload", "speedups") for odd in BAD_PATHS]
    + [(option, odd) for option in ("shake_s", "nodes") for odd in BAD_NUMBERS],
)
def test_a_simulation_raises_errors_of_kalends(option: str, odd: Any) -> None:
    jobs = [kalends.SimulatedJob(id=1, submit_s=0, nodes=1, run_s=9, requested_s=9)]
    given = {"workload": jobs, "nodes": 4, option: odd}
    with pytest.raises(kalends.InvalidInput):
        kalends.simulate(**given)
