"""Owners' rules: access, closed times, limits."""
