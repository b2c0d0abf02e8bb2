"""The tables of a site's store that are moved from a SQLite file to a database and back, and differ."""

from __future__ import annotations

from typing import Final

from kalends.resource_servers.journal.postgres.site_tables import SCHEMA
from kalends.stores.moves.tables import DatabaseForm
from kalends.stores.postgres.database_end import DatabaseKind

_META: Final = DatabaseForm(
    """
    select name collate "C" as name, value, is_number from (
        select 'owner' as name, owner as value, false as is_number from store
        union all select 'secret', secret, false from site_secret
        union all select 'epoch', coalesce(max(number), 0)::text, true from life
        union all select name, value::text, true from setting
    ) as every
    """,
    (
        "update site_secret set secret = (select value from moved_meta where name = 'secret')",
        "insert into setting select name, value::bigint from moved_meta where is_number and name <> 'epoch'",
    ),
)

MOVED: Final = DatabaseKind(
    SCHEMA,
    "select secret from site_secret",
    {"meta": _META},
    (
        "select setval(pg_get_serial_sequence('letter', 'number'), max(number)) from letter",
        # Their bookings are not in `booked`, and some may overlap, if a resource had several units.
        "insert into exempt select rid from stake",
    ),
)
