"""A site's journal in SQLite, with the tables of all wings, and the records of runs."""
