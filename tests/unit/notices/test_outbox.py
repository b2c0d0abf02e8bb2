"""Deliveries are tried until they are sent, refused, or too old; one that fails holds up no others."""

from __future__ import annotations

from kalends.notices.delivery import Delivery, FailedTry
from kalends.notices.outbox import Outbox, OutboxTerms

NOW = 1_800_000_000 // 3600 * 3600
TERMS = OutboxTerms(pause_s=10, pause_s_max=40, give_up_s=1_000, hourly_max=3)
AWAY = FailedTry("blocked", "connection refused")
LATER = FailedTry("later", "450 mailbox busy")


def delivery(
    name: str, *, to: str = "ann@example.org", user: str = "ann", at: int = NOW
) -> Delivery:
    return Delivery(
        id=name, user=user, to=to, subject="it is over", text="all\n", facts={}, made_s=at
    )


def outbox(*stored: Delivery, terms: OutboxTerms = TERMS) -> Outbox:
    return Outbox(terms, lambda: 0.0, stored, NOW)


def tried(box: Outbox) -> list[str]:
    return [each.id for each in box.take_effects().tries]


def test_a_delivery_is_tried_when_it_is_durable_and_not_before() -> None:
    box = outbox()
    box.post(delivery("a"), NOW)
    effects = box.take_effects()
    assert ([each.id for each in effects.kept], effects.tries) == (["a"], [])
    box.advance(NOW + 5)
    assert tried(box) == []
    box.stored(["a"], NOW + 5)
    assert tried(box) == ["a"]
    box.sent(delivery("a"), NOW + 6)
    assert box.take_effects().done == ["a"]
    assert len(box) == 0


def test_what_was_stored_before_a_crash_is_tried_again() -> None:
    assert tried(outbox(delivery("a"), delivery("b"), delivery("c"))) == ["a", "b"], "two at once"


def test_a_delivery_posted_twice_is_kept_once() -> None:
    box = outbox()
    box.post(delivery("a"), NOW)
    box.post(delivery("a"), NOW)
    box.stored(["a"], NOW)
    box.post(delivery("a"), NOW)
    assert [each.id for each in box.take_effects().kept] == ["a"]


def test_pauses_grow_up_to_the_longest_and_a_delivery_is_given_up_at_the_end() -> None:
    box, now, tries = outbox(delivery("a")), NOW, []
    while len(box):
        effects = box.take_effects()
        for each in effects.tries:
            tries.append(now - NOW)
            box.failed(each, LATER, now)
        due_s = box.next_due_s()
        if due_s is not None:
            now = due_s
            box.advance(now)
    assert tries[:6] == [0, 10, 30, 70, 110, 150]
    assert tries[-1] >= TERMS.give_up_s > tries[-2], "the last try is after that time"
    lost = box.take_effects()
    assert [(each.delivery.id, each.why) for each in lost.lost] == [("a", "450 mailbox busy")]
    assert lost.done == ["a"]


def test_a_delivery_that_is_refused_for_good_is_tried_once() -> None:
    box = outbox(delivery("a"))
    box.take_effects()
    box.failed(delivery("a"), FailedTry("refused", "550 no such user"), NOW)
    effects = box.take_effects()
    assert effects.done == ["a"]
    assert [each.why for each in effects.lost] == ["550 no such user"]
    assert box.next_due_s() is None


def test_a_way_that_is_blocked_is_said_once_and_tried_by_one_delivery_at_a_time() -> None:
    box = outbox(*(delivery(name) for name in "abcd"))
    first, second = box.take_effects().tries
    box.failed(first, AWAY, NOW)
    effects = box.take_effects()
    assert (effects.ways, effects.tries) == ({"mail": "connection refused"}, [])
    box.failed(second, AWAY, NOW)
    effects = box.take_effects()
    assert (effects.ways, effects.tries) == ({}, [])
    assert box.next_due_s() == NOW + 10
    box.advance(NOW + 10)
    effects = box.take_effects()
    assert ([each.id for each in effects.tries], effects.ways) == (["c"], {}), "another delivery"
    box.failed(delivery("c"), AWAY, NOW + 10)
    assert box.next_due_s() == NOW + 30, "pauses of a way grow, too"
    box.advance(NOW + 30)
    (probe,) = box.take_effects().tries
    box.sent(probe, NOW + 30)
    effects = box.take_effects()
    assert effects.ways == {"mail": ""}
    assert len(effects.tries) == 2


HOST = "https://hooks.example.org"


def hanging(count: int) -> list[Delivery]:
    """Return notices of ann to a path that never answers."""
    return [delivery(f"hang{n}", to=f"{HOST}/hang") for n in range(count)]


def test_a_path_that_never_answers_is_found_out_by_the_next_user() -> None:
    box = outbox(*hanging(6), delivery("bob", to=f"{HOST}/ok", user="bob"))
    first, other = box.take_effects().tries
    assert (first.user, other.user) == ("ann", "bob"), "both users have a turn"
    box = outbox(*hanging(6))
    for each in box.take_effects().tries:
        box.failed(each, AWAY, NOW)
    box.post(delivery("bob", to=f"{HOST}/ok", user="bob"), NOW)
    box.stored(["bob"], NOW)
    assert box.take_effects().tries == [], "the host may be away"
    box.advance(NOW + 10)
    (probe,) = box.take_effects().tries
    assert probe.id == "bob"
    box.sent(probe, NOW + 10)
    effects = box.take_effects()
    assert effects.ways == {HOST: ""}
    assert [each.id for each in effects.tries] == ["hang2"], "one at a time"
    box.failed(effects.tries[0], AWAY, NOW + 11)
    box.post(delivery("again", to=f"{HOST}/ok", user="bob"), NOW + 11)
    box.stored(["again"], NOW + 11)
    assert tried(box) == ["again"], "the host answers: it is that path alone"


