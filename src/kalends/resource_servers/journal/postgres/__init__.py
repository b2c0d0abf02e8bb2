"""A site's journal on PostgreSQL, with the tables of all wings."""
