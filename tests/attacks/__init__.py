"""Hostile scripts, and what must become of them."""
