"""The configuration file: what is meant is understood, what is not is refused by path."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.serving.configuration import Configuration, StorePlace, load_configuration
from kalends.serving.example_configuration import example
from kalends.serving.settings_in_force import in_force, left_alone

BASE = Path("/etc/kalends")
SITE = '[site]\nname = "sdsc"\nstore = "s.db"\n'
BROKER = '[broker]\nname = "npaci"\nstore = "/var/b.db"\n'
RESOURCE = '[[site.resources]]\nname = "sp2"\n'


def load(text: str) -> Configuration:
    return load_configuration(text, BASE)


def refusal(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        load(text)
    return caught.value


def test_the_example_loads_and_uses_every_section() -> None:
    configuration = load(example())
    site, broker = configuration.site, configuration.broker
    assert site is not None
    assert broker is not None
    sp2 = site.resources[0]
    assert (sp2.capacity, sp2.grain_s, sp2.horizon_s) == (128, 900, 90 * 86_400)
    assert sp2.hours[0].duration_s == 36_000
    assert sp2.access[1].hours[0].start == "20:00"
    assert sp2.attributes == {"kind": "sp2", "memory": 256, "interactive": False}
    assert site.keys[0].file == BASE / "keys/people.pub"
    assert [peer.name for peer in broker.sites] == ["sdsc", "caltech", "midwest"]
    assert broker.sites[-1].members == ("ncsa", "campus/psc")
    assert configuration.virtual is not None
    assert [each.name for each in configuration.virtual.members] == ["ncsa", "campus"]
    assert broker.key == BASE / "keys/broker"


def test_a_short_file_gets_sensible_defaults() -> None:
    configuration = load(SITE + RESOURCE)
    assert configuration.broker is None
    assert configuration.site is not None
    assert configuration.site.listen == "127.0.0.1:7101"
    assert configuration.site.store == StorePlace(BASE / "s.db")
    assert configuration.site.resources[0].grain_s == 60
    assert configuration.site.limits.hold_s_max == 3_600
    assert configuration.site.url_at("http://127.0.0.1:5") == "http://127.0.0.1:5"
    assert configuration.log.form == "auto"
    broker = load(BROKER).broker
    assert broker is not None
    assert broker.store == StorePlace(Path("/var/b.db"))


URL = "postgresql://kalends:secret@db1,db2/kalends"
ON_POSTGRES = f'[broker]\nname = "npaci"\nreplica = "2"\nstore = "{URL}"\n'


def test_a_broker_on_postgresql_keeps_its_own_files_next_to_its_configuration_or_in_its_folder() -> (
    None
):
    broker = load(ON_POSTGRES).broker
    assert broker is not None
    assert broker.store == StorePlace(url=URL, folder=BASE)
    assert broker.audit_file == BASE / "npaci.2.audit"
    moved = load(ON_POSTGRES + 'folder = "/var/lib/kalends"\n').broker
    assert moved is not None
    assert moved.audit_file == Path("/var/lib/kalends/npaci.2.audit")


def test_a_site_on_postgresql_keeps_its_own_files_next_to_its_configuration_or_in_its_folder() -> (
    None
):
    on_postgres = f'[site]\nname = "sdsc"\nstore = "{URL}"\n'
    site = load(on_postgres).site
    assert site is not None
    assert site.store == StorePlace(url=URL, folder=BASE)
    assert site.store_file == BASE / "sdsc.sqlite"
    assert site.audit_file == BASE / "sdsc.audit"
    moved = load(on_postgres + 'folder = "/var/lib/kalends"\n').site
    assert moved is not None
    assert moved.audit_file == Path("/var/lib/kalends/sdsc.audit")
    in_a_file = load(SITE).site
    assert in_a_file is not None
    assert in_a_file.audit_file == BASE / "s.audit"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            ON_POSTGRES + 'revoked = "revoked.txt"\n[[broker.keys]]\nfile = "k.pub"\n',
            "broker.revoked",
        ),
        (SITE.replace("[site]", "[site]\nguard_counted = true", 1), "site.guard_counted"),
    ],
)
def test_what_only_the_other_kind_of_store_has_is_refused(text: str, where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(text)
    assert refused.value.where == where


def test_files_next_to_a_store_file_stay_where_they_were() -> None:
    broker = load(BROKER).broker
    assert broker is not None
    assert broker.audit_file == Path("/var/b.1.audit")


def test_no_text_of_a_configuration_shows_the_password_of_its_store() -> None:
    configuration = load(ON_POSTGRES)
    assert "secret" not in repr(configuration)
    assert "secret" not in str(configuration.broker)
    refused = refusal(f'[site]\nname = "sdsc"\nstore = "{URL}"\nrevoked = "{URL}"\n')
    assert "only `store` may be one" in str(refused)
    assert "secret" not in str(refused)


def test_another_database_needs_a_restart() -> None:
    running, wanted = load(ON_POSTGRES), load(ON_POSTGRES.replace("db2", "db3"))
    assert list(left_alone(in_force(running, wanted), wanted)) == ["broker.store"]


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("", "configuration", "neither"),
        ("[log]\n", "configuration", "neither"),
        ("name = ", "configuration", "not TOML"),
        (BROKER + 'folder = "here"\n', "broker.folder", "in the directory of that file"),
        (SITE + 'folder = "here"\n', "site.folder", "in the directory of that file"),
        ("[sites]\n", "sites", "did you mean site?"),
        (SITE + "ressources = 1\n", "site.ressources", "did you mean resources?"),
        (SITE + "zzz = 1\n", "site.zzz", "the fields here are"),
        (SITE + RESOURCE + 'grian = "1m"\n', "site.resources[0].grian", "did you mean grain?"),
        (SITE + RESOURCE + "grain_s = 60\n", "site.resources[0].grain_s", "did you mean grain?"),
        (SITE + RESOURCE + "[[site.resources.hours]]\nrul = 1\n",
         "site.resources[0].hours[0].rul", "rrule"),
        (SITE + RESOURCE + "[[site.resources.access]]\nwo = 1\n",
         "site.resources[0].access[0].wo", "did you mean who?"),
        (SITE + RESOURCE + '[[site.resources.limits]]\nname = "a"\nwho = "everyone"\napproval = "no"\n',
         "site.resources[0].limits[0].approval", "it is a text, and must be true or false"),
        (SITE + "[site.limits]\nhold = 1\n", "site.limits.hold", "hold_max"),
        (SITE + "[site.tls]\ncert = 1\n", "site.tls.cert", "certificate"),
        (SITE + RESOURCE + "grain = 60\n", "site.resources[0].grain", "Expected a text"),
        (SITE + RESOURCE + 'grain = "60"\n', "site.resources[0].grain", "unit"),
        (SITE + RESOURCE + 'grain = "2d"\n', "site.resources[0].grain", "at most 1d"),
        (SITE + RESOURCE + "capacity = 0\n", "site.resources[0].capacity", "at least 1"),
        (SITE + RESOURCE + 'capacity = "9"\n', "site.resources[0].capacity", "whole number"),
        (SITE + RESOURCE + 'zone = "Europe/Berln"\n', "site.resources[0].zone", "Europe/Berlin"),
        (SITE + RESOURCE + 'zone = "EST5EDT"\n', "site.resources[0].zone", "America/New_York"),
        (SITE + RESOURCE + '[[site.resources.hours]]\nrrule = "x"\nstart = "08:00"\n'
         'duration = "1h"\nzone = "HST"\n', "site.resources[0].hours[0].zone", "Pacific/Honolulu"),
        (SITE + RESOURCE + RESOURCE, "site.resources[1].name", "twice"),
        (SITE + '[[site.resources]]\nname = "SP2"\n', "site.resources[0].name", "a name is 1 to 63"),
        (SITE + RESOURCE + 'attributes = { "Big" = 1 }\n',
         "site.resources[0].attributes", "name of an attribute"),
        (SITE + RESOURCE + "attributes = { a = nan }\n",
         "site.resources[0].attributes.a", "not finite"),
        (SITE + RESOURCE + f"attributes = {{ a = {1 << 64} }}\n",
         "site.resources[0].attributes.a", "64 bits"),
        (SITE + RESOURCE + "attributes = { a = 2026-01-01 }\n",
         "site.resources[0].attributes", "Expected"),
        (SITE + RESOURCE + '[[site.resources.hours]]\nrrule = "x"\nstart = "24:00"\n'
         'duration = "1h"\n', "site.resources[0].hours[0].start", "00:00 to 23:59"),
        (SITE + RESOURCE + '[[site.resources.hours]]\nrrule = "x"\nstart = "08:00"\n'
         'duration = "1h"\nzone = "Mars"\n', "site.resources[0].hours[0].zone", "time zone"),
        (SITE + RESOURCE + '[[site.resources.access]]\nwho = "anna"\nmay = "lock"\n',
         "site.resources[0].access[0].who", "group:NAME"),
        (SITE + RESOURCE + '[[site.resources.access]]\nwho = "everyone"\nmay = "own"\n',
         "site.resources[0].access[0].may", "own"),
        (SITE + RESOURCE + '[[site.resources.access]]\nwho = "everyone"\nmay = "lock"\n'
         "units_max = 2\n", "site.resources[0].access[0].units_max", "capacity"),
        (SITE + '[site.limits]\nhold_max = "2d"\n', "site.limits.hold_max", "at most 1d"),
        (SITE + 'listen = "0.0.0.0:7101"\n', "site.listen", "other machines"),
        (SITE + 'listen = "localhost"\n', "site.listen", "host:port"),
        (SITE + 'listen = "127.0.0.1:99999"\n', "site.listen", "host:port"),
        (SITE + 'listen = "::1:7101"\n', "site.listen", "host:port"),
        ('[site]\nname = "sdsc"\n', "site", "store"),
        ('[site]\nname = "sdsc"\nstore = ""\n', "site.store", "Expected a text"),
        (BROKER + '[[broker.keys]]\nfile = "k"\nscopes = ["root"]\n',
         "broker.keys[0].scopes[0]", "root"),
        (BROKER + '[[broker.sites]]\nname = "a"\nurl = "u"\n' * 2, "broker.sites[1].name", "twice"),
        (BROKER + 'replica = ""\n', "broker.replica", "a name is 1 to 63"),
        (SITE + '[log]\nlevel = "loud"\n', "log.level", "loud"),
        (SITE + '[[site.batch_systems]]\nname = "m"\nkind = "slrum"\n',
         "site.batch_systems[0].kind", "did you mean slurm?"),
        (SITE + '[[site.batch_systems]]\nname = "m"\nsettings = { queue = "all.q" }\n',
         "site.batch_systems[0].settings", "no such setting"),
        (BROKER + '[[broker.keys]]\nfile = "k"\nscopes = ["root"]\n',
         "broker.keys[0].scopes[0]", "admin, audit"),
        (SITE + 'url = "a\\u0000b"\n', "site.url", "NUL"),
        (SITE + "[[site.keys]]\n", "site.keys[0]", "one of file, jwks and openid"),
        (SITE + '[[site.keys]]\nfile = "k"\nopenid = "https://a.example"\n',
         "site.keys[0]", "one of file, jwks and openid"),
        (SITE + '[[site.keys]]\nopenid = "http://a.example"\n', "site.keys[0].openid", "https://"),
        (SITE + '[[site.keys]]\njwks = "https://a.example/jwks"\n', "site.keys[0].issuer", "iss"),
        (SITE + '[[site.keys]]\nopenid = "https://a.example"\nissuer = "b"\n',
         "site.keys[0].issuer", "leave it out"),
        (SITE + '[[site.keys]]\nopenid = "https://a.example"\nscopes = ["use", "broker"]\n',
         "site.keys[0].scopes", "as a file"),
        (SITE + '[[site.keys]]\nfile = "k"\nrealm = "KIT.edu"\n', "site.keys[0].realm", "a name is"),
        (SITE + '[[site.keys]]\nfile = "k"\nclaims = { scoped = true }\n',
         "site.keys[0].claims.scoped", "realm"),
        (SITE + '[[site.keys]]\nfile = "k"\nclaims = { scopes = { root = ["*"] } }\n',
         "site.keys[0].claims.scopes", "root"),
        (SITE + '[[site.keys]]\nfile = "k"\nclaims = { usr = "x" }\n',
         "site.keys[0].claims.usr", "did you mean user?"),
        (SITE + 'revoked = "r"\n', "site.revoked", "without keys"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_its_path(text: str, where: str, said: str) -> None:
    error = refusal(text)
    assert error.where.startswith(where)
    assert said in f"{error.detail} {error.remedy}"


BEYOND = SITE + 'listen = "0.0.0.0:7101"\n{}\n[[site.keys]]\nfile = "people.pub"\n'
TLS = '[site.tls]\ncertificate = "c.pem"\nkey = "c.key"'


@pytest.mark.parametrize("cover", ["plain_http = true", TLS])
def test_other_machines_may_reach_a_server_with_keys_and_a_cover_for_tokens(cover: str) -> None:
    site = load(BEYOND.format(cover)).site
    assert site is not None
    assert site.keys[0].scopes == ("use",)


def test_tokens_go_to_other_machines_in_clear_only_where_the_owner_says_so() -> None:
    error = refusal(BEYOND.format(""))
    assert error.where == "site.listen"
    assert "unencrypted" in error.detail
    assert "plain_http = true" in error.remedy


@given(st.text(max_size=300))
def test_no_text_breaks_the_parser(text: str) -> None:
    with pytest.raises(InvalidInput):
        load(text)


@given(st.data())
def test_no_cut_or_repeated_part_of_the_example_breaks_the_parser(data: st.DataObject) -> None:
    lines = example().splitlines(keepends=True)
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=12))
    with contextlib.suppress(InvalidInput):
        load("".join(chosen))


SYSTEM = '[[site.batch_systems]]\nname = "slurm"\n'


def test_jobs_in_slots_may_be_left_alone_and_no_other_time_is_none_at_all() -> None:
    site = load(SITE + RESOURCE + SYSTEM + 'warn = "0s"\nkill = "0s"\n').site
    assert site is not None
    assert [(each.warn_s, each.kill_s) for each in site.batch_systems] == [(0, 0)]
    for field in ("look_every", "repair", "give_up_after"):
        error = refusal(SITE + RESOURCE + SYSTEM + f'{field} = "0s"\n')
        assert error.where == f"site.batch_systems[0].{field}"
    assert "no unit" in refusal(SITE + RESOURCE + SYSTEM + 'warn = "0"\n').detail


MAIL = '[site.notices]\nsmtp = "127.0.0.1:25"\nfrom = "kalends@example.org"\n'


def test_notices_by_mail_need_a_relay_and_a_sender() -> None:
    site = load(SITE + RESOURCE + MAIL).site
    assert site is not None
    assert site.notices is not None
    assert (site.notices.sender, site.notices.encryption) == ("kalends@example.org", "starttls")
    assert (site.notices.pause_s, site.notices.give_up_s) == (30, 86_400)


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ("[site.notices]\n", "site.notices"),
        ('[site.notices]\nsmtp = "127.0.0.1:25"\n', "site.notices.from"),
        ('[site.notices]\nwebhook_hosts = ["a.example"]\n', "site.notices.webhook_key"),
        (MAIL + 'webhook_hosts = ["https://a.example"]\n', "site.notices.webhook_hosts[0]"),
        (MAIL + 'address = "{name}@example.org"\n', "site.notices.address"),
        (MAIL + 'addresses = { ann = "ann, bob" }\n', "site.notices.addresses[...]"),
        (MAIL + 'mail_domains = ["@example.org"]\n', "site.notices.mail_domains[0]"),
        (MAIL + 'wait = "10m"\n', "site.notices.wait"),
        (MAIL + 'pause = "0s"\n', "site.notices.pause"),
        (
            MAIL.replace("127.0.0.1", "relay.example") + 'login = "l"\nencryption = "none"\n',
            "site.notices.encryption",
        ),
    ],
)
def test_notices_that_cannot_be_are_refused(lines: str, where: str) -> None:
    error = refusal(SITE + RESOURCE + lines)
    assert error.where == where
    assert error.detail


VIRTUAL = """
[virtual]
name = "hall"
[[virtual.members]]
name = "ctc"
url = "http://127.0.0.1:7101"
"""
THROUGH = """
[broker]
name = "npaci"
store = "npaci.sqlite"
[[broker.sites]]
name = "hall"
url = "http://127.0.0.1:7200"
members = {}
[[broker.sites]]
name = "sdsc"
url = "http://127.0.0.1:7102"
"""


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ('["ctc", "hall/psc"]', "hall -> hall -> psc is a circle"),
        ('["a/b/a"]', "hall -> a -> b -> a is a circle"),
        ('["ctc", "campus/ctc"]', "'ctc' is listed twice"),
        ('["sdsc"]', "'sdsc' is listed twice"),
        ('["a/b/c/d/e"]', "four names at most"),
        ('["CTC"]', "a member is written as its name"),
    ],
)
def test_each_site_is_reached_in_one_way_that_leads_somewhere(members: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as refused:
        load(THROUGH.format(members))
    assert refused.value.where.startswith("broker.sites[0].members[")


def test_a_virtual_site_has_members_and_is_none_of_them() -> None:
    virtual = load(VIRTUAL).virtual
    assert virtual is not None
    assert virtual.members[0].name == "ctc"
    with pytest.raises(InvalidInput, match="cannot be a member of itself"):
        load(VIRTUAL.replace('"hall"', '"ctc"'))


LINKED = """
[[virtual.members]]
name = "psc"
url = "http://127.0.0.1:7104"
[[virtual.links]]
sites = ["ctc", "psc"]
mb_per_s = 1000.0
"""


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ('sites = ["ctc", "nobody"]\nmb_per_s = 1.0', "hall has no member 'nobody'"),
        ('sites = ["psc", "ctc"]\nmb_per_s = 1.0', "'ctc and psc' is listed twice"),
        ('sites = ["psc", "psc"]\nmb_per_s = 1.0', "'psc' has no link to itself"),
        ('sites = ["psc"]\nmb_per_s = 1.0', "length 2"),
    ],
)
def test_links_between_members_are_of_pairs_that_there_are(link: str, complaint: str) -> None:
    virtual = load(VIRTUAL + LINKED).virtual
    assert virtual is not None
    assert [(each.sites, each.mb_per_s) for each in virtual.links] == [(("ctc", "psc"), 1000.0)]
    with pytest.raises(InvalidInput, match=complaint) as refused:
        load(f"{VIRTUAL}{LINKED}[[virtual.links]]\n{link}")
    assert refused.value.where.startswith("virtual.links[1]")


@pytest.mark.parametrize("rate", ["0", "-1.0", '"1GB"'])
def test_a_link_carries_a_positive_number_of_megabytes(rate: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(VIRTUAL + LINKED.replace("1000.0", rate))
    assert refused.value.where == "virtual.links[0].mb_per_s"
    with pytest.raises(InvalidInput, match="members"):
        load('[virtual]\nname = "hall"\nmembers = []')


def test_a_virtual_site_that_others_reach_lists_who_may_ask_its_manager() -> None:
    with pytest.raises(InvalidInput, match=r"virtual\.listen"):
        load(VIRTUAL.replace('name = "hall"', 'name = "hall"\nlisten = "0.0.0.0:7200"'))


@pytest.mark.parametrize(
    "url", ["ftp://a.example", "http://u:p@a.example", "http://a.example/?q=1", "http:///x", "ctc"]
)
def test_addresses_of_members_are_those_of_servers(url: str) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a server"):
        load(VIRTUAL.replace("http://127.0.0.1:7101", url))
    with pytest.raises(InvalidInput, match="is not the address of a server"):
        load(THROUGH.format('["ctc"]').replace("http://127.0.0.1:7200", url))
