"""The tables of a register that are moved from a SQLite file to a database and back, and differ.

In a file no replica has a clock or marks of its own: in a database, these are those of the broker.
"""

from __future__ import annotations

from typing import Final

from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.stores.moves.tables import DatabaseForm
from kalends.stores.postgres.database_end import DatabaseKind

_META: Final = DatabaseForm(
    """
    select name collate "C" as name, value, is_number from (
        select 'owner' as name, owner as value, false as is_number from store
        union all select 'register', identity, false from register
        union all select 'secret', secret, false from register
        union all select 'recovering', '1', true from register where put_back
        union all select 'clock', max(bound)::text, true from clock having count(*) > 0
        union all select 'epoch', case when is_called then last_value else 0 end::text, true from opening
    ) as every
    """,
    (
        """
        update register set
            identity = (select value from moved_meta where name = 'register'),
            secret = (select value from moved_meta where name = 'secret'),
            put_back = exists (select from moved_meta where name = 'recovering')
        """,
        "insert into clock select owner, value::bigint from store, moved_meta where name = 'clock'",
        "select setval('opening', value::bigint) from moved_meta where name = 'epoch' and value <> '0'",
    ),
)

_REQUEST: Final = DatabaseForm(
    "select rid, client, key, reservation, att, state, owner, done, body, begins from any_request",
    (
        """
        insert into request
        select rid, client, key, reservation, att, state, owner, done, request.body, site, places, again, at,
            ending.body, coalesce(uses, '{}'), begins
        from moved_request as request
        left join moved_start as start using (rid)
        left join moved_ending as ending using (rid)
        left join (
            select rid, array_agg(hash order by hash) as uses from moved_script_use group by rid
        ) as used using (rid)
        """,
    ),
)

_OF_REQUESTS: Final = {
    "start": "select rid, start_site as site, start_places as places, start_again as again from any_request"
    " where start_site is not null",
    "ending": "select rid, ended_at as at, ended as body from any_request where ended_at is not null",
    "script_use": 'select rid, unnest(uses) collate "C" as hash from any_request',
}
"""Each is stored with the row of its request."""

_SITE: Final = DatabaseForm(
    """
    select distinct on (name) name, life, position, proof from site as mark
    where life = (select life from site where name = mark.name order by change desc limit 1)
        and not exists (
            select from site as other
            where other.name = mark.name and other.life <> mark.life and other.change > mark.change
        )
    order by name, position desc, change
    """,
    (
        "insert into site select name, owner, nextval('site_change'), life, position, proof"
        " from moved_site, store",
    ),
)
"""See `kalends.broker.register.postgres.locked_rows.standing_mark`."""

MOVED: Final = DatabaseKind(
    REGISTER,
    "select secret from register",
    {
        "meta": _META,
        **{name: DatabaseForm(select, ()) for name, select in _OF_REQUESTS.items()},
        "request": _REQUEST,
        "replica": DatabaseForm(
            "select owner, beats from lease", ("insert into lease select * from moved_replica",)
        ),
        "site": _SITE,
    },
    (
        "select setval(pg_get_serial_sequence('notice', 'number'), max(number)) from notice",
        "select setval(pg_get_serial_sequence('letter', 'number'), max(number)) from letter",
    ),
)
