"""Who may do what: each cell of the tables in docs/identity.md, asked of real servers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import msgpack
import pytest
from fuzz_servers import Answer, Facility, check_answer

from kalends.batch.job_rights import whose
from kalends.contract.calls import OPERATION, OPERATIONS
from kalends.core.errors import NotAllowed
from kalends.core.principals import Principal
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.servers.virtual import build_virtual
from kalends.serving.auth.callers import Caller
from kalends.serving.configuration import load_configuration

pytestmark = pytest.mark.usefixtures("untouched")

PAGE = (Path(__file__).parents[2] / "docs" / "identity.md").read_text()
MARK = "annas-own-words"
RID = "01234567-89ab-7def-8123-456789abcdef"
PRESS = "alpha/press"


class Right(NamedTuple):
    """A row of the table: what each column says of one call at the servers of some roles."""

    call: str
    roles: tuple[str, ...]
    needs: str
    others: str
    audit: str
    admin: str


def rows(name: str, columns: int) -> list[list[str]]:
    """The cells of a table of the page, without its head."""
    part = PAGE.partition(f"<!-- {name}:")[2].partition(f"<!-- end of {name} -->")[0]
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    found = [[cell.strip().strip("`") for cell in line.strip("| ").split(" | ")] for line in lines]
    assert all(len(cells) == columns for cells in found)
    return found


RIGHTS = [
    Right(call, tuple(roles.split(", ")), needs, *cells)
    for call, roles, needs, *cells in rows("rights", 6)
]
CELLS = [
    pytest.param(right, role, extra, getattr(right, column), id=f"{right.call}-{role}-{column}")
    for right in RIGHTS
    for role in right.roles
    for column, extra in (("others", ""), ("audit", "audit"), ("admin", "admin"))
]


def test_the_table_has_every_call_with_the_scope_that_it_needs() -> None:
    told = sorted((right.call, role, right.needs) for right in RIGHTS for role in right.roles)
    true = sorted(
        (each.name, role, each.scope or "-") for each in OPERATIONS for role in each.roles
    )
    assert told == true


def test_the_table_has_every_route_that_is_no_call(tmp_path: Path) -> None:
    text = (
        '[site]\nname = "s"\nstore = "s.db"\n[broker]\nname = "b"\nstore = "b.db"\n'
        '[virtual]\nname = "v"\n[[virtual.members]]\nname = "s"\nurl = "http://127.0.0.1:1"\n'
    )
    made = load_configuration(text, tmp_path)
    assert made.site is not None
    assert made.broker is not None
    assert made.virtual is not None
    applications = {
        "site": build_site(made.site, version="1"),
        "broker": build_broker(made.broker, version="1"),
        "virtual": build_virtual(made.virtual, version="1"),
    }
    calls = {each.path for each in OPERATIONS}
    true = {
        (re.sub(r":[^}]*", "", route.resource.canonical), role)
        for role, application in applications.items()
        for route in application.router.routes()
        if route.resource is not None and route.name not in OPERATION
    }
    told = {(route, role) for route, roles, *_ in rows("routes", 4) for role in roles.split(", ")}
    assert told == true
    assert not calls.intersection(route for route, _ in told)


@pytest.fixture(scope="module")
def annas(facilities: dict[str, Facility]) -> Iterator[dict[str, Any]]:
    """What is anna's: a reservation, a script, its run, and a job whose words are nobody else's business."""
    place = facilities["tokens"]
    broker, alpha = place.broker, place.sites[0]
    at_broker, at_alpha = place.headers("anna", broker), place.headers("anna", alpha)
    source = f"# {MARK}\ndef choose(view, request):\n    return [view['slots'][0]['id']]\n"
    assert broker.post("/v1/agents", {"name": MARK, "source": source}, at_broker).status == 200
    # Not anna's: she would be told, and nobody takes it there.
    at_noras = place.headers("nora", broker)
    assert broker.post("/v1/notices", {"to": NORAS_WEBHOOK}, at_noras).status == 200
    assert broker.post("/v1/feeds", {"name": "noras"}, at_noras).status == 200
    held = Holds.fresh(place, "anna", agent=MARK)
    runs = alpha.post("/v1/runs", {"id": held}, at_alpha).value()["runs"]
    body = {"key": token_hex(8), "job": _job(MARK)}
    submitted = alpha.post("/v1/jobs", body, at_alpha)
    assert submitted.status == 200, submitted
    reserved = broker.post("/v1/requests/list", {"state": "reserved"}, at_broker).value()
    number = submitted.value()["job"]["job"]
    Holds.start += 1_200
    series = broker.post("/v1/series", _series(f"rights-series-{Holds.start}"), at_broker)
    assert series.status == 200, series
    place.accept(series)
    yield {
        "reserved": reserved["requests"][0]["id"], "key": f"rights-anna-{Holds.start}", "held": held,
        "run": runs[0]["run"], "job": number, "series": series.value()["id"],
    }  # fmt: skip
    end = "/v1/reclaims/rights-reclaim/end"
    # Of a worker that has asked for only some of the table's cells there may be none.
    assert alpha.post(end, {}, place.headers("owner", alpha, "admin")).status in (200, 404)
    kill = {"machine": PRESS, "job": number, "what": "kill"}
    assert alpha.post("/v1/jobs/change", kill, at_alpha).status == 200
    assert broker.post(f"/v1/requests/{held}/release", {}, at_broker).status == 200
    assert broker.post(f"/v1/agents/{MARK}/delete", {}, at_broker).status == 200


SHARING = ("share", "unshare", "give", "accept", "decline", "link_add", "link_revoke")
NORAS_WEBHOOK = "http://127.0.0.1:1/noras"
NOBODYS_WEBHOOK = "http://127.0.0.1:1/nobodys"


def _job(name: str) -> dict[str, Any]:
    return {"machine": PRESS, "limit_s": 60, "command": ["/bin/echo", name]}


def _series(key: str) -> dict[str, Any]:
    """A series of one occurrence."""
    one = Holds.body(key)
    return {
        "key": key, "request": one["request"], "rule": "FREQ=DAILY;COUNT=1", "zone": "UTC",
    }  # fmt: skip


class Holds:
    """Fresh holds, each at a time of its own; no test counts their traces."""

    start = (int(time.time()) // 3_600 + 24 * 60) * 3_600

    @classmethod
    def fresh(cls, place: Facility, user: str, *, agent: str = "", hold: bool = True) -> str:
        """Return the id of a hold, or of a reservation."""
        cls.start += 1_200
        answer = place.broker.post(
            "/v1/requests", cls.body(f"rights-{user}-{cls.start}", agent, hold=hold),
            place.headers(user, place.broker),
        )  # fmt: skip
        assert answer.status == 200, answer
        view: dict[str, Any] = answer.value()
        assert view["state"] == ("held" if hold else "reserved"), view
        place.accepted.add(view["id"])
        return str(view["id"])

    @classmethod
    def body(cls, key: str, agent: str = "", *, hold: bool = True) -> dict[str, Any]:
        request = {
            "alternatives": [{"terms": [{"resource": "alpha/cluster"}]}], "duration_s": 600,
            "not_before": cls.start, "not_after": cls.start + (1_200 if agent else 600),
            "agent": agent,
        }  # fmt: skip
        return {"key": key, "request": request, "hold": hold, "hold_s": 3_600}


def reclaimed(place: Facility) -> str:
    """Return the key of a fresh reclaim, where nothing is booked."""
    alpha, key = place.sites[0], f"rights-{token_hex(8)}"
    Holds.start += 1_200
    body = {"key": key, "resource": "alpha/cluster", "start": Holds.start, "end": Holds.start + 600}
    assert alpha.post("/v1/reclaims", body, place.headers("owner", alpha, "admin")).status == 200
    return key


def before_owner(place: Facility) -> str:
    """Return the id of a fresh request of anna's that waits for its owner's approval."""
    Holds.start += 1_200
    body = Holds.body(f"rights-owner-{Holds.start}", hold=False)
    body["request"]["alternatives"] = [{"terms": [{"resource": "alpha/microscope"}]}]
    answer = place.broker.post("/v1/requests", body, place.headers("anna", place.broker))
    assert answer.status == 200, answer
    view: dict[str, Any] = answer.value()
    assert view["waiting"]["approval"], view
    place.accepted.add(view["id"])
    return str(view["id"])


def asked(
    call: str, place: Facility, annas: dict[str, Any], *, there: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what is asked by `call` about what is anna's, in its path and in its body.

    Not `there`: about what nobody has.
    """
    hidden = "alpha/vault" if there else "alpha/vapor"
    terms = [{"resource": hidden}]
    far = {"start": Holds.start + 7_200, "end": Holds.start + 10_800}
    press, all_time = {"machine": PRESS}, {"start": 0, "end": Holds.start, "everyone": True}
    job = {**press, "job": annas["job"] if there else 999_999}
    rid = annas["reserved"] if there else RID
    in_path: dict[str, dict[str, Any]] = {
        **{each: {"id": rid} for each in SHARING},
        "show": {"id": rid}, "why": {"id": rid}, "change": {"id": rid}, "job_place_elsewhere": {"id": rid},
        "agent_run": {"run": annas["run"] if there else "999999999"},
        "agent_show": {"name": MARK if there else "never-was"},
        "agent_delete": {"name": MARK if there else "never-was"},
        "agent_tell": {"id": annas["held"] if there else RID},
        "sites_remove": {"site": "nowhere"},
    }  # fmt: skip
    if call in ("series_show", "series_retry", "series_cancel"):
        return {"id": annas["series"] if there else RID}, None if call == "series_show" else {}
    if call == "series_change":
        move = {"key": token_hex(8), "what": "move", "by_s": 3_600}
        return {"id": annas["series"] if there else RID}, move
    if call in ("lock", "release", "cancel"):
        return {"id": Holds.fresh(place, "anna") if there else RID}, {}
    if call == "reclaim_end":
        return {"key": reclaimed(place)}, {}
    if call == "approval_decide":
        return {"id": before_owner(place)}, {"approve": True}
    bodies: dict[str, dict[str, Any]] = {
        "calendar": {"resource": hidden, **far},
        "find": {"request": {"alternatives": [{"terms": terms}], "duration_s": 600,
                             "not_before": far["start"], "not_after": far["end"]}},
        "book": Holds.body(token_hex(8)),
        "book_for": {"user": "anna", **Holds.body(token_hex(8))},
        "series_book": _series(token_hex(8)),
        "series_find": {"request": {"alternatives": [{"terms": terms}], "duration_s": 600,
                                    "not_before": far["start"]},
                        "rule": "FREQ=DAILY;COUNT=2", "zone": "UTC"},
        # It waits: one that began and failed would be placed again, under an id that no answer names.
        "job_place": {
            "key": token_hex(8), "wait_ms": 20_000,
            "job": {**_job("mallorys"), "machine": "", "not_before": int(time.time()) + 86_400},
        },
        "job_place_elsewhere": {"key": token_hex(8), "wait_ms": 0},
        "notify_add": {"to": "http://127.0.0.1:1/mallorys"},
        "notify_remove": {"to": NORAS_WEBHOOK if there else NOBODYS_WEBHOOK},
        "notify_test": {"to": NORAS_WEBHOOK if there else NOBODYS_WEBHOOK},
        "share": {"party": "user:mallory"}, "unshare": {"party": "user:nora"}, "give": {"to": "mallory"},
        "accept": {"key": token_hex(8), "wait_ms": 0}, "decline": {}, "link_add": {}, "link_revoke": {},
        "feed_add": {"name": "mallorys"},
        "feed_revoke": {"name": "noras" if there else "nobodys"},
        "by_key": {"key": annas["key"] if there else "never-was"},
        "ids": {"part": rid}, "list": {"everyone": True},
        "change": {"key": token_hex(8), "start": 60, "wait_ms": 0},
        "watch": {"id": rid, "after": 0, "wait_ms": 0},
        "site_pass": {"site": "alpha" if there else "nowhere"},
        "agent_upload": {"name": "mallorys", "source": "def choose(view, request):\n    return []\n"},
        "agent_tell": {"key": token_hex(8), "message": "1"},
        "check_in": {"id": rid},
        "close": {"key": "rights-closure", "resources": ["alpha/cluster"], "dry_run": True, **far},
        "audit": {}, "drain": {"on": False}, "reconcile": {"wait_ms": 0},
        "reclaim": {"key": "rights-reclaim", "resource": "alpha/cluster", **far},
        "job_submit": {"key": token_hex(8), "job": _job("mallorys")},
        "jobs_submit": {**press, "key": token_hex(8), "jobs": [_job("mallorys")]},
        "jobs": {**press, "everyone": True}, "job": job, "job_watch": {**job, "wait_ms": 0},
        "jobs_watch": {**press, "wait_ms": 0}, "job_change": {**job, "what": "hold"},
        "job_output": {**job, "wait_ms": 0}, "job_usage": {**press, **all_time},
        "slots": {**press, **all_time}, "job_history": {**press, **all_time},
        "machine_plan": press, "machine_gaps": press,
        "machine_delays": {**press, "nodes": 1, "length_s": 60, "starts": [far["start"]]},
        "machine_nodes": {**press, "what": "resume", "nodes": [0]},
        "machine_policy": {**press, "policy": "easy"}, "machine_replan": press,
        "host_lost": {**press, "host": "elsewhere"},
        "sites_announce": {"site": "beta", "card": "none"},
        "credits_grant": {"key": "rights-grant", "account": "user:anna", "amount": 1},
        "credit_entries": {"account": "user:anna" if there else "user:nobodys"},
        "sites_add": {"site": "beta", "card": "none"},
    }  # fmt: skip
    get = OPERATION[call].method == "GET"
    return in_path.get(call, {}), None if get else bodies.get(call, {})


