"""Decisions about writes on the rows that they name: the same in every store."""
