"""The tables of the register, and what makes them of older ones."""

from __future__ import annotations

from typing import Final

from kalends.broker.register import notice_table, script_table

REQUESTS: Final = """
create table request (
    rid         text primary key,
    client      text not null,
    key         text not null,
    reservation text not null,
    att         integer not null,
    state       text not null,
    owner       text not null,
    done        integer not null,
    body        blob,
    unique (client, key)
) without rowid;
create index request_pending on request (owner) where done = 0;
create index request_change on request (reservation) where reservation != rid;
create index request_client on request (client, rid);
create table replica (owner text primary key, beats integer not null) without rowid;
create table meta (name text primary key, value not null) without rowid;
"""


IDENTITY: Final = """
insert into meta values ('register', lower(hex(randomblob(16))));
insert into meta values ('secret', lower(hex(randomblob(32))));
create table site (
    name     text primary key,
    life     text not null,
    position integer not null,
    proof    text not null
) without rowid;
create table life (life text primary key, position integer not null) without rowid;
"""


STARTS: Final = """
create table start (rid text primary key, site text not null, places text not null) without rowid;
create index start_open on start (rid) where site = '';
"""
"""Of jobs that start at most once: where, "" if they may still start at any of the sites `places`."""


AGAIN: Final = """
alter table start add column again integer not null default 0;
create index start_again on start (rid) where again = 1;
"""
"""Whether it may run at its site, and starts again elsewhere if that is lost."""


ENDINGS: Final = """
create table ending (rid text primary key, at integer not null, body blob not null) without rowid;
create index ending_at on ending (at);
"""
"""Of jobs that were placed: when and how they ended."""


SCHEMA: Final = (
    REQUESTS + script_table.SCHEMA + IDENTITY + STARTS + ENDINGS + AGAIN + notice_table.NOTICES
)


BEATS: Final = """
drop table replica;
create table replica (owner text primary key, beats integer not null) without rowid;
"""


UPGRADES: Final = {
    1: script_table.SCHEMA,
    2: IDENTITY + BEATS,
    3: STARTS,
    4: ENDINGS,
    5: AGAIN,
    6: notice_table.NOTICES,
}
"""To version 2: scripts of users came in. To version 3: a register knows who it is, and its replicas
count beats in the place of leases by the wall clock; it remembers how far each site was. To version 4: it
says where jobs may start. To version 5: and how they ended. To version 6: and which may start again. To
version 7: users are told what others make of their requests."""
