"""The tables of a register on PostgreSQL.

What is known of a request's job, and which scripts it uses, stands in the request's own row: whoever has
locked that row sees all of it as it is now, in one statement. Replicas write no row in common when they
commit: sites' marks and bounds of clocks are by replica, too.

What was settled long ago is in `request_old`: see `old_requests`.
"""

from __future__ import annotations

from typing import Final

from kalends.stores.postgres.migrations import Migration, StoreSchema

REQUEST_COLUMNS: Final = {
    "rid": "text",
    "client": "text",
    "key": "text",
    "reservation": "text",
    "att": "bigint",
    "state": "text",
    "owner": "text",
    "done": "boolean",
    "body": "bytea",
    "begins": "bigint",
    "start_site": "text",
    "start_places": "text",
    "start_again": "boolean",
    "ended_at": "bigint",
    "ended": "bytea",
    "uses": "text[]",
}
"""Columns of a request and their types. `start_*` and `ended*` are null where nothing is known of a job, and
`uses` are the hashes of scripts."""

_COLUMNS: Final = ", ".join(REQUEST_COLUMNS)
_FIRST_COLUMNS: Final = ", ".join(name for name in REQUEST_COLUMNS if name != "begins")

REGISTER: Final = StoreSchema(
    "broker",
    (
        Migration(
            1,
            1,
            f"""
create table register (
    identity text not null,
    secret text not null,
    put_back boolean not null
);
create unique index register_is_one on register ((true));
insert into register values (
    replace(gen_random_uuid()::text, '-', ''),
    replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
    false
);
create sequence opening;
create table request (
    rid text collate "C" primary key,
    client text collate "C" not null,
    key text collate "C" not null,
    reservation text collate "C" not null,
    att bigint not null,
    state text collate "C" not null,
    owner text collate "C" not null,
    done boolean not null,
    body bytea,
    start_site text collate "C",
    start_places text collate "C",
    start_again boolean,
    ended_at bigint,
    ended bytea,
    uses text[] collate "C" not null,
    unique (client, key)
) with (fillfactor = 70);
create index request_pending on request (owner, rid) where not done;
create index request_change on request (reservation) where reservation <> rid;
create index request_client on request (client, rid);
create index request_start_open on request (rid) where start_site = '';
create index request_start_again on request (rid) where start_again and start_site <> '';
create index request_ended on request (ended_at, rid) where ended_at is not null;
create index request_uses on request using gin (uses) where uses <> '{{}}';
create table request_old (like request, month date not null) partition by list (month);
create index on request_old (rid);
create index on request_old (client, key);
create index on request_old (client, rid);
create index on request_old (reservation) where reservation <> rid;
create view any_request as
    select {_FIRST_COLUMNS} from request union all select {_FIRST_COLUMNS} from request_old;
create table script (hash text collate "C" primary key, source bytea not null);
create table script_name (
    client text collate "C" not null,
    name text collate "C" not null,
    hash text collate "C" not null,
    size_bytes bigint not null,
    functions text not null,
    uploaded_ms bigint not null,
    deleted boolean not null,
    primary key (client, name)
);
create index script_named on script_name (hash) where not deleted;
create table notice (
    number bigint generated always as identity primary key,
    client text collate "C" not null,
    body bytea not null
);
create index notice_client on notice (client, number);
create table notice_address (
    client text collate "C" not null,
    receiver text collate "C" not null,
    zone text not null,
    added_at bigint not null,
    secret bytea not null,
    primary key (client, receiver)
);
create table letter (
    number bigint generated always as identity primary key,
    id text collate "C" not null unique,
    body bytea not null
);
create table lease (owner text collate "C" primary key, beats bigint not null);
create table clock (replica text collate "C" primary key, bound bigint not null);
create table life (life text collate "C" primary key, position bigint not null)
    with (fillfactor = 50);
create sequence site_change;
create table site (
    name text collate "C" not null,
    replica text collate "C" not null,
    change bigint not null,
    life text not null,
    position bigint not null,
    proof text not null,
    primary key (name, replica)
) with (fillfactor = 50);
""",
        ),
        Migration(
            2,
            1,
            """
create table listed_site (
    name text collate "C" not null,
    key text collate "C" not null,
    url text not null,
    ca text not null,
    passes boolean not null,
    made_at bigint not null,
    state text not null,
    since bigint not null,
    named_by text not null,
    until bigint not null,
    primary key (name, key)
);
""",
        ),
        Migration(
            3,
            1,
            """
create table feed (
    client text collate "C" not null,
    name text collate "C" not null,
    hash text collate "C" not null unique,
    added_at bigint not null,
    primary key (client, name)
);
""",
        ),
        Migration(
            4,
            1,
            """
create table share (
    reservation text collate "C" not null,
    party text collate "C" not null,
    may text not null,
    client text collate "C" not null,
    at bigint not null,
    until bigint not null,
    primary key (reservation, party)
);
create index share_party on share (party, reservation);
""",
        ),
        Migration(
            5,
            1,
            f"""
alter table request add column begins bigint not null default 0;
alter table request_old add column begins bigint not null default 0;
create index request_begins on request (client, begins) where state = 'commit' and begins > 0;
drop view any_request;
create view any_request as
    select {_COLUMNS} from request union all select {_COLUMNS} from request_old;
alter table notice_address add column remind_s bigint not null default 0;
alter table notice_address add column reminded_at bigint not null default 0;
create index notice_remind on notice_address (client) where remind_s > 0;
""",
        ),
    ),
)
"""`lease.beats` count renewals, by which replicas see each other live; `replica.beats` count batches. The
rows of a `site` are those of one life, but for the moment in which its life changes: see `standing_mark`."""
