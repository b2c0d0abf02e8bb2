"""Stores on PostgreSQL: addresses, sessions, batches, migrations, settings. Needs ``kalends[postgres]``."""
