"""``kalends serve`` as of a later version: tables on PostgreSQL have one more script each.

    python -m tests.processes.newer_kalends WORDS OF A COMMAND serve FILE

Older servers can go on using what the scripts make of their tables.
"""

from __future__ import annotations

import sys
from typing import Final

from kalends.broker.register.postgres import register_schema
from kalends.cli import main
from kalends.resource_servers.journal.postgres import site_tables
from kalends.stores.postgres.migrations import Migration, StoreSchema

WORDS: Final = (sys.executable, "-m", "tests.processes.newer_kalends")


def newer(schema: StoreSchema, script: str) -> StoreSchema:
    """`schema` with one more `script`, after which those who know `schema` can go on."""
    one_more = Migration(schema.version + 1, schema.version, script)
    return schema._replace(migrations=(*schema.migrations, one_more))


REGISTER: Final = newer(
    register_schema.REGISTER,
    "alter table request add column colour text not null default 'none';"
    "alter table replica add column colour text not null default 'none';"
    "create index request_colour on request (colour, rid);",
)

SITE: Final = newer(
    site_tables.SCHEMA,
    "alter table stake add column colour text not null default 'none';"
    "alter table journal add column colour text not null default 'none';"
    "create table hue (colour text primary key);",
)

if __name__ == "__main__":
    register_schema.REGISTER = REGISTER  # type: ignore[misc]  # Before the register is imported.
    site_tables.SCHEMA = SITE  # type: ignore[misc]
    sys.argv = ["kalends", *sys.argv[-2:]]
    sys.exit(main())