def send(
    place: Facility,
    right: Right,
    role: str,
    extra: str,
    path: dict[str, Any],
    body: Any,
    again: int = 60,
) -> Answer:
    """Ask as mallory, with the scope that the call needs, and one besides."""
    server = place.of(role)
    scopes = {right.needs, extra} - {"-", "", "any"}
    token = place.token("mallory", audience=server.name, scopes=tuple(scopes))
    headers = {"Authorization": f"Bearer {token}"}
    where = OPERATION[right.call].path.format(**path)
    answer = server.call("GET", where, headers=headers) if body is None else server.post(
        where, body, headers
    )  # fmt: skip
    check_answer(place, answer, headers)
    if answer.status == 503 and again and (wait_s := answer.problem().retry_after_s):
        # Of what takes long, a user has one at a time: that of the role before may not be over.
        time.sleep(wait_s)  # The server says how long.
        return send(place, right, role, extra, path, body, again - 1)
    if answer.status == 200 and right.call in ("book", "job_place", "series_book"):
        place.accept(answer)
    return answer


TELLS_WORDS = ("agent_show", "agent_run", "agent_upload", "jobs", "job", "job_watch")
"""Calls whose answers have words of what they are about, for who may read them."""


LEADS_NOWHERE = {
    "host_lost": (404, "host"), "sites_announce": (400, "card"), "sites_add": (400, "card"),
    "sites_remove": (404, "site"),
}  # fmt: skip
"""No machine here belongs to another host, and no site has a card: whoever may ask is told so."""


