"""Who is asked to bid: homes, the best of a sample, and one by chance."""

from __future__ import annotations

from collections import Counter

from kalends.core.intervals import Moment
from kalends.federation.draws import draw_of, number_of
from kalends.federation.experience import Experience
from kalends.federation.site_choice import Bidder, whom_to_ask

NOW = Moment(0, 1_800_000_000_000)


def bidders(count: int) -> list[Bidder]:
    return [Bidder(f"s{number:03}", (f"s{number:03}/box",)) for number in range(count)]


def names(chosen: list[Bidder]) -> list[str]:
    return [bidder.site for bidder in chosen]


def test_the_quietest_are_asked_and_one_by_chance() -> None:
    known = Experience()
    sites = bidders(12)
    for number, bidder in enumerate(sites):
        known.bid(bidder.site, 80, 100 * number, NOW)
    by_chance = Counter()
    for attempt in range(200):
        *best, other = names(whom_to_ask(sites, 4, known, draw_of("a-request", attempt), NOW))
        quietest = [site for site in (f"s{n:03}" for n in range(12)) if site != other]
        assert best == quietest[:3]
        by_chance[other] += 1
    assert len(by_chance) == 12


def test_a_preference_counts_as_so_many_seconds_of_waiting() -> None:
    known = Experience()
    for site, wait_s in (("liked", 500), ("quiet", 450), ("busy", 10_000)):
        known.bid(site, 80, wait_s, NOW)
    sites = [Bidder("liked", (), 60.0), Bidder("quiet", ()), Bidder("busy", ())]
    first = {tuple(names(whom_to_ask(sites, 2, known, draw_of("r", n), NOW))) for n in range(50)}
    assert first == {("liked", "busy"), ("liked", "quiet"), ("quiet", "liked")}


def test_where_the_job_would_end_first_is_better_than_where_it_would_begin_first() -> None:
    known = Experience()
    for site, wait_s in (("slow", 100), ("fast", 500), ("busy", 10_000)):
        known.bid(site, 80, wait_s, NOW)
    sites = [Bidder("slow", (), 0.0, 3_600.0), Bidder("fast", (), 0.0, 900.0), Bidder("busy", ())]
    first = [names(whom_to_ask(sites, 2, known, draw_of("r", n), NOW)) for n in range(50)]
    assert {"fast"} == {best for best, by_chance in first if by_chance != "fast"}


def test_homes_are_always_asked_unless_they_rest() -> None:
    known = Experience()
    homes = bidders(3)
    for number in range(30):
        asked = names(whom_to_ask(bidders(40), 5, known, draw_of("r", number), NOW, homes))
        assert asked[:3] == ["s000", "s001", "s002"]
        assert len(asked) == 5
    assert names(whom_to_ask(bidders(40), 2, known, draw_of("r", 1), NOW, homes)) == asked[:3]
    known.refused("s001", 80, NOW)
    assert "s001" not in names(whom_to_ask(bidders(40), 5, known, draw_of("r", 1), NOW, homes))


def test_who_rests_is_not_asked_and_if_all_rest_nobody_is() -> None:
    known = Experience()
    sites = bidders(5)
    for bidder in sites[:4]:
        known.silent(bidder.site, 0, NOW)
    assert names(whom_to_ask(sites, 4, known, draw_of("r", 1), NOW)) == ["s004"]
    known.silent("s004", 0, NOW)
    assert whom_to_ask(sites, 4, known, draw_of("r", 1), NOW) == []
    later = Moment(min(known.active_at_ms(each.site) for each in sites), NOW.wall_ms)
    assert whom_to_ask(sites, 4, known, draw_of("r", 1), later)


def test_ten_thousand_sites_are_not_looked_at_one_by_one() -> None:
    class Counting(Experience):
        looked = 0

        def rests(self, site: str, now: Moment) -> bool:
            self.looked += 1
            return super().rests(site, now)

    known = Counting()
    assert len(whom_to_ask(bidders(10_000), 8, known, draw_of("r", 1), NOW)) == 8
    assert known.looked <= 4 * 8 + 1


def test_draws_are_the_same_in_every_process_and_others_at_the_next_attempt() -> None:
    draw = draw_of("a-request", 1)
    assert [draw(100) for _ in range(5)] == [
        number_of("a-request", 1, turn) % 100 for turn in range(5)
    ]
    assert number_of("a-request", 1, 0) == 15_046_955_240_979_604_778
    again = draw_of("a-request", 2)
    assert [again(100) for _ in range(5)] != [number_of("a-request", 1, n) % 100 for n in range(5)]
