"""Stores in SQLite: files, their care, and group commit."""