@pytest.mark.parametrize(("right", "role", "extra", "cell"), CELLS)
def test_each_cell_of_the_table_is_so(
    right: Right, role: str, extra: str, cell: str, closed: Facility, annas: dict[str, Any]
) -> None:
    if right.call == "slots":
        check_whose(extra, cell)  # No batch system is behind anything here.
        return
    answer = send(closed, right, role, extra, *asked(right.call, closed, annas, there=True))
    words = MARK.encode() in answer.body
    if cell == "refused":
        assert (answer.status, answer.problem().code) == (403, "not-allowed"), answer
        return
    if cell == "unseen":
        nobodys = send(closed, right, role, extra, *asked(right.call, closed, annas, there=False))
        assert unnamed(answer, annas) == unnamed(nobodys, annas)
        return
    if right.call in LEADS_NOWHERE:
        status, where = LEADS_NOWHERE[right.call]
        assert (answer.status, answer.problem().where) == (status, where), answer
        return
    assert answer.status == 200, answer
    if right.call == "reclaim" and cell == "all":
        return
    if cell in ("own", "in part"):
        assert not words, answer
    if cell == "own":
        assert annas["reserved"].encode() not in answer.body
        assert not re.search(rb"\banna\b", answer.body), answer
    if cell == "all" and right.call in TELLS_WORDS:
        assert words or right.call == "agent_run", answer
    if cell == "all" and right.call in ("show", "why", "list", "watch", "audit"):
        assert annas["reserved"].encode() in answer.body or right.call in ("watch", "audit"), answer


