"""Batch systems behind the calendars: the requests to them, and an adapter for each."""
