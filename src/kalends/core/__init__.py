"""Intervals and time, identifiers, the logical clock, requests and their language, errors, limits."""
