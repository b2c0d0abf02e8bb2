"""Moves of stores between SQLite files and PostgreSQL databases, while no server uses them."""
