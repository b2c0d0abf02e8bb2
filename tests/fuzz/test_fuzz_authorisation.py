"""Who may do what, asked of real servers: every wrong way in is refused, with a reason and no secret."""

from __future__ import annotations

import time
from secrets import token_hex
from typing import Any

import pytest
from fuzz_servers import Answer, Facility, Server, check_answer

from kalends.contract.calls import OPERATIONS

pytestmark = pytest.mark.usefixtures("untouched")

RID = "01234567-89ab-7def-8123-456789abcdef"
CLOSED = [operation for operation in OPERATIONS if operation.scope]
SESSIONS = [
    ("alpha", "/v1/session"), ("alpha", "/v1/calls"), ("alpha", "/v1/terminals"),
    ("broker", "/v1/calls"),
]  # fmt: skip


def ask(
    place: Facility, server: Server, path: str, token: str | None, fields: Any = None
) -> Answer:
    """A GET, or a POST when there are `fields`; the answer is a proper one."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if fields is None:
        answer = server.call("GET", path, headers=headers)
    else:
        answer = server.post(path, fields, headers)
    check_answer(place, answer, headers)
    return answer


def bad_tokens(place: Facility, audience: str) -> dict[str, str | None]:
    """One of each kind of token that nobody may believe, all otherwise with every right."""
    now_s = int(time.time())
    scopes = ("use", "audit", "admin")
    good = place.token("anna", audience=audience, scopes=scopes)
    head, claims, signature = good.split(".")
    other = place.token("root", audience=audience, scopes=scopes).split(".")
    return {
        "none": None,
        "expired": place.token("anna", audience=audience, scopes=scopes, now_s=now_s - 7_200),
        "not valid yet": place.token("anna", audience=audience, scopes=scopes, now_s=now_s + 7_200),
        "for another server": place.token("anna", audience="beta", scopes=scopes),
        "of a stranger's key": place.token("anna", audience=audience, scopes=scopes, key="stranger"),
        "of another issuer": place.token("fuzzer", audience=audience, scopes=("broker",),
                                         key="broker", issuer="somebody"),
        "with other claims": f"{head}.{other[1]}.{signature}",
        "without a signature": f"{head}.{claims}.",
        "cut short": good[:-4],
        "with no algorithm": f"eyJhbGciOiJub25lIn0.{claims}.",
        "with a shared secret": f"eyJhbGciOiJIUzI1NiJ9.{claims}.{signature}",
    }  # fmt: skip


@pytest.mark.parametrize("operation", CLOSED, ids=lambda operation: operation.name)
def test_no_operation_believes_a_bad_token(operation: Any, closed: Facility) -> None:
    path = operation.path.format(id=RID, name="mine", run="17", key="reclaim-key", site="beta")
    fields = None if operation.method == "GET" else {}
    for role in operation.roles:
        server = closed.of(role)
        for kind, token in bad_tokens(closed, server.name).items():
            answer = ask(closed, server, path, token, fields)
            assert (answer.status, answer.problem().code) == (401, "not-authenticated"), kind
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(("name", "path"), SESSIONS)
def test_no_session_believes_a_bad_token(name: str, path: str, closed: Facility) -> None:
    for kind, token in bad_tokens(closed, name).items():
        answer = ask(closed, closed.servers[name], path, token)
        assert (answer.status, answer.problem().code) == (401, "not-authenticated"), kind


@pytest.mark.parametrize(
    "operation", [each for each in CLOSED if each.scope != "any"], ids=lambda each: each.name
)
def test_every_operation_needs_its_scope(operation: Any, closed: Facility) -> None:
    path = operation.path.format(id=RID, name="mine", run="17", key="reclaim-key", site="beta")
    fields = None if operation.method == "GET" else {}
    others = tuple(scope for scope in ("use", "audit", "admin") if scope != operation.scope)
    for role in operation.roles:
        server = closed.of(role)
        token = closed.token("anna", audience=server.name, scopes=others)
        answer = ask(closed, server, path, token, fields)
        assert (answer.status, answer.problem().code) == (403, "not-allowed")


def test_a_key_gives_no_scope_that_its_owner_does_not_list_for_it(closed: Facility) -> None:
    site = closed.sites[0]
    posing = closed.token("broker-1", audience="alpha", scopes=("use", "broker"))
    assert ask(closed, site, "/v1/session", posing).problem().code == "not-allowed"
    straying = closed.token(
        "broker-1", audience="alpha", scopes=("use", "audit", "admin", "broker"),
        key="broker", issuer="broker",
    )  # fmt: skip
    reclaim = {"key": "reclaim-key", "resource": "alpha/vault", "start": 1, "end": 1 << 31}
    for path, fields in (
        ("/v1/resources", None), ("/v1/audit", {}), ("/v1/drain", {"on": True}),
        ("/v1/reclaims", reclaim), ("/v1/reclaims/reclaim-key/end", {}),
    ):  # fmt: skip
        assert ask(closed, site, path, straying, fields).problem().code == "not-allowed"


def resources(place: Facility) -> list[tuple[Server, str, str]]:
    """Each server that lists them, where, and whose they are; one of them by a virtual site, too."""
    straight = [(each, "/v1/resources", each.name) for each in (place.broker, *place.sites)]
    return [*straight, (place.of("virtual"), "/v1/members/beta/v1/resources", "beta")]


def test_headers_of_open_access_mean_nothing_where_tokens_are_asked_for(closed: Facility) -> None:
    for server, path, audience in resources(closed):
        headers = {"Kalends-User": "root", "Kalends-Groups": "staff"}
        assert server.call("GET", path, headers=headers).status == 401
        token = closed.token("mallory", audience=audience)
        mixed = {"Authorization": f"Bearer {token}", **headers}
        answer = server.call("GET", path, headers=mixed)
        assert answer.status == 200
        assert b"vault" not in answer.body


def test_open_access_is_for_this_machine_by_its_own_name(facilities: dict[str, Facility]) -> None:
    for server, path, _ in resources(facilities["open"]):
        assert server.call("GET", path, headers={"Kalends-User": "a"}).status == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""):
            answer = server.call("GET", path, headers={"Kalends-User": "a", "Host": host})
            assert answer.status == 401
            assert answer.problem().where in ("Host", "Kalends-User")


@pytest.mark.parametrize("tail", ["", "/why", "/lock", "/release", "/cancel", "/change"])
def test_the_request_of_another_user_is_as_one_that_never_was(tail: str, closed: Facility) -> None:
    token = closed.token("mallory", audience="broker")
    fields = None if tail in ("", "/why") else {"key": "mallorys-key"} if tail == "/change" else {}
    refusals = set()
    for rid in (_annas(closed), RID):
        answer = ask(closed, closed.broker, f"/v1/requests/{rid}{tail}", token, fields)
        assert (answer.status, answer.problem().code) == (404, "not-found")
        refusals.add(answer.body.replace(rid.encode(), b"ID"))
    assert len(refusals) == 1


def test_the_key_of_another_user_is_as_one_that_never_was(closed: Facility) -> None:
    token = closed.token("mallory", audience="broker")
    annas = ask(closed, closed.broker, "/v1/requests/" + _annas(closed),
                closed.token("anna", audience="broker"))  # fmt: skip
    start = annas.value()["start"]
    answers = [
        ask(closed, closed.broker, "/v1/requests/by-key", token, {"key": key})
        for key in (f"seed-anna-alpha-cluster-{start}", "never-was")
    ]
    assert [answer.status for answer in answers] == [404, 404]
    assert answers[0].body == answers[1].body


def test_nobody_watches_or_lists_what_is_anothers(closed: Facility) -> None:
    token = closed.token("mallory", audience="broker")
    rid = _annas(closed)
    watched = [
        ask(closed, closed.broker, "/v1/watch", token, {"id": each, "after": 0, "wait_ms": 0})
        for each in (rid, RID)
    ]
    assert [answer.status for answer in watched] == [404, 404]
    assert watched[0].body.replace(rid.encode(), b"") == watched[1].body.replace(RID.encode(), b"")
    every = ask(closed, closed.broker, "/v1/watch", token, {"after": 0, "wait_ms": 0})
    assert rid.encode() not in every.body
    assert rid.encode() not in ask(closed, closed.broker, "/v1/requests/list", token, {}).body
    everyone = ask(closed, closed.broker, "/v1/requests/list", token, {"everyone": True})
    assert everyone.problem().code == "not-allowed"


@pytest.mark.parametrize("role", ["site", "broker"])
def test_a_hidden_resource_is_as_one_that_is_not_there(role: str, closed: Facility) -> None:
    server = closed.of(role)
    token = closed.token("mallory", audience=server.name)
    staff = closed.token("sam", audience=server.name, groups=("staff",))
    when = {"start": 1_900_000_020, "end": 1_900_000_620}

    def refusal(resource: str, who: str) -> Answer:
        return ask(closed, server, "/v1/calendar", who, {"resource": resource, **when})

    hidden, missing = refusal("alpha/vault", token), refusal("alpha/vapor", token)
    assert hidden.status == missing.status == 404
    assert hidden.body == missing.body.replace(b"vapor", b"vault")
    assert refusal("alpha/vault", staff).status == 200
    assert b"vault" not in ask(closed, server, "/v1/resources", token).body
    assert b"vault" in ask(closed, server, "/v1/resources", staff).body


def _named(*resources: str) -> list[dict[str, Any]]:
    return [{"resource": resource} for resource in resources]


def _picked(kind: str, units: int) -> list[dict[str, Any]]:
    return [{"attributes": [{"name": "kind", "operator": "=", "value": kind}], "units": units}]


ALIKE = {
    "by name": (_named("alpha/vault"), _named("alpha/vapor")),
    "beside what is there": (_named("alpha/vault", "alpha/cluster"),
                             _named("alpha/vapor", "alpha/cluster")),
    "beside what is not there": (_named("alpha/vault", "alpha/zero"),
                                 _named("alpha/vapor", "alpha/zero")),
    "by attributes": (_picked("vault", 1), _picked("vapor", 1)),
    "by attributes, too much of it": (_picked("vault", 9), _picked("vapor", 9)),
}  # fmt: skip


@pytest.mark.parametrize("window_s", [600, 7_200], ids=["fixed", "wide"])
@pytest.mark.parametrize("path", ["/v1/find", "/v1/requests"])
@pytest.mark.parametrize(("hidden", "missing"), ALIKE.values(), ids=ALIKE.keys())
def test_asking_for_a_hidden_resource_is_as_asking_for_one_that_is_not_there(
    hidden: Any, missing: Any, path: str, window_s: int, closed: Facility
) -> None:
    token = closed.token("mallory", audience="broker")
    start = (int(time.time()) // 3_600 + 48) * 3_600
    answers = []
    for terms in (hidden, missing):
        request = {"alternatives": [{"terms": terms}], "duration_s": 600,
                   "not_before": start, "not_after": start + window_s}  # fmt: skip
        fields: dict[str, Any] = {"request": request}
        if path == "/v1/requests":
            fields["key"] = token_hex(8)
        answer = ask(closed, closed.broker, path, token, fields)
        answers.append((answer.status, _plain(answer.value())))
        if rid := answer.value().get("id", ""):
            story = ask(closed, closed.broker, f"/v1/requests/{rid}/why", token).value()
            answers.append((200, _plain(story)))
    middle = len(answers) // 2
    assert answers[:middle] == _renamed(answers[middle:], "vapor", "vault")


def _annas(place: Facility) -> str:
    """The id of anna's reservation."""
    answer = place.broker.post("/v1/requests/list", {"state": "reserved"},
                               place.headers("anna", place.broker))  # fmt: skip
    rid: str = answer.value()["requests"][0]["id"]
    return rid


def _plain(answer: Any) -> Any:
    """`answer` without what every request has of its own: id and time."""
    if isinstance(answer, dict):
        own = ("id", "request_id", "created_at", "updated_at", "at_ms", "number")
        return {name: _plain(inner) for name, inner in answer.items() if name not in own}
    return [_plain(inner) for inner in answer] if isinstance(answer, list) else answer


def _renamed(value: Any, before: str, after: str) -> Any:
    if isinstance(value, dict):
        return {name: _renamed(inner, before, after) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_renamed(inner, before, after) for inner in value)
    return value.replace(before, after) if isinstance(value, str) else value