def check_whose(extra: str, cell: str) -> None:
    """What decides for all sums over a time: whose they may be."""
    caller = Caller(Principal("mallory"), frozenset({"use", extra}), "id")
    try:
        found = whose(caller, everyone=True)
    except NotAllowed:
        found = "refused"
    assert found == ("" if cell == "all" else cell)


def unnamed(answer: Answer, annas: dict[str, Any]) -> tuple[int, str]:
    """An answer without the names of what it is about, nor what every answer has of its own."""
    text = answer.body.decode()
    for name in ("alpha/vault", "alpha/vapor", MARK, "never-was", annas["run"], "999999999",
                 annas["reserved"], annas["held"], RID, annas["key"],
                 NORAS_WEBHOOK, NOBODYS_WEBHOOK, "user:anna", "user:nobodys", "noras",
                 "nobodys"):  # fmt: skip
        text = text.replace(name, "NAME")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "NAME", text)
    return answer.status, text


ROUTES = [
    pytest.param(route, role, needs, id=f"{route}-{role}")
    for route, roles, needs, _ in rows("routes", 4)
    for role in roles.split(", ")
]


@pytest.mark.parametrize(("route", "role", "needs"), ROUTES)
def test_each_route_needs_what_the_table_says(
    route: str, role: str, needs: str, closed: Facility
) -> None:
    server = closed.of(role)
    path = route.format(member="beta", rest="v1/resources", secret="s" * 43)
    method = "POST" if route in POSTED else "GET"
    kind = {"Content-Type": "application/msgpack"}
    body = msgpack.packb(POSTED[route]) if route in POSTED else b""

    def code(*scopes: str) -> str:
        headers = kind if body else {}
        if scopes:
            token = closed.token("mallory", audience=server.name, scopes=scopes)
            headers = {**headers, "Authorization": f"Bearer {token}"}
        answer = server.call(method, path, body, headers)
        check_answer(closed, answer, headers)
        return answer.problem().code if answer.status >= 400 else ""

    others = tuple({"use", "audit", "admin"} - {needs})
    if needs == "secret":
        assert {code(), code(*others)} == {"not-allowed"}
    elif needs == "address":
        assert {code(), code(*others)} == {"not-found"}
    elif needs == "-":
        assert code() not in ("not-allowed",)
        assert code() == "not-authenticated" or route != "/v1/members/{member}/{rest}"
    elif needs == "any":
        assert (code(), code("near")) == ("not-authenticated", "invalid-input")
    else:
        assert (code(), code(*others)) == ("not-authenticated", "not-allowed")


POSTED: dict[str, dict[str, Any]] = {
    "/v1/peers": {"kind": "peerask", "rid": RID, "att": 1, "site": "beta", "secret": "s" * 32, "until": 1},
    "/v1/inquire": {"kind": "inquire", "rid": RID, "att": 1, "site": "alpha", "secret": "s" * 32},
    "/v1/start": {"kind": "startask", "rid": RID, "att": 1, "site": "alpha", "secret": "s" * 32},
    "/v1/visits": {}, "/v1/refer": {}, "/v1/split": {},
}  # fmt: skip
"""What is posted to routes that take a message: well-formed where a secret is what decides."""