def test_the_alarm_about_a_path_that_never_answers_stays_until_it_does() -> None:
    box, now, ways = outbox(*hanging(3)), NOW, {}
    for n in range(8):
        box.post(delivery(f"bob{n}", to=f"{HOST}/ok", user=f"bob{n}"), now)
        box.stored([f"bob{n}"], now)
        told: list[tuple[str, str]] = []
        while (effects := box.take_effects()).tries or effects.ways:
            told += effects.ways.items()
            for each in effects.tries:
                (box.failed(each, AWAY, now) if each.user == "ann" else box.sent(each, now))
        ways[n] = told
        now += 50
        box.advance(now)
    ann = f"an address of ann at {HOST}"
    assert [name for n in range(8) for name, why in ways[n] if why] == [HOST, ann]
    assert [name for n in range(8) for name, why in ways[n] if not why] == [HOST]
    while not (tries := box.take_effects().tries):
        now += 50
        box.advance(now)
    box.sent(tries[0], now)
    assert box.take_effects().ways == {ann: ""}


def test_the_alarm_about_a_path_ends_with_its_last_delivery() -> None:
    box = outbox(*hanging(2), delivery("bob", to=f"{HOST}/ok", user="bob"))
    ann, bob = box.take_effects().tries
    box.failed(ann, AWAY, NOW)
    box.sent(bob, NOW)
    box.failed(box.take_effects().tries[0], AWAY, NOW)
    assert box.take_effects().ways == {f"an address of ann at {HOST}": "connection refused"}
    assert box.next_due_s() == NOW + 20
    box.advance(NOW + TERMS.give_up_s)
    effects = box.take_effects()
    assert [each.delivery.id for each in effects.lost] == ["hang0", "hang1"]
    assert effects.ways == {f"an address of ann at {HOST}": ""}
    assert box.next_due_s() is None


def test_a_way_that_is_blocked_holds_up_no_other_way() -> None:
    hook = delivery("b", to="https://hooks.example.org/jobs")
    box = outbox(delivery("a"), hook)
    box.take_effects()
    box.failed(hook, AWAY, NOW)
    assert box.take_effects().ways == {"https://hooks.example.org": "connection refused"}
    box.post(delivery("c"), NOW)
    box.stored(["c"], NOW)
    assert tried(box) == ["c"]


def test_what_gets_too_old_while_its_way_is_blocked_is_given_up_without_a_try() -> None:
    box = outbox(*(delivery(name) for name in "abc"))
    for each in box.take_effects().tries:
        box.failed(each, AWAY, NOW)
    box.advance(NOW + TERMS.give_up_s)
    effects = box.take_effects()
    assert (len(effects.lost), len(effects.done), effects.tries) == (3, 3, [])
    assert len(box) == 0


def test_a_delivery_that_is_old_when_the_site_comes_back_is_tried_once_all_the_same() -> None:
    box = outbox(delivery("a", at=NOW - 5_000))
    (only,) = box.take_effects().tries
    box.failed(only, LATER, NOW)
    assert box.take_effects().done == ["a"]


def test_a_user_has_so_many_in_an_hour_and_the_last_one_says_so() -> None:
    box = outbox()
    for name in "abcde":
        box.post(delivery(name), NOW)
    box.post(delivery("f", user="bob"), NOW)
    effects = box.take_effects()
    assert [each.id for each in effects.kept] == ["a", "b", "c", "f"]
    assert "the last of 3 notices" in effects.kept[2].text
    assert "until Fri 2027-01-15 09:00 UTC" in effects.kept[2].text
    assert effects.kept[1].text == "all\n"
    assert [(each.delivery.id, each.first) for each in effects.lost] == [("d", True), ("e", False)]
    assert effects.done == [], "they were never stored"
    box.post(delivery("g"), NOW + 3_600)
    assert [each.id for each in box.take_effects().kept] == ["g"]


def test_no_more_than_so_many_wait_and_that_is_said_once() -> None:
    box = outbox(terms=OutboxTerms(waiting_max=2, hourly_max=100))
    for name in "abcd":
        box.post(delivery(name), NOW)
    effects = box.take_effects()
    assert len(effects.kept) == 2
    assert [each.first for each in effects.lost] == [True, False]


def test_an_end_that_is_told_of_no_try_changes_nothing() -> None:
    box = outbox(delivery("a"))
    box.take_effects()
    box.sent(delivery("b"), NOW)
    box.failed(delivery("b"), AWAY, NOW)
    box.sent(delivery("a"), NOW)
    box.sent(delivery("a"), NOW)
    effects = box.take_effects()
    assert (effects.done, effects.sent, effects.ways) == (["a"], 1, {})


def test_chance_spreads_the_pauses() -> None:
    box = Outbox(TERMS, lambda: 0.9, [delivery("a")], NOW)
    box.take_effects()
    box.failed(delivery("a"), LATER, NOW)
    assert box.next_due_s() == NOW + 14
