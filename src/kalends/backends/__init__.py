"""Batch systems behind the calendars: what is said to them, and how each of them says it."""
